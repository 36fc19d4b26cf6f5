"""The recording source: it draws what the source behind it draws, and writes all of it down."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabladp
from nabladp.audit import audit, statistical_audit
from nabladp.audit.runs import PooledNoise
from nabladp.audit.tape_comparison import compare_claim, compare_tape, least_scale
from nabladp.mechanisms import Auditable, Charge, NoiseUse
from nabladp.noise import NoiseSource, Packings
from nabladp.noise.matchings import Matchings
from nabladp.noise.packings import AnyPackings
from nabladp.noise.source import RowResponse
from nabladp.noise.tape import Draw, ForwardingNoise, RecordedNoise
from nabladp.privacy import Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema

BIT = Schema((Attribute("a", "boolean"),))
PAIRS = Packings([1, 2, 4], 3, 2)
MATCHINGS = Matchings([0, 1], [1, 1], 2)
ANY = AnyPackings([1, 2, 4], 3, np.array([0.5, 1.0, -1.0]), 40)
DRAWS: dict[str, tuple[Callable[[NoiseSource], Any], str, int]] = {
    "discrete_laplace": (lambda noise: noise.discrete_laplace(2.5, (2, 3)), "discrete_laplace", 6),
    "discrete_gaussian": (lambda noise: noise.discrete_gaussian(Fraction(7, 2), 5), "discrete_gaussian", 5),
    "tail_subsets": (lambda noise: noise.tail_subsets("laplace", 3.0, 4, [100, 7]), "discrete_laplace", 107),
    "tail_values": (lambda noise: noise.tail_values("gaussian", 3.0, 4, 6), "discrete_gaussian", 0),
    "uniform_integers": (lambda noise: noise.uniform_integers(10, 4), "uniform_integers", 4),
    "binomial": (lambda noise: noise.binomial(np.array([3, 9]), 0.3), "binomial", 2),
    "randomized_response": (lambda noise: noise.randomized_response([0, 1, 2], 3, 0.8), "randomized_response", 3),
    "row_response": (lambda noise: noise.row_response(0.8)(np.array([0, 1, 1, 0]), 5), "randomized_response", 4),
    "randomized_response_counts": (
        lambda noise: noise.randomized_response_counts([[3, 4], [5, 6]], 0.8), "randomized_response", 18
    ),
    "uniform_subset": (lambda noise: noise.uniform_subset(20, 6), "uniform_subset", 6),
    "select": (lambda noise: noise.select([1, 2, 3], 8), "select", 8),
    "select_exponential": (lambda noise: noise.select_exponential([1, 2, 3], 2), "select_exponential", 1),
    "select_lowest": (lambda noise: noise.select_lowest(np.array([1, 2, 3]), 2), "select_exponential", 1),
    "select_packing": (lambda noise: noise.select_packing(PAIRS, [0.1, 0.2, 0.3]), "select_packing", 1),
    "select_any_packing": (lambda noise: noise.select_any_packing(ANY), "select_any_packing", 1),
    "select_matching": (lambda noise: noise.select_matching(MATCHINGS, [0.1, 0.2]), "select_matching", 1),
}  # fmt: skip


def flat(drawn: Any) -> str:
    return repr(drawn)


def test_every_method_that_draws_is_passed_on_and_recorded() -> None:
    """Whoever adds a sampler to NoiseSource adds it here."""
    other = {"seeded", "reseeded", "is_seeded", "stamp", "draws"}
    samplers = {name for name in vars(NoiseSource) if not name.startswith("_")} - other
    assert samplers == DRAWS.keys()
    assert samplers <= vars(ForwardingNoise).keys() and samplers <= vars(RecordedNoise).keys()


@pytest.mark.parametrize("name", DRAWS)
def test_a_recording_changes_nothing_and_holds_every_number(name: str) -> None:
    draw, kind, numbers = DRAWS[name]
    plain, recorded = NoiseSource.seeded(5), RecordedNoise(NoiseSource.seeded(5))
    assert [flat(draw(recorded)) for _ in range(3)] == [flat(draw(plain)) for _ in range(3)]
    assert [(entry.kind, entry.numbers) for entry in recorded.tape] == [(kind, numbers)] * 3
    assert recorded.outside == 0 and recorded.draws == plain.draws > 0
    assert recorded.is_seeded and recorded.stamp == plain.stamp
    assert flat(recorded.discrete_gaussian(3.0, 4)) == flat(plain.discrete_gaussian(3.0, 4))


def test_scales_probabilities_and_weights_are_on_the_tape() -> None:
    noise = RecordedNoise(NoiseSource.seeded(1))
    noise.discrete_laplace(Fraction(5, 2), 3)
    noise.row_response(0.75)(np.array([1]), 0)
    noise.select_lowest(np.array([4, 6]), Fraction(1, 4))
    noise.tail_values("laplace", 2.0, 3, 1)
    scales, keeps = [entry.scale for entry in noise.tape], [entry.keep for entry in noise.tape]
    assert scales == [2.5, None, 4.0, 2.0] and keeps == [None, 0.75, None, None]
    assert noise.tape[2].selection is not None and noise.tape[2].selection.log_weights.tolist() == [-1.0, -1.5]
    assert [entry.completes for entry in noise.tape] == [False, False, False, True]


def test_bits_taken_past_the_methods_are_counted() -> None:
    noise = RecordedNoise(NoiseSource())
    noise.discrete_gaussian(2.0, 3)
    assert noise.outside == 0
    noise._draws.integers(10, 3)
    assert noise.outside == 1


def test_a_source_that_passes_on_is_not_copied_and_reseeds_what_is_behind() -> None:
    noise = RecordedNoise(NoiseSource())
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(noise)
    again = noise.reseeded(3)
    assert isinstance(again, RecordedNoise) and again.is_seeded and not noise.is_seeded
    assert again.discrete_gaussian(9.0, 4).tolist() == NoiseSource.seeded(3).discrete_gaussian(9.0, 4).tolist()
    assert len(again.tape) == 1 and not noise.tape


PAST_THE_SOURCE = r"\b(_draws|urandom|SystemBits|SeededBits|np\.random|secrets|noise\.samplers|noise\.choices)\b"
DRAWING_ROOMS = ("mechanisms", "tables", "workloads", "audit", "release")


def test_nothing_draws_but_through_the_source() -> None:
    """No other generator, no bits of the operating system, and nobody reaches past a source's methods."""
    root = Path(nabladp.__file__).parent
    for path in (path for room in DRAWING_ROOMS for path in (root / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(PAST_THE_SOURCE, text), path
        assert not re.search(r"^\s*(import random|from random)", text, re.MULTILINE), path
        used = re.findall(r"^from nabladp\.noise\.draws import (.*)$", text, re.MULTILINE)
        assert {name for line in used for name in line.split(", ")} <= {"Bounds", "exp_bounds"}, path


# ---- a source of one's own -------------------------------------------------------------------------------------------


class Counted(Auditable):
    """The ill and the healthy, each with Laplace noise."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.touch(schema, ["a"], Pure(2.0))

    def run(self, counts: Any, noise: NoiseSource) -> Any:
        return counts.marginals([("a",)])[0] + noise.discrete_laplace(1.0, 2)


class LessNoise(NoiseSource):
    def discrete_laplace(self, scale: Any, size: Any) -> Any:
        return super().discrete_laplace(0.7 * scale, size)


class SameNoise(NoiseSource):
    """One number for all that one call asks for."""

    def discrete_laplace(self, scale: Any, size: Any) -> Any:
        return np.repeat(super().discrete_laplace(scale, 1), size)


class AlwaysTrue(NoiseSource):
    def row_response(self, keep: Any) -> RowResponse:
        return super().row_response(1)


@pytest.mark.parametrize("kind", [NoiseSource, LessNoise, SameNoise])
def test_an_audit_runs_the_source_it_is_given(kind: type[NoiseSource]) -> None:
    found = statistical_audit(Counted(), BIT, noise=kind.seeded(1), runs=4000, sets=["a"], rows=2)
    assert found.passed == (kind is NoiseSource)


def test_the_whole_audit_runs_it_too() -> None:
    found = audit(Counted(), BIT, noise=SameNoise.seeded(1), exact=False, runs=1500, sets=["a"], rows=2)
    assert not found.passed


def test_pooled_noise_calls_what_a_subclass_replaces() -> None:
    pooled = PooledNoise(SameNoise.seeded(1))
    drawn = [pooled.discrete_laplace(9.0, 4) for _ in range(20)]
    assert all(len(set(each.tolist())) == 1 for each in drawn) and len({int(each[0]) for each in drawn}) > 3
    labels = np.zeros(200, np.int64)
    assert not PooledNoise(AlwaysTrue.seeded(1)).row_response(0.6)(labels, 0).any()
    again = pooled.reseeded(4)
    assert again.discrete_laplace(9.0, 3).tolist() == SameNoise.seeded(4).discrete_laplace(9.0, 3).tolist()


# ---- what is compared ------------------------------------------------------------------------------------------------

AB = Schema((Attribute("a", "boolean"), Attribute("b", "boolean")))


def both(value: Any) -> Guarantee:
    return Guarantee.touch(AB, ["a", "b"], value)


@pytest.mark.parametrize(
    ("kind", "cost", "moved", "scale"),
    [
        ("discrete_gaussian", Rho(0.5), 2, 2**0.5),  # σ = Δ₂/√(2ρ)
        ("discrete_laplace", Pure(0.5), 2, 4.0),  # b = Δ₁/ε
        ("select_exponential", Pure(0.5), 3, 12.0),  # s = 2Δ/ε
        ("select_exponential", Rho(0.5), 3, 3.0),  # s = Δ/√(2ρ)
    ],
)
def test_the_scale_follows_from_the_cost(kind: str, cost: Any, moved: int, scale: float) -> None:
    use = NoiseUse.exactly("x", kind, 3, Charge.of_each(both(cost), ["a", "b"], moved))
    assert least_scale(use) == pytest.approx(scale, rel=1e-9)

    def found(numbers: int, times: float) -> list[str]:
        return [finding.fault for finding in compare_tape([Draw(kind, numbers, scale * times)], [use])]

    assert found(3, 1.0) == [] and found(3, 1 - 1e-7) == [] and found(3, 1.5) == []
    assert "too small" in found(3, 1 - 1e-5)[0] and "missing" in found(2, 1.0)[0] and "more" in found(4, 1.0)[0]


def test_several_charges_add_up_to_one_precision_and_losses_hold_each() -> None:
    parts = [Charge.of_each(both(Rho(rho)), ["a"], 1) for rho in (0.5, 1.5)]
    assert least_scale(NoiseUse.exactly("x", "discrete_gaussian", 1, *parts)) == pytest.approx(0.5)
    losses = [Charge(both(Pure(1)), loss=lambda scale: 2 / scale), Charge(both(Pure(3)), loss=lambda scale: 9 / scale)]
    assert least_scale(NoiseUse.exactly("x", "discrete_laplace", 1, *losses)) == pytest.approx(3.0)
    assert least_scale(NoiseUse.free("x", "discrete_gaussian")) == 0
    free = Charge(both(Rho(1)), {})
    assert least_scale(NoiseUse.exactly("x", "discrete_gaussian", 1, free)) == 0  # nothing protected moves it
    claims_nothing = Charge(Guarantee.none(AB), {frozenset("a"): 1})
    assert least_scale(NoiseUse.exactly("x", "discrete_gaussian", 1, claims_nothing)) == float("inf")


def test_numbers_of_several_scales_are_told_apart() -> None:
    uses = [
        NoiseUse.exactly(str(rho), "discrete_gaussian", 10, Charge.of_each(both(Rho(rho)), ["a"], 1)) for rho in (2, 8)
    ]
    wide, narrow = (least_scale(use) for use in uses)
    assert (wide, narrow) == (pytest.approx(0.5), pytest.approx(0.25))

    def faults(*draws: tuple[int, float]) -> list[str]:
        tape = [Draw("discrete_gaussian", numbers, scale) for numbers, scale in draws]
        return [f"{finding.what}: {finding.fault}" for finding in compare_tape(tape, uses)]

    assert faults((10, wide), (4, narrow), (6, narrow)) == []
    told = faults((10, 0.7 * wide), (10, narrow))  # still above the other scale
    assert any("2: numbers" in line and "missing" in line for line in told)
    assert any("8: more numbers" in line for line in told)
    assert any("too small" in line for line in faults((10, wide), (10, 0.7 * narrow)))


@pytest.mark.parametrize(
    ("kind", "cost", "moved", "scale", "times"),
    [
        ("discrete_gaussian", Rho(1), 2, 2.0, 4),  # 2/(2·4) = 1/4 each
        ("discrete_laplace", Pure(1), 2, 8.0, 4),  # 2/8
        ("select_exponential", Pure(1), 1, 8.0, 4),
        ("select_exponential", Rho(1), 1, 2.0, 8),
        ("discrete_laplace", Rho(1), 1, 2.0, 8),
    ],
)
def test_what_is_spent_on_the_way_adds_up(kind: str, cost: Any, moved: int, scale: float, times: int) -> None:
    charge = Charge.of_each(both(cost), ["a", "b"], moved)
    uses = [NoiseUse.exactly("x", kind, 1, charge, published=scale)]
    assert not list(compare_claim(both(cost), times * uses))
    assert "together" in next(iter(compare_claim(both(cost), (times + 1) * uses))).fault
