"""Tables and bars for the terminal. Made to fit 80 columns; names from files are shown as they are, never as markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from nabladp.cli.answer import printable
from nabladp.release.cost import format_cost

BAR = 24
MOST_ROWS = 40
Row = Mapping[str, Any]


def plain_table(title: str, texts: Sequence[str], numbers: Sequence[str] = ()) -> Table:
    """A terminal table: columns of text break long names instead of cutting them off; numbers never break."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    for column in texts:
        table.add_column(column, overflow="fold")
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def most(rows: int) -> int:
    """The number of rows that a terminal table shows: a line that says "1 more" would take the place of that one."""
    return rows if rows <= MOST_ROWS + 1 else MOST_ROWS


def shown_value(value: Any) -> str:
    """A released value in the terminal: four digits of a number that is not whole, thousands apart."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() or abs(value) >= 10_000 else f"{value:,.4g}"
    return str(value) if isinstance(value, bool | str) else f"{value:,}" if isinstance(value, int) else str(value)


def _more(table: Table, hidden: int, what: str) -> None:
    if hidden > 0:
        table.add_row(f"… and {hidden:,} more {what} (see --json)")


def privacy_table(figures: Row) -> Table:
    """The terminal table of privacy figures: each attribute, each named adversary, the person; never one without the
    other."""
    title = f"What can be learned (ε at δ = {figures['delta']:g})"
    table = plain_table(title, ["attributes"], ["ε tight", "ε paper", "ρ"])

    def add(label: str, figure: Row, style: str = "") -> None:
        cells = [format_cost(figure[key]) for key in ("epsilon", "epsilon_paper", "rho")]
        table.add_row(printable(label), *cells, style=style)

    attributes = list(figures["attributes"].items())
    for name, figure in attributes[: most(len(attributes))]:
        add(name, figure)
    _more(table, len(attributes) - most(len(attributes)), "attributes")
    table.add_section()
    for adversary in figures["adversaries"]:
        add(f"{adversary['name']} ({' + '.join(adversary['attributes'])})", adversary)
    add("all protected attributes", figures["person"], "bold")
    if figures["public"]:
        table.add_row(printable(f"Public, so not protected: {', '.join(figures['public'])}."))
    for name, sources in figures["derived"].items():
        table.add_row(printable(f"{name} counts as {' and '.join(sources)}."))
    return table


def limits_plot(lines: Sequence[Row]) -> Table:
    """Limits in the terminal: a bar per limit, broken limits first."""
    table = plain_table("Limits: █ spent  ▓ this plan  · left", ["limit", ""], ["this plan", "left after"])
    for line in sorted(lines, key=lambda line: line["fits"])[: most(len(lines))]:
        fits, requested = line["fits"], f"{line['measure']} {format_cost(line['requested'])}"
        after = (
            format_cost(line["left"] - line["requested"], up=False)
            if fits
            else f"OVER: {format_cost(line['left'], up=False)} left"
        )
        bar = Text(_bar(line), "green" if fits else "red")
        table.add_row(printable(line["limit"]), bar, requested, Text(after, "" if fits else "bold red"))
    _more(table, len(lines) - most(len(lines)), "limits")
    return table


def budgets_table(budgets: Sequence[Row], delta: float, title: str = "Budgets in every measure") -> Table:
    """The terminal table of budgets: each as ε, as ρ and as cdp, whichever of them was typed. What is left is rounded
    down."""
    up = not title.startswith("Left")
    table = plain_table(title, ["budget"], [f"ε at δ = {delta:g}", "ρ", "cdp"])
    lines: list[tuple[str, ...]] = []
    for own in budgets:
        epsilon, rho, cdp = (format_cost(own[key], up=up) for key in ("epsilon", "rho", "cdp"))
        lines.append((printable(own["name"]), epsilon + (" (pure)" if own["pure"] is not None else ""), rho, cdp))
    if len(lines) > most(len(lines)):
        lines = _merge_equal(lines)
    for line in lines[: most(len(lines))]:
        table.add_row(*line)
    _more(table, len(lines) - most(len(lines)), "budgets")
    return table


def _merge_equal(lines: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """One line for all budgets with the same figures, named by the first."""
    named: dict[tuple[str, ...], list[str]] = {}
    for name, *figures in lines:
        named.setdefault(tuple(figures), []).append(name)
    more = {figures: f" and {len(names) - 1:,} more" if len(names) > 1 else "" for figures, names in named.items()}
    return [(names[0] + more[figures], *figures) for figures, names in named.items()]


def in_every_measure(value: Any, delta: float) -> str:
    """A typed budget in one line: ε, ρ and cdp."""
    from nabladp.release.verdict import in_every_measure

    own = in_every_measure(value, delta)
    epsilon = "pure ε = " + format_cost(own["pure"]) if own["pure"] is not None else ""
    return (epsilon or f"ε = {format_cost(own['epsilon'])} at δ = {delta:g}") + (
        f", ρ = {format_cost(own['rho'])}, cdp = {format_cost(own['cdp'])}"
    )


def _bar(line: Row) -> str:
    """The bar of one limit in the terminal; full where something without a bound was booked, or asked for."""
    spent, left, requested = line["spent"], line["left"], line["requested"]
    if spent is None:
        return "█" * BAR
    allowed = spent + left
    before = min(BAR, round(BAR * spent / allowed)) if allowed else BAR
    now = BAR - before if requested is None or requested >= left else round(BAR * requested / allowed)
    return ("█" * before + "▓" * now).ljust(BAR, "·")[:BAR]


def error_tables(expected: Mapping[str, Sequence[Row] | Row]) -> list[Table]:
    """Terminal tables of expected errors: one for all lists of marginals, then one for each release with a summary of
    its own."""
    marginals = {name: error for name, error in expected.items() if not isinstance(error, Mapping)}
    summaries = [_summary(name, error) for name, error in expected.items() if isinstance(error, Mapping)]
    return [*([_marginal_errors(marginals)] if marginals else []), *summaries]


def _summary(name: str, error: Row) -> Table:
    table = plain_table(f"Expected error of {printable(name)}", ["", ""])
    table.show_header = False
    lines = list(error.get("summary", {"its figures": "see --json"}).items())
    for label, value in lines[: most(len(lines))]:
        table.add_row(printable(str(label)), printable(_format_value(value)))
    _more(table, len(lines) - most(len(lines)), "figures")
    return table


def _format_value(value: Any) -> str:
    """A number in the terminal: four digits, but whole ones in full; what JSON has no number for is no bound."""
    if value is None:
        return format_cost(None)
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _marginal_errors(expected: Mapping[str, Sequence[Row]]) -> Table:
    table = plain_table(
        "Expected error of a cell", ["marginal"], ["cells", "noise scale", "mean error", "95% within ±"]
    )
    left = MOST_ROWS
    for name, parts in expected.items():
        table.add_row(printable(name), style="italic")
        for part in parts[: max(left, 0)]:
            cells = [f"{part['scale']:.4g}", f"{part['mean_absolute']:.4g}", f"{part['half_width']:,}"]
            table.add_row(printable("  " + "+".join(part["attributes"])), f"{part['cells']:,}", *cells)
        _more(table, len(parts) - max(left, 0), "marginals")
        left -= len(parts)
    return table


def findings_table(findings: Iterable[Row]) -> Table:
    table = plain_table("The table breaks its schema", ["column", "rule", "rows", "fix"])
    for finding in findings:
        rows = f"{finding['rows']:,}" if "rows" in finding else ""
        cells = [printable(finding["column"]), printable(finding["rule"]), rows, printable(finding["fix"])]
        table.add_row(*cells, end_section=True)
    return table


def spending_table(lines: Sequence[Row]) -> Table:
    """The terminal table of what limits have left; where there are very many, those of which least is left."""
    table = plain_table("Spent and left", ["limit"], ["measure", "allowed", "spent", "left"])
    listed = lines if len(lines) <= most(len(lines)) else sorted(lines, key=lambda line: line["left"] / line["allowed"])
    for line in listed[: most(len(lines))]:
        cells = [
            line["measure"],
            format_cost(line["allowed"], up=False),
            format_cost(line["spent"]),
            format_cost(line["left"], up=False),
        ]
        table.add_row(printable(line["limit"]), *cells, style="red" if line["exceeded"] else "")
    _more(table, len(lines) - most(len(lines)), "limits")
    return table


def entries_table(entries: Iterable[Row], unfinished: set[int]) -> Table:
    table = plain_table("Entries", ["#", "kind", "name", "when (UTC)", "note"])
    for entry in entries:
        note = str(entry["payload"].get("reason") or entry["payload"].get("who") or "")
        waits = entry["seq"] in unfinished
        when = entry["time"][:16].replace("T", " ")
        cells = [str(entry["seq"]), entry["kind"], entry["name"], when, "UNFINISHED" if waits else note]
        table.add_row(*(printable(cell) for cell in cells), style="yellow" if waits else "")
    for column in (0, 1, 3):
        table.columns[column].no_wrap = True
    return table


def demo_errors(rows: Sequence[Row]) -> Table:
    title = "Mean error of a cell: predicted, and what it was"
    table = plain_table(title, ["marginal"], ["cells", "predicted", "actual", "within its 95% interval"])
    for row in rows:
        cells = [f"{row['predicted']:.4g}", f"{row['actual']:.4g}", f"{row['covered']:.1%}"]
        table.add_row(printable(row["marginal"]), f"{row['cells']:,}", *cells)
    return table


def explanation(facts: Row) -> Table:
    """One set of attributes explained in the terminal: its figures, and what they mean with what that assumes."""
    table = plain_table(f"What can be learned about {printable(' + '.join(facts['attributes']))}", ["", ""])
    table.show_header = False
    if facts["public"]:
        table.add_row("ε", f"Nothing is promised: {printable(', '.join(facts['public']))} is public.")
        return table
    pairs = [
        ("ε tight", format_cost(facts["epsilon"])),
        (
            "ε exact",
            format_cost(facts["epsilon_exact"]) if facts["epsilon_exact"] is not None else "not for this kind of noise",
        ),
        ("ε paper", format_cost(facts["epsilon_paper"])),
        ("ε pure", format_cost(facts["pure_epsilon"])),
        ("ρ", f"{format_cost(facts['rho'])} (group privacy alone: {format_cost(facts['group_privacy']['rho'])})"),
    ]
    for name, value in pairs:
        table.add_row(name, value)
    for statement in facts["statements"]:
        table.add_row("means", f"{statement['sentence']} Assumes: {statement['assumes']}")
    table.add_row("not", facts["not_protected"])
    return table


def any_rows_sentence(names: Sequence[str]) -> str:
    listed = ", ".join(names[: most(len(names))])
    return (
        f"The plan does not state the number of rows, so the cost of {listed} is a worst case over all numbers; the "
        "actual cost may be far smaller. Add rows = … to [table]."
    )


def excess_sentence(limits: Sequence[Row], any_rows: bool) -> str:
    """The sentence that names the limit exceeded by the largest factor, and by how much."""
    broken = [line for line in limits if not line["fits"]]
    start = "Without the number of rows, this" if any_rows else "This"
    unbounded = [line for line in broken if line["spent"] is None or line["requested"] is None]
    if unbounded:
        excess_text = f"the budget for {unbounded[0]['limit']!r}: its cost has no bound in {unbounded[0]['measure']}"
    else:
        worst = max(broken, key=lambda line: (line["spent"] + line["requested"]) / line["allowed"])
        excess = worst["spent"] + worst["requested"] - worst["allowed"]
        excess_text = f"the budget for {worst['limit']!r} by {worst['measure']} = {format_cost(excess)}"
    others = len(broken) - 1
    more = f", and {others:,} other {'limit' if others == 1 else 'limits'}" if others else ""
    return f"{start} plan exceeds {excess_text}{more}. Nothing was spent."


def worst_sentence(worst: Row) -> str:
    names = " + ".join(worst["attributes"])
    if worst["exact"]:
        many = f"{len(worst['attributes'])} attributes are" if len(worst["attributes"]) > 1 else "attribute is"
        return f"The costliest {many} {names}: ρ = {format_cost(worst['rho'])}."
    rho, bound = format_cost(worst["rho"]), format_cost(worst["at_most"])
    return f"Among the costliest: {names}, ρ = {rho}; no set as large exceeds {bound}."
