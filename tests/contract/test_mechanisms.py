"""One list of promises, run over every mechanism."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nabladp.errors import BudgetError, MechanismError, NablaDPError
from nabladp.mechanisms import MECHANISMS, Mechanism, mechanism_class
from nabladp.mechanisms.distribution_estimate import DistributionEstimate
from nabladp.mechanisms.gram_matrix import GramMatrix
from nabladp.mechanisms.heavy_hitters import HeavyHitters
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.projection import Projection
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Approx, Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals, Parities

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("n", "s", "w")),
        Attribute("age", "integer", low=0, high=9),
        Attribute("income", "real", edges=(0, 10, 20, 50), null="category"),
        Attribute("sick", "boolean"),
        Attribute("unused", "boolean"),
        Attribute("band", "ordered", values=("low", "high"), derived_from=("age",)),
    )
)
INSTANCES: list[Mechanism] = [
    NoisyMarginals(CDP(0.5), k=2, over=("region", "age", "income", "sick")),
    NoisyMarginals(Rho(0.1), sets=(("region", "income"), ("band", "sick"))),
    NoisyMarginals(Approx(1, 1e-6), sets=(("age",),), weights=(2,)),
    NoisyMarginals(Pure(1), sets=(("region",), ("income", "sick")), noise="laplace", budgets={"sick": Pure(0.2)}),
    Projection(CDP(0.5), Marginals(2, over=("region", "age", "income", "sick"))),
    Projection(Rho(0.1), Conjunctions(2, over=("region", "band", "sick")) + 2 * Parities(2, over=("age", "sick"))),
    Projection(
        Approx(1, 1e-6),
        LinearQueries(
            (
                LinearQuery(("age",), tuple(i / 9 for i in range(10)), "average age"),
                LinearQuery(("region", "sick"), (0, 1, 0, 1, 1, 1)),
            )
        ),
        budgets={"sick": Rho(0.01)},
    ),
    Projection(CDP(0.3), Conjunctions(2, signed=True, over=("region", "age", "income", "sick", "band")), hull="blocks"),
    MWEM(CDP(0.5), Marginals(1, over=("region", "age", "sick")), rounds=3),
    MWEM(CDP(1), Conjunctions(2, over=("region", "sick", "age")), rounds=2, update="paper", output="average", rows=0),
    MWEM(Rho(0.2), Marginals(sets=(("region", "income"), ("band", "sick"))), per_round=1, rounds=2, rows=7),
    MWEM(
        Approx(2, 1e-6),
        Parities(2, over=("age", "sick")) + 2 * Marginals(1, over=("region",)),
        budgets={"sick": Rho(0.01)},
    ),
    Synthesis(CDP(0.5), over=("region", "age", "income", "sick")),
    Synthesis(Rho(0.1), 3, ("region", "age", "income", "sick"), strategy="packed", rounds=4, rows=7),
    Synthesis(CDP(1), (("region", "income"), ("band", "sick")), weights=(1.0, 2.5), strategy="single", target="sick"),
    Synthesis(person=Approx(1, 1e-6), over=("region", "age", "sick"), sets={"age+sick": Rho(0.02)}, rounds=5),
    Synthesis(CDP(1), over=("age", "band", "sick"), strategy="all", budgets={"sick": Rho(0.01)}, person=Rho(0.6)),
    HeavyHitters(CDP(2), over=("region", "age", "income", "sick")),
    HeavyHitters(Pure(4), over=("region", "sick", "band"), notion="pure", lists=True),
    HeavyHitters(Rho(3), over=("age", "region"), failure=0.2, frequency=0.1, budgets={"age": CDP(2)}),
    DistributionEstimate(CDP(2), over=("region", "age", "sick")),
    DistributionEstimate(Pure(4), over=("region", "sick"), notion="pure"),
    PointLearner(CDP(2), "sick", over=("region", "age")),
    PointLearner(Pure(4), "sick", over=("region", "band"), notion="pure"),
    ThresholdLearner(CDP(1), "band", over=("region", "income", "sick"), search="probes"),
    ThresholdLearner(Pure(1), "sick", over=("age", "region", "income"), notion="pure", search="pick"),
    GramMatrix(CDP(0.5), over=("region", "age", "income", "sick")),
    GramMatrix(Rho(0.1), over=("region", "band", "sick"), label="sick", budgets={"sick": CDP(2)}),
    GramMatrix(CDP(1), over=("region", "age"), encode={"age": "thermometer"}),
    HalfspaceLearner(CDP(1), "sick", over=("region", "age", "income")),
    HalfspaceLearner(CDP(1), "sick", over=("region", "age", "income"), method="gram"),
    HalfspaceLearner(CDP(1), "band", over=("region", "sick"), method="average", label_epsilon=2.0),
    HalfspaceLearner(CDP(1), "sick", over=("region", "income"), method="gradient", steps=3),
    HalfspaceLearner(CDP(2), "sick", over=("region", "income", "age"), method="robust", gamma=2 / 3, gamma_prime=1 / 3),
]
every = pytest.mark.parametrize("mechanism", INSTANCES, ids=lambda m: f"{type(m).__name__}-{INSTANCES.index(m)}")


def codes(rows: int = 500, seed: int = 1) -> dict[str, Any]:
    draws = NoiseSource.seeded(seed)
    made: dict[str, Any] = {a.name: draws.uniform_integers(a.size, rows) for a in SCHEMA}
    return made | {"band": made["age"] // 5}


def table(**changed: Any) -> CodedTable:
    return CodedTable(SCHEMA, codes() | changed)


def values(output: Any) -> str:
    return json.dumps(output.to_json(), sort_keys=True)


def test_every_mechanism_is_here() -> None:
    assert {type(m).__name__ for m in INSTANCES} == set(MECHANISMS)


@every
def test_guarantee_reads_no_data_and_is_always_the_same(mechanism: Mechanism) -> None:
    one, again = mechanism.guarantee(SCHEMA, 500), mechanism.guarantee(SCHEMA, 500)
    assert isinstance(one, Guarantee) and one == again
    assert Guarantee.from_json(json.loads(json.dumps(one.to_json()))) == one


@every
def test_what_is_not_read_costs_nothing_and_changes_nothing(mechanism: Mechanism) -> None:
    assert "unused" not in mechanism.reads(SCHEMA)
    assert mechanism.guarantee(SCHEMA, 500).rho("unused") == 0
    other = table(unused=np.zeros(500, dtype=np.int64))
    first, second = (mechanism.run(t, NoiseSource.seeded(3)) for t in (table(), other))
    assert values(first) == values(second)


@every
def test_output_does_not_depend_on_row_order(mechanism: Mechanism) -> None:
    turned = CodedTable(SCHEMA, {name: column[::-1].copy() for name, column in codes().items()})
    one, other = (mechanism.run(rows, NoiseSource.seeded(5)) for rows in (table(), turned))
    assert values(one) == values(other)


@every
def test_two_runs_differ_and_a_seeded_run_repeats(mechanism: Mechanism) -> None:
    people = table()
    first = values(mechanism.run(people, NoiseSource()))
    assert any(values(mechanism.run(people, NoiseSource())) != first for _ in range(20))  # one may repeat by chance
    seeded = [values(mechanism.run(people, NoiseSource.seeded(9))) for _ in range(2)]
    assert seeded[0] == seeded[1]


@every
def test_plan_form_round_trips(mechanism: Mechanism) -> None:
    again = type(mechanism).from_plan(json.loads(json.dumps(mechanism.to_json())))
    assert again.guarantee(SCHEMA, 500) == mechanism.guarantee(SCHEMA, 500)
    assert mechanism_class(type(mechanism).__name__) is type(mechanism)


@every
def test_output_round_trips_and_fills_a_table(mechanism: Mechanism) -> None:
    output = mechanism.run(table(), NoiseSource.seeded(2))
    again = mechanism.read_output(json.loads(json.dumps(output.to_json())), SCHEMA)
    assert values(again) == values(output)
    assert output.to_arrow(SCHEMA).num_rows > 0


@every
def test_misspelt_names_are_refused_with_the_near_one(mechanism: Mechanism) -> None:
    smaller = Schema(tuple(a for a in SCHEMA if a.name not in ("age", "band", "region")))
    with pytest.raises(NablaDPError):
        mechanism.guarantee(smaller, 10)


@every
def test_hard_pairs_differ_on_the_attributes_asked(mechanism: Mechanism) -> None:
    for one, other in mechanism.hard_pairs(["region", "sick"]):
        assert {name for name in ("region", "sick") if one.get(name, 0) != other.get(name, 0)} == {"region", "sick"}


@every
def test_tables_of_one_row_and_extreme_values_never_raise(mechanism: Mechanism) -> None:
    """What cannot promise anything for one row says so in ``guarantee``, before anything is spent."""
    lone = CodedTable(SCHEMA, {a.name: np.array([a.size - 1]) for a in SCHEMA})
    try:
        mechanism.guarantee(SCHEMA, 1)
    except MechanismError as refused:
        assert "certified" in str(refused)
        return
    mechanism.run(lone, NoiseSource.seeded(1))


@pytest.mark.parametrize(
    ("budget", "noise"), [(Pure(1), "gaussian"), (CDP(1), "laplace"), (0.5, "gaussian"), ({"cdp": -1}, "gaussian")]
)
def test_budgets_that_do_not_fit_are_refused(budget: Any, noise: str) -> None:
    with pytest.raises(BudgetError):
        NoisyMarginals(budget, k=1, noise=noise)
