"""Row-wise expressions against DuckDB: the same values on the same rows, and none outside the domain by the schema."""

from __future__ import annotations

import math
import pickle
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st
from sql_tables import DAYS, SCHEMA, as_rows, close, in_duckdb, random_rows, values_of

from nabladp.errors import QueryError
from nabladp.mechanisms.statistics.counting import BatchRows
from nabladp.schema import Attribute, Schema
from nabladp.sql import parse_query
from nabladp.sql.expressions import Column, Expression
from nabladp.sql.row_parser import RowParser, Scope
from nabladp.sql.syntax import syntax_tree
from nabladp.tables.encode import grid_codes, grid_column

TABLE = random_rows(80, 1)
ROWS = as_rows(TABLE)
DUCKDB = in_duckdb(TABLE)
Pair = tuple[str, str]  # as nabladp takes it, and as DuckDB does


SCOPE = Scope(SCHEMA, "people")


def parse(text: str) -> Expression:
    return RowParser(SCOPE).parse(syntax_tree(f"SELECT {text} FROM people").expressions[0])


def meaning(text: str) -> str:
    return SCOPE.text(syntax_tree(f"SELECT {text} FROM people").expressions[0])


def in_both(text: str, duck: str | None = None) -> None:
    expression = parse(text)
    expected = [row[0] for row in DUCKDB.execute(f"SELECT {duck or text} FROM people").fetchall()]
    values = values_of(expression, ROWS)
    for row, (own, other) in enumerate(zip(values, expected, strict=True)):
        assert close(own, other), f"row {row} of {text}: {own!r}, in DuckDB {other!r}"
    check_domain(expression, values)
    assert values_of(parse(meaning(text)), ROWS) == values, f"{meaning(text)} does not say what {text} does"


def check_domain(expression: Expression, values: list[Any]) -> None:
    """A domain that is too narrow would understate a sensitivity."""
    domain = expression.domain
    for value in values:
        if value is None:
            assert domain.nullable
            continue
        assert {bool: "boolean", str: "text"}.get(type(value), "number") == domain.kind
        if domain.values is not None:
            assert value in domain.values
        if domain.kind == "number":
            slack = 1e-12 * max(abs(domain.low), abs(domain.high))
            assert domain.low - slack <= value <= domain.high + slack
            assert not (domain.whole and value != math.floor(value))
            assert not (domain.nonzero and value == 0)


# ---- random expressions ----------------------------------------------------------------------------------------------


def same(text: str) -> Pair:
    return text, text


def form(pattern: str, *parts: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.tuples(*parts).map(
        lambda own: (pattern.format(*(p[0] for p in own)), pattern.format(*(p[1] for p in own)))
    )


WHOLE_LITERALS = st.integers(-12, 40).map(lambda value: same(str(value) if value >= 0 else f"({value})"))
REAL_LITERALS = st.sampled_from(["0.5e0", "2.5e0", "-1.5e0", "10.25e0", "1e3"]).map(same)
NUMBER_COLUMNS = st.sampled_from(["age", "score", "steps", "income", "balance", "rate", "age", "score"]).map(same)
TEXT_COLUMNS = st.sampled_from(["region", "sex"]).map(same) | st.just(("education", "education::VARCHAR"))
TEXTS = st.sampled_from(["north", "other", "a", "so%", "f", "", "primary"]).map(lambda text: same(f"'{text}'"))
PATTERNS = ["%o%", "_o%", "n%", "%th", "", "%", "____", "%t%h%", "north", "so!%", "%!_%"]
DATES = st.sampled_from(["2025-12-31", "2026-03-01", DAYS[3]])


def numbers(depth: int) -> st.SearchStrategy[Pair]:
    leaves = NUMBER_COLUMNS | WHOLE_LITERALS | REAL_LITERALS
    if depth == 0:
        return leaves
    inner, texts, truths = numbers(depth - 1), strings(depth - 1), conditions(depth - 1)
    whole = st.sampled_from(["age", "score", "steps"]).map(same) | WHOLE_LITERALS
    return st.one_of(
        leaves,
        form("({} + {})", inner, inner),
        form("({} - {})", inner, inner),
        form("({} * {})", inner, inner),
        form("({} / NULLIF({}, 0))", inner, whole),
        form("({} // NULLIF({}, 0))", whole, whole),
        form("({} % NULLIF({}, 0))", whole, whole),
        form("ABS({})", inner),
        form("(-{})", inner),
        form("FLOOR({} / 10)", inner),
        form("CEIL({})", inner),
        form("TRUNC({})", inner),
        form("SIGN({})", inner),
        st.integers(-3, 3).flatmap(lambda digits: form(f"ROUND({{}}, {digits})", inner)),
        form("ROUND({})", inner),
        form("GREATEST({}, {})", inner, inner),
        form("LEAST({}, {}, NULL)", inner, inner),
        form("COALESCE({}, {})", inner, inner),
        form("NULLIF({}, {})", inner, inner),
        form("CASE WHEN {} THEN {} WHEN {} THEN {} END", truths, inner, truths, inner),
        form("CASE WHEN {} THEN {} ELSE {} END", truths, inner, inner),
        form("CASE {} WHEN 1 THEN {} ELSE {} END", whole, inner, inner),
        form("CASE WHEN age > 0 THEN {} / age ELSE {} END", inner, inner),
        form("CASE WHEN score = 0 THEN 0 WHEN score IS NULL THEN {} ELSE 10 // score END", whole),
        form("IF({}, {}, {})", truths, inner, inner),
        form("CAST({} AS BIGINT)", inner),
        form("CAST({} AS DOUBLE)", inner),
        form("POWER({}, 2)", whole),
        form("LENGTH({})", texts),
        st.sampled_from(["year", "month", "quarter", "day", "dow", "isodow", "doy", "week"]).map(
            lambda part: same(f"EXTRACT({part} FROM day)")
        ),
    )


def strings(depth: int) -> st.SearchStrategy[Pair]:
    leaves = TEXT_COLUMNS | TEXTS
    if depth == 0:
        return leaves
    inner, truths = strings(depth - 1), conditions(depth - 1)
    return st.one_of(
        leaves,
        form("UPPER({})", inner),
        form("LOWER({})", inner),
        form("({} || {})", inner, inner),
        form("CONCAT({}, '-', {})", inner, inner),
        st.tuples(st.integers(-4, 5), st.integers(0, 4)).flatmap(
            lambda cut: form(f"SUBSTRING({{}}, {cut[0]}, {cut[1]})", inner)
        ),
        st.integers(-3, 4).flatmap(lambda count: form(f"LEFT({{}}, {count})", inner)),
        st.integers(-3, 4).flatmap(lambda count: form(f"RIGHT({{}}, {count})", inner)),
        form("REPLACE({}, 'o', 'ee')", inner),
        form("CASE WHEN {} THEN {} ELSE {} END", truths, inner, inner),
        form("COALESCE({}, {})", inner, inner),
        form("NULLIF({}, {})", inner, inner),
        form("CAST({} AS VARCHAR)", st.sampled_from(["age", "employed", "score"]).map(same)),
    )


SIGNS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def conditions(depth: int) -> st.SearchStrategy[Pair]:
    leaves = st.sampled_from(
        ["employed", "TRUE", "NULL::BOOLEAN", "age >= 18", "score IS NULL", "region = 'north'"]
    ).map(same)
    ordered = st.tuples(SIGNS, st.sampled_from(["none", "primary", "degree"])).map(
        lambda own: (f"education {own[0]} '{own[1]}'", f"education {own[0]} '{own[1]}'::edu")
    )
    dated = st.tuples(SIGNS, DATES).map(lambda own: same(f"day {own[0]} DATE '{own[1]}'"))
    dated = dated.filter(lambda own: "=" not in own[0] or DAYS[3] in own[0] or ">=" in own[0] or "<=" in own[0])
    if depth == 0:
        return st.one_of(leaves, ordered, dated)
    numeric, texts, inner = numbers(depth - 1), strings(depth - 1), conditions(depth - 1)
    return st.one_of(
        leaves,
        ordered,
        dated,
        SIGNS.flatmap(lambda sign: form(f"({{}} {sign} {{}})", numeric, numeric)),
        SIGNS.flatmap(lambda sign: form(f"(LOWER({{}}) {sign} {{}})", texts, texts)),
        form("({} AND {})", inner, inner),
        form("({} OR {} OR {})", inner, inner, inner),
        form("(NOT {})", inner),
        form("({} IN ({}, 3, NULL))", numeric, numeric),
        form("({} NOT IN ({}, 7))", numeric, numeric),
        form("({} BETWEEN {} AND {})", numeric, numeric, numeric),
        form("({} IS NULL)", numeric),
        form("({} IS NOT NULL)", texts),
        form("({} IS TRUE)", inner),
        form("({} IS NOT FALSE)", inner),
        form("({} IS DISTINCT FROM {})", numeric, numeric),
        form("({} IS NOT DISTINCT FROM {})", texts, texts),
        st.sampled_from(PATTERNS).flatmap(lambda pattern: form(f"({{}} LIKE '{pattern}')", texts)),
        st.sampled_from(PATTERNS).flatmap(lambda pattern: form(f"({{}} LIKE '{pattern}' ESCAPE '!')", texts)),
        st.sampled_from(PATTERNS).flatmap(lambda pattern: form(f"({{}} ILIKE '{pattern.upper()}')", texts)),
        form("STARTS_WITH({}, 'n')", texts),
        form("CONTAINS({}, 'o')", texts),
        form("COALESCE({}, {})", inner, inner),
        form("CASE WHEN {} THEN {} ELSE {} END", inner, inner, inner),
    )


@seed(20)
@settings(max_examples=400, database=None)
@given(st.one_of(numbers(2), strings(2), conditions(2)))
def test_random_expressions_are_those_of_duckdb(pair: Pair) -> None:
    try:
        parse(pair[0])
    except QueryError:
        assume(False)  # refused: too wide a range, a constant that no column has, …
    try:
        DUCKDB.execute(f"SELECT {pair[1]} FROM people LIMIT 0")
    except duckdb.Error:
        assume(False)  # what DuckDB has no function for
    in_both(*pair)


# ---- chosen expressions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "LN(GREATEST(age, 1))",
        "EXP(score / 10)",
        "SQRT(age)",
        "LOG10(age + 1)",
        "LOG2(age + 1)",
        "POWER(score, 3)",
        "age / 7",
        "score // 3",
        "score % 3",
        "-score % 5",
        "ROUND(balance)",
        "ROUND(balance / 100, 1)",
        "ROUND(age, -1)",
        "ROUND(score, -1)",
        "CAST(balance AS INTEGER)",
        "CAST(score / 2 AS INTEGER)",
        "CAST(employed AS INTEGER)",
        "CAST(age AS VARCHAR)",
        "CAST(rate AS INTEGER)",
        "TRY_CAST(region AS INTEGER)",
        "age IN (1, 2, NULL)",
        "score NOT IN (1, NULL)",
        "NULL IN (1, 2)",
        "score BETWEEN NULL AND 3",
        "NOT (score > 3 AND NULL)",
        "employed OR NULL",
        "employed AND NULL",
        "employed IS NOT TRUE",
        "NULLIF(score, NULL)",
        "COALESCE(NULL, score, 3)",
        "GREATEST(score, NULL, -5)",
        "LEAST(score, steps)",
        "region < sex",
        "region || sex",
        "CONCAT(region, NULL, age % 3)",
        "region NOT LIKE 'n%'",
        "region NOT ILIKE 'N%'",
        "region LIKE '%!_%' ESCAPE '!'",
        "TRIM(region)",
        "SUBSTRING(region, 2)",
        "STRFTIME(day, '%Y-%m-%d')",
        "DATE_TRUNC('week', day)",
        "DATE_TRUNC('quarter', day)",
        "CAST(day AS DATE) > DATE '2026-02-01'",
        "day BETWEEN '2026-01-01' AND '2026-06-30'",
        "DATE_PART('month', day)",
        "WEEKOFYEAR(day)",
        "CASE WHEN age > 0 THEN 100 / age END",
        "CASE WHEN score <> 0 THEN CASE WHEN 10 // score > 1 THEN 20 // score ELSE 30 // score END END",
        "CASE WHEN score > 0 THEN score WHEN score < 0 THEN -score ELSE 1 END",
        "CASE education WHEN 'none' THEN 0 WHEN 'degree' THEN 3 ELSE 1 END",
        "CASE WHEN income > 50000 THEN 'high' WHEN income IS NULL THEN NULL ELSE 'low' END",
        "income >= 50000",
        "income = 25000",
        "FLOOR(income / 10000)",
        "balance * 2 - income / 3",
    ],
)
def test_chosen_expressions_are_those_of_duckdb(text: str) -> None:
    in_both(text)


def test_a_condition_narrows_the_range_of_its_branch() -> None:
    domain = parse("CASE WHEN age > 4 THEN 100 / age ELSE 0 END").domain
    assert (domain.low, domain.high, domain.nullable) == (0, 20, False)
    assert parse("CASE WHEN score > 0 THEN score ELSE 1 END").domain.low == 1
    assert not parse("CASE WHEN score IS NULL THEN 0 ELSE score END").domain.nullable
    assert parse("CASE WHEN score > 3 THEN 0 ELSE score END").domain.nullable


def test_columns_that_decide_nothing_are_left_out() -> None:
    assert parse("CASE WHEN sex = 'f' THEN age ELSE age END").columns == ("age",)
    assert parse("age * 0 + score").columns == ("score",)
    assert parse("sex IS NULL OR employed").columns == ("employed",)
    assert parse("income * 0").columns == ("income",)  # too many values to look at each


def test_text_with_a_declared_order_is_compared_by_it() -> None:
    in_both("education < 'secondary'", "education < 'secondary'::edu")
    in_both("education BETWEEN 'primary' AND 'degree'", "education BETWEEN 'primary'::edu AND 'degree'::edu")


def test_expressions_travel_to_other_processes() -> None:
    by_text = "CASE WHEN income > 3 THEN UPPER(region) ELSE 'x' END"
    for text in ("UPPER(region)", by_text, "CAST(FLOOR(income / 900) AS VARCHAR)"):
        expression = parse(text)
        assert values_of(pickle.loads(pickle.dumps(expression)), ROWS) == values_of(expression, ROWS)


@pytest.mark.parametrize("high", [1e-30, 1e-9, 1e-3, 1.0, 1e6, 1e15])
def test_numbers_with_few_digits_come_back_from_the_grid_as_they_are(high: float) -> None:
    attribute = Attribute("x", "real", edges=(-high, high))
    written = [-high, -0.37 * high, 0.0, 0.25 * high, high]
    codes, _ = grid_codes(attribute, pa.array(written))
    batch = pa.RecordBatch.from_arrays([pa.array(codes)], [grid_column("x")])
    numbers = Column(attribute).evaluate(BatchRows(batch)).data
    assert abs(numbers - written).max() <= high * 2**-31
    if high >= 1e-3:
        assert numbers.tolist() == written


def test_a_range_beyond_exact_numbers_is_refused_with_its_position() -> None:
    schema = Schema((Attribute("x", "real", edges=(0.0, 1e18)),))
    for text in ("SELECT AVG(x) FROM t", "SELECT x, COUNT(*) FROM t GROUP BY x ORDER BY x", "SELECT COUNT(x) FROM t"):
        with pytest.raises(QueryError, match=r"too large \(line 1"):
            parse_query(text, schema)


# ---- values of rows that pass a filter -------------------------------------------------------------------------------


def filtered(value: Pair, where: Pair, own_filter: Pair) -> None:
    """The range of an aggregate's value is that of rows which pass WHERE and FILTER: theirs must all lie in it."""
    query = parse_query(f"SELECT SUM({value[0]}) FILTER (WHERE {own_filter[0]}) FROM people WHERE {where[0]}", SCHEMA)
    (aggregate,) = query.aggregates
    expected = DUCKDB.execute(
        f"SELECT CASE WHEN ({where[1]}) AND ({own_filter[1]}) THEN 1 END, {value[1]} FROM people"
    ).fetchall()
    counted = [
        all(holds) for holds in zip(*(values_of(own, ROWS) for own in (query.where, aggregate.filter)), strict=True)
    ]
    assert counted == [row[0] == 1 for row in expected]
    found = [own for own, holds in zip(values_of(aggregate.value, ROWS), counted, strict=True) if holds]
    for own, row in zip(found, [row for row in expected if row[0] == 1], strict=True):
        assert close(own, row[1]), f"{value[0]} where {where[0]} and {own_filter[0]}"
    check_domain(aggregate.value, found)


@seed(20)
@settings(max_examples=150, database=None)
@given(numbers(1), conditions(1), conditions(1))
def test_values_of_filtered_rows_lie_in_their_range(value: Pair, where: Pair, own_filter: Pair) -> None:
    try:
        filtered(value, where, own_filter)
    except (QueryError, duckdb.Error):
        assume(False)


def test_filters_narrow_the_range_of_a_value() -> None:
    def domain(text: str) -> tuple[float, float, bool]:
        value = parse_query(text, SCHEMA).aggregates[0].value
        assert value is not None
        return value.domain.low, value.domain.high, value.domain.nullable

    assert domain("SELECT AVG(age) FROM people WHERE age BETWEEN 18 AND 65 AND sex = 'f'") == (18, 65, False)
    assert domain("SELECT AVG(age) FROM people WHERE age > 18 OR sex = 'f'") == (0, 99, False)
    assert domain("SELECT AVG(score) FILTER (WHERE score > 0) FROM people WHERE score < 9") == (1, 8, False)
    assert domain("SELECT AVG(100 / age) FROM people WHERE age > 0") == (100 / 99, 100, False)
    assert domain("SELECT AVG(x) FROM (SELECT 100 / age AS x FROM people WHERE age > 3)") == (100 / 99, 25, False)
    assert domain("SELECT AVG(x) FROM (SELECT score AS x FROM people) WHERE x IS NOT NULL") == (-20, 20, False)
