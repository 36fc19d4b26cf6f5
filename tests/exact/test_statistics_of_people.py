"""Statistics of people with many rows, exactly: each person counts once in a group, and costs less than the square.

Every table of a person with two rows (or three) and another with one, every change of one person's rows, every set T.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from nabladp.audit import audit, exact_audit
from nabladp.mechanisms.statistics import Statistics, counting
from nabladp.privacy import CDP, Guarantee, Pure
from nabladp.privacy.many_rows import Role
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

BITS = Schema((Attribute("g", "boolean"), Attribute("f", "boolean"), Attribute("v", "integer", low=0, high=1)))
PEOPLE: dict[str, Any] = {"sql": "SELECT g, COUNT(DISTINCT p) FROM t WHERE f GROUP BY g", "id": "p"}
TOTALS: dict[str, Any] = {"sql": "SELECT SUM_PER_PERSON(2 * v - 1, -1, 1) FROM t WHERE f"}
SUMS: dict[str, Any] = {"sql": "SELECT g, SUM(2 * v - 1) FROM t WHERE f GROUP BY g", "one_row_per": "g"}
CASES: dict[str, tuple[dict[str, Any], str]] = {  # and the sets whose claim is reached
    "people": (PEOPLE, "g f"),
    "people of all": ({"sql": "SELECT COUNT(DISTINCT p) FROM t WHERE f", "id": "p"}, "f"),
    "totals": (TOTALS, "f v"),
    "totals by group": ({"sql": "SELECT g, SUM_PER_PERSON(v, 0, 1) FROM t WHERE f GROUP BY g"}, "g f v"),
    "totals of what may be NULL": (
        {"sql": "SELECT g, SUM_PER_PERSON(CASE WHEN f THEN v END, 0, 1) FROM t GROUP BY g"},
        "g v",
    ),
    "one row": (SUMS, "g f v"),
    "one row, means": ({"sql": "SELECT g, COUNT(*), AVG(v) FROM t GROUP BY g", "one_row_per": "g"}, "g v"),
    "one row, of one key": ({"sql": "SELECT g, f, SUM(v) FROM t GROUP BY g, f", "one_row_per": "g"}, "g f v"),
    "one row, people": (
        {"sql": "SELECT g, f, COUNT(DISTINCT p) FROM t GROUP BY g, f", "one_row_per": "g", "id": "p"},
        "",
    ),
    "one row, roles shared": ({"sql": "SELECT v, SUM(v) FROM t WHERE g OR v = 1 GROUP BY v", "one_row_per": "v"}, ""),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("budget", [CDP(0.8), Pure(0.8)], ids=["gaussian", "laplace"])
def test_no_set_loses_more_than_claimed(name: str, budget: Any) -> None:
    options, reached = CASES[name]
    mechanism = Statistics(budget, **options)
    audited = exact_audit(mechanism, BITS, 3 if name == "people" else 2, rows_per_person=2)
    assert audited.passed
    rows = {row.attributes: row for row in audited.rows}
    for attribute in reached.split():
        row = rows[attribute,]
        assert (row.true_pure / row.claimed_pure if budget.pure else row.true_rho / row.claimed_rho) > 0.999
    one = mechanism.guarantee(BITS, 2)
    assert exact_audit(mechanism, BITS, 2).passed  # as without people
    assert one.for_rows(2).rho(BITS.names) < 4 * one.rho(BITS.names) or budget.pure


@pytest.mark.parametrize("options", [SUMS, PEOPLE, {"sql": "SELECT g, SUM_PER_PERSON(v, 0, 2) FROM t GROUP BY g"}])
def test_three_rows_over_three_groups(options: dict[str, Any]) -> None:
    letters = Attribute("g", "categorical", values=("x", "y", "z"))
    small = Schema((letters, Attribute("v", "integer", low=0, high=1)))
    own = options | {"sql": options["sql"].replace("WHERE f", "WHERE v = 1" if options is PEOPLE else "")}
    audited = exact_audit(Statistics(CDP(0.5), **own), small, 3, rows_per_person=3)
    assert audited.passed and audited.tightest.tightness > 0.45


def test_what_a_role_costs_is_the_worst_of_all_ways_to_spread_rows() -> None:
    for sides, single, double, rows, groups in itertools.product(
        (1, 2), (0, 2, 5), (0, 3, 8, 12), range(1, 6), range(1, 8)
    ):
        spread = [
            j * double + s * single
            for j in range(groups + 1)
            for s in range(groups - j + 1)
            if 2 * j + s <= sides * rows
        ]
        assert Role("a", sides, single, double).cost(rows, groups) == max(spread)


def test_costs_of_one_row_and_of_many() -> None:
    """The swap of two months: m·D for a sum that is centred, of which 2mM is only half. People: 2m, not 2m²."""
    months = Schema((Attribute("g", "integer", low=1, high=12), BITS["f"], BITS["v"]))
    for rows in (2, 5, 12):
        sums, people = (Statistics(CDP(0.1), **own).guarantee(months, 99) for own in (SUMS, PEOPLE))
        value = sums.rho("v")
        assert sums.for_rows(rows).rho("g") == pytest.approx(rows * value)
        assert sums.for_rows(rows).rho("f") == pytest.approx(rows * sums.rho("f"))
        assert people.for_rows(rows).rho("g") == pytest.approx(min(2 * rows, 12) / 2 * people.rho("g"))
        assert people.for_rows(rows).rho("f") == pytest.approx(rows * people.rho("f"))
        for_one = people.for_rows(1)  # and then two persons, who may be a couple
        assert for_one.rho("g") == people.rho("g") and for_one.for_rows(2).rho("g") == 4 * people.rho("g")
        assert Guarantee.from_json(people.to_json()) == for_one


# ---- planted faults --------------------------------------------------------------------------------------------------


def refuted(options: dict[str, Any], **more: Any) -> set[str]:
    found = exact_audit(Statistics(CDP(0.8), **options), BITS, 2, rows_per_person=2, **more).refuted
    return {"".join(row.attributes) for row in found}


def test_months_that_swap_values_at_the_cost_of_two_rows_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Role, "cost", lambda own, rows, groups: min(own.sides * rows, groups) * own.single)
    assert "g" in refuted(SUMS)


def test_values_clamped_before_they_are_added_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = counting.Sums._add_people

    def row_by_row(self: Any, total: Any, rows: Any, group: Any, counted: Any, person: Any) -> None:
        right(self, total, rows, group, counted, np.arange(len(person)))

    monkeypatch.setattr(counting.Sums, "_add_people", row_by_row)
    assert refuted({"sql": "SELECT SUM_PER_PERSON(v, 0, 1) FROM t WHERE f"}) == {"f", "v", "gf", "gv", "fv", "gfv"}


def test_a_person_counted_once_for_each_part_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CodedTable._of_people

    def by_parts(self: CodedTable, names: tuple[str, ...]) -> Any:
        for batch in whole(self, names):
            yield from (batch.slice(i, 1) for i in range(batch.num_rows))

    monkeypatch.setattr(CodedTable, "_of_people", by_parts)
    assert refuted({"sql": "SELECT COUNT(DISTINCT p) FROM t WHERE f", "id": "p"}) and refuted(TOTALS)


def test_a_first_row_chosen_by_the_filter_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter alone then decides which value is counted."""
    right = counting.Sums._is_first

    def after_the_filter(self: Any, rows: Any, person: Any) -> Any:
        kept = counting.passes(self.block.filters, rows)
        return right(self, rows, np.where(kept, person, -1 - np.arange(len(person))))

    monkeypatch.setattr(counting.Sums, "_is_first", after_the_filter)
    assert "f" in refuted(SUMS)


def test_rows_of_a_person_that_all_count_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of one row for each key where nothing holds the others back."""
    monkeypatch.setattr(counting.Sums, "_is_first", lambda self, rows, person: np.ones(len(person), bool))
    assert refuted(SUMS) == {"f", "v", "gv", "fv", "gfv"}


def test_a_filter_charged_for_people_who_come_or_leave_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It decides as well which of a person's rows are added up."""
    right = Role.cost
    thought = lambda own, *most: right(Role(own.name, own.sides, own.single, own.single), *most)  # noqa: E731
    monkeypatch.setattr(Role, "cost", thought)
    assert refuted(TOTALS) == {"f", "gf"}


def test_the_whole_audit_takes_them() -> None:
    assert audit(Statistics(CDP(0.8), **SUMS), BITS, rows_per_person=5, seconds=1).passed
