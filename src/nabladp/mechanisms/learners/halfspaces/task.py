"""What every method starts from: public facts about features and label, and what each source attribute may pay."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.checks import is_number, is_whole, members
from nabladp.errors import BudgetError, MechanismError
from nabladp.mechanisms.gram_matrix import SignedColumns
from nabladp.mechanisms.kinds import typed_budget
from nabladp.mechanisms.mechanism import Auditable, Law
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.mechanisms.parameters import Kind, Parameter
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT, exact
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Rho
from nabladp.schema import Schema
from nabladp.tables import Counts

# ---- the task --------------------------------------------------------------------------------------------------------

FEWEST_UNITS = 1 << 12  # with less, noise would be of scale 10⁷
AUDIT_ORDER = 24.0  # exact laws are cut where Rényi orders up to this cannot notice


@dataclass(frozen=True, eq=False)
class Task:
    """``n`` rows to learn from (0: not known yet); ``units`` of ρ that every source attribute may pay for it."""

    schema: Schema
    n: int
    features: tuple[str, ...]
    label: str
    columns: SignedColumns  # of the features, the intercept first
    units: Mapping[str, int]

    @cached_property
    def universe(self) -> Universe:
        return Universe.of(self.schema)

    @property
    def width(self) -> int:
        """The number of the features' ±1 columns, with the intercept."""
        return self.columns.width

    def protected(self, name: str) -> frozenset[str]:
        """The protected sources behind a column of a halfspace task."""
        return self.universe.sources(name) - self.universe.public

    @cached_property
    def label_sources(self) -> frozenset[str]:
        return self.protected(self.label)

    @cached_property
    def feature_sources(self) -> frozenset[str]:
        return frozenset().union(*(self.protected(name) for name in self.columns.attributes))

    @cached_property
    def flips(self) -> Counter[str]:
        """The number of ±1 columns each protected source can flip at once: those of all features derived from it."""
        return self.held({block.attribute: block.flips for block in self.columns.blocks if block.names})  # [sources]

    @cached_property
    def reach(self) -> Counter[str]:
        """The number of features derived from each protected source."""
        return self.held(dict.fromkeys(self.columns.attributes, 1))

    def held(self, amounts: Mapping[str, int]) -> Counter[str]:
        result: Counter[str] = Counter()
        for name, amount in amounts.items():
            result.update(dict.fromkeys(self.protected(name), amount))
        return result

    def budgets(self) -> dict[str, Rho]:
        """The halfspace task's budgets in the form that other mechanisms take."""
        return {source: Rho(Fraction(units, UNIT)) for source, units in self.units.items()}

    def features_after(self, costs: Mapping[str, int]) -> Task:
        """The budget that the features' sources have left after these costs, in units."""
        left = {source: self.units[source] - costs.get(source, 0) for source in sorted(self.feature_sources)}
        if left and min(left.values()) < FEWEST_UNITS:
            raise BudgetError("The budget is too small for so many columns.", fix="Raise it or name fewer features.")
        return replace(self, units=left)

    def share(self, part: Fraction) -> Task:
        return replace(self, units={source: math.floor(units * part) for source, units in self.units.items()})


def costs(guarantee: Guarantee, sources: frozenset[str]) -> dict[str, int]:
    """The cost to each source of a part of a halfspace release, in units of ρ."""
    return {source: guarantee.rho_units(source) or 0 for source in sources}


def curve(universe: Universe, held: Mapping[str, int], cost: Any) -> Guarantee:
    """The guarantee term for which a set that holds c in all costs ``cost(c)``, a ρ."""
    if not held:
        return Guarantee.none(universe)
    return Guarantee.curve(universe, held, [cost(count) for count in range(sum(held.values()) + 1)])


@dataclass(frozen=True, eq=False)
class Fitted:
    """Weights of the columns, the intercept's first; ``deviations`` of the noise in them, where they are known."""

    weights: Floats
    facts: dict[str, Any]
    deviations: Floats | None = None
    integers: Integers | None = None  # where the weights are whole from the start


class Method(Protocol):
    """One way to learn a halfspace, for one task. Nothing but :meth:`run` and :meth:`law` sees data."""

    @property
    def task(self) -> Task: ...
    @property
    def randomizes(self) -> bool:
        """Whether this halfspace method randomizes labels first."""

    def guarantee(self) -> Guarantee: ...
    def figures(self) -> dict[str, Any]:
        """The method's expected figures before anything is spent: labels for people, each with a number or a text."""

    def noise_uses(self) -> list[NoiseUse]:
        """The noise that a run of this halfspace method draws, for the tape."""

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted: ...
    def law(self, counts: Counts) -> Law: ...


# ---- single steps, for exact audits ----------------------------------------------------------------------------------

_STEP_ORDER = 4.0  # Gaussian noise costs the same ρ at every order
_SPACING = 4.0  # outcomes for each unit of the scale: sums over them are sums over all, to 10⁻¹³⁰ (Poisson's formula)


@dataclass(frozen=True, eq=False)
class NoisySums(Auditable):
    """One release of whole sums, each with Gaussian noise, at some public state: what it costs, and its exact law.

    ``reach``: no row adds more than this to a sum.
    """

    cost: Guarantee
    scale: float
    sums: Callable[[Counts], Integers]
    reach: int

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return self.cost

    def distribution(self, counts: Counts) -> Law:
        farthest = self.reach * (counts.n + 2 * _STEP_ORDER) + 14 * self.scale
        step = max(1, math.floor(self.scale / _SPACING))
        outcomes = step * np.arange(-math.ceil(farthest / step), math.ceil(farthest / step) + 1, dtype=np.float64)
        logs = [-(((outcomes - total) / self.scale) ** 2) / 2 for total in self.sums(counts).tolist()]
        return Law(tuple(own - math.log(math.fsum(np.exp(own))) for own in logs), _STEP_ORDER)


# ---- parameters that make no sense -----------------------------------------------------------------------------------

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
    """Refuse parameters of a HalfspaceLearner that do not go together."""
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
        (("holdout_budget", "probabilities"), learner.holdout is not None),
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
    """A bound on what group privacy may round up by, when the cost is stated before the number of rows is known."""
    return 4 + math.isqrt(2 * units // UNIT)


def share(gamma: float | Fraction) -> Fraction:
    """A robustness margin γ as it was meant: 2/7, which no double is, and 0.3 alike."""
    result = exact(gamma, "γ")
    return result.limit_denominator(10**6)
