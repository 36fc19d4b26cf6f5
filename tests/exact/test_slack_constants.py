"""The constants by which picks pay for the rounding of doubles (PROOF.md of MWEM and Synthesis), against 50 digits.

Each is checked twice: nothing exceeds it, and something comes within a small factor of it, so that a constant that is
too small by that factor is caught.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.mwem.round_run import RunSetup, Selector
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.mechanisms.synthesis.selection import Selector as SetSelector
from nabladp.mechanisms.synthesis.strategy import GRID
from nabladp.noise.packings import AnyPackings, fineness, on_grid
from nabladp.privacy import CDP, Rho
from nabladp.privacy.units import UNIT
from nabladp.schema import Attribute, Schema
from nabladp.workloads import LinearQueries, LinearQuery, Marginals

U = 2.0**-53
Exact = list[mpmath.mpf]


@pytest.fixture(autouse=True)
def fifty_digits() -> object:
    with mpmath.workdps(50):
        yield


def bits(d: int) -> Schema:
    return Schema(tuple(Attribute(name, "boolean") for name in "abcdef"[:d]))


def log_sum(values: Exact) -> mpmath.mpf:
    top = max(values)
    return top + mpmath.log(mpmath.fsum(mpmath.exp(value - top) for value in values))


def exact(values: Floats | Integers) -> Exact:
    return [mpmath.mpf(value) for value in values.tolist()]


def ratio(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


# ---- the libraries --------------------------------------------------------------------------------------------------


def test_exp_and_log_are_right_to_one_unit_in_the_last_place() -> None:
    """The proofs take 4. In long arrays, where other instructions are used, and one by one."""
    draws = np.random.default_rng(1)
    for function, ideal, points in (
        (np.exp, mpmath.exp, -draws.exponential(30, 400).clip(0, 700)),
        (np.log, mpmath.log, 1 + draws.exponential(1, 400) ** 8),
    ):
        for computed in (function(points), np.array([function(point) for point in points])):
            for value, point in zip(computed.tolist(), points.tolist(), strict=True):
                assert abs(mpmath.mpf(value) - ideal(mpmath.mpf(point))) <= math.ulp(value)


# ---- MWEM -----------------------------------------------------------------------------------------------------------


def fractional(rows: int) -> RunSetup:
    """Queries on a grid of 2²⁰: numerators leave 53 bits from 2³³ rows on."""
    values = {"a": [0, 0.3], "b": [0.1, 0.7], "c": [1, 0.2]}
    workload = LinearQueries(tuple(LinearQuery((name,), own) for name, own in values.items()))
    return MWEM(CDP(1.3), workload, rounds=3, per_round=1)._machine(bits(3), rows)


@pytest.mark.parametrize(("rows", "roundings"), [(1 << 30, 1), ((1 << 40) - 77, 2)])
def test_a_score_is_rounded_once_and_twice_beyond_53_bits(rows: int, roundings: int) -> None:
    machine, draws = fractional(rows), np.random.default_rng(2)
    largest = 0.0
    for _ in range(2000):
        truth = draws.integers(0, rows << 20, len(machine.queries))
        scores = machine.scores.of(truth, np.zeros(len(truth)))
        for computed, coefficient, whole in zip(scores, machine.scores.coefficients, truth.tolist(), strict=True):
            ideal = Fraction(float(coefficient)) * whole
            largest = max(largest, float(abs(Fraction(float(computed)) - ideal) / ideal))
    assert (roundings - 0.4) * U < largest <= roundings * U * (1 + U)


def test_the_log_weight_of_a_group_is_within_its_constant() -> None:
    """τ = 16(N + 8)u + 2u(L + ln N), of which an eighth is reached: by adding the largest score."""
    schema = Schema((Attribute("a", "integer", low=0, high=63), Attribute("b", "integer", low=0, high=2)))
    machine = MWEM(CDP(1), Marginals(1), rounds=1)._machine(schema, 1000)
    (selector,) = machine.selectors(0)
    draws = np.random.default_rng(3)
    closest = 0.0
    for largest, spread in itertools.product((2.0, 1e3, 1e6, 1.3e8), (0.0, 1.0, 40.0)):
        for _ in range(10):
            scores = np.maximum(largest - spread * draws.random(len(machine.queries)), 0.0)
            for (a, b), computed in zip(selector.ranges, selector._together(scores), strict=True):
                allowed = 16 * (b - a + 8) * U + 2 * U * (largest + math.log(b - a))
                error = abs(mpmath.mpf(float(computed)) - log_sum(exact(scores[a:b])))
                assert error <= allowed
                closest = max(closest, float(error / allowed))
    assert closest > 1 / 8


def pick_errors(machine: RunSetup, selector: Selector, truth: Integers) -> tuple[float, float]:
    """The largest error of a pick's log probability, and η: against exact rational scores and exact sums."""
    scores = machine.scores.of(truth, np.zeros(len(truth)))
    ideal = [ratio(Fraction(float(c)) * w) for c, w in zip(machine.scores.coefficients, truth.tolist(), strict=True)]
    law = dict(selector.law(scores))
    sums = {chosen: mpmath.fsum(ideal[q] for q in chosen) for chosen in law}
    normaliser = log_sum(list(sums.values()))
    worst = max(abs(law[chosen] - (total - normaliser)) for chosen, total in sums.items() if total > normaliser - 600)
    return float(worst), selector.slack(float(scores.max()))


@pytest.mark.parametrize("per_round", [1, 2, 3])
@pytest.mark.parametrize("rows", [50, 1 << 30, (1 << 40) - 77])
def test_a_pick_is_within_its_slack(per_round: int, rows: int) -> None:
    workload = LinearQueries(tuple(LinearQuery((name,), [0, p]) for name in "abcd" for p in (0.3, 0.71, 0.9)))
    machine = MWEM(CDP(1.3), workload, rounds=3, per_round=per_round)._machine(bits(4), rows)
    (selector,) = machine.selectors(0)
    draws = np.random.default_rng(rows % 1000 + per_round)
    for _ in range(4):
        top = draws.integers(rows << 19, rows << 20)
        near = draws.integers(0, max(2, int(20 / machine.scores.coefficients.max())), len(machine.queries))
        error, slack = pick_errors(machine, selector, np.maximum(top - near, 0))
        assert error <= slack


# ---- Synthesis ------------------------------------------------------------------------------------------------------


def single_errors(selector: SetSelector, excess: Integers) -> tuple[float, float]:
    """The largest error of a single pick's log probability, and 2uL + 2⁻ᵍ, which the proof says it stays within."""
    able, scores, largest = selector._ready(excess, 1)
    coefficients, _ = selector._coefficients(1)
    grid = fineness(largest)
    drawn = [ratio(Fraction(whole, 1 << grid)) for whole in on_grid(scores, grid).tolist()]
    wholes = np.clip(excess[selector.members[able]], -selector.reach, selector.reach).tolist()
    ideal = [ratio(Fraction(float(coefficients[i])) * whole) for i, whole in zip(able, wholes, strict=True)]
    ours, theirs = log_sum(drawn), log_sum(ideal)
    worst = max(abs((one - ours) - (other - theirs)) for one, other in zip(drawn, ideal, strict=True))
    return float(worst), 2 * U * largest + 2.0**-grid


@pytest.mark.parametrize("rows", [3, 1000, 10**7, 1 << 40])
def test_a_single_pick_is_within_what_the_proof_gives_and_the_code_charges_more(rows: int) -> None:
    design = Synthesis(CDP(1.1), 2, strategy="single", rounds=4).design(bits(4), rows)
    (selector,) = design.selectors(0)
    _, largest = selector._coefficients(1)
    draws = np.random.default_rng(rows % 1000)
    closest = 0.0
    for _ in range(100):
        top = draws.integers(selector.reach // 2, selector.reach)
        close = max(2, int(8 / float(selector._coefficients(1)[0].max())))
        excess = top - draws.integers(0, close, len(design.wanted.candidates))
        error, proven = single_errors(selector, excess)
        assert error <= proven < selector.slack(largest)
        closest = max(closest, error / proven)
    assert closest > 1 / 16
    assert selector.slack(largest) < 2.1e-7


def test_a_log_sum_in_the_table_of_packings_is_within_its_constant() -> None:
    """One attribute with many members: Z is one log-sum-exp, off by at most 16(N + 4)u + uV."""
    draws = np.random.default_rng(5)
    for members, largest in itertools.product((1, 7, 300), (1.0, 1e4, 1e8)):
        weights = draws.uniform(0.999, 1, members) * largest
        table = AnyPackings([1] * members, 1, weights, fineness(2 * largest)).table
        allowed = 16 * (members + 1 + 4) * U + U * (largest + math.log(members + 1))
        assert abs(mpmath.mpf(float(table[1])) - log_sum([*exact(weights), mpmath.mpf(0)])) <= allowed


def test_what_moves_a_sum_and_twice_the_slack_is_within_the_largest_prices() -> None:
    """D + 2η ≤ sum of the m largest e_j, also where one attribute's price is below 2η; then D ≤ sum − 2ηm is false."""
    budgets = {"a": Rho(Fraction(1, 1 << 44))}
    mechanism = Synthesis(CDP(3), 2, strategy="packed", rounds=1, one_way=0, selection=0.5, budgets=budgets)
    design = mechanism.design(bits(4), 1 << 40)
    (selector,) = design.selectors(0)
    coefficients, largest = selector._coefficients(1)
    moves = {int(c): 2 * GRID * Fraction(float(own)) for c, own in zip(selector.members, coefficients, strict=True)}
    slack, price = Fraction(selector.slack(largest)), {n: Fraction(p, UNIT) for n, p in design.price.items()}
    assert price["a"] < 2 * slack and not all(moves.values()) and any(moves.values())
    false_steps = 0
    for size in range(1, 5):
        for chosen in itertools.combinations("abcd", size):
            moved, prices = Fraction(0), sorted((price[name] for name in chosen), reverse=True)
            for count in range(1, selector.block.most + 1):
                for packing in itertools.combinations(moves, count):
                    sources = [design.sources[c] for c in packing]
                    if len(frozenset().union(*sources)) == sum(map(len, sources)):
                        sums = (moves[c] for c, own in zip(packing, sources, strict=True) if own & set(chosen))
                        moved = max(moved, sum(sums, Fraction(0)))
            m = min(size, selector.block.most)
            assert moved == 0 or moved + 2 * slack <= sum(prices[:m])
            false_steps += moved > sum(prices[:m]) - 2 * slack * m
    assert false_steps
