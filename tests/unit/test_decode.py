"""Decoding: every code becomes the value it stands for, and encoding that gives the code again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp.errors import DataError, UnknownAttribute
from nabladp.schema import Attribute, Schema
from nabladp.tables import Encoder, alike, decode, open_table, recode

BOTH: dict[str, Any] = {"unknown": "other", "null": "category"}
EDGES = (0.0, 1.0, 10.0, 100.0)


def decoded(attribute: Attribute, codes: Any = None) -> pa.Array:
    every = np.arange(attribute.size) if codes is None else np.asarray(codes)
    return decode(Schema((attribute,)), {attribute.name: every}).column(0).combine_chunks()


@pytest.mark.parametrize(
    ("attribute", "kind", "values"),
    [
        (Attribute("x", "categorical", values=("b", "a"), **BOTH), pa.string(), ["b", "a", "other", None]),
        (
            Attribute("x", "categorical", values=("b", "a"), unknown="other", other="else"),
            pa.string(),
            ["b", "a", "else"],
        ),
        (Attribute("x", "ordered", values=("lo", "hi"), null="category"), pa.string(), ["lo", "hi", None]),
        (Attribute("x", "categorical", values=(3, 1.0)), pa.int64(), [3, 1]),
        (Attribute("x", "categorical", values=(3, 1.5), **BOTH), pa.float64(), [3.0, 1.5, None, None]),
        (Attribute("x", "ordered", values=(1, 2, 2**53 - 1)), pa.int64(), [1, 2, 2**53 - 1]),
        (Attribute("x", "integer", low=-1, high=1, **BOTH), pa.int64(), [-1, 0, 1, None, None]),
        (Attribute("x", "integer", low=5, high=6), pa.int64(), [5, 6]),
        (Attribute("x", "boolean", **BOTH), pa.bool_(), [False, True, None, None]),
        (Attribute("x", "real", edges=EDGES, **BOTH), pa.float64(), [0.5, 5.5, 55.0, None, None]),
        (Attribute("x", "real", edges=EDGES, decode="uniform"), pa.float64(), [0.5, 5.5, 55.0]),
        (Attribute("x", "real", edges=EDGES, decode="lower"), pa.float64(), [0.0, 1.0, 10.0]),
        (Attribute("x", "real", edges=EDGES, decode="upper"), pa.float64(), [1.0, 10.0, 100.0]),
        (Attribute("x", "real", edges=EDGES, decode=(0.1, 2.0, 20.0)), pa.float64(), [0.1, 2.0, 20.0]),
    ],
    ids=lambda given: f"{given.kind}-{given.decode}" if isinstance(given, Attribute) else None,
)
def test_every_code_becomes_its_value(attribute: Attribute, kind: pa.DataType, values: list[Any]) -> None:
    column = decoded(attribute)
    assert column.type == kind and column.to_pylist() == values
    shuffled = np.array([attribute.size - 1, 0, 0], dtype=np.uint8)
    assert decoded(attribute, shuffled).to_pylist() == [values[-1], values[0], values[0]]


EVERY_KIND = Schema(
    (
        Attribute("text", "categorical", values=("b", "a", " 7 ", "true"), **BOTH),
        Attribute("number", "categorical", values=(3, 1.5), null="category", null_values=("?", 9)),
        Attribute("whole", "categorical", values=(30, 10, 20)),
        Attribute("grade", "ordered", values=("low", "high"), **BOTH),
        Attribute("level", "ordered", values=(1, 2, 4), null="category"),
        Attribute("age", "integer", low=-3, high=99, null="category", null_values=(999,)),
        Attribute("clamped", "integer", low=0, high=3, unknown="clamp"),
        Attribute("ill", "boolean", null="category"),
        Attribute("sure", "boolean"),
        Attribute("middle", "real", edges=EDGES, null="category"),
        Attribute("anywhere", "real", edges=EDGES, decode="uniform"),
        Attribute("least", "real", edges=EDGES, decode="lower"),
        Attribute("listed", "real", edges=EDGES, decode=(0.9, 1.0, 100.0)),
        Attribute("age_band", "ordered", values=("young", "old"), derived_from=("age",)),
    )
)


def every_code() -> dict[str, np.ndarray]:
    rows = max(attribute.size for attribute in EVERY_KIND)
    return {attribute.name: np.arange(rows) % attribute.size for attribute in EVERY_KIND}


def test_encoding_the_decoded_table_gives_the_same_codes() -> None:
    codes = every_code()
    table = decode(EVERY_KIND, codes)
    assert tuple(table.column_names) == EVERY_KIND.names
    again = Encoder(EVERY_KIND).encode(table.combine_chunks().to_batches()[0])
    for name, column in codes.items():
        assert again.column(name).to_pylist() == column.tolist(), name
    counted = open_table(table, EVERY_KIND).marginals([[name] for name in EVERY_KIND.names])
    for name, counts in zip(EVERY_KIND.names, counted, strict=True):
        assert counts.tolist() == np.bincount(codes[name], minlength=EVERY_KIND[name].size).tolist(), name


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_decoded_table_survives_a_file(tmp_path: Any, form: str) -> None:
    from pyarrow import csv, parquet

    codes, path = every_code(), tmp_path / f"people.{form}"
    table = decode(EVERY_KIND, codes)
    csv.write_csv(table, path) if form == "csv" else parquet.write_table(table, path)
    counted = open_table(path, EVERY_KIND).marginals([EVERY_KIND.names[:2], ("age",)])
    straight = open_table(table, EVERY_KIND).marginals([EVERY_KIND.names[:2], ("age",)])
    assert all(np.array_equal(one, other) for one, other in zip(counted, straight, strict=True))


def test_some_columns_in_the_order_of_the_schema() -> None:
    table = decode(EVERY_KIND, {"sure": np.array([1, 0]), "text": np.array([0, 5])})
    assert table.to_pydict() == {"text": ["b", None], "sure": [True, False]}


def test_a_wide_range_needs_no_list_of_its_values() -> None:
    wide = Attribute("id", "integer", low=-5, high=2**32 - 20, null="category")
    assert decoded(wide, np.array([0, 2**31, wide.size - 1], dtype=np.uint32)).to_pylist() == [-5, 2**31 - 5, None]


@pytest.mark.parametrize(
    "edges", [EDGES, (-5.0, -4.0, 1e-9, 1e9), (0.1, 0.1 + 2e-17, 0.2), (-1e308, 0.0, 1e308)], ids=str
)
@pytest.mark.parametrize("place", [0.0, 0.25, 1 - 2.0**-24])
def test_a_place_within_its_bin_is_of_that_bin_again(edges: tuple[float, ...], place: float) -> None:
    attribute = Attribute("x", "real", edges=edges, decode="uniform", **BOTH)
    schema, codes = Schema((attribute,)), np.arange(attribute.size)
    column = decode(schema, {"x": codes}, {"x": np.full(len(codes), place, np.float32)})["x"].combine_chunks()
    values, bins = column.to_pylist(), attribute.ordered_size
    assert values[bins:] == [None, None]
    for low, value, high in zip(edges, values, edges[1:], strict=False):
        assert low <= value < high and value == pytest.approx(low * (1 - place) + high * place, rel=1e-6)
    assert recode(attribute, column).tolist() == [*range(bins), bins, bins] == alike(attribute).tolist()


def test_the_way_back_from_every_kind() -> None:
    codes = every_code()
    table = decode(EVERY_KIND, codes)
    for name, column in codes.items():
        attribute = EVERY_KIND[name]
        assert recode(attribute, table[name].combine_chunks()).tolist() == alike(attribute)[column].tolist(), name
        assert alike(attribute).tolist() == list(range(attribute.size)), name  # none here has two that look the same
    upper = Attribute("x", "real", edges=EDGES, decode="upper", **BOTH)  # where encoding would give the next bin
    assert recode(upper, decoded(upper)).tolist() == [0, 1, 2, 3, 3] == alike(upper).tolist()
    same = Attribute("x", "real", edges=EDGES, decode=(1.0, 1.0, 20.0))
    assert recode(same, decoded(same)).tolist() == [0, 0, 2] == alike(same).tolist()
    whole = Attribute("x", "integer", low=-2, high=1, **BOTH)
    assert recode(whole, decoded(whole)).tolist() == [0, 1, 2, 3, 4, 4] == alike(whole).tolist()


def test_no_rows() -> None:
    for attribute in EVERY_KIND:
        if not attribute.derived_from:
            assert len(decoded(attribute, np.zeros(0, dtype=np.int64))) == 0


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        ({"sure": np.array([2])}, "'sure' is outside its domain"),
        ({"sure": np.array([-1])}, "'sure' is outside its domain"),
        ({"sure": np.array([0.0])}, "'sure' are not integers"),
        ({"sure": np.array([True])}, "'sure' are not integers"),
        ({"sure": np.array([[0]])}, "'sure' are not integers"),
        ({"sure": np.array([0]), "ill": np.array([0, 1])}, "different lengths"),
    ],
    ids=str,
)
def test_what_are_no_codes_is_refused(codes: dict[str, np.ndarray], says: str) -> None:
    with pytest.raises(DataError, match=says):
        decode(EVERY_KIND, codes)
    with pytest.raises(UnknownAttribute, match="'sure'"):
        decode(EVERY_KIND, {"suer": np.array([0])})
