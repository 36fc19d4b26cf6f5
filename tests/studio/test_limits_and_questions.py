"""Steps 3 and 4 without a browser: limits, adversaries and releases are edited in place, and priced as drafts."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from studio_folder import PLAN, SCHEMA

from nabladp.errors import NablaDPError
from nabladp.mechanisms import MECHANISMS
from nabladp.privacy import CDP, Approx, Ledger, Pure, Rho
from nabladp.privacy.interpretation import posterior
from nabladp.release import Plan
from nabladp.release.likeness import alike_columns
from nabladp.schema import Attribute, Schema
from nabladp.studio import meaning
from nabladp.studio.drafts import plan_without_releases
from nabladp.studio.fields import Fields
from nabladp.studio.pages import limits, questions
from nabladp.studio.studio import Studio
from nabladp.studio.visit import Page, Visit
from nabladp.studio.workspace import StaleForm, Workspace


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "plan.toml").write_text(PLAN)
    return Studio(Workspace(tmp_path), "token")


def text(studio: Studio) -> str:
    return studio.plan_text() or ""


def show(studio: Studio, page: Page, **query: str) -> str:
    shown = page.show(Visit(studio, page, Fields(query.items())))
    assert isinstance(shown, str)
    return shown


def change(studio: Studio, page: Page, name: str, *pairs: tuple[str, str], stamp: str = "") -> str | None:
    form = [*pairs, ("stamp", stamp or studio.workspace.stamp())]
    return page.changes[name](Visit(studio, page, Fields(), Fields(form)))


def part(studio: Studio, name: str, *pairs: tuple[str, str]) -> Any:
    return questions.PAGE.parts[name](Visit(studio, questions.PAGE, Fields(), Fields(pairs)))


# ---- questions -------------------------------------------------------------------------------------------------------

NEW = [
    ("_at", "2"),
    ("_mechanism", "Statistics"),
    ("_name", "sick-people"),
    ("figures.0.what", "number of rows"),
    ("by.0.of", "region"),
    ("where.rows.0.column", "sick"),
    ("where.rows.0.is", "is"),
    ("where.rows.0.value", "true"),
    ("budget.measure", "cdp"),
    ("budget.amount", "0.1"),
]


def test_a_question_is_added_edited_moved_copied_removed_and_comments_stay(studio: Studio) -> None:
    change(studio, questions.PAGE, "save", *NEW)
    plan = Plan.load(studio.workspace.path("plan.toml"))
    assert [name for name, _ in plan.releases] == ["ages", "means", "sick-people"]
    assert plan.releases[2][1].to_json()["where"] == "sick = TRUE"
    change(
        studio,
        questions.PAGE,
        "save",
        *[("_at", "0"), ("_mechanism", "NoisyMarginals"), ("_name", "ages"), ("k", "1")],
        *[("budget.measure", "rho"), ("budget.amount", "0.01")],
    )
    block = tomllib.loads(text(studio))["release"][0]
    assert block == {"name": "ages", "mechanism": "NoisyMarginals", "k": 1, "budget": {"rho": 0.01}}
    change(studio, questions.PAGE, "move", ("at", "2"), ("way", "up"))
    change(studio, questions.PAGE, "copy", ("at", "0"))
    names = [own["name"] for own in tomllib.loads(text(studio))["release"]]
    assert names == ["ages", "ages-2", "sick-people", "means"]
    change(studio, questions.PAGE, "remove", ("at", "1"))
    for comment in ("# Our plan; keep this.", "# agreed in May", "# the first question"):
        assert comment in text(studio)
    for _ in range(5):
        studio.workspace.undo(studio.workspace.stamp())
    assert text(studio) == PLAN


def test_budgets_of_the_list_are_saved_together(studio: Studio) -> None:
    pairs = [
        (f"r{i}.budget.{key}", value) for i in (0, 1) for key, value in (("measure", "cdp"), ("amount", f"0.{i + 3}"))
    ]
    change(studio, questions.PAGE, "budgets", *pairs)
    assert [own["budget"] for own in tomllib.loads(text(studio))["release"]] == [{"cdp": 0.3}, {"cdp": 0.4}]
    assert "# small" in text(studio)


def test_what_a_plan_refuses_is_not_saved_and_shown_again(studio: Studio) -> None:
    for pairs in ([*NEW[:3]], [*NEW[:2], ("_name", "ages"), *NEW[3:]], [("_at", "7"), *NEW[1:]]):
        with pytest.raises(NablaDPError):
            change(studio, questions.PAGE, "save", *pairs)
    assert text(studio) == PLAN
    wrong = [*NEW[:3], ("k", "many"), ("_mechanism", "NoisyMarginals")]
    visit = Visit(studio, questions.PAGE, Fields(), Fields(wrong))
    with pytest.raises(NablaDPError) as caught:
        questions.PAGE.changes["save"](visit)
    visit.problem = caught.value
    again = questions.PAGE.show(visit)
    assert isinstance(again, str) and 'value="many"' in again and "not a number" in again and "sick-people" in again


def test_a_form_from_an_older_tab_is_refused(studio: Studio) -> None:
    stamp = studio.workspace.stamp()
    change(studio, questions.PAGE, "remove", ("at", "1"))
    with pytest.raises(StaleForm):
        change(studio, questions.PAGE, "save", *[("_at", "1"), *NEW[1:]], stamp=stamp)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_has_a_form_on_the_page(studio: Studio, name: str) -> None:
    shown = show(studio, questions.PAGE, new=name)
    for declared in questions.release_form({"mechanism": name}).fields:
        assert f'data-field="{declared.name}"' in shown


def test_an_unfinished_plan_can_still_be_mended(studio: Studio) -> None:
    broken = PLAN.replace('sets = [["age"]]', 'sets = [["gone"]]')
    studio.workspace.path("plan.toml").write_text(broken)
    shown = show(studio, questions.PAGE)
    assert "gone" in shown and "Within every limit. The ones that are not finished do not count yet." in shown
    change(studio, questions.PAGE, "remove", ("at", "0"))
    assert Plan.load(studio.workspace.path("plan.toml")).releases[0][0] == "means"


def test_while_somebody_edits_costs_are_those_of_the_plan_it_would_be(studio: Studio) -> None:
    pairs = [*NEW, ("r0.budget.measure", "cdp"), ("r0.budget.amount", "0.49")]
    answer = part(studio, "price", *pairs)
    assert text(studio) == PLAN and not answer["fault"]
    change(studio, questions.PAGE, "save", *NEW)
    change(studio, questions.PAGE, "budgets", *pairs[-2:])
    cost = Plan.load(studio.workspace.path("plan.toml")).cost()
    assert {line["name"]: line["fits"] for line in answer["limits"]} == {
        line.standing.limit.name: line.fits for line in cost.lines
    }
    assert answer["fits"] is cost.fits is False and "Too much for 'age'" in answer["verdict"]
    assert [own["error"].lower() for own in answer["releases"]] == [
        sentence.split(": ", 1)[1].lower() for sentence in cost.verdict[:3]
    ]
    person = answer["beliefs"][-1]
    after = posterior(cost.guarantee, cost.guarantee.universe.protected, 0.5, cost.delta).value
    assert person["percent"] == pytest.approx(100 * after)
    assert answer == part(studio, "price")  # now that both are saved


def test_a_form_that_cannot_be_read_is_said_beside_it(studio: Studio) -> None:
    answer = part(studio, "price", *[("_at", "0"), ("_mechanism", "NoisyMarginals"), ("k", "x")])
    assert "'k'" in answer["releases"][0]["fault"] and not answer["releases"][1]["fault"]
    assert "not finished" in answer["verdict"]
    answer = part(studio, "price", ("r1.budget.measure", "cdp"), ("r1.budget.amount", "lots"))
    assert "not a number" in answer["releases"][1]["fault"]


def test_the_least_budget_and_what_is_left(studio: Studio) -> None:
    least = part(studio, "least", ("which", "0"), ("goal", "20"))
    plan = plan_without_releases(studio)
    for budget, fits in ((least["budgets"]["budget"], True), ({"cdp": least["budgets"]["budget"]["cdp"] * 0.9}, False)):
        (error,) = plan.mechanism({"mechanism": "NoisyMarginals", "sets": [["age"]], "budget": budget}).expected_error(
            plan.schema, 2000
        )
        assert (error.half_width <= 0.2 * 2000 / 100) is fits
    assert "±20 %" in least["said"] and "CDP(" in least["said"]
    room = part(studio, "room", ("which", "0"))
    budget = room["budgets"]["budget"]["cdp"]
    for amount, fits in ((budget, True), (budget * 1.02, False)):
        pairs = [("r0.budget.measure", "cdp"), ("r0.budget.amount", repr(amount))]
        assert part(studio, "price", *pairs)["fits"] is fits
    for wrong in ([("which", "0"), ("goal", "few")], [("which", "9"), ("goal", "5")]):
        with pytest.raises(NablaDPError):
            part(studio, "least", *wrong)


# ---- limits ----------------------------------------------------------------------------------------------------------

LIMITS = [
    ("per_attribute.measure", "cdp"),
    ("per_attribute.amount", "0.4"),
    ("attributes.0.columns", "sick"),
    ("attributes.0.budget.measure", "pure"),
    ("attributes.0.budget.amount", "0.3"),
    ("sets.0.columns", "age"),
    ("sets.0.columns", "region"),
    ("sets.0.budget.measure", "rho"),
    ("sets.0.budget.amount", "0.05"),
    ("person.measure", "epsilon"),
    ("person.amount", "2"),
    ("person.delta", "1e-6"),
    ("adversary.0.name", "a neighbour"),
    ("adversary.0.attributes", "age"),
    ("adversary.4.name", "an insurer"),
    ("adversary.4.attributes", "sick"),
]


def test_limits_and_adversaries_are_saved_and_comments_stay(studio: Studio) -> None:
    change(studio, limits.PAGE, "save", *LIMITS)
    plan = Plan.load(studio.workspace.path("plan.toml"))
    assert plan.budget.per_attribute == CDP(0.4) and plan.budget.attributes == {"sick": Pure(0.3)}
    assert plan.budget.sets == {"age+region": Rho(0.05)} and plan.budget.person == Approx(2, 1e-6)
    assert plan.adversaries == {"a neighbour": ("age",), "an insurer": ("sick",)}
    assert "# agreed in May" in text(studio) and 'ledger = "ledger.db"' in text(studio)
    shown = show(studio, limits.PAGE)
    assert "a neighbour" in shown and 'value="0.4"' in shown
    change(studio, limits.PAGE, "save", *LIMITS[:2])
    assert tomllib.loads(text(studio))["budget"] == {"ledger": "ledger.db", "per_attribute": {"cdp": 0.4}}
    assert "adversary" not in tomllib.loads(text(studio))
    with pytest.raises(NablaDPError, match="Nothing is limited"):
        change(studio, limits.PAGE, "save")


def test_what_a_limit_means_is_the_reports_bound() -> None:
    for value, epsilon in ((Pure(0.5), 0.5), (Rho(0.02), None), (CDP(0.2), None)):
        found = meaning.of_limit(value, 1e-6)
        cost = value if value.pure else Rho(value.amount())
        guarantee = meaning.Guarantee.touch(["it"], ["it"], cost)
        bound = posterior(guarantee, "it", 0.5, None if epsilon else 1e-6).value
        assert found.percent == pytest.approx(100 * bound)
        assert found.shown in found.sentence and ("1 in 1,000,000" in found.sentence) is (epsilon is None)
    assert meaning.of_limit(Approx(1, 1e-6), 1e-6).percent > 60


def test_columns_that_look_like_one_secret_are_named(studio: Studio) -> None:
    schema = Schema(
        (
            Attribute("race", "categorical", values=("a", "b")),
            Attribute("race_detailed", "categorical", values=("a1", "b1")),
            Attribute("district", "categorical", values=("10", "20", "30")),
            Attribute("place", "categorical", values=("1001", "2001", "3007")),
            Attribute("birthYear", "integer", low=1900, high=2020),
            Attribute("birth_month", "integer", low=1, high=12),
            Attribute("age", "integer", low=0, high=9),
            Attribute("income_code", "boolean"),
            Attribute("health_code", "boolean"),
        )
    )
    found = {own.columns: own.why for own in alike_columns(schema)}
    assert set(found) == {("race", "race_detailed"), ("district", "place"), ("birthYear", "birth_month")}
    assert "begin with" in found["district", "place"]
    change(studio, limits.PAGE, "join", ("columns", "age"), ("columns", "region"))
    assert tomllib.loads(text(studio))["budget"]["sets"] == {"age+region": {"cdp": 0.5}}


def test_a_ledger_with_other_limits_is_said_and_can_be_changed_on_record(studio: Studio) -> None:
    studio.plan().create_ledger().close()
    change(studio, limits.PAGE, "save", *LIMITS)
    assert "The ledger has other limits" in show(studio, limits.PAGE)
    assert "another budget" in part(studio, "price")["fault"]
    with pytest.raises(NablaDPError, match="needs a reason"):
        change(studio, limits.PAGE, "force")
    change(studio, limits.PAGE, "force", ("reason", "the board decided so"))
    assert "The ledger has other limits" not in show(studio, limits.PAGE)
    with Ledger.read(studio.workspace.path("ledger.db")) as ledger:
        assert plan_without_releases(studio).standing() == ledger.spent()
        assert "the board decided so" in json.dumps([entry.to_json() for entry in ledger.entries()], default=str)


def test_a_faulty_limit_can_still_be_mended(studio: Studio) -> None:
    studio.workspace.path("plan.toml").write_text(
        PLAN.replace("person =", "attributes = { gone = { cdp = 1 } }\nperson =")
    )
    shown = show(studio, limits.PAGE)
    assert "gone" in shown
    change(studio, limits.PAGE, "save", *LIMITS)
    assert plan_without_releases(studio).budget.attributes == {"sick": Pure(0.3)}
