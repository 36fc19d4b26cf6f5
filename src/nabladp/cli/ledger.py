"""``nabladp ledger``: what was spent, what is unfinished, and the few things a curator may do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from nabladp.cli import show
from nabladp.cli.answer import answering, out, print_json


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
Reason = Annotated[str, typer.Option("--reason", help="Why; it stays on record.")]


@ledger_app.command("show")
def show_ledger(
    ledger: Where = "ledger.db",
    last: Annotated[int, typer.Option(help="How many entries to list.")] = 20,
    json: Json = False,
) -> None:
    """Limits, what is spent and left, the last entries, and what is unfinished."""
    with answering(json):
        from nabladp.release import Ledger

        with Ledger.read(ledger) as book:
            answer: dict[str, Any] = {
                "ledger": book.id,
                "test": book.test,
                "head": {"entry": book.head.seq, "hash": book.head.hash},
                "limits": [line.to_json() for line in book.spent()],
                "unfinished": [{"entry": e.seq, "name": e.name, **e.details} for e in book.unfinished()],
                "entries": [entry.to_json() for entry in book.entries(last=last)],
            }
        if json:
            print_json(answer)
            return
        if answer["test"]:
            out.print("[bold white on red] TEST — NOT PRIVATE [/]")
        out.print(show.spending_table(answer["limits"]))
        out.print(show.entries_table(answer["entries"], {u["entry"] for u in answer["unfinished"]}))
        for entry in answer["unfinished"]:
            out.print(f"[yellow]Unfinished:[/] {escape(entry['name'])} was reserved but not released; it stays spent.")
            if "folder" in entry:
                out.print(f"  If {escape(entry['folder'])} exists: nabladp ledger recover {escape(ledger)} FOLDER")
            out.print(f"  If nothing got out: nabladp ledger void {escape(ledger)} {escape(entry['name'])} --reason …")
        out.print(f"Head: entry {answer['head']['entry']}, {answer['head']['hash']}")


@ledger_app.command()
def verify(ledger: Where = "ledger.db", json: Json = False) -> None:
    """Walk the chain of hashes; report every entry that was changed or is missing."""
    with answering(json):
        from nabladp.release import Ledger

        with Ledger.read(ledger) as book:
            problems, head = book.verify(), book.head
        if json:
            print_json({"ok": not problems, "problems": [problem.to_json() for problem in problems], "head": head.hash})
        for problem in problems if not json else ():
            out.print(f"[bold red]broken:[/] {escape(str(problem))}")
        if problems:
            raise typer.Exit(1)
        if not json:
            out.print(f"The chain holds: {head.seq} entries, head {head.hash}.")


@ledger_app.command()
def void(ledger: Where, name: str, reason: Reason, json: Json = False) -> None:
    """Give back the cost of an unfinished reservation that never became a release."""
    with answering(json):
        from nabladp.release.books import open_existing

        with open_existing(ledger) as book:
            entry = book.void(name, reason)
        print_json(entry.to_json()) if json else out.print(f"Voided {escape(name)} (entry {entry.seq}).")


@ledger_app.command("recover")
def recover_release(ledger: Where, folder: Path, json: Json = False) -> None:
    """Finish a release that was written but not shown before a crash."""
    with answering(json):
        from nabladp.release import recover
        from nabladp.release.books import open_existing

        with open_existing(ledger) as book:
            goal = recover(folder, book)
        print_json({"folder": str(goal)}) if json else out.print(f"Published in {escape(str(goal))}.")


@ledger_app.command("change-budget")
def change_budget(plan: Path, reason: Reason, json: Json = False) -> None:
    """Put the budget of this plan in force, on record."""
    with answering(json):
        from nabladp.release import Plan

        entry = Plan.load(plan).change_budget(reason)
        print_json(entry.to_json()) if json else out.print(f"The budget was changed (entry {entry.seq}).")


@ledger_app.command("record-external")
def record_external(
    ledger: Where,
    name: str,
    who: Annotated[str, typer.Option(help="Who made the release.")],
    attributes: Annotated[list[str], typer.Option("--attribute", help="An attribute it read; repeat for more.")],
    pure: Annotated[float | None, typer.Option(help="Its pure ε.")] = None,
    rho: Annotated[float | None, typer.Option(help="Its concentrated ρ.")] = None,
    note: Annotated[str, typer.Option(help="Anything worth keeping.")] = "",
    json: Json = False,
) -> None:
    """Book a release that someone else made from the same people."""
    with answering(json):
        from nabladp.release.books import book_external

        entry = book_external(ledger, name, who, attributes, pure, rho, note)
        if json:
            print_json(entry.to_json())
            return
        out.print(f"Booked {escape(name)} (entry {entry.seq}).")
        if entry.exceeded:
            out.print(f"[bold red]Now exceeded:[/] {escape(', '.join(entry.exceeded))}")
