"""What a guarantee says of a set, and the discrete Gaussian's own figure, at their edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.errors import BudgetError, GuaranteeError
from nabladp.privacy import CDP, Guarantee, Pure, Rho, discrete_gaussian, index
from nabladp.privacy.conversion import epsilon_from_rho
from nabladp.privacy.units import UNIT, half_square, root_double, to_float
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import cost_units

AGE = Guarantee.touch(("age",), "age", Rho(0.01))


# What a guarantee says of a set


def test_what_is_derived_from_one_source_adds_up_for_it() -> None:
    """Two columns of one source are two chances to look at it: the later one does not replace the earlier."""
    people = Universe(("age", "sex"), {"band": ("age",), "old": ("age",)})
    capped = Guarantee.capped(people, {"band": Rho(1), "old": Rho(2), "sex": Rho(4)})
    assert (capped.rho("age"), capped.rho("sex"), capped.rho("band")) == (3, 4, 3)
    curve = Guarantee.curve(people, {"band": 1, "old": 2, "sex": 1}, (0, 4, 9, 16, 25))
    assert (curve.rho("age"), curve.rho("sex"), curve.rho(("age", "sex"))) == (16, 4, 25)
    for build in (Guarantee.linear, Guarantee.squares, Guarantee.touch):
        apart = [build(people, name, CDP(1)).rho("age") for name in ("band", "old")]
        both = build(people, ("band", "old"), CDP(1)).rho("age")
        assert both == {"linear": 2, "squares": 1, "touch": 0.5}[build.__name__] and apart == [0.5, 0.5]


MIXED = Guarantee.touch("ab", "a", Pure(0.3)) + Guarantee.touch("ab", [*"ab"], Rho(0.02))


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.3])
@pytest.mark.parametrize("conversion", ["tight", "paper"])
def test_pure_and_concentrated_parts_are_converted_together_or_apart(conversion: str, delta: float) -> None:
    """The smaller of two valid figures, each of them in full: none may leave a part out, or forget which conversion."""
    for of in ("a", "b", ("a", "b")):
        total = MIXED.total(of)
        assert total is not None and total.rho is not None and total.rho_of_rest is not None and total.pure is not None
        assert (total.rho, total.pure) == (MIXED.rho_units(of), cost_units(Pure(0.3)) if "a" in of else 0)
        assert total.rho_of_rest == cost_units(Rho(0.02))
        through_rho = epsilon_from_rho(to_float(total.rho), delta, conversion)
        apart = to_float(total.pure) + epsilon_from_rho(to_float(total.rho_of_rest), delta, conversion)
        told = MIXED.epsilon(of, delta, conversion)
        assert told == MIXED.figure(of).epsilon(delta, conversion) == pytest.approx(min(through_rho, apart), rel=1e-14)
    assert MIXED.epsilon("a", delta) == MIXED.epsilon("a", delta, "tight") < MIXED.epsilon("a", delta, "paper")


def test_both_ways_to_convert_are_the_smaller_one_somewhere() -> None:
    """Otherwise the test above would not see a mistake in one of them."""
    smaller = set()
    for pure, rho in ((0.3, 0.02), (5.0, 0.02), (0.01, 1.0)):
        g = Guarantee.touch("ab", "a", Pure(pure)) + Guarantee.touch("ab", [*"ab"], Rho(rho))
        together = epsilon_from_rho(g.rho("a"), 1e-6)
        apart = to_float(cost_units(Pure(pure))) + epsilon_from_rho(to_float(cost_units(Rho(rho))), 1e-6)
        assert g.epsilon("a", 1e-6) == pytest.approx(min(together, apart), rel=1e-14)
        smaller.add(together < apart)
    assert smaller == {True, False}


def test_nothing_is_promised_for_a_public_attribute_however_it_is_asked() -> None:
    g = MIXED.with_public("b")
    assert g.total("b") is None and g.total([*"ab"]) is None and g.total("a") is not None
    for conversion in ("tight", "paper", "discrete_gaussian"):
        assert g.epsilon("b", 1e-6, conversion) == math.inf
    assert g.rho("b") == g.epsilon("b") == math.inf
    pure = Guarantee.touch("ab", "a", Pure(1))
    assert pure.epsilon("a", 1e-6, "discrete_gaussian") == pytest.approx(1) and pure.epsilon("a", 1e-6) > 1 - 1e-9


def test_a_figure_is_shown_no_smaller_than_it_is() -> None:
    names = [f"x{i}" for i in range(9)]
    third, bare = Guarantee.touch(names, names, Pure(1 / 3)), Guarantee.touch(names, names, Rho(1 / 3))
    assert repr(third.figure("x1")) == "Figure(x1: ρ = 0.05556, pure ε = 0.3334)"
    assert repr(bare.figure(names[:8])) == f"Figure({' + '.join(names[:8])}: ρ = 0.3334)"
    assert repr(bare.figure(names)) == f"Figure({' + '.join(names[:8])} + 1 others: ρ = 0.3334)"
    assert third.figure("x1").attributes == ("x1",)


def test_group_privacy_says_at_least_as_much_and_nothing_where_one_has_no_bound() -> None:
    pure = Guarantee.touch("abc", {"a": Pure(1), "b": Pure(2), "c": Pure(4)})
    assert pure.group_bound("a") == (0.5, 1) and pure.group_bound([*"ab"]) == (4.5, 3)
    bare = Guarantee.touch("abc", "a", Rho(0.5)) + Guarantee.touch("abc", "b", Pure(2))
    units = half_square(root_double(cost_units(Rho(0.5))) + 2 * UNIT)
    assert bare.group_bound([*"ab"]) == (to_float(units), math.inf)
    graph = Guarantee.from_graph("abc", [("x", "y", Pure(1))], on="a", values={"a": ["x", "y", "z"]})
    assert (graph + pure).group_bound([*"ab"]) == (math.inf, math.inf)


@pytest.mark.parametrize("changed", [{"format": 2}, {"unit": "2^-61"}, {"format": None}, {"unit": ""}])
def test_a_guarantee_in_other_units_is_not_read(changed: dict[str, Any]) -> None:
    assert Guarantee.from_json(AGE.to_json()) == AGE
    with pytest.raises(GuaranteeError, match="another format"):
        Guarantee.from_json({**AGE.to_json(), **changed})


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: Guarantee.touch("ab", "a", 1), "the cost must"),
        (lambda: Guarantee.touch("ab", {"a": 1}), "the cost of 'a' must"),
        (lambda: Guarantee.capped("ab", {"a": 1}), "the limit of 'a' must"),
        (lambda: Guarantee.capped("ab", {"a": Rho(1)}, {"a": 1}), "a cap must"),
        (lambda: Guarantee.from_graph("ab", [("x", "y", 1)], on="a", values={"a": "xy"}), "an edge's weight must"),
    ],
)
def test_a_cost_that_does_not_say_what_it_measures_is_named(build: Callable[[], Guarantee], told: str) -> None:
    with pytest.raises(BudgetError) as error:
        build()
    assert str(error.value).startswith(told)


def test_squares_take_no_pure_costs() -> None:
    with pytest.raises(GuaranteeError, match="concentrated costs"):
        Guarantee.squares("ab", "a", Pure(1))


def test_sums_with_a_part_that_has_no_bound_have_none() -> None:
    graph = Guarantee.from_graph("ab", [("x", "y", Pure(1))], on="a", values={"a": ["x", "y", "z"]})
    g = graph + Guarantee.touch("ab", "a", Pure(1)) + Guarantee.linear("ab", [*"ab"], Pure(2))
    assert g.total("a") == index.Total(None, None, None) and g.total("a").pure_of_all is None  # type: ignore[union-attr]
    assert g.total("b") == index.Total(2 * UNIT, 2 * UNIT, 0) and g.epsilon("b") == 2
    assert g.epsilon("a", 1e-6) == g.epsilon("a") == g.rho("a") == math.inf


class Declared:
    """What a schema offers."""

    roots, derived, public = ("age", "sex"), {"band": ("age",)}, frozenset({"sex"})


def test_what_a_schema_declares_public_stays_public() -> None:
    """Forgotten, a figure would be shown for an attribute about which nothing is promised."""
    people = Universe.of(Declared())
    assert people == Universe(("age", "sex"), {"band": ("age",)}, frozenset({"sex"}))
    assert Guarantee.touch(Declared(), ["band"], Rho(1)).rho("sex") == math.inf
    assert Universe.from_json({"attributes": ["age"]}) == Universe(("age",))


# The discrete Gaussian's own figure


def marginals(scales: tuple[float, ...]) -> Guarantee:
    parts = [Guarantee.touch("a", "a", Rho(1 / Fraction(s) ** 2), gaussian_scale=s) for s in scales]
    return Guarantee.compose("a", parts)


def smallest_epsilon(scales: tuple[float, ...], delta: float) -> float:
    """From every pair of every marginal's cells, without any lattice."""
    losses, masses = np.zeros(1), np.ones(1)
    points = np.arange(-25, 26)
    for scale in scales:
        cell = np.exp(-(points**2) / (2 * scale**2))
        pair = np.convolve(cell, cell) / cell.sum() ** 2
        loss = (2 + 2 * np.arange(-50, 51)) / (2 * scale**2)
        losses, masses = np.add.outer(losses, loss).ravel(), np.outer(masses, pair).ravel()
    low, high = 0.0, float(losses.max())
    for _ in range(60):
        middle = (low + high) / 2
        over = losses > middle
        low, high = (middle, high) if masses[over] @ -np.expm1(middle - losses[over]) > delta else (low, middle)
    return high


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("scales", [(1.0,), (2.5,), (1.0, 1.0), (1.0, 2.5), (2.5, 1.0, 1.7)])
def test_noise_of_several_scales_is_told_no_smaller_and_hardly_larger(scales: tuple[float, ...], delta: float) -> None:
    told, truth = marginals(scales).epsilon("a", delta, "discrete_gaussian"), smallest_epsilon(scales, delta)
    assert truth * (1 - 1e-9) <= told <= truth * 1.01 + 0.02


@pytest.mark.parametrize("scale", [50.0, 400.0])
@pytest.mark.parametrize("count", [2, 6])
def test_what_lies_outside_the_window_counts_as_lost(scale: float, count: int) -> None:
    noise = discrete_gaussian._noise(scale)
    outside = count * 2 * math.exp(-((len(noise.masses) // 2) ** 2) / (2 * scale * scale))
    *_, escaped = discrete_gaussian._one_scale(scale, count)
    assert escaped - noise.narrowed().power(count).escaped >= outside * (1 - 1e-6) > 0
