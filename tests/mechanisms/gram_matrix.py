"""GramMatrix: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

from typing import Any

from faults import AB, QUICK, Fault, Patches

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.gram_matrix import GramMatrix
from nabladp.mechanisms.gram_matrix import mechanism as gram
from nabladp.privacy import CDP, Guarantee, Rho
from nabladp.schema import Schema

INSTANCES: list[Mechanism] = [
    GramMatrix(CDP(0.5), over=("region", "age", "income", "sick")),
    GramMatrix(Rho(0.1), over=("region", "band", "sick"), label="sick", budgets={"sick": CDP(2)}),
    GramMatrix(CDP(1), over=("region", "age"), encode={"age": "thermometer"}),
    GramMatrix(CDP(1), over=("age", "sick"), encode={"age": "number"}),
]


def noisy(out: Any) -> list[Any]:
    return [out.entries, out.squares]


# ---- faults ---------------------------------------------------------------------------------------------------------


def one_column_flips(patches: Patches) -> None:
    """A change of one attribute is charged for one product, not for all that its column is in."""
    true = GramMatrix.guarantee

    def claim(self: GramMatrix, schema: Schema, n: int) -> Guarantee:
        width = self.calibration(schema).columns.width - 1
        whole = true(self, schema, n).per_attribute()
        return Guarantee.linear(schema, {name: Rho(figure.rho / width) for name, figure in whole.items()})

    patches.set(GramMatrix, "guarantee", claim)


def half_the_noise(patches: Patches) -> None:
    """The scale is that of an entry, and an entry is twice a count: it is halved once too often."""
    true = gram._draw_noise
    patches.set(gram, "_draw_noise", lambda scales, noise: true(scales / 2, noise))


FAULTS = (
    Fault("one product flips", GramMatrix(Rho(0.5)), AB, one_column_flips, n=1),
    Fault("half the noise", GramMatrix(Rho(0.5)), AB, half_the_noise, **QUICK),
)
