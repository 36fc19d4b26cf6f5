"""Take the pictures of docs/studio.md from a studio of the demo's folder: ``python docs/make_studio_pictures.py``.

Needs Chromium and playwright. Nothing in the pictures depends on noise, but for the ledger's entries.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nabladp.release.demo import run_demo

FOLDER = Path(__file__).parent
WIDTH = 1180
PICTURES: dict[str, dict[str, Any]] = {
    "studio-columns": {"page": "columns?name=income", "height": 780, "scheme": "light", "at": "form.column"},
    "studio-limits": {"page": "limits", "height": 860, "scheme": "light"},
    "studio-questions": {"page": "questions", "height": 900, "scheme": "light", "move": "Budget of single-columns"},
    "studio-release": {"page": "release", "height": 900, "scheme": "dark"},
}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which a studio of a folder lets a browser in."""
    command = [sys.executable, "-m", "nabladp", "studio", str(folder), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield re.findall(r"http\S+", process.stdout.readline() if process.stdout else "")[0]
        process.terminate()


def take(page: Any, name: str, how: dict[str, Any]) -> None:
    page.set_viewport_size({"width": WIDTH, "height": how["height"]})
    page.emulate_media(color_scheme=how["scheme"])
    page.goto(how["page"], wait_until="networkidle")
    if "move" in how:  # a slider, so that costs are of a budget that is not saved yet
        page.get_by_role("slider", name=how["move"]).press("PageUp")
        page.wait_for_timeout(1000)
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    if "at" in how:
        page.evaluate("(at) => document.querySelector(at).scrollIntoView({ behavior: 'instant' })", how["at"])
    page.wait_for_timeout(300)
    page.screenshot(path=FOLDER / f"{name}.png")


def main() -> None:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        demo, folder = Path(place) / "demo", Path(place) / "survey"
        run_demo(demo, 100_000, quiet=True)
        folder.mkdir()
        for name in ("people.parquet", "schema.toml", "plan.toml", "regions.geojson"):  # as it was before its release
            shutil.copy(demo / name, folder)
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        with served(folder) as address:
            page = browser.new_context(base_url=address.partition("/start")[0] + "/").new_page()
            page.on("dialog", lambda dialog: dialog.accept())  # edits that are not saved
            page.goto(address)
            page.wait_for_url("**/")
            for name, how in PICTURES.items():
                take(page, name, how)
        browser.close()


if __name__ == "__main__":
    main()
