"""Take the pictures of docs/report.md and docs/ledger.md from a real demo release, those of docs/examples.md from the
Census example: ``python docs/make_report_pictures.py``.

Needs Chromium and playwright. The demo's noise is fresh each time, so its counts differ from picture to picture; the
figures about privacy do not.
"""

from __future__ import annotations

import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from nabladp.release.demo import OUT, run_demo
from nabladp.report.site import write_site

FOLDER = Path(__file__).parent
CHOICE = "#explore?a=income&a=disability"
PICTURES: dict[str, dict[str, Any]] = {
    "report-desktop": {"width": 1180, "height": 1290},
    "report-explorer": {"width": 1180, "height": 940, "address": CHOICE, "at": "#explorer"},
    "report-dark": {"width": 1180, "height": 1000, "scheme": "dark", "at": "#released", "open": "region + income"},
    "report-pyramid": {"width": 1180, "height": 1120, "at": "#released", "open": "age + sex"},
    "report-heat": {"width": 1180, "view": "region + income"},
    "report-panels": {"width": 1180, "view": "region + tenure + marital"},
    "report-map": {"width": 1180, "view": "region"},
    "report-phone": {"width": 360, "height": 1180, "address": CHOICE, "at": ".result"},
    "report-certificate": {"width": 688, "height": 802, "media": "print"},
}
SITE_PICTURES: dict[str, dict[str, Any]] = {"ledger-site": {"width": 1180, "height": 1240}}
CENSUS = FOLDER.parent / "examples" / "census2020" / "certificate.py"
CENSUS_PICTURES: dict[str, dict[str, Any]] = {
    "census-explorer": {
        "width": 1180,
        "height": 940,
        "address": "#explore?a=cenrace&a=hispanic&delta=1e-6",
        "at": "#explorer",
    },
}


def take(browser: Any, page: Path, name: str, how: dict[str, Any]) -> None:
    size = {"width": how["width"], "height": how.get("height", 1000)}
    opened = browser.new_page(viewport=size, color_scheme=how.get("scheme", "light"))
    opened.goto(page.as_uri() + how.get("address", ""))
    opened.evaluate("nabladp.ready.then(() => true)")
    opened.emulate_media(media=how.get("media", "screen"))
    if "view" in how:  # this view alone
        line = opened.locator("details.view", has=opened.get_by_text(how["view"], exact=True)).last
        opened.evaluate("(line) => (line.open = true)", line.element_handle())
        opened.wait_for_timeout(200)
        line.screenshot(path=FOLDER / f"{name}.png")
        opened.close()
        return
    if "open" in how:
        line = opened.locator("details.view", has=opened.get_by_text(how["open"], exact=True))
        opened.evaluate(
            "(line) => { line.open = true; line.scrollIntoView({ behavior: 'instant' }); }", line.element_handle()
        )
    elif "at" in how:
        opened.evaluate("(at) => document.querySelector(at).scrollIntoView({ behavior: 'instant' })", how["at"])
    opened.screenshot(path=FOLDER / f"{name}.png")
    opened.close()


def main() -> None:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        run_demo(Path(place) / "demo", 100_000, quiet=True)
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, how in PICTURES.items():
            take(browser, Path(place) / "demo" / OUT / "report.html", name, how)
        site = write_site([Path(place) / "demo" / "ledger.db"], Path(place) / "site", [Path(place) / "demo" / OUT])
        for name, how in SITE_PICTURES.items():
            take(browser, site, name, how)
        runpy.run_path(str(CENSUS))["keep"](Path(place))
        for name, how in CENSUS_PICTURES.items():
            take(browser, Path(place) / "report.html", name, how)
        browser.close()


if __name__ == "__main__":
    main()
