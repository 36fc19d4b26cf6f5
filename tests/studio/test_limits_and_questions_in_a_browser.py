"""Steps 3 and 4 in Chromium: what moves while somebody edits, by mouse and by keyboard, in light and in the dark."""

from __future__ import annotations

import re
import socket
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from studio_folder import PLAN, SCHEMA

from nabladp.mechanisms import MECHANISMS
from nabladp.studio.app import make_app
from nabladp.studio.guard import START
from nabladp.studio.serving import configured
from nabladp.studio.workspace import Workspace

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, LocatorAssertions, Page

pytestmark = [pytest.mark.slow, pytest.mark.browser]
TOKEN = "t" * 64
Open = Callable[..., "Page"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    more = "".join(f'[[attribute]]\nname = "column_{i}"\nkind = "boolean"\n' for i in range(20))
    (tmp_path / "schema.toml").write_text(SCHEMA + more)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


@pytest.fixture
def open_page(chromium: Browser, folder: Path) -> Iterator[Open]:
    """``open_page("/limits", width=…, color_scheme="dark")``: a page of a studio that is being served."""
    listening = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(configured(make_app(Workspace(folder), TOKEN, (host,))))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    complaints: list[str] = []
    contexts = []

    def opened(address: str, width: int = 1280, **options: Any) -> Page:
        contexts.append(chromium.new_context(viewport={"width": width, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"http://{host}{START}?token={TOKEN}")
        page.wait_for_url(f"http://{host}/")
        page.goto(f"http://{host}{address}", wait_until="networkidle")
        return page

    yield opened
    for context in contexts:
        context.close()
    server.should_exit = True
    thread.join(10)
    assert complaints == []


def expect(locator: Locator) -> LocatorAssertions:
    from playwright.sync_api import expect as checked

    return checked(locator)


def plan_of(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "plan.toml").read_text())


def test_costs_and_errors_follow_a_slider_and_are_saved(open_page: Open, folder: Path) -> None:
    page = open_page("/questions")
    verdict, error = page.locator("[data-verdict]"), page.locator('[data-release="0"] [data-error]')
    before, bar = error.inner_text(), page.locator('[data-limit]:has-text("age") [data-bar="asked"]')
    width = float(bar.get_attribute("width") or 0)
    slider = page.locator("article").first.get_by_role("slider")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("PageUp")
    expect(error).not_to_have_text(before)
    expect(verdict).to_have_text(re.compile("Too much for 'age'"))
    assert "over" in (verdict.get_attribute("class") or "")
    assert float(bar.get_attribute("width") or 0) > width and plan_of(folder)["release"][0]["budget"] == {"cdp": 0.2}
    page.get_by_role("button", name="What is possible with what is left").first.click()
    expect(verdict).to_have_text(re.compile("^Within"))
    page.get_by_role("button", name="Save the budgets").click()
    page.wait_for_load_state("networkidle")
    budget = plan_of(folder)["release"][0]["budget"]["cdp"]
    assert 0.4 < budget < 0.5 and "# small" in (folder / "plan.toml").read_text()
    page.get_by_role("button", name="Undo").click()
    page.wait_for_load_state("networkidle")
    assert (folder / "plan.toml").read_text() == PLAN


def test_a_statistic_is_asked_for_by_clicking(open_page: Open, folder: Path) -> None:
    page = open_page("/questions")
    page.get_by_role("link", name="Statistics", exact=True).click()
    form = page.locator("form.asking")
    form.get_by_role("button", name="Add to Figures").click()
    row = form.locator('[data-field="figures"] .row').last
    row.get_by_label("Figure").select_option("quantiles")
    row.get_by_label("Of the column").fill("age")
    row.get_by_label("Levels").fill("0.25, 0.75")
    form.get_by_role("button", name="Add to For each value of").click()
    form.locator('[data-field="by"] .row input').fill("region")
    form.locator('[data-field="where"]').get_by_role("button", name="Add").first.click()
    where = form.locator('[data-field="where"] .row')
    where.get_by_label("Column").fill("sick")
    where.get_by_label("Value").fill("true")
    expect(form.locator("[data-error]")).to_contain_text("quantile")
    form.get_by_role("button", name="Find the least budget").click()
    expect(form.locator("[data-said]")).to_have_text(re.compile("^The least"))
    form.get_by_role("button", name="Save").click()
    page.wait_for_load_state("networkidle")
    block = plan_of(folder)["release"][2]
    assert {key: block[key] for key in ("by", "where", "count", "quantile")} == {
        "by": ["region"],
        "where": "sick = TRUE",
        "count": True,
        "quantile": {"age": [0.25, 0.75]},
    }
    assert block["budget"]["cdp"] != 0.2  # the least one for 5 %


def test_limits_say_what_they_mean_and_a_set_is_limited_by_keyboard(open_page: Open, folder: Path) -> None:
    page = open_page("/limits")
    means = page.locator('[data-amount="per_attribute"] .means p')
    expect(means).to_contain_text("sure")
    before = means.inner_text()
    page.get_by_role("slider", name="Limit of every column").focus()
    page.keyboard.press("ArrowLeft")
    expect(means).not_to_have_text(before)
    page.get_by_role("button", name="Add to columns limited together").focus()
    page.keyboard.press("Enter")
    page.keyboard.type("column_1")  # the search
    row = page.locator('[data-rows][data-token="__4__"] .row')
    assert row.locator(".tick:visible").count() == 11
    for name in ("column_1", "column_19"):
        row.get_by_label(name, exact=True).press("Space")
    row.get_by_label("Limit, amount").fill("0.3")
    page.get_by_role("button", name="Save limits").press("Enter")
    page.wait_for_load_state("networkidle")
    budget = plan_of(folder)["budget"]
    assert budget["sets"] == {"column_1+column_19": {"cdp": 0.3}} and budget["per_attribute"]["cdp"] < 0.5


def test_the_form_of_every_mechanism_is_whole(open_page: Open) -> None:
    """Rows within rows once broke a form apart, and its end was no part of it."""
    page = open_page("/questions")
    base = page.url.rpartition("/")[0]
    for name in MECHANISMS:
        page.goto(f"{base}/questions?new={name}")
        form = page.locator("form.asking")
        for add in form.locator("[data-add]:visible").all():
            add.click()
        assert form.locator("> .outcome, > .helpers, > .actions").count() == 3, name
        assert form.locator("> [data-field]").count() >= 1, name


@pytest.mark.parametrize("address", ["/limits", "/questions", "/questions?edit=1", "/questions?new=Projection"])
def test_nothing_keeps_anybody_out(open_page: Open, address: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(address, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.evaluate("for (const own of document.querySelectorAll('details')) own.open = true")
    for button in page.locator("[data-add]:visible").all()[:6]:
        button.click()
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
