"""Columns of numbers in a Gram matrix: what is counted, and regressions in the units of the numbers."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp import CDP, Attribute, Budget, GramMatrix, Rho, Schema, Session
from nabladp.errors import BudgetError, MechanismError, NablaDPError
from nabladp.mechanisms.gram_matrix import NoisyGram, SignedColumns
from nabladp.mechanisms.gram_matrix.signed_columns import Products
from nabladp.noise import NoiseSource
from nabladp.tables import open_table

SCHEMA = Schema(
    (
        Attribute("sex", "boolean"),
        Attribute("age", "integer", low=18, high=90, null="category"),
        Attribute("pay", "real", low=0, high=200_000, null="category", unknown="clamp", unit="€"),
        Attribute("rooms", "integer", low=1, high=9),
    )
)
NUMBERS = {"age": "number", "pay": "number", "rooms": "number"}
ROWS = 4000


@pytest.fixture(scope="module")
def people() -> pa.Table:
    draws = NoiseSource.seeded(5)
    age = 18 + draws.uniform_integers(73, ROWS)
    sex = draws.uniform_integers(2, ROWS)
    spread = draws.uniform_integers(20_001, ROWS) - 10_000
    pay = 20_000.0 + 700 * age + 9_000 * sex + spread
    return pa.table({"sex": sex.astype(bool), "age": age, "pay": pay, "rooms": 1 + draws.uniform_integers(9, ROWS)})


def released(people: pa.Table, budget: Any, **options: Any) -> NoisyGram:
    given = {"encode": NUMBERS, **options}
    gram = GramMatrix(budget, **given).run(open_table(people, SCHEMA), NoiseSource.seeded(3))
    assert isinstance(gram, NoisyGram)
    return gram


def design(people: pa.Table) -> np.ndarray[Any, Any]:
    columns = [people[name].to_numpy().astype(float) for name in ("sex", "age", "rooms")]
    return np.column_stack([np.ones(ROWS), *columns])


def test_with_little_noise_it_is_least_squares_in_the_units_of_the_columns(people: pa.Table) -> None:
    fitted = released(people, Rho(1e9)).regress("pay", on=["sex", "age", "rooms"], ridge=1e-6)
    matrix, pay = design(people), people["pay"].to_numpy()
    expected, left, *_ = np.linalg.lstsq(matrix, pay, rcond=None)
    effects = fitted.effects()
    assert list(effects) == ["(intercept)", "sex = true", "age", "rooms"]
    np.testing.assert_allclose([effect[0] for effect in effects.values()], expected, rtol=2e-3, atol=3)
    assert fitted.r2()[0] == pytest.approx(1 - left[0] / ((pay - pay.mean()) ** 2).sum(), abs=1e-3)
    np.testing.assert_allclose(fitted.predict(people), matrix @ expected, atol=20)


def test_sums_are_exact_in_any_batches_and_a_missing_number_is_the_middle(people: pa.Table) -> None:
    columns = SignedColumns.of(SCHEMA, None, NUMBERS, numbers=True)
    kernel = pickle.loads(pickle.dumps(Products(columns)))
    holes = people.set_column(1, "age", pa.array([None, *people["age"].to_pylist()[1:]]))
    small = open_table(pa.Table.from_batches(holes.to_batches(max_chunksize=777)), SCHEMA).fold(kernel)
    np.testing.assert_array_equal(small, open_table(holes, SCHEMA).fold(kernel))
    age = 2 * people["age"].to_numpy() - 108
    age[0] = 0
    rooms = 2 * people["rooms"].to_numpy() - 10
    pairs = {
        (columns.names[i], columns.names[j]): k for k, (i, j) in enumerate(zip(*np.triu_indices(5, 1), strict=True))
    }
    assert columns.names == ("(intercept)", "sex = true", "age", "pay", "rooms")
    assert small[pairs["(intercept)", "age"]] == age.sum() and small[pairs["age", "rooms"]] == age @ rooms
    assert small[-3] == age @ age and small[-1] == rooms @ rooms
    assert small[pairs["sex = true", "age"]] == age @ np.where(people["sex"].to_numpy(), 1, -1)


def test_it_is_kept_with_its_numbers(people: pa.Table) -> None:
    gram = released(people, Rho(1))
    again = NoisyGram.from_json(json.loads(json.dumps(gram.to_json())), SCHEMA)
    np.testing.assert_array_equal(again.matrix, gram.matrix)
    np.testing.assert_array_equal(again.scales, gram.scales)
    table = gram.values_table(SCHEMA)
    assert table.num_rows == 10 + 3 and table["first"][-1].as_py() == table["second"][-1].as_py() == "rooms"
    described = {row["column"]: row for row in gram.extra_tables(SCHEMA)["columns"].to_pylist()}
    assert (described["pay"]["middle"], described["pay"]["half"]) == (100_000, 100_000)
    assert described["sex = true"]["half"] is None
    low, high = gram.interval()
    assert (low <= gram.matrix).all() and (high >= gram.matrix).all() and (np.diag(high)[2:] > np.diag(low)[2:]).all()
    assert abs(gram.correlation()).max() <= 1 and gram.correlation()[1, 2] > 0.5  # age with pay
    data = gram.to_json() | {"squares": [1]}
    with pytest.raises(NablaDPError):
        NoisyGram.from_json(data, SCHEMA)


def test_intervals_of_effects_and_of_r2_cover_what_the_table_itself_gives(people: pa.Table) -> None:
    """The same fit, with the same ridge, on the noisy and on the exact matrix."""
    mechanism = GramMatrix(Rho(0.05), encode=NUMBERS)
    table, exact = open_table(people, SCHEMA), released(people, Rho(1e9))
    inside = np.zeros(5)
    runs = 400
    for seed in range(runs):
        fitted = mechanism.run(table, NoiseSource.seeded(seed)).regress("pay")
        truth = exact.regress("pay", ridge=fitted.ridge)
        inside[0] += fitted.r2()[1] <= truth.r2()[0] <= fitted.r2()[2]
        pairs = zip(fitted.effects().values(), truth.effects().values(), strict=True)
        inside[1:] += [low <= middle <= high for (_, low, high), (middle, *_) in pairs]
    assert (inside / runs > 0.92).all(), inside / runs


def test_principal_components_are_those_of_the_covariance_where_the_noise_lets_them(people: pa.Table) -> None:
    gram = released(people, Rho(1e9))
    found = gram.principal_components()
    halves = np.array([(0.5, 0.5), (54, 36), (100_000, 100_000), (5, 4)])
    raw = np.column_stack([people[name].to_numpy().astype(float) for name in ("sex", "age", "pay", "rooms")])
    columns = (raw - halves[:, 0]) / halves[:, 1]
    values, vectors = np.linalg.eigh(np.cov(columns.T, bias=True))
    np.testing.assert_allclose(found.variances, values[::-1], atol=1e-3)
    assert found.resolved >= 3 and abs(found.directions[0] @ vectors[:, -1]) > 0.999
    assert found.transform(people).shape == (ROWS, found.resolved) and found.shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.transform(people, 1).var(), values[-1], rtol=1e-2)
    drowned = released(people, Rho(1e-5)).principal_components()
    assert drowned.resolved == 0 and drowned.transform(people).shape == (ROWS, 0)
    mechanism, table = GramMatrix(Rho(0.05), encode=NUMBERS), open_table(people, SCHEMA)
    for seed in range(30):  # no eigenvalue is farther off than stated
        noisy = mechanism.run(table, NoiseSource.seeded(seed)).principal_components()
        assert abs(noisy.variances - found.variances).max() <= noisy.error
    with pytest.raises(MechanismError, match="at least two"):
        gram.principal_components(on=["sex"])


def test_a_release_answers_in_python_and_in_its_report(people: pa.Table, tmp_path: Any) -> None:
    session = Session(people, SCHEMA, Budget(per_attribute=CDP(2)), ledger=tmp_path / "l.db", new_ledger=True)
    release = session.release(GramMatrix(CDP(1.5), encode=NUMBERS), name="gram", to=tmp_path / "out")
    views = release.output.views(release.context())
    (view,) = [view for view in views if view.title == "regression of pay"]
    assert {"(intercept)", "age", "rooms", "sex = true"} == {row[0] for row in view.rows}
    assert any(name == "variance explained (R²)" for name, _ in view.facts)
    (age,) = [row for row in view.rows if row[0] == "age"]
    assert 400 < age[1] < 1000 and age[2] <= age[1] <= age[3]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"encode": {"sex": "number"}}, MechanismError, "'sex' is boolean, not a number"),
        ({"encode": {"pay": "numbers"}}, MechanismError, "cannot be encoded"),
        ({"encode": NUMBERS, "budgets": {"pay": Rho(1e-16)}}, BudgetError, "too small"),
    ],
)
def test_what_is_no_number_is_refused_before_anything_is_read(options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        GramMatrix(Rho(1), **options).guarantee(SCHEMA, 10)
