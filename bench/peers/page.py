"""The tables of docs/comparison.md, from the last line of a full run: ``python -m bench.peers.page``.

``results.json`` beside this file is that line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.json")


def tables(results: dict[str, Any]) -> str:
    """One for each task: who, errors at every ε0 at equal cost per person or per attribute, time and memory."""
    tasks = dict.fromkeys(row["task"] for row in results["rows"])
    return "\n\n".join(table(task, [row for row in results["rows"] if row["task"] == task]) for task in tasks)


def table(task: str, rows: list[dict[str, Any]]) -> str:
    epsilons = sorted({row["epsilon"] for row in rows})
    listed = ", ".join(f"{epsilon:g}" for epsilon in epsilons)
    lines = [
        f"| {task}, ε0 = {listed} | equal cost per person | equal cost per attribute | s | MB |",
        "|---|---|---|---|---|",
    ]
    for who in dict.fromkeys(row["who"] for row in rows):
        own = {(row["equal"], row["epsilon"]): row for row in rows if row["who"] == who}
        ours = ("attribute", epsilons[0]) in own
        person, attribute = (
            ", ".join(error(own.get((equal, epsilon))) for epsilon in epsilons)
            for equal in ("person", "attribute" if ours else "person")
        )
        done = [row for row in own.values() if "processor" in row]
        seconds = f"{max(row['processor'] for row in done):.2g}" if done else "–"
        memory = f"{max(row['peak_mb'] for row in done):.0f}" if done else "–"
        lines.append(f"| {'**' + who + '**' if ours else who} | {person} | {attribute} | {seconds} | {memory} |")
    return "\n".join(lines)


def error(row: dict[str, Any] | None) -> str:
    """Or why there is none; nothing where it was not tried."""
    if row is None:
        return "–"
    return f"{row['error']:.2g}" if "error" in row else str(row["why"])


if __name__ == "__main__":
    print(tables(json.loads(RESULTS.read_text(encoding="utf-8"))))
