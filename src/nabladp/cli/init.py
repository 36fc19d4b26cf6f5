"""``nabladp init``: the first drafts of a schema and a plan."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nabladp.cli.answer import answering, print_json, printable, say, say_command, working

if TYPE_CHECKING:
    from nabladp.release.drafts import Drafted

_ASK = "A column has a number or a date for its name. Does the first line hold names? (If not, it is somebody's row.)"
_MOST_NAMED = 12


def init(
    source: Annotated[str, typer.Argument(help="A CSV, Parquet or JSON file, a glob or a DuckDB query.")],
    schema: Annotated[Path, typer.Option(help="Where to write the draft of the schema.")] = Path("schema.toml"),
    plan: Annotated[
        Path | None, typer.Option(help="Where to write the draft of a plan (default: plan.toml beside the schema).")
    ] = None,
    codebook: Annotated[
        Path | None, typer.Option(help="Public documentation of the columns: domains and labels are taken from it.")
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first line of a CSV file holds names."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Draft a schema and a plan: names and kinds from the table, domains and labels from a code book. Copies no value;
    marks what a person must fill in."""
    with answering(json):
        from nabladp.release.drafts import doubtful_header, draft_files, write_new

        goal = schema.with_name("plan.toml") if plan is None else plan
        with_plan = plan is not None or not goal.exists()
        if header is None and not json and sys.stdin.isatty() and doubtful_header(source):
            header = typer.confirm(_ASK)
        with working("looking at the columns"):
            drafts = draft_files(source, schema, goal, codebook, header)
        write_new(schema, drafts.schema, "--schema")
        if with_plan:
            write_new(goal, drafts.plan, "--plan")
        if json:
            written = {"schema": str(schema), "plan": str(goal) if with_plan else None, "columns": drafts.columns}
            print_json({**written, "to_fill_in": drafts.to_fill_in, "to_confirm": drafts.to_confirm})
            return
        say(f"Wrote {schema} with {drafts.columns} {'column' if drafts.columns == 1 else 'columns'}.")
        say(f"Wrote {goal}, a first plan." if with_plan else f"{goal} exists already: no plan was drafted.")
        _say_what_is_open(drafts)
        if with_plan:
            say_command(f"nabladp check {shlex.quote(str(goal))}")
            say_command(f"nabladp cost {shlex.quote(str(goal))}")
        else:
            say_command(f"nabladp check {shlex.quote(source)} --schema {shlex.quote(str(schema))}")


def _say_what_is_open(drafts: Drafted) -> None:
    if drafts.to_fill_in:
        say(
            f"Fill in from public knowledge: {_join_names(drafts.to_fill_in)}. Never read a domain off the data: the "
            "largest income in a table is somebody's income."
        )
    if drafts.to_confirm:
        say(f"Confirm, as the code book may describe the data themselves: {_join_names(drafts.to_confirm)}.")
    say("Then:" if drafts.to_fill_in or drafts.to_confirm else "Next:")


def _join_names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(printable(name) for name in names[:_MOST_NAMED]) + more
