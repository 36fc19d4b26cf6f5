"""DistributionEstimate: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

from faults import AB, Fault, Patches, black_box, settings

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.distribution_estimate import DistributionEstimate
from nabladp.mechanisms.heavy_hitters import mechanism as tree
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Guarantee, Pure, Rho

INSTANCES: list[Mechanism] = [
    DistributionEstimate(CDP(2), over=("region", "age", "sick")),
    DistributionEstimate(Pure(4), over=("region", "sick"), notion="pure"),
]


def noisy(out: Any) -> list[Any]:
    return [out.counts, out.codes]


# ---- faults ---------------------------------------------------------------------------------------------------------


def one_count_moves(patches: Patches) -> None:
    """A node's price as if a row that leaves one string entered no other."""

    def touch(universe: Any, columns: Any, cost: Any, **_: Any) -> Guarantee:
        return Guarantee.touch(universe, columns, Rho(cost.rho / 2))

    patches.set(tree, "Guarantee", SimpleNamespace(touch=touch, compose=Guarantee.compose))


def counts_from_the_table(patches: Patches) -> None:
    """What is frequent was found privately, and is then counted once more, exactly."""
    true = DistributionEstimate.run

    def run(self: DistributionEstimate, counts: Any, noise: NoiseSource) -> Any:
        found = true(self, counts, noise)
        held = counts.marginals([found.names])[0]
        return dataclasses.replace(found, counts=held[tuple(found.codes.T)])

    patches.set(DistributionEstimate, "run", run)


FAULTS = (
    Fault(
        "one count of a node moves",
        DistributionEstimate(Rho(9), settings=settings("cdp", [(1, 1.2)])),
        AB,
        one_count_moves,
    ),
    Fault(
        "counts from the table itself",
        DistributionEstimate(Rho(9), settings=settings("cdp", [(1, 4.0)])),
        AB,
        counts_from_the_table,
        **black_box(40, 240, "a"),
    ),
)
