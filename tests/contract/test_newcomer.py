"""A new mechanism is three places, and no other file has to know of it: that of docs/contributing.md, put in place."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
from every_mechanism import SCHEMA, codes, loaded, table
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import nabladp.mechanisms
from nabladp.cli.app import app
from nabladp.release import Release
from nabladp.tables import CodedTable, decode

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
PLAN = """\
[table]
source = "people.parquet"
schema = "schema.toml"
[budget]
ledger = "ledger.db"
per_attribute = { pure = 2.0 }
[[release]]
name = "sick"
mechanism = "YesCount"
column = "sick"
budget = { pure = 0.5 }
"""


def block(start: str) -> str:
    (found,) = (text for text in BLOCKS if text.startswith(start))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Its folder, and its name at the front door."""
    home = tmp_path / "mechanisms" / "yes_count"
    home.mkdir(parents=True)
    (home / "mechanism.py").write_text(BLOCKS[0], encoding="utf-8")
    (home / "__init__.py").write_text("from nabladp.mechanisms.yes_count.mechanism import YesCount as YesCount\n")
    (home / "PROOF.md").write_text(block("# YesCount: proof"), encoding="utf-8")
    monkeypatch.setattr(nabladp.mechanisms, "__path__", [*nabladp.mechanisms.__path__, str(home.parent)])
    ((name, where),) = re.findall(r'"(\w+)": "([\w.]+)"', block("    from nabladp"))
    monkeypatch.setitem(nabladp.mechanisms._HOME, name, where)
    monkeypatch.setattr(nabladp.mechanisms, "MECHANISMS", tuple(nabladp.mechanisms._HOME))
    yield home
    for module in [name for name in sys.modules if name.startswith(where)]:
        del sys.modules[module]
    del nabladp.mechanisms.yes_count  # type: ignore[attr-defined]


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> ModuleType:
    """Its file of instances and faults."""
    path = tmp_path / "yes_count.py"
    path.write_text(block('"""YesCount'), encoding="utf-8")
    return loaded(path)


def test_it_keeps_all_promises(own: ModuleType) -> None:
    contract = loaded(ROOT / "tests/contract/test_mechanisms.py")
    promises = [one for name, one in vars(contract).items() if name.startswith("test_")]
    promises = [one for one in promises if list(inspect.signature(one).parameters) == ["mechanism"]]
    assert len(promises) >= 9
    for mechanism in own.INSTANCES:
        for promise in promises:
            promise(mechanism)
        (noisy,) = own.noisy(mechanism.run(table(), nabladp.NoiseSource.seeded(1)))
        assert noisy.dtype.kind == "i"


def test_its_fault_is_found(own: ModuleType) -> None:
    for fault in own.FAULTS:
        assert not fault.refuted()
        with fault.planted():
            assert fault.refuted()


def test_its_proof_and_its_code_cite_the_same_steps(folder: Path) -> None:
    loaded(ROOT / "tests/contract/test_proofs.py").test_anchors_in_code_and_proof_are_the_same(folder)
    for heading in ("Claim", "What the code checks", "Steps", "Numerics", "Differences from the paper"):
        assert f"## {heading}" in (folder / "PROOF.md").read_text(encoding="utf-8")


def test_generated_pages_know_it(own: ModuleType) -> None:
    assert loaded(ROOT / "docs/make_concept_figures.py").branches()[-1] == (
        "something else",
        (("how many rows say yes", "YesCount"),),
    )
    assert "### YesCount" in loaded(ROOT / "docs/make_plan_reference.py").page()


def test_it_is_planned_released_reported_compared_and_audited(
    own: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = codes(400)
    pq.write_table(decode(SCHEMA, people), tmp_path / "people.parquet")
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    priced = ask("cost", "plan.toml", "--json")
    assert priced["fits"] and priced["attributes"]["sick"]["pure_epsilon"] == 0.5
    ask("release", "plan.toml", "--new-ledger", "--json")
    (record,) = (tmp_path / "plan-release").rglob("release.json")
    described = json.loads((ROOT / "docs/release-schema.json").read_text(encoding="utf-8"))
    assert not list(Draft202012Validator(described).iter_errors(json.loads(record.read_bytes())))

    release = Release.load(record)
    (view,) = (view.to_json() for view in release.views())
    count = release.output.count  # type: ignore[attr-defined]
    assert view["kind"] == "bars" and view["rows"][0][:2] == ["sick", count]
    assert [label for label, _ in view["facts"]] == ["noise of a count", "predicted error of a count"]
    ask("report", "plan-release")
    assert "YesCount" in (tmp_path / "plan-release/report.html").read_text(encoding="utf-8")

    told = ask("compare", "plan-release", "people.parquet", "--to", "mine.html", "--json")
    (line,) = told["releases"][0]["tables"]
    true = int(CodedTable(SCHEMA, people).marginals([("sick",)])[0][1])
    assert line["table"] == "count" and line["actual"] == abs(count - true)
    assert line["predicted"] == pytest.approx(release.expected_error[0]["mean_absolute"])

    assert ask("audit", "plan.toml", "--seconds", "1", "--set", "sick", "--json")["passed"]


def ask(*command: str) -> Any:
    said = CliRunner().invoke(app, list(command), prog_name="nabladp")
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout) if "--json" in command else None
