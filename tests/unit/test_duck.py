"""The database that reads tables: locked, and silent."""

from __future__ import annotations

import duckdb
import pytest

from nabladp.tables.duck import connection


def test_a_query_can_change_no_setting() -> None:
    with connection() as database, pytest.raises(duckdb.Error, match="locked"):
        database.execute("SET enable_external_access = true")


def test_progress_is_ours_to_show() -> None:
    with connection() as database:
        assert database.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]
