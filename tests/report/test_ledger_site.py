"""The site of a ledger: every release with what became of it, the explorer over all, what is left; for several, too."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from english import SHOWN, english_in
from report_pages import MARGINALS, PURE, SCHEMA, session

from nabladp.cli import main
from nabladp.errors import ReleaseError
from nabladp.privacy import Guarantee, Ledger, Rho
from nabladp.report.site import _places, write_site


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with published releases, one made elsewhere, one unfinished, and one that was voided."""
    where = tmp_path_factory.mktemp("booked")
    made = session(where)
    made.release_all([("pairs", MARGINALS), ("single", PURE)], where / "plan-release")
    book = made.ledger
    cost = Guarantee.touch(SCHEMA, ["income"], Rho(0.01))
    book.record_external(cost, "spring <b>tables</b>", who="another office")
    book.reserve(cost, "under way")
    book.reserve(cost, "a slip")
    book.void("a slip", reason="nothing was published")
    book.close()
    return where


def test_every_release_stands_there_with_its_cost(desk: Path, open_page: Any) -> None:
    page = write_site([desk / "ledger.db"], desk / "site", [desk])
    facts = json.loads((desk / "site" / "site.json").read_text())["ledgers"][0]
    states = {row["name"].rpartition("/")[2]: row["state"] for row in facts["releases"]}
    assert [*states.values()] == ["voided", "unfinished", "external", "published", "published"], "the newest first"
    with Ledger.read(desk / "ledger.db") as book:
        assert facts["rho"] == book.guarantee().rho(book.universe.protected)
        left = book.spent()[0].left
    watched = open_page(page)
    rows = watched.page.locator("#releases tbody tr")
    assert rows.count() == 5 and watched.page.locator(".chart-point").count() == 4, "a voided one costs nothing"
    across = [
        float(x) for x in watched.ask("[...document.querySelectorAll('.chart-point')].map((c) => c.getAttribute('cx'))")
    ]
    assert all(b - a > 100 for a, b in itertools.pairwise(across)), "of one minute, yet side by side"
    assert "spring <b>tables</b>" in watched.page.inner_text("#releases") and watched.page.locator("b").count() == 0
    assert f"{left:.4g}"[:5] in watched.page.inner_text("#left")
    watched.page.locator(".choices label", has_text="income").click()
    with Ledger.read(desk / "ledger.db") as book:
        spent = book.spent_on("income").rho
    assert f"ρ {spent:.3g}"[:5] in watched.page.inner_text(".result")
    assert watched.is_quiet()
    for number, name in ((0, "single"), (1, "pairs")):
        link = watched.page.locator("#releases a").nth(number)
        assert name in (link.text_content() or "")
    watched.page.locator("#releases a").first.click()
    assert watched.page.locator(".certificate").count() == 1
    place = Path(unquote(urlsplit(watched.page.url).path)).parent
    assert all(
        (place / str(link.get_attribute("href"))).is_file() for link in watched.page.locator("a[download]").all()
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_fits_a_phone(desk: Path, open_page: Any, scheme: str) -> None:
    page = write_site([desk / "ledger.db"], desk / f"site-{scheme}", spoken="de" if scheme == "dark" else "en")
    watched = open_page(page, color_scheme=scheme, width=360, height=740, bypass_csp=True)
    assert watched.width() <= 360
    assert [v["id"] for v in Axe().run(watched.page).response["violations"]] == []
    assert ("Was übrig ist" in watched.page.inner_text("main")) == (scheme == "dark")
    if scheme == "dark":
        said = [re.sub(r"plan-release-\w+/\w+", "", text) for text in watched.ask(SHOWN)]
        assert [found for found in map(english_in, said) if found] == []


def test_points_of_the_timeline_never_hide_each_other() -> None:
    """Of one second, of years with two of one minute, and of so many that they only stand in order."""
    for times in (
        [0.0] * 3,
        [0.0, 9e7, 9e7 + 30, 1e8],
        [float(i) for i in range(5)],
        [86_400.0 * i for i in range(300)],
    ):
        found = _places(times)
        assert found == sorted(found) and found[0] > 60 and found[-1] < 960
        assert all(b - a >= 14 or len(times) == 300 for a, b in itertools.pairwise(found))


def test_several_ledgers_are_listed_and_not_added_up(
    desk: Path, tmp_path: Path, open_page: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    other = session(tmp_path / "other")
    other.release(PURE, to=tmp_path / "other" / "same entry as of the first")
    other.ledger.close()
    books = [str(desk / "ledger.db"), str(tmp_path / "other" / "ledger.db")]
    linked = ["--releases", str(desk), "--releases", str(tmp_path)]
    for _ in range(2):  # an older site is replaced
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(["site", *books, "--to", str(tmp_path / "site"), *linked, "--title", "All of ours", "--json"])
        assert left.value.code == 0
    assert json.loads(capsys.readouterr().out)["page"] == str(tmp_path / "site" / "index.html")
    watched = open_page(tmp_path / "site" / "index.html", bypass_csp=True)
    assert [row.inner_text().split("\t")[1] for row in watched.page.locator("tbody tr").all()] == ["5", "1"]
    names = watched.page.locator("tbody a").all_inner_texts()
    assert (
        names == [f"Ledger {desk.name}/ledger.db", "Ledger other/ledger.db"] and watched.page.title() == "All of ours"
    )
    for scheme in ("light", "dark"):
        watched.page.emulate_media(color_scheme=scheme)
        assert [v["id"] for v in Axe().run(watched.page).response["violations"]] == []
    reports = [sorted(row["report"] for row in own["releases"] if row["report"]) for own in _told(tmp_path)]
    assert [len(own) for own in reports] == [2, 1] and not set(reports[0]) & set(reports[1])
    watched.page.locator("tbody a").nth(1).click()
    assert watched.page.locator("nav a", has_text="Ledgers").get_attribute("href") == "index.html"


def _told(place: Path) -> list[dict[str, Any]]:
    ledgers: list[dict[str, Any]] = json.loads((place / "site" / "site.json").read_text())["ledgers"]
    return ledgers


def test_a_ledger_without_releases_says_so(tmp_path: Path, open_page: Any) -> None:
    session(tmp_path).ledger.close()
    watched = open_page(write_site([tmp_path / "ledger.db"], tmp_path / "site", title="Ours"))
    assert "Nothing has been released yet." in watched.page.inner_text("main") and watched.page.title() == "Ours"


def test_nothing_else_is_written_over(desk: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("x")
    for goal in (tmp_path / "letters", tmp_path / "letters" / "dear.txt"):
        with pytest.raises(ReleaseError, match="not a site"):
            write_site([desk / "ledger.db"], goal)
    with pytest.raises(ReleaseError, match="There is no folder"):
        write_site([desk / "ledger.db"], tmp_path / "new", [tmp_path / "nowhere"])
    assert not (tmp_path / "new").exists() and (tmp_path / "letters" / "dear.txt").read_text() == "x"
