"""Synthesis: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

from typing import Any

from faults import AB, Fault, scale_07

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.synthesis import Synthesis, rounds
from nabladp.mechanisms.synthesis import design as synthesis
from nabladp.privacy import CDP, Approx, Rho

INSTANCES: list[Mechanism] = [
    Synthesis(CDP(0.5), over=("region", "age", "income", "sick")),
    Synthesis(Rho(0.1), 3, ("region", "age", "income", "sick"), strategy="packed", rounds=4, rows=7),
    Synthesis(Rho(0.1), over=("region", "age", "income", "sick"), strategy="matched", rounds=3, rows=7),
    Synthesis(CDP(1), (("region", "income"), ("band", "sick")), weights=(1.0, 2.5), strategy="single", target="sick"),
    Synthesis(person=Approx(1, 1e-6), over=("region", "age", "sick"), sets={"age+sick": Rho(0.02)}, rounds=5),
    Synthesis(Rho(0.2), 3, over=("region", "age", "sick"), strategy="refined", pairs=0.3, rounds=3, rows=7),
    Synthesis(Rho(20), 3, over=("region", "age", "income", "sick"), rounds=4, rows=7),  # single columns decide
    Synthesis(CDP(1), over=("age", "band", "sick"), strategy="all", budgets={"sick": Rho(0.01)}, person=Rho(0.6)),
]


def noisy(out: Any) -> list[Any]:
    return [noisy.counts for noisy in out.measured]


# ---- faults ---------------------------------------------------------------------------------------------------------


FAULTS = (
    Fault(
        "scale x 0.7 (rounds that choose)",
        Synthesis(CDP(2), 1, strategy="packed", one_way=0, rounds=1, selection=0.05),
        AB,
        scale_07(synthesis),
        n=1,
    ),
    Fault(
        "scale x 0.7 (measured again)",
        Synthesis(CDP(2), 1, strategy="refined"),
        AB,
        lambda patches: patches.set(rounds, "scale_for", lambda units: 0.7 * synthesis.scale_for(units)),
        how="run",
    ),
)
