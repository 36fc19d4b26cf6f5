"""How things look in a notebook: every name is text, the whole person is never missing, a seeded release says so."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_pages import MARGINALS, SCHEMA, session

from nabladp.display import plot, show
from nabladp.display.notebook import MOST_ROWS, table
from nabladp.errors import ReleaseError
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Guarantee, Ledger, Pure, Rho
from nabladp.release import Release
from nabladp.schema import Attribute, Schema
from nabladp.workloads import Marginals

NASTY = "</td><img src=x onerror=alert(1)> $x^2$ \u202eback & “more”"
MARKUP = {"div", "p", "strong", "bdi", "table", "thead", "tbody", "tr", "th", "td", "iframe"}


class Reader(HTMLParser):
    """Elements and text of a fragment, as a browser would see them."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.depth = 0
        self.text = ""
        self.feed(fragment)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def read(thing: Any) -> Reader:
    found = Reader(thing._repr_html_())
    assert found.tags <= MARKUP and found.depth == 0
    return found


@pytest.fixture
def release(tmp_path: Path) -> Release:
    with_seed = session(tmp_path, noise=NoiseSource.seeded(1))
    made = with_seed.release(MARGINALS, name="first")
    with_seed.ledger.close()
    return made


def test_a_guarantee_shows_every_attribute_and_the_person() -> None:
    guarantee = Guarantee.touch(SCHEMA, ["region", "income"], Rho(0.1)) + Guarantee.touch(SCHEMA, ["band"], Pure(0.5))
    text = read(guarantee).text
    for name in (*SCHEMA.roots, "all protected attributes", "ε tight, δ = 1e-06", "ε paper, δ = 1e-06"):
        assert name in text
    assert "Public, so not protected: county" in text and "band counts as age" in text
    assert "no bound" in text  # income has no pure bound


def test_the_person_is_there_however_many_attributes_are_left_out() -> None:
    names = [f"a{i}" for i in range(2 * MOST_ROWS)]
    text = read(Guarantee.touch(names, names, Rho(0.1))).text
    assert f"… and {MOST_ROWS:,} more" in text and "all protected attributes" in text


def test_a_release_shows_figures_errors_and_its_stamp(release: Release) -> None:
    found = read(release)
    for text in ("TEST — NOT PRIVATE", "first", "NoisyMarginals of 400 rows", "a neighbour (income + sick)", "± 7"):
        assert text in found.text, text
    assert "all protected attributes" in found.text


def test_values_have_titles_labels_and_intervals(tmp_path: Path) -> None:
    """A release shows its first tables, a table its first rows, as the report does."""
    region = Attribute(
        "region", "categorical", values=("north", "south", "east"), title="Home", labels={"east": "East!"}
    )
    schema = Schema((region, *(attribute for attribute in SCHEMA if attribute.name != "region")))
    made = session(tmp_path, schema, budget=Budget(person=Rho(10)))
    release = made.release(NoisyMarginals(CDP(0.4), sets=(("region", "sick"), ("age",), ("income",), ("band",))))
    found, part = read(release), read(release["region", "sick"])
    first = next(iter(release["region", "sick"]))
    for text in (" ".join(found.text.split()), " ".join(part.text.split())):
        assert "Home sick" in text and "East!" in text and " interval " in text
        shown = [tuple(map(float, pair)) for pair in re.findall(r" (-?[\d.]+) to (-?[\d.]+) ", text)]
        assert pytest.approx((first["low"], first["high"]), abs=0.02) in shown
    assert "Home + sick" in found.text and "1 more table" in found.text
    assert "region" not in found.text, "titles stand in place of names"
    assert "Home" in read(release.output).text
    made.ledger.close()


def test_plots_follow_the_shape_of_the_data(tmp_path: Path) -> None:
    schema = Schema(
        (
            Attribute("age", "integer", low=0, high=20, null="category"),
            Attribute("income", "real", edges=(0, 10, 20, 50)),
            Attribute("sick", "boolean"),
            Attribute("band", "ordered", values=("young", "old")),
        )
    )
    made = session(tmp_path, schema, Budget(person=Rho(10)), adversaries={})
    sets = (("age",), ("income",), ("sick",), ("income", "sick"), ("income", "sick", "band"))
    release = made.release(NoisyMarginals(CDP(1), sets=sets))
    made.ledger.close()
    drawn = {title: plot(release, title).to_dict() for title in map(" + ".join, sets)}

    def marks(chart: dict[str, Any]) -> list[str]:
        return [own["mark"]["type"] for own in chart.get("layer", [chart.get("spec", chart)])]

    assert [marks(chart) for chart in drawn.values()] == [
        ["area", "line"], ["rect", "rule"], ["bar", "rule"], ["rect"], ["rect"]
    ]  # fmt: skip
    (rows,) = drawn["income"]["datasets"].values()
    counts = release["income"].values.round(2)
    assert [row["value per unit"] for row in rows] == pytest.approx([counts[0] / 10, counts[1] / 10, counts[2] / 30])
    assert "(null): " in drawn["age"]["title"]["subtitle"][1], "what is not on the scale is told"
    assert "facet" in drawn["income + sick + band"] and plot(release).to_dict()["title"]["text"] == "age"
    with pytest.raises(ReleaseError, match="has the title 'nothing'") as refused:
        plot(release, "nothing")
    assert "income + sick" in refused.value.fix


def test_a_release_whose_error_is_told_in_words(tmp_path: Path) -> None:
    made = session(tmp_path, budget=Budget(person=Rho(10)))
    text = read(made.release(MWEM(CDP(1), Marginals(1, over=("region", "sick")), rounds=2))).text
    assert "noise scale of a measured count" in text and "TEST" not in text
    made.ledger.close()


def test_a_ledger_shows_every_limit(tmp_path: Path) -> None:
    made = session(tmp_path)
    made.release(MARGINALS)
    text = read(made.ledger).text
    for name in ("region", "income+sick", "person", "allowed", "spent", "left", "3 entries"):
        assert name in text, name
    assert "TEST" not in text
    made.ledger.close()
    with Ledger.create(tmp_path / "test.db", SCHEMA, Budget(person=Rho(1)), test=True) as ledger:
        assert "TEST LEDGER" in read(ledger).text


def test_a_schema_shows_values_and_what_is_derived_or_public() -> None:
    text = read(SCHEMA).text
    for told in ("north, south, east", "0, 1, 2, 3, … 9", "derived from age", "public", "protected", "in full years"):
        assert told in text, told


def test_hostile_names_are_text(tmp_path: Path) -> None:
    name = NASTY.replace("\u202e", "")  # which no column may be called
    schema = Schema((Attribute(name, "categorical", values=(NASTY, "b"), note=NASTY), Attribute("other", "boolean")))
    made = session(tmp_path, schema, Budget(person=Rho(5), sets={name: Rho(1)}), adversaries={NASTY: [name]})
    release = made.release(NoisyMarginals(CDP(0.2), k=1), name=name)
    for thing in (schema, made.ledger, release, release.guarantee):
        found = read(thing)
        assert name in found.text
        assert 'class="nabladp tex2jax_ignore mathjax_ignore"' in thing._repr_html_()  # no formulas either
    made.ledger.close()


def test_numbers_and_nothing_can_be_shown() -> None:
    assert "<bdi>1</bdi>" in table(["a"], [[1]]) and "<tbody></tbody>" in table(["a"], [])  # type: ignore[list-item]


def test_the_whole_report_fits_into_a_frame(browser: Any, release: Release) -> None:
    frame = show(release, height=500)
    assert "frame" in repr(frame).lower()
    assert read(frame).tags == {"iframe"}
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    page.set_content(f"<!doctype html><title>Notebook</title>{frame._repr_html_()}")
    inside = page.frame_locator("iframe")
    inside.locator("#released svg.chart").first.wait_for()
    inside.get_by_role("checkbox", name="income").check()
    inside.get_by_text("TEST — NOT PRIVATE").first.wait_for()
    assert complaints == []
    page.close()
