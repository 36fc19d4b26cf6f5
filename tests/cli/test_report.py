"""``nabladp report``, and the report that a release brings along."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nabladp import Release
from nabladp.report import load, report


def pages_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.fixture
def published(desk: Any) -> Any:
    assert desk.run("release", "plan.toml").code == 0
    return desk


def test_a_release_brings_its_report(desk: Any) -> None:
    said = desk.run("release", "plan.toml")
    folder = desk.folder / "plan-release"
    assert said.code == 0 and "report.html" in said.words
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "a neighbour" in text and Release.load(folder / "pairs").digest in text
    assert "report.html" not in (folder / "digests.txt").read_text()
    assert desk.run("ledger", "verify", "--release", "plan-release").code == 0
    again = desk.run("release", "plan.toml", "--to", "second", "--json").json
    assert again["report"] == str(Path("second") / "report.html") and (desk.folder / again["report"]).exists()


def test_a_report_that_fails_never_harms_the_release(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("CANARY")

    monkeypatch.setattr("nabladp.report.page.page", fail)
    said = desk.run("release", "plan.toml")
    assert said.code == 0 and "could not be written" in said.words and "CANARY" not in said.words
    assert sorted(p.name for p in (desk.folder / "plan-release").iterdir()) == ["digests.txt", "pairs"]
    assert Release.load(desk.folder / "plan-release" / "pairs").n == 60 and desk.unfinished() == []
    monkeypatch.undo()
    assert desk.run("report", "plan-release").code == 0


def test_demo_brings_its_report(desk: Any) -> None:
    assert desk.run("demo", "made up", "--people", "2000", "--json").code == 0
    assert (desk.folder / "made up" / "plan-release" / "report.html").exists()


def test_for_a_folder_a_part_and_a_record(published: Any) -> None:
    folder = published.folder / "plan-release"
    before = (folder / "report.html").read_text(encoding="utf-8")
    (folder / "report.html").unlink()
    assert published.run("report", "plan-release").code == 0
    assert (folder / "report.html").read_text(encoding="utf-8") == before, "the same release, the same page"
    said = published.run("report", "plan-release/pairs", "--to", "part.html", "--title", "Only <pairs>", "--json")
    assert said.json == {"report": "part.html", "pdf": None, "certificate": None, "png": []}
    assert "Only &lt;pairs&gt;" in (published.folder / "part.html").read_text(encoding="utf-8")
    record = folder / "pairs" / "release.json"
    assert report(record, "x") == report(Release.load(record), "x") == report(folder, "x")
    assert [release.name for release in load(folder)] == [Release.load(record).name]


def test_what_cannot_be_reported_is_said(published: Any) -> None:
    (published.folder / "empty").mkdir()
    assert "no release" in published.refused("report", "empty", error="ReleaseError")["message"]
    published.refused("report", "nowhere", error="ReleaseError")
    published.refused("report", "plan-release", "--to", "no/such/folder.html", error="ReleaseError")
    record = published.folder / "plan-release" / "pairs" / "release.json"
    record.write_bytes(record.read_bytes().replace(b'"n": 60', b'"n": 61'))
    answer = published.refused("report", "plan-release", error="ReleaseError")
    assert "release.json" in answer["message"]


def test_without_a_browser_only_html(published: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabladp.report.rendering.NAMES", ("no-such-browser",))
    monkeypatch.delenv("NABLADP_BROWSER", raising=False)
    answer = published.refused("report", "plan-release", "--pdf", "x.pdf", error="MissingPart")
    assert "NABLADP_BROWSER" in answer["fix"] and not (published.folder / "x.pdf").exists()
    monkeypatch.setenv("NABLADP_BROWSER", "false")  # a program that is no browser
    published.refused("report", "plan-release", "--pdf", "x.pdf", error="ReleaseError")


def test_on_paper_and_as_pictures(published: Any, program: Callable[[str], str]) -> None:
    program("chromium")
    said = published.run(
        "report", "plan-release", "--pdf", "all.pdf", "--certificate", "one.pdf", "--png", "charts", "--json"
    )
    assert said.code == 0, said.words
    assert pages_of((published.folder / "all.pdf").read_bytes()) > 1
    assert pages_of((published.folder / "one.pdf").read_bytes()) == 2
    pictures = said.json["png"]
    assert [Path(path).name for path in pictures] == ["01-001-region-income.png", "01-002-health.png"]
    for path in pictures:
        content = (published.folder / path).read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) > 3000
