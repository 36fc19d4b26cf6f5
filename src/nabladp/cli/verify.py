"""``nabladp verify``: is a published folder as it was written, and does the ledger know it?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nabladp.cli.answer import answering, print_json, say, working


def verify(
    subject: Annotated[
        str, typer.Argument(help="A published folder, a report or certificate in it, or the text of a QR code.")
    ],
    ledger: Annotated[str | None, typer.Option(help="Also check that its entries are in this ledger's chain.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Check that a release is as it was published, that its certificate says the same, and that the ledger booked it.

    Its entry need not be the ledger's latest: what was booked later changes nothing about it.
    """
    with answering(json):
        from nabladp.report import verify as check

        with working("comparing hashes"):
            found = check(subject if subject.upper().startswith("NABLADP:") else Path(subject), ledger)
        if json:
            print_json(found.to_json())
        for text in found.checked if not json else ():
            say(f"right: {text}")
        for text in found.open if not json else ():
            say(f"not checked: {text}", "yellow")
        for text in found.problems if not json else ():
            say(f"wrong: {text}", "bold red")
        if not found.ok:
            raise typer.Exit(1)
