"""Plots, by altair: claimed against found for an audit, and the bars of a list of combinations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.audit.combined import Audit, SetVerdict
from nabladp.errors import MissingPart
from nabladp.mechanisms.distribution_estimate.output import Distribution
from nabladp.mechanisms.heavy_hitters.output import HeavyList
from nabladp.schema import Schema

if TYPE_CHECKING:
    import altair as alt

_WIDEST = 2.0  # shares beyond are drawn here
_COLOURS = {"consistent": "#0072B2", "refuted": "#D55E00"}
_BARS = 30
_NAMED = 4  # attributes that a label can hold
_LISTED = 12  # … and a tooltip
_BLUE, _VERMILION, _INK = "#0072B2", "#D55E00", "#1a1a1a"
Codes = NDArray[np.int64]
Row = dict[str, Any]


# ---- audits ----------------------------------------------------------------------------------------------------------


def audit_plot(audits: Sequence[tuple[str, Audit]]) -> alt.LayerChart:
    """The plot of audits: a bar up to the statistical lower bound and a diamond at the exact figure; the claim is the
    line at 1."""
    altair = altair_module()
    lines = [_line(name, row, len(audits) > 1) for name, audit in audits for row in audit.rows]
    colour = altair.Color(
        "verdict:N", scale=altair.Scale(domain=list(_COLOURS), range=[*_COLOURS.values()]), title=None
    )
    order = [line["set"] for line in lines]
    tips = ["set:N", "measure:N", "claimed:Q", "at least:Q", "exact over claimed:Q", "runs:Q", "verdict:N"]
    base = altair.Chart(altair.InlineData(values=lines)).encode(
        y=altair.Y("set:N", sort=order, title=None, axis=altair.Axis(labelLimit=320)), color=colour, tooltip=tips
    )
    bars = base.mark_bar(height=10, opacity=0.6).encode(
        x=altair.X("found:Q", title="found, as a share of what is claimed")
    )
    diamonds = base.transform_filter("datum.exact !== null").mark_point(shape="diamond", size=90, filled=True)
    claim = altair.Chart(altair.InlineData(values=[{"claimed": 1}])).mark_rule(color="#1a1a1a", strokeDash=[4, 3])
    chart: alt.LayerChart = bars + diamonds.encode(x="exact:Q") + claim.encode(x="claimed:Q")
    laws = [f"{name}: {audit.describe_law()}" for name, audit in audits]
    title = altair.TitleParams("Bars: shown by runs. Diamonds: exact. Dashed: claimed.", subtitle=laws)
    return chart.properties(title=title, width=420)


def _line(name: str, row: SetVerdict, named: bool) -> dict[str, Any]:
    facts = row.to_json()
    label = " + ".join(row.attributes)
    return {
        "set": f"{name}: {label}" if named else label,
        "measure": facts["measure"],
        "claimed": _number(row.claimed),
        "at least": row.lower,
        "exact over claimed": _number(facts["exact_over_claimed"]),
        "runs": facts["runs"],
        "verdict": row.verdict,
        "found": _share(row.statistical.tightness if row.statistical is not None and row.claimed else row.lower),
        "exact": _share(row.exact.tightness if row.exact is not None and row.claimed else None),
    }


def _share(value: float | None) -> float | None:
    return None if value is None else min(value, _WIDEST)


def _number(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


# ---- combinations ----------------------------------------------------------------------------------------------------


def combination_bars(output: HeavyList, schema: Schema) -> alt.LayerChart:
    """The bar plot of frequent combinations. The line is the certified count; a combination's values are in its
    tooltip."""
    altair, heaviest = altair_module(), output.heaviest(_BARS)
    low, high = heaviest.interval()
    numbers = {"count": heaviest.counts.tolist(), "low": low.tolist(), "high": high.tolist()}
    base, bar = _bars(
        _rows(heaviest.names, heaviest.codes, schema, numbers), "count", "rows (noisy count, 95% interval)"
    )
    chart: alt.LayerChart = bar + base.mark_rule(color=_INK, strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    if heaviest.certified is not None:
        row = {"certified": heaviest.certified, "label": f"certified: {heaviest.certified:,}"}
        line = altair.Chart(altair.InlineData(values=[row])).encode(x="certified:Q")
        label = line.mark_text(color=_VERMILION, baseline="bottom").encode(text="label:N", y=altair.value(-4))
        chart += line.mark_rule(color=_VERMILION, strokeDash=[4, 3]) + label
    chart = chart.properties(title=_title("Frequent combinations", heaviest.names))
    return chart


def probability_bars(output: Distribution, schema: Schema) -> alt.Chart:
    """The bar plot of a distribution's most probable combinations."""
    numbers = {"probability": output.probabilities[:_BARS].tolist()}
    _, bar = _bars(_rows(output.names, output.codes[:_BARS], schema, numbers), "probability", "probability")
    chart: alt.Chart = bar.properties(title=_title("Probable combinations", output.names))
    return chart


def altair_module() -> ModuleType:
    try:
        import altair
    except ImportError:
        raise MissingPart("Plots need altair.", fix="Install nabladp[plot].") from None
    return altair


def _bars(rows: list[Row], measure: str, axis: str) -> tuple[alt.Chart, alt.Chart]:
    """The bars of a plot, and what all its marks share."""
    altair = altair_module()
    order = [row["combination"] for row in rows]
    tips = [altair.Tooltip("values:N"), *(f"{name}:Q" for name in (rows[0] if rows else ()) if name not in _WORDS)]
    base = altair.Chart(altair.InlineData(values=rows)).encode(
        y=altair.Y("combination:N", sort=order, title=None), tooltip=tips
    )
    return base, base.mark_bar(color=_BLUE).encode(x=altair.X(f"{measure}:Q", title=axis))


def _title(what: str, names: Sequence[str]) -> Any:
    """A plot's title, with room below it for the label of a line."""
    return altair_module().TitleParams(f"{what} of {len(names):,} attributes", offset=20)


_WORDS = ("combination", "values")


def _rows(names: Sequence[str], codes: Codes, schema: Schema, numbers: Mapping[str, list[Any]]) -> list[Row]:
    return [
        {"combination": _label(names, codes, row, schema), "values": _describe_values(names, codes, row, schema)}
        | {name: column[row] for name, column in numbers.items()}
        for row in range(len(codes))
    ]


def _label(names: Sequence[str], codes: Codes, row: int, schema: Schema) -> str:
    if len(names) > _NAMED:
        return f"combination {row + 1}"
    return _join_labels(names, codes[row], range(len(names)), schema)


def _describe_values(names: Sequence[str], codes: Codes, row: int, schema: Schema) -> str:
    """A combination's values for a plot: all, or where there are many those that differ from the most frequent
    combination."""
    if len(names) <= _LISTED:
        return _join_labels(names, codes[row], range(len(names)), schema)
    if row == 0:
        return "the most frequent one; the others say where they differ from it"
    different = np.flatnonzero(codes[row] != codes[0]).tolist()
    more = f", and {len(different) - _LISTED:,} others" if len(different) > _LISTED else ""
    return f"as the first, but {_join_labels(names, codes[row], different[:_LISTED], schema)}{more}"


def _join_labels(names: Sequence[str], codes: Codes, chosen: Sequence[int], schema: Schema) -> str:
    return ", ".join(f"{schema.title([names[i]])} {schema[names[i]].label(int(codes[i]))}" for i in chosen)
