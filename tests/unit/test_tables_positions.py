"""Kernels that are told where a batch stands, and parts of a table's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from nabladp.errors import DataError
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, Kernel, PartOfRows, open_table

SCHEMA = Schema((Attribute("a", "integer", low=0, high=9), Attribute("b", "boolean")))
ROWS = 150_000


def codes(rows: int = ROWS) -> dict[str, Any]:
    number = np.arange(rows)
    return {"a": number * 7 // 3 % 10, "b": number // 5 % 2}


class Weighted(Kernel):
    """Σ of (row number)·code: only right if every row is told its own number."""

    by_row_index = True
    attributes = ("a",)

    def __call__(self, batch: Any) -> Any:
        raise AssertionError("a row index is needed")

    def at(self, batch: pa.RecordBatch, first: int) -> np.ndarray[Any, Any]:
        numbers = np.arange(first, first + batch.num_rows)
        return np.array([int(numbers @ batch.column("a").to_numpy().astype(np.int64)), batch.num_rows])

    def add_to(self, total: Any, batch: Any) -> None:
        raise AssertionError("a place is needed")


def tables(folder: Path) -> dict[str, Any]:
    frame = pd.DataFrame({"a": codes()["a"], "b": codes()["b"].astype(bool)})
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet", row_group_size=4096)
    return {
        "coded": CodedTable(SCHEMA, codes(), batch_rows=1000),
        "csv": open_table(folder / "rows.csv", SCHEMA),
        "parquet": open_table(folder / "rows.parquet", SCHEMA),
        "pandas": open_table(frame, SCHEMA),
    }


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("kind", ["coded", "csv", "parquet", "pandas"])
def test_every_row_is_told_its_own_place(kind: str, kept: bool, tmp_path: Path, monkeypatch: Any) -> None:
    if not kept:
        monkeypatch.setattr("nabladp.tables.table.KEPT_BYTES", 0)
    table = tables(tmp_path)[kind]
    wanted = int(np.arange(ROWS) @ codes()["a"])
    for _ in range(2):  # the second time perhaps from memory
        assert table.fold(Weighted()).tolist() == [wanted, ROWS]


def test_parts_of_rows_are_tables_of_their_own(tmp_path: Path) -> None:
    places = np.flatnonzero(np.arange(ROWS) % 7 == 3)
    chosen = np.isin(np.arange(ROWS), places)
    for table in tables(tmp_path).values():
        for inside in (True, False):
            part = PartOfRows(table, places, inside)
            wanted = CodedTable(SCHEMA, {name: column[chosen == inside] for name, column in codes().items()})
            assert part.n == wanted.n and part.schema is SCHEMA
            sets = [("a", "b"), ("b",)]
            pairs = zip(part.marginals(sets), wanted.marginals(sets), strict=True)
            assert all((one == other).all() for one, other in pairs)
    assert PartOfRows(table, places[:0], False).n == ROWS and PartOfRows(table, places).marginals([]) == []


@pytest.mark.parametrize("places", [[3, 2], [1, 1], [-1, 2], [ROWS]])
def test_places_that_are_none_are_refused(places: list[int]) -> None:
    with pytest.raises(DataError, match="sorted"):
        PartOfRows(CodedTable(SCHEMA, codes()), np.array(places))
