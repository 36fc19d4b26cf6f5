"""The command line: thin. Every command is a few calls into ``nabladp.release`` and a way to show the answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from nabladp.cli.app import run

        code = run(given)
    except KeyboardInterrupt:  # before any command began
        code = 130
    sys.exit(code)


__all__ = ["main"]
