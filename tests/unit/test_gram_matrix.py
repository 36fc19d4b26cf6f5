"""GramMatrix: columns and their encodings, exact counting, layers of noise, and what is made of the matrix."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp.errors import BudgetError, DataError, DomainTooLarge, MechanismError, NablaDPError, UnknownAttribute
from nabladp.mechanisms.gram_matrix import GramMatrix, NoisyGram, SignedColumns
from nabladp.mechanisms.gram_matrix.calibration import Layer, Star
from nabladp.mechanisms.gram_matrix.signed_columns import Disagreements
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Pure, Rho
from nabladp.privacy.values import limit_units
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, open_table

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("n", "s", "w")),
        Attribute("age", "integer", low=0, high=29),
        Attribute("income", "real", edges=(0, 10, 20, 50), null="category", unknown="other"),
        Attribute("sick", "boolean"),
        Attribute("band", "ordered", values=("low", "high"), derived_from=("age",)),
        Attribute("one", "integer", low=3, high=3),
    )
)


def codes(rows: int, seed: int = 1, schema: Schema = SCHEMA) -> dict[str, Any]:
    draws = NoiseSource.seeded(seed)
    return {a.name: draws.uniform_integers(a.size, rows) for a in schema}


# Columns


def test_names_say_when_a_column_is_plus_one() -> None:
    columns = SignedColumns.of(SCHEMA, ("region", "sick", "band", "one", "income"), {"income": "thermometer"})
    assert columns.names == (
        "(intercept)", "region = n", "region = s", "region = w", "sick = true", "band = high",
        "income ≥ 10", "income ≥ 20", "income = other", "income = (null)",
    )  # fmt: skip
    assert columns.column_ranges["one"] == range(6, 6) and columns.attributes == ("region", "sick", "band", "income")
    assert columns.attribute_of[:2] == (None, "region") and columns.find(["sick", "income ≥ 20"]) == [4, 7]


def test_ordered_attributes_with_many_values_become_ranges() -> None:
    columns = SignedColumns.of(SCHEMA, ("age",))
    assert columns.width == 17 and columns.to_json() == {"age": 16} and columns.names[1] == "age = 0 to 1"
    three = SignedColumns.of(SCHEMA, ("age",), {"age": 3})
    assert three.names[1:] == ("age = 0 to 9", "age = 10 to 19", "age = 20 to 29")
    assert SignedColumns.of(SCHEMA, ("age",), {"age": 2}).names[1:] == ("age = 15 to 29",)
    assert SignedColumns.of(SCHEMA, ("age",), {"age": "onehot"}).width == 31
    assert SignedColumns.of(SCHEMA, ("age",), {"age": "bits"}).names[-1] == "age bit 4"


KINDS = [
    Attribute("x", "ordered", values=tuple(range(size)), null=null, unknown=unknown)
    for size in (1, 2, 3, 5, 8)
    for null in ("refuse", "category")
    for unknown in ("refuse", "other")
]


@pytest.mark.parametrize("encoding", ["onehot", "bits", "thermometer", 2, 3])
@pytest.mark.parametrize("attribute", KINDS, ids=lambda a: f"{a.ordered_size}-{a.null}-{a.unknown}")
def test_columns_and_flips_against_brute_force(attribute: Attribute, encoding: Any) -> None:
    schema = Schema((attribute, Attribute("y", "boolean")))
    columns = SignedColumns.of(schema, None, {"x": encoding})
    rows = columns.matrix({"x": np.arange(attribute.size), "y": np.zeros(attribute.size, dtype=int)})
    assert set(np.unique(rows)) <= {-1, 1} and (rows[:, 0] == 1).all() and rows.shape[1] == columns.width
    pairs = itertools.combinations_with_replacement(rows, 2)
    assert columns.blocks[0].flips == max(int((one != other).sum()) for one, other in pairs)
    if not isinstance(encoding, int):  # nothing is lost
        assert len({tuple(row) for row in rows}) == attribute.size
    if attribute.size > 2 and encoding == "onehot":
        assert columns.blocks[0].flips == 2 and (rows[:, 1:-1].sum(axis=1) == 2 - attribute.size).all()


def test_wide_codes_count_every_column_as_flipping() -> None:
    wide = Schema((Attribute("x", "integer", low=0, high=9999),))
    assert SignedColumns.of(wide, None, {"x": "bits"}).blocks[0].flips == 14
    assert SignedColumns.of(wide).blocks[0].flips == 2  # ranges


def test_columns_survive_pickle_and_json() -> None:
    columns = SignedColumns.of(SCHEMA, ("age", "income", "sick"), {"age": "thermometer", "income": "bits"})
    given = codes(50)
    for again in (
        pickle.loads(pickle.dumps(columns)),
        SignedColumns.from_json(json.loads(json.dumps(columns.to_json())), SCHEMA),
    ):
        assert again.names == columns.names
        np.testing.assert_array_equal(again.matrix(given), columns.matrix(given))


def test_some_columns_need_only_their_own_codes() -> None:
    columns = SignedColumns.of(SCHEMA, ("region", "age", "sick"))
    given = codes(20)
    places = [0, *columns.find(["sick", "region = w"])]
    few = columns.matrix({"sick": given["sick"], "region": given["region"]}, places)
    np.testing.assert_array_equal(few, columns.matrix(given)[:, places])
    with pytest.raises(DataError, match="no codes for 'region'"):
        columns.matrix({"sick": given["sick"]}, places)


BAD: list[tuple[dict[str, Any], type[NablaDPError]]] = [
    ({"over": ("regoin",)}, UnknownAttribute),
    ({"over": ("region", "region")}, MechanismError),
    ({"over": "region"}, MechanismError),
    ({"over": ()}, MechanismError),
    ({"over": ("one",)}, MechanismError),
    ({"encode": {"region": "thermometer"}}, MechanismError),
    ({"encode": {"region": 2}}, MechanismError),
    ({"encode": {"age": "sideways"}}, MechanismError),
    ({"encode": {"age": 1}}, MechanismError),
    ({"encode": {"age": True}}, MechanismError),
    ({"encode": {"ages": 2}}, UnknownAttribute),
    ({"encode": {"band": "bits"}}, MechanismError),
    ({"encode": "onehot"}, MechanismError),
    ({"label": "region"}, MechanismError),
    ({"label": "one"}, MechanismError),
    ({"label": "regoin"}, UnknownAttribute),
    ({"budgets": {"regoin": CDP(1)}}, UnknownAttribute),
    ({"budgets": {"age": Pure(1)}}, BudgetError),
    ({"budget": Pure(1)}, BudgetError),
    ({"budget": Rho(1e-14)}, BudgetError),
]


@pytest.mark.parametrize(("options", "error"), BAD, ids=lambda value: str(value)[:50])
def test_bad_parameters_are_refused_before_data(options: dict[str, Any], error: type[NablaDPError]) -> None:
    with pytest.raises(error) as caught:
        GramMatrix(**{"budget": CDP(1), **options}).guarantee(SCHEMA, 10)
    assert caught.value.fix


def test_too_many_columns_are_refused() -> None:
    many = Schema((Attribute("x", "categorical", values=tuple(range(3000))),))
    with pytest.raises(DomainTooLarge, match="3,001 columns"):
        GramMatrix(CDP(1)).guarantee(many, 10)
    with pytest.raises(DomainTooLarge):
        GramMatrix(CDP(1)).guarantee(Schema((Attribute("x", "integer", low=0, high=2_000_000),)), 10)
    twins = Schema((Attribute("a", "categorical", values=("b = c", "d")), Attribute("a = d", "boolean")))
    assert SignedColumns.of(twins).width == 3
    alike = Schema((Attribute("a", "categorical", values=("z", "b = true")), Attribute("a = b", "boolean")))
    with pytest.raises(MechanismError, match="same name"):
        SignedColumns.of(alike)


# Counting


@pytest.mark.parametrize("rows", [1, 7, 64, 65, 1000])
@pytest.mark.parametrize("batch", [64, 100, 1 << 16])
def test_disagreements_are_exact(rows: int, batch: int) -> None:
    columns = SignedColumns.of(SCHEMA, ("region", "age", "income", "sick"), {"income": "thermometer", "age": "bits"})
    given = codes(rows)
    kernel = pickle.loads(pickle.dumps(Disagreements(columns)))
    found = CodedTable(SCHEMA, given, batch_rows=batch).fold(kernel)
    signs = columns.matrix(given).astype(np.int64)
    np.testing.assert_array_equal(rows - 2 * found, (signs.T @ signs)[np.triu_indices(columns.width, 1)])


def test_wide_tables_are_counted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabladp.mechanisms.gram_matrix.signed_columns._CACHED_WORDS", 1)
    test_disagreements_are_exact(5000, 1 << 16)


# Noise


def scale_between(mechanism: GramMatrix, one: str, other: str, schema: Schema = SCHEMA) -> float:
    output = mechanism.run(CodedTable(schema, codes(3, schema=schema)), NoiseSource.seeded(1))
    i, j = output.columns.find(one)[0], output.columns.find(other)[0]
    return float(output.scales[i, j])


def test_one_scale_for_columns_that_are_alike() -> None:
    bits = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(9)))
    found = GramMatrix(Rho(0.5)).calibration(bits)
    assert found.scales.tolist() == pytest.approx([3.0] * 45) and len(found.parts) == 1  # √(P − 1) for P = 10
    assert GramMatrix(Rho(0.5)).guarantee(bits, 0).rho(bits.names) == pytest.approx(25 / 18)  # 5·5 of 9


def test_whoever_can_pay_more_gets_less_noise() -> None:
    mechanism = GramMatrix(Rho(0.1), over=("region", "income", "sick"), budgets={"region": Rho(0.01)})
    assert scale_between(mechanism, "region = n", "sick") > 2 * scale_between(mechanism, "income", "sick")
    assert scale_between(mechanism, "income", "income = other") > scale_between(mechanism, "(intercept)", "sick")


def test_a_thermometer_spoils_only_its_own_products() -> None:
    bits = Schema((Attribute("t", "integer", low=0, high=20), *(Attribute(f"b{i}", "boolean") for i in range(20))))
    steep = GramMatrix(Rho(0.1), encode={"t": "thermometer"})
    assert scale_between(steep, "b0", "b1", bits) < 1.2 * scale_between(
        GramMatrix(Rho(0.1), over=bits.names[1:]), "b0", "b1", bits
    )
    assert scale_between(steep, "b0", "t ≥ 3", bits) > 3 * scale_between(steep, "b0", "b1", bits)


def test_a_label_with_a_larger_budget_gets_products_of_its_own() -> None:
    bits = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(101)))
    plain, rich = Rho(0.1), {"b0": Rho(1000)}
    alike = GramMatrix(plain, label="b0")
    assert not any(isinstance(part, Star) for part in alike.calibration(bits).parts)
    own = GramMatrix(plain, label="b0", budgets=rich)
    star, *layers = own.calibration(bits).parts
    assert isinstance(star, Star) and all(isinstance(layer, Layer) for layer in layers)
    before, after = (
        [scale_between(m, "b0", "b1", bits), scale_between(m, "b2", "b1", bits)]
        for m in (GramMatrix(plain, budgets=rich), own)
    )
    assert after[0] < before[0] / 2.5 and before[1] < after[1] < 1.1 * before[1]
    public = Schema((Attribute("b0", "boolean", public=True), *bits.attributes[1:]))
    assert scale_between(GramMatrix(plain, label="b0"), "b0", "b1", public) == pytest.approx(after[0])


def test_many_budgets_make_few_layers() -> None:
    bits = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(60)))
    mechanism = GramMatrix(Rho(0.1), budgets={f"b{i}": Rho(0.1 + i / 100) for i in range(60)})
    assert len(mechanism.calibration(bits).parts) == 16
    for i in range(60):
        units = mechanism.guarantee(bits, 0).rho_units(f"b{i}")
        assert units is not None and units <= limit_units(Rho(0.1 + i / 100))


def test_all_public_is_exact() -> None:
    public = Schema((Attribute("a", "boolean", public=True), Attribute("b", "boolean", public=True)))
    given = codes(30, schema=public)
    output = GramMatrix(CDP(1)).run(CodedTable(public, given), NoiseSource())
    signs = output.columns.matrix(given).astype(np.int64)
    np.testing.assert_array_equal(output.matrix, signs.T @ signs)
    assert output.noise_norm == 0 and GramMatrix(CDP(1)).expected_error(public, 30).person_scale is None
    assert output.to_arrow(public)["low"].to_pylist() == output.entries.tolist()


def test_expected_error_is_that_of_the_release() -> None:
    mechanism = GramMatrix(CDP(0.5), over=("region", "age", "sick"))
    told = mechanism.expected_error(SCHEMA, 1000)
    output = mechanism.run(CodedTable(SCHEMA, codes(1000)), NoiseSource.seeded(3))
    assert told.noise_norm == pytest.approx(output.noise_norm) and told.cells == len(output.entries)
    assert told.largest_scale == output.scales.max() and told.share == pytest.approx(told.noise_norm / 1000)
    # Five columns flip at once: 5·(21 − 5) pairs.
    assert told.columns == 21 and told.person_scale == pytest.approx(2 * math.sqrt(80 / 0.25))
    body = json.loads(json.dumps(told.to_json()))
    assert body["summary"]["columns of ±1, with the intercept"] == 21
    assert mechanism.expected_error(SCHEMA, 0).share is None


# What is made of it

LIVELY = Schema(
    (
        Attribute("x", "boolean"),
        Attribute("z", "boolean"),
        Attribute("r", "categorical", values=("p", "q", "s")),
        Attribute("y", "boolean"),
    )
)


def release(budget: float = 1e9, rows: int = 4000) -> tuple[dict[str, Any], NoisyGram]:
    given = codes(rows, schema=LIVELY)
    given["y"] = ((given["x"] + (given["r"] == 1) + NoiseSource.seeded(4).uniform_integers(2, rows)) > 1).astype(int)
    return given, GramMatrix(Rho(budget)).run(CodedTable(LIVELY, given), NoiseSource.seeded(2))


def test_without_noise_it_is_the_gram_matrix() -> None:
    given, gram = release()
    signs = gram.columns.matrix(given).astype(np.int64)
    np.testing.assert_array_equal(gram.matrix, signs.T @ signs)
    assert gram["x", "y"] == gram["y = true", "x = true"] == int(signs[:, 1] @ signs[:, -1])
    assert gram["r = q", "r = q"] == gram.n == 4000
    np.testing.assert_allclose(gram.correlation(), np.corrcoef(signs[:, 1:].T), atol=1e-9)
    for bad in ("x", ("x", "r"), ("x", "w")):
        with pytest.raises(NablaDPError):
            gram[bad]  # type: ignore[index]


def test_without_noise_it_is_linear_regression() -> None:
    given, gram = release()
    signs = gram.columns.matrix(given).astype(np.float64)
    fitted = gram.regress("y", ["x", "z", "r = q"], ridge=0)
    known, *_ = np.linalg.lstsq(signs[:, [0, 1, 2, 4]], signs[:, -1], rcond=None)
    np.testing.assert_allclose(fitted.coefficients, known, atol=1e-9)
    assert fitted.names == ("(intercept)", "x = true", "z = true", "r = q") and fitted.deviations.max() < 1e-6
    np.testing.assert_allclose(fitted.decision({k: given[k] for k in "xzr"}), signs[:, [0, 1, 2, 4]] @ known)
    body = json.loads(json.dumps(fitted.to_json()))
    assert body["target"] == "y = true" and body["coefficients"]["x = true"][0] == pytest.approx(known[1])


def test_ridge_is_that_of_the_noise_and_one_release_serves_every_target() -> None:
    _, gram = release(0.1)
    everything = gram.regress("y")
    assert everything.names == gram.names[:-1] and everything.ridge == pytest.approx(gram.noise_norm)
    assert gram.regress("r = q").names == ("(intercept)", "x = true", "z = true", "y = true")
    assert gram.regress("x", ["y"], ridge=5).ridge == 5
    narrow, wide = everything.interval(0.5), everything.interval(0.99)
    assert (wide[0] < narrow[0]).all() and (narrow[1] < wide[1]).all()


def test_bad_regressions_are_refused() -> None:
    _, gram = release(0.1)
    for target, features, ridge in (
        ("r", None, None),
        ("(intercept)", None, None),
        ("w", None, None),
        ("x", ["x"], None),
        ("x", ["w"], None),
        ("x", None, -1.0),
        ("x", None, math.nan),
    ):
        with pytest.raises(NablaDPError):
            gram.regress(target, features, ridge)
    with pytest.raises(MechanismError):
        gram.regress("x").interval(1.0)


def test_a_matrix_that_is_mostly_noise_still_gives_a_fit() -> None:
    for seed in range(20):
        table = CodedTable(LIVELY, codes(2, seed, LIVELY))
        gram = GramMatrix(Rho(0.001)).run(table, NoiseSource.seeded(seed))
        assert np.isfinite(gram.regress("y").coefficients).all()
        with pytest.raises(MechanismError, match="no inverse"):
            gram.regress("y", ridge=0)
        lost = gram.correlation()
        assert np.isnan(lost).any() and np.nanmax(np.abs(np.append(lost, 0))) <= 1


def test_output_round_trips() -> None:
    _, gram = release(0.1)
    again = NoisyGram.from_json(json.loads(json.dumps(gram.to_json())), LIVELY)
    np.testing.assert_array_equal(again.matrix, gram.matrix)
    np.testing.assert_array_equal(again.scales, gram.scales)
    assert again.names == gram.names
    table = gram.to_arrow(LIVELY)
    assert table.num_rows == 21 and table.column_names == ["first", "second", "value", "low", "high", "noise_scale"]
    low, high = gram.interval()
    assert table["low"].to_pylist() == low[np.triu_indices(7, 1)].tolist()
    assert (low <= gram.matrix).all() and (high >= gram.matrix).all() and low[0, 0] == gram.n
    listed = gram.extra_tables(LIVELY)["columns"].to_pylist()
    assert listed[3] == {"column": "r = p", "attribute": "r", "encoding": "onehot"}


def test_plan_form_round_trips() -> None:
    options = {
        "budget": {"cdp": 0.5},
        "over": ["age", "region"],
        "encode": {"age": 5},
        "label": "sick",
        "budgets": {"sick": {"rho": 2.0}},
    }
    mechanism = GramMatrix.from_plan(options)
    assert mechanism.to_json() == options and GramMatrix.from_plan(mechanism.to_json()).to_json() == options
    assert mechanism.reads(SCHEMA) == ("region", "age", "sick")
    with pytest.raises(NablaDPError, match="encodes"):
        GramMatrix.from_plan({"budget": {"cdp": 1}, "encodes": {}})


def test_the_former_name_of_on_still_works_and_warns() -> None:
    _, gram = release()
    with pytest.warns(DeprecationWarning, match="'features' is now called 'on'"):
        fitted = gram.regress("y", features=["x"])  # type: ignore[call-arg]
    assert fitted.names == gram.regress("y", on=["x"]).names
    with pytest.raises(TypeError, match="twice"):
        gram.regress("y", on=["x"], features=["x"])  # type: ignore[call-arg]


def test_what_is_made_of_a_release_shows_itself_in_words() -> None:
    schema = Schema(
        (
            Attribute("old", "boolean"),
            Attribute("level", "categorical", values=("x", "y", "z")),
            Attribute("income", "real", low=0, high=100),
        )
    )
    table = open_table(
        pa.table({"old": [True, False] * 500, "level": ["x"] * 1000, "income": [80.0, 20] * 500}), schema
    )
    gram = GramMatrix(CDP(5), encode={"income": "number"}).run(table, NoiseSource.seeded(1))
    first, second, *rest = repr(gram.regress("income", on=["old"])).splitlines()
    assert re.fullmatch(r"Regression of income: 1,000 rows, ridge [\d.]+", first)
    assert re.fullmatch(r"R² 0\.9\d+ \(0\.9\d+ to (1|0\.9\d+)\)", second)
    assert [line.split("  ")[0] for line in rest] == ["(intercept)", "old = true"]
    assert repr(gram.classify("level")) == "Classification of level (x, y, z) by 2 columns"
    assert re.fullmatch(r"PrincipalComponents\(\d of 5 stand out .*", repr(gram.principal_components()))
    bins = GramMatrix(CDP(5)).run(table, NoiseSource.seeded(1))
    with pytest.raises(MechanismError) as refused:
        bins.regress("income")
    assert "encode={'income': 'number'}" in refused.value.fix and "'income = [0, 10)'" in refused.value.fix
    with pytest.raises(MechanismError) as refused:
        bins.regress("level")
    assert "classify('level')" in refused.value.fix
