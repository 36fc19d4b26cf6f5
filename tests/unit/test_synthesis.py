"""Synthesis: parameters, workloads, what it returns, what it refuses, and how it stands in a session."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from nabladp import CDP, NoiseSource, Pure, Rho, Schema, Session, Synthesis
from nabladp.errors import (
    BudgetError,
    BudgetExceeded,
    DomainTooLarge,
    MechanismError,
    NablaDPError,
    PlanError,
    ReleaseError,
    UnknownAttribute,
)
from nabladp.mechanisms.synthesis import SyntheticModel
from nabladp.mechanisms.synthesis.inference.measurement import join_measurements
from nabladp.mechanisms.synthesis.inference.pooling import surprises
from nabladp.mechanisms.synthesis.rounds import Course, Truth, measurements
from nabladp.privacy import Budget, Ledger
from nabladp.schema import Attribute
from nabladp.tables import CodedTable

PEOPLE = Schema(
    (
        Attribute("region", "categorical", values=("north", "south", "west")),
        Attribute("age", "integer", low=20, high=29),
        Attribute("band", "ordered", values=("young", "old"), derived_from=("age",)),
        Attribute("income", "real", edges=(0, 10, 20, 50), null="category"),
        Attribute("sick", "boolean"),
    )
)


def people(rows: int = 3000, seed: int = 1) -> dict[str, Any]:
    """The old are sick more often and earn more; the sick have no income more often."""
    draws = np.random.default_rng(seed)
    age = draws.integers(0, 10, rows)
    sick = (draws.random(rows) < 0.1 + 0.07 * age).astype(int)
    income = np.where(draws.random(rows) < 0.1 + 0.6 * sick, 3, np.minimum(age // 4 + draws.integers(0, 2, rows), 2))
    region = np.where(draws.random(rows) < 0.6, age // 4, draws.integers(0, 3, rows))
    return {"region": region, "age": age, "band": age // 5, "income": income, "sick": sick}


def table(rows: int = 3000) -> CodedTable:
    return CodedTable(PEOPLE, people(rows))


def error(output: SyntheticModel, rows: CodedTable, sets: Any = None) -> float:
    chosen = output.sets if sets is None else sets
    true = rows.marginals(chosen)
    return float(
        np.mean([np.abs(output[s].counts - t).sum() / (2 * rows.n) for s, t in zip(chosen, true, strict=True)])
    )


@pytest.fixture(scope="module")
def fitted() -> SyntheticModel:
    return Synthesis(CDP(1), rows=500).run(table(), NoiseSource.seeded(2))


# ---- workloads -----------------------------------------------------------------------------------------------------


def test_all_pairs_of_sources_and_derived_columns_tied_to_theirs() -> None:
    wanted = Synthesis(CDP(1)).wanted(PEOPLE)
    assert len(wanted.sets) == 6 and not any("band" in names for names in wanted.sets)
    assert wanted.links == (("band", "age"),)
    assert wanted.columns == PEOPLE.names and wanted.first == (
        ("region",),
        ("age",),
        ("income",),
        ("sick",),
        ("band", "age"),
    )


def test_triples_are_approached_through_their_pairs() -> None:
    wanted = Synthesis(CDP(1), 3, over=("region", "age", "income", "sick")).wanted(PEOPLE)
    assert len(wanted.sets) == 4 and len(wanted.candidates) == 10
    weight = dict(zip(wanted.candidates, wanted.candidate_weights, strict=True))
    assert weight["region", "age", "income"] == 9 and weight["region", "age"] == 6


def test_weights_and_a_target() -> None:
    wanted = Synthesis(CDP(1), weights={"age+region": 5.0}, target="sick").wanted(PEOPLE)
    weight = dict(zip(wanted.sets, wanted.weights, strict=True))
    assert weight["region", "age"] == 5 and weight["age", "income"] == 1
    assert weight["age", "sick"] == weight["income", "sick"] == 3


def test_a_target_is_answered_better_than_without() -> None:
    sets = [("region", "sick"), ("age", "sick"), ("income", "sick")]

    def mean(target: str | None) -> float:
        mechanism = Synthesis(CDP(0.1), strategy="single", target=target, rows=1)
        return float(np.mean([error(mechanism.run(table(), NoiseSource.seeded(s)), table(), sets) for s in range(6)]))

    assert mean("sick") < mean(None)


# ---- what it learns ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["packed", "single", "all", "auto"])
def test_more_budget_means_less_error(strategy: str) -> None:
    little, much = (
        Synthesis(CDP(eps), strategy=strategy, rows=1).run(table(), NoiseSource.seeded(5)) for eps in (0.05, 3)
    )
    assert error(much, table()) < 0.5 * error(little, table())
    assert error(much, table()) < 0.03
    assert much.strategy == strategy or strategy == "auto"
    assert much.why and much.model.converged


def test_only_a_person_limit() -> None:
    mechanism = Synthesis(person=Rho(2), rows=1)
    output = mechanism.run(table(), NoiseSource.seeded(3))
    assert Synthesis(person=Rho(1e-6)).expected_error(PEOPLE, 3000).strategy == "single"
    assert mechanism.guarantee(PEOPLE, 3000).per_person().rho <= 2
    assert error(output, table()) < 0.03


BITS = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(12)))


def one_relation(rows: int = 3000) -> CodedTable:
    """Twelve columns of bits; the second follows the first, and no other depends on any."""
    draws = np.random.default_rng(7)
    bits = (draws.random((12, rows)) < np.linspace(0.1, 0.6, 12)[:, None]).astype(np.uint8)
    bits[1] = np.where(draws.random(rows) < 0.8, bits[0], bits[1])
    return CodedTable(BITS, dict(zip(BITS.names, bits, strict=True)))


def test_the_model_is_told_of_what_is_more_than_noise() -> None:
    """Not of 65 pairs of noise; answers shrink these, so that they are better than what was measured."""
    rows = one_relation()
    outputs = [Synthesis(CDP(0.3), strategy="all", rows=1).run(rows, NoiseSource.seeded(seed)) for seed in (1, 2, 3)]
    told = [[c.names for c in output.model.tree.clusters if len(c.names) > 1] for output in outputs]
    assert all(any({"b0", "b1"} <= set(names) for names in own) for own in told) and np.mean(list(map(len, told))) < 8
    true = dict(zip(outputs[0].sets, rows.marginals(outputs[0].sets), strict=True))
    for output in outputs:
        pairs = [m for m in output.measured if len(m.attributes) == 2]
        noise = np.mean([np.abs(m.counts - true[m.attributes]).sum() for m in pairs])
        assert error(output, rows) < 0.7 * noise / (2 * rows.n)


@pytest.mark.parametrize(
    ("strategy", "epsilon"), [("packed", 0.2), ("refined", 0.2), ("all", 0.2), ("single", 0.2), ("single", 0.5)]
)
def test_predicted_errors_are_near_the_true_ones(strategy: str, epsilon: float) -> None:
    """Where few pairs are measured, too: so many rows have some relation by chance."""
    rows = one_relation()
    mechanism = Synthesis(CDP(epsilon), strategy=strategy, rows=1)
    outputs = [mechanism.run(rows, NoiseSource.seeded(seed)) for seed in range(3)]
    ratio = sum(output.quality["predicted_error"] for output in outputs) / sum(error(own, rows) for own in outputs)
    assert 1 / 1.5 < ratio < 1.5


def test_what_rounds_were_surprised_by_is_kept() -> None:
    output = Synthesis(CDP(0.2), strategy="packed", rows=1).run(one_relation(), NoiseSource.seeded(1))
    stored = json.loads(json.dumps(output.to_json()))
    again = SyntheticModel.from_json(stored, BITS)
    assert [m.surprise for m in again.measured] == [m.surprise for m in output.measured]
    assert max(m.surprise[1].square for m in output.measured if m.surprise and m.round) > 0.3  # the pair that depends
    assert [a.error for a in again.answers] == [a.error for a in output.answers]
    for body in stored["measured"]:
        del body["surprise"]  # as in older releases
    assert SyntheticModel.from_json(stored, BITS).answers[0].error > 0


def test_single_columns_get_more_where_little_is_known_of_pairs() -> None:
    """With only a person's limit: otherwise a person would pay for it."""

    def shares(**limit: Any) -> list[float]:
        designs = [Synthesis(strategy="all", **limit).design(BITS, n) for n in (100, 5000, 1_000_000)]
        return [float(design.choice.one_way) for design in designs]

    low, middle, high = shares(person=Rho(0.005))
    assert low == 0.3 and 0.02 < middle < 0.3 and high == 0.02
    assert shares(budget=Rho(0.005)) == [0.02] * 3


def test_rounds_leave_more_for_pairs_before_triples() -> None:
    once, triples = (
        Synthesis(workload=k, strategy="single", person=Rho(0.03)).design(BITS, 5000).choice.one_way for k in (2, 3)
    )
    assert float(triples) == 0.06 < float(once)


def test_pairs_are_measured_at_once_where_most_are_drowned_in_noise() -> None:
    """Rounds are for triples, for little more than noise, and for a person's limit."""
    choices = [
        mechanism.design(BITS, 1000).choice
        for mechanism in (
            *(Synthesis(Rho(rho), workload=k) for k, rho in ((2, 1e-5), (2, 1e-7), (3, 1e-5))),
            Synthesis(person=Rho(1e-5)),
        )
    ]
    assert [choice.strategy for choice in choices] == ["refined", "packed", "packed", "single"]
    assert "pairs are best measured at once" in choices[0].why


FOUR = Schema(tuple(Attribute(f"c{i}", "integer", low=0, high=11) for i in range(4)))


@pytest.mark.parametrize(("often", "strategy"), [(0.9, "refined"), (0.0, "single")])
def test_released_single_columns_decide_whether_noise_would_drown_marginals(often: float, strategy: str) -> None:
    """Most rows have one value in every column, or all values alike: the schema says nothing of it."""
    draws = np.random.default_rng(2)
    codes = {name: draws.integers(0, 12, 3000) * (draws.random(3000) >= often) for name in FOUR.names}
    mechanism = Synthesis(person=Rho(0.055))
    expected = mechanism.expected_error(FOUR, 3000)
    assert expected.strategy == "single" and "If released single columns show that rows fill few cells" in expected.why
    output = mechanism.run(CodedTable(FOUR, codes), NoiseSource.seeded(1))
    quality = output.quality
    said = "show that rows fill few cells" if often else "do not show that rows fill few cells"
    assert quality["strategy"] == strategy and f"eleased single columns {said}" in quality["why"]
    assert "If released" not in quality["why"] and (quality["rounds"] == 2 or not often)
    everything = {m.attributes for m in output.measured if m.round == 1} == set(output.sets)
    assert everything == (strategy == "refined")


def test_single_columns_decide_only_where_they_are_measured_and_nobody_else_did() -> None:
    def instead(**more: Any) -> Any:
        return Synthesis(person=Rho(0.055), **more).design(FOUR, 3000).choice.instead

    assert instead() is not None
    assert instead(strategy="single") is None and instead(one_way=0) is None
    assert instead(rounds=5).rounds == 5 and instead(one_way=0.85, selection=0.1).pairs == 0
    triples = Synthesis(Rho(0.5), 3, one_way=0.85, selection=0.1).design(FOUR, 3000)
    assert triples.choice.instead is not None and 0 < triples.choice.instead.pairs < 0.05


def test_what_could_fail_after_single_columns_fails_before_they_are_booked() -> None:
    for more in ({"one_way": 0.92}, {"one_way": 0.5, "selection": 0.49999, "pairs": 0.4}, {"selection": 0.99}):
        with pytest.raises(MechanismError, match="leave nothing to measure with"):
            Synthesis(Rho(1), 3, **more).guarantee(FOUR, 3000)
    with pytest.raises(MechanismError, match="too large"):
        Synthesis(Rho(1), 3, weights=[1.7e308] * 4).guarantee(FOUR, 3000)


def test_pairs_wait_for_what_single_columns_decide() -> None:
    design = Synthesis(Rho(1), 3).design(FOUR, 3000)
    assert design.choice.instead is not None and {len(p.attributes) for p in design.planned} == {1}
    rounds, at_once = design.at_once(design.choice), design.at_once(design.choice.instead)
    assert [len(step.sets) for step in rounds] == [6] and [len(step.sets) for step in at_once] == [6, 4]
    assert at_once[0].granted < rounds[0].granted < 1 and at_once[1].granted < 1
    own = Synthesis(Rho(1), 3, pairs=0.5).design(FOUR, 3000)
    assert [step.granted for step in own.at_once(own.choice)] == [own.choice.of_rest(own.choice.pairs)]


@pytest.mark.parametrize(("rho", "again"), [(0.0002, True), (0.2, False)])
def test_where_noise_is_large_all_measurements_say_what_the_model_is_told(rho: float, again: bool) -> None:
    mechanism = Synthesis(Rho(rho), over=("region", "age", "income", "sick"), strategy="refined")
    rows = table(3000)
    course = mechanism._course(PEOPLE, 3000)
    assert course.design.choice.looks_again == again
    state = course.run(Truth(rows, course.design.wanted.sizes), NoiseSource.seeded(1), lambda *_: None)
    tables = measurements(state.measured)
    for names in course.design.wanted.sets:
        same = [i for i, m in enumerate(state.measured) if m.attributes == names]
        assert len(same) == 3
        (found,) = surprises(
            state.before[2][0], {(name,) for name in names}, [join_measurements([tables[i] for i in same])]
        )
        first = state.measured[same[0]].surprise
        assert (first == found) == again and (first[1].noise > found[1].noise) != again


def test_blocks_of_a_wide_table(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(9)))
    draws = np.random.default_rng(1)
    first = draws.integers(0, 2, 2000)
    rows = CodedTable(schema, {f"b{i}": first ^ (draws.random(2000) < 0.1 * i) for i in range(9)})
    monkeypatch.setattr("nabladp.mechanisms.synthesis.strategy.WIDEST_BLOCK", 4)
    mechanism = Synthesis(CDP(1), strategy="packed", rounds=6, rows=1)
    design = mechanism.design(schema, 2000)
    assert {len(blocks) for blocks in design.rounds} == {3}
    assert len({block.attributes for blocks in design.rounds for block in blocks}) > 6
    output = mechanism.run(rows, NoiseSource.seeded(1))
    assert error(output, rows) < 0.03
    other = Synthesis(CDP(1), strategy="packed", rounds=6, seed=5).design(schema, 2000)
    assert other.rounds != design.rounds


def test_sets_that_rarely_share_a_block_have_rounds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabladp.mechanisms.synthesis.strategy.WIDEST_BLOCK", 2)
    schema = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(60)))
    design = Synthesis(CDP(1), [(f"b{i}", f"b{i + 1}") for i in range(59)], strategy="packed", rounds=4).design(
        schema, 100
    )
    assert [len(blocks) for blocks in design.rounds][1::2] == [1, 1]
    assert design.rounds[1][0].one and len(design.rounds[1][0].members) == 59


# ---- what comes out ------------------------------------------------------------------------------------------------


def test_drawn_tables_have_the_types_of_the_schema(fitted: SyntheticModel) -> None:
    drawn = fitted.synthetic
    assert drawn.num_rows == 500 and drawn.column_names == list(PEOPLE.names)
    assert [field.type for field in drawn.schema] == [pa.string(), pa.int64(), pa.string(), pa.float64(), pa.bool_()]
    assert set(drawn["region"].to_pylist()) <= {"north", "south", "west"}
    assert set(drawn["age"].to_pylist()) <= set(range(20, 30))
    assert set(drawn["income"].to_pylist()) == {5.0, 15.0, 35.0, None}  # midpoints, and nulls come back
    assert set(fitted.extra_tables(PEOPLE)) == {"synthetic"}


def test_a_table_drawn_from_the_model_has_its_marginals(fitted: SyntheticModel) -> None:
    drawn = fitted.sample(20_000, NoiseSource.seeded(4))
    codes = drawn.to_pandas()
    share = codes.groupby("age")["sick"].mean()
    model = fitted.model.marginal(["age", "sick"])
    assert np.abs(share.to_numpy() - model[:, 1] / model.sum(axis=1)).max() < 0.03


@pytest.mark.parametrize("strategy", ["packed", "all"])
def test_declared_zeros_never_occur(strategy: str) -> None:
    """Many of the young are sick here, all the same: a declaration is believed."""
    mechanism = Synthesis(CDP(0.2), strategy=strategy, zeros=({"age": {"below": 23}, "sick": True},))
    output = mechanism.run(table(), NoiseSource.seeded(6))
    assert not any(
        age < 23 and sick for age, sick in zip(*(output.synthetic[c].to_pylist() for c in ("age", "sick")), strict=True)
    )
    assert output["age", "sick"].counts[:3, 1].max() == 0
    again = SyntheticModel.from_json(json.loads(json.dumps(output.to_json())), PEOPLE)
    assert again.model.marginal(["age", "sick"])[:3, 1].max() == 0


def test_sampling_draws_anew_and_repeats_only_when_seeded(fitted: SyntheticModel) -> None:
    assert not fitted.sample(200).equals(fitted.sample(200))
    assert fitted.sample(200, NoiseSource.seeded(1)).equals(fitted.sample(200, NoiseSource.seeded(1)))


def test_answers_have_intervals_and_predicted_errors(fitted: SyntheticModel) -> None:
    answer = fitted["sick", "region"]
    assert answer.attributes == ("sick", "region") and answer.counts.shape == (2, 3)
    assert np.allclose(fitted["region", "sick"].counts, answer.counts.T)
    assert answer.counts.sum() == pytest.approx(3000) and answer.counts.min() >= 0
    low, high = answer.interval()
    assert (low <= answer.counts).all() and (answer.counts <= high).all()
    assert 0 < answer.error <= answer.drawn < 1
    with pytest.raises(UnknownAttribute):
        fitted["regoin"]


def test_most_intervals_hold_the_truth() -> None:
    inside = []
    sets = Synthesis(CDP(1)).wanted(PEOPLE).sets
    true = dict(zip(sets, table().marginals(sets), strict=True))
    for seed in range(8):
        output = Synthesis(CDP(0.5), rows=1).run(table(), NoiseSource.seeded(seed))
        for answer in output.answers:
            low, high = answer.interval()
            inside += ((low <= true[answer.attributes]) & (true[answer.attributes] <= high)).ravel().tolist()
    assert np.mean(inside) > 0.8


def test_quality_is_told_from_noisy_numbers_only(fitted: SyntheticModel) -> None:
    quality = fitted.quality
    assert quality["strategy"] in ("packed", "single", "refined") and quality["why"]
    assert 0 < quality["predicted_error"] <= quality["predicted_error_drawn"] < 0.2
    assert len(quality["worst"]) == 6
    again = SyntheticModel.from_json(json.loads(json.dumps(fitted.to_json())), PEOPLE)  # has no data at hand
    assert again.quality == quality


def test_values_as_a_table(fitted: SyntheticModel) -> None:
    told = fitted.to_arrow(PEOPLE)
    assert told.num_rows == sum(PEOPLE.cells(names) for names in fitted.sets)
    predicted = ["predicted_error", "predicted_error_drawn"]
    columns = told.column_names[1:-6]
    assert set(columns) == {name for names in fitted.sets for name in names} and told.column_names == [
        "table",
        *columns,
        "value",
        "low",
        "high",
        "noise_scale",
        *predicted,
    ]
    row = told.slice(0, 1).to_pylist()[0]
    assert [row[name] for name in predicted] == [fitted.answers[0].error, fitted.answers[0].drawn]
    assert (row["table"], row["region"], row["age"], row["value"]) == (
        "region+age",
        "north",
        "20",
        fitted.answers[0].counts.ravel()[0],
    )


def test_save_and_load(fitted: SyntheticModel, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model.json")
    again = SyntheticModel.load(tmp_path / "model.json")
    assert again.to_json() == fitted.to_json()
    assert again.sample(50, NoiseSource.seeded(1)).equals(fitted.sample(50, NoiseSource.seeded(1)))
    with pytest.raises(MechanismError, match="not part of the record"):
        again.synthetic  # noqa: B018
    (tmp_path / "other.json").write_text("[]")
    for name in ("other.json", "absent.json"):
        with pytest.raises(ReleaseError):
            SyntheticModel.load(tmp_path / name)


# ---- before anything is spent --------------------------------------------------------------------------------------


def test_what_to_expect() -> None:
    told = Synthesis(CDP(1), strategy="packed", rounds=9).expected_error(PEOPLE, 3000)
    summary = told.to_json()["summary"]
    assert summary["strategy"] == "packed: asked for" and summary["rounds, at most"] == 9
    assert told.rows == 3000 and told.memory_mb > 100 and told.seconds > 0 and 0 < (told.noise_error or 0) < 1
    assert Synthesis(CDP(1)).expected_error(PEOPLE, 0).noise_error is None
    some, less = (
        Synthesis(CDP(eps), strategy="packed", rounds=9, one_way=0.1).expected_error(PEOPLE, 3000) for eps in (1, 0.1)
    )
    assert less.scale == pytest.approx(10 * some.scale, rel=1e-3)


BIG = Schema((Attribute("id", "integer", low=0, high=10**6 - 1), Attribute("sick", "boolean")))
MANY = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(200)))
WIDE = Schema(
    (
        Attribute("job", "integer", low=0, high=4999),
        Attribute("town", "integer", low=0, high=4999),
        Attribute("both", "integer", low=0, high=99, derived_from=("job",)),
    )
)


@pytest.mark.parametrize(
    ("mechanism", "schema", "kind", "words"),
    [
        (Synthesis(CDP(1)), BIG, DomainTooLarge, "'id' has 1,000,000 values"),
        (Synthesis(CDP(1)), WIDE, DomainTooLarge, "job: 5,000, town: 5,000"),
        (Synthesis(CDP(1), [("job", "both")], model_mb=0.02), WIDE, DomainTooLarge, "model_mb is 0.02.*job"),
        (Synthesis(CDP(1), [("age", "salary")]), PEOPLE, UnknownAttribute, "salary"),
        (Synthesis(CDP(1), over=("age", "sik")), PEOPLE, UnknownAttribute, "Did you mean 'sick'"),
        (Synthesis(CDP(1), 7), PEOPLE, MechanismError, "no 7-way.* 'workload' is a number from 1 to 4"),
        (Synthesis(CDP(1), 0), PEOPLE, MechanismError, "no 0-way.* 'workload' is a number"),
        (Synthesis(CDP(1), 3), MANY, DomainTooLarge, "200 attributes are 1,313,400 tables.* Lower 'workload'"),
        (Synthesis(CDP(1), [("age", "sick")], over=("age",)), PEOPLE, MechanismError, "'over' goes with"),
        (Synthesis(CDP(1), [("age", "sick")], weights=(1.0, 2.0)), PEOPLE, MechanismError, "2 weights for 1 sets"),
        (Synthesis(CDP(1), weights={"age+band": 2.0}), PEOPLE, MechanismError, "not in the workload"),
        (Synthesis(CDP(1), [("age", "sick")], target="income"), PEOPLE, MechanismError, "target 'income'"),
        (Synthesis(CDP(1), budgets={"agee": CDP(1)}), PEOPLE, UnknownAttribute, "Did you mean 'age'"),
        (
            Synthesis(CDP(1), zeros=({"age": {"from": 20}, "region": ["north", "south", "west"]},)),
            PEOPLE,
            MechanismError,
            "contradict each other",
        ),
        (Synthesis(CDP(1), zeros=({"age": {"below": 22}, "salary": 3},)), PEOPLE, UnknownAttribute, "salary"),
        (Synthesis(CDP(1), sets={"age+sik": Rho(1)}), PEOPLE, UnknownAttribute, "Did you mean 'sick'"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_spent(
    mechanism: Synthesis, schema: Schema, kind: Any, words: str
) -> None:
    with pytest.raises(kind) as caught:
        mechanism.guarantee(schema, 1000)
    assert caught.value.fix and re.search(words, f"{caught.value.message} {caught.value.fix}")


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({}, BudgetError, "needs a budget"),
        ({"budget": Pure(1)}, BudgetError, "Gaussian"),
        ({"budget": 1.0}, BudgetError, "must say what it measures"),
        ({"budget": CDP(1), "budgets": {"age": {"rho": 0}}}, BudgetError, "budget of 'age' is zero"),
        ({"budget": CDP(1), "sets": {"age+sick": {"cdp": 0.0}}}, BudgetError, "'age.sick' is zero"),
        ({"budget": CDP(1), "budgets": [1]}, BudgetError, "'budgets' must be a table of budgets"),
        ({"budget": CDP(1), "sets": [["age", "sick"]]}, BudgetError, "listed in 'workload'"),
        ({"budget": CDP(1), "sets": {5: Rho(1)}}, MechanismError, "'sets' has a key"),
        ({"budget": CDP(1), "weights": {5: 1.0}}, MechanismError, "'weights' has a key"),
        ({"budget": CDP(1), "zeros": ["age"]}, MechanismError, "'zeros' must be a list of declarations"),
        ({"budget": CDP(1), "zeros": [("age", 3)]}, MechanismError, "'zeros' must be a list of declarations"),
        ({"budget": CDP(1), "sets": {"": Rho(1)}}, BudgetError, "named by its members"),
        ({"budget": CDP(1), "rows": 0}, MechanismError, "'rows' must be a whole number from 1"),
        ({"budget": CDP(1), "rows": 2.5}, MechanismError, "'rows'"),
        ({"budget": CDP(1), "rounds": 0}, MechanismError, "'rounds'"),
        ({"budget": CDP(1), "seed": -1}, MechanismError, "'seed'"),
        ({"budget": CDP(1), "selection": 0.0}, MechanismError, "'selection'"),
        ({"budget": CDP(1), "one_way": 0.5, "selection": 0.5}, MechanismError, "leave nothing"),
        ({"budget": CDP(1), "workload": "pairs"}, MechanismError, "'workload'"),
        ({"budget": CDP(1), "over": "age"}, MechanismError, "'over' must be a list"),
        ({"budget": CDP(1), "strategy": "best"}, MechanismError, "'strategy' must be .*, not 'best'"),
        ({"budget": CDP(1), "back_end": "jax"}, MechanismError, "'back_end' must be .*, not 'jax'"),
        ({"budget": CDP(1), "model_mb": 0}, MechanismError, "'model_mb'"),
        ({"budget": CDP(1), "round": 5}, PlanError, "Did you mean 'rounds'"),
    ],
)
def test_parameters_that_make_no_sense(given: dict[str, Any], kind: Any, words: str) -> None:
    with pytest.raises(kind) as caught:
        Synthesis.from_plan(given)
    assert caught.value.fix and re.search(words, f"{caught.value.message} {caught.value.fix}")


def test_what_is_not_used_is_told() -> None:
    def why(**given: Any) -> str:
        return Synthesis(CDP(3), **given).expected_error(PEOPLE, 3000).why

    assert why(strategy="all", rounds=4, selection=0.1) == "asked for; rounds not used; selection not used"
    assert why(rounds=4, selection=0.1).endswith("; selection not used")  # auto chose to measure again
    assert why(pairs=0.1).endswith("; pairs not used") and "not used" not in why(pairs=0.1, workload=3, rounds=4)
    assert why(strategy="all") == why(strategy="packed", rounds=4) == "asked for"


def test_zero_rows_are_refused(fitted: SyntheticModel) -> None:
    for rows in (0, -1, 1.5, True):
        with pytest.raises(MechanismError, match="at least one row"):
            fitted.sample(rows)  # type: ignore[arg-type]


def test_the_plan_form_holds_every_parameter() -> None:
    mechanism = Synthesis(
        CDP(1), [("age", "sick"), ("region",)], weights=(1.0, 2.0), target="sick", strategy="single", rounds=3,
        one_way=0.1, selection=0.2, rows=5, model_mb=4, seed=3, budgets={"age": CDP(0.5)},
        sets={("age", "sick"): Rho(0.7)}, person=Rho(2),
    )  # fmt: skip
    body = json.loads(json.dumps(mechanism.to_json()))
    assert body["sets"] == {"age+sick": {"rho": 0.7}} and body["workload"] == [["age", "sick"], ["region"]]
    assert Synthesis.from_plan(body).to_json() == body
    assert Synthesis.from_plan(body).guarantee(PEOPLE, 10) == mechanism.guarantee(PEOPLE, 10)


# ---- in a session --------------------------------------------------------------------------------------------------


def frame(rows: int = 800) -> pd.DataFrame:
    codes = people(rows)
    income = np.array([5.0, 15.0, 35.0, np.nan])[codes["income"]]
    return pd.DataFrame(
        {
            "region": np.array(["north", "south", "west"])[codes["region"]],
            "age": codes["age"] + 20,
            "band": np.array(["young", "old"])[codes["band"]],
            "income": income,
            "sick": codes["sick"].astype(bool),
        }
    )


def session(tmp_path: Path, budget: Budget | None = None) -> Session:
    return Session(
        frame(), PEOPLE, budget or Budget(per_attribute=CDP(1), person=Rho(4)), tmp_path / "ledger.db", new_ledger=True
    )


def test_a_release_books_the_claim_and_writes_the_table(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    mechanism = Synthesis(CDP(0.5), strategy="packed", rounds=4, person=Rho(2))
    with_ledger = session(tmp_path)
    release = with_ledger.release(mechanism, to=tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "synthetic.parquet").num_rows == 800
    spent = {line.limit.name: line.spent for line in with_ledger.ledger.spent()}
    assert spent["age"] == pytest.approx(0.125, rel=1e-6) and spent["person"] <= 2
    assert release["age", "sick"].counts.shape == (10, 2)


def test_ctrl_c_leaves_the_ledger_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was reserved stays spent: rounds may already have looked at the data."""
    made: list[int] = []
    after = Course.after

    def interrupted(self: Course, *given: Any) -> Any:
        made.append(1)
        if len(made) == 2:
            raise KeyboardInterrupt
        return after(self, *given)

    monkeypatch.setattr(Course, "after", interrupted)
    with_ledger = session(tmp_path)
    mechanism = Synthesis(CDP(0.5), strategy="packed", rounds=4)
    with pytest.raises(KeyboardInterrupt):
        with_ledger.release(mechanism, name="stopped", to=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert [entry.name for entry in ledger.unfinished()] == ["stopped"]
        spent = {line.limit.name: line.spent for line in ledger.spent()}
    claim = mechanism.guarantee(PEOPLE, 800)
    assert spent["age"] == pytest.approx(claim.rho("age")) and spent["person"] == pytest.approx(claim.per_person().rho)


def test_fit_and_sample_in_the_manner_of_others(tmp_path: Path) -> None:
    synthesizer = Synthesis(CDP(0.6), rounds=3).estimator(session(tmp_path))
    with pytest.raises(MechanismError, match="fit"):
        synthesizer.sample(5)
    drawn = synthesizer.fit(frame(300)).sample(40)
    assert drawn.num_rows == 40 and synthesizer.release_.n == 300
    assert synthesizer.sample().num_rows == 300
    synthesizer.save(tmp_path / "m.json")
    assert SyntheticModel.load(tmp_path / "m.json").n == 300
    assert synthesizer.fit().model_.n == 800
    with pytest.raises(BudgetExceeded):
        synthesizer.fit()


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []

    class Watching(CodedTable):
        def working(self, what: str, done: int, total: int) -> None:
            told.append((what, done, total))

    Synthesis(CDP(1), strategy="packed", rounds=3, rows=1).run(Watching(PEOPLE, people(200)), NoiseSource.seeded(1))
    assert told[-2:] == [("learning, round", 3, 3), ("drawing rows", 0, 0)]


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("strategy", ["packed", "single", "all"])
def test_the_smallest_tables(rows: int, strategy: str) -> None:
    output = Synthesis(CDP(1), strategy=strategy).run(CodedTable(PEOPLE, people(rows)), NoiseSource.seeded(1))
    assert output.synthetic.num_rows == rows
    assert issubclass(NablaDPError, Exception)
