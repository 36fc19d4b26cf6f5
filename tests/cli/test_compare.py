"""``nabladp compare`` and ``nabladp cost --page``."""

from __future__ import annotations

from typing import Any

import pytest

from nabladp.release.comparison import NOTICE


@pytest.fixture
def released(desk: Any) -> Any:
    assert desk.run("release", "plan.toml").code == 0
    return desk


def test_compare_says_what_the_page_holds(released: Any) -> None:
    said = released.run("compare", "plan-release", "people.csv", "--to", "mine.html")
    assert said.code == 0, said.words
    assert NOTICE.upper() in said.out and "Never publish it" in said.words
    page = (released.folder / "mine.html").read_text(encoding="utf-8")
    assert NOTICE in page and page.startswith("<!doctype html>")


def test_compare_answers_in_json(released: Any) -> None:
    answer = released.run("compare", "plan-release", "people.csv", "--to", "mine.html", "--json").json
    assert answer["notice"] == NOTICE
    for release in answer["releases"]:
        for table in release["tables"]:
            assert table["actual"] >= 0 and 0 <= table["covered"] <= 1 and table["predicted"] > 0


def test_compare_never_writes_among_what_is_published(released: Any) -> None:
    before = sorted(path.name for path in (released.folder / "plan-release").rglob("*"))
    refused = released.refused(
        "compare", "plan-release", "people.csv", "--to", "plan-release/mine.html", error="ReleaseError"
    )
    assert "published folder" in refused["message"]
    released.write("there.html", "mine")
    released.refused("compare", "plan-release", "people.csv", "--to", "there.html", error="ReleaseError")
    assert (released.folder / "there.html").read_text() == "mine"
    assert sorted(path.name for path in (released.folder / "plan-release").rglob("*")) == before


def test_compare_needs_the_very_table(released: Any) -> None:
    text = (released.folder / "people.csv").read_text().splitlines(keepends=True)
    released.write("fewer.csv", "".join(text[:-1]))
    refused = released.refused("compare", "plan-release", "fewer.csv", "--to", "mine.html", error="DataError")
    assert "number of rows" in refused["message"]
    assert not (released.folder / "mine.html").exists()


def test_compare_spends_nothing(released: Any) -> None:
    before = released.spent()
    released.run("compare", "plan-release", "people.csv", "--to", "mine.html")
    assert released.spent() == before and not released.unfinished()


def test_cost_writes_a_page_and_spends_nothing(desk: Any) -> None:
    said = desk.run("cost", "plan.toml", "--page", "cost.html")
    assert said.code == 0 and "Wrote cost.html" in said.words and "Nothing was spent" in said.words
    assert "Before anything is spent" in (desk.folder / "cost.html").read_text(encoding="utf-8")
    assert not desk.ledger.exists()
    answer = desk.run("cost", "plan.toml", "--page", "cost.html", "--json").json
    assert answer["page"] == "cost.html" and answer["fits"]


def test_a_page_that_cannot_be_written_is_refused(desk: Any) -> None:
    refused = desk.refused("cost", "plan.toml", "--page", "nowhere/cost.html", error="ReleaseError")
    assert "Cannot write" in refused["message"]
