"""The database that reads tables is locked."""

from __future__ import annotations

import duckdb
import pytest

from nabladp.tables.duck import connection


def test_a_query_can_change_no_setting() -> None:
    with connection() as database, pytest.raises(duckdb.Error, match="locked"):
        database.execute("SET enable_external_access = true")
