"""A stand-in for a fitted model: it says of every marginal whatever what it was told makes it say.

A guarantee must hold whatever the model makes of published numbers. This one puts all rows into one cell, which one
depending on every number it was told, so that a single row moves a score as far as it can.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nabladp.audit.exact import Divergences
from nabladp.mechanisms import Law
from nabladp.mechanisms.synthesis import output_distribution, rounds, strategy
from nabladp.mechanisms.synthesis.selection import Selector, combined_law


class Opinion:
    def __init__(self, sizes: dict[str, int], n: int, heard: str) -> None:
        self.sizes, self.n, self.heard = sizes, n, heard

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[Any]:
        found = []
        for names in sets:
            shape = tuple(self.sizes[name] for name in names)
            said = hashlib.sha256(f"{self.heard}/{names}".encode()).digest()[0]
            table = np.zeros(shape)
            table.ravel()[said % table.size] = self.n
            found.append(table)
        return found


def give_opinions(patch: pytest.MonkeyPatch) -> None:
    """Models become opinions, on noisy counts cut to 0 … n."""

    def fit(self: rounds.Course, noisy: Sequence[rounds.Noisy], *_: Any, **__: Any) -> Opinion:
        heard = "/".join(f"{m.attributes}{m.counts.tolist()}{m.round}" for m in noisy)
        return Opinion(self.design.wanted.sizes, self.design.n, heard)

    def errors(self: rounds.Course, state: rounds.State) -> Any:
        said = hashlib.sha256(f"{state.model.heard}/{state.done}".encode()).digest()  # type: ignore[attr-defined]
        return np.array([said[i % len(said)] for i, _ in enumerate(self.design.wanted.sets)], float)

    def filled(self: rounds.Course, model: Opinion) -> float:
        return (0.0, math.inf)[hashlib.sha256(model.heard.encode()).digest()[1] % 2]

    patch.setattr(rounds.Course, "_fit", fit)
    patch.setattr(rounds.Course, "filled_cells", filled)
    patch.setattr(rounds.Course, "expected_errors", errors)
    patch.setattr(rounds, "answers", lambda model, noisy, sets: model.marginals(sets))
    patch.setattr(output_distribution, "learned_counts", lambda counts, n: np.clip(counts, 0, n))


def two_choices(patch: pytest.MonkeyPatch) -> None:
    """Single columns decide between rounds and marginals at once, which are measured once again, whatever the number
    of rows is."""
    for name in ("_CLEAR", "_CLEAR_PERSON", "_CLEAR_PERSON_BITS"):
        patch.setattr(strategy, name, {"pairs": math.inf, "triples": math.inf})
    for name in ("_CLEAR_FILLED", "_CLEAR_FILLED_PERSON"):
        patch.setattr(strategy, name, 1e-12)
    patch.setattr(strategy, "TIMES_AGAIN", 1)


def pick_loss(selector: Selector, one: Any, other: Any, strength: int = 1) -> float:
    """D_* between the picks that two tables lead to, given how far off each candidate is."""
    laws = [dict(combined_law([selector], np.asarray(excess), strength)) for excess in (one, other)]
    parts = [np.array([law[pick] for pick in laws[0]]) for law in laws]
    divergences = Divergences()
    numbers = [divergences.learn(Law((part,))) for part in parts]
    return divergences.between(numbers[0], numbers[1], np.inf)[0]
