"""What a request would cost and how good it would be, before anything is spent or read.

``Cost`` is the answer; ``explain`` says in sentences what a guarantee means for one set of attributes; ``scaled`` is
the same mechanism with other budgets.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nabladp.displayed import Displayed
from nabladp.errors import GuaranteeError
from nabladp.mechanisms import Mechanism
from nabladp.privacy import Guarantee
from nabladp.privacy.budget import members
from nabladp.privacy.interpretation import Statement, mutual_information, posterior, total_variation
from nabladp.privacy.ledger.limits import LimitRequest
from nabladp.privacy.units import format_rounded
from nabladp.privacy.values import Approx, as_value
from nabladp.schema import Schema

# ---- the budgets among a mechanism's options, and other budgets ------------------------------------------------------

_ONE, _SEVERAL, _PLAIN = (
    ("budget", "holdout_budget", "person"),
    ("budgets", "sets"),
    ("label_epsilon", "feature_epsilon"),
)
_DIGITS = 4


def nearest(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def scale_budgets(
    options: Mapping[str, Any], factor: float, rounding: Callable[[float], float] = nearest
) -> dict[str, Any]:
    """A mechanism's options with every budget changed so that its ε is ``factor`` times as large.

    Rounded to a few digits, so that what is shown is what was priced.
    """
    scaled_options = dict(options)
    for name in options:
        if not is_budget(options, name):
            continue
        if name in _SEVERAL:
            scaled_options[name] = {key: _times(value, factor, rounding) for key, value in options[name].items()}
        else:
            value = options[name]
            scaled_options[name] = rounding(value * factor) if name in _PLAIN else _times(value, factor, rounding)
    return scaled_options


def is_budget(options: Mapping[str, Any], name: str) -> bool:
    if name in _PLAIN:
        return options.get(name) is not None
    return name in (*_ONE, *_SEVERAL) and isinstance(options.get(name), Mapping)


def budgets_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The budgets among a mechanism's options; none that is empty."""
    return {name: value for name, value in options.items() if is_budget(options, name) and value != {}}


def _times(value: Mapping[str, Any], factor: float, rounding: Callable[[float], float]) -> dict[str, Any]:
    """A budget in its plan-file form, scaled: ρ goes with the square of ε, δ stays."""
    powers = {"rho": 2, "delta": 0}
    return {
        name: own if name == "delta" else rounding(own * factor ** powers.get(name, 1)) for name, own in value.items()
    }


def as_toml(value: Any) -> str:
    """An option as a plan file has it."""
    if not isinstance(value, Mapping):
        return f"{value:g}"
    inside = [f"{name if name.isidentifier() else json.dumps(name)} = {as_toml(own)}" for name, own in value.items()]
    return f"{{ {', '.join(inside)} }}"


def as_python(value: Any) -> str:
    """An option as Python has it."""
    if not isinstance(value, Mapping):
        return f"{value:g}"
    typed = as_value(value)
    numbers = (typed.eps, typed.delta) if isinstance(typed, Approx) else tuple(vars(typed).values())
    return f"{type(typed).__name__}({', '.join(f'{float(number):g}' for number in numbers)})"


_MOST_SHOWN = 4  # releases named in a sentence


@dataclass(frozen=True)
class Largest:
    """Budgets that were checked against what is left: those asked for, times ``factor``, rounded down.

    None of them where no budget fits: ``used_up`` then names the limit of which nothing is left.
    """

    factor: float | None = None
    budgets: Mapping[str, Mapping[str, Any]] | None = None  # of each release, in the form of a plan file
    used_up: str | None = None

    @property
    def sentence(self) -> str:
        if self.budgets is None or self.factor is None:
            return f"Nothing is left of the limit {self.used_up!r}, so no budget fits."
        only = [own for own in self.budgets.values() if list(own) == ["budget"]]
        if len(only) == len(self.budgets) == 1:
            return f"The largest budget that still fits is {as_python(only[0]['budget'])}."
        parts = [f"{name!r} {_budget_words(own)}" for name, own in list(self.budgets.items())[:_MOST_SHOWN]]
        more = f"; and {len(self.budgets) - _MOST_SHOWN} more" if len(self.budgets) > _MOST_SHOWN else ""
        return f"The largest budgets that still fit are {self.factor:g} times these: {'; '.join(parts)}{more}."

    def to_json(self) -> dict[str, Any] | None:
        return None if self.budgets is None else {"factor": self.factor, "budgets": self.budgets}


def _budget_words(budgets: Mapping[str, Any]) -> str:
    """Budgets in words, each by its name, but for the usual one; an entry of several with a dot, as in
    ``budgets.age``."""
    words = []
    for name, value in budgets.items():
        several = isinstance(value, Mapping) and all(isinstance(own, Mapping) for own in value.values())
        for key, own in value.items() if several else ((None, value),):
            label = name if key is None else f"{name}.{key}"
            words.append(as_python(own) if label == "budget" else f"{label} {as_python(own)}")
    return ", ".join(words[:_MOST_SHOWN]) + (" and others" if len(words) > _MOST_SHOWN else "")


# ---- one set of attributes, in numbers and in sentences --------------------------------------------------------------


def explain(guarantee: Guarantee, attributes: Sequence[str], delta: float, prior: float = 0.5) -> dict[str, Any]:
    """Explain the cost to one set: its figures, what group privacy alone would say, and statements with what each
    assumes."""
    rho, pure = guarantee.group_bound(attributes)
    return {
        "attributes": list(attributes),
        "delta": delta,
        "public": sorted(guarantee.universe.sources(attributes) & guarantee.universe.public),
        **figure(guarantee, attributes, delta),
        "epsilon_exact": _exact(guarantee, attributes, delta),
        "group_privacy": {"rho": finite(rho), "pure_epsilon": finite(pure)},
        "statements": [_statement_json(s) for s in _statements(guarantee, attributes, delta, prior)],
        "not_protected": _membership(guarantee),
    }


def _membership(guarantee: Guarantee) -> str:
    if guarantee.universe.public:
        return "Being in the table at all: public attributes are part of it, so nothing is promised about it."
    return "Being in the table at all: only the figure for all protected attributes bounds that."


def costliest(guarantee: Guarantee, size: int) -> dict[str, Any]:
    """The costliest ``size`` attributes of a request."""
    worst = guarantee.worst_subset(size)
    return {
        "attributes": list(worst.attributes),
        "rho": finite(worst.rho),
        "at_most": finite(worst.at_most),
        "exact": worst.exact,
    }


def _statements(guarantee: Guarantee, attributes: Sequence[str], delta: float, prior: float) -> list[Statement]:
    statements = [posterior(guarantee, attributes, prior, delta)]
    if not math.isinf(guarantee.epsilon(attributes)):  # statements without exception need a pure bound
        statements = [posterior(guarantee, attributes, prior), total_variation(guarantee, attributes)]
    return [*statements, mutual_information(guarantee, [attributes])]


def _statement_json(statement: Statement) -> dict[str, Any]:
    return {"sentence": statement.sentence, "assumes": statement.assumes, "value": finite(statement.value)}


def _exact(guarantee: Guarantee, attributes: Sequence[str], delta: float) -> float | None:
    """A set's ε from the noise's own privacy-loss distribution, where every term has one."""
    try:
        return finite(guarantee.epsilon(attributes, delta, "discrete_gaussian"))
    except GuaranteeError:
        return None


# ---- the cost of a request -------------------------------------------------------------------------------------------

DELTA = 1e-6


def default_delta(rows: int | None) -> float:
    """The δ at which ε is shown where none is given: 10⁻⁶, or the power of ten at or below a tenth of 1/rows."""
    if not rows:
        return DELTA
    digits = len(str(10 * rows - 1))  # the least power of ten that is not below 10 · rows
    return min(DELTA, float(f"1e-{digits}"))


@dataclass(frozen=True, repr=False)
class Cost(Displayed):
    """The guarantee of a request, its expected error, and how it stands against the limits."""

    displayed_as = "cost"

    guarantee: Guarantee
    errors: tuple[tuple[str, Any], ...]  # name of the release, its mechanism's expected error
    lines: tuple[LimitRequest, ...] = ()
    adversaries: Mapping[str, tuple[str, ...]] | None = None
    delta: float = DELTA
    any_rows: tuple[str, ...] = ()  # releases whose cost is shown for any number of rows; see `waits_for_rows`
    largest: Largest | None = None  # what would still fit, where this does not
    verdict: tuple[str, ...] = ()  # in plain words: noise beside counts, and a large figure of a person

    def __repr__(self) -> str:
        person = figure(self.guarantee, self.guarantee.per_person().attributes, self.delta)
        figures = f"ε = {format_cost(person['epsilon'])} at δ = {self.delta:g}, ρ = {format_cost(person['rho'])}"
        more = ", …" if len(self.errors) > _MOST_SHOWN else ""
        named = ", ".join(name for name, _ in self.errors[:_MOST_SHOWN]) + more
        verdict = "within the budget" if self.fits else "exceeds the budget"
        return f"Cost({named}: {verdict}; all protected attributes: {figures})"

    @property
    def fits(self) -> bool:
        return all(line.fits for line in self.lines)

    def explain_sets(self, sets: Sequence[str], worst: int | None = None, prior: float = 0.5) -> dict[str, Any]:
        """Explain the cost to sets written "a+b", and to the costliest attributes."""
        universe = self.guarantee.universe
        facts: dict[str, Any] = {}
        if sets:
            facts["sets"] = [explain(self.guarantee, members(universe, text), self.delta, prior) for text in sets]
        return facts | ({} if worst is None else {"worst": costliest(self.guarantee, worst)})

    def to_json(self) -> dict[str, Any]:
        return {
            "fits": self.fits,
            "largest_budget": self.largest and self.largest.to_json(),
            "any_rows": list(self.any_rows),
            "verdict": list(self.verdict),
            **figures(self.guarantee, self.adversaries or {}, self.delta),
            "limits": [line.to_json() for line in self.lines],
            "expected_error": {name: error_json(error) for name, error in self.errors},
        }


def waits_for_rows(mechanism: Mechanism) -> bool:
    """Whether a mechanism's claim for any number of rows may be far too large, so that limits wait until the number is
    known."""
    return mechanism.plans_for_rows


def without_rows(named: Iterable[tuple[str, Mechanism]], rows: int | None) -> tuple[str, ...]:
    """The names of releases whose price has to be for any number of rows, as the number is not known."""
    return () if rows else tuple(name for name, mechanism in named if waits_for_rows(mechanism))


def price(
    named: Sequence[tuple[str, Mechanism]], schema: Schema, n: int, rows_per_person: int = 1
) -> tuple[Guarantee, tuple[tuple[str, Any], ...]]:
    """Price some mechanisms: their composed guarantee and their expected errors. Reads no data."""
    parts = [mechanism.guarantee(schema, n) for _, mechanism in named]
    errors = tuple((name, mechanism.expected_error(schema, n)) for name, mechanism in named)
    return Guarantee.compose(schema, parts).for_rows(rows_per_person), errors


def format_cost(value: float | None, *, up: bool = True) -> str:
    """A cost for people with four digits; costs are rounded up, what is left or allowed down."""
    return "no bound" if value is None else format_rounded(value, 4, up=up)


def figures(guarantee: Guarantee, adversaries: Mapping[str, Sequence[str]], delta: float) -> dict[str, Any]:
    """The figures of a cost: every attribute, every named adversary and the person, always together, conversions
    named."""
    return {
        "delta": delta,
        "conversions": {"epsilon": "tight (Canonne, Kamath, Steinke 2020)", "epsilon_paper": "prop:ppdp-conversion"},
        "attributes": {name: figure(guarantee, (name,), delta) for name in guarantee.universe.protected},
        "derived": {name: list(sources) for name, sources in guarantee.universe.derived.items()},
        "public": sorted(guarantee.universe.public),
        "adversaries": [
            {"name": name, "attributes": list(chosen), **figure(guarantee, chosen, delta)}
            for name, chosen in adversaries.items()
        ],
        "person": figure(guarantee, guarantee.per_person().attributes, delta),
    }


def figure(guarantee: Guarantee, attributes: Sequence[str], delta: float) -> dict[str, float | None]:
    costs = guarantee.figure(attributes)
    values = {
        "rho": costs.rho,
        "epsilon": costs.epsilon(delta),
        "epsilon_paper": costs.epsilon(delta, "paper"),
        "pure_epsilon": costs.pure,
    }
    return {name: finite(value) for name, value in values.items()}


def finite(value: float) -> float | None:
    """A cost for JSON, which has no infinity: 'no bound' is null."""
    return value if value < float("inf") else None


def error_json(error: Any) -> Any:
    """Expected errors as JSON: a list for a tuple of errors, one per marginal; an object with a "summary" for any other
    mechanism."""
    return [part.to_json() for part in error] if isinstance(error, tuple) else error.to_json()
