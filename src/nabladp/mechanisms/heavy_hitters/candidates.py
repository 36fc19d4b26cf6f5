"""The candidates of a HeavyHitters tree level: their exact counts, in few passes over the rows, and which of them pass
the noisy threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.arrays import Integers, compile_loop
from nabladp.mechanisms.heavy_hitters import numbering
from nabladp.mechanisms.heavy_hitters.certificate import LEAST_SHARE
from nabladp.mechanisms.heavy_hitters.hash_filter import Counted, count_each_cell, filter_by_hash
from nabladp.mechanisms.heavy_hitters.hash_filter import Frequent as Frequent
from nabladp.mechanisms.heavy_hitters.numbering import Batch, Buckets, Listed, Numbers, Part, Product
from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.noise import NoiseSource
from nabladp.noise.laws import Kind
from nabladp.tables import Counts, Kernel

# ---- counting --------------------------------------------------------------------------------------------------------

LARGEST_SHARE = 1 << 20  # of a product in a pass that counts several
_LEAST_BUCKETS = 6  # bits


class Rows(Protocol):
    """What can be counted: a table, or rows in memory."""

    @property
    def n(self) -> int: ...
    def fold(self, kernel: Any) -> Integers: ...


@dataclass(frozen=True, eq=False)
class Window:
    """Some consecutive cells of a product."""

    product: Product
    start: int
    stop: int

    @property
    def bucket(self) -> Listed | None:
        """The hash buckets that come first in the product, if any; rows in no bucket, which are most rows, are
        skipped."""
        first = self.product.parts[0]
        return first if isinstance(first, Listed) and isinstance(first.inner[0], Buckets) else None


class Tally(Kernel):
    """A kernel for ``fold``: how many rows lie in each cell of some windows, all in one vector.

    For fewer than 2³² rows, a number of the vector holds two counts of 32 bits: sums never carry from one to the other.
    """

    def __init__(self, windows: Sequence[Window], rows: int) -> None:
        self.windows = tuple(windows)
        self.attributes: tuple[str, ...] = tuple(
            dict.fromkeys(name for window in windows for name in window.product.names)
        )
        self.kind = np.dtype(np.uint32 if rows < 1 << 32 else np.int64)
        self.bounds = list(accumulate((window.stop - window.start for window in windows), initial=0))
        self.shared = _shared_parts(windows)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        total = self.nothing()
        self.add_to(total, batch)
        return total

    def nothing(self) -> Integers:
        return np.zeros(-(-self.bounds[-1] * self.kind.itemsize // 8), np.int64)

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        """Add the cell counts of a batch of rows in place."""
        self.add(total, columns_of(batch))

    def add(self, total: Integers, columns: Mapping[str, Numbers]) -> None:
        rows, tally = Batch(columns, self.shared), compile_loop(numbering.tally)
        for window, part in zip(self.windows, self.split(total), strict=True):
            some = rows.inside(window.bucket) if window.bucket else rows
            tally(window.product.cells(some), np.uint64(window.start), part)

    def split(self, total: Integers) -> list[NDArray[Any]]:
        cells = total.view(self.kind)
        return [cells[i:j] for i, j in pairwise(self.bounds)]


def columns_of(batch: pa.RecordBatch) -> dict[str, Numbers]:
    return {name: array.to_numpy() for name, array in zip(batch.schema.names, batch.columns, strict=True)}


def _shared_parts(windows: Sequence[Window]) -> list[Part]:
    """Parts by which several windows number the rows; columns are left out, as they need no work."""
    seen: dict[int, Part] = {}
    shared: dict[int, Part] = {}
    waiting = [part for window in windows for part in window.product.parts]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            shared[id(part)] = part
        elif part.inner:
            seen[id(part)] = part
            waiting += part.inner
    return list(shared.values())


def share(most: int, products: int) -> int:
    """The number of candidate cells of one product worth counting one by one, if so many products share a pass of
    ``most`` cells."""
    return min(most, LARGEST_SHARE, max(LEAST_SHARE, most // max(1, products)))


def frequent(rows: Rows, products: Sequence[Product], above: int, most: int) -> list[Frequent]:
    """For every product, the strings that more than ``above`` ≥ 0 rows hold, counting at most ``most`` cells at a time.

    Cells of strings that are not listed are left out. All products go forward together, and share passes.
    """
    each = share(most, len(products))
    bits = max(_LEAST_BUCKETS, min(rows.n.bit_length() + 1, most.bit_length() - 2))
    few = max(each, 2 << bits)  # sifting would take as many
    ways = [count_each_cell(p) if p.size <= few or p.is_empty else filter_by_hash(p, bits, each) for p in products]
    asked = {i: next(way) for i, way in enumerate(ways)}
    results: dict[int, Frequent] = {}
    while asked:
        answers = iter(_count_cells(rows, [product for asks in asked.values() for product in asks], above, most))
        for i, asks in list(asked.items()):
            answer = [next(answers) for _ in asks]
            try:
                asked[i] = ways[i].send(answer)
            except StopIteration as end:
                results[i] = end.value
                del asked[i]
    return [results[i] for i in range(len(products))]


def _count_cells(rows: Rows, products: Sequence[Product], above: int, most: int) -> list[Counted]:
    """The cells of each product with more than ``above`` rows, counted one by one."""
    cells: list[list[Integers]] = [[np.empty(0, np.int64)] for _ in products]
    results: list[list[Integers]] = [[np.empty(0, np.int64)] for _ in products]
    for chosen in _passes(products, most) if rows.n else ():
        kernel = Tally([Window(products[i], start, stop) for i, start, stop in chosen], rows.n)
        for (i, start, _), counted in zip(chosen, kernel.split(rows.fold(kernel)), strict=True):
            many = np.flatnonzero(counted > above)
            cells[i].append(many + start)
            results[i].append(counted[many].astype(np.int64))
    return [(np.concatenate(c), np.concatenate(f)) for c, f in zip(cells, results, strict=True)]


def _passes(products: Sequence[Product], most: int) -> Iterator[list[tuple[int, int, int]]]:
    """The cells to count in each pass over the rows: (product, start, stop), at most ``most`` cells at a time."""
    chosen: list[tuple[int, int, int]] = []
    room = most
    for i, product in enumerate(products):
        start = 0
        while start < product.size and not product.is_empty:
            if room == 0 or (start == 0 and room < product.size <= most):
                yield chosen
                chosen, room = [], most
            stop = min(product.size, start + room)
            chosen.append((i, start, stop))
            room -= stop - start
            start = stop
    if chosen:
        yield chosen


# ---- rows packed in memory -------------------------------------------------------------------------------------------
# They stay in memory while frequent combinations are found, so that counting level by level reads the table once in
# all.

_ROWS = 1 << 16  # counted at a time


class PackRows(Kernel):
    """For ``fold``, where batches come one after the other: the rows' numbers by some parts, as they come."""

    def __init__(self, parts: Sequence[Part], rows: int) -> None:
        self.parts, self.rows, self.filled = tuple(parts), rows, 0
        self.attributes = tuple(name for part in parts for name in part.names)
        self.kinds = [np.min_scalar_type(part.axis - 1) for part in parts]
        self.bounds = list(accumulate((-(-rows * kind.itemsize // 8) for kind in self.kinds), initial=0))

    @property
    def bytes(self) -> int:
        return 8 * self.bounds[-1]

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        total = np.zeros(self.bounds[-1], np.int64)
        self.add_to(total, batch)
        return total

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        rows, start = Batch(columns_of(batch)), min(self.filled, self.rows)
        self.filled += batch.num_rows
        room = min(self.filled, self.rows) - start  # of more rows than were declared ``fold`` will tell
        for part, column in zip(self.parts, self.columns(total), strict=True):
            column[start : start + room] = rows.numbers(part)[:room]

    def columns(self, total: Integers) -> list[Numbers]:
        words = [total[i:j] for i, j in pairwise(self.bounds)]
        return [word.view(kind)[: self.rows] for word, kind in zip(words, self.kinds, strict=True)]


class PackedRows:
    """Rows in memory, to be counted by a :class:`Tally`."""

    def __init__(self, n: int, columns: Mapping[str, Numbers]) -> None:
        self.n, self.columns = n, columns

    @classmethod
    def of(cls, counts: Counts, parts: Mapping[str, Part], most: float) -> PackedRows | None:
        """The table's rows packed in memory, one column per part, if all of them take at most ``most`` bytes."""
        if not counts.one_process or not counts.n:  # rows never leave the machines they are on
            return None
        packing = PackRows(list(parts.values()), counts.n)
        if packing.bytes > most:
            return None
        return cls(counts.n, dict(zip(parts, packing.columns(counts.fold(packing)), strict=True)))

    def fold(self, kernel: Tally) -> Integers:
        total = kernel.nothing()
        for start in range(0, self.n, _ROWS):
            kernel.add(total, {name: self.columns[name][start : start + _ROWS] for name in kernel.attributes})
        return total


Codes = NDArray[Any]
"""Numbers of candidates: int64, or Python integers where a node has more than 2⁶² candidates."""

MOST_IN_64_BITS = 1 << 62
LEFT_TO_LOOK_AT = 1 << 16  # candidates of a level that may come to step 2, about, only to fail there


@dataclass(frozen=True, eq=False)
class Candidates:
    """``size`` candidates. Those counted, in order, with their counts; no other has a count above the limit."""

    size: int
    codes: Codes
    counts: Integers

    def counts_of(self, codes: Codes) -> Integers:
        """The exact counts of these candidates; 0 for those that were not counted."""
        if not len(self.codes):
            return np.zeros(len(codes), np.int64)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where((self.codes[at] == codes).astype(bool), self.counts[at], 0)


@dataclass(frozen=True, eq=False)
class Passed:
    """Candidates that passed, in order; what is known of their counts; in cdp also their noisy counts."""

    codes: Codes
    counts: Integers
    noisy: Integers | None

    def take(self, indices: NDArray[Any]) -> Passed:
        return Passed(self.codes[indices], self.counts[indices], None if self.noisy is None else self.noisy[indices])


@dataclass(frozen=True)
class Rule:
    """What the candidates of a level have to pass."""

    pure: bool
    tau: int
    scale: float
    floor: int
    limit: int

    @classmethod
    def of(cls, settings: Settings, level: Level, size: int, rows: int) -> Rule:
        """The thresholding rule for a tree level with ``size`` candidates in all, over whose nodes ``rows`` rows are
        spread.

        Any limit gives the same law, so estimates will do. At most rows/(floor + 1) candidates are above the floor. If
        that is a lot, the limit is raised as far as lets few candidates through step 1.
        """
        pure, tau, scale = settings.notion == "pure", level.threshold, level.scale
        floor = tau - settings.mu if pure else 0
        few = min(LEFT_TO_LOOK_AT, size // 64 + 1)
        if min(size, rows // (floor + 1)) <= 4 * few:
            return cls(pure, tau, scale, floor, floor)
        chance = min(0.5, max(few / size, 1e-300))
        beyond = -scale * math.log(2 * chance) if pure else -NormalDist(0, scale).inv_cdf(chance)
        return cls(pure, tau, scale, floor, max(floor, tau + 1 - max(1, math.ceil(beyond + 0.5))))

    @property
    def law(self) -> Kind:
        return "laplace" if self.pure else "gaussian"

    @property
    def start(self) -> int:
        """The smallest noise with which an uncounted candidate passes step 1."""
        return self.tau - self.limit + 1


def draw_survivors(level: Sequence[Candidates], rule: Rule, noise: NoiseSource) -> list[Codes]:
    """Step 1 of thresholding, for every node of a level: which uncounted candidates get noise large enough to pass."""
    # [bulk]
    frequent = [candidates.codes[candidates.counts > rule.limit] for candidates in level]
    others = [candidates.size - len(codes) for candidates, codes in zip(level, frequent, strict=True)]
    survivors = noise.tail_subsets(rule.law, rule.scale, rule.start, others)
    return [_nth_untaken(codes, ranks) for codes, ranks in zip(frequent, survivors, strict=True)]


def decide(
    level: Sequence[Candidates], some: Sequence[Codes], counts: Sequence[Integers], rule: Rule, noise: NoiseSource
) -> list[Passed]:
    """Noise for the candidates above the limit, and step 2 for the survivors of step 1, whose exact counts are now
    known."""
    plain = noise.discrete_laplace if rule.pure else noise.discrete_gaussian
    above = [candidates.counts > rule.limit for candidates in level]
    plains = _split_draws([int(np.count_nonzero(single)) for single in above], lambda many: plain(rule.scale, many))
    beyonds = _split_draws(map(len, some), lambda many: noise.tail_values(rule.law, rule.scale, rule.start, many))
    results = []
    for candidates, single, z, codes, known, rest in zip(level, above, plains, some, counts, beyonds, strict=True):
        every = np.concatenate([candidates.codes[single], codes])
        exact = np.concatenate([candidates.counts[single], known])
        noisy = np.maximum(exact, rule.floor) + np.concatenate([z, rest])
        passing = np.flatnonzero(noisy > rule.tau)
        passing = passing[np.argsort(every[passing], kind="stable")]  # does not show who was drawn for how
        results.append(Passed(every[passing], exact[passing], None if rule.pure else noisy[passing]))
    return results


def _split_draws(lengths: Iterable[int], draw: Callable[[int], Integers]) -> list[Integers]:
    """Noise drawn at once for all nodes of a level, split into one array per node."""
    ends = np.cumsum(list(lengths))
    return np.split(draw(int(ends[-1])), ends[:-1])


def _nth_untaken(taken: Codes, ranks: Codes) -> Codes:
    """The g-th number (from 0) that is not in ``taken``, for every g in ``ranks``.

    The i-th taken number has taken[i] − i others before it, so it comes before the g-th iff taken[i] − i ≤ g.
    """
    return ranks + np.searchsorted(taken - np.arange(len(taken)), ranks, side="right")
