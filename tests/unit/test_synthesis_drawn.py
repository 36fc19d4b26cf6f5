"""Rows as they are handed out: derived columns follow from their sources, numbers lie where the schema says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp import CDP, NoiseSource, Schema, Synthesis
from nabladp.errors import DataError
from nabladp.mechanisms.synthesis import SyntheticModel
from nabladp.mechanisms.synthesis import derived_columns as module
from nabladp.schema import Attribute
from nabladp.tables import CodedTable, Encoder, open_table

ROWS = 3000
SCHEMA = Schema(
    (
        Attribute("age", "integer", low=20, high=29),
        Attribute("band", "ordered", values=("young", "old"), derived_from=("age",)),
        Attribute("sick", "boolean"),
        Attribute("income", "real", edges=(0, 10, 20, 50), null="category", decode="uniform"),
    )
)


def table() -> CodedTable:
    draws = np.random.default_rng(1)
    age = draws.integers(0, 10, ROWS)
    sick = (draws.random(ROWS) < 0.1 + 0.07 * age).astype(int)
    return CodedTable(SCHEMA, {"age": age, "band": age // 5, "sick": sick, "income": draws.integers(0, 4, ROWS)})


def fitted(**more: Any) -> SyntheticModel:
    return Synthesis(CDP(0.3), strategy="all", **more).run(table(), NoiseSource.seeded(2))


def contradictions(rows: pa.Table) -> int:
    return sum(
        (age >= 25) != (band == "old")
        for age, band in zip(rows["age"].to_pylist(), rows["band"].to_pylist(), strict=True)
    )


# ---- derived columns -----------------------------------------------------------------------------------------------


def test_drawn_rows_do_not_contradict_a_derived_column() -> None:
    output = fitted()
    plain = output.model.draw(ROWS, NoiseSource.seeded(2))
    assert (plain["band"] != plain["age"] // 5).sum() > 150  # which the model by itself would draw
    again = SyntheticModel.from_json(output.to_json(), SCHEMA)
    for rows in (output.synthetic, output.sample(ROWS), again.sample(ROWS)):
        assert contradictions(rows) == 0


def test_whatever_the_noise_a_drawn_derived_column_is_a_function() -> None:
    output = Synthesis(CDP(0.02), strategy="all").run(table(), NoiseSource.seeded(3))
    codes = output.codes
    assert codes is not None and contradictions(output.synthetic) > 0  # so much noise misleads
    assert len(np.unique(10 * codes["band"].astype(int) + codes["age"])) == len(np.unique(codes["age"]))


def test_other_columns_are_drawn_as_before() -> None:
    output = fitted()
    plain = output.model.draw(ROWS, NoiseSource.seeded(5))
    drawn = replace(output, rows=ROWS).sampled(NoiseSource.seeded(5)).codes
    assert drawn is not None and all(np.array_equal(drawn[name], plain[name]) for name in ("age", "sick", "income"))
    assert drawn["band"].dtype == plain["band"].dtype


@pytest.mark.parametrize(
    "workload", [(("age", "sick"), ("band", "income")), (("band", "sick"),)], ids=["apart", "alone"]
)
def test_what_was_not_measured_with_its_sources_stays_as_drawn(workload: Any) -> None:
    output = fitted(workload=workload)
    drawn = replace(output, rows=ROWS).sampled(NoiseSource.seeded(5)).codes
    plain = output.model.draw(ROWS, NoiseSource.seeded(5))
    assert drawn is not None and all(np.array_equal(drawn[name], plain[name]) for name in plain)


def test_what_is_too_large_with_its_sources_stays_as_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CELLS", 19)
    assert contradictions(fitted().synthetic) > 150


def test_declared_zeros_come_before_the_function() -> None:
    """Nobody old is sick, it says here, and nobody of 25 is old: where the function would say so, it gives way."""
    output = fitted(zeros=({"band": "old", "sick": True}, {"age": 25, "band": "old"}))
    rows = output.sample(ROWS).to_pylist()
    assert not any(row["sick"] and row["band"] == "old" for row in rows)
    assert not any(row["age"] == 25 and row["band"] == "old" for row in rows)
    well = {(row["age"], row["band"]) for row in rows if not row["sick"]}
    assert len(well) == 10 and {band for _, band in well} == {"young", "old"}


def test_the_predicted_error_is_that_of_the_rows_as_drawn() -> None:
    output = fitted(workload=(("age", "band"), ("band", "sick"), ("age", "sick")), rows=ROWS)
    known = output._functions
    codes = replace(output, rows=200_000).sampled(NoiseSource.seeded(7)).codes
    assert codes is not None and set(known) == {"band"}
    for names, plain in zip(output.sets, output.model.marginals(output.sets), strict=True):
        counts = module.expected(output.model, known, names, plain)
        sizes = SCHEMA.sizes(names)
        drawn = np.bincount(np.ravel_multi_index([codes[name] for name in names], sizes), minlength=counts.size)
        assert np.abs(counts.ravel() / ROWS - drawn / 200_000).max() < 1e-3, names
    turned = ("band", "age")
    assert module.expected(output.model, known, turned, output.model.marginal(turned))[1, :5].max() == 0


# ---- numbers in their bins -----------------------------------------------------------------------------------------


def test_a_uniform_column_is_drawn_all_over_its_bins() -> None:
    output = fitted(rows=4000)
    drawn = output.synthetic
    income = drawn["income"].drop_null().to_numpy()
    assert len(np.unique(income)) > 0.9 * len(income)  # no two alike, but by chance
    middle = income[(income >= 20) & (income < 50)]
    assert abs(middle.mean() - 35) < 6 * 30 / np.sqrt(12 * len(middle))
    assert middle.min() < 22 and middle.max() > 48
    again = Encoder(SCHEMA).encode(drawn.combine_chunks().to_batches()[0])
    assert output.codes is not None
    for name, codes in output.codes.items():
        assert again.column(name).to_pylist() == codes.tolist(), name


def test_places_in_bins_are_drawn_once_and_repeat_only_when_seeded() -> None:
    output = fitted(rows=50)
    assert output.synthetic.equals(output.synthetic) and output.synthetic.equals(fitted(rows=50).synthetic)
    seeded = [output.sample(50, NoiseSource.seeded(8)) for _ in range(2)]
    assert seeded[0].equals(seeded[1]) and not output.sample(50)["income"].equals(seeded[0]["income"])


# ---- other numbers -------------------------------------------------------------------------------------------------


def test_other_numbers_come_out_as_nulls_and_can_be_read_so() -> None:
    """Nothing stands for "another number": the file is read with a schema in which null takes the place of other."""
    schema = Schema((Attribute("code", "categorical", values=(1, 2, 3), unknown="other"), Attribute("sick", "boolean")))
    draws = np.random.default_rng(0)
    people = CodedTable(schema, {"code": draws.integers(0, 4, 500), "sick": draws.integers(0, 2, 500)})
    drawn = Synthesis(CDP(1)).run(people, NoiseSource.seeded(1)).synthetic
    assert drawn["code"].type == pa.int64() and 90 < drawn["code"].null_count < 160
    with pytest.raises(DataError, match="'code'"):
        open_table(drawn, schema).marginals([("code",)])
    reader = Schema((replace(schema["code"], unknown="refuse", null="category"), schema["sick"]))
    assert open_table(drawn, reader).marginals([("code",)])[0][3] == drawn["code"].null_count
