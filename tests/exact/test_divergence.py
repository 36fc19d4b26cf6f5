"""The audit's parts: orders, sums over parts, both directions, and when a row counts as refuted."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from nabladp.audit import AuditRow, ExactAudit, exact, exact_audit
from nabladp.audit.exact import Divergences, _orders, divergence_curve
from nabladp.errors import AuditError, MechanismError
from nabladp.mechanisms import Auditable, Branch, Law
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import gaussian_log_pmf
from nabladp.privacy import Guarantee, Pure, Rho
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


@pytest.mark.parametrize("scale", [1.5, 50.0, 400.0])
def test_a_small_cost_is_as_exact_as_a_large_one(scale: float) -> None:
    window = math.ceil(24 + 14 * scale)
    p, q = (Law((gaussian_log_pmf(scale, -window - moved, window - moved),), 24.0) for moved in (0, 1))
    assert figures(p, q)[0] * 2 * scale**2 == pytest.approx(1, rel=1e-10)


# ---- steps that decide what comes next ----------------------------------------------------------------------------

NOTHING = Law(())
DICE = [np.log(np.array(p) / sum(p)) for p in ([1, 2, 3], [3, 2, 1], [5, 1, 1], [2, 2, 1], [1, 6, 2], [4, 3, 3])]


def curve(p: Law, q: Law) -> np.ndarray:
    """D_a for every order, then D_∞."""
    known = Divergences()
    return known._total(known.learn(p), known.learn(q), math.inf)


def figures(p: Law, q: Law) -> tuple[float, float]:
    known = Divergences()
    return known.between(known.learn(p), known.learn(q), min(p.largest_order, q.largest_order))


def flattened(law: Law) -> np.ndarray:
    """Every way through a law as one list of outcomes, by plain enumeration."""
    ways = []
    for part in law.parts:
        if isinstance(part, Branch):
            following = [flattened(after) for after in part.then]
            ways.append(np.concatenate([p + following[w] for p, w in zip(part.outcomes, part.which, strict=True)]))
        else:
            ways.append(part)
    return np.array([sum(steps) for steps in itertools.product(*ways)])


def two_steps(first: np.ndarray, *then: np.ndarray) -> Law:
    return Law((Branch(first, np.array([0, 1, 0]), tuple(Law((following,)) for following in then)),))


def three_steps(first: int, seconds: tuple[int, int], thirds: tuple[int, int]) -> Law:
    deepest = Law((DICE[thirds[0]], DICE[thirds[1]]))
    middle = Law((Branch(DICE[seconds[0]], np.array([1, 1, 0]), (deepest, NOTHING)), DICE[seconds[1]]))
    return Law((Branch(DICE[first], np.array([1, 0, 1]), (middle, Law((COIN,)))), BENT))


PAIRS = [
    (two_steps(DICE[0], DICE[1], DICE[2]), two_steps(DICE[3], DICE[4], DICE[5])),
    (two_steps(DICE[0], DICE[1], DICE[2]), two_steps(DICE[0], DICE[1], DICE[5])),
    (three_steps(0, (1, 2), (3, 4)), three_steps(5, (4, 2), (3, 0))),
    (three_steps(0, (1, 2), (3, 4)), three_steps(0, (1, 2), (3, 5))),
]


def test_a_branch_that_leads_nowhere_is_its_outcomes() -> None:
    p, q = (Law((Branch(x, np.zeros(2, dtype=np.int64), (NOTHING,)),)) for x in (COIN, BENT))
    assert np.array_equal(curve(p, q), curve(Law((COIN,)), Law((BENT,))))


@pytest.mark.parametrize(("p", "q"), [*PAIRS, *((q, p) for p, q in PAIRS)])
def test_a_law_of_several_steps_is_the_law_of_all_its_ways(p: Law, q: Law) -> None:
    flat = divergence_curve(flattened(p), flattened(q), _orders(math.inf))
    assert np.allclose(curve(p, q), flat, rtol=1e-12, atol=0)
    assert figures(p, q) == pytest.approx(figures(Law((flattened(p),)), Law((flattened(q),))), rel=1e-12)


def test_what_follows_whatever_happens_adds_up() -> None:
    def law(first: np.ndarray, second: np.ndarray) -> Law:
        return Law((Branch(first, np.array([0, 0, 0]), (Law((second, second)),)),))

    together = curve(law(DICE[0], COIN), law(DICE[1], BENT))
    apart = curve(Law((DICE[0], COIN, COIN)), Law((DICE[1], BENT, BENT)))
    assert np.allclose(together, apart, rtol=1e-12, atol=0)


def test_impossible_outcomes() -> None:
    never, sure = np.array([0.0, -np.inf]), np.array([0.0, -np.inf, -np.inf])

    def law(first: np.ndarray, *then: Law) -> Law:
        return Law((Branch(first, np.array([0, 1]), then),))

    left, right = Law((DICE[0],)), Law((DICE[1],))
    assert figures(law(never, left, NOTHING), law(COIN, right, Law((sure,)))) == pytest.approx(
        figures(Law((np.array([0.0]), DICE[0])), Law((np.array([-math.log(2)]), DICE[1])))
    )  # what follows an outcome that cannot be is not looked at
    assert figures(law(COIN, left, left), law(never, left, left)) == (math.inf, math.inf)
    assert figures(law(COIN, left, left), law(COIN, left, Law((sure,)))) == (math.inf, math.inf)
    assert max(figures(law(COIN, left, Law((sure,))), law(COIN, left, left))) < math.inf
    assert max(figures(law(never, left, left), law(never, right, Law((sure,))))) < math.inf


def test_the_largest_order_is_that_of_the_law_that_is_cut_most() -> None:
    cut = Law((COIN,), 24.0)
    assert Law((Branch(COIN, np.array([0, 1]), (cut, NOTHING)), BENT)).largest_order == 24
    assert Law((Branch(COIN, np.array([0, 1]), (cut, NOTHING)),), 8.0).largest_order == 8
    assert Law((COIN,)).largest_order == math.inf


def test_each_pair_of_following_laws_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[int] = []

    def counted(p: np.ndarray, q: np.ndarray, *rest: Any) -> np.ndarray:
        met.append(len(p))
        return divergence_curve(p, q, *rest)

    monkeypatch.setattr(exact, "divergence_curve", counted)
    laws = [
        Law((Branch(first, np.arange(3), (Law((second,)), Law((second,)), Law((second, COIN)))),) * 2)
        for first, second in ((DICE[0], COIN), (DICE[1], BENT))
    ]
    assert max(figures(*laws)) < math.inf and sorted(met) == [2, 3]


def test_memory_stays_small_where_outcomes_are_many() -> None:
    many, laws = 100_000, []
    for tilt in (1.0, 1.1):
        wide = np.linspace(0.0, tilt, many)
        first = wide - np.log(np.exp(wide).sum())
        then = tuple(Law((DICE[i % 5] if tilt == 1 else DICE[i % 4],)) for i in range(30))
        laws.append(Law((Branch(first, np.arange(many) % 30, then),), 4.0))
    tracemalloc.start()
    try:
        figures(laws[0], laws[1])
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rows", [1, 7, 1 << 20])
def test_the_size_of_a_block_changes_nothing(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [curve(p, q) for p, q in PAIRS]
    monkeypatch.setattr(exact, "_AT_ONCE", rows)
    for (p, q), at_once in zip(PAIRS, whole, strict=True):
        assert np.allclose(curve(p, q), at_once, rtol=1e-13, atol=0)


def test_laws_that_cannot_be_compared_are_refused() -> None:
    def law(which: list[int], laws: int = 2) -> Law:
        return Law((Branch(COIN if laws == 2 else BENT, np.array(which), (NOTHING,) * laws),))

    for one, other, what in (
        (law([0, 1]), law([1, 0]), "branches"),
        (law([0, 1]), law([0, 1], 3), "branches"),
        (law([0, 1]), Law((BENT,)), "branches"),
        (Law((COIN,)), Law((DICE[0],)), "outcomes"),
        (Law((COIN,)), Law((COIN, COIN)), "parts"),
    ):
        with pytest.raises(AuditError, match=what):
            figures(one, other)


@pytest.mark.parametrize("which", [[0], [0, 2], [-1, 0], [0.0, 1.0], [[0, 1]]], ids=str)
def test_a_branch_must_lead_somewhere(which: list[Any]) -> None:
    with pytest.raises(MechanismError):
        Branch(COIN, np.array(which), (NOTHING, NOTHING))


@dataclass(frozen=True)
class AskThenTell(Auditable):
    """Tells by randomized response whether anyone has the first bit, then, as the answer was, one of two other bits.

    With ``slip``, the second question is answered truthfully after a yes: only the law that follows is wrong.
    """

    slip: bool = False

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        first = Guarantee.touch(schema, ["a"], Pure(math.log(9)))
        return first + Guarantee.touch(schema, ["b"], Pure(math.log(9))) + Guarantee.touch(schema, ["c"], Pure(1e-9))

    def distribution(self, counts: Any) -> Law:
        a, b, c = (bool(table[1]) for table in counts.marginals([("a",), ("b",), ("c",)]))
        truth = np.array([0.0, -np.inf])
        after_no, after_yes = Law((_answered(b),)), Law((_answered(b),))
        if self.slip:
            after_yes = Law((truth if c else truth[::-1],))
        return Law((Branch(_answered(a), np.array([0, 1]), (after_no, after_yes)),))


def _answered(bit: bool) -> np.ndarray:
    return BENT[::-1].copy() if bit else BENT


def test_a_wrong_law_that_follows_is_noticed() -> None:
    bits = Schema(tuple(Attribute(name, "boolean") for name in "abc"))
    fine = exact_audit(AskThenTell(), bits, n=1)  # type: ignore[arg-type]
    assert fine.passed and fine.tightest.tightness == pytest.approx(1)
    wrong = exact_audit(AskThenTell(slip=True), bits, n=1)  # type: ignore[arg-type]
    assert ("c",) in {row.attributes for row in wrong.refuted} and ("a", "b") not in {
        row.attributes for row in wrong.refuted
    }
