"""``nabladp report`` and ``nabladp compare``: pages about a published folder, also on paper and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nabladp.cli.answer import answering, print_json, printable, say, say_tables, working

if TYPE_CHECKING:
    from rich.table import Table

    from nabladp.release import Release
    from nabladp.release.publish import Published


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


# ---- of a release that was just published ---------------------------------------------------------------------------


def say_published(releases: Sequence[Release], folder: Path) -> None:
    """Before the report is written: the releases are public already."""
    if releases[0].stamp:
        say(f" {releases[0].stamp} ", "bold white on red")
    for release in releases:
        say(f"Released {release.name} (ledger entry {release.ledger['entry']}).")
    say(f"Published in {folder}.")


def say_report(published: Published, folder: Path) -> None:
    """Where the report is, or why there is none."""
    if published.problem is not None:
        say(str(published.problem), "yellow")
    else:
        say(f"Its report: {report_path(published, folder)}")


def report_json(published: Published, folder: Path) -> dict[str, Any]:
    problem = published.problem
    return {"report": report_path(published, folder)} | ({} if problem is None else {"problem": problem.to_json()})


def report_path(published: Published, folder: Path) -> str | None:
    """In the folder as the user named it."""
    return None if published.report is None else str(folder / published.report.name)


# ---- compare --------------------------------------------------------------------------------------------------------


def compare(
    folder: Annotated[Path, typer.Argument(help="The folder of a release, or of a whole plan.")],
    source: Annotated[str, typer.Argument(help="The table it was made from: a file, a glob or a DuckDB query.")],
    to: Annotated[Path, typer.Option("--to", help="A new HTML file outside of any published folder.")],
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Compare a release with the table itself. For the owner only: the page contains unprotected statistics."""
    with answering(json):
        from nabladp.release.comparison import NOTICE, comparison_path
        from nabladp.release.comparison import compare as compared
        from nabladp.report import place
        from nabladp.report.comparison import write_comparison

        comparison_path(folder, to)  # refuses before anything is read
        with working("comparing with the table"):
            found = sorted(compared(folder, source), key=lambda part: place(part.release))
            page = write_comparison(found, folder, to)
        parts = [part.to_json() for part in found]
        if json:
            print_json({"notice": NOTICE, "file": str(page), "releases": parts})
            return
        say(f" {NOTICE.upper()} ", "bold white on red")
        say_tables(*(_error_table(part) for part in parts))
        say(f"Wrote {page}. Never publish it: it holds exact counts, and only you can read it.")


def _error_table(part: dict[str, Any]) -> Table:
    from nabladp.cli.show import most, plain_table

    heads = ["values", "predicted", "actual", "truth in its interval"]
    table = plain_table(f"{printable(part['name'])}: mean error, predicted and actual", ["table"], heads)
    shown = most(len(part["tables"]))
    for line in part["tables"][:shown]:
        numbers = [_format_error(line[name], line["measure"]) for name in ("predicted", "actual")]
        covered = "–" if line["covered"] is None else f"{line['covered']:.1%}"
        table.add_row(printable(line["table"]), f"{line['cells']:,}", *numbers, covered)
        if line["summary"]:
            table.add_row(f"  {printable(line['summary'])}")
    if len(part["tables"]) > shown:
        table.add_row(f"… and {len(part['tables']) - shown:,} more (see the page)")
    return table


def _format_error(value: float | None, measure: str) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.4g}%" if measure == "share" else f"{value:.4g}"
