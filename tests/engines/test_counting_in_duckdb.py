"""Marginals of whole numbers in a Parquet file: counted by DuckDB itself, equal to those of rows that are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nabladp.errors import DataError
from nabladp.schema import Attribute, Schema
from nabladp.tables import open_table, sources
from nabladp.tables import table as tables

ROWS = 5000
A = Attribute("a", "integer", low=-3, high=4)
B = Attribute("b", "integer", low=10, high=60, null="category", unknown="other")
SETS = (("a", "b"), ("b",), ("a",))


def write(path: Path, b: Any, kind: pa.DataType) -> Path:
    draws = np.random.default_rng(2)
    columns = {"a": pa.array(draws.integers(-3, 5, ROWS), pa.int8()), "x": draws.random(ROWS), "b": pa.array(b, kind)}
    pq.write_table(pa.table(columns), path, row_group_size=700)
    return path


def in_domain() -> Any:
    return np.random.default_rng(3).integers(10, 61, ROWS)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What DuckDB counted; None for each time that it had to hand out rows."""
    found: list[Any] = []

    def watched(*given: Any) -> Any:
        found.append(sources.count_codes(*given))
        return found[-1]

    monkeypatch.setattr(tables, "count_codes", watched)
    return found


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64()])
def test_counts_are_those_of_the_rows(tmp_path: Path, passes: list[Any], kind: pa.DataType) -> None:
    path, schema = write(tmp_path / "t.parquet", in_domain(), kind), Schema((A, B))
    counted = open_table(path, schema).marginals(SETS)
    read = open_table(pq.read_table(path), schema).marginals(SETS)
    assert len(passes) == 1 and passes[0] is not None
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(counted, read, strict=True))


def test_files_of_a_glob_are_added(tmp_path: Path, passes: list[Any]) -> None:
    for i, kind in enumerate((pa.int8(), pa.int64())):
        write(tmp_path / f"{i}.parquet", in_domain(), kind)
    (counted,) = open_table(str(tmp_path / "*.parquet"), Schema((A, B))).marginals([("b", "a")])
    assert passes[0] is not None and counted.sum() == 2 * ROWS


def test_rows_outside_the_domain_are_encoded_as_declared(tmp_path: Path, passes: list[Any]) -> None:
    b = [None if i % 7 == 0 else 9 if i % 11 == 0 else 10 + i % 51 for i in range(ROWS)]
    path = write(tmp_path / "t.parquet", b, pa.int32())
    counted = open_table(path, Schema((A, B))).marginals(SETS)
    read = open_table(pq.read_table(path), Schema((A, B))).marginals(SETS)
    assert passes == [None]
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(counted, read, strict=True))
    refusing = Schema((A, Attribute("b", "integer", low=10, high=60)))
    with pytest.raises(DataError):
        open_table(path, refusing).marginals([("a", "b")])


@pytest.mark.parametrize("kind", [pa.float64(), pa.uint64(), pa.string()])
def test_columns_of_another_type_are_read(tmp_path: Path, passes: list[Any], kind: pa.DataType) -> None:
    b = in_domain()
    path = write(tmp_path / "t.parquet", b.astype(str) if kind == pa.string() else b, kind)
    (counted,) = open_table(path, Schema((A, B))).marginals([("b",)])
    assert passes == [None]
    assert np.array_equal(counted[:51], np.bincount(b - 10, minlength=51))


def test_a_number_that_stands_for_null_is_read(tmp_path: Path, passes: list[Any]) -> None:
    missing = Attribute("b", "integer", low=10, high=60, null="category", null_values=(60,))
    b = in_domain()
    path = write(tmp_path / "t.parquet", b, pa.int16())
    (counted,) = open_table(path, Schema((A, missing))).marginals([("b",)])
    assert passes == [None] and counted[-1] == (b == 60).sum()


def test_a_wrong_number_of_rows_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", in_domain(), pa.int32())
    with pytest.raises(DataError):
        open_table(path, Schema((A, B)), rows=ROWS - 1).marginals([("a",)])


def test_the_widest_numbers_are_outside_the_domain_and_nothing_else(tmp_path: Path, passes: list[Any]) -> None:
    b = [(-(2**63), 2**63 - 1, 30)[i % 3] for i in range(ROWS)]
    path = write(tmp_path / "t.parquet", b, pa.int64())
    (counted,) = open_table(path, Schema((A, B))).marginals([("b",)])
    assert passes == [None] and counted[20] == ROWS // 3 and counted[B.other_code] == ROWS - ROWS // 3
