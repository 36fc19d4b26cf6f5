"""What a cost means, in plain words: whether noise drowns the counts, and whether the figure of a person is large."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from nabladp.mechanisms import Mechanism
from nabladp.privacy import Guarantee
from nabladp.privacy.interpretation import posterior
from nabladp.release.cost import as_python, budgets_of, scale_budgets

WEAK_EPSILON = 5.0  # at which a belief of 50% can rise to more than 99%
_CLEAR = 0.2  # noise of this share of an average count leaves its size clear


def noise_verdicts(named: Sequence[tuple[str, Mechanism]], errors: Mapping[str, Any]) -> list[str]:
    """A sentence for each release of tables of counts: the noise of a cell beside an average count."""
    return [
        sentence
        for name, mechanism in named
        if (sentence := _verdict(name, mechanism, _shares(errors.get(name)))) is not None
    ]


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


def _raise_to(mechanism: Mechanism, factor: float) -> str:
    """The budget at which the noise of the worst table would be clear; nothing where no budget is meant for that."""
    budgets = budgets_of(scale_budgets(mechanism.to_json(), factor, _rounded_up))
    if list(budgets) != ["budget"] or not math.isfinite(factor) or factor > 1000:
        return "Raise it, "
    return f"Raise it to {as_python(budgets['budget'])} for noise of {_CLEAR:.0%} of a count, "


def _rounded_up(value: float) -> float:
    """Two digits, so that a person can remember them."""
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
