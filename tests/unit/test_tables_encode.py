"""Encoding: one meaning for a value, whatever type it comes in; rules applied as declared; no value in an error."""

from __future__ import annotations

import datetime
import decimal
import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nabladp.errors import DataError, UnknownAttribute
from nabladp.schema import Attribute, Schema
from nabladp.tables import Encoder


def encode(attribute: Attribute, column) -> list[int]:
    column = column if isinstance(column, pa.Array) else pa.array(column)
    batch = pa.RecordBatch.from_arrays([column], names=[attribute.name])
    return Encoder(Schema((attribute,))).encode(batch).column(0).to_pylist()


def refused(attribute: Attribute, column, says: str) -> None:
    with pytest.raises(DataError) as caught:
        encode(attribute, column)
    assert says in str(caught.value) and repr(attribute.name) in str(caught.value) and caught.value.fix
    assert "CANARY" not in str(caught.value) and "CANARY" not in str(caught.value.to_json())


AGE = Attribute("age", "integer", low=2, high=5)
AGE_OTHER = Attribute("age", "integer", low=2, high=5, unknown="other", null="category")
AGE_CLAMP = Attribute("age", "integer", low=2, high=5, unknown="clamp")
PAY = Attribute("pay", "real", edges=(0, 1, 10), unknown="other", null="category")
PAY_CLAMP = Attribute("pay", "real", edges=(0, 1, 10), unknown="clamp")
JOB = Attribute("job", "categorical", values=("cook", "3", "true"), unknown="other", null="category")
FLAG = Attribute("flag", "boolean", unknown="other", null="category")
SIZE = Attribute("size", "ordered", values=(1, 2.5, 7), unknown="other", null="category")

NUMBER_TYPES = [pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()]


@pytest.mark.parametrize("kind", NUMBER_TYPES, ids=str)
def test_numbers_of_any_type(kind):
    assert encode(AGE, pa.array([2, 3, 5], kind)) == [0, 1, 3]
    assert encode(AGE_OTHER, pa.array([2, 9, None], kind)) == [0, 4, 5]
    assert encode(AGE_CLAMP, pa.array([1, 2, 9], kind)) == [0, 0, 3]
    assert encode(PAY, pa.array([0, 1, 10, 11, None], kind)) == [0, 1, 1, 2, 3]
    assert encode(SIZE, pa.array([1, 2, 7, None], kind)) == [0, 3, 2, 4]
    assert encode(FLAG, pa.array([0, 1, 2, None], kind)) == [0, 1, 2, 3]
    assert encode(JOB, pa.array([3, 4, None], kind)) == [1, 3, 4]


def test_numbers_as_text():
    texts = [" 2", "3.0", "5e0", "+4", "x", "", None, "1_0", "３", "nan", "inf", "-inf", "2.5", "1e999"]
    assert encode(AGE_OTHER, texts) == [0, 1, 3, 2, 4, 5, 5, 4, 4, 5, 4, 4, 4, 4]
    assert encode(PAY, ["0", " .5 ", "1.", "10", "10.0001", "-1e-9", "", "zero"]) == [0, 0, 1, 1, 2, 2, 3, 2]
    assert encode(SIZE, ["1.0", "2.50", "7", "8", "", "seven"]) == [0, 1, 2, 3, 4, 3]


def test_infinities_and_nan():
    assert encode(AGE_CLAMP, [math.inf, -math.inf]) == [3, 0]
    assert encode(PAY_CLAMP, [math.inf, -math.inf, 3.0]) == [1, 0, 1]
    assert encode(PAY_CLAMP, ["inf", "-inf", "3"]) == [1, 0, 1]
    assert encode(PAY, [math.nan, math.inf]) == [3, 2]
    refused(AGE, [math.inf], "outside its declared domain")
    refused(AGE, [math.nan], "empty values")


def test_huge_integers_are_outside_and_do_not_wrap():
    assert encode(AGE_OTHER, pa.array([2**64 - 1, 2**63, 3], pa.uint64())) == [4, 4, 1]
    assert encode(AGE_CLAMP, pa.array([-(2**63), 2**63 - 1], pa.int64())) == [0, 3]
    wide = Attribute("wide", "integer", low=2**53 - 3, high=2**53 - 1, unknown="other")
    assert encode(wide, [2**53 - 1, 2**53, 2**53 + 1]) == [2, 3, 3]
    assert encode(wide, [str(2**53 - 1), str(2**53), str(2**53 + 1)]) == [2, 3, 3]


def test_booleans():
    texts = ["true", "FALSE", " Yes", "no", "T", "f", "1", "0", "1.0", "maybe", "", None]
    assert encode(FLAG, texts) == [1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 3]
    assert encode(FLAG, [True, False, None]) == [1, 0, 3]
    assert encode(JOB, [True, False]) == [2, 3]
    as_number = Attribute("x", "integer", low=0, high=1, unknown="other")
    assert encode(as_number, [True, False]) == [2, 2] == encode(as_number, ["true", "false"])  # no numbers, either way


def test_categories_are_exact():
    assert encode(JOB, ["cook", " cook", "Cook", "3", "3.0", "", None]) == [0, 3, 3, 1, 3, 4, 4]
    assert encode(JOB, [3.0, 3.5, math.nan, math.inf]) == [1, 3, 4, 3]


def test_decimals():
    values = [decimal.Decimal(text) for text in ("2.00", "5.00", "2.50")]
    assert encode(AGE_OTHER, values) == [0, 3, 4]
    tenths = Attribute("x", "real", edges=(0, 0.1, 0.3, 1))
    assert encode(tenths, [decimal.Decimal("0.1"), decimal.Decimal("0.3")]) == encode(tenths, ["0.1", "0.3"]) == [1, 2]
    assert encode(JOB, [decimal.Decimal("3.0")]) == [1]


def test_dates_and_times_are_iso_text():
    day = Attribute("day", "ordered", values=("2026-01-31", "2026-01-31T08:30:00", "2026-01-31T00:00:00Z"))
    assert encode(day, [datetime.date(2026, 1, 31)]) == [0]
    moments = [datetime.datetime(2026, 1, 31), datetime.datetime(2026, 1, 31, 8, 30)]
    for unit in ("s", "ms", "us", "ns"):
        assert encode(day, pa.array(moments, pa.timestamp(unit))) == [0, 1]
    assert encode(day, pa.array(moments[:1], pa.timestamp("us", "UTC"))) == [2]
    refused(AGE, [datetime.date(2026, 1, 31)], "outside")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_kinds_of_text(kind):
    assert encode(JOB, pa.array(["cook", None, "x"], kind)) == [0, 4, 3]
    assert encode(AGE, pa.array(["2", "3"], kind)) == [0, 1]
    assert encode(JOB, pa.array(["cook", None, "x", "cook"], kind).dictionary_encode()) == [0, 4, 3, 0]


def test_dictionaries_with_values_that_no_row_has():
    column = pa.DictionaryArray.from_arrays(pa.array([0, None, 0]), pa.array(["2", "CANARY-unused"]))
    assert encode(Attribute("age", "integer", low=2, high=5, null="category"), column) == [0, 4, 0]
    assert encode(AGE, column.slice(2)) == [0]


def test_types_that_mean_nothing_are_outside():
    assert encode(JOB, pa.array([[1], None])) == [3, 4]
    assert encode(JOB, pa.array([b"cook", None])) == [3, 4]
    assert encode(JOB, pa.nulls(2)) == [4, 4]
    assert encode(JOB, pa.RunEndEncodedArray.from_arrays([2, 3], ["cook", "3"])) == [0, 0, 1]


def test_refusals_name_column_rule_and_fix():
    refused(AGE, [2, 9], "outside its declared domain")
    refused(AGE, ["2", "CANARY-7"], "outside its declared domain")
    refused(AGE, [2, None], "empty values")
    refused(AGE, [9], 'unknown = "other" or "clamp"')
    refused(AGE, [2.5], "Not all are whole numbers")
    refused(AGE_CLAMP, ["2", "CANARY-7"], "that are not integers and cannot be clamped")
    refused(AGE_CLAMP, [2.5], "not integers")
    refused(PAY_CLAMP, ["CANARY-7"], "that are not numbers and cannot be clamped")
    refused(Attribute("job", "categorical", values=("a",)), ["CANARY-7"], 'unknown = "other"')
    refused(Attribute("flag", "boolean"), ["CANARY-7"], 'Declare it "categorical"')


@pytest.mark.parametrize(("size", "kind"), [(256, "uint8"), (257, "uint16"), (65536, "uint16"), (65537, "uint32")])
def test_codes_are_as_small_as_they_can_be(size, kind):
    wide = Schema((Attribute("x", "integer", low=1, high=size),))
    coded = Encoder(wide).encode(pa.RecordBatch.from_arrays([pa.array([1, size])], names=["x"]))
    assert str(coded.schema.field("x").type) == kind and coded.column(0).to_pylist() == [0, size - 1]


def test_an_encoder_travels_and_chooses_columns():
    schema = Schema((AGE, FLAG))
    encoder = pickle.loads(pickle.dumps(Encoder(schema, ["flag"])))
    batch = pa.RecordBatch.from_pydict({"flag": [True], "age": ["CANARY"]})
    assert encoder.encode(batch).to_pydict() == {"flag": [1]} and encoder.bytes_per_row() == 1
    with pytest.raises(UnknownAttribute, match="Did you mean 'flag'"):
        Encoder(schema, ["flagg"])


integers = st.integers(-8, 8)


@given(st.lists(st.none() | integers, min_size=1, max_size=30), st.sampled_from(["refuse", "other", "clamp"]), integers)
def test_text_and_typed_integers_agree(values, unknown, low):
    attribute = Attribute("x", "integer", low=low, high=low + 5, unknown=unknown, null="category")
    columns = [
        pa.array(values, pa.int16()),
        pa.array(values, pa.float64()),
        pa.array([None if v is None else str(v) for v in values], pa.string()),
        pa.array([None if v is None else f" {v}.0" for v in values], pa.string()),
        pa.array(values, pa.int32()).dictionary_encode(),
    ]
    by_hand = []
    for value in values:
        if value is None:
            by_hand.append(attribute.null_code)
        elif low <= value <= low + 5:
            by_hand.append(value - low)
        elif unknown == "refuse":
            for column in columns:
                refused(attribute, column, "outside")
            return
        else:
            by_hand.append(attribute.other_code if unknown == "other" else 0 if value < low else 5)
    for column in columns:
        assert encode(attribute, column) == by_hand


@given(st.lists(st.floats(allow_nan=False, width=64), min_size=1, max_size=30), st.data())
def test_bins_hold_what_they_say(values, data):
    edges = data.draw(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6, unique=True).map(sorted))
    attribute = Attribute("x", "real", edges=edges, unknown="other")
    values = values + edges
    for value, code in zip(values, encode(attribute, values), strict=True):
        inside = [i for i in range(len(edges) - 1) if edges[i] <= value < edges[i + 1]]
        if value == edges[-1]:
            inside = [len(edges) - 2]
        assert code == (inside[0] if inside else attribute.other_code)
    assert encode(attribute, [repr(value) for value in values]) == encode(attribute, values)


@given(st.lists(st.text(max_size=4), min_size=1, max_size=30))
def test_any_text_meets_any_kind(texts):
    for attribute in (AGE_OTHER, PAY, JOB, FLAG, SIZE):
        for text, code in zip(texts, encode(attribute, texts), strict=True):
            assert 0 <= code < attribute.size
            if attribute is JOB:
                listed = attribute.values.index(text) if text in attribute.values else attribute.other_code
                assert code == (attribute.null_code if text == "" else listed)


@given(st.lists(st.sampled_from(["1", "2.5", "x", "", " 7 ", "nan"]), min_size=1, max_size=20))
def test_a_code_does_not_depend_on_the_rest_of_the_batch(texts):
    assert encode(SIZE, texts) == [encode(SIZE, [text])[0] for text in texts]


def test_no_rows():
    assert encode(AGE, pa.array([], pa.int8())) == []
    assert encode(JOB, pa.array([], pa.string())) == []
    assert (
        np.dtype(np.uint8)
        == Encoder(Schema((AGE,)))
        .encode(pa.RecordBatch.from_arrays([pa.array([], pa.float64())], names=["age"]))
        .column(0)
        .to_numpy()
        .dtype
    )


@pytest.mark.parametrize(
    ("attribute", "values", "codes"),
    [
        (
            Attribute("x", "categorical", values=("a", "b"), null="category", null_values=("?", 9)),
            ["a", "?", "9", "", "b"],
            [0, 2, 2, 2, 1],
        ),
        (
            Attribute("x", "integer", low=0, high=5, null="category", null_values=("N", "999", 9)),
            ["0", "N", "999", "9.0", " 9", "5"],
            [0, 6, 6, 6, 6, 5],
        ),
        (
            Attribute("x", "integer", low=0, high=5, null="category", null_values=(999, 5)),
            [0, 999, 5, None, 4],
            [0, 6, 6, 6, 4],
        ),
        (
            Attribute("x", "real", edges=(0, 1, 2), null="category", null_values=(-1,)),
            [0.5, -1.0, float("nan")],
            [0, 2, 2],
        ),
        (Attribute("x", "boolean", null="category", null_values=("unknown",)), ["y", "N", "unknown"], [1, 0, 2]),
    ],
)
def test_values_that_mean_missing(attribute, values, codes):
    assert encode(attribute, values) == codes


@pytest.mark.parametrize(
    "options",
    [
        {"null_values": ("?",)},
        {"null": "category", "null_values": ("a",)},
        {"null": "category", "null_values": ("?", "?")},
        {"null": "category", "null_values": "?"},
        {"null": "category", "null_values": (True,)},
        {"null": "category", "null_values": (float("inf"),)},
    ],
    ids=str,
)
def test_values_that_mean_missing_are_checked(options):
    from nabladp.errors import SchemaError

    with pytest.raises(SchemaError):
        Attribute("x", "categorical", values=("a", "b"), **options)


def test_values_that_mean_missing_survive_files():
    schema = Schema((Attribute("x", "integer", low=0, high=5, null="category", null_values=("N", 999)),))
    assert (
        Schema.parse(schema.to_toml()) == schema
        and schema.fingerprint() != Schema((Attribute("x", "integer", low=0, high=5, null="category"),)).fingerprint()
    )
