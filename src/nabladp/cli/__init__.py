"""The command line: thin. Every command is a few calls into ``nabladp.release`` and a way to show the answer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from nabladp.errors import is_interrupt


def main(arguments: Sequence[str] | None = None) -> None:
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that knows no ε still gets its table
            stream.reconfigure(errors="replace")
    # Ctrl-C while a connection closes: the driver's pool would print a traceback, and raises it anyway.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    try:
        from nabladp.cli.app import run

        code = run(given)
    except KeyboardInterrupt:  # before any command began
        code = 130
    except SystemExit as ended:
        if not is_interrupt(ended):
            raise
        code = 130
    sys.exit(code)


__all__ = ["main"]
