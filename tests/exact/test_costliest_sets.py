"""The bound on the costliest k attributes, against every set of small guarantees (privacy/PROOF.md, section 5)."""

from __future__ import annotations

import itertools
import random

import pytest

from nabladp.privacy import CDP, Guarantee, Pure, Rho, cost_index
from nabladp.privacy.cost_index import _upper_bound
from nabladp.privacy.terms import CurveTerm, Term, WeightTerm

NAMES = tuple("abcdef")
SETS = [chosen for size in range(1, 7) for chosen in itertools.combinations(NAMES, size)]


def terms(seed: int) -> list[Guarantee]:
    """A few guarantees of one term each, of every shape."""
    draw = random.Random(seed)

    def weights(kind: type, most: int = 6) -> dict[str, object]:
        return {name: kind(draw.randint(1, 40) / 16) for name in draw.sample(NAMES, draw.randint(1, most))}

    columns = {name: draw.randint(1, 3) for name in draw.sample(NAMES, 3)}
    steps = sorted((draw.randint(1, 9) / 8 for _ in range(sum(columns.values()))), reverse=draw.random() < 0.8)
    curve = [0.0, *itertools.accumulate(steps)]
    nodes = [(str(i), str(j)) for i in range(2) for j in range(2)]
    edges = [(u, v, CDP(draw.randint(1, 8) / 8)) for u, v in itertools.combinations(nodes, 2)]
    made = [
        Guarantee.touch(NAMES, weights(Rho)),
        Guarantee.touch(NAMES, weights(Pure)),
        Guarantee.squares(NAMES, weights(Rho), limit=draw.choice([None, 1, 2])),
        Guarantee.linear(NAMES, weights(Pure), limit=draw.choice([None, 1, 2])),
        Guarantee.linear(NAMES, weights(CDP), limit=draw.choice([None, 1, 3])),
        Guarantee.capped(NAMES, dict.fromkeys(NAMES, Rho(1)), {tuple("abc"): Rho(draw.randint(1, 24) / 8)}),
        Guarantee.from_graph(NAMES, edges, on=("a", "b"), values={"a": "01", "b": "01"}),
    ]
    if _roots_add_up(curve):
        made.append(Guarantee.curve(NAMES, columns, curve))
    return made


def _roots_add_up(curve: list[float]) -> bool:
    pairs = [(a, b) for a in range(len(curve)) for b in range(len(curve) - a)]
    return all(curve[a + b] ** 0.5 <= curve[a] ** 0.5 + curve[b] ** 0.5 - 1e-9 for a, b in pairs if a and b)


def subadditive(term: Term) -> bool:
    def rho(chosen: tuple[str, ...]) -> int:
        return term.cost(frozenset(chosen)).rho or 0

    return all(rho(a + b) <= rho(a) + rho(b) for a in SETS for b in SETS if not set(a) & set(b))


def test_terms_that_say_so_are_subadditive_and_no_others() -> None:
    seen = set()
    for seed in range(25):
        for ((term, _),) in (guarantee.terms for guarantee in terms(seed)):
            if term.adds_up:
                assert subadditive(term), term
            elif isinstance(term, WeightTerm) and len(term.weights) > 1:
                assert not subadditive(term), term
            seen.add((type(term), getattr(term, "shape", ""), term.adds_up))
    assert {(WeightTerm, "linear", True), (WeightTerm, "linear", False)} <= seen
    assert {(CurveTerm, "", True)} <= seen


@pytest.mark.parametrize("seed", range(25))
def test_no_set_costs_more_than_the_bound(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(cost_index, "MOST_SUBSETS", 0)
    draw = random.Random(seed)
    listed = terms(seed)
    for parts in (draw.sample(listed, 3), [part for part in listed if part.terms[0][0].adds_up]):
        guarantee = Guarantee.compose(NAMES, [*parts, *parts[:1]])
        for size in range(1, 7):
            true = max(guarantee.rho_units(chosen) or 0 for chosen in itertools.combinations(NAMES, size))
            assert true <= _upper_bound(guarantee._index, NAMES, size)
            found = guarantee.worst_subset(size)
            assert found.rho <= found.at_most


def test_a_term_that_claims_it_falsely_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WeightTerm, "adds_up", True)
    guarantee = Guarantee.linear(NAMES, list(NAMES), Pure(1))
    assert guarantee.rho_units(("a", "b")) > _upper_bound(guarantee._index, NAMES, 2)


def test_equal_costs_are_bounded_by_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven attributes at ρ = 0.05 each: three of them cost 0.15, which group privacy bounds by 0.45."""
    names = tuple("abcdefg")
    guarantee = Guarantee.squares(names, names, Rho(0.05))
    monkeypatch.setattr(cost_index, "MOST_SUBSETS", 0)
    found = guarantee.worst_subset(3)
    assert found.exact and found.at_most == guarantee.rho(names[:3]) == pytest.approx(0.15)
    assert found.among == names, "every attribute is in a set that costs as much"
