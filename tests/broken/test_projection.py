"""Planted faults: each a small realistic slip in Projection. The exact audit must refute every one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from broken_laws import told_apart

from nabladp.audit import exact_audit
from nabladp.mechanisms import Law
from nabladp.mechanisms.projection import Projection
from nabladp.mechanisms.projection.calibration import Calibration
from nabladp.privacy import CDP, Guarantee, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import Counts
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals, Parities

SCHEMA = Schema((Attribute("a", "boolean"), Attribute("b", "ordered", values=("x", "y", "z"))))
DERIVED = Schema((Attribute("age", "integer", low=0, high=3), Attribute("band", "boolean", derived_from=("age",))))
FINE = LinearQueries((LinearQuery(("a", "b"), (0, 2**-11, 2**-10, 2**-11, 2**-10, 0)),))


class WrongNoise(Projection):
    """The claim is right, the noise is not."""

    def wrong(self, calibration: Calibration) -> tuple[float, ...]:
        raise AttributeError

    def distribution(self, counts: Counts) -> Law:
        calibration, pieces = self._prepare(counts.schema)
        patched = Projection(self.budget, self.workload, self.budgets, self.hull)
        scales = tuple(self.wrong(calibration))
        object.__setattr__(patched, "_known", (counts.schema, dataclasses.replace(calibration, scales=scales), pieces))
        return patched.distribution(counts)


class NoiseTooSmall(WrongNoise):
    """30% below what was claimed."""

    def wrong(self, calibration: Calibration) -> tuple[float, ...]:
        return tuple(0.7 * scale for scale in calibration.scales)


class DistanceOne(WrongNoise):
    """A row moves several answers; here only one was thought of."""

    def wrong(self, calibration: Calibration) -> tuple[float, ...]:
        rho = float(self.budget.amount())
        return tuple(group.grid / math.sqrt(2 * rho) for group in calibration.queries.groups)


class OneGroupTooMany(WrongNoise):
    """Every group of queries gets the whole budget."""

    def wrong(self, calibration: Calibration) -> tuple[float, ...]:
        rho = float(self.budget.amount())
        return tuple(g.grid * math.sqrt(float(g.shift.most) / (2 * rho)) for g in calibration.queries.groups)


class GridIgnored(WrongNoise):
    """Noise meant for shares of rows lands on numerators that are 2²⁰ times as large."""

    def wrong(self, calibration: Calibration) -> tuple[float, ...]:
        return tuple(s / g.grid for s, g in zip(calibration.scales, calibration.queries.groups, strict=True))


class WeightsIgnoredInTheClaim(Projection):
    """Noise by weight, but a claim as if all weights were the same."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        plain = [dataclasses.replace(part, weight=1) for part in self.workload.parts]  # type: ignore[attr-defined]
        return Projection(self.budget, plain).guarantee(schema, n)


class HalfTheCost(Projection):
    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        own = super().guarantee(schema, n).per_attribute()
        return Guarantee.compose(schema, [Guarantee.touch(schema, [x], Rho(f.rho / 2)) for x, f in own.items()])


class OneQueryWithoutNoise(Projection):
    def distribution(self, counts: Counts) -> Law:
        law = super().distribution(counts)
        sure = np.full(9, -np.inf)
        sure[int(self.workload.bind(counts.schema).counts(counts)[0])] = 0.0
        return Law((sure, *law.parts[1:]), 24.0)


class OnlyPositiveCounts(Projection):
    """Answers that are zero are left out (here: told apart), so the list of answers gives people away."""

    def distribution(self, counts: Counts) -> Law:
        return told_apart(super().distribution(counts), self.workload.bind(counts.schema).counts(counts))


class DerivedNotCharged(Projection):
    """A derived column is taken for an attribute of its own, and its source pays nothing."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.none(schema)


class GroupPrivacyForgotten(Projection):
    """What one attribute costs is claimed for every set."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        costs = super().guarantee(schema, n).per_attribute()
        return Guarantee.touch(schema, {name: Rho(figure.rho) for name, figure in costs.items()})


ANY: list[type[Projection]] = [NoiseTooSmall, HalfTheCost, OneQueryWithoutNoise, OnlyPositiveCounts]
COUNTED: list[type[Projection]] = [DistanceOne, OneGroupTooMany, GroupPrivacyForgotten]
WORKLOADS: dict[str, Any] = {
    "marginals": Marginals(1),
    "both": Marginals(sets=(("a", "b"), ("a",), ("b",))),
    "conjunctions": Conjunctions(1) + Conjunctions(2),
    "parities": Parities(1) + Parities(2),
}
NO_FAULT = {
    (OneGroupTooMany, "marginals"),  # no attribute is in two groups
    (GroupPrivacyForgotten, "parities"),  # two attributes together cost no more than one
}
CASES = [(fault, name) for fault in ANY + COUNTED for name in WORKLOADS if (fault, name) not in NO_FAULT]


@pytest.mark.parametrize(("fault", "name"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_planted_fault_is_refuted(fault: Callable[..., Projection], name: str) -> None:
    assert not exact_audit(fault(CDP(1.0), WORKLOADS[name]), SCHEMA, 2).passed


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_real_mechanism_passes_where_its_broken_twins_fail(name: str) -> None:
    assert exact_audit(Projection(CDP(1.0), WORKLOADS[name]), SCHEMA, 2).passed


def test_an_ignored_grid_is_refuted() -> None:
    assert exact_audit(Projection(CDP(1.0), FINE), SCHEMA, 1).passed
    assert not exact_audit(GridIgnored(CDP(1.0), FINE), SCHEMA, 1).passed
    assert not exact_audit(NoiseTooSmall(CDP(1.0), FINE), SCHEMA, 1).passed


def test_ignored_weights_are_refuted() -> None:
    workload = 4 * Marginals(sets=(("a", "b"),)) + Marginals(sets=(("b",),))
    assert exact_audit(Projection(CDP(1.0), workload), SCHEMA, 1).passed
    assert not exact_audit(WeightsIgnoredInTheClaim(CDP(1.0), workload), SCHEMA, 1).passed


def test_derived_column_not_charged_is_refuted() -> None:
    workload, derive = Marginals(sets=(("band",),)), {"band": lambda record: record["age"] // 2}
    assert exact_audit(Projection(CDP(1.0), workload), DERIVED, 1, derive=derive).passed
    audit = exact_audit(DerivedNotCharged(CDP(1.0), workload), DERIVED, 1, derive=derive)
    assert [row.attributes for row in audit.refuted] == [("age",)]
