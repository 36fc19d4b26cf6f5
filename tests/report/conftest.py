"""A real Chromium, and pages in it that are watched: no request, no error, nothing on the console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from report_pages import MARGINALS, PURE, Watched, session

from nabladp.report import write

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Open = Callable[..., Watched]


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """``open_page(html_or_path, address="#…", width=…, color_scheme="dark", …)``: a page that is ready."""
    contexts = []

    def opened(source: str | Path, address: str = "", width: int = 1280, height: int = 900, **options: Any) -> Watched:
        path = source if isinstance(source, Path) else tmp_path / f"page-{len(contexts)}.html"
        if isinstance(source, str):
            path.write_text(source, encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, **options))
        watched = Watched(contexts[-1].new_page())
        watched.page.on("request", lambda request: watched.requests.append(request.url))
        watched.page.on("console", lambda message: watched.complaints.append(message.text))
        watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        watched.page.on("dialog", lambda dialog: (watched.complaints.append("a dialog opened"), dialog.dismiss()))
        watched.page.goto(path.as_uri() + address)
        watched.ask("nabladp.ready?.then(() => true)")
        return watched

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def calculator(browser: Browser, report_file: Path) -> Iterator[Watched]:
    """One page for all who only ask its scripts."""
    context = browser.new_context()
    watched = Watched(context.new_page())
    watched.page.goto(report_file.as_uri())
    watched.ask("nabladp.ready.then(() => true)")
    yield watched
    context.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published folder of two parts, one with Gaussian and one with Laplace noise, and its report."""
    where = tmp_path_factory.mktemp("published")
    made = session(where)
    made.release_all([("pairs", MARGINALS), ("single", PURE)], where / "plan-release")
    made.ledger.close()
    write(where / "plan-release")
    return where / "plan-release"


@pytest.fixture(scope="session")
def report_file(folder: Path) -> Path:
    return folder / "report.html"
