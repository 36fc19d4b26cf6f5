"""Somebody who writes no TOML goes from a CSV file to a certificate, in Chromium, on real people with their code book;
then the command line goes on in the same folder, and the studio after it."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from bench._studio_attacks import Target, served
from nabladp.cli.app import app
from nabladp.privacy import Ledger
from nabladp.release import Plan

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, LocatorAssertions, Page

pytestmark = [pytest.mark.slow, pytest.mark.browser]
PATIENCE = 30_000  # milliseconds; the machine may be busy
PAGES = (
    "",
    "table",
    "columns",
    "columns?name=PINCP",
    "limits",
    "questions",
    "release",
    "ledger",
    "ledger/verify?folder=plan-release",
)
BY_HAND = """
# asked for by the planners, in June
[[release]]
name = "tenure"  # by hand
mechanism = "NoisyMarginals"
sets = [["OWN_RENT"]]
budget = { cdp = 0.05 }  # little
"""


@pytest.fixture(scope="module")
def folder(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table as CSV, its code book, and nothing else."""
    excerpts, folder = data / "nist_acs_excerpts", tmp_path_factory.mktemp("census")
    with gzip.open(excerpts / "ma2019.csv.gz") as packed, (folder / "ma2019.csv").open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    shutil.copy(excerpts / "data_dictionary.json", folder)
    return folder


@pytest.fixture(scope="module")
def studio(folder: Path) -> Iterator[Target]:
    with served(folder) as target:
        yield target


@pytest.fixture
def page(studio: Target, chromium: Browser) -> Iterator[Page]:
    """A page of somebody who was let in. Nothing may be asked of another machine, and nothing complained about."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    asked: list[str] = []
    complaints: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    context.on("console", lambda message: complaints.append(message.text))
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    page = context.new_page()
    page.goto(f"http://{studio.host}/start?token={studio.token}")
    page.wait_for_url(f"http://{studio.host}/")
    yield page
    context.close()
    assert {url.split("/")[2] for url in asked if not url.startswith("data:")} == {studio.host}
    assert complaints == []


def expect(locator: Locator) -> LocatorAssertions:
    from playwright.sync_api import expect as checked

    checked.set_options(timeout=PATIENCE)
    return checked(locator)


def press(page: Page, name: str | re.Pattern[str], role: str = "button") -> None:
    """Press what leads to another page, and wait for that."""
    with page.expect_navigation():
        page.get_by_role(role, name=name).first.click()  # type: ignore[arg-type]


def ended(page: Page) -> None:
    """Wait until no work is under way."""
    expect(page.locator("[data-job]")).to_have_count(0)
    page.wait_for_load_state()


def test_from_a_csv_file_to_a_certificate(page: Page, folder: Path) -> None:
    press(page, "Begin", "link")
    page.get_by_label("Code book").select_option("data_dictionary.json")
    press(page, "Look at the table")
    ended(page)
    assert "7,634" in page.inner_text("main")
    press(page, "Go on", "link")

    assert "20 of 24 declared" in page.inner_text("main")
    press(page, "Declare the next one", "link")
    for name in ("NOC", "DENSITY"):
        assert page.inner_text("h1") == name
        page.get_by_label("I compared this domain").check()
        press(page, "Save, and go to the next")
    page.get_by_label("Lowest").fill("170")
    page.get_by_label("Highest").fill("9920")
    page.get_by_label("Codes that also mean missing").fill("N")
    press(page, "Save, and go to the next")
    page.get_by_label("I compared this domain").check()
    page.get_by_label("Edges").fill("-20000, 0, 10000, 25000, 50000, 100000, 1500000")
    expect(page.locator("svg.edges rect")).to_have_count(6)  # drawn anew, as it was typed
    press(page, "Save, and back")
    assert "24 of 24 declared" in page.inner_text("main")
    press(page, "Check the table")
    ended(page)
    assert "The table matches its schema." in page.inner_text("main")
    press(page, "Go on", "link")

    press(page, re.compile("Limit them together.*PINCP"))
    page.get_by_role("button", name="Add to adversaries").click()
    row = page.get_by_role("group", name="Adversaries").last
    row.get_by_label("Who").fill("a neighbour")
    for name in ("AGEP", "PINCP"):
        row.get_by_label(name, exact=True).check()
    press(page, "Save limits")
    press(page, "Go on", "link")

    ask_by_clicking(page)
    ask_in_sql(page)
    page.get_by_label("Budget of one-way, amount").fill("0.1")
    press(page, "Save the budgets")
    assert "Within every limit" in page.inner_text("[data-verdict]")
    press(page, "Go on", "link")

    page.get_by_text("Who publishes this, and why").click()
    page.get_by_label("Who publishes it").fill("Office for the Census")
    page.get_by_label("Purpose").fill("Income by sex")
    press(page, "Save")
    page.get_by_label("Yes, spend").check()
    press(page, "Reserve and release")
    ended(page)
    assert "Published in plan-release" in page.inner_text("main")

    press(page, "Certificate", "link")
    assert "Office for the Census" in page.inner_text("#certificate")
    page.go_back(wait_until="networkidle")
    press(page, "Ledger", "link")
    press(page, "Certificate as PDF")
    ended(page)
    assert (folder / "plan-release" / "certificate.pdf").read_bytes().startswith(b"%PDF")
    assert page.get_by_role("row").filter(has_text="published").count() == 3
    press(page, "Verify", "link")
    assert page.inner_text("h1") == "The release is unchanged"


def ask_by_clicking(page: Page) -> None:
    """The mean of income for each sex, at the least budget for ±5 %."""
    press(page, re.compile("^Statistics$"), "link")
    form = page.locator("form.asking")
    form.get_by_role("button", name="Add to Figures").click()
    row = form.locator('[data-field="figures"] .row').last
    row.get_by_label("Figure").select_option("mean")
    row.get_by_label("Of the column").fill("PINCP")
    form.get_by_role("button", name="Add to For each value of").click()
    form.locator('[data-field="by"] .row input').fill("SEX")
    form.get_by_role("button", name="Find the least budget").click()
    expect(form.locator("[data-said]")).to_have_text(re.compile("^The least"))
    press(page, "Save")


def ask_in_sql(page: Page) -> None:
    press(page, re.compile("^Statistics$"), "link")
    form = page.locator("form.asking")
    form.get_by_label("Name").fill("elders")
    form.locator('[data-field="figures"] [data-remove]').click()
    form.locator("summary", has_text="In SQL instead").click()
    form.get_by_label("A query in SQL").fill("SELECT DREM, COUNT(*) FROM people WHERE AGEP >= 65 GROUP BY DREM")
    form.get_by_label("Budget, amount").fill("0.05")
    press(page, "Save")
    assert page.locator(".problem:visible").count() == 0, page.locator(".problem").all_inner_texts()


def test_the_command_line_goes_on_and_the_studio_after_it(
    page: Page, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    def command(*words: str) -> str:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        return done.output

    assert "matches its schema" in command("check", "plan.toml")
    assert "wrong" not in command("verify", "plan-release", "--ledger", "ledger.db")
    plan = folder / "plan.toml"
    before = plan.read_text()
    plan.write_text(before + BY_HAND)
    assert "tenure" in command("cost", "plan.toml")
    command("release", "plan.toml", "--to", "second")
    assert "tenure" in command("ledger", "show", "ledger.db")

    base = page.url.rstrip("/")
    page.goto(f"{base}/ledger")
    assert page.get_by_role("row").filter(has_text="second").count() == 4
    page.goto(f"{base}/questions")
    page.get_by_label("Budget of tenure, amount").fill("0.02")
    press(page, "Save the budgets")
    assert plan.read_text() == (before + BY_HAND).replace("{ cdp = 0.05 }  # little", "{ cdp = 0.02 }  # little")
    assert Plan.load(plan).releases[-1][0] == "tenure"
    press(page, "Undo")
    assert plan.read_text() == before + BY_HAND
    with Ledger.read(folder / "ledger.db") as book:
        assert book.verify() == [] and len(list(book.entries())) > 7


def test_nothing_keeps_anybody_out(page: Page) -> None:
    """Every page in light and in the dark, as wide as a desk and as narrow as a phone."""
    from axe_playwright_python.sync_playwright import Axe

    base = page.url.rstrip("/")
    for address in PAGES:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(f"{base}/{address}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
        page.evaluate("for (const own of document.querySelectorAll('details')) own.open = true")
        for scheme, width in (("light", 1280), ("dark", 390)):
            page.set_viewport_size({"width": width, "height": 844})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            found = Axe().run(page)
            assert found.violations_count == 0, f"{address}, {scheme}: {found.generate_report()}"
