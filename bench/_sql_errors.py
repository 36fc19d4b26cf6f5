"""Three queries on Adult beside other libraries: the error of every column, at the same cost of a replaced row.

Neighbours. Ours replace a row; all peers here add or leave out one. What a replaced row costs them is counted as
tightly as what they do allows, which is less than they would say themselves:

- pure ε: twice theirs. Two groups change by a row each; counts reach it.
- ρ: the larger of two cases. A row that moves to another group changes two groups by a row each: twice theirs. A row
  that keeps its group but changes its values moves a sum by at most its range, which costs (range / bound)² of the
  sum's part; it moves scores of a quantile so that log ratios lie in a range of 2η, where a row that comes makes it
  2·max(q, 1 − q)·η, which costs 1 / max(q, 1 − q)² of the quantile's part: 4 times for a median.

So a query with a sum and a median at equal parts costs (98/99)²/2 + 4/2 = 2.49 times what they say, the others twice.
Everyone's quantiles are rounded to whole numbers, which is free; nobody interpolates then.

A query's error is the geometric mean over its columns: who gives more of the budget to one column has less for the
others, so that single columns say how a budget was split, not how well it was used. They are told as well: of a pure
budget OpenDP gives a third to the sum and two thirds to the median, the others half to each. Medians of groups of few
people vary from run to run by tens of years; with a few dozen copies the mean error is known to about 6 %. The rows are
those of Adult's training split; how budgets are split (``share`` in mechanisms/statistics/blocks.py) was chosen on the
test split. The full run can be taken up again: what was found with the same code is kept, as in ``bench.peers``.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench._binary import DATA
from bench.peers._sql_public import BOUNDS, COLUMNS, KEYS, LABELS, LEAST_EDUCATION, LEVELS, MEAN, MEDIAN, QUANTILES
from bench.peers._sql_public import cells as cells_of
from bench.peers.processes import ROOT, Library, Outcome, Runner

OURS = Library("nabladp", "sql_nabladp.py")
OPENDP = Library("OpenDP", "sql_opendp.py", ".venv-peers-opendp-polars")
SMARTNOISE = Library("SmartNoise", "sql_smartnoise.py", ".venv-peers-smartnoise-sql")
PIPELINEDP = Library("PipelineDP", "sql_pipelinedp.py", ".venv-peers-pipelinedp")
QRLEW = Library("Qrlew", "sql_qrlew.py", ".venv-peers-qrlew")
TUMULT = Library("Tumult", "sql_tumult.py", ".venv-peers-tumult")
NOTIONS = {"pure": (OPENDP, SMARTNOISE, PIPELINEDP, TUMULT), "rho": (OPENDP, QRLEW, TUMULT)}
PARTLY = (SMARTNOISE, QRLEW)  # without a median: of that query they answer the sum, at half of the budget
BUDGETS = {"pure": (0.3, 1.0), "rho": (0.01, 0.1)}
QUERIES = (MEAN, MEDIAN, QUANTILES)
RUNS = {MEAN: 1000, MEDIAN: 400, QUANTILES: 300}  # of ours
COPIES = {
    OPENDP: {MEAN: 400, MEDIAN: 60, QUANTILES: 60},
    SMARTNOISE: {MEAN: 300, MEDIAN: 40, QUANTILES: 1},
    PIPELINEDP: {MEAN: 250, MEDIAN: 30, QUANTILES: 100},
    QRLEW: {MEAN: 200, MEDIAN: 40, QUANTILES: 1},
    TUMULT: {MEAN: 20, MEDIAN: 40, QUANTILES: 3},  # far from the best but in medians
}
LIMIT = 900  # seconds of the processor


def replaced_row_factor(notion: str, query: str) -> float:
    """What a replaced row costs a peer, over what it says of a row more or less: see above."""
    if notion == "pure":
        return 2.0
    if query == MEDIAN:
        low, high = BOUNDS["hours"]
        return max(2.0, ((high - low) / high) ** 2 / 2 + 4 / 2)
    if query == QUANTILES:
        return max(2.0, float(np.mean([1 / max(level, 100 - level) ** 2 for level in LEVELS]) * 100**2))
    return 2.0


@dataclass(frozen=True)
class Row:
    """One library, one query, one budget: mean absolute error by column, and the seconds of a call."""

    query: str
    notion: str
    budget: float
    who: str
    errors: dict[str, float]
    seconds: float | None = None
    person: float | None = None
    attribute: float | None = None
    why: str = ""

    @property
    def whole(self) -> float | None:
        """The error of the whole query; None where a column is missing."""
        if not self.errors or any(math.isnan(error) for error in self.errors.values()):
            return None
        return math.exp(float(np.mean([math.log(max(error, 1e-12)) for error in self.errors.values()])))

    def to_json(self) -> dict[str, Any]:
        shown = {name: float(f"{error:.4g}") for name, error in self.errors.items() if not math.isnan(error)}
        row = {"query": self.query, "notion": self.notion, "budget": self.budget, "who": self.who, "errors": shown}
        for name in ("seconds", "person", "attribute"):
            value = getattr(self, name)
            row |= {} if value is None else {name: float(f"{value:.4g}")}
        return row | ({"why": self.why} if self.why else {})


# ---- the table and the truth -----------------------------------------------------------------------------------------


@cache
def adult(rows: int | None = None) -> dict[str, Any]:
    """Columns of the training split; made-up people where Adult is not at hand."""
    file = DATA / "adult" / "adult_raw.csv.gz"
    if not file.exists():
        return made_up(rows or 30_000)
    with gzip.open(file, "rt", encoding="utf-8") as opened:
        listed = [row for row in csv.DictReader(opened) if row["split"] == "train"][:rows]
    names = {"hours": "hours-per-week", "education_num": "education-num"}
    columns = {name: np.array([row[names.get(name, name)] for row in listed]) for name in (*LABELS, *BOUNDS)}
    return {name: column.astype(np.int64) if name in BOUNDS else column for name, column in columns.items()}


def made_up(rows: int) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    numbers = {
        "age": np.clip(draw.gamma(6, 6.5, rows), *BOUNDS["age"]).astype(np.int64),
        "education_num": draw.integers(1, 17, rows),
        "hours": np.where(draw.random(rows) < 0.45, 40, np.clip(draw.normal(40, 14, rows), 1, 99)).astype(np.int64),
    }
    shares = {name: draw.dirichlet(np.full(len(labels), 2.0)) for name, labels in LABELS.items()}
    return {**{name: draw.choice(labels, rows, p=shares[name]) for name, labels in LABELS.items()}, **numbers}


def truth(data: dict[str, Any], query: str) -> dict[str, Any]:
    found: dict[str, list[float]] = {name: [] for name in COLUMNS[query]}
    for cell in cells_of(query):
        chosen = np.ones(len(data["age"]), np.bool_)
        for key, label in zip(KEYS[query], cell, strict=True):
            chosen &= data[key] == label
        if query == MEAN:
            chosen &= data["education_num"] >= LEAST_EDUCATION
        for name, value in zip(COLUMNS[query], exact_values(data, query, chosen), strict=True):
            found[name].append(value)
    return {name: np.array(values) for name, values in found.items()}


def exact_values(data: dict[str, Any], query: str, chosen: Any) -> list[float]:
    age, hours = data["age"][chosen], data["hours"][chosen]
    if query == MEAN:
        return [float(age.mean()), float(chosen.sum())]
    if query == MEDIAN:
        return [float(hours.sum()), float(np.quantile(age, 0.5, method="inverted_cdf"))]
    return [float(np.quantile(hours, level / 100, method="inverted_cdf")) for level in LEVELS]


def errors_of(found: dict[str, Any], true: dict[str, Any], query: str) -> dict[str, float]:
    """Mean absolute error of each column, over groups and copies; ten quantiles make one column."""
    each = {}
    for name, exact in true.items():
        whole = name == "median_age" or query == QUANTILES
        values = np.rint(found[name]) if whole else found[name]
        each[name] = float(np.abs(values - exact).mean())
    return {"hours": float(np.mean(list(each.values())))} if query == QUANTILES else each


# ---- runs ------------------------------------------------------------------------------------------------------------


def rows(quick: bool) -> Iterator[Row]:
    kept = Path(os.environ.get("NABLADP_BENCH_CACHE", ROOT / ".bench-cache")) / "sql"
    runner, data = Runner(None if quick else kept), adult(6000 if quick else None)
    for query in QUERIES:
        true = truth(data, query)
        for notion, budgets in BUDGETS.items():
            for budget in budgets[-1:] if quick else budgets:
                given = {**data, "query": query, "notion": notion, "calls": 2 if quick else 3}
                runs = RUNS[query] // (10 if quick else 1)
                for unit in ("person", "attribute"):
                    ours = runner.alone(OURS, LIMIT, **given, amount=budget, unit=unit, copies=runs)
                    yield announce(row_of(ours, true, query, notion, budget, f"nabladp, {unit}"))
                for peer in NOTIONS[notion]:
                    if peer is TUMULT and quick:
                        continue  # half a minute for each
                    yield announce(peer_row(runner, peer, given, true, budget, quick))


def peer_row(
    runner: Runner, peer: Library, given: dict[str, Any], true: dict[str, Any], budget: float, quick: bool
) -> Row:
    query, notion = given["query"], given["notion"]
    if not peer.there:
        return Row(query, notion, budget, peer.name, {}, why="it is not installed: `make peers` tells why")
    amount = budget / replaced_row_factor(notion, query)
    copies = max(1, COPIES[peer][query] // (10 if quick else 1))
    calls = 1 if peer is TUMULT else given["calls"]
    found = runner.alone(peer, LIMIT, **{**given, "calls": calls}, amount=amount, copies=copies)
    return row_of(found, true, query, notion, budget, peer.name)


def row_of(found: Outcome, true: dict[str, Any], query: str, notion: str, budget: float, who: str) -> Row:
    if found.found is None:
        return Row(query, notion, budget, who, {}, why=found.why)
    figures = {name: float(found.found[name]) for name in ("person", "attribute") if name in found.found}
    return Row(query, notion, budget, who, errors_of(found.found, true, query), found.seconds, **figures)


def announce(row: Row) -> Row:
    told = ", ".join(f"{name} {error:.4g}" for name, error in row.errors.items()) or row.why
    took = "" if row.seconds is None else f" ({row.seconds:.2f} s a call)"
    print(f"{row.query}, {row.notion} {row.budget:g}, {row.who}: {told}{took}", flush=True)
    return row


# ---- figures ---------------------------------------------------------------------------------------------------------


def compare(found: list[Row]) -> dict[str, Any]:
    """Ours over the best peer: whole queries, and every column by itself, at equal figures of a person and of an
    attribute."""
    whole = {unit: list(_ratios(found, unit)) for unit in ("person", "attribute")}
    columns = {unit: list(_column_ratios(found, unit)) for unit in ("person", "attribute")}
    worst = max(whole["person"], key=lambda own: own[1], default=("", None))
    return {
        "error_over_best_peer_max": _short(worst[1]),
        "error_over_best_peer_where": worst[0],
        "error_over_best_peer": {name: _short(ratio) for name, ratio in whole["person"]},
        "error_over_best_peer_columns": {name: _short(ratio) for name, ratio in columns["person"]},
        "attribute_equal_error_over_best_peer": {name: _short(ratio) for name, ratio in whole["attribute"]},
        "attribute_equal_error_over_best_peer_columns": {name: _short(ratio) for name, ratio in columns["attribute"]},
        "person_over_attribute": {
            f"{row.query}, {row.notion} {row.budget:g}": _short(row.person / row.attribute)
            for row in found
            if row.who == "nabladp, attribute" and row.person and row.attribute
        },
        "call_seconds": _call_seconds(found),
        "no_answer": {f"{row.query}, {row.notion}, {row.who}": row.why for row in found if row.why},
        "rows": [row.to_json() for row in found],
    }


def _groups(found: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    for place in dict.fromkeys((row.query, row.notion, row.budget) for row in found):
        query, notion, budget = place
        same = [row for row in found if (row.query, row.notion, row.budget) == place]
        yield f"{query}, {'ε' if notion == 'pure' else 'ρ'} = {budget:g}", same


def _ratios(found: list[Row], unit: str) -> Iterator[tuple[str, float]]:
    for name, same in _groups(found):
        peers = [row.whole for row in same if not row.who.startswith("nabladp") and row.whole is not None]
        ours = next((row.whole for row in same if row.who == f"nabladp, {unit}"), None)
        if peers and ours is not None:
            yield name, ours / min(peers)


def _column_ratios(found: list[Row], unit: str) -> Iterator[tuple[str, float]]:
    for name, same in _groups(found):
        ours = next(row for row in same if row.who == f"nabladp, {unit}")
        for column, error in ours.errors.items():
            known = [row.errors.get(column, math.nan) for row in same if not row.who.startswith("nabladp")]
            peers = [other for other in known if not math.isnan(other)]
            if peers:
                yield f"{name}: {column}", error / max(min(peers), 1e-12)


def _call_seconds(found: list[Row]) -> dict[str, dict[str, float | None]]:
    """The median over budgets and notions."""
    taken: dict[str, dict[str, list[float]]] = {}
    for row in found:
        if row.seconds is not None:
            taken.setdefault(row.query, {}).setdefault(row.who.partition(",")[0], []).append(row.seconds)
    return {
        query: {who: _short(float(np.median(seconds))) for who, seconds in each.items()}
        for query, each in taken.items()
    }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
