"""``nabladp compare``: a release beside the truth, for the table's owner only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from nabladp.cli.answer import answering, print_json, printable, say, say_tables, working


def compare(
    folder: Annotated[Path, typer.Argument(help="The folder of a release, or of a whole plan.")],
    source: Annotated[str, typer.Argument(help="The table it was made from: a file, a glob or a DuckDB query.")],
    to: Annotated[Path, typer.Option("--to", help="A new HTML file outside of any published folder.")],
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Compare a release with the table itself. For the owner only: the page contains unprotected statistics."""
    with answering(json):
        from nabladp.release.comparison import NOTICE, comparison_path
        from nabladp.release.comparison import compare as compared
        from nabladp.report import place
        from nabladp.report.comparison import write_comparison

        comparison_path(folder, to)  # refuses before anything is read
        with working("comparing with the table"):
            found = sorted(compared(folder, source), key=lambda part: place(part.release))
            page = write_comparison(found, folder, to)
        parts = [part.to_json() for part in found]
        if json:
            print_json({"notice": NOTICE, "file": str(page), "releases": parts})
            return
        say(f" {NOTICE.upper()} ", "bold white on red")
        say_tables(*(_errors(part) for part in parts))
        say(f"Wrote {page}. Never publish it: it holds exact counts, and only you can read it.")


def _errors(part: dict[str, Any]) -> Table:
    from nabladp.cli.show import most, plain_table

    heads = ["values", "predicted", "actual", "truth in its interval"]
    table = plain_table(f"{printable(part['name'])}: mean error, predicted and actual", ["table"], heads)
    shown = most(len(part["tables"]))
    for line in part["tables"][:shown]:
        numbers = [_worded(line[name], line["measure"]) for name in ("predicted", "actual")]
        covered = "–" if line["covered"] is None else f"{line['covered']:.1%}"
        table.add_row(printable(line["table"]), f"{line['cells']:,}", *numbers, covered)
        if line["summary"]:
            table.add_row(f"  {printable(line['summary'])}")
    if len(part["tables"]) > shown:
        table.add_row(f"… and {len(part['tables']) - shown:,} more (see the page)")
    return table


def _worded(value: float | None, measure: str) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.4g}%" if measure == "share" else f"{value:.4g}"
