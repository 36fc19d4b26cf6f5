"""The report's page for 200 attributes and 10,000 released tables (each a term of the guarantee), in a real Chromium.

``bytes``           of the one file
``first_paint_ms``  from opening the file until something can be read, median of several openings
``explorer_ms``     from a click on an attribute until all figures about the chosen set are laid out anew, 95th
                    percentile of random clicks; ``explorer_ms_max`` the slowest
``wide_…``          the report alone, in a process of its own, from the folder of a Synthesis of 22 columns, one of them
                    of 9,999 values: its time, its peak memory, the size of its page
``print_marks_lost`` marks and labels of every kind of view that are not in its PDF, or outside the printable box, on
                    A4 and Letter
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench._printing import marks_lost
from bench._view_kinds import every_kind, page_of
from bench._wide import wide_report
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import Rho
from nabladp.release import Release
from nabladp.release.cost import error_json
from nabladp.release.record import versions
from nabladp.report import report
from nabladp.report.rendering import PAPERS, find_browser
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SECONDS = {"full": 300, "quick": 60}
ATTRIBUTES, TABLES, ROWS = 200, 5_000, 1_000  # tables in each of two parts
CLICKS = """async (numbers) => {
  const boxes = [...document.querySelectorAll(".choices input")];
  const took = [];
  for (const number of numbers) {
    const start = performance.now();
    boxes[number].click();
    document.querySelector(".result").getBoundingClientRect();
    took.push(performance.now() - start);
    await new Promise((done) => setTimeout(done));
  }
  return took;
}"""


def run(quick: bool) -> dict[str, Any]:
    start = time.perf_counter()
    releases = _releases(random.Random(1))
    made = time.perf_counter()
    text = report(releases, "bench")
    written = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(text, encoding="utf-8")
        measured = _measured(page, openings=3 if quick else 9, clicks=100 if quick else 400)
    terms = sum(len(release.guarantee.terms) for release in releases)
    return {
        "bytes": len(text.encode()),
        **measured,
        "attributes": ATTRIBUTES,
        "terms": terms,
        "tables": 2 * TABLES,
        "seconds_to_write": round(written - made, 2),
        "seconds_to_release": round(made - start, 2),
        **wide_report(quick),
        **_printed(),
    }


def _printed() -> dict[str, int]:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "views.html"
        page.write_text(page_of(every_kind()), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        found = [marks_lost(browser.new_page(), page, paper) for paper in PAPERS]
        browser.close()
    return {
        "print_marks": sum(one["marks"] + one["labels"] for one in found),
        "print_marks_lost": sum(one["lost"] for one in found),
    }


def _releases(rng: random.Random) -> list[Release]:
    schema = Schema(
        tuple(Attribute(f"attribute {i}", "categorical", values=("a", "b", "c")) for i in range(ATTRIBUTES))
    )
    draws = NoiseSource.seeded(2)
    table = CodedTable(schema, {name: draws.uniform_integers(3, ROWS) for name in schema.names})
    pairs = rng.sample([(a, b) for a in schema.names for b in schema.names if a < b], 2 * TABLES)
    found = []
    for number in range(2):
        sets = tuple(pairs[number * TABLES : (number + 1) * TABLES])
        mechanism = NoisyMarginals(Rho(0.5), sets=sets, weights=tuple(rng.randint(1, 9) for _ in sets))
        found.append(_release(f"part {number}", mechanism, schema, table))
    return found


def _release(name: str, mechanism: NoisyMarginals, schema: Schema, table: CodedTable) -> Release:
    """As a session would make it; the ledger entry is made up."""
    return Release(
        name=name,
        mechanism="NoisyMarginals",
        parameters=mechanism.to_json(),
        schema=schema,
        n=ROWS,
        guarantee=mechanism.guarantee(schema, ROWS),
        output=mechanism.run(table, NoiseSource()),
        expected_error=error_json(mechanism.expected_error(schema, ROWS)),
        ledger={"ledger": "bench", "entry": 2, "name": name, "hash": "0" * 64},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
    )


def _measured(page: Path, openings: int, clicks: int) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    paints, ready = [], []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        for _ in range(openings):
            context = browser.new_context()
            opened = context.new_page()
            opened.goto(page.as_uri())
            ready.append(opened.evaluate("nabladp.ready.then(() => performance.now())"))
            paints.append(
                opened.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity")
            )
            if len(paints) < openings:
                context.close()
        rng = random.Random(3)
        took = sorted(opened.evaluate(CLICKS, [rng.randrange(ATTRIBUTES) for _ in range(clicks)]))
        browser.close()
    return {
        "first_paint_ms": round(statistics.median(paints), 1),
        "ready_ms": round(statistics.median(ready), 1),
        "explorer_ms": round(took[int(0.95 * len(took))], 2),
        "explorer_ms_median": round(statistics.median(took), 2),
        "explorer_ms_max": round(took[-1], 2),
    }
