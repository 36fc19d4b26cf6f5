"""Attributes: sizes, codes, labels, numbers, and every contradiction refused with a name, a rule and a fix."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nabladp.errors import SchemaError
from nabladp.schema import Attribute


def test_codes_are_values_then_other_then_null():
    job = Attribute("job", "categorical", values=("cook", "nurse"), unknown="other", null="category")
    assert (job.size, job.ordered_size, job.other_code, job.null_code) == (4, 2, 2, 3)
    assert job.code_labels == ("cook", "nurse", "other", "(null)")
    plain = Attribute("job", "categorical", values=("cook", "nurse"))
    assert (plain.size, plain.other_code, plain.null_code) == (2, None, None)
    assert Attribute("job", "categorical", values=("cook",), null="category").null_code == 1


def test_boolean():
    flag = Attribute("flag", "boolean", null="category")
    assert flag.code_labels == ("false", "true", "(null)")
    assert not flag.is_ordered and flag.representatives is None and flag.bin_bounds is None


def test_integers_are_their_own_representatives():
    age = Attribute("age", "integer", low=-1, high=3, unknown="clamp")
    assert age.size == 5 and age.code_labels == ("-1", "0", "1", "2", "3")
    np.testing.assert_array_equal(age.representatives, [-1, 0, 1, 2, 3])
    lows, highs = age.bin_bounds
    np.testing.assert_array_equal(lows, highs)


def test_a_wide_integer_range_is_cheap_until_its_labels_are_asked_for():
    wide = Attribute("income", "integer", low=0, high=2**31, unknown="other")
    assert wide.size == 2**31 + 2 and wide.label(2**31) == str(2**31) and wide.label(2**31 + 1) == "other"
    assert {"texts", "code_labels", "_codes_by_text"}.isdisjoint(vars(wide))


def test_bins_and_their_numbers():
    pay = Attribute("pay", "real", edges=(0, 10, 30))
    assert pay.code_labels == ("[0, 10)", "[10, 30]")
    np.testing.assert_array_equal(pay.representatives, [5, 20])
    for decode, numbers in {"uniform": [5, 20], "lower": [0, 10], "upper": [10, 30], (1, 30): [1, 30]}.items():
        np.testing.assert_array_equal(
            Attribute("pay", "real", edges=(0, 10, 30), decode=decode).representatives, numbers
        )
    lows, highs = pay.bin_bounds
    np.testing.assert_array_equal([lows, highs], [[0, 10], [10, 30]])


def test_listed_numbers_are_plain():
    size = Attribute("size", "ordered", values=(1.0, 2, 2.5))
    assert size.values == (1, 2, 2.5) and size.code_labels == ("1", "2", "2.5") and size.is_numeric
    np.testing.assert_array_equal(size.representatives, [1, 2, 2.5])
    words = Attribute("size", "ordered", values=("s", "m"))
    assert words.is_ordered and not words.is_numeric and words.representatives is None
    assert Attribute("c", "categorical", values=(3, 1)).representatives is None


def test_numpy_numbers_are_accepted():
    age = Attribute("age", "integer", low=np.int64(0), high=np.int32(9))
    assert type(age.low) is int and age == Attribute("age", "integer", low=0, high=9)
    assert Attribute("x", "real", edges=np.linspace(0, 1, 3).tolist()).edges == (0.0, 0.5, 1.0)


def test_a_real_attribute_may_give_its_ends_alone() -> None:
    """Ten bins of one width stand for it in tables; the same schema with these edges written out is the same."""
    pay = Attribute("pay", "real", low=0, high=1, unknown="clamp")
    edges = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert pay == Attribute("pay", "real", edges=edges, unknown="clamp") and pay.size == 10
    assert Attribute("x", "real", low=-2.5, high=np.float64(17.5)).code_labels[:2] == ("[-2.5, -0.5)", "[-0.5, 1.5)")
    assert Attribute.from_json(pay.to_json()) == pay and pay.integers is None
    assert Attribute("age", "integer", low=3, high=5).integers == range(3, 6)


def test_bins_of_one_width() -> None:
    pay = Attribute("pay", "real", low=0, high=1, bins=4)
    assert pay == Attribute("pay", "real", edges=(0.0, 0.25, 0.5, 0.75, 1.0)) and pay.bins is None and pay.size == 4
    assert Attribute("x", "real", low=0, high=1) == Attribute("x", "real", low=0, high=1, bins=np.int64(10))
    assert Attribute("x", "real", low=0.1, high=0.4, bins=3).edges == (0.1, 0.2, 0.3, 0.4)
    assert Attribute("x", "real", low=-5, high=5, bins=1).code_labels == ("[-5, 5]",)


def test_spikes_have_bins_of_their_own() -> None:
    pay = Attribute("pay", "real", edges=(0, 1000, 5000), spikes=[5000, 0])
    assert pay.code_labels == ("0", "(0, 1000)", "[1000, 5000)", "5000") and pay.spikes == () and pay.code(0) == 0
    assert Attribute.from_json(pay.to_json()) == pay and hash(pay) == hash(Attribute.from_json(pay.to_json()))
    for decode in ("midpoint", "upper", "lower"):
        numbers = replace(pay, decode=decode).representatives
        assert numbers is not None and (numbers[0], numbers[-1]) == (0, 5000)
    assert Attribute("pay", "real", low=0, high=10, bins=2, spikes=[0]).size == 3


@pytest.mark.parametrize("spikes", ["zero", [-1], [math.inf], [True], 3])
def test_spikes_are_numbers_inside_the_bins(spikes: Any) -> None:
    with pytest.raises(SchemaError, match="spikes"):
        Attribute("pay", "real", edges=(0, 1000), spikes=spikes)
    with pytest.raises(SchemaError, match="spikes"):
        Attribute("pay", "integer", low=0, high=9, spikes=[0])


def test_a_code_outside_is_an_index_error():
    with pytest.raises(IndexError, match="codes 0 to 1"):
        Attribute("flag", "boolean").label(2)


def test_json_and_pickle_give_it_back():
    full = Attribute(
        "x", "real", edges=(0, 1, 2), decode=(0, 2), null="category", unknown="other", other="rest", note="a note"
    )
    assert Attribute.from_json(full.to_json()) == full == pickle.loads(pickle.dumps(full))
    assert Attribute("flag", "boolean").to_json() == {"name": "flag", "kind": "boolean"}
    assert hash(full) == hash(Attribute.from_json(full.to_json()))


VALUES = {"kind": "categorical", "values": ["a", "b"]}
EDGES = {"kind": "real", "edges": [0, 1, 2]}
RANGE = {"kind": "integer", "low": 0, "high": 9}
CONTRADICTIONS = [
    ({"kind": "categorical"}, "needs 'values'"),
    ({"kind": "categorical", "values": []}, "needs 'values'"),
    ({"kind": "categorical", "values": "ab"}, "must be a list"),
    ({"kind": "categorical", "values": ["a", "a"]}, "listed twice"),
    ({"kind": "categorical", "values": [1, 1.0]}, "listed twice"),
    ({"kind": "categorical", "values": ["a", 1]}, "all text or all finite"),
    ({"kind": "categorical", "values": [True, False]}, "kind 'boolean'"),
    ({"kind": "categorical", "values": [math.nan]}, "all finite numbers"),
    ({"kind": "categorical", "values": [2**60]}, "identifiers as text"),
    ({"kind": "categorical", "values": [10**400]}, "all finite numbers"),
    ({"kind": "categorical", "values": ["a", ""]}, "stands for null"),
    ({"kind": "ordered", "values": [2, 1]}, "must increase"),
    ({"kind": "integer"}, "needs 'low'"),
    ({"kind": "integer", "low": 0}, "needs 'high'"),
    ({"kind": "integer", "low": 5, "high": 4}, "above 'high'"),
    ({"kind": "integer", "low": 0.5, "high": 4}, "must be integers"),
    ({"kind": "integer", "low": False, "high": True}, "must be integers"),
    ({"kind": "integer", "low": 0, "high": 2**40}, "too wide"),
    ({"kind": "integer", "low": 2**53, "high": 2**53 + 1}, "too wide"),
    ({"kind": "real"}, "needs 'edges'"),
    ({"kind": "real", "low": 0.0}, "needs 'high'"),
    ({"kind": "real", "high": 0.0}, "needs 'low'"),
    ({"kind": "real", "low": 0, "high": 1, "edges": [0, 1]}, "both 'edges' and 'low'"),
    ({"kind": "real", "low": 1, "high": 1}, "must lie below 'high'"),
    ({"kind": "real", "low": 0, "high": math.inf}, "finite numbers"),
    ({"kind": "real", "low": "0", "high": "1"}, "finite numbers"),
    ({"kind": "real", "low": 0, "high": 5e-324}, "too close"),
    ({"kind": "real", "low": 0, "high": 1, "bins": 0}, "whole number from 1"),
    ({"kind": "real", "low": 0, "high": 1, "bins": True}, "whole number from 1"),
    ({"kind": "real", "low": 0, "high": 1, "bins": 2.5}, "whole number from 1"),
    ({"kind": "real", "low": 0, "high": 1, "bins": "10"}, "whole number from 1"),
    ({"kind": "real", "low": 0, "high": 1, "bins": 2**16 + 1}, "The limit is 65,536"),
    ({"kind": "real", "low": 1, "high": 1.0000000000000002, "bins": 2}, "too close to each other for 2 bins"),
    ({"kind": "real", "bins": 5}, "'bins' needs 'low' and 'high'"),
    ({"kind": "real", "low": 0, "bins": 5}, "needs 'high'"),
    ({"kind": "real", "edges": [0, 1], "bins": 5}, "both 'edges' and 'bins'"),
    ({"kind": "integer", "low": 0, "high": 99, "bins": 10}, 'Write kind = "real", which reads whole numbers as well'),
    ({"kind": "boolean", "bins": 2}, "takes no 'bins'"),
    ({"kind": "real", "edges": [1]}, "two edges"),
    ({"kind": "real", "edges": [0, 0]}, "must increase"),
    ({"kind": "real", "edges": [1, 0]}, "must increase"),
    ({"kind": "real", "edges": [0, math.nan]}, "finite numbers"),
    ({"kind": "real", "edges": [0, math.inf]}, "finite numbers"),
    ({"kind": "real", "edges": ["0", "1"]}, "finite numbers"),
    ({**EDGES, "decode": "midpiont"}, "Did you mean 'midpoint'"),
    ({**EDGES, "decode": [0.5]}, "one number per bin"),
    ({**EDGES, "decode": [0.5, 0.6]}, "outside its bin"),
    ({**EDGES, "decode": ["a", "b"]}, "a word or a list"),
    ({**RANGE, "decode": "lower"}, "takes 'decode'"),
    ({**RANGE, "values": [1]}, "takes no 'values'"),
    ({"kind": "boolean", "low": 0}, "takes no 'low'"),
    ({"kind": "catgorical"}, "Did you mean 'categorical'"),
    ({}, "has no kind"),
    ({**VALUES, "null": "drop"}, "no null rule"),
    ({**VALUES, "unknown": "othr"}, "Did you mean 'other'"),
    ({**VALUES, "unknown": "clamp"}, "can be clamped"),
    ({**VALUES, "other": "rest"}, 'unknown = "other"'),
    ({**VALUES, "unknown": "other", "other": ""}, "must be text"),
    ({**VALUES, "unknown": "other", "other": "a"}, "already a value"),
    ({**VALUES, "unknown": "other", "other": "(null)", "null": "category"}, "already a value"),
    ({**RANGE, "unknown": "other", "other": "7"}, "already a value"),
    ({**EDGES, "unknown": "other", "other": "[1, 2]"}, "already a value"),
    ({"kind": "boolean", "unknown": "other", "other": "true"}, "already a value"),
    ({"kind": "categorical", "values": ["(null)"], "null": "category"}, "clashes"),
    ({"kind": "categorical", "values": ["other"], "unknown": "other"}, "already a value"),
    ({**VALUES, "derived_from": "age"}, "list of names"),
    ({**VALUES, "derived_from": ["x"]}, "from itself"),
    ({**VALUES, "derived_from": ["age"], "public": True}, "Mark its sources public"),
    ({**VALUES, "public": "yes"}, "true or false"),
    ({**VALUES, "note": 3}, "'note' must be text"),
    ({**VALUES, "vlaues": ["a"]}, "Did you mean 'values'"),
    ({"kind": "integer", "low": "FILL IN: smallest", "high": 9}, "still marked FILL IN"),
    ({"kind": "categorical", "values": ["FILL IN"]}, "still marked FILL IN"),
]


@pytest.mark.parametrize(("given", "says"), CONTRADICTIONS, ids=[says for _, says in CONTRADICTIONS])
def test_contradictions_are_refused(given, says):
    with pytest.raises(SchemaError) as caught:
        Attribute.from_json({"name": "x", **given})
    assert says in str(caught.value) and "'x'" in str(caught.value)
    assert caught.value.fix and caught.value.fields["attribute"] == "x" and caught.value.fields["rule"]


@pytest.mark.parametrize("other", ["07", "12", "-3", "²", "rest"])
def test_other_labels_that_do_not_clash_with_integers(other):
    assert Attribute("x", "integer", low=0, high=9, unknown="other", other=other).label(10) == other


@pytest.mark.parametrize("name", ["", "  ", None])
def test_an_attribute_needs_a_name(name):
    with pytest.raises(SchemaError, match="has no name"):
        Attribute(name, "boolean")


@pytest.mark.parametrize(
    "name", ["two\nlines", "a\ttab", "\x1b[31mred", "\u202eback", "\u2067isolated", "line\u2028end"]
)
def test_names_with_control_or_direction_characters_are_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="control characters") as caught:
        Attribute(name, "boolean")
    assert "Rename the column" in caught.value.fix and name not in str(caught.value)
    assert Attribute("naïve 日本 🙂 שלום", "boolean").name == "naïve 日本 🙂 שלום"
