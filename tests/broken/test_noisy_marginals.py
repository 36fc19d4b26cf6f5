"""Planted faults: each a small realistic slip in NoisyMarginals. The exact audit must refute every one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from broken_laws import told_apart
from small_cases import LEVELS

from nabladp.audit import exact_audit
from nabladp.mechanisms import Law
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.privacy import CDP, Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("a", "boolean"), Attribute("b", "ordered", values=("x", "y", "z"))))
DERIVED = Schema((Attribute("age", "integer", low=0, high=3), Attribute("band", "boolean", derived_from=("age",))))


class NoiseTooSmall(NoisyMarginals):
    """The scale is 30% below what was claimed."""

    def distribution(self, counts: Any) -> Law:
        right = NoisyMarginals._scale
        return _with_scale(self, counts, lambda units: 0.7 * right(self, units))


class SensitivityOne(NoisyMarginals):
    """A row moves between two cells; here only one was thought of."""

    def distribution(self, counts: Any) -> Law:
        factor = 1 / math.sqrt(2) if self.noise == "gaussian" else 1 / 2
        right = NoisyMarginals._scale
        return _with_scale(self, counts, lambda units: factor * right(self, units))


class OneCellWithoutNoise(NoisyMarginals):
    def distribution(self, counts: Any) -> Law:
        parts = list(super().distribution(counts).parts)
        (table, *_) = counts.marginals([self.marginals(counts.schema)[0]])
        sure = np.full(8, -np.inf)
        sure[int(table.ravel()[0])] = 0.0
        return Law((sure, *parts[1:]), 24.0)


class OnlyCellsWithPeople(NoisyMarginals):
    """Cells nobody is in are left out (here: told apart by a sure value), so the list of cells gives people away."""

    def distribution(self, counts: Any) -> Law:
        cells = np.concatenate([table.ravel() for table in counts.marginals(self.marginals(counts.schema))])
        return told_apart(super().distribution(counts), cells)


class SameNoiseTwice(NoisyMarginals):
    """A seed used again: both cells that move share one draw, so their sum has no noise at all."""

    def distribution(self, counts: Any) -> Law:
        law = super().distribution(counts)
        (table, *_) = counts.marginals([self.marginals(counts.schema)[0]])
        gap = np.full(9, -np.inf)
        gap[4 + int(np.clip(table.ravel()[0] - table.ravel()[-1], -4, 4))] = 0.0
        return Law((*law.parts, gap), 24.0)


class RepeatsForgotten(NoisyMarginals):
    """Several marginals, but the cost of one only."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        whole = super().guarantee(schema, n)
        return Guarantee(whole.universe, whole.terms[:1])


class FactorTwoForgotten(NoisyMarginals):
    """Half the cost is claimed for every attribute."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        whole = super().guarantee(schema, n)
        own = whole.per_attribute()
        cost = {x: Pure(f.pure / 2) if self.noise == "laplace" else Rho(f.rho / 2) for x, f in own.items()}
        return Guarantee.compose(schema, [Guarantee.touch(schema, [x], value) for x, value in cost.items()])


class DerivedNotCharged(NoisyMarginals):
    """A derived column is taken for an attribute of its own, and its source pays nothing."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        kept = [s for s in self.marginals(schema) if not set(s) & set(schema.derived)]
        return Guarantee.compose(schema, [Guarantee.touch(schema, s, Rho(0.5)) for s in kept])


class ClampedByData(NoisyMarginals):
    """Noisy counts are cut at the true maximum: the largest possible value tells the true one."""

    def distribution(self, counts: Any) -> Law:
        law = super().distribution(counts)
        cells = np.concatenate([table.ravel() for table in counts.marginals(self.marginals(counts.schema))])
        window = (len(law.parts[0]) - counts.n - 1) // 2
        parts = []
        for part, count in zip(law.parts, cells, strict=True):
            cut = part.copy()
            at = window + int(count)
            cut[at] = np.logaddexp.reduce(part[at:])
            cut[at + 1 :] = -np.inf
            parts.append(cut)
        return Law(tuple(parts), 24.0)


def _with_scale(mechanism: NoisyMarginals, counts: Any, scale: Callable[[int], float]) -> Law:
    """The law of the mechanism with its noise scale replaced."""
    patched = dataclasses.replace(mechanism)
    object.__setattr__(patched, "_scale", scale)
    return NoisyMarginals.distribution(patched, counts)


FAULTS = [NoiseTooSmall, SensitivityOne, OneCellWithoutNoise, OnlyCellsWithPeople, SameNoiseTwice, RepeatsForgotten]
FAULTS += [FactorTwoForgotten, ClampedByData]
REQUESTS: list[Mapping[str, Any]] = [
    {"budget": CDP(1.0), "k": 1},
    {"budget": CDP(1.0), "sets": (("a", "b"), ("a",))},
    {"budget": Pure(1.0), "k": 1, "noise": "laplace"},
]


@pytest.mark.parametrize("request_", REQUESTS, ids=["gaussian-1", "gaussian-sets", "laplace-1"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_planted_fault_is_refuted(fault: type[NoisyMarginals], request_: Mapping[str, Any]) -> None:
    assert not exact_audit(fault(**request_), SCHEMA, 2).passed


@pytest.mark.parametrize("request_", REQUESTS, ids=["gaussian-1", "gaussian-sets", "laplace-1"])
def test_the_real_mechanism_passes_where_its_broken_twins_fail(request_: Mapping[str, Any]) -> None:
    assert exact_audit(NoisyMarginals(**request_), SCHEMA, 2).passed


def test_derived_column_not_charged_is_refuted() -> None:
    audit = exact_audit(
        DerivedNotCharged(CDP(1.0), sets=(("band",),)), DERIVED, 1, derive={"band": lambda r: r["age"] // 2}
    )
    assert [row.attributes for row in audit.refuted] == [("age",)]


@pytest.mark.parametrize("level", ["month", "quarter", "year", "state"])
def test_level_not_charged_is_refuted(level: str) -> None:
    audit = exact_audit(DerivedNotCharged(CDP(1.0), sets=((level,),)), LEVELS, 1)
    source = "tract" if level == "state" else "day"
    assert (source,) in [row.attributes for row in audit.refuted]
    assert all(source in row.attributes for row in audit.refuted)
