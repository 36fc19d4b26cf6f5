"""Values measured in groups: which, how counts of groups become counts of values, and what a record says of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp import CDP, Approx, Attribute, NoiseSource, Schema, Synthesis
from nabladp.audit import exact_audit
from nabladp.errors import NablaDPError
from nabladp.mechanisms.synthesis import rounds, strategy
from nabladp.mechanisms.synthesis.groups import Groups, group_labels, spread_out, starts_of, summed
from nabladp.mechanisms.synthesis.output import SyntheticModel
from nabladp.mechanisms.synthesis.rounds import measurements
from nabladp.mechanisms.synthesis.selection import distance
from nabladp.tables import open_table

AGES = Schema(
    (
        Attribute("age", "integer", low=0, high=99, null="category"),
        Attribute("sex", "categorical", values=("f", "m")),
        Attribute("work", "categorical", values=tuple("abcdefgh")),
    )
)
PERSON = Synthesis(person=Approx(1, 1e-9))


@pytest.fixture(scope="module")
def released() -> SyntheticModel:
    draw = np.random.default_rng(1)
    age = draw.integers(0, 100, 4000)
    rows = {"age": age, "sex": draw.choice(["f", "m"], 4000), "work": np.array(list("abcdefgh"))[age * 8 // 100]}
    return PERSON.run(open_table(pa.table(rows), AGES), NoiseSource.seeded(3))


def test_groups_are_of_one_length_and_null_and_single_numbers_stay_by_themselves() -> None:
    assert starts_of(AGES["age"], 20) == (*range(0, 100, 5), 100)
    assert group_labels(AGES["age"], starts_of(AGES["age"], 20))[1::19] == ("5 … 9", AGES["age"].code_labels[100])
    pay = Attribute("pay", "real", edges=tuple(range(9)), spikes=(2,))
    assert {pay.code(2), pay.code(2) + 1} <= set(starts_of(pay, 2)) and len(starts_of(pay, 2)) == 4


def test_only_a_persons_limit_and_columns_of_many_values_in_order_have_groups() -> None:
    def grouped(mechanism: Synthesis, schema: Schema = AGES, n: int = 4000) -> set[str]:
        return set(mechanism.design(schema, n).groups.starts)

    assert grouped(PERSON) == {"age"}
    assert not grouped(Synthesis(CDP(0.1))) and not grouped(PERSON, n=10_000_000)
    assert not grouped(Synthesis(person=CDP(0.1), one_way=0, strategy="single"))
    assert not grouped(Synthesis(person=CDP(0.1), zeros=({"age": {"below": 15}, "work": {"not": "a"}},)))
    adult = Attribute("adult", "boolean", formula="age >= 18")
    assert not grouped(PERSON, Schema((*AGES, adult)))


def test_counts_of_groups_are_those_of_their_values_and_spread_over_them() -> None:
    draw = np.random.default_rng(2)
    table, groups = draw.integers(0, 9, (3, 10)).astype(float), Groups({"b": (0, 3, 9)})
    starts = groups.of(("a", "b"))
    assert starts == ((), (0, 3, 9)) and not groups.of(("b",)) and groups.shape(("a", "b"), {"a": 3, "b": 10}) == (3, 3)
    coarse = summed(table, starts)
    assert coarse.tolist() == [[row[:3].sum(), row[3:9].sum(), row[9]] for row in table]
    alone = np.array([5.0, 0, -3, 2, 2, 2, 2, 2, 2, 7])
    again = spread_out(coarse, starts, [None, alone])
    assert np.allclose(summed(again, starts), coarse) and again[0, 0] == coarse[0, 0] * 5.5 / 6.5


def test_one_row_moves_the_distance_of_a_grouped_table_by_two_at_most() -> None:
    draw, starts = np.random.default_rng(3), ((0, 2), (0, 1, 4))
    largest = 0
    for _ in range(500):
        truth, guess = draw.integers(0, 4, (4, 6)), draw.choice([0.0, 0.5, 1.5], (4, 6))
        one, other = draw.choice(24, 2, replace=False)
        truth.ravel()[one] += 1
        moved = truth.copy()
        moved.ravel()[one] -= 1
        moved.ravel()[other] += 1
        own = [distance(summed(t, starts), summed(guess, starts)) for t in (truth, moved)]
        largest = max(largest, abs(own[0] - own[1]))
    assert largest == 2 * strategy.GRID


# ---- the guarantee ---------------------------------------------------------------------------------------------------

TINY = Schema((Attribute("a", "integer", low=0, high=3), Attribute("b", "boolean")))
WHOLE = Synthesis(person=CDP(1.5), workload=(("a", "b"),), strategy="all", one_way=0.2)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(strategy, "LEAST_GROUPS", 2)
    return monkeypatch


def test_the_exact_audit_finds_the_claim_kept(tiny: pytest.MonkeyPatch) -> None:
    assert WHOLE.design(TINY, 1).groups.starts == {"a": (0, 2)}
    assert exact_audit(WHOLE, TINY, 1).passed


def test_a_row_in_two_groups_is_refuted(tiny: pytest.MonkeyPatch) -> None:
    def overlapping(table: Any, starts: Any) -> Any:
        """The value 1 belongs to both groups."""
        return summed(table, starts) + np.stack([0 * table[1], table[1]]) if starts else table

    tiny.setattr(rounds, "summed", overlapping)
    assert not exact_audit(WHOLE, TINY, 1).passed


# ---- what is released ------------------------------------------------------------------------------------------------


def test_measurements_state_their_groups_and_answers_their_values(released: SyntheticModel) -> None:
    shapes = {m.attributes: m.counts.shape for m in released.measured}
    assert shapes["age",] == (101,) and shapes["age", "work"][0] < 60 and shapes["sex", "work"] == (2, 8)
    assert released["age", "work"].counts.shape == (101, 8) and released.quality["predicted_error"] < 0.25
    told = {m.attributes: m for m in measurements(released.measured)}
    assert told["age", "work"].values.shape == (101, 8) and set(told["age", "work"].grouped) == {"age"}


def test_a_record_is_read_again_and_a_damaged_one_refused(released: SyntheticModel) -> None:
    body = json.loads(json.dumps(released.to_json()))
    again = SyntheticModel.from_json(body, AGES)
    assert np.allclose(again["age", "work"].counts, released["age", "work"].counts)
    kept = next(each for each in body["measured"] if "groups" in each)
    for groups in ([[0, 5, 5], []], [[1, 5], []], [[0, 101], []], [[0, "5"], []], [[0]]):
        kept["groups"] = groups
        with pytest.raises((NablaDPError, ValueError)):
            SyntheticModel.from_json(body, AGES)


def test_views_name_the_groups(released: SyntheticModel) -> None:
    from nabladp.mechanisms.synthesis.view import measured_view

    own = next(m for m in released.measured if m.starts)
    view = measured_view(AGES, own, released[own.attributes], released.codes, released.n)
    body = json.dumps(view.to_json(), default=str, ensure_ascii=False)
    assert "…" in body and "groups of age" in body


def test_of_very_many_marginals_the_worst_are_shown(released: SyntheticModel, monkeypatch: pytest.MonkeyPatch) -> None:
    from nabladp.mechanisms.synthesis import output

    monkeypatch.setattr(output, "MOST_SHOWN", 2)
    shown = {own.attributes for own in released._answers_to_show(released.answers)}
    assert len(shown) == 2 and max(a.drawn for a in released.answers if a.attributes not in shown) <= min(
        a.drawn for a in released.answers if a.attributes in shown
    )
    for few in (1, 2):
        assert len(released._answers_to_show(released.answers[:few])) == few


def test_the_model_of_many_columns_gets_a_part_of_its_room() -> None:
    def room(columns: int, **more: Any) -> int:
        schema = Schema(tuple(Attribute(f"c{i}", "boolean") for i in range(columns)))
        mechanism = Synthesis(CDP(1), workload=1, **more)
        return mechanism._course(schema, 100).limit_bytes

    assert (room(64), room(128), room(128, model_mb=4)) == (16_000_000, 8_000_000, 2_000_000)
    assert room(128, model_mb=0.003) >= 128 * 2 * 8
