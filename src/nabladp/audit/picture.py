"""Claimed against found: for every set, how much of what is claimed an audit could show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nabladp.errors import MissingPart

if TYPE_CHECKING:
    import altair as alt

    from nabladp.audit.whole import Audit, SetVerdict

_WIDEST = 2.0  # shares beyond are drawn here
_COLOURS = {"consistent": "#0072B2", "refuted": "#D55E00"}


def draw(audits: Sequence[tuple[str, Audit]]) -> alt.LayerChart:
    """A bar up to the statistical lower bound and a diamond at the exact figure; the claim is the line at 1."""
    try:
        import altair as alt
    except ImportError:
        raise MissingPart("Plots need altair.", fix="Install nabladp[plot].") from None
    lines = [_line(name, row, len(audits) > 1) for name, audit in audits for row in audit.rows]
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())), title=None)
    order = [line["set"] for line in lines]
    tips = ["set:N", "measure:N", "claimed:Q", "at least:Q", "exact over claimed:Q", "runs:Q", "verdict:N"]
    base = alt.Chart(alt.InlineData(values=lines)).encode(
        y=alt.Y("set:N", sort=order, title=None, axis=alt.Axis(labelLimit=320)), color=colour, tooltip=tips
    )
    bars = base.mark_bar(height=10, opacity=0.6).encode(
        x=alt.X("found:Q", title="found, as a share of what is claimed")
    )
    diamonds = base.transform_filter("datum.exact !== null").mark_point(shape="diamond", size=90, filled=True)
    claim = alt.Chart(alt.InlineData(values=[{"claimed": 1}])).mark_rule(color="#1a1a1a", strokeDash=[4, 3])
    chart: alt.LayerChart = bars + diamonds.encode(x="exact:Q") + claim.encode(x="claimed:Q")
    return chart.properties(title="Bars: shown by runs. Diamonds: exact. Dashed: claimed.", width=420)


def _line(name: str, row: SetVerdict, named: bool) -> dict[str, Any]:
    told = row.to_json()
    label = " + ".join(row.attributes)
    return {
        "set": f"{name}: {label}" if named else label,
        "measure": told["measure"],
        "claimed": _number(row.claimed),
        "at least": row.lower,
        "exact over claimed": _number(told["exact_over_claimed"]),
        "runs": told["runs"],
        "verdict": row.verdict,
        "found": _share(row.statistical.tightness if row.statistical is not None and row.claimed else row.lower),
        "exact": _share(row.exact.tightness if row.exact is not None and row.claimed else None),
    }


def _share(value: float | None) -> float | None:
    return None if value is None else min(value, _WIDEST)


def _number(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value
