"""Answers on a distribution over all records, and scores of all records, by one transform."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp.schema import Attribute, Schema
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals, Parities, Workload
from nabladp.workloads.cube import Cube

SHAPES = [
    (2, 2, 2),
    (2,) * 9,
    (3, 1, 4, 2),
    (1,),
    (1, 1),
    (7,),
    (100,),
    (100, 2),
    (2, 100),
    (5, 80, 3, 1),
    (2, 64),
    (65, 1),
]


def schema_of(sizes: tuple[int, ...]) -> Schema:
    return Schema(tuple(Attribute(f"x{i}", "integer", low=0, high=size - 1) for i, size in enumerate(sizes)))


def workloads(schema: Schema) -> list[Workload]:
    found: list[Workload] = []
    names = schema.names
    for k in range(1, min(len(names), 3) + 1):
        found += [Marginals(k), Parities(k), Conjunctions(k, signed=True)]
        if sum(schema[name].size > 1 for name in names) >= k:
            found.append(Conjunctions(k))
    chosen = names[::-1][:2]
    values = np.linspace(0, 1, schema.cells(chosen))
    linear = LinearQueries([LinearQuery(chosen, values), LinearQuery(chosen, values > 0.4)])
    return [*found, linear, Marginals(1) + linear + Parities(len(names))]


def every_record(cube: Cube) -> dict[str, Any]:
    return cube.records(np.arange(cube.cells))


def masses(cells: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).dirichlet(np.full(cells, 0.3))


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_answers_and_scores_are_what_the_definition_says(sizes: tuple[int, ...]) -> None:
    schema = schema_of(sizes)
    for workload in workloads(schema):
        queries = workload.bind(schema)
        cube = Cube(queries)
        values = queries.at_records(every_record(cube))  # a row for each query, a column for each record
        mass = masses(cube.cells, 1)
        before = mass.copy()
        assert cube.answers(mass) == pytest.approx(values @ mass, abs=1e-12)
        assert np.array_equal(mass, before)
        coefficients = np.random.default_rng(2).normal(size=len(queries))
        before = coefficients.copy()
        assert cube.scores(coefficients) == pytest.approx(values.T @ coefficients, abs=1e-10)
        assert np.array_equal(coefficients, before)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple), st.integers(0, 1000), st.data())
def test_scores_are_the_transpose_of_answers(sizes: tuple[int, ...], seed: int, data: st.DataObject) -> None:
    schema = schema_of(sizes)
    cube = Cube(data.draw(st.sampled_from(workloads(schema))).bind(schema))
    draws = np.random.default_rng(seed)
    mass, coefficients = draws.normal(size=cube.cells), draws.normal(size=len(cube.queries))
    assert cube.answers(mass) @ coefficients == pytest.approx(mass @ cube.scores(coefficients), abs=1e-9)


def test_one_record_answers_like_itself() -> None:
    schema = schema_of((3, 2, 4))
    queries = (Marginals(2) + Conjunctions(3) + Parities(1)).bind(schema)
    cube = Cube(queries)
    for cell in range(cube.cells):
        alone = np.zeros(cube.cells)
        alone[cell] = 1
        person = {name: int(code[0]) for name, code in cube.records(np.array([cell])).items()}
        assert cube.answers(alone) == pytest.approx(queries.on_rows({n: [c] for n, c in person.items()}), abs=1e-12)


def test_records_run_with_the_last_column_fastest() -> None:
    schema = schema_of((2, 3, 2))
    cube = Cube(Marginals(sets=(("x2", "x0"), ("x1",))).bind(schema))  # the order of the schema, not of the sets
    assert cube.names == ("x0", "x1", "x2") and cube.sizes == (2, 3, 2) and cube.cells == 12
    found = every_record(cube)
    listed = list(zip(*(found[name].tolist() for name in cube.names), strict=True))
    assert listed == list(itertools.product(range(2), range(3), range(2)))
    assert {column.dtype for column in found.values()} == {np.dtype(np.int64)}


def test_only_the_columns_asked_about_are_there() -> None:
    schema = schema_of((2, 3, 5))
    cube = Cube(Parities(2, over=("x2", "x0")).bind(schema))
    assert cube.names == ("x0", "x2") and cube.cells == 10
    assert len(cube.uniform()) == 10 and cube.uniform().sum() == pytest.approx(1)


def test_the_uniform_distribution_answers_by_counting() -> None:
    schema = schema_of((2, 3, 4))
    for k in (1, 2, 3):
        queries = Marginals(k).bind(schema)
        expected = [1 / schema.cells(queries.attributes(q)) for q in range(len(queries))]
        cube = Cube(queries)
        assert cube.answers(cube.uniform()) == pytest.approx(expected, abs=1e-12)


def test_slots_are_shared_between_marginals() -> None:
    """All k-way marginals of bits need only the slots of at most k attributes."""
    schema = schema_of((2,) * 8)
    for k in (1, 2, 3):
        cube = Cube(Marginals(k).bind(schema))
        assert len(cube.slots) == sum(math.comb(8, i) for i in range(k + 1))


def test_columns_that_derive_from_others_are_columns_like_any() -> None:
    schema = Schema((Attribute("a", "integer", low=0, high=2), Attribute("b", "boolean", derived_from=("a",))))
    queries = Marginals(2, over=("b", "a")).bind(schema)
    cube = Cube(queries)
    rows = {"a": np.array([0, 1, 2, 2]), "b": np.array([0, 0, 1, 1])}
    mass = np.bincount(rows["a"] * 2 + rows["b"], minlength=6) / 4
    assert cube.answers(mass) == pytest.approx(queries.on_rows(rows), abs=1e-12)
