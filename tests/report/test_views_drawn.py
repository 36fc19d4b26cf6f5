"""Views in a real browser: drawn, read off, searched and sorted; by keyboard, on a phone, in the dark, under attack."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import view_releases
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from report_pages import Watched
from view_releases import View, read, views

from bench._view_kinds import REGION, REGION_MAP, every_kind
from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble
from nabladp.views.view import Series, axis_column, cell_axes, offset_column, value_column
from nabladp.views.view import View as Made

DRAW = """([views, shapes]) => {
  nabladp.shapes = shapes;
  const main = document.body.appendChild(document.createElement("main"));
  main.append(Object.assign(document.createElement("h1"), { textContent: "Views" }));
  for (const view of views) {
    const card = main.appendChild(document.createElement("section"));
    card.append(Object.assign(document.createElement("h2"), { textContent: view.title }));
    const body = card.appendChild(Object.assign(document.createElement("div"), { className: "view-body" }));
    nabladp.renderView(body, view);
  }
}"""
READ = """(views) => views.map((view) => view.rows.map((_, row) =>
  view.columns.map((_, number) => nabladp.charting.reader(view, number)(row) ?? null)))"""
Draw = Callable[..., Watched]


@pytest.fixture(scope="module")
def every() -> list[View]:
    """All views of all mechanisms."""
    found = view_releases.releases()
    return [view for listed in found.values() for release in listed for view in views(release)]


@pytest.fixture
def draw(open_page: Any) -> Draw:
    """A page with these views and nothing else, under the content policy of the report."""

    def drawn(given: list[View] | View, **options: Any) -> Watched:
        page = assemble("base.html.j2", {}, {}, ("guarantee.js", *VIEW_SCRIPTS), ("style.css", VIEW_STYLE))
        watched: Watched = open_page(page.replace("<title></title>", "<title>Views</title>"), **options)
        shapes = {"region": REGION_MAP.drawn(REGION)}
        watched.ask(DRAW, [given if isinstance(given, list) else [given], shapes])
        return watched

    return drawn


def attributes(watched: Watched, which: str, *names: str) -> list[list[float]]:
    """Numbers of every element that a selector finds."""
    script = (
        "([which, names]) => [...document.querySelectorAll(which)].map((e) => names.map((n) => +e.getAttribute(n)))"
    )
    found: list[list[float]] = watched.ask(script, [which, names])
    return found


def bars(values: list[int], width: int = 5, **options: Any) -> View:
    labels = [f"value {i}" for i in range(len(values))]
    columns = [axis_column("name", labels, 1), value_column("count", "count"), offset_column("low", "count", 1, -width)]
    columns.append(offset_column("high", "count", 1, width))
    given = {"kind": "bars", "series": [Series("noisy count", 1, 2, 3)], "caption": "Noisy counts", **options}
    return Made(title="bars", columns=columns, rows=values, summary="some", **given).to_json()


def heat(rows: int, across: int, values: list[int], **options: Any) -> View:
    columns = [
        axis_column("down", [f"row {i}" for i in range(rows)], across),
        axis_column("over", [f"c{i}" for i in range(across)], 1),
    ]
    columns.append(value_column("count", "count"))
    given = {"kind": "heat", "names": (0, 1), "series": [Series("count", 2)], "caption": "Counts", **options}
    return Made(title="heat", columns=columns, rows=values, summary="some", **given).to_json()


# ---- every mechanism ------------------------------------------------------------------------------------------------


def test_every_view_draws_and_reads_as_in_python(draw: Draw, every: list[View]) -> None:
    watched = draw(every)
    assert watched.ask(READ, every) == json.loads(json.dumps([read(view) for view in every]))
    charts = watched.page.locator("svg.chart")
    assert charts.count() == sum(view["kind"] != "table" for view in every)
    assert watched.ask(
        "[...document.querySelectorAll('svg.chart')].every((svg) => svg.querySelector('title').textContent"
        " && svg.querySelector('desc').textContent && svg.getAttribute('role') === 'img')"
    )
    assert watched.page.locator("svg :text('NaN')").count() == 0
    assert watched.ask(
        "[...document.querySelectorAll('svg *')].every((node) => [...node.attributes]"
        ".every(({ value }) => !/NaN|undefined|Infinity/.test(value)))"
    )
    assert watched.is_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_kind_of_view_is_accessible(draw: Draw, every: list[View], scheme: str) -> None:
    """Every kind in small: those of the mechanisms, and the charts that their shape calls for; with filters."""
    shown = [view.to_json() for view in every_kind() if view.title in CHARTS]
    kinds = {(view["kind"], len(view["series"]), len(view["names"]), view.get("signed", False)): view for view in every}
    watched = draw([table(), *kinds.values(), *shown], color_scheme=scheme)
    assert len(shown) == len(CHARTS)
    watched.page.get_by_text("Show as a table").first.click()
    expect(watched.page.locator("table.values")).to_have_count(1 + 1 + sum(kind == "table" for kind, *_ in kinds))
    watched.page.get_by_text("Filter by column").first.click()
    expect(watched.page.locator(".filters")).to_have_count(1)
    rules = {} if scheme == "light" else {"runOnly": ["color-contrast"]}
    found = Axe().run(watched.page, options={"resultTypes": ["violations"], **rules})
    assert found.response["violations"] == []


def test_a_phone_never_scrolls_sideways(draw: Draw, every: list[View]) -> None:
    watched = draw(every, width=360, height=700)
    watched.ask("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    watched.page.wait_for_timeout(100)
    assert watched.width() <= 360
    assert watched.is_quiet()


# ---- shapes ---------------------------------------------------------------------------------------------------------


def test_bars_are_as_long_as_their_values(draw: Draw) -> None:
    watched = draw(bars([100, 50, -20, 0]))
    boxes = attributes(watched, ".chart-bar", "x", "width")
    zero, length = boxes[0]
    assert boxes[1] == pytest.approx([zero, length / 2], abs=0.5)
    assert boxes[2] == pytest.approx([zero - length / 5, length / 5], abs=0.5)
    assert watched.page.locator(".chart-whisker").count() == 4
    reach = watched.ask("(({ x, width }) => [x, width])(document.querySelector('.chart-whisker').getBBox())")
    assert reach == pytest.approx([zero + 0.95 * length, length / 10], abs=0.5)


def test_many_ordered_values_stand_side_by_side(draw: Draw) -> None:
    watched = draw(bars(list(range(10, 110)), ordered=True))
    assert watched.page.locator(".chart-bar").count() == 100
    tops = [height for (height,) in attributes(watched, ".chart-bar", "height")]
    assert tops == sorted(tops) and tops[99] == pytest.approx(tops[0] * 109 / 10, rel=0.02)


def test_long_lists_are_drawn_in_pages(draw: Draw) -> None:
    watched = draw(bars(list(range(100))))
    assert watched.page.locator(".chart-bar").count() == 30
    for _ in range(3):
        watched.page.get_by_role("button", name="Next").click()
    assert watched.page.locator(".chart-bar").count() == 10
    assert watched.page.locator(".pager-where").first.text_content() == "marks 91–100 of 100"
    assert watched.page.get_by_role("button", name="Next").is_disabled()


def test_a_heat_map_has_a_square_for_every_cell_darker_for_more(draw: Draw) -> None:
    watched = draw(heat(3, 4, list(range(12))))
    classes = watched.ask("[...document.querySelectorAll('g:has(> .chart-square)')].map((g) => g.className.baseVal)")
    steps = [int(name.removeprefix("heat-")) for name in classes[:12]]
    assert steps == sorted(steps) and steps[0] == 0 and steps[-1] == 8
    assert watched.page.locator(".chart-inside").all_text_contents() == [str(i) for i in range(12)]


def test_a_long_side_of_a_heat_map_goes_down(draw: Draw) -> None:
    watched = draw(heat(2, 40, list(range(80))))
    assert len({y for (y,) in attributes(watched, ".chart-square", "y")[:80]}) == 40


def test_age_by_sex_is_a_pyramid(draw: Draw) -> None:
    """Both sexes back to back, as long as their counts, the oldest on top; missing ages below the youngest."""
    sides, ages = ["female", "male"], [*map(str, range(10)), "(null)"]
    counts = [10 * i + j for i in range(11) for j in (1, 2)]
    for turned in (False, True):
        names, labels, ordered = ("age", "sex"), (ages, sides), (10, 0)
        if turned:
            names, labels, ordered = names[::-1], labels[::-1], ordered[::-1]
        rows = counts if not turned else [*counts[::2], *counts[1::2]]
        columns = [*cell_axes(names, labels, ordered), value_column("count", "count")]
        columns += [offset_column("low", "count", 2, -3), offset_column("high", "count", 2, 3)]
        given = {"names": (0, 1), "series": [Series("count", 2, 3, 4)], "caption": "Counts"}
        watched = draw(Made("age by sex", "heat", columns, rows, "all", **given).to_json())
        boxes = attributes(watched, ".chart-bar", "x", "width", "y")
        left, right = boxes[::2], boxes[1::2]
        scale = left[0][1] / 91
        for own, more in ((left, 1), (right, 2)):
            assert [width for _, width, _ in own] == pytest.approx(
                [scale * (10 * i + more) for i in (*range(9, -1, -1), 10)]
            )
            assert [y for *_, y in own] == sorted(y for *_, y in own)
        assert len({round(x + width, 3) for x, width, _ in left}) == 1 == len({x for x, *_ in right}), "back to back"
        assert (
            watched.page.locator(".chart-whisker").count() == 22 and watched.page.locator(".chart-square").count() == 0
        )
        watched.page.keyboard.press("Tab")
        watched.page.keyboard.press("ArrowRight")
        name = "male · 9" if turned else "9 · male"
        assert watched.page.get_by_role("slider").get_attribute("aria-valuetext") == f"{name}: 92 (89 to 95)"
        assert watched.is_quiet()


def test_colours_keep_their_order_and_numbers_in_them_are_readable(draw: Draw) -> None:
    script = """() => {
      const lightness = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
          .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      return [...document.querySelectorAll("g:has(> .chart-inside)")].map((group) => {
        const [square, text] = [".chart-square", ".chart-inside"]
          .map((part) => lightness(getComputedStyle(group.querySelector(part)).fill));
        return [square, contrast(square, text)];
      });
    }"""
    for scheme in ("light", "dark"):
        plain = draw(heat(1, 9, list(range(9))), color_scheme=scheme).ask(script)
        ordered = [lightness for lightness, _ in plain]
        assert len(plain) == 9 and ordered == sorted(ordered, reverse=scheme == "light")
        signed = draw(heat(1, 9, list(range(-4, 5)), signed=True), color_scheme=scheme).ask(script)
        middle = [lightness for lightness, _ in signed]
        assert (max if scheme == "light" else min)(middle) == middle[4]
        assert min(contrast for _, contrast in [*plain, *signed]) >= 4.5


def test_dots_tell_series_apart_by_shape(draw: Draw) -> None:
    columns = [
        value_column("name"),
        *(value_column(name, "share", i) for i, name in enumerate(("noisy", "low", "high", "model"), 1)),
    ]
    rows = [["a", 0.5, 0.4, 0.6, 0.52], ["b", None, None, None, 0.1]]
    series = [Series("noisy", 1, 2, 3), Series("model", 4)]
    watched = draw(Made("dots", "dots", columns, rows, "two", series=series, caption="Shares").to_json())
    assert watched.page.locator("circle.chart-mark").count() == 2  # one in the legend
    assert watched.page.locator("path.chart-mark-1").count() == 3
    assert watched.page.locator(".chart-whisker").count() == 1


def test_a_picture_fits_its_room_again_when_that_changes(draw: Draw) -> None:
    watched = draw(bars([1, 2, 3]), width=1200)
    wide = watched.page.locator("svg.chart").bounding_box()
    watched.page.set_viewport_size({"width": 400, "height": 800})
    expect(watched.page.locator("svg.chart[width^='3']")).to_have_count(1)
    assert wide is not None and wide["width"] > 500


CHARTS = (
    "age by sex",
    "numbers in order",
    "several lines",
    "bins of unequal width",
    "small multiples",
    "pyramids",
    "map",
)


@pytest.fixture
def charts(draw: Draw) -> tuple[Watched, dict[str, tuple[Made, Any]]]:
    """One page with every chart of a shape, and where each is."""
    made = {view.title: view for view in every_kind() if view.title in CHARTS}
    watched = draw([view.to_json() for view in made.values()])
    cards = watched.page.locator("section")
    return watched, {title: (view, cards.nth(i)) for i, (title, view) in enumerate(made.items())}


def test_every_shape_of_data_has_its_chart(charts: tuple[Watched, dict[str, tuple[Made, Any]]]) -> None:
    watched, found = charts
    line, card = found["numbers in order"]
    (path,) = [node.get_attribute("d") for node in card.locator(".chart-curve").all()]
    heights = [float(point.split()[1]) for point in path[1:].split("L")]
    values = np.array(list(line.rows)[:100])
    assert np.corrcoef(heights, values)[0, 1] == pytest.approx(-1), "a point for each, at its height"
    assert card.locator(".chart-area").count() == 1 and "(null): 8 (-22 to 38)" in card.locator("svg").text_content()
    _, card = found["several lines"]
    assert card.locator(".chart-curve").count() == 3 and card.locator("path.chart-mark-2").count() > 5
    bins, card = found["bins of unequal width"]
    boxes = [[float(bar.get_attribute(key)) for key in ("width", "height")] for bar in card.locator(".chart-bar").all()]
    areas = [width * height for width, height in boxes[:6]]  # the last bin is cut
    assert np.array(areas) / areas[0] == pytest.approx(np.array(list(bins.rows)[:6]) / bins.rows[0], rel=0.03)
    assert card.locator(".chart-break").count() == 1
    panels, card = found["small multiples"]
    assert (
        card.locator("svg.chart > svg").count() == 5 and card.locator(".chart-square").count() == len(panels.rows) + 9
    )
    assert card.locator(".chart-head").all_text_contents() == [f"one: place {i}" for i in range(5)]
    _, card = found["pyramids"]
    assert card.locator("svg.chart > svg").count() == 3 and card.locator(".chart-bar").count() == 360
    on_map, card = found["map"]
    assert card.locator(".chart-shape").count() == 30 and "abroad: " in card.locator("svg").text_content()
    steps = card.locator("g:has(> .chart-shape)").all()
    shades = [int(step.get_attribute("class").removeprefix("heat-")) for step in steps]
    assert np.corrcoef(shades, list(on_map.rows)[:30])[0, 1] > 0.98
    assert watched.is_quiet()


def test_every_chart_is_read_off_by_keyboard_and_pointer(charts: tuple[Watched, dict[str, tuple[Made, Any]]]) -> None:
    """What the cursor says of every mark is what stands in the rows of the view, whichever way they are arranged."""
    watched, found = charts
    for view, card in found.values():
        rows = {tuple(row[: len(view.names)]): row[len(view.names)] for row in read(view.to_json())}
        frame, told = card.get_by_role("slider"), set()
        frame.focus()
        watched.page.keyboard.press("Home")
        for _ in range(12):
            told.add(frame.get_attribute("aria-valuetext"))
            watched.page.keyboard.press("ArrowRight")
        watched.page.keyboard.press("End")
        told.add(frame.get_attribute("aria-valuetext"))
        for text in told - {text for text in told if "sum" in text}:
            name, _, figures = text.partition(": ")
            value = rows[next(key for key in rows if sorted(key) == sorted(name.split(" · ")))]
            shown = f"noisy {100 * value:.4g}%" if view.kind == "dots" else f"{value} ("
            assert figures.startswith(shown), (text, value)
        assert len(told) >= 8
    shape = found["map"][1].locator(".chart-shape").nth(7)
    shape.scroll_into_view_if_needed()
    shape.hover()
    assert (found["map"][1].locator(".chart-readout").text_content() or "").startswith("region 7: ")
    panel = found["small multiples"][1].locator("svg.chart > svg").nth(3).locator(".chart-square").nth(10)
    panel.scroll_into_view_if_needed()
    panel.hover()
    assert (found["small multiples"][1].locator(".chart-readout").text_content() or "").startswith(
        "place 3 · b · year 1:"
    )


# ---- reading off ----------------------------------------------------------------------------------------------------


def test_the_cursor_walks_by_keyboard(draw: Draw) -> None:
    watched = draw(bars([100, 50, 25]))
    watched.page.keyboard.press("Tab")
    frame = watched.page.get_by_role("slider")
    assert frame.get_attribute("aria-valuetext") == "value 0: 100 (95 to 105)"
    watched.page.keyboard.press("ArrowDown")
    assert frame.get_attribute("aria-valuetext") == "value 1: 50 (45 to 55)"
    assert watched.page.locator(".chart-readout").text_content() == "value 1: 50 (45 to 55)"
    for key in ("End", "ArrowDown", "Home", "ArrowUp"):
        watched.page.keyboard.press(key)
    assert frame.get_attribute("aria-valuenow") == "1"


def test_the_cursor_walks_a_heat_map_in_both_directions(draw: Draw) -> None:
    watched = draw(heat(3, 4, list(range(12))))
    watched.page.keyboard.press("Tab")
    told = []
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "End"):
        watched.page.keyboard.press(key)
        told.append(watched.page.get_by_role("slider").get_attribute("aria-valuetext"))
    assert told[2:] == ["row 2 · c1: 9", "c1, sum: 15", "c1, sum: 15", "sum of all: 66"], "the sums come last"


def test_equal_values_of_two_attributes_are_both_told(draw: Draw) -> None:
    columns = [
        axis_column("sick", ("false", "true"), 2),
        axis_column("old", ("false", "true"), 1),
        value_column("count", "count"),
    ]
    made = Made(
        "two", "bars", columns, [1, 2, 3, 4], "four", names=(0, 1), series=[Series("count", 2)], caption="Counts"
    )
    watched = draw(made.to_json())
    texts = watched.page.locator(".chart-text").all_text_contents()
    assert texts == ["false · false", "false · true", "true · false", "true · true"]


def test_pointing_at_a_mark_reads_it_off(draw: Draw) -> None:
    watched = draw(heat(3, 4, list(range(12))))
    watched.page.locator(".chart-square").nth(6).hover()
    assert watched.page.locator(".chart-readout").text_content() == "row 1 · c2: 6"


# ---- tables ---------------------------------------------------------------------------------------------------------


def table(rows: int = 60) -> View:
    columns = [value_column("name", index=0), value_column("count", "count", 1)]
    values = [[f"name {i % 7} {i}", None if i == 5 else (i * 37) % rows] for i in range(rows)]
    return Made("a table", "table", columns, values, "some").to_json()


def column(watched: Watched, number: int) -> list[str]:
    return watched.page.locator(f"table.values tbody tr > :nth-child({number})").all_text_contents()


def test_tables_are_paged_sorted_and_searched(draw: Draw) -> None:
    watched = draw(table())
    assert len(column(watched, 1)) == 25
    watched.page.get_by_role("button", name="count").click()
    assert column(watched, 2)[:3] == ["0", "1", "2"]
    watched.page.get_by_role("button", name="count").click()
    assert column(watched, 2)[:2] == ["59", "58"]
    assert watched.page.get_by_role("columnheader", name="count").get_attribute("aria-sort") == "descending"
    for _ in range(2):
        watched.page.get_by_role("button", name="Next").click()
    assert column(watched, 2)[-1] == "–"  # what is missing stays last
    watched.page.get_by_role("searchbox").fill(" 59  NAME")  # words in any order, in any column
    expect(watched.page.locator("table.values tbody tr")).to_have_count(2)
    assert set(zip(column(watched, 1), column(watched, 2), strict=True)) == {("name 3 59", "23"), ("name 5 47", "59")}
    with watched.page.expect_download() as found:
        watched.page.get_by_role("button", name="CSV").click()
    assert found.value.suggested_filename == "a-table.csv"
    lines = Path(found.value.path()).read_bytes().decode().split("\r\n")
    assert lines == ["name,count", "name 5 47,59", "name 3 59,23", ""], "as found and as sorted"
    watched.page.get_by_role("searchbox").fill("nothing like this")
    expect(watched.page.locator("table.values tbody tr")).to_have_count(0)
    assert watched.page.get_by_role("status").text_content() == "no rows"


def test_tables_are_filtered_by_column(draw: Draw) -> None:
    """Values to pick and ranges of numbers, together with the search; the CSV holds what is left."""
    columns = [
        axis_column("kind", ["a", "b", "c"], 10),
        value_column("count", "count", 0),
        value_column("share", "share", 1),
    ]
    rows = [[i, i / 30] for i in range(30)]
    watched = draw(Made("filtered", "table", columns, rows, "some").to_json())
    page, lines = watched.page, watched.page.locator("table.values tbody tr")
    page.get_by_text("Filter by column").click()
    page.get_by_role("checkbox", name="b").check()
    expect(lines).to_have_count(10)
    page.get_by_role("checkbox", name="c").check()
    expect(lines).to_have_count(20)
    page.get_by_label("count, at least").fill("12")
    page.get_by_label("share, in %, at most").fill("70")
    expect(lines).to_have_count(10)
    assert column(watched, 2) == [str(i) for i in range(12, 22)]
    assert page.get_by_text("Filter by column: 3 in use").count() == 1
    page.get_by_role("searchbox").fill("c")
    expect(lines).to_have_count(2)
    with page.expect_download() as found:
        page.get_by_role("button", name="CSV").click()
    assert [line.split(",")[:2] for line in Path(found.value.path()).read_text().split()] == [
        ["kind", "count"],
        ["c", "20"],
        ["c", "21"],
    ]
    page.get_by_role("button", name="Remove all filters").click()
    expect(lines).to_have_count(10)
    assert watched.is_quiet()


def test_a_chart_can_be_shown_as_a_table(draw: Draw) -> None:
    watched = draw(bars([1234, -5]))
    assert watched.page.locator("table.values").count() == 0  # made when it is asked for
    watched.page.get_by_text("Show as a table").click()
    watched.page.wait_for_selector("table.values")
    assert [column(watched, i) for i in (1, 2, 3, 4)] == [
        ["value 0", "value 1"],
        ["1,234", "-5"],
        ["1,229", "-10"],
        ["1,239", "0"],
    ]


def test_what_did_not_fit_or_is_empty_says_so(draw: Draw) -> None:
    left_out = {**bars([1, 2]), "rows": [], "left_out": 12345}
    watched = draw([left_out, bars([])])
    assert watched.page.get_by_text("Its 12,345 rows are too many for this page").count() == 1
    assert watched.page.get_by_text("Nothing was listed.").count() == 1


# ---- names ----------------------------------------------------------------------------------------------------------

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<svg onload=alert(2)>",
    "__proto__",
    "constructor",
    "\u202eright",
    "",
)


def test_hostile_names_are_text(draw: Draw) -> None:
    columns = [
        axis_column(HOSTILE[0], HOSTILE, 2),
        axis_column(HOSTILE[1], ("<b>", "__proto__"), 1),
        value_column("<i>count</i>", "count"),
    ]
    made = Made(
        HOSTILE[0], "heat", columns, list(range(12)), HOSTILE[1], [(HOSTILE[0], HOSTILE[1])], [HOSTILE[0]], (0, 1)
    )
    view = {**made.to_json(), "series": [Series(HOSTILE[1], 2).to_json()], "caption": HOSTILE[0]}
    rows = [[name, i] for i, name in enumerate(HOSTILE)]
    listed = Made(
        HOSTILE[1],
        "bars",
        [value_column(HOSTILE[0]), value_column("n", "count", 1)],
        rows,
        "x",
        series=[Series("n", 1)],
    )
    watched = draw([view, listed.to_json()])
    watched.ask("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    watched.page.wait_for_selector("table.values")
    assert watched.page.locator("main img, main b, main i, main svg svg").count() == 0
    assert watched.page.locator(".chart-square").count() == 12 + 9
    assert watched.is_quiet()


def test_views_stand_in_the_report_itself(open_page: Any, report_file: Path) -> None:
    watched = open_page(report_file)
    assert watched.page.locator("#released svg.chart").count() >= 1
    assert watched.is_quiet()
