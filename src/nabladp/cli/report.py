"""``nabladp report``: the page about a published folder or a guarantee alone, also on paper and as pictures."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from nabladp.cli.answer import answering, print_json, say, working


def report(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a release or of a whole plan; or a guarantee kept as JSON.")
    ],
    to: Annotated[Path | None, typer.Option("--to", help="Where to write it; otherwise into the folder.")] = None,
    pdf: Annotated[Path | None, typer.Option(help="Also the whole report as PDF; needs Chromium.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Also the certificate, one page of PDF.")] = None,
    png: Annotated[Path | None, typer.Option(help="Also a picture of each chart, into this folder.")] = None,
    title: Annotated[
        str | None, typer.Option(help="Its title; otherwise the name of the folder, or the one kept.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Write the report of a published folder, or of a guarantee alone: one HTML file that needs no network."""
    with answering(json):
        from nabladp.report import write

        with working("writing the report"):
            page = write(folder, to, title)
        written = {"report": str(page), **_printed(page, pdf, certificate, png)}
        if json:
            print_json(written)
            return
        for name in (written["report"], *(written[key] for key in ("pdf", "certificate") if written[key])):
            say(f"Wrote {name}.")
        if png is not None:
            say(f"Wrote {len(written['png']):,} pictures into {png}.")


def _printed(page: Path, pdf: Path | None, certificate: Path | None, png: Path | None) -> dict[str, Any]:
    from nabladp.report import browser

    made: dict[str, Any] = {"pdf": None, "certificate": None, "png": []}
    if pdf is None and certificate is None and png is None:
        return made
    browser.find_browser()  # refuses before it is waited for
    with working("drawing") as tell:
        for key, place in (("pdf", pdf), ("certificate", certificate)):
            if place is not None:
                tell(f"drawing the {key}", 0, 0)
                browser.write_pdf(page, place, certificate=key == "certificate")
                made[key] = str(place)
        if png is not None:
            tell("drawing charts", 0, 0)
            made["png"] = [str(path) for path in browser.write_charts(page, png)]
    return made


def write_beside(releases: Any, folder: Path) -> Path | None:
    """The report of a release that was just shown. Whatever goes wrong here, the release stands; None then."""
    from nabladp.report import FILE, write

    with suppress(Exception):
        return write(releases, folder / FILE, folder.resolve().name)
    return None
