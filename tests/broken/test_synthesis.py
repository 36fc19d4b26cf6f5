"""Planted faults of Synthesis that the exact checks must catch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.errors import AuditError
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.synthesis import Synthesis, accounts, design, output_distribution, rounds, selection
from nabladp.privacy import CDP, Guarantee, Rho
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.schema import Attribute, Schema
from tests.helpers.opinions import give_opinions, pick_loss, two_choices

Plant = Callable[[pytest.MonkeyPatch], None]


def bits(d: int) -> Schema:
    return Schema(tuple(Attribute(name, "boolean") for name in "abcd"[:d]))


RING = (("a", "b"), ("b", "c"), ("c", "a"))
PAIRS = (("a", "b"), ("c", "d"), ("b", "c"), ("a", "d"))
ANSWERS = Synthesis(CDP(2), 1, strategy="packed", one_way=0, rounds=1, selection=0.05)
PICKS = Synthesis(CDP(2), RING, strategy="single", one_way=0, rounds=1, selection=0.9)
PACKS = Synthesis(CDP(1), PAIRS, strategy="packed", one_way=0, rounds=1, selection=0.6)
WEIGHTS = Synthesis(CDP(2), RING, strategy="single", one_way=0, rounds=1, selection=0.9, weights=(3.0, 3.0, 2.0))
SAVING = Synthesis(CDP(3), RING, strategy="single", one_way=0, rounds=2, selection=0.1)
LIMITED = Synthesis(
    CDP(3), (("a",), ("b",)), strategy="packed", one_way=0, rounds=1, selection=0.05, sets={"a+b": Rho(5)}
)

AGAIN = Synthesis(CDP(5), (("a", "b"), ("a",)), strategy="refined", one_way=0, rounds=2)
WIDTHS = Synthesis(CDP(4), (("a",), ("b", "c")), strategy="refined", one_way=0, rounds=1)
ONCE_MORE = Synthesis(CDP(3), (("a", "b"), ("a",)), strategy="refined", one_way=0, rounds=1)
DECIDED = Synthesis(CDP(4), 1, one_way=0.1, rounds=1, selection=0.1)  # with two_choices


def refuted(mechanism: Synthesis, schema: Schema, n: int = 1, **more: Any) -> bool:
    return not exact_audit(mechanism, schema, n, **more).passed


@pytest.fixture(autouse=True)
def opinions(monkeypatch: pytest.MonkeyPatch) -> None:
    give_opinions(monkeypatch)


SOUND = {
    "answers": (ANSWERS, 2),
    "picks": (PICKS, 3),
    "packs": (PACKS, 4),
    "weights": (WEIGHTS, 3),
    "saving": (SAVING, 3),
    "again": (AGAIN, 2),
    "once more": (ONCE_MORE, 2),
    "widths": (WIDTHS, 3),
}


@pytest.mark.parametrize("name", SOUND)
def test_the_sound_mechanisms_pass(name: str) -> None:
    mechanism, d = SOUND[name]
    assert not refuted(mechanism, bits(d))


# ---- faults in what is done ----------------------------------------------------------------------------------------


def less_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(design, "least_scale", lambda *given: 0.7 * least_scale(*given))


def without_the_largest_weight(patch: pytest.MonkeyPatch) -> None:
    """Scores are multiplied by their weights, but not divided by the largest of them."""
    made = selection.Selector.__init__

    def init(self: selection.Selector, block: Any, sources: Any, weights: Any, *rest: Any) -> None:
        made(self, block, sources, weights, *rest)
        self.relative = weights[self.members]

    patch.setattr(selection.Selector, "__init__", init)


def one_row_moves_one_cell(patch: pytest.MonkeyPatch) -> None:
    """Sensitivity 1 where 2 is right: coefficients twice as large."""
    true = selection.Selector._coefficients

    def coefficients(self: selection.Selector, strength: int) -> Any:
        found, largest = true(self, strength)
        return 2 * found, largest

    patch.setattr(selection.Selector, "_coefficients", coefficients)


def noise_that_knows_the_data(patch: pytest.MonkeyPatch) -> None:
    """The scale of the noise follows the true counts."""
    cells = output_distribution.OutputDistribution._cells

    def known(self: output_distribution.OutputDistribution, sets: Any, scales: Any) -> Any:
        found = [s * (1 + int(t.ravel()[0])) for s, t in zip(scales, self.truth.tables(sets), strict=True)]
        window = self._window
        self._window = lambda _: window(2 * max(scales, default=1.0))  # type: ignore[method-assign]
        try:
            return cells(self, sets, found)
        finally:
            self._window = window  # type: ignore[method-assign]

    patch.setattr(output_distribution.OutputDistribution, "_cells", known)


def the_richest_pays(patch: pytest.MonkeyPatch) -> None:
    def affordable(self: accounts.Accounts, keys: Any, sharing: Any) -> int:
        return max(self.saved(key) for key in keys)

    patch.setattr(accounts.Accounts, "affordable", affordable)
    patch.setattr(accounts.Accounts, "pay", lambda self, keys, units: self)


def savings_are_never_spent(patch: pytest.MonkeyPatch) -> None:
    """What was granted is there again in every round."""
    patch.setattr(accounts.Accounts, "pay", lambda self, keys, units: self)


def set_limit_ignored(patch: pytest.MonkeyPatch) -> None:
    """Only the attributes' own accounts are looked at."""
    affordable = accounts.Accounts.affordable

    def alone(self: accounts.Accounts, keys: Any, sharing: Any) -> int:
        own = len(self.limits.attributes)
        return affordable(self, tuple(key for key in keys if key < own), {})

    patch.setattr(accounts.Accounts, "affordable", alone)
    patch.setattr(accounts.Accounts, "pay", lambda self, keys, units: self)
    patch.setattr(rounds.Course, "leftovers", lambda *_: ([], []))


def less_noise_again(patch: pytest.MonkeyPatch) -> None:
    """Only on what is measured again."""
    patch.setattr(output_distribution, "scale_for", lambda units: 0.7 * design.scale_for(units))


def marginals_do_not_share(patch: pytest.MonkeyPatch) -> None:
    """Each marginal that is measured again gets all that its attributes have saved."""

    class All:
        def __init__(self, own: accounts.Accounts) -> None:
            self.own = own

        def divided(self, sets: Any, weights: Any) -> list[int]:
            return [min(self.own.saved(key) for key in self.own.limits.charged(names)) for names in sets]

    patch.setattr(accounts.Accounts, "saved_limits", lambda self: All(self))
    patch.setattr(accounts.Accounts, "pay", lambda self, keys, units: self)


def wide_marginals_are_counted_on(patch: pytest.MonkeyPatch) -> None:
    """Every marginal is thought to touch as many attributes as the widest."""
    patch.setattr(design.Design, "least", property(lambda self: max(map(len, self.wanted.sets))))


def granted_once_more(patch: pytest.MonkeyPatch) -> None:
    """What was measured at once before rounds is not taken off what these have."""
    after = rounds.Course.after_together

    def forgotten(self: rounds.Course, state: Any, paid: Any, noisy: Any) -> Any:
        return replace(after(self, state, paid, noisy), accounts=state.accounts)

    patch.setattr(rounds.Course, "after_together", forgotten)


@pytest.mark.parametrize(
    ("plant", "mechanism", "d"),
    [
        (less_noise, ANSWERS, 2),
        (without_the_largest_weight, WEIGHTS, 3),
        (one_row_moves_one_cell, PICKS, 3),
        (noise_that_knows_the_data, ANSWERS, 2),
        (the_richest_pays, Synthesis(CDP(3), RING, strategy="single", one_way=0, rounds=1, budgets={"a": CDP(1)}), 3),
        (savings_are_never_spent, SAVING, 3),
        (set_limit_ignored, LIMITED, 2),
        (less_noise_again, AGAIN, 2),
        (savings_are_never_spent, AGAIN, 2),
        (marginals_do_not_share, ONCE_MORE, 2),
        (wide_marginals_are_counted_on, WIDTHS, 3),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_fault_is_refuted(plant: Plant, mechanism: Synthesis, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert refuted(mechanism, bits(d))


@pytest.mark.parametrize("plant", [None, less_noise_again, savings_are_never_spent, granted_once_more])
def test_a_fault_after_single_columns_decided_is_refuted(plant: Plant | None, monkeypatch: pytest.MonkeyPatch) -> None:
    two_choices(monkeypatch)
    if plant:
        plant(monkeypatch)
    assert refuted(DECIDED, bits(2)) == (plant is not None)


def test_single_columns_decide_as_released_not_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    two_choices(monkeypatch)
    law = output_distribution.OutputDistribution.whole

    def known(self: output_distribution.OutputDistribution) -> Any:
        filled = float(self.truth.tables([("a",)])[0][0])
        self.course.filled_cells = lambda _: math.inf if filled else 0.0  # type: ignore[method-assign]
        return law(self)

    monkeypatch.setattr(output_distribution.OutputDistribution, "whole", known)
    with pytest.raises(AuditError, match="outcomes"):
        refuted(DECIDED, bits(2))


def test_errors_read_from_the_data_are_no_part_of_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured again, and with how much noise, may depend on released numbers only."""

    def known(self: output_distribution.OutputDistribution, state: Any) -> Any:
        sets = self.course.design.wanted.sets
        true = [float(table.ravel()[0]) for table in self.truth.tables(sets)]
        self.course.expected_errors = lambda _: np.array(true)  # type: ignore[method-assign]
        return law(self, state)

    law = output_distribution.OutputDistribution._again
    monkeypatch.setattr(output_distribution.OutputDistribution, "_again", known)
    with pytest.raises(AuditError, match="outcomes"):
        refuted(AGAIN, bits(2))


# ---- faults in what is claimed -------------------------------------------------------------------------------------


def test_realised_spending_is_no_guarantee() -> None:
    """Of three pairs in a ring, two rounds may leave one attribute out. What it did not pay is no bound."""
    found = SAVING.design(bits(3), 1)
    realised = found.fixed
    for names in (("a", "b"), ("a", "b")):  # a path on which c was never measured
        units = found.accounts.most[0] // 2 if found.accounts else 0
        realised += Guarantee.touch(bits(3), names, Rho(Fraction(units, UNIT)))
    assert realised.rho("c") < SAVING.guarantee(bits(3), 1).rho("c")
    assert refuted(SAVING, bits(3), guarantee=realised)


def test_what_was_measured_before_it_is_measured_again_is_charged() -> None:
    for mechanism in (AGAIN, ONCE_MORE):
        found = mechanism.design(bits(2), 1)
        again = found.accounts.guarantee(found.least) if found.accounts else Guarantee.none(bits(2))
        for claim in (found.fixed, again):
            assert refuted(mechanism, bits(2), guarantee=claim)


def test_selection_is_charged_to_attributes_that_are_never_measured() -> None:
    """Only what was measured is charged for the pick: a and b."""
    claim = Guarantee.touch(bits(3), ["a", "b"], CDP(2))
    assert refuted(PICKS, bits(3), guarantee=claim)
    picks = PICKS.design(bits(3), 1)
    forgotten = Guarantee.touch(bits(3), {name: CDP(Fraction(picks.price[name], UNIT)) for name in "ab"})
    measured = picks.accounts.guarantee(2) if picks.accounts else Guarantee.none(bits(3))
    assert refuted(PICKS, bits(3), guarantee=forgotten + measured)


def test_a_joint_pick_costs_more_than_a_single_one() -> None:
    """Two ways to pair off four attributes: a and c together move both pairs of each, up or down."""
    found = PACKS.design(bits(4), 100)
    (selector,) = found.selectors(0)
    step = 2 * selection.GRID * np.array([1, 1, -1, -1])  # ab and cd get worse, bc and ad better
    start = np.full(4, 90 * selection.GRID)
    true = pick_loss(selector, start, start + step)
    charged = {name: CDP(Fraction(units, UNIT)) for name, units in found.price.items()}
    like_single = Guarantee.touch(bits(4), charged)
    assert (
        like_single.rho(["a", "c"])
        < true
        <= selector.block.guarantee(Universe.of(bits(4)), found.price).rho(["a", "c"])
    )


def test_a_derived_column_that_is_not_charged_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema((Attribute("age", "integer", low=0, high=2), Attribute("old", "boolean", derived_from=("age",))))
    told = {"old": lambda record: int(record["age"] == 2)}
    mechanism = Synthesis(CDP(2), (("age",), ("old",)), strategy="all", one_way=0)
    assert not refuted(mechanism, schema, derive=told)
    claim = Guarantee.touch(schema, "age", Rho(1))  # age's own marginal, half of the budget
    assert refuted(mechanism, schema, derive=told, guarantee=claim)


def test_rounding_before_the_row_is_seen() -> None:
    """Half-even rounding of what a row has changed moves it by 2 where the row moves it by 1."""
    assert np.rint(1.5) - np.rint(0.5) == 2
    truths = [np.array([x, 3 - x]) for x in range(4)]
    steps = [
        abs(selection.distance(b, np.array([0.5, 2.5])) - selection.distance(a, np.array([0.5, 2.5])))
        for a, b in itertools.pairwise(truths)
    ]
    assert max(steps) <= 2 * selection.GRID
