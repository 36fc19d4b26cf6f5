"""Which marginals are asked for, and which are refused before anything is spent."""

from __future__ import annotations

import pytest

from nabladp.errors import DomainTooLarge, MechanismError, UnknownAttribute
from nabladp.schema import Attribute, Schema
from nabladp.workloads import marginal_sets

SCHEMA = Schema(
    (
        Attribute("a", "boolean"),
        Attribute("b", "boolean"),
        Attribute("big", "integer", low=0, high=9_999_999),
        Attribute("c", "boolean", derived_from=("a",)),
    )
)


def test_all_of_a_size_uses_source_attributes_unless_told() -> None:
    assert marginal_sets(SCHEMA, None, 1, ["a", "c"]) == (("a",), ("c",))
    assert ("c",) not in marginal_sets(SCHEMA, None, 1)


@pytest.mark.parametrize(
    ("sets", "k"), [(None, None), ([["a"]], 1), ([], None), ([[]], None), ([["a", "a"]], None), (None, 0), (None, 9)]
)
def test_requests_that_make_no_sense(sets: list[list[str]] | None, k: int | None) -> None:
    with pytest.raises(MechanismError):
        marginal_sets(SCHEMA, sets, k)


def test_the_same_marginal_twice() -> None:
    with pytest.raises(MechanismError, match="twice"):
        marginal_sets(SCHEMA, [["a", "b"], ["b", "a"]], None)


def test_unknown_attribute_suggests_the_near_one() -> None:
    with pytest.raises(UnknownAttribute, match="Did you mean 'big'"):
        marginal_sets(SCHEMA, [["bigg"]], None)


def test_too_many_cells_says_how_many_and_whose() -> None:
    with pytest.raises(DomainTooLarge, match=r"40,000,000 cells .*big: 10,000,000") as caught:
        marginal_sets(SCHEMA, [["a", "b", "big"]], None)
    assert caught.value.fix and caught.value.fields["attributes"] == ["a", "b", "big"]


def test_too_many_tables_and_too_many_cells_together() -> None:
    wide = Schema(tuple(Attribute(f"x{i}", "boolean") for i in range(2000)))
    assert len(marginal_sets(wide, None, 1)) == 2000
    with pytest.raises(DomainTooLarge, match="1,999,000 tables"):
        marginal_sets(wide, None, 2)
    many = Schema(tuple(Attribute(f"y{i}", "integer", low=0, high=999_999) for i in range(70)))
    with pytest.raises(DomainTooLarge, match="together"):
        marginal_sets(many, None, 1)
