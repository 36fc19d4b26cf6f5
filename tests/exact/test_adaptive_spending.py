"""Spending that depends on earlier outputs (src/nabladp/privacy/PROOF.md): the filter, by enumeration of every course.

Steps are randomized responses on one attribute of one person, each with an ε of its own; which attribute is asked, at
what ε, and whether anything is asked at all depends on the answers so far.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from nabladp.errors import MechanismError
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.mechanisms.synthesis.design import LEAST_UNITS
from nabladp.mechanisms.synthesis.rounds import Course, State
from nabladp.mechanisms.synthesis.selection import distance
from nabladp.privacy import Rho
from nabladp.schema import Attribute, Schema
from tests.helpers.opinions import two_choices

NAMES = ("a", "b", "c")
ORDERS = (1.0001, 1.5, 2.0, 4.0, 16.0, 64.0)
History = tuple[int, ...]
Ask = tuple[str, float]  # an attribute and the ε of a randomized response about it
Strategy = Callable[[History], Ask | None]


def subsets(names: tuple[str, ...]) -> Iterator[frozenset[str]]:
    for size in range(1, len(names) + 1):
        yield from map(frozenset, itertools.combinations(names, size))


def response_rho(epsilon: float) -> float:
    return epsilon * math.tanh(epsilon / 2)


def courses(strategy: Strategy, record: Mapping[str, int], most: int) -> Iterator[tuple[History, float]]:
    """Every course of at most so many steps, with its probability for a person with this record."""
    waiting: list[tuple[History, float]] = [((), 1.0)]
    while waiting:
        history, chance = waiting.pop()
        ask = strategy(history) if len(history) < most else None
        if ask is None:
            yield history, chance
            continue
        attribute, epsilon = ask
        keep = 1 / (1 + math.exp(-epsilon))
        for answer in (0, 1):
            waiting.append(((*history, answer), chance * (keep if record[attribute] == answer else 1 - keep)))


def spent(strategy: Strategy, history: History, chosen: frozenset[str]) -> float:
    """What the steps of a course cost an adversary interested in these attributes."""
    asked = (strategy(history[:t]) for t in range(len(history)))
    return math.fsum(response_rho(ask[1]) for ask in asked if ask is not None and ask[0] in chosen)


def divergence(strategy: Strategy, one: Mapping[str, int], other: Mapping[str, int], most: int) -> float:
    """The largest D_α/α over the orders tried."""
    there = dict(courses(strategy, other, most))
    pairs = [(p, there[history]) for history, p in courses(strategy, one, most)]
    return max(math.log(math.fsum(p**a * q ** (1 - a) for p, q in pairs)) / (a * (a - 1)) for a in ORDERS)


def worst(strategy: Strategy, chosen: frozenset[str], most: int) -> float:
    """Over all pairs of records that differ on all of these attributes and no others."""
    found = 0.0
    for values in itertools.product((0, 1), repeat=len(NAMES)):
        one = dict(zip(NAMES, values, strict=True))
        other = {name: 1 - value if name in chosen else value for name, value in one.items()}
        found = max(found, divergence(strategy, one, other, most))
    return found


def filtered(seed: int, limits: Mapping[frozenset[str], float]) -> Strategy:
    """Asks at random, differently after every history, what no limit forbids, and stops at random, too: a filter."""

    @functools.cache
    def strategy(history: History) -> Ask | None:
        draw = random.Random(f"{seed} {history}")
        if len(history) > 1 and draw.random() < 0.1:
            return None
        before = {held: spent(strategy, history, held) for held in limits}
        asks = [
            (name, epsilon)
            for name, epsilon in itertools.product(NAMES, (0.2, 0.7, 1.5, 3.0))
            if all(before[held] + response_rho(epsilon) <= most for held, most in limits.items() if name in held)
        ]
        return draw.choice(asks) if asks else None

    return strategy


@pytest.mark.parametrize("seed", range(12))
def test_no_set_loses_more_than_the_most_that_a_course_may_cost_it(seed: int) -> None:
    limits = {frozenset("a"): 1.5, frozenset("bc"): 2.5, frozenset("abc"): 3.5}
    strategy, most = filtered(seed, limits), 5
    close = 0.0
    for chosen in subsets(NAMES):
        bound = max(spent(strategy, history, chosen) for history, _ in courses(strategy, dict.fromkeys(NAMES, 0), most))
        assert bound <= min((limit for held, limit in limits.items() if chosen <= held), default=math.inf)
        found = worst(strategy, chosen, most)
        assert found <= bound * (1 + 1e-9) + 1e-12, sorted(chosen)
        close = max(close, found / bound if bound else 0.0)
    assert close > 0.5  # the bound is not idle


def test_what_a_course_happened_to_cost_is_no_guarantee_nor_is_the_mean() -> None:
    """A coin that says nothing about anybody decides whether a second, costly question is asked: once in a hundred."""
    rarely, costly = 4.6, 3.0  # answers to a question about a person who always says 0

    def strategy(history: History) -> Ask | None:
        return [("c", rarely), ("a", costly) if history == (1,) else None, None][len(history)]

    record = dict.fromkeys(NAMES, 0)
    here = dict(courses(strategy, record, 2))
    mean = math.fsum(p * spent(strategy, history, frozenset("a")) for history, p in here.items())
    usual = max(here, key=lambda history: here[history])
    found = divergence(strategy, record, record | {"a": 1}, 2)
    assert spent(strategy, usual, frozenset("a")) == 0 and mean < 0.03 * response_rho(costly)
    assert 10 * mean < found <= response_rho(costly)


def test_the_order_that_sees_a_rare_course_grows_until_the_whole_cost_is_seen() -> None:
    """1 − q + q·exp(α(α−1)r): D_α/α tends to r for every q > 0."""
    q, r = 0.01, 0.5
    seen = [math.log(1 - q + q * math.exp(a * (a - 1) * r)) / (a * (a - 1)) for a in (1.01, 2, 5, 20, 30)]
    assert seen == sorted(seen) and seen[0] < 2 * q * r and seen[-1] > 0.97 * r


# ---- the accounts of Synthesis, on courses that no data would choose -----------------------------------------------


def bits(d: int) -> Schema:
    return Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(d)))


def random_pick(course: Course, selectors: list[object], able: set[int], draw: random.Random) -> tuple[int, ...]:
    """Candidates with disjoint sources, of the round's blocks, that can be paid: as many as a pick may have."""
    chosen: list[int] = []
    taken: set[str] = set()
    for selector in selectors:
        block = selector.block  # type: ignore[attr-defined]
        own = 0
        for c in draw.sample(block.members, len(block.members)):
            if c in able and not course.design.sources[c] & taken and own < (1 if block.one else block.most):
                chosen.append(c)
                taken |= course.design.sources[c]
                own += 1
    return tuple(sorted(chosen))


Paid = tuple[frozenset[str], int]  # the source attributes of a marginal, and its cost in units


class Claimed:
    """What rounds may cost every set of attributes; and how much of it some course has paid."""

    def __init__(self, course: Course) -> None:
        design = course.design
        assert design.accounts is not None
        self.claim = design.accounts.guarantee(design.least)
        self.reached = dict.fromkeys(subsets(design.wanted.schema.names), 0.0)

    def check(self, paid: Sequence[Paid]) -> None:
        """``paid`` is a course."""
        for held in self.reached:
            cost, most = sum(amount for touched, amount in paid if touched & held), self.claim.rho_units(held) or 0
            assert cost <= most, sorted(held)
            self.reached[held] = max(self.reached[held], cost / most)


@pytest.mark.parametrize("strategy", ["packed", "single"])
@pytest.mark.parametrize("more", [{}, {"sets": {"b0+b1": Rho(0.7)}, "person": Rho(1.4)}], ids=["plain", "limits"])
def test_on_every_course_each_set_pays_at_most_what_is_claimed(strategy: str, more: dict[str, object]) -> None:
    """Picks, and how much a round teaches, are drawn at random: a course of the data is one of these."""
    schema = bits(4)
    mechanism = Synthesis(Rho(1), strategy=strategy, rounds=7, selection=0.1, **more)  # type: ignore[arg-type]
    course = mechanism._course(schema, 50)
    start, claimed = course.start([]), Claimed(course)
    for seed in range(60):
        claimed.check(random_rounds(course, start, random.Random(seed)))
    assert min(claimed.reached.values()) > 0.6 and max(claimed.reached.values()) > 0.95  # claims are nearly reached


def random_rounds(course: Course, state: State, draw: random.Random) -> list[Paid]:
    """What the rounds of a course pay that picks at random, and that is taught at random."""
    design, paid = course.design, list[Paid]()
    while not course.over(state):
        grown, _, selectors = course.next_round(state)
        able = {c for c in range(len(design.keys)) if grown.affordable(design.keys[c], design.sharing) >= LEAST_UNITS}
        pick = random_pick(course, list(selectors), able, draw)
        units = course.units(grown, pick)
        paid += [(design.sources[c], amount) for c, amount in zip(pick, units, strict=True)]
        state = replace(
            state,
            accounts=course.paid(grown, pick, units),
            done=state.done + course._take(state),
            step=state.step * draw.choice((1, 1, 4)),
            number=state.number + 1,
        )
    chosen = [design.wanted.candidates[c] for c in range(len(design.keys)) if draw.random() < 0.7]
    sets, units = course.leftovers(state.accounts, chosen)
    return [*paid, *((design.limits.universe.sources(names), own) for names, own in zip(sets, units, strict=True))]


@pytest.mark.parametrize("workload", [2, 3])
@pytest.mark.parametrize(
    "more",
    [{}, {"sets": {"b0+b1": Rho(0.7)}, "person": Rho(1.4)}, {"one_way": 0.9}, {"selection": 0.9, "pairs": 0.02}],
    ids=["plain", "limits", "mostly single columns", "mostly selection"],
)
def test_whatever_single_columns_decide_each_set_pays_at_most_what_is_claimed(
    workload: int, more: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_choices(monkeypatch)
    schema = bits(4)
    mechanism = Synthesis(Rho(1), workload=workload, rounds=7, **more)  # type: ignore[arg-type]
    course, together = mechanism._course(schema, 50), 0
    claimed = Claimed(course)
    for seed in range(60):
        draw = random.Random(seed)
        numbers = np.random.default_rng(seed)
        monkeypatch.setattr(Course, "filled_cells", lambda *_, draw=draw: draw.choice((0.0, math.inf)))
        monkeypatch.setattr(Course, "expected_errors", lambda *_, numbers=numbers: random_errors(course, numbers))
        state, paid = course.start([]), list[Paid]()
        together += not state.choice.picks
        while state.coming:
            accounts, sets, units = course.together(state)
            paid += [(frozenset(names), amount) for names, amount in zip(sets, units, strict=True)]
            state = replace(state, accounts=accounts, coming=state.coming[1:])
        paid += random_rounds(course, state, draw) if state.choice.picks else again_and_again(course, state)
        claimed.check(paid)
    assert 20 < together < 40
    assert min(claimed.reached.values()) > 0.4 and max(claimed.reached.values()) > 0.95


def test_no_more_is_granted_than_there_is() -> None:
    accounts = Synthesis(Rho(1), strategy="packed", rounds=2).design(bits(3), 50).accounts
    assert accounts is not None and accounts.grow(Fraction(1)).granted == accounts.most
    for part in (Fraction(1001, 1000), Fraction(-1, 10)):
        with pytest.raises(MechanismError, match="More is granted"):
            accounts.grow(part)


def random_errors(course: Course, draw: np.random.Generator) -> np.ndarray:
    """Expected errors, of which every third is zero."""
    sets = len(course.design.wanted.sets)
    return draw.pareto(0.5, sets) ** 3 * (draw.random(sets) > 1 / 3)


def again_and_again(course: Course, state: State) -> list[Paid]:
    """What a course pays to measure marginals again."""
    paid = list[Paid]()
    while not course.over(state):
        accounts, sets, units = course.again(state)
        paid += [(frozenset(names), amount) for names, amount in zip(sets, units, strict=True)]
        state = replace(state, accounts=accounts, done=state.done + 1)
    return paid


@pytest.mark.parametrize("workload", [2, 3])
@pytest.mark.parametrize("more", [{}, {"sets": {"b0+b1": Rho(0.7)}, "person": Rho(1.4)}], ids=["plain", "limits"])
def test_whatever_is_measured_again_each_set_pays_at_most_what_is_claimed(
    workload: int, more: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What marginals are expected to be wrong by is drawn at random, and zero for every third."""

    schema = bits(4)
    mechanism = Synthesis(Rho(1), workload=workload, strategy="refined", rounds=3, **more)  # type: ignore[arg-type]
    course = mechanism._course(schema, 50)
    start, claimed = course.start([]), Claimed(course)
    for seed in range(40):
        draw = np.random.default_rng(seed)
        monkeypatch.setattr(Course, "expected_errors", lambda *_, draw=draw: random_errors(course, draw))
        claimed.check(again_and_again(course, start))
    least = 0.4 if workload == 3 and more else 0.6  # every triple meets b0 or b1, whose limit is used up first
    assert min(claimed.reached.values()) > least and max(claimed.reached.values()) > 0.95


# ---- distances ------------------------------------------------------------------------------------------------------


def test_a_guess_too_large_for_64_bits_moves_nothing() -> None:
    """Every cell guessed at the number of rows: on the grid of 16 the sum would be 2⁶⁴ for 2²⁰ cells of 2⁴⁰ rows."""
    cells, rows = 1 << 20, 1 << 40
    truth, other = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    truth[0], other[:2] = rows, (rows - 1, 1)
    guess = np.full(cells, float(rows))
    step = distance(np.array([1]), np.array([0.0]))
    assert abs(distance(truth, guess) - distance(other, guess)) <= 2 * step
    assert 0 <= distance(truth, guess) <= 2 * step * rows


def test_enumeration_sees_a_response_that_costs_what_it_should() -> None:
    """The tool itself: one response loses ε·tanh(ε/2) as α → 1, and no more at any order."""
    found = divergence(lambda history: ("a", 1.0) if not history else None, {"a": 0}, {"a": 1}, 1)
    assert found == pytest.approx(response_rho(1.0), rel=1e-3) and found <= response_rho(1.0)
    assert Fraction(response_rho(2.0)) < 2  # below ε²/2
