"""Projection: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

from typing import Any

from faults import MIXED, Fault, Patches

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.projection import Projection
from nabladp.mechanisms.projection.calibration import Calibration
from nabladp.privacy import CDP, Approx, Guarantee, Rho
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals, Parities

INSTANCES: list[Mechanism] = [
    Projection(CDP(0.5), Marginals(2, over=("region", "age", "income", "sick"))),
    Projection(Rho(0.1), Conjunctions(2, over=("region", "band", "sick")) + 2 * Parities(2, over=("age", "sick"))),
    Projection(
        Approx(1, 1e-6),
        LinearQueries(
            (
                LinearQuery(("age",), tuple(i / 9 for i in range(10)), "average age"),
                LinearQuery(("region", "sick"), (0, 1, 0, 1, 1, 1)),
            )
        ),
        budgets={"sick": Rho(0.01)},
    ),
    Projection(CDP(0.3), Conjunctions(2, signed=True, over=("region", "age", "income", "sick", "band")), hull="blocks"),
]


def noisy(out: Any) -> list[Any]:
    return [out.noisy]


# ---- faults ---------------------------------------------------------------------------------------------------------


def one_answer_moves(patches: Patches) -> None:
    """Each group of answers is charged as if a row that leaves a cell entered none."""
    true = Calibration._cost

    def cost(self: Calibration, group: Any, scale: float) -> Guarantee:
        return true(self, group, scale * 2**0.5)

    patches.set(Calibration, "_cost", cost)


FAULTS = (
    Fault("one answer moves", Projection(CDP(1.0), Marginals(sets=(("a", "b"), ("a",)))), MIXED, one_answer_moves),
)
