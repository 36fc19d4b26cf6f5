"""One list of promises, run over every mechanism (tests/mechanisms holds instances of each)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from every_mechanism import INSTANCES, SCHEMA, codes, table, values

from nabladp.errors import BudgetError, MechanismError, NablaDPError
from nabladp.mechanisms import MECHANISMS, Mechanism, mechanism_class
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Guarantee, Pure
from nabladp.schema import Schema
from nabladp.tables import CodedTable

every = pytest.mark.parametrize("mechanism", INSTANCES, ids=lambda m: f"{type(m).__name__}-{INSTANCES.index(m)}")


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
        assert "row" in refused.message and refused.fix
        return
    mechanism.run(lone, NoiseSource.seeded(1))


@pytest.mark.parametrize(
    ("budget", "noise"), [(Pure(1), "gaussian"), (CDP(1), "laplace"), (0.5, "gaussian"), ({"cdp": -1}, "gaussian")]
)
def test_budgets_that_do_not_fit_are_refused(budget: Any, noise: str) -> None:
    with pytest.raises(BudgetError):
        NoisyMarginals(budget, k=1, noise=noise)
