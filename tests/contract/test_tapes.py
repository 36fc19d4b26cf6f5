"""The tape of every mechanism agrees with its guarantee; faults planted in runs are found on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from every_mechanism import INSTANCES, SCHEMA
from faults import AB, ABY, Patches, label_is_free, settings

from nabladp.audit import audit, tape_audit
from nabladp.mechanisms import MECHANISMS, Auditable, Mechanism
from nabladp.mechanisms.gram_matrix import signed_columns
from nabladp.mechanisms.heavy_hitters import HeavyHitters, candidates
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner, descent, gradient, gram, holdout, randomized_labels
from nabladp.mechanisms.learners.halfspaces.task import METHODS
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.mwem import round_run as mwem_run
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.mechanisms.synthesis import selection as synthesis_selection
from nabladp.noise import NoiseSource
from nabladp.noise.tape import ForwardingNoise
from nabladp.privacy import CDP, Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.workloads import Marginals
from tests.helpers.opinions import two_choices

ROWS = 200
CAY = Schema((Attribute("c", "categorical", values=tuple("uvw")), Attribute("a", "boolean"), Attribute("y", "boolean")))
MARGINS: dict[str, Any] = {"gamma": 1, "gamma_prime": 0.5}
LEARNERS = [
    HalfspaceLearner(CDP(2), "y", method="auto"),
    HalfspaceLearner(CDP(2), "y", method="descent", steps=3, holdout=0.2, probabilities=True),
    HalfspaceLearner(CDP(2), "y", method="descent", steps=2, label_epsilon=4.0),
    HalfspaceLearner(CDP(2), "y", method="gram", label_treatment="gaussian"),
    HalfspaceLearner(CDP(2), "y", method="gram", label_treatment="response", holdout=0.1),
    HalfspaceLearner(CDP(2), "y", method="average", label_treatment="gaussian"),
    HalfspaceLearner(CDP(2), "y", method="average", label_treatment="response"),
    HalfspaceLearner(CDP(2), "y", method="gradient", steps=3, label_treatment="gaussian"),
    HalfspaceLearner(CDP(2), "y", method="gradient", steps=2, label_treatment="response"),
    HalfspaceLearner(CDP(2), "y", method="robust", label_treatment="gaussian", **MARGINS),
    HalfspaceLearner(CDP(2), "y", method="robust", label_treatment="response", **MARGINS),
    HalfspaceLearner(CDP(2), "y", method="exact", over=("a",), gamma=1, gamma_prime=0),
    HalfspaceLearner(CDP(2), "y", method="exact", over=("a",), gamma=1, gamma_prime=0, label_treatment="direct"),
    HalfspaceLearner(CDP(2), "y", method="exact", hypotheses=((1, 0, 0, 1), (0, 1, 1, 1)), **MARGINS),
]
CASES: list[tuple[Mechanism, Schema]] = [(m, SCHEMA) for m in INSTANCES] + [(m, CAY) for m in LEARNERS]


def name(case: Any) -> str:
    return f"{type(case[0]).__name__}-{CASES.index(case)}" if isinstance(case, tuple) else ""


every = pytest.mark.parametrize("case", CASES, ids=name)


def seeded(seed: int = 1) -> NoiseSource:
    return NoiseSource.seeded(seed)


def test_every_mechanism_and_method_is_here() -> None:
    assert {type(m).__name__ for m, _ in CASES} == set(MECHANISMS)
    assert {m.method for m in LEARNERS} == set(METHODS)


@every
def test_the_tape_agrees_with_the_guarantee(case: tuple[Mechanism, Schema]) -> None:
    mechanism, schema = case
    found = tape_audit(mechanism, schema, ROWS, noise=seeded())
    assert found.passed, str(found)
    assert found.numbers > 0


class Smaller(ForwardingNoise):
    """What is asked for is multiplied by 0.7 on its way."""

    def discrete_laplace(self, scale: Any, size: Any) -> Any:
        return super().discrete_laplace(0.7 * float(scale), size)

    def discrete_gaussian(self, scale: Any, size: Any) -> Any:
        return super().discrete_gaussian(0.7 * float(scale), size)

    def tail_subsets(self, law: Any, scale: Any, start: int, sizes: Sequence[int]) -> Any:
        return super().tail_subsets(law, 0.7 * float(scale), start, sizes)

    def tail_values(self, law: Any, scale: Any, start: int, size: int) -> Any:
        return super().tail_values(law, 0.7 * float(scale), start, size)


@every
def test_less_noise_in_run_is_found(case: tuple[Mechanism, Schema]) -> None:
    mechanism, schema = case
    true = type(mechanism).run
    with Patches() as patches:
        _run_with(patches, type(mechanism), lambda self, counts, noise: true(self, counts, Smaller(noise)))
        found = tape_audit(mechanism, schema, ROWS, noise=seeded(), steps=False)
    if isinstance(mechanism, HalfspaceLearner) and mechanism.method == "exact":
        assert found.passed  # it adds no noise: what it draws are answers and a choice
    else:
        assert found.refuted and any("too small" in f.fault or "missing" in f.fault for f in found.findings)


def _run_with(patches: Patches, kind: type, run: Callable[..., Any]) -> None:
    patches.set(kind, "run", run)


# ---- single faults ---------------------------------------------------------------------------------------------------


def refuted(mechanism: Auditable, schema: Schema, plant: Callable[[Patches], None], rows: int = 40) -> str:
    """What is said of the mechanism with the fault; without it nothing is."""
    sound = tape_audit(mechanism, schema, rows, noise=seeded(3))
    assert sound.passed, str(sound)
    with Patches() as patches:
        plant(patches)
        found = tape_audit(mechanism, schema, rows, noise=seeded(3))
    assert found.refuted and not found.passed
    return str(found)


def shared_noise(patches: Patches) -> None:
    """Noise is drawn once for a level of the tree, and every node gets the same."""

    def split(lengths: Any, draw: Callable[[int], Any]) -> list[Any]:
        each = list(lengths)
        drawn = draw(max(each))
        return [drawn[:length] for length in each]

    patches.set(candidates, "_split_draws", split)


@pytest.mark.parametrize("notion", ["cdp", "pure"])
def test_noise_reused_for_all_nodes_of_a_level(notion: Any) -> None:
    pure = notion == "pure"
    tree = settings(notion, [(1, 2.0), (2, 2.0)], 3.0 if pure else None)
    mechanism = HeavyHitters(Pure(40) if pure else Rho(40), notion=notion, settings=tree)
    told = refuted(mechanism, AB, shared_noise)
    assert "node 0 of the tree" in told and "are missing, reused" in told


def test_noise_reused_higher_up_only() -> None:
    tree = settings("cdp", [(1, 2.0), (1, 3.0), (1, 4.0)], d=4)
    mechanism = HeavyHitters(Rho(40), settings=tree)

    def plant(patches: Patches) -> None:
        true = candidates._split_draws

        def split(lengths: Any, draw: Callable[[int], Any]) -> list[Any]:
            each = list(lengths)
            if len(each) != 2:  # the level in the middle has two nodes
                return true(each, draw)
            drawn = draw(max(each))
            return [drawn[:length] for length in each]

        patches.set(candidates, "_split_draws", split)

    schema = Schema(tuple(Attribute(one, "boolean") for one in "abcd"))
    assert "(level 1)" in refuted(mechanism, schema, plant)


def test_noise_missing_for_one_cell() -> None:
    true = NoisyMarginals._with_noise

    def plant(patches: Patches) -> None:
        class OneLess(ForwardingNoise):
            def discrete_gaussian(self, scale: Any, size: Any) -> Any:
                return np.append(super().discrete_gaussian(scale, size - 1), 0)

        patches.set(NoisyMarginals, "_with_noise", lambda self, t, s, noise: true(self, t, s, OneLess(noise)))

    told = refuted(NoisyMarginals(CDP(1), k=1), AB, plant)
    assert "are missing" in told and "expected 4, found 3" in told


def test_a_smaller_scale_at_one_step_of_descent() -> None:
    def plant(patches: Patches) -> None:
        def drawn(self: Any, scale: float, noise: NoiseSource) -> Any:
            rows = [noise.discrete_gaussian(scale * (0.7 if i == 1 else 1), self.task.width) for i in range(self.steps)]
            return np.array(rows)

        patches.set(descent.Descent, "_draw_noise", drawn)

    told = refuted(HalfspaceLearner(CDP(2), "y", method="descent", steps=3), CAY, plant)
    assert "the steps' sums" in told


@pytest.mark.parametrize("factor", [0.0, 0.7])
def test_a_count_of_labels_with_too_little_noise(factor: float) -> None:
    """How frequent a label is was counted beside the right answers; it has a scale of its own."""
    learner = HalfspaceLearner(CDP(2), "y", method="average", label_treatment="gaussian", holdout=0.2)
    plan = learner._holdout(CAY)
    assert plan is not None and plan.label_scale == pytest.approx(2 * plan.scale)

    def plant(patches: Patches) -> None:
        true = holdout._noise
        smaller = {plan.label_scale: factor * plan.label_scale}
        patches.set(holdout, "_noise", lambda noise, scale, numbers: true(noise, smaller.get(scale, scale), numbers))

    assert "the rows of each label" in refuted(learner, CAY, plant)


def test_a_step_of_gradient_without_noise() -> None:
    def plant(patches: Patches) -> None:
        true = gradient.Gradient.descend

        def descend(self: Any, target: Any, sums: Any, told: Any) -> Any:
            first = sums(np.zeros(len(target), np.int64))
            return true(self, target, lambda weights: sums(weights) if weights.any() else first, told)

        patches.set(gradient.Gradient, "descend", descend)

    assert "more numbers" in refuted(HalfspaceLearner(CDP(2), "y", method="gradient", steps=3), CAY, plant)


def single_flips(patches: Patches) -> None:
    """A one-hot group is counted as one flip: in the Gram matrix."""
    patches.set(signed_columns.Block, "flips", 1)


def single_columns(patches: Patches) -> None:
    """… and in how far one attribute moves a whitened row."""

    def longest_step(matrix: Any, columns: Any) -> float:
        return 4 * float((matrix[:, 1:].astype(np.float64) ** 2).sum(axis=0).max())

    patches.set(gram, "longest_step", longest_step)


@pytest.mark.parametrize("plant", [single_flips, single_columns])
def test_a_one_hot_group_counted_as_one_flip_in_descent(plant: Callable[[Patches], None]) -> None:
    assert "a step loses more" in refuted(HalfspaceLearner(CDP(2), "y", method="descent", steps=3), CAY, plant)


def test_a_one_hot_group_counted_as_one_flip_in_gradient_and_robust() -> None:
    for options in ({"method": "gradient", "steps": 2}, {"method": "robust", **MARGINS}):
        learner = HalfspaceLearner(CDP(2), "y", label_treatment="gaussian", **options)
        assert "a step loses more" in refuted(learner, CAY, single_flips)


def test_labels_used_as_they_are() -> None:
    def plant(patches: Patches) -> None:
        def rows(self: randomized_labels.Response, counts: Any, noise: NoiseSource) -> Any:
            noise.row_response(self.keep)
            return randomized_labels.AnsweredRows(counts, self, lambda labels, first: labels)

        patches.set(randomized_labels.Response, "rows", rows)

    learner = HalfspaceLearner(CDP(2), "y", method="average", label_treatment="response")
    assert "the answers for the label: numbers are missing" in refuted(learner, CAY, plant)


def test_labels_kept_too_often() -> None:
    def plant(patches: Patches) -> None:
        def rows(self: randomized_labels.Response, counts: Any, noise: NoiseSource) -> Any:
            return randomized_labels.AnsweredRows(counts, self, noise.row_response((1 + self.keep) / 2))

        patches.set(randomized_labels.Response, "rows", rows)

    learner = HalfspaceLearner(CDP(2), "y", method="average", label_treatment="response")
    assert "a label is kept too often" in refuted(learner, CAY, plant)


def test_a_choice_sharper_than_paid_for() -> None:
    class Sharper(ForwardingNoise):
        def select_lowest(self, scores: Any, rate: Any) -> int:
            return super().select_lowest(scores, rate / 0.7)

    true = HalfspaceLearner.run

    def plant(patches: Patches) -> None:
        patches.set(HalfspaceLearner, "run", lambda self, counts, noise: true(self, counts, Sharper(noise)))

    for treatment in ("response", "direct"):
        learner = HalfspaceLearner(
            CDP(2), "y", method="exact", over=("a",), gamma=1, gamma_prime=0, label_treatment=treatment
        )
        assert "the choice of a halfspace: the noise scale is too small" in refuted(learner, CAY, plant)


@pytest.mark.parametrize("per_round", [1, 2])
def test_a_stronger_selection_in_mwem(per_round: int) -> None:
    def plant(patches: Patches) -> None:
        true = mwem_run.Scores.of
        patches.set(mwem_run.Scores, "of", lambda self, truth, guess: true(self, truth, guess) / 0.7)

    mechanism = MWEM(CDP(2), Marginals(k=1), rounds=2, per_round=per_round)
    assert "round 1, selection" in refuted(mechanism, ABY, plant)


@pytest.mark.parametrize(("strategy", "one_way"), [("single", 0), ("packed", None)])
def test_a_stronger_first_selection_in_synthesis(strategy: str, one_way: Any) -> None:
    def plant(patches: Patches) -> None:
        true = synthesis_selection.Selector._coefficients

        def coefficients(self: Any, strength: int) -> Any:
            own, largest = true(self, strength)
            return own / 0.7, largest / 0.7

        patches.set(synthesis_selection.Selector, "_coefficients", coefficients)

    schema = Schema(tuple(Attribute(one, "boolean") for one in "abcd"))
    mechanism = Synthesis(CDP(2), strategy=strategy, rounds=2, one_way=one_way)
    assert "the first round's selection" in refuted(mechanism, schema, plant)


@pytest.mark.parametrize(
    ("strategy", "filled"), [("single", math.inf), ("refined", math.inf), ("auto", math.inf), ("auto", 0.0)]
)
def test_rounds_that_spend_more_than_they_say(strategy: str, filled: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output states a smaller scale than the accounts allow: caught by what all measurements cost together."""
    from nabladp.mechanisms.synthesis import rounds

    def plant(patches: Patches) -> None:
        true = rounds.scale_for
        patches.set(rounds, "scale_for", lambda units: 0.7 * true(units))

    two_choices(monkeypatch)
    monkeypatch.setattr(rounds.Course, "filled_cells", lambda *_: filled)
    mechanism = Synthesis(CDP(2), strategy=strategy, rounds=3)
    assert "too much together" in refuted(mechanism, ABY, plant)


def test_draws_that_nobody_declared() -> None:
    true = NoisyMarginals.run

    def second_look(patches: Patches) -> None:
        def run(self: Any, counts: Any, noise: NoiseSource) -> Any:
            true(self, counts, noise)
            return true(self, counts, noise)

        patches.set(NoisyMarginals, "run", run)

    def subset(patches: Patches) -> None:
        def run(self: Any, counts: Any, noise: NoiseSource) -> Any:
            noise.uniform_subset(10, 3)
            return true(self, counts, noise)

        patches.set(NoisyMarginals, "run", run)

    def past_the_methods(patches: Patches) -> None:
        def run(self: Any, counts: Any, noise: NoiseSource) -> Any:
            noise._draws.integers(10, 3)
            return true(self, counts, noise)

        patches.set(NoisyMarginals, "run", run)

    mechanism = NoisyMarginals(CDP(1), k=1)
    assert "more numbers" in refuted(mechanism, AB, second_look)
    assert "uniform_subset: this kind of draw is not declared" in refuted(mechanism, AB, subset)
    assert "random bits were taken past" in refuted(mechanism, AB, past_the_methods)


def test_a_claim_that_leaves_a_charge_out() -> None:
    learner = HalfspaceLearner(CDP(1), "y", method="average", label_treatment="gaussian")
    assert "charges add up to more" in refuted(learner, ABY, label_is_free(HalfspaceLearner))
    mechanism = NoisyMarginals(Pure(1), k=1, noise="laplace")
    half = Guarantee.touch(AB, ["a"], Pure(0.5)) + Guarantee.touch(AB, ["b"], Pure(1))
    assert not tape_audit(mechanism, AB, 20, guarantee=half).passed
    assert tape_audit(mechanism, AB, 20, guarantee=half + Guarantee.touch(AB, ["a"], Pure(1))).passed


def test_beyond_values_of_another_scale() -> None:
    def plant(patches: Patches) -> None:
        class Narrow(ForwardingNoise):
            def tail_values(self, law: Any, scale: Any, start: int, size: int) -> Any:
                return super().tail_values(law, 0.7 * scale, start, size)

        true = candidates.decide
        patches.set(candidates, "decide", lambda *given: true(*given[:-1], Narrow(given[-1])))
        from nabladp.mechanisms.heavy_hitters import search

        patches.set(search, "decide", lambda *given: true(*given[:-1], Narrow(given[-1])))

    mechanism = HeavyHitters(Rho(9), settings=settings("cdp", [(1, 8.0)]))
    assert "beyond a threshold" in refuted(mechanism, AB, plant)


def test_what_is_found_is_written_down() -> None:
    mechanism = NoisyMarginals(CDP(1), k=1)
    with Patches() as patches:
        true = NoisyMarginals.run
        patches.set(NoisyMarginals, "run", lambda self, counts, noise: true(self, counts, Smaller(noise)))
        found = tape_audit(mechanism, AB, 20, noise=seeded())
    body = found.to_json()
    assert body["mechanism"] == "NoisyMarginals" and body["passed"] is False and body["runs"] == 4
    first = body["findings"][0]
    assert first["expected"] == pytest.approx(first["found"] / 0.7, rel=1e-5)
    assert "touch" in first["term"] and first["what"].startswith("the marginal a")
    sound = tape_audit(replace(mechanism), AB, 20, noise=seeded())
    assert "agree with the guarantee" in str(sound) and sound.to_json()["findings"] == []


def test_the_whole_audit_holds_it() -> None:
    only: dict[str, Any] = {"exact": False, "law": False, "statistical": False}
    mechanism = NoisyMarginals(CDP(1), k=1)
    found = audit(mechanism, AB, noise=seeded(), **only)
    assert found.passed and found.tape is not None and found.to_json()["tape"]["passed"]
    assert "agree with the guarantee" in str(found)
    with Patches() as patches:
        true = NoisyMarginals.run
        patches.set(NoisyMarginals, "run", lambda self, counts, noise: true(self, counts, Smaller(noise)))
        broken = audit(mechanism, AB, noise=seeded(), **only)
    assert not broken.passed and "the noise scale is too small" in str(broken)

    class Undeclared(NoisyMarginals):
        def noise_uses(self, schema: Schema, n: int, output: Any) -> Any:
            return Auditable.noise_uses(self, schema, n, output)

    silent = audit(Undeclared(CDP(1), k=1), AB, noise=seeded(), **only)
    assert silent.tape is None and "declares no noise" in silent.tape_note and silent.passed


def test_time_that_is_over_leaves_selections_and_steps_out() -> None:
    learner = HalfspaceLearner(CDP(2), "y", method="descent", steps=2)
    found = tape_audit(learner, CAY, 40, noise=seeded(), seconds=1e-9)
    assert found.passed and not found.steps and "0 of" in found.note and found.note in str(found)
    large = tape_audit(HalfspaceLearner(CDP(1), "sick", method="descent"), SCHEMA, 40, noise=seeded())
    assert not large.steps and "not tiny" in large.note
