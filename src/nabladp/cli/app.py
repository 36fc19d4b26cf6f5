"""``nabladp init | check | cost | release | sql | show | report | verify | compare | evaluate | audit | …``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nabladp import __version__
from nabladp.cli import audit as audit_command
from nabladp.cli.answer import (
    answering,
    out,
    print_json,
    printable,
    report_json,
    say,
    say_command,
    say_published,
    say_report,
    say_tables,
    working,
)
from nabladp.cli.dropped import dropped
from nabladp.cli.evaluate import evaluate
from nabladp.cli.init import init
from nabladp.cli.ledger import ledger_app
from nabladp.cli.site import site
from nabladp.cli.sql import sql
from nabladp.cli.studio import studio
from nabladp.cli.values import show as show_values
from nabladp.cli.verify import verify
from nabladp.errors import SourceError

if TYPE_CHECKING:
    from rich.table import Table


# ---- ``nabladp report`` and ``nabladp compare``: pages about a published folder, also on paper and as pictures -------


def report(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a release or of a whole plan; or a guarantee kept as JSON.")
    ],
    to: Annotated[Path | None, typer.Option("--to", help="Where to write it (default: into the folder).")] = None,
    pdf: Annotated[Path | None, typer.Option(help="Also write the whole report as PDF; needs Chromium.")] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Also write the certificate, with its annexes, as PDF.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Also write a picture of each chart into this folder.")] = None,
    paper: Annotated[str, typer.Option(help="The paper size of PDFs: A4 or Letter.")] = "A4",
    title: Annotated[
        str | None, typer.Option(help="Its title (default: the stored one, or the name of the folder).")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Its language, en or de (default: the stored one, or en).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Write the report of a published folder, or of a guarantee alone: one HTML file that needs no network."""
    with answering(json):
        from nabladp.report import write

        with working("reading the release") as tell:
            page = write(folder, to, title, stage=tell, language=language)
        written = {"report": str(page), **_render_files(page, pdf, certificate, png, paper)}
        if json:
            print_json(written)
            return
        for name in (written["report"], *(written[key] for key in ("pdf", "certificate") if written[key])):
            say(f"Wrote {name}.")
        if png is not None:
            say(f"Wrote {len(written['png']):,} pictures into {png}.")


def _render_files(
    page: Path, pdf: Path | None, certificate: Path | None, png: Path | None, paper: str
) -> dict[str, Any]:
    from nabladp.report import rendering

    files: dict[str, Any] = {"pdf": None, "certificate": None, "png": []}
    if pdf is None and certificate is None and png is None:
        return files
    rendering.find_browser()  # refuses before it is waited for
    with working("drawing") as tell:
        for key, path in (("pdf", pdf), ("certificate", certificate)):
            if path is not None:
                tell(f"drawing the {key}", 0, 0)
                rendering.write_pdf(page, path, certificate=key == "certificate", paper=paper)
                files[key] = str(path)
        if png is not None:
            tell("drawing charts", 0, 0)
            files["png"] = [str(chart) for chart in rendering.write_charts(page, png)]
    return files


# ---- compare --------------------------------------------------------------------------------------------------------


def compare(
    folder: Annotated[Path, typer.Argument(help="The folder of a release, or of a whole plan.")],
    source: Annotated[str, typer.Argument(help="The table it was made from: a file, a glob or a DuckDB query.")],
    to: Annotated[Path, typer.Option("--to", help="A new HTML file outside of any published folder.")],
    language: Annotated[
        str | None, typer.Option(help="The page's language, en or de (default: the release's).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Compare a release with the table itself. For the owner only: the page contains unprotected statistics."""
    with answering(json):
        from nabladp.release.comparison import NOTICE, comparison_path
        from nabladp.release.comparison import compare as compare_releases
        from nabladp.report import ledger_order
        from nabladp.report.owner_pages import write_comparison

        comparison_path(folder, to)  # refuses before anything is read
        with working("comparing with the table"):
            comparisons = sorted(compare_releases(folder, source), key=lambda part: ledger_order(part.release))
            page = write_comparison(comparisons, folder, to, spoken=language)
        parts = [part.to_json() for part in comparisons]
        if json:
            print_json({"notice": NOTICE, "file": str(page), "releases": parts})
            return
        say(f" {NOTICE.upper()} ", "bold white on red")
        say_tables(*(_error_table(part) for part in parts))
        say(f"Wrote {page}. Never publish it: it holds exact counts, and only you can read it.")


def _error_table(part: dict[str, Any]) -> Table:
    from nabladp.cli.show import most, plain_table

    heads = ["values", "predicted", "actual", "truth in its interval"]
    table = plain_table(f"{printable(part['name'])}: mean error, predicted and actual", ["table"], heads)
    shown = most(len(part["tables"]))
    for line in part["tables"][:shown]:
        numbers = [_format_error(line[name], line["measure"]) for name in ("predicted", "actual")]
        covered = "–" if line["covered"] is None else f"{line['covered']:.1%}"
        table.add_row(printable(line["table"]), f"{line['cells']:,}", *numbers, covered)
        if line["summary"]:
            table.add_row(f"  {printable(line['summary'])}")
    if len(part["tables"]) > shown:
        table.add_row(f"… and {len(part['tables']) - shown:,} more (see the page)")
    return table


def _format_error(value: float | None, measure: str) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.4g}%" if measure == "share" else f"{value:.4g}"


# ---- commands --------------------------------------------------------------------------------------------------------

app = typer.Typer(
    help="Differentially private releases with a guarantee for every set of attributes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a pretty traceback shows local variables, and with them data
)
app.add_typer(ledger_app, name="ledger")

Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]
PlanFile = Annotated[Path, typer.Argument(help="The plan.toml.")]


def run(arguments: list[str]) -> int:
    """Run the command line; returns the exit code. With ``--json`` a wrong use of the command line, too, is answered in
    JSON."""
    if "--json" not in arguments:
        app(arguments, prog_name="nabladp")  # exits by itself
    try:
        code = app(arguments, prog_name="nabladp", standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's own errors have it; others are wanted with NABLADP_DEBUG
            raise
        message = " ".join(error.format_message().split())
        print_json({"error": "UsageError", "message": message, "fix": "See `nabladp --help`."})
        return 2
    return code if isinstance(code, int) else 0


def _version(requested: bool) -> None:
    if requested:
        say(__version__)
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Differentially private releases with a guarantee for every set of attributes."""


app.command()(init)


@app.command()
def check(
    source: Annotated[str, typer.Argument(help="A plan.toml; or a file, a glob or a DuckDB query.")],
    schema: Annotated[Path, typer.Option(help="The schema to check against; a plan names its own.")] = Path(
        "schema.toml"
    ),
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Also show some values that break a rule; on a terminal only.")
    ] = False,
    json: Json = False,
) -> None:
    """Validate a table against its schema. Names column, rule, number of rows and fix; a value only if asked to. For
    the owner of the table alone: what it says is about the exact data."""
    with answering(json):
        from nabladp.cli import show
        from nabladp.release import Plan
        from nabladp.release.curator_tasks import check_opened, open_for_check, values_at_fault

        if show_values and (json or not out.is_terminal):
            raise SourceError("Values of the table are shown on a terminal only.", fix="Leave out --show-values.")
        with working("checking every row"):
            is_plan = source.lower().endswith(".toml")
            table = Plan.load(source).open_table() if is_plan else open_for_check(source, schema)
            listed = check_opened(table)
            values = values_at_fault(table, listed) if show_values else {}
        findings = [finding.to_json() for finding in listed]
        if json:
            print_json({"ok": not findings, "findings": findings})
        elif findings:
            say_tables(show.findings_table(findings))
            for name, some in values.items():
                if some:
                    say(f"{printable(name)}: {'; '.join(printable(value) for value in some)}")
            if not show_values and out.is_terminal:
                say("Add --show-values to see, on this terminal only, which values these are.")
        else:
            say("The table matches its schema.")
        if findings:
            raise typer.Exit(1)


@app.command()
def cost(
    plan: PlanFile,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="Explain this set, e.g. income+health; repeat.")
    ] = None,
    worst: Annotated[int | None, typer.Option(help="Find the costliest set of this many attributes.")] = None,
    prior: Annotated[float, typer.Option(help="The adversary's prior belief, for --set.")] = 0.5,
    page: Annotated[Path | None, typer.Option(help="Also write a page with sliders over budgets.")] = None,
    language: Annotated[str | None, typer.Option(help="The page's language, en or de (default: the plan's).")] = None,
    json: Json = False,
) -> None:
    """Show what a plan would cost and how large its errors would be. Spends nothing, reads nothing of the table."""
    with answering(json):
        from nabladp.cli import show
        from nabladp.release import Plan

        with working("computing the cost"):
            loaded = Plan.load(plan)
            priced, recorded = loaded.cost(), loaded.has_ledger()
            answer = priced.to_json() | priced.explain_sets(sets or [], worst, prior) | {"ledger_exists": recorded}
            answer["budgets"] = loaded.typed_budgets()
        if page is not None:
            from nabladp.report.owner_pages import write_cost_page

            with working("computing the cost at other budgets") as tell:
                answer["page"] = str(
                    write_cost_page(loaded, page, loaded.imprint.title or plan.stem, tell, spoken=language)
                )
        if json:
            print_json(answer)
        else:
            errors = show.error_tables(answer["expected_error"])
            budgets = show.budgets_table(answer["budgets"], answer["delta"])
            say_tables(show.privacy_table(answer), budgets, show.limits_plot(answer["limits"]), *errors)
            for explained in answer.get("sets", []):
                say_tables(show.explanation(explained))
            if "worst" in answer:
                say(show.worst_sentence(answer["worst"]))
            for sentence in answer["verdict"]:
                say(sentence)
            if page is not None:
                say(f"Wrote {page}.")
            if answer["any_rows"]:
                say(show.any_rows_sentence(answer["any_rows"]))
            if not recorded:
                say("There is no ledger yet, so these figures assume that nothing was spent before.", "yellow")
            if answer["fits"]:
                say("Nothing was spent.")
            else:
                say(show.excess_sentence(answer["limits"], bool(answer["any_rows"])), "bold red")
                if priced.largest is not None:
                    say(priced.largest.sentence)
        if not answer["fits"]:
            raise typer.Exit(1)


@app.command()
def release(
    plan: PlanFile,
    to: Annotated[Path | None, typer.Option("--to", help="The folder to write; it must not exist yet.")] = None,
    test_seed: Annotated[
        int | None, typer.Option("--test-seed", help="For tests only: stamps the release TEST — NOT PRIVATE.")
    ] = None,
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="Create the plan's ledger, which must not exist yet.")
    ] = False,
    json: Json = False,
) -> None:
    """Reserve the whole plan in the ledger, run it, and publish it in one new folder."""
    stopped = "If anything was reserved it stays spent: `nabladp ledger` shows it, and how to recover or void it."
    with answering(json, afterwards=stopped):
        from nabladp.release import Plan

        loaded = Plan.load(plan)
        goal = loaded.out if to is None else to
        with working("opening the table") as stage:
            done = loaded.publish(
                goal,
                test_seed=test_seed,
                stage=stage,
                announce=lambda releases, _: None if json else say_published(releases, goal),
                new_ledger=new_ledger,
            )
        if json:
            listed = [
                {"name": own.name, "stamp": own.stamp, "entry": own.ledger["entry"], "digest": own.digest}
                for own in done.releases
            ]
            print_json({"folder": str(goal), "releases": listed, **report_json(done, goal)})
            return
        say_report(done, goal)
        if "://" not in loaded.ledger:  # an address may hold a password
            say("Remaining budget:")
            say_command(f"nabladp ledger {shlex.quote(loaded.ledger)}")


app.command("show")(show_values)
app.command()(report)
app.command()(verify)
app.command()(compare)
app.command()(evaluate)
app.command()(site)
app.command()(audit_command.audit)
app.command()(sql)
app.command()(dropped)
app.command()(studio)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="A new folder.")] = Path("demo"),
    people: Annotated[int, typer.Option(help="How many people to make up.")] = 100_000,
    json: Json = False,
) -> None:
    """Make up a population, release from it with the very command you would use, and show how it went."""
    with answering(json):
        from nabladp.cli import show
        from nabladp.release import demo as show_case

        with working(f"making up {people:,} people"):
            show_case.write_inputs(folder, people)
        if not json:
            say(f"Made up {people:,} people in {folder / show_case.PEOPLE}.")
            say(f"$ cd {shlex.quote(str(folder))}")
            say(f"$ nabladp release {show_case.PLAN_FILE} --new-ledger")
        show_case.release(folder, quiet=json)
        with working("comparing with the true values, as the population is made up"):
            answer = show_case.compare(folder)
        if json:
            print_json(answer)
            return
        out.print()
        say_tables(show.privacy_table(answer["figures"]), show.demo_errors(answer["errors"]))
