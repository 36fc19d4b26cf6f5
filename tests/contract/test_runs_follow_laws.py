"""Every mechanism's run publishes what its distribution says, and would not pass with less noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from faults import AB, ABY, bits, settings

from nabladp.audit import law_audit
from nabladp.audit.law_audit import ScaledNoise
from nabladp.mechanisms import MECHANISMS, Auditable, Law, Mechanism, Scenario, mechanism_class
from nabladp.mechanisms.distribution_estimate import DistributionEstimate
from nabladp.mechanisms.gram_matrix import GramMatrix
from nabladp.mechanisms.heavy_hitters import HeavyHitters
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.learners.thresholds.design import Design
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.projection import Projection
from nabladp.mechanisms.statistics import Statistics
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Guarantee, Pure, Rho
from nabladp.schema import Schema
from nabladp.tables import Counts
from nabladp.workloads import Conjunctions, Marginals, Parities

AY = bits("ay")
TREE = settings("cdp", [(1, 1.5), (1, 1.5)])
PURE_TREE = settings("pure", [(1, 1.5), (2, 1.5)], 2.0)
LISTED = settings("cdp", [(1, 1.2)])
DESIGN = Design("cdp", (2, 2), (0, 1), 1.5, "probes", 1.5, 1.2, settings("cdp", [(1, 1.5)], d=1), few=0)
MARGINS: dict[str, Any] = {"method": "exact", "gamma": 0.5, "gamma_prime": 0}


@dataclass(frozen=True)
class Case:
    """A mechanism on a tiny schema, the rows of its table, and how many runs tell 0.7 of the noise from all of it."""

    mechanism: Mechanism
    schema: Schema
    rows: int
    runs: int
    adds_noise: bool = True  # otherwise its selections are made sharper instead

    def __str__(self) -> str:
        method = getattr(self.mechanism, "method", "")
        return "-".join(filter(None, (type(self.mechanism).__name__, method, str(CASES.index(self)))))


CASES = [
    Case(NoisyMarginals(CDP(0.5), k=1), AB, 2, 300),
    Case(NoisyMarginals(Pure(1), k=2, noise="laplace"), AB, 2, 300),
    Case(Projection(CDP(1), Marginals(1) + Parities(2)), AB, 2, 80),
    Case(Projection(CDP(0.02), Marginals(1)), AB, 2, 120),  # noise so wide that the law lists every h-th answer
    Case(GramMatrix(Rho(0.5)), AB, 3, 300),
    Case(GramMatrix(Rho(0.5), label="y", budgets={"y": CDP(3)}), ABY, 2, 200),
    Case(HeavyHitters(Rho(9), settings=TREE), AB, 4, 250),
    Case(HeavyHitters(Rho(9), settings=TREE, lists=True), AB, 4, 200),
    Case(HeavyHitters(Pure(9), notion="pure", settings=PURE_TREE, lists=True), AB, 4, 350),
    Case(DistributionEstimate(Rho(9), settings=LISTED), AB, 16, 200),
    Case(PointLearner(Rho(9), "b", settings=LISTED), AB, 4, 300),
    Case(ThresholdLearner(CDP(1), "y", search="pick"), ABY, 16, 300),
    Case(ThresholdLearner(Rho(99), "y", design=DESIGN), ABY, 4, 300),
    Case(MWEM(CDP(1), Conjunctions(1), rounds=1, update="paper", rows=0), AB, 2, 150),
    Case(MWEM(CDP(2), Conjunctions(1), rounds=2, per_round=1, selection=0.2, rows=0), AB, 2, 150),
    Case(Synthesis(CDP(1), strategy="all"), AB, 2, 60),
    Case(Synthesis(CDP(2), 1, strategy="packed", one_way=0, rounds=1, selection=0.05), AB, 2, 100),
    Case(Statistics(CDP(1), ("SELECT a, COUNT(*), COUNT(*) FILTER (WHERE b) FROM t GROUP BY a",)), AB, 2, 200),
    Case(Statistics(Pure(1), ("SELECT COUNT(*) FROM t WHERE a",)), AB, 2, 300),
    Case(HalfspaceLearner(CDP(1), "y", method="average"), ABY, 2, 120),
    Case(HalfspaceLearner(CDP(1), "y", method="average", label_treatment="response"), ABY, 1, 120),
    Case(HalfspaceLearner(CDP(1), "y", method="gram"), AY, 3, 150),
    Case(HalfspaceLearner(CDP(1), "y", method="gram", label_treatment="response"), AY, 1, 150),
    Case(HalfspaceLearner(CDP(2), "y", label_treatment="direct", **MARGINS), ABY, 2, 400, adds_noise=False),
    Case(HalfspaceLearner(CDP(2), "y", **MARGINS), ABY, 2, 400, adds_noise=False),
    Case(HalfspaceLearner(CDP(2), "y", holdout=0.4, label_treatment="direct", **MARGINS), ABY, 4, 200),
]
every = pytest.mark.parametrize("case", CASES, ids=str)


@dataclass(frozen=True)
class LessNoise(Auditable):
    """The same mechanism, with less noise in its run alone."""

    case: Case
    divisor: float

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return self.case.mechanism.guarantee(schema, n)

    def run(self, counts: Counts, noise: NoiseSource) -> Any:
        less = ScaledNoise(noise, self.divisor, selections=not self.case.adds_noise)
        return self.case.mechanism.run(counts, less)

    def distribution(self, counts: Counts) -> Law:
        return self.case.mechanism.distribution(counts)

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        return self.case.mechanism.published_law(law, schema, n)

    def published_values(self, output: Any, schema: Schema, n: int) -> Mapping[Any, int]:
        return self.case.mechanism.published_values(output, schema, n)


def test_every_mechanism_with_a_law_is_here_and_so_is_every_method() -> None:
    with_law = {name for name in MECHANISMS if mechanism_class(name).distribution is not Auditable.distribution}
    assert {type(case.mechanism).__name__ for case in CASES} == with_law
    methods = {case.mechanism.method for case in CASES if isinstance(case.mechanism, HalfspaceLearner)}
    assert methods == {"average", "gram", "exact"}  # of the others single steps have a law


@every
def test_runs_follow_the_law(case: Case) -> None:
    found = law_audit(case.mechanism, case.schema, rows=case.rows, runs=case.runs, noise=NoiseSource.seeded(1))
    assert found.passed, (found.most_telling, found.p_value)
    assert found.runs >= case.runs and all(row.numbers for row in found.rows)


@every
def test_runs_with_less_noise_do_not(case: Case) -> None:
    less = LessNoise(case, 1 / 0.7)
    found = law_audit(less, case.schema, rows=case.rows, runs=case.runs, noise=NoiseSource.seeded(2))
    assert found.refuted and found.detectable is None
