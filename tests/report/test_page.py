"""The page in a real browser: by keyboard, on a phone, in the dark, on paper, without scripts, under attack."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from report_pages import MARGINALS, session

from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Rho
from nabladp.release import Release
from nabladp.report import report
from nabladp.schema import Attribute, Schema

CHOICE = "#explore?a=income&a=sick"
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(2)>',
    "{{ 7 * 7 }}{% for x in y %}",
    "<!--<script>",
    "__proto__",
    "=1+1",
    "' onmouseover='alert(3)",
    "\u202eright to left",
    "two\nlines &amp; <b>bold</b>",
    "ünïcödé ✓ 日本 🙂",
    "a,b&a=c#d?e",
    "x" * 150,
]
NAMES = [text for text in HOSTILE if "\u202e" not in text and "\n" not in text]  # no column may be called like that


def all_open(watched: Any) -> Any:
    """Everything that can be opened is open."""
    watched.ask("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    watched.page.wait_for_function(
        "![...document.querySelectorAll('.view-body')].some((body) => !body.hasChildNodes())"
    )
    return watched


def pages_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


# ---- using it -----------------------------------------------------------------------------------------------------

FOCUS = """() => {
  const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
  return [at.tagName, (at.textContent || at.id || at.type).trim().slice(0, 40), style.outlineStyle !== "none",
          at.id, box.width > 0];
}"""


def test_everything_by_keyboard_alone(open_page: Any, report_file: Path) -> None:
    watched = open_page(report_file)
    keys = watched.page.keyboard
    wanted = watched.ask(
        "[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex=\"0\"]')]"
        ".filter((e) => e.checkVisibility()).length"
    )
    seen = []
    for _ in range(3 * wanted):
        keys.press("Tab")
        tag, text, outlined, place, visible = watched.ask(FOCUS)
        if tag == "BODY":
            break
        assert outlined and visible, f"{tag} {text} shows no focus"
        seen.append((tag, text))
        if tag == "INPUT" and watched.ask("document.activeElement.closest('li')?.innerText.startsWith('income')"):
            keys.press("Space")
        if place == "prior":
            keys.press("ArrowRight")
        if place == "delta":
            keys.press("Control+A")
            keys.type("1e-9")
    assert seen[0] == ("A", "Skip to the report") and len(seen) >= wanted
    assert ("SUMMARY", "Plan of this part") in seen and ("BUTTON", "Download release.json") in seen
    shown = " ".join(watched.page.inner_text(".result").split())
    assert "Someone curious about income" in shown and "Before 51%" in shown and "1 in 1,000,000,000" in shown
    assert watched.page.url.endswith("#explore?a=income&delta=1e-9&prior=0.51")
    assert watched.is_quiet()


def test_the_choice_is_kept_in_the_address(open_page: Any, report_file: Path) -> None:
    watched = open_page(report_file)
    watched.page.locator(".explore button", has_text="a neighbour").click()
    assert watched.page.url.endswith(CHOICE)
    assert watched.page.locator(".explore button", has_text="a neighbour").get_attribute("aria-pressed") == "true"
    watched.page.locator("nav a", has_text="Attributes").click()
    assert watched.page.url.endswith(CHOICE), "moving on does not lose it"
    told = watched.page.inner_text(".result")
    assert open_page(report_file, CHOICE).page.inner_text(".result") == told
    odd = open_page(report_file, "#explore?a=nobody&a=__proto__&delta=7&prior=x")
    assert "δ must lie" in odd.page.inner_text(".explore")
    watched.page.locator(".explore button", has_text="None").click()
    assert watched.page.url.endswith("report.html") and watched.is_quiet() and odd.is_quiet()


def test_delta_out_of_range_says_so(open_page: Any, report_file: Path) -> None:
    watched = open_page(report_file, CHOICE)
    before = watched.page.inner_text(".result")
    watched.page.fill("#delta", "2")
    assert "between 0 and 1" in watched.page.inner_text("#wrong")
    assert "ε" not in watched.page.inner_text(".result"), "nothing stale"
    assert watched.page.get_attribute("#delta", "aria-invalid") == "true"
    watched.page.fill("#delta", "1e-3")
    assert watched.page.inner_text("#wrong") == "" and watched.page.inner_text(".result") != before


def test_an_address_that_asks_for_what_is_not_there_says_so(open_page: Any, report_file: Path) -> None:
    watched = open_page(report_file, "#explore?a=incme&a=sick&a=__proto__")
    told = watched.page.inner_text(".result")
    assert "also asks for incme + __proto__, which are not attributes" in told and "curious about sick" in told
    watched.page.locator(".explore button", has_text="a neighbour").click()
    assert "also asks" not in watched.page.inner_text(".result") and watched.is_quiet()


def test_the_record_is_downloaded_as_it_was_published(open_page: Any, report_file: Path, folder: Path) -> None:
    watched = open_page(report_file)
    for part, name in enumerate(("pairs", "single")):
        with watched.page.expect_download() as download:
            watched.page.locator(".download").nth(part).click()
        got = Path(download.value.path()).read_bytes()
        assert download.value.suggested_filename == "release.json"
        assert got == (folder / name / "release.json").read_bytes()
        assert hashlib.sha256(got).hexdigest() in watched.page.inner_text("#provenance")
    assert watched.is_quiet()


# ---- on a phone, in the dark, for everyone -------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["", CHOICE])
def test_no_sideways_scroll_on_a_phone(open_page: Any, report_file: Path, address: str) -> None:
    watched = all_open(open_page(report_file, address, width=360, height=740))
    assert watched.width() <= 360 and watched.is_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_labels_and_structure(open_page: Any, report_file: Path, scheme: str) -> None:
    watched = all_open(open_page(report_file, CHOICE, color_scheme=scheme, bypass_csp=True))
    background = watched.ask("getComputedStyle(document.body).backgroundColor")
    bright = sum(map(int, re.findall(r"\d+", background)[:3])) > 3 * 128
    assert bright == (scheme == "light")
    found = Axe().run(watched.page)
    problems = [(v["id"], v["nodes"][0]["html"][:200]) for v in found.response["violations"]]
    assert problems == []


def test_axe_would_notice(open_page: Any, report_file: Path) -> None:
    watched = open_page(report_file, bypass_csp=True)
    watched.ask("document.querySelector('.lead').style.color = '#eeeeee'")
    watched.ask("document.getElementById('delta').parentElement.replaceWith(document.getElementById('delta'))")
    found = {violation["id"] for violation in Axe().run(watched.page).response["violations"]}
    assert {"color-contrast", "label"} <= found


def test_words_figures_and_certificate_without_scripts(browser: Any, report_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report_file.as_uri())
    text = " ".join(page.inner_text("body").split())
    context.close()
    for wanted in (
        "Each of the 400 people in the table",
        "All protected attributes",
        "What is not protected",
        "band is derived: it counts as this attribute",
        "Public: nothing is promised.",
        "Certificate of privacy".upper(),
        "The explorer needs JavaScript",
        "in full years",
    ):
        assert wanted in text


# ---- on paper -------------------------------------------------------------------------------------------------------


def test_on_paper_there_is_the_certificate_and_its_annexes(open_page: Any, report_file: Path) -> None:
    watched = open_page(report_file)
    assert pages_of(watched.page.pdf(format="A4", prefer_css_page_size=True)) == 2
    watched.page.emulate_media(media="print")
    assert watched.page.locator(".certificate").is_visible()
    assert not watched.page.locator("#words").is_visible() and not watched.page.locator("nav").is_visible()
    watched.page.emulate_media(media="screen")
    watched.ask("document.documentElement.classList.add('print-all')")
    assert pages_of(all_open(watched).page.pdf(format="A4", prefer_css_page_size=True)) > 2


def test_the_buttons_print_one_or_all(open_page: Any, report_file: Path) -> None:
    watched = open_page(report_file)
    script = "[document.documentElement.className, document.querySelectorAll('.printed-view svg.chart').length]"
    watched.ask(f"window.print = () => {{ window.printed = {script}; }}")
    for button, printed in (("#print-report", ["print-all", 5]), ("#print-certificate", ["", 0])):
        watched.page.click(button)
        assert watched.ask("window.printed") == printed and watched.ask("document.documentElement.className") == ""
    assert watched.page.locator(".printed").count() == 0, "the screen is as it was"


def test_nothing_on_a_printed_certificate_is_cut(open_page: Any, tmp_path: Path) -> None:
    """60 attributes with long names, many named adversaries, many parts: all of them are on paper, in full."""
    names = [f"{i} " + "long name " * 12 for i in range(60)]
    schema = Schema(tuple(Attribute(name.strip(), "boolean") for name in names))
    chosen = {f"adversary {i} " + "who is curious " * 8: [n.strip() for n in names[i : i + 9]] for i in range(20)}
    made = session(tmp_path, schema, Budget(per_attribute=CDP(5), person=Rho(900)), adversaries=chosen)
    parts = [(f"part {i} of many" + " of many" * 7, NoisyMarginals(CDP(0.3), k=1)) for i in range(9)]
    releases = made.release_all(parts, tmp_path / "out")
    made.ledger.close()
    watched = open_page(report(tmp_path / "out"))
    watched.page.emulate_media(media="print")
    clipped = """() => [...document.querySelectorAll(".certificate, .certificate *:not(svg, svg *)")].filter((node) => {
      const style = getComputedStyle(node);
      return style.overflow !== "visible" || style.textOverflow !== "clip" || node.scrollWidth > node.clientWidth + 1 &&
        style.display !== "inline";
    }).map((node) => node.outerHTML.slice(0, 80))"""
    assert watched.ask(clipped) == []
    (tmp_path / "printed.pdf").write_bytes(watched.page.pdf(format="A4", prefer_css_page_size=True))
    printed = printed_text(tmp_path / "printed.pdf")
    hashes = [text for r in releases for text in (r.digest, r.ledger["hash"], *r.hashes.values())]
    for wanted in (*schema.names, *chosen, *(name for name, _ in parts), *hashes):
        assert "".join(wanted.split()) in printed, wanted
    for name, members in chosen.items():
        assert "".join(f"{name}({'+'.join(members)})".split()) in printed
    assert watched.is_quiet()


def printed_text(pdf: Path) -> str:
    """All text of a PDF without its white space, so that it does not matter where lines break."""
    told = subprocess.run(["pdftotext", "-raw", str(pdf), "-"], capture_output=True, check=True, text=True)
    return "".join(re.sub(r"\n\d+ / \d+\n", "", told.stdout).split())


# ---- under attack --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("hostile")
    values = tuple(HOSTILE)
    sources = [Attribute(name, "categorical", values=values, note=HOSTILE[0], null="category") for name in NAMES]
    printable = {"</script><b>1": "x", "a": "<img src=x onerror=alert(1)>"}
    words = {"title": "<b>title</b>", "unit": "&lt;", "description": "<script>alert(2)</script>"}
    sources.append(Attribute("codes", "categorical", values=tuple(printable), labels=printable, **words))
    derived = Attribute(HOSTILE[1] + HOSTILE[0], "categorical", values=("v", "w"), derived_from=HOSTILE[0:3:2])
    schema = Schema((*sources, derived))
    made = session(where, schema, Budget(per_attribute=CDP(9)), adversaries=dict.fromkeys(HOSTILE, HOSTILE[:2]))
    named = [*NAMES, "codes"]
    pairs = NoisyMarginals(CDP(1), sets=tuple((name, named[i - 1]) for i, name in enumerate(named)))
    made.release(pairs, name=HOSTILE[0], to=where / "out")
    made.ledger.close()
    path = where / "report.html"
    path.write_text(report(where / "out", title=HOSTILE[0] + HOSTILE[2]), encoding="utf-8")
    return path


def test_hostile_names_do_nothing_and_are_shown_as_they_are(open_page: Any, hostile: Path) -> None:
    watched = all_open(open_page(hostile))
    for button in watched.page.locator(".explore fieldset >> nth=0 >> button").all():
        button.click()
    for box in watched.page.locator(".choices input").all():
        box.check()
    watched.page.mouse.move(300, 300)
    assert watched.page.locator("img, iframe, object, embed").count() == 0
    assert watched.page.locator("script:not([type])").count() == 1
    text = watched.page.locator("body").evaluate("(body) => body.textContent")
    for name in (*HOSTILE, "<img src=x onerror=alert(1)>", "<b>title</b> (&lt;)", "<script>alert(2)</script>"):
        assert name in text
    assert "49" not in watched.page.inner_text("h1") and watched.page.title().startswith(HOSTILE[0])
    assert watched.page.locator(".result .asked bdi").count() == 8
    assert watched.is_quiet()


def test_a_hostile_choice_survives_the_address(open_page: Any, hostile: Path) -> None:
    watched = open_page(hostile)
    for box in watched.page.locator(".choices input").all():
        box.check()
    address = watched.page.url.partition("#")[2]
    again = open_page(hostile, f"#{address}")
    assert again.page.locator(".choices input:checked").count() == len(NAMES) + 2
    assert again.page.inner_text(".result") == watched.page.inner_text(".result") and again.is_quiet()


def test_hostile_names_on_a_phone(open_page: Any, hostile: Path) -> None:
    watched = all_open(open_page(hostile, width=360, height=740))
    watched.page.locator(".explore button", has_text="All").click()
    assert watched.width() <= 360


def test_the_policy_holds(open_page: Any, report_file: Path) -> None:
    """What a script slipped in could try is refused, and would be noticed."""
    watched = open_page(report_file)
    answered: list[str] = []
    watched.page.on("response", lambda response: answered.append(response.url))
    refused = watched.ask(
        """async () => {
          const refused = [];
          document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
          try { await fetch("http://localhost:9/"); } catch { refused.push("fetch"); }
          try { document.body.innerHTML += "<b>x</b>"; } catch { refused.push("innerHTML"); }
          document.body.append(Object.assign(document.createElement("img"), { src: "http://localhost:9/x.png" }));
          const style = document.createElement("b");
          style.setAttribute("style", "color: red");
          document.body.append(style);
          await new Promise((done) => setTimeout(done, 200));
          return refused;
        }"""
    )
    for directive in ("connect-src", "fetch", "innerHTML", "img-src"):
        assert directive in refused
    assert any(directive.startswith("style-src") for directive in refused)
    assert answered == []
    assert watched.complaints, "the console says what was refused"


# ---- seeded ---------------------------------------------------------------------------------------------------------


def test_a_seeded_release_cannot_be_mistaken(open_page: Any, tmp_path: Path) -> None:
    made = session(tmp_path, noise=NoiseSource.seeded(3))
    release = made.release(MARGINALS)
    made.ledger.close()
    text = report(release)
    watched = open_page(text)
    watched.ask("scrollTo(0, document.body.scrollHeight)")
    banner = watched.page.locator(".stamp")
    box = banner.bounding_box()
    assert box is not None and box["y"] >= 0 and box["width"] == 1280 and "TEST — NOT PRIVATE" in banner.inner_text()
    assert watched.page.title().startswith("TEST — NOT PRIVATE")
    watched.page.emulate_media(media="print")
    assert watched.page.locator(".certificate .void").is_visible()
    (tmp_path / "printed.pdf").write_bytes(watched.page.pdf(format="A4", prefer_css_page_size=True))
    printed = printed_text(tmp_path / "printed.pdf")
    assert printed.count("TEST—NOTPRIVATE") >= 1 + 2, "on page one, and above every page"
    assert pages_of(watched.page.pdf(format="A4", prefer_css_page_size=True)) == 2
    assert watched.is_quiet()


def test_other_releases_carry_no_banner(report_file: Path, folder: Path) -> None:
    assert "TEST — NOT PRIVATE" not in report_file.read_text(encoding="utf-8")
    assert json.loads((folder / "pairs" / "release.json").read_bytes())["stamp"] is None
    assert Release.load(folder / "pairs").stamp is None


def test_every_page_says_for_whom_a_bound_holds_and_what_is_public(open_page: Any, report_file: Path) -> None:
    """Words, explorer and certificate: who knows less may learn more; public attributes stand apart from the person."""
    page = open_page(report_file, "#explore?a=income").page
    for place in ("#words", ".result", ".certificate"):
        said = " ".join(page.locator(place).text_content().split())
        assert "already knows every other row and all other attributes" in said, place
        assert re.search("(one|someone) who knows less may also learn", said, re.IGNORECASE), place
        assert ("anyone … even" not in said and "Nothing is promised about it" in said) or place == ".result", place
    for place in (".top .facts", ".pair .whole", ".figures .whole >> nth=0", ".certificate .whole"):
        said = " ".join(page.locator(place).text_content().split()).lower()
        assert "all protected attributes" in said and "without" in said and "county" in said, place
    docs = Path(__file__).parents[2] / "docs"
    for name in ("privacy-promise.md", "faq.md", "guarantee.md"):
        said = " ".join((docs / name).read_text(encoding="utf-8").split())
        assert re.search(r"knows (\*\*)?less", said) and "every other row" in said, name
        assert re.search("othing is promised about membership|only if no attribute is public", said), name


def test_each_part_links_its_values_as_csv(open_page: Any, report_file: Path) -> None:
    page = open_page(report_file).page
    links = [link.get_attribute("href") for link in page.locator(".part a[download]").all()]
    assert links == ["pairs/values.csv", "single/values.csv"]
    assert all((report_file.parent / link).is_file() for link in links)
