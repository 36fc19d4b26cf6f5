"""Planted faults that the exact checks must catch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.mwem import MWEM, round_plan, round_run
from nabladp.privacy import CDP, Guarantee
from nabladp.privacy.universe import Universe
from nabladp.schema import Attribute, Schema
from nabladp.workloads import Conjunctions, Marginals

Plant = Callable[[pytest.MonkeyPatch], None]
BITS = Schema(tuple(Attribute(name, "boolean") for name in "ab"))
THREE = Schema(tuple(Attribute(name, "boolean") for name in "abc"))
DERIVED = Schema((Attribute("age", "integer", low=0, high=2), Attribute("old", "boolean", derived_from=("age",))))
ANSWERS = MWEM(CDP(2), Conjunctions(1), rounds=1, selection=0.05)
PICKS = MWEM(CDP(2), Conjunctions(1), rounds=1, per_round=1, selection=0.95)


def refuted(mechanism: MWEM, schema: Schema, n: int = 1, **more: Any) -> bool:
    return not exact_audit(mechanism, schema, n, **more).passed


def less_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(round_run, "least_scale", lambda *given: 0.7 * least_scale(*given))


def louder_scores(factor: float) -> Plant:
    true = round_run.Scores.of

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(round_run.Scores, "of", lambda self, *given: factor * true(self, *given))

    return plant


def richest_pays(patch: pytest.MonkeyPatch) -> None:
    def largest(self: round_plan.Prices, sources: frozenset[str]) -> tuple[int, int]:
        return max(self.selection[s] for s in sources), max(self.answers[s] for s in sources)

    patch.setattr(round_plan.Prices, "least", largest)


def data_in_the_model(patch: pytest.MonkeyPatch) -> None:
    """The model learns from exact answers: the next pick depends on the data twice."""
    true = round_run.RunSetup.law

    def law(self: Any, truth: Any, model: Any, number: int, working: Any) -> Any:
        if number:
            self.scores.coefficients = self.scores.coefficients * (1 + 9 * truth[0])
        return true(self, truth, model, number, working)

    patch.setattr(round_run.RunSetup, "law", law)


def test_the_sound_mechanisms_pass() -> None:
    assert not refuted(ANSWERS, BITS) and not refuted(PICKS, THREE)


@pytest.mark.parametrize(
    ("plant", "mechanism", "schema"),
    [
        (less_noise, ANSWERS, BITS),
        (louder_scores(2.0), PICKS, THREE),
        (richest_pays, MWEM(CDP(2), Conjunctions(2), rounds=1, budgets={"a": CDP(0.5)}), BITS),
        (data_in_the_model, MWEM(CDP(2), Conjunctions(1), rounds=2, per_round=1), BITS),
    ],
    ids=["30% less noise", "scores twice as loud", "the richest attribute pays", "data reaches the model"],
)
def test_a_fault_is_refuted(plant: Plant, mechanism: MWEM, schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert refuted(mechanism, schema)


def test_a_derived_column_that_is_not_charged_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = MWEM(CDP(2), Marginals(1, over=("age", "old")), rounds=1, selection=0.05)
    told = {"old": lambda record: int(record["age"] == 2)}
    assert not refuted(mechanism, DERIVED, derive=told)
    sources = round_plan.Scope.__init__

    def forgetful(self: round_plan.Scope, queries: Any, universe: Universe) -> None:
        sources(self, queries, Universe(DERIVED.names))

    monkeypatch.setattr(round_plan.Scope, "__init__", forgetful)
    claim = Guarantee.linear(DERIVED, {"age": CDP(0.447)}, limit=1) + Guarantee.squares(
        DERIVED, {"age": CDP(1.95)}, limit=1
    )
    assert refuted(mechanism, DERIVED, derive=told, guarantee=claim)


def test_the_limit_of_a_pick_is_not_one() -> None:
    """Claiming that a person loses no more than one attribute does."""
    claim = Guarantee.linear(BITS, dict.fromkeys("ab", CDP(0.447)), limit=1)
    claim += Guarantee.squares(BITS, dict.fromkeys("ab", CDP(1.95)), limit=1)
    assert refuted(ANSWERS, BITS, guarantee=claim)


def test_rounding_before_the_row_is_seen() -> None:
    """Half-even rounding of a sum moves it by 2 where one row moves it by 1: the score must not be rounded that way."""
    assert np.rint(1.5) - np.rint(0.5) == 2
    machine = PICKS._machine(THREE, 3)
    for before in range(3):
        steps = [machine.scores.of(np.full(3, before + step), np.array([0.5 / 3] * 3)) for step in (0, 1)]
        assert np.abs(steps[1] - steps[0]).max() <= machine.scores.coefficients[0] * (1 + 1e-12)
