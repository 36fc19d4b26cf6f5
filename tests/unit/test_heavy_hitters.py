"""HeavyHitters as a user meets it: options, plans, certificates, outputs, bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp import CDP, Attribute, Budget, HeavyHitters, NoiseSource, Pure, Rho, Schema, Session
from nabladp.errors import BudgetError, DataError, MechanismError, NablaDPError, PlanError
from nabladp.mechanisms.heavy_hitters import Settings, Tree
from nabladp.mechanisms.heavy_hitters.privacy_loss import losses
from nabladp.privacy.values import limit_units
from nabladp.tables import CodedTable

D, N = 12, 3000
BITS = Schema(tuple(Attribute(f"a{i}", "boolean") for i in range(D)))
MIXED = Schema(
    (
        Attribute("region", "categorical", values=tuple("abcdefg")),
        Attribute("zip", "integer", low=0, high=99_999),
        Attribute("sex", "boolean"),
        Attribute("old", "boolean", derived_from=("zip",)),
    )
)
BOTH = [HeavyHitters(CDP(1)), HeavyHitters(Pure(1), notion="pure")]
both = pytest.mark.parametrize("mechanism", BOTH, ids=lambda m: m.notion)


def people(n: int = N, alike: int = 1000) -> CodedTable:
    rows = np.random.default_rng(3).integers(0, 2, (n, D))
    rows[:alike] = 1
    return CodedTable(BITS, {f"a{i}": rows[:, i] for i in range(D)})


@both
def test_a_frequent_combination_is_found_and_counted(mechanism: HeavyHitters) -> None:
    found = mechanism.run(people(), NoiseSource.seeded(1))
    certified, error = found.certified, found.error
    assert certified is not None and error is not None and certified < 1000
    assert found.codes[0].tolist() == [1] * D and abs(int(found.counts[0]) - 1000) <= error + 5
    low, high = found.interval()
    assert low[0] <= 1005 and high[0] >= 995 and np.all(low >= 0) and np.all(high <= N)
    assert np.all(np.diff(found.counts) <= 0)
    assert len(found.heaviest(1)) == 1 and len(found.at_least(certified)) >= 1
    assert found.unlisted >= certified


@both
def test_the_plan_uses_the_budget_up_and_never_more(mechanism: HeavyHitters) -> None:
    spent = losses(mechanism.plan(BITS, N))
    allowed = 1.0 if mechanism.notion == "pure" else 0.5
    assert max(spent) <= allowed and max(spent) > 0.999 * allowed
    guarantee = mechanism.guarantee(BITS, N)
    for name in BITS.names:
        cost = guarantee.epsilon([name]) if mechanism.notion == "pure" else guarantee.rho([name])
        assert cost <= allowed


@both
def test_more_budget_never_certifies_less(mechanism: HeavyHitters) -> None:
    kind: Any = Pure if mechanism.notion == "pure" else CDP
    counts = [HeavyHitters(kind(e), notion=mechanism.notion).plan(BITS, N).certified for e in (0.5, 1, 2, 4)]
    assert counts == sorted(counts, reverse=True) and counts[-1] < counts[0]


def test_unequal_budgets_hold_for_each() -> None:
    mechanism = HeavyHitters(CDP(1), budgets={"a3": CDP(0.3)})
    guarantee = mechanism.guarantee(BITS, N)
    assert guarantee.rho("a3") <= 0.045 and guarantee.rho("a5") <= 0.5
    with pytest.raises(NablaDPError, match="a99"):
        HeavyHitters(CDP(1), budgets={"a99": CDP(0.3)}).guarantee(BITS, N)


def test_columns_of_one_source_share_its_budget() -> None:
    for mechanism in (
        HeavyHitters(CDP(1), over=("region", "zip", "old")),
        HeavyHitters(Pure(1), over=("region", "zip", "old"), notion="pure"),
    ):
        guarantee = mechanism.guarantee(MIXED, N)
        spent = guarantee.epsilon(["zip"]) if mechanism.notion == "pure" else guarantee.rho(["zip"])
        assert 0 < spent <= (1 if mechanism.notion == "pure" else 0.5)


@both
def test_mixed_and_wide_domains(mechanism: HeavyHitters) -> None:
    draws = np.random.default_rng(4)
    columns = {a.name: draws.integers(0, a.size, N) for a in MIXED}
    for column in columns.values():
        column[:900] = 1
    found = mechanism.run(CodedTable(MIXED, columns), NoiseSource.seeded(2))
    assert found.names == ("region", "zip", "sex") and found.codes[0].tolist() == [1, 1, 1]
    table = found.to_arrow(MIXED)
    assert table.column_names == ["region", "zip", "sex", "value", "low", "high", "noise_scale"]
    assert table["region"][0].as_py() == "b" and table["sex"][0].as_py() == "true"


@both
def test_ten_million_values(mechanism: HeavyHitters) -> None:
    schema = Schema((Attribute("id", "integer", low=0, high=10**7 - 1), Attribute("sex", "boolean")))
    ids = np.random.default_rng(5).integers(0, 10**7, N)
    ids[:800] = 123_456
    table = CodedTable(schema, {"id": ids, "sex": np.zeros(N, np.int64)})
    found = mechanism.run(table, NoiseSource.seeded(3))
    assert found.codes[0].tolist() == [123_456, 0]


@both
@pytest.mark.parametrize("d", [1, 2, 3, D])
def test_all_rows_equal(mechanism: HeavyHitters, d: int) -> None:
    schema = Schema(BITS.attributes[:d])
    table = CodedTable(schema, {name: np.ones(N, np.int64) for name in schema.names})
    found = mechanism.run(table, NoiseSource.seeded(3))
    assert found.codes[0].tolist() == [1] * d and abs(int(found.counts[0]) - N) < 100


@both
def test_no_rows_are_refused_and_nothing_is_promised_for_them(mechanism: HeavyHitters, tmp_path: Path) -> None:
    table = pa.table({name: pa.array([], pa.bool_()) for name in BITS.names})
    with pytest.raises(NablaDPError, match="no rows"):
        Session(table, BITS, Budget(per_attribute=CDP(9)), ledger=tmp_path / "l.db", new_ledger=True).release(mechanism)
    assert "nothing" in str(mechanism.expected_error(BITS, 0).to_json()["summary"])


@both
def test_too_few_rows_are_refused_before_anything_is_spent(mechanism: HeavyHitters) -> None:
    with pytest.raises(MechanismError, match="Nothing can be certified"):
        mechanism.guarantee(BITS, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"over": ()},
        {"over": "a1"},
        {"over": ("a1", "a1")},
        {"failure": 0},
        {"failure": 1},
        {"failure": None},
        {"failure": float("nan")},
        {"frequency": 1},
        {"frequency": 1.5},
        {"frequency": 0},
        {"count_share": 0.5},
        {"notion": "approximate"},
        {"memory_mb": 0},
        {"memory_mb": "much"},
        {"lists": "yes"},
        {"settings": {"mu": 3}},
    ],
)
def test_bad_options_say_what_to_do(wrong: dict[str, Any]) -> None:
    with pytest.raises(NablaDPError) as caught:
        HeavyHitters(CDP(1), **wrong)
    assert caught.value.fix


@pytest.mark.parametrize(("budget", "notion"), [(Pure(1), "cdp"), (CDP(1), "pure"), (1.0, "cdp"), (Rho(1), "pure")])
def test_budgets_of_the_wrong_kind_are_refused(budget: Any, notion: str) -> None:
    with pytest.raises(BudgetError):
        HeavyHitters(budget, notion=notion)


def test_unknown_options_and_columns_name_the_near_one() -> None:
    with pytest.raises(PlanError, match="has no option 'frequncy'") as caught:
        HeavyHitters.from_plan({"budget": {"cdp": 1}, "frequncy": 0.1})
    assert "frequency" in str(caught.value.fix)
    with pytest.raises(NablaDPError, match="a_1"):
        HeavyHitters(CDP(1), over=("a_1",)).guarantee(BITS, N)


def test_little_memory_is_refused_before_anything_is_spent() -> None:
    schema = Schema(tuple(Attribute(f"z{i}", "integer", low=0, high=9_999_999) for i in range(40)))
    with pytest.raises(NablaDPError):
        HeavyHitters(CDP(0.01), memory_mb=1).guarantee(schema, 1000)


@both
def test_settings_of_a_release_run_again_and_are_priced_again(mechanism: HeavyHitters) -> None:
    planned = mechanism.plan(BITS, N)
    again = Settings.from_json(json.loads(json.dumps(planned.to_json())))
    assert again == planned
    given = type(mechanism)(mechanism.budget, notion=mechanism.notion, settings=again)
    assert given.guarantee(BITS, N) == mechanism.guarantee(BITS, N)
    assert given.plan(BITS, N).certified == planned.certified
    assert type(given).from_plan(json.loads(json.dumps(given.to_json()))) == given
    poor = type(mechanism)(
        Pure(0.5) if mechanism.notion == "pure" else CDP(0.5), notion=mechanism.notion, settings=again
    )
    with pytest.raises(BudgetError, match="more than its budget"):
        poor.guarantee(BITS, N)
    other = "cdp" if mechanism.notion == "pure" else "pure"
    with pytest.raises(MechanismError, match="other notion"):
        HeavyHitters(CDP(9) if other == "cdp" else Pure(9), notion=other, settings=again)


@pytest.mark.parametrize(("sizes", "cells", "fan"), [((2,) * 7, 2, 2), ((3, 5, 2, 2, 9), 6, 3), ((4,), 2, 2)])
def test_trees_round_trip(sizes: tuple[int, ...], cells: int, fan: int) -> None:
    for free in (1, 4, 100):
        tree = Tree.build(sizes, cells, fan, free)
        assert Tree.from_json(json.loads(json.dumps(tree.to_json()))) == tree


def test_lists_of_all_nodes_on_request() -> None:
    mechanism = HeavyHitters(Pure(1), notion="pure", lists=True)
    found = mechanism.run(people(), NoiseSource.seeded(4))
    assert len(found.node_lists) == sum(node.thresholded for node in mechanism.plan(BITS, N).tree.nodes)
    whole = {tuple(row) for row in found.node_lists[-1].codes.tolist()}
    assert whole == {tuple(row) for row in found.codes.tolist()}
    for listed in found.node_lists:  # every string found has its part in every list
        places = [found.names.index(name) for name in listed.attributes]
        parts = {tuple(row) for row in listed.codes.tolist()}
        assert {tuple(row) for row in found.codes[:, places].tolist()} <= parts
    table = found.extra_tables(BITS)["lists"]
    assert table.num_rows == sum(len(listed.codes) for listed in found.node_lists)
    again = mechanism.read_output(json.loads(json.dumps(found.to_json())), BITS)
    assert again.to_json() == found.to_json()
    assert not HeavyHitters(Pure(1), notion="pure").run(people(), NoiseSource.seeded(4)).extra_tables(BITS)


def test_a_column_named_value_keeps_its_name() -> None:
    schema = Schema((Attribute("value", "boolean"), Attribute("low", "boolean")))
    table = CodedTable(schema, {"value": np.ones(N, np.int64), "low": np.zeros(N, np.int64)})
    found = HeavyHitters(CDP(1)).run(table, NoiseSource.seeded(1)).to_arrow(schema)
    assert found.column_names == ["value", "low", "value_", "low_", "high", "noise_scale"]


def test_plot_shows_bars_intervals_and_the_certificate() -> None:
    found = HeavyHitters(CDP(1)).run(people(), NoiseSource.seeded(1))
    drawn = json.dumps(found.plot(BITS).to_dict())
    assert re.search(r'"count": 9\d\d|"count": 10\d\d', drawn) and "certified" in drawn and "combination 1" in drawn
    assert f"certified: {found.certified}" in drawn and "tooltip" in drawn


@pytest.mark.parametrize("attributes", [3, 12, 30])
def test_tooltips_tell_the_values_or_where_they_differ(attributes: int) -> None:
    schema = Schema(tuple(Attribute(f"a{i}", "boolean") for i in range(attributes)))
    codes = np.zeros((1000, attributes), np.int64)
    codes[:400, -1] = 1
    codes[:100] = 1
    table = CodedTable(schema, {f"a{i}": codes[:, i] for i in range(attributes)})
    found = HeavyHitters(CDP(1)).run(table, NoiseSource.seeded(1)).heaviest(3)
    drawn = found.plot(schema).to_dict()
    first, second, third = (row["values"] for row in drawn["datasets"][drawn["data"]["name"]])
    if attributes <= 12:
        assert first.count("false") == attributes and third.count("true") == attributes
        assert second.endswith(f"a{attributes - 1} true") and second.count("false") == attributes - 1
    else:
        assert "most frequent" in first and second == f"as the first, but a{attributes - 1} true"
        assert third.count("true") == 12 and third.endswith("and 18 others")


def test_a_release_holds_the_certificate(tmp_path: Path) -> None:
    rows = np.random.default_rng(3).integers(0, 2, (N, D)).astype(bool)
    rows[:1000] = True
    table = pa.table({f"a{i}": rows[:, i] for i in range(D)})
    session = Session(table, BITS, Budget(per_attribute=CDP(1)), ledger=tmp_path / "ledger.db", new_ledger=True)
    mechanism = HeavyHitters(CDP(0.8))
    summary = session.cost(mechanism).to_json()
    certified = mechanism.plan(BITS, N).certified
    assert str(certified) in json.dumps(summary)
    release = session.release(mechanism, name="heavy", to=tmp_path / "out")
    assert release.output.certified == certified
    assert list((tmp_path / "out").rglob("*.parquet"))


@pytest.mark.parametrize("budget", [CDP(0.8), Pure(0.7), Pure(0.1), Rho(0.3)])
def test_the_whole_of_a_budget_may_be_asked_for(budget: Any) -> None:
    """Also before the number of rows is known: nothing is rounded up on the way."""
    notion = "pure" if isinstance(budget, Pure) else "cdp"
    claim = HeavyHitters(budget, notion=notion).guarantee(BITS, 0)
    spent = claim.pure_units("a0") if notion == "pure" else claim.rho_units("a0")
    assert spent == limit_units(budget)


@pytest.mark.parametrize(
    "wrong",
    [
        {"leaves": [1, 1], "thresholded": [True, True], "joins": []},  # two roots
        {"leaves": [1, 1], "thresholded": [True, True], "joins": [[1, 1]]},
        {"leaves": [2, -1, 1], "thresholded": [True, True, True], "joins": [[3]]},  # overlapping
        {"leaves": [1, 0, 1], "thresholded": [True, True, True], "joins": [[3]]},
        {"leaves": [1], "thresholded": [True], "joins": []},  # an attribute is missing
        {"leaves": [2], "thresholded": [False], "joins": []},  # a root without a threshold
        {"leaves": [1, 1], "thresholded": [True, True], "joins": [[2, -2, 2]]},
    ],
)
def test_what_is_no_tree_is_refused(wrong: dict[str, Any]) -> None:
    """The proof needs nodes that are nested or disjoint, and one root."""
    with pytest.raises(MechanismError):
        Tree.from_json({"sizes": [2, 2]} | wrong)
    body = HeavyHitters(CDP(1)).plan(BITS, N).to_json()
    with pytest.raises(MechanismError, match="must be the settings of a tree"):
        HeavyHitters(CDP(1), settings=body | {"tree": {"sizes": [2, 2]} | wrong})  # type: ignore[arg-type]


def test_thresholds_are_whole_numbers() -> None:
    body = HeavyHitters(Pure(1), notion="pure").plan(BITS, N).to_json()
    for change in ({"mu": 1.5}, {"mu": True}):
        with pytest.raises(MechanismError):
            HeavyHitters(Pure(1), notion="pure", settings=body | change)  # type: ignore[arg-type]


def test_sharing_a_path_costs_a_set_once() -> None:
    """Sixteen attributes below one node: the whole person pays what one attribute does."""
    schema = Schema(tuple(Attribute(f"a{i}", "boolean") for i in range(16)))
    mechanism = HeavyHitters(Pure(1), notion="pure")
    assert len(mechanism.plan(schema, 100_000).tree.lowest_nodes) == 16
    assert len(set(mechanism.plan(schema, 100_000).tree.lowest_nodes)) == 1
    guarantee = mechanism.guarantee(schema, 100_000)
    assert guarantee.epsilon(schema.names) == guarantee.epsilon(["a3"]) <= 1


def test_settings_may_leave_out_what_toml_has_no_word_for() -> None:
    body = HeavyHitters(CDP(1)).plan(BITS, N).to_json()
    kept = {key: value for key, value in body.items() if value is not None}
    assert "count_scale" not in kept and Settings.from_json(kept) == Settings.from_json(body)


def test_more_rows_than_declared_are_told_as_such(tmp_path: Path) -> None:
    rows = np.random.default_rng(3).integers(0, 2, (1500, D))
    lines = [",".join(BITS.names), *(",".join(map(str, row)) for row in rows.tolist())]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    session = Session(
        str(tmp_path / "people.csv"),
        BITS,
        Budget(per_attribute=Pure(2)),
        ledger=tmp_path / "l.db",
        rows=1000,
        new_ledger=True,
    )
    with pytest.raises(DataError, match="number of rows") as caught:
        session.release(HeavyHitters(Pure(1), notion="pure"))
    assert "1500" not in str(caught.value)


def test_a_claim_for_any_number_of_rows_refuses_nothing_that_fits(tmp_path: Path) -> None:
    """Before the rows are counted only limits that hold whatever their number are checked."""
    schema = Schema(tuple(Attribute(f"a{i}", "boolean") for i in range(40)))
    rows = np.random.default_rng(3).integers(0, 2, (2000, 40))
    lines = [",".join(schema.names), *(",".join(map(str, row)) for row in rows.tolist())]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    budget = Budget(per_attribute=CDP(1), person=Rho(2))
    session = Session(str(tmp_path / "people.csv"), schema, budget, ledger=tmp_path / "l.db", new_ledger=True)
    assert session.release(HeavyHitters(CDP(1))).guarantee.per_person().rho <= 2
