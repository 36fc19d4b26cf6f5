"""Thresholds over d bits: how often the learner keeps its promise, and how many rows it needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.learners.thresholds.search import count_reached
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Pure
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

Bits = NDArray[np.int64]
Population = Callable[[np.random.Generator, Bits, int], Bits]
ALPHA = 0.1
LEARNERS = {"cdp": ThresholdLearner(CDP(1), "y"), "pure": ThresholdLearner(Pure(1), "y", notion="pure")}


def bits(d: int) -> Schema:
    return Schema((*(Attribute(f"b{i}", "boolean") for i in range(d)), Attribute("y", "boolean")))


def success_rates(quick: bool) -> dict[str, float]:
    """The share of runs with test error at most α at the planned n: the least over three kinds of people."""
    return {
        f"{notion}_{d}": min(_success_rate(learner, d, people, 10 if quick else 50) for people in PEOPLE)
        for notion, learner in LEARNERS.items()
        for d in (32, 128)
    }


def _success_rate(learner: ThresholdLearner, d: int, people: Population, runs: int) -> float:
    schema, good = bits(d), 0
    n = learner.needed_rows(schema, ALPHA)
    for seed in range(runs):
        draw = np.random.default_rng([d, seed])
        threshold = draw.integers(0, 2, d)
        rows, tested = (people(draw, threshold, size) for size in (n, 10_000))
        codes = {f"b{i}": rows[:, i] for i in range(d)} | {"y": _above(rows, threshold)}
        model = learner.run(CodedTable(schema, codes), NoiseSource.seeded(seed))
        good += bool((_above(tested, np.array(model.codes)) != _above(tested, threshold)).mean() <= ALPHA)
    return good / runs


def _above(rows: Bits, threshold: Bits) -> Bits:
    return count_reached(list(rows.T), threshold[None].astype(np.uint32))


def _spread(draw: np.random.Generator, threshold: Bits, n: int) -> Bits:
    """All bits at random: short prefixes decide."""
    return draw.integers(0, 2, (n, len(threshold)))


def _close(draw: np.random.Generator, threshold: Bits, n: int) -> Bits:
    """A prefix of random length in common with the threshold: every length matters a little."""
    common = np.arange(len(threshold)) < draw.integers(0, len(threshold) + 1, n)[:, None]
    return np.where(common, threshold, _spread(draw, threshold, n))


def _sides(draw: np.random.Generator, threshold: Bits, n: int) -> Bits:
    """For some length, a fifth of all on either side of the threshold differ from it first at the very next bit.

    Who does not find that prefix errs on a fifth at least.
    """
    rows, d = _spread(draw, threshold, n), len(threshold)
    length = int(np.random.default_rng(threshold).integers(d // 2, d - 1))
    kind = draw.random(n)
    for lower, upper, bit in ((0.0, 0.2, 0), (0.2, 0.4, 1)):
        chosen = (kind >= lower) & (kind < upper)
        rows[chosen, :length] = threshold[:length]
        rows[chosen, length] = bit
        if bit == threshold[length]:  # on the threshold's own side of this bit: all clearly below it, or above
            rows[chosen, length + 1 :] = bit
    return rows


PEOPLE: tuple[Population, ...] = (_spread, _close, _sides)


def needed_n(quick: bool) -> dict[str, dict[int, int]]:
    """Rows needed for error α, by notion and d. Up to 16 bits one pick is enough: see below."""
    dims = (32, 128, 512) if quick else (32, 64, 128, 256, 512, 1024)
    return {notion: {d: learner.needed_rows(bits(d), ALPHA) for d in dims} for notion, learner in LEARNERS.items()}


def needed_for_one_pick() -> dict[str, dict[int, int]]:
    """For the most bits whose thresholds can all be tried out at once: no prefix is searched for, and no list made."""
    return {notion: {16: learner.needed_rows(bits(16), ALPHA)} for notion, learner in LEARNERS.items()}
