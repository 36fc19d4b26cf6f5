"""Declared impossible combinations: what they mean, what is refused, and that no drawn row has one."""

from __future__ import annotations

import numpy as np
import pytest

from nabladp.errors import DomainTooLarge, MechanismError, UnknownAttribute
from nabladp.mechanisms.synthesis.inference import Measurement, fit
from nabladp.mechanisms.synthesis.zeros import forbidden
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("age", "integer", low=0, high=19),
        Attribute("income", "real", edges=(0.0, 10.0, 20.0, 50.0), null="category"),
        Attribute("job", "categorical", values=("none", "baker", "clerk"), unknown="other"),
        Attribute("married", "boolean"),
    )
)


def zeros(*declared):
    return forbidden(SCHEMA, SCHEMA.names, declared)


def test_a_child_has_no_income():
    (found,) = zeros({"income": {"not": "(null)"}, "age": {"below": 15}})
    assert found.attributes == ("age", "income")
    expected = np.zeros((20, 4), bool)
    expected[:15, :3] = True
    assert np.array_equal(found.forbidden, expected)


def test_bins_count_where_they_lie_wholly_beyond():
    (low,) = zeros({"income": {"below": 20}, "married": True})
    assert low.forbidden.tolist() == [[False, True], [False, True], [False, False], [False, False]]
    (high,) = zeros({"income": {"from": 15}, "married": False})
    assert high.forbidden[:, 0].tolist() == [False, False, True, False]


def test_lists_labels_and_several_declarations_of_the_same_columns():
    found = zeros(
        {"job": ["baker", "other"], "married": True},
        {"married": False, "job": "none"},
        {"age": [3, 4], "job": {"not": ["none"]}},
    )
    assert [zero.attributes for zero in found] == [("job", "married"), ("age", "job")]
    assert found[0].forbidden.tolist() == [[True, False], [False, True], [False, False], [False, True]]
    assert found[1].forbidden.sum() == 2 * 3


@pytest.mark.parametrize(
    ("declared", "match"),
    [
        ({"job": "none"}, "two columns"),
        ({}, "two columns"),
        ({"job": "painter", "married": True}, "'job' has no such value"),
        ({"job": {"below": 3}, "married": True}, "'job' has a 'below'"),
        ({"age": {"under": 3}, "married": True}, "'age' has a condition other than"),
        ({"age": {}, "married": True}, "'age' has a condition"),
        ({"age": {"below": float("nan")}, "married": True}, "'age' has a 'below'"),
        ({"age": [], "married": True}, "'age' is given an empty list"),
    ],
)
def test_bad_declarations_name_the_column(declared, match):
    with pytest.raises(MechanismError, match=match) as caught:
        zeros(declared)
    assert caught.value.fix


def test_unknown_columns_and_columns_not_drawn():
    with pytest.raises(UnknownAttribute, match="agee"):
        zeros({"agee": 3, "married": True})
    with pytest.raises(MechanismError, match=r"'age'.*not among the columns"):
        forbidden(SCHEMA, ("job", "married"), [{"age": 3, "married": True}])


def test_contradictions_are_refused_before_anything_is_spent():
    chain = [
        {"married": True, "job": ["none", "baker", "clerk", "other"]},
        {"married": False, "age": {"from": 0}},
    ]
    with pytest.raises(MechanismError, match="contradict"):
        zeros(*chain)
    zeros(chain[0], {"married": False, "age": {"from": 1}})  # an unmarried person of age 0 is left


def test_a_table_of_zeros_that_no_memory_holds():
    wide = Schema(tuple(Attribute(name, "integer", low=0, high=999) for name in "abc"))
    with pytest.raises(DomainTooLarge, match="MB"):
        forbidden(wide, wide.names, [{"a": 1, "b": 2, "c": 3}])


def test_no_mass_and_no_row_where_nothing_can_be():
    found = zeros({"age": {"below": 15}, "income": {"not": "(null)"}}, {"job": "clerk", "married": True})
    sizes = {attribute.name: attribute.size for attribute in SCHEMA}
    noisy = [Measurement((name,), np.full(size, 1000 / size), 25.0) for name, size in sizes.items()]
    model = fit(sizes, 1000.0, noisy, zeros=found)
    codes = model.draw(20_000, NoiseSource.seeded(5))
    for zero in found:
        assert not model.marginal(zero.attributes)[zero.forbidden].any()
        assert not zero.forbidden[tuple(codes[name] for name in zero.attributes)].any()
    assert fit(sizes, 1000.0, noisy).marginal(("age", "income"))[0, 0] > 1  # which they would have had
