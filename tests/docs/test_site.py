"""docs/ builds into a site, strictly: every page is in its contents, every link and anchor leads somewhere."""

from __future__ import annotations

import logging
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from doc_pages import script
from every_mechanism import FAULTS
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from nabladp.mechanisms import MECHANISMS, mechanism_class
from nabladp.schema import Attribute

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def built(folder: Path, **changed: object) -> Path:
    """The site, or Abort where anything was warned about."""
    logging.getLogger("mkdocs").setLevel(logging.WARNING)
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True, **changed))
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"))


def test_every_page_is_there_and_starts_with_its_title(site: Path) -> None:
    for page in DOCS.glob("*.md"):
        title = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert title is not None
        assert "<h1" in (site / f"{page.stem}.html").read_text(encoding="utf-8"), page.name


def test_what_lies_outside_comes_along(site: Path) -> None:
    assert (site / "repository/index.html").exists()
    assert (site / "repository/examples/hospital.py").exists()
    assert (site / "repository/src/nabladp/mechanisms/mwem/PROOF.html").exists()
    assert 'href="repository/src/nabladp/mechanisms/mwem/PROOF.html"' in (site / "mwem.html").read_text("utf-8")
    assert 'href="../quickstart.html"' in (site / "repository/index.html").read_text("utf-8")


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc="(https?:|//)|<link[^>]*\shref="(https?:|//)""")
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name


AT_ONCE = "* { transition: none !important }"  # or a button would be looked at on its way from light to dark


@pytest.mark.browser
def test_the_first_page_is_accessible_and_shows_a_live_report(site: Path, browser: Any) -> None:
    """In light and dark; the explorer answers a question that is a link of the page; no request leaves the folder."""
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.add_style_tag(content=AT_ONCE)
    page.get_by_role("link", name="income and disability").click()
    live = page.frame_locator("iframe[name=demo]")
    live.locator(".result .asked", has_text="income + disability").wait_for()
    assert "ε = " in live.locator(".result .pair").inner_text()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found = Axe().run(page).response["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == [], scheme
        shade = page.evaluate("getComputedStyle(document.querySelector('.wy-nav-content')).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", shade)[:3])) < 200) == (scheme == "dark")
    page.goto((site / "report.html").as_uri())  # with code, consoles, tables and pictures
    page.add_style_tag(content=AT_ONCE)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        pale = Axe().run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
        assert [node["html"] for each in pale for node in each["nodes"]] == [], scheme
    assert asked and all(url.startswith((site.as_uri(), "data:")) for url in asked)
    page.close()


def test_contents_are_those_of_the_index(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    places = [index.index(f">{name}<") for name in ("Start here", "What it means", "Mechanisms", "Reference")]
    assert places == sorted(places)
    assert "<li><a" in index.split("Start here</strong>")[1][:80]  # a list, although no empty line comes before it


def test_a_broken_link_a_missing_anchor_and_an_unlisted_page_are_noticed(tmp_path: Path) -> None:
    pages = script("site_pages")
    for number, text in enumerate(("[x](nowhere.md)", "[x](#nowhere)", "[x](two.md)")):
        docs = tmp_path / f"docs{number}"
        docs.mkdir()
        (docs / "index.md").write_text(f"# One\n\n{text}\n", encoding="utf-8")
        (docs / "two.md").write_text("# Two\n", encoding="utf-8")
        with pytest.raises(Abort):
            config = {"docs_dir": str(docs), "hooks": [], "extra_css": [], "nav": [{"One": "index.md"}]}
            built(tmp_path / "site", **config)
    assert pages.contents("**A**\n- [b](b.md) and [c](../c.md): d\n") == [
        {"Contents": "index.md"},
        {"A": [{"B": "b.md"}, {"C": "repository/c.md"}]},
    ]


# What is told of measurements


@pytest.mark.parametrize(
    ("page", "key", "form"),
    [
        ("comparison", "excess_ratio_vs_diffprivlib_max", "| {:.1f}. The guarantees differ"),
        ("comparison", "excess_ratio_vs_zcdp_median", "**{:.1f}, "),
        ("comparison", "excess_ratio_vs_zcdp_max", ", {:.2f}**"),
        ("comparison", "gaussian_speedup_vs_opendp", "{:.0f} and "),
        ("comparison", "laplace_speedup_vs_opendp", " and {:.0f} times"),
        ("comparison", "error_ratio_l1_over_joint_k2", "| {:.1f}, "),
        ("comparison", "error_ratio_l1_over_joint_k3", ", {:.1f} |"),
        ("faq", "kills", "In {:.0f} kills of clients"),
    ],
)
def test_figures_are_those_of_the_results(page: str, key: str, form: str) -> None:
    results = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    measured = {float(number) for number in re.findall(rf'"{key}":\s([\d.]+)', results)}
    told = " ".join((DOCS / f"{page}.md").read_text(encoding="utf-8").split())
    assert any(form.format(number) in told for number in measured), f"{key} was measured as {measured}"


def test_the_planted_faults_are_counted() -> None:
    told = " ".join((DOCS / "faq.md").read_text(encoding="utf-8").split())
    assert "the audits catch all but one; a test for repeated output catches that one" in told
    assert [fault.how for fault in FAULTS].count("side door") == 1


def test_figures_of_scaling_out_are_those_of_the_cost_model() -> None:
    told = re.findall(
        r"^\| .*10.* \| ([\d.]+) \| (\d+ MB) \|$", (DOCS / "scale-out.md").read_text("utf-8"), re.MULTILINE
    )
    seconds, memory = (" | ".join(column) for column in zip(*told, strict=True))
    model = (DOCS / "cost-model.md").read_text(encoding="utf-8")
    assert len(told) == 3 and f"| DuckDB, seconds | {seconds} |" in model and f"| DuckDB, memory | {memory} |" in model


def test_census_figures_are_those_of_the_example() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    persons = runpy.run_path(str(ROOT / "examples/census2020/certificate.py"))["load"]("US persons")
    for told, chosen in (
        ("race and ethnicity", ("cenrace", "hispanic")),
        ("geography", ("geography",)),
        ("all attributes of a person", persons.universe.roots),
    ):
        row = f"| {told} | {persons.rho(chosen):.4f} | {persons.epsilon(chosen, 1e-6):.2f} |"
        assert row in page, row


# What is generated


def test_plan_reference_is_current() -> None:
    made = script("make_plan_reference")
    assert made.TARGET.read_text(encoding="utf-8") == made.page(), "run docs/make_plan_reference.py"


def test_the_plan_reference_says_what_every_key_takes_and_means() -> None:
    made = script("make_plan_reference")
    assert made.words_of(Attribute, "unknown") == ["refuse", "other", "clamp"]
    marginals = made.parameters(mechanism_class("NoisyMarginals"))
    assert '| `noise` | `"gaussian"` or `"laplace"` | `"gaussian"` | The noise' in marginals
    assert "| `rounds` | whole number from 1 to 10,000 |  | " in made.parameters(mechanism_class("Synthesis"))
    for name in MECHANISMS:
        for declared in mechanism_class(name).parameters():
            assert re.fullmatch(r"[A-Z][^|\n]{10,118}\.", declared.help), f"{name}.{declared.name}: a sentence of help"
            if not declared.required:
                assert declared.checked(declared.default) == declared.default


def test_pictures_of_concepts_are_current_and_follow_the_guarantee() -> None:
    made = script("make_concept_figures")
    for name, drawn in made.pictures().items():
        assert (DOCS / name).read_text(encoding="utf-8") == drawn, "run docs/make_concept_figures.py"
    figures = made.set_figures()
    assert made.sets([(size, 2 * exact, known) for size, exact, known in figures]) != made.sets(figures)
    asked = made.question_figures()
    assert asked == [*sorted(asked[:3]), 0.0] and made.questions([2 * one for one in asked]) != made.questions(asked)


def test_every_mechanism_has_a_row_of_the_decision_table_and_a_leaf_of_the_tree() -> None:
    made = script("make_concept_figures")
    assert sorted(made.decisions()) == sorted(MECHANISMS), "docs/which-mechanism.md: one row for each mechanism"
    assert sorted(name for _, leaves in made.branches() for _, name in leaves) == sorted(MECHANISMS)
