"""What rows 1 and 2 of Table 1 run: a case, the mechanisms with their own bounds, and the error of one run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench._binary import as_table, two_camps, worst_disjoint
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.projection import Projection
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Pure
from nabladp.schema import Attribute, Schema
from nabladp.workloads import Conjunctions, Queries

FAIR, CAMPS = 0.5, 0.95  # how loyal rows are to their camp
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    d: int = 12
    k: int = 2
    n: int = 1000
    epsilon: float = 0.1

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(self.d)))

    @property
    def workload(self) -> Conjunctions:
        return Conjunctions(self.k, signed=True)

    def told(self, *without: str) -> dict[str, float]:
        known = {"d": self.d, "k": self.k, "n": self.n, "epsilon": self.epsilon}
        return {key: value for key, value in known.items() if key not in without}


# Mechanisms, and what they know of their error beforehand


def projection(case: Case, unit: str) -> Projection:
    """For the person, ε is less by √(d/k), the ratio of both in the mechanism's guarantee."""
    share = math.sqrt(case.k / case.d) if unit == "person" else 1.0
    return Projection(CDP(case.epsilon * share), case.workload)


def mwem(case: Case, unit: str) -> MWEM:
    """With one query a round the person pays no more than an attribute."""
    return MWEM(CDP(case.epsilon), case.workload, per_round=1 if unit == "person" else None, rows=0)


def projection_bound(case: Case, unit: str) -> float:
    expected = projection(case, unit).expected_error(case.schema, case.n).attribute
    return math.sqrt(min(expected.noise or 0.0, expected.hull or math.inf))


def mwem_bound(case: Case, unit: str) -> float:
    return mwem(case, unit).expected_error(case.schema, case.n).bound_best_rounds or math.inf


def side(case: Case, unit: str) -> str:
    expected = projection(case, unit).expected_error(case.schema, case.n).attribute
    return "noise" if (expected.noise or 0.0) <= (expected.hull or math.inf) else "hull"


# Errors of one run on a table of its own


def root_mean_square(_: Queries, errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def worst(queries: Queries, errors: Floats) -> float:
    return worst_disjoint(queries, np.abs(errors), len(queries.names) // len(queries.groups[0].attributes))


@dataclass(frozen=True)
class Task:
    """A mechanism, the error that counts, and the mechanism's bound of it, if it has one."""

    mechanism: str
    make: Callable[[Case, str], Projection | MWEM]
    measure: Callable[[Queries, Floats], float]
    bound: Callable[[Case, str], float] | None
    loyal: float = CAMPS

    def error(self, case: Case, unit: str, seed: int) -> float:
        table = as_table(two_camps(case.d, case.n, self.loyal, seed))
        queries = case.workload.bind(table.schema)
        answers = self.make(case, unit).run(table, NoiseSource.seeded(seed)).answers
        return self.measure(queries, answers - queries.counts(table) / case.n)


def plain_noise(kind: str, case: Case, seed: int) -> float:
    """Gaussian or Laplace noise for the whole person on every cell; shares are cut to [0, 1]."""
    table = as_table(two_camps(case.d, case.n, CAMPS, seed))
    if kind == "gaussian":
        budget: CDP | Pure = CDP(case.epsilon * math.sqrt(case.k / case.d))
    else:
        budget = Pure(case.epsilon * case.k / case.d)
    found = NoisyMarginals(budget, k=case.k, noise=kind).run(table, NoiseSource.seeded(seed)).tables
    truth = table.marginals([one.attributes for one in found])
    apart = [np.clip(one.counts / case.n, 0, 1) - own / case.n for one, own in zip(found, truth, strict=True)]
    return float(np.sqrt(np.mean(np.square(apart))))


AVERAGE = Task("Projection", projection, root_mean_square, projection_bound, FAIR)
MAXIMUM = Task("MWEM", mwem, worst, mwem_bound)
TOOLBOX = (Task("Projection", projection, root_mean_square, None), Task("MWEM", mwem, root_mean_square, None))
MAXIMUM_PROJECTED = Task("Projection", projection, worst, None)
