"""Draws ``error_by_dimension.svg``: error against the number of attributes, for a budget per attribute or per person.

The numbers are measured; they stand in ``error_by_dimension.json``, the last line of a full run of the benchmark::

    python -m bench error_by_dimension | tail -n 1 > docs/error_by_dimension.json
    python docs/make_error_figure.py

Made by hand, so that no plotting library is needed, and narrow, so that it can be read on a phone. Lines differ in
their marks and carry their names, so that no meaning hangs on colour alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("error_by_dimension.svg")
MEASURED = TARGET.with_suffix(".json")
WIDTH, LEFT, RIGHT, PLOT, TOP, APART = 560, 64, 34, 190, 128, 96
BLUE, VERMILION, INK, QUIET, RULE = "#0072B2", "#D55E00", "#1a1a1a", "#555555", "#dddddd"
HALO = {"stroke": "#ffffff", "stroke_width": "4", "paint_order": "stroke"}  # keeps names legible on the grid
FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif\""
PANELS = {
    "projection": ("Projection", "root of the mean squared error of all answers"),
    "mwem": ("MWEM", "mean error of the worst d/2 disjoint answers"),
}
LINES = {"person": ("ε0 for the whole person", VERMILION), "attribute": ("ε0 for each attribute", BLUE)}


def measured() -> dict[str, Any]:
    return dict(json.loads(MEASURED.read_text(encoding="utf-8")))


def text(x: float, y: float, words: str, size: int = 15, **style: str) -> str:
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in ({"fill": INK} | style).items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{attributes}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width:g}"/>'


def step(most: float) -> float:
    """The distance of grid lines: 1, 2 or 5 times a power of ten, at most five of them."""
    power = 10 ** math.floor(math.log10(most / 5))
    return next(power * nice for nice in (1, 2, 5, 10) if most / (power * nice) <= 5)


class Panel:
    """One mechanism: two lines over d, from error 0 up."""

    def __init__(self, figures: Mapping[str, list[dict[str, float]]], top: float) -> None:
        self.figures, self.top, self.bottom = figures, top, top + PLOT
        points = [point for of in figures.values() for point in of]
        highest = max(point["mean"] + 2 * point["error"] for point in points)
        self.step = step(highest)
        self.most = self.step * math.ceil(highest / self.step)
        self.first, self.last = min(p["d"] for p in points), max(p["d"] for p in points)

    def x(self, d: float) -> float:
        return LEFT + 16 + (d - self.first) / (self.last - self.first) * (WIDTH - LEFT - RIGHT - 32)

    def y(self, error: float) -> float:
        return self.bottom - error / self.most * PLOT

    def draw(self, heading: str, what: str) -> list[str]:
        drawn = [
            text(20, self.top - 38, heading, 16, font_weight="600"),
            text(20, self.top - 17, what, 14, fill=QUIET),
        ]
        for number in range(round(self.most / self.step) + 1):
            y = self.y(number * self.step)
            drawn.append(line(LEFT, y, WIDTH - RIGHT, y, RULE))
            drawn.append(text(LEFT - 8, y + 5, f"{number * self.step:g}", 14, fill=QUIET, text_anchor="end"))
        for point in self.figures["attribute"]:
            drawn.append(
                text(self.x(point["d"]), self.bottom + 20, f"{point['d']:g}", 14, fill=QUIET, text_anchor="middle")
            )
        for unit, (name, colour) in LINES.items():
            drawn += self.curve(self.figures[unit], name, colour, square=unit == "person")
        return drawn

    def curve(self, points: list[dict[str, float]], name: str, colour: str, square: bool) -> list[str]:
        places = [(self.x(p["d"]), self.y(p["mean"]), PLOT * 2 * p["error"] / self.most) for p in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        drawn = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>']
        for x, y, reach in places:
            drawn.append(line(x, y - reach, x, y + reach, colour, 1.5))
            if square:
                drawn.append(f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10" fill="{colour}"/>')
            else:
                drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="{colour}"/>')
        grown = f"{name}: × {points[-1]['mean'] / points[0]['mean']:.1f}"
        if square:  # the rising line has room above its left half, the flat one below its right end
            x, y, anchor = places[2][0], places[4][1] - 10, "middle"
        else:
            x, y, anchor = places[-1][0], max(places[-1][1], places[-2][1]) + 30, "end"
        style = HALO | {"fill": colour, "font_weight": "600", "text_anchor": anchor}
        return [*drawn, text(x, y, grown, 15, **style)]


def draw(found: Mapping[str, Any]) -> str:
    first = found["curves"]["mwem"]["attribute"]
    lines = [
        text(20, 32, "Per attribute the error stays, per person it rises", 18, font_weight="600"),
        text(
            20, 56, f"All pairs of d yes/no attributes, {found['rows']:,} rows, ε0 = {found['eps0']:g}", 15, fill=QUIET
        ),
    ]
    top = float(TOP)
    for name, (heading, what) in PANELS.items():
        panel = Panel(found["curves"][name], top)
        lines += panel.draw(heading, what)
        top = panel.bottom + APART
    bottom = top - APART
    lines.append(text(WIDTH / 2, bottom + 44, "number of attributes, d", 15, text_anchor="middle"))
    lines.append(
        text(
            20, bottom + 72, f"Means over {found['tables']} made-up tables; bars: two standard errors.", 14, fill=QUIET
        )
    )
    height = bottom + 90
    body = "\n".join(f"  {each}" for each in lines)
    described = "; ".join(
        f"{PANELS[panel][0]}, {LINES[unit][0]}: {', '.join(format(p['mean'], '.3f') for p in figures)}"
        for panel, units in found["curves"].items()
        for unit, figures in units.items()
    )
    title = (
        f"Error for {first[0]['d']} to {first[-1]['d']} attributes, with a budget per attribute and with one per person"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img" {FONT}>\n'
        f"  <title>{escape(title)}</title>\n  <desc>{escape(described)}</desc>\n"
        f'  <rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    TARGET.write_text(draw(measured()), encoding="utf-8")
