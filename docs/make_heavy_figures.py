"""Draws ``heavy_hitters.svg`` (the certified count by number of attributes, and the hard instance), and fills in the
measured tables of ``heavy-hitters.md``.

The numbers are measured; they stand in ``heavy_hitters.json``, the last line of a full run of the benchmark::

    python -m bench heavy_hitters | tail -n 1 > docs/heavy_hitters.json
    python docs/make_heavy_figures.py

Made by hand, as ``make_error_figure.py`` is: no plotting library, narrow enough for a phone, and lines that differ in
their marks and carry their names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("heavy_hitters.svg")
MEASURED = TARGET.with_suffix(".json")
PAGE = TARGET.with_name("heavy-hitters.md")
WIDTH, LEFT, RIGHT, PLOT, TOP, APART = 560, 64, 34, 190, 132, 112
BLUE, VERMILION, INK, QUIET, RULE, SHADE = "#0072B2", "#D55E00", "#1a1a1a", "#555555", "#dddddd", "#e9e9e9"
HALO = {"stroke": "#ffffff", "stroke_width": "4", "paint_order": "stroke"}  # keeps names legible on the grid
FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif\""
NAMES = {"pure": ("pure", VERMILION), "cdp": ("concentrated", BLUE)}
Point = tuple[float, float]


def measured() -> dict[str, Any]:
    return dict(json.loads(MEASURED.read_text(encoding="utf-8")))


def text(x: float, y: float, words: str, size: int = 15, **style: str) -> str:
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in ({"fill": INK} | style).items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"{attributes}>{escape(words)}</text>'


def named(x: float, y: float, words: str, colour: str, anchor: str = "middle") -> str:
    return text(x, y, words, 14, **HALO, fill=colour, font_weight="600", text_anchor=anchor)


def line(start: Point, end: Point, colour: str, width: float = 1, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def path(points: Sequence[Point], colour: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2.5"{dashed}/>'


def mark(place: Point, colour: str, square: bool, hollow: bool = False) -> str:
    style = f'fill="{"#ffffff" if hollow else colour}" stroke="{colour}" stroke-width="1.5"'
    x, y = place
    if square:
        return f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" {style}/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {style}/>'


class Panel:
    """A plot over a logarithmic axis, from 0 up."""

    def __init__(self, top: float, first: float, last: float, most: float) -> None:
        self.top, self.bottom, self.first, self.last, self.most = top, top + PLOT, first, last, most

    def place(self, x: float, y: float) -> Point:
        across = math.log(x / self.first) / math.log(self.last / self.first)
        return LEFT + 16 + across * (WIDTH - LEFT - RIGHT - 32), self.bottom - y / self.most * PLOT

    def places(self, points: Sequence[Point]) -> list[Point]:
        return [self.place(x, y) for x, y in points]

    def frame(
        self, heading: str, what: str, ticks: Sequence[float], rules: Sequence[float], show: Callable[[float], str]
    ) -> list[str]:
        drawn = [
            text(20, self.top - 38, heading, 16, font_weight="600"),
            text(20, self.top - 17, what, 14, fill=QUIET),
        ]
        for rule in rules:
            _, y = self.place(self.first, rule)
            drawn.append(line((LEFT, y), (WIDTH - RIGHT, y), RULE))
            drawn.append(text(LEFT - 8, y + 5, show(rule), 14, fill=QUIET, text_anchor="end"))
        for tick in ticks:
            x, y = self.place(tick, 0)
            drawn.append(text(x, y + 20, f"{tick:,g}", 14, fill=QUIET, text_anchor="middle"))
        return drawn


def certified(found: Mapping[str, Any], top: float) -> list[str]:
    """Straight lines over log d, and the one that leaves the picture."""
    rows = found["by_d"]
    sizes = [row["d"] for row in rows["pure"]]
    step = 50
    most = step * math.ceil(max(row["certified"] for row in rows["pure"]) / step)
    panel = Panel(top, sizes[0], sizes[-1], most)
    drawn = panel.frame(
        "Every combination with at least so many rows is found",
        "certified beforehand; hollow: the rarest found in 95% of runs",
        sizes,
        range(0, most + 1, step),
        lambda rule: f"{rule:g}",
    )
    standard = [(d, d / found["eps0"]) for d in (*range(sizes[0], most, 4), most) if d / found["eps0"] <= most]
    drawn.append(path(panel.places(standard), QUIET, "5 4"))
    end = panel.place(*standard[-1])
    drawn.append(named(end[0] - 12, end[1] + 22, "standard DP: d/ε", QUIET, "end"))
    for notion, (name, colour) in NAMES.items():
        square = notion == "pure"
        promised = panel.places([(row["d"], row["certified"]) for row in rows[notion]])
        seen = panel.places([(row["d"], row["smallest_found"]) for row in rows[notion]])
        drawn.append(path(promised, colour))
        drawn += [mark(place, colour, square, hollow=True) for place in seen]
        drawn += [mark(place, colour, square) for place in promised]
        x, y = promised[-1] if square else promised[-2]
        drawn.append(named(x, y + (44 if square else -14), name, colour, "end" if square else "middle"))
    drawn.append(text(WIDTH / 2, panel.bottom + 44, "number of yes/no attributes, d", 15, text_anchor="middle"))
    return drawn


def hard(found: Mapping[str, Any], notion: str, top: float) -> list[str]:
    """What no algorithm can do is shaded; our curve has to stay out of it."""
    name, colour = NAMES[notion]
    of = found["hard_instance"][notion]
    last = of["curve"][-1]["count"]
    panel = Panel(top, 1, last, 1.0)
    ceiling = [(count, share) for count, share in enumerate(of["ceiling"]) if count]
    region = panel.places([(1, 1), *ceiling, (ceiling[-1][0], 1)])
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in region)
    drawn = [f'<polygon points="{corners}" fill="{SHADE}"/>']
    drawn += panel.frame(
        f"The hard instance, {name}",
        "share of runs that name the right attribute",
        [2**power for power in range(math.floor(math.log2(last)) + 1)],
        (0, 0.25, 0.5, 0.75, 1),
        lambda rule: f"{rule:.0%}",
    )
    x, y = panel.place(of["certified"], 1)
    drawn.append(line((x, y - 8), (x, panel.bottom), INK, 1.5, "4 3"))
    drawn.append(text(x - 84, y + PLOT * 0.36, f"certified from {of['certified']} on", 14, **HALO, text_anchor="end"))
    drawn.append(text(LEFT + 26, y + 22, "no algorithm can", 14, fill=QUIET))
    places = panel.places([(point["count"], point["success"]) for point in of["curve"]])
    drawn.append(path(places, colour))
    return [*drawn, *(mark(place, colour, notion == "pure") for place in places)]


def draw(found: Mapping[str, Any]) -> str:
    instance = found["hard_instance"]
    lines = [
        text(20, 32, "Frequent combinations of many attributes", 18, font_weight="600"),
        text(20, 56, f"{found['n']:,} rows, ε0 = {found['eps0']:g} for each attribute", 15, fill=QUIET),
    ]
    lines += certified(found, TOP)
    top = TOP
    for notion in NAMES:
        top += PLOT + APART
        lines += hard(found, notion, top)
    bottom = top + PLOT
    lines.append(text(WIDTH / 2, bottom + 44, "rows with a one", 15, text_anchor="middle"))
    told = f"Hard instance: {instance['d']:,} attributes, {instance['n']:,} rows, {instance['runs']} runs a point."
    lines.append(text(20, bottom + 72, told, 14, fill=QUIET))
    height = bottom + 90
    body = "\n".join(f"  {each}" for each in lines)
    title = f"Certified counts for {found['by_d']['pure'][0]['d']} to {found['by_d']['pure'][-1]['d']} attributes"
    described = "; ".join(
        f"{NAMES[notion][0]}: {', '.join(str(row['certified']) for row in found['by_d'][notion])}; hard instance: "
        + ", ".join(f"{point['success']:.0%} at {point['count']}" for point in instance[notion]["curve"])
        for notion in NAMES
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img" {FONT}>\n'
        f"  <title>{escape(title)}</title>\n  <desc>{escape(described)}</desc>\n"
        f'  <rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


# Tables of the page, each between a comment with its name and the next empty line


def tables(found: Mapping[str, Any]) -> dict[str, list[Sequence[Any]]]:
    """Rows with their heads."""
    both = tuple(reversed(NAMES))
    by_d, instance, time, memory = (found[key] for key in ("by_d", "hard_instance", "pass_ratio_each", "rss_each"))
    made: dict[str, list[Sequence[Any]]] = {
        "by_d": [("d", "concentrated", "… found", "pure", "… found", "per person, concentrated", "pure", "d/ε")],
        "growth": [("", "certified count, each time d doubles", "explained by a line in log d")],
        "hard": [("", "half is excluded below", "most right below it", "certified", "least right from there on")],
        "real": [
            ("table", "", "ε0", "certified", "truly that frequent", "recall", "precision", "listed", "of these sure")
        ],
        "time": [("", "times one sum", "seconds", "of these planning", "memory at 10 times the rows", "MiB, at most")],
    }
    for c, p in zip(by_d["cdp"], by_d["pure"], strict=True):
        ours = [of[key] for of in (c, p) for key in ("certified", "smallest_found")]
        made["by_d"].append([c["d"], *ours, c["per_person"], p["per_person"], c["standard_dp"]])
    for notion in both:
        name, of, took, held = NAMES[notion][0], instance[notion], time[notion], memory[notion]
        made["growth"].append([name, f"+ {found['slope_log_d'][notion]:g}", f"{found['r2_log_d_each'][notion]:.1%}"])
        below, above = f"{of['below_bound']:.0%}", f"{of['from_certified']:.0%}"
        made["hard"].append([name, of["bound"], below, of["certified"], above])
        times = [took["ratio"], took["seconds"], took["planning"]]
        made["time"].append([name, *times, f"× {held['ratio']:.2f}", round(held["rss_mib_10x"])])
    for of in found["real"] or ():
        counts = [of["certified"], of["heavy"], of["recall"], of["precision"], round(of["listed"]), round(of["sure"])]
        made["real"].append([of["table"], NAMES[of["notion"]][0], f"{of['eps0']:g}", *counts])
    if pages := found["msnbc_epsilon"]:
        made["msnbc"] = [("", "one column", "all sixteen")]
        rho = [f"ε = {pages['cdp'][key]:.3g} (ρ = {pages['cdp'][f'rho_{key}']:.3g})" for key in pages["pure"]]
        made["msnbc"].append(["concentrated, δ = 10⁻⁶", *rho])
        made["msnbc"].append(["pure", *(f"ε = {value:.3g}" for value in pages["pure"].values())])
    return made


def filled(page: str, found: Mapping[str, Any]) -> str:
    for name, rows in tables(found).items():
        head, *body = ["| " + " | ".join(map(shown, row)) + " |" for row in rows]
        lines = [f"<!-- measured: {name} -->", head, "|---" * len(rows[0]) + "|", *body]
        block = "\n".join(lines).replace("\\", r"\\") + "\n"
        page = re.sub(rf"<!-- measured: {name} -->\n(?:\|.*\n)*", block, page)
    return page


def shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    TARGET.write_text(draw(measured()), encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), measured()), encoding="utf-8")
