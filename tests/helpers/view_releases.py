"""A real release of every mechanism, for the tests of views, and how a view is read in Python.

What stands here is what these tests look at closely; of any other mechanism they take the instances of its own file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from every_mechanism import FILES
from report_pages import SCHEMA, people

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.distribution_estimate import DistributionEstimate
from nabladp.mechanisms.gram_matrix import GramMatrix
from nabladp.mechanisms.heavy_hitters import HeavyHitters
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.projection import Projection
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Pure, Rho
from nabladp.release import Release, Session
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals

View = dict[str, Any]
MECHANISMS: dict[str, Sequence[Mechanism]] = {name: found.INSTANCES for name, found in FILES.items()} | {
    "NoisyMarginals": (
        NoisyMarginals(CDP(0.4), sets=(("age",), ("region", "income"), ("region", "age", "sick"), ("age", "income"))),
        NoisyMarginals(Pure(0.5), sets=(("region",), ("band", "sick")), noise="laplace"),
    ),
    "Projection": (
        Projection(CDP(0.5), Marginals(2, over=("region", "age", "income", "sick"))),
        Projection(
            CDP(0.5),
            Conjunctions(2, over=("region", "band", "sick"))
            + LinearQueries((LinearQuery(("age",), tuple(i / 9 for i in range(10)), "average age"),)),
        ),
    ),
    "MWEM": (
        MWEM(CDP(1), Marginals(sets=(("age",), ("region", "income"), ("age", "income", "sick"))), rounds=4),
        MWEM(CDP(1), Conjunctions(2, over=("region", "sick", "age")), rounds=2, update="paper", rows=0),
    ),
    "Synthesis": (Synthesis(CDP(1), over=("region", "age", "income", "sick")),),
    "HeavyHitters": (
        HeavyHitters(CDP(2), over=("region", "age", "income", "sick")),
        HeavyHitters(Pure(4), over=("region", "sick", "band"), notion="pure", lists=True),
    ),
    "DistributionEstimate": (DistributionEstimate(CDP(2), over=("region", "age", "sick")),),
    "PointLearner": (PointLearner(CDP(2), "sick", over=("region", "age")),),
    "ThresholdLearner": (ThresholdLearner(CDP(1), "sick", over=("age", "region")),),
    "GramMatrix": (
        GramMatrix(CDP(0.5), over=("region", "age", "sick")),
        GramMatrix(Rho(0.1), over=("region", "band", "sick"), label="sick", budgets={"sick": CDP(2)}),
    ),
    "HalfspaceLearner": (
        HalfspaceLearner(CDP(1), "sick", over=("region", "income"), holdout=0.2, probabilities=True),
        HalfspaceLearner(CDP(2), "sick", over=("band", "unused"), method="exact", gamma=0.5, gamma_prime=0.0),
    ),
}


@cache
def releases() -> dict[str, list[Release]]:
    """One or two releases of every mechanism, from made-up people with seeded noise; made once."""
    with TemporaryDirectory() as folder:
        return _released(Path(folder))


def _released(folder: Path) -> dict[str, list[Release]]:
    budget = Budget(person=Rho(10**6))
    session = Session(people(SCHEMA), SCHEMA, budget, folder / "test.db", noise=NoiseSource.seeded(5), new_ledger=True)
    found = {name: [session.release(one) for one in listed] for name, listed in MECHANISMS.items()}
    session.ledger.close()
    return found


def views(release: Release) -> list[View]:
    """The views of a release, as the page holds them."""
    return [view.to_json() for view in release.views()]


def read(view: View) -> list[list[Any]]:
    """Every row of a view, column by column."""
    readers = [_reader(view, number) for number in range(len(view["columns"]))]
    return [[find(row) for find in readers] for row in range(len(view["rows"]))]


def _reader(view: View, number: int) -> Callable[[int], Any]:
    column, rows = view["columns"][number], view["rows"]

    def item(row: int) -> Any:
        return rows[row][column["place"]] if isinstance(rows[row], list) else rows[row]

    if "axis" in column:
        return lambda row: column["axis"][row // column["every"] % len(column["axis"])]
    if "of" in column:
        other = _reader(view, column["of"])
        return lambda row: other(row) + column["plus"]
    if "labels" in column:
        return lambda row: column["labels"][item(row)]
    return item
