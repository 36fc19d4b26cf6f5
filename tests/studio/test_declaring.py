"""A column's form: what is typed or pasted becomes the entries of a schema, and these become the same form again."""

from __future__ import annotations

from typing import Any

import pytest

from nabladp.errors import SchemaError
from nabladp.schema import Attribute
from nabladp.studio.declaring import changes, summary, to_facts, to_fields
from nabladp.studio.fields import Fields

DECLARED: list[dict[str, Any]] = [
    {"kind": "categorical", "values": ["a", "b"], "labels": {"a": "first"}},
    {"kind": "categorical", "values": ["007", "08"], "unknown": "other", "other": "elsewhere"},
    {"kind": "ordered", "values": [1, 2, 2.5], "null": "category", "null_values": ["N", 9]},
    {"kind": "integer", "low": -3, "high": 99, "labels": {"-3": "lost"}, "unknown": "clamp", "title": "Age"},
    {"kind": "real", "low": 0, "high": 5000, "bins": 10, "spikes": [0, 12.5], "decode": "uniform"},
    {"kind": "real", "edges": [-1.5, 0, 1000000], "unit": "€", "public": True},
    {"kind": "boolean", "labels": {"true": "yes", "false": "no"}, "note": "asked twice"},
    {"kind": "date", "low": "2020-01-01", "high": "2020-12-31", "levels": ["month", "year"]},
    {"kind": "categorical", "values": ["0101", "0102"], "levels": {"state": 2}},
    {"kind": "integer", "low": 0, "high": 9, "derived_from": ["age", "sex"], "formula": "floor(age / 10)"},
    {"kind": "categorical", "values": ["x", "y"], "formula": {"x": "age < 18", "y": "age >= 18"}},
    {"kind": "categorical", "values": ["x", "y"], "formula": {"x": ["ME", "VT"], "y": ["NY"]}},
]


@pytest.mark.parametrize("facts", DECLARED)
def test_a_declaration_becomes_its_form_and_itself_again(facts: dict[str, Any]) -> None:
    assert to_facts(to_fields(facts)) == facts
    assert changes({"name": "x", **facts}, to_fields(facts)) == {}


@pytest.mark.parametrize(
    ("pasted", "values", "labels"),
    [
        ("1\tMale\r\n2\tFemale\r\n", [1, 2], {"1": "Male", "2": "Female"}),  # from a spreadsheet
        ("north, south; east", ["north", "south", "east"], {}),
        ("1 = Own  house\n2 = Rent", [1, 2], {"1": "Own house", "2": "Rent"}),
        ("01\n02\n10", ["01", "02", "10"], {}),  # codes, not numbers
        ("1\n\n2\nother", ["1", "2", "other"], {}),
        ("a=b\nc", ["a=b", "c"], {}),
    ],
)
def test_values_are_pasted(pasted: str, values: list[Any], labels: dict[str, str]) -> None:
    facts = to_facts(Fields([("kind", "categorical"), ("values", pasted)]))
    assert facts["values"] == values and facts.get("labels", {}) == labels
    assert Attribute.from_json({"name": "x", **facts}).size == len(values)


def test_numbers_can_be_texts() -> None:
    assert to_facts(Fields([("kind", "categorical"), ("values", "1\n2"), ("as_text", "yes")]))["values"] == ["1", "2"]


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("integer", "low", "few"),
        ("integer", "high", "1.5"),
        ("real", "edges", "0, ten"),
        ("real", "bins", "x"),
        ("categorical", "labels", "no value"),
        ("date", "levels", "month"),
    ],
)
def test_what_is_no_declaration_is_said(kind: str, name: str, text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        to_facts(Fields([("kind", kind), ("shape", "edges" if name == "edges" else "width"), (name, text)]))
    assert caught.value.fix


def test_a_draft_is_filled_in() -> None:
    draft = {
        "name": "age",
        "kind": "integer",
        "low": "FILL IN: smallest",
        "high": "FILL IN: largest",
        "confirm": "look",
    }
    assert summary(draft) == "" and to_fields(draft).text("low") == ""
    edited = changes(draft, Fields([("kind", "integer"), ("low", "0"), ("high", "99"), ("confirmed", "yes")]))
    assert (edited["low"], edited["high"], edited["confirm"]) == (0, 99, None)
    assert summary({"name": "age", "kind": "integer", "low": 0, "high": 99}) == "0 to 99"
    half = changes(draft, Fields([("kind", "integer"), ("low", "0")]))
    assert half["low"] == 0 and "high" not in half, "what is still missing stays marked"
