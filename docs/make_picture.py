"""Draw docs/picture.svg from the demo plan's own guarantee: ``python docs/make_picture.py``.

Nothing is released for it: a guarantee needs the schema and the plan only. Colours are from the Okabe–Ito palette, and
every group also has its own heading, so that no meaning hangs on colour alone.
"""

from __future__ import annotations

import math
import tempfile
import tomllib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from nabladp.release import Plan
from nabladp.release.demo import PLAN, SCHEMA

TARGET = Path(__file__).with_name("picture.svg")
WIDTH, LEFT, RIGHT, ROW, BAR = 860, 350, 70, 24, 15
BLUE, ORANGE, VERMILION, INK, QUIET, RULE = "#0072B2", "#E69F00", "#D55E00", "#1a1a1a", "#555555", "#dddddd"
HALO = {"stroke": "#ffffff", "stroke_width": "4", "paint_order": "stroke"}  # keeps figures legible on the grid
FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif\""


def demo_figures() -> dict[str, Any]:
    """What ``nabladp cost plan.toml`` answers for the demo's plan."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        SCHEMA.save(folder / "schema.toml")
        plan = tomllib.loads(PLAN.format(people=100_000))
        del plan["report"]  # maps cost nothing
        return Plan.of(plan, folder).cost().to_json()


def groups(figures: Mapping[str, Any]) -> list[tuple[str, str, list[tuple[str, float]]]]:
    """Heading, colour and bars of each group."""
    attributes = [(name, figure["epsilon"]) for name, figure in figures["attributes"].items()]
    adversaries = [
        (f"{adversary['name']}|{' + '.join(adversary['attributes'])}", adversary["epsilon"])
        for adversary in figures["adversaries"]
    ]
    return [
        ("One attribute", BLUE, attributes),
        ("Two adversaries named in the plan", ORANGE, adversaries),
        ("All protected attributes together", VERMILION, [("all protected attributes", figures["person"]["epsilon"])]),
    ]


def shown(epsilon: float) -> str:
    """Two decimals, rounded up: a promise must not look stronger than it is."""
    return f"{math.ceil(100 * epsilon) / 100:.2f}"


def text(x: float, y: float, words: str, size: int = 14, **style: str) -> str:
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in ({"fill": INK} | style).items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{attributes}>{escape(words)}</text>'


def draw(figures: Mapping[str, Any]) -> str:
    parts = groups(figures)
    top = 84
    bottom = top + sum(30 + sum(ROW + 16 * ("|" in label) for label, _ in bars) + 12 for *_, bars in parts)
    most = 0.5 * -(-max(value for *_, bars in parts for _, value in bars) // 0.5)
    scale = (WIDTH - LEFT - RIGHT) / most
    delta = f"{figures['delta']:.0e}".replace("e-0", "e-")
    exponent = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in delta.split("e-")[1])
    lines = [
        text(20, 32, "What the demo release costs a person in privacy", 20, font_weight="600"),
        text(20, 56, f"ε at δ = 10⁻{exponent} (tight conversion). A shorter bar is better protection.", fill=QUIET),
    ]
    for step in range(int(most / 0.5) + 1):
        x = LEFT + step * 0.5 * scale
        lines.append(f'<line x1="{x:g}" y1="{top}" x2="{x:g}" y2="{bottom}" stroke="{RULE}"/>')
        lines.append(text(x, bottom + 18, f"{step * 0.5:g}", 13, fill=QUIET, text_anchor="middle"))
    lines.append(text(LEFT + most * scale / 2, bottom + 40, "ε", 14, fill=QUIET, text_anchor="middle"))
    y = float(top)
    for heading, colour, bars in parts:
        y += 22
        lines.append(text(20, y, heading, 14, font_weight="600"))
        y += 8
        for label, value in bars:
            name, _, members = label.partition("|")
            middle = y + ROW / 2
            lines.append(text(LEFT - 10, middle + 5, name, 14, text_anchor="end"))
            if members:
                lines.append(text(LEFT - 10, middle + 21, members, 13, text_anchor="end", fill=QUIET))
            bar = f'x="{LEFT}" y="{middle - BAR / 2:g}" width="{value * scale:.1f}" height="{BAR}"'
            lines.append(f'<rect {bar} fill="{colour}"/>')
            lines.append(text(LEFT + value * scale + 8, middle + 5, shown(value), 14, **HALO))
            y += ROW + 16 * bool(members)
        y += 12
    height = bottom + 54
    body = "\n".join(f"  {line}" for line in lines)
    described = "; ".join(f"{label.partition('|')[0]} {shown(value)}" for *_, bars in parts for label, value in bars)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img" {FONT}>\n'
        f"  <title>Epsilon of the demo release, per attribute, per named adversary and per person</title>\n"
        f"  <desc>{escape(described)}</desc>\n"
        f'  <rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    TARGET.write_text(draw(demo_figures()), encoding="utf-8")
