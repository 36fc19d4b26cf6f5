"""``nabladp audit``: does a plan's releases keep what they claim? Reads no table, touches no ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from nabladp.cli.answer import answering, print_json, printable, say, say_tables, working

Named = list[tuple[str, Any]]
_MANY = 1000  # runs that show something
_INSTANT = 1e-3  # seconds: for a release whose turn comes too late, and whose audit says so


def audit(
    plan: Annotated[Path, typer.Argument(help="The plan.toml.")],
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="Audit this set, e.g. income+health; repeat. Default: a few sets.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long the audit of all releases may take.")] = 60,
    beta: Annotated[float, typer.Option(help="The largest probability that a true claim is refuted.")] = 0.01,
    picture: Annotated[Path | None, typer.Option(help="Draw found against claimed, as an HTML file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Check what a plan's releases claim, on tiny made-up tables. Reads no table, spends nothing."""
    with answering(json):
        from nabladp.display.plots import audit_plot
        from nabladp.release import Plan

        loaded = Plan.load(plan)
        loaded.check_releases()
        audits = _run_audits(loaded, sets, seconds, beta)
        if picture is not None:
            audit_plot(audits).save(str(picture), format="html", inline=True)  # needs no network to be looked at
        passed = all(result.passed for _, result in audits)
        if json:
            print_json({"passed": passed, "releases": {name: result.to_json() for name, result in audits}})
        else:
            for name, result in audits:
                if result.rows:
                    say_tables(_table(name, result))
                else:
                    say(f"{name} ({result.mechanism}): the loss of no set was compared with its claim.", "bold")
                _say_how(result)
            late = [name for name, result in audits if result.left_out]
            if late:
                say(f"There was no time for all of: {', '.join(late)}. Give more --seconds.", "yellow")
            if passed:
                say(f"No claim is refuted (confidence {1 - beta:g}). No table was read, nothing spent.")
            else:
                say("A claim is refuted: do not release this.", "bold red")
        if not passed:
            raise typer.Exit(1)


def _run_audits(loaded: Any, sets: list[str] | None, seconds: float, beta: float) -> Named:
    from nabladp.audit import audit as audit_mechanism
    from nabladp.audit.deadline import Deadline
    from nabladp.audit.statistical import check_options

    wanted = None if sets is None else [[part.strip() for part in text.split("+")] for text in sets]
    audits: Named = []
    check_options(beta, None, seconds)
    parts = Deadline.after(seconds).parts([1] * len(loaded.releases))
    for (name, mechanism), part in zip(loaded.releases, parts, strict=True):
        with working(f"auditing {name}") as tell:

            def report(what: str, done: int, total: int, tell: Any = tell, name: str = name) -> None:
                tell(f"auditing {name}: {what}", done, total)

            left = max(part.left, _INSTANT)
            options = {"rows_per_person": loaded.rows_per_person, "beta": beta, "progress": report}
            result = audit_mechanism(mechanism, loaded.schema, sets=wanted, seconds=left, **options)
        audits.append((name, result))
    return audits


def _table(name: str, result: Any) -> Table:
    from nabladp.cli.show import plain_table

    texts, numbers = ["set"], ["claimed", "exact/claimed", "at least", "runs", "verdict"]
    table = plain_table(f"{printable(name)} ({result.mechanism})", texts, numbers)
    for row in result.rows:
        exact = "" if row.exact is None else f"{row.exact.tightness:.3g}"
        lower = "" if row.lower is None else f"{row.lower:.3g}"
        runs = "" if row.statistical is None else f"{row.statistical.runs:,}"
        verdict = Text(row.verdict, "bold red" if row.refuted else "green")
        claimed = f"{'ε' if row.pure else 'ρ'} {row.claimed:.4g}"
        table.add_row(printable(" + ".join(row.attributes)), claimed, exact, lower, runs, verdict)
    return table


def _say_how(result: Any) -> None:
    if result.exact is None:
        say(f"No exact audit: {result.exact_note}.")
    else:
        say(f"Exact: {result.exact.tables_compared:,} pairs of tables, every set of attributes.")
    say(result.describe_law(), "bold red" if result.law is not None and result.law.refuted else "")
    say(result.describe_tape(), "bold red" if result.tape is not None and result.tape.refuted else "")
    runs = [row.statistical.runs for row in result.rows if row.statistical is not None and row.statistical.runs]
    if runs and min(runs) < _MANY:
        say(f"In this time a set got no more than {min(runs):,} runs, which show little: give more --seconds.")
    if result.left_out:
        say(f"Left out, for want of time: {'; '.join(result.left_out)}.", "yellow")
