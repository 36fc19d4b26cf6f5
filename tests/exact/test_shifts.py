"""How far one person moves the answers: every claimed Δ_T² against every pair of records, for every T."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp.errors import UnknownAttribute
from nabladp.schema import Attribute, Schema
from nabladp.workloads import (
    GRID,
    Conjunctions,
    Curve,
    LinearQueries,
    LinearQuery,
    Marginals,
    Parities,
    Queries,
    Shift,
    Union,
    Workload,
    sensitivity,
)

Record = dict[str, int]
Derive = Mapping[str, Callable[[Record], int]]
BITS = [(2,), (2, 2), (2, 2, 2), (2, 2, 2, 2)]
LARGE = [(3,), (3, 4), (3, 3, 4)]  # every domain has at least three values
MIXED = [(1,), (1, 1), (1, 2, 2, 2), (1, 3, 3), (2, 3), (2, 3, 4), (1, 2, 3, 4), (4, 1, 2, 1)]


def schema_of(sizes: Iterable[int]) -> Schema:
    return Schema(tuple(Attribute("abcdef"[i], "integer", low=0, high=size - 1) for i, size in enumerate(sizes)))


# The truth, from the definitions alone


def records(schema: Schema, derive: Derive | None = None) -> list[Record]:
    """Every legal record: all values of the sources, and the derived columns that follow from them."""
    found = []
    for codes in itertools.product(*map(range, schema.sizes(schema.roots))):
        record = dict(zip(schema.roots, codes, strict=True))
        found.append(record | {name: rule(record) for name, rule in (derive or {}).items()})
    return found


def values(workload: Workload, schema: Schema, record: Record) -> Iterator[Fraction]:
    """Every query at one record."""
    if isinstance(workload, Union):
        for part in workload.parts:
            yield from values(part, schema, record)
    elif isinstance(workload, LinearQueries):
        for query in workload.each:
            cells = list(itertools.product(*map(range, schema.sizes(query.attributes))))
            value = query.values[cells.index(tuple(record[name] for name in query.attributes))]
            yield Fraction(round(value * GRID), GRID)
    else:
        assert isinstance(workload, (Marginals, Conjunctions, Parities))
        names = workload.over or schema.roots
        listed = getattr(workload, "sets", None)
        for chosen in listed or itertools.combinations(names, workload.k or 0):
            codes = tuple(record[name] for name in chosen)
            if isinstance(workload, Parities):
                yield Fraction(sum(codes) % 2)
                continue
            unsigned = isinstance(workload, Conjunctions) and not workload.signed
            for cell in itertools.product(*map(range, schema.sizes(chosen))):
                if not (unsigned and 0 in cell):
                    yield Fraction(int(cell == codes))


def subsets(names: Iterable[str]) -> list[tuple[str, ...]]:
    names = tuple(names)
    return [chosen for size in range(len(names) + 1) for chosen in itertools.combinations(names, size)]


def true_shifts(workload: Workload, schema: Schema, derive: Derive | None = None) -> dict[frozenset[str], Fraction]:
    """For every set of sources, the largest squared distance between two records that differ on nothing else."""
    people = records(schema, derive)
    answers = np.array([[int(value * GRID) for value in values(workload, schema, person)] for person in people])
    apart = ((answers[:, None] - answers[None]) ** 2).sum(axis=2)
    differ = np.array([[[one[a] != two[a] for a in schema.roots] for two in people] for one in people])
    found = {}
    for chosen in subsets(schema.roots):
        outside = [i for i, name in enumerate(schema.roots) if name not in chosen]
        neighbours = ~differ[:, :, outside].any(axis=2)
        found[frozenset(chosen)] = Fraction(int(apart[neighbours].max()), GRID * GRID)
    return found


def sources(schema: Schema, names: Iterable[str]) -> frozenset[str]:
    return frozenset(source for name in names for source in schema.derived.get(name, (name,)))


def check(
    queries: Queries, workload: Workload, schema: Schema, *, exact: bool = False, derive: Derive | None = None
) -> None:
    """The claim holds for every set of columns (and is the truth, where that is promised)."""
    truth = true_shifts(workload, schema, derive)
    for chosen in subsets(schema.names):
        claimed, true = queries.squared_shift(chosen), float(truth[sources(schema, chosen)])
        assert claimed >= true * (1 - 1e-12), (chosen, claimed, true)
        if exact:
            assert claimed == pytest.approx(true, rel=1e-12), (chosen, claimed, true)


def families(d: int) -> Iterator[Workload]:
    for k in range(1, d + 1):
        yield Marginals(k)
        yield Conjunctions(k, signed=True)
        yield Parities(k)
        yield Conjunctions(k)


# The families


@pytest.mark.parametrize("sizes", BITS + LARGE + MIXED, ids=str)
def test_every_family_is_exact_but_unsigned_conjunctions_of_bits_and_others(sizes: tuple[int, ...]) -> None:
    schema = schema_of(sizes)
    alike = len({min(size, 3) for size in sizes if size > 1}) == 1
    for workload in families(len(sizes)):
        unsigned = isinstance(workload, Conjunctions) and not workload.signed
        if unsigned and workload.k > sum(size > 1 for size in sizes):
            continue  # nothing is asked
        check(workload.bind(schema), workload, schema, exact=alike or not unsigned)


def test_a_mixed_domain_where_unsigned_conjunctions_are_only_bounded() -> None:
    schema = schema_of((2, 3))
    queries = Conjunctions(2).bind(schema)
    assert queries.squared_shift(["a", "b"]) == 2 == true_shifts(Conjunctions(2), schema)[frozenset("ab")]
    both = Conjunctions(1) + Conjunctions(2)
    assert both.bind(schema).squared_shift(["a", "b"]) == 5 > true_shifts(both, schema)[frozenset("ab")]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 2, 3, 4)], ids=str)
def test_listed_sets(sizes: tuple[int, ...]) -> None:
    schema = schema_of(sizes)
    for number in (1, 2, 3):
        for sets in itertools.combinations(subsets(schema.names)[1:], number):
            if number < 3 or len(sets[0]) < len(sets[1]) < len(sets[2]):  # enough of them
                check(Marginals(sets=sets).bind(schema), Marginals(sets=sets), schema, exact=True)


def test_only_the_attributes_asked_about() -> None:
    schema = schema_of((2, 3, 2, 2))
    for workload, left_out in (
        (Marginals(2, over=("d", "a", "b")), "c"),
        (Conjunctions(2, over=("a", "c")), "b"),
        (Parities(2, over=("c", "d", "a")), "b"),
    ):
        check(workload.bind(schema), workload, schema, exact=True)
        assert workload.bind(schema).squared_shift([left_out]) == 0


def test_weights_are_no_part_of_it() -> None:
    schema = schema_of((2, 3, 2))
    sets = (("a",), ("a", "b"), ("c",))
    half = [LinearQuery(("a", "c"), [0, 0.5, 0.5, 1])]
    for plain, weighted in (
        (Marginals(2), 7 * Marginals(2)),
        (Marginals(sets=sets), Marginals(sets=sets, weights=(1, 0.1, 5))),
        (Conjunctions(2), 9 * Conjunctions(2)),
        (Parities(2), 0.01 * Parities(2)),
        (LinearQueries(half), 3 * LinearQueries([replace(half[0], weight=0.5)])),
        (Marginals(1) + Conjunctions(2), 3 * Marginals(1) + 0.5 * Conjunctions(2)),
    ):
        for chosen in subsets(schema.names):
            assert plain.bind(schema).squared_shift(chosen) == weighted.bind(schema).squared_shift(chosen)
        check(weighted.bind(schema), plain, schema)


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 3), (1, 2, 3), (2, 4, 1)], ids=str)
def test_unions(sizes: tuple[int, ...]) -> None:
    schema = schema_of(sizes)
    alike = {min(size, 3) for size in sizes} in ({2}, {3})
    for workload, exact in (
        (Marginals(1) + Marginals(2), True),
        (Marginals(1) + 2 * Conjunctions(2, signed=True), True),
        (Conjunctions(1) + Conjunctions(2) + Marginals(1), alike),
        (Parities(1) + Parities(2), False),
        (Marginals(1, over=("a",)) + Parities(2), False),
        (Marginals(2) + LinearQueries([LinearQuery("b", np.linspace(0, 1, sizes[1]))]), True),
    ):
        check(workload.bind(schema), workload, schema, exact=exact)


def test_a_union_of_parities_counts_flips_only_while_all_weigh_the_same() -> None:
    schema = schema_of((2,) * 6)
    together = (Parities(2) + Parities(4)).bind(schema)
    assert together.curve is not None
    assert together.squared_shift(schema.names) < (Parities(2) + 2 * Parities(4)).bind(schema).squared_shift(
        schema.names
    )
    assert (Parities(2) + 2 * Parities(4)).bind(schema).curve is None
    assert (Parities(2) + Parities(2, over=("a", "b"))).bind(schema).curve is None


def test_a_union_over_different_attributes() -> None:
    schema = schema_of((2, 2, 2, 2))
    for workload in (
        Parities(2, over=("a", "b")) + Parities(2, over=("c", "d")),
        Marginals(2, over=("a", "b", "c")) + Conjunctions(2, over=("b", "c", "d")),
    ):
        assert workload.bind(schema).curve is None
        check(workload.bind(schema), workload, schema, exact=True)
    turned = Marginals(1, over=("a", "b")) + Marginals(2, over=("b", "a"))
    assert turned.bind(schema).curve is not None
    check(turned.bind(schema), turned, schema, exact=True)


def test_the_definitions_used_here_are_those_of_the_library() -> None:
    schema = schema_of((1, 2, 3, 4))
    people = records(schema)
    codes = {name: np.array([person[name] for person in people]) for name in schema.names}
    linear = LinearQueries([LinearQuery(("c", "b"), [0, 1, 0.5, 1 / 3, 0, 1]), LinearQuery("a", [1])])
    for workload in (*families(3), Marginals(2) + Parities(2, over=("d", "c")), linear):
        by_hand = [[float(value) for value in values(workload, schema, person)] for person in people]
        assert np.array_equal(workload.bind(schema).at_records(codes), np.transpose(by_hand)), workload


# Formulas


@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_coverage_formulas(d: int) -> None:
    schema = Schema(tuple(Attribute(f"x{i}", "boolean") for i in range(d)))
    for k in range(1, min(d, 4) + 1):
        unsigned, signed = Conjunctions(k).bind(schema), Conjunctions(k, signed=True).bind(schema)
        marginals, parities = Marginals(k).bind(schema), Parities(k).bind(schema)
        for t in range(d + 1):
            met = math.comb(d, k) - math.comb(d - t, k)
            chosen = schema.names[d - t :]
            assert unsigned.squared_shift(chosen) == met
            assert signed.squared_shift(chosen) == marginals.squared_shift(chosen) == 2 * met
            assert parities.squared_shift(chosen) <= met
        assert parities.squared_shift(schema.names[:1]) == math.comb(d - 1, k - 1)


@pytest.mark.parametrize("d", range(2, 11))
def test_parities_over_whole_records(d: int) -> None:
    """Flipping all of an odd k flips each parity. For an even k no change flips them all, once k < d."""
    schema = Schema(tuple(Attribute(f"x{i}", "boolean") for i in range(d)))
    for k in range(1, d + 1):
        claimed, count = Parities(k).bind(schema).squared_shift(schema.names), math.comb(d, k)
        assert claimed < count if k % 2 == 0 and k < d else claimed == count


def test_curves_agree_with_the_sum_over_sets() -> None:
    """The two ways to the same number, and the curve is never above it."""
    schema = schema_of((2, 3, 1, 4))
    for workload in (Marginals(2), Conjunctions(3, signed=True), Parities(2), Parities(3)):
        queries = workload.bind(schema)
        assert queries.curve is not None and queries.curve.attributes == ("a", "b", "d")
        plain = Queries(schema, queries.groups)
        for chosen in subsets(schema.names):
            assert queries.squared_shift(chosen) <= plain.squared_shift(chosen)
            if not isinstance(workload, Parities):
                assert queries.squared_shift(chosen) == plain.squared_shift(chosen)


# Columns that follow from others


DERIVED = Schema(
    (
        Attribute("a", "integer", low=0, high=3),
        Attribute("b", "boolean"),
        Attribute("half", "boolean", derived_from=("a",)),
        Attribute("both", "integer", low=0, high=2, derived_from=("half", "b")),
    )
)
RULES: Derive = {"half": lambda r: int(r["a"] >= 2), "both": lambda r: int(r["a"] >= 2) + r["b"]}


@pytest.mark.parametrize(
    "workload",
    [
        *(kind(k, over=("a", "half")) for kind in (Marginals, Conjunctions, Parities) for k in (1, 2)),
        *(kind(k, over=("half", "both")) for kind in (Marginals, Conjunctions, Parities) for k in (1, 2)),
        Marginals(2, over=("b", "half", "both")),
        Marginals(1),
        Parities(2),
        Conjunctions(1, over=("half",)),
        Marginals(sets=(("both",), ("half", "b"))) + Parities(1, over=("half",)),
        LinearQueries([LinearQuery("both", [0, 0.5, 1]), LinearQuery(("a", "half"), [0, 0.2, 0.1, 0.7] * 2)]),
        LinearQueries([LinearQuery(("b", "both"), [0, 1 / 3, 2 / 3, 1 / 3, 2 / 3, 1])]),
    ],
    ids=repr,
)
def test_a_derived_column_moves_with_its_sources(workload: Workload) -> None:
    queries = workload.bind(DERIVED)
    check(queries, workload, DERIVED, derive=RULES)
    for chosen in subsets(DERIVED.names):  # which names are used for the same sources does not matter
        assert queries.squared_shift(chosen) == queries.squared_shift(sorted(sources(DERIVED, chosen)))


def test_two_columns_of_one_source_are_both_charged() -> None:
    queries = Marginals(1, over=("a", "half")).bind(DERIVED)
    assert queries.curve is None
    assert queries.squared_shift(["a"]) == queries.squared_shift(["half"]) == 4
    assert queries.squared_shift(["b"]) == 0


def test_an_unknown_attribute_is_refused_not_free() -> None:
    with pytest.raises(UnknownAttribute, match="Did you mean 'half'"):
        Marginals(1).bind(DERIVED).squared_shift(["halv"])


# Linear queries


def average(sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The average of all codes, each scaled to [0, 1]."""
    axes = np.meshgrid(*(np.linspace(0, 1, size) if size > 1 else np.zeros(1) for size in sizes), indexing="ij")
    return np.mean(axes, axis=0)


@pytest.mark.parametrize("sizes", [(2, 2), (2, 2, 2, 2), (5, 3, 9), (1, 2, 3, 4)], ids=str)
def test_averages_are_added_up_exactly(sizes: tuple[int, ...]) -> None:
    """Halves, quarters and eighths lie on the grid; other values are rounded to it, and may lose exactness by that."""
    schema = schema_of(sizes)
    workload = LinearQueries([LinearQuery(schema.names, average(sizes))])
    queries = workload.bind(schema)
    assert queries.groups[0].shift.shape == "linear"
    check(queries, workload, schema, exact=sizes in ((2, 2), (2, 2, 2, 2)))
    truth = true_shifts(workload, schema)
    assert queries.squared_shift(schema.names) == pytest.approx(float(truth[frozenset(schema.names)]), rel=1e-5)


def test_a_query_that_one_attribute_can_decide_is_a_touch() -> None:
    schema = schema_of((2, 3))
    anything = LinearQueries([LinearQuery(("a", "b"), [0, 1, 1, 1, 1, 1])])
    queries = anything.bind(schema)
    assert queries.groups[0].shift == Shift("touch", (("a", Fraction(1)), ("b", Fraction(1))))
    check(queries, anything, schema, exact=True)


def test_single_attributes_are_charged_less_only_where_all_together_do_not_lose_more() -> None:
    schema = schema_of((2, 2, 2))
    odd = [0, 1, 1, 0, 1, 0, 0, 1]
    mostly_parity = LinearQueries(
        [
            LinearQuery(schema.names, odd),
            LinearQuery(schema.names, odd),
            LinearQuery(schema.names, average((2, 2, 2))),
        ]
    )
    separate = LinearQueries([LinearQuery(("a", "b"), [0, 0, 1, 1]), LinearQuery(("a", "b"), [0, 1, 0, 1])])
    for workload, shapes in ((mostly_parity, {"touch", "linear"}), (separate, {"linear"})):
        queries = workload.bind(schema)
        assert {group.shift.shape for group in queries.groups} == shapes
        check(queries, workload, schema)
    together = replace(
        mostly_parity, each=tuple(replace(q, values=[v / 2 for v in q.values]) for q in mostly_parity.each)
    )
    (group,) = together.bind(schema).groups  # all on the grid, hence measured together
    assert group.shift.shape == "touch"
    check(together.bind(schema), together, schema)
    truth = true_shifts(together, schema)
    assert truth[frozenset("a")] < truth[frozenset("abc")] == pytest.approx(float(group.shift.most))


def test_an_attribute_that_does_not_matter_is_free() -> None:
    schema = schema_of((3, 2, 1))
    workload = LinearQueries([LinearQuery(("a", "b", "c"), [0, 0, 0.3, 0.3, 1, 1])])
    queries = workload.bind(schema)
    assert (
        queries.squared_shift(["b", "c"]) == 0
        and queries.squared_shift(["a", "b", "c"]) == queries.squared_shift("a") == 1
    )
    check(queries, workload, schema, exact=True)
    constant = LinearQueries([LinearQuery(("a", "b"), [0.25] * 6)])
    assert constant.bind(schema).squared_shift(["a", "b", "c"]) == 0 == constant.bind(schema).groups[0].shift.most


def linear_workloads() -> st.SearchStrategy[tuple[tuple[int, ...], LinearQueries]]:
    number = st.sampled_from([0, 1, 1, 0.5, 1 / 3, 0.9, 1e-7])

    @st.composite
    def drawn(draw: st.DrawFn) -> tuple[tuple[int, ...], LinearQueries]:
        sizes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
        each = []
        for _ in range(draw(st.integers(1, 4))):
            names = draw(st.lists(st.sampled_from("abcd"[: len(sizes)]), min_size=1, unique=True))
            cells = math.prod(sizes["abcd".index(name)] for name in names)
            each.append(LinearQuery(tuple(names), draw(st.lists(number, min_size=cells, max_size=cells))))
        return sizes, LinearQueries(each)

    return drawn()


@settings(max_examples=120, deadline=None)
@given(linear_workloads())
def test_any_linear_queries_are_bounded(drawn: tuple[tuple[int, ...], LinearQueries]) -> None:
    sizes, workload = drawn
    check(workload.bind(schema_of(sizes)), workload, schema_of(sizes))


@settings(max_examples=60, deadline=None)
@given(linear_workloads())
def test_any_linear_queries_are_bounded_without_comparing(drawn: tuple[tuple[int, ...], LinearQueries]) -> None:
    sizes, workload = drawn
    schema = schema_of(sizes)
    compared = workload.bind(schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensitivity, "MOST_COMPARED", 1)
        spans = workload.bind(schema)
    check(spans, workload, schema)
    for name in schema.names:
        assert spans.squared_shift([name]) >= compared.squared_shift([name]) * (1 - 1e-12)
    assert {group.shift.shape for group in spans.groups if group.values is not None and group.values.shape[1] > 1} <= {
        "touch"
    }


def test_large_sets_are_not_compared_cell_by_cell() -> None:
    one_value = Attribute("planet", "categorical", values=("earth",))
    schema = Schema((Attribute("age", "integer", low=0, high=1999), one_value))
    by_age = LinearQueries([LinearQuery("age", np.linspace(0, 0.5, 2000)), LinearQuery("age", np.full(2000, 0.3))])
    (group,) = by_age.bind(schema).groups
    assert group.shift == Shift("touch", (("age", Fraction(1, 4)),))
    with_planet = LinearQueries([LinearQuery(("age", "planet"), np.linspace(0, 0.5, 2000))])
    assert with_planet.bind(schema).groups[0].shift == Shift("touch", (("age", Fraction(1, 4)),))
    constant = LinearQueries([LinearQuery("age", np.ones(2000))])
    assert constant.bind(schema).groups[0].shift == Shift("touch", ())


# The checks themselves


def test_a_wrong_shift_is_caught() -> None:
    schema = schema_of((2, 3, 2))
    right = Marginals(2).bind(schema)
    half = {name: Fraction(1) for name in schema.names}
    wrong = Queries(schema, [replace(g, shift=sensitivity.touch(g.attributes, half)) for g in right.groups])
    with pytest.raises(AssertionError):
        check(wrong, Marginals(2), schema)
    with pytest.raises(AssertionError):
        check(Queries(schema, right.groups, sensitivity.coverage(schema.names, 2, 1)), Marginals(2), schema)


def test_parities_at_half_their_coverage_are_caught() -> None:
    schema = schema_of((2, 2, 2))
    right = Parities(2).bind(schema)
    table = tuple(amount / 2 for amount in sensitivity.coverage(schema.names, 2, 1).table)
    with pytest.raises(AssertionError):
        check(Queries(schema, right.groups, Curve(schema.names, table)), Parities(2), schema)


def test_conjunctions_of_larger_domains_counted_like_bits_are_caught() -> None:
    schema = schema_of((3, 3))
    one = {name: Fraction(1) for name in schema.names}
    groups = [replace(g, shift=sensitivity.touch(g.attributes, one)) for g in Conjunctions(1).bind(schema).groups]
    with pytest.raises(AssertionError):
        check(Queries(schema, groups), Conjunctions(1), schema)


def test_a_derived_column_that_is_not_charged_is_caught() -> None:
    workload = Marginals(1, over=("b", "half"))
    uncharged = [
        replace(g, shift=sensitivity.touch(g.attributes, {"b": Fraction(2)})) for g in workload.bind(DERIVED).groups
    ]
    with pytest.raises(AssertionError):
        check(Queries(DERIVED, uncharged), workload, DERIVED, derive=RULES)


def test_squares_added_up_where_distances_should_be_are_caught() -> None:
    schema = schema_of((3, 3))
    mean = LinearQueries([LinearQuery(("a", "b"), average((3, 3)))])
    (group,) = mean.bind(schema).groups
    singles = [replace(group, shift=Shift("touch", ((name, amount),))) for name, amount in group.shift.amounts]
    with pytest.raises(AssertionError):
        check(Queries(schema, singles), mean, schema)
