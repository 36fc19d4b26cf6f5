"""Graph terms: what they refuse, and distances worked out by hand."""

from __future__ import annotations

import pytest

from nabladp.errors import GuaranteeError
from nabladp.privacy import CDP, Guarantee
from nabladp.privacy.graph import GraphTerm
from nabladp.privacy.terms import Cost
from nabladp.privacy.units import UNIT, half_square

BITS = ("0", "1")


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (("a", "b"), (BITS, ())),  # no records at all: every distance would be zero
        (("a", "b"), (BITS, ("0", "0"))),
        (("a", "b"), (BITS,)),
        (("a", "a"), (BITS, BITS)),
        ((), ()),
    ],
    ids=str,
)
def test_domains_must_be_whole(names: tuple[str, ...], values: tuple[tuple[str, ...], ...]) -> None:
    with pytest.raises(GuaranteeError, match="whole domain"):
        GraphTerm(names, values, (), True)


@pytest.mark.parametrize("edge", [(("0",), ("1",), -1), (("0",), ("1",), True), (("0",), ("1",), 1.5)], ids=str)
def test_an_edge_weighs_a_whole_number_of_units(edge: tuple[tuple[str], tuple[str], int]) -> None:
    with pytest.raises(GuaranteeError, match="whole number"):
        GraphTerm(("a",), (BITS,), (edge,), True)


@pytest.mark.parametrize("edge", [(("9",), ("0",), 1), (("0",), ("9",), 1), (("0", "0"), ("1",), 1)], ids=str)
def test_both_ends_of_an_edge_are_records(edge: tuple[tuple[str], tuple[str], int]) -> None:
    with pytest.raises(GuaranteeError, match="outside"):
        GraphTerm(("a",), (BITS,), (edge,), True)


@pytest.mark.parametrize("pure", [True, False])
def test_a_set_pays_the_largest_distance_within_it(pure: bool) -> None:
    """Moving a costs 20. Moving b costs 1 where a is 0, and 50 where a is 1: by way of a = 0 only 20 + 1 + 20."""
    moves = [("00", "01", 1), ("10", "11", 50), ("00", "10", 20), ("01", "11", 20)]
    edges = tuple((tuple(one), tuple(other), weight * UNIT) for one, other, weight in moves)
    term = GraphTerm(("a", "b"), (BITS, BITS), edges, pure)
    for chosen, distance in {"a": 20, "b": 41, "ab": 41, "bx": 41}.items():
        for asked in (term.cost(frozenset(chosen)), term.worst(1, frozenset(chosen))):
            assert asked == Cost(half_square(distance * UNIT), distance * UNIT if pure else None)
    assert term.cost(frozenset("x")) == Cost(0, 0)
    assert term.for_rows(3).cost(frozenset("b")).rho == half_square(3 * 41 * UNIT)
    one, other = {"a": 0, "b": 1}, {"a": 1, "b": 0}
    assert term.between(one, other, frozenset("ab")).rho == half_square(21 * UNIT)


def test_values_that_cannot_be_told_apart_cost_nothing() -> None:
    same = GraphTerm(("a",), (BITS,), ((("0",), ("1",), 0),), False)
    assert same.cost(frozenset("a")) == Cost(0, 0)


def test_edges_between_values_between_tuples_and_between_records_mean_the_same() -> None:
    domain = {"values": {"a": BITS}, "on": "a"}
    plain, *others = (
        Guarantee.from_graph(["a", "b"], [(one, other, CDP(1))], **domain)  # type: ignore[arg-type]
        for one, other in [("0", "1"), (0, 1), (("0",), ("1",)), ({"a": 0}, {"a": 1})]
    )
    assert all(other == plain for other in others)
