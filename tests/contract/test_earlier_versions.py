"""What every earlier version wrote still loads: releases, ledgers, plans and schemas.

``tests/earlier`` holds a folder of each version as that version wrote it: its schema, plan, table, ledger and
releases of all mechanisms it had, in one archive.
"""

from __future__ import annotations

import contextlib
import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nabladp import Ledger, Release
from nabladp.cli.app import app
from nabladp.release import Plan
from nabladp.report import write

ARCHIVES = sorted((Path(__file__).resolve().parents[1] / "earlier").glob("*.zip"))
FIGURES = {"rho": 1e-12, "epsilon": 1e-9, "epsilon_paper": 1e-9}  # ε comes from a minimum found in floating point


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.stem)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def parts(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "release").iterdir() if path.is_dir())


def test_every_version_is_there() -> None:
    assert [path.stem for path in ARCHIVES] == ["0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0"]


def test_releases_load_with_the_figures_they_were_published_with(earlier: Path) -> None:
    for part in parts(earlier):
        release = Release.load(part)
        record = json.loads((part / "release.json").read_text(encoding="utf-8"))
        for name, stated in record["figures"]["attributes"].items():
            figure = release.guarantee.figure(name)
            assert figure.rho == pytest.approx(stated["rho"], rel=FIGURES["rho"])
            for conversion, key in (("tight", "epsilon"), ("paper", "epsilon_paper")):
                if stated.get(key) is not None:
                    assert figure.epsilon(release.delta, conversion) == pytest.approx(stated[key], rel=FIGURES[key])
        assert release.guarantee.per_person().rho == pytest.approx(record["figures"]["person"]["rho"], rel=1e-12)
        assert release.views() and release.output.to_arrow(release.schema).num_rows > 0


def test_a_report_of_all_of_them_is_written(earlier: Path) -> None:
    page = write(earlier / "release", earlier / "report.html")
    text = page.read_text(encoding="utf-8")
    assert all(part.name in text for part in parts(earlier))


def test_a_ledger_holds_what_was_spent_before_and_after_it_migrates(earlier: Path) -> None:
    spent = sum(Release.load(part).guarantee.rho("region") for part in parts(earlier))
    with Ledger.read(earlier / "ledger.db") as ledger:
        assert ledger.verify() == [] and ledger.spent_on(["region"]).rho == pytest.approx(spent, rel=1e-12)
        head = ledger.head.seq
    Ledger.migrate(earlier / "ledger.db")
    with Ledger.open(earlier / "ledger.db") as ledger:
        assert ledger.verify() == [] and ledger.spent_on(["region"]).rho == pytest.approx(spent, rel=1e-12)
        assert ledger.head.seq >= head and not ledger.unfinished()


def test_plans_cost_no_more_than_they_did(earlier: Path) -> None:
    """Nor much less: a strategy that "auto" chooses now may cost a person a little less."""
    plan = Plan.load(earlier / "plan.toml")
    before = sum(Release.load(part).guarantee.per_person().rho for part in parts(earlier))
    assert 0.99 * before < plan.cost().guarantee.per_person().rho <= before * (1 + 1e-9)


def test_a_folder_of_earlier_versions_goes_on_once_its_ledger_has_migrated(earlier: Path) -> None:
    """What "Coming from 0.6" in the changelog tells people to do."""
    head, *releases = (earlier / "plan.toml").read_text(encoding="utf-8").split("[[release]]")
    (earlier / "plan.toml").write_text("[[release]]".join([head, releases[0]]), encoding="utf-8")
    said = [
        invoke(earlier, command) for command in ("check plan.toml", "cost plan.toml", "release plan.toml --to next")
    ]
    assert [code for code, _ in said] == [0, 0, 1] and "nabladp ledger migrate" in said[-1][1]
    for command in (
        "ledger migrate ledger.db",
        "release plan.toml --to next",
        "ledger verify ledger.db",
        "verify release --ledger ledger.db",
    ):
        code, output = invoke(earlier, command)
        assert code == 0, f"{command}\n{output}"


def invoke(folder: Path, command: str) -> tuple[int, str]:
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, command.split(), prog_name="nabladp")
    return result.exit_code, result.output
