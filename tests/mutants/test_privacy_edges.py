"""What privacy refuses or meets only at the edges: each of these ways was open to a change that nobody would notice."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from nabladp.errors import BudgetError, GuaranteeError
from nabladp.privacy import CDP, Approx, Budget, Guarantee, Pure, Rho, cost_index
from nabladp.privacy.conversion import epsilon_from_rho, rho_for
from nabladp.privacy.terms import FREE, CappedTerm, Cost, CurveTerm, Term, WeightTerm, read_units
from nabladp.privacy.units import UNIT, exact, format_rounded
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, as_value, cost_units, limit_units

AGE = Guarantee.touch(("age",), "age", Rho(0.01))


# Values, terms


def test_a_limit_below_the_smallest_unit_is_refused() -> None:
    with pytest.raises(BudgetError, match="too small"):
        Budget(person=Rho(Fraction(1, 1 << 61))).limits(["a"])
    assert Budget(person=Rho(Fraction(1, 1 << 60))).limits(["a"])[0].units == 1


@pytest.mark.parametrize("delta", [0, 1, -0.5, 1.5])
def test_a_delta_lies_strictly_between_0_and_1(delta: float) -> None:
    with pytest.raises(BudgetError, match="between 0 and 1"):
        Approx(1, delta)


@pytest.mark.parametrize("value", [{"zcdp": 1}, {"epsilon": 1}, {"delta": 1}, {"pure": 1, "rho": 1}, {}])
def test_a_value_of_no_known_measure_is_refused(value: dict[str, float]) -> None:
    with pytest.raises(BudgetError, match=r"what it measures|has no entry|is missing|several measures"):
        as_value(value)


@pytest.mark.parametrize("delta", [1e-6, 1e-300, 0.5])
@pytest.mark.parametrize("eps", [1e-300, 1e-12, 1.0, 1e9])
def test_the_rho_of_an_approximate_limit_never_exceeds_it(eps: float, delta: float) -> None:
    """Also where ρ is so small that the search ends before two doubles meet."""
    rho = rho_for(eps, delta)
    assert rho >= 0 and (rho == 0 or epsilon_from_rho(rho, delta) <= eps)


def test_terms_refuse_what_has_no_meaning() -> None:
    with pytest.raises(GuaranteeError, match="no pure bound"):
        WeightTerm("squares", (("a", 1),), pure=True)
    with pytest.raises(GuaranteeError, match="at least one column"):
        CurveTerm((("a", 0),), (0, 1))
    with pytest.raises(GuaranteeError, match="named twice"):
        Universe(("a", "b", "a"))


def test_only_guarantees_are_added() -> None:
    with pytest.raises(TypeError):
        AGE + 1  # type: ignore[operator]


def test_records_that_a_graph_cannot_place_are_refused() -> None:
    edges = [((i, j), (k, m), CDP(1)) for i in (0, 1) for j in (0, 1) for k in (0, 1) for m in (0, 1)]
    g = Guarantee.from_graph(("a", "b"), edges, on=("a", "b"), values={"a": [0, 1], "b": [0, 1]})
    assert g.epsilon_between({"a": 0, "b": 0}, {"a": 1, "b": 0}) == 1
    with pytest.raises(GuaranteeError, match="'b'"):
        g.epsilon_between({"a": 0}, {"a": 1})


def test_the_costliest_set_has_no_bound_where_an_attribute_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Guarantee.from_graph([*"abc"], [("x", "y", Pure(1))], on="b", values={"b": ["x", "y", "z"]})
    monkeypatch.setattr(cost_index, "MOST_SUBSETS", 0)
    found = (graph + Guarantee.touch([*"abc"], "a", Rho(1))).worst_subset(2)
    assert "b" in found.attributes and found.rho == found.at_most == math.inf


# Numbers


@pytest.mark.parametrize("number", [True, "1", None, 1j, [1]])
def test_what_is_no_number_is_refused(number: object) -> None:
    with pytest.raises(BudgetError, match="must be a number"):
        exact(number)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "digits", "above", "below"),
    [
        (0.005, 4, "0.005", "0.005"),
        (1 / 3, 4, "0.3334", "0.3333"),
        (2 / 3, 1, "0.7", "0.6"),
        (123456.0, 4, "123500", "123400"),
        (99999.0, 4, "100000", "99990"),
        (9.9996, 4, "10", "9.999"),
        (10.0, 4, "10", "10"),
        (1.0, 4, "1", "1"),
        (0.1 + 0.2, 4, "0.3", "0.3"),
        (0.5, 4, "0.5", "0.5"),
        (1.00001e-9, 3, "1.01e-09", "1e-09"),
        (0.0, 4, "0", "0"),
        (math.inf, 4, "inf", "inf"),
    ],
)
def test_a_cost_is_shown_no_smaller_and_what_is_left_no_larger(
    value: float, digits: int, above: str, below: str
) -> None:
    assert (format_rounded(value, digits, up=True), format_rounded(value, digits, up=False)) == (above, below)


@pytest.mark.parametrize(
    ("make", "told"),
    [(Pure, "Pure(eps)"), (Rho, "Rho(rho)"), (CDP, "CDP(eps0)"), (lambda n: Approx(n, 0.1), "Approx(eps, …)")],
)
def test_a_budget_value_is_above_zero_and_not_beyond_meaning(make: Callable[[Any], BudgetValue], told: str) -> None:
    for number, why in ((0, "above zero"), (-1, "above zero"), (10**12 + 1, "too large .the limit"), ("1", "a number")):
        with pytest.raises(BudgetError, match=why) as error:
            make(number)
        assert str(error.value).startswith(told)
    make(10**12)
    with pytest.raises(BudgetError, match=r"^Approx\(…, delta\) must be a number"):
        Approx(1, "x")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [Pure(0.1), Rho(0.1), CDP(0.1), Approx(0.1, 1e-6)])
def test_a_value_is_read_back_from_its_plan_form(value: BudgetValue) -> None:
    assert as_value(value.to_json()) == value


@pytest.mark.parametrize("kind", [Pure, Rho, CDP])
@pytest.mark.parametrize("number", [0.1, 0.3, 1 / 3, 0.7, 1e-9])
def test_a_cost_covers_the_very_double_and_a_limit_only_what_was_written(kind: Any, number: float) -> None:
    """0.1 as a double lies above one tenth: whoever pays it pays the double, whoever allows it allows the tenth."""
    power = 2 if kind is CDP else 1
    as_double, as_written = Fraction(number) ** power / power, Fraction(str(number)) ** power / power
    assert cost_units(kind(number)) == math.ceil(max(as_double, as_written) * UNIT)
    assert limit_units(kind(number)) == math.floor(as_written * UNIT)


def test_who_is_to_blame_is_named() -> None:
    for what in ({}, 1, None):
        with pytest.raises(BudgetError, match=r"^A budget must say"):
            as_value(what)
    with pytest.raises(BudgetError, match=r"^a number must be finite"):
        exact(math.inf)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
@pytest.mark.parametrize("eps", [0.01, 1.0, 30.0, 1e4])
def test_the_rho_of_an_approximate_limit_is_the_largest_there_is(eps: float, delta: float) -> None:
    assert epsilon_from_rho(rho_for(eps, delta) * (1 + 1e-9), delta) > eps


@pytest.mark.parametrize("rho", [1e-6, 0.5, 40.0])
def test_the_conversion_of_the_paper_is_its_formula(rho: float) -> None:
    told = rho + 2 * math.sqrt(rho * math.log(1e6))
    assert told <= epsilon_from_rho(rho, 1e-6, "paper") <= told * (1 + 1e-11)


# What a term charges, and what it may never forget


def test_a_curve_is_at_its_worst_for_the_attribute_with_most_columns() -> None:
    """Whatever the names: an upper bound from the wrong attribute would be too small."""
    for most, few in (("a", "b"), ("b", "a")):
        curve = CurveTerm(tuple(sorted({most: 3, few: 1}.items())), (0, 4, 9, 16, 25))
        assert curve.worst(1, frozenset("ab")).rho == 16
        assert curve.worst(1, frozenset(few)).rho == 4 and curve.worst(2, frozenset("ab")).rho == 25
        assert curve.between({}, {}, frozenset(few)).rho == 4


def test_several_rows_cost_as_many_times_as_much_and_the_limit_stays() -> None:
    linear = WeightTerm("linear", (("a", 3), ("b", 5), ("c", 7)), 2)
    assert linear.for_rows(4) == WeightTerm("linear", (("a", 12), ("b", 20), ("c", 28)), 2)
    squares = WeightTerm("squares", (("a", 3), ("b", 5)), 1)
    assert squares.for_rows(4) == WeightTerm("squares", (("a", 48), ("b", 80)), 1)
    pure = WeightTerm("touch", (("a", 3),), None, True)
    assert pure.for_rows(4) == WeightTerm("touch", (("a", 12),), None, True)


@pytest.mark.parametrize("text", ["-5", "+5", "1_000", " 5", "5 ", "5.0", "", "٥", 5, None, 5.0])
def test_units_are_read_from_plain_digits_only(text: object) -> None:
    assert read_units("005") == 5
    with pytest.raises(GuaranteeError, match="decimal string"):
        read_units(text)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, 1])
def test_a_gaussian_scale_is_a_positive_finite_double(scale: float) -> None:
    with pytest.raises(GuaranteeError, match="Gaussian scale"):
        WeightTerm("touch", (("a", UNIT),), None, False, scale)


def test_a_curve_may_rise_as_the_square_of_its_columns_and_no_faster() -> None:
    """Faster, and two sets together would cost more than group privacy allows: sums over terms would be wrong."""
    for first, second in ((100, 400), (1, 4), (7, 28)):
        assert CurveTerm((("a", 2),), (0, first, second)).cost(frozenset("a")).rho == second
        with pytest.raises(GuaranteeError, match="subadditive"):
            CurveTerm((("a", 2),), (0, first, second + 1))
    with pytest.raises(GuaranteeError, match="subadditive"):
        CurveTerm((("a", 3),), (0, 4, 9, 26))
    assert CurveTerm((("a", 3),), (0, 4, 9, 25)).cost(frozenset("a")).rho == 25


TERMS = [
    WeightTerm("touch", (("a", 7), ("b", 2)), None, True),
    WeightTerm("linear", (("a", 7), ("b", 2)), 1),
    WeightTerm("squares", (("a", 7), ("b", 2)), 1),
    CurveTerm((("a", 2), ("b", 1)), (0, 4, 9, 16)),
    CappedTerm((("a", 7), ("b", 2)), ((("a", "b"), 8),)),
    Guarantee.from_graph(["a", "b"], [("x", "y", Pure(1))], on="a", values={"a": "xy"}).terms[0][0],
]


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.to_json()["shape"])
def test_a_term_charges_nothing_for_others_and_its_worst_for_the_costliest(term: Term) -> None:
    for free in (frozenset(), frozenset("c")):
        assert term.cost(free) == term.worst(1, free) == term.between({}, {}, free) == FREE
    assert term.worst(1, frozenset("abc")) == term.cost(frozenset("a"))
    assert term.worst(2, frozenset("abc")) == term.cost(frozenset("ab"))
    assert term.between({"a": "x"}, {"a": "y"}, frozenset("a")) == term.cost(frozenset("a"))
    twice = term.cost(frozenset("a")).times(3)
    assert (twice.rho, twice.pure) == tuple(
        None if part is None else 3 * part for part in (term.cost(frozenset("a")).rho, term.cost(frozenset("a")).pure)
    )
    assert Cost(None, None).times(2) == Cost(None, None)


def test_terms_add_up_in_any_order_and_are_read_back() -> None:
    alike = [  # told apart by one thing each
        WeightTerm("linear", (("a", 7), ("b", 2))),
        WeightTerm("linear", (("a", 7), ("b", 2)), 2),
        WeightTerm("touch", (("a", UNIT),)),
        WeightTerm("touch", (("a", UNIT),), None, False, 1.0),
    ]
    parts = [Guarantee(Universe(("a", "b")), ((term, count),)) for count, term in enumerate([*TERMS, *alike], 1)]
    forward, backward = Guarantee.compose(["a", "b"], parts), Guarantee.compose(["a", "b"], reversed(parts))
    assert forward == backward and forward.to_json() == backward.to_json()
    assert Guarantee.from_json(forward.to_json()) == forward
    assert len(forward.terms) == len(parts) and forward.rho_units("a") == sum(p.rho_units("a") or 0 for p in parts)


def test_a_capped_term_has_up_to_eight_caps() -> None:
    names = "abcdefghi"
    weights = tuple((name, 5) for name in names)
    eight = tuple(((name,), 4) for name in names[:8])
    assert CappedTerm(weights, eight).cost(frozenset(names)).rho == 8 * 4 + 5
    with pytest.raises(GuaranteeError, match="at most 8 caps"):
        CappedTerm(weights, (*eight, (("i",), 4)))


def test_concentrated_costs_that_add_up_are_no_pure_ones() -> None:
    """ε0 = 6 of a concentrated cost is ρ = 18, and promises nothing in the sense of pure ε."""
    assert WeightTerm("linear", (("a", 6 * UNIT),)).cost(frozenset("a")) == Cost(18 * UNIT, None)
    assert WeightTerm("linear", (("a", 6 * UNIT),), None, True).cost(frozenset("a")) == Cost(18 * UNIT, 6 * UNIT)
    assert WeightTerm("touch", (("a", 6 * UNIT),)).cost(frozenset("a")) == Cost(6 * UNIT, None)


@pytest.mark.parametrize(
    "weights", [(), (("a", 0),), (("a", -1),), (("a", 1.5),), (("a", True),), (("a", 1), ("b", 0))]
)
def test_every_weight_is_a_whole_number_above_zero(weights: Any) -> None:
    with pytest.raises(GuaranteeError, match="above zero"):
        WeightTerm("touch", weights)
    with pytest.raises(GuaranteeError, match="above zero"):
        CappedTerm(weights)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_a_limit_is_a_whole_number_of_at_least_one(limit: Any) -> None:
    with pytest.raises(GuaranteeError, match="limit"):
        WeightTerm("linear", (("a", 1),), limit)


@pytest.mark.parametrize("conversion", ["tight", "paper"])
def test_nothing_spent_is_nothing_and_no_bound_is_none(conversion: str) -> None:
    assert epsilon_from_rho(0.0, 1e-6, conversion) == 0 and epsilon_from_rho(math.inf, 1e-6, conversion) == math.inf


# How a budget is written


def test_a_budget_is_told_where_it_cannot_be_read() -> None:
    for build, told in (
        (
            lambda: Budget.from_json({"zzz": 1}),
            "A budget has no entry 'zzz'. Known entries: per_attribute, attributes, ",
        ),
        (lambda: Budget.from_json({"persn": 1}), "A budget has no entry 'persn'. Did you mean 'person'?"),
        (lambda: Budget(attributes=[("a", Rho(1))]), "attributes must map names"),  # type: ignore[arg-type]
        (lambda: Budget(sets=[("a", Rho(1))]), "sets must map names"),  # type: ignore[arg-type]
        (lambda: Budget(attributes={"a": 1}), "attributes['a'] must say"),  # type: ignore[dict-item]
        (lambda: Budget(sets={"a+b": 1}), "sets['a+b'] must say"),  # type: ignore[dict-item]
        (lambda: Budget(sets={" + ": Rho(1)}), "A set of attributes is named by its members."),
        (lambda: Budget(sets={(): Rho(1)}), "A set of attributes is named by its members."),
    ):
        with pytest.raises(BudgetError) as error:
            build()
        assert str(error.value).startswith(told)
    names = [f"x{i}" for i in range(12)]
    assert list(Budget(sets={frozenset(names): Rho(1)}).sets) == [tuple(sorted(names))]
