"""The explorer computes with the same set function as Python: 200 random subsets, every shape of term, to 1e-9."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from explorer_answers import ASK, close, compare
from report_pages import MARGINALS, SCHEMA, session

from nabladp.errors import GuaranteeError
from nabladp.privacy import CDP, Guarantee, Pure, Rho, Universe, epsilon_from_rho
from nabladp.privacy.interpretation import format_percent_up, mutual_information
from nabladp.privacy.units import format_rounded
from nabladp.release.cost import explain
from nabladp.report import load, report
from nabladp.report.chapter import costliest
from nabladp.schema import Schema

DELTAS = (1e-6, 1e-3, 1e-12, 0.3)
PRIORS = (0.5, 0.01, 0.9)
NAMES = (*(f"a{i}" for i in range(12)), "__proto__", "constructor")
UNIVERSE = Universe(NAMES, {"d1": ("a1",), "d2": ("a2", "a3"), "toString": ("a4",)}, frozenset({"a11"}))


def guarantees() -> dict[str, Guarantee]:
    draw = random.Random(3)

    def some(most: int = 6) -> list[str]:
        return draw.sample(NAMES[:11] + NAMES[12:], draw.randint(1, most))

    def weights(kind: Any, most: int = 6) -> dict[str, Any]:
        return {name: kind(draw.randint(1, 1000) / 10**4) for name in some(most)}

    touch = [Guarantee.touch(UNIVERSE, weights(Rho)) for _ in range(40)]
    touch += [Guarantee.touch(UNIVERSE, some(), Rho(draw.random())) for _ in range(40)]
    pure = [Guarantee.touch(UNIVERSE, weights(Pure)) for _ in range(10)]
    pure += [Guarantee.linear(UNIVERSE, weights(Pure), limit=draw.choice([None, 1, 3])) for _ in range(10)]
    linear = [Guarantee.linear(UNIVERSE, weights(CDP), limit=draw.choice([None, 2])) for _ in range(10)]
    squares = [Guarantee.squares(UNIVERSE, weights(CDP), limit=draw.choice([None, 1, 2])) for _ in range(10)]
    derived = [Guarantee.touch(UNIVERSE, ["d1", "a5"], Rho(0.03)), Guarantee.linear(UNIVERSE, ["d2", "a2"], CDP(0.1))]
    curve = [
        Guarantee.curve(
            UNIVERSE, {"a1": 1, "a2": 3, "d2": 2, "a9": 1}, [0, 0.1, 0.2, 0.25, 0.3, 0.31, 0.35, 0.4, 0.5, 0.5]
        )
    ]
    capped = [
        Guarantee.capped(UNIVERSE, weights(Rho, 12), {tuple(some()): Rho(draw.random() / 10) for _ in range(caps)})
        for caps in (0, 1, 3, 8)
    ]
    chain = [(str(i), str(i + 1), Pure(0.1 * (i + 1))) for i in range(4)]
    graph = [
        Guarantee.from_graph(UNIVERSE, chain, on="a0", values={"a0": "01234"}),
        Guarantee.from_graph(
            UNIVERSE,
            [((x, "0"), (x, "1"), CDP(0.3)) for x in "012"]
            + [(("0", y), (("1"), y), CDP(0.2)) for y in "01"]
            + [(("1", "0"), ("2", "1"), CDP(0.5))],
            on=("a7", "a8"),
            values={"a7": "012", "a8": "01"},
        ),
    ]
    lonely = Guarantee.from_graph(UNIVERSE, [("0", "1", Pure(1))], on="a10", values={"a10": "012"})
    families = {"touch": touch, "pure": pure, "linear": linear, "squares": squares, "derived": derived}
    families |= {"curve": curve, "capped": capped, "graph": graph, "unbounded": [lonely, *touch[:3]]}
    families["all"] = [g for family in families.values() for g in family if g is not lonely]
    families["counted"] = [g for g in families["all"] for _ in range(3)]
    return {name: Guarantee.compose(UNIVERSE, parts) for name, parts in families.items()}


def subsets(names: Sequence[str], count: int, seed: int) -> list[list[str]]:
    draw = random.Random(seed)
    return [draw.sample(list(names), draw.randint(0, len(names))) for _ in range(count)]


@pytest.mark.parametrize("name", guarantees())
def test_every_shape_of_term_on_200_random_subsets(name: str, calculator: Any) -> None:
    guarantee = guarantees()[name]
    draw = random.Random(name)
    chosen = subsets((*NAMES, *UNIVERSE.derived) if name != "unbounded" else NAMES, 200, 5)
    chosen = [[n for n in names if n != "a11"] if i % 10 else names for i, names in enumerate(chosen)]
    compare(calculator, guarantee, [(names, draw.choice(DELTAS), draw.choice(PRIORS)) for names in chosen])


def test_the_page_answers_for_its_own_release(calculator: Any, folder: Path) -> None:
    releases = load(folder)
    whole = Guarantee.compose(releases[0].schema, [release.guarantee for release in releases])
    names = (*whole.universe.roots, *whole.universe.derived)
    questions = [(chosen, 1e-6, 0.5) for chosen in subsets(names, 200, 1)]
    compare(calculator, whole, questions, own=0)


def test_a_planted_slip_is_noticed(calculator: Any) -> None:
    guarantee = guarantees()["touch"]
    wrong = guarantee + Guarantee.touch(UNIVERSE, ["a3"], Rho(1e-7))
    answers = calculator.ask(ASK, [json.dumps(wrong.to_json()), [(["a3"], 1e-6, 0.5)], None])
    assert not close(answers[0]["rho"], guarantee.rho(["a3"]))


def test_small_changes_cost_what_python_says(calculator: Any) -> None:
    """Distances as they are typed, between listed ones and beyond them; several numbers, several rows, and public."""
    draw = random.Random(8)
    near: dict[str, Any] = {}
    parts = [guarantees()["all"]]
    for name, listed in (
        ("a1", ("0.5", "1", "1000")),
        ("a2", ("3", "70")),
        ("__proto__", ("1/3", "5")),
        ("a11", ("2",)),
    ):
        near[name] = ["0", *listed, "0.4999", "0.33333333333333333", "999.5", "1e2", "1000.0001", "12"]
        for kind, unit in ((Rho, 10**-3), (Pure, 10**-2)):
            costs = sorted(draw.random() * unit for _ in listed)
            own = {name: kind(unit), "a5": kind(unit / 2)}
            steps = {Fraction(far): kind(cost) for far, cost in zip(listed, costs, strict=True)}
            parts.append(Guarantee.touch(UNIVERSE, own, near={name: steps}).for_rows(draw.choice([1, 2])))
    guarantee = Guarantee.compose(UNIVERSE, parts)
    questions = []
    for chosen in subsets((*NAMES, "d1", "d2"), 120, 2):
        sources = guarantee.universe.sources(chosen)
        questions.append(
            (chosen, {n: draw.choice(fars) for n, fars in near.items() if n in sources and draw.random() < 0.8})
        )
    ask = """([data, questions]) => {
      const g = nabladp.guarantee(JSON.parse(data));
      return [g.gradual, questions.map(([chosen, within]) => {
        const far = new Map(within.map(([name, text]) => [name, nabladp.fraction(text)]));
        const { rho, pure, tight, paper } = g.within(far).figures(chosen, 1e-6);
        return [String(g.within(far).rhoUnits(chosen)), rho, pure, tight, paper];
      })];
    }"""
    gradual, found = calculator.ask(
        ask, [json.dumps(guarantee.to_json()), [[c, list(w.items())] for c, w in questions]]
    )
    assert set(gradual) == {"a1", "a2", "__proto__"}, "not the public one"
    lower = 0
    for (chosen, within), (units, *told) in zip(questions, found, strict=True):
        figure = guarantee.figure(chosen, {name: Fraction(far) for name, far in within.items()})
        assert units == str(figure.guarantee.rho_units(chosen)).replace("None", "null"), (chosen, within)
        expected = (figure.rho, figure.pure, figure.epsilon(1e-6), figure.epsilon(1e-6, "paper"))
        assert all(close(ours, theirs) for ours, theirs in zip(told, expected, strict=True)), (chosen, within)
        lower += figure.rho < guarantee.rho(chosen)
    assert lower > 20


def test_fractions_as_they_are_typed(calculator: Any) -> None:
    typed = ["1000", "0.5", ".5", "1e3", "1E-2", "2.50", "1/3", "", ".", "-1", "1e999", "0x10", "1,5", "NaN"]
    found = calculator.ask("(all) => all.map((text) => nabladp.fraction(text)?.map(String) ?? null)", typed)
    exact = [None if pair is None else Fraction(int(pair[0]), int(pair[1])) for pair in found]
    assert exact[:7] == [Fraction(text) for text in ("1000", "0.5", "0.5", "1000", "0.01", "2.5", "1/3")]
    assert exact[10] == 10**999 and all(pair is None for pair in [*exact[7:10], *exact[11:]])


def test_small_differences_are_told_apart_from_the_figures(open_page: Any) -> None:
    own = Guarantee.touch(
        ["income", "sex"], {"income": Rho(0.05), "sex": Rho(0.01)}, near={"income": {10: Rho(1e-4), 900: Rho(2e-3)}}
    )
    page = report(own)
    watched = open_page(page, "#explore?a=income&within=9:income")
    shown = watched.page.inner_text(".small-differences >> nth=-1")
    assert "already knows income up to a range of width 9:" in shown and "ρ 0.0001" in shown
    assert "not the figures of income" in shown and "ε = 1.472" in watched.page.inner_text(".pair"), shown
    watched.page.get_by_label("differs by at most").fill("901")
    assert "ρ 0.05" in watched.page.inner_text(".small-differences >> nth=-1")
    assert "within=901%3Aincome" in watched.ask("location.hash")
    watched.page.get_by_role("checkbox", name="income").uncheck()
    assert not watched.page.get_by_label("differs by at most").is_visible()
    rows = watched.page.locator(".certificate .small-difference").all_text_contents()
    assert len(rows) == 1 and "known up to a range of width 10" in rows[0] and "0.0001" in rows[0]
    annex = " ".join(watched.page.locator(".certificate").text_content().split())
    assert "These are not the figures of the attribute" in annex and watched.is_quiet()


def test_conversions_and_rounding_on_many_numbers(calculator: Any) -> None:
    draw = random.Random(11)
    numbers = [10 ** draw.uniform(-9, 5) for _ in range(300)] + [
        0.005,
        0.1,
        1.0,
        12345.0,
        100000.0,
        1e-5,
        0.0001,
        2**-60,
    ]
    found = calculator.ask(
        "(numbers) => numbers.map((x) => [nabladp.tight(x, 1e-6), nabladp.paper(x, 1e-9), nabladp.rounded(x, 4),"
        " nabladp.rounded(x, 3, false), nabladp.general(x)])",
        numbers,
    )
    for number, (tight, paper, up, down, general) in zip(numbers, found, strict=True):
        assert close(tight, epsilon_from_rho(number, 1e-6)) and close(paper, epsilon_from_rho(number, 1e-9, "paper"))
        assert up == format_rounded(number, 4, up=True), number
        assert down == format_rounded(number, 3, up=False), number
        assert general == f"{number:g}"


def test_near_certainty_is_told_from_certainty(calculator: Any) -> None:
    draw = random.Random(5)
    shares = [draw.random() for _ in range(200)] + [1 - 10 ** draw.uniform(-12, -1) for _ in range(400)]
    shares += [0.5, 0.999, 0.9999, 1 - 2**-53, 1.0]
    for share, told in zip(shares, calculator.ask("(all) => all.map(nabladp.percentUp)", shares), strict=True):
        assert told == format_percent_up(share) and float(told[:-1]) >= 100 * share - 1e-9, share
        assert (told == "100.0%") == (share > 1 - 1e-8) or abs(1 - 1e-8 - share) < 1e-9, share
    assert format_percent_up(0.99998) == "99.998%" and format_percent_up(0.73) == "73.0%"


def test_what_is_shown_is_what_python_explains(open_page: Any, report_file: Path, folder: Path) -> None:
    releases = load(folder)
    whole = Guarantee.compose(releases[0].schema, [release.guarantee for release in releases])
    told = explain(whole, ["income", "sick"], 1e-6)
    page = open_page(report_file, "#explore?a=income&a=sick")
    shown = " ".join(page.page.inner_text(".result").split())
    for figure in (told["epsilon"], told["epsilon_paper"], told["rho"], told["group_privacy"]["rho"]):
        assert format_rounded(figure, 4, up=True) in shown, shown
    person = whole.per_person()
    assert f"ε = {format_rounded(person.epsilon(1e-6), 4, up=True)}" in shown and "All protected attributes" in shown
    rises = told["statements"][0]["sentence"].split("at most ")[1].split("%")[0]
    assert f"Before 50% → after at most {rises}%, except with probability 1 in 1,000,000" in shown
    nats = mutual_information(whole, [["income", "sick"]]).sentence
    assert (
        nats in shown
        and "rows are independent" in shown
        and told["statements"][0]["assumes"][:60] in shown.replace("the adversary already", "The adversary already")
    )
    assert page.is_quiet()


def test_pure_releases_speak_without_exception(open_page: Any, folder: Path) -> None:
    page = open_page(report(folder / "single"), "#explore?a=region")
    shown = page.page.inner_text(".result")
    assert "without exception" in shown and "By the pure ε" in shown and "ε pure 0.3" in shown


def test_public_and_derived_attributes(open_page: Any, report_file: Path) -> None:
    page = open_page(report_file, "#explore?a=county&a=sick")
    assert "Nothing is promised: county is public." in page.page.inner_text(".result")
    one, other = (open_page(report_file, f"#explore?a={name}").page.inner_text(".pair") for name in ("age", "band"))
    assert one == other


def test_costliest_are_those_python_finds(open_page: Any, report_file: Path, folder: Path) -> None:
    releases = load(folder)
    whole = Guarantee.compose(releases[0].schema, [release.guarantee for release in releases])
    found = costliest(whole)
    assert len(found) == len(whole.universe.protected) and all(worst["exact"] for worst in found)
    page = open_page(report_file).page
    for size in (1, 2, 4):
        page.select_option(".explore select", str(size))
        marked = page.locator(".choices label", has=page.locator(".badge")).locator(".name bdi").all_inner_texts()
        assert set(marked) == set(found[size - 1]["attributes"])
        assert format_rounded(found[size - 1]["rho"], 4, up=True) in page.inner_text(".explore form")
    page.click("text=Tick them")
    assert set(found[3]["attributes"]) == set(
        page.locator(".choices label", has=page.locator(":checked")).locator(".name > bdi").all_inner_texts()
    )


def test_every_attribute_of_a_costliest_set_is_marked(open_page: Any) -> None:
    """Seven attributes that cost the same: any three of them are costliest, so all seven carry the badge."""
    names = tuple("abcdefg")
    page = open_page(report(Guarantee.squares(names, list(names), Rho(0.05)))).page
    for size, cost in ((1, "0.05"), (3, "0.15")):
        page.select_option(".explore select", str(size))
        assert page.locator(".choices .badge").count() == 7
        told = page.inner_text(".explore form")
        assert f"ρ = {cost}." in told and ("all are marked" in told or "Every marked attribute" in told)
        assert "at most" not in told, "an exact figure is no bound"


def test_another_format_is_refused(calculator: Any) -> None:
    data = guarantees()["touch"].to_json()
    for changed in (data | {"format": 2}, data | {"terms": [{"shape": "unheard of"}]}):
        assert calculator.ask(
            "(data) => { try { nabladp.guarantee(data); return ''; } catch (e) { return e.message; } }", changed
        )
    with pytest.raises(GuaranteeError):
        Guarantee.from_json(data | {"format": 2})


def test_titles_are_read_in_place_of_names(open_page: Any, tmp_path: Path) -> None:
    """On every section of a report: titles in sentences, tables, explorer and certificate; names only beside them."""
    titled = {"region": "Place of work", "income": "Income", "age": "Age", "county": "County"}
    schema = Schema(tuple(replace(own, title=titled.get(own.name, "")) for own in SCHEMA))
    made = session(tmp_path, schema)
    release = made.release(MARGINALS)
    made.ledger.close()
    page = open_page(report(release), "#explore?a=region&a=income").page
    assert "Curious about Place of work + Income".lower() in page.inner_text(".result").lower().replace(
        "someone c", "c"
    )
    names = page.locator(".choices .name > bdi").all_inner_texts()
    assert names == ["Place of work", "Age", "band", "Income", "sick", "County", "unused"]
    assert page.locator(".choices .code").all_inner_texts() == ["region", "age", "income", "county"]
    for section in ("#words", ".certificate"):
        said = " ".join(page.locator(section).text_content().split())
        assert "“County”" in said and "Income" in said, section
        assert not re.findall("“(region|income|age|county)”", said), section
    assert "band is derived" in page.inner_text("#attributes") and "Age whole number" in " ".join(
        page.inner_text("#attributes").replace("age\n", "").split()
    )
