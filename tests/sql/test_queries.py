"""What a query means: keys, names, filters, and aggregates that are the same or are not."""

from __future__ import annotations

import pytest
from sql_answers import answer
from sql_tables import SCHEMA, random_rows

from nabladp.errors import QueryError
from nabladp.schema import Attribute, Schema
from nabladp.sql import Query, parse_query
from nabladp.tables import open_table

TABLE = open_table(random_rows(300, 2), SCHEMA)


def query(text: str) -> Query:
    return parse_query(text, SCHEMA)


def value_text(text: str) -> str:
    (aggregate,) = query(text).aggregates
    return aggregate.value_text


def refusal(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        query(text)
    return caught.value


# ---- one meaning, one measurement ------------------------------------------------------------------------------------


def test_aggregates_with_one_meaning_are_listed_once() -> None:
    assert len(query("SELECT AVG(age), avg(AGE), AVG(people.age), AVG((age)) FROM people").aggregates) == 1
    assert len(query('SELECT COUNT(*), COUNT(1), COUNT(age), COUNT("age") FROM people').aggregates) == 1
    assert len(query("SELECT COUNT(score), COUNT(steps) FROM people").aggregates) == 2


def test_names_of_subqueries_are_read_as_what_they_mean() -> None:
    """Two queries of one release share what they measure: by meaning, not by the name they gave it."""
    assert value_text("SELECT AVG(x) FROM (SELECT age AS x FROM people)") == value_text("SELECT AVG(age) FROM people")
    assert value_text("SELECT AVG(x) FROM (SELECT age AS x FROM people)") != value_text(
        "SELECT AVG(x) FROM (SELECT steps AS x FROM people)"
    )
    inner = "SELECT COUNT(*) FROM (SELECT age AS x FROM people) WHERE x > 3"
    other = "SELECT COUNT(*) FROM (SELECT steps AS x FROM people) WHERE x > 3"
    assert query(inner).where_text != query(other).where_text
    nested = "SELECT COUNT(*) FROM (SELECT * FROM people WHERE age > 3 OR sex = 'f') WHERE sex = 'm'"
    flat = "SELECT COUNT(*) FROM people WHERE age > 3 OR sex = 'f' AND sex = 'm'"
    assert query(nested).where_text != query(flat).where_text


def test_conditions_of_aggregates_keep_their_parentheses() -> None:
    one = query("SELECT COUNT_IF(age > 3 OR sex = 'f') FILTER (WHERE sex = 'm') FROM people")
    other = query("SELECT COUNT(*) FILTER (WHERE age > 3 OR sex = 'f' AND sex = 'm') FROM people")
    assert one.aggregates[0].filter_text != other.aggregates[0].filter_text


def test_columns_that_differ_by_case_alone_are_two() -> None:
    schema = Schema((Attribute("Age", "integer", low=0, high=9), Attribute("age", "integer", low=0, high=99)))
    found = parse_query('SELECT SUM("Age"), SUM("age") FROM t', schema)
    assert [aggregate.value.columns for aggregate in found.aggregates if aggregate.value] == [("Age",), ("age",)]
    with pytest.raises(QueryError, match="several columns"):
        parse_query("SELECT SUM(AGE) FROM t", schema)


def test_several_queries_of_one_release_are_answered_each_by_its_own_values() -> None:
    from sql_tables import NoNoise

    from nabladp.mechanisms.statistics import Statistics
    from nabladp.privacy import CDP

    texts = tuple(f"SELECT SUM(x) AS total FROM (SELECT {name} AS x FROM people)" for name in ("age", "steps"))
    answers = Statistics(CDP(1e6), texts).run(TABLE, NoNoise()).answers
    assert [own.rows[0]["total"] for own in answers] == [
        answer(f"SELECT SUM({name}) AS total FROM people", TABLE).rows[0]["total"] for name in ("age", "steps")
    ]


# ---- names -----------------------------------------------------------------------------------------------------------


def names(text: str) -> list[str]:
    return [name for name, _ in query(text).columns]


def test_columns_of_the_answer_have_names_of_their_own() -> None:
    assert names("SELECT COUNT(*), AVG(income), AVG(age) AS a FROM people") == ["count", "avg_income", "a"]
    assert names("SELECT COUNT(*) AS n, AVG(age) AS n FROM people") == ["n", "n_2"]
    assert names("SELECT QUANTILE_CONT(age, [0.1, 0.9]) AS q FROM people") == ["q_1", "q_2"]
    assert names("SELECT AVG(age) AS x, COUNT(*) AS x_low FROM people") == ["x", "x_low_2"]
    assert names("SELECT COUNT(*) AS x_high, AVG(age) AS x FROM people") == ["x_high", "x_2"]


def test_columns_come_before_aliases_in_group_by_and_after_them_in_order_by() -> None:
    shadow = query("SELECT FLOOR(age / 10) AS age, COUNT(*) FROM people GROUP BY age")
    assert shadow.keys[0].size == 100
    rows = answer("SELECT sex, AVG(age) AS age FROM people GROUP BY sex ORDER BY age DESC", TABLE).rows
    assert rows[0]["age"] > rows[1]["age"]
    assert "neither an aggregate" in refusal("SELECT AVG(age) AS x FROM people HAVING age > 3").message


def test_names_are_found_in_any_case_and_between_quotes() -> None:
    for text in ('"AGE"', "Age", "`age`", "PEOPLE.AGE", '"people"."age"'):
        assert query(f"SELECT AVG({text}) FROM People").aggregates[0].value.columns == ("age",)  # type: ignore[union-attr]


def test_hidden_and_unlisted_columns_are_not_there() -> None:
    assert "no column 'income'" in refusal("SELECT AVG(income) FROM (SELECT * EXCLUDE (income) FROM people)").message
    assert "no column 'income'" in refusal("SELECT AVG(income) FROM (SELECT age FROM people)").message
    renamed = query("WITH t(a, b) AS (SELECT age, score FROM people) SELECT AVG(b) FROM t")
    assert renamed.aggregates[0].value_text == value_text("SELECT AVG(score) FROM people")
    swapped = query("SELECT AVG(x) FROM (SELECT age, score FROM people) AS t(x, y)")
    assert swapped.aggregates[0].value_text == value_text("SELECT AVG(age) FROM people")


# ---- keys ------------------------------------------------------------------------------------------------------------


def test_keys_are_sorted_by_their_declared_order() -> None:
    rows = answer("SELECT education, COUNT(*) FROM people GROUP BY education ORDER BY education", TABLE).rows
    assert [row["education"] for row in rows] == ["none", "primary", "secondary", "degree", None]
    rows = answer("SELECT score, COUNT(*) FROM people GROUP BY score ORDER BY score DESC", TABLE).rows
    assert [row["score"] for row in rows][:2] == ["other", 20]
    rows = answer("SELECT income, COUNT(*) FROM people GROUP BY income ORDER BY income DESC", TABLE).rows
    assert len(rows) == 4 and rows[0]["income"].startswith("[50000") and rows[-1]["income"] is None
    mixed = "SELECT CASE WHEN COUNT(*) > 140 THEN 'many' ELSE 3 END AS x FROM people GROUP BY sex ORDER BY x"
    assert len(answer(mixed, TABLE).rows) == 2


def test_numbers_outside_their_domain_are_null_in_expressions() -> None:
    rows = answer("SELECT score, score + 1 AS more, COUNT(*) FROM people GROUP BY score HAVING score > 18", TABLE).rows
    assert [(row["score"], row["more"]) for row in rows] == [(19, 20), (20, 21)]
    (row,) = answer("SELECT score IS NULL AS gap, COUNT(*) FROM people GROUP BY score HAVING score = 3", TABLE).rows
    assert row["gap"] is False


def test_functions_of_a_key_need_no_aggregate() -> None:
    rows = answer("SELECT region, UPPER(region) AS big, COUNT(*) FROM people GROUP BY region", TABLE).rows
    assert {row["region"]: row["big"] for row in rows}["north"] == "NORTH"
    rows = answer("SELECT education, COUNT(*) FROM people GROUP BY education HAVING education IN ('none')", TABLE).rows
    assert len(rows) == 1


def test_grouping_sets_are_those_of_sql() -> None:
    assert query("SELECT COUNT(*) FROM people GROUP BY ROLLUP (region, sex)").grouping == ((0, 1), (0,), ())
    assert set(query("SELECT COUNT(*) FROM people GROUP BY CUBE (region, sex)").grouping) == {(0, 1), (0,), (1,), ()}
    assert query("SELECT COUNT(*) FROM people GROUP BY sex, ROLLUP (region)").grouping == ((0, 1), (0,))
    assert query("SELECT COUNT(*) FROM people GROUP BY region, sex WITH ROLLUP").grouping == ((0, 1), (0,), ())
    assert query("SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ((sex), (sex, region), ())").grouping == (
        (0,),
        (0, 1),
        (),
    )
    assert query("SELECT COUNT(*) FROM people GROUP BY ()").grouping == ((),)


def test_hidden_aggregates_are_measured() -> None:
    hidden = query("SELECT sex FROM people GROUP BY sex HAVING AVG(age) > 3 ORDER BY STDDEV(age)")
    assert [aggregate.function for aggregate in hidden.aggregates] == ["avg", "stddev_samp"]


# ---- positions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("SELECT COUNT(*)\nFROM people\nWHERE agee > 3", 3, 7),
        ("SELECT region,\n       age, COUNT(*)\nFROM people GROUP BY region", 2, 8),
        ("SELECT COUNT(*) FROM people\nWHERE age > 3\n  AND LN(age) > 1", 3, 7),
        ("SELECT COUNT(*) FROM people GROUP BY sex,\n 7", 2, 2),
    ],
)
def test_a_refusal_names_the_position(text: str, line: int, column: int) -> None:
    error = refusal(text)
    assert (error.fields["line"], error.fields["character"]) == (line, column)
    assert f"(line {line}, column {column})" in error.message
