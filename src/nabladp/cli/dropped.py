"""``nabladp dropped``: how many rows the bound on a person's rows leaves out, with noise, at a stated cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nabladp.cli.answer import answering, print_json, say, working


def dropped(
    plan: Annotated[Path, typer.Argument(help="The plan.toml, with [person] and a ledger.")],
    budget: Annotated[list[str], typer.Option("--budget", help="The cost: cdp=0.1, rho=0.005 or pure=0.1.")],
    most: Annotated[int, typer.Option(help="How many left-out rows of each person are counted at most.")],
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Say about how many rows are not used, as people have more than the plan's [person] uses of each. Spends the
    budget."""
    with answering(json):
        from nabladp.errors import BudgetError
        from nabladp.release import Plan, queries

        cost, single = queries.read_budgets(budget)
        if single:
            raise BudgetError("This release has one cost, not one per attribute.", fix="Write --budget rho=0.005.")
        session = Plan.load(plan).session()
        try:
            with working("counting rows"):
                found = session.dropped_rows(cost, most=most)
        finally:
            session.ledger.close()
        if json:
            print_json(found.to_json())
            return
        low, high = found.share_interval
        say(
            f"About {max(found.rows, 0):,} rows are not used, ±{found.half_width:,} (95% interval), counting at most "
            f"{most} of each person."
        )
        say(f"That is {found.share:.1%} of all rows ({low:.1%} to {high:.1%}). Booked as {found.entry!r}.")
