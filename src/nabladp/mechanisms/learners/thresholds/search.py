"""The steps of ThresholdLearner that look at data: the search for the longest polarizing prefix, and the mistakes of
the thresholds that listed prefixes offer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers, compile_loop
from nabladp.mechanisms.heavy_hitters.candidates import Frequent, frequent
from nabladp.mechanisms.heavy_hitters.numbering import Column, Part, Product, listed_strings
from nabladp.mechanisms.heavy_hitters.output_distribution import log_total
from nabladp.mechanisms.learners.thresholds.design import Design
from nabladp.noise import NoiseSource, gaussian_log_pmf, laplace_log_pmf
from nabladp.tables import Kernel

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts


AT_ONCE, MOST_CELLS = 1 << 19, 1 << 22  # cells of one cut that are counted ahead, and in one pass over the rows


def polarization(counts: Counts, names: Sequence[str], label: str, design: Design) -> Integers:
    """For every cut but the first, the largest number of rows of the rarer label that share a prefix up to it.

    Exact above the design's floor, which stands for all that is less. A prefix is no more polarizing than any part of
    it, so only prefixes above the floor are carried on: at most n/(2·floor + 2) of them.
    """
    result = np.full(len(design.cuts), design.floor, dtype=np.int64)
    known: tuple[Part, ...] = ()
    cut_index = 0
    while cut_index + 1 < len(design.cuts):
        products = _ahead(known, names, label, design, cut_index)
        for cells in frequent(counts, products, design.floor, MOST_CELLS):
            cut_index += 1
            prefixes, rarer = _both_labels(cells)
            if not len(prefixes):
                return result[1:]
            result[cut_index] = rarer.max()  # [polarization]
        known = (listed_strings(products[-1].parts[:-1], prefixes),)
    return result[1:]


def _ahead(known: tuple[Part, ...], names: Sequence[str], label: str, design: Design, cut_index: int) -> list[Product]:
    """Prefixes up to the next cuts, each with the label: all cuts that can be counted in one pass, and one at least."""
    products: list[Product] = []
    parts = known
    for start, stop in zip(design.cuts[cut_index:-1], design.cuts[cut_index + 1 :], strict=True):
        parts = (*parts, *(Column(names[j], design.sizes[j]) for j in range(start, stop)))
        product = Product((*parts, Column(label, 2)))
        if products and product.size > AT_ONCE:
            break
        products.append(product)
    return products


def _both_labels(frequent: Frequent) -> tuple[Integers, Integers]:
    """Prefixes frequent with either label, and the smaller of the two counts. Strings are in order, the label last."""
    strings, counts = frequent
    first, second = strings[:-1], strings[1:]
    both = np.flatnonzero((first[:, -1] < second[:, -1]) & (first[:, :-1] == second[:, :-1]).all(axis=1))
    return strings[both, :-1], np.minimum(counts[both], counts[both + 1])


# ---- the search ----------------------------------------------------------------------------------------------------


def search(design: Design, polar: Integers, noise: NoiseSource) -> int:
    """The noisy search for the cut where the longest polarizing prefix ends; ``polar`` holds the polarization of all
    but the first."""
    if design.search == "pick":
        return noise.select_exponential(pick_scores(design, polar), design.search_scale)
    draw = noise.discrete_laplace if design.notion == "pure" else noise.discrete_gaussian
    low, high = 0, len(polar)
    while low < high:
        middle = (low + high + 1) // 2
        if polar[middle - 1] + int(draw(design.search_scale, 1)[0]) >= probe_threshold(design):  # [probe]
            low = middle
        else:
            high = middle - 1
    return low


def search_steps(design: Design, cut_index: int) -> int:
    """The number of noisy steps of a search that ends at this cut: a binary search goes one way to each."""
    if design.search == "pick":
        return 1
    low, high, steps = 0, len(design.cuts) - 1, 0
    while low < high:
        middle, steps = (low + high + 1) // 2, steps + 1
        low, high = (middle, high) if cut_index >= middle else (low, middle - 1)
    return steps


def probe_threshold(design: Design) -> int:
    return design.target + design.search_error


def pick_scores(design: Design, polar: Integers) -> Integers:
    """The score of every cut: how surely its prefix is polarizing and no longer one is; the smaller of two margins.

    The first cut needs no polarizing prefix, and beyond the last there is none.
    """
    enough = polar - design.target
    spent = design.target + 2 * design.search_error - polar
    always = np.iinfo(np.int64).max
    return np.asarray(np.minimum(np.append(always, enough), np.append(spent, always)))


def search_law(design: Design, polar: Integers) -> Floats:
    """The log-probability that the search ends at each cut. The steps of a binary search follow from where it ends."""
    if design.search == "pick":
        return selection_law(pick_scores(design, polar), design.search_scale)
    law = np.zeros(len(polar) + 1)

    def walk(low: int, high: int, so_far: float) -> None:
        if low == high:
            law[low] = so_far
            return
        middle = (low + high + 1) // 2
        up, down = log_tails(design.notion, design.search_scale, probe_threshold(design) - int(polar[middle - 1]))
        walk(middle, high, so_far + up)
        walk(low, middle - 1, so_far + down)

    walk(0, len(polar), 0.0)
    return law


def selection_law(scores: Integers, scale: float) -> Floats:
    gaps = (scores - scores.max()) / scale
    return np.asarray(gaps - math.log(math.fsum(np.exp(gaps))))


def log_tails(notion: str, scale: float, least: int) -> tuple[float, float]:
    """The logarithms of Pr[Z ≥ least] and Pr[Z < least] of a probe's noise, each summed by itself so that neither loses
    digits."""
    log_pmf = laplace_log_pmf if notion == "pure" else gaussian_log_pmf
    reach = math.ceil(40 * scale) + abs(least) + 2
    logs = log_pmf(scale, -reach, reach)
    first = reach + least
    return log_total(logs[first:]), log_total(logs[:first])


Codes = NDArray[np.uint32]


def candidate_thresholds(design: Design, cut_index: int, prefixes: Integers) -> Codes:
    """The candidate thresholds of listed prefixes: smallest and largest strings with a prefix, and the smallest for
    every way to go on up to the next cut.

    A row each, in order, none twice. The smallest and the largest string of all are always among them.
    """
    start, block = design.cuts[cut_index], design.block(cut_index)
    ways = np.stack(np.unravel_index(np.arange(math.prod(block)), block), axis=1)
    largest = np.array(design.sizes) - 1
    smallest = np.zeros((len(prefixes), len(ways), len(largest)), np.uint32)
    smallest[:, :, :start] = prefixes[:, None, :]
    smallest[:, :, start : start + len(block)] = ways[None, :, :]
    if not start:  # in order already: all that is left is the largest string
        whole = smallest[0]
        return whole if (whole[-1] == largest).all() else np.append(whole, largest[None].astype(np.uint32), axis=0)
    tops = np.tile(largest, (len(prefixes), 1)).astype(np.uint32)
    tops[:, :start] = prefixes  # p11…1 exists for every p, unlike what comes after it
    ends = np.stack([np.zeros(len(largest)), largest]).astype(np.uint32)
    return np.unique(np.concatenate([smallest.reshape(-1, len(largest)), tops, ends]), axis=0)


def mistakes(counts: Counts, names: Sequence[str], label: str, thresholds: Codes) -> Integers:
    """The mistakes of every candidate threshold: rows of label 1 below it and of label 0 at or above it."""
    table = counts.fold(Ranks(tuple(names), label, thresholds))
    below = np.cumsum(table, axis=0)[:-1]  # rows with rank ≤ i lie below threshold i
    return np.asarray(below[:, 1] + table[:, 0].sum() - below[:, 0])  # [mistakes]


class Ranks(Kernel):
    """A kernel for ``fold``: rows by how many thresholds they reach, and by label."""

    def __init__(self, names: tuple[str, ...], label: str, thresholds: Codes) -> None:
        self.names, self.label, self.thresholds = names, label, thresholds
        self.attributes = (*names, label)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        rank = count_reached([batch.column(name).to_numpy() for name in self.names], self.thresholds)
        cells = 2 * rank + batch.column(self.label).to_numpy()
        return np.bincount(cells, minlength=2 * len(self.thresholds) + 2).reshape(-1, 2).astype(np.int64)


def count_reached(columns: Sequence[NDArray[np.integer]], thresholds: Codes) -> Integers:
    """For every row, the number of candidate thresholds (in order) that it is at or above."""
    rows = np.stack(columns, axis=1).astype(np.uint32)
    rank = np.empty(len(rows), np.int64)
    compile_loop(_reached)(rows, thresholds, rank)
    return rank


def _reached(rows: Codes, thresholds: Codes, rank: Integers) -> None:
    features = rows.shape[1]
    for i in range(len(rows)):
        low, high = 0, len(thresholds)
        while low < high:
            middle, j = (low + high) // 2, 0
            while j < features and rows[i, j] == thresholds[middle, j]:
                j += 1
            if j == features or rows[i, j] > thresholds[middle, j]:
                low = middle + 1
            else:
                high = middle
        rank[i] = low
