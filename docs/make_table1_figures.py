"""Draws a figure for every row of ``evidence/table1.json``, and fills in the measured tables of ``evidence/table1.md``.

The numbers are measured; they are the last line of a full run of the benchmark::

    python -m bench table1 | tail -n 1 > docs/evidence/table1.json
    python docs/make_table1_figures.py

Made by hand, as the other figures are. Both axes are logarithmic, so that a power of d is a straight line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from make_heavy_figures import (
    BLUE,
    FONT,
    LEFT,
    QUIET,
    RIGHT,
    RULE,
    VERMILION,
    WIDTH,
    Point,
    line,
    mark,
    path,
    text,
)

FOLDER = Path(__file__).with_name("evidence")
MEASURED, PAGE = FOLDER / "table1.json", FOLDER / "table1.md"
PLOT, APART, LEGEND, DOTS = 200, 50, 22, "2 4"
COLOURS = {"attribute": BLUE, "person": VERMILION, "none": QUIET}
BUDGETS = {"attribute": "each attribute", "person": "the whole person", "none": "no privacy"}
SYMBOLS = {"d": "d", "k": "k", "n": "n", "epsilon": "ε", "alpha": "α", "gamma": "γ", "gamma_prime": "γ′"}
NEAR_BY = 8  # a bound further above what was measured would leave no room for it
TITLES = {
    "marginals_avg": "k-way marginals, average error",
    "marginals_max": "k-way marginals, maximum error",
    "histogram": "Histograms",
    "halfspaces": "Robust halfspaces",
}
HEADLINES = {
    "marginals_avg_d": "marginals, average: error with 800 rows, about 0.03",
    "marginals_avg_d_few_rows": "… with 120 rows, about 0.1",
    "marginals_max_d": "marginals, maximum: error with 500 rows, about 0.1",
    "marginals_max_d_rows": "… rows needed for α = 0.1",
    "halfspace_d": "robust halfspaces: rows needed",
}


def measured() -> dict[str, Any]:
    return dict(json.loads(MEASURED.read_text(encoding="utf-8")))


def settings(curve: Mapping[str, Any]) -> dict[str, Any]:
    """What was held fixed, in symbols; the rest of it tells of how it was measured."""
    return {SYMBOLS[key]: value for key, value in curve["fixed"].items() if key in SYMBOLS}


def in_words(of: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {number(value)}" for key, value in of.items())


def number(value: Any) -> str:
    return value.replace("gamma", "γ") if isinstance(value, str) else f"{value:,.10g}"


def power(curve: Mapping[str, Any]) -> str:
    return f"{SYMBOLS[curve['against']]}^{signed(curve['exponent']['measured'])}"


def signed(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


# Figures


def panels(row: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """The curves against d, those together that share what they show and their settings."""
    together: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for curve in row["curves"]:
        if curve["against"] == "d":
            together.setdefault((curve["what"], in_words(settings(curve))), []).append(curve)
    return list(together.values())


class Panel:
    """Some curves over logarithmic axes, their names above them."""

    def __init__(self, curves: Sequence[Mapping[str, Any]], top: float) -> None:
        self.curves, self.top = curves, top + 54 + LEGEND * len(curves)
        self.bottom = self.top + PLOT
        points = [point for curve in curves for point in curve["points"]]
        self.xs = sorted({point["x"] for point in points})
        values = [point["mean"] for point in points] + [each for curve in curves for _, each in bound(curve)]
        self.low, self.high = min(values) / 1.15, max(values) * 1.15

    def place(self, x: float, y: float) -> Point:
        across = math.log(x / self.xs[0]) / math.log(self.xs[-1] / self.xs[0])
        up = math.log(max(y, self.low) / self.low) / math.log(self.high / self.low)
        return LEFT + 16 + across * (WIDTH - LEFT - RIGHT - 32), self.bottom - up * PLOT

    def draw(self) -> list[str]:
        what, fixed = self.curves[0]["what"], settings(self.curves[0])
        first = self.top - LEGEND * len(self.curves) - 34
        drawn = [text(20, first, f"{what[0].upper()}{what[1:]} against d: {in_words(fixed)}", 15, font_weight="600")]
        for rule in rules(self.low, self.high):
            _, y = self.place(self.xs[0], rule)
            drawn.append(line((LEFT, y), (WIDTH - RIGHT, y), RULE))
            drawn.append(text(LEFT - 6, y + 5, rounded(rule), 13, fill=QUIET, text_anchor="end"))
        for x in labelled(self.xs):
            place = self.place(x, self.low)
            drawn.append(text(place[0], place[1] + 20, number(x), 14, fill=QUIET, text_anchor="middle"))
        seen: list[str] = []
        for index, curve in enumerate(self.curves):
            drawn += self.curve(curve, first + LEGEND * (index + 1), seen.count(curve["unit"]))
            seen.append(curve["unit"])
        return drawn

    def curve(self, curve: Mapping[str, Any], beside: float, earlier: int) -> list[str]:
        """The line with its name; a second one for the same budget is dashed and hollow, a third one dotted."""
        colour, square = COLOURS[curve["unit"]], curve["unit"] == "person"
        dashes, hollow = ("", "7 4", "3 4", "9 3 2 3")[earlier], earlier > 0
        places = [self.place(point["x"], point["mean"]) for point in curve["points"]]
        drawn = [path(places, colour, dashes)]
        if promised := bound(curve):
            drawn.append(path([self.place(*each) for each in promised], colour, DOTS).replace('"2.5"', '"1.5"'))
        for point, place in zip(curve["points"], places, strict=True):
            ends = [self.place(point["x"], point["mean"] + way * 2 * point["error"]) for way in (-1, 1)]
            drawn += [line(ends[0], ends[1], colour, 1.5), mark(place, colour, square, hollow)]
        drawn += [path([(20, beside - 5), (50, beside - 5)], colour, dashes)]
        drawn += [mark((35, beside - 5), colour, square, hollow)]
        return [*drawn, text(58, beside, f"{legend(curve)}: {power(curve)}", 14, fill=colour, font_weight="600")]


def legend(curve: Mapping[str, Any]) -> str:
    return {"attribute": "attribute, ", "person": "person, "}.get(curve["unit"], "") + str(curve["name"])


def bound(curve: Mapping[str, Any]) -> list[Point]:
    """The mechanism's own bound, where it is in sight."""
    points = curve["points"]
    if any(point["bound"] is None or point["bound"] > NEAR_BY * point["mean"] for point in points):
        return []
    return [(point["x"], point["bound"]) for point in points]


def rules(low: float, high: float) -> Iterable[float]:
    """1, 2 and 5 times powers of ten; of these only the powers where there would be many."""
    wide = high / low > 300
    for decade in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for nice in (1,) if wide else (1, 2, 5):
            if low <= nice * 10.0**decade <= high:
                yield nice * 10.0**decade


def rounded(rule: float) -> str:
    return f"{rule / 1e6:,g} M" if rule >= 1e6 else number(rule)


def labelled(xs: Sequence[float]) -> Sequence[float]:
    return xs if len(xs) < 8 else xs[::2]


def draw(row: Mapping[str, Any]) -> str:
    title = TITLES[row["row"]]
    lines, top = [text(20, 32, title, 18, font_weight="600")], 44.0
    for curves in panels(row):
        panel = Panel(curves, top)
        lines += panel.draw()
        top = panel.bottom + APART
    lines.append(text(WIDTH / 2, top, "number of attributes, d", 15, text_anchor="middle"))
    lines.append(text(20, top + 28, "Both axes logarithmic; bars: two standard errors; thin dots: the", 14, fill=QUIET))
    lines.append(text(20, top + 47, "mechanism's own bound, where it is near.", 14, fill=QUIET))
    height = top + 64
    told = (
        f"{legend(curve)}, {curve['what']} ({in_words(settings(curve))}): "
        + ", ".join(f"{number(point['mean'])} at d = {number(point['x'])}" for point in curve["points"])
        for curves in panels(row)
        for curve in curves
    )
    body = "\n".join(f"  {each}" for each in lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img" {FONT}>\n'
        f"  <title>{escape(title)} by number of attributes</title>\n  <desc>{escape('; '.join(told))}</desc>\n"
        f'  <rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def pictures(found: Mapping[str, Any]) -> dict[Path, str]:
    return {FOLDER / f"table1_{row['row']}.svg": draw(row) for row in found["rows"]}


# Tables of the page, each between a comment with its name and the next empty line


def exponents(row: Mapping[str, Any]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("", "fixed", "ε for", "", "measured (95%)", "own bound", "paper")]
    for curve in sorted(row["curves"], key=lambda curve: list(SYMBOLS).index(curve["against"])):
        of, side = curve["exponent"], curve["fixed"].get("side")
        what = f"{curve['what']} against {SYMBOLS[curve['against']]}"
        fixed = in_words(settings(curve)) + (f"; {side} term" if side else "")
        slope = f"{signed(of['measured'])} ({signed(of['low'])} … {signed(of['high'])})"
        last = (signed(of["predicted"]), of["paper"].replace("-", "−"))
        rows.append((what, fixed, BUDGETS[curve["unit"]], curve["name"], slope, *last))
    return rows


def headlines(found: Mapping[str, Any]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("exponent of d", "each attribute", "own bound", "the whole person", "own bound")]
    for key, words in HEADLINES.items():
        mine, person = found[key], found.get(f"{key}_person", {})
        each = [signed(of.get(which)) for of in (mine, person) for which in ("measured", "predicted")]
        rows.append((words, *each))
    return rows


def tables(found: Mapping[str, Any]) -> dict[str, list[Sequence[str]]]:
    made = {row["row"]: exponents(row) for row in found["rows"]}
    made["headlines"] = headlines(found)
    needed = found["marginals_max_d_rows"]
    gaps = f"{found['exponent_gap_max']:.2f} (line 4: {abs(needed['measured'] - needed['predicted']):.2f})"
    made["targets"] = [
        ("", "target", "measured"),
        ("largest gap, per attribute, lines 1, 2, 3 and 5 above", "≤ 0.15", gaps),
        ("histogram: r² of rows over log d", "≥ 0.95", f"{found['histogram_logd_r2']:.3f}"),
    ]
    names = {"python": "Python", "numpy": "numpy", "scipy": "scipy", "nabladp": "nabladp"}
    made["versions"] = [
        (*names.values(), "cores"),
        tuple(str(found["versions"][key]) for key in (*names, "cores")),
    ]
    return made


def filled(page: str, found: Mapping[str, Any]) -> str:
    for name, rows in tables(found).items():
        head, *body = (f"| {' | '.join(row)} |" for row in rows)
        block = "\n".join([f"<!-- measured: {name} -->", head, "|---" * len(rows[0]) + "|", *body, ""])
        page = re.sub(rf"<!-- measured: {name} -->\n(?:\|.*\n)*", lambda _, block=block: block, page)
    for row in found["rows"]:
        block = "\n".join([f"<!-- notes: {row['row']} -->", *(f"- {note}" for note in row.get("notes", ())), ""])
        page = re.sub(rf"<!-- notes: {row['row']} -->\n(?:- .*\n)*", lambda _, block=block: block, page)
    return page


if __name__ == "__main__":
    for file, drawn in pictures(measured()).items():
        file.write_text(drawn, encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), measured()), encoding="utf-8")
