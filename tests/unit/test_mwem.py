"""MWEM: parameters, the bound, updates, what it returns, and what it refuses."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from nabladp import CDP, MWEM, NoiseSource, Pure, Schema, Session
from nabladp.errors import BudgetError, DomainTooLarge, MechanismError, NablaDPError, PlanError
from nabladp.mechanisms.mwem.mechanism import MOST_ROUNDS, Bound
from nabladp.mechanisms.mwem.output import FittedDistribution
from nabladp.mechanisms.mwem.round_run import EntropicFit, PaperUpdate, gibbs
from nabladp.noise import Packings
from nabladp.privacy import Budget, Rho
from nabladp.schema import Attribute
from nabladp.tables import CodedTable, open_table
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals, Parities
from nabladp.workloads.cube import Cube


def bits(d: int) -> Schema:
    return Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(d)))


def table(d: int = 6, n: int = 3000, seed: int = 0) -> CodedTable:
    """Bits that lean on their left neighbour."""
    draws = np.random.default_rng(seed)
    columns = [draws.integers(0, 2, n)]
    for _ in range(d - 1):
        columns.append(np.where(draws.random(n) < 0.75, columns[-1], draws.integers(0, 2, n)))
    return CodedTable(bits(d), {f"b{i}": column for i, column in enumerate(columns)})


def error(output: FittedDistribution, rows: CodedTable) -> float:
    truth = output.queries.counts(rows) / (rows.n * output.queries.grids)
    return float(np.abs(output.answers - truth).mean())


# ---- rounds and the bound --------------------------------------------------------------------------------------------


def test_the_bound_is_the_theorems() -> None:
    n, eps0, rounds, per_round, m, d = 5000, 0.4, 30, 3, 60, 6
    found = Bound(eps0**2 / 2, d * math.log(2), m, 0.5, n).at(rounds, per_round)
    step = 2 * rounds / (n * eps0) ** 2 + 4 * d * math.log(2) / (rounds * per_round)
    assert found == pytest.approx(math.sqrt(step) + math.sqrt(2 * rounds) / (eps0 * n) * math.log(m))


@pytest.mark.parametrize("n", [10, 500, 20_000, 10**7])
def test_rounds_are_those_of_the_smallest_bound(n: int) -> None:
    mechanism = MWEM(CDP(0.3), Conjunctions(2, signed=True), update="paper")
    told = mechanism.expected_error(bits(6), n)
    assert told.bound == told.bound_best_rounds
    fitted = MWEM(CDP(0.3), Conjunctions(2, signed=True)).expected_error(bits(6), n)
    assert fitted.rounds == min(told.rounds or 0, 20)  # 60 queries, three at a time
    bound = Bound(0.045, 6 * math.log(2), 60, 0.5, n)
    tried = range(1, MOST_ROUNDS + 1, 1 if n < 1000 else 7)
    assert told.bound is not None and told.bound <= min(bound.at(t, 3) for t in tried) * (1 + 1e-12)
    assert told.rounds is not None and told.per_round == 3
    assert told.bound_one_query is not None and told.bound_one_query > told.bound


def test_nothing_is_promised_about_rounds_before_rows_are_known() -> None:
    told = MWEM(CDP(0.3), Conjunctions(2)).expected_error(bits(4), 0)
    assert told.rounds is None and told.bound is None and "number of rows" in told.to_json()["summary"]["rounds"]


def test_as_many_disjoint_queries_as_fit() -> None:
    def per_round(workload: Any, schema: Schema) -> float:
        return MWEM(CDP(1), workload, rounds=1).expected_error(schema, 10).per_round

    assert per_round(Conjunctions(2), bits(7)) == 3
    assert per_round(Conjunctions(3), bits(7)) == 2
    assert per_round(Marginals(sets=[("b0", "b1"), ("b1", "b2"), ("b2", "b3")]), bits(4)) == 2
    assert per_round(Conjunctions(2), bits(20)) == 10  # two blocks of ten


def test_blocks_are_cut_anew_each_round_by_the_seed_alone() -> None:
    schema = bits(20)
    claims = [MWEM(CDP(1), Conjunctions(2), rounds=6, seed=seed).guarantee(schema, 50) for seed in (0, 0, 1)]
    assert claims[0] == claims[1] != claims[2]
    assert len(claims[0].terms) > 12  # a linear and a squares term for every block of every round
    assert all(claims[0].rho(name) == pytest.approx(0.5) for name in schema.names)
    given = MWEM(CDP(1), Conjunctions(2), rounds=2, per_round=5)
    assert given.expected_error(schema, 50).per_round == 5
    assert given.guarantee(schema, 50).per_person().rho < claims[0].per_person().rho


def test_a_set_that_fits_no_block_is_still_picked_and_no_round_is_empty() -> None:
    schema = bits(17)
    wide = Marginals(sets=[("b0", "b1"), tuple(f"b{i}" for i in range(2, 17))])
    for seed in range(5):
        mechanism = MWEM(CDP(9), wide, rounds=6, seed=seed, update="paper", rows=0)
        assert mechanism.guarantee(schema, 0 if seed else 40).per_person().rho > 0
        assert mechanism.expected_error(schema, 40).per_round >= 1
    rows = CodedTable(schema, {name: np.ones(40, dtype=np.int64) for name in schema.names})
    made = MWEM(CDP(9), wide, rounds=6, seed=2, rows=0).run(rows, NoiseSource.seeded(1))
    assert made.measured.query.max() >= 4  # a cell of the wide set


@pytest.mark.parametrize(
    ("workload", "d", "per_round", "largest"),
    [
        (Marginals(sets=[("b0", f"b{i}") for i in range(1, 20)]), 20, 3, 1),  # all share b0
        (Conjunctions(2), 18, 9, 8),  # two blocks of nine
    ],
)
def test_more_than_the_blocks_hold_is_refused(workload: Any, d: int, per_round: int, largest: int) -> None:
    with pytest.raises(MechanismError, match=f"at most {largest}"):
        MWEM(CDP(1), workload, per_round=per_round, rounds=4).guarantee(bits(d), 50)
    assert MWEM(CDP(1), workload, per_round=largest, rounds=4).expected_error(bits(d), 50).per_round == largest


def test_columns_with_one_value_cost_nothing_and_are_not_asked_about() -> None:
    schema = Schema((Attribute("one", "categorical", values=("x",)), *bits(2).attributes))
    mechanism = MWEM(CDP(1), Marginals(2), rounds=2)
    assert mechanism.guarantee(schema, 10).rho("one") == 0
    assert mechanism.expected_error(schema, 10).per_round == 2  # b0 with "one", b1 with "one"
    rows = CodedTable(schema, {"one": np.zeros(9, int), "b0": np.ones(9, int), "b1": np.ones(9, int)})
    assert np.isfinite(mechanism.run(rows, NoiseSource.seeded(1)).answers).all()
    with pytest.raises(MechanismError, match="No row can move"):
        MWEM(CDP(1), Marginals(1, over=("one",))).guarantee(schema, 10)


def test_very_many_columns_with_one_value_are_refused_before_anything_is_booked() -> None:
    ones = tuple(Attribute(f"c{i}", "categorical", values=("x",)) for i in range(70))
    with pytest.raises(DomainTooLarge, match="60 columns"):
        MWEM(CDP(1), Marginals(2)).guarantee(Schema((*bits(2).attributes, *ones)), 10)


def test_the_bound_is_told_only_where_the_theorem_speaks() -> None:
    schema = bits(4)
    assert MWEM(CDP(1), Conjunctions(2)).expected_error(schema, 99).bound is not None
    for silent in (
        MWEM(CDP(1), Conjunctions(2) + 2 * Parities(2)),
        MWEM(CDP(1), Conjunctions(2), budgets={"b0": CDP(0.5)}),
    ):
        assert silent.expected_error(schema, 99).bound is None
        assert silent.run(table(4, 99), NoiseSource.seeded(1)).bound is None
    assert MWEM(CDP(1), Conjunctions(2)).expected_error(bits(18), 99).bound is None


@pytest.mark.parametrize("budget", [CDP(1000), CDP(1.6e6), Rho(1e-9)])
def test_budgets_far_off_neither_break_a_run_nor_its_price(budget: Any) -> None:
    rows = CodedTable(bits(3), {f"b{i}": np.tile([0, 1], 100_000) for i in range(3)})
    mechanism = MWEM(budget, Conjunctions(1), rounds=1, budgets={"b2": CDP(1e-3)}, rows=0)
    assert np.isfinite(mechanism.run(rows, NoiseSource.seeded(1)).answers).all()
    over = MWEM(budget, Conjunctions(1, over=("b0",)), rounds=1, budgets={"b2": Rho(1e-18)}, rows=0)
    assert over.guarantee(bits(3), 200_000).rho("b2") == 0  # what is not asked about limits nothing


def test_too_many_rows_and_too_small_budgets_are_refused_before_anything_is_booked() -> None:
    with pytest.raises(DomainTooLarge, match="rows"):
        MWEM(CDP(1), Conjunctions(1)).guarantee(bits(2), 1 << 41)
    for n in (0, 10):
        with pytest.raises(BudgetError, match="too small"):
            MWEM(CDP(1e-9), Conjunctions(1)).guarantee(bits(2), n)


# ---- learning --------------------------------------------------------------------------------------------------------


def test_a_good_budget_gives_good_answers() -> None:
    rows = table()
    output = MWEM(CDP(5), Conjunctions(2, signed=True), rounds=20).run(rows, NoiseSource.seeded(1))
    assert error(output, rows) < 0.004
    flat = MWEM(CDP(5), Conjunctions(2, signed=True), rounds=1, per_round=1).run(rows, NoiseSource.seeded(1))
    assert error(output, rows) < error(flat, rows) / 10


def test_joint_picks_beat_single_ones_at_the_same_budget() -> None:
    rows = table(8, 2000)
    workload = Conjunctions(2, signed=True)
    seeds = range(3)
    joint = [error(MWEM(CDP(0.3), workload, rounds=12).run(rows, NoiseSource.seeded(s)), rows) for s in seeds]
    single = [
        min(
            error(MWEM(CDP(0.3), workload, rounds=t, per_round=1).run(rows, NoiseSource.seeded(s)), rows)
            for t in (12, 48)
        )
        for s in seeds
    ]
    assert np.mean(single) > 1.3 * np.mean(joint)


def test_the_literal_joint_step_overshoots_and_the_fit_does_not() -> None:
    """All records alike in every attribute: ten corrections of 0.1 at once are one of nearly 1."""
    cube = Cube(Conjunctions(1).bind(bits(10)))
    tied = np.zeros(cube.cells)
    tied[[0, -1]] = 0.5
    theta = np.full(10, 0.1 / 2)
    moved = tied * np.exp(cube.scores(theta))
    assert moved[-1] / moved.sum() == pytest.approx(1 / (1 + math.exp(-0.5)))  # a single step would give 0.5125
    hundred = math.exp(100 * 0.1 / 2)
    assert hundred / (1 + hundred) == pytest.approx(0.993, abs=5e-4)  # the erratum's figure
    fit = EntropicFit(cube, 1)
    fit.learn(np.arange(10), np.full(10, 0.6), np.full(10, 1e-4), last=True)
    assert np.allclose(cube.answers(gibbs(cube, fit.theta)[0]), 0.6, atol=1e-3)


def test_the_fit_meets_exact_measurements_and_smooths_noisy_ones() -> None:
    cube = Cube(Conjunctions(2, signed=True).bind(bits(4)))
    draws = np.random.default_rng(3)
    target = cube.answers(draws.dirichlet(np.ones(16)))
    exact, noisy = EntropicFit(cube, 1), EntropicFit(cube, 1)
    every = np.arange(len(target))
    exact.learn(every, target, np.full(len(target), 1e-5), last=True)
    noisy.learn(every, target, np.full(len(target), 0.3), last=True)
    near, far = (np.abs(cube.answers(gibbs(cube, m.theta)[0]) - target).max() for m in (exact, noisy))
    assert near < 1e-3 < far


def test_repeated_measurements_are_averaged() -> None:
    cube = Cube(Conjunctions(1).bind(bits(2)))
    fit = EntropicFit(cube, 3)
    for share in (0.2, 0.6, 0.7):
        fit.learn(np.array([0]), np.array([share]), np.array([1e-3]), last=True)
    assert cube.answers(gibbs(cube, fit.theta)[0])[0] == pytest.approx(0.5, abs=2e-3)


def test_the_papers_step() -> None:
    cube = Cube(Conjunctions(1).bind(bits(2)))
    step = PaperUpdate(cube)
    step.learn(np.array([0, 1]), np.array([1.7, -3.0]), np.ones(2), last=False)  # cut to 1 and 0
    assert step.theta == pytest.approx([0.25, -0.25])


def test_average_and_last() -> None:
    rows, workload = table(4, 500), Conjunctions(1)
    last, average = (
        MWEM(CDP(3), workload, rounds=4, output=kind).run(rows, NoiseSource.seeded(2)) for kind in ("last", "average")
    )
    assert not last.average and average.average
    assert len(last.steps) == 1 and len(average.steps) == 4
    theta, total = np.zeros(4), np.zeros(16)
    for step in average.steps:
        total += gibbs(last.cube, theta)[0] / 4
        theta[step.query] += step.change
    assert np.allclose(average.probabilities, total) and np.allclose(last.probabilities, gibbs(last.cube, theta)[0])
    assert not MWEM(CDP(3), workload, rounds=1).run(rows, NoiseSource.seeded(1)).average
    assert MWEM(CDP(3), workload, rounds=1, update="paper").run(rows, NoiseSource.seeded(1)).average


# ---- what it returns -------------------------------------------------------------------------------------------------

MIXED = Schema(
    (
        Attribute("region", "categorical", values=("n", "s", "w")),
        Attribute("age", "integer", low=0, high=4),
        Attribute("sick", "boolean", null="category"),
    )
)


@pytest.fixture(scope="module")
def output() -> FittedDistribution:
    draws = np.random.default_rng(5)
    rows = CodedTable(MIXED, {a.name: draws.integers(0, a.size, 400) for a in MIXED})
    return MWEM(CDP(2), Marginals(2), rounds=5, rows=250).run(rows, NoiseSource.seeded(3))


def test_answers_come_from_the_distribution(output: FittedDistribution) -> None:
    assert output.attributes == ("region", "age", "sick") and output.distribution.shape == (3, 5, 3)
    assert output.probabilities.sum() == pytest.approx(1)
    assert output.marginal("sick", "region").shape == (3, 3)
    assert np.allclose(output.marginal("sick", "region").T, output.distribution.sum(axis=1))
    assert output["age", "region"]["region = n, age = 2"] == pytest.approx(output.marginal("region", "age")[0, 2])


def test_the_output_tells_itself_in_a_line(output: FittedDistribution) -> None:
    assert repr(output) == "FittedDistribution(39 answers, 5 measurements, 250 synthetic rows)"


def test_unknown_parts_of_the_output_are_refused_by_name(output: FittedDistribution) -> None:
    with pytest.raises(NablaDPError, match="Did you mean 'region'"):
        output.marginal("regoin")
    with pytest.raises(MechanismError, match="No query was asked on age"):
        output["age"]


def test_the_synthetic_table_has_the_schemas_types(output: FittedDistribution) -> None:
    rows = output.synthetic
    assert rows.num_rows == 250 and rows.column_names == list(output.attributes)
    assert set(rows["region"].to_pylist()) <= {"n", "s", "w"} and set(rows["sick"].to_pylist()) <= {True, False, None}
    many = output.sample(40_000, NoiseSource.seeded(1))
    share = np.mean([value == "s" for value in many["region"].to_pylist()])
    assert share == pytest.approx(output.marginal("region")[1], abs=0.015)
    assert output.extra_tables(MIXED)["distribution"]["probability"].to_numpy().sum() == pytest.approx(1)


def test_numbers_lie_anywhere_in_their_bins_where_the_schema_says_so() -> None:
    schema = Schema((Attribute("x", "real", edges=(0, 1, 10), decode="uniform"), Attribute("b", "boolean")))
    rows = CodedTable(schema, {"x": np.arange(300) % 2, "b": np.arange(300) % 3 % 2})
    made = MWEM(CDP(1), Conjunctions(2), rounds=2, rows=500).run(rows, NoiseSource.seeded(1))
    for drawn in (made.synthetic, made.sample(500, NoiseSource.seeded(2))):
        x = drawn["x"].to_numpy()
        assert len(np.unique(x)) > 450 and x.min() < 0.1 and 9 < x.max() < 10
        codes = open_table(drawn, schema).marginals([("x", "b")])[0]
        assert np.abs(codes / 500 - made.marginal("x", "b")).max() < 0.15
    assert made.synthetic.equals(made.synthetic)
    again = FittedDistribution.from_json(made.to_json(), schema).synthetic["x"].to_pylist()
    assert set(again) == {0.5, 5.5}  # the record knows the bins alone


def test_a_column_may_be_called_probability() -> None:
    schema = Schema((Attribute("probability", "boolean"), Attribute("b", "boolean")))
    rows = CodedTable(schema, {"probability": np.array([0, 1]), "b": np.array([1, 1])})
    made = MWEM(CDP(1), Conjunctions(1), rounds=1).run(rows, NoiseSource.seeded(1)).extra_tables(schema)
    assert made["distribution"].column_names == ["probability", "b", "probability of the record"]


def test_no_synthetic_table_where_none_is_asked_for() -> None:
    made = MWEM(CDP(2), Conjunctions(1), rounds=1, rows=0).run(table(3, 50), NoiseSource.seeded(1))
    assert "synthetic" not in made.extra_tables(bits(3)) and made.rows is None
    with pytest.raises(MechanismError, match="No synthetic table"):
        made.synthetic  # noqa: B018


def test_intervals_hold_the_truth_wherever_rounds_came_back() -> None:
    rows, workload = table(4, 300, seed=2), Conjunctions(1)
    truth = workload.bind(bits(4)).counts(rows) / rows.n
    inside, all_of_them = 0, 0
    for seed in range(150):
        made = MWEM(CDP(1), workload, rounds=6, per_round=2, rows=0).run(rows, NoiseSource.seeded(seed))
        share, width, times = made.direct
        known = times > 0
        inside += int((np.abs(share - truth) <= width)[known].sum())
        all_of_them += int(known.sum())
        listed = made.to_arrow(bits(4)).to_pylist()
        assert [row["measured"] is None for row in listed] == (~known).tolist()
    assert inside / all_of_them > 0.95


def test_fractional_queries_are_answered_on_their_grid() -> None:
    rows = table(3, 2000)
    workload = LinearQueries([LinearQuery(("b0", "b1"), [0, 0.3, 0.3, 1], name="mean")])
    made = MWEM(CDP(10), workload, rounds=3).run(rows, NoiseSource.seeded(1))
    assert error(made, rows) < 0.01 and made["b0", "b1"].keys() == {"mean"}


def test_weights_draw_picks_to_what_matters() -> None:
    rows = table(4, 2000)
    light, heavy = Conjunctions(1), Parities(2)
    picks = {}
    for factor in (0.01, 100.0):
        made = MWEM(CDP(1), light + factor * heavy, rounds=8, per_round=1).run(rows, NoiseSource.seeded(4))
        picks[factor] = int((made.measured.query >= 4).sum())
    assert picks[0.01] < picks[100.0]


def test_a_session_books_it_and_writes_every_file(tmp_path: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    people = pa.table({f"b{i}": np.random.default_rng(i).integers(0, 2, 300).astype(bool) for i in range(4)})
    budget = Budget(per_attribute=CDP(1), person=Rho(3))
    session = Session(people, bits(4), budget, ledger=tmp_path / "l.db", new_ledger=True)
    release = session.release(MWEM(CDP(1), Conjunctions(2), rounds=3), to=tmp_path / "out")
    assert release.guarantee.rho("b0") <= 0.5 < release.guarantee.per_person().rho
    for name in ("values", "distribution", "synthetic"):
        assert pq.read_table(tmp_path / "out" / f"{name}.parquet").num_rows > 0
    again = type(release).load(tmp_path / "out")
    assert np.allclose(again.output.probabilities, release.output.probabilities)
    assert again.output.synthetic.equals(release.output.synthetic)
    with pytest.raises(NablaDPError):
        session.release(MWEM(CDP(0.5), Conjunctions(2), rounds=3))


def test_progress_is_told_round_by_round() -> None:
    class Told:
        def __init__(self, rows: CodedTable) -> None:
            self.rows, self.said, self.n, self.schema = rows, [], rows.n, rows.schema

        def marginals(self, sets: Any) -> Any:
            return self.rows.marginals(sets)

        def working(self, what: str, done: int, total: int) -> None:
            self.said.append((done, total))

    told = Told(table(3, 50))
    MWEM(CDP(1), Conjunctions(1), rounds=3).run(told, NoiseSource.seeded(1))
    assert told.said == [(1, 3), (2, 3), (3, 3)]


# ---- what it refuses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "cells"), [(40, "10^12"), (176, "10^53")])
def test_a_domain_too_large_names_cells_and_what_to_use(columns: int, cells: str) -> None:
    with pytest.raises(DomainTooLarge) as caught:
        MWEM(CDP(1), Conjunctions(2)).guarantee(bits(columns), 1000)
    text = str(caught.value)
    assert f"about {cells} of them" in text and "4,194,304" in text and "Synthesis" in text and len(text) < 250


@pytest.mark.parametrize(
    ("workload", "per_round", "largest"),
    [
        (Marginals(sets=[("b0", "b1"), ("b1", "b2")]), 2, 1),  # overlapping sets asked to be disjoint
        (Conjunctions(2), 3, 2),
        (Conjunctions(3), 2, 1),
    ],
)
def test_more_disjoint_queries_than_there_are(workload: Any, per_round: int, largest: int) -> None:
    with pytest.raises(MechanismError, match=f"at most {largest}") as caught:
        MWEM(CDP(1), workload, per_round=per_round).guarantee(bits(4), 100)
    assert caught.value.fields["largest"] == largest


@pytest.mark.parametrize(
    "options",
    [
        {"per_round": 0},
        {"per_round": True},
        {"rounds": 0},
        {"rounds": 2.5},
        {"rounds": MOST_ROUNDS + 1},
        {"rows": -1},
        {"seed": -1},
        {"selection": 0},
        {"selection": 1.0},
        {"selection": math.nan},
        {"update": "fitt"},
        {"output": "first"},
        {"budgets": 3},
        {"workload": []},
        {"workload": "pairs"},
        {"workload": {"queries": "linear", "each": [{"attributes": ["b0"], "values": [0, 1.5]}]}},
    ],
)
def test_parameters_without_meaning(options: dict[str, Any]) -> None:
    with pytest.raises(NablaDPError):
        MWEM(**({"budget": CDP(1), "workload": Conjunctions(1)} | options))


def test_budgets_that_do_not_fit() -> None:
    with pytest.raises(BudgetError, match="Gaussian noise"):
        MWEM(Pure(1), Conjunctions(1))
    with pytest.raises(BudgetError, match="too small"):
        MWEM(Rho(1e-12), Conjunctions(1), rounds=10_000).guarantee(bits(2), 10)
    with pytest.raises(NablaDPError, match="Did you mean 'b1'"):
        MWEM(CDP(1), Conjunctions(1), budgets={"b1x": CDP(1)}).guarantee(bits(2), 10)


def test_plan_options() -> None:
    with pytest.raises(PlanError, match="Did you mean 'rounds'"):
        MWEM.from_plan({"budget": {"cdp": 1}, "workload": {"queries": "parities", "k": 2}, "round": 3})
    with pytest.raises(PlanError, match="needs a workload"):
        MWEM.from_plan({"budget": {"cdp": 1}})
    made = MWEM.from_plan({"budget": {"cdp": 1}, "workload": [{"queries": "parities", "k": 2}], "per_round": 1})
    assert MWEM.from_plan(json.loads(json.dumps(made.to_json()))).guarantee(bits(3), 5) == made.guarantee(bits(3), 5)


def test_heaviest_packing_is_what_the_bound_speaks_of() -> None:
    """The left side of the theorem: the worst mean error over disjoint queries, found exactly."""
    rows = table(6, 2000)
    workload = Conjunctions(2)
    mechanism = MWEM(CDP(1), workload, rounds=10, update="paper")
    made = mechanism.run(rows, NoiseSource.seeded(1))
    wrong = np.abs(made.answers - workload.bind(bits(6)).counts(rows) / rows.n)
    masks = [sum(1 << int(name[1:]) for name in chosen) for chosen in made.queries.sets]
    worst, _ = Packings(masks, 6, 3).heaviest(wrong)
    told = mechanism.expected_error(bits(6), rows.n).bound
    assert told is not None and worst / 3 <= told
