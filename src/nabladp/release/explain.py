"""What a guarantee says about one set of attributes, in numbers and in sentences a person can read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nabladp.errors import GuaranteeError
from nabladp.privacy import Guarantee
from nabladp.privacy.interpretation import Statement, mutual_information, posterior, total_variation
from nabladp.release.cost import figure, finite


def explain(guarantee: Guarantee, attributes: Sequence[str], delta: float, prior: float = 0.5) -> dict[str, Any]:
    """Figures for this set, what group privacy alone would say, and statements with what each assumes."""
    rho, pure = guarantee.group_bound(attributes)
    return {
        "attributes": list(attributes),
        "delta": delta,
        "public": sorted(guarantee.universe.sources(attributes) & guarantee.universe.public),
        **figure(guarantee, attributes, delta),
        "epsilon_exact": _exact(guarantee, attributes, delta),
        "group_privacy": {"rho": finite(rho), "pure_epsilon": finite(pure)},
        "statements": [_told(s) for s in _statements(guarantee, attributes, delta, prior)],
        "not_protected": _membership(guarantee),
    }


def _membership(guarantee: Guarantee) -> str:
    if guarantee.universe.public:
        return "Being in the table at all: public attributes are part of it, so nothing is promised about it."
    return "Being in the table at all: only the figure for the whole person bounds that."


def costliest(guarantee: Guarantee, size: int) -> dict[str, Any]:
    """The costliest attributes of this number."""
    found = guarantee.worst_subset(size)
    return {
        "attributes": list(found.attributes),
        "rho": finite(found.rho),
        "at_most": finite(found.at_most),
        "exact": found.exact,
    }


def _statements(guarantee: Guarantee, attributes: Sequence[str], delta: float, prior: float) -> list[Statement]:
    made = [posterior(guarantee, attributes, prior, delta)]
    if not math.isinf(guarantee.epsilon(attributes)):  # statements without exception need a pure bound
        made = [posterior(guarantee, attributes, prior), total_variation(guarantee, attributes)]
    return [*made, mutual_information(guarantee, [attributes])]


def _told(statement: Statement) -> dict[str, Any]:
    return {"sentence": statement.sentence, "assumes": statement.assumes, "value": finite(statement.value)}


def _exact(guarantee: Guarantee, attributes: Sequence[str], delta: float) -> float | None:
    """ε from the noise's own privacy-loss distribution, where every term has one."""
    try:
        return finite(guarantee.epsilon(attributes, delta, "discrete_gaussian"))
    except GuaranteeError:
        return None
