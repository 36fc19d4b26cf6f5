"""What privacy refuses or meets only at the edges: each of these ways was open to a change that nobody would notice."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nabladp.errors import BudgetError, BudgetExceeded, GuaranteeError, LedgerError
from nabladp.privacy import CDP, Approx, Budget, Guarantee, Pure, Rho, discrete_gaussian, index, worst
from nabladp.privacy.capped import CappedTerm
from nabladp.privacy.conversion import epsilon_from_rho, rho_for
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.ledger.entry import FIRST, Draft, Row
from nabladp.privacy.ledger.rules import float_below, widened
from nabladp.privacy.ledger.standing import after_budget
from nabladp.privacy.ledger.store import Store
from nabladp.privacy.ledger.totals import Tally, Totals, cost_of, keys_of, total_of
from nabladp.privacy.ledger.verify import problems
from nabladp.privacy.terms import FREE, Cost, CurveTerm, Term, WeightTerm, read_units
from nabladp.privacy.units import UNIT, exact, half_square, root_double, rounded, to_float
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, as_value, cost_units, limit_units

AGE = Guarantee.touch(("age",), "age", Rho(0.01))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with one reservation, "a"."""
    path = tmp_path / "ledger.db"
    with Ledger.open(path, ("age",), Budget(person=Rho(1))) as ledger:
        ledger.reserve(AGE, "a")
    return path


def behind_its_back(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(statement)
    raw.close()


# Values, terms, guarantees


def test_a_limit_below_the_smallest_unit_is_refused() -> None:
    with pytest.raises(BudgetError, match="too small"):
        Budget(person=Rho(Fraction(1, 1 << 61))).limits(["a"])
    assert Budget(person=Rho(Fraction(1, 1 << 60))).limits(["a"])[0].units == 1


@pytest.mark.parametrize("delta", [0, 1, -0.5, 1.5])
def test_a_delta_lies_strictly_between_0_and_1(delta: float) -> None:
    with pytest.raises(BudgetError, match="between 0 and 1"):
        Approx(1, delta)


@pytest.mark.parametrize("value", [{"zcdp": 1}, {"epsilon": 1}, {"pure": 1, "rho": 1}, {}])
def test_a_value_of_no_known_measure_is_refused(value: dict[str, float]) -> None:
    with pytest.raises(BudgetError, match="what it measures"):
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
    monkeypatch.setattr(worst, "MOST_SUBSETS", 0)
    found = (graph + Guarantee.touch([*"abc"], "a", Rho(1))).worst_subset(2)
    assert "b" in found.attributes and found.rho == found.at_most == math.inf


# Ledger


def test_totals_never_fall_below_what_one_entry_added() -> None:
    for booked in (Tally(rho=1), Tally(pure=1), Tally(unbounded_rho=1), Tally(unbounded_pure=1)):
        assert booked - booked == Tally()
        with pytest.raises(LedgerError, match="totals"):
            Tally() - booked


def test_an_entry_that_is_no_table_cannot_be_read() -> None:
    row = Row.seal(Draft("reserve", "a", {}), 2, "now", {}, FIRST)
    assert row.intact() and row.entry().name == "a"
    for payload, totals in (("[]", "{}"), ("{}", "7"), ("{", "{}")):
        changed = Row(**{**vars(row), "payload": payload, "totals": totals})
        assert not changed.intact()
        with pytest.raises(LedgerError, match="cannot be read"):
            changed.entry()


def test_a_free_name_is_suggested_that_the_plan_does_not_ask_for_either(path: Path) -> None:
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="already") as error:
        ledger.reserve_all([(AGE, "a-2", {}), (AGE, "a", {}), (AGE, "a-3", {})])
    assert error.value.fields["suggestion"] == "a-4"


def test_a_store_opened_for_reading_never_writes(path: Path) -> None:
    store = Store.at(path, read_only=True, create=False, patience=1.0)
    with pytest.raises(LedgerError, match="for reading"):
        store.write(lambda transaction: transaction.append([]))
    store.close()


def test_there_is_a_ledger_or_there_is_none(path: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    assert Ledger.exists(path) and not Ledger.exists(empty)
    empty.touch()
    assert not Ledger.exists(empty)
    with pytest.raises(LedgerError, match="holds no ledger"):
        Ledger.migrate(empty)


def test_nothing_is_booked_where_the_head_no_longer_follows(path: Path) -> None:
    behind_its_back(path)
    with Ledger.open(path) as ledger:
        with pytest.raises(LedgerError, match="broken"):
            ledger.reserve(AGE, "b")
        assert ledger.head.seq == 2 and ledger.verify() == []


def test_limits_are_not_read_from_an_entry_that_was_changed(path: Path) -> None:
    behind_its_back(path, "UPDATE entries SET payload = replace(payload, '\"rho\"', '\"pure\"') WHERE seq = 1")
    with Ledger.read(path) as ledger, pytest.raises(LedgerError, match="broken"):
        ledger.spent()


def test_verification_looks_no_further_than_where_the_ledger_stood(path: Path) -> None:
    """Another client may go on while the chain is walked."""
    with Ledger.open(path) as ledger:
        before = ledger.head
        ledger.reserve(AGE, "b")
        store = Store.at(path, read_only=True, create=False, patience=1.0)
        rows = store.read(lambda transaction: list(transaction.walk()))
        identity = store.identity()
        store.close()
    assert [row.seq for row in rows] == [1, 2, 3]
    assert list(problems(identity, (before.seq, before.hash), before.seq, lambda: rows)) == []
    assert [p.what for p in problems(identity, (before.seq, before.hash), 3, lambda: rows)] == ["head"]


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
    assert (rounded(value, digits, up=True), rounded(value, digits, up=False)) == (above, below)


@pytest.mark.parametrize(
    ("make", "told"),
    [(Pure, "Pure(eps)"), (Rho, "Rho(rho)"), (CDP, "CDP(eps0)"), (lambda n: Approx(n, 0.1), "Approx(eps, …)")],
)
def test_a_budget_value_is_above_zero_and_not_beyond_meaning(make: Callable[[Any], BudgetValue], told: str) -> None:
    for number, why in ((0, "above zero"), (-1, "above zero"), (10**12 + 1, "beyond"), ("1", "a number")):
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
        with pytest.raises(BudgetError, match=r"^a budget must say"):
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
    Guarantee.from_graph("ab", [("x", "y", Pure(1))], on="a", values={"a": "xy"}).terms[0][0],
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
    forward, backward = Guarantee.compose("ab", parts), Guarantee.compose("ab", reversed(parts))
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


def test_sets_keep_the_short_names_under_which_ledgers_have_them() -> None:
    people = Universe(("a", "b", "c", "d"), {}, frozenset("b"))
    limits = Budget(per_attribute=Rho(1), sets={"a+d": Rho(1)}, person=Rho(1)).limits(people)
    assert list(keys_of(people, limits).values()) == ["0", "2", "3", "0+3", "*"]


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


def test_a_limit_tells_how_it_stands(path: Path) -> None:
    with Ledger.open(path) as ledger:
        (line,) = ledger.spent()
        with pytest.raises(BudgetExceeded) as error:
            ledger.reserve(Guarantee.touch(("age",), "age", Rho(2)), "b")
    facts = {"limit": "person", "measure": "ρ", "spent": line.spent, "left": line.left, "allowed": 1.0}
    assert line.to_json() == facts | {"attributes": ["age"], "value": {"rho": 1}, "exceeded": False}
    assert error.value.fields == facts | {"limits": ["person"], "requested": 2.0}
    assert line.spent >= 0.01 and line.left <= 0.99


@pytest.mark.parametrize("units", [0, 1, 2**53 + 1, 2**53 + 3, 2**60, 2**70 - 1, 2**70 + 1, 10**30])
def test_what_is_left_is_the_largest_double_that_does_not_exceed_it(units: int) -> None:
    left = float_below(units)
    assert Fraction(left) * UNIT <= units < Fraction(math.nextafter(left, math.inf)) * UNIT


def test_a_ledger_learns_derived_columns_and_forgets_nothing() -> None:
    ours = Universe(("age", "sex"), {"band": ("age",)}, frozenset({"sex"}))
    theirs = Universe(("sex", "age"), {"old": ("age",)}, frozenset({"sex"}))
    assert widened(ours, theirs) == Universe(ours.roots, {"band": ("age",), "old": ("age",)}, frozenset({"sex"}))
    for other, told in (
        (Universe(("age", "sex")), "holds for public the attribute 'sex'"),
        (Universe(ours.roots, {}, frozenset(ours.roots)), "protects the attribute 'age'"),
        (Universe(("age", "sex", "x", "y"), {}, ours.public), r"has no attribute 'x' \(and 1 more\)"),
        (Universe(("sex",), {}, ours.public), "also has the attribute 'age'"),
        (Universe(ours.roots, {"band": ("sex",)}, ours.public), "derives from other sources the column 'band'"),
    ):
        with pytest.raises(LedgerError, match=f"it {told}"):
            widened(ours, other)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET totals = '{}' WHERE seq = 2",
        "UPDATE entries SET name = 'z' WHERE seq = 2",
        f"UPDATE head SET hash = '{FIRST}'",
        "UPDATE head SET seq = 3",
    ],
)
def test_nothing_is_read_or_booked_where_the_last_entry_is_not_what_was_written(path: Path, change: str) -> None:
    """Its totals are what every limit is held against: lowered by hand, they would make room that is not there."""
    behind_its_back(path, change)
    with pytest.raises(LedgerError, match="broken"), Ledger.open(path) as ledger:
        ledger.reserve(AGE, "b")
    with pytest.raises(LedgerError, match="broken"), Ledger.read(path) as reader:
        reader.spent()


def test_a_new_budget_forgets_nothing_that_was_spent() -> None:
    """Sets that stay keep their totals, sets that are new are counted from the beginning, others are dropped."""
    a, b, both = frozenset("a"), frozenset("b"), frozenset("ab")
    before = Totals(1, 1, {"0": Tally(rho=5), "*": Tally(rho=7)})
    spent = [Guarantee.touch("ab", "b", Rho(Fraction(units, UNIT))) for units in (2, 3)]
    after = after_budget(before, 9, {a: "0", both: "*"}, {a: "0", b: "1"}, lambda: spent)
    assert after == Totals(9, 1, {"0": Tally(rho=5), "1": total_of(cost_of(g, {b: "1"}) for g in spent)["1"]})
    assert after.on("1").units(pure=False) == 5
