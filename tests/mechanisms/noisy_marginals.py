"""NoisyMarginals: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from faults import BANDS, DERIVED, MIXED, QUICK, Fault, Patches, Plant, scale_07

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.noisy_marginals import mechanism as marginals
from nabladp.noise.draws import SeededBits, SystemBits
from nabladp.privacy import CDP, Approx, Guarantee, Pure, Rho

INSTANCES: list[Mechanism] = [
    NoisyMarginals(CDP(0.5), k=2, over=("region", "age", "income", "sick")),
    NoisyMarginals(Rho(0.1), sets=(("region", "income"), ("band", "sick"))),
    NoisyMarginals(Approx(1, 1e-6), sets=(("age",),), weights=(2,)),
    NoisyMarginals(Pure(1), sets=(("region",), ("income", "sick")), noise="laplace", budgets={"sick": Pure(0.2)}),
]


def noisy(out: Any) -> list[Any]:
    return [table.counts for table in out]


# ---- faults ---------------------------------------------------------------------------------------------------------


def no_source(patches: Patches) -> None:
    """A derived column is taken for an attribute of its own; its source pays nothing."""
    true = Guarantee.touch

    def touch(universe: Any, columns: Any, cost: Any, **more: Any) -> Guarantee:
        own = [name for name in columns if name in universe.roots]
        return true(universe, own, cost, **more) if own else Guarantee.none(universe)

    patches.set(marginals, "Guarantee", SimpleNamespace(touch=touch, compose=Guarantee.compose))


def sensitivity_one(patches: Patches) -> None:
    """A row leaves a cell and enters another: two move, one was thought of."""
    patches.set(marginals, "least_scale", lambda noise, units, moved: least_scale(noise, units, 1))


def on_tables(change: Callable[[Any, Any], Any]) -> Plant:
    """Every noisy table, and what it is made from, goes through ``change(true, noisy)``."""
    true = NoisyMarginals._with_noise

    def with_noise(self: Any, tables: Any, scales: Any, noise: Any) -> Any:
        return [change(*pair) for pair in zip(tables, true(self, tables, scales, noise), strict=True)]

    return lambda patches: patches.set(NoisyMarginals, "_with_noise", with_noise)


def first_cell_exact(held: Any, noisy: Any) -> Any:
    """Off by one: noise from the second cell on."""
    noisy.ravel()[0] = held.ravel()[0]
    return noisy


def clamped_by_data(held: Any, noisy: Any) -> Any:
    """Noisy counts are cut to the range of the true ones."""
    return noisy.clip(held.min(), held.max())


def empty_cells_stay_empty(held: Any, noisy: Any) -> Any:
    """Noise only where somebody is."""
    return np.where(held == 0, 0, noisy)


def seeded(patches: Patches) -> None:
    """For runs that can be repeated, every process seeds its generator, all alike."""

    def words(self: SystemBits, count: int) -> Any:
        own: SeededBits = self.__dict__.setdefault("own", SeededBits(42))
        return own.words(count)

    patches.set(SystemBits, "words", words)


ONE_WAY = NoisyMarginals(CDP(1.0), k=1)
BY_BAND = NoisyMarginals(CDP(1.0), sets=(("band",),))
LAPLACE = NoisyMarginals(Pure(1.0), k=1, noise="laplace")
FAULTS = (
    Fault("scale x 0.7 (Laplace)", LAPLACE, MIXED, scale_07(marginals)),
    Fault("sensitivity 1 for 2", LAPLACE, MIXED, sensitivity_one),
    Fault("derived column not charged", BY_BAND, DERIVED, no_source, n=1, derive=BANDS),
    Fault("a cell without noise", ONE_WAY, MIXED, on_tables(first_cell_exact), **QUICK),
    Fault("counts clamped by the data", ONE_WAY, MIXED, on_tables(clamped_by_data), **QUICK),
    Fault("empty cells stay empty", ONE_WAY, MIXED, on_tables(empty_cells_stay_empty), **QUICK),
    Fault("noise seeded per process", ONE_WAY, MIXED, seeded, how="side door"),
)
