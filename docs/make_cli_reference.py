"""Write docs/cli.md from the command line's own definitions: ``python docs/make_cli_reference.py``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import typer

from nabladp.cli.app import app

TARGET = Path(__file__).with_name("cli.md")
HEAD = """\
# Command line

This page is written by `docs/make_cli_reference.py` from the commands themselves; do not edit it by hand.

`nabladp --version` prints the version, and every command takes `--help`.
With `--json` a command answers with JSON on standard output, errors too.
Exit codes: 0 done; 1 refused, or something was found wrong; 2 the command line was not understood; 130 interrupted.

`nabladp ledger ledger.db` is short for `nabladp ledger show ledger.db`.
"""
WORDS = {"int": "INTEGER", "float": "NUMBER", "Path": "PATH", "str": "TEXT"}


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command with its full name, in the order of the help."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def word(command: Any, parameter: Any) -> str:
    """What kind of value a parameter takes."""
    signature = inspect.signature(command.callback, eval_str=True)
    kind = signature.parameters[parameter.name].annotation
    while get_args(kind):  # Annotated[…], list[…] and … | None hold the plain type first
        kind = get_args(kind)[0]
    return WORDS.get(kind.__name__, "TEXT")


def usage(name: str, command: Any) -> str:
    parts = [name]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parts.append(parameter.name.upper() if parameter.required else f"[{parameter.name.upper()}]")
        elif parameter.required:
            parts.append(f"{parameter.opts[0]} {word(command, parameter)}{'…' if parameter.multiple else ''}")
    return " ".join(parts) + (" [OPTIONS]" if any(p.param_type_name == "option" for p in command.params) else "")


def row(command: Any, parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{parameter.name.upper()}`"
    else:
        name = f"`{parameter.opts[0]}`" if parameter.is_flag else f"`{parameter.opts[0]} {word(command, parameter)}`"
    given = parameter.default
    default = "required" if parameter.required else "" if given in (None, "", False) else f"`{given}`"
    return f"| {name} | {parameter.help or ''} | {default} |"


def page() -> str:
    top = typer.main.get_command(app)
    lines = [HEAD]
    for name, command in commands(top, "nabladp"):
        lines += [f"## {name}\n", f"```text\n{usage(name, command)}\n```\n", f"{inspect.cleandoc(command.help)}\n"]
        rows = [row(command, parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
        lines += ["| | | default |\n|---|---|---|\n" + "\n".join(rows) + "\n"]
    return "\n".join(lines)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
