"""On paper nothing is lost: every mark and label of every kind of view is in the PDF, inside its printable box."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench._printing import marks_lost
from bench._view_kinds import every_kind, page_of
from nabladp.errors import ReleaseError
from nabladp.report import rendering
from nabladp.report.rendering import PAPERS, write_pdf


@pytest.fixture
def opened(browser: Any, program: Any) -> Any:
    for name in ("pdftotext", "pdftocairo"):
        program(name)
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("paper", PAPERS)
def test_every_mark_and_label_is_on_paper(opened: Any, tmp_path: Path, paper: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(page_of(every_kind()), encoding="utf-8")
    found = marks_lost(opened, page, paper)
    assert found["marks"] > 4000 and found["labels"] > 4000 and found["lost"] == 0
    assert found["emptiest"] > 0.15, "headings stand on the page of their chart, not on one of their own"


@pytest.mark.parametrize(
    ("asset", "right", "wrong"),
    [
        ("charts.js", "[640, 300]", "[1000, 300]"),  # wider than the paper: cut at its edge
        ("heat.js", "TALLEST = 26", "TALLEST = 99"),  # higher than the paper: cut between pages
        (
            "charts.css",
            ".chart-figure, .chart { break-inside: avoid; }",
            ".printed { max-height: 20cm; overflow: hidden; }",
        ),
    ],
)
def test_a_mark_that_is_cut_is_noticed(
    opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asset: str, right: str, wrong: str
) -> None:
    read = rendering.asset
    assert right in read(asset)
    monkeypatch.setattr(
        rendering, "asset", lambda name: read(name).replace(right, wrong) if name == asset else read(name)
    )
    page = tmp_path / "page.html"
    page.write_text(
        page_of([view for view in every_kind() if view.title in ("bars", "large heat map")]), encoding="utf-8"
    )
    assert marks_lost(opened, page)["lost"] > 30


def test_the_screen_stays_as_it_was(open_page: Any) -> None:
    watched = open_page(page_of(every_kind()))
    before = watched.page.inner_text("main")
    watched.ask("window.dispatchEvent(new Event('beforeprint'))")
    assert watched.page.locator(".printed-view").count() == len(every_kind())
    watched.ask("window.dispatchEvent(new Event('afterprint'))")
    assert watched.page.inner_text("main") == before and watched.is_quiet()


def test_other_paper_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="no paper 'A3'") as caught:
        write_pdf(tmp_path / "page.html", tmp_path / "page.pdf", paper="A3")
    assert "A4, Letter" in caught.value.fix
