"""The exact audit itself: its divergences against closed forms and independent sums, and that it can fail."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.audit.exact import Divergences, divergence_curve
from nabladp.errors import AuditError
from nabladp.mechanisms import Auditable, Law
from nabladp.noise import gaussian_log_pmf
from nabladp.privacy import Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema

BITS = Schema((Attribute("a", "boolean"), Attribute("b", "boolean")))


def test_curve_against_plain_sums() -> None:
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.4, 0.4, 0.2])
    orders = np.array([1.0, 1.5, 2.0, 7.0])
    curve = divergence_curve(np.log(p), np.log(q), orders)
    assert curve[0] == pytest.approx(float(np.sum(p * np.log(p / q))))
    for order, value in zip(orders[1:], curve[1:-1], strict=True):
        assert value == pytest.approx(math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1))
    assert curve[-1] == pytest.approx(math.log(2.5))


def test_outcome_possible_on_one_side_only_is_infinite() -> None:
    with np.errstate(divide="ignore"):
        curve = divergence_curve(np.log([0.5, 0.5]), np.log([1.0, 0.0]), np.array([1.0, 2.0]))
    assert np.all(np.isinf(curve))
    with np.errstate(divide="ignore"):
        fine = divergence_curve(np.log([1.0, 0.0]), np.log([0.5, 0.5]), np.array([1.0, 2.0]))
    assert np.all(np.isfinite(fine))


def test_discrete_gaussian_has_exactly_its_rho() -> None:
    known = Divergences()
    laws = [Law((gaussian_log_pmf(1.5, -60 - c, 60 - c),), 16.0) for c in (0, 1)]
    numbers = [known.learn(law) for law in laws]
    rho, _ = known.between(numbers[0], numbers[1], 16.0)
    assert rho == pytest.approx(1 / (2 * 1.5**2), rel=1e-9)


@dataclass(frozen=True)
class ResponseOnEachBit(Auditable):
    """Randomized response on every attribute, for one row: each attribute costs its own ε, sets add up."""

    keep: Fraction
    claimed: float

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.compose(schema, [Guarantee.touch(schema, [x], Pure(self.claimed)) for x in schema.roots])

    def distribution(self, counts: Any) -> Law:
        parts = []
        for name in counts.schema.roots:
            (ones,) = counts.marginals([(name,)])
            keep = float(self.keep)
            yes = keep if ones[1] else 1 - keep
            parts.append(np.log(np.array([1 - yes, yes])))
        return Law(tuple(parts))


@pytest.mark.parametrize("keep", [Fraction(3, 4), Fraction(9, 10)])
def test_randomized_response_is_exactly_tight(keep: Fraction) -> None:
    epsilon = math.log(keep / (1 - keep))
    audit = exact_audit(ResponseOnEachBit(keep, epsilon), BITS, n=1)  # type: ignore[arg-type]
    assert audit.passed and audit.tightest.tightness == pytest.approx(1.0)
    rows = {row.attributes: row for row in audit.rows}
    assert rows[("a", "b")].true_pure == pytest.approx(2 * epsilon)
    assert rows[()].true_pure == 0.0


def test_a_claim_that_is_a_little_too_small_is_refuted() -> None:
    epsilon = math.log(3)
    audit = exact_audit(ResponseOnEachBit(Fraction(3, 4), epsilon * 0.999), BITS, n=1)  # type: ignore[arg-type]
    assert not audit.passed
    assert {row.attributes for row in audit.refuted} == {("a",), ("b",), ("a", "b")}
    assert audit.to_json()["passed"] is False


@dataclass(frozen=True)
class Parity(Auditable):
    """Releases the parity of all bits by randomized response: one attribute costs as much as all of them."""

    claim: Mapping[str, float] | None = None

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.touch(schema, schema.roots, Pure(math.log(3)))

    def distribution(self, counts: Any) -> Law:
        (joint,) = counts.marginals([counts.schema.roots])
        odd = sum(int(joint[codes]) for codes in itertools.product((0, 1), repeat=joint.ndim) if sum(codes) % 2)
        yes = 0.75 if odd % 2 else 0.25
        return Law((np.log(np.array([1 - yes, yes])),))


def test_every_set_is_compared_not_only_single_attributes() -> None:
    three = Schema(tuple(Attribute(x, "boolean") for x in "abc"))
    audit = exact_audit(Parity(), three, n=2)  # type: ignore[arg-type]
    assert audit.passed and len(audit.rows) == 8
    half = Guarantee.linear(three, three.roots, Pure(math.log(3) / 2))  # true for pairs, false for single attributes
    refuted = exact_audit(Parity(), three, n=2, guarantee=half).refuted  # type: ignore[arg-type]
    assert {row.attributes for row in refuted} == {("a",), ("b",), ("c",)}


def test_rho_claims_are_checked_too() -> None:
    weak = Guarantee.touch(BITS, BITS.roots, Rho(0.01))
    assert not exact_audit(Parity(), BITS, n=1, guarantee=weak).passed  # type: ignore[arg-type]


def test_instances_that_cannot_be_enumerated_are_refused() -> None:
    wide = Schema(tuple(Attribute(f"x{i}", "boolean") for i in range(9)))
    with pytest.raises(AuditError, match="512 records"):
        exact_audit(Parity(), wide)  # type: ignore[arg-type]
    with pytest.raises(AuditError, match="too many tables"):
        exact_audit(Parity(), BITS, n=40)  # type: ignore[arg-type]
    derived = Schema((Attribute("a", "boolean"), Attribute("b", "boolean", derived_from=("a",))))
    with pytest.raises(AuditError, match="derived"):
        exact_audit(Parity(), derived)  # type: ignore[arg-type]


def names(rows: Sequence[Any]) -> set[tuple[str, ...]]:
    return {row.attributes for row in rows}
