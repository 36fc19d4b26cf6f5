"""Whatever the text is: an answer whose shape the schema decides, or an error of nabladp; never any other exception."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from sql_answers import answer
from sql_corpus import ANSWERED, REFUSED
from sql_tables import DAYS, SCHEMA, random_rows

from nabladp.errors import NablaDPError, QueryError
from nabladp.sql import parse_query
from nabladp.sql.query import Query
from nabladp.sql.syntax import MOST_TEXT
from nabladp.tables import open_table

TEXTS = [case.sql for case in (*ANSWERED, *REFUSED)]
WORDS = sorted({word for text in TEXTS for word in text.replace("(", " ( ").replace(")", " ) ").split()})


def read(text: str) -> Query | None:
    """The query, or None where it is refused as it should be."""
    try:
        return parse_query(text, SCHEMA)
    except NablaDPError as error:
        assert error.message and error.fix
        return None


# ---- any text --------------------------------------------------------------------------------------------------------


def mutate(text: str, chance: random.Random) -> str:
    words = text.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
    for _ in range(chance.randint(1, 3)):
        i, j = chance.randrange(len(words)), chance.randrange(len(words))
        change = chance.randrange(8)
        if change == 0 and len(words) > 1:
            del words[i]
        elif change == 1:
            words.insert(i, words[j])
        elif change == 2:
            words[i], words[j] = words[j], words[i]
        elif change == 3:
            words[i] = chance.choice(WORDS)
        elif change >= 5:  # one column or number for another leaves the query readable
            alike = [k for k, word in enumerate(words) if word in SCHEMA or word.isdigit()]
            words[chance.choice(alike or [i])] = chance.choice([*SCHEMA.names, "0", "3", "'f'", "2.5"])
        else:
            other = chance.choice(TEXTS).split()
            words[i:] = other[min(i, len(other)) :] or ["1"]
    return " ".join(words)


@pytest.mark.parametrize("start", range(4))
def test_mutated_queries_are_answered_or_refused(start: int) -> None:
    chance = random.Random(start)
    for _ in range(400):
        read(mutate(chance.choice(TEXTS), chance))


@seed(20)
@settings(max_examples=200, database=None)
@given(st.text(max_size=60), st.sampled_from(TEXTS), st.integers(0, 200))
def test_strange_characters_are_answered_or_refused(strange: str, text: str, at: int) -> None:
    read(text[:at] + strange + text[at:])
    read(strange)


DEEP = 4_000
WIDE = 900


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * DEEP + "COUNT(*)" + ")" * DEEP + " FROM people",
        "SELECT COUNT(*) FROM people WHERE " + "(" * DEEP + "age > 1" + ")" * DEEP,
        "SELECT COUNT(*) FROM people WHERE " + "NOT " * DEEP + "employed",
        "SELECT COUNT(*) FROM people WHERE age > " + "- " * DEEP + "1",
        "SELECT COUNT(*) FROM people WHERE age > " + "1 + " * DEEP + "1",
        "SELECT COUNT(*) FROM people WHERE " + "CASE WHEN employed THEN " * 700 + "TRUE" + " END" * 700,
        "SELECT COUNT(*) FROM people WHERE " + "CASE WHEN employed THEN " * 28 + "TRUE" + " END" * 28,
        "SELECT COUNT(*) FROM people WHERE " + "COALESCE(employed, " * 500 + "TRUE" + ")" * 500,
        "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 300 + "people" + ")" * 300,
        "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 12 + "people" + ")" * 12,
        "SELECT COUNT(*)" + ", 1" * 5_000 + " FROM people",
        "SELECT COUNT(*) FROM people GROUP BY " + ", ".join(["CUBE (age, sex)"] * 30),
        "SELECT COUNT(*) FROM people GROUP BY CUBE (" + ", ".join(f"age + {i}" for i in range(40)) + ")",
        "SELECT COUNT(*) FROM people WHERE region LIKE '" + "%a" * 3_000 + "'",
        "SELECT COUNT(*) AS a, " + ", ".join(f"{p} + {p} AS {q}" for p, q in pairwise("abcdefghijklmn")),
        "SELECT COUNT(*) FROM people WHERE age > " + "9" * 5_000,
        "SELECT COUNT(*) FROM people WHERE age > 1e" + "9" * 50,
        "SELECT QUANTILE_CONT(age, 0." + "1" * 5_000 + ") FROM people",
        "SELECT COUNT(*) FROM people" + ";" * 5_000,
        "SELECT COUNT(*) FROM people /*" + "*" * 10_000,
        "SELECT '" + "x" * 10_000,
        "x" * (MOST_TEXT + 1),
        "",
        ";",
        "\x00",
        "SELECT COUNT(*) FROM people WHERE region = '\ud800'",
    ],
    ids=lambda text: repr(text[:40]),
)
def test_extreme_queries_are_answered_or_refused(text: str) -> None:
    read(text)


def test_long_lists_and_chains_are_answered() -> None:
    listed = ", ".join(str(value) for value in range(WIDE))
    assert read(f"SELECT COUNT(*) FROM people WHERE steps IN ({listed})") is not None
    chain = " OR ".join(f"age = {value % 100}" for value in range(WIDE))
    assert read(f"SELECT COUNT(*) FROM people WHERE {chain}") is not None


def test_names_that_double_again_and_again_are_refused() -> None:
    """Each name stands for two of the one before it: written out, the last would be a million long."""
    inner = "SELECT income AS a FROM people"
    for _ in range(5):
        inner = f"SELECT {' + '.join(['a'] * 20)} AS a FROM ({inner})"
    with pytest.raises(QueryError, match="too long"):
        parse_query(f"SELECT AVG(a) FROM ({inner})", SCHEMA)
    names = [f"n{i}" for i in range(40)]
    doubled = ", ".join(f"{one} + {one} AS {two}" for one, two in pairwise(names))
    with pytest.raises(QueryError, match="too long"):
        parse_query(f"SELECT COUNT(*) AS n0, {doubled} FROM people", SCHEMA)


@pytest.mark.parametrize("text", [None, 3, b"SELECT COUNT(*) FROM people", ["SELECT"]])
def test_a_query_is_text(text: object) -> None:
    with pytest.raises(NablaDPError):
        parse_query(text, SCHEMA)  # type: ignore[arg-type]


# ---- swapped tables --------------------------------------------------------------------------------------------------


def extreme_rows() -> pa.Table:
    """Seven equal rows at the ends of their domains."""
    row = {
        "region": None, "sex": "m", "education": None, "age": 0, "score": None, "steps": 0, "income": None,
        "balance": -500.0, "rate": None, "employed": None, "day": DAYS[0],
    }  # fmt: skip
    schema = random_rows(50, 1).schema
    return pa.table({name: [row[name]] * 7 for name in schema.names}, schema=schema)


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case.sql[:70])
def test_the_shape_of_an_answer_is_that_of_any_other_table(case: object) -> None:
    sql = case.sql  # type: ignore[attr-defined]
    query = parse_query(sql, SCHEMA)
    answers = [answer(sql, open_table(rows, SCHEMA)) for rows in (random_rows(40, 9), extreme_rows())]
    assert answers[0].to_arrow().column_names == answers[1].to_arrow().column_names
    if query.having is not None or query.limit is not None:
        return  # these choose rows by released values
    plain = [name for name, released in query.columns if not released.aggregates()]
    keys = [sorted(str([row[name] for name in plain]) for row in own.rows) for own in answers]
    assert keys[0] == keys[1]
    cells = sum(query.cells(grouping) for grouping in query.grouping)
    assert len(answers[0]) == len(answers[1]) == cells


def test_refusals_are_those_of_any_other_table() -> None:
    """Through a run, where the rows are at hand: no refusal knows them."""
    tables = [open_table(rows, SCHEMA) for rows in (random_rows(40, 9), extreme_rows())]
    for case in REFUSED:
        for table in tables:
            with pytest.raises(QueryError) as caught:
                answer(case.sql, table)
            assert (caught.value.message, caught.value.fix) == (case.reason, case.fix)
