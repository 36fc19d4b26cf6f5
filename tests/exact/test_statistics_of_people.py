"""Statistics of people with many rows, exactly: each person counts once in a group, and costs less than the square.

Every table of a person with two rows (or three) and another with one, every change of one person's rows, every set T.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp.audit import audit, exact_audit
from nabladp.mechanisms.statistics import Statistics, counting
from nabladp.mechanisms.statistics.blocks import Block
from nabladp.mechanisms.statistics.counting import exact_numbers
from nabladp.person import Person
from nabladp.privacy import CDP, Guarantee, Pure
from nabladp.privacy.many_rows import Role
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, Table, open_table

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
    "one row, of a key with one value": (
        {"sql": "SELECT g, v, COUNT(*) FROM t WHERE f AND v = 1 GROUP BY g, v", "one_row_per": "v"},
        "g v",
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


# ---- many queries, drawn at random -----------------------------------------------------------------------------------

KEYS = (
    (),
    ("g",),
    ("f",),
    ("g", "f"),
    ("g", "v"),
    ("f AND v = 1", "g"),
    ("g", "CASE WHEN f THEN v ELSE 0 END"),
    ("v + 1",),
)
CONDITIONS = ("", "f", "v > 0", "NOT f", "g = 'x'", "f OR g = 'x'", "f AND v = 1", "NOT f AND g <> 'y'")
VALUES = ("v", "2 * v - 1", "v - 2", "CASE WHEN f THEN v END", "CASE WHEN g = 'x' THEN v ELSE 1 END")
BOUNDS = ((0, 1), (0, 3), (-1, 1), (-2, 0), (5, 6))


def drawn(seed: int) -> tuple[Schema, Statistics, random.Random]:
    """A query about people, with keys that conditions may narrow to a single value."""
    draw = random.Random(seed)
    letters = Attribute("g", "categorical", values=tuple("xyz"[: draw.choice((2, 3))]))
    schema = Schema((letters, BITS["f"], Attribute("v", "integer", low=0, high=draw.choice((1, 2)))))
    keys, where, value = draw.choice(KEYS), draw.choice(CONDITIONS), draw.choice(VALUES)
    low, high = draw.choice(BOUNDS)
    names = [f"k{i}" for i in range(len(keys))]
    kinds = (
        "COUNT(DISTINCT p)",
        f"SUM_PER_PERSON({value}, {low}, {high})",
        f"SUM({value})",
        "COUNT(*)",
        f"AVG({value})",
    )
    listed = [*map("{} AS {}".format, keys, names), *draw.sample(kinds, draw.choice((1, 2)))]
    sql = f"SELECT {', '.join(listed)} FROM t" + f" WHERE {where}" * bool(where)
    sql += f" GROUP BY {', '.join(names)}" * bool(keys)
    once = draw.sample(names, draw.randint(0, len(names)))
    return schema, Statistics(draw.choice((CDP(0.8), Pure(0.8))), sql, id="p", one_row_per=once), draw


def losses(schema: Schema, mechanism: Statistics, rows: int, draw: random.Random) -> dict[int, float]:
    """By the set of columns that differ (a bit each), the largest loss between tables of one person's rows: what
    their exact numbers differ by, in the scales of the noise."""
    records = list(itertools.product(*(range(attribute.size) for attribute in schema)))
    own, other = list(itertools.product(records, repeat=rows)), draw.choice(records)
    own = np.array(draw.sample(own, min(len(own), 150)))
    calibration, numbers = mechanism.calibration(schema), []
    for one in own:
        codes = {name: [other[i], *one[:, i]] for i, name in enumerate(schema.names)}
        exact = exact_numbers(calibration, CodedTable(schema, codes, people=[1] + [0] * rows))
        scales = [[calibration.scales(i, j, 1 + rows) for j in range(len(block))] for i, block in enumerate(exact)]
        parts = [(part, scales[i][j]) for i, block in enumerate(exact) for j, part in enumerate(block)]
        numbers.append(np.concatenate([(part / (1e-9 if scale is None else scale)).ravel() for part, scale in parts]))
    found: dict[int, float] = {}
    for one, here in zip(own, np.array(numbers), strict=True):
        moved = np.abs(np.array(numbers) - here)
        loss = moved.sum(1) if mechanism.budget.pure else (moved**2).sum(1) / 2
        differing = (own != one).any(1) @ (1 << np.arange(len(schema.names)))
        for columns in set(differing.tolist()):
            found[columns] = max(found.get(columns, 0), loss[differing == columns].max())
    return found


def unsound(seed: int) -> bool:
    schema, mechanism, draw = drawn(seed)
    rows, names = draw.choice((2, 3)), np.array(schema.names)
    claim, found = mechanism.guarantee(schema, 1 + rows).for_rows(rows), losses(schema, mechanism, rows, draw)
    for chosen in range(1 << len(names)):
        attributes = [name for i, name in enumerate(schema.names) if chosen >> i & 1]
        most = max((loss for columns, loss in found.items() if not columns & ~chosen), default=0)
        if most > (1 + 1e-9) * (claim.epsilon(attributes) if mechanism.budget.pure else claim.rho(attributes)):
            return True
    return False


@pytest.mark.parametrize("seeds", [range(90, 105), range(105, 120)], ids=str)
def test_no_query_drawn_at_random_loses_more_than_claimed(seeds: range) -> None:
    assert not [seed for seed in seeds if unsound(seed)]


def test_a_key_that_where_narrows_to_one_value_decides_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: nobody sees the other values, but rows that have them make room for others in the group that is left."""

    def of_several_groups(block: Block) -> set[str]:
        chosen = [block.keys[i] for i in block.once]
        return {name for key in chosen if key.size > 1 for name in key.expression.columns}

    monkeypatch.setattr(Block, "deciding_columns", property(of_several_groups))
    assert "v" in refuted(CASES["one row, of a key with one value"][0])
    assert unsound(98) and unsound(110)


def test_rows_outside_of_all_groups_displace_no_others() -> None:
    schema = Schema((Attribute("v", "integer", low=0, high=2),))
    table = CodedTable(schema, {"v": [0, 1, 2]}, people=[0, 0, 0])
    for key in ("v", "v + 1", "CASE WHEN v > 1 THEN 'b' WHEN v = 1 THEN 'a' ELSE 'none' END"):
        query = f"SELECT {key} AS k, COUNT(*) FROM t WHERE v >= 1 GROUP BY k"
        ((numbers,),) = exact_numbers(Statistics(CDP(1), query, one_row_per="k").calibration(schema), table)
        assert numbers.ravel().tolist() == [1, 1]


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


# ---- rows that are not used ------------------------------------------------------------------------------------------


def loss_of_rows_left_out(mechanism: Statistics, person: Person) -> float:
    """The largest over tables in which one person has from no row to nine beyond those in use, which say anything."""
    calibration, numbers = mechanism.calibration(BITS), []
    for more in range(10):
        own = [[True, False, i % 2] for i in range(person.rows + more)]
        rows = [*own, *[[False, True, 1]] * 4]
        columns = {name: [row[i] for row in rows] for i, name in enumerate(BITS.names)}
        table = pa.table({"p": [0] * len(own) + [1] * 4, **columns})
        opened = open_table(table, BITS, person=person)
        assert opened.n == person.rows + min(4, person.rows)
        numbers += [int(part[0, 0]) for block in exact_numbers(calibration, opened) for part in block]
    ((scale,),) = [calibration.scales(0, 0, 9)]
    moved = max(numbers) - min(numbers)
    return moved / scale if mechanism.budget.pure else moved**2 / (2 * scale**2)


@pytest.mark.parametrize("budget", [CDP(0.8), Pure(0.8)], ids=["gaussian", "laplace"])
def test_rows_left_out_cost_every_set_once(budget: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the rows of a person are, and m; with the bound forgotten, the claim is broken."""
    mechanism = Statistics(budget, "SELECT ROWS_LEFT_OUT(3) FROM t", id="p")
    sets = [names for size in (1, 2, 3) for names in itertools.combinations(BITS.names, size)]
    assert mechanism.reads(BITS) == BITS.names  # what is charged is said to be read
    for rows in (1, 2, 5):
        claim = mechanism.guarantee(BITS, 9).for_rows(rows)
        claims = {(claim.epsilon if budget.pure else claim.rho)(names) for names in sets}
        assert loss_of_rows_left_out(mechanism, Person("p", rows)) == pytest.approx(*claims)
    right = Table.dropped
    monkeypatch.setattr(Table, "dropped", lambda table, most: right(table, most + 1))
    assert loss_of_rows_left_out(mechanism, Person("p", 2)) > 1.3 * max(claims)
