"""Where there is no bound, every figure says so: it never turns into a number."""

from __future__ import annotations

import math

import pytest

from nabladp.privacy import Guarantee, Pure, Rho
from nabladp.privacy.conversion import epsilon_from_rho
from nabladp.privacy.cost_index import scan_total

NAMES = ("v", "w", "x")
LONELY = Guarantee.from_graph(NAMES, [("0", "1", Pure(1))], on="v", values={"v": "012"})
MIXED = LONELY + Guarantee.touch(NAMES, NAMES, Rho(0.1)) + Guarantee.touch(NAMES, "w", Pure(0.2))


@pytest.mark.parametrize("conversion", ["tight", "paper"])
def test_an_infinite_rho_is_an_infinite_epsilon(conversion: str) -> None:
    assert math.isinf(epsilon_from_rho(math.inf, 1e-6, conversion))


@pytest.mark.parametrize("guarantee", [LONELY, MIXED], ids=["alone", "composed"])
def test_every_figure_of_a_set_without_a_bound(guarantee: Guarantee) -> None:
    for chosen in (["v"], ["v", "w"], NAMES):
        assert guarantee.rho_units(chosen) is None and guarantee.pure_units(chosen) is None
        figure = guarantee.figure(chosen)
        for value in (figure.rho, figure.eps0, figure.pure, figure.epsilon(1e-6), figure.epsilon(1e-6, "paper")):
            assert math.isinf(value)
        plain = scan_total(guarantee.terms, frozenset(chosen))
        assert (plain.rho, plain.pure) == (None, None)
    assert math.isinf(guarantee.group_bound("v")[0])
    assert math.isinf(guarantee.for_rows(2).rho("v"))


def test_the_other_sets_keep_their_bounds() -> None:
    assert MIXED.rho("w") == pytest.approx(0.1 + 0.2**2 / 2)
    assert LONELY.rho(["w", "x"]) == 0 and LONELY.epsilon("x") == 0


@pytest.mark.parametrize("notion", ["cdp", "pure"])
def test_records_that_no_path_connects(notion: str) -> None:
    one, other = {"v": "0", "w": 0, "x": 0}, {"v": "2", "w": 0, "x": 0}
    assert math.isinf(LONELY.epsilon_between(one, other, notion))
    assert math.isinf(MIXED.epsilon_between(one, other, notion))


def test_the_worst_sets_have_no_bound() -> None:
    worst = MIXED.worst_subset(1)
    assert worst.attributes == ("v",) and math.isinf(worst.rho) and math.isinf(worst.at_most)
