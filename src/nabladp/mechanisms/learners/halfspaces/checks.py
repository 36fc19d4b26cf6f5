"""Parameters of HalfspaceLearner that make no sense, refused when it is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from nabladp.errors import MechanismError
from nabladp.privacy.units import UNIT, Number, exact

METHODS = ("auto", "descent", "gram", "exact", "average", "gradient", "robust")
TREATMENTS = {"exact": ("response", "direct"), "descent": ("gaussian",)}
_OTHERS = ("response", "gaussian")


def check(learner: Any) -> None:
    """Everything that can be told without a schema."""
    for value, what, fix in (
        (isinstance(learner.label, str), "'label' is the name of an attribute.", 'Write label = "sick".'),
        (isinstance(learner.encode, Mapping), "'encode' maps attributes to encodings.", "Write encode = {'age': 10}."),
        (learner.method in METHODS, f"There is no method {learner.method!r}.", f"Methods: {', '.join(METHODS)}."),
        (_whole(learner.memory_mb, 1), "'memory_mb' is a number of megabytes.", "Leave it out for 1024."),
        (learner.steps is None or _whole(learner.steps, 1), "'steps' is a whole number above 0.", "Leave it out."),
        (learner.resolution is None or _whole(learner.resolution, 1), "'resolution' is a whole number.", "Try 9."),
        (learner.ridge is None or _real(learner.ridge, 0), "'ridge' is at least 0.", "Leave it out for the noise's."),
        (
            learner.holdout is None or (_real(learner.holdout, 0) and 0 < learner.holdout < 1),
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
    if learner.label_treatment is not None and learner.label_treatment not in treatments:
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
    try:
        return tuple(tuple(np.asarray(weights).tolist()) for weights in hypotheses)
    except TypeError:
        raise MechanismError("'hypotheses' is a list of lists of integers.", fix="Give a list for each.") from None


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _real(value: Any, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value < float("inf")


def share(gamma: Number) -> Fraction:
    """A margin as it was meant: 2/7, which no double is, and 0.3 alike."""
    return exact(gamma, "γ").limit_denominator(10**6)
