"""What a cost means, in plain words: whether noise drowns the counts, and whether the figure of a person is large."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.mechanism import ExpectedError
from nabladp.privacy import Budget, Guarantee, Pure
from nabladp.privacy.conversion import epsilon_from_rho
from nabladp.privacy.interpretation import posterior
from nabladp.privacy.values import BudgetValue, as_value
from nabladp.release.cost import as_python, budgets_of, default_delta, scale_budgets

WEAK_EPSILON = 5.0  # at which a belief of 50% can rise to more than 99%
_CLEAR = 0.2  # noise of this share of an average count leaves its size clear


def noise_verdicts(named: Sequence[tuple[str, Mechanism]], errors: Mapping[str, Any], rows: int | None) -> list[str]:
    """A sentence for each release: how large its noise or its promised error is, and what to do where that is much."""
    sentences = []
    for name, mechanism in named:
        error = errors.get(name)
        shares = _shares(error)
        sentence = _verdict(name, mechanism, shares) if shares else _other_verdict(name, mechanism, error, rows or 0)
        sentences += [] if sentence is None else [sentence]
    return sentences


def _shares(error: Any) -> list[float | None]:
    """For each table of counts, the noise's standard deviation as a share of the average count."""
    parts = error if isinstance(error, tuple) else ()
    return [part.share for part in parts if hasattr(part, "share")]


def _verdict(name: str, mechanism: Mechanism, shares: Sequence[float | None]) -> str | None:
    known = [share for share in shares if share is not None]
    if not shares:
        return None
    if not known:
        return f"{name!r}: give rows = … in [table] to see how large the noise is beside an average count."
    drowned = sum(share > 1 for share in known)
    if not drowned:
        size = "small" if max(known) <= _CLEAR else "visible"
        return f"{name!r}: the noise is {size}, at most {max(known):.0%} of an average count in any table."
    which = "all tables" if drowned == len(known) else f"{drowned:,} of {len(known):,} tables"
    where = "its table" if len(known) == 1 else which
    return (
        f"{name!r}: at this budget the noise is larger than an average count in {where}. "
        f"{_raise_to(mechanism, max(known) / _CLEAR)}ask for fewer tables, or declare coarser bins."
    )


@dataclass(frozen=True)
class _Measure:
    """What tells how good a release will be, from its expected error as JSON: a number, and at which it is small or
    useless. ``scales``: whether it is in proportion to the noise, so that a budget can be named."""

    read: Callable[[Mapping[str, Any]], float | None]
    what: str
    small: float
    useless: float
    scales: bool = False
    also: str = ""


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def _held_out(error: Mapping[str, Any]) -> float | None:
    return error["held_out_scale"] / error["held_out"] if error.get("held_out") else _in_rows(error["summary"])


def _in_rows(summary: Mapping[str, Any]) -> float | None:
    """The noise that a method of a halfspace states as a share of the rows."""
    found = [value for key, value in summary.items() if key.endswith("as a share of the rows") and "ridge" not in key]
    return max(found, default=None)


_FEWER = "or ask about fewer attributes"
_MEASURES = {  # by a key of the expected error
    "noise_error": _Measure(
        lambda e: e["noise_error"],
        "Distance of a measured table from the truth by noise alone (total variation, at most 1)",
        *(0.1, 0.5, True),
        also="or ask for a smaller workload",
    ),
    "noise_norm": _Measure(
        lambda e: e["share"],
        "Noise in the matrix (spectral norm), as a share of the rows",
        *(0.1, 1.0, True),
        also=_FEWER,
    ),
    "per_attribute": _Measure(
        lambda e: _root(e["per_attribute"]["least"]),
        "Error of an answer, as a share of the rows (root mean square)",
        *(0.02, 0.25),
        also="or ask fewer queries",
    ),
    "bound_one_query": _Measure(
        lambda e: e["scale"] / e["n"] if e["n"] and e["scale"] else None,
        "Noise on a measured count, as a share of the rows",
        *(0.02, 0.5, True),
        also="or ask fewer queries",
    ),
    "per_person_certified": _Measure(
        lambda e: e["certificate"]["certified"] / e["n"] if e.get("certificate", {}).get("certified") else None,
        "Rows that must share a combination for it to be found, as a share of all",
        *(0.02, 0.5),
        also=_FEWER,
    ),
    "population_mean": _Measure(
        lambda e: _root(e.get("mean")),
        "Distance of the estimate from the truth (Euclidean, at most √2)",
        *(0.05, 0.5),
        also=_FEWER,
    ),
    "per_person_rows": _Measure(
        lambda e: e.get("error"), "Promised error, as a share of people", *(0.05, 0.5), also="or use fewer features"
    ),
    "method": _Measure(
        _held_out,
        "Noise in the held-out accuracy, or else in what it learns from, as a share of the rows",
        *(0.05, 0.5, True),
        also="or use fewer features",
    ),
}


def _other_verdict(name: str, mechanism: Mechanism, error: Any, rows: int) -> str | None:
    """The verdict on a release that is no table of counts."""
    if error is None or not hasattr(error, "to_json"):
        return None
    given = {"n": rows, **error.to_json()}
    if "columns" in given and isinstance(given["columns"], list):  # answers of queries
        return _of_queries(name, given)
    if not rows:
        return f"{name!r}: give rows = … in [table] to see how large its error is."
    measure = _measure_of(given)
    if measure is None:
        return None
    value = measure.read(given)
    also = f", {measure.also}" if measure.also else ""
    if value is None:
        return f"{name!r}: nothing is promised with so few rows at this budget. Raise it{also}."
    size = "small" if value <= measure.small else "visible" if value < measure.useless else "too large to be useful"
    most = "" if measure.scales else "at most "
    said = f"{name!r}: the error is {size}. {measure.what}: {most}{value:.2g}."
    if value < measure.useless:
        return said
    if measure.scales:
        goal = f"an error of {measure.small:g}"
        return f"{said} {_raise_to(mechanism, value / measure.small, goal)}{measure.also}."
    return f"{said} Raise the budget{also}."


def _measure_of(given: Mapping[str, Any]) -> _Measure | None:
    return next((own for key, own in _MEASURES.items() if key in given), None)


def error_share(error: ExpectedError, rows: int) -> tuple[str, float | None]:
    """What tells how good a release will be that is neither tables of counts nor answers of queries: what it is, and
    its value (None: nothing is promised)."""
    given = {"n": rows, **error.to_json()}
    measure = _measure_of(given)
    return ("", None) if measure is None else (measure.what, measure.read(given))


def _of_queries(name: str, given: Mapping[str, Any]) -> str | None:
    """The verdict on queries: whether a group of average size has intervals at all."""
    rows = given["n"]
    if not rows:
        return f"{name!r}: give rows = … in [table] to see how wide the intervals are."
    lost = [own for own in given["columns"] if own["half_width"] is None or not math.isfinite(own["half_width"])]
    if not lost:
        widths = ", ".join(f"{own['column']} ± {own['half_width']:.3g}" for own in given["columns"][:4])
        return f"{name!r}: in a group of average size ({_rows(rows / given['columns'][0]['groups'])} rows): {widths}."
    return (
        f"{name!r}: at this budget the noise hides {lost[0]['column']!r} in a group of average size "
        f"({_rows(rows / lost[0]['groups'])} rows). Raise it, or ask for fewer groups."
    )


def _rows(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _raise_to(mechanism: Mechanism, factor: float, goal: str = f"noise of {_CLEAR:.0%} of a count") -> str:
    """The budget at which the noise of the worst table would be clear; nothing where no budget is meant for that."""
    budgets = budgets_of(scale_budgets(mechanism.to_json(), factor, rounded_up))
    if list(budgets) != ["budget"] or not math.isfinite(factor) or factor > 1000:
        return "Raise it, "
    return f"Raise it to {as_python(budgets['budget'])} for {goal}, "


def rounded_up(value: float) -> float:
    """A budget with two digits, rounded up, so that a person can remember it."""
    step: float = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step) * step:.6g}")


def person_warnings(guarantee: Guarantee, delta: float, limited: bool) -> list[str]:
    """A warning where the figure of a person is large; ``limited`` says whether the budget limits it at all."""
    person = guarantee.per_person()
    epsilon = person.epsilon(delta)
    if epsilon <= WEAK_EPSILON or not guarantee.universe.protected:
        return []
    figure = "has no bound" if math.isinf(epsilon) else f"is large: ε = {epsilon:.3g} at δ = {delta:g}"
    belief = posterior(guarantee, guarantee.universe.protected, 0.5, delta).sentence
    fix = "Lower the budgets." if limited else "Limit it with person = { rho = … } in [budget], or lower the budgets."
    return [f"The figure for the whole person {figure}. {belief} {fix}"]


def delta_warnings(delta: float, rows: int | None) -> list[str]:
    """A warning where δ is so large that the bounds of somebody in the table are expected to fail."""
    if not rows or delta * rows < 1:
        return []
    return [
        f"δ = {delta:g} is not below 1/rows ({rows:,} rows): the bounds that hold except with probability δ may fail "
        f"for somebody in the table. Set delta = {default_delta(rows):g} under [report], or leave it out."
    ]


# ---- every budget in every measure -----------------------------------------------------------------------------------


def in_every_measure(value: BudgetValue, delta: float) -> dict[str, float | None]:
    """A typed budget as ε at δ, as ρ and as cdp (ε0); and as pure ε, which only a pure one has."""
    if isinstance(value, Pure):
        pure = float(value.eps)
        return {"epsilon": pure, "rho": pure**2 / 2, "cdp": pure, "pure": pure}
    return _of_rho(float(value.amount()), delta)


def _of_rho(rho: float, delta: float) -> dict[str, float | None]:
    return {"epsilon": epsilon_from_rho(rho, delta), "rho": rho, "cdp": math.sqrt(2 * rho), "pure": None}


def left_in_every_measure(lines: Sequence[Mapping[str, Any]], delta: float) -> list[dict[str, Any]]:
    """What limits of a ledger have left, each in every measure; ``lines`` are theirs as JSON."""
    named = []
    for line in lines:
        left = max(line["left"], 0.0)
        pure = {"epsilon": left, "rho": left**2 / 2, "cdp": left, "pure": left}
        named.append({"name": line["limit"], **(pure if line["measure"] != "ρ" else _of_rho(left, delta))})
    return named


def limits_in_every_measure(budget: Budget, delta: float) -> list[dict[str, Any]]:
    """The limits of a budget, each in every measure."""
    return typed_budgets(budget, (), delta)


def typed_budgets(budget: Budget, named: Sequence[tuple[str, Mechanism]], delta: float) -> list[dict[str, Any]]:
    """All budgets that a plan states, each in every measure: its limits, then those of its releases."""
    stated = _flat("limit", budget.to_json())
    for name, mechanism in named:
        stated += _flat(name, budgets_of(mechanism.to_json()))
    return [{"name": name, **in_every_measure(value, delta)} for name, value in stated]


def _flat(owner: str, budgets: Mapping[str, Any]) -> list[tuple[str, BudgetValue]]:
    """Budgets with their names; those of a table, such as ``budgets``, one by one."""
    flat = []
    for name, value in budgets.items():
        if not isinstance(value, Mapping):
            continue
        if any(isinstance(each, Mapping) for each in value.values()):
            flat += [(f"{owner}: {key}", as_value(each)) for key, each in value.items()]
        else:
            flat.append((f"{owner}: {name}", as_value(value)))
    return flat
