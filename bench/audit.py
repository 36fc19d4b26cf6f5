"""Audits: planted faults that are caught, true claims that are refuted all the same, and how much of a claim is found.

Faults are those of the zoo (tests/mechanisms, tests/helpers/run_faults.py), audited with noise that nobody seeded;
``slowest_s`` is the longest that one took. True claims are those of small sound mechanisms of every kind; each of their
audits may be wrong with a chance of 1%. ``run_against_law``: mechanisms whose runs agree with their exact law.
``detectable_max``: the largest, over these, of the smallest c such that noise divided by c in runs alone would have
been refuted with probability 0.9, with 60 seconds each (6 in the quick run).
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nabladp.audit import exact_audit, law_audit, statistical_audit
from nabladp.mechanisms.distribution_estimate import DistributionEstimate
from nabladp.mechanisms.gram_matrix import GramMatrix
from nabladp.mechanisms.heavy_hitters import HeavyHitters, Level, Settings, Tree
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.projection import Projection
from nabladp.mechanisms.statistics import Statistics
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.privacy import CDP, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.workloads import Conjunctions, Marginals, Parities

SECONDS = {"full": 1500, "quick": 300}
BETA = 0.01
HELPERS = Path(__file__).resolve().parent.parent / "tests" / "helpers"


def run(quick: bool) -> dict[str, object]:
    audits, gaussian_runs = (24, 20_000) if quick else (200, 100_000)
    return {
        **faults(),
        **against_law(6 if quick else 60),
        **false_alarms(audits),
        **gaussian_tightness(gaussian_runs),
        "tightness_tree": round(tree_tightness(), 4),
        "tightness_mwem": round(mwem_tightness(), 4),
    }


# ---- faults ----------------------------------------------------------------------------------------------------------


def faults() -> dict[str, object]:
    sys.path.insert(0, str(HELPERS))
    from every_mechanism import FAULTS

    missed, caught, seconds = [], Counter[str](), list[float]()
    for fault in FAULTS:
        start = time.monotonic()
        with fault.planted():
            refuted = fault.refuted()
        seconds.append(time.monotonic() - start)
        if refuted:
            caught[fault.how] += 1
        else:
            missed.append(fault.name)
    return {
        "faults_planted": len(FAULTS),
        "faults_caught": sum(caught.values()),
        "faults_caught_by": dict(caught),
        "faults_missed": missed,
        "slowest_s": round(max(seconds), 1),
    }


# ---- runs against the exact law --------------------------------------------------------------------------------------


def against_law(seconds: float) -> dict[str, object]:
    agreeing, detectable = set[str](), dict[str, float | None]()
    for sound in SOUND:
        audit = law_audit(sound.mechanism, sound.schema, seconds=seconds, beta=BETA)
        name = type(sound.mechanism).__name__
        if not audit.refuted:
            agreeing.add(name)
        detectable[f"{name} {len(detectable) + 1}"] = audit.detectable
    known = [own for own in detectable.values() if own is not None]
    return {
        "run_against_law": len(agreeing),
        "mechanisms": len({type(sound.mechanism).__name__ for sound in SOUND}),
        "detectable_max": max(known) if len(known) == len(detectable) else None,
        "detectable": detectable,
    }


# ---- true claims -----------------------------------------------------------------------------------------------------


def bits(names: str) -> Schema:
    return Schema(tuple(Attribute(name, "boolean") for name in names))


def tree(notion: Any, thresholds: list[int], scale: float, beta: float | None = None) -> Settings:
    """Of two bits; one threshold: only for pairs of them."""
    made = Tree.build((2, 2), 2, 2, free_cells=2 if len(thresholds) == 1 else 1)
    levels = tuple(Level(threshold, scale) for threshold in thresholds)
    return Settings(notion, made, 1 if notion == "pure" else 0, levels, beta, 1, 0, 1, 0.05, 1.0, 1)


@dataclass(frozen=True)
class Sound:
    mechanism: Any
    schema: Schema
    sets: tuple[tuple[str, ...], ...]
    options: dict[str, Any] = field(default_factory=dict)


AB, ABY, ALL = bits("ab"), bits("aby"), (("a",), ("a", "b"))
CHEAP, DEAR = {"runs": 600}, {"runs": 160, "rows": 2}
SOUND = (
    Sound(NoisyMarginals(CDP(1), k=1), AB, ALL, CHEAP),
    Sound(NoisyMarginals(Pure(1), k=2, noise="laplace"), AB, ALL, CHEAP),
    Sound(Projection(CDP(1), Marginals(1) + Parities(2)), AB, ALL, DEAR),
    Sound(GramMatrix(Rho(0.5)), AB, ALL, CHEAP),
    Sound(HeavyHitters(Rho(9), settings=tree("cdp", [1, 1], 1.5)), AB, ALL, DEAR),
    Sound(HeavyHitters(Pure(9), notion="pure", settings=tree("pure", [1], 1.5, 2.0)), AB, ALL, DEAR),
    Sound(DistributionEstimate(Rho(9), settings=tree("cdp", [1], 1.2)), AB, ALL, DEAR | {"rows": 20}),
    Sound(PointLearner(Rho(9), "b", settings=tree("cdp", [1], 1.2)), AB, ALL, DEAR | {"rows": 20}),
    Sound(ThresholdLearner(CDP(1), "y", search="pick"), ABY, (("a",), ("y",)), DEAR | {"rows": 40}),
    Sound(Statistics(CDP(1), ("SELECT a, COUNT(*) FROM t GROUP BY a",)), AB, ALL, CHEAP),
    Sound(Synthesis(CDP(1), strategy="all"), AB, ALL, DEAR),
    Sound(MWEM(CDP(1), Conjunctions(1), rounds=1, update="paper", rows=0), AB, ALL, DEAR),
    Sound(HalfspaceLearner(CDP(1), "y", method="average"), ABY, (("a",), ("y",)), DEAR),
)


def false_alarms(audits: int) -> dict[str, object]:
    alarms = Counter[str]()
    for sound in itertools.islice(itertools.cycle(SOUND), audits):
        found = statistical_audit(sound.mechanism, sound.schema, sets=sound.sets, beta=BETA, **sound.options)
        if not found.passed:
            alarms[type(sound.mechanism).__name__] += 1
    return {"false_alarms": sum(alarms.values()), "false_alarms_of": dict(alarms), "audits": audits, "beta": BETA}


# ---- how much of a claim is found ------------------------------------------------------------------------------------


def gaussian_tightness(runs: int) -> dict[str, object]:
    """The lower bound over the claim, both as μ = √(2ρ), for one attribute of a Gaussian marginal."""
    found = statistical_audit(NoisyMarginals(CDP(1), k=1), AB, sets=("a",), runs=runs, beta=BETA, seconds=300)
    (row,) = found.rows
    return {"tightness_gaussian": round(row.lower_mu / row.claimed_mu, 4), "runs_gaussian": row.runs}


def single(audit: Any) -> float:
    """The largest true loss over the claimed one, of a single attribute."""
    return max(row.tightness for row in audit.rows if len(row.attributes) == 1)


def tree_tightness() -> float:
    """Of the pure tree of two levels, lists and counts together."""
    return single(exact_audit(HeavyHitters(Pure(9), notion="pure", settings=tree("pure", [1, 2], 1.5, 2.0)), AB, 3))


def mwem_tightness() -> float:
    """Of one round, half of the budget for the pick and half for the answers."""
    return single(exact_audit(MWEM(CDP(1), Conjunctions(1, signed=True), rounds=1), bits("abc"), 1))
