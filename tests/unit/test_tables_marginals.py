"""Counting: covers hold every set, joint histograms are summed out right, and what is too large is refused."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nabladp.errors import DataError, DomainTooLarge, MechanismError, UnknownAttribute
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, Marginals
from nabladp.tables.kernels import CACHED_CELLS, cover


def schema_of(*sizes: int) -> Schema:
    return Schema(tuple(Attribute(f"a{i}", "integer", low=0, high=size - 1) for i, size in enumerate(sizes)))


def coded(schema: Schema, rows: int, seed: int = 0, **options) -> CodedTable:
    draw = np.random.default_rng(seed)
    return CodedTable(schema, {a.name: draw.integers(0, a.size, rows) for a in schema}, **options)


def by_hand(table: CodedTable, names) -> np.ndarray:
    counts = np.zeros(table.schema.sizes(names), dtype=np.int64)
    for row in zip(*(table._rows.column(name).to_pylist() for name in names), strict=True):
        counts[row] += 1
    return counts


@given(st.data())
def test_marginals_of_any_sets(data):
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    schema = schema_of(*sizes)
    some = st.lists(st.sampled_from(schema.names), min_size=1, max_size=4, unique=True)
    sets = data.draw(st.lists(some, min_size=1, max_size=8))
    table = coded(schema, data.draw(st.integers(1, 40)), seed=1, batch_rows=16)
    for names, found in zip(sets, table.marginals(sets), strict=True):
        np.testing.assert_array_equal(found, by_hand(table, names))


@given(st.data())
def test_a_cover_holds_every_set_and_stays_small(data):
    sizes = {f"a{i}": size for i, size in enumerate(data.draw(st.lists(st.integers(1, 300), min_size=1, max_size=9)))}
    some = st.lists(st.sampled_from(sorted(sizes)), max_size=3, unique=True).map(tuple)
    sets = data.draw(st.lists(some, min_size=1, max_size=20))
    joints, home = cover(sets, sizes)
    for names in sets:
        assert set(names) <= set(joints[home[frozenset(names)]])
    for joint in joints:
        cells = int(np.prod([sizes[name] for name in joint]))
        assert cells <= CACHED_CELLS or any(set(joint) == set(names) for names in sets)


def test_pairs_share_histograms():
    schema = schema_of(*[8] * 20)
    joints, _ = cover(list(itertools.combinations(schema.names, 2)), dict.fromkeys(schema.names, 8))
    assert len(joints) < 40  # of 190 pairs


def test_large_marginals_beside_small_ones():
    schema = schema_of(2000, 1000, 3)
    table = coded(schema, 500)
    large, small, wide = table.marginals([("a1", "a0"), ("a2",), ("a2", "a0")])
    np.testing.assert_array_equal(large, by_hand(table, ("a1", "a0")))
    np.testing.assert_array_equal(small, by_hand(table, ("a2",)))
    np.testing.assert_array_equal(wide, by_hand(table, ("a2", "a0")))


@pytest.mark.parametrize("sizes", [(1, 65535), (1, 65536), (65536, 1), (256, 256), (1, 255, 257), (70000, 1)])
def test_sizes_at_the_ends_of_integer_types(sizes):
    schema = schema_of(*sizes)
    last = CodedTable(schema, {a.name: [0, a.size - 1] for a in schema})
    (found,) = last.marginals([schema.names])
    assert found.sum() == 2 and found.flat[-1] >= 1 and found.flat[0] >= 1


def test_no_sets_and_the_empty_set():
    table = coded(schema_of(2, 3), 7)
    assert table.marginals([]) == []
    (everyone,) = table.marginals([()])
    assert everyone.shape == () and everyone == 7


def test_equal_sets_are_separate_arrays():
    one, two = coded(schema_of(2, 3), 7).marginals([("a0",), ("a0",)])
    one[:] = -1
    assert two.sum() == 7


def test_thousands_of_attributes():
    schema = schema_of(*[3] * 2000)
    table = coded(schema, 50)
    found = table.marginals([(name,) for name in schema.names])
    assert len(found) == 2000 and all(counts.sum() == 50 for counts in found)


def test_too_large_says_how_large():
    schema = schema_of(10_000, 10_000, 10_000)
    with pytest.raises(DomainTooLarge) as caught:
        coded(schema, 3).marginals([("a0", "a2", "a1")])
    assert "'a2'" in str(caught.value) and "about 10^12 cells, about 10^13 bytes" in str(caught.value)
    assert caught.value.fields["bytes"] == 8 * 10**12 and caught.value.fix
    many = [(f"a{i}", "a9") for i in range(9)]
    with pytest.raises(DomainTooLarge, match="The marginals asked for"):
        Marginals(schema_of(*[8_000] * 10), many)


def test_sets_that_make_no_sense():
    table = coded(schema_of(2, 3), 5)
    with pytest.raises(UnknownAttribute, match="There is no attribute 'b'"):
        table.marginals([("b",)])
    with pytest.raises(MechanismError, match="twice"):
        table.marginals([("a0", "a0")])
    with pytest.raises(MechanismError, match="list of names"):
        table.marginals(["a0"])


def test_a_kernel_is_picklable_and_its_parts_add_up():
    table = coded(schema_of(2, 3, 4), 100, batch_rows=30)
    kernel = pickle.loads(pickle.dumps(Marginals(table.schema, [("a2", "a0"), ("a1",)])))
    parts = sum(kernel(batch) for batch in table._batches(kernel.attributes))
    np.testing.assert_array_equal(parts, table.fold(kernel))
    np.testing.assert_array_equal(kernel.split(parts)[0], by_hand(table, ("a2", "a0")))


def test_kernels_that_break_the_rules():
    table = coded(schema_of(2), 10, batch_rows=3)
    with pytest.raises(MechanismError, match="int64"):
        table.fold(lambda batch: np.ones(3))
    with pytest.raises(MechanismError, match="one shape"):
        table.fold(lambda batch: np.ones(batch.num_rows, dtype=np.int64))


def test_fold_leaves_the_kernels_array_alone():
    ones = np.ones(2, dtype=np.int64)
    np.testing.assert_array_equal(coded(schema_of(2), 10, batch_rows=5).fold(lambda batch: ones), [2, 2])
    np.testing.assert_array_equal(ones, [1, 1])


def test_coded_tables_check_their_codes():
    schema = schema_of(2, 3)
    for codes, says in [
        ({"a0": [0]}, "no codes for 'a1'"),
        ({"a0": [0], "a1": [3]}, "outside"),
        ({"a0": [-1], "a1": [0]}, "outside"),
        ({"a0": [0, 1], "a1": [0]}, "different lengths"),
        ({"a0": [0.5], "a1": [0]}, "integers"),
        ({"a0": [], "a1": []}, "integers"),
    ]:
        with pytest.raises(DataError, match=says):
            CodedTable(schema, codes)
