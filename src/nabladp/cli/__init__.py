"""The command line: thin. Every command is a few calls into ``nabladp.release`` and a way to show the answer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from io import TextIOWrapper


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
        if not interrupted(ended):
            raise
        code = 130
    sys.exit(code)


def interrupted(error: BaseException) -> bool:
    """Whether this comes of Ctrl-C. A library that is interrupted while it loads, and the parser of arguments, turn it
    into errors of their own."""
    known: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in known:
        if isinstance(link, KeyboardInterrupt):
            return True
        known.add(id(link))
        link = link.__cause__ or link.__context__
    return False


__all__ = ["interrupted", "main"]
