"""The languages of a report: the same keys and values in each, every text used and every use a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from string import Formatter
from typing import Any

import pytest
from english import SHOWN, english_in

from nabladp.errors import ReleaseError
from nabladp.report import report
from nabladp.report.language import Language, language, languages
from nabladp.report.view_texts import ViewTexts, _templates
from nabladp.schema import Attribute, Schema
from nabladp.views.view import View, label_column, value_column

ENGLISH = language("en")
OTHERS = [code for code in languages() if code != "en"]


def forms(text: str | Mapping[str, str]) -> list[str]:
    return [text] if isinstance(text, str) else [text["one"], text["other"]]


def values_in(text: str | Mapping[str, str]) -> set[str]:
    return {name for form in forms(text) for _, name, _, _ in Formatter().parse(form) if name}


@pytest.mark.parametrize("code", OTHERS)
def test_languages_agree_with_english(code: str) -> None:
    other = language(code)
    assert list(other.texts) == list(ENGLISH.texts), "the same keys in the same order"
    for key, text in ENGLISH.texts.items():
        assert values_in(other.texts[key]) == values_in(text), key
        assert isinstance(other.texts[key], str) == isinstance(text, str), key
        tags = [sorted(re.findall(r"<[^>]+>", " ".join(forms(each)))) for each in (text, other.texts[key])]
        assert set(tags[0]) == set(tags[1]), key


def sources() -> str:
    room = files("nabladp.report")
    names = [*room.iterdir(), *(room / "assets").iterdir()]
    return "\n".join(file.read_text(encoding="utf-8") for file in names if file.name.endswith((".py", ".js", ".j2")))


def test_every_text_is_used() -> None:
    told = sources()
    made = {"rows_page", "no_rows", "marks_page", "no_marks", "sets_2", "sets_3", "sets_2_3", "one_person", "one_unit"}
    made |= {"many_person", "many_unit", "issuer", "contact", "purpose", "population"}
    for key in ENGLISH.texts:
        section, _, name = key.partition(".")
        plain = name.removesuffix("_unit")
        assert (
            section == "kinds" or name.startswith("month_") or name in made or re.search(rf'["\'.]{plain}["\']', told)
        ), key


def test_texts_with_values_and_forms() -> None:
    t = ENGLISH
    assert t("page.part_rows", count=1) == "1 row." and t("page.part_rows", count=2000) == "2,000 rows."
    assert str(t.html("about.rises", percent="<i>")) == "50% → at most <b>&lt;i&gt;</b>"
    assert t.date("2026-11-08T19:00:00+00:00") == "8 November 2026"
    with pytest.raises(KeyError):
        t("page.nothing")
    with pytest.raises(ReleaseError, match="language 'xx'"):
        language("xx")
    assert isinstance(language(t), Language)


def test_a_script_asks_for_no_text_that_is_not_there(calculator: Any) -> None:
    found = calculator.ask("() => { try { return nabladp.text('nowhere'); } catch (error) { return error.message; } }")
    assert found == "There is no text nowhere."
    assert report.__doc__ and "language" in report.__doc__


# ---- a page in German is German -------------------------------------------------------------------------------------


def test_no_english_is_left_on_a_german_report(open_page: Any, folder: Any) -> None:
    """Words, tables, charts, explorer, certificate: what is read and what is heard."""
    page = report(folder, "Erhebung", language="de")
    for address in ("", "#explore?a=income&a=sick", "#explore?a=county&a=nobody", "#explore?delta=7"):
        watched = open_page(page, address)
        watched.ask("document.querySelectorAll('details').forEach((details) => (details.open = true))")
        watched.page.wait_for_function(
            "![...document.querySelectorAll('.view-body')].some((body) => !body.hasChildNodes())"
        )
        for text in watched.ask(SHOWN):
            ours = re.sub(r"a neighbour|the tax office|in full years|plan-release-\w+", "", text)  # of the user
            assert english_in(ours) == []
        assert watched.is_quiet()
    assert "Jede der 400 Personen in der Tabelle" in page and 'lang="de"' in page
    watched = open_page(page, "#explore?a=income&a=sick")
    shown = watched.page.inner_text(".result")
    assert "Vorher 50\u202f% → nachher höchstens" in shown or "Vorher 50 % → nachher höchstens" in shown
    assert re.search(r"ε = \d,\d+", shown) and not re.search(r"\d\.\d{3}\b.*ρ", shown), "a comma, no point"


def test_english_would_be_noticed(open_page: Any, folder: Any) -> None:
    watched = open_page(report(folder, language="en"))
    assert len(english_in(" ".join(watched.ask(SHOWN)))) > 10


@pytest.mark.parametrize("code", OTHERS)
def test_texts_of_views_hold_the_same_values(code: str) -> None:
    texts, patterns = _templates(code)
    assert len(texts) > 100 and patterns
    for text, own in texts.items():
        assert values_in(text) == values_in(own), text


def test_views_are_told_in_german() -> None:
    told = ViewTexts(language("de"), {"count"})
    assert told("10 cells, noise scale 6.124, ±1,200 (95% interval)") == (
        "10 Zellen, Rauschskala 6,124, ±1.200 (95 %-Intervall)"
    )
    assert told("groups of age") == "Gruppen von age" and told("34 of 101 values") == "34 aus 101 Werten"
    assert told("20,000 of 124,750 marginals, those with the largest predicted errors").startswith("20.000 von 124.750")
    assert told("count") == "count", "the name of an attribute"
    assert told("measured: count + age") == "gemessen: count + age"
    assert told("nobody knows this sentence") == "nobody knows this sentence"
    assert ViewTexts(ENGLISH)("10 cells") == "10 cells"


def test_rows_of_views_are_told_in_german_unless_they_are_values() -> None:
    schema = Schema((Attribute("age", "integer", low=0, high=9), Attribute("group", "ordered", values=("no", "group"))))
    told = ViewTexts.of_schema(language("de"), schema)
    cells = ["age = 0 to 6", "everything else", "(intercept)", "group", "no to group", 3]
    view = View("a", "table", [value_column("column")], [[cell] for cell in cells], "6 rows")
    assert [row[0] for row in told.view(view.to_json())["rows"]] == [
        *("age = 0 bis 6", "alles andere", "(Konstante)", "group", "no to group", 3),
    ]
    labelled = View("a", "table", [label_column("x", ["group", "everything else"], 0)], [[0], [1]], "2 rows")
    assert told.view(labelled.to_json())["columns"][0]["labels"] == ["group", "alles andere"]
