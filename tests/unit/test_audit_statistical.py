"""The statistical audit: true claims stay, false ones fall, and what it looks at is what is published."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.audit import StatisticalAudit, statistical_audit
from nabladp.audit.features import Flat, Layout
from nabladp.audit.neighbouring_tables import PairMaker
from nabladp.audit.runs import PooledNoise, RememberedTable
from nabladp.errors import AuditError
from nabladp.mechanisms import Auditable
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import Kernel

BITS = Schema((Attribute("a", "boolean"), Attribute("b", "boolean")))


@dataclass(frozen=True)
class Response(Auditable):
    """Randomized response on the number of ones of ``a``, by row; claims what it is told to."""

    claimed: float
    keep: Fraction = Fraction(3, 4)

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.touch(schema, ["a"], Pure(self.claimed))

    def run(self, counts: Any, noise: NoiseSource) -> list[int]:
        (ones,) = counts.marginals([("a",)])
        return [int(x) for x in noise.randomized_response_counts(ones, self.keep)]


@dataclass(frozen=True)
class Noisy(Auditable):
    """The number of ones with Gaussian noise; half of the rows' noise depends on nothing, as it should."""

    scale: float
    claimed: float

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.touch(schema, ["a"], Rho(self.claimed))

    def run(self, counts: Any, noise: NoiseSource) -> float:
        (ones,) = counts.marginals([("a",)])
        return float(ones[1] + noise.discrete_gaussian(self.scale, 1)[0])


def audited(mechanism: Any, runs: int = 4000, seed: int = 1, **more: Any) -> StatisticalAudit:
    return statistical_audit(mechanism, BITS, runs=runs, noise=NoiseSource.seeded(seed), **more)


def row(audit: StatisticalAudit, *names: str) -> Any:
    return next(row for row in audit.rows if row.attributes == names)


def test_randomized_response_true_claim_stays_and_a_smaller_one_falls() -> None:
    audit = audited(Response(math.log(3)), rows=1)
    assert audit.passed and row(audit, "a").lower_pure > 0.7 * math.log(3)
    assert row(audit, "b").lower_pure == 0 and row(audit, "b").claimed_pure == 0
    wrong = audited(Response(0.6 * math.log(3)), rows=1)
    assert {found.attributes for found in wrong.refuted} == {("a",), ("a", "b")}
    assert wrong.to_json()["passed"] is False


def test_gaussian_noise_true_claim_stays_and_seven_tenths_of_the_noise_falls() -> None:
    audit = audited(Noisy(1.0, 0.5), runs=8000)
    found = row(audit, "a")
    assert audit.passed and found.lower_mu > 0.75 * found.claimed_mu and found.tightness < 1
    assert not audited(Noisy(0.7, 0.5), runs=8000).passed


def test_noise_whose_spread_gives_it_away() -> None:
    class Spread(Noisy):
        def run(self, counts: Any, noise: NoiseSource) -> float:
            (ones,) = counts.marginals([("a",)])
            return float(noise.discrete_gaussian(2.0 + 3.0 * (ones[1] > 0), 1)[0])

    assert not audited(Spread(1.0, 0.02)).passed


def test_a_column_that_is_read_but_not_charged_is_found() -> None:
    class Reads(Noisy):
        def run(self, counts: Any, noise: NoiseSource) -> float:
            (ones,) = counts.marginals([("b",)])
            return super().run(counts, noise) + 2.0 * float(ones[1])

    assert ("b",) in {found.attributes for found in audited(Reads(1.0, 0.5)).refuted}


def test_true_claims_are_refuted_no_more_often_than_allowed() -> None:
    """Tight claims, where it would show: with β = 0.2 each, 40 audits may refute 8 on average at the very most."""
    refuted = sum(
        not audited(Response(math.log(3)), runs=400, seed=seed, beta=0.2, rows=1, sets=["a"]).passed
        for seed in range(40)
    )
    assert refuted <= 12


def test_equal_seeds_give_equal_audits() -> None:
    one, other = (audited(NoisyMarginals(CDP(1), k=1), runs=200, seed=4) for _ in range(2))
    assert one == other
    json.dumps(one.to_json(), allow_nan=False)


def test_own_pairs_features_and_claims() -> None:
    seen = []

    def first(output: Any) -> Any:
        seen.append(output)
        return output[0]

    pair = ([{"a": 0}, {"b": 1}], [{"a": 1}, {"b": 1}])
    claim = Guarantee.touch(BITS, ["a"], Pure(0.1))
    audit = audited(Response(9.0), rows=2, pairs=[pair], features=first, guarantee=claim, sets=["a", "b"])
    assert seen and not audit.passed
    assert row(audit, "b").runs == 0  # none of the pairs is of this set
    with pytest.raises(AuditError, match="several rows"):
        audited(Response(1.0), rows=2, pairs=[([{}, {}], [{"a": 1}, {"a": 1}])])
    with pytest.raises(AuditError, match="different numbers"):
        audited(Response(1.0), rows=2, pairs=[([{}], [{}, {}])])


@pytest.mark.parametrize("options", [{"beta": 0}, {"runs": 3}])
def test_senseless_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(AuditError):
        statistical_audit(Response(1.0), BITS, **options)


def test_public_attributes_are_not_audited() -> None:
    schema = Schema((Attribute("a", "boolean"), Attribute("c", "boolean", public=True)))
    audit = statistical_audit(Response(math.log(3)), schema, runs=64, noise=NoiseSource.seeded(1))
    assert {found.attributes for found in audit.rows} == {("a",)}
    with pytest.raises(AuditError, match="public"):
        statistical_audit(Response(1.0), schema, sets=["c"])


def test_progress_is_told_and_time_is_kept_to_roughly() -> None:
    told: list[tuple[str, int, int]] = []
    statistical_audit(Noisy(1.0, 0.5), BITS, seconds=2, progress=lambda *args: told.append(args))
    assert told and all(what == "run" and 0 < done <= total for what, done, total in told)


# ---- pairs ----------------------------------------------------------------------------------------------------------


def test_pairs_differ_in_one_row_within_the_set_and_derived_columns_follow() -> None:
    schema = Schema(
        (
            Attribute("a", "categorical", values=("x", "y", "z")),
            Attribute("b", "boolean"),
            Attribute("d", "boolean", derived_from=("a", "b")),
        )
    )
    maker = PairMaker(NoisyMarginals(CDP(1), k=1), schema, 5, NoiseSource.seeded(1))
    for names in (("a",), ("a", "b")):
        pairs = maker.pairs(names)
        assert len(pairs) > 5
        for one, other in pairs:
            assert maker._differing(one, other) <= set(names) and one != other
            assert all(d == (a + b) % 2 for a, b, d in (*one, *other))


# ---- what makes it quick ---------------------------------------------------------------------------------------------


def test_pooled_noise_is_the_same_law_and_never_hands_out_a_draw_twice() -> None:
    pooled = PooledNoise(NoiseSource.seeded(3))
    drawn = np.concatenate([pooled.discrete_gaussian(3.0, (2, 2)).ravel() for _ in range(5000)])
    assert drawn.std() == pytest.approx(3.0, rel=0.03) and abs(drawn.mean()) < 0.1
    halves = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    assert abs(np.corrcoef(*halves)[0, 1]) < 0.05
    assert pooled.is_seeded and not PooledNoise(NoiseSource()).is_seeded


class Ones(Kernel):
    attributes = ("a",)

    def __init__(self, noise: NoiseSource | None = None) -> None:
        self.noise = noise

    def __call__(self, batch: Any) -> Any:
        CALLS.append(1)
        return np.array([int(batch.column("a").to_numpy().sum())], dtype=np.int64)


CALLS: list[int] = []


def test_sums_are_remembered_unless_the_kernel_draws() -> None:
    table = RememberedTable(BITS, {"a": np.array([0, 1, 1]), "b": np.array([0, 0, 1])})
    CALLS.clear()
    first, again = table.fold(Ones()), table.fold(Ones())
    assert len(CALLS) == 1 and first == again == 2
    first += 5
    assert table.fold(Ones()) == 2
    for noise in (NoiseSource(), PooledNoise(NoiseSource())):
        CALLS.clear()
        table.fold(Ones(noise)), table.fold(Ones(noise))
        assert len(CALLS) == 2
    one, other = table.marginals([("a",)]), table.marginals([("a",)])
    one[0][:] = 0
    assert other[0].tolist() == [1, 2]


# ---- features --------------------------------------------------------------------------------------------------------


def test_lists_of_varying_length_become_columns_by_what_they_hold() -> None:
    outputs = [{"codes": [[0, 1]], "counts": [5]}, {"codes": [[1, 1], [0, 1]], "counts": [3, 4]}]
    layout = Layout.fit(outputs)
    place = layout.keys.index("/codes:[0.0, 1.0]/counts")
    values = [layout.row(output)[0][place] for output in outputs]
    assert values == [5.0, 4.0]
    assert layout.row({"codes": [[7, 7]], "counts": [1]})[0][-1] > 0  # what was never seen before counts, too


def test_any_output_has_columns_and_a_symbol() -> None:
    values = [1, 2.5, None, "x", False, [1, 2], [[1], [2, 3]], {"a": [None, 1]}, np.ones((2, 2, 2)), object]
    symbols = {Flat.of(value).symbol() for value in values}
    assert len(symbols) == len(values)
