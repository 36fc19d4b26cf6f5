"""What exact tests of several mechanisms share: small schemas, and a person with two rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from nabladp.audit.exact import Divergences
from nabladp.mechanisms import Mechanism
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

MIXED = Schema(
    (Attribute("a", "boolean"), Attribute("b", "ordered", values=("x", "y", "z")), Attribute("c", "boolean"))
)
DERIVED = Schema(
    (
        Attribute("age", "integer", low=0, high=3),
        Attribute("sex", "boolean"),
        Attribute("band", "boolean", derived_from=("age",)),
        Attribute("both", "integer", low=0, high=3, derived_from=("band", "sex")),
    )
)
_DAY = Attribute("day", "date", low="2019-12-31", high="2020-01-02", unknown="other")
_TRACT = Attribute("tract", "categorical", values=("011", "012", "021"))
LEVELS = Schema(
    (
        *(_DAY, *(_DAY.coarser(level, level) for level in ("month", "quarter", "year"))),
        *(Attribute("sex", "boolean"), _TRACT, _TRACT.coarser("state", 2)),
    )
)
DERIVE = {
    "band": lambda record: int(record["age"] >= 2),
    "both": lambda record: 2 * int(record["age"] >= 2) + record["sex"],
}


def check_two_rows(mechanism: Mechanism, pure: bool = False) -> None:
    """Both rows of a table may change at once: ρ grows four-fold, ε two-fold, and for some pair no less would do."""
    bits = Schema((Attribute("a", "boolean"), Attribute("c", "boolean")))
    claim = mechanism.guarantee(bits, 2).for_rows(2)
    known = Divergences()
    laws: dict[Any, Any] = {}
    for rows in itertools.product(itertools.product((0, 1), repeat=2), repeat=2):
        codes = np.array(rows).T
        law = mechanism.distribution(CodedTable(bits, {"a": codes[0], "c": codes[1]}))
        laws[rows] = (known.learn(law), law.largest_order)
    tightest = 0.0
    for (one, (here, order)), (other, (there, _)) in itertools.permutations(laws.items(), 2):
        moved = {name for i, name in enumerate("ac") if any(x[i] != y[i] for x, y in zip(one, other, strict=True))}
        rho, epsilon = known.between(here, there, order)
        assert rho <= claim.rho(moved) * (1 + 1e-9)
        assert not pure or epsilon <= claim.epsilon(moved) * (1 + 1e-9)
        tightest = max(tightest, epsilon / claim.epsilon(moved) if pure else rho / claim.rho(moved))
    assert tightest == pytest.approx(1.0)
