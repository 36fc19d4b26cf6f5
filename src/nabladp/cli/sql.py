"""``nabladp sql``: a query about a plan's table, answered with noise; or, as a dry run, what it would cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nabladp.cli.answer import answering, out, print_json, printable, say, say_tables, working

if TYPE_CHECKING:
    from rich.table import Table

_ANY_WIDTH = 1 << 16  # columns of a terminal


def sql(
    plan: Annotated[Path, typer.Argument(help="The plan.toml that names table, schema, budget and ledger.")],
    query: Annotated[list[str], typer.Argument(help="The query; several share what they measure.")],
    budget: Annotated[
        list[str],
        typer.Option("--budget", help="Of every attribute: cdp=0.2, rho=0.02 or pure=0.5; name:cdp=0.1 for one."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the bill and the error to expect; spend nothing.")
    ] = False,
    quantiles: Annotated[str, typer.Option(help='How quantiles are found: "cdf" or "point".')] = "cdf",
    groups: Annotated[
        list[str] | None,
        typer.Option("--groups", help="Groups to answer, as key=one,two; all others count as OTHER."),
    ] = None,
    sampling_error: Annotated[
        bool, typer.Option("--sampling-error", help="Widen intervals for rows that are a random sample.")
    ] = False,
    one_row_per: Annotated[
        list[str] | None,
        typer.Option("--one-row-per", help="Of each person use one row for every value of this key, the first."),
    ] = None,
    within: Annotated[
        list[str] | None,
        typer.Option("--within", help="Also show what a small change costs: income=1000 for one by at most 1,000."),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print the answer as CSV.")] = False,
    to: Annotated[Path | None, typer.Option("--to", help="Also publish the release in this new folder.")] = None,
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="Create the plan's ledger, which must not exist yet.")
    ] = False,
    test_seed: Annotated[
        int | None, typer.Option("--test-seed", help="For tests only: stamps the release TEST — NOT PRIVATE.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Answer a query in SQL, with an interval for every number and a bill for every attribute."""
    stopped = "If anything was reserved it stays spent: `nabladp ledger` shows it, and how to recover or void it."
    with answering(json, afterwards="" if dry_run else stopped):
        from nabladp.release import Plan, queries

        own, budgets = queries.read_budgets(budget)
        distances = queries.read_distances(within or [])
        options: dict[str, Any] = {
            "budgets": budgets,
            "quantiles": quantiles,
            "groups": queries.read_groups(groups),
            "sampling_error": sampling_error,
            "one_row_per": one_row_per or [],
        }
        loaded = Plan.load(plan)
        if dry_run:
            if not json:
                _say_budgets(own, budgets, loaded.delta)
            _show_cost(loaded.query_cost(query, own, **options), distances, json)
            return
        if distances:  # a wrong one is refused before anything is spent
            loaded.query_cost(query, own, **options).bill.changes_within(distances)
        with working("opening the table") as stage:
            session = loaded.query_session(query, own, new_ledger, test_seed, **options)
            answers = session.sql(query, own, to=to, stage=stage, **options)
        if json:
            bill = {"bill": answers.bill.to_json(), "small_changes": answers.bill.small_changes_json(distances)}
            print_json({"answers": [answer.rows for answer in answers.answers], **bill})
        elif csv:
            for answer in answers.answers:
                out.file.write(answer.to_csv())
        else:
            say_tables(
                *(_answer_table(answer.to_arrow()) for answer in answers.answers), _bill_table(answers.bill, distances)
            )
            _say_budgets(own, budgets, loaded.delta)
            entry = answers.release.ledger["entry"]
            about = "the noise and the sampling of rows" if sampling_error else "the noise"
            say(f"The intervals are about {about}. The release is entry {entry} of the ledger.")


def _say_budgets(own: Any, named: dict[str, Any], delta: float) -> None:
    """Print the typed budgets in every measure."""
    from nabladp.cli.show import in_every_measure

    for name, value in (("each attribute", own), *named.items()):
        say(f"The budget of {printable(name)}: {in_every_measure(value, delta)}.")


def _show_cost(cost: Any, distances: dict[str, float], json: bool) -> None:
    from nabladp.cli import show

    if json:
        print_json(cost.to_json() | {"small_changes": cost.bill.small_changes_json(distances)})
    else:
        answer = cost.to_json()
        say_tables(_bill_table(cost.bill, distances), show.privacy_table(answer), show.limits_plot(answer["limits"]))
        for column in cost.expected.columns:
            if column.half_width is not None:
                say(f"{printable(column.column)}: ± {column.half_width:.4g} in a group of average size.")
        say("Nothing was spent." if cost.fits else show.excess_sentence(answer["limits"], bool(answer["any_rows"])))
    if not cost.fits:
        raise typer.Exit(1)


def _answer_table(table: Any) -> Table:
    """The terminal table of an answer; where a line is too long for the terminal, with intervals below their values."""
    from rich.measure import Measurement

    drawn = _drawn_answer(table, " ")
    needed = Measurement.get(out, out.options.update_width(_ANY_WIDTH), drawn).maximum
    return drawn if needed <= out.width else _drawn_answer(table, "\n")


def _drawn_answer(table: Any, between: str) -> Table:
    from nabladp.cli.show import most, plain_table

    names = table.column_names
    numbers = [name for name in names if f"{name}_low" in names]
    keys = [
        name for name in names if name not in numbers and name.removesuffix("_low").removesuffix("_high") not in numbers
    ]
    drawn = plain_table("", [printable(name) for name in keys], [printable(name) for name in numbers])
    rows = table.to_pylist()
    for row in rows[: most(len(rows))]:
        drawn.add_row(
            *(printable(str(row[name])) for name in keys), *(_with_interval(row, name, between) for name in numbers)
        )
    if len(rows) > most(len(rows)):
        drawn.add_row(f"… and {len(rows) - most(len(rows)):,} more (--csv prints all)")
    return drawn


def _with_interval(row: dict[str, Any], name: str, between: str) -> str:
    from nabladp.cli.show import shown_value

    value = "–" if row[name] is None else shown_value(row[name])
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return value if low is None or high is None else f"{value}{between}({shown_value(low)} to {shown_value(high)})"


def _bill_table(bill: Any, distances: dict[str, float]) -> Table:
    from nabladp.cli.show import plain_table

    sign = "ε" if bill.notion == "epsilon" else "ρ"
    rows = f", for up to {bill.rows:,} rows of a person together" if bill.rows > 1 else ""
    table = plain_table(f"cost of each attribute{rows}", ["attribute", "as", "for"], [sign])
    for line in bill.lines:
        table.add_row(printable(line.attribute), line.role, printable(", ".join(line.pays_for)), f"{line.cost:.4g}")
    for small in bill.changes_within(distances) or bill.small_changes:
        change = f"a change by at most {small.distance:,.6g}"
        table.add_row(printable(small.attribute), "", change, f"{small.cost:.4g}")
    return table
