"""Certificates against exact laws on tiny trees, and against runs on the worst data on larger ones."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from tree_laws import Lists, masses, records_of

from nabladp.mechanisms.heavy_hitters.certificate import (
    Shape,
    Sieve,
    _smallest,
    caution,
    certified_count,
    certify,
    false_bound,
    gaussian_tails,
    laplace_tails,
    list_bounds,
    list_bytes,
    most_strings,
)
from nabladp.mechanisms.heavy_hitters.planner import plan
from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree

# ---- tails ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.05, 0.4, 1.0, 3.7, 40.0, 900.0])
def test_tails_are_those_of_the_laws_and_never_below(scale: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        q = mpmath.exp(-1 / mpmath.mpf(scale))
        weights = [mpmath.exp(-((mpmath.mpf(z) / scale) ** 2) / 2) for z in range(math.ceil(45 * scale) + 2)]
        total = 2 * mpmath.fsum(weights) - 1
        for k in {-3, 0, 1, 2, 5, math.ceil(2 * scale), math.ceil(9 * scale)}:
            far = max(k, 1 - k)
            exact = {
                laplace_tails: q**far / (1 + q),
                gaussian_tails: mpmath.fsum(weights[far:]) / total,
            }
            for tails, tail in exact.items():
                found = tails(np.array([[float(k)]]), np.array([scale]))[0, 0]
                truth = tail if k > 0 else 1 - tail
                assert truth <= mpmath.mpf(float(found)) <= truth * (1 + mpmath.mpf(1e-10)) + mpmath.mpf(10) ** -289


def test_wide_gaussians_are_bounded_by_integrals() -> None:
    k = np.array([[-9000.0, 0.0, 1.0, 4096.0, 30_000.0]])
    summed, integral = gaussian_tails(k, np.array([4096.0])), gaussian_tails(k, np.array([4096.0000001]))
    assert np.all(summed <= integral) and np.all(integral <= summed * 1.01 + 1e-4)


# ---- lists ---------------------------------------------------------------------------------------------------------


def sieve_of(notion: str, thresholds: list[float], scales: list[float], mu: int) -> Sieve:
    return Sieve(notion, np.array(thresholds, dtype=float), np.array(scales, dtype=float), mu)  # type: ignore[arg-type]


CASES = [sieve_of("pure", [9, 20], [4.0, 4.0], 7), sieve_of("cdp", [5, 9], [2.0, 3.0], 0),
         sieve_of("pure", [900, 1000], [80.0, 80.0], 500), sieve_of("cdp", [0, 400], [30.0, 90.0], 0)]  # fmt: skip


@pytest.mark.parametrize("sieve", CASES)
def test_no_data_accounts_for_more_listed_strings_than_the_bound(sieve: Sieve) -> None:
    n, draws = 20_000, np.random.default_rng(1)
    bound, p = sieve.rates(n)
    tight = np.zeros(2)
    for size in np.unique(np.geomspace(1, n, 300).astype(int)):
        parts = np.full(n // size, float(size))
        for counts in (parts, draws.multinomial(n, draws.dirichlet(np.ones(n // size))).astype(float)):
            excess = (sieve.passing(np.tile(counts, (2, 1))) - p[:, None]).sum(axis=1)
            assert np.all(excess <= bound * (1 + 1e-9) + 1e-6)
            tight = np.maximum(tight, excess / bound)
    assert np.all(tight > 0.9)


def node_bounds(tree: Tree, rates: tuple[np.ndarray, np.ndarray], t: float) -> tuple[list[float], float]:
    """The bound for every node, one after the other, and how many false strings a node may list."""
    listed: list[float] = []
    false = 0.0
    for node in tree.nodes:
        candidates = math.prod(listed[c] for c in node.children) if node.children else float(tree.cells(node))
        if node.thresholded:
            k, p = (rate[node.level - tree.lowest] for rate in rates)
            false, mean = max(false, p * candidates), k + p * candidates
            candidates = min(candidates, mean + t / 3 + math.sqrt(t * t / 9 + 2 * t * mean))
        listed.append(candidates)
    return listed, false


def expected(tree: Tree, levels: tuple[Level, ...], mu: int, notion: str, rows: tuple) -> np.ndarray:
    """The exact expected length of every node's list."""
    lists, logs = Lists(tree, levels, mu, notion, rows).law()
    lengths = np.array([[len(outcome[i]) for i in range(len(tree.nodes))] for outcome in lists])
    return np.exp(logs) @ lengths


@pytest.mark.parametrize("notion", ["pure", "cdp"])
@pytest.mark.parametrize(
    "tree", [Tree.build([2, 2], 2, 2, 1), Tree.build([2, 2, 2], 2, 2, 2), Tree.build([2, 3], 3, 2, 2)]
)
def test_exact_lists_and_misses_of_all_tables_are_within_the_bounds(tree: Tree, notion: str) -> None:
    mu = 1 if notion == "pure" else 0
    levels = tuple(Level(1 + i, 0.9) for i in range(tree.thresholded_levels))
    sieve, shape = sieve_of(notion, [1 + i for i in range(len(levels))], [0.9] * len(levels), mu), Shape.of(tree)
    for n in (1, 2, 3):
        bounds = np.array(node_bounds(tree, sieve.rates(n), 0.0)[0])
        for rows in itertools.combinations_with_replacement(records_of(tree.sizes), n):
            assert np.all(expected(tree, levels, mu, notion, rows) <= bounds * (1 + 1e-9))
    for n in (2, 6, 9):  # one string that all rows share
        lists, logs = Lists(tree, levels, mu, notion, ((0,) * len(tree.sizes),) * n).law()
        listed = np.array([(0,) * len(tree.sizes) in outcome[len(tree.nodes) - 1] for outcome in lists])
        missed = math.fsum(np.exp(logs)[~listed])
        assert missed <= sieve.missing(shape.nodes, np.array([float(n)]))[0]


def test_bounds_follow_the_tree_node_by_node() -> None:
    draws = np.random.default_rng(7)
    for _ in range(60):
        sizes = draws.integers(1, 9, size=draws.integers(2, 30)).tolist()
        tree = Tree.build(sizes, int(draws.integers(1, 65)), int(draws.integers(2, 5)), int(draws.integers(2, 65)))
        rates = draws.uniform(1, 50, tree.thresholded_levels), draws.uniform(0, 0.1, tree.thresholded_levels)
        t = float(draws.choice([0.0, 12.0]))
        listed, false = node_bounds(tree, rates, t)
        shape = Shape.of(tree)
        found, candidates = list_bounds(shape, rates, t)
        assert sorted(np.repeat(found, shape.copies)) == pytest.approx(sorted(listed))
        assert false_bound(shape, rates[1], candidates) == pytest.approx(false)
        words = [(max(len(n.children), 1) + 1) * b for n, b in zip(tree.nodes, listed, strict=True) if n.thresholded]
        assert list_bytes(shape, found) == pytest.approx(8 * math.fsum(words))


def test_endless_lists_are_seen_as_such_without_a_warning() -> None:
    tree = Tree.build([2] * 4096, 16, 2, 4096)
    sieve = sieve_of("cdp", [0] * tree.thresholded_levels, [1.0] * tree.thresholded_levels, 0)
    assert certify(tree, sieve, None, 1000, 0.05).longest_list > 1e250


# ---- what is certified ---------------------------------------------------------------------------------------------


def test_misses_are_below_the_geometric_bound() -> None:
    """The geometric bound e^(−(f−τ_H)/λ)/[(1+e^(−1/λ))(1−b·e^(−μ/λ))], for thresholds that rise by μ."""
    lam, mu = 3.0, 20
    for fan_out, d in ((2, 64), (3, 81), (4, 256)):
        tree = Tree.build([2] * d, 2, fan_out, 2)
        thresholds = [mu * (i + 1) for i in range(tree.thresholded_levels)]
        sieve = sieve_of("pure", thresholds, [lam] * len(thresholds), mu)
        f = np.arange(thresholds[-1], thresholds[-1] + 100.0)
        exact = sieve.missing(Shape.of(tree).nodes, f)
        geometric = np.exp(-(f - thresholds[-1]) / lam) / (
            (1 + math.exp(-1 / lam)) * (1 - fan_out * math.exp(-mu / lam))
        )
        assert np.all(exact <= geometric * (1 + 1e-9)) and np.all(exact >= 0.9 * geometric)


def test_certified_is_the_smallest_count_with_the_promise() -> None:
    tree, sieve = Tree.build([2] * 16, 4, 2, 16), CASES[0]
    sieve = sieve_of("pure", [9, 20, 31], [4.0] * 3, 7)
    shape = Shape.of(tree)
    for n, failure, frequency in ((10_000, 0.05, None), (300, 0.2, None), (10_000, 0.01, 0.02)):
        found = certified_count(shape, sieve, n, failure, frequency)
        assert found is not None

        def promised(f: int, n: int = n, failure: float = failure, frequency: float | None = frequency) -> bool:
            count = np.array([float(f)])
            return bool((most_strings(n, count, frequency) * sieve.missing(shape.nodes, count))[0] <= 0.9 * failure)

        assert promised(found) and not promised(found - 1)


def test_smallest_agrees_with_a_scan() -> None:
    for low, high, first in itertools.product((0, 1, 5), (5, 64, 1000, 4097), (0, 1, 5, 63, 64, 65, 700, 4097, 5000)):
        truth = next((x for x in range(low, high + 1) if x >= first), None)
        assert _smallest(lambda x, first=first: x >= first, low, high) == truth


def test_where_nothing_is_certified_it_says_so() -> None:
    tree = Tree.build([2] * 16, 4, 2, 16)
    with pytest.raises(ValueError, match="Nothing can be certified with 20 rows"):
        certify(tree, sieve_of("pure", [30, 40, 50], [4.0] * 3, 20), 2.0, 20, 0.05)


def test_a_frequency_limits_the_promise_to_the_combinations_it_speaks_of() -> None:
    tree, sieve = Tree.build([2] * 16, 4, 2, 16), sieve_of("pure", [9, 20, 31], [4.0] * 3, 7)
    every, some = certify(tree, sieve, 2.0, 10_000, 0.05), certify(tree, sieve, 2.0, 10_000, 0.05, 0.02)
    assert some.certified < every.certified == every.unlisted and some.unlisted == 200


# ---- runs ----------------------------------------------------------------------------------------------------------


def run(settings: Settings, rows: np.ndarray, draws: np.random.Generator) -> tuple[dict[bytes, int], int]:
    """The mechanism as it is written down, a draw for every candidate: the root's list and the longest list."""

    def noise(scale: float, size: int) -> np.ndarray:
        law, reach = masses(settings.notion, scale)
        return draws.choice(np.arange(-reach, reach + 1), size=size, p=law)

    lists: list[list[bytes]] = []
    longest, released = 0, {}
    for node in settings.tree.nodes:
        if node.children:
            candidates = [b"".join(parts) for parts in itertools.product(*(lists[child] for child in node.children))]
        else:
            sizes = (range(settings.tree.sizes[j]) for j in node.attributes)
            candidates = [bytes(values) for values in itertools.product(*sizes)]
        if node.thresholded:
            counts = Counter(row.tobytes() for row in rows[:, node.attributes[0] : node.attributes[-1] + 1])
            level, f = settings.level_of(node), np.array([counts[s] for s in candidates])
            z = noise(level.scale, len(f))
            if settings.notion == "pure":
                passed = np.maximum(f - level.threshold, -settings.mu) + z > 0
            else:
                passed = f + z > level.threshold
            noisy = f + z if settings.count_scale is None else f + noise(settings.count_scale, len(f))
            released = {candidates[i]: int(noisy[i]) for i in np.flatnonzero(passed)}
            candidates = list(released)
        lists.append(candidates)
        longest = max(longest, len(candidates) if node.thresholded else 0)
    return released, longest


@pytest.mark.parametrize(("notion", "budget"), [("pure", 1.0), ("cdp", 0.5)])
def test_on_the_worst_data_runs_keep_the_certificate(notion: str, budget: float) -> None:
    """As many strings as there can be, each exactly as frequent as certified."""
    d, n, failure, draws = 12, 1500, 0.2, np.random.default_rng(11)
    settings = plan([2] * d, budget, n, failure, notion, largest_list=400, false_listed=60, widest=64)  # type: ignore[arg-type]
    assert settings.tree.depth >= 2
    strings = draws.choice(2**d, size=n // settings.certified, replace=False)
    codes = np.repeat(strings, settings.certified)
    codes = np.concatenate([codes, draws.integers(0, 2**d, size=n - len(codes))])
    rows = (codes[:, None] >> np.arange(d) & 1).astype(np.uint8)
    exact = Counter(row.tobytes() for row in rows)
    heavy = [s for s, count in exact.items() if count >= settings.certified]
    assert len(heavy) >= 20
    failures = 0
    runs = 150
    for _ in range(runs):
        released, longest = run(settings, rows, draws)
        assert longest <= settings.longest_list
        kept = all(s in released and abs(released[s] - exact[s]) <= settings.count_error for s in heavy)
        failures += not kept
    assert failures / runs <= failure + 3 * math.sqrt(failure * (1 - failure) / runs)


def test_the_room_for_chance_is_enough() -> None:
    """A list of independent candidates exceeds its bound with probability at most e^(−t): exact binomial tails."""
    stats = pytest.importorskip("scipy.stats")
    shape = Shape.of(Tree.build([1000], 1000, 2, 1000))
    for p, t in itertools.product((1e-4, 0.01, 0.3), (3.0, 10.0, 30.0)):
        bound = list_bounds(shape, (np.zeros(1), np.array([p])), t)[0][0]
        assert stats.binom.sf(math.floor(bound), 1000, p) <= math.exp(-t)
    assert caution(shape, 0.05) == pytest.approx(math.log(1 / (1e-6 * 0.05)))
