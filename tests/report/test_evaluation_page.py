"""The page that measures synthetic rows against the real table, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from english import SHOWN, english_in
from report_pages import SCHEMA, people

from nabladp.release.evaluation import evaluate
from nabladp.report.evaluation_page import write_evaluation


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_fits_a_phone_and_is_all_german(tmp_path: Path, open_page: Any, scheme: str) -> None:
    found = evaluate(people(SCHEMA, 300), people(SCHEMA, 200), SCHEMA, models=False)
    page = write_evaluation(found, "Erhebung", tmp_path / "page.html", spoken="de")
    watched = open_page(page, color_scheme=scheme, width=360)
    watched.ask("nabladp.released.then(() => true)")
    assert watched.width() <= 360
    broken = Axe().run(watched.page).response["violations"]
    assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in broken] == []
    if scheme == "dark":
        assert [english_in(text) for text in watched.ask(SHOWN) if english_in(text)] == []
    assert watched.is_quiet()
