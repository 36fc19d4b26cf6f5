"""MWEM: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from faults import AB, Fault, Patches, Plant, bits, black_box, scale_07

from nabladp.mechanisms import Auditable, Law, Mechanism
from nabladp.mechanisms.mwem import MWEM, round_plan, round_run
from nabladp.mechanisms.mwem.round_run import RunSetup, update_named
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Approx, Guarantee, Pure, Rho
from nabladp.schema import Schema
from nabladp.workloads import Conjunctions, Marginals, Parities

INSTANCES: list[Mechanism] = [
    MWEM(CDP(0.5), Marginals(1, over=("region", "age", "sick")), rounds=3),
    MWEM(CDP(1), Conjunctions(2, over=("region", "sick", "age")), rounds=2, update="paper", output="average", rows=0),
    MWEM(Rho(0.2), Marginals(sets=(("region", "income"), ("band", "sick"))), per_round=1, rounds=2, rows=7),
    MWEM(
        Approx(2, 1e-6),
        Parities(2, over=("age", "sick")) + 2 * Marginals(1, over=("region",)),
        budgets={"sick": Rho(0.01)},
    ),
]


def noisy(out: Any) -> list[Any]:
    return [out.measured.count, *(out.rows or ())]


# ---- faults ---------------------------------------------------------------------------------------------------------


def picks_only(patches: Patches) -> None:
    """A round charges its pick; its answers are taken for a part of it."""

    def claim(self: Any, universe: Any, block: Any) -> Guarantee:
        return Guarantee.linear(universe, {name: CDP(self.selection[name] / 2**60) for name in self.selection})

    patches.set(round_plan.Prices, "guarantee", claim)


def equal_rounds_once(patches: Patches) -> None:
    """Parts are put together as a set: of two rounds that cost the same, one is charged."""
    true = Guarantee.compose

    def compose(universe: Any, parts: Any) -> Guarantee:
        kept: list[Guarantee] = []
        for part in parts:
            if part not in kept:
                kept.append(part)
        return true(universe, kept)

    own = SimpleNamespace(linear=Guarantee.linear, squares=Guarantee.squares, compose=compose)
    patches.set(round_plan, "Guarantee", own)


@dataclass(frozen=True)
class JointPick(Auditable):
    """The pick of one round of MWEM by itself, with the claim that its price rests on (PROOF.md, bounded range).

    Where every score moves by e at most, the log ratio of a set of picks, disjoint in their attributes, has range 2·e
    for every attribute that changes.
    """

    mechanism: MWEM

    def _machine(self, schema: Schema, n: int) -> RunSetup:
        return self.mechanism._machine(schema, n)

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        step = float(self._machine(schema, n).scores.coefficients.max())
        return Guarantee.linear(schema, schema.names, Pure(2 * step * (1 + 1e-9)))

    def distribution(self, counts: Any) -> Law:
        own = self._machine(counts.schema, counts.n)
        guess = update_named("fit", own.cube, 1).answers()
        scores = own.scores.of(own.queries.counts(counts), guess)
        (selector,) = own.selectors(0)
        return Law((np.array([log_chance for _, log_chance in selector.law(scores)]),))


def with_packings(law_of_sets: Callable[[Any, Any], dict[tuple[int, ...], float]]) -> Plant:
    """Sets are picked by another law; the queries inside them as before."""

    def law(self: Any, scores: Any) -> Any:
        inside = [round_run._log_law(scores[a:b]) for a, b in self.ranges]
        chances = law_of_sets(self, self._together(scores[self.queries]))
        for packing in sorted(chances):
            for choice in itertools.product(*(range(len(inside[i])) for i in packing)):
                picked = tuple(self.ranges[i][0] + c for i, c in zip(packing, choice, strict=True))
                yield picked, chances[packing] + sum(inside[i][c] for i, c in zip(packing, choice, strict=True))

    return lambda patches: patches.set(round_run.Selector, "law", law)


def greedy(self: Any, weights: Any) -> dict[tuple[int, ...], float]:
    """One after another, each by the exponential mechanism among those that are still disjoint."""
    masks, law = self.block.masks, {}

    def pick(chosen: tuple[int, ...], used: int, log_chance: float) -> None:
        if len(chosen) == self.block.count:
            key = tuple(sorted(chosen))
            law[key] = float(np.logaddexp(law.get(key, -np.inf), log_chance))
            return
        left = [i for i, mask in enumerate(masks) if not mask & used]
        total = float(np.logaddexp.reduce(weights[left]))
        for i in left:
            pick((*chosen, i), used | masks[i], log_chance + weights[i] - total)

    pick((), 0, 0.0)
    return law


def overlapping(self: Any, weights: Any) -> dict[tuple[int, ...], float]:
    """Any sets, whether they share attributes or not."""
    every = list(itertools.combinations(range(len(weights)), self.block.count))
    totals = np.array([weights[list(chosen)].sum() for chosen in every])
    return dict(zip(every, totals - np.logaddexp.reduce(totals), strict=True))


def one_draw_a_round(patches: Patches) -> None:
    """The size of the draw is forgotten: all answers of a round share one noise, and differences have none."""

    def noise_of(self: RunSetup, chosen: Any, noise: NoiseSource) -> Any:
        return np.zeros(len(chosen), np.int64) + noise.discrete_gaussian(float(self.scale[chosen[0]]), 1)

    patches.set(RunSetup, "noise", noise_of)


def best_query(patches: Patches) -> None:
    """The query with the largest error is picked, with no randomness."""
    patches.set(round_run, "_pick", lambda scores, noise: int(np.argmax(scores)))


ANSWERS = MWEM(CDP(2), Conjunctions(1), rounds=1, selection=0.05)
ROUND: dict[str, Any] = {"rounds": 1, "update": "paper", "rows": 0}
FAULTS = (
    Fault("scale x 0.7 (Gaussian)", ANSWERS, AB, scale_07(round_run), n=1),
    Fault(
        "greedy at the joint price",
        JointPick(MWEM(CDP(4), Conjunctions(1), rounds=1, per_round=4, selection=0.95)),
        bits("abcde"),
        with_packings(greedy),
        n=1,
    ),
    Fault(
        "packings that overlap",
        MWEM(CDP(2), Conjunctions(2), rounds=1, selection=0.05),
        bits("abcd"),
        with_packings(overlapping),
        n=1,
    ),
    Fault("picks charged, answers not", ANSWERS, AB, picks_only, n=1),
    Fault(
        "equal rounds charged once",
        MWEM(CDP(2), Conjunctions(1), rounds=2, per_round=1, selection=0.2),
        AB,
        equal_rounds_once,
        n=1,
    ),
    Fault(
        "one draw for all answers",
        MWEM(CDP(1), Conjunctions(1), selection=0.1, **ROUND),
        AB,
        one_draw_a_round,
        **black_box(2, 240, "a"),
    ),
    Fault(
        "the worst query for certain",
        MWEM(CDP(1), Conjunctions(1), per_round=1, selection=0.9, **ROUND),
        AB,
        best_query,
        **black_box(2, 240, "a"),
    ),
)
