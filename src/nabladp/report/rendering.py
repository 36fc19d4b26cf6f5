"""A page as files: one self-contained HTML file; from it a PDF and pictures of its charts, through a browser that is
installed anyway.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nabladp.errors import MissingPart, ReleaseError, quote
from nabladp.report.language import Language, language

if TYPE_CHECKING:
    from jinja2 import Environment


# ---- one self-contained HTML file ------------------------------------------------------------------------------------
# The page carries its own content policy: only the scripts and styles whose hashes it names may run, no markup can be
# made from text by a script, and no request may leave it. Everything from the user is escaped by the template, or sits
# in a block of base64.

_NEEDS = {"guarantee.js": ("units.js", "terms.js"), "explorer.js": ("answer.js",)}  # what must come before
_ASSETS = files("nabladp.report") / "assets"
VIEW_SCRIPTS = (
    "drawing.js",
    "marks.js",
    "scales.js",
    "pyramid.js",
    "heat.js",
    "panels.js",
    "map.js",
    "charts.js",
    "tables.js",
)  # which draw views
VIEW_STYLE = "charts.css"


def asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def assemble(
    template: str,
    context: Mapping[str, Any],
    blocks: Mapping[str, Any],
    scripts: Sequence[str],
    styles: Sequence[str] = ("style.css",),
    spoken: str | Language = "en",
) -> str:
    """Render a self-contained HTML file; ``blocks`` are data for the scripts, by name: text or bytes as they are, else
    as JSON. Templates find the texts of the page's language under ``t``."""
    from markupsafe import Markup

    t = language(spoken)
    all_scripts = ["texts.js", *(part for name in scripts for part in (*_NEEDS.get(name, ()), name))]
    style, script = ("\n".join(asset(name) for name in names) for names in (styles, all_scripts))
    own = {
        "policy": _policy(script, style),
        "style": Markup(style),
        "script": Markup(script),
        "blocks": {name: pack(content) for name, content in blocks.items()},
        "t": t,
        "texts": t.for_scripts(),
    }
    return _templates().get_template(template).render({**context, **own})


@cache
def _templates() -> Environment:
    """The HTML templates; kept, since compiling them takes far longer than filling them in."""
    return make_templates(asset)


def make_templates(read: Callable[[str], str]) -> Environment:
    """Templates of pages by what reads them by name; whatever is filled in is escaped."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    templates = Environment(
        loader=FunctionLoader(read), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {"power": lambda delta, t: t.power(delta), "localised": lambda whole, t: t.number(whole)}
    return templates


class Packed(str):
    """Base64 of gzip: holds no sign that could end the element it stands in."""


def pack(content: Any) -> Packed:
    if isinstance(content, Packed):
        return content
    if not isinstance(content, str | bytes):
        content = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = content.encode() if isinstance(content, str) else content
    return Packed(base64.b64encode(gzip.compress(data, 6, mtime=0)).decode())


def _policy(script: str, style: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# ---- PDF and PNG through a browser -----------------------------------------------------------------------------------
# Chromium is driven over a pair of pipes by its own debugging protocol: messages are JSON, each ended by a zero byte.
# The profile is a throwaway folder, and the page's own content policy keeps it from the network.

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60.0  # seconds for one answer


def find_browser() -> str:
    """The path of Chromium for rendering; the environment variable NABLADP_BROWSER names another."""
    for name in (os.environ.get("NABLADP_BROWSER"), *NAMES):
        if name and (path := shutil.which(name)):
            return path
    raise MissingPart(
        "PDF and PNG need Chromium or Chrome, and none was found.",
        fix="Install chromium, or name a browser in NABLADP_BROWSER; the HTML report needs none.",
    )


PAPERS = {"A4": (210 / 25.4, 297 / 25.4), "Letter": (8.5, 11.0)}  # in inches


def write_pdf(page: Path, to: Path, *, certificate: bool = False, paper: str = "A4") -> None:
    """Render a whole page of ours, or a report's certificate, as a PDF through the browser; on A4 or Letter."""
    if paper not in PAPERS:
        raise ReleaseError(f"There is no paper {quote(paper)}.", fix=f"Choose one of {', '.join(PAPERS)}.")
    width, height = PAPERS[paper]
    first = "await (nabladp.ready ?? nabladp.released);"
    if not certificate:
        first += "document.documentElement.classList.add('print-all'); nabladp.toPaper();"
    with _open_browser(page) as browser:
        browser.evaluate(f"(async () => {{ {first} }})()")
        sheet = {"paperWidth": width, "paperHeight": height, "preferCSSPageSize": True}
        answer = browser.ask("Page.printToPDF", printBackground=True, **sheet)
    _write(to, base64.b64decode(answer["data"]))


def write_charts(page: Path, folder: Path) -> list[Path]:
    """Render a PNG of the chart of every view, in their order; returns the files. Views that are tables have none."""
    paths = []
    with _open_browser(page) as browser:
        for part, number, title in browser.evaluate("nabladp.ready.then(() => nabladp.listed())"):
            box = browser.evaluate(f"nabladp.stage({part}, {number})")
            if box is not None:
                answer = browser.ask("Page.captureScreenshot", clip={**box, "scale": 2}, captureBeyondViewport=True)
                paths.append(folder / f"{part + 1:02d}-{number + 1:03d}-{_plain(title)}.png")
                _write(paths[-1], base64.b64decode(answer["data"]))
    return paths


def _plain(title: str) -> str:
    """A view's title as part of a file name."""
    return re.sub("[^A-Za-z0-9]+", "-", title).strip("-")[:60] or "chart"


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError:
        raise ReleaseError(f"Cannot write {path.name!r}.", fix="Choose a folder that is writable.") from None


@contextmanager
def _open_browser(page: Path) -> Iterator[_Browser]:
    """A browser that shows the page; gone afterwards, with its profile."""
    program = find_browser()
    with tempfile.TemporaryDirectory(prefix="nabladp-") as profile:
        browser = _Browser(program, profile)
        try:
            browser.show(page.resolve().as_uri())
            yield browser
        finally:
            browser.close()


class _Browser:
    def __init__(self, program: str, profile: str) -> None:
        options = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        options += ["--disable-extensions", "--force-color-profile=srgb", f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # Chromium refuses to start otherwise
        self._numbers = itertools.count(1)
        self._heard = b""
        self._session: str | None = None
        (asks, self._speak), (self._hear, answers) = os.pipe(), os.pipe()
        ends = [_out_of_the_way(end) for end in (asks, answers)]

        def hand_over() -> None:  # in the child: the protocol wants these very numbers
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        try:
            self._process = subprocess.Popen(
                [program, *options, "about:blank"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                close_fds=False,  # all others close by themselves
                preexec_fn=hand_over,
            )
        finally:
            for end in (asks, answers, *ends):
                os.close(end)

    def show(self, address: str) -> None:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Emulation.setDeviceMetricsOverride", width=1000, height=1400, deviceScaleFactor=1, mobile=False)
        self.ask("Page.enable")
        self.ask("Page.navigate", url=address)
        self._wait(lambda message: message.get("method") == "Page.loadEventFired")

    def evaluate(self, script: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise ReleaseError("The page could not be drawn.", fix="Open it in a browser to see why.")
        return answer["result"].get("value")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        try:
            os.write(self._speak, json.dumps(message).encode() + b"\0")
        except OSError:
            raise _no_answer() from None
        answer = self._wait(lambda heard: heard.get("id") == number)
        if "error" in answer:
            raise _no_answer()
        result: dict[str, Any] = answer["result"]
        return result

    def _wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while True:
            first, mark, rest = self._heard.partition(b"\0")
            if mark:
                self._heard = rest
                message: dict[str, Any] = json.loads(first)
                if wanted(message):
                    return message
                continue
            waiting, _, _ = select.select([self._hear], [], [], max(0.0, end - time.monotonic()))
            more = os.read(self._hear, 1 << 20) if waiting else b""
            if not more:  # no answer in time, or gone
                raise _no_answer()
            self._heard += more

    def close(self) -> None:
        for end in (self._speak, self._hear):  # it leaves when nobody speaks to it
            os.close(end)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _out_of_the_way(end: int) -> int:
    """The same end of a browser's pipe under a number that is neither 3 nor 4."""
    import fcntl

    return fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10)


def _no_answer() -> ReleaseError:
    return ReleaseError("The browser gave no answer.", fix="Try again, or print the report from a browser by hand.")
