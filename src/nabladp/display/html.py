"""Small pieces of HTML for notebooks. Everything they are given is escaped.

Names come from files. They are shown as they are: no markup, no mathematics (notebooks typeset what stands between two
dollar signs), and one that is written from right to left does not turn the line around.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 40


def fragment(*parts: str) -> str:
    """Pieces together, in an element that notebooks do not look for formulas in."""
    return f'<div class="nabladp tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'


def heading(text: str, detail: str = "") -> str:
    return f"<p><strong>{_shown(text)}</strong>{f' {_shown(detail)}' if detail else ''}</p>"


def line(text: str) -> str:
    return f"<p>{_shown(text)}</p>"


def stamp(text: str | None) -> str:
    """What must not be missed."""
    if not text:
        return ""
    return f'<p style="background:#b3261e;color:#fff;padding:.4em .8em;font-weight:bold">{_shown(text)}</p>'


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1, last: Sequence[str] | None = None
) -> str:
    """The first ``texts`` columns hold names, the others figures. ``last`` is a row that is never left out."""
    listed = list(rows)
    body = [_row(row, texts) for row in listed[:MOST_ROWS]]
    if len(listed) > MOST_ROWS:
        body.append(f'<tr><td colspan="{len(heads)}">… and {len(listed) - MOST_ROWS:,} more</td></tr>')
    if last is not None:
        body.append(_row(last, texts, "th"))
    head = "".join(
        f'<th scope="col" style="text-align:{_side(i, texts)}">{_shown(text)}</th>' for i, text in enumerate(heads)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _row(cells: Sequence[str], texts: int, tag: str = "td") -> str:
    return (
        "<tr>"
        + "".join(f'<{tag} style="text-align:{_side(i, texts)}">{_shown(cell)}</{tag}>' for i, cell in enumerate(cells))
        + "</tr>"
    )


def _side(column: int, texts: int) -> str:
    return "left" if column < texts else "right"


def _shown(text: str) -> str:
    return f"<bdi>{escape(str(text), quote=True)}</bdi>"
