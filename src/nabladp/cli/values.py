"""``nabladp show``: what was released, in the terminal, as CSV, as JSON or as an Excel file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nabladp.cli.answer import answering, out, print_json, printable, say, say_tables

if TYPE_CHECKING:
    from rich.table import Table

    from nabladp.release import Release
    from nabladp.release.written_questions import Answered

_MOST_TABLES = 12  # of one release
_NUMBERS = ("value", "measured", "noise_scale")


def show(
    release: Annotated[Path, typer.Argument(help="The folder of a release or of a whole plan.")],
    csv: Annotated[bool, typer.Option("--csv", help="Print the values as CSV: one line per number.")] = False,
    excel: Annotated[
        Path | None, typer.Option("--excel", help="Write the values into this new Excel file, a sheet per release.")
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="The number of rows.")] = False,
    share: Annotated[
        list[str] | None, typer.Option("--share", help="The share of rows with a value, such as sick=true.")
    ] = None,
    total: Annotated[str | None, typer.Option("--sum", help="The sum of this attribute.")] = None,
    mean: Annotated[str | None, typer.Option("--mean", help="The mean of this attribute.")] = None,
    quantile: Annotated[
        str | None, typer.Option("--quantile", help="A quantile of an attribute, such as income=0.5.")
    ] = None,
    by: Annotated[list[str] | None, typer.Option("--by", help="An answer for each value of this attribute.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Only these rows: region=north, region=north,south or age=18..65."),
    ] = None,
    difference: Annotated[str | None, typer.Option("--difference", help="Of two groups, such as female,male.")] = None,
    ratio: Annotated[str | None, typer.Option("--ratio", help="Of two groups, such as female,male.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Show the released values with their intervals, or what follows from them. Spends nothing, reads nothing but the
    release."""
    with answering(json):
        from nabladp.release import Release
        from nabladp.release.written_questions import WrittenQuestion

        loaded = Release.load(release)
        question = WrittenQuestion(count, share, total, mean, quantile, by, where, difference, ratio)
        if question.given:
            _show_answer(question.answer(loaded), csv, excel, json)
            return
        named = {loaded.name: loaded} if isinstance(loaded, Release) else dict(loaded)
        if excel is not None:
            loaded.to_excel(excel)
        if json:
            print_json({"releases": [_as_json(name, own) for name, own in named.items()]} | _file(excel))
        elif csv:
            out.file.write(loaded.to_csv())
        elif excel is not None:
            say(f"Wrote {excel}.")
        else:
            for name, own in named.items():
                _show(name, own)


# ---- free answers ----------------------------------------------------------------------------------------------------


def _show_answer(found: Answered, csv: bool, excel: Path | None, json: bool) -> None:
    """An answer in the terminal, as CSV, as JSON or as an Excel file."""
    table = found.to_arrow()
    if excel is not None:
        found.to_excel(excel)
    if json:
        facts = {"level": found.level, "note": found.note, "sources": list(found.sources), "costs": 0}
        print_json({**facts, "values": table.to_pylist()} | _file(excel))
    elif csv:
        out.file.write(found.to_csv())
    elif excel is not None:
        say(f"Wrote {excel}.")
    else:
        say_tables(_terminal_table(found.what, table))
        say(f"From {', '.join(map(printable, found.sources))}; costs nothing.")
        if found.note:
            say(printable(f"{found.note[0].upper()}{found.note[1:]}."))


def _file(excel: Path | None) -> dict[str, str]:
    return {} if excel is None else {"excel": str(excel)}


def _as_json(name: str, release: Release) -> dict[str, Any]:
    facts = {"name": name, "mechanism": release.mechanism, "rows": release.n, "stamp": release.stamp}
    return {**facts, "entry": release.ledger["entry"], "values": release.to_arrow().to_pylist()}


def _show(name: str, release: Release) -> None:
    if release.stamp:
        say(f" {release.stamp} ", "bold white on red")
    say(f"{name}: {release.mechanism} of {release.n:,} rows, ledger entry {release.ledger['entry']}", "bold")
    if release.explanation():
        say(printable(release.explanation()))
    tables = list(_tables(release.to_arrow()))
    say_tables(*(_terminal_table(title, table) for title, table in tables[:_MOST_TABLES]))
    if len(tables) > _MOST_TABLES:
        say(f"… and {len(tables) - _MOST_TABLES:,} more tables (--csv prints all)")


def _tables(values: Any) -> Iterator[tuple[str, Any]]:
    """The tables of one release, each with the columns that it uses."""
    if "table" not in values.column_names or values.column(0).null_count:
        yield "", values
        return
    column = values.column("table").combine_chunks()
    codes = column.indices.to_numpy()
    for code, title in enumerate(column.dictionary.to_pylist()):
        part = values.filter(codes == code)
        used = [name for name in part.column_names if name != "table" and part.column(name).null_count < part.num_rows]
        yield title, part.select(used)


def _terminal_table(title: str, table: Any) -> Table:
    """A terminal table: names as they are, a number with its interval in brackets."""
    from nabladp.cli.show import most, plain_table, shown_value

    heads = [name for name in table.column_names if name not in ("low", "high")]
    numbers = [name for name in _NUMBERS if name in heads]
    drawn = plain_table(printable(title), [printable(name) for name in heads if name not in numbers], numbers)
    rows = table.slice(0, most(table.num_rows)).to_pylist()
    for row in rows:
        cells = []
        for name in [*(name for name in heads if name not in numbers), *numbers]:
            text = shown_value(row[name])
            if name == "value" and row.get("low") is not None and row.get("high") is not None:
                text = f"{text} ({shown_value(row['low'])} to {shown_value(row['high'])})"
            cells.append(printable(text))
        drawn.add_row(*cells)
    if table.num_rows > len(rows):
        drawn.add_row(f"… and {table.num_rows - len(rows):,} more (--csv prints all)")
    return drawn
