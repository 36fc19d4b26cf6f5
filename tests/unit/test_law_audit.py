"""Runs against the law: what is refuted, what is not, how often that is wrong, and what would have been noticed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from nabladp.audit import Audit, audit, law_audit
from nabladp.audit.bets import POWERS, Bets, PublishedLaw, merge_outcomes, temper
from nabladp.audit.law_audit import DIVISORS, ScaledNoise
from nabladp.errors import AuditError
from nabladp.mechanisms import Auditable, Law, Scenario, ValueLaw
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource, gaussian_log_pmf, laplace_log_pmf
from nabladp.privacy import CDP, Guarantee, Pure
from nabladp.schema import Attribute, Schema
from nabladp.tables import Counts
from nabladp.workloads import Conjunctions

AB = Schema((Attribute("a", "boolean"), Attribute("b", "boolean")))
SCALE, REACH = 3.0, 60


@dataclass(frozen=True)
class TwoCounts(Auditable):
    """The counts of a, with Laplace noise; ``divisor`` and ``how`` are faults of its run alone."""

    divisor: float = 1.0
    how: str = "sound"

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.touch(schema, ["a"], Pure(2 / SCALE))

    def run(self, counts: Counts, noise: NoiseSource) -> Any:
        (table,) = counts.marginals([("a",)])
        drawn = noise.discrete_laplace(SCALE / self.divisor, 2)
        if self.how == "reused":
            drawn[1] = drawn[0]
        if self.how == "missing":
            drawn[1] = 0
        if self.how == "positive":
            return np.maximum(table + drawn, 0)
        return table + drawn

    def reads(self, schema: Schema) -> tuple[str, ...]:
        return ("a",)

    def distribution(self, counts: Counts) -> Law:
        (table,) = counts.marginals([("a",)])
        return Law(tuple(laplace_log_pmf(SCALE, -REACH - c, REACH - c) for c in table.tolist()))

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        return [Scenario(0.0, {i: ValueLaw(-REACH, part) for i, part in enumerate(law.arrays())})]

    def published_values(self, output: Any, schema: Schema, n: int) -> Mapping[Any, int]:
        named = dict(enumerate(output.tolist()))
        return named | {"more": 1} if self.how == "says more" else named


def check(mechanism: Auditable, runs: int = 400, seed: int = 1, **more: Any) -> Any:
    return law_audit(mechanism, AB, rows=2, runs=runs, noise=NoiseSource.seeded(seed), **more)


# ---- what is refuted, and what is not --------------------------------------------------------------------------------


def test_sound_runs_are_not_refuted_and_say_how_much_they_show() -> None:
    found = check(TwoCounts())
    assert found.passed and found.verdict == "consistent" and found.p_value > 0.01
    assert found.runs == 400 and found.detectable in DIVISORS
    assert check(TwoCounts(), 4000).detectable < found.detectable


@pytest.mark.parametrize("how", ["reused", "missing", "positive", "says more"])
def test_faults_of_run_alone_are_refuted(how: str) -> None:
    found = check(TwoCounts(how=how))
    assert found.refuted and found.verdict == "refuted" and found.p_value < 0.01 and found.detectable is None


def test_noise_used_twice_shows_in_pairs_only() -> None:
    assert check(TwoCounts(how="reused")).most_telling == "numbers 0 and 1"


def test_a_number_that_no_law_knows_is_certain() -> None:
    found = check(TwoCounts(how="says more"), 64)
    assert math.isinf(found.log_capital) and found.most_telling == "numbers that the law does not know"
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["p_value"] < 1e-300


def test_what_is_detectable_is_detected_when_planted() -> None:
    """Of many audits with the noise divided by the smallest divisor that was stated, nine in ten refute."""
    stated = check(TwoCounts(), 600).detectable
    assert stated is not None and stated < 1.6
    refuted = sum(check(TwoCounts(stated), 600, seed).refuted for seed in range(40))
    assert refuted >= 33  # 36 are expected at least; with as many, fewer than 33 come up once in fifty


# ---- the bets themselves ---------------------------------------------------------------------------------------------


def gaussians(*means: int) -> PublishedLaw:
    return PublishedLaw([Scenario(0.0, {m: ValueLaw(-40, gaussian_log_pmf(SCALE, -40 - m, 40 - m)) for m in means})])


def test_a_bet_never_wins_on_average() -> None:
    """All that a single run can win, weighted by the law, is 1: for every power, and for merged cells."""
    law = gaussians(0, 3)
    outcomes = np.arange(1, len(law.marginals[0]))  # the number is always there
    bets, (chances, others) = Bets(law), (np.exp(logs[1:]) for logs in law.marginals)
    assert chances @ np.exp(bets.single_ratios(0, outcomes)) == pytest.approx(np.ones(len(POWERS)))
    both = np.stack(np.meshgrid(outcomes, outcomes, indexing="ij"), axis=-1).reshape(-1, 2)
    joint = np.outer(chances, others).ravel()
    assert joint @ np.exp(bets.whole_ratios(both)) == pytest.approx(np.ones(len(POWERS)))
    capital = 0.0
    for outcome, chance in zip(outcomes.tolist(), chances.tolist(), strict=True):
        one = Bets(law)
        one.add([[outcome, 40]])
        capital += chance * math.exp({name: won for name, won, _ in one.tests()}["number 0"])
    assert capital == pytest.approx(1)


def test_true_laws_are_refuted_no_more_often_than_stated() -> None:
    """Looked at after every few runs: at most one in five ever reaches a capital of five."""
    law, draws, wrong = gaussians(0, 3), np.random.default_rng(1), 0
    chances = [np.exp(logs) for logs in law.marginals]
    for _ in range(200):
        bets = Bets(law)
        for _ in range(8):
            drawn = np.stack([draws.choice(len(own), 8, p=own) for own in chances], axis=1)
            bets.add(drawn.tolist())
            if bets.log_capital >= math.log(5):
                wrong += 1
                break
    assert wrong <= 40


def test_tempered_noise_is_noise_of_a_smaller_scale() -> None:
    wide, narrow = (gaussian_log_pmf(s, -90, 90) for s in (6.0, 3.0))
    never = np.array([-np.inf])
    found = temper(np.concatenate([never, wide]), 4.0)[1:]
    assert found[60:121] == pytest.approx(narrow[60:121], abs=1e-9)


def test_scenarios_mix_what_is_published() -> None:
    """Two courses of a run: a number that is there in one of them only, and one that always is."""
    there = Scenario(math.log(0.25), {"x": ValueLaw.certain(5), "y": ValueLaw(0, np.log([0.5, 0.5]))})
    law = PublishedLaw([there, Scenario(math.log(0.75), {"y": ValueLaw(0, np.log([0.9, 0.1]))})])
    x, y = law.columns
    assert np.exp(law.marginals[0])[:2] == pytest.approx([0.75, 0.25], abs=1e-6)
    assert np.exp(law.marginals[1])[1:3] == pytest.approx([0.25 * 0.5 + 0.75 * 0.9, 0.25 * 0.5 + 0.75 * 0.1], abs=1e-6)
    assert law.outcomes({"x": 5, "y": 1}) == [1, 2] and law.outcomes({"y": 0}) == [0, 1]
    assert law.outcomes({"z": 1}) is None and law.outcomes({"x": 6, "y": 7}) == [x.length + 1, y.length + 1]


def test_a_step_puts_numbers_together() -> None:
    law = PublishedLaw([Scenario(0.0, {0: ValueLaw(-10, np.log(np.full(5, 0.2)), step=5)})])
    assert [law.outcomes({0: value}) for value in (-10, -8, -7, 10, 13)] == [[1], [1], [2], [5], [6]]


def test_merged_cells_have_equal_shares_and_impossible_outcomes_are_apart() -> None:
    cells, chances = merge_outcomes(np.log(np.array([0.25, 0.25, 0.0, 0.25, 0.25]) + 1e-300), 2)
    assert cells.tolist() == [0, 0, 1, 1, 1] and chances[:2] == pytest.approx([0.5, 0.5])
    with np.errstate(divide="ignore"):
        cells, chances = merge_outcomes(np.log(np.array([0.5, 0.0, 0.5])), 4)
    assert cells.tolist() == [0, 2, 1] and chances.tolist() == [0.5, 0.5, 0.0]


def test_scaled_noise_divides_every_scale() -> None:
    source = ScaledNoise(NoiseSource.seeded(1), 4.0, selections=False)
    assert np.std(source.discrete_gaussian(40, 4000)) == pytest.approx(10, rel=0.1)
    assert np.mean(np.abs(source.discrete_laplace(40, 4000))) == pytest.approx(10, rel=0.1)
    assert len(source.tail_values("gaussian", 40, 30, 5)) == 5 and source.adds == 3
    plain = [source.select_exponential([0, 2], 4) for _ in range(600)]
    sharp = ScaledNoise(NoiseSource.seeded(1), 4.0, selections=True)
    assert np.mean(plain) < 0.72 < 0.8 < np.mean([sharp.select_exponential([0, 2], 4) for _ in range(600)])
    assert np.mean([sharp.select_lowest(np.array([0, 2]), 0.5) for _ in range(600)]) < 0.05
    kept = sharp.randomized_response_counts(np.array([1000, 0]), 0.75)
    assert 970 < kept[0] < 1000  # odds of 3 become odds of 81
    assert source.randomized_response_counts(np.array([1000, 0]), 1).tolist() == [1000, 0]


# ---- in an audit -----------------------------------------------------------------------------------------------------


def test_an_audit_compares_runs_with_the_law_and_says_so() -> None:
    found = audit(NoisyMarginals(CDP(1), k=1), AB, runs=200, statistical=False, noise=NoiseSource.seeded(1))
    assert found.passed and found.law is not None and found.detectable == found.law.detectable
    assert "runs follow the exact law" in str(found) and "would have been noticed" in found.describe_law()
    body = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert body["law"]["passed"] and body["detectable"] == found.detectable and body["law_note"] == ""


def test_a_fault_of_run_alone_fails_an_audit() -> None:
    found = audit(TwoCounts(how="reused"), AB, runs=200, statistical=False, noise=NoiseSource.seeded(1))
    assert not found.passed and found.exact is not None and found.exact.passed and not found.refuted
    assert "run() does not follow distribution()" in str(found) and "no claim refuted" in str(found)


def test_false_alarms_are_shared_between_both_ways_of_running() -> None:
    found = audit(TwoCounts(), AB, runs=64, exact=False, sets=["a"], noise=NoiseSource.seeded(1))
    assert found.law is not None and found.statistical is not None
    assert found.law.beta + found.statistical.beta == pytest.approx(0.01)
    alone = audit(TwoCounts(), AB, runs=64, exact=False, law=False, sets=["a"], noise=NoiseSource.seeded(1))
    assert alone.law is None and alone.statistical is not None and alone.statistical.beta == 0.01
    assert alone.detectable is None and "not asked for" in alone.describe_law()


def test_what_has_no_law_says_why() -> None:
    found: Audit = audit(MWEM(CDP(1), Conjunctions(1), rounds=3), AB, runs=64, exact=False, statistical=False)
    assert found.law is None and "two rounds" in found.law_note and found.passed

    class Silent(TwoCounts):
        published_law = Auditable.published_law

    with pytest.raises(AuditError, match="does not say which outcome"):
        check(Silent())


def test_large_schemas_are_refused() -> None:
    wide = Schema((Attribute("a", "boolean"), Attribute("b", "integer", low=0, high=99)))
    with pytest.raises(AuditError, match="200 records"):
        law_audit(TwoCounts(), wide, runs=64)


def test_a_small_table_and_a_larger_one_are_used() -> None:
    found = law_audit(TwoCounts(), AB, runs=64, noise=NoiseSource.seeded(3))
    assert [row.table_rows for row in found.rows] == [2, 16]


def test_numbers_that_cannot_come_together_are_certain() -> None:
    """Each is possible by itself; in no course of the run are both there."""
    one, other = (Scenario(math.log(0.5), {name: ValueLaw.certain(1)}) for name in "xy")
    for more in (0, 100):  # few scenarios, and many
        rest = [Scenario(math.log(1e-9), {"z": ValueLaw.certain(i)}) for i in range(more)]
        bets = Bets(PublishedLaw([one, other, *rest]))
        bets.add([bets.law.outcomes(values) for values in ({"x": 1}, {"y": 1})])
        assert math.isfinite(bets.log_capital)
        bets.add([bets.law.outcomes({"x": 1, "y": 1})])
        assert math.isinf(bets.log_capital)


def test_many_scenarios_are_compared_as_few_are() -> None:
    draws = np.random.default_rng(2)
    laws = [ValueLaw(0, np.log(own)) for own in draws.dirichlet(np.ones(4), 80)]
    few = [Scenario(math.log(1 / 80), {"x": law, i % 3: laws[i // 2]}) for i, law in enumerate(laws)]
    bets = Bets(PublishedLaw(few))
    outcomes = np.array([bets.law.outcomes(values) for values in ({"x": 1, 0: 2}, {"x": 3, 2: 0}, {"x": 0, 1: 3})])
    together = np.array([bets._likelihoods(number, outcomes) for number in range(len(POWERS) + 1)])
    np.testing.assert_allclose(together.T, [bets._likelihoods_of(run) for run in outcomes])


def test_by_the_clock() -> None:
    found = law_audit(TwoCounts(), AB, seconds=1.5, noise=NoiseSource.seeded(3))
    assert found.passed and 1 <= len(found.rows) <= 2 and all(row.runs for row in found.rows)
    told: list[tuple[str, int, int]] = []
    law_audit(TwoCounts(1.4), AB, seconds=5, progress=lambda *seen: told.append(seen))
    assert told and told[0][0] == "run against law" and all(done <= total for _, done, total in told)
