"""``nabladp site``: a static folder of pages about one ledger or several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nabladp.cli.answer import answering, print_json, say, working


def site(
    ledgers: Annotated[
        list[str], typer.Argument(help="The ledger: a file, or a database address; repeat for several.")
    ],
    to: Annotated[Path, typer.Option("--to", help="The folder to write: new, empty, or an older site.")],
    releases: Annotated[
        list[Path] | None, typer.Option("--releases", help="A folder of releases, whose reports are linked; repeat.")
    ] = None,
    title: Annotated[str, typer.Option(help="Its title (default: the name of the ledger).")] = "",
    delta: Annotated[float, typer.Option(help="The δ at which ε is stated.")] = 1e-6,
    language: Annotated[str, typer.Option(help="The language of the pages: en or de.")] = "en",
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Write a static site of a ledger: every release with its date and cost, all of them together in the explorer, what
    is left, and the reports. It reads the ledger and published folders, never a table."""
    with answering(json):
        from nabladp.report.site import write_site

        with working("reading the ledger") as tell:
            page = write_site(ledgers, to, releases or (), title=title, delta=delta, spoken=language, stage=tell)
        if json:
            print_json({"site": str(page.parent), "page": str(page)})
        else:
            say(f"Wrote {page}.")
