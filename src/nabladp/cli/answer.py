"""How commands answer and fail: text for people, one JSON object with ``--json``, never a traceback with values.

The consoles read no markup and no emoji codes, so a name such as "[red]" is shown as it is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nabladp.errors import NablaDPError, attached_facts, is_interrupt

if TYPE_CHECKING:
    from nabladp.release import Release
    from nabladp.release.publish import Published

out = Console(highlight=False, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False)
Tell = Callable[[str, int, int], None]


def printable(text: str) -> str:
    """A command's text with control characters, which could move the cursor or colour the terminal, as escapes."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _wrap(console: Console, text: str, indent: int = 0) -> str:
    """Wrap a terminal line by words; a long one, such as a path, is left whole, to be copied."""
    lines = wrap(printable(text), console.width - indent, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(lines)


def say(text: str, style: str = "") -> None:
    """Print a line for people."""
    out.print(Text(_wrap(out, text), style), soft_wrap=True)


def say_command(text: str) -> None:
    """Print a line to be copied: never broken."""
    out.print(Text(f"  {printable(text)}"), soft_wrap=True)


def say_tables(*tables: Table) -> None:
    """Print tables, each followed by an empty line."""
    for table in tables:
        out.print(table)
        out.print()


def print_json(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer, indent=1, default=str, allow_nan=False) + "\n")
    sys.stdout.flush()  # so that a full disk is noticed here


@contextmanager
def working(text: str) -> Iterator[Tell]:
    """Show a spinner on stderr, with a bar while it is known how much there is to do; silent where nobody watches."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(24),
        TextColumn("{task.fields[share]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(text, total=None, share="")
        bar = progress.tasks[0]

        def tell(what: str, done: int = 0, total: int = 0) -> None:
            """Update the spinner: ``what`` is shown before the figures, so its last word is their unit: "round", then
            "3 of 40"."""
            share = f"{done:,} of {total:,}" if total else ""
            bar.total, bar.finished_time = total or None, None  # an update alone takes no total back, nor restarts
            progress.update(task, description=printable(what), completed=done, share=share)

        yield tell


@contextmanager
def answering(as_json: bool, afterwards: str = "") -> Iterator[None]:
    """Turn a command's errors into a clear message and a non-zero exit.

    ``afterwards`` says how things stand when a command was stopped at a point that it cannot name.
    """
    try:
        yield
    except typer.Exit:
        raise
    except NablaDPError as error:
        _fail(error.to_json(), as_json, 1)
    except KeyboardInterrupt as error:
        _fail({"error": "Interrupted", "message": "Interrupted.", **_ledger_facts(error, afterwards)}, as_json, 130)
    except BrokenPipeError:  # nobody reads on: what is left to print goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if is_interrupt(error):
            _fail({"error": "Interrupted", "message": "Interrupted.", **_ledger_facts(error, afterwards)}, as_json, 130)
        if os.environ.get("NABLADP_DEBUG") == "1":
            raise
        _fail(_unexpected_error(error, afterwards), as_json, 1)


def _unexpected_error(error: Exception, afterwards: str) -> dict[str, Any]:
    """A foreign error as a command's message: its text may hold a data value, so only its type is shown, or the
    system's own words."""
    if isinstance(error, OSError) and error.errno is not None:
        message = f"The system refused: {os.strerror(error.errno)}."
    else:
        message = f"Something unexpected went wrong ({type(error).__name__})."
    left = _ledger_facts(error, afterwards)
    fix = f"{left['fix']} Set NABLADP_DEBUG=1 to see the details; they may show data."
    return {"error": "Unexpected", "message": message, **left, "fix": fix.strip()}


def _ledger_facts(error: BaseException, afterwards: str) -> dict[str, Any]:
    """How the ledger's entries stand after a command failed, where the session knows it; otherwise the words of the
    command."""
    facts = attached_facts(error)
    return {"fix": "", **facts} if facts else {"fix": afterwards}


def _fail(body: dict[str, Any], as_json: bool, code: int) -> NoReturn:
    with suppress(OSError):  # stdout itself may be what failed
        if as_json:
            print_json(body)
            sys.exit(code)
        _complain("error:", body["message"], "bold red")
        if body["fix"]:
            _complain("fix:  ", body["fix"])
        if body.get("note"):
            _complain("note: ", body["note"])
        for command in body.get("commands", ()):  # to be copied: never broken
            err.print(Text(f"  {printable(command)}"), soft_wrap=True)
    sys.exit(code)


def _complain(label: str, text: str, style: str = "bold") -> None:
    err.print(Text.assemble((label, style), " ", _wrap(err, text, indent=len(label) + 1)), soft_wrap=True)


# ---- of a release that was just published ---------------------------------------------------------------------------


def say_published(releases: Sequence[Release], folder: Path) -> None:
    """Tell which releases are published, before the report is written: they are public already."""
    if releases[0].stamp:
        say(f" {releases[0].stamp} ", "bold white on red")
    for release in releases:
        say(f"Released {release.name} (ledger entry {release.ledger['entry']}).")
    say(f"Published in {folder}.")


def say_report(published: Published, folder: Path) -> None:
    """Tell where the report is, or why there is none."""
    if published.problem is not None:
        say(str(published.problem), "yellow")
    else:
        say(f"Its report: {report_path(published, folder)}")


def report_json(published: Published, folder: Path) -> dict[str, Any]:
    problem = published.problem
    return {"report": report_path(published, folder)} | ({} if problem is None else {"problem": problem.to_json()})


def report_path(published: Published, folder: Path) -> str | None:
    """The report's path in the folder as the user named it."""
    return None if published.report is None else str(folder / published.report.name)
