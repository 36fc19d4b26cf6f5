"""``nabladp init | check | cost | release | ledger | demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nabladp import __version__
from nabladp.cli import show
from nabladp.cli.answer import answering, err, out, print_json
from nabladp.cli.ledger import ledger_app

app = typer.Typer(
    help="Releases that say, for every set of attributes, what can be learned.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a pretty traceback shows local variables, and with them data
)
app.add_typer(ledger_app, name="ledger")

Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]
PlanFile = Annotated[Path, typer.Argument(help="The plan.toml.")]


def _version(asked: bool) -> None:
    if asked:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Releases that say, for every set of attributes, what can be learned."""


@app.command()
def init(
    source: Annotated[str, typer.Argument(help="A CSV, Parquet or JSON file.")],
    schema: Annotated[Path, typer.Option(help="Where to write the draft.")] = Path("schema.toml"),
    json: Json = False,
) -> None:
    """Draft a schema: names and kinds only. Domains are for a person to fill in."""
    with answering(json):
        from nabladp.release.curation import write_draft

        columns = write_draft(source, schema)
        if json:
            print_json({"schema": str(schema), "columns": columns})
            return
        out.print(f"Wrote {escape(str(schema))} with {columns} columns.")
        out.print("Fill in every domain marked there from public knowledge, never from the data: the largest income in")
        out.print("a table is somebody's income. Then: nabladp check SOURCE --schema schema.toml")


@app.command()
def check(
    source: Annotated[str, typer.Argument(help="A file, a glob or a DuckDB query.")],
    schema: Annotated[Path, typer.Option(help="The schema to check against.")] = Path("schema.toml"),
    json: Json = False,
) -> None:
    """Validate a table against its schema. Names column, rule and fix; never a value."""
    with answering(json):
        from nabladp.release import check_source

        with err.status("reading"):
            findings = check_source(source, schema)
        if json:
            print_json({"ok": not findings, "findings": [finding.to_json() for finding in findings]})
        for finding in findings if not json else ():
            out.print(f"[bold]{escape(finding.column)}[/]: {escape(finding.rule)} {escape(finding.fix)}")
        if findings:
            raise typer.Exit(1)
        if not json:
            out.print("The table keeps to its schema.")


@app.command()
def cost(plan: PlanFile, json: Json = False) -> None:
    """Show what a plan would cost and how large its errors would be. Spends nothing, reads nothing of the table."""
    with answering(json):
        from nabladp.release import Plan

        answer = Plan.load(plan).cost().to_json()
        if json:
            print_json(answer)
        else:
            out.print(show.privacy_table(answer))
            out.print()
            out.print(show.limits_plot(answer["limits"]))
            out.print()
            out.print(show.error_table(answer["expected_error"]))
            out.print(
                "Nothing was spent." if answer["fits"] else "[bold red]This plan does not fit. Nothing was spent.[/]"
            )
        if not answer["fits"]:
            raise typer.Exit(1)


@app.command()
def release(
    plan: PlanFile,
    to: Annotated[Path | None, typer.Option("--to", help="The folder to write; it must not exist yet.")] = None,
    test_seed: Annotated[
        int | None, typer.Option("--test-seed", help="For tests only: stamps the release TEST — NOT PRIVATE.")
    ] = None,
    json: Json = False,
) -> None:
    """Reserve the whole plan in the ledger, run it, and publish it in one new folder."""
    stopped = "What was reserved stays spent: see `nabladp ledger`, and void it there by name if nothing got out."
    with answering(json, on_interrupt=stopped):
        from nabladp.release import Plan

        loaded = Plan.load(plan)
        goal = loaded.out if to is None else to
        with err.status("starting") as status:
            done = loaded.run(goal, test_seed=test_seed, stage=lambda text: status.update(escape(text)))
        answer = [{"name": r.name, "stamp": r.stamp, "entry": r.ledger["entry"], "digest": r.digest} for r in done]
        if json:
            print_json({"folder": str(goal), "releases": answer})
            return
        if done[0].stamp:
            out.print(f"[bold white on red] {done[0].stamp} [/]")
        for body in answer:
            out.print(f"Released {escape(body['name'])} (ledger entry {body['entry']}).")
        out.print(f"Published in {escape(str(goal))}.")


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="A new folder.")] = Path("demo"),
    people: Annotated[int, typer.Option(help="How many people to make up.")] = 100_000,
    json: Json = False,
) -> None:
    """Make up a population, release from it with the very command you would use, and show how it went."""
    with answering(json):
        from nabladp.release.demo import run_demo

        answer = run_demo(folder, people, quiet=json)
        if json:
            print_json(answer)
            return
        out.print()
        out.print(show.privacy_table(answer["figures"]))
        out.print()
        out.print(show.demo_errors(answer["errors"]))
