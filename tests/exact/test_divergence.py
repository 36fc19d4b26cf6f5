"""The audit's parts: orders, sums over parts, both directions, and when a row counts as refuted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nabladp.audit import AuditRow, ExactAudit, exact_audit
from nabladp.audit.divergence import Divergences, _orders
from nabladp.mechanisms import Law
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.privacy import Rho
from nabladp.schema import Attribute, Schema

COIN, BENT = np.log([0.5, 0.5]), np.log([0.9, 0.1])


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    if order == 1:
        return float(np.exp(p) @ (p - q))
    return math.log(float(np.sum(np.exp(order * p + (1 - order) * q)))) / (order - 1)


def test_orders_reach_from_one_to_the_largest_allowed() -> None:
    every = _orders(math.inf)
    assert every[0] == 1 and every[1] < 1.001 and every[-1] > 10**7 and np.all(np.diff(every) > 0)
    assert np.max(np.diff(np.log(every[1:] - 1))) < 0.03  # so fine that no peak lies between
    assert _orders(2.0)[-1] == 2.0 and _orders(1.0).tolist() == [1.0]


@pytest.mark.parametrize(("p", "q"), [(COIN, BENT), (BENT, COIN)], ids=["to bent", "from bent"])
def test_both_figures_of_one_part_in_each_direction(p: np.ndarray, q: np.ndarray) -> None:
    known = Divergences()
    one, other = known.learn(Law((p,))), known.learn(Law((q,)))
    for _ in range(2):  # the second time from memory
        rho, pure = known.between(one, other, math.inf)
        known.between(other, one, math.inf)
        assert pure == pytest.approx(float(np.max(p - q)))
        assert rho == pytest.approx(max(renyi(p, q, a) / a for a in _orders(100.0)), rel=1e-6)


def test_independent_parts_add_up_and_equal_parts_cancel() -> None:
    known = Divergences()
    one = known.learn(Law((COIN, COIN, BENT)))
    other = known.learn(Law((BENT, BENT, BENT)))
    assert len(set(one)) == 2 and known.between(one, one, math.inf) == (0.0, 0.0)
    single = known.between(one[:1], other[:1], math.inf)
    assert known.between(one, other, math.inf) == pytest.approx((2 * single[0], 2 * single[1]))


def test_a_smaller_largest_order_sees_less() -> None:
    known = Divergences()
    one, other = known.learn(Law((COIN,))), known.learn(Law((BENT,)))
    assert known.between(one, other, 1.0)[0] == pytest.approx(renyi(COIN, BENT, 1))
    assert known.between(one, other, math.inf)[0] >= known.between(one, other, 1.0)[0]


@pytest.mark.parametrize(
    ("row", "refuted"),
    [
        (AuditRow(("a",), 0.5, 0.5, math.inf, math.inf), False),
        (AuditRow(("a",), 0.5, 0.5 * (1 + 1e-6), math.inf, math.inf), True),
        (AuditRow(("a",), 0.5, 0.1, 1.0, 1.0), False),
        (AuditRow(("a",), 0.5, 0.1, 1.0, 1.0 + 1e-6), True),  # either claim suffices
        (AuditRow(("a",), 0.0, 1e-6, 0.0, 0.0), True),
        (AuditRow(("a",), 0.0, 0.0, 0.0, 0.0), False),
        (AuditRow(("a",), 0.5, math.inf, math.inf, math.inf), True),
        (AuditRow(("a",), math.inf, 9.0, math.inf, math.inf), False),  # nothing was claimed
    ],
    ids=str,
)
def test_a_row_is_refuted_when_one_of_its_claims_is_too_small(row: AuditRow, refuted: bool) -> None:
    assert row.refuted is refuted
    audit = ExactAudit((AuditRow((), 0, 0, 0, 0), row), 1)
    assert audit.passed is not refuted and audit.refuted == ((row,) if refuted else ())


@pytest.mark.parametrize(
    ("row", "tightness"),
    [
        (AuditRow(("a",), 0.5, 0.25, math.inf, math.inf), 0.5),
        (AuditRow(("a",), 0.5, 0.25, 4.0, 1.0), 0.25),
        (AuditRow(("a",), 0.0, 0.0, 0.0, 0.0), 1.0),
        (AuditRow(("a",), 0.0, 1.0, 0.0, 1.0), math.inf),
    ],
    ids=str,
)
def test_tightness_is_true_over_claimed(row: AuditRow, tightness: float) -> None:
    assert row.tightness == tightness


@pytest.mark.parametrize(("rows", "pairs"), [(1, 12), (2, 4 * 12), (3, 10 * 12)])
def test_every_ordered_pair_of_neighbours_is_compared(rows: int, pairs: int) -> None:
    bits = Schema((Attribute("a", "boolean"), Attribute("b", "boolean")))
    assert exact_audit(NoisyMarginals(Rho(1), k=1), bits, rows).tables_compared == pairs
