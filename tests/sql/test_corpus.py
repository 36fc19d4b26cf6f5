"""Every query of the corpus: answered as DuckDB answers it, or refused with the message that is written there."""

from __future__ import annotations

import duckdb
import pytest
from sql_answers import answer, compare
from sql_corpus import ANSWERED, REFUSED, Answered, Refused
from sql_tables import SCHEMA, in_duckdb, random_rows

from nabladp.errors import QueryError
from nabladp.sql import parse_query
from nabladp.tables import Counts, open_table

ROWS = random_rows(3000, 5)


@pytest.fixture(scope="module")
def table() -> Counts:
    return open_table(ROWS, SCHEMA)


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    return in_duckdb(ROWS)


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case.sql[:70])
def test_answered_as_duckdb_does(case: Answered, table: Counts, database: duckdb.DuckDBPyConnection) -> None:
    expected = database.execute(case.duckdb or case.sql).fetchall()
    compare(answer(case.sql, table), expected)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.sql[:70])
def test_refused_with_the_reason_and_a_rewrite(case: Refused, table: Counts) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query(case.sql, SCHEMA)
    assert (caught.value.message, caught.value.fix) == (case.reason, case.fix)
    if case.rewrite:
        assert answer(case.rewrite, table).rows is not None


def test_the_corpus_is_large_enough() -> None:
    texts = {case.sql for case in (*ANSWERED, *REFUSED)}
    assert len(texts) == len(ANSWERED) + len(REFUSED)
    assert len(texts) >= 150
    assert len(ANSWERED) >= 90
    assert sum("(line " in case.reason for case in REFUSED) == len(REFUSED)  # each names a position
