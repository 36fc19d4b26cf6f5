"""Views of large tables: neighbouring values are added up, exactly, or the first rows are shown; both say so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from view_releases import read

from nabladp.mechanisms.synthesis import Synthesis
from nabladp.mechanisms.synthesis.inference.model import Model
from nabladp.privacy import CDP, Budget, Rho
from nabladp.release import Release, Session
from nabladp.report import write
from nabladp.schema import Attribute, Schema
from nabladp.views.condense import condense
from nabladp.views.view import Cells, Series, View, cell_axes, offset_column, value_column


def table(sizes: tuple[int, ...], ordered: tuple[int, ...], numbers: np.ndarray) -> View:
    """A table of all combinations, whose counts have intervals."""
    axes = cell_axes(
        [f"axis {i}" for i in range(len(sizes))], [[f"{i}.{j}" for j in range(s)] for i, s in enumerate(sizes)], ordered
    )
    at = len(sizes)
    columns = [
        *axes,
        value_column("count", "count"),
        offset_column("low", "count", at, -5),
        offset_column("high", "count", at, 5),
    ]
    return View("all", "heat", columns, Cells(numbers), names=range(at), series=[Series("count", at, at + 1, at + 2)])


def test_small_views_stay_as_they_are() -> None:
    view = table((50, 50), (50, 0), np.arange(2500))
    assert condense(view) is view


@pytest.mark.parametrize("ordered", [10_000, 9_998])
def test_a_long_axis_is_added_up_in_groups(ordered: int) -> None:
    numbers = np.arange(30_000)
    view = condense(table((10_000, 3), (ordered, 0), numbers))
    assert view.kind == "heat" and 40 <= len(view.columns[0].source["axis"]) <= 52
    body = view.to_json()
    rows = read(body)
    first = [int(row[0].split(" … ")[0].removeprefix("0.")) for row in rows]
    last = [int(row[0].split(" … ")[-1].removeprefix("0.")) for row in rows]
    whole = numbers.reshape(-1, 3)
    assert [row[2] for row in rows] == [
        whole[a : b + 1, int(row[1][-1])].sum() for a, b, row in zip(first, last, rows, strict=True)
    ]
    assert sorted({*first}) == sorted({0, *(b + 1 for b in last if b < 9_999)})
    assert "interval" in view.notes[0] and f"{ordered:,} values of axis 0" in view.notes[0]
    assert view.series[0].low is None and json.dumps(body)
    if ordered < 10_000:
        assert [*dict.fromkeys(row[0] for row in rows)][-2:] == ["0.9998", "0.9999"], "no value of the order"


def test_two_long_axes_and_one_alone() -> None:
    both = condense(table((1_000, 1_000), (1_000, 1_000), np.ones(1_000_000, dtype=np.int64)))
    assert len(both.rows) <= 2_500 and sum(both.rows) == 1_000_000 and len(both.notes) == 2
    alone = condense(table((9_999,), (9_999,), np.ones(9_999, dtype=np.int64)))
    assert alone.kind == "bars" and alone.ordered and len(alone.rows) == 200 and sum(alone.rows) == 9_999


def test_without_order_the_first_rows_are_shown() -> None:
    view = condense(table((9_999, 2), (0, 0), np.arange(19_998)))
    rows = read(view.to_json())
    assert view.kind == "table" and len(rows) == 2_500 and rows[-1] == ["0.1249", "1.1", 2499, 2494, 2504]
    assert view.notes == ["The first 2,500 of 19,998 rows; all are in values.parquet."]


def test_the_report_of_a_stored_synthesis_asks_nothing_of_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wide model takes minutes to answer; what it answered is published."""
    schema = Schema(
        (Attribute("long", "integer", low=0, high=1999), Attribute("a", "boolean"), Attribute("b", "boolean"))
    )
    draws = np.random.default_rng(1)
    rows = {
        "long": draws.integers(0, 2000, 300),
        "a": draws.integers(0, 2, 300) > 0,
        "b": draws.integers(0, 2, 300) > 0,
    }
    session = Session(pa.table(rows), schema, Budget(person=Rho(9)), tmp_path / "l.db", new_ledger=True)
    release = session.release(Synthesis(CDP(1)), to=tmp_path / "out")
    session.ledger.close()
    stored = Release.load(tmp_path / "out")
    assert stored.text == release.text and stored.digest == release.digest
    monkeypatch.setattr(Model, "marginals", lambda *_: pytest.fail("the model was asked"))
    shown = {view.title: view.to_json() for view in stored.views()}
    fresh = {view.title: view.to_json() for view in release.views()}
    assert shown.keys() == fresh.keys()
    for title, view in fresh.items():
        ours, theirs = ([value for row in read(body) for value in row] for body in (shown[title], view))
        assert [v for v in ours if isinstance(v, str)] == [v for v in theirs if isinstance(v, str)]
        numbers = [[v for v in own if isinstance(v, float)] for own in (ours, theirs)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-5, abs=1e-5)
    assert len(shown["long + a"]["rows"]) <= 2_500 and write(tmp_path / "out").stat().st_size < 1_000_000
