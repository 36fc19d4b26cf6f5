"""Joint picks of disjoint pairs among many columns: what a round captures of the best matching, how long a pick takes,
and what it does to the error of whole releases.

A pick by matching (strategy "matched") against picks inside random blocks of at most 16 columns ("packed"), at the same
cost per attribute. Captured is the sum of the scores of the pairs picked, as a share of the largest there is; a score
is a pair's distance from independence in rows, two of which one row moves. Time is that of the processor.
"""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np

from bench._binary import as_table
from nabladp import CDP, NoiseSource, Synthesis
from nabladp.arrays import Floats, Integers
from nabladp.noise.matchings import GRID, Matchings
from nabladp.noise.packings import AnyPackings, fineness, largest_value

SECONDS = {"full": 1800, "quick": 60}
ROWS, WIDE, EPSILON = 20_000, 200, 0.1
RUNS = {"full": 8, "quick": 2}
TABLES = ("pairs", "chain", "hidden")


def run(quick: bool) -> dict[str, object]:
    codes = people("pairs", WIDE, 1)
    scores, runs = distances(codes), RUNS["quick" if quick else "full"]
    best = score_of(scores, heaviest(scores))
    shares = {
        name: [score_of(scores, pick(scores, NoiseSource.seeded(seed), seed)) / best for seed in range(runs)]
        for name, pick in (("captured_gumbel", matched), ("captured_blocks", in_blocks))
    }
    found: dict[str, object] = {name: round(float(np.mean(each)), 3) for name, each in shares.items()}
    found["select_ms_d200"] = round(milliseconds(scores, runs), 1)
    ratios, cases = {}, {}
    for columns in (24,) if quick else (60, WIDE):
        for kind in TABLES[: 1 if quick else None]:
            errors = {name: error(kind, columns, name) for name in ("packed", "matched")}
            cases[f"{kind}, {columns}"] = {name: float(f"{own:.4g}") for name, own in errors.items()}
            ratios[kind, columns] = errors["matched"] / errors["packed"]
            print(kind, columns, errors, flush=True)
    found["wide_error_ratio"] = round(math.exp(np.mean(np.log(list(ratios.values())))), 3)
    for columns in sorted({wide for _, wide in ratios}):
        own = [math.log(ratio) for (_, wide), ratio in ratios.items() if wide == columns]
        found[f"wide_error_ratio_{columns}"] = round(math.exp(np.mean(own)), 3)
    sixty = as_table(people("pairs", 60, 1)).schema
    claims = {name: synthesis(name).guarantee(sixty, ROWS) for name in ("packed", "matched")}
    found["person_over_attribute_60"] = {
        name: round(own.per_person().rho / max(own.rho(each) for each in own.universe.roots), 1)
        for name, own in claims.items()
    }
    return {**found, "cases": cases}


# ---- tables ----------------------------------------------------------------------------------------------------------


def people(kind: str, columns: int, seed: int) -> Integers:
    """Bits: a fifth of the columns in strong pairs; each column after another one; or all after one hidden kind."""
    draw = np.random.default_rng(seed)
    if kind == "pairs":
        codes = draw.random((ROWS, columns)) < draw.uniform(0.2, 0.8, columns)
        order = draw.permutation(columns)
        for one, other in zip(order[: columns // 5 : 2], order[1 : columns // 5 : 2], strict=True):
            codes[:, other] = np.where(draw.random(ROWS) < 0.8, codes[:, one], codes[:, other])
        return codes.astype(np.int64)
    if kind == "chain":
        codes, order = np.zeros((ROWS, columns), np.bool_), draw.permutation(columns)
        codes[:, order[0]] = draw.random(ROWS) < 0.5
        for one, other in itertools.pairwise(order):
            own = draw.random(ROWS) < draw.uniform(0.2, 0.8)
            codes[:, other] = np.where(draw.random(ROWS) < 0.6, codes[:, one], own)
        return codes.astype(np.int64)
    hidden = draw.integers(0, 2, ROWS)[:, None] + np.arange(columns)
    return np.where(draw.random((ROWS, columns)) < 0.4, hidden % 2, draw.integers(0, 2, (ROWS, columns)))


def distances(codes: Integers) -> Floats:
    """For every two columns: the sum over cells of |rows − rows expected if they were independent|."""
    ones = codes.sum(axis=0, dtype=np.float64)
    return 4 * np.abs(codes.T.astype(np.float64) @ codes - np.outer(ones, ones) / len(codes))


# ---- picks -----------------------------------------------------------------------------------------------------------

Pairs = list[tuple[int, int]]


def pairs_of(columns: int) -> Pairs:
    return list(itertools.combinations(range(columns), 2))


def score_of(scores: Floats, pairs: Pairs) -> float:
    return math.fsum(scores[pair] for pair in pairs)


def log_weights(scores: Floats, pairs: Pairs) -> Floats:
    """One row moves a score by two; a pick costs every attribute a pure ``EPSILON``."""
    return np.array([scores[pair] for pair in pairs]) * EPSILON / 4


def heaviest(scores: Floats) -> Pairs:
    pairs = pairs_of(len(scores))
    family = Matchings(*zip(*pairs, strict=True), len(scores))  # type: ignore[arg-type]
    values = np.array([scores[pair] for pair in pairs] + [0.0] * len(scores)) * 2.0 ** (GRID - 8)
    return [pairs[i] for i in family.heaviest(values.astype(np.int64))]


def matched(scores: Floats, noise: NoiseSource, _: int) -> Pairs:
    pairs = pairs_of(len(scores))
    family = Matchings(*zip(*pairs, strict=True), len(scores))  # type: ignore[arg-type]
    return [pairs[i] for i in noise.select_matching(family, log_weights(scores, pairs))]


def in_blocks(scores: Floats, noise: NoiseSource, seed: int) -> Pairs:
    results = []
    order = np.random.default_rng(seed).permutation(len(scores))
    for block in np.array_split(order, math.ceil(len(scores) / 16)):
        inside = pairs_of(len(block))
        weights = log_weights(scores[np.ix_(block, block)], inside)
        grid = fineness(largest_value(len(inside), len(block) // 2, float(weights.max())))
        packings = AnyPackings([1 << a | 1 << b for a, b in inside], len(block), weights, grid)
        results += [(int(block[a]), int(block[b])) for a, b in (inside[i] for i in noise.select_any_packing(packings))]
    return results


def milliseconds(scores: Floats, runs: int) -> float:
    """The median time of a pick at this width, on the slower of these scores and scores of zero."""
    medians = []
    for own in (scores, np.zeros_like(scores)):
        taken = []
        for seed in range(max(5, runs)):
            pairs = pairs_of(len(own))
            family = Matchings(*zip(*pairs, strict=True), len(own))  # type: ignore[arg-type]
            weights, noise, start = log_weights(own, pairs), NoiseSource.seeded(seed), time.process_time()
            noise.select_matching(family, weights)
            taken.append(time.process_time() - start)
        medians.append(1000 * float(np.median(taken)))
    return max(medians)


# ---- whole releases --------------------------------------------------------------------------------------------------


def synthesis(strategy: str) -> Synthesis:
    return Synthesis(CDP(EPSILON), strategy=strategy)


def error(kind: str, columns: int, strategy: str) -> float:
    """The mean total variation of the answers to all pairs."""
    table = as_table(people(kind, columns, columns))
    answers: Any = synthesis(strategy).run(table, NoiseSource.seeded(columns)).answers
    truth = table.marginals([answer.attributes for answer in answers])
    apart = [np.abs(answer.counts - own).sum() for answer, own in zip(answers, truth, strict=True)]
    return float(np.mean(apart)) / (2 * ROWS)
