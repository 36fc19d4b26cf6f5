"""The report of the Census example: every figure it shows is Python's, in its words, its tables and its explorer."""

from __future__ import annotations

import re
import runpy
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from explorer_answers import compare

from nabladp.privacy import Guarantee
from nabladp.privacy.units import format_rounded

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "census2020" / "certificate.py"
RUNS = ("US persons", "US units")  # in the order of the page


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example wrote."""
    folder = tmp_path_factory.mktemp("census")
    runpy.run_path(str(SCRIPT))["keep"](folder)
    return folder


@pytest.fixture(scope="module")
def guarantees() -> list[Guarantee]:
    load = runpy.run_path(str(SCRIPT))["load"]
    return [load(run) for run in RUNS]


def sets_of(guarantee: Guarantee) -> list[tuple[str, ...]]:
    names = guarantee.universe.roots
    return [chosen for size in range(1, len(names) + 1) for chosen in combinations(names, size)]


def up(value: float) -> str:
    return format_rounded(value, 4, up=True)


@pytest.mark.parametrize("file", ["report.html", "puerto-rico.html"])
def test_the_explorer_computes_what_python_does(open_page: Any, pages: Path, file: str) -> None:
    load = runpy.run_path(str(SCRIPT))["load"]
    area = "US" if file == "report.html" else "PR"
    watched = open_page(pages / file)
    for own, what in enumerate(("persons", "units")):
        guarantee = load(f"{area} {what}")
        asked = [(list(chosen), delta, 0.5) for chosen in sets_of(guarantee) for delta in (1e-10, 1e-6)]
        compare(watched, guarantee, asked, own=own)
    assert watched.is_quiet()


def test_the_explorer_shows_every_pair_and_triple(open_page: Any, pages: Path, guarantees: list[Guarantee]) -> None:
    watched = open_page(pages / "report.html", "#explore?delta=1e-6")
    read = """([own, sets]) => sets.map((chosen) => {
      nabladp.explorers[own].choose(chosen);
      return nabladp.explorers[own].answer.innerText;
    })"""
    for own, (guarantee, delta) in enumerate(zip(guarantees, (1e-6, 1e-10), strict=True)):
        sets = sets_of(guarantee)
        for chosen, told in zip(sets, watched.ask(read, [own, sets]), strict=True):
            shown = " ".join(told.split())
            for wanted in (
                f"Someone curious about {' + '.join(chosen)}",
                f"ε = {up(guarantee.epsilon(chosen, delta))}",
                f"ε paper {up(guarantee.epsilon(chosen, delta, 'paper'))}",
                f"ρ {up(guarantee.rho(chosen))}",
                f"ε = {up(guarantee.per_person().epsilon(delta))}",
            ):
                assert wanted in shown, (chosen, wanted)


def test_race_and_ethnicity_by_one_click(open_page: Any, pages: Path) -> None:
    watched = open_page(pages / "report.html")
    watched.page.get_by_role("button", name="race and ethnicity").click()
    watched.page.fill("#delta", "1e-6")
    assert watched.ask("location.hash") == "#explore?a=cenrace&a=hispanic&delta=1e-6"
    shown = " ".join(watched.page.locator(".result").first.inner_text().split())
    assert "ε = 7.839 tight conversion, δ = 10⁻⁶ ε paper 8.51 ρ 1.017" in shown, "7.8384, 8.5097 and 1.016057"
    assert "Before 50% → after at most 99.98%, except with probability 1 in 1,000,000" in shown
    words = watched.page.inner_text("#words")
    assert "1.02-zCDP, ε = 7.84 at δ = 1e-6 (paper's conversion: 8.51)" in words and "Invariants" in words
    assert watched.is_quiet()


def test_tables_hold_every_attribute_pair_and_triple(open_page: Any, pages: Path, guarantees: list[Guarantee]) -> None:
    page = open_page(pages / "report.html").page
    rows = "(table) => [...table.rows].slice(1).map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    for number, guarantee in enumerate(guarantees):
        names = guarantee.universe.roots
        sizes = range(1, min(4, len(names)))
        wanted = {" + ".join(chosen): chosen for size in sizes for chosen in combinations(names, size)}
        told = {}
        for table in page.locator(f"#attributes{'-1' if number else ''} table").all():
            told |= {row[0].split("\n")[0]: row[1:] for row in table.evaluate(rows)}
        whole = next(name for name in told if name.startswith("All protected"))
        assert set(told) - {whole} == set(wanted)
        for name, chosen in {**wanted, whole: names}.items():
            values = (
                guarantee.epsilon(chosen, 1e-10),
                guarantee.epsilon(chosen, 1e-10, "paper"),
                guarantee.rho(chosen),
            )
            assert told[name] == [up(value) for value in values], name


@pytest.mark.parametrize("address", ["", "#explore?a=cenrace&a=hispanic&delta=1e-6", "#explore-1?a=h1"])
def test_on_a_phone(open_page: Any, pages: Path, address: str) -> None:
    watched = open_page(pages / "report.html", address, width=360, height=740)
    assert watched.width() <= 360 and watched.is_quiet()
    assert watched.page.locator("nav").bounding_box()["height"] < 80


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_labels_and_structure(open_page: Any, pages: Path, scheme: str) -> None:
    watched = open_page(pages / "report.html", "#explore?a=cenrace", color_scheme=scheme, bypass_csp=True)
    found = Axe().run(watched.page)
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found.response["violations"]] == []


def test_on_paper_and_without_scripts(browser: Any, open_page: Any, pages: Path) -> None:
    printed = open_page(pages / "report.html").page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 4, "persons and housing units, each with its annexes"
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((pages / "report.html").as_uri())
    text = " ".join(page.inner_text("body").split())
    context.close()
    for wanted in ("Persons: All protected attributes", "Pairs and triples", "ρ = 2.632, ε = 13.8"):
        assert wanted in text
