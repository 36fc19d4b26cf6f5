"""``nabladp studio`` on a plan of 50 columns and 20 releases, in a real Chromium, and under attack.

``first_page_ms``   from the start of the command until its first page can be read, median of several starts;
                    ``first_page_ms_max`` the slowest
``cost_update_ms``  from a budget's last movement until all costs and errors on the page are new, 95th percentile,
                    the page's own pause included; ``cost_update_ms_median``, ``cost_update_ms_max``
``memory_mb``       the most memory of the server and its background work together, from looking at the table to the
                    published release and the ledger's page
``attacks``         kinds of attack that were tried, ``requests`` in all; ``let_in``: those that were not refused
``leaks``           answers, kept files and printed lines that hold a value of the table, or of a file outside the
                    folder
"""

from __future__ import annotations

import random
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench._studio_attacks import ATTACKS, WORD, Target, leaks, served, write_folder
from nabladp.report.rendering import find_browser

SECONDS = {"full": 180, "quick": 60}
COLUMNS, RELEASES, ROWS = 50, 20, 10_000
PAGES = ("/", "/table", "/columns", "/columns?name=column_1", "/limits", "/questions", "/questions?edit=1", "/release")
PAINTED = """new Promise((done) => new PerformanceObserver((seen) => {
  const paint = seen.getEntriesByName("first-contentful-paint")[0];
  if (paint) done(performance.timeOrigin + paint.startTime);
}).observe({ type: "paint", buffered: true }))"""  # when something could be read first, in milliseconds of the clock
MOVES = """async (positions) => {
  const page = document.querySelector(".asking-page");
  const slider = document.querySelector('article input[type="range"]');
  const took = [];
  for (const position of positions) {
    const start = performance.now();
    const priced = new Promise((done) => page.addEventListener("priced", done, { once: true }));
    slider.value = position;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await priced;
    page.getBoundingClientRect();
    took.push(performance.now() - start);
  }
  return took;
}"""


def run(quick: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "wide"
        write_wide(folder)
        return {
            **_first_page(folder, 3 if quick else 9),
            **_wide(folder, 30 if quick else 200),
            **_attacked(Path(place) / "attacked" / "work"),
            "columns": COLUMNS,
            "releases": RELEASES,
        }


def write_wide(folder: Path) -> None:
    """A folder with a table of many columns and a plan of many releases."""
    folder.mkdir()
    draws = random.Random(1)
    names = [f"column_{i}" for i in range(COLUMNS)]
    rows = [",".join(str(draws.randrange(2 + i % 9)) for i in range(COLUMNS)) for _ in range(ROWS)]
    (folder / "people.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    (folder / "schema.toml").write_text(
        "".join(
            f'[[attribute]]\nname = "{name}"\nkind = "integer"\nlow = 0\nhigh = {1 + i % 9}\n\n'
            for i, name in enumerate(names)
        )
    )
    plan = f'[table]\nsource = "people.csv"\nschema = "schema.toml"\nrows = {ROWS}\n\n'
    plan += '[budget]\nledger = "ledger.db"\nper_attribute = { cdp = 9 }\nperson = { rho = 90 }\n'
    for number in range(RELEASES):
        first, second = names[number], names[number + RELEASES]
        asked = (
            f'mechanism = "NoisyMarginals"\nsets = [["{first}", "{second}"], ["{first}"]]'
            if number % 2
            else f'mechanism = "Statistics"\nby = ["{first}"]\ncount = true\nmean = ["{second}"]'
        )
        plan += f'\n[[release]]\nname = "release-{number}"\n{asked}\nbudget = {{ cdp = 0.2 }}\n'
    plan += f'\n[[adversary]]\nname = "an employer"\nattributes = ["{names[3]}", "{names[7]}"]\n'
    (folder / "plan.toml").write_text(plan)


@contextmanager
def _chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        yield browser
        browser.close()


def _first_page(folder: Path, starts: int) -> dict[str, float]:
    took = []
    with _chromium() as browser:
        for _ in range(starts):
            context = browser.new_context()
            page = context.new_page()
            begun = 1000 * time.time()
            with served(folder) as target:
                page.goto(f"http://{target.host}/start?token={target.token}", wait_until="commit")
                page.wait_for_url(f"http://{target.host}/", wait_until="commit")
                page.wait_for_selector("main h1")
                took.append(page.evaluate(PAINTED) - begun)
                context.close()
    return {"first_page_ms": round(statistics.median(took)), "first_page_ms_max": round(max(took))}


def _wide(folder: Path, moves: int) -> dict[str, float]:
    """Costs that follow a slider, then the whole way to a release, while memory is watched."""
    with served(folder) as target, _watched(target.process) as peak:
        took = sorted(_moved(target, moves))
        target.post("/table/open", **{"from": "file", "file": "people.csv", "schema": "keep"})
        assert target.wait("look")["state"] == "done"
        target.post("/columns/check")
        assert target.wait("check")["state"] == "done"
        assert all(target.page(path).status == 200 for path in PAGES)
        _release(target)
        assert all(target.page(path).status == 200 for path in (*PAGES, "/ledger", "/ledger/verify?folder=first"))
    return {
        "cost_update_ms": round(took[int(0.95 * len(took))], 1),
        "cost_update_ms_median": round(statistics.median(took), 1),
        "cost_update_ms_max": round(took[-1], 1),
        "memory_mb": round(peak[0]),
    }


def _moved(target: Target, moves: int) -> list[float]:
    draws = random.Random(2)
    positions = [draws.randrange(5, 55) for _ in range(moves + 3)]
    moving = [now for before, now in zip([-1, *positions], positions, strict=False) if now != before]
    with _chromium() as browser:
        page = browser.new_page()
        page.goto(f"http://{target.host}/start?token={target.token}")
        page.wait_for_url(f"http://{target.host}/")
        page.goto(f"http://{target.host}/questions", wait_until="networkidle")
        took = page.evaluate(MOVES, moving)
    return [float(one) for one in took[3:]]  # the first ones warm up


def _release(target: Target) -> None:
    text = target.page("/release").text
    found = re.search(r'name="amounts" value="(\w+)"', text)
    assert found is not None
    target.post("/release/start", amounts=found[1], confirm="yes", folder="first")
    done = target.wait("release")
    assert done["state"] == "done", done


@contextmanager
def _watched(process: int) -> Iterator[list[float]]:
    """The memory of a process and its children in MB, looked at many times a second."""
    peak, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            peak[0] = max(peak[0], _resident(process))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield peak
    ended.set()
    thread.join()


def _resident(process: int) -> float:
    """MB of a process and of all that it started, as they stand now; what they share counts once."""
    total = 0.0
    for own in (process, *_children(process)):
        try:
            text = Path(f"/proc/{own}/smaps_rollup").read_text()
        except OSError:
            continue
        found = re.search(r"^Pss:\s*(\d+)", text, re.MULTILINE)
        total += 0 if found is None else int(found[1]) / 1024
    return total


def _children(process: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        own = [int(text) for task in tasks for text in (task / "children").read_text().split()]
    except OSError:
        return []
    return own + [below for child in own for below in _children(child)]


def _attacked(folder: Path) -> dict[str, int]:
    """Every attack, then the whole way to a release of a table that holds a word which nobody may ever see."""
    write_folder(folder)
    let_in = {}
    with served(folder) as target:
        for name, attack in ATTACKS.items():
            if found := attack(target):
                let_in[name] = found
        requests = len(target.answers)
        target.post("/table/open", **{"from": "file", "file": "people.csv", "schema": "keep"})
        target.wait("look")
        target.post("/columns/check")
        target.wait("check")
        _release(target)
        for path in (*PAGES, "/ledger", "/ledger/verify?folder=first", "/published/first/report.html"):
            target.page(path)
    assert WORD in (folder / "people.csv").read_text()
    return {"attacks": len(ATTACKS), "requests": requests, "let_in": len(let_in), "leaks": len(leaks(target))}
