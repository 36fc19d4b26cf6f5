"""Single terms at the edges of what they accept, and of what they charge."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from nabladp.errors import GuaranteeError
from nabladp.mechanisms.allocation import least_scale
from nabladp.privacy import Guarantee, Rho
from nabladp.privacy.terms import CurveTerm, WeightTerm
from nabladp.privacy.units import UNIT


@pytest.mark.parametrize("units", [1 << 12, 1 << 20, 12345678901, UNIT // 3, UNIT, 7 * UNIT + 1, 10**6 * UNIT])
def test_a_gaussian_scale_is_accepted_when_paid_for_and_not_a_hair_below(units: int) -> None:
    scale, cost = least_scale("gaussian", units), Rho(Fraction(units, UNIT))
    assert Guarantee.touch(["a"], "a", cost, gaussian_scale=scale).rho_units("a") == units
    with pytest.raises(GuaranteeError, match="Gaussian scale"):
        Guarantee.touch(["a"], "a", cost, gaussian_scale=math.nextafter(scale, 0))
    with pytest.raises(GuaranteeError, match="Gaussian scale"):  # noise that is claimed, but not paid for
        Guarantee.touch(["a"], "a", cost, gaussian_scale=1.001 * scale)


@pytest.mark.parametrize(("shape", "pure"), [("touch", True), ("linear", False), ("squares", False)])
def test_only_a_concentrated_touch_term_may_carry_a_gaussian_scale(shape: str, pure: bool) -> None:
    with pytest.raises(GuaranteeError, match="Gaussian scale"):
        WeightTerm(shape, (("a", UNIT),), None, pure, 1.0)


def test_several_rows_drop_the_gaussian_scale() -> None:
    """A person with two rows moves four cells: the figure of one row's noise would be too small."""
    g = Guarantee.touch(["a"], "a", Rho(1), gaussian_scale=1.0).for_rows(2)
    assert g.rho("a") == 4
    with pytest.raises(GuaranteeError, match="tight"):
        g.epsilon("a", 1e-6, "discrete_gaussian")


def test_a_curve_covers_all_its_columns_and_charges_them_together() -> None:
    curve = CurveTerm((("a", 1), ("b", 2)), (0, 5, 8, 9))
    assert [curve.cost(frozenset(chosen)).rho for chosen in ("", "a", "b", "ab")] == [0, 5, 8, 9]
    assert [curve.worst(size, frozenset("ab")).rho for size in (1, 2)] == [8, 9]
    assert curve.for_rows(3).cost(frozenset("ab")).rho == 81
    with pytest.raises(GuaranteeError, match="shorter"):
        CurveTerm((("a", 1), ("b", 2)), (0, 5, 8))


@pytest.mark.parametrize("table", [(), (1, 1), (0, 5, 4)], ids=str)
def test_a_curve_starts_at_zero_and_never_falls(table: tuple[int, ...]) -> None:
    with pytest.raises(GuaranteeError, match="starts at 0"):
        CurveTerm((("a", 1),), table)


@pytest.mark.parametrize("columns", [(), (("a", 0),), (("a", -1), ("b", 1)), (("a", True),)], ids=str)
def test_every_attribute_of_a_curve_holds_columns(columns: tuple[tuple[str, int], ...]) -> None:
    with pytest.raises(GuaranteeError, match="at least one column"):
        CurveTerm(columns, (0, 1, 1))


@pytest.mark.parametrize(
    ("table", "accepted"),
    [((0, 1, 4), True), ((0, 1, 5), False), ((0, 1, 4, 9), True), ((0, 1, 4, 10), False), ((0, 0, 1), False)],
    ids=str,
)
def test_the_root_of_a_curve_is_subadditive_up_to_equality(table: tuple[int, ...], accepted: bool) -> None:
    if accepted:
        CurveTerm((("a", 1),), table)
        return
    with pytest.raises(GuaranteeError, match="subadditive"):
        CurveTerm((("a", 1),), table)


def test_the_worst_attributes_of_a_term_are_its_heaviest_among_those_allowed() -> None:
    weights = (("a", 1), ("b", 4), ("c", 9))
    squares, touch = WeightTerm("squares", weights), WeightTerm("touch", weights)
    assert [squares.worst(k, frozenset("abc")).rho for k in (1, 2, 3)] == [9, 13, 14]
    assert squares.worst(2, frozenset("ab")).rho == 5 and touch.worst(2, frozenset("ab")).rho == 4
    assert WeightTerm("squares", weights, 2).worst(3, frozenset("abc")).rho == 13
