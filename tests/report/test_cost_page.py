"""The page before anything is spent: its figures are Python's at every slider, and it spends nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from english import SHOWN, english_in
from plans import saved_plan
from report_pages import Watched

from nabladp.privacy import Guarantee, Ledger
from nabladp.release import Plan
from nabladp.release.cost import format_cost
from nabladp.release.other_budgets import FACTORS, PLANNED, scale_budgets
from nabladp.report.owner_pages import cost_page, write_cost_page
from nabladp.schema import Attribute, Schema

NASTY = "</script><img src=x onerror=alert(1)>"
SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("north", "south", "east")),
        Attribute("income", "integer", low=0, high=9),
        Attribute("sick", "boolean"),
        Attribute(NASTY, "boolean", note=NASTY),
        Attribute("county", "boolean", public=True),
        Attribute("rich", "boolean", derived_from=("income",)),
    )
)
PLAN = """
[table]
source = "people.csv"
schema = "schema.toml"
rows = 5000
[budget]
ledger = "ledger.db"
per_attribute = { cdp = 1.0 }
sets = { "income+sick" = { rho = 0.2 } }
person = { rho = 1.0 }
[[release]]
name = "pairs"
mechanism = "NoisyMarginals"
sets = [["region", "income"], ["income", "sick"], ["region"]]
budget = { cdp = 0.3 }
[[release]]
name = "pure"
mechanism = "NoisyMarginals"
sets = [["region"], ["sick", "county"]]
noise = "laplace"
budget = { pure = 0.2 }
[[release]]
name = "matrix"
mechanism = "GramMatrix"
over = ["region", "sick"]
budget = { rho = 0.01 }
[[adversary]]
name = "a neighbour"
attributes = ["income", "sick"]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return saved_plan(tmp_path, SCHEMA, PLAN)


@pytest.fixture
def watched(plan: Plan, open_page: Any) -> Watched:
    found: Watched = open_page(cost_page(plan, "a plan"))
    found.ask("nabladp.prospect.then(() => true)")
    return found


def slide(watched: Watched, name: str, place: int) -> None:
    script = """([id, place]) => {
      const slider = document.getElementById(id);
      slider.value = place;
      slider.dispatchEvent(new Event("input"));
    }"""
    watched.ask(script, [f"slider-{name}", place])


def shown_figures(watched: Watched) -> dict[str, list[str]]:
    script = """[...document.querySelectorAll("[data-set]")].map((row) => [row.querySelector("th bdi").textContent,
      ...["epsilon", "paper", "rho"].map((kind) => row.querySelector(`.${kind}`).textContent)])"""
    return {name: figures for name, *figures in watched.ask(script)}


def figures(plan: Plan, factors: list[float]) -> dict[str, list[str]]:
    """The same in Python, for a plan with these budgets."""
    named = [
        mechanism if factor == 1 else type(mechanism).from_plan(scale_budgets(mechanism.to_json(), factor))
        for (_, mechanism), factor in zip(plan.releases, factors, strict=True)
    ]
    whole = Guarantee.compose(plan.schema, [one.guarantee(plan.schema, 5000) for one in named])
    sets = {"all protected attributes": whole.per_person().attributes, "a neighbour": ("income", "sick")}
    sets |= {name: (name,) for name in whole.universe.protected} | {"income+sick": ("income", "sick")}
    return {
        name: [
            format_cost(whole.epsilon(chosen, plan.delta)),
            format_cost(whole.epsilon(chosen, plan.delta, "paper")),
            format_cost(whole.rho(chosen)),
        ]
        for name, chosen in sets.items()
    }


@pytest.mark.parametrize("places", [(6, 6, 6), (0, 0, 0), (12, 12, 12), (3, 8, 6), (9, 1, 11)])
def test_figures_are_those_of_python_at_every_slider(watched: Watched, plan: Plan, places: tuple[int, ...]) -> None:
    for part, place in enumerate(places):
        slide(watched, str(part), place)
    expected = figures(plan, [FACTORS[place] for place in places])
    found = shown_figures(watched)
    assert found == {name: expected[name] for name in found}
    assert set(found) == {*plan.schema.roots, "all protected attributes", "a neighbour"} - {"county"}
    assert watched.is_quiet()


def test_one_slider_moves_all_and_limits_follow(watched: Watched, plan: Plan) -> None:
    kept = "With these budgets the plan stays within every limit."
    assert watched.page.locator('[data-headline="sentence"]').text_content() == kept
    slide(watched, "all", 12)
    over = watched.page.locator("tr.over th bdi").all_text_contents()
    asked = figures(plan, [8.0] * 3)
    limits = {limit.name: limit for limit in plan.budget.limits(plan.schema)}
    broken = [name for name, limit in limits.items() if float(limit.value.amount()) < float(_rho(asked, name))]
    assert sorted(over) == sorted(broken) and "person" in over
    assert watched.page.locator('[data-headline="fits"]').text_content() == "exceeded"
    slide(watched, "all", PLANNED)
    assert watched.page.locator("tr.over").count() == 0
    assert shown_figures(watched)["region"] == figures(plan, [1.0] * 3)["region"]


def _rho(asked: dict[str, list[str]], name: str) -> str:
    return asked["all protected attributes" if name == "person" else name][-1]


def test_errors_and_budgets_follow_the_slider(watched: Watched, plan: Plan) -> None:
    part = watched.page.locator('[data-part="0"]')
    assert part.locator("code").text_content() == "budget = { cdp = 0.3 }"
    slide(watched, "0", PLANNED + 2)
    assert part.locator("code").text_content() == "budget = { cdp = 0.6 }"
    errors = (
        type(plan.releases[0][1])
        .from_plan(scale_budgets(plan.releases[0][1].to_json(), 2.0))
        .expected_error(SCHEMA, 5000)
    )
    mean = sum(error.mean_absolute for error in errors) / 3
    assert part.locator("p[role=status]").text_content().startswith(f"all marginals, on average: {mean:.4g}, at ε = ")
    part.locator("select").select_option(label="region")
    assert part.locator("p[role=status]").text_content().startswith(f"region: {errors[2].mean_absolute:.4g}, at")
    assert part.locator("svg.chart circle").count() == len(FACTORS)
    assert part.locator(".chart-point-here").count() == 1
    down = watched.ask(
        "[...document.querySelectorAll('[data-part=\"0\"] svg circle')].map((c) => +c.getAttribute('cy'))"
    )
    assert down == sorted(down)  # less error further right


def test_everything_by_keyboard(watched: Watched) -> None:
    watched.page.locator("#slider-1").focus()
    watched.page.keyboard.press("ArrowRight")
    assert watched.page.locator("#slider-1").get_attribute("aria-valuetext") == "ε × 1.414: budget = { pure = 0.2828 }"
    assert watched.page.locator("output[for=slider-all]").text_content() == "set one by one"
    watched.page.locator("#slider-all").focus()
    watched.page.keyboard.press("Home")
    assert watched.page.locator("output[for=slider-1]").text_content() == "ε × 0.125"


def test_the_explorer_is_there_too(watched: Watched, plan: Plan) -> None:
    watched.page.get_by_role("checkbox", name="income").first.check()
    expected = plan.cost().guarantee.rho(("income",))
    assert format_cost(expected) in (watched.page.locator(".explore .result").text_content() or "")
    assert watched.is_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_fits_a_phone(plan: Plan, open_page: Any, scheme: str) -> None:
    watched = open_page(cost_page(plan, "a plan"), width=360, color_scheme=scheme)
    watched.ask("nabladp.prospect.then(() => true)")
    assert watched.width() <= 360
    rules = {} if scheme == "light" else {"runOnly": ["color-contrast"]}
    found = Axe().run(watched.page, options={"resultTypes": ["violations"], **rules})
    assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in found.response["violations"]] == []


def test_no_english_is_left_in_german(plan: Plan, open_page: Any) -> None:
    watched = open_page(cost_page(plan, "Plan", spoken="de"), "#explore?a=income&a=sick")
    watched.ask("nabladp.prospect.then(() => true)")
    for place in (12, PLANNED):
        slide(watched, "all", place)
        for text in watched.ask(SHOWN):
            assert english_in(re.sub(r"a neighbour|region|person", "", text.replace(NASTY, ""))) == []
    assert watched.page.inner_text('[data-headline="fits"]') == "eingehalten"
    assert re.search(r"ε × \d|wie geplant", watched.page.inner_text("output[for=slider-0]")) and watched.is_quiet()


def test_names_and_titles_are_text(plan: Plan, open_page: Any) -> None:
    watched = open_page(cost_page(plan, NASTY))
    assert watched.page.locator("h1").text_content() == NASTY
    assert watched.page.locator("img").count() == 0
    assert watched.is_quiet()


def test_names_written_from_right_to_left_turn_nothing_around(tmp_path: Path, open_page: Any) -> None:
    name = "\u05d0\u05d1\u05d2 \u05d3"
    schema = Schema((Attribute(name, "boolean"), Attribute("age", "integer", low=0, high=9)))
    start = PLAN.partition("sets = {")[0] + '[[release]]\nmechanism = "NoisyMarginals"\nbudget = { cdp = 0.3 }\n'
    text = f'{start}name = "{name}"\nsets = [["{name}", "age"]]\n'
    text += f'[[adversary]]\nname = "{name}"\nattributes = ["{name}", "age"]\n'
    watched = open_page(cost_page(saved_plan(tmp_path, schema, text), name), f"#explore?a={name}")
    watched.ask("nabladp.prospect.then(() => true)")
    loose = """[...document.querySelectorAll("body *")].filter((node) => !node.closest("bdi, svg, script, pre"))
      .flatMap((node) => [...node.childNodes]).filter((node) => node.nodeType === Node.TEXT_NODE)
      .map((node) => node.textContent).filter((text) => /[\u0590-\u05ff]/.test(text) && !text.includes("\u2068"))"""
    assert watched.ask(loose) == [] and watched.is_quiet()


def test_without_rows_and_with_a_refused_budget(tmp_path: Path, open_page: Any) -> None:
    """A plan that does not say how many rows there are, and budgets too small to be asked for."""
    small = PLAN.replace("rows = 5000\n", "").replace("budget = { cdp = 0.3 }", "budget = { rho = 1e-13 }")
    watched = open_page(cost_page(saved_plan(tmp_path, SCHEMA, small), "small"))
    watched.ask("nabladp.prospect.then(() => true)")
    slide(watched, "0", 0)
    assert watched.page.locator('[data-part="0"] code').text_content() == "This mechanism refuses such a budget."
    assert shown_figures(watched)["region"] == ["–", "–", "–"]
    assert watched.is_quiet()


def test_it_spends_nothing_and_counts_what_was_spent(plan: Plan, tmp_path: Path, open_page: Any) -> None:
    write_cost_page(plan, tmp_path / "before.html", "plan")
    assert not (tmp_path / "ledger.db").exists()
    with Ledger.create(tmp_path / "ledger.db", plan.schema, plan.budget) as ledger:
        ledger.reserve(plan.releases[2][1].guarantee(plan.schema, 5000), "earlier")
        spent = ledger.head
    watched = open_page(write_cost_page(plan, tmp_path / "after.html", "plan"))
    watched.ask("nabladp.prospect.then(() => true)")
    with Ledger.read(tmp_path / "ledger.db") as ledger:
        assert ledger.head == spent
        line = next(line for line in ledger.spent() if line.limit.name == "person")
    row = watched.page.locator("tr", has_text="person").filter(has=watched.page.locator(".asked"))
    assert format_cost(line.spent) in row.first.text_content()
