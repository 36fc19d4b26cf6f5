"""What is kept of every run, and what is told of them: a row for each way of doing a task, ratios between rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.peers.processes import Library, Outcome, Runner

PERSON, ATTRIBUTE, SAME_NUMBER, STRICT = "person", "attribute", "same number", "(ε, 10⁻⁶)"
WORDS = {
    PERSON: "same guarantee for a person",
    ATTRIBUTE: "same guarantee for an attribute",
    SAME_NUMBER: "same number for a person, each with its own neighbours",
    STRICT: "same (ε, 10⁻⁶) for a person, as pure ε would be read",
}


@dataclass(frozen=True)
class Row:
    """The mean over some seeds; ``error`` is None where it was stopped or could not do it, and ``why`` says so."""

    task: str
    who: str
    epsilon: float
    equal: str  # what of ours is held equal; a peer has one figure, which stands for a person and every attribute
    error: float | None
    runs: int
    seconds: float | None = None
    processor: float | None = None
    peak_mb: float | None = None
    person: float | None = None  # ρ of a person over the ρ that is held equal
    why: str = ""

    def told(self) -> dict[str, Any]:
        """Without what is not known."""
        rounded = {name: _short(value) for name, value in self.__dict__.items()}
        return {name: value for name, value in rounded.items() if value is not None and value != ""}


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def measured(
    runner: Runner,
    library: Library,
    task: str,
    epsilon: float,
    equal: str,
    given: Iterable[dict[str, Any]],
    error: Callable[[dict[str, Any]], float],
    limit: int,
    rho: float | None = None,
) -> Row:
    """One row: a run for each of ``given``, no further than the first that fails."""
    runs: list[Outcome] = []
    for each in given:
        runs.append(runner.alone(library, limit, **each))
        if runs[-1].found is None:
            return said(Row(task, library.name, epsilon, equal, None, len(runs), why=runs[-1].why))
    found = [run.found for run in runs if run.found is not None]

    def mean(name: str) -> float:
        return statistics.fmean(getattr(run, name) for run in runs)

    return said(
        Row(
            *(task, library.name, epsilon, equal),
            error=statistics.fmean(error(each) for each in found),
            runs=sum(len(np.atleast_2d(each.get("counts", 0))) for each in found),
            seconds=mean("seconds"),
            processor=mean("processor"),
            peak_mb=max(run.peak_mb or 0.0 for run in runs),
            person=float(found[0]["person"]) / rho if rho and "person" in found[0] else None,
        )
    )


def said(row: Row) -> Row:
    known = row.why if row.error is None else f"{row.error:.5f}, {row.processor:.1f} s, {row.peak_mb:.0f} MB"
    print(f"{row.task}, ε0 = {row.epsilon:g}, {row.who} ({row.equal}): {known}", flush=True)
    return row


Ratio = tuple[str, str, str, float, float]  # task, ours, peer, ε0, our error over theirs


def ratios(rows: list[Row], equal: str, pairs: Iterable[tuple[str, str]]) -> list[Ratio]:
    """Wherever both are known."""
    known = {(row.task, row.who, row.epsilon, row.equal): row.error for row in rows if row.error is not None}
    found = []
    for ours, peer in pairs:
        for (task, who, epsilon, kind), error in known.items():
            theirs = known.get((task, peer, epsilon, PERSON))
            if (who, kind) == (ours, equal) and theirs is not None:
                found.append((task, ours, peer, epsilon, error / theirs))
    return found


def worst(found: list[Ratio]) -> tuple[float | None, str | None]:
    """The largest ratio, and where."""
    if not found:
        return None, None
    task, ours, peer, epsilon, ratio = max(found, key=lambda each: each[-1])
    return round(ratio, 3), f"{task}, ε0 = {epsilon:g}: {ours} over {peer}"


def by_pair(found: list[Ratio]) -> dict[str, list[float]]:
    """Smallest and largest ratio of every pair, over tables and ε0."""
    gathered: dict[str, list[float]] = {}
    for _, ours, peer, _, ratio in found:
        gathered.setdefault(f"{ours} / {peer}", []).append(ratio)
    return {pair: [round(min(some), 3), round(max(some), 3)] for pair, some in gathered.items()}
