"""Which rows of a person are used: the same on every engine, by the rows' order alone, whatever they say."""

from __future__ import annotations

import datetime as dt
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from many_rows import ROWS, SCHEMA, SETS, counted, of_people, visits, wanted, wanted_of_people

from nabladp.errors import DataError
from nabladp.person import Person
from nabladp.schema import Attribute, Schema
from nabladp.tables import PartOfRows, check_table, open_table, people

UNORDERED = ("glob", "query", "lazy", "several kinds")


def counts(table: Any) -> list[list[int]]:
    return [array.ravel().tolist() for array in table.marginals(SETS)]


def sources(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    frame.to_csv(folder / "visits.csv", index=False)
    frame.to_parquet(folder / "visits.parquet", row_group_size=257)
    (folder / "parts").mkdir(exist_ok=True)
    for i in range(3):  # a person's rows are in several files, of different kinds
        part = frame.iloc[i::3]
        part.to_csv(folder / f"parts/{i}.csv", index=False) if i else part.to_parquet(folder / f"parts/{i}.parquet")
    (folder / "mixed").mkdir(exist_ok=True)
    columns = {name: frame[name].iloc[::2] for name in frame}
    pyarrow.feather.write_feather(pa.Table.from_pandas(pd.DataFrame(columns)), folder / "mixed/0.feather")
    frame.iloc[1::2].to_csv(folder / "mixed/1.csv", index=False)
    texts = frame.assign(
        patient=frame["patient"].map("  {} ".format, na_action="ignore"), visit=frame["visit"].astype("string")
    )
    return {
        "csv": folder / "visits.csv",
        "parquet": str(folder / "visits.parquet"),
        "pandas": frame,
        "pandas, texts": texts,
        "arrow, floats": pa.table({**{n: frame[n] for n in frame}, "patient": frame["patient"].astype("Float64")}),
        "polars": pl.from_pandas(frame),
        "glob": str(folder / "parts" / "*"),
        "lazy": pl.scan_parquet(folder / "visits.parquet").sort("b"),
        "several kinds": str(folder / "mixed" / "*"),
        "query": f"select * from '{folder / 'visits.parquet'}' order by a, b",
    }


@pytest.mark.parametrize("at_once", [people.ROWS_AT_ONCE, 500], ids=["in memory", "dealt out"])
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("row_id", [None, "visit"])
def test_all_engines_use_the_same_rows(
    row_id: str | None, kept: bool, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "ROWS_AT_ONCE", at_once)
    if not kept:
        monkeypatch.setattr("nabladp.tables.table.KEPT_BYTES", 0)
    frame, person = visits(), Person("patient", 2, row_id)
    used = frame.loc[wanted(frame, person)]
    assert len(used) < 0.9 * ROWS
    for name, source in sources(frame, tmp_path).items():
        if row_id is None and name in UNORDERED:
            continue
        table = open_table(source, SCHEMA, person=person)
        assert table.n == len(used) and table.known_rows is None, name
        assert counts(table) == counted(used), name
        table.check_row_order()  # its rows have a fixed order, also those of a query
        if kept:  # which is about codes of rows, not of people
            assert of_people(table) == wanted_of_people(frame, person), name
        half = PartOfRows(table, np.arange(0, table.n, 2))
        rest = PartOfRows(table, np.arange(0, table.n, 2), inside=False)
        sums = [np.add(one, other).tolist() for one, other in zip(counts(half), counts(rest), strict=True)]
        assert sums == counted(used), name


@pytest.mark.parametrize("row_id", [None, "visit"])
def test_no_value_of_a_row_decides_whether_it_is_used(row_id: str | None, tmp_path: Path) -> None:
    """Also where a value breaks a rule of the schema: in a row that is not used, nobody notices."""
    frame, person = visits(600), Person("patient", 2, row_id)
    chosen = wanted(frame, person)
    unused = ~frame.index.isin(chosen)
    other = frame.copy()
    other["a"] = 9 - other["a"]
    other.loc[unused, "a"] = 77
    other.loc[unused, "b"] = "?"
    for source in sources(other, tmp_path).values():
        try:
            table = open_table(source, SCHEMA, person=person)
        except DataError:
            assert row_id is None
            continue
        assert counts(table) == counted(frame.loc[chosen].assign(a=9 - frame["a"])) and check_table(table) == []


def test_more_rows_of_a_person_beyond_those_used_change_nothing(tmp_path: Path) -> None:
    frame, person = visits(600), Person("patient", 3, "visit")
    full = frame["patient"].value_counts().loc[lambda c: c >= 3].index[0]
    more = pd.DataFrame({"patient": full, "visit": np.arange(10_000, 10_050), "a": 5, "b": "x"})
    both = [open_table(own, SCHEMA, person=person) for own in (frame, pd.concat([more, frame]))]
    assert both[0].n == both[1].n and counts(both[0]) == counts(both[1])


def test_row_ids_of_every_kind(tmp_path: Path) -> None:
    """Numbers by their size, also as text; dates in their order; other texts after all numbers."""
    days = [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in (9, 0, 30, 2)]
    kinds = {
        "numbers": pa.array([10, 2, 30, 4]),
        "numbers as text": pa.array(["10", "2", "30", "4"]),
        "dates": pa.array(days),
        "moments": pa.array([dt.datetime(d.year, d.month, d.day, 8) for d in days]),
        "texts": pa.array(["b7", "9", "c", "b10"]),
    }
    for kind, order in kinds.items():
        table = pa.table({"patient": ["p"] * 4, "visit": order, "a": [0, 1, 2, 3], "b": ["x"] * 4})
        (ages,) = open_table(table, SCHEMA, person=Person("patient", 2, "visit")).marginals([("a",)])
        assert np.flatnonzero(ages).tolist() == [1, 3], kind


def test_one_id_in_files_of_several_kinds_is_one_person(tmp_path: Path) -> None:
    """Numbers, their texts, and what a program makes of numbers where some were missing: "3.0"."""
    long = 1_234_567_890_123_456_789
    pa.parquet.write_table(
        pa.table({"patient": [long, 3, -7], "visit": [1, 1, 1], "a": [0] * 3}), tmp_path / "0.parquet"
    )
    rows = f"{long},2\n3.0,3\n-7.00,4\n 3 ,5\n03,6\n3.5,7\n"
    (tmp_path / "1.csv").write_text("patient,visit,a\n" + rows.replace("\n", ",1\n"))
    ages = Schema((SCHEMA["a"],))
    table = open_table(str(tmp_path / "*"), ages, person=Person("patient", 1, "visit"))
    assert table.marginals([("a",)])[0].tolist()[:2] == [3, 2]  # "03" and "3.5" are others


def test_numbers_beyond_those_of_a_float_name_people() -> None:
    """Decimals, as databases have them; the text of a 64-bit integer has the hash of that number."""
    large = [10**20, 10**20 + 1, 10**20]
    table = pa.table({"patient": pa.array(map(str, large)).cast(pa.decimal128(38, 0)), "a": [0, 1, 2], "b": ["x"] * 3})
    (ages,) = open_table(table, SCHEMA, person=Person("patient")).marginals([("a",)])
    assert ages.tolist()[:3] == [1, 1, 0]
    ends = pa.array([-(2**63), -(2**63) + 1, -(10**18), -1, 0, 9, 10**18 - 1, 10**18, 2**63 - 1])
    numbers, texts = (people._hashes(column, Person("patient")) for column in (ends, ends.cast(pa.string())))
    beyond = people._hashes(pa.array([str(2**63), str(-(2**63) - 1), str(2**64)]), Person("patient"))
    assert (numbers == texts).all() and len({*numbers.tolist(), *beyond.tolist()}) == len(ends) + 3


def test_bytes_name_people_too() -> None:
    """UUIDs, for instance."""
    ids = pa.array([b"a" * 16, b"b" * 16, b"a" * 16], pa.binary(16))
    for column in (ids, ids.cast(pa.binary())):
        table = pa.table({"patient": column, "a": [0, 1, 2], "b": ["x"] * 3})
        (ages,) = open_table(table, SCHEMA, person=Person("patient")).marginals([("a",)])
        assert ages.tolist()[:3] == [1, 1, 0]
    empty = pa.table({"patient": [b"", b"a"], "a": [0, 1], "b": ["x"] * 2})
    with pytest.raises(DataError, match="names people, is empty"):
        open_table(empty, SCHEMA, person=Person("patient")).n  # noqa: B018


@pytest.mark.parametrize("at_once", [people.ROWS_AT_ONCE, 10], ids=["in memory", "dealt out"])
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"patient": None}, "names people, is empty"),
        ({"visit": None}, "does not order the rows"),
        ({"visit": 7}, "does not order the rows"),
    ],
)
def test_rows_of_nobody_and_rows_without_an_order_are_refused(
    changes: dict[str, Any], what: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "ROWS_AT_ONCE", at_once)
    frame = visits(60).astype({"patient": "Int64", "visit": "Int64"})
    frame["patient"] = frame["patient"] * 1_000_003
    for name, value in changes.items():
        frame.loc[frame.index[-9:], name] = pd.NA if value is None else value
    if "visit" in changes:
        frame.loc[frame.index[-9:], "patient"] = 1_000_003
    for source in sources(frame, tmp_path).values():
        with pytest.raises(DataError, match=what) as caught:
            open_table(source, SCHEMA, person=Person("patient", 2, "visit")).n  # noqa: B018
        assert "1000003" not in str(caught.value).replace("_", "")


def test_what_cannot_name_or_order_people_is_refused(tmp_path: Path) -> None:
    frame = visits(60)
    made = sources(frame, tmp_path)
    for name in UNORDERED:
        with pytest.raises(DataError, match="have no order"):
            open_table(made[name], SCHEMA, person=Person("patient", 2))
    with pytest.raises(DataError, match="no column 'pateint'"):
        open_table(frame, SCHEMA, person=Person("pateint", 2))
    with pytest.raises(DataError, match="is an attribute as well"):
        open_table(frame, SCHEMA, person=Person("a", 2))
    with pytest.raises(DataError, match="is an attribute as well"):
        open_table(frame, SCHEMA, person=Person("patient", 2, "a"))
    public = Schema((Attribute("a", "integer", low=0, high=9, public=True), SCHEMA["b"]))
    open_table(frame, public, person=Person("patient", 2, "a"))
    for wrong in ({"rows": 0}, {"id": ""}, {"id": "p", "row_id": "p"}, {"row_id": "r"}, {"id": 3}, {"rows": True}):
        with pytest.raises(DataError):
            Person(**wrong)


def test_what_is_no_text_names_nobody() -> None:
    good, rest = pa.array([1, 2]), {"a": [0, 1], "b": ["x"] * 2}
    for wrong in (pa.array([[1], [2]]), pa.array([{"n": 1}, {"n": 2}]), good.cast(pa.duration("s"))):
        for columns, name in (
            ({"patient": wrong, "visit": good}, "patient"),
            ({"patient": good, "visit": wrong}, "visit"),
        ):
            with pytest.raises(DataError, match=f"'{name}' holds lists"):
                open_table(pa.table(columns | rest), SCHEMA, person=Person("patient", 2, "visit")).n  # noqa: B018


def test_a_declared_number_of_rows_is_that_of_the_rows_used(tmp_path: Path) -> None:
    frame, person = visits(), Person("patient", 2)
    used = len(wanted(frame, person))
    table = open_table(frame, SCHEMA, used, person=person)
    assert table.known_rows == used and counts(table) == counted(frame.loc[wanted(frame, person)])
    with pytest.raises(DataError, match="another number of rows than"):
        open_table(frame, SCHEMA, ROWS, person=person).marginals(SETS)


def test_a_file_that_changes_between_passes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabladp.tables.table.KEPT_BYTES", 0)
    path = tmp_path / "visits.csv"
    for rows in (59, 61):
        visits(60).to_csv(path, index=False)
        table = open_table(path, SCHEMA, person=Person("patient", 2))
        table.n  # noqa: B018
        visits(61).iloc[:rows].to_csv(path, index=False)
        with pytest.raises(DataError, match="another number of rows than"):
            table.marginals(SETS)


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(people, "ROWS_AT_ONCE", 100)
    table = open_table(sources(visits(), tmp_path)["query"], SCHEMA, person=Person("patient", 2, "visit"))
    counts(table)
    del table
    gc.collect()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_empty_query_has_no_rows() -> None:
    with pytest.raises(DataError, match="no rows"):
        query = "select 1 as patient, 2 as visit, 3 as a, 'x' as b where false"
        open_table(query, SCHEMA, person=Person("patient", 2, "visit")).n  # noqa: B018
    empty = pa.table(
        {"patient": pa.array([], pa.int64()), "a": pa.array([], pa.int64()), "b": pa.array([], pa.string())}
    )
    with pytest.raises(DataError, match="no rows"):
        open_table(empty, SCHEMA, person=Person("patient")).n  # noqa: B018
