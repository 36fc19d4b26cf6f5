"""Tables and bars for the terminal. Every name from the user is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

BAR = 32
MOST_ROWS = 40


def number(value: float | None) -> str:
    return "no bound" if value is None else f"{value:.4g}"


def privacy_table(figures: Mapping[str, Any]) -> Table:
    """Each attribute, each named adversary, the person: never one without the other."""
    table = Table(title=f"What can be learned (ε at δ = {figures['delta']:g})", title_justify="left", pad_edge=False)
    table.add_column("who is protected against what")
    table.add_column("ε tight", justify="right")
    table.add_column("ε paper", justify="right")
    table.add_column("ρ", justify="right")

    def add(label: str, figure: Mapping[str, Any], style: str = "") -> None:
        cells = [number(figure[key]) for key in ("epsilon", "epsilon_paper", "rho")]
        table.add_row(escape(label), *cells, style=style)

    attributes = list(figures["attributes"].items())
    for name, figure in attributes[:MOST_ROWS]:
        add(f"someone curious about {name}", figure)
    if len(attributes) > MOST_ROWS:
        table.add_row(f"… and {len(attributes) - MOST_ROWS} more attributes (see --json)", "", "", "")
    table.add_section()
    for adversary in figures["adversaries"]:
        add(f"{adversary['name']} ({' + '.join(adversary['attributes'])})", adversary)
    add("anyone curious about the whole person", figures["person"], "bold")
    return table


def limits_plot(lines: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A bar per limit: spent before (█), this request (▓), left (·)."""
    rows: list[RenderableType] = [Text("Limits: █ spent   ▓ this plan   · left", style="bold")]
    width = min(28, max((len(line["limit"]) for line in lines), default=0))
    shown = sorted(lines, key=lambda line: line["fits"])[:MOST_ROWS]
    for line in shown:
        requested = line["requested"] if line["requested"] is not None else float("inf")
        allowed = line["spent"] + line["left"] or 1.0
        before = min(BAR, round(BAR * line["spent"] / allowed))
        now = BAR - before if requested >= line["left"] else round(BAR * requested / allowed)
        bar = "█" * before + "▓" * now + "·" * max(0, BAR - before - now)
        text = Text(f"{line['limit'][:width]:<{width}} ")
        text.append(bar[:BAR], style="red" if not line["fits"] else "green")
        left = max(line["left"] - requested, 0.0)
        text.append(
            f" {line['measure']} {number(None if requested == float('inf') else requested)}, {left:.4g} left after"
        )
        if not line["fits"]:
            text.append("  OVER THE LIMIT", style="bold red")
        rows.append(text)
    if len(lines) > len(shown):
        rows.append(Text(f"… and {len(lines) - len(shown)} more limits that fit (see --json)"))
    return Group(*rows)


def error_table(expected: Mapping[str, Any]) -> Table:
    table = Table(title="Expected error of a cell", title_justify="left", pad_edge=False)
    for column in ("release", "marginal"):
        table.add_column(column)
    for column in ("cells", "noise scale", "mean error", "95% within ±"):
        table.add_column(column, justify="right")
    rows = [(name, part) for name, parts in expected.items() for part in parts]
    for name, part in rows[:MOST_ROWS]:
        table.add_row(
            escape(name),
            escape("+".join(part["attributes"])),
            f"{part['cells']:,}",
            f"{part['scale']:.4g}",
            f"{part['mean_absolute']:.4g}",
            f"{part['half_width']:,}",
        )
    if len(rows) > MOST_ROWS:
        table.add_row(f"… {len(rows) - MOST_ROWS} more (see --json)", "", "", "", "", "")
    return table


def entries_table(entries: Iterable[Mapping[str, Any]], unfinished: set[int]) -> Table:
    table = Table(title="Entries", title_justify="left", pad_edge=False)
    for column in ("#", "kind", "name", "time", "note"):
        table.add_column(column)
    for entry in entries:
        payload = entry["payload"]
        note = str(payload.get("reason") or payload.get("who") or payload.get("details", {}).get("folder") or "")
        if entry["seq"] in unfinished:
            note = f"UNFINISHED {note}"
        style = "yellow" if entry["seq"] in unfinished else ""
        cells = [str(entry["seq"]), entry["kind"], entry["name"], entry["time"][:19], note]
        table.add_row(*(escape(cell) for cell in cells), style=style)
    return table


def spending_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="Spent and left", title_justify="left", pad_edge=False)
    for column in ("limit", "measure"):
        table.add_column(column)
    for column in ("allowed", "spent", "left"):
        table.add_column(column, justify="right")
    for line in lines:
        cells = [number(line["allowed"]), number(line["spent"]), number(line["left"])]
        table.add_row(escape(line["limit"]), line["measure"], *cells, style="red" if line["exceeded"] else "")
    return table


def demo_errors(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="Mean error of a cell: predicted, and what it was", title_justify="left", pad_edge=False)
    table.add_column("marginal")
    for column in ("cells", "predicted", "actual", "95% interval held for"):
        table.add_column(column, justify="right")
    for row in rows:
        cells = [
            f"{row['cells']:,}",
            f"{row['predicted']:.4g}",
            f"{row['actual']:.4g}",
            f"{row['covered']:.1%} of cells",
        ]
        table.add_row(escape(row["marginal"]), *cells)
    return table
