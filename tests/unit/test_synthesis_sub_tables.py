"""Small tables inside a large one: the detour by way of middle ones changes nothing but the work."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from nabladp.mechanisms.synthesis.inference.measurement import spread, sum_to
from nabladp.mechanisms.synthesis.inference.potentials import SubTables

BITS = tuple(f"b{i}" for i in range(14))
MIXED = {"a": 2, "b": 12, "c": 5, "d": 3, "e": 16, "f": 7, "g": 4}


def cases():
    yield "triples of bits", BITS, dict.fromkeys(BITS, 2), list(combinations(BITS, 3))
    yield "pairs and one triple", tuple(MIXED), MIXED, [*combinations(MIXED, 2), ("a", "e", "g")]
    yield "few", tuple(MIXED), MIXED, [("a", "b"), ("c",), ()]
    yield "the whole table among them", tuple(MIXED), MIXED, [tuple(MIXED), *combinations(MIXED, 2)]
    yield "none", ("a", "b"), MIXED, []


@pytest.mark.parametrize("held, sizes, sets", [case[1:] for case in cases()], ids=[case[0] for case in cases()])
def test_sums_and_spreads_are_those_of_each_table_alone(held, sizes, sets):
    draw = np.random.default_rng(1)
    sub_tables = SubTables(held, sizes, sets)
    table = draw.random([sizes[name] for name in held])
    found = sub_tables.sums(table)
    assert sorted(found) == list(range(len(sets)))
    for i, names in enumerate(sets):
        np.testing.assert_allclose(found[i], sum_to(table, held, names), rtol=1e-12)
    small = [draw.random([sizes[name] for name in names]) for names in sets]
    together = np.ones(table.shape)
    sub_tables.add(small, together)
    alone = sum((spread(part, names, held) for part, names in zip(small, sets, strict=True)), np.ones(table.shape))
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_many_tables_touch_far_fewer_cells():
    sizes = dict.fromkeys(BITS, 2)
    sub_tables = SubTables(BITS, sizes, list(combinations(BITS, 3)))
    cells = 2 ** len(BITS)
    middle = sum(2 ** len(stage.middle.names) * len(stage.members) for stage in sub_tables.stages)
    touched = cells * (len(sub_tables.direct) + len(sub_tables.stages)) + middle
    assert touched < cells * len(list(combinations(BITS, 3))) / 5
    assert all(2 ** len(stage.middle.names) <= cells**0.6 for stage in sub_tables.stages)


def test_few_tables_take_no_detour():
    assert not SubTables(("a", "b", "c"), MIXED, [("a", "b"), ("c",)]).stages
