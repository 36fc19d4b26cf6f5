"""What a guarantee says of a set, and the discrete Gaussian's own figure, at their edges."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.checks import HasAttributes
from nabladp.errors import BudgetError, GuaranteeError
from nabladp.privacy import CDP, Guarantee, Pure, Rho, conversion, cost_index
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


MIXED = Guarantee.touch(["a", "b"], "a", Pure(0.3)) + Guarantee.touch(["a", "b"], [*"ab"], Rho(0.02))


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
        g = Guarantee.touch(["a", "b"], "a", Pure(pure)) + Guarantee.touch(["a", "b"], [*"ab"], Rho(rho))
        together = epsilon_from_rho(g.rho("a"), 1e-6)
        apart = to_float(cost_units(Pure(pure))) + epsilon_from_rho(to_float(cost_units(Rho(rho))), 1e-6)
        assert g.epsilon("a", 1e-6) == pytest.approx(min(together, apart), rel=1e-14)
        smaller.add(together < apart)
    assert smaller == {True, False}


def test_nothing_is_promised_for_a_public_attribute_however_it_is_asked() -> None:
    g = MIXED.with_public("b")
    assert g.total("b") is None and g.total([*"ab"]) is None and g.total("a") is not None
    for named in ("tight", "paper", "discrete_gaussian"):
        assert g.epsilon("b", 1e-6, named) == math.inf
    assert g.rho("b") == g.epsilon("b") == math.inf
    pure = Guarantee.touch(["a", "b"], "a", Pure(1))
    assert pure.epsilon("a", 1e-6, "discrete_gaussian") == pytest.approx(1) and pure.epsilon("a", 1e-6) > 1 - 1e-9


def test_a_figure_is_shown_no_smaller_than_it_is() -> None:
    names = [f"x{i}" for i in range(9)]
    third, bare = Guarantee.touch(names, names, Pure(1 / 3)), Guarantee.touch(names, names, Rho(1 / 3))
    assert repr(third.figure("x1")) == "Figure(x1: ρ = 0.05556, pure ε = 0.3334)"
    assert repr(bare.figure(names[:8])) == f"Figure({' + '.join(names[:8])}: ρ = 0.3334)"
    assert repr(bare.figure(names)) == f"Figure({' + '.join(names[:8])} + 1 others: ρ = 0.3334)"
    assert third.figure("x1").attributes == ("x1",)


def test_group_privacy_says_at_least_as_much_and_nothing_where_one_has_no_bound() -> None:
    pure = Guarantee.touch(["a", "b", "c"], {"a": Pure(1), "b": Pure(2), "c": Pure(4)})
    assert pure.group_bound("a") == (0.5, 1) and pure.group_bound([*"ab"]) == (4.5, 3)
    bare = Guarantee.touch(["a", "b", "c"], "a", Rho(0.5)) + Guarantee.touch(["a", "b", "c"], "b", Pure(2))
    units = half_square(root_double(cost_units(Rho(0.5))) + 2 * UNIT)
    assert bare.group_bound([*"ab"]) == (to_float(units), math.inf)
    graph = Guarantee.from_graph(["a", "b", "c"], [("x", "y", Pure(1))], on="a", values={"a": ["x", "y", "z"]})
    assert (graph + pure).group_bound([*"ab"]) == (math.inf, math.inf)


@pytest.mark.parametrize("changed", [{"format": 2}, {"unit": "2^-61"}, {"format": None}, {"unit": ""}])
def test_a_guarantee_in_other_units_is_not_read(changed: dict[str, Any]) -> None:
    assert Guarantee.from_json(AGE.to_json()) == AGE
    with pytest.raises(GuaranteeError, match="another format"):
        Guarantee.from_json({**AGE.to_json(), **changed})


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: Guarantee.touch(["a", "b"], "a", 1), "the cost must"),
        (lambda: Guarantee.touch(["a", "b"], {"a": 1}), "the cost of 'a' must"),
        (lambda: Guarantee.capped(["a", "b"], {"a": 1}), "the limit of 'a' must"),
        (lambda: Guarantee.capped(["a", "b"], {"a": Rho(1)}, {"a": 1}), "a cap must"),
        (lambda: Guarantee.from_graph([*"ab"], [("x", "y", 1)], on="a", values={"a": "xy"}), "an edge's weight must"),
    ],
)
def test_a_cost_that_does_not_say_what_it_measures_is_named(build: Callable[[], Guarantee], told: str) -> None:
    with pytest.raises(BudgetError) as error:
        build()
    assert str(error.value).startswith(told)


def test_squares_take_no_pure_costs() -> None:
    with pytest.raises(GuaranteeError, match="concentrated costs"):
        Guarantee.squares(["a", "b"], "a", Pure(1))


def test_sums_with_a_part_that_has_no_bound_have_none() -> None:
    graph = Guarantee.from_graph(["a", "b"], [("x", "y", Pure(1))], on="a", values={"a": ["x", "y", "z"]})
    g = graph + Guarantee.touch(["a", "b"], "a", Pure(1)) + Guarantee.linear(["a", "b"], [*"ab"], Pure(2))
    assert g.total("a") == cost_index.Total(None, None, None) and g.total("a").pure_of_all is None  # type: ignore[union-attr]
    assert g.total("b") == cost_index.Total(2 * UNIT, 2 * UNIT, 0) and g.epsilon("b") == 2
    assert g.epsilon("a", 1e-6) == g.epsilon("a") == g.rho("a") == math.inf


class Declared(HasAttributes):
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
    parts = [Guarantee.touch(["a"], "a", Rho(1 / Fraction(s) ** 2), gaussian_scale=s) for s in scales]
    return Guarantee.compose(["a"], parts)


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
    noise = conversion._noise(scale)
    outside = count * 2 * math.exp(-((len(noise.masses) // 2) ** 2) / (2 * scale * scale))
    *_, escaped = conversion._one_scale(scale, count)
    assert escaped - noise.narrow().power(count).escaped >= outside * (1 - 1e-6) > 0


def test_terms_of_one_scale_are_one_longer_release() -> None:
    """What another marginal adds must not replace what was there, and neither must another pure part."""
    rho = Rho(1)
    apart = Guarantee.touch(["a", "b"], "a", rho, gaussian_scale=1.0) + Guarantee.touch(
        [*"ab"], [*"ab"], rho, gaussian_scale=1.0
    )
    assert len(apart.terms) == 2
    told = apart.epsilon("a", 1e-5, "discrete_gaussian")
    assert told == pytest.approx(marginals((1.0, 1.0)).epsilon("a", 1e-5, "discrete_gaussian"), rel=1e-12)
    pure = Guarantee.touch(["a", "b"], "a", Pure(1)) + Guarantee.touch(["a", "b"], [*"ab"], Pure(2))
    assert pure.epsilon("a", 1e-5, "discrete_gaussian") == pytest.approx(3)
    assert (apart + pure).epsilon("a", 1e-5, "discrete_gaussian") == pytest.approx(told + 3)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.5, 0.99, 1.5, 4.0])
def test_the_smallest_epsilon_is_found_from_above(epsilon: float) -> None:
    losses, masses = np.array([-1.0, 0.2, 5.0]), np.array([0.5, 0.4, 0.1])
    delta = float(masses @ np.maximum(0, -np.expm1(epsilon - losses)))
    found = conversion._smallest_epsilon(losses, masses, delta * (1 + 1e-12))
    assert found == pytest.approx(epsilon, abs=1e-9)
    assert masses @ np.maximum(0, -np.expm1(found - losses)) <= delta * (1 + 1e-11)
    assert conversion._smallest_epsilon(losses, masses, 0.0) == 5.0


def test_what_escaped_is_taken_from_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    losses, masses = np.array([-1.0, 3.0]), np.array([0.9, 0.1])
    for escaped in (0.0, 0.01, 0.04, 0.05, 0.2):
        monkeypatch.setattr(conversion, "_compose", lambda _, lost=escaped: (losses, masses, lost))
        told = conversion._epsilon(Counter({1.0: 2}), 0.05)
        if escaped >= 0.05:
            assert told == math.inf
        else:
            assert told == pytest.approx(3 + math.log1p(-(0.05 - escaped) / 0.1), rel=1e-6)


def test_losses_meet_on_a_grid_and_none_falls_below_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a quotient is rounded to a whole number that times the step is too little."""
    step = 0.1
    short = [up for k in range(2, 60) if math.ceil((up := math.nextafter(k * step, 9)) / step) * step < up]
    assert short
    for loss in (*short[:5], 3 * step, 0.25, 0.6):
        groups = {
            1.0: (np.array([-0.5, loss - 0.5]), np.array([0.5, 0.5]), 0.001),
            2.0: (np.array([0.0, loss]), np.array([0.25, 0.75]), 0.002),
        }
        monkeypatch.setattr(conversion, "_one_scale", lambda scale, _, groups=groups: groups[scale])
        monkeypatch.setattr(conversion, "_step", lambda _: step)
        monkeypatch.setattr(conversion.Lattice, "narrow", lambda self: self)
        losses, masses, escaped = conversion._compose(Counter({1.0: 2, 2.0: 2}))
        kept = [(value, mass) for value, mass in zip(losses.tolist(), masses.tolist(), strict=True) if mass]
        assert [mass for _, mass in kept] == [0.125, 0.5, 0.375] and escaped == 0.003
        for (value, _), least in zip(kept, (-0.5, groups[1.0][0][1], groups[1.0][0][1] + loss), strict=True):
            assert least - 1e-15 <= value <= least + 2.001 * step


def test_what_is_cut_off_while_scales_are_joined_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion.Lattice, "narrow", lambda self: replace(self, escaped=self.escaped + 0.01))
    alone = sum(conversion._one_scale(scale, 2)[2] for scale in (1.0, 2.0))
    *_, escaped = conversion._compose(Counter({1.0: 2, 2.0: 2}))
    assert escaped >= alone + 0.02


@pytest.mark.parametrize("scale", [4000.0, 10_000.0])
def test_wide_noise_on_a_coarser_lattice_is_never_below_its_masses(scale: float) -> None:
    noise = conversion._noise(scale)
    assert noise.step in (2, 4) and len(noise.masses) == 1 - 2 * noise.start
    x = np.arange((noise.start - 1) * noise.step + 1, (noise.start + len(noise.masses) - 1) * noise.step + 1)
    law = np.exp(-(x.astype(float) ** 2) / (2 * scale**2)) / (scale * math.sqrt(2 * math.pi))
    cells = law.reshape(-1, noise.step).sum(axis=1)
    assert np.all(noise.masses >= cells * (1 - 1e-12)) and noise.masses.sum() <= 1 + 4 * noise.step / scale
    assert noise.points[0] == noise.start * noise.step <= -9.5 * scale and noise.points[-1] >= 9.5 * scale


def test_a_lattice_becomes_coarser_upward() -> None:
    for start in range(-4, 5):
        for length in range(1, 7):
            masses = np.arange(1.0, length + 1)
            fine = conversion.Lattice(1, start, masses, 0.25)
            coarse = fine.coarser()
            up = Counter[int]()
            for point, mass in zip(fine.points.tolist(), masses.tolist(), strict=True):
                up[2 * math.ceil(point / 2)] += mass
            assert {p: m for p, m in zip(coarse.points.tolist(), coarse.masses.tolist(), strict=True) if m} == dict(up)
            assert coarse.escaped == 0.25


@pytest.mark.parametrize("room", [0, 1 << 30])
@pytest.mark.parametrize("width", [1, 7, 8, 9, 20])
def test_the_index_adds_up_like_a_plain_sum_however_much_room_it_has(
    room: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_index, "_TABLE_BYTES", room)
    names, rng = [f"x{i}" for i in range(width)], np.random.default_rng(width)
    parts = [
        Guarantee.touch(names, [*rng.choice(names, int(rng.integers(1, width + 1)), replace=False)], value)
        for value in (Rho(0.1), Pure(0.2), Rho(3), CDP(1), Pure(5)) * 4
    ]
    whole = Guarantee.compose(names, parts)
    for _ in range(20):
        asked = frozenset(rng.choice(names, int(rng.integers(1, width + 1)), replace=False).tolist())
        total = cost_index.CostIndex(whole.universe, whole.terms).total(asked)
        plain = cost_index.scan_total(whole.terms, asked)
        assert total.rho == plain.rho and total.pure_of_all == plain.pure
