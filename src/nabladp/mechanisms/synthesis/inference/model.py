"""A distribution over all attributes, held as potentials on a junction tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.mechanisms.synthesis.inference.drawing import draw_rows
from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree
from nabladp.mechanisms.synthesis.inference.marginals import Answers
from nabladp.mechanisms.synthesis.inference.measurement import Names, Zeros, summed
from nabladp.mechanisms.synthesis.inference.potentials import Network
from nabladp.noise import NoiseSource


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
        return [(place.names, table) for place, table in zip(self.network.places, self._tables, strict=True)]

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
        return draw_rows(self.tree, self.beliefs, rows, noise)

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
            tables.append(summed(np.array(entry["values"], float).reshape(shape), sets[i], network.places[i].names))
        return cls(
            network, float(data["total"]), tables, zeros=zeros, cliques=cliques,
            gap=float(data["gap"]), converged=bool(data["converged"]), steps=int(data["steps"]),
        )  # fmt: skip
