"""Plans: budgets kept, certificates as good as they should be, public facts only."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nabladp.mechanisms.heavy_hitters.certificate import Sieve, certify
from nabladp.mechanisms.heavy_hitters.planner import plan
from nabladp.mechanisms.heavy_hitters.privacy_loss import losses
from nabladp.mechanisms.heavy_hitters.settings import Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree

N = 100_000


# Figures known for n = 1e5, ε0 = 1 and strings of 1%: the plan must be as good.
KNOWN = [
    ("cdp", 0.5, None, {16: 27, 1024: 46, 65536: 61}),
    ("cdp", 0.25, None, {16: 38, 1024: 64, 65536: 86}),
    ("pure", 1.0, 0.5, {16: 293, 1024: 595, 65536: 875}),
]


@pytest.mark.parametrize(("notion", "budget", "share", "figures"), KNOWN)
@pytest.mark.parametrize("d", [16, 1024])
def test_certified_counts_are_as_good_as_known(notion, budget, share, figures, d) -> None:  # type: ignore[no-untyped-def]
    for frequency in (0.01, None):
        assert plan([2] * d, budget, N, 0.05, notion, share, frequency).certified <= figures[d]


@pytest.mark.parametrize("notion", ["pure", "cdp"])
@pytest.mark.parametrize("sizes", [[2] * 64, [2, 3, 50, 4, 4, 7, 300, 2, 9, 11], [5] * 33, [2, 10**7, 3], [9],
                                   [1, 1, 1], [4000] * 5, [10**6] * 3])  # fmt: skip
@pytest.mark.parametrize(("budget", "n"), [(1.0, 50_000), (0.05, 10**6), (8.0, 500)])
def test_plans_keep_their_budget_and_their_word(notion, sizes, budget, n) -> None:  # type: ignore[no-untyped-def]
    settings = plan(sizes, budget, n, notion=notion)
    assert max(losses(settings)) <= budget
    assert max(losses(settings)) >= 0.999 * budget  # and use it
    assert 1 <= settings.certified <= n and settings.unlisted == settings.certified
    assert settings.expected_list <= settings.longest_list <= 50_000
    assert settings.memory <= 4 << 30 and settings.tree.sizes == tuple(sizes)
    again = certify(settings.tree, Sieve.of(settings), settings.count_scale, n, 0.05)
    assert again == settings


def test_the_certified_count_grows_like_log_d() -> None:
    logs = np.array([6, 8, 10, 12])
    counts = np.array([plan([2] * 2**k, 1.0, N).certified for k in logs])
    assert np.corrcoef(logs, counts)[0, 1] ** 2 > 0.98
    assert counts[-1] < 2.5 * counts[0]  # standard privacy needs sixty-four times as many


def test_more_budget_rows_or_risk_never_certify_much_less() -> None:
    """The search is not perfect, but the direction must be right."""
    base = plan([2] * 256, 1.0, N)
    assert plan([2] * 256, 2.0, N).certified < base.certified
    assert plan([2] * 256, 1.0, N, failure=0.3).certified <= base.certified
    assert plan([2] * 256, 1.0, 10 * N).certified / (10 * N) < base.certified / N
    assert plan([2] * 256, 1.0, N, count_share=0.6).certified > base.certified
    assert plan([2] * 256, 1.0, N, count_share=0.6).count_error < base.count_error


def test_unequal_budgets_are_planned_for_the_smallest() -> None:
    one = plan([2, 3, 4, 5], [2.0, 0.5, 1.0, 3.0], 5000)
    assert one == plan([2, 3, 4, 5], 0.5, 5000) and max(losses(one)) <= 0.5


def test_limits_on_lists_and_memory_are_kept() -> None:
    tight = plan([2] * 256, 0.5, N, notion="cdp", largest_list=3000, false_listed=10, memory=64 << 20)
    assert tight.longest_list <= 3000 and tight.memory <= 64 << 20
    assert tight.certified >= plan([2] * 256, 0.5, N, notion="cdp").certified


@pytest.mark.parametrize("changes", [{"sizes": []}, {"budget": 0.0}, {"budget": [1.0]}, {"budget": math.nan}, {"n": 0},
                                     {"failure": 0.0}, {"failure": 1.0}, {"notion": "rdp"}, {"frequency": 1.0},
                                     {"frequency": 0.0}, {"count_share": 1.0}, {"sizes": [2, 0]},
                                     {"notion": "cdp", "count_share": 0.5}])  # fmt: skip
def test_bad_requests_are_refused(changes) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError):
        plan(**({"sizes": [2] * 8, "budget": 1.0, "n": 1000} | changes))


@pytest.mark.parametrize(("budget", "n"), [(0.01, 40), (1.0, 3), (1e-6, 1000), (1.0, 1)])
@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_too_few_rows_are_said_to_be_too_few(notion, budget, n) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="Nothing can be certified"):
        plan([2] * 64, budget, n, notion=notion)


def test_a_plan_is_the_same_every_time() -> None:
    one, other = (plan([3] * 50, 0.7, 9999) for _ in range(2))
    assert one == other and isinstance(one, Settings) and isinstance(one.tree, Tree)
