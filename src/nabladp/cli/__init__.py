"""The command line: thin. Every command is a few calls into ``nabladp.release`` and a way to show the answer."""

from __future__ import annotations


def main() -> None:
    from nabladp.cli.app import app

    app(prog_name="nabladp")


__all__ = ["main"]
