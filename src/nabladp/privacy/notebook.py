"""How a guarantee and a ledger look in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nabladp.fragments import fragment, heading, line, stamp, table
from nabladp.privacy.units import rounded

if TYPE_CHECKING:
    from nabladp.privacy.guarantee import Guarantee
    from nabladp.privacy.ledger.reading import LedgerView

DELTA = 1e-6
Sets = Mapping[str, Sequence[str]]


def guarantee_html(guarantee: Guarantee) -> str:
    universe = guarantee.universe
    told = [line(f"Public, so not protected: {', '.join(sorted(universe.public))}.")] if universe.public else []
    told += [line(f"{name} counts as {' and '.join(sources)}.") for name, sources in list(universe.derived.items())[:8]]
    return fragment(heading("What can be learned"), figures_table(guarantee), *told)


def figures_table(guarantee: Guarantee, adversaries: Sets | None = None, delta: float = DELTA) -> str:
    """Every attribute, named adversaries, and always the whole person."""

    def row(label: str, names: Sequence[str]) -> list[str]:
        figure = guarantee.figure(names)
        values = (figure.epsilon(delta), figure.epsilon(delta, "paper"), figure.pure, figure.rho)
        return [label, *("no bound" if value == float("inf") else rounded(value, 4, up=True) for value in values)]

    rows = [row(name, (name,)) for name in guarantee.universe.protected]
    rows += [row(f"{name} ({' + '.join(chosen)})", chosen) for name, chosen in (adversaries or {}).items()]
    heads = ["someone curious about", f"ε tight, δ = {delta:g}", f"ε paper, δ = {delta:g}", "ε pure", "ρ"]
    return table(heads, rows, last=row("the whole person", guarantee.per_person().attributes))


def ledger_html(ledger: LedgerView) -> str:
    rows = []
    for spending in ledger.spent():
        told = spending.to_json()
        spent = "no bound" if told["spent"] is None else rounded(told["spent"], 4, up=True)
        left = f"{rounded(told['left'], 4, up=False)}{' (exceeded)' if told['exceeded'] else ''}"
        rows.append([told["limit"], told["measure"], rounded(told["allowed"], 4, up=False), spent, left])
    head = ledger.head
    waiting = ledger.unfinished()
    return fragment(
        stamp("TEST LEDGER: nothing in it is private" if ledger.test else None),
        heading(f"Ledger {ledger.label}", f"{head.seq:,} entries, the last with hash {head.hash[:16]}…"),
        table(["limit", "measure", "allowed", "spent", "left"], rows, texts=2),
        *([line(f"Unfinished: {', '.join(entry.name for entry in waiting[:8])}.")] if waiting else []),
    )
