"""Error against the number of attributes d, all signed conjunctions of two: a budget per attribute, or per person.

1,000 rows in two camps (:func:`bench._binary.two_camps`): every pair of attributes is as hard as any other, whatever d
is. The budget is so small that no answer can be measured well by itself. There the theorems promise errors that hardly
depend on d for a budget per attribute, and that rise with d for one per person. With more budget (``less_noise``) every
pair can be measured by itself, and both rise, the second faster.

What the full run prints last is ``docs/error_by_dimension.json``, which ``docs/make_error_figure.py`` draws.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from bench._binary import as_table, two_camps, worst_disjoint
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.projection import Projection
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Rho
from nabladp.workloads import Conjunctions

SECONDS = {"full": 130, "quick": 10}
K, N, LOYAL, EPS0, LESS_NOISE = 2, 1000, 0.95, 0.05, 1.0
WORKLOAD = Conjunctions(K, signed=True)


def run(quick: bool) -> dict[str, object]:
    sizes = [4, 10] if quick else [4, 6, 8, 10, 12, 14, 16]
    ends = [sizes[0], sizes[-1]]
    tables = 2 if quick else 20
    curves = measure(sizes, EPS0, tables)
    less_noise = measure(ends, LESS_NOISE, 1 if quick else 5)
    found: dict[str, object] = {}
    for suffix, of in (("", curves), ("_less_noise", less_noise)):
        for name, figures in of.items():
            for unit in ("attribute", "person"):
                first, last = figures[unit][0]["mean"], figures[unit][-1]["mean"]
                found[f"{unit}_growth_{name}{suffix}"] = round(last / first, 2)
    budgets = {"eps0": EPS0, "eps0_less_noise": LESS_NOISE}
    return {**found, "k": K, "rows": N, "loyal": LOYAL, **budgets, "tables": tables, "curves": curves}


def measure(sizes: list[int], eps0: float, seeds: int) -> dict[str, Any]:
    return {
        name: {
            unit: [figure(kind, d, eps0, seeds, unit == "person") for d in sizes] for unit in ("attribute", "person")
        }
        for name, kind in (("projection", projection), ("mwem", mwem))
    }


def figure(kind: Any, d: int, eps0: float, seeds: int, person: bool) -> dict[str, float]:
    """Mean and standard error over seeds, each with a table of its own, and the theorem's bound."""
    found = [kind(d, eps0, seed, person) for seed in range(seeds)]
    errors = [error for error, _ in found]
    spread = statistics.stdev(errors) / seeds**0.5 if seeds > 1 else 0.0
    return {"d": d, "mean": _short(statistics.fmean(errors)), "error": _short(spread), "bound": _short(found[0][1])}


def projection(d: int, eps0: float, seed: int, person: bool) -> tuple[float, float]:
    """The root of the mean squared error over all queries, and of its bound."""
    table, truth = _table(d, seed)
    expected = Projection(CDP(eps0), WORKLOAD).expected_error(table.schema, N)
    rho = eps0**2 / 2 / (expected.ratio**2 if person else 1)  # so that the whole person pays ε0²/2, or each attribute
    answers = Projection(Rho(rho), WORKLOAD).run(table, NoiseSource.seeded(seed)).answers
    bound = (expected.person if person else expected.attribute).least
    return float(np.sqrt(np.mean((answers - truth) ** 2))), bound**0.5


def mwem(d: int, eps0: float, seed: int, person: bool) -> tuple[float, float]:
    """The mean error of the worst ⌊d/k⌋ disjoint queries; with one query a round, ε0 is the whole person's."""
    table, truth = _table(d, seed)
    mechanism = MWEM(CDP(eps0), WORKLOAD, per_round=1 if person else None, rows=0)
    found = mechanism.run(table, NoiseSource.seeded(seed))
    bound = mechanism.expected_error(table.schema, N).bound_best_rounds
    return worst_disjoint(found.queries, np.abs(found.answers - truth), d // K), bound


def _table(d: int, seed: int) -> tuple[Any, Any]:
    table = as_table(two_camps(d, N, LOYAL, seed))
    return table, WORKLOAD.bind(table.schema).counts(table) / N


def _short(value: float) -> float:
    return float(f"{value:.4g}")
