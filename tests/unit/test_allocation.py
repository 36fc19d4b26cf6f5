"""Budgets over marginals: never overdrawn, nothing useful left, weights respected."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp.mechanisms.allocation import allocate

NAMES = "abcdef"
requests = st.lists(st.frozensets(st.sampled_from(NAMES), min_size=1), min_size=1, max_size=12)
weight = st.integers(1, 50).map(lambda i: Fraction(i, 7))
budgets = st.fixed_dictionaries({name: st.integers(1 << 30, 1 << 62) for name in NAMES})


@settings(max_examples=300, deadline=None)
@given(st.data(), requests, budgets)
def test_no_attribute_is_overdrawn_and_every_marginal_is_stopped_by_a_full_one(
    data: st.DataObject, touched: list[frozenset[str]], units: dict[str, int]
) -> None:
    weights = data.draw(st.lists(weight, min_size=len(touched), max_size=len(touched)))
    amounts = allocate(touched, weights, units)
    used = {name: sum(a for a, names in zip(amounts, touched, strict=True) if name in names) for name in NAMES}
    assert all(used[name] <= units[name] for name in NAMES)
    for names in touched:
        assert any(units[name] - used[name] <= len(touched) + 1 for name in names)


def test_disjoint_marginals_each_get_everything() -> None:
    assert (
        allocate([frozenset("ab"), frozenset("cd")], [Fraction(1)] * 2, dict.fromkeys(NAMES, 1 << 40)) == [1 << 40] * 2
    )


def test_amounts_follow_weights_where_an_attribute_is_shared() -> None:
    one, three = allocate([frozenset("a"), frozenset("ab")], [Fraction(1), Fraction(3)], dict.fromkeys(NAMES, 1 << 40))
    assert three == 3 * one and one + three == 1 << 40


def test_what_one_marginal_cannot_use_goes_to_the_next() -> None:
    """a is shared by three sets, d by two: d's own set takes all that a's shortage leaves over."""
    sets = [frozenset("ab"), frozenset("ac"), frozenset("ad"), frozenset("de")]
    amounts = allocate(sets, [Fraction(1)] * 4, dict.fromkeys(NAMES, 3 << 40))
    assert amounts == [1 << 40, 1 << 40, 1 << 40, 2 << 40]
