"""Labels in SQL: a literal may be a value or its label, and groups are shown by their labels."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from sql_tables import NoNoise

from nabladp.errors import QueryError
from nabladp.mechanisms.statistics import Statistics
from nabladp.privacy import CDP
from nabladp.schema import Attribute, Schema
from nabladp.sql import parse_query
from nabladp.tables import open_table

LABELS: dict[str, dict[Any, str]] = {
    "sex": {1: "Male", 2: "Female"},
    "region": {"n": "North", "s": "South", "(null)": "not known"},
    "age": {0: "under 1", 3: "3 or more"},
    "insured": {True: "Yes", False: "No"},
    "size": {"s": "small", "m": "medium", "l": "large"},
    "rate": {2: "twice"},
    "income": {"[0, 10)": "low", "[10, 20]": "high"},
}
SHAPES: dict[str, dict[str, Any]] = {
    "sex": {"kind": "categorical", "values": (1, 2)},
    "region": {"kind": "categorical", "values": ("n", "s"), "null": "category"},
    "age": {"kind": "integer", "low": 0, "high": 3, "null": "category"},
    "insured": {"kind": "boolean"},
    "size": {"kind": "ordered", "values": ("s", "m", "l")},
    "rate": {"kind": "categorical", "values": (1, 2), "unknown": "other"},
    "income": {"kind": "real", "edges": (0.0, 10.0, 20.0)},
}
PLAIN = Schema(tuple(Attribute(name, **shape) for name, shape in SHAPES.items()))
LABELLED = Schema(tuple(Attribute(name, **shape, labels=LABELS[name]) for name, shape in SHAPES.items()))
ROWS = pa.table(
    {
        "sex": [1, 2, 2, 1, 2, 2],
        "region": ["n", "s", None, "n", "n", "s"],
        "age": [0, 1, 2, 3, 3, None],
        "insured": [True, False, True, True, False, True],
        "size": ["s", "m", "l", "l", "m", "s"],
        "rate": [1, 2, 3, 1, 2, 2],
        "income": [1.0, 5.0, 12.0, 19.0, 20.0, 3.0],
    }
)


def rows(sql: str, schema: Schema = LABELLED, **options: Any) -> list[dict[str, Any]]:
    answer = Statistics(CDP(1e6), sql, **options).run(open_table(ROWS, schema), NoNoise()).answer
    return [{name: row[name] for name in row if not name.endswith(("_low", "_high"))} for row in answer.rows]


SAME = [
    ("sex = 'Male'", "sex = 1"),
    ("'Female' = sex", "2 = sex"),
    ("sex <> 'Male'", "sex <> 1"),
    ("sex IN ('Male', 2)", "sex IN (1, 2)"),
    ("region = 'North'", "region = 'n'"),
    ("region IN ('North', 's')", "region IN ('n', 's')"),
    ("age >= '3 or more'", "age >= 3"),
    ("age BETWEEN 'under 1' AND 2", "age BETWEEN 0 AND 2"),
    ("insured = 'Yes'", "insured = TRUE"),
    ("size > 'small'", "size > 's'"),
    ("sex IS DISTINCT FROM 'Male'", "sex IS DISTINCT FROM 1"),
    ("CASE sex WHEN 'Male' THEN 1 ELSE 0 END = 1", "CASE sex WHEN 1 THEN 1 ELSE 0 END = 1"),
    ("rate = 'twice'", "rate = 2"),
]


@pytest.mark.parametrize(("by_label", "by_value"), SAME, ids=[label for label, _ in SAME])
def test_a_label_stands_for_its_value(by_label: str, by_value: str) -> None:
    sql = "SELECT COUNT(*) AS n FROM people WHERE {}"
    assert rows(sql.format(by_label)) == rows(sql.format(by_value)) == rows(sql.format(by_value), PLAIN)


def test_groups_are_shown_by_label_in_the_order_of_values() -> None:
    found = rows("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY sex DESC")
    assert found == [{"sex": "Female", "n": 4}, {"sex": "Male", "n": 2}]
    by_size = rows("SELECT size, COUNT(*) AS n FROM people GROUP BY size ORDER BY size")
    assert [row["size"] for row in by_size] == ["small", "medium", "large"]
    by_age = rows("SELECT age, COUNT(*) AS n FROM people GROUP BY age ORDER BY age DESC NULLS LAST")
    assert [row["age"] for row in by_age] == ["3 or more", 2, 1, "under 1", None]
    by_region = rows("SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY region NULLS FIRST")
    assert [row["region"] for row in by_region] == ["not known", "North", "South"]
    by_income = rows("SELECT income, COUNT(*) AS n FROM people GROUP BY income ORDER BY income")
    assert by_income == [{"income": "low", "n": 3}, {"income": "high", "n": 3}]


def test_expressions_over_keys_see_values() -> None:
    found = rows("SELECT sex, sex + 1 AS more, COUNT(*) AS n FROM people GROUP BY sex HAVING sex = 'Female'")
    assert found == [{"sex": "Female", "more": 3, "n": 4}]
    assert rows("SELECT sex AS s, COUNT(*) AS n FROM people GROUP BY s HAVING s IN ('Male')") == [{"s": "Male", "n": 2}]
    named = rows("SELECT CASE sex WHEN 'Male' THEN 'm' ELSE 'f' END AS k, COUNT(*) AS n FROM people GROUP BY sex")
    assert [row["k"] for row in named] == ["m", "f"]
    assert rows("SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING region IS NULL")[0]["n"] == 1


def test_lists_of_groups_accept_either() -> None:
    sql = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
    found = rows(sql, groups={"region": ["North"]})
    assert found == rows(sql, groups={"region": ["n"]}) == [{"region": "North", "n": 3}, {"region": "OTHER", "n": 3}]
    ages = "SELECT age, COUNT(*) AS n FROM people GROUP BY age"
    assert rows(ages, groups={"age": ["3 or more"]}) == rows(ages, groups={"age": [3]})
    with pytest.raises(QueryError, match=r"'groups' lists 'Nort'.*Did you mean 'North'"):
        rows(sql, groups={"region": ["Nort"]})


def test_a_plan_by_its_parts() -> None:
    found = Statistics(CDP(1e6), by=("sex",), where="region = 'North'", count=True)
    answer = found.run(open_table(ROWS, LABELLED), NoNoise()).answer
    assert [(row["sex"], row["count"]) for row in answer.rows] == [("Male", 2), ("Female", 1)]


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("sex = 'Mal'", "Column 'sex' has no value 'Mal' .*Did you mean 'Male'"),
        ("region = 'Nroth'", "Column 'region' has no value 'Nroth' .*Did you mean 'North'"),
        ("region = 'not known'", "'not known' is the label of missing values .*Write region IS NULL"),
        ("region IN ('North', 'not known')", "the label of missing values"),
        ("income = 'low'", "compares a number with a text"),
    ],
)
def test_refused(condition: str, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        parse_query(f"SELECT COUNT(*) FROM people WHERE {condition}", LABELLED)


def test_a_label_named_like_the_others_is_refused_in_a_list() -> None:
    schema = Schema((Attribute("x", "categorical", values=(1, 2, 3), labels={1: "OTHER"}),))
    with pytest.raises(QueryError, match="has a group 'OTHER'"):
        parse_query("SELECT x, COUNT(*) FROM people GROUP BY x", schema, {"x": [1]})
