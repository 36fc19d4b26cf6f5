"""Parameters of HalfspaceLearner that make no sense, refused when it is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from nabladp.checks import is_number, is_share, is_whole, members
from nabladp.errors import MechanismError
from nabladp.mechanisms.options import MOST_MEGABYTES, choice, concentrated
from nabladp.privacy.units import UNIT, Number, exact
from nabladp.privacy.values import CDP

METHODS = ("auto", "descent", "gram", "exact", "average", "gradient", "robust")
TREATMENTS = {"exact": ("response", "direct"), "descent": ("gaussian",)}
_OTHERS = ("response", "gaussian")
MOST_STEPS = 10_000
MOST_RESOLUTION = 10_000
LARGEST_WEIGHT = 1 << 53


def check(learner: Any) -> None:
    """Everything that can be told without a schema."""
    choice(learner.method, METHODS, "method", f"Methods: {', '.join(METHODS)}.")
    for value, what, fix in (
        (isinstance(learner.label, str), "'label' is the name of an attribute.", 'Write label = "sick".'),
        (isinstance(learner.encode, Mapping), "'encode' maps attributes to encodings.", "Write encode = {'age': 10}."),
        (
            is_whole(learner.memory_mb, 1, MOST_MEGABYTES),
            f"'memory_mb' is a number of megabytes, up to {MOST_MEGABYTES:,}.",
            "Leave it out for 1024.",
        ),
        (
            learner.steps is None or is_whole(learner.steps, 1, MOST_STEPS),
            f"'steps' is a whole number from 1 to {MOST_STEPS:,}.",
            "Leave it out.",
        ),
        (
            learner.resolution is None or is_whole(learner.resolution, 1, MOST_RESOLUTION),
            f"'resolution' is a whole number from 1 to {MOST_RESOLUTION:,}.",
            "Try 9.",
        ),
        (learner.ridge is None or _real(learner.ridge, 0), "'ridge' is at least 0.", "Leave it out for the noise's."),
        (
            learner.holdout is None or is_share(learner.holdout),
            "'holdout' is a share of the rows between 0 and 1.",
            "A fifth is holdout = 0.2.",
        ),
        (
            learner.intercept is None or isinstance(learner.intercept, bool),
            "'intercept' is true or false.",
            "Leave out.",
        ),
    ):
        if not value:
            raise MechanismError(what, fix=fix)
    treatments = TREATMENTS.get(learner.method, _OTHERS)
    given = learner.label_treatment
    if given is not None and not (isinstance(given, str) and given in treatments):
        raise MechanismError(
            f"The label cannot be treated like this with method={learner.method!r}.",
            fix=f"Use {' or '.join(map(repr, treatments))}, or leave it out.",
        )
    robust = learner.method in ("exact", "robust")
    for names, fits in (
        (("gamma", "gamma_prime"), robust),
        (("resolution", "hypotheses", "intercept"), learner.method == "exact"),
        (("steps",), learner.method in ("descent", "gradient")),
        (("ridge",), learner.method in ("auto", "gram", "robust")),
        (("holdout_budget",), learner.holdout is not None),
    ):
        for name in names:
            if getattr(learner, name) is not None and not fits:
                raise MechanismError(
                    f"{name!r} means nothing for this learner.", fix="Leave it out, or choose another method."
                )
    for name in ("gamma", "gamma_prime"):
        if getattr(learner, name) is not None:
            share(getattr(learner, name))
    for name in ("label_epsilon", "feature_epsilon"):
        if getattr(learner, name) is not None:
            concentrated(CDP(getattr(learner, name)), name)
    if robust and (learner.gamma is None or learner.gamma_prime is None):
        raise MechanismError(
            f"method={learner.method!r} needs the margins gamma and gamma_prime.",
            fix="With 10 features, gamma = 0.2 and gamma_prime = 0.1 stand for 2 and 1 of them.",
        )
    if learner.hypotheses is not None and (learner.resolution is not None or learner.intercept is not None):
        raise MechanismError("The hypotheses are given.", fix="Leave out 'resolution' and 'intercept'.")


def rounding(units: int) -> int:
    """What group privacy may round up by, when the cost is stated before the number of rows is known."""
    return 4 + math.isqrt(2 * units // UNIT)


def lists(hypotheses: Any) -> tuple[tuple[int, ...], ...]:
    fix = "Give a list of whole numbers for each."
    given = hypotheses.tolist() if isinstance(hypotheses, np.ndarray) else hypotheses
    listed = [
        members(weights, "A hypothesis", fix, error=MechanismError) for weights in members(given, "'hypotheses'", fix)
    ]
    if not all(is_whole(weight, -LARGEST_WEIGHT, LARGEST_WEIGHT) for weights in listed for weight in weights):
        raise MechanismError("'hypotheses' is a list of lists of integers.", fix=fix)
    return tuple(tuple(int(weight) for weight in weights) for weights in listed)


def _real(value: Any, least: float) -> bool:
    return is_number(value) and float(value) >= least


def share(gamma: Number) -> Fraction:
    """A margin as it was meant: 2/7, which no double is, and 0.3 alike."""
    found = exact(gamma, "γ")
    if not -1 <= found <= 1:
        raise MechanismError("A margin is a share between 0 and 1.", fix="Try gamma = 0.2 and gamma_prime = 0.1.")
    return found.limit_denominator(10**6)
