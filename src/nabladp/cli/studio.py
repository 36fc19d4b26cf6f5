"""``nabladp studio``: plan and release in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nabladp.cli.answer import answering
from nabladp.studio import PORT, serve


def studio(
    folder: Annotated[Path, typer.Argument(help="The folder of the table, the schema and the plan.")] = Path("."),
    port: Annotated[int, typer.Option(help="The port on this machine; 0: any that is free.")] = PORT,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Plan and release in the browser, without writing TOML: a local web app that works with the plain files of a
    folder. Only this machine can reach it."""
    with answering(False):
        serve(folder, port, browser=not no_browser)
