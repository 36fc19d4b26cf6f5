"""A request against the limits before it is made: the same rule as the ledger's, to the last unit."""

from __future__ import annotations

import math

import pytest

from nabladp.privacy import CDP, Budget, Guarantee, Pure, Rho
from nabladp.privacy.budget import Limit
from nabladp.privacy.ledger import Spending
from nabladp.privacy.ledger.limits import LimitRequest, limit_requests
from nabladp.privacy.units import UNIT
from nabladp.release.cost import Cost, figure, figures, finite, format_cost

NAMES = ("a", "b", "c")
ONE = Limit.of("a", ["a"], Rho(1))


@pytest.mark.parametrize(
    ("spent", "requested", "fits"),
    [
        (0, UNIT, True),
        (0, UNIT + 1, False),
        (UNIT // 2, UNIT // 2, True),
        (UNIT // 2, UNIT // 2 + 1, False),
        (UNIT, 0, True),
        (2 * UNIT, 0, True),  # exceeded already, but this request leaves it alone
        (2 * UNIT, 1, False),
        (None, 0, True),
        (None, 1, False),
        (0, None, False),
        (None, None, False),
    ],
)
def test_a_line_fits_to_the_last_unit(spent: int | None, requested: int | None, fits: bool) -> None:
    line = LimitRequest(Spending(ONE, spent), requested)
    assert line.fits is fits and line.to_json()["fits"] is fits
    free = LimitRequest(Spending(ONE, 0), 0)
    assert Cost(Guarantee.none(NAMES), (), (free, line)).fits is fits


def test_every_limit_is_asked_in_its_own_measure() -> None:
    budget = Budget(attributes={"a": Pure(2), "b": Rho(3)}, sets={"a+b": Rho(4)}, person=Rho(5))
    g = Guarantee.touch(NAMES, "a", Pure(1)) + Guarantee.touch(NAMES, "b", Rho(1)) + Guarantee.touch(NAMES, "c", CDP(2))
    lines = limit_requests([Spending(limit, 0) for limit in budget.limits(NAMES)], g)
    assert {line.standing.limit.name: line.requested for line in lines} == {
        "a": UNIT,
        "b": UNIT,
        "a+b": 3 * UNIT // 2,
        "person": 7 * UNIT // 2,
    }


def test_figures_of_people_and_adversaries_and_what_has_no_bound() -> None:
    g = Guarantee.touch(NAMES, [*"ab"], Rho(0.5)) + Guarantee.touch(NAMES, "c", Pure(1))
    told = figures(g, {"neighbour": ("a", "c")}, 1e-6)
    assert told["attributes"]["a"]["rho"] == 0.5 and told["attributes"]["a"]["pure_epsilon"] is None
    assert told["attributes"]["c"]["pure_epsilon"] == 1
    assert told["adversaries"][0]["rho"] == told["person"]["rho"] == 1
    for chosen, row in [(["a"], told["attributes"]["a"]), ([*"ac"], told["adversaries"][0])]:
        assert row["epsilon"] == g.epsilon(chosen, 1e-6) < row["epsilon_paper"] == g.epsilon(chosen, 1e-6, "paper")
    assert set(figure(g.with_public("a"), ["a"], 1e-6).values()) == {None}
    assert finite(math.inf) is None and finite(1.5) == 1.5


def test_costs_are_shown_rounded_up_unless_told_otherwise() -> None:
    assert (format_cost(0.123449), format_cost(0.123449, up=False), format_cost(None)) == (
        "0.1235",
        "0.1234",
        "no bound",
    )
