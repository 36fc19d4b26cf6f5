"""Tidy tables on their way out: every output, every form, and texts that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from every_mechanism import INSTANCES, SCHEMA, table

from nabladp import CDP, Budget, NoisyMarginals, Release, Schema, Session
from nabladp.errors import MechanismError, ReleaseError, SourceError
from nabladp.mechanisms import Mechanism, tidy
from nabladp.noise import NoiseSource
from nabladp.release import Releases
from nabladp.schema import Attribute

FIRST = {type(mechanism).__name__: mechanism for mechanism in reversed(INSTANCES)}
RULES = ("PointLearner", "ThresholdLearner")  # which hold values of the schema, no numbers
BAD = ("=1+1", "+cmd|' /C calc'!A0", "-5 to 5", "@SUM(A1)", " =2", "\t=3", "＝4", 'x","=5', "-5", "+3e4")
SMALL = Schema((SCHEMA["region"], SCHEMA["age"]))
HOSTILE = Schema((Attribute("=kind", "categorical", values=BAD), Attribute("value", "boolean")))


@pytest.mark.parametrize("mechanism", FIRST.values(), ids=FIRST)
def test_every_output_is_one_tidy_table_in_every_form(mechanism: Mechanism, tmp_path: Path) -> None:
    output = mechanism.run(table(), NoiseSource.seeded(2)).bind(SCHEMA)
    values = output.to_arrow()
    if type(mechanism).__name__ not in RULES:
        assert [name for name in values.column_names if name in tidy.NUMBERS] == list(tidy.NUMBERS)
        assert all(isinstance(value, int | float) for value in values["value"].to_pylist())
    assert not any(pa.types.is_nested(kind) for kind in values.schema.types)
    frame, polars_frame = output.to_pandas(), output.to_polars()
    assert isinstance(frame, pd.DataFrame) and isinstance(polars_frame, pl.DataFrame)
    assert len(frame) == len(polars_frame) == values.num_rows
    assert output.to_csv(tmp_path / "v.csv") is None
    again = pd.read_csv(tmp_path / "v.csv", dtype=str, keep_default_na=False)
    assert list(again.columns) == values.column_names and len(again) == values.num_rows
    html = output._repr_html_()
    assert "<table" in html and len(html) < 30_000 and len(repr(output)) < 500
    assert sum(1 for _ in output) > 0


def marginals(sets: Any, people: Any = None, schema: Schema = SCHEMA, **options: Any) -> Any:
    rows = table() if people is None else people
    return NoisyMarginals(CDP(1.0), sets=sets, **options).run(rows, NoiseSource.seeded(3))


def test_a_row_for_each_cell_a_column_for_each_attribute() -> None:
    output = marginals((("sick", "region"), ("age",)))
    frame = output.to_pandas()
    pair = frame[frame.table == "sick+region"]
    assert len(pair) == 2 * 3 and pair.age.isna().all()
    for row in pair.itertuples():
        cell = output["sick", "region"][row.sick, row.region]
        assert (row.value, row.low, row.high) == pytest.approx(tuple(cell))
    assert isinstance(frame.age.dtype, pd.CategoricalDtype) and frame.age.dtype.ordered
    assert frame[frame.table == "age"].age.tolist() == [SCHEMA["age"].label(i) for i in range(SCHEMA["age"].size)]
    assert frame.noise_scale.tolist() == [t.scale for t in output for _ in range(t.counts.size)]


def test_tables_are_indexed_by_values_and_by_labels() -> None:
    output = marginals((("region", "sick"),))
    whole = output["region", "sick"]
    assert len(whole) == 6 and whole["n"].attributes == ("sick",)
    assert float(whole["n", True]) == whole["n"]["true"].value == whole.values[0, 1]
    assert "NoisyMarginal(region+sick" in repr(whole) and "<table" in whole._repr_html_()
    value, low, high = whole["s", False]
    assert low < value < high and f"{value:,.4g}" in str(whole["s", False])
    assert float(whole.raw["n", True]) == whole.counts[0, 1]
    with pytest.raises(MechanismError, match="not a value of 'region'"):
        whole["nowhere"]
    with pytest.raises(MechanismError, match="2 attributes"):
        whole["n", True, 1]


def test_very_many_attributes_share_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    output = marginals((("sick", "region"), ("age",)))
    wide = output.to_pandas()
    monkeypatch.setattr(tidy, "_MOST_ENTRIES", 10)
    shared = output.to_pandas()
    assert list(shared.columns[:5]) == ["table", "attribute_1", "level_1", "attribute_2", "level_2"]
    assert shared.value.tolist() == wide.value.tolist()
    assert shared.level_2[:6].tolist() == wide.region[:6].tolist() and shared.level_2[6:].isna().all()
    assert shared.level_1[6:].tolist() == wide.age[6:].tolist()


# ---- spreadsheets run formulas ---------------------------------------------------------------------------------------


@pytest.fixture
def hostile(tmp_path: Path) -> Release:
    people = pa.table({"=kind": BAD * 2, "value": [True, False] * len(BAD)})
    ledger = {"ledger": tmp_path / "l.db", "new_ledger": True}
    session = Session(people, HOSTILE, Budget(per_attribute=CDP(9)), noise=NoiseSource.seeded(1), **ledger)
    return session.release(NoisyMarginals(CDP(1), sets=(("=kind", "value"),)), to=tmp_path / "out")


def test_no_text_of_a_csv_begins_a_formula(hostile: Release) -> None:
    text = hostile.to_csv()
    head, *rows = csv.reader(io.StringIO(text))
    assert head == ["table", "'=kind", "value", "value_", "low", "high", "noise_scale", "measured"]
    told = [row[1] for row in rows[::2]]
    assert [cell.removeprefix("'") for cell in told] == list(BAD)
    assert [cell for cell in told if not cell.startswith("'")] == ['x","=5', "-5", "+3e4"]  # one text, two numbers
    assert all(cell.startswith("'=kind") for cell in (row[0] for row in rows))


def test_excel_holds_texts_as_texts_and_numbers_as_numbers(hostile: Release, tmp_path: Path) -> None:
    hostile.to_excel(tmp_path / "v.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "v.xlsx").active
    assert sheet is not None
    cells = list(sheet.iter_rows())
    assert {cell.data_type for row in cells for cell in row} == {"s", "n"}
    frame = hostile.to_pandas()
    assert [row[1].value for row in cells[1:]] == frame["=kind"].tolist()
    assert [row[3].value for row in cells[1:]] == frame["value_"].tolist()
    with pytest.raises(SourceError, match="xlsx"):
        hostile.to_excel(tmp_path / "v.csv")


# ---- published folders -----------------------------------------------------------------------------------------------


@pytest.fixture
def plan_folder(tmp_path: Path) -> Path:
    ledger = {"ledger": tmp_path / "ledger.db", "new_ledger": True}
    people = pa.table({"region": ["n", "s"] * 50, "age": list(range(10)) * 10})
    session = Session(people, SMALL, Budget(per_attribute=CDP(9)), **ledger)
    two = [("pairs", NoisyMarginals(CDP(1), k=2)), ("ages", NoisyMarginals(CDP(1), sets=(("age",),)))]
    session.release_all(two, to=tmp_path / "out")
    return tmp_path / "out"


def test_a_folder_holds_the_same_table_as_csv_and_parquet(plan_folder: Path) -> None:
    one = Release.read(plan_folder / "ages")
    listed = pq.read_table(plan_folder / "ages" / "values.parquet")
    from_csv = pa.csv.read_csv(plan_folder / "ages" / "values.csv")
    assert listed["value"].to_pylist() == from_csv["value"].to_pylist() == one.to_arrow()["value"].to_pylist()
    assert listed.column_names == from_csv.column_names
    assert set(one.hashes) == {"values.parquet", "values.csv"}


def test_a_folder_of_an_earlier_version_has_no_csv(plan_folder: Path) -> None:
    record = plan_folder / "ages" / "release.json"
    (plan_folder / "ages" / "values.csv").unlink()
    (plan_folder / "digests.txt").unlink()
    body = json.loads(record.read_bytes())
    del body["files"]["values.csv"]
    record.write_text(json.dumps(body))
    assert set(Release.read(plan_folder / "ages").hashes) == {"values.parquet"}


def test_a_whole_plan_is_opened_at_once(plan_folder: Path, tmp_path: Path) -> None:
    both = Release.load(plan_folder)
    assert isinstance(both, Releases) and list(both) == ["pairs", "ages"] and both["ages"].n == 100
    assert isinstance(Release.load(plan_folder / "ages"), Release)
    frame = both.to_pandas()
    assert set(frame.release) == {"pairs", "ages"} and len(frame) == sum(len(r.to_pandas()) for r in both.values())
    assert "'ages'" in repr(both) and "pairs" in both._repr_html_()
    both.to_excel(tmp_path / "both.xlsx")
    assert openpyxl.load_workbook(tmp_path / "both.xlsx").sheetnames == ["pairs", "ages"]
    with pytest.raises(ReleaseError, match="no release 'nothing'"):
        both["nothing"]
    with pytest.raises(ReleaseError):
        Release.load(tmp_path / "nowhere")


def test_what_is_no_number_is_an_empty_cell(tmp_path: Path) -> None:
    given = tidy.tidy_table({"a": ["x", "y"]}, {"value": [1.5, math.nan], "more": np.array([np.nan, 2.0])})
    assert given["value"].to_pylist() == [1.5, None] and given["more"].to_pylist() == [None, 2.0]
