"""The set function: its laws over random compositions and all subsets, its queries, its JSON."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp.errors import BudgetError, GuaranteeError, UnknownAttribute
from nabladp.privacy.cost_index import scan_total
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import CDP, Approx, Pure, Rho, as_value

NAMES = ("a", "b", "c", "d")
SUBSETS = [frozenset(s) for size in range(5) for s in itertools.combinations(NAMES, size)]
UNIT = 2.0**-60

amounts = st.integers(1, 2000).map(lambda i: Fraction(i, 997))
concentrated = amounts.map(Rho) | amounts.map(CDP)
pure = amounts.map(Pure)
supports = st.sets(st.sampled_from(NAMES), min_size=1)


@st.composite
def weighted(draw: st.DrawFn, values: st.SearchStrategy) -> dict[str, object]:
    return {name: draw(values) for name in draw(supports)}


@st.composite
def graphs(draw: st.DrawFn) -> Guarantee:
    kind = draw(st.sampled_from([Pure, CDP]))
    name = draw(st.sampled_from(NAMES))
    chain = [(str(i), str(i + 1), kind(draw(amounts))) for i in range(3)]
    return Guarantee.from_graph(NAMES, chain, on=name, values={name: "0123"})


@st.composite
def capped(draw: st.DrawFn) -> Guarantee:
    caps = draw(st.dictionaries(supports.map(lambda names: tuple(sorted(names))), concentrated, max_size=4))
    return Guarantee.capped(NAMES, draw(weighted(concentrated)), caps)


limits = st.none() | st.integers(1, 4)
single = st.one_of(
    weighted(concentrated).map(lambda w: Guarantee.touch(NAMES, w)),
    weighted(pure).map(lambda w: Guarantee.touch(NAMES, w)),
    st.builds(lambda w, m: Guarantee.linear(NAMES, w, limit=m), weighted(pure) | weighted(concentrated), limits),
    st.builds(lambda w, m: Guarantee.squares(NAMES, w, limit=m), weighted(concentrated), limits),
    amounts.map(lambda r: Guarantee.curve(NAMES, {"a": 1, "b": 2, "c": 1}, [r * t * (6 - t) for t in (0, 1, 2, 3, 3)])),
    graphs(),
    capped(),
)
composed = st.lists(single, max_size=6)


@settings(max_examples=150, deadline=None)
@given(composed)
def test_laws_over_all_subsets(parts: list[Guarantee]) -> None:
    g = Guarantee.compose(NAMES, parts)
    rho = {s: g.rho_units(s) for s in SUBSETS}
    eps = {s: g.pure_units(s) for s in SUBSETS}
    assert rho[frozenset()] == 0 and eps[frozenset()] == 0
    slack = 4 * (len(parts) + 1)  # every term may round up by a unit
    for s, t in itertools.product(SUBSETS, SUBSETS):
        union = s | t
        assert rho[union] >= max(rho[s], rho[t]) - slack if s | t != s else True
        assert math.sqrt(rho[union]) <= math.sqrt(rho[s] + slack) + math.sqrt(rho[t] + slack) + 1e-3
        if eps[s] is not None and eps[t] is not None:
            assert eps[union] is not None and eps[union] <= eps[s] + eps[t]
            assert eps[union] >= max(eps[s], eps[t])
        else:
            assert eps[union] is None


@settings(max_examples=100, deadline=None)
@given(composed, st.randoms(use_true_random=False))
def test_composition_is_free_of_order_and_adds_per_set(parts: list[Guarantee], random: object) -> None:
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    g, h = Guarantee.compose(NAMES, parts), Guarantee.compose(NAMES, shuffled)
    assert g == h and hash(g) == hash(h)
    folded = Guarantee.none(NAMES)
    for part in parts:
        folded = folded + part
    assert folded == g
    for s in SUBSETS:
        assert g.rho_units(s) == sum(part.rho_units(s) for part in parts)
        each = [part.pure_units(s) for part in parts]
        assert g.pure_units(s) == (None if None in each else sum(each))


@settings(max_examples=100, deadline=None)
@given(composed)
def test_index_agrees_with_the_plain_sum_and_json_round_trips(parts: list[Guarantee]) -> None:
    g = Guarantee.compose(NAMES, parts)
    again = Guarantee.from_json(json.loads(json.dumps(g.to_json())))
    assert again == g
    for s in SUBSETS:
        plain = scan_total(g.terms, s)
        assert (g.rho_units(s), g.pure_units(s)) == (plain.rho, plain.pure)
        assert again.rho_units(s) == plain.rho


@settings(max_examples=60, deadline=None)
@given(composed, st.sampled_from([1e-3, 1e-6, 1e-10]))
def test_epsilon_at_delta_never_exceeds_either_route(parts: list[Guarantee], delta: float) -> None:
    g = Guarantee.compose(NAMES, parts)
    for s in SUBSETS:
        tight, paper = g.epsilon(s, delta), g.epsilon(s, delta, "paper")
        assert tight <= paper + 1e-9
        assert tight <= g.epsilon(s) * (1 + 1e-9)  # a pure bound is an (ε, δ) bound
        assert (tight == 0) == (not s) or tight > 0 or g.rho(s) < 1e-2


def test_repeats_are_counted() -> None:
    once = Guarantee.touch(NAMES, ["a"], Pure(0.5))
    assert Guarantee.compose(NAMES, [once] * 30).epsilon(["a"]) == 15.0


def test_touch_takes_the_largest_weight() -> None:
    g = Guarantee.touch(NAMES, {"a": Rho(0.5), "b": Rho(0.25)})
    assert (g.rho(["a"]), g.rho(["b"]), g.rho(["a", "b"]), g.rho(["c"])) == (0.5, 0.25, 0.5, 0.0)


def test_unequal_budgets_take_the_largest_weights() -> None:
    """Selection (sum of the m largest e_j)²/2, answers (sum of the m largest e_j²)/2."""
    weights = {"a": CDP(1), "b": CDP(2), "c": CDP(3)}
    assert Guarantee.linear(NAMES, weights, limit=2).rho([*"abc"]) == pytest.approx((3 + 2) ** 2 / 2)
    assert Guarantee.squares(NAMES, weights, limit=2).rho([*"abc"]) == pytest.approx((9 + 4) / 2)


def test_derived_columns_are_their_sources() -> None:
    u = Universe(("age", "sex", "region"), {"age_band": ("age",), "profile": ("age", "sex")})
    g = Guarantee.touch(u, ["age_band"], Rho(0.1)) + Guarantee.touch(u, ["profile"], Rho(0.2))
    assert g.rho("age") == pytest.approx(0.3)
    assert g.rho("sex") == pytest.approx(0.2)
    assert g.rho("age_band") == g.rho("age")
    assert g.rho("region") == 0


def test_public_attributes_have_no_promise_and_do_not_enter_the_person() -> None:
    """Label privacy: everything but the label is public."""
    u = Universe(("x1", "x2", "label"), {}, frozenset({"x1", "x2"}))
    g = Guarantee.touch(u, ["x1", "x2", "label"], Pure(1))
    assert g.epsilon("label") == 1
    assert g.per_person().pure == 1 and g.per_person().attributes == ("label",)
    assert math.isinf(g.epsilon("x1")) and math.isinf(g.epsilon(["x1", "label"], 1e-6))
    assert math.isinf(g.epsilon_between({"x1": 0, "label": 0}, {"x1": 1, "label": 0}))
    plain = Guarantee.touch(NAMES, [*"ab"], Pure(1))
    assert math.isinf(plain.with_public("a").rho("a")) and plain.with_public("a").rho("b") == plain.rho("b")


def test_graph_between_values_of_one_attribute() -> None:
    chain = [(str(i), str(i + 1), Pure(0.5)) for i in range(4)]
    g = Guarantee.from_graph(["age", "sex"], chain, on="age", values={"age": "01234"})
    assert g.epsilon("age") == 2.0 and g.epsilon("sex") == 0.0
    assert g.epsilon_between({"age": 1, "sex": "f"}, {"age": 3, "sex": "m"}, "pure") == 1.0
    assert g.epsilon_between({"age": 1, "sex": "f"}, {"age": 3, "sex": "f"}) == pytest.approx(1.0)


def test_graph_prefers_the_shortest_path_and_isolated_values_have_no_bound() -> None:
    edges = [("0", "1", CDP(1)), ("1", "2", CDP(1)), ("0", "2", CDP(5))]
    g = Guarantee.from_graph(["v"], edges, on="v", values={"v": "012"})
    assert g.rho("v") == pytest.approx(2.0) and math.isinf(g.epsilon("v"))
    lonely = Guarantee.from_graph(["v"], edges, on="v", values={"v": "0123"})
    assert math.isinf(lonely.rho("v")) and lonely.rho([]) == 0
    assert math.isinf(lonely.epsilon_between({"v": 0}, {"v": 3}))


def test_graph_between_records_gives_the_hamming_distance() -> None:
    records = list(itertools.product("01", repeat=3))
    edges = [
        (x, y, Pure(0.25)) for x in records for y in records if sum(a != b for a, b in zip(x, y, strict=True)) == 1
    ]
    g = Guarantee.from_graph(["a", "b", "c"], edges, on=[*"abc"], values=dict.fromkeys("abc", "01"))
    hamming = Guarantee.linear(["a", "b", "c"], [*"abc"], Pure(0.25))
    for size in range(4):
        for chosen in itertools.combinations("abc", size):
            assert g.pure_units(chosen) == hamming.pure_units(chosen)


def test_epsilon_between_records_charges_what_differs() -> None:
    g = Guarantee.touch(NAMES, [*"ab"], Pure(0.3)) + Guarantee.touch(NAMES, "c", Pure(0.4))
    one, other = {"a": 1, "b": 2, "c": 3, "d": 4}, {"a": 1, "b": 9, "c": 3, "d": 9}
    assert g.epsilon_between(one, other, "pure") == pytest.approx(0.3)
    assert g.epsilon_between(one, one, "pure") == 0
    with pytest.raises(GuaranteeError):
        g.epsilon_between(one, {"a": 1})


def test_worst_subset_exact_and_bounded() -> None:
    g = Guarantee.compose(
        NAMES, [Guarantee.touch(NAMES, s, Rho(r)) for s, r in [([*"ab"], 1), ([*"ac"], 1), ("d", 1.5)]]
    )
    worst = g.worst_subset(2)
    assert worst.exact and set(worst.attributes) == {"a", "d"} and worst.rho == 3.5
    wide = [f"x{i}" for i in range(60)]
    pairs = [
        Guarantee.touch(wide, s, Rho(Fraction(i % 7 + 1, 10))) for i, s in enumerate(itertools.combinations(wide, 2))
    ]
    big = Guarantee.compose(wide, pairs)
    many = big.worst_subset(10)
    assert not many.exact and many.rho <= many.at_most <= big.per_person().rho
    assert big.rho(many.attributes) == many.rho
    with pytest.raises(GuaranteeError):
        g.worst_subset(5)


def test_worst_subset_bound_holds_for_every_small_set() -> None:
    from nabladp.privacy.cost_index import _upper_bound

    parts = [
        Guarantee.curve(NAMES, {"a": 1, "b": 1, "c": 2, "d": 2}, [0, 5, 5, 9, 10, 11, 12]),
        Guarantee.linear(NAMES, {"a": CDP(1), "b": CDP(0.5)}, limit=1),
        Guarantee.touch(NAMES, {"a": Rho(1), "c": Rho(3)}),
    ]
    for chosen in [parts, *([p] for p in parts)]:
        g = Guarantee.compose(NAMES, chosen)
        for size in range(1, 5):
            assert g.worst_subset(size).rho * 2**60 <= _upper_bound(g._index, NAMES, size) * (1 + 1e-12)


def test_several_rows_per_person() -> None:
    g = (
        Guarantee.touch(NAMES, "a", Rho(0.1))
        + Guarantee.linear(NAMES, [*"bc"], Pure(0.2))
        + Guarantee.squares(NAMES, "d", Rho(0.3))
    )
    triple = g.for_rows(3)
    assert triple.rho("a") == pytest.approx(0.9)
    assert triple.epsilon([*"bc"]) == pytest.approx(1.2)
    assert triple.rho("d") == pytest.approx(2.7)


def test_group_bound_is_never_below_the_tight_figure() -> None:
    g = Guarantee.compose(NAMES, [Guarantee.touch(NAMES, s, Rho(0.1)) for s in itertools.combinations(NAMES, 2)])
    rho, _ = g.group_bound(NAMES)
    assert rho > g.rho(NAMES) and rho == pytest.approx((4 * math.sqrt(0.3)) ** 2)


def test_costs_round_up_and_limits_down() -> None:
    from nabladp.privacy.values import cost_units, limit_units

    tenth = Rho(0.1)
    assert cost_units(tenth) > limit_units(tenth)
    assert Fraction(cost_units(tenth), 2**60) >= Fraction(0.1)  # also above the double that was meant by it
    assert Fraction(limit_units(tenth), 2**60) < Fraction(1, 10) < Fraction(cost_units(tenth), 2**60)
    assert 10 * limit_units(tenth) <= limit_units(Rho(1))


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), True, "1", None])
def test_budget_values_refuse_what_makes_no_sense(bad: object) -> None:
    for kind in (Pure, CDP, Rho):
        with pytest.raises(BudgetError):
            kind(bad)  # type: ignore[arg-type]


def test_bare_numbers_are_refused_with_the_fix() -> None:
    with pytest.raises(
        BudgetError, match=r"^A budget must say what it measures: it is a bare number\. .* in Python CDP\(0\.2\)"
    ):
        as_value(0.5)
    assert as_value({"cdp": 0.5}) == CDP(0.5)
    assert as_value({"epsilon": 1.0, "delta": 1e-6}) == Approx(1.0, 1e-6)


def test_approx_is_the_largest_rho_within_it() -> None:
    from nabladp.privacy.conversion import epsilon_from_rho

    rho = float(Approx(1.0, 1e-6).amount())
    assert epsilon_from_rho(rho, 1e-6) <= 1.0 < epsilon_from_rho(rho * 1.001, 1e-6)


def test_misspelt_attribute_is_an_error_never_a_zero() -> None:
    g = Guarantee.touch(["income", "age"], ["income"], Rho(0.1))
    with pytest.raises(UnknownAttribute, match="Did you mean 'income'"):
        g.rho(["incmoe"])


@pytest.mark.parametrize(
    "broken", [{}, {"format": 99, "unit": "2^-60"}, {"format": 1, "unit": "2^-60", "universe": {}, "terms": []}, [1]]
)
def test_broken_json_is_refused(broken: object) -> None:
    with pytest.raises(GuaranteeError):
        Guarantee.from_json(broken)  # type: ignore[arg-type]


def test_curve_must_be_subadditive_in_its_root() -> None:
    with pytest.raises(GuaranteeError, match="subadditive"):
        Guarantee.curve(NAMES, {"a": 1, "b": 1}, [0, 1, 100])


def test_different_universes_do_not_add() -> None:
    with pytest.raises(GuaranteeError, match="different attributes"):
        Guarantee.none(["a", "b"]) + Guarantee.none(["a", "b", "c"])


@pytest.mark.parametrize("table_bytes", [0, 1 << 26])
def test_index_with_a_row_per_attribute_or_per_eight(monkeypatch: pytest.MonkeyPatch, table_bytes: int) -> None:
    from nabladp.privacy import cost_index

    monkeypatch.setattr(cost_index, "_TABLE_BYTES", table_bytes)
    names = [f"x{i}" for i in range(21)]
    parts = [Guarantee.touch(names, names[i : i + 3], Rho(Fraction(i + 1, 7))) for i in range(18)]
    g = Guarantee.compose(names, parts)
    for start, size in itertools.product(range(21), (1, 2, 5, 21)):
        chosen = frozenset(names[start : start + size])
        assert g.rho_units(chosen) == scan_total(g.terms, chosen).rho


def test_one_attribute_and_no_terms() -> None:
    assert Guarantee.none(["only"]).rho("only") == 0
    assert Guarantee.touch(["only"], "only", Rho(0.5)).per_person().rho == 0.5


def test_columns_of_one_source_add_up_where_costs_add_up() -> None:
    """band is derived from age: both columns move with age. A touch term charges that once, the others twice."""
    u = Universe(("age", "sex"), {"band": ("age",)})
    both = ["age", "band"]
    assert Guarantee.linear(u, both, Pure(1)).epsilon("age") == 2
    assert Guarantee.squares(u, both, Rho(1)).rho("age") == 2
    assert Guarantee.touch(u, both, Pure(1)).epsilon("age") == 1


def test_an_approximate_guarantee_is_no_cost() -> None:
    with pytest.raises(BudgetError, match="no bound in ρ"):
        Guarantee.touch(NAMES, "a", Approx(1, 1e-6))


@pytest.mark.parametrize(
    "change",
    [
        {"count": -1},
        {"count": 0},
        {"count": 0.5},
        {"count": True},
        {"on": ["nobody"]},
        {"on": ["band"]},
        {"on": []},
        {"weight": "-5"},
        {"weight": 1.9},
        {"weight": "0"},
        {"pure": "false"},
        {"limit": 1.5},
        {"limit": 0},
        {"shape": "free"},
        {"gaussian_scale": 1.0},
    ],
    ids=str,
)
def test_forged_terms_are_refused(change: dict[str, object]) -> None:
    u = Universe(("age", "sex"), {"band": ("age",)})
    data = Guarantee.squares(u, ["age"], Rho(1), limit=1).to_json()
    data["terms"][0].update(change)
    with pytest.raises((GuaranteeError, UnknownAttribute)):
        Guarantee.from_json(data)


@pytest.mark.parametrize("values", [[[]], [["0", "0"]], [["0"], ["1"]], []], ids=str)
def test_forged_graphs_are_refused(values: list[list[str]]) -> None:
    data = Guarantee.from_graph(["v"], [("0", "1", Pure(1))], on="v", values={"v": "01"}).to_json()
    data["terms"][0].update({"values": values, "edges": []})
    with pytest.raises(GuaranteeError):
        Guarantee.from_json(data)


@pytest.mark.parametrize("scale", [100.0, 0.5, float("nan"), 0.0, -1.0, "x"])
def test_a_gaussian_scale_must_be_the_one_that_is_paid_for(scale: object) -> None:
    with pytest.raises(GuaranteeError, match="Gaussian scale"):
        Guarantee.touch(NAMES, "a", Rho(1), gaussian_scale=scale)  # type: ignore[arg-type]
    with pytest.raises(GuaranteeError, match="Gaussian scale"):
        Guarantee.touch(NAMES, {"a": Rho(1), "b": Rho(2)}, gaussian_scale=1.0)


@pytest.mark.parametrize("rows", [0, -1, 1.5, float("nan"), True, 10**7])
def test_rows_per_person_must_be_a_sensible_number(rows: object) -> None:
    with pytest.raises(GuaranteeError):
        Guarantee.touch(NAMES, "a", Rho(1)).for_rows(rows)  # type: ignore[arg-type]


def test_costs_beyond_meaning_are_refused_and_shown_as_no_bound() -> None:
    from nabladp.privacy.units import to_float

    with pytest.raises(BudgetError, match="is too large"):
        Rho(1e300)
    assert math.isinf(to_float(10**400))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Guarantee.touch(NAMES, {"a": Rho(1), "b": Pure(1)}),
        lambda: Guarantee.touch(NAMES, {"a": Rho(1)}, Rho(1)),
        lambda: Guarantee.squares(NAMES, "a", Pure(1)),
        lambda: Guarantee.capped(NAMES, {"a": Pure(1)}),
        lambda: Guarantee.capped(NAMES, {"a": Rho(1), "b": Rho(1)}, {("a", "b"): Pure(1)}),
        lambda: Guarantee.curve(NAMES, {"a": 3}, [0, 1]),
        lambda: Guarantee.curve(NAMES, {"a": 1}, [1, 2]),
        lambda: Guarantee.from_graph(NAMES, [], on="a"),
        lambda: Guarantee.from_graph(["v"], [("0", "9", Pure(1))], on="v", values={"v": "01"}),
        lambda: Guarantee.from_graph(["v"], [("0", "1", Pure(1)), ("0", "1", CDP(1))], on="v", values={"v": "01"}),
        lambda: Guarantee.from_graph(Universe(("a",), {"b": ("a",)}), [], on="b", values={"b": "01"}),
        lambda: Guarantee.from_graph([*"abcd"], [], on=[*"abcd"], values=dict.fromkeys("abcd", "0123456789")),
        lambda: Guarantee.none(NAMES).epsilon_between({}, {}, "approx"),
        lambda: Universe(("a", "a")),
    ],
)
def test_guarantees_that_make_no_sense_are_refused(build: object) -> None:
    with pytest.raises(GuaranteeError) as caught:
        build()  # type: ignore[operator]
    assert caught.value.fix


def test_a_schema_gives_a_graph_its_domain() -> None:
    from nabladp.schema import Attribute, Schema

    schema = Schema((Attribute("age", "integer", low=0, high=3), Attribute("sex", "boolean")))
    edges = [({"age": i}, {"age": i + 1}, Pure(0.5)) for i in range(3)]
    g = Guarantee.from_graph(schema, edges, on="age")
    assert g.epsilon("age") == 1.5 and g.worst_subset(1).attributes == ("age",)
    assert g.for_rows(2).epsilon("age") == 3.0
    with pytest.raises(GuaranteeError, match="lack 'age'"):
        Guarantee.from_graph(schema, [], on=["age", "sex"]).epsilon_between({"sex": 0}, {"sex": 1})


def test_the_figure_of_many_attributes_is_told_briefly() -> None:
    names = [f"a{i}" for i in range(1000)]
    told = repr(Guarantee.linear(names, names, Rho(1)).figure(names))
    assert told.startswith("Figure(a0 + a1 + ") and "a7 + 992 others: ρ = " in told and "a8" not in told
