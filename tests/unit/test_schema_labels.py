"""Labels, titles, units and descriptions: what people read, and no part of what a schema means."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nabladp.errors import MechanismError, SchemaError
from nabladp.mechanisms.heavy_hitters import HeavyHitters
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.output_tables import schema_axes
from nabladp.mechanisms.synthesis.workload import forbidden
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP
from nabladp.schema import Attribute, Schema
from nabladp.tables import check_table, decode, decode_labels, open_table

SEX = Attribute("sex", "categorical", values=(1, 2), labels={1: "Male", 2: "Female"}, title="Sex")
TEXT = """
[[attribute]]
name = "sex"
kind = "categorical"
values = [1, 2]
null = "category"
null_values = ["N"]
title = "Sex at birth"
labels = { 1 = "Male", 2 = "Female", N = "not asked" }

[[attribute]]
name = "age"
kind = "integer"
low = 0
high = 99
title = "Age"
unit = "years"
description = "Age at the last birthday."
labels = { 99 = "99 or more" }

[[attribute]]
name = "income"
kind = "real"
edges = [0, 10, 20]
unit = "k€"

[attribute.labels]
"[0, 10)" = "low"

[[attribute]]
name = "insured"
kind = "boolean"
labels = { true = "Yes", false = "No" }
"""
SCHEMA = Schema.parse(TEXT)


def test_labels_are_shown_and_values_stay() -> None:
    assert SEX.code_labels == ("Male", "Female") and SEX.texts == ("1", "2")
    assert SEX.label(1) == "Female" and SEX.text(1) == "2"
    assert SCHEMA["sex"].code_labels == ("Male", "Female", "not asked") and SCHEMA["sex"].texts[2] == "(null)"
    assert SCHEMA["age"].label(99) == "99 or more" and SCHEMA["age"].label(98) == "98"
    assert SCHEMA["income"].code_labels == ("low", "[10, 20]") and SCHEMA["insured"].code_labels == ("No", "Yes")
    wide = Attribute("x", "integer", low=0, high=2**31, labels={0: "none", 2**31: "most"})
    assert wide.label(2**31) == "most" and wide.code("most") == 2**31 and wide.code("none") == 0 and wide.code(7) == 7


def test_headings() -> None:
    assert SEX.heading == "Sex" and SCHEMA["age"].heading == "Age (years)" and SCHEMA["income"].heading == "income (k€)"
    assert SCHEMA["insured"].heading == "insured" and SCHEMA.title(["age", "income"]) == "Age + income"
    axes = schema_axes(SCHEMA, ("age", "insured"))
    assert [axis.name for axis in axes] == ["Age (years)", "insured"] and axes[1].source["axis"] == ["No", "Yes"]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *((value, 0) for value in (1, 1.0, "1", "Male")),
        *((value, 1) for value in (2, np.int64(2), np.float32(2), "Female")),
        *((value, 2) for value in (None, "(null)", "not asked")),
        *((value, None) for value in ("N", 3, "male", "1.0", True, object(), 10**400, float("nan"))),
    ],
)
def test_a_value_or_its_label_gives_the_code(value: object, code: int | None) -> None:
    assert SCHEMA["sex"].code(value) == code


def test_truth_values_are_no_numbers() -> None:
    assert SCHEMA["insured"].code(True) == SCHEMA["insured"].code("Yes") == SCHEMA["insured"].code("true") == 1
    assert SCHEMA["insured"].code(1) is None and SCHEMA["sex"].code(True) is None
    assert Attribute("x", "boolean").code(None) is None


def test_words_are_no_part_of_the_fingerprint_and_survive_files(tmp_path: Path) -> None:
    bare = Schema.parse("\n".join(line for line in TEXT.split("\n") if not line.startswith(("title", "unit", "desc"))))
    assert SCHEMA.fingerprint() == bare.fingerprint() and bare != SCHEMA
    words = ("title", "unit", "description", "labels")
    plain = [{key: value for key, value in a.to_json().items() if key not in words} for a in bare]
    assert Schema.from_json({"attribute": plain}).fingerprint() == SCHEMA.fingerprint()
    SCHEMA.save(tmp_path / "schema.toml")
    again = Schema.load(tmp_path / "schema.toml")
    assert again == SCHEMA == Schema.from_json(SCHEMA.to_json()) == pickle.loads(pickle.dumps(SCHEMA))
    assert again.to_toml() == SCHEMA.to_toml() and hash(SCHEMA["sex"]) == hash(again["sex"])
    assert 'labels = { 1 = "Male", 2 = "Female", "(null)" = "not asked" }' in SCHEMA.to_toml()


def test_many_labels_are_written_one_per_line() -> None:
    labels = {number: f'label {number} of “many”, with \\ and "quotes"' for number in range(40)}
    schema = Schema((Attribute("x", "categorical", values=tuple(range(40)), labels=labels, null="category"), SEX))
    assert "\n[attribute.labels]\n0 = " in schema.to_toml() and Schema.parse(schema.to_toml()) == schema


CODES = {"kind": "categorical", "values": [1, 2]}
WORDS = {"kind": "categorical", "values": ["a", "b"]}
REFUSED = [
    ({**CODES, "labels": ["Male"]}, "'labels' must be a table", "labels = { 1 ="),
    ({**CODES, "labels": {"3": "x"}}, "names '3', which is not one of its values", "as the schema declares"),
    ({**CODES, "labels": {None: "x"}}, "names None, which is not a value", "labels = { 1 ="),
    ({**CODES, "null": "category", "labels": {"N": "x"}}, "names 'N'", '"(null)" is the category'),
    ({**CODES, "labels": {"(null)": "x"}}, "not one of its values", "as the schema declares"),
    ({**CODES, "labels": {1: "x", "1": "y"}}, "names the value '1' twice", "once"),
    ({**CODES, "labels": {1: "x", "1.0": "y"}}, "names the value '1' twice", "once"),
    ({**CODES, "labels": {1: "x", 2: " x "}}, "'1' and '2' have the same label 'x'", "label of its own"),
    ({**CODES, "labels": {1: "2"}}, "the label '2' of '1' is the text of another value", "another label"),
    ({**WORDS, "labels": {"a": "b", "b": "a"}}, "the text of another value", "another label"),
    ({**CODES, "null": "category", "labels": {1: "(null)"}}, "the text of another value", "another label"),
    ({**CODES, "unknown": "other", "labels": {1: "other"}}, "the text of another value", "another label"),
    ({"kind": "integer", "low": 0, "high": 9, "labels": {3: "4"}}, "the text of another value", "another label"),
    ({**CODES, "labels": {1: ""}}, "the label of '1' is empty", "leave the value out"),
    ({**CODES, "labels": {1: 5}}, "the label of '1' must be text", "quotes"),
    ({**CODES, "labels": {1: "two\nlines"}}, "the label of '1' holds control characters", "line breaks"),
    ({**CODES, "labels": {1: "\x1b[31mred"}}, "control characters", "Remove"),
    ({**CODES, "labels": {1: "\u202eback"}}, "control characters", "Remove"),
    ({**CODES, "labels": {1: "\ud800"}}, "control characters", "Remove"),
    ({**CODES, "labels": {1: "x" * 301}}, "the label of '1' has 301 characters", "Shorten it to 300"),
    ({**CODES, "labels": {1: "FILL IN: label"}}, "still marked FILL IN", "Replace the mark"),
    ({"kind": "boolean", "labels": {1: "Yes"}}, "names 1", 'labels = { true = "Yes"'),
    ({"kind": "ordered", "values": [1, 2.5], "labels": {"2": {"5": "x"}}}, "label of '2' must be text", '"2.5" = '),
    ({**CODES, "title": 3}, "'title' must be text", "quotes"),
    ({**CODES, "title": "x\x00"}, "'title' holds control characters", "Remove"),
    ({**CODES, "title": "x" * 201}, "'title' has 201 characters", "Shorten it to 200"),
    ({**CODES, "unit": "x" * 61}, "'unit' has 61 characters", "Shorten it to 60"),
    ({**CODES, "description": "x" * 5001}, "'description' has 5,001 characters", "Shorten"),
    ({**CODES, "description": "bell\x07"}, "'description' holds control characters", "Remove"),
    ({**CODES, "lables": {1: "x"}}, "no key 'lables'", "Did you mean 'labels'"),
]


@pytest.mark.parametrize(("given", "says", "fix"), REFUSED, ids=[f"{i}" for i in range(len(REFUSED))])
def test_refused(given: dict[str, object], says: str, fix: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Attribute.from_json({"name": "x", **given})
    assert says in caught.value.message and "'x'" in caught.value.message and fix in caught.value.fix


def test_spaces_around_words_are_left_out_and_a_description_may_have_lines() -> None:
    found = Attribute("x", "boolean", title=" X ", description="one\n\ttwo ", labels={True: " Yes "})
    assert (found.title, found.description, found.label(1)) == ("X", "one\n\ttwo", "Yes")


def test_a_label_may_repeat_its_own_value() -> None:
    assert Attribute("x", "categorical", values=("a", "b"), labels={"a": "a", "b": "B"}).code_labels == ("a", "B")


def test_a_table_is_read_by_values_alone() -> None:
    """A table that holds labels is refused, as any other value outside the domain is."""
    schema = Schema((SEX,))
    assert open_table(pa.table({"sex": [1, 2, 2]}), schema).marginals([("sex",)])[0].tolist() == [1, 2]
    (finding,) = check_table(open_table(pa.table({"sex": ["Male", "Female"]}), schema))
    assert finding.column == "sex" and "outside its declared domain" in finding.rule and finding.rows == 2


def test_released_tables_show_labels() -> None:
    schema = Schema((SEX, Attribute("n", "integer", low=0, high=2, null="category", labels={2: "two or more"})))
    table = open_table(pa.table({"sex": [1, 1, 2, 1] * 50, "n": [0, 1, 2, None] * 50}), schema)
    output = NoisyMarginals(CDP(1.0), sets=(("sex", "n"),)).run(table, NoiseSource.seeded(1))
    values = output.to_arrow().to_pylist()
    assert [row["sex"] for row in values[:4]] == ["Male"] * 4
    assert [row["n"] for row in values[:4]] == ["0", "1", "two or more", "(null)"]
    heavy = HeavyHitters(CDP(20.0)).run(table, NoiseSource.seeded(1)).to_arrow(schema)
    assert set(heavy["sex"].to_pylist()) <= {"Male", "Female"} and {"two or more", "(null)"} & set(
        heavy["n"].to_pylist()
    )


def test_synthetic_rows_hold_values_and_labels_on_request() -> None:
    codes = {"sex": np.array([0, 1, 2]), "age": np.array([98, 99, 0])}
    assert decode(SCHEMA, codes).to_pydict() == {"sex": [1, 2, None], "age": [98, 99, 0]}
    assert decode_labels(SCHEMA, codes).to_pydict() == {
        "sex": ["Male", "Female", "not asked"],
        "age": ["98", "99 or more", "0"],
    }


def test_declared_zeros_accept_either() -> None:
    by_label = forbidden(SCHEMA, SCHEMA.names, [{"sex": "Male", "insured": "Yes"}])
    by_value = forbidden(SCHEMA, SCHEMA.names, [{"sex": 1, "insured": True}])
    assert np.array_equal(by_label[0].forbidden, by_value[0].forbidden)
    with pytest.raises(MechanismError, match="'sex' has no such value"):
        forbidden(SCHEMA, SCHEMA.names, [{"sex": "Mle", "insured": True}])


def test_titles_that_could_be_mistaken_keep_the_name() -> None:
    given = {"a": "Age", "b": "Age", "c": "", "d": "c", "e": "Sex"}
    schema = Schema(tuple(Attribute(name, "boolean", title=title) for name, title in given.items()))
    assert schema.titles == {"a": "Age (a)", "b": "Age (b)", "c": "c", "d": "c (d)", "e": "Sex"}
    assert schema.title(["a", "e"]) == "Age (a) + Sex"
