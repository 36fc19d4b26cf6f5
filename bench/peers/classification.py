"""A yes/no column from the others: our halfspaces beside diffprivlib's logistic regression, on the same rows.

diffprivlib's ε is pure and for a replaced row, as ours replaces rows; ours is given ρ = ε²/2, which is what pure ε
implies. Pure ε promises more than that ρ does: how ours fares at the same (ε, 10⁻⁶) is told as well. diffprivlib's C is
the best one on the test rows, for each ε: a favour, as finding it would cost budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench._learning import Task, task
from bench.halfspaces import STRENGTHS
from bench.peers.comparing import ATTRIBUTE, PERSON, STRICT, Row, measured
from bench.peers.processes import Library, Runner
from nabladp.privacy import Approx

LEARNER = Library("HalfspaceLearner", "nabladp_halfspace.py")
DIFFPRIVLIB = Library("diffprivlib", "diffprivlib_logistic.py", ".venv-peers-diffprivlib")
COUNTERPARTS = {DIFFPRIVLIB.name: (LEARNER.name,)}

EQUALS: tuple[tuple[str, str, Callable[[float], float]], ...] = (
    (ATTRIBUTE, "attribute", lambda epsilon: epsilon**2 / 2),
    (PERSON, "person", lambda epsilon: epsilon**2 / 2),
    (STRICT, "person", lambda epsilon: float(Approx(epsilon, 1e-6).amount())),
)


def rows(runner: Runner, quick: bool) -> Iterator[Row]:
    found = task("generated") if quick else task("adult") or task("generated")
    if found is None:
        raise RuntimeError("one of the two is always there")
    name, seeds = f"{found.name}, classification", range(1 if quick else 2)
    for epsilon in (1.0,) if quick else (0.1, 0.3, 1.0):
        for equal, unit, rho_of in EQUALS:
            rho = rho_of(epsilon)
            given = ({**coded(found, seed), "unit": unit, "rho": rho, "seed": seed} for seed in seeds)
            yield measured(runner, LEARNER, name, epsilon, equal, given, wrong, 60, rho)
        if not DIFFPRIVLIB.there:
            print(f"{DIFFPRIVLIB.name} is left out: `make peers` installs it", flush=True)
            continue
        strengths = STRENGTHS[::2]
        given = ({**signed(found, seed), "epsilons": [epsilon], "strengths": strengths, "seed": seed} for seed in seeds)
        yield measured(runner, DIFFPRIVLIB, name, epsilon, PERSON, given, wrong, 30 if quick else 240)


def wrong(found: dict[str, Any]) -> float:
    """Share of test rows; of several settings the best."""
    return 1 - float(np.max(found["accuracy"]))


def coded(given: Task, seed: int) -> dict[str, Any]:
    """Codes, the label last."""
    names = (*given.features, given.label)
    train, test = (np.stack([part.codes[name] for name in names], axis=1) for part in given.split(seed))
    return {"codes": train, "codes_test": test, "sizes": [given.schema[name].size for name in names]}


def signed(given: Task, seed: int) -> dict[str, Any]:
    train, test = given.split(seed)
    return {"x": train.x.astype(float), "y": train.y, "x_test": test.x.astype(float), "y_test": test.y}
