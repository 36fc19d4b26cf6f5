"""Both audits together, the tiny schema they share, and the module that can be called."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

import nabladp
import nabladp.audit as room
from nabladp.audit import Audit, audit, exact_audit
from nabladp.audit.neighbouring_tables import shrink_attribute, tiny_schema
from nabladp.audit.statistical import _how_many
from nabladp.errors import AuditError, MechanismError
from nabladp.mechanisms import Auditable
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.projection import Projection
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Guarantee, Rho
from nabladp.schema import Attribute, Schema
from nabladp.workloads import LinearQueries, LinearQuery, Marginals

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("n", "s", "w")),
        Attribute("age", "integer", low=5, high=99, unknown="clamp"),
        Attribute("income", "real", edges=(0, 10, 20, 50), decode=(1, 12, 30), null="category"),
        Attribute("sick", "boolean"),
        Attribute("idle", "boolean"),
        Attribute("known", "boolean", public=True),
        Attribute("band", "ordered", values=("low", "mid", "high"), derived_from=("age",)),
    )
)


class TooQuiet(NoisyMarginals):
    """Claims half of what it costs."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return NoisyMarginals(Rho(0.25), self.sets).guarantee(schema, n)


def quick(mechanism: Any, **more: Any) -> Audit:
    return audit(mechanism, SCHEMA, runs=200, seconds=8, noise=NoiseSource.seeded(1), **more)


def test_tiny_schema_keeps_what_the_mechanism_needs() -> None:
    small, derive = tiny_schema(PointLearner(CDP(1), "sick", over=("region", "band")), SCHEMA)
    assert small.names == SCHEMA.names and small.public == {"known"} and small.derived == SCHEMA.derived
    sizes = dict(zip(small.names, small.sizes(small.names), strict=True))
    assert sizes == {"region": 3, "age": 2, "income": 2, "sick": 2, "idle": 1, "known": 1, "band": 2}
    assert [derive["band"]({"age": code}) for code in (0, 1)] == [0, 1]
    assert small["age"].label(0) == "5" and small["region"].kind == "categorical"


def test_tiny_schema_stays_tiny_and_keeps_all_values_on_request() -> None:
    wide = Schema(tuple(Attribute(f"x{i}", "integer", low=0, high=9) for i in range(40)))
    small, _ = tiny_schema(NoisyMarginals(CDP(1), k=1), wide)
    assert small.cells(small.roots) <= 96
    kept, _ = tiny_schema(NoisyMarginals(CDP(1), sets=("x3",)), wide, whole=True)
    assert kept["x3"].size == 10 and kept.cells(kept.roots) == 20


@pytest.mark.parametrize("attribute", list(SCHEMA), ids=lambda a: a.name)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_shrunk_attributes_have_their_size(attribute: Attribute, size: int) -> None:
    if size <= attribute.size:
        assert shrink_attribute(attribute, size).size == size
        assert shrink_attribute(attribute, size).derived_from == attribute.derived_from


def test_correct_mechanism_passes_both() -> None:
    found = quick(NoisyMarginals(Rho(0.5), sets=(("region", "sick"),)))
    assert found.passed and found.exact is not None and found.statistical is not None
    assert found.exact.tightest.tightness == pytest.approx(1, abs=1e-6)
    assert {row.attributes for row in found.rows} >= {("region",), ("sick",), ("region", "sick")}
    body = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert body["passed"] and body["sets"][0]["measure"] == "rho"


def test_wrong_claim_falls_by_either_part_alone() -> None:
    wrong = TooQuiet(Rho(0.5), sets=(("region", "sick"),))
    assert not quick(wrong, statistical=False).passed
    found = audit(wrong, SCHEMA, runs=6000, exact=False, sets=["sick"], noise=NoiseSource.seeded(1))
    assert [row.attributes for row in found.refuted] == [("sick",)]
    assert found.exact is None and found.exact_note == "not asked for"


def test_what_has_no_exact_law_says_why_and_is_run_all_the_same() -> None:
    found = quick(MWEM(CDP(1), Marginals(1, over=("region", "sick")), rounds=3), sets=["sick"])
    assert found.exact is None and "two rounds" in found.exact_note
    assert found.statistical is not None and found.statistical.runs > 0

    class BlackBox(Auditable):
        def guarantee(self, schema: Schema, n: int) -> Guarantee:
            return Guarantee.touch(schema, schema.roots, Rho(1))

        def run(self, counts: Any, noise: NoiseSource) -> int:
            return int(noise.discrete_gaussian(1, 1)[0])

    assert "distribution" in quick(BlackBox(), sets=["sick"]).exact_note


def test_parameters_that_name_values_say_why_there_is_no_exact_audit() -> None:
    mechanism = Synthesis(CDP(1), zeros=({"age": {"below": 15}, "income": {"not": "(null)"}},))
    found = quick(mechanism, statistical=False)
    assert found.exact is None and "9,120 records" in found.exact_note
    assert "no sense on a smaller one (In 'zeros', 'income'" in found.exact_note


@pytest.mark.parametrize(("runs", "sets"), [(0, 1), (255, 1), (256, 2), (512, 4), (4999, 4), (6000, 6)])
def test_an_audit_with_time_for_few_runs_looks_at_few_sets(runs: int, sets: int) -> None:
    assert _how_many(runs) == sets


def test_parameters_for_every_value_keep_every_value() -> None:
    query = LinearQuery(("income",), (0, 0.2, 1, 0.5), "mean")
    found = quick(Projection(Rho(0.5), LinearQueries((query,))), sets=["income"])
    assert found.exact is not None and found.passed


def test_sets_asked_for_can_change_even_if_nobody_reads_them() -> None:
    found = quick(NoisyMarginals(Rho(0.5), sets=("sick",)), sets=["band", ["age", "income"]])
    assert [row.attributes for row in found.rows][:2] == [("age",), ("age", "income")]


def test_the_module_is_what_one_calls() -> None:
    assert isinstance(nabladp.audit, ModuleType) and nabladp.audit is room and nabladp.audit.exact_audit is exact_audit
    found = nabladp.audit(NoisyMarginals(Rho(0.5), sets=("sick",)), SCHEMA, statistical=False, seconds=1)
    assert isinstance(found, Audit) and found.passed


def test_exact_audit_gives_up_in_time() -> None:
    tiny = Schema((Attribute("a", "boolean"), Attribute("b", "boolean")))
    with pytest.raises(AuditError, match="too long"):
        exact_audit(NoisyMarginals(CDP(1), k=1), tiny, seconds=1e-9)
    with pytest.raises(AuditError, match="seconds above zero"):
        exact_audit(NoisyMarginals(CDP(1), k=1), tiny, seconds=0)


def test_guarantees_that_need_more_rows_get_them() -> None:
    class Many(NoisyMarginals):
        def guarantee(self, schema: Schema, n: int) -> Guarantee:
            if 0 < n < 20:
                raise MechanismError("Too few rows.")
            return super().guarantee(schema, n)

    found = quick(Many(Rho(0.5), sets=("sick",)), sets=["sick"], exact=False)
    assert found.statistical is not None and found.statistical.table_rows == 64


def test_picture_shows_every_set() -> None:
    pytest.importorskip("altair")
    found = quick(TooQuiet(Rho(0.5), sets=(("region", "sick"),)), statistical=False)
    drawn = json.dumps(found.plot().to_dict())
    assert "refuted" in drawn and "region + sick" in drawn and found.describe_law() in drawn
