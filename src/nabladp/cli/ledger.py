"""``nabladp ledger``: what was spent, what is unfinished, and the few things a curator may do about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nabladp.cli.answer import (
    answering,
    print_json,
    printable,
    report_json,
    say,
    say_command,
    say_report,
    say_tables,
    working,
)


class ShowByDefault(TyperGroup):
    """``nabladp ledger ledger.db`` means ``nabladp ledger show ledger.db``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


ledger_app = typer.Typer(
    cls=ShowByDefault, help="What was spent, on which attributes, by which release.", pretty_exceptions_enable=False
)
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]
Where = Annotated[str, typer.Argument(help="The ledger: a file, or a database address.")]
Name = Annotated[str, typer.Argument(help="The name of the release, as `nabladp ledger` shows it.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it stays on record.")]


@ledger_app.command("show")
def show_ledger(
    ledger: Where = "ledger.db",
    last: Annotated[int, typer.Option(help="How many entries to list.")] = 20,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="Also show what was spent on this set; repeat.")
    ] = None,
    delta: Annotated[float, typer.Option(help="The δ at which ε is shown.")] = 1e-6,
    json: Json = False,
) -> None:
    """Limits, what is spent and left, the last entries, and what is unfinished."""
    with answering(json):
        from nabladp.cli import show
        from nabladp.release import Ledger
        from nabladp.release.curator_tasks import spent_on
        from nabladp.release.verdict import left_in_every_measure

        with working("reading the ledger"), Ledger.read(ledger) as book:
            label, person = book.label, book.person
            answer: dict[str, Any] = {
                "ledger": book.id,
                "test": book.test,
                "person": None if book.person is None else book.person.unit,
                "head": {"entry": book.head.seq, "hash": book.head.hash},
                "limits": [line.to_json() for line in book.spent()],
                "unfinished": [{"entry": e.seq, "name": e.name, **e.details} for e in book.unfinished()],
                "failed": [{"entry": e.seq, "name": e.name, "reason": e.reason} for e in book.failed()],
                "entries": [entry.to_json() for entry in book.entries(last=last)],
                "sets": spent_on(book, sets or [], delta),
            }
        answer["left"] = left_in_every_measure(answer["limits"], delta)
        if json:
            print_json(answer)
            return
        if answer["test"]:
            say(" TEST — NOT PRIVATE ", "bold white on red")
        entries = show.entries_table(answer["entries"], {u["entry"] for u in answer["unfinished"]})
        explanations = [show.explanation(facts) for facts in answer["sets"]]
        left = show.budgets_table(answer["left"], delta, "Left, in every measure")
        say_tables(show.spending_table(answer["limits"]), left, *explanations, entries)
        say(f"A person: {printable('not on record' if person is None else str(person))}.")
        _say_unfinished(answer["unfinished"], shlex.quote(label))
        _say_failed(answer["failed"], shlex.quote(label))
        say(f"Head: entry {answer['head']['entry']}, {answer['head']['hash']}")


def _say_limits(plan: Any) -> None:
    """The limits of a plan, whichever measure they are typed in, in every measure."""
    from nabladp.cli import show
    from nabladp.release.verdict import limits_in_every_measure

    say_tables(show.budgets_table(limits_in_every_measure(plan.budget, plan.delta), plan.delta, "Limits"))


def _say_unfinished(unfinished: Iterable[Mapping[str, Any]], ledger: str) -> None:
    """Print unfinished reservations; those of one plan share a folder, from which all of them are recovered at once."""
    folders: set[str] = set()
    for entry in unfinished:
        say(f"Unfinished: {entry['name']}. It was reserved but not released, and stays spent.", "yellow")
        folder = entry.get("folder")
        if folder is not None and folder not in folders:
            say("Still running, or interrupted. If it is not running, publish it, or remove what is not complete:")
            say_command(f"nabladp ledger recover {ledger} {shlex.quote(folder)}")
            folders.add(folder)
        say("If nothing was published, void it:")
        say_command(f"nabladp ledger void {ledger} {shlex.quote(entry['name'])} --reason '…'")


def _say_failed(failed: Iterable[Mapping[str, Any]], ledger: str) -> None:
    for entry in failed:
        say(f"Failed: {entry['name']}. {entry['reason']} It still counts; a grantor can void it:", "yellow")
        say_command(f"nabladp ledger void {ledger} {shlex.quote(entry['name'])} --reason '…'")


@ledger_app.command("create")
def create_ledger(
    plan: Annotated[Path, typer.Argument(help="The plan whose schema and budget it gets.")],
    test: Annotated[bool, typer.Option("--test", help="For seeded releases only: TEST — NOT PRIVATE.")] = False,
    json: Json = False,
) -> None:
    """Create the ledger that this plan names. One ledger serves one population, for all its tables and plans."""
    with answering(json):
        from nabladp.release import Plan

        loaded = Plan.load(plan)
        with loaded.create_ledger(test=test) as book:
            head, label = book.head, book.label
        if json:
            print_json({"ledger": book.id, "test": test, "head": {"entry": head.seq, "hash": head.hash}})
        else:
            say(f"Created the {'test ' if test else ''}ledger {label}.")
            _say_limits(loaded)


@ledger_app.command()
def verify(
    ledger: Where = "ledger.db",
    release: Annotated[
        Path | None, typer.Option(help="Also check that this published folder is what was bound.")
    ] = None,
    json: Json = False,
) -> None:
    """Walk all entries; report each that was changed, is missing or breaks a rule, and rights beyond the roles."""
    with answering(json):
        from nabladp.release import Ledger
        from nabladp.release.publish import check_published

        with working("checking the hash chain"), Ledger.read(ledger) as book:
            problems, head = [problem.to_json() for problem in book.verify()], book.head
            checked = [] if release is None else [own.name for own in check_published(release, book)]
        if json:
            print_json({"ok": not problems, "problems": problems, "head": head.hash, "releases": checked})
        for name in checked if not json else ():
            say(f"{name} is the release that was bound.")
        for problem in problems if not json else ():
            say(f"broken: {problem['text']}", "bold red")
        if problems:
            raise typer.Exit(1)
        if not json:
            say(f"The chain holds: {head.seq} {'entry' if head.seq == 1 else 'entries'}, head")
            say_command(head.hash)


@ledger_app.command()
def void(ledger: Where, name: Name, reason: Reason, json: Json = False) -> None:
    """Take away the cost of a reservation that never became a release. On PostgreSQL this takes a grantor."""
    with answering(json):
        from nabladp.release.curator_tasks import open_existing

        with open_existing(ledger) as book:
            entry = book.void(name, reason)
        print_json(entry.to_json()) if json else say(f"Voided {name} (entry {entry.seq}).")


@ledger_app.command("recover")
def recover_release(
    ledger: Where,
    folder: Annotated[
        Path | None,
        typer.Argument(help="The hidden folder; by default all of this ledger's, here and beside the ledger."),
    ] = None,
    json: Json = False,
) -> None:
    """Clean up after a crash: publish a release that was complete, remove what was not."""
    with answering(json):
        from nabladp.release import leftovers
        from nabladp.release.curator_tasks import open_existing

        with open_existing(ledger) as book, working("checking the release") as stage:
            beside = () if "://" in ledger else (Path(ledger).parent,)
            hidden = leftovers.find(book, (".", *beside)) if folder is None else [folder]
            tell = None if json else lambda _, goal: say(f"Published in {goal}.")
            published, removed = leftovers.clean_up(hidden, book, stage, tell or (lambda *_: None))
            waiting = [entry.name for entry in book.unfinished() if entry.details.get("folder") in removed]
            label = shlex.quote(book.label)
        if json:
            if folder is not None and published:
                print_json({"folder": str(published[0].folder), **report_json(published[0], published[0].folder)})
            else:
                listed = [{"folder": str(done.folder), **report_json(done, done.folder)} for done in published]
                print_json({"published": listed, "removed": removed, "unfinished": waiting})
            return
        for done in published:
            say_report(done, done.folder)
        for name in removed:
            say(f"Removed {name}: its release was not complete.")
        for name in waiting:
            say(f"{name} stays spent. If nobody has seen any output of it, void it:", "yellow")
            say_command(f"nabladp ledger void {label} {shlex.quote(name)} --reason '…'")
        if not published and not removed:
            say("There is no unfinished release.")


@ledger_app.command("change-budget")
def change_budget(
    plan: Annotated[Path, typer.Argument(help="The plan with the new budget.")], reason: Reason, json: Json = False
) -> None:
    """Put the budget of this plan in force, on record."""
    with answering(json):
        from nabladp.release import Plan

        loaded = Plan.load(plan)
        entry = loaded.change_budget(reason)
        if json:
            print_json(entry.to_json())
        else:
            say(f"The budget is in force (entry {entry.seq}).")
            _say_limits(loaded)


@ledger_app.command()
def migrate(ledger: Where, json: Json = False) -> None:
    """Bring a ledger of an older format up to date, on record. What is booked stays as it is."""
    with answering(json):
        from nabladp.release import Ledger

        with working("bringing the ledger up to date"):
            before = Ledger.migrate(ledger)
        with Ledger.read(ledger) as book:
            now, label = book.format, book.label
        if json:
            print_json({"from": before, "format": now})
        else:
            say(f"{label} has format {now}" + (" already." if before == now else f"; it had format {before}."))


@ledger_app.command()
def roles(
    grantors: Annotated[
        list[str] | None,
        typer.Option("--grantor", help="May change the budget, record external releases, void; repeat."),
    ] = None,
    curators: Annotated[
        list[str] | None, typer.Option("--curator", help="May reserve, bind and record failures; repeat.")
    ] = None,
    auditors: Annotated[list[str] | None, typer.Option("--auditor", help="May read; repeat.")] = None,
    schema: Annotated[str, typer.Option(help="The schema of the database that holds the ledger.")] = "public",
    json: Json = False,
) -> None:
    """Print the SQL that gives these PostgreSQL users their rights, for the owner of the ledger to run with psql."""
    with answering(json):
        from nabladp.release import Ledger

        statements = Ledger.role_statements(curators or (), auditors or (), grantors or (), schema=schema)
        print_json({"statements": statements}) if json else typer.echo("\n".join(statements))


@ledger_app.command("record-external")
def record_external(
    ledger: Where,
    name: Name,
    who: Annotated[str, typer.Option(help="Who made the release.")],
    attributes: Annotated[list[str], typer.Option("--attribute", help="An attribute it read; repeat for more.")],
    pure: Annotated[
        float | None, typer.Option(help="Its pure ε for replacing a row: twice the ε for adding or removing one.")
    ] = None,
    rho: Annotated[
        float | None, typer.Option(help="Its ρ for replacing a row: up to 4 times the ρ for adding or removing one.")
    ] = None,
    cdp: Annotated[float | None, typer.Option(help="Its ε0 for replacing a row (ρ = ε0²/2).")] = None,
    note: Annotated[str, typer.Option(help="A note for the record.")] = "",
    json: Json = False,
) -> None:
    """Book a release that someone else made from the same people."""
    with answering(json):
        from nabladp.cli import show
        from nabladp.release.curator_tasks import book_external, external_cost

        cost = external_cost(pure, rho, cdp)
        entry = book_external(ledger, name, who, attributes, cost, note)
        if json:
            print_json(entry.to_json())
            return
        say(f"Booked {name} (entry {entry.seq}).")
        say(f"Its cost: {show.in_every_measure(cost, 1e-6)}.")
        if entry.exceeded:
            say(f"Now exceeded: {', '.join(entry.exceeded)}", "bold red")
