"""Statistics: what is measured, what a query is answered with, and what it costs."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp.errors import BudgetError, NablaDPError, QueryError
from nabladp.mechanisms.allocation import allocate, allocate_by_role
from nabladp.mechanisms.mechanism import ReleaseContext
from nabladp.mechanisms.statistics import Statistics, estimates
from nabladp.mechanisms.statistics.estimates import Measured
from nabladp.mechanisms.statistics.grids import Bins, Grid, strategy
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Pure, Rho
from nabladp.release import Release, Session
from nabladp.schema import Attribute, Schema
from nabladp.sql.domains import Domain
from nabladp.tables import open_table

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("n", "s", "w")),
        Attribute("age", "integer", low=0, high=99),
        Attribute("income", "real", edges=(0, 10_000, 200_000), unknown="clamp", null="category"),
        Attribute("sick", "boolean"),
        Attribute("year", "integer", low=2020, high=2026, public=True),
    )
)
ROWS = 3000


@pytest.fixture(scope="module")
def people() -> pa.Table:
    draws = np.random.default_rng(3)
    income = [
        None if missing else float(value)
        for missing, value in zip(draws.random(ROWS) < 0.1, draws.lognormal(10, 0.7, ROWS), strict=True)
    ]
    return pa.table(
        {
            "region": draws.choice(["n", "s", "w"], ROWS, p=[0.6, 0.3, 0.1]).tolist(),
            "age": draws.integers(0, 100, ROWS),
            "income": income,
            "sick": draws.random(ROWS) < 0.2,
            "year": draws.integers(2020, 2027, ROWS),
        }
    )


@pytest.fixture
def session(people: pa.Table, tmp_path: Path) -> Session:
    budget = Budget(per_attribute=CDP(20))
    return Session(people, SCHEMA, budget, tmp_path / "ledger.db", noise=NoiseSource.seeded(1), new_ledger=True)


def truth(people: pa.Table, query: str) -> list[tuple[Any, ...]]:
    import duckdb

    return duckdb.connect().execute(query).fetchall()


# Answers


QUERY = """SELECT region, COUNT(*) AS people, COUNT(income) AS known, AVG(income), SUM(age), STDDEV(age),
                  MEDIAN(income), QUANTILE(age, 0.9), COUNT(DISTINCT age) AS ages
           FROM people WHERE age >= 18 GROUP BY region ORDER BY region"""


@pytest.mark.parametrize("budget", [CDP(8), Pure(40)], ids=["cdp", "pure"])
@pytest.mark.parametrize("quantiles", ["cdf", "point"])
def test_answers_are_near_the_truth(session: Session, people: pa.Table, budget: Any, quantiles: str) -> None:
    table = open_table(people, SCHEMA)
    rows = Statistics(budget, QUERY, quantiles=quantiles).run(table, NoiseSource.seeded(5)).answer.rows
    for row, true in zip(rows, truth(people, QUERY), strict=True):
        near = {
            "people": (true[1], 30),
            "known": (true[2], 30),
            "avg_income": (true[3], 3000),
            "sum_age": (true[4], 2500),
            "stddev_age": (true[5], 2),
            "median_income": (true[6], 5000),
            "ages": (true[8], 30),
        }
        assert row["region"] == true[0]
        for name, (value, width) in near.items():
            assert abs(row[name] - value) < width, name


def test_sums_are_of_numbers_and_not_of_bins(people: pa.Table) -> None:
    query = "SELECT AVG(income) FROM people"
    (row,) = Statistics(CDP(1000), query).run(open_table(people, SCHEMA), NoiseSource.seeded(1)).answer.rows
    assert row["avg_income"] == pytest.approx(truth(people, query)[0][0], rel=1e-3)


def test_bins_do_not_matter_where_the_ends_are_the_same(people: pa.Table) -> None:
    """A real attribute may give its ends alone."""
    query = """SELECT region, AVG(income), SUM(income), MEDIAN(income), VAR_POP(income)
               FROM t WHERE income > 500 GROUP BY region"""
    ends = Attribute("income", "real", low=0, high=200_000, unknown="clamp", null="category")
    plain = Schema(tuple(ends if own.name == "income" else own for own in SCHEMA))
    one, other = (
        Statistics(CDP(1), query).run(open_table(people, schema), NoiseSource.seeded(4)) for schema in (SCHEMA, plain)
    )
    assert one.to_json() == other.to_json()


def test_the_order_of_rows_does_not_matter(people: pa.Table) -> None:
    turned = people.take(pa.array(np.random.default_rng(1).permutation(ROWS)))
    mechanism = Statistics(CDP(1), QUERY)
    one, other = (mechanism.run(open_table(t, SCHEMA), NoiseSource.seeded(2)).to_json() for t in (people, turned))
    assert one == other


def test_all_declared_groups_are_answered_each_with_noise_of_its_own() -> None:
    nobody = pa.table(
        {"region": ["n"] * 5, "age": [1] * 5, "income": [1.0] * 5, "sick": [True] * 5, "year": [2020] * 5}
    )
    query = "SELECT region, age, COUNT(*) FROM t GROUP BY region, age"
    rows = Statistics(CDP(0.1), query).run(open_table(nobody, SCHEMA), NoiseSource.seeded(1)).answer.rows
    assert len(rows) == 300 and len({row["count"] for row in rows}) > 20


def test_what_no_private_attribute_decides_is_exact_and_free(people: pa.Table) -> None:
    query = "SELECT year, COUNT(*) AS people FROM people GROUP BY year ORDER BY year"
    mechanism = Statistics(CDP(0.1), query)
    assert mechanism.guarantee(SCHEMA, ROWS).rho("age") == 0
    rows = mechanism.run(open_table(people, SCHEMA), NoiseSource()).answer.rows
    assert [(row["year"], row["people"]) for row in rows] == truth(people, query)


def test_a_value_with_a_single_number_is_answered(people: pa.Table) -> None:
    query = "SELECT AVG(CASE WHEN sick THEN 1 END) AS a, VAR_POP(CASE WHEN sick THEN 1 END) AS v FROM t"
    (row,) = Statistics(CDP(1), query).run(open_table(people, SCHEMA), NoiseSource.seeded(1)).answer.rows
    assert (row["a"], row["v"]) == (1, 0)


def test_hidden_aggregates_are_on_the_bill(session: Session) -> None:
    cost = session.cost("SELECT region, COUNT(*) FROM t GROUP BY region HAVING AVG(income) > 5", CDP(1))
    assert {line.attribute for line in cost.bill.lines} == {"region", "income"}
    assert any("not selected" in name for line in cost.bill.lines for name in line.pays_for)


def test_equal_aggregates_are_measured_once() -> None:
    once = Statistics(CDP(1), "SELECT AVG(age) FROM t WHERE sick").plan(SCHEMA)
    twice = Statistics(
        CDP(1), ["SELECT AVG(age), avg(age) AS a FROM t WHERE sick", "SELECT COUNT(*) FROM t WHERE sick"]
    )
    assert [block.parts for block in twice.plan(SCHEMA).blocks] == [block.parts for block in once.blocks]


def test_keys_in_any_order_are_the_same_groups(people: pa.Table) -> None:
    texts = ["SELECT sick, region, COUNT(*) AS n FROM t WHERE age > 9 GROUP BY 1, 2 ORDER BY 1, 2"]
    texts.append(
        "SELECT sick, region, AVG(age), COUNT(*) AS n FROM t WHERE age > 9 GROUP BY region, sick ORDER BY 1, 2"
    )
    mechanism = Statistics(CDP(1), texts)
    assert len(mechanism.plan(SCHEMA).blocks) == 1
    one, other = mechanism.run(open_table(people, SCHEMA), NoiseSource.seeded(1)).answers
    assert [(row["sick"], row["region"], row["n"]) for row in one.rows] == [
        (row["sick"], row["region"], row["n"]) for row in other.rows
    ]


SEVERAL = (
    "SELECT region, AVG(age), COUNT(*) AS n FROM t WHERE sick GROUP BY region HAVING VAR_POP(age) > 3",
    "SELECT region, COUNT(*) AS people, SUM(age) FROM t WHERE sick GROUP BY region ORDER BY MEDIAN(income)",
    "SELECT region, STDDEV_POP(age) FROM people WHERE (sick) GROUP BY 1",
)


def test_several_queries_share_measurements_and_one_bill(session: Session, people: pa.Table) -> None:
    """Three queries, two values by one grouping: as many blocks, and one count of rows for all."""
    mechanism = Statistics(CDP(1), SEVERAL)
    blocks = mechanism.plan(SCHEMA).blocks
    assert [[part.kind for part in block.parts] for block in blocks] == [["count", "squares"], ["values", "cdf"]]
    lines = [line for line in mechanism.bill(SCHEMA).lines if line.attribute == "region"]
    named = {name for line in lines for name in line.pays_for}
    assert {"n (query 1)", "people (query 2)", "stddev_pop_age (query 3)"} <= set(lines[0].pays_for)
    assert "VAR_POP(age) (not selected) (query 1)" in {name.replace('"', "") for name in named}
    assert "QUANTILE(income) (not selected) (query 2)" in {name.replace('"', "") for name in named}
    figure = mechanism.guarantee(SCHEMA, ROWS).figure("region")
    assert figure.rho == pytest.approx(sum(line.cost for line in lines)) and figure.rho <= 0.5
    answers = session.sql(list(SEVERAL), CDP(1)).answers
    assert [row["n"] for row in sorted(answers[0].rows, key=lambda row: str(row["region"]))] == [
        row["people"] for row in sorted(answers[1].rows, key=lambda row: str(row["region"]))
    ]


def test_totals_of_a_rollup_are_the_sums_of_their_groups(people: pa.Table) -> None:
    query = "SELECT region, SUM(age) AS s, COUNT(*) AS n FROM people WHERE age < 90 GROUP BY ROLLUP(region)"
    rows = Statistics(CDP(1), query).run(open_table(people, SCHEMA), NoiseSource.seeded(1)).answer.rows
    parts, (whole,) = [row for row in rows if row["region"]], [row for row in rows if not row["region"]]
    assert whole["s"] == sum(row["s"] for row in parts) and whole["n"] == sum(row["n"] for row in parts)
    width = [row["n_high"] - row["n_low"] for row in (*parts, whole)]
    assert width[-1] == pytest.approx(math.sqrt(3) * width[0], rel=0.1)


NESTED = "SELECT region, age, COUNT(*) AS n, SUM(age) AS s FROM people WHERE age < 20 GROUP BY {}"


@pytest.mark.parametrize("budget", [CDP(1), Pure(1)], ids=["cdp", "pure"])
@pytest.mark.parametrize(
    "sets", ["ROLLUP(region, age)", "CUBE(region, age)", "GROUPING SETS ((region), (age), ())", "ROLLUP(age, region)"]
)
def test_groups_of_all_sets_are_consistent(people: pa.Table, budget: Any, sets: str) -> None:
    mechanism = Statistics(budget, NESTED.format(sets))
    rows = mechanism.run(open_table(people, SCHEMA), NoiseSource.seeded(1)).answer.rows
    totals: dict[tuple[bool, bool], dict[str, float]] = {}
    for row in rows:
        own = totals.setdefault((row["region"] is None, row["age"] is None), {"n": 0.0, "s": 0.0})
        own["n"], own["s"] = own["n"] + row["n"], own["s"] + row["s"]
    assert len(totals) >= 3
    for own in totals.values():
        assert own == pytest.approx(totals[True, True])


def test_queries_of_one_release_are_consistent(people: pa.Table) -> None:
    texts = [f"SELECT {key}, COUNT(*) AS n FROM t WHERE age < 50 GROUP BY {key}" for key in ("region", "sick", "age")]
    answers = Statistics(CDP(0.3), texts).run(open_table(people, SCHEMA), NoiseSource.seeded(1)).answers
    totals = [sum(row["n"] for row in answer.rows) for answer in answers]
    assert totals == pytest.approx([totals[0]] * 3)


def test_groups_of_all_rows_sum_to_their_number(people: pa.Table) -> None:
    """Which is public: it makes the noise of each of k groups smaller by a factor of √(1 − 1/k)."""
    mechanism = Statistics(CDP(0.05), "SELECT sick, COUNT(*) AS n FROM t GROUP BY sick")
    rows = mechanism.run(open_table(people, SCHEMA), NoiseSource.seeded(1)).answer.rows
    assert sum(row["n"] for row in rows) == pytest.approx(ROWS)
    scale = mechanism.calibration(SCHEMA).scales(0, 0, ROWS)
    assert scale is not None and scale[0] > 20
    assert rows[0]["n_high"] - rows[0]["n_low"] == pytest.approx(2 * 1.96 * scale[0] / math.sqrt(2), abs=2)


def test_coarse_groups_take_a_small_share_where_their_parts_are_many() -> None:
    """With 20 parts each: a tenth for the groups makes their variance 1/(0.1 + 0.9/20) = 6.9 instead of 20."""
    nested = Statistics(CDP(1), NESTED.format("ROLLUP(region, age)"))
    blocks = nested.plan(SCHEMA).blocks
    assert [len(block.keys) for block in blocks] == [2, 1, 0]
    expected = nested.expected_error(SCHEMA, ROWS).columns
    flat = Statistics(CDP(1), NESTED.format("region, age")).expected_error(SCHEMA, ROWS).columns
    assert [own.half_width for own in expected] == pytest.approx([own.half_width for own in flat], rel=0.12)  # type: ignore[operator]
    few = Statistics(CDP(1), "SELECT region, sick, COUNT(*) FROM t WHERE age < 9 GROUP BY ROLLUP(region, sick)")
    assert [len(block.keys) for block in few.plan(SCHEMA).blocks] == [2, 0]  # six parts of the total, two of a region


def test_the_number_of_all_rows_is_public(people: pa.Table) -> None:
    query = "SELECT region, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY ROLLUP(region)"
    rows = Statistics(CDP(0.1), query).run(open_table(people, SCHEMA), NoiseSource.seeded(1)).answer.rows
    assert [row["n"] for row in rows if not row["region"]] == [ROWS]


def test_sampling_error_widens_every_interval(people: pa.Table) -> None:
    """It changes neither the values of counts nor the cost of a query that has a variance anyway."""
    query = """SELECT region, COUNT(*) AS n, AVG(age) AS a, VAR_POP(age) AS v, COUNT(DISTINCT age) AS d
               FROM t GROUP BY region"""
    table = open_table(people, SCHEMA)
    plain, wide = Statistics(CDP(1), query), Statistics(CDP(1), query, sampling_error=True)
    assert plain.guarantee(SCHEMA, ROWS) == wide.guarantee(SCHEMA, ROWS)
    for one, other in zip(*(own.run(table, NoiseSource.seeded(1)).answer.rows for own in (plain, wide)), strict=True):
        for name in "nav":
            assert one[name] == other[name] and other[f"{name}_low"] < one[f"{name}_low"], name
            assert one[f"{name}_high"] < other[f"{name}_high"], name
        assert other["d_high"] == 100
    with_sum = Statistics(CDP(1), "SELECT SUM(age), AVG(income) FROM t", sampling_error=True)
    assert [{part.kind for part in block.parts} for block in with_sum.plan(SCHEMA).blocks] == [
        {"squares"},
        {"values", "squares"},
        {"count"},
    ]


# Through a session


def test_a_query_is_released_recorded_and_read_again(session: Session, tmp_path: Path) -> None:
    answer = session.sql(QUERY, CDP(2), to=tmp_path / "out")
    assert answer.to_pandas().columns[0] == "region" and len(answer) == 3
    stored = Release.load(tmp_path / "out")
    other = session.sql(QUERY, CDP(1), to=tmp_path / "other", groups={"region": ["n"]}, sampling_error=True)
    assert Release.load(tmp_path / "other").output.answer.rows == other.rows
    view = other.release.output.views(ReleaseContext(SCHEMA, ROWS, {}, None))[0]
    assert any("simple random sample" in note for note in view.notes) and ("query", QUERY) in view.facts
    assert ("groups of region", "n; all others are OTHER") in view.facts
    assert stored.output.answer.rows == answer.rows and stored.guarantee == answer.release.guarantee
    assert (tmp_path / "out" / "report.html").exists()


def test_the_dry_run_says_what_the_release_costs(session: Session) -> None:
    cost, before = session.cost(QUERY, CDP(2)), session.left()
    assert session.left() == before and cost.fits
    assert session.cost(QUERY, budget=CDP(2)).bill.lines == cost.bill.lines
    answer = session.sql(QUERY, CDP(2))
    assert cost.cost.guarantee == answer.release.guarantee == answer.bill.guarantee
    for name, figure in answer.bill.guarantee.per_attribute().items():
        lines = [line.cost for line in answer.bill.lines if line.attribute == name]
        assert sum(lines) == pytest.approx(figure.rho)
    assert cost.bill.figure(["age", "income"]).rho <= sum(cost.bill.figure(name).rho for name in ("age", "income"))


def test_the_least_budget_for_an_error(session: Session) -> None:
    budget = session.budget_for(QUERY, {"people": 4, "avg_income": 2000})
    expected = session.cost(QUERY, budget).expected
    assert expected.half_width("people") <= 4 and expected.half_width("avg_income") <= 2000
    less = session.cost(QUERY, CDP(float(budget.eps0) * 0.98)).expected  # type: ignore[union-attr]
    assert less.half_width("people") > 4 or less.half_width("avg_income") > 2000


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.sql("SELECT regoin, COUNT(*) FROM t GROUP BY regoin", CDP(1)), "no column 'regoin'"),
        (lambda s: s.sql("SELECT COUNT(*) FROM t WHERE sick", 0.5), "budget"),
        (lambda s: s.sql("SELECT COUNT(*) FROM t WHERE sick", CDP(1), person=Pure(1)), "Pure, or none"),
        (lambda s: s.cost("SELECT COUNT(*) FROM t"), "needs a budget"),
        (lambda s: s.budget_for("SELECT COUNT(*) AS n FROM t WHERE sick", {"m": 3}), "no column 'm'"),
        (lambda s: s.budget_for("SELECT COUNT(*) AS n FROM t WHERE sick", {}), "half-width above 0"),
        (lambda s: s.sql("SELECT COUNT(*) FROM t WHERE sick", CDP(1e-9)), "too small"),
        (lambda s: s.sql([], CDP(1)), "a query, or a list of queries"),
        (lambda s: s.sql("SELECT COUNT(*) FROM t WHERE sick", CDP(1), quantiles="both"), "quantiles"),
    ],
)
def test_what_is_wrong_is_refused_and_costs_nothing(session: Session, call: Any, said: str) -> None:
    before = session.left()
    with pytest.raises(NablaDPError, match=said):
        call(session)
    assert session.left() == before


# Budgets


def test_allocation_by_role_with_equal_roles_is_that_of_marginals() -> None:
    touched = [frozenset("ab"), frozenset("bc"), frozenset("c"), frozenset("d")]
    weights, budgets = (
        [Fraction(1), Fraction(2), Fraction(1), Fraction(3)],
        {"a": 10**9, "b": 10**8, "c": 10**10, "d": 7},
    )
    plain = allocate(touched, weights, budgets)
    by_role = allocate_by_role([dict.fromkeys(names, Fraction(1)) for names in touched], [1, 2, 1, 3], budgets)
    assert max(abs(a - b) for a, b in zip(plain, by_role, strict=True)) <= 1


def test_no_budget_is_overdrawn_at_uneven_budgets() -> None:
    query = "SELECT region, AVG(income), VAR_POP(income), COUNT(*) FROM t WHERE age > 17 GROUP BY region"
    mechanism = Statistics(Rho(4), query, budgets={"income": Rho(0.1)})
    guarantee = mechanism.guarantee(SCHEMA, ROWS)
    assert guarantee.rho("income") <= 0.1 and guarantee.rho("region") <= 4 and guarantee.rho("age") <= 4


def test_a_name_that_stands_for_the_grid_of_another_is_refused() -> None:
    """Its column would be read in place of the numbers, and nobody would pay for it."""
    with pytest.raises(NablaDPError, match="control character"):
        Attribute("income\x1f", "boolean")


def test_a_budget_too_small_is_refused() -> None:
    with pytest.raises(BudgetError, match="too small"):
        Statistics(CDP(1e-8), "SELECT COUNT(*) FROM t WHERE sick").guarantee(SCHEMA, ROWS)


# Grids, bins and matrices


def test_a_grid_clamps_before_it_casts() -> None:
    real = Grid.centred(Domain("number", low=-1.0, high=3.0), 10)
    values = np.array([-1e300, -1.0, 1.0, 3.0, np.inf, np.nan])
    assert real.steps(values).tolist()[:5] == [-1024, -1024, 0, 1024, 1024]
    whole = Grid.centred(Domain("number", low=3, high=8, whole=True), 10)
    assert whole.steps(np.array([3, 8, 5, 99])).tolist() == [-5, 5, -1, 5]


def test_the_toeplitz_matrix_is_that_of_the_theory() -> None:
    chosen = strategy(1024, False)
    assert (chosen.change, chosen.member) == (354307, 214793)
    assert chosen.change / 256**2 == pytest.approx(5.41, abs=0.01)
    assert 2 * chosen.member / 256**2 == pytest.approx(6.56, abs=0.01)
    prefix = chosen.prefix @ chosen.matrix
    np.testing.assert_allclose(prefix, np.tril(np.ones((1024, 1024))), atol=1e-6)


def test_bins_hold_what_they_say() -> None:
    bins = Bins.of(Domain("number", low=0.0, high=250_000.0))
    for value in (0.0, 1.0, 999.9, 250_000.0):
        low, high = bins.bounds(int(bins.index(np.array([value]))[0]))
        assert low <= value <= high


# Intervals


def test_a_mean_over_nobody_has_an_interval_and_no_value() -> None:
    grid = Grid(50.0, 0.5, -100, 100)
    found = estimates.mean(Measured(np.array([5.0, 900.0]), 30.0), Measured(np.array([0.4, 100.0]), 3.0), grid, 1.96)
    assert math.isnan(found.value[0]) and (found.low[0], found.high[0]) == (0.0, 100.0)
    assert found.low[1] < found.value[1] < found.high[1]


def test_a_quantile_whose_bins_are_empty_is_covered() -> None:
    """Prefix sums that stay flat around the rank: the first and the last compatible bin, not a count of them."""
    bins = Bins.of(Domain.of_values("number", range(10)))
    prefix = np.array([[0.0, 50, 50, 50, 50, 50, 50, 100, 100, 100]])
    found = estimates.quantile(prefix, np.full(10, 2.0), Measured(np.array([100.0]), 0.0), bins, 0.5, 1.96)
    assert (found.low[0], found.high[0]) == (1, 7)


def test_refusals_name_what_would_work() -> None:
    with pytest.raises(QueryError, match="divide by 0"):
        Statistics(CDP(1), "SELECT AVG(income / age) FROM t").guarantee(SCHEMA, 1)
