"""What docs/evidence tells of Table 1 is what its script makes of the measurements."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("make_table1_figures")


def test_figures_and_tables_are_current(made: ModuleType) -> None:
    found = made.measured()
    for file, drawn in made.pictures(found).items():
        assert file.read_text(encoding="utf-8") == drawn, "run docs/make_table1_figures.py"
    page = made.PAGE.read_text(encoding="utf-8")
    assert made.filled(page, found) == page, "run docs/make_table1_figures.py"
    assert all(f"<!-- measured: {name} -->\n|" in page and f"]({name}" not in page for name in made.tables(found))


def test_other_measurements_would_show(made: ModuleType) -> None:
    found = json.loads(made.MEASURED.read_text(encoding="utf-8"))
    page = made.PAGE.read_text(encoding="utf-8")
    for row in found["rows"]:
        before = made.draw(row)
        row["curves"][0]["points"][0]["mean"] *= 2
        row["curves"][0]["exponent"]["measured"] += 1
        assert made.draw(row) != before
    assert made.filled(page, found) != page


def test_it_is_a_full_run_of_all_rows(made: ModuleType) -> None:
    found = made.measured()
    assert found["bench"] == "table1" and not found["quick"]
    assert [row["row"] for row in found["rows"]] == list(made.TITLES)
    for row in found["rows"]:
        assert {"attribute", "person"} <= {curve["unit"] for curve in row["curves"] if curve["against"] == "d"}
    page = made.PAGE.read_text(encoding="utf-8")
    assert all(f"](table1_{name}.svg)" in page for name in made.TITLES)
