"""Spending decided on the way: the bound that limits on attributes and caps on sets give for every set."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp.errors import GuaranteeError, UnknownAttribute
from nabladp.privacy import CDP, Guarantee, Rho
from nabladp.privacy.terms import MOST_CAPS, CappedTerm
from nabladp.privacy.universe import Universe

NAMES = ("a", "b", "c", "d")
SUBSETS = [frozenset(s) for size in range(5) for s in itertools.combinations(NAMES, size)]


def test_a_set_pays_its_weights_or_the_caps_that_cover_it() -> None:
    g = Guarantee.capped(NAMES, dict.fromkeys("abc", Rho(1)), {("a", "b"): Rho(1.5), ("a", "b", "c"): Rho(2.25)})
    told = {"": 0, "a": 1, "d": 0, "ab": 1.5, "ac": 2, "abc": 2.25, "bc": 2, "abcd": 2.25}
    assert {chosen: g.rho(list(chosen)) for chosen in told} == told
    assert g.epsilon("a") == float("inf")  # Gaussian noise has no pure bound


def test_a_cap_may_be_cheaper_than_one_of_its_attributes() -> None:
    g = Guarantee.capped(NAMES, {"a": Rho(5), "b": Rho(1)}, {("a", "b"): Rho(2)})
    assert (g.rho("a"), g.rho("b"), g.rho(["a", "b"])) == (2, 1, 2)


def test_caps_that_overlap_are_combined_in_the_best_way() -> None:
    caps = {("a", "b"): Rho(1.2), ("b", "c"): Rho(1.1), ("c", "d"): Rho(1.3)}
    g = Guarantee.capped(NAMES, dict.fromkeys(NAMES, Rho(1)), caps)
    assert g.rho(NAMES) == pytest.approx(2.5)  # ab and cd
    assert g.rho(["a", "b", "c"]) == pytest.approx(2.1)  # a and bc


weights = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 40), min_size=1)


@st.composite
def spending(draw: st.DrawFn) -> tuple[CappedTerm, list[tuple[frozenset[str], int]]]:
    """A term, and measurements that respect its limits: each touches some attributes and takes what is still left."""
    own = draw(weights)
    sets = draw(st.lists(st.sets(st.sampled_from(sorted(own)), min_size=1), max_size=4))
    caps = tuple(sorted((tuple(sorted(s)), draw(st.integers(1, 80))) for s in sets))
    term = CappedTerm(tuple(sorted(own.items())), caps)
    left = [(frozenset([name]), weight) for name, weight in own.items()] + [
        (frozenset(on), units) for on, units in caps
    ]
    made = []
    for _ in range(draw(st.integers(0, 8))):
        touched = frozenset(draw(st.sets(st.sampled_from(sorted(own)), min_size=1)))
        room = min(units for on, units in left if on & touched)
        amount = draw(st.integers(0, room))
        left = [(on, units - amount if on & touched else units) for on, units in left]
        made.append((touched, amount))
    return term, made


@settings(max_examples=300)
@given(spending())
def test_no_spending_within_the_limits_costs_a_set_more(case: Any) -> None:
    term, made = case
    for chosen in SUBSETS:
        spent = sum(amount for touched, amount in made if touched & chosen)
        assert spent <= (term.cost(chosen).rho or 0)


def test_the_bound_is_reached_where_sets_have_one_attribute() -> None:
    """Limits 3 each, 7 for all three: two pay in full and the third what is left, whichever two."""
    term = CappedTerm((("a", 3), ("b", 3), ("c", 3)), ((("a", "b", "c"), 7),))
    assert [term.cost(frozenset(chosen)).rho for chosen in ("a", "ab", "abc")] == [3, 6, 7]


def test_worst_bounds_every_set_of_a_size() -> None:
    draws = np.random.default_rng(5)
    for _ in range(60):
        own = tuple((name, int(draws.integers(1, 30))) for name in NAMES)
        caps = {tuple(n for n in NAMES if draws.random() < 0.6): int(draws.integers(1, 60)) for _ in range(3)}
        term = CappedTerm(own, tuple(sorted((on, units) for on, units in caps.items() if on)))
        for size in range(5):
            exact = max((term.cost(s).rho or 0 for s in SUBSETS if len(s) == size), default=0)
            assert exact <= (term.worst(size, frozenset(NAMES)).rho or 0)


def test_derived_names_public_names_and_several_rows() -> None:
    u = Universe(("age", "sex", "zip"), {"band": ("age",)}, frozenset(["zip"]))
    g = Guarantee.capped(u, {"band": Rho(1), "sex": Rho(2)}, {("band", "sex", "zip"): Rho(2.5)})
    assert (g.rho("age"), g.rho(["age", "sex"])) == (1, 2.5)
    assert g.for_rows(3).rho(["age", "sex"]) == 22.5
    assert g.rho("zip") == float("inf") and g.per_person().rho == 2.5
    assert Guarantee.capped(u, {}) == Guarantee.none(u)


def test_units_are_kept_exactly_and_the_json_is_plain() -> None:
    third = Rho(Fraction(1, 3))
    g = Guarantee.capped(NAMES, {"b": third, "a": CDP(1)}, {("b", "a"): third})
    body = g.to_json()["terms"][0]
    assert body == {
        "shape": "capped",
        "weights": {"a": str(1 << 59), "b": str(-(-(1 << 60) // 3))},
        "caps": [{"on": ["a", "b"], "units": str(-(-(1 << 60) // 3))}],
    }
    assert Guarantee.from_json(json.loads(json.dumps(g.to_json()))) == g


@pytest.mark.parametrize(
    "change",
    [
        {"weights": {}},
        {"weights": {"a": "0"}},
        {"weights": {"a": 5}},
        {"weights": {"nobody": "5"}},
        {"caps": [{"on": [], "units": "5"}]},
        {"caps": [{"on": ["a", "a"], "units": "5"}]},
        {"caps": [{"on": ["d"], "units": "5"}]},
        {"caps": [{"on": ["a"], "units": "0"}]},
        {"caps": [{"on": ["a"], "units": "-1"}]},
        {"caps": [{"on": ["a"]}]},
        {"caps": [{"on": ["a"], "units": str(i + 1)} for i in range(MOST_CAPS + 1)]},
    ],
    ids=str,
)
def test_forged_terms_are_refused(change: dict[str, Any]) -> None:
    data = Guarantee.capped(NAMES, {"a": Rho(1), "b": Rho(1)}, {("a", "b"): Rho(1)}).to_json()
    data["terms"][0].update(change)
    with pytest.raises((GuaranteeError, UnknownAttribute)):
        Guarantee.from_json(data)
