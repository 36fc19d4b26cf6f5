"""The costliest attributes: the search that is not exhaustive, held against the one that is."""

from __future__ import annotations

import itertools
import math

import pytest

from nabladp.errors import GuaranteeError
from nabladp.privacy import CDP, Guarantee, Pure, Rho, cost_index
from nabladp.privacy.cost_index import WorstSubset, _upper_bound

NAMES = ("a", "b", "c", "d", "e")
TOUCHES = [Guarantee.touch(NAMES, s, Rho((i % 3 + 1) / 8)) for i, s in enumerate(itertools.combinations(NAMES, 2))]
SHAPES = {
    "one heavy attribute": [Guarantee.touch(NAMES, NAMES, Rho(0.1)), Guarantee.touch(NAMES, "d", Rho(3))],
    "all pairs": TOUCHES,
    "linear": [Guarantee.linear(NAMES, {"a": CDP(1), "c": CDP(0.3), "e": CDP(2)}, limit=2)],
    "squares": [Guarantee.squares(NAMES, {"a": Rho(1), "b": Rho(5), "e": Rho(2)})],
    "curve": [Guarantee.curve(NAMES, {"a": 1, "b": 2, "c": 1}, [0, 5, 8, 9, 9])],
    "capped": [
        Guarantee.capped(NAMES, dict.fromkeys("abcd", Rho(1)) | {"e": Rho(3)}, {("a", "b"): Rho(1.2), NAMES: Rho(4)})
    ],
    "mixed": [*TOUCHES[:4], Guarantee.linear(NAMES, [*"bde"], Pure(0.5)), Guarantee.squares(NAMES, "c", Rho(1))],
    "each its own": [Guarantee.touch(NAMES, name, Rho(1)) for name in NAMES],
    "repeated": [Guarantee.touch(NAMES, [*"ab"], Rho(0.5)), *[Guarantee.squares(NAMES, [*"cde"], Rho(0.25))] * 3],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_greedy_never_claims_more_nor_bounds_less_than_there_is(
    monkeypatch: pytest.MonkeyPatch, shape: str, size: int
) -> None:
    g = Guarantee.compose(NAMES, SHAPES[shape])
    true = max(g.rho(chosen) for chosen in itertools.combinations(NAMES, size))
    costliest = [set(chosen) for chosen in itertools.combinations(NAMES, size) if g.rho(chosen) == true]
    among = tuple(name for name in NAMES if name in set.union(*costliest))
    assert g.worst_subset(size) == WorstSubset(g.worst_subset(size).attributes, true, true, True, among)
    monkeypatch.setattr(cost_index, "MOST_SUBSETS", 0)
    found = g.worst_subset(size)
    assert len(set(found.attributes)) == size and found.attributes == tuple(sorted(found.attributes))
    assert g.rho(found.attributes) == found.rho <= true <= found.at_most
    assert set(found.attributes) <= set(found.among)
    if found.rho == true:
        assert set(found.among) <= set(among)
    units = [g.rho_units(chosen) or 0 for chosen in itertools.combinations(NAMES, size)]
    assert max(units) <= _upper_bound(g._index, NAMES, size)  # not a unit less
    assert found.exact == (found.rho == found.at_most)


@pytest.mark.parametrize(
    ("shape", "size", "bound"),
    [
        ("one heavy attribute", 2, 3.1),  # every term's own worst
        ("all pairs", 5, sum((i % 3 + 1) / 8 for i in range(10))),  # the whole person
        ("each its own", 2, 2.0),  # the two costliest, added: every term is subadditive in ρ
        ("linear", 2, (2 + 1) ** 2 / 2),  # its own worst; the sum of the two costliest would be too small
        ("squares", 2, 7.0),
        ("repeated", 1, 0.75),
    ],
)
def test_the_bound_is_the_smallest_that_is_known(
    monkeypatch: pytest.MonkeyPatch, shape: str, size: int, bound: float
) -> None:
    monkeypatch.setattr(cost_index, "MOST_SUBSETS", 0)
    assert Guarantee.compose(NAMES, SHAPES[shape]).worst_subset(size).at_most == pytest.approx(bound)


def test_without_a_bound_nothing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    lonely = Guarantee.from_graph(NAMES, [], on="c", values={"c": "01"}) + Guarantee.touch(NAMES, "a", Rho(1))
    monkeypatch.setattr(cost_index, "MOST_SUBSETS", 0)
    found = lonely.worst_subset(2)
    assert "c" in found.attributes and math.isinf(found.rho) and math.isinf(found.at_most) and found.exact


@pytest.mark.parametrize("size", [0, -1, 5])
def test_only_protected_attributes_are_chosen(size: int) -> None:
    g = Guarantee.compose(NAMES, TOUCHES).with_public("a")
    assert "a" not in g.worst_subset(4).attributes
    with pytest.raises(GuaranteeError, match="protected attributes"):
        g.worst_subset(size)
