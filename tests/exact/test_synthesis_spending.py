"""What a run really spends, from the noise it published, against what it claimed, for every set of attributes."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.mechanisms.synthesis import Synthesis
from nabladp.mechanisms.synthesis.selection import distance
from nabladp.noise import NoiseSource
from nabladp.privacy import Rho
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SCHEMA = Schema(
    (
        Attribute("a", "boolean"),
        Attribute("b", "categorical", values=("x", "y", "z")),
        Attribute("c", "boolean"),
        Attribute("d", "boolean", derived_from=("a", "b")),
        Attribute("e", "boolean", public=True),
        Attribute("f", "boolean", derived_from=("c", "e")),
        Attribute("g", "boolean"),
    )
)
PROTECTED, ROWS = ("a", "b", "c", "g"), 400
BUDGETS: dict[str, dict[str, Any]] = {
    "equal": {"budget": Rho(0.5)},
    "limits": {"budget": Rho(0.5), "sets": {"a+b": Rho(0.6), "c+g": Rho(0.7)}, "person": Rho(1.1)},
    "person": {"person": Rho(1)},
    "unequal": {"budget": Rho(0.2), "budgets": {"a": Rho(3)}, "sets": {"a+c": Rho(0.3), "a+b+g": Rho(0.35)}},
}
WORKLOADS: dict[str, Any] = {  # a set of one column is planned twice, as itself and as every column's own
    "pairs": 2,
    "columns": 1,
    "listed": (("a",), ("b", "d"), ("f", "g"), ("e",), ("c", "g", "b"), ("d", "f")),
    "turned": (("a", "d"), ("b", "a", "d"), ("g",)),
}


def table() -> CodedTable:
    draw = np.random.default_rng(1)
    a, b, e = draw.integers(0, 2, ROWS), draw.integers(0, 3, ROWS), draw.integers(0, 2, ROWS)
    c, g = a ^ (draw.random(ROWS) < 0.1), (b == 1) ^ (draw.random(ROWS) < 0.2)
    codes = {"a": a, "b": b, "c": c, "d": (a + b) % 2, "e": e, "f": c & e, "g": g}
    return CodedTable(SCHEMA, {name: np.asarray(column, np.int64) for name, column in codes.items()})


@pytest.mark.parametrize("strategy", ["all", "refined", "packed", "single", "auto"])
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_nothing_is_spent_that_was_not_claimed(budget: str, workload: str, strategy: str) -> None:
    rounds = 6 if strategy in ("packed", "single") else None
    mechanism = Synthesis(workload=WORKLOADS[workload], strategy=strategy, rounds=rounds, **BUDGETS[budget])
    design = mechanism.design(SCHEMA, ROWS)
    claim = design.guarantee()
    out = mechanism.run(table(), NoiseSource.seeded(7))
    planned = Guarantee.compose(
        SCHEMA, [design.limits.touched([p.attributes], [p.units], [p.scale]) for p in design.planned]
    )
    spare = 0.0
    for size in range(1, len(PROTECTED) + 1):
        for chosen in itertools.combinations(PROTECTED, size):
            touching = [m for m in out.measured if claim.universe.sources(m.attributes) & set(chosen)]
            measured = sum((1 / Fraction(m.scale) ** 2 for m in touching), Fraction(0))
            picks = design.fixed.rho_units(chosen) - planned.rho_units(chosen)
            spent, claimed = measured + Fraction(picks, UNIT), Fraction(claim.rho_units(chosen), UNIT)
            assert spent <= claimed * (1 + Fraction(1, 10**9)), chosen
            spare = max(spare, float(spent / claimed) if claimed else 0.0)
    assert spare > 0.9  # and little is left unused


def test_a_guess_that_is_no_number_moves_nothing() -> None:
    truth, other = np.array([3, 1, 0]), np.array([2, 2, 0])
    for guess in (np.array([np.nan, np.inf, -np.inf]), np.array([1e300, -1e300, 0.5])):
        assert abs(distance(truth, guess) - distance(other, guess)) <= 2 * distance(np.array([1]), np.array([0.0]))
