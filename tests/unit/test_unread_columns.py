"""What is not read is not looked at: a column that a release leaves out cannot make it fail, on any engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nabladp.errors import DataError, SourceError
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Ledger
from nabladp.release import Session
from nabladp.schema import Attribute, Schema
from nabladp.tables import Kernel, open_table

SCHEMA = Schema(
    (
        Attribute("wrong", "integer", low=0, high=3),  # the first: the one that a careless engine would read
        Attribute("a", "integer", low=0, high=4),
        Attribute("b", "boolean"),
        Attribute("late", "categorical", values=("x", "y")),
    )
)
ROWS = 900
A = np.arange(ROWS) * 7 % 5
B = np.arange(ROWS) // 3 % 2


def people() -> pa.Table:
    wrong = ["CANARY" if row == 500 else str(row % 4) for row in range(ROWS)]
    late = ["x" if row < ROWS - 1 else "CANARY" for row in range(ROWS)]
    return pa.table({"wrong": wrong, "a": A, "b": B.astype(bool), "late": late})


def made(kind: str, folder: Path) -> Any:
    table = people()
    if kind == "csv":
        table.to_pandas().to_csv(folder / "people.csv", index=False)
    elif kind == "json":
        table.to_pandas().to_json(folder / "people.json", orient="records")
    else:
        pq.write_table(table, folder / "people.parquet", row_group_size=100)
    within = "select cast(wrong as integer) as wrong, a, b, late from 'people.parquet'"
    files = {"csv": "people.csv", "json": "people.json", "parquet": "people.parquet"}
    frames = {"pandas": table.to_pandas(), "polars": pl.DataFrame(table), "arrow": table}
    return folder / files[kind] if kind in files else within if kind == "query" else frames[kind]


class Positions(Kernel):
    attributes = ("a",)
    by_row_index = True

    def __call__(self, batch: Any) -> Any:
        raise AssertionError("a row index is needed")

    def at(self, batch: pa.RecordBatch, first: int) -> Any:
        assert batch.schema.names == ["a"]
        return np.array([np.arange(first, first + batch.num_rows) @ batch.column("a").to_numpy().astype(np.int64)])


KINDS = ("csv", "json", "parquet", "query", "pandas", "polars", "arrow")


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_read_makes_nothing_fail(kind: str, kept: bool, tmp_path: Path, monkeypatch: Any) -> None:
    if not kept:
        monkeypatch.setattr("nabladp.tables.table.KEPT_BYTES", 0)
    table = open_table(made(kind, tmp_path), SCHEMA, folder=tmp_path)
    pair = np.zeros((5, 2), np.int64)
    np.add.at(pair, (A, B), 1)
    for _ in range(2):
        assert [counts.tolist() for counts in table.marginals([("a",), ("b",)])] == [
            pair.sum(axis=1).tolist(),
            pair.sum(axis=0).tolist(),
        ]
        assert table.fold(Positions()).tolist() == [int(np.arange(ROWS) @ A)]
        assert [int(counts) for counts in table.marginals([()])] == [ROWS]  # reads no column at all
        for name in ("late", "wrong"):
            with pytest.raises((DataError, SourceError)) as told:
                table.marginals([(name, "a")])
            assert "CANARY" not in str(told.value)
        np.testing.assert_array_equal(table.marginals([("a", "b")])[0], pair)


def test_a_release_does_not_look_at_other_columns(tmp_path: Path) -> None:
    budget = Budget(per_attribute=CDP(9.0))
    ledger = Ledger.create(tmp_path / "ledger.db", SCHEMA, budget, test=True)
    session = Session(people(), SCHEMA, budget, ledger, noise=NoiseSource.seeded(1))
    assert session.release(NoisyMarginals(sets=(("a", "b"),), budget=CDP(0.5))).n == ROWS


@pytest.mark.parametrize("kind", KINDS)
def test_loaded_columns_are_read_once_and_their_faults_met_then(kind: str, tmp_path: Path, monkeypatch: Any) -> None:
    """So that a column that breaks its rules is met before any noise is drawn."""
    table = open_table(made(kind, tmp_path), SCHEMA, folder=tmp_path)
    with pytest.raises((DataError, SourceError)):
        table.load(("a", "wrong"))
    seen: list[tuple[int, int]] = []
    table.load(("a", "b"), lambda *rows: seen.append(rows))
    assert seen[-1] == (ROWS, ROWS)
    monkeypatch.setattr(type(table._source), "batches", None)
    table.load(("a",))
    assert int(table.marginals([("a", "b")])[0].sum()) == ROWS


def test_a_large_file_is_not_loaded(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("nabladp.tables.table.KEPT_BYTES", 0)
    open_table(made("parquet", tmp_path), SCHEMA).load(("wrong",))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_rows_stay_together_when_a_frame_is_changed_between_passes(library: str) -> None:
    """Columns are encoded one by one: a frame sorted in between must not mix people."""
    schema = Schema((SCHEMA["a"], SCHEMA["b"]))
    frame: Any = pd.DataFrame({"a": A, "b": A > 2})
    if library == "polars":
        frame = pl.DataFrame(frame)
    table = open_table(frame, schema)
    table.marginals([("a",)])
    if library == "pandas":
        frame["b"] = np.sort(frame["b"])
        frame.loc[ROWS] = [0, False]
    else:
        frame.replace_column(1, frame["b"].sort())
    counts = table.marginals([("a", "b")])[0]
    assert counts.sum() == ROWS and not counts[:3, 1].any() and not counts[3:, 0].any()


def test_kept_columns_of_a_query_come_from_one_pass(tmp_path: Path) -> None:
    """A grouping query returns its rows in another order each time: codes of two passes must never be combined."""
    rows = 400_000
    same = np.arange(rows) % 5
    pq.write_table(pa.table({"id": np.arange(rows), "a": same, "b": same}), tmp_path / "people.parquet")
    schema = Schema(tuple(Attribute(name, "integer", low=0, high=4) for name in ("a", "b")))
    query = "select id, any_value(a) as a, any_value(b) as b from 'people.parquet' group by id"
    table = open_table(query, schema, folder=tmp_path)
    table.marginals([("a",)])
    table.marginals([("b",)])
    counts = table.marginals([("a", "b")])[0]
    assert counts.sum() == rows and (counts == np.diag(np.diag(counts))).all()


def test_rows_of_a_large_query_have_no_places(tmp_path: Path, monkeypatch: Any) -> None:
    """A holdout and randomized labels tell rows apart by their places; another order would use a person twice."""
    made("parquet", tmp_path)
    query = open_table("select a, b from 'people.parquet'", Schema((SCHEMA["a"], SCHEMA["b"])), folder=tmp_path)
    query.check_row_order(("a", "b"))
    monkeypatch.setattr("nabladp.tables.table.KEPT_BYTES", ROWS)
    query.check_row_order(("a",))
    with pytest.raises(DataError, match="no fixed order"):
        query.check_row_order(("a", "b"))
    open_table(tmp_path / "people.parquet", SCHEMA).check_row_order()


@pytest.mark.parametrize("kind", ["parquet", "pandas", "polars", "arrow"])
def test_a_number_of_rows_known_to_be_wrong_is_refused_before_anything_is_reserved(kind: str, tmp_path: Path) -> None:
    source, budget = made(kind, tmp_path), Budget(per_attribute=CDP(9.0))
    ledger = Ledger.create(tmp_path / "ledger.db", SCHEMA, budget)
    for table in (source, open_table(source, SCHEMA)):
        with pytest.raises(DataError, match=r"has 900 rows.*given as 800") as told:
            Session(table, SCHEMA, budget, ledger, rows=800)
        assert told.value.fields["rows"] == ROWS and "rows = 900" in told.value.fix
    assert ledger.unfinished() == []
