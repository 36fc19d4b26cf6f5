"""Faults that live in runs, counting, plans or records alone: no exact law of a mechanism knows of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults import AB, ABY, Fault, Patches, bits, settings

from nabladp.audit.law_audit import ScaledNoise
from nabladp.mechanisms.distribution_estimate import DistributionEstimate
from nabladp.mechanisms.gram_matrix import GramMatrix, signed_columns
from nabladp.mechanisms.heavy_hitters import HeavyHitters, candidates
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.projection import Projection
from nabladp.mechanisms.statistics import Statistics
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Guarantee, Ledger, Rho
from nabladp.release import Release, Session
from nabladp.schema import Attribute, Schema
from nabladp.tables import kernels
from nabladp.workloads import Conjunctions, Marginals

AY = bits("ay")
ONE_HOT = Schema((Attribute("c", "categorical", values=("x", "y", "z")), *AY.attributes))
TREE = settings("cdp", [(1, 1.5), (1, 1.5)])
LISTED = settings("cdp", [(1, 1.2)])


def seven_tenths(kind: type) -> Callable[[Patches], None]:
    """Noise of 0.7 times the scale, in a run alone."""
    true = kind.run  # type: ignore[attr-defined]

    def run(self: Any, counts: Any, noise: NoiseSource) -> Any:
        return true(self, counts, ScaledNoise(noise, 1 / 0.7, selections=False))

    return lambda patches: patches.set(kind, "run", run)


def one_draw_a_level(patches: Patches) -> None:
    """The nodes of a tree's level share one draw."""

    def split(lengths: Any, draw: Callable[[int], Any]) -> list[Any]:
        each = list(lengths)
        drawn = draw(max(each, default=0))
        return [drawn[:length] for length in each]

    patches.set(candidates, "_split_draws", split)


def one_flip(patches: Patches) -> None:
    """A one-hot group is counted as one flip."""
    patches.set(signed_columns.Block, "flips", 1)


def counted_twice(patches: Patches) -> None:
    """The first row of every batch is counted twice."""
    true = kernels.Marginals.add_to

    def add_to(self: Any, total: Any, batch: Any) -> None:
        true(self, total, batch)
        true(self, total, batch.slice(0, 1))

    patches.set(kernels.Marginals, "add_to", add_to)


RUNS = [
    (NoisyMarginals(CDP(1), k=1), AB),
    (Projection(CDP(1), Marginals(1)), AB),
    (MWEM(CDP(1), Conjunctions(1), rounds=1, update="paper", rows=0), AB),
    (Synthesis(CDP(1), strategy="all"), AB),
    (Synthesis(CDP(1), strategy="refined"), AB),
    (HeavyHitters(Rho(9), settings=TREE), AB),
    (DistributionEstimate(Rho(9), settings=LISTED), AB),
    (PointLearner(Rho(9), "b", settings=LISTED), AB),
    (ThresholdLearner(CDP(1), "y", search="pick"), ABY),
    (GramMatrix(Rho(0.5)), AB),
    *((HalfspaceLearner(CDP(1), "y", method=method), AY) for method in ("gram", "average", "descent", "gradient")),
    (HalfspaceLearner(CDP(1), "y", method="robust", gamma=1, gamma_prime=0), AY),
]


def _named(mechanism: Any) -> str:
    method = getattr(mechanism, "method", "") or getattr(mechanism, "strategy", "")
    return " ".join(filter(None, (type(mechanism).__name__, method)))


# ---- plans and records ----------------------------------------------------------------------------------------------

TWO = [("one", NoisyMarginals(CDP(0.5), k=1)), ("two", Statistics(CDP(0.5), ("SELECT COUNT(*) FROM t WHERE a",)))]


def books_differ() -> bool:
    """Whether the ledger has booked anything but the sum of what the releases of a plan claim."""
    claimed = Guarantee.compose(AB, [mechanism.guarantee(AB, 4) for _, mechanism in TWO])
    with tempfile.TemporaryDirectory() as folder:
        _release(Path(folder))
        with Ledger.read(Path(folder) / "ledger.db") as ledger:
            spent = {line.limit.name: line.spent_units for line in ledger.spent()}
    return any(spent[name] != claimed.rho_units(name) for name in AB.names)


def record_differs() -> bool:
    """Whether a stored release states another guarantee than its mechanism."""
    with tempfile.TemporaryDirectory() as folder:
        _release(Path(folder))
        stored = {name: Release.load(Path(folder) / "out" / name) for name, _ in TWO}
    return any(stored[name].guarantee != mechanism.guarantee(AB, 4) for name, mechanism in TWO)


def _release(folder: Path) -> None:
    import pyarrow as pa

    people = pa.table({"a": [True, False] * 2, "b": [True] * 4})
    budget = Budget(per_attribute=CDP(2))
    session = Session(people, AB, budget, folder / "ledger.db", noise=NoiseSource.seeded(1), new_ledger=True)
    session.release_all(TWO, folder / "out")


def one_for_all(patches: Patches) -> None:
    """A plan books its first release only, under every name."""
    home = next(kind for kind in Ledger.__mro__ if "reserve_all" in vars(kind))
    true = home.reserve_all  # type: ignore[attr-defined]

    def reserve_all(self: Any, requests: Any, **more: Any) -> Any:
        listed = list(requests)
        return true(self, [(listed[-1][0], *own[1:]) for own in listed], **more)

    patches.set(home, "reserve_all", reserve_all)


def fewer_terms(patches: Patches) -> None:
    """A record keeps each term once, however often it occurs, and drops the last one."""
    true = Guarantee.to_json

    def to_json(self: Guarantee) -> Any:
        body = true(self)
        return body | {"terms": body["terms"][:-1]}

    patches.set(Guarantee, "to_json", to_json)


RUN_FAULTS = [
    *(Fault(f"noise x 0.7 in a run ({_named(m)})", m, s, seven_tenths(type(m)), how="run") for m, s in RUNS),
    Fault("one draw for a level of the tree", HeavyHitters(Rho(9), settings=TREE), AB, one_draw_a_level, how="run"),
    Fault(
        "one-hot as one flip (descent)", HalfspaceLearner(CDP(1), "y", method="descent"), ONE_HOT, one_flip, how="run"
    ),
    Fault("a row counted twice", NoisyMarginals(CDP(1), k=1), AB, counted_twice),
    Fault("a plan books one release for all", None, AB, one_for_all, how="books", check=books_differ),
    Fault("a record drops a term", None, AB, fewer_terms, how="record", check=record_differs),
]
