"""Parameters of HalfspaceLearner that make no sense, refused when it is made."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from nabladp.checks import is_number, is_whole, members
from nabladp.errors import MechanismError
from nabladp.mechanisms.kinds import typed_budget
from nabladp.mechanisms.parameters import Kind, Parameter
from nabladp.privacy.units import UNIT, exact

METHODS = ("auto", "descent", "gram", "exact", "average", "gradient", "robust")
TREATMENTS = {"exact": ("response", "direct"), "descent": ("gaussian",)}
_OTHERS = ("response", "gaussian")
MOST_STEPS = 10_000
MOST_RESOLUTION = 10_000
LARGEST_WEIGHT = 1 << 53


class Margin(Kind):
    """As it was meant: 2/7, which no double is, and 0.3 alike."""

    takes = "a margin, a number from 0 to 1"
    example = "0.2"

    def checked(self, value: Any, declared: Parameter) -> Any:
        if not is_number(value) or not -1 <= value <= 1:
            raise declared.wrong()
        return value if isinstance(value, (int, Fraction)) else float(value)

    def stored(self, value: Any) -> Any:
        return float(value) if isinstance(value, Fraction) else value


class ShortBudget(Kind):
    """A budget for short: the number of a CDP(…)."""

    takes = "a number above 0, the eps0 of CDP(eps0)"
    example = "0.5"

    def checked(self, value: Any, declared: Parameter) -> Any:
        typed_budget({"cdp": value}, f"{declared.name!r}")
        return value

    def stored(self, value: Any) -> Any:
        return value if isinstance(value, int) else float(value)


class Hypotheses(Kind):
    takes = "a list of lists of whole numbers"
    example = "[[1, -1, 0], [0, 2, 1]]"

    def checked(self, value: Any, declared: Parameter) -> tuple[tuple[int, ...], ...]:
        given = value.tolist() if isinstance(value, np.ndarray) else value
        if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
            raise declared.wrong()
        what = f"A member of {declared.name!r}"
        listed = [members(weights, what, declared.fix, error=MechanismError) for weights in given]
        if not all(is_whole(weight, -LARGEST_WEIGHT, LARGEST_WEIGHT) for weights in listed for weight in weights):
            raise declared.wrong()
        return tuple(tuple(int(weight) for weight in weights) for weights in listed)

    def stored(self, value: Any) -> list[list[int]]:
        return [list(weights) for weights in value]


MARGIN, EPSILON = Margin(), ShortBudget()


def check(learner: Any) -> None:
    """What parameters must be together."""
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


def share(gamma: float | Fraction) -> Fraction:
    """A margin as it was meant: 2/7, which no double is, and 0.3 alike."""
    found = exact(gamma, "γ")
    return found.limit_denominator(10**6)
