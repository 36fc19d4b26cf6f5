"""Declared impossible combinations: what they mean, what is refused, and that no drawn row has one."""

from __future__ import annotations

import numpy as np
import pytest

from nabladp import CDP, Synthesis
from nabladp.errors import DomainTooLarge, MechanismError, UnknownAttribute
from nabladp.mechanisms.mechanism import ReleaseContext
from nabladp.mechanisms.synthesis.inference import Measurement, Zeros, fit
from nabladp.mechanisms.synthesis.workload import contradicted, forbidden
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

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


def test_a_bound_on_bins_is_one_of_their_edges():
    (low,) = zeros({"income": {"below": 20}, "married": True})
    assert low.forbidden.tolist() == [[False, True], [False, True], [False, False], [False, False]]
    (high,) = zeros({"income": {"from": 20.0}, "married": False})
    assert high.forbidden[:, 0].tolist() == [False, False, True, False]
    (between,) = zeros({"income": {"from": 10, "below": 20}, "married": False})
    assert between.forbidden[:, 0].tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("condition", "says", "fix"),
    [
        ({"from": 15}, "'income' has 'from' at 15, which cuts the bin [10, 20) in two", "Write 10 or 20, the nearest"),
        (
            {"below": 0.5},
            "'income' has 'below' at 0.5, which cuts the bin [0, 10) in two",
            "Write 0 or 10, the nearest",
        ),
        # the last bin holds its upper edge, which is not below itself
        ({"below": 50}, "'income' has 'below' at 50, which cuts the bin [20, 50] in two", "Write 20, the nearest edge"),
        ({"from": 50}, "'income' has 'from' at 50, which cuts the bin [20, 50] in two", "Write 20, the nearest edge"),
    ],
)
def test_a_bound_that_cuts_a_bin_is_refused(condition, says, fix):
    with pytest.raises(MechanismError) as caught:
        zeros({"income": condition, "married": True})
    assert says in caught.value.message and fix in caught.value.fix


@pytest.mark.parametrize(
    "condition", [{"below": 0}, {"from": 20}, {"from": 12, "below": 12}, {"below": -1e300}, {"not": list(range(20))}]
)
def test_a_condition_that_no_value_meets_is_refused(condition):
    with pytest.raises(MechanismError, match="'age' has a condition that none of its values meets"):
        zeros({"age": condition, "married": True})


def test_numbers_are_named_as_in_the_schema():
    scores = Schema((Attribute("score", "categorical", values=(1, 2.5, 3)), Attribute("sick", "boolean")))
    for same in ([1, 3], [1.0, 3.0], ["1", "3"]):
        (found,) = forbidden(scores, scores.names, [{"score": same, "sick": True}])
        assert found.forbidden[:, 1].tolist() == [True, False, True]


DECODES = ["midpoint", "lower", "upper", "uniform", (14.5, 15.0, 90.0), (15.0, 30.0, 90.0)]
BINNED = {"age": {"below": 15}, "income": {"not": "(null)"}}, {"age": {"from": 15, "below": 65}, "income": "(null)"}


@pytest.mark.parametrize("decode", DECODES, ids=str)
@pytest.mark.parametrize("declared", BINNED, ids=["children", "workers"])
def test_no_drawn_number_meets_a_declaration_however_bins_are_handed_out(declared, decode):
    """Read from the values of the drawn rows, not from their codes; where the schema would make them, it is refused."""
    schema = Schema(
        (
            Attribute("age", "real", edges=(0, 15, 65, 90), decode=decode),
            Attribute("income", "real", edges=(0, 1000, 5000), null="category", decode="uniform"),
            Attribute("sick", "boolean"),
        )
    )
    draws = np.random.default_rng(1)
    codes = {name: draws.integers(0, schema[name].size, 900) for name in schema.names}
    mechanism = Synthesis(CDP(0.5), strategy="all", rows=4000, zeros=[declared])
    if declared is BINNED[1] and decode in ("upper", (15.0, 30.0, 90.0)):
        with pytest.raises(MechanismError, match="'age' has a condition that numbers drawn for it would meet"):
            mechanism.guarantee(schema, 900)
        return
    output = mechanism.run(CodedTable(schema, codes), NoiseSource.seeded(3))
    for drawn in (output.synthetic, output.sample(4000, NoiseSource.seeded(4))):
        age, income = np.array(drawn["age"].to_pylist()), drawn["income"].is_null().to_numpy()
        met = (age < 15) & ~income if declared is BINNED[0] else (age >= 15) & (age < 65) & income
        assert not met.any() and income.any() and not income.all()


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
        ({"age": {"below": 10**400}, "married": True}, "'age' has a 'below'"),
    ],
)
def test_bad_declarations_name_the_column(declared, match):
    with pytest.raises(MechanismError, match=match) as caught:
        zeros(declared)
    assert caught.value.fix


def test_unknown_columns_and_columns_not_drawn():
    with pytest.raises(UnknownAttribute, match="agee"):
        zeros({"agee": 3, "married": True})
    with pytest.raises(MechanismError, match=r"'age', which is not in the workload"):
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


def test_a_false_declaration_is_found_in_the_noisy_counts_and_a_true_one_is_not():
    draws = np.random.default_rng(2)
    codes = {
        "age": draws.integers(0, 20, 4000),
        "income": draws.integers(0, 4, 4000),
        "job": draws.integers(0, 4, 4000),
    }
    codes["married"] = np.where(codes["age"] < 16, 0, draws.integers(0, 2, 4000))
    true, false = {"age": {"below": 16}, "married": True}, {"job": "clerk", "income": {"from": 20}}
    once = {"job": ["none", "clerk"], "married": True, "age": 17}  # of three columns, on which nothing was measured
    for seed in range(3):
        options = {"strategy": "all", "zeros": [true, false, once], "rows": 50}
        output = Synthesis(CDP(0.7), **options).run(CodedTable(SCHEMA, codes), NoiseSource.seeded(seed))
        (found,) = output.quality["contradicted_zeros"]
        assert found["attributes"] == ["income", "job"]
        met = int(((codes["job"] == 2) & (codes["income"] == 2)).sum())
        assert abs(found["rows"] - met) < 4 * found["deviation"] < met
        view = output.views(ReleaseContext(SCHEMA, 4000, {}, None))[0]
        assert any("income + job contradict" in note for note in view.notes)


def test_noise_alone_contradicts_nothing():
    """A thousand releases of impossible cells that are empty: one cell, and many of which the largest is tested."""
    noise = NoiseSource.seeded(6)
    for forbidden_cells in (1, 300):
        mask = np.zeros((20, 20), bool)
        mask.ravel()[:forbidden_cells] = True
        for _ in range(500):
            noisy = Measurement(("a", "b"), noise.discrete_gaussian(5.0, (20, 20)).astype(float), 25.0)
            assert not contradicted([Zeros(("a", "b"), mask)], [noisy])
    noisy.values[0, 3] += 60  # one cell among many
    assert contradicted([Zeros(("a", "b"), mask)], [noisy])
