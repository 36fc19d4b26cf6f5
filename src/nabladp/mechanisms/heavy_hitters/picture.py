"""The bars of a list of combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.errors import MissingPart
from nabladp.schema import Schema

if TYPE_CHECKING:
    import altair as alt

    from nabladp.mechanisms.heavy_hitters.output import HeavyList

_NAMED = 4  # attributes that a label can hold
_TOLD = 12  # … and a tooltip
_BLUE, _VERMILION, _INK = "#0072B2", "#D55E00", "#1a1a1a"
Codes = NDArray[np.int64]
Row = dict[str, Any]


def bars(found: HeavyList, schema: Schema) -> alt.LayerChart:
    """Most frequent first. The line is the certified count; a combination's values are in its tooltip."""
    altair, (low, high) = _altair(), found.interval()
    numbers = {"count": found.counts.tolist(), "low": low.tolist(), "high": high.tolist()}
    base, bar = _bars(_rows(found.names, found.codes, schema, numbers), "count", "rows (noisy count, 95% interval)")
    chart: alt.LayerChart = bar + base.mark_rule(color=_INK, strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    if found.certified is not None:
        row = {"certified": found.certified, "label": f"certified: {found.certified:,}"}
        line = altair.Chart(altair.InlineData(values=[row])).encode(x="certified:Q")
        label = line.mark_text(color=_VERMILION, baseline="bottom").encode(text="label:N", y=altair.value(-4))
        chart += line.mark_rule(color=_VERMILION, strokeDash=[4, 3]) + label
    chart = chart.properties(title=_title("Frequent combinations", found.names))
    return chart


def probability_bars(names: Sequence[str], codes: Codes, probabilities: Sequence[float], schema: Schema) -> alt.Chart:
    """Most probable first."""
    _, bar = _bars(_rows(names, codes, schema, {"probability": list(probabilities)}), "probability", "probability")
    chart: alt.Chart = bar.properties(title=_title("Probable combinations", names))
    return chart


def _altair() -> ModuleType:
    try:
        import altair
    except ImportError:
        raise MissingPart("Plots need altair.", fix="Install nabladp[plot].") from None
    return altair


def _bars(rows: list[Row], measure: str, axis: str) -> tuple[alt.Chart, alt.Chart]:
    """What all marks share, and the bars."""
    altair = _altair()
    order = [row["combination"] for row in rows]
    told = [altair.Tooltip("values:N"), *(f"{name}:Q" for name in (rows[0] if rows else ()) if name not in _WORDS)]
    base = altair.Chart(altair.InlineData(values=rows)).encode(
        y=altair.Y("combination:N", sort=order, title=None), tooltip=told
    )
    return base, base.mark_bar(color=_BLUE).encode(x=altair.X(f"{measure}:Q", title=axis))


def _title(what: str, names: Sequence[str]) -> Any:
    """With room below it for the label of a line."""
    return _altair().TitleParams(f"{what} of {len(names):,} attributes", offset=20)


# ---- in words ------------------------------------------------------------------------------------------------------

_WORDS = ("combination", "values")


def _rows(names: Sequence[str], codes: Codes, schema: Schema, numbers: Mapping[str, list[Any]]) -> list[Row]:
    return [
        {"combination": _label(names, codes, row, schema), "values": _told(names, codes, row, schema)}
        | {name: column[row] for name, column in numbers.items()}
        for row in range(len(codes))
    ]


def _label(names: Sequence[str], codes: Codes, row: int, schema: Schema) -> str:
    if len(names) > _NAMED:
        return f"combination {row + 1}"
    return _worded(names, codes[row], range(len(names)), schema)


def _told(names: Sequence[str], codes: Codes, row: int, schema: Schema) -> str:
    """All values, or where there are many those that are not as in the most frequent combination, the first one."""
    if len(names) <= _TOLD:
        return _worded(names, codes[row], range(len(names)), schema)
    if row == 0:
        return "the most frequent one; the others say where they differ from it"
    other = np.flatnonzero(codes[row] != codes[0]).tolist()
    more = f", and {len(other) - _TOLD:,} others" if len(other) > _TOLD else ""
    return f"as the first, but {_worded(names, codes[row], other[:_TOLD], schema)}{more}"


def _worded(names: Sequence[str], codes: Codes, chosen: Sequence[int], schema: Schema) -> str:
    return ", ".join(f"{names[i]} {schema[names[i]].label(int(codes[i]))}" for i in chosen)
