"""What each family asks, how its answers are found, how a plan writes it, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp.errors import DomainTooLarge, MechanismError, UnknownAttribute
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable
from nabladp.workloads import (
    GRID,
    Conjunctions,
    LinearQueries,
    LinearQuery,
    Marginals,
    Parities,
    Queries,
    Union,
    Workload,
    as_workload,
    marginal_sets,
    marginals,
    queries,
)
from nabladp.workloads.cube import Cube

SCHEMA = Schema(
    (
        Attribute("sex", "categorical", values=("f", "m")),
        Attribute("region", "categorical", values=("north", "south"), unknown="other", null="category"),
        Attribute("planet", "categorical", values=("earth",)),
        Attribute("ill", "boolean"),
        Attribute("age", "integer", low=0, high=2),
        Attribute("adult", "boolean", derived_from=("age",)),
    )
)
OLD = LinearQuery(("age", "ill"), [0, 0, 0.25, 0.5, 1 / 3, 1], name="Old AND Ill")
EVERY = [
    Marginals(1),
    Marginals(2, over=("ill", "age", "region")),
    Marginals(sets=(("age", "sex"), "region"), weights=(2, 0.5)),
    Conjunctions(2),
    Conjunctions(3, signed=True, weight=0.1),
    Conjunctions(1, over=("adult", "region")),
    Parities(2),
    Parities(5),
    LinearQueries((OLD, LinearQuery("ill", (0, 1), weight=4)), weight=1.5),
    Marginals(1) + 2 * Parities(2) + LinearQueries((OLD,)),
]


def codes(rows: int, schema: Schema = SCHEMA) -> dict[str, np.ndarray[Any, Any]]:
    draws = np.random.default_rng(rows)
    return {attribute.name: draws.integers(0, attribute.size, rows) for attribute in schema}


def same(one: Queries, other: Queries) -> bool:
    """Whether two workloads ask the same, with the same weights and the same shift."""
    return (
        one.sets == other.sets
        and [one.text(q) for q in range(len(one))] == [other.text(q) for q in range(len(other))]
        and (one.matrix != other.matrix).nnz == 0
        and np.array_equal(one.weights, other.weights)
        and np.array_equal(one.grids, other.grids)
        and [group.shift for group in one.groups] == [group.shift for group in other.groups]
        and one.curve == other.curve
    )


# What is asked


def test_a_marginal_asks_for_every_cell() -> None:
    asked = Marginals(2, over=("sex", "region")).bind(SCHEMA)
    assert [asked.text(q) for q in range(len(asked))] == [
        f"sex = {sex}, region = {region}" for sex in "fm" for region in ("north", "south", "other", "(null)")
    ]
    assert {asked.attributes(q) for q in range(8)} == {("sex", "region")}
    assert repr(asked) == "Queries(8 on 1 sets of attributes)"


def test_signed_conjunctions_are_the_cells_of_the_marginals() -> None:
    for k in (1, 2, 3):
        assert same(Conjunctions(k, signed=True).bind(SCHEMA), Marginals(k).bind(SCHEMA))


def test_unsigned_conjunctions_leave_out_each_attributes_first_value() -> None:
    asked = Conjunctions(2, over=("ill", "age", "planet", "sex")).bind(SCHEMA)
    assert [asked.text(q) for q in range(len(asked))] == [
        "ill = true, age = 1",
        "ill = true, age = 2",
        "ill = true, sex = m",
        "age = 1, sex = m",
        "age = 2, sex = m",
    ]
    assert asked.attributes(2) == ("ill", "sex") and asked.sets == (("ill", "age"), ("ill", "sex"), ("age", "sex"))
    assert asked.names == ("sex", "ill", "age") and asked.cells == 12


def test_for_bits_there_is_one_unsigned_conjunction_for_every_k() -> None:
    bits = Schema(tuple(Attribute(f"x{i}", "boolean") for i in range(7)))
    for k in range(1, 8):
        asked = Conjunctions(k).bind(bits)
        assert len(asked) == len(Parities(k).bind(bits)) == math.comb(7, k)
        assert asked.text(0) == ", ".join(f"x{i} = true" for i in range(k))


def test_parities_count_odd_codes() -> None:
    asked = Parities(2, over=("region", "ill")).bind(SCHEMA)
    assert len(asked) == 1 and asked.text(0) == "parity of region, ill" and asked.attributes(0) == ("region", "ill")
    people = np.array(list(itertools.product(range(4), range(2))))
    values = asked.at_records({"region": people[:, 0], "ill": people[:, 1]})
    assert values.tolist() == [[float((region + ill) % 2) for region, ill in people.tolist()]]


def test_linear_queries_on_the_same_attributes_stand_together() -> None:
    each = [
        LinearQuery("ill", [0, 0.1], name="first"),
        LinearQuery("age", [0, 1, 1]),
        LinearQuery("ill", [0.7, 0], name="third"),
        LinearQuery("ill", [0, 1]),
    ]
    asked = LinearQueries(each).bind(SCHEMA)
    assert [asked.text(q) for q in range(4)] == ["first", "third", "linear query 2", "linear query 4"]
    assert asked.grids.tolist() == [GRID, GRID, 1, 1]
    values = asked.at_records({"ill": np.array([0, 1]), "age": np.array([0, 2])})
    assert values == pytest.approx(np.array([[0, 0.1], [0.7, 0], [0, 1], [0, 1]]), abs=0.5 / GRID)


def test_values_are_rounded_to_the_grid_once_and_then_exact() -> None:
    asked = LinearQueries([LinearQuery("age", [1 / 3, 1e-9, 1 - 1e-9])]).bind(SCHEMA)
    assert asked.matrix.toarray().tolist() == [[round(GRID / 3), 0, GRID]]
    assert LinearQueries([LinearQuery("age", [True, False, 1.0])]).bind(SCHEMA).grids.tolist() == [1]


def test_numbers_of_many_kinds() -> None:
    for values in ([Fraction(1, 4), 0, 1], np.array([0.25, 0, 1], np.float32), ((0.25,), (0,), (1,))):
        assert LinearQuery("age", values).values == (0.25, 0.0, 1.0)
    assert LinearQuery("planet", 0.5).values == (0.5,)
    assert Marginals(np.int64(2)) == Marginals(2) and type(Marginals(np.int64(2)).k) is int
    assert np.float32(0.5) * Marginals(1) == 0.5 * Marginals(1) and np.int64(3) * Marginals(1) == 3 * Marginals(1)


def test_an_attribute_with_one_value() -> None:
    with pytest.raises(MechanismError, match="empty"):
        Conjunctions(1, over=("planet",)).bind(SCHEMA)
    asked = Conjunctions(1, over=("planet", "sex")).bind(SCHEMA)
    assert [asked.text(q) for q in range(len(asked))] == ["sex = m"]
    lone = Marginals(1, over=("planet",)).bind(SCHEMA)
    assert lone.on_rows({"planet": [0, 0]}).tolist() == [1.0] and lone.squared_shift(["planet"]) == 0
    assert lone.curve is None
    parity = Parities(2, over=("planet", "sex")).bind(SCHEMA)
    assert parity.on_rows({"planet": [0, 0], "sex": [1, 0]}).tolist() == [0.5]


def test_only_sources_are_asked_about_unless_a_derived_column_is_named() -> None:
    assert "adult" not in Marginals(1).bind(SCHEMA).names
    assert Marginals(1, over=("adult",)).bind(SCHEMA).names == ("adult",)


def test_a_query_that_does_not_exist() -> None:
    asked = Marginals(1).bind(SCHEMA)
    for query in (-1, len(asked)):
        for read in (asked.text, asked.attributes):
            with pytest.raises(IndexError, match=f"0 to {len(asked) - 1}"):
                read(query)


# Answers


def schemas() -> st.SearchStrategy[Schema]:
    @st.composite
    def drawn(draw: st.DrawFn) -> Schema:
        attributes = []
        for i in range(draw(st.integers(1, 4))):
            null, unknown = draw(st.sampled_from(["refuse", "category"])), draw(st.sampled_from(["refuse", "other"]))
            high = draw(st.integers(0, 2))
            attributes.append(Attribute(f"x{i}", "integer", low=0, high=high, null=null, unknown=unknown))
        return Schema(tuple(attributes))

    return drawn()


@st.composite
def workloads(draw: st.DrawFn, schema: Schema) -> Workload:
    names = schema.names

    def family() -> Any:
        over = tuple(draw(st.permutations(names))[: draw(st.integers(1, len(names)))])
        k = draw(st.integers(1, len(over)))
        unsigned = sum(schema[name].size > 1 for name in over) >= k
        kind = draw(st.sampled_from(["marginals", "signed", "parities", "linear"] + ["unsigned"] * unsigned))
        if kind == "linear":
            number = st.sampled_from([0.0, 1.0, 0.5, 1 / 3])
            cells = schema.cells(over)
            return LinearQueries([LinearQuery(over, draw(st.lists(number, min_size=cells, max_size=cells)))])
        if kind == "marginals":
            return Marginals(k, over=over)
        return Parities(k, over=over) if kind == "parities" else Conjunctions(k, kind == "signed", over)

    parts = [family() for _ in range(draw(st.integers(1, 3)))]
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_all_ways_to_answer_agree(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    asked = data.draw(workloads(schema)).bind(schema)
    rows = codes(data.draw(st.integers(1, 20)), schema)
    table = CodedTable(schema, rows, batch_rows=7)
    answers = asked.on_rows(rows)
    assert answers.shape == (len(asked),)
    assert answers == pytest.approx(asked.at_records(rows).mean(axis=1), abs=1e-12)
    counts = asked.counts(table)
    assert counts.dtype == np.int64
    assert np.array_equal(counts / (asked.grids * table.n), answers)
    exact = np.rint(asked.at_records(rows) * asked.grids[:, None]).astype(np.int64).sum(axis=1)
    assert np.array_equal(counts, exact)  # integers, without any rounding
    cube = Cube(asked)
    cells = np.ravel_multi_index([rows[name] for name in cube.names], cube.sizes)
    empirical = np.bincount(cells, minlength=cube.cells) / table.n
    assert cube.answers(empirical) == pytest.approx(answers, abs=1e-12)


@pytest.mark.parametrize("workload", EVERY, ids=repr)
def test_answers_lie_between_zero_and_one_and_depend_on_their_own_columns_only(workload: Workload) -> None:
    asked, rows = workload.bind(SCHEMA), codes(50)
    before = asked.on_rows(rows)
    assert before.min() >= 0 and before.max() <= 1
    for name in SCHEMA.names:
        after = asked.on_rows(rows | {name: (rows[name] + 1) % SCHEMA[name].size})
        moved = np.flatnonzero(before != after)
        assert all(name in asked.attributes(q) for q in moved.tolist())


def test_answers_from_noisy_marginals_may_be_fractions() -> None:
    asked = (Marginals(1, over=("sex",)) + Parities(1, over=("sex",))).bind(SCHEMA)
    assert asked.from_marginals([np.array([1.5, -0.5])]).tolist() == [1.5, -0.5, -0.5]
    plain = Marginals(1, over=("sex", "ill")).bind(SCHEMA)
    assert plain.from_marginals([np.array([1, 2]), np.array([3, 4])]).dtype == np.int64


def test_rows_can_be_any_integers_and_must_be_there() -> None:
    asked = Marginals(2, over=("sex", "ill")).bind(SCHEMA)
    small = {"sex": np.array([0, 1, 1], np.uint8), "ill": [1, 1, 0]}
    assert asked.on_rows(small) == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])
    with pytest.raises(MechanismError, match="no rows"):
        asked.on_rows({"sex": [], "ill": []})
    with pytest.raises(ValueError):
        asked.on_rows({"sex": [2], "ill": [0]})


def test_counts_of_very_many_rows_do_not_overflow() -> None:
    class Many:
        def marginals(self, sets: Any) -> list[np.ndarray[Any, Any]]:
            return [np.array([0, 1 << 40])]

    asked = LinearQueries([LinearQuery("ill", [0.3, 1 - 2**-20])]).bind(SCHEMA)
    assert asked.counts(Many()).tolist() == [(GRID - 1) << 40]


# Weights


def test_weights_multiply() -> None:
    assert 2 * (3 * Marginals(1)) == Marginals(1, weight=6)
    union = 2 * Marginals(1, over=("sex",)) + Parities(2, over=("sex", "ill"))
    assert union.bind(SCHEMA).weights.tolist() == [2, 2, 1]
    assert (0.5 * union).bind(SCHEMA).weights.tolist() == [1, 1, 0.5]
    listed = 2 * Marginals(sets=(("sex",), ("ill",)), weights=(1, 0.25))
    assert listed.bind(SCHEMA).weights.tolist() == [2, 2, 0.5, 0.5]
    linear = 3 * LinearQueries([LinearQuery("ill", [0, 1], weight=2), LinearQuery("ill", [1, 0])])
    assert linear.bind(SCHEMA).weights.tolist() == [6, 3]
    assert Marginals(1).bind(SCHEMA).weights.dtype == np.float64


def test_unions() -> None:
    a, b, c = Marginals(1), Parities(2), Conjunctions(2)
    assert a + b + c == a + (b + c) == Union((a, b, c)) == Union([a, b, c])
    assert same(Union((b,)).bind(SCHEMA), b.bind(SCHEMA))
    assert len((a + b).bind(SCHEMA)) == len(a.bind(SCHEMA)) + len(b.bind(SCHEMA))
    assert hash(a + b) == hash(Union((a, b)))
    for other in (3, None, "parities"):
        with pytest.raises(TypeError):
            a + other


def test_the_same_query_asked_twice_is_answered_twice() -> None:
    twice = (Marginals(1) + Marginals(1)).bind(SCHEMA)
    once = Marginals(1).bind(SCHEMA)
    assert twice.sets == once.sets
    assert np.array_equal(twice.on_rows(codes(9)), np.tile(once.on_rows(codes(9)), 2))
    assert twice.squared_shift(["sex"]) == 2 * once.squared_shift(["sex"])


# As a plan writes it


@pytest.mark.parametrize("workload", EVERY, ids=repr)
def test_plan_form_and_back(workload: Workload) -> None:
    written = json.loads(json.dumps(workload.to_json()))
    assert as_workload(written) == workload
    assert same(as_workload(written).bind(SCHEMA), workload.bind(SCHEMA))
    assert as_workload(workload) is workload


def test_plan_form_says_only_what_is_needed() -> None:
    assert Marginals(2).to_json() == {"queries": "marginals", "k": 2}
    assert (0.1 * Parities(3, over=["a", "b"])).to_json() == {
        "queries": "parities",
        "k": 3,
        "over": ["a", "b"],
        "weight": 0.1,
    }
    assert Marginals(sets=["a", ["b", "c"]], weights=[1, 2.5]).to_json() == {
        "queries": "marginals",
        "sets": [["a"], ["b", "c"]],
        "weights": [1, 2.5],
    }
    assert Union((Parities(1),)).to_json() == [{"queries": "parities", "k": 1}]


def test_plan_form_from_toml() -> None:
    text = """
    workload = [
      { queries = "conjunctions", k = 2, signed = true },
      { queries = "marginals", sets = [["sex", "ill"], ["age"]], weight = 2 },
      { queries = "linear", each = [{ attributes = ["ill"], values = [0, 0.5], name = "half" }] },
    ]
    """
    read = as_workload(tomllib.loads(text)["workload"])
    half = LinearQueries([LinearQuery("ill", [0, 0.5], name="half")])
    assert read == Conjunctions(2, signed=True) + 2 * Marginals(sets=[["sex", "ill"], ["age"]]) + half
    assert as_workload([Marginals(1), {"queries": "parities", "k": 1}]) == Marginals(1) + Parities(1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"queries": "conjunctoins", "k": 2}, "no queries 'conjunctoins'. Did you mean 'conjunctions'?"),
        ({"queries": "xyz"}, "Known are marginals, conjunctions, parities, linear."),
        ({"queries": ["parities"]}, "no queries"),
        ({"k": 2}, "'queries' is missing"),
        ({"queries": "parities", "kk": 2}, "'parities' has no option 'kk'. Did you mean 'k'?"),
        ({"queries": "parities", "k": 2, "wieght": 2}, "Did you mean 'weight'?"),
        ({"queries": "parities", "k": 2, "zzz": 2}, "Known are k, over, weight."),
        ({"queries": "conjunctions"}, "'conjunctions' lacks the option 'k'."),
        ({"queries": "linear"}, "'linear' lacks the option 'each'."),
        ({"queries": "linear", "each": [{"attributes": ["ill"], "vals": [0, 1]}]}, "no option 'vals'. Did you mean"),
        ({"queries": "linear", "each": [{"attributes": ["ill"]}]}, "lacks the option 'values'"),
        ({"queries": "linear", "each": ["ill"]}, "A linear query is written as a table."),
        ({"queries": "linear", "each": "ill"}, "'each' must be a list"),
        ({"queries": "linear", "each": []}, "The workload is empty."),
        ([], "The workload is empty."),
        ([[]], "a family of queries or a list of them"),
        ([Marginals(1) + Parities(1)], "a family of queries or a list of them"),
        ("parities", "a family of queries or a list of them"),
        (b"parities", "a family of queries or a list of them"),
        (None, "a family of queries or a list of them"),
        (3, "a family of queries or a list of them"),
    ],
    ids=str,
)
def test_plan_forms_that_are_refused(given: Any, said: str) -> None:
    with pytest.raises(MechanismError) as caught:
        as_workload(given)
    assert said in str(caught.value) and caught.value.fix


# What is refused


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Union(()), "empty"),
        (lambda: Union((3,)), "a family of queries"),
        (lambda: Union(Marginals(1)), "'parts' must be a list"),
        (lambda: Marginals(), "Neither 'sets' nor 'k' is given"),
        (lambda: Marginals(1, sets=[["sex"]]), "Both 'sets' and 'k' are given"),
        (lambda: Marginals(sets="sex"), "'sets' must be a list"),
        (lambda: Marginals(sets=[3]), "A set must be a list"),
        (lambda: Marginals(sets=[["sex"]], over=["sex"]), "'over' goes with 'k'"),
        (lambda: Marginals(sets=[["sex"]], weights=[1, 2]), "one number for each listed set"),
        (lambda: Marginals(1, weights=[1]), "one number for each listed set"),
        (lambda: Marginals(sets=[["sex"]], weights=3), "'weights' must be a list"),
        (lambda: Marginals(sets=[["sex"]], weights=[0]), "between 1e-12 and 1e12"),
        (lambda: Marginals(1, over="sex"), "'over' must be a list"),
        (lambda: Parities(1, over={"sex"}), "'over' must be a list"),
        *(
            (lambda k=k, f=f: f(k), "whole number of at least 1")
            for k in (0, -1, True, 1.0, "2")
            for f in (Marginals, Parities)
        ),
        (lambda: Conjunctions(None), "whole number of at least 1"),
        (lambda: Conjunctions(1, signed="yes"), "true or false"),
        *(
            (lambda w=w: Parities(1, weight=w), "between 1e-12 and 1e12")
            for w in (0, -1, math.nan, math.inf, True, "2", None, 10**400, 1e-13)
        ),
        (lambda: 0 * Marginals(1), "between 1e-12 and 1e12"),
        (lambda: "2" * Marginals(1), "between 1e-12 and 1e12"),
        (lambda: 1e9 * (1e9 * Marginals(1)), "between 1e-12 and 1e12"),
        (lambda: LinearQuery("ill", [0, 1.01]), "A value of a query on ill lies outside [0, 1]"),
        (lambda: LinearQuery("ill", [-0.1, 1], name="Ill or Not"), "the query 'Ill or Not' lies outside [0, 1]"),
        (lambda: LinearQuery("ill", [math.nan, 1]), "outside [0, 1]"),
        (lambda: LinearQuery("ill", [None, 1]), "outside [0, 1]"),
        (lambda: LinearQuery("ill", ["0", "1"]), "not numbers"),
        (lambda: LinearQuery("ill", [[0], [0, 1]]), "not numbers"),
        (lambda: LinearQuery("ill", {"true": 1}), "not numbers"),
        (lambda: LinearQuery("ill", [0, 1j]), "not numbers"),
        (lambda: LinearQuery("ill", [0, 1], name=3), "name is a text"),
        (lambda: LinearQuery("ill", [0, 1], weight=0), "between 1e-12 and 1e12"),
        (lambda: LinearQuery(3, [0, 1]), "'attributes' must be a list"),
        (lambda: LinearQueries([]), "empty"),
        (lambda: LinearQueries(OLD), "'each' must be a list"),
        (lambda: LinearQueries([OLD], weight=-1), "between 1e-12 and 1e12"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(MechanismError) as caught:
        make()
    assert said in str(caught.value) and caught.value.fix


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (Marginals(6), "no 6-way combinations of 5 attributes. Give a k from 1 to 5."),
        (Conjunctions(6), "no 6-way"),
        (Parities(2, over=("sex",)), "Give a k from 1 to 1"),
        (Parities(1, over=()), "'over' is empty"),
        (Parities(1, over=("sex", "sex")), "names 'sex' twice"),
        (Marginals(1, over=("sex", "sex")), "twice"),
        (Marginals(sets=()), "No marginal is asked for"),
        (Marginals(sets=((),)), "at least one attribute"),
        (Marginals(sets=(("sex", "sex"),)), "sex+sex names an attribute twice"),
        (Marginals(sets=(("sex", "ill"), ("ill", "sex"))), "asked for twice"),
        (LinearQueries([LinearQuery(("ill", "ill"), [0] * 4)]), "a query on ill+ill must be named once"),
        (LinearQueries([LinearQuery((), [0])]), "must be named once"),
        (LinearQueries([LinearQuery(("ill", "sex"), [0, 1])]), "2 values for the 4 combinations of a query on ill+sex"),
        (LinearQueries([LinearQuery("ill", [], name="None")]), "0 values for the 2 combinations of the query 'None'"),
    ],
    ids=repr,
)
def test_what_does_not_fit_the_schema_is_refused(workload: Workload, said: str) -> None:
    with pytest.raises(MechanismError) as caught:
        workload.bind(SCHEMA)
    assert said in str(caught.value) and caught.value.fix


def test_a_k_that_is_no_whole_number_is_refused_for_sets_alone_too() -> None:
    for k in (True, 1.5, "2"):
        with pytest.raises(MechanismError, match="whole number"):
            marginal_sets(SCHEMA, None, k)


@pytest.mark.parametrize(
    "workload",
    [
        Marginals(1, over=("sexx",)),
        Marginals(sets=(("sexx", "ill"),)),
        Conjunctions(1, over=("sexx",)),
        Parities(1, over=("sexx",)),
        LinearQueries([LinearQuery("sexx", [0, 1])]),
    ],
    ids=repr,
)
def test_unknown_attributes_suggest_the_near_one(workload: Workload) -> None:
    with pytest.raises(UnknownAttribute, match="Did you mean 'sex'"):
        workload.bind(SCHEMA)


def test_names_that_are_no_names() -> None:
    for made in (
        lambda: Marginals(sets=[[1, 1]]),
        lambda: Marginals(1, over=[["sex"]]),
        lambda: LinearQueries([LinearQuery([["ill"]], [0])]),
    ):
        with pytest.raises(MechanismError, match="which is not a name"):
            made()


def test_too_many_queries_are_refused_before_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = Schema(tuple(Attribute(f"x{i}", "integer", low=0, high=2999) for i in range(4)))
    for workload in (Marginals(2), Conjunctions(2), Conjunctions(2, signed=True)):
        with pytest.raises(DomainTooLarge, match=r"(54,000,000|53,964,006) queries; the most is 4,194,304"):
            workload.bind(wide)
    with pytest.raises(DomainTooLarge, match="200,000"):
        Parities(3).bind(Schema(tuple(Attribute(f"x{i}", "boolean") for i in range(200))))
    monkeypatch.setattr(queries, "MOST_QUERIES", 10)
    with pytest.raises(DomainTooLarge, match="12 queries; the most is 10") as caught:
        (Marginals(1, over=("sex", "region", "ill", "age")) + Parities(5)).bind(SCHEMA)
    assert caught.value.fields == {"queries": 12}


def test_a_marginal_of_too_many_cells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "MOST_CELLS", 20)
    assert Parities(2).bind(SCHEMA)
    with pytest.raises(DomainTooLarge, match=r"sex\+region\+age has 24 cells"):
        Parities(3).bind(SCHEMA)
