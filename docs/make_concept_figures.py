"""Draw the pictures of docs/concepts.md and docs/which-mechanism.md: ``python docs/make_concept_figures.py``.

Figures in them are computed from a guarantee; nothing is released. Colours are from the Okabe–Ito palette, and no
meaning hangs on colour alone.
"""

from __future__ import annotations

import math
import re
import textwrap
from html import escape
from pathlib import Path

from nabladp import CDP, Attribute, Guarantee, NoisyMarginals, Schema
from nabladp.mechanisms import MECHANISMS
from nabladp.privacy import Rho

FOLDER = Path(__file__).parent
BLUE, ORANGE, INK, QUIET, RULE, PALE = "#0072B2", "#E69F00", "#1a1a1a", "#555555", "#bbbbbb", "#f3f3f3"
FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif\""
COLUMNS = ("name", "region", "income", "disability")
PEOPLE = (("Ada", "north", "20,000", "no"), ("Ben", "south", "35,000", "yes"), ("Cleo", "north", "50,000", "no"))
CHANGES = (
    ("one attribute", "income", {"income": "90,000"}),
    ("two attributes", "income + disability", {"income": "90,000", "disability": "no"}),
    ("the whole person", "everything", {"region": "west", "income": "90,000", "disability": "no"}),
)
RECORD = ("region", "income", "diagnosis", "medication")
QUESTIONS = (  # what someone wants to know of Ben, which of his attributes that is, and which figure answers it
    ("What does Ben earn?", ("income",), "the figure for income"),
    (
        "Is Ben ill? His medication tells, too.",
        ("diagnosis", "medication"),
        "the figure for both, not for the diagnosis",
    ),
    ("Is Ben in the table at all?", RECORD, "the person's figure (no attribute is public)"),
    ("Do people in the north earn more?", (), "none: it is not about Ben, and not hidden"),
)
DELTA, COUNT, BUDGET = 1e-6, 12, 0.5
ASKED = (1, 2, 3, 6, 12)
TREE = (
    (
        "numbers in tables",
        (
            ("means, totals, quantiles, in SQL", "Statistics"),
            ("some tables, each as it is", "NoisyMarginals"),
            ("many, in agreement with each other", "Projection"),
        ),
    ),
    (
        "whole rows",
        (("a model of every possible record", "MWEM"), ("a table of more columns than that", "Synthesis")),
    ),
    (
        "common in very many columns",
        (("combinations and their counts", "HeavyHitters"), ("their probabilities", "DistributionEstimate")),
    ),
    (
        "a rule for a yes/no column",
        (
            ("a weighted vote of features", "HalfspaceLearner"),
            ("yes for one combination only", "PointLearner"),
            ("yes from some value on", "ThresholdLearner"),
        ),
    ),
    ("correlations, regressions", (("also those not thought of yet", "GramMatrix"),)),
)


def text(x: float, y: float, words: str, size: int = 14, **style: str) -> str:
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in ({"fill": INK} | style).items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{attributes}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, line: str = RULE, **style: str) -> str:
    more = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in style.items())
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} fill="{fill}" stroke="{line}"{more}/>'


def picture(width: int, height: float, title: str, described: str, lines: list[str]) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}" '
        f'height="{height:g}" role="img" {FONT}>\n  <title>{escape(title)}</title>\n'
        f'  <desc>{escape(described)}</desc>\n  <rect width="{width}" height="{height:g}" fill="#ffffff"/>\n'
        f"{body}\n</svg>\n"
    )


# Which tables are compared


def neighbours() -> str:
    """One table, and three others that a guarantee for one attribute, for two, and for the person compares it with."""
    cell, row, left = 84, 26, 20
    lines = [text(left, 30, "Which tables are compared?", 20, font_weight="600")]
    y = 62.0
    for heading, named, changed in (("the table", "", {}), *CHANGES):
        lines.append(text(left, y, heading + (f": {named}" if named else ""), 15, font_weight="600"))
        if changed:
            lines.append(text(left + 4 * cell + 16, y + 2.9 * row, "Ben could have these values", 13, fill=QUIET))
        for line, person in enumerate((COLUMNS, *PEOPLE)):
            for place, value in enumerate(person):
                new = changed.get(COLUMNS[place]) if person[0] == "Ben" else None
                top = y + 10 + line * row
                fill = ORANGE if new is not None else PALE if line == 0 else "#ffffff"
                weight = "600" if line == 0 or new is not None else "400"
                lines.append(box(left + place * cell, top, cell, row, fill))
                lines.append(text(left + place * cell + 7, top + 18, new or value, 13, font_weight=weight))
        y += 4 * row + 46
    told = "; ".join(
        f"{heading} ({named}): Ben's {', '.join(changed)} may differ" for heading, named, changed in CHANGES
    )
    return picture(560, y - 16, "Three notions of neighbouring tables", told, lines)


# What a set costs


def set_figures() -> list[tuple[int, float, float]]:
    """Of all pairs of 12 attributes: how many attributes, ε of such a set, and ε by group privacy from single ones."""
    names = [f"a{i}" for i in range(COUNT)]
    schema = Schema(tuple(Attribute(name, "boolean") for name in names))
    guarantee = NoisyMarginals(CDP(BUDGET), k=2).guarantee(schema, 0)
    one = Rho(guarantee.rho(names[0]))
    alone = Guarantee.linear(names, names, CDP(math.sqrt(2 * float(one.rho))))
    return [(t, guarantee.epsilon(names[:t], DELTA), alone.epsilon(names[:t], DELTA)) for t in ASKED]


def sets(figures: list[tuple[int, float, float]]) -> str:
    left, bar, row, scale = 230, 18, 60, 480 / max(known for *_, known in figures)
    lines = [
        text(20, 30, "What several attributes together cost", 20, font_weight="600"),
        text(
            20,
            54,
            f"All pairs of {COUNT} attributes, ε0 = {BUDGET} per attribute; ε by the tight conversion, δ = 10⁻⁶",
            fill=QUIET,
        ),
    ]
    for number, (size, exact, known) in enumerate(figures):
        y = 76 + number * row
        who = "one attribute" if size == 1 else f"{size} attributes" + (" (the person)" if size == COUNT else "")
        lines.append(text(left - 12, y + 24, who, 14, text_anchor="end"))
        for place, (value, colour, name) in enumerate(
            ((exact, BLUE, "accounted for as a set"), (known, RULE, "group privacy"))
        ):
            top = y + place * (bar + 3)
            lines.append(box(left, top, value * scale, bar, colour, colour))
            label = shown(value) + (f"  {name}" if number == 0 else "")
            lines.append(text(left + value * scale + 8, top + 14, label, 13))
    told = "; ".join(
        f"{size}: {shown(exact)} as a set, {shown(known)} by group privacy" for size, exact, known in figures
    )
    return picture(860, 76 + len(figures) * row + 6, "Epsilon of sets of attributes", told, lines)


def shown(epsilon: float) -> str:
    """Two decimals, rounded up: a promise must not look stronger than it is."""
    return f"{math.ceil(100 * epsilon) / 100:.2f}"


# Which figure answers which question


def question_figures() -> list[float]:
    """ε of what each question asks about, after all pairs of four attributes were counted."""
    schema = Schema(tuple(Attribute(name, "boolean") for name in RECORD))
    guarantee = NoisyMarginals(CDP(BUDGET), k=2).guarantee(schema, 0)
    return [guarantee.epsilon(asked, DELTA) if asked else 0.0 for _, asked, _ in QUESTIONS]


def questions(figures: list[float]) -> str:
    cell, row, left = 92, 92, 20
    lines = [
        text(left, 30, "Which figure answers which question?", 20, font_weight="600"),
        text(
            left,
            54,
            f"All pairs of Ben's four attributes are counted, ε0 = {BUDGET} each; ε by the tight conversion, δ = 10⁻⁶",
            fill=QUIET,
        ),
    ]
    for number, ((question, asked, figure), epsilon) in enumerate(zip(QUESTIONS, figures, strict=True)):
        y = 90 + number * row
        lines.append(text(left, y, question, 15, font_weight="600"))
        for place, name in enumerate(RECORD):
            marked = name in asked
            lines.append(box(left + place * cell, y + 12, cell, 28, ORANGE if marked else "#ffffff"))
            weight = "600" if marked else "400"
            lines.append(text(left + place * cell + 7, y + 31, name, 13, font_weight=weight))
        told = (f"ε = {shown(epsilon)}: " if asked else "") + figure
        lines.append(text(left + 4 * cell + 18, y + 31, told, 14))
    described = "; ".join(
        f"{question} {' + '.join(asked) or 'nothing of his'}: {figure}" for question, asked, figure in QUESTIONS
    )
    return picture(800, 90 + len(QUESTIONS) * row - 30, "Questions, and the figure that answers each", described, lines)


# Which mechanism


def branches() -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """The tree above, and a last branch for other rows of the decision table."""
    placed = {mechanism for _, leaves in TREE for _, mechanism in leaves}
    others = tuple((shortened(wanted), name) for name, wanted in decisions().items() if name not in placed)
    return (*TREE, *((("something else", others),) if others else ()))


def decisions() -> dict[str, str]:
    """What each mechanism is for, from the table in which-mechanism.md."""
    table = (FOLDER / "which-mechanism.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| \[?(\w+)(?:\]\([^)]+\))? \|", table, re.MULTILINE)
    return {name: wanted for wanted, name in rows if name in MECHANISMS}


def shortened(wanted: str) -> str:
    return textwrap.shorten(wanted, 36, placeholder=" …")


def tree() -> str:
    width, row, top = 900, 48, 60
    lines = [text(20, 32, "What do you want to publish?", 20, font_weight="600")]
    y = float(top)
    for wanted, leaves in branches():
        middle = y + row * len(leaves) / 2
        lines.append(box(20, middle - 18, 300, 36, PALE, rx="6"))
        lines.append(text(34, middle + 5, wanted, 14, font_weight="600"))
        for number, (when, mechanism) in enumerate(leaves):
            at = y + row * (number + 0.5)
            lines.append(f'<path d="M320 {middle:g} H345 V{at:g} H365" fill="none" stroke="{RULE}" stroke-width="2"/>')
            lines.append(text(375, at + 5, when, 14))
            lines.append(f'<path d="M650 {at:g} H685" fill="none" stroke="{RULE}" stroke-width="2"/>')
            lines.append(box(685, at - 17, 195, 34, "#ffffff", BLUE, rx="6", stroke_width="2"))
            lines.append(text(782.5, at + 5, mechanism, 14, text_anchor="middle", font_weight="600"))
        y += row * len(leaves) + 12
    told = "; ".join(f"{wanted}, {when}: {mechanism}" for wanted, leaves in branches() for when, mechanism in leaves)
    return picture(width, y + 4, "A decision tree from what is to be published to a mechanism", told, lines)


def pictures() -> dict[str, str]:
    return {
        "neighbours.svg": neighbours(),
        "sets.svg": sets(set_figures()),
        "questions.svg": questions(question_figures()),
        "which_mechanism.svg": tree(),
    }


if __name__ == "__main__":
    for name, drawn in pictures().items():
        (FOLDER / name).write_text(drawn, encoding="utf-8")
