"""A distribution over all attributes, held as potentials on a junction tree; its marginals; rows sampled from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree
from nabladp.mechanisms.synthesis.inference.marginals import Answers
from nabladp.mechanisms.synthesis.inference.measurement import Names, Zeros, summed
from nabladp.mechanisms.synthesis.inference.potentials import Network
from nabladp.noise import NoiseSource

# ---- sampling rows ---------------------------------------------------------------------------------------------------

_GOLDEN = (5**0.5 - 1) / 2


def sample_rows(
    tree: JunctionTree, beliefs: Sequence[Floats], rows: int, noise: NoiseSource
) -> dict[str, NDArray[Any]]:
    """Codes of each attribute. Every cell of a cluster gets its expected count, given the rows of its parent's cells,
    rounded up or down."""
    codes: dict[str, NDArray[Any]] = {}
    for cluster, belief in zip(tree.clusters, beliefs, strict=True):
        shape = tree.cells(cluster.shared), tree.cells(cluster.rest)
        chances = belief.reshape(shape) if cluster.shared_first else belief.reshape(shape[::-1]).T
        group = np.zeros(rows, np.int64)
        for name in cluster.shared:
            group = group * tree.sizes[name] + codes[name]
        counts = np.bincount(group, minlength=shape[0])
        occurring = np.flatnonzero(counts)
        times = _rounded(chances[occurring], counts[occurring], noise).ravel()
        cells = np.repeat(np.tile(np.arange(shape[1]), len(occurring)), times)
        key = (group << 32) | noise.uniform_integers(1 << 32, rows)  # any order within a group
        drawn = np.empty(rows, np.int64)
        drawn[np.argsort(key)] = cells
        sizes = [tree.sizes[name] for name in cluster.rest]
        for name, part in zip(cluster.rest, np.unravel_index(drawn, sizes), strict=True):
            codes[name] = part.astype(_smallest(tree.sizes[name]))
    return {name: codes[name] for name in tree.sizes}


def _rounded(chances: Floats, counts: Integers, noise: NoiseSource) -> Integers:
    """Row i shares out counts[i] among its cells in proportion, each rounded up or down, right on average.

    A cell gets the whole numbers between the running sums before and after it, shifted by a uniform number; the shifts
    of neighbouring rows are spread evenly, so that what many rows round up in one cell is balanced.
    """
    ends = np.cumsum(chances, axis=1)
    last = ends[:, -1:]
    shift = (noise.uniform_integers(1 << 53, 1)[0] * 2.0**-53 + _GOLDEN * np.arange(len(counts))) % 1.0
    share = np.divide(ends, last, out=np.zeros_like(ends), where=last > 0)
    marks = np.floor(share * counts[:, None] + shift[:, None]).astype(np.int64)
    marks[:, -1] = counts  # shift < 1: the last mark is the count itself
    return np.asarray(np.diff(marks, axis=1, prepend=0))


def _smallest(size: int) -> type[np.unsignedinteger]:
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32


# ---- the model -------------------------------------------------------------------------------------------------------


class Model:
    """Expected counts of ``total`` rows; ``gap`` says how far the fit was from its optimum, in noise deviations."""

    def __init__(
        self,
        network: Network,
        total: float,
        tables: Sequence[Floats],
        *,
        zeros: Sequence[Zeros] = (),
        cliques: Iterable[Names] = (),
        gap: float = 0.0,
        converged: bool = True,
        steps: int = 0,
    ) -> None:
        self.network, self.total = network, total
        self._tables, self.zeros = list(tables), tuple(zeros)
        self.cliques = tuple(tuple(clique) for clique in cliques)
        self.gap, self.converged, self.steps = gap, converged, steps

    @property
    def sizes(self) -> dict[str, int]:
        return self.network.tree.sizes

    @property
    def tree(self) -> JunctionTree:
        return self.network.tree

    def potentials(self) -> list[tuple[Names, Floats]]:
        return [
            (sub_table.names, table) for sub_table, table in zip(self.network.sub_tables, self._tables, strict=True)
        ]

    @cached_property
    def beliefs(self) -> list[Floats]:
        """Every cluster's probabilities."""
        return self.network.beliefs(self._tables)[1]

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self.tree, self.beliefs)

    def marginal(self, attributes: Sequence[str]) -> Floats:
        """Expected counts of every cell, one axis for each attribute, whether or not a cluster holds them all."""
        return self.marginals([attributes])[0]

    def marginals(self, sets: Iterable[Sequence[str]]) -> list[Floats]:
        """The same for many sets: most of the work is shared."""
        return [table * self.total for table in self._answers.marginals([tuple(names) for names in sets])]

    def draw(self, rows: int, noise: NoiseSource) -> dict[str, NDArray[Any]]:
        """Codes of so many rows, each attribute in the smallest unsigned type that holds them."""
        return sample_rows(self.tree, self.beliefs, rows, noise)

    def to_json(self) -> dict[str, Any]:
        return {
            "sizes": self.sizes,
            "total": self.total,
            "cliques": [list(clique) for clique in self.cliques],
            "potentials": [{"attributes": list(n), "values": t.ravel().tolist()} for n, t in self.potentials()],
            "zeros": [
                {"attributes": list(z.attributes), "cells": np.flatnonzero(z.forbidden).tolist()} for z in self.zeros
            ],
            "gap": self.gap,
            "converged": self.converged,
            "steps": self.steps,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Model:
        sizes = {str(name): int(size) for name, size in data["sizes"].items()}
        cliques = [tuple(clique) for clique in data["cliques"]]
        zeros = []
        for entry in data["zeros"]:
            names = tuple(entry["attributes"])
            forbidden = np.zeros(tuple(sizes[name] for name in names), np.bool_)
            forbidden.ravel()[entry["cells"]] = True
            zeros.append(Zeros(names, forbidden))
        sets = [tuple(entry["attributes"]) for entry in data["potentials"]]
        network = Network(JunctionTree(sizes, cliques), sets, zeros)
        tables = []
        for i, entry in enumerate(data["potentials"]):
            shape = tuple(sizes[name] for name in sets[i])
            tables.append(summed(np.array(entry["values"], float).reshape(shape), sets[i], network.sub_tables[i].names))
        return cls(
            network, float(data["total"]), tables, zeros=zeros, cliques=cliques,
            gap=float(data["gap"]), converged=bool(data["converged"]), steps=int(data["steps"]),
        )  # fmt: skip
