"""Row 3 of Table 1: rows needed to list every combination of d bits that at least a share α of them has.

Measured: strings are planted with a share of exactly α each among random rows; the fewest rows from which on 95% of the
strings are listed, by bisection, for every seed with tables of its own. Beside it the number that is certified: all
strings that frequent, in any table, with probability 95%.

Per attribute: our tree, with ``frequency`` α. Per person: the standard histogram, noise on each of the 2^d counts, and
listed is what comes out above a threshold. Empty cells may pass as often as the tree's planner allows in a list. No
2^d counts are drawn: planted ones get their noise, and the chance of the others is known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._heavy import BUDGETS, NOTIONS, OneHot, Planted, booleans
from bench._table1_fits import Curve, curve, least, point, r2, seeds, short, summary
from nabladp import HeavyHitters
from nabladp.mechanisms.heavy_hitters.planner import FALSE_LISTED
from nabladp.noise import NoiseSource, gaussian_log_pmf, laplace_log_pmf

SEEDS = {16: 8, 32: 8, 64: 6, 128: 6, 256: 4, 512: 4, 1024: 3, 2048: 2, 4096: 2}  # for each d: large ones take long
QUICK = {16: 2, 64: 2, 256: 1, 1024: 1}
PERSON_SEEDS = 8  # of the standard histogram, which is drawn in no time
EPSILON, ALPHA, FAILURE, FOUND = 1.0, 0.01, 0.05, 0.95
STRINGS, PLANTED_SHARE = 40, 0.4  # looked for at a time, and what they take of the rows at most
WITHIN = {"attribute": 0.04, "person": 0.002}  # how closely a bisection finds its number
MANY_ROWS = 1_000_000
NAMES = {"cdp": "concentrated", "pure": "pure"}
PAPER = {
    ("attribute", "cdp"): "0, times log d",
    ("attribute", "pure"): "0, times log d",
    ("person", "cdp"): "1/2",
    ("person", "pure"): "1",
}


@dataclass(frozen=True)
class Tree:
    """Ours: ε for each attribute."""

    d: int
    epsilon: float
    alpha: float
    notion: str

    @cached_property
    def mechanism(self) -> HeavyHitters:
        return HeavyHitters(
            BUDGETS[self.notion](self.epsilon), notion=self.notion, failure=FAILURE, frequency=self.alpha
        )

    @cached_property
    def certified(self) -> int:
        """The count that is certified for tables in which it is a share of α: fewer rows, until that helps no more."""
        rows, count = MANY_ROWS, MANY_ROWS
        while (found := self.mechanism.plan(booleans(self.d), rows).certified) < count:
            rows, count = math.ceil(found / self.alpha), found
        return count

    def listed(self, count: int, strings: int, seed: int) -> float:
        """The share of the planted strings that a run lists."""
        planted = Planted.make(self.d, math.ceil(count / self.alpha), [count] * strings, seed)
        found = self.mechanism.run(planted.table, NoiseSource.seeded(seed))
        return float(planted.found(found.codes).mean())


@dataclass(frozen=True)
class Standard:
    """The standard histogram: ε for the whole person, who moves two counts by one each."""

    d: int
    epsilon: float
    alpha: float
    notion: str

    @property
    def scale(self) -> float:
        return (2 if self.notion == "pure" else math.sqrt(2)) / self.epsilon

    @cached_property
    def log_tails(self) -> NDArray[np.float64]:
        """ln Pr[Z ≥ k] for k = 0, 1, …; in logarithms, as 2^d cells ask for very small chances."""
        log_cells = self.d * math.log(2)
        reach = math.ceil(self.scale * ((log_cells if self.notion == "pure" else math.sqrt(2 * log_cells)) + 40))
        law = laplace_log_pmf if self.notion == "pure" else gaussian_log_pmf
        tails: NDArray[np.float64] = np.logaddexp.accumulate(law(self.scale, 0, reach)[::-1])[::-1]
        return tails

    @cached_property
    def threshold(self) -> int:
        """The least noisy count that is listed."""
        allowed = math.log(FALSE_LISTED[self.notion]) - self.d * math.log(2)
        return max(1, int(np.argmax(self.log_tails <= allowed)))

    @cached_property
    def certified(self) -> int:
        """All of 1/α strings with this count are listed, but for the part of the failure that the tree allows, too."""
        allowed = math.log(0.9 * FAILURE * self.alpha)
        return self.threshold + int(np.argmax(self.log_tails <= allowed)) - 1

    def listed(self, count: int, strings: int, seed: int) -> float:
        source = NoiseSource.seeded(seed)
        draw = source.discrete_laplace if self.notion == "pure" else source.discrete_gaussian
        return float(np.mean(count + draw(self.scale, strings) >= self.threshold))


Side = Callable[[int, float, float, str], Tree | Standard]
SIDES: dict[str, Side] = {"attribute": Tree, "person": Standard}


def needed(side: Tree | Standard, within: float, seed: int) -> float:
    """The fewest rows with which planted strings are listed."""
    strings = min(STRINGS, int(PLANTED_SHARE / side.alpha))
    runs = math.ceil(STRINGS / strings)

    def enough(count: float) -> bool:
        found = (side.listed(math.ceil(count), strings, 100 * seed + run) for run in range(runs))
        return sum(found) >= FOUND * runs

    return math.ceil(least(enough, 0.8 * side.certified, within)) / side.alpha


# Curves


def measured(unit: str, notion: str, against: str, places: Mapping[float, int], d: int = 0) -> Curve:
    """Needed rows against d, ε or α, each place with so many seeds; the others fixed."""
    usual: dict[str, Any] = {"d": d, "epsilon": EPSILON, "alpha": ALPHA}
    points = []
    for x, times in places.items():
        side = SIDES[unit](**usual | {against: x}, notion=notion)
        many = times if unit == "attribute" else PERSON_SEEDS
        rows = [needed(side, WITHIN[unit], 1 + seed) for seed in seeds(many)]
        points.append(point(x, rows, side.certified / side.alpha) | {"count": short(np.mean(rows) * side.alpha)})
        print(f"histogram, {unit}, {notion}, {against} = {x}: {points[-1]}", flush=True)
    mechanism = f"HeavyHitters(notion={notion!r})" if unit == "attribute" else "standard histogram"
    name = f"{'tree' if unit == 'attribute' else 'histogram'}, {NAMES[notion]}"
    fixed = {key: value for key, value in usual.items() if key != against} | {"found": FOUND, "failure": FAILURE}
    paper = PAPER[unit, notion] if against == "d" else "-1"
    return curve(name, unit, mechanism, against, "needed n", fixed, points, paper)


def lower_bound(sizes: Sequence[int]) -> Curve:
    """`thm:heavy-hitters-lb`: with fewer rows every pure algorithm fails on its hard tables half of the time."""
    points = [point(d, [OneHot(d, MANY_ROWS, "pure", EPSILON).bound / ALPHA]) for d in sizes]
    fixed = {"epsilon": EPSILON, "alpha": ALPHA}
    return curve("no algorithm, pure", "attribute", "lower bound", "d", "needed n", fixed, points, "0, times log d")


def straightness(of: Curve, what: str) -> float:
    """How much of the variance of the needed rows a line over log d explains."""
    points = of["points"]
    return round(r2([math.log2(each["x"]) for each in points], [each[what] for each in points]), 4)


NOTES = [
    "Needed n: 95% of the strings that a share α of the rows has are listed. The bound is the certified count: all of "
    "them, in any table, with probability 95%.",
    "A line over log d explains the rows of the tree; a power of d does not, so its exponent falls the further one "
    "goes. With 16 attributes the tree is a single node, and the pure one needs more rows than the standard histogram.",
    "The lower bound is for one string among d, ours for all strings in any table: the factor between them is due to "
    "the constants of the tree.",
    "The same ε is not the same promise: with the tree a person costs more than one attribute, the more the larger "
    "d is.",
]


def run(quick: bool) -> dict[str, Any]:
    sizes: Mapping[float, int] = QUICK if quick else SEEDS
    by_d = {(unit, notion): measured(unit, notion, "d", sizes) for unit in SIDES for notion in NOTIONS}
    d, times = (64, 2) if quick else (256, 3)
    places = {
        "epsilon": (0.5, 2.0) if quick else (0.25, 0.7, 2.0),
        "alpha": (0.04, 0.01) if quick else (0.04, 0.02, 0.005),
    }
    others = [
        measured(unit, notion, against, dict.fromkeys(xs, times), d)
        for unit in SIDES
        for notion in NOTIONS
        for against, xs in places.items()
    ]
    trees = {notion: by_d["attribute", notion] for notion in NOTIONS}
    straight = {notion: straightness(tree, "mean") for notion, tree in trees.items()}
    return {
        "row": "histogram",
        "title": "Histogram / heavy hitters",
        "curves": [*by_d.values(), lower_bound([int(d) for d in sizes]), *others],
        "notes": NOTES,
        "summary": {
            "histogram_logd_r2": min(straight.values()),
            "histogram_logd_r2_each": straight,
            "histogram_logd_r2_certified": {notion: straightness(tree, "bound") for notion, tree in trees.items()},
            "histogram_d": {notion: summary(tree) for notion, tree in trees.items()},
            "histogram_d_person": {notion: summary(by_d["person", notion]) for notion in NOTIONS},
        },
    }
