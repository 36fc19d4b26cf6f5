"""How guarantees, ledgers, schemas and releases look in a notebook, and a whole report inside one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from nabladp.errors import NablaDPError
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger.reading import LedgerView
from nabladp.privacy.units import format_rounded
from nabladp.release.cost import Cost, error_json
from nabladp.release.record import Release, Releases
from nabladp.report import report
from nabladp.schema import Attribute, Schema
from nabladp.views import View
from nabladp.views.exports import Exported, preview, short_text
from nabladp.views.tables import arrow_format
from nabladp.views.view import count_of, format_figure, format_percent

# ---- small pieces of HTML --------------------------------------------------------------------------------------------
# Names come from files. They are shown as they are: no markup, no mathematics (notebooks typeset what stands between
# two dollar signs), and one that is written from right to left does not turn the line around.

MOST_ROWS = 40


def fragment(*parts: str) -> str:
    """HTML pieces together, in an element that notebooks do not look for formulas in."""
    return f'<div class="nabladp tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'


def heading(text: str, detail: str = "") -> str:
    return f"<p><strong>{_escape(text)}</strong>{f' {_escape(detail)}' if detail else ''}</p>"


def line(text: str) -> str:
    return f"<p>{_escape(text)}</p>"


def stamp(text: str | None) -> str:
    """A warning in a notebook that must not be missed."""
    if not text:
        return ""
    return f'<p style="background:#b3261e;color:#fff;padding:.4em .8em;font-weight:bold">{_escape(text)}</p>'


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    texts: int = 1,
    last: Sequence[str] | None = None,
    total: int | None = None,
    most: int = MOST_ROWS,
) -> str:
    """An HTML table for a notebook: the first ``texts`` columns hold names, the others figures; the row ``last`` is
    never left out. ``total`` is the number of rows where not all are given."""
    listed = list(rows)
    body = [_row(row, texts) for row in listed[:most]]
    more = (len(listed) if total is None else total) - most
    if more > 0:
        body.append(f'<tr><td colspan="{len(heads)}">… and {more:,} more</td></tr>')
    if last is not None:
        body.append(_row(last, texts, "th"))
    head = "".join(
        f'<th scope="col" style="text-align:{_side(i, texts)}">{_escape(text)}</th>' for i, text in enumerate(heads)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _row(cells: Sequence[str], texts: int, tag: str = "td") -> str:
    return (
        "<tr>"
        + "".join(
            f'<{tag} style="text-align:{_side(i, texts)}">{_escape(cell)}</{tag}>' for i, cell in enumerate(cells)
        )
        + "</tr>"
    )


def _side(column: int, texts: int) -> str:
    return "left" if column < texts else "right"


def _escape(text: str) -> str:
    return f"<bdi>{escape(str(text), quote=True)}</bdi>"


# ---- notebooks -------------------------------------------------------------------------------------------------------

DELTA = 1e-6
Sets = Mapping[str, Sequence[str]]
_SHOWN = 6  # values of an attribute


def guarantee_html(guarantee: Guarantee) -> str:
    universe = guarantee.universe
    derived = list(universe.derived.items())[:8]
    notes = [line(f"{name} counts as {' and '.join(sources)}.") for name, sources in derived]
    return fragment(heading("What can be learned"), figures_table(guarantee), *notes)


def figures_table(
    guarantee: Guarantee,
    adversaries: Sets | None = None,
    delta: float = DELTA,
    titles: Mapping[str, str] | None = None,
) -> str:
    """A guarantee as a notebook table: every attribute, named adversaries, all protected attributes together; and what
    is public. ``titles`` are read in place of names."""

    def called(names: Iterable[str], sign: str = " + ") -> str:
        return sign.join((titles or {}).get(name, name) for name in names)

    def row(label: str, names: Sequence[str]) -> list[str]:
        figure = guarantee.figure(names)
        values = (figure.epsilon(delta), figure.epsilon(delta, "paper"), figure.pure, figure.rho)
        return [
            label,
            *("no bound" if value == float("inf") else format_rounded(value, 4, up=True) for value in values),
        ]

    rows = [row(called([name]), (name,)) for name in guarantee.universe.protected]
    rows += [row(f"{name} ({called(chosen)})", chosen) for name, chosen in (adversaries or {}).items()]
    heads = ["attributes", f"ε tight, δ = {delta:g}", f"ε paper, δ = {delta:g}", "ε pure", "ρ"]
    made = table(heads, rows, last=row("all protected attributes", guarantee.per_person().attributes))
    public = called(sorted(guarantee.universe.public), ", ")
    return made + (line(f"Public, so not protected: {public}.") if public else "")


def ledger_html(ledger: LedgerView) -> str:
    rows = []
    for spending in ledger.spent():
        facts = spending.to_json()
        spent = "no bound" if facts["spent"] is None else format_rounded(facts["spent"], 4, up=True)
        left = f"{format_rounded(facts['left'], 4, up=False)}{' (exceeded)' if facts['exceeded'] else ''}"
        rows.append([facts["limit"], facts["measure"], format_rounded(facts["allowed"], 4, up=False), spent, left])
    head = ledger.head
    waiting = ledger.unfinished()
    return fragment(
        stamp("TEST LEDGER: nothing in it is private" if ledger.test else None),
        heading(f"Ledger {ledger.label}", f"{head.seq:,} entries, the last with hash {head.hash[:16]}…"),
        table(["limit", "measure", "allowed", "spent", "left"], rows, texts=2),
        *([line(f"Unfinished: {', '.join(entry.name for entry in waiting[:8])}.")] if waiting else []),
    )


def schema_html(schema: Schema) -> str:
    rows = [[_name_and_title(a), a.kind, _values(a), _standing(a), _remarks(a), f"{a.size:,}"] for a in schema]
    return fragment(
        heading("Schema", f"{len(schema)} attributes, fingerprint {schema.fingerprint()[:16]}…"),
        table(["attribute", "kind", "values", "standing", "note", "how many"], rows, texts=5),
    )


def _name_and_title(attribute: Attribute) -> str:
    """An attribute's name in a notebook, which code needs, and its title."""
    return attribute.name if attribute.heading == attribute.name else f"{attribute.name}: {attribute.heading}"


def _remarks(attribute: Attribute) -> str:
    return " ".join(text for text in (attribute.description, attribute.note) if text)


def _values(attribute: Attribute) -> str:
    """An attribute's values in a notebook: the first few labels, and the last; ranges are not listed in full."""
    if attribute.size <= _SHOWN:
        return ", ".join(attribute.label(code) for code in range(attribute.size))
    first = ", ".join(attribute.label(code) for code in range(_SHOWN - 2))
    return f"{first}, … {attribute.label(attribute.size - 1)}"


def _standing(attribute: Attribute) -> str:
    if attribute.derived_from:
        return f"derived from {', '.join(attribute.derived_from)}"
    return "public" if attribute.public else "protected"


def release_html(release: Release) -> str:
    entry = release.ledger
    return fragment(
        stamp(release.stamp),
        heading(release.name, f"{release.mechanism} of {release.n:,} rows, ledger entry {entry['entry']}"),
        figures_table(release.guarantee, release.adversaries, release.delta, release.schema.titles),
        _error_table(release.expected_error, release.schema),
        *_view_tables(release),
        line("release.to_pandas() has the values, one row per number, with intervals."),
        line("nabladp.display.show(release) draws what was released; plot(release) one table of it."),
    )


_VIEWS, _VIEW_ROWS = 3, 10  # shown of a release


def _view_tables(release: Release) -> list[str]:
    """The first tables of a release, headed as in its report, with the labels of the schema and intervals."""
    views = [view for view in release.views() if view.rows]
    shown = [part for view in views[:_VIEWS] for part in (heading(view.title, view.summary), _view_table(view))]
    more = len(views) - _VIEWS
    return [*shown, *([line(f"… and {count_of(more, 'more table', 'more tables')}.")] if more > 0 else [])]


def _view_table(view: View) -> str:
    intervals = {own.value: (own.low, own.high) for own in view.series if own.low is not None and own.high is not None}
    ends = {end for pair in intervals.values() for end in pair}
    order = sorted(set(range(len(view.columns))) - ends, key=lambda i: view.columns[i].format != "text")
    texts = sum(view.columns[i].format == "text" for i in order)
    heads = [head for i in order for head in (view.columns[i].name, *(["interval"] if i in intervals else []))]
    rows = []
    for values in view.read(_VIEW_ROWS):
        texts_of_row = [_cell_text(value, column.format) for value, column in zip(values, view.columns, strict=True)]
        pairs = {i: [_interval(texts_of_row[low], texts_of_row[high])] for i, (low, high) in intervals.items()}
        rows.append([cell for i in order for cell in (texts_of_row[i], *pairs.get(i, []))])
    return table(heads, rows, texts=texts, total=len(view.rows), most=_VIEW_ROWS)


def _cell_text(value: Any, format: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return format_percent(value) if format == "share" else short_text(value)


def _interval(low: str, high: str) -> str:
    return f"{low} to {high}" if low or high else ""


def releases_html(releases: Releases) -> str:
    rows = [[name, own.mechanism, f"{own.n:,}", str(own.ledger["entry"])] for name, own in releases.items()]
    stamps = {own.stamp for own in releases.values() if own.stamp}
    return fragment(
        *map(stamp, sorted(stamps)),
        heading("Releases", f"{len(releases):,} of one plan"),
        table(["name", "mechanism", "rows", "ledger entry"], rows, texts=2),
    )


def exported_html(value: Exported) -> str:
    """An output or one of its tables: what it is, and its first rows, headed as the schema titles their columns."""
    named = repr(value).partition("\n")[0]
    try:
        rows = value.to_arrow()
    except NablaDPError:  # an output that does not know its schema
        return fragment(line(named))
    rows = rows.select([name for name in rows.column_names if rows[name].null_count < max(rows.num_rows, 1)])
    texts = [arrow_format(kind) == "text" for kind in rows.schema.types]
    schema = getattr(value, "schema", None)
    heads, cells = [_heading(schema, name) for name in rows.column_names], preview(rows, MOST_ROWS)
    if rows.column_names.count("low") == rows.column_names.count("high") == 1:
        at = rows.column_names.index("low")
        if rows.column_names[at + 1] == "high" and not texts[at]:
            heads[at : at + 2] = ["interval"]
            cells = [[*row[:at], _interval(row[at], row[at + 1]), *row[at + 2 :]] for row in cells]
    return fragment(heading(named), table(heads, cells, texts=[*texts, False].index(False), total=rows.num_rows))


def _heading(schema: Schema | None, name: str) -> str:
    return schema[name].heading if schema is not None and name in schema else name


def cost_html(cost: Cost) -> str:
    limits = [
        [facts["limit"], facts["measure"], *(_amount(facts[key], up) for key, up in _LIMIT_FIGURES)]
        for facts in (one.to_json() for one in cost.lines)
    ]
    return fragment(
        heading("Cost", "within the budget" if cost.fits else "exceeds the budget"),
        figures_table(cost.guarantee, cost.adversaries, cost.delta),
        table(["limit", "measure", "this request", "left before"], limits, texts=2),
        *(_error_table(error_json(error)) for _, error in cost.errors),
        line("Nothing was spent."),
    )


_LIMIT_FIGURES = (("requested", True), ("left", False))


def _amount(value: float | None, up: bool) -> str:
    return "no bound" if value is None else format_rounded(value, 4, up=up)


def _error_table(error: Any, schema: Schema | None = None) -> str:
    if isinstance(error, Mapping):
        rows = [[str(label), format_figure(value)] for label, value in error.get("summary", {}).items()]
        return table(["predicted error", ""], rows)
    rows = [
        [
            schema.title(part["attributes"]) if schema else " + ".join(part["attributes"]),
            f"{part['cells']:,}",
            format_figure(part["scale"]),
            f"± {part['half_width']:,}",
        ]
        for part in error
    ]
    return table(["marginal", "cells", "noise scale", "95% of counts within"], rows)


@dataclass(frozen=True, repr=False)
class Frame:
    """Shown by a notebook as the page itself."""

    page: str
    height: int

    def __repr__(self) -> str:
        return f"Frame(a report of {len(self.page):,} characters)"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.page, quote=True)}" sandbox="allow-scripts allow-downloads" '
            f'title="Report" width="100%" height="{self.height}" style="border:1px solid #888"></iframe>'
        )


def frame_report(source: Release | Sequence[Release] | str | Path, height: int = 720) -> Frame:
    """The report of a release, of several, or of a published folder, as a notebook shows it."""
    return Frame(report(source), int(height))
