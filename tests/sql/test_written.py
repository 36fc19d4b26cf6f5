"""Queries given by their parts (by, where, mean, …) mean what the same query means in SQL; lists of groups; keys that
WHERE narrows."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest
from sql_answers import compare
from sql_tables import SCHEMA, NoNoise, in_duckdb, random_rows

from nabladp.errors import NablaDPError
from nabladp.mechanisms.statistics import Statistics, StatisticsOutput
from nabladp.privacy import CDP
from nabladp.schema import Attribute, Schema
from nabladp.sql import parse_query
from nabladp.tables import open_table

ROWS = random_rows(2000, 7)
TABLE = open_table(ROWS, SCHEMA)


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    return in_duckdb(ROWS)


def output(**options: Any) -> StatisticsOutput:
    return Statistics(CDP(1e6), **options).run(TABLE, NoNoise())


# ---- parts -----------------------------------------------------------------------------------------------------------

WRITTEN: list[tuple[dict[str, Any], str]] = [
    ({"count": True}, "SELECT COUNT(*) AS count FROM people"),
    (
        {"by": "region", "where": "age >= 18", "count": True, "mean": "income"},
        "SELECT region, COUNT(*), AVG(income) FROM people WHERE age >= 18 GROUP BY region",
    ),
    (
        {"by": ["sex", "FLOOR(age / 10) AS decade"], "sum": ["age", "steps"], "count": ["score", "*"]},
        "SELECT sex, FLOOR(age / 10) AS d, COUNT(score), COUNT(*), SUM(age), SUM(steps) FROM people GROUP BY sex, d",
    ),
    (
        {"by": ["sex"], "median": ["age"], "quantile": {"age": [0.25, 0.9], "age * 2 AS twice": 0.5}},
        """SELECT sex, MEDIAN(age), QUANTILE_CONT(age, 0.25), QUANTILE_CONT(age, 0.9), QUANTILE_CONT(age * 2, 0.5)
           FROM people GROUP BY sex""",
    ),
    (
        {"where": "sex = 'f' OR employed", "variance": "age", "stddev": "age - 3", "count_distinct": ["region"]},
        """SELECT VAR_SAMP(age), STDDEV(age - 3), COUNT(DISTINCT region) FROM people WHERE sex = 'f' OR employed""",
    ),
]


@pytest.mark.parametrize(("options", "sql"), WRITTEN, ids=lambda value: value[:40] if isinstance(value, str) else "")
def test_parts_mean_what_sql_means(options: dict[str, Any], sql: str, database: duckdb.DuckDBPyConnection) -> None:
    own = output(**options)
    compare(own.answer, database.execute(sql).fetchall())
    written, plain = Statistics(CDP(1), **options), Statistics(CDP(1), sql)
    assert written.guarantee(SCHEMA, 100) == plain.guarantee(SCHEMA, 100)
    assert own.sql == tuple(query.text for query in written.queries(SCHEMA))


def test_columns_are_named_by_their_key() -> None:
    options: dict[str, Any] = {"count": ["*", "score"], "mean": ["age", "age / 2 AS half"], "quantile": {"age": 0.125}}
    (row,) = output(**options).answer.rows
    names = [name for name in row if not name.endswith(("_low", "_high"))]
    assert names == ["count", "count_score", "mean_age", "half", "quantile_age_12_5"]


def test_names_of_columns_may_hold_anything() -> None:
    """A name that SQL would read as something else is the column all the same."""
    schema = Schema(tuple(Attribute(name, "integer", low=0, high=3) for name in ("hours-per-week", "order", 'a"b')))
    mechanism = Statistics(CDP(1), by=["order"], mean=["hours-per-week", 'a"b'])
    (query,) = mechanism.queries(schema)
    assert query.reads == ('a"b', "hours-per-week", "order")
    assert [name for name, _ in query.columns] == ["order", "mean_hours-per-week", 'mean_a"b']


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "regoin", "count": True}, "by = 'regoin': There is no column 'regoin'. Did you mean 'region'?"),
        ({"mean": ["age", "incom"]}, "mean = 'incom': There is no column 'incom'. Did you mean 'income'?"),
        ({"sum": "region"}, "sum = 'region': SUM takes numbers, not text. Write COUNT(region)."),
        ({"mean": "income / age"}, "mean = 'income / age': This may divide by 0."),
        ({"where": "age", "count": True}, "where = 'age': WHERE takes a condition."),
        ({"where": "age >", "count": True}, "where = 'age >': this is not one expression. Write where ="),
        ({"by": ["1"], "count": True}, "by = '1': this names no column."),
        ({"by": "age, sex", "count": True}, "by = 'age, sex': this is not one expression."),
        ({"mean": "age FROM people WHERE age > 3 --"}, "this is not one expression. Write mean ="),
        ({"mean": "age) FROM people --"}, "this is not one expression."),
        ({"median": "MEDIAN(age)"}, "median = 'MEDIAN(age)': An aggregate cannot contain another one."),
        ({"quantile": {"age": [0.5, 1]}}, "The levels of 'age' in 'quantile' must be numbers between 0 and 1."),
        ({"quantile": {"age": 0.123456}}, "quantile = 'age': The level of a quantile lies between 0 and 1"),
        ({"by": "region"}, "'by' is given without an aggregate. Add, for instance, count = true."),
        ({"where": "age > 3"}, "'where' is given without an aggregate."),
        ({}, "There is no query. Add, for instance, sql ="),
        ({"sql": "SELECT COUNT(*) FROM t", "where": "age > 3"}, "Both 'sql' and 'where' are given."),
        ({"sql": "SELECT COUNT(*) FROM t", "mean": "age"}, "Both 'sql' and 'mean' are given."),
        ({"mean": 3}, "'mean' must be a column or an expression in SQL"),
    ],
)
def test_a_refusal_names_the_key_and_the_fix(options: dict[str, Any], said: str) -> None:
    with pytest.raises(NablaDPError) as caught:
        Statistics(CDP(1), **options).guarantee(SCHEMA, 100)
    assert said in str(caught.value) and caught.value.fix and "(line " not in str(caught.value)


# ---- public lists of groups ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "listed", "condition"),
    [
        ("region", ["north", "west"], "region IN ('north', 'west')"),
        ("score", [3, "4", -20], "score IN (3, 4, -20)"),
        ("employed", ["true"], "employed"),
        ("FLOOR(age / 10)", [2, 3], "FLOOR(age / 10) IN (2, 3)"),
        ("steps", [0, 29_999], "steps IN (0, 29999)"),
    ],
)
def test_all_that_is_not_listed_counts_as_other(
    key: str, listed: list[Any], condition: str, database: duckdb.DuckDBPyConnection
) -> None:
    groups = {"k": listed}
    own = output(sql=f"SELECT {key} AS k, COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY k", groups=groups)
    inside = database.execute(f"SELECT {key}, COUNT(*), SUM(age) FROM people WHERE {condition} GROUP BY 1").fetchall()
    rest = f"SELECT COUNT(*), SUM(age) FROM people WHERE ({condition}) IS NOT TRUE"
    (others,) = database.execute(rest).fetchall()
    *named, last = [(row["k"], row["n"], row["s"]) for row in own.answer.rows]
    assert len(named) == len(listed) and last == ("OTHER", *others)
    assert {row for row in named if row[1]} == set(inside)
    assert StatisticsOutput.from_json(json.loads(json.dumps(own.to_json())), SCHEMA).answer.rows == own.answer.rows


def test_a_list_of_all_values_has_no_others() -> None:
    rows = output(sql="SELECT sex, COUNT(*) FROM t GROUP BY sex", groups={"sex": ["m", "f"]}).answer.rows
    assert [row["sex"] for row in rows] == ["f", "m"]


def test_a_list_makes_a_wide_key_answerable() -> None:
    schema = Schema((Attribute("id", "integer", low=0, high=2**31), SCHEMA["age"]))
    query = "SELECT id, age, COUNT(*) FROM t GROUP BY id, age"
    with pytest.raises(NablaDPError, match=r"'id' has 2,147,483,649 values.*Bin it.*'groups'"):
        Statistics(CDP(1), query).guarantee(schema, 10)
    (found,) = Statistics(CDP(1), query, groups={"id": [7, 2**31]}).queries(schema)
    assert found.keys[0].labels == (7, 2**31, "OTHER")


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"region": ["nort"]}, "'groups' lists 'nort', which 'region' does not have. Did you mean 'north'?"),
        ({"regio": ["north"]}, "'groups' names 'regio', by which no query groups. Did you mean 'region'?"),
        ({"region": []}, "The groups of 'region' in 'groups' must be a list of its values."),
        ({"region": "north"}, "must be a list of its values"),
        ({"age": [100]}, "'groups' lists 100, which 'age' does not have."),
        (["region"], "'groups' must be a table of lists of groups by key."),
    ],
)
def test_wrong_lists_are_refused(groups: Any, said: str) -> None:
    with pytest.raises(NablaDPError) as caught:
        Statistics(CDP(1), "SELECT COUNT(*) FROM t GROUP BY region, age", groups=groups).guarantee(SCHEMA, 100)
    assert said in str(caught.value)


def test_the_name_of_the_others_cannot_be_a_group() -> None:
    schema = Schema((Attribute("a", "categorical", values=("x", "OTHER", "y")),))
    query = "SELECT a, COUNT(*) FROM t GROUP BY a"
    with pytest.raises(NablaDPError, match="Remove 'OTHER'"):
        Statistics(CDP(1), query, groups={"a": ["OTHER"]}).guarantee(schema, 10)
    (found,) = Statistics(CDP(1), query, groups={"a": ["x", "y", "OTHER"]}).queries(schema)
    assert found.keys[0].labels == ("x", "OTHER", "y")


# ---- keys that WHERE narrows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "labels"),
    [
        ("SELECT COUNT(*) FROM t WHERE region = 'north' GROUP BY region", ("north",)),
        ("SELECT COUNT(*) FROM t WHERE region <> 'north' GROUP BY region", ("south", "east", "west", "other")),
        ("SELECT COUNT(*) FROM t WHERE region IS NULL GROUP BY region", (None,)),
        ("SELECT COUNT(*) FROM t WHERE age BETWEEN 25 AND 44 GROUP BY FLOOR(age / 10)", (2, 3, 4)),
        ("SELECT COUNT(*) FROM (SELECT age AS a FROM t WHERE age > 97) WHERE a < 99 GROUP BY a", (98,)),
        ("SELECT COUNT(*) FROM t WHERE sex = 'f' OR age > 3 GROUP BY sex", ("f", "m")),
        ("SELECT COUNT(*) FILTER (WHERE sex = 'f') FROM t GROUP BY sex", ("f", "m")),
        ("SELECT COUNT(*) FROM t WHERE sex = 'f' AND sex = 'm' GROUP BY sex", ("f", "m")),
        ("SELECT COUNT(*) FROM t WHERE sex = 'f' GROUP BY UPPER(sex)", ("F",)),
        ("SELECT COUNT(*) FROM t GROUP BY CASE WHEN age < 0 THEN 'x' WHEN age < 5 THEN 'y' END", ("y", None)),
    ],
)
def test_groups_that_no_row_can_have_are_left_out(sql: str, labels: tuple[Any, ...]) -> None:
    assert parse_query(sql, SCHEMA).keys[0].labels == labels


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT region, COUNT(*), AVG(age) FROM people WHERE region IN ('north', 'east') GROUP BY region",
        "SELECT FLOOR(age / 10) AS d, COUNT(*), SUM(age) FROM people WHERE age >= 25 AND age < 44 GROUP BY d",
        "SELECT employed, sex, COUNT(*) FROM people WHERE employed IS NOT NULL GROUP BY ROLLUP (employed, sex)",
    ],
)
def test_narrowed_keys_have_the_rows_of_sql_and_no_others(sql: str, database: duckdb.DuckDBPyConnection) -> None:
    expected = database.execute(sql).fetchall()
    own = output(sql=sql).answer
    assert len(own.rows) == len(expected)
    compare(own, expected)


def test_a_key_of_one_group_costs_nothing_as_a_group() -> None:
    """Rows that pass the filter are all in that group: none moves to another."""
    one = Statistics(CDP(1), "SELECT region, COUNT(*) FROM t WHERE region = 'north' GROUP BY region")
    plain = Statistics(CDP(1), "SELECT COUNT(*) FROM t WHERE region = 'north'")
    assert one.guarantee(SCHEMA, 10) == plain.guarantee(SCHEMA, 10)
    assert [line.role for line in one.bill(SCHEMA).lines] == ["filter"]
