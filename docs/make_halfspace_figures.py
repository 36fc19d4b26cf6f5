"""Draws ``halfspaces_by_dimension.svg`` (accuracy by number of features), and fills in the measured table of
``halfspaces.md``.

The numbers are measured; they stand in ``halfspaces_by_dimension.json``, the last line of a full run of the benchmark::

    python -m bench halfspaces_by_dimension | tail -n 1 > docs/halfspaces_by_dimension.json
    python docs/make_halfspace_figures.py

Made by hand, as ``make_error_figure.py`` is: no plotting library, narrow enough for a phone, and lines that differ in
their marks, which the names above the panels explain.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("halfspaces_by_dimension.svg")
MEASURED = TARGET.with_suffix(".json")
PAGE = TARGET.with_name("halfspaces.md")
WIDTH, LEFT, RIGHT, PLOT, TOP, APART, LEGEND = 560, 64, 34, 200, 270, 96, 24
BLUE, VERMILION, GREEN, INK, QUIET, RULE = "#0072B2", "#D55E00", "#007A5A", "#1a1a1a", "#555555", "#dddddd"
FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif\""
LEAST, MOST = 0.5, 1.0  # half is what a coin gets right
PANELS = {
    "constant_margin": ("Constant margin", "in every row d/{ways:g} more votes for the label than against it"),
    "uniform": ("Uniform rows", "they come closer to the halfspace as d grows"),
}
# Where lines coincide all marks shall show: earlier ones are larger.
LINES = {
    "non_private": ("no privacy", QUIET, "none", "5 4"),
    "record_level": ("record-level, the best of its learners on the test rows", VERMILION, "square", ""),
    "ours": ("ours, private labels", BLUE, "circle", ""),
    "ours_public_labels": ("ours, public labels", GREEN, "triangle", ""),
    "ours_average_public_labels": ('ours, public labels, method="average"', GREEN, "hollow", "2 3"),
}
ROWS = {
    "non_private": "no privacy",
    "record_level": "record-level, best on the test rows",
    "ours": "ours, private labels",
    "ours_gram": '… `"gram"`',
    "ours_average": '… `"average"`',
    "ours_public_labels": "ours, public labels",
    "ours_average_public_labels": '… `"average"`',
}


def measured() -> dict[str, Any]:
    return dict(json.loads(MEASURED.read_text(encoding="utf-8")))


def text(x: float, y: float, words: str, size: int = 15, **style: str) -> str:
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in ({"fill": INK} | style).items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"{attributes}>{escape(words)}</text>'


def path(points: list[tuple[float, float]], colour: str, width: float = 1, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def mark(x: float, y: float, colour: str, shape: str) -> list[str]:
    match shape:
        case "square":
            return [f'<rect x="{x - 8:.1f}" y="{y - 8:.1f}" width="16" height="16" fill="{colour}"/>']
        case "circle":
            return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.5" fill="{colour}" stroke="#ffffff"/>']
        case "triangle" | "hollow":
            corners = f"{x:.1f},{y - 6:.1f} {x - 5.5:.1f},{y + 4:.1f} {x + 5.5:.1f},{y + 4:.1f}"
            look = (colour, "#ffffff") if shape == "triangle" else ("#ffffff", colour)
            return [f'<polygon points="{corners}" fill="{look[0]}" stroke="{look[1]}"/>']
        case _:
            return []


class Panel:
    """One kind of table: lines over log d, from a coin's accuracy up."""

    def __init__(self, curves: Mapping[str, list[dict[str, float]]], top: float) -> None:
        self.curves, self.top, self.bottom = curves, top, top + PLOT
        self.sizes = [point["d"] for point in curves["ours"]]

    def place(self, d: float, accuracy: float) -> tuple[float, float]:
        across = math.log(d / self.sizes[0]) / math.log(self.sizes[-1] / self.sizes[0])
        up = (accuracy - LEAST) / (MOST - LEAST)
        return LEFT + 16 + across * (WIDTH - LEFT - RIGHT - 32), self.bottom - up * PLOT

    def draw(self, heading: str, what: str) -> list[str]:
        drawn = [
            text(20, self.top - 38, heading, 16, font_weight="600"),
            text(20, self.top - 17, what, 14, fill=QUIET),
        ]
        for tenths in range(round(10 * LEAST), round(10 * MOST) + 1):
            _, y = self.place(self.sizes[0], tenths / 10)
            drawn.append(path([(LEFT, y), (WIDTH - RIGHT, y)], RULE))
            drawn.append(text(LEFT - 8, y + 5, f"{tenths * 10}%", 14, fill=QUIET, text_anchor="end"))
        for d in self.sizes:
            x, y = self.place(d, LEAST)
            drawn.append(text(x, y + 20, f"{d:,g}", 14, fill=QUIET, text_anchor="middle"))
        for name, (_, colour, shape, dashes) in LINES.items():
            drawn += self.curve(self.curves[name], colour, shape, dashes)
        return drawn

    def curve(self, points: list[dict[str, float]], colour: str, shape: str, dashes: str) -> list[str]:
        drawn = [path([self.place(p["d"], p["mean"]) for p in points], colour, 2, dashes)]
        for p in points:
            if p["error"]:
                ends = [self.place(p["d"], p["mean"] + way * 2 * p["error"]) for way in (-1, 1)]
                drawn.append(path(ends, colour, 1.5))
            drawn += mark(*self.place(p["d"], p["mean"]), colour, shape)
        return drawn


def legend(top: float) -> list[str]:
    drawn = []
    for number, (name, colour, shape, dashes) in enumerate(LINES.values()):
        y = top + number * LEGEND
        drawn += [path([(20, y), (56, y)], colour, 2, dashes), *mark(38, y, colour, shape)]
        drawn.append(text(66, y + 5, name, 14, fill=colour, font_weight="600"))
    return drawn


def draw(found: Mapping[str, Any]) -> str:
    lines = [
        text(20, 32, "Gains come with public labels, not with private ones", 17, font_weight="600"),
        text(20, 56, f"Accuracy on new rows, {found['rows']:,} to learn from, ε0 = {found['eps0']:g}", 15, fill=QUIET),
        *legend(84),
    ]
    top = float(TOP)
    for name, (heading, what) in PANELS.items():
        panel = Panel(found["curves"][name], top)
        lines += panel.draw(heading, what.format(ways=1 / found["margin"]))
        top = panel.bottom + APART
    bottom = top - APART
    few, many = min(found["tables"]), max(found["tables"])
    lines.append(text(WIDTH / 2, bottom + 44, "number of features, d", 15, text_anchor="middle"))
    told = f"Means over {few} to {many} tables; bars, behind the marks: 2 standard errors."
    lines.append(text(20, bottom + 72, told, 14, fill=QUIET))
    turned, most = f"{found['turned']:.0%}", f"{1 - found['turned']:.0%}"
    ceiling = f"{turned} of the labels are turned: nobody can be right more often than {most}."
    lines.append(text(20, bottom + 92, ceiling, 14, fill=QUIET))
    height = bottom + 110
    body = "\n".join(f"  {each}" for each in lines)
    described = "; ".join(
        f"{heading}, {LINES[line][0]}: {', '.join(format(p['mean'], '.3f') for p in found['curves'][panel][line])}"
        for panel, (heading, _) in PANELS.items()
        for line in LINES
    )
    title = f"Accuracy of halfspaces for {found['d'][0]} to {found['d'][-1]:,} features, labels private or public"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img" {FONT}>\n'
        f"  <title>{escape(title)}</title>\n  <desc>{escape(described)}</desc>\n"
        f'  <rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def filled(page: str, found: Mapping[str, Any]) -> str:
    """The page with its table, which stands between a comment and the next empty line."""
    rows = [f"| | {' | '.join(f'd = {d:,}' for d in found['d'])} |", "|---" * (1 + len(found["d"])) + "|"]
    for panel, (heading, _) in PANELS.items():
        rows.append(f"| **{heading}** {'| ' * len(found['d'])}|")
        for line, name in ROWS.items():
            points = found["curves"][panel][line]
            rows.append(f"| {name} | {' | '.join(shown(point) for point in points)} |")
    block = "\n".join(["<!-- measured: by_dimension -->", *rows]) + "\n"
    return re.sub(r"<!-- measured: by_dimension -->\n(?:\|.*\n)*", lambda _: block, page)


def shown(point: Mapping[str, float]) -> str:
    return f"{point['mean']:.3f} ± {point['error']:.3f}"


if __name__ == "__main__":
    TARGET.write_text(draw(measured()), encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), measured()), encoding="utf-8")
