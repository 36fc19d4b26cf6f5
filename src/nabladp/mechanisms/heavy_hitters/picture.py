"""The bars of a list of combinations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nabladp.errors import MissingPart
from nabladp.schema import Schema

if TYPE_CHECKING:
    import altair as alt

    from nabladp.mechanisms.heavy_hitters.output import HeavyList

_NAMED = 4  # attributes that a label can hold


def bars(found: HeavyList, schema: Schema) -> alt.LayerChart:
    try:
        import altair as alt
    except ImportError:
        raise MissingPart("Plots need altair.", fix="Install nabladp[plot].") from None
    rows = _rows(found, schema)
    order = [row["combination"] for row in rows]
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=alt.Y("combination:N", sort=order, title=None))
    bar = base.mark_bar(color="#0072B2").encode(x=alt.X("count:Q", title="rows (noisy count, 95% interval)"))
    whiskers = base.mark_rule(color="#1a1a1a", strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    chart: alt.LayerChart = bar + whiskers
    if found.certified is not None:
        line = alt.Chart(alt.InlineData(values=[{"certified": found.certified}]))
        chart += line.mark_rule(color="#D55E00", strokeDash=[4, 3]).encode(x="certified:Q")
    return chart.properties(title=f"Frequent combinations of {len(found.names):,} attributes")


def _rows(found: HeavyList, schema: Schema) -> list[dict[str, Any]]:
    low, high = found.interval()
    labels = [_label(found, schema, row) for row in range(len(found))]
    columns = zip(labels, found.counts.tolist(), low.tolist(), high.tolist(), strict=True)
    return [{"combination": a, "count": b, "low": c, "high": d} for a, b, c, d in columns]


def _label(found: HeavyList, schema: Schema, row: int) -> str:
    if len(found.names) > _NAMED:
        return f"combination {row + 1}"
    named = zip(found.names, found.codes[row].tolist(), strict=True)
    return ", ".join(f"{name} {schema[name].label(code)}" for name, code in named)
