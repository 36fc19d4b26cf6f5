"""Row 4 of Table 1: rows needed to learn a halfspace with γ'-robust error at most α, where some halfspace is γ-robust.

Tables of ±1 with constant margin (:mod:`bench.halfspaces_by_dimension`): γ·d changed features bring a row to the edge,
one label in twenty is turned. Measured on fresh rows with true labels: the fewest rows to learn from with which at most
a share α of them can be made wrong by γ'·d changes; by bisection, for every seed with tables of its own. Beside it the
number that the noise of the learner, known before, leads to (:mod:`bench._table1_margin`).

Regimes, each for all sides:

robust         γ' = γ/2: the weights themselves must be learned.
small budget   the same at ε = 0.1, where the label pays for Gaussian noise, as a person would.
plain          γ' = 0: rows have to be right, no more. Then constant margin makes everything easy.
uniform        rows without any margin, and plain error.

Ours is ``method="average"``, for which the number of rows can be worked out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bench._table1_fits import Curve, curve, least, point, seeds, summary
from bench._table1_halfspace_sides import BEST, SIDES, Problem, Rows, Side, ours
from bench.halfspaces_by_dimension import signs_schema
from nabladp import HalfspaceLearner
from nabladp.privacy import CDP

WITHIN = 0.04  # how closely a bisection finds its number


@dataclass(frozen=True)
class Effort:
    robust: Mapping[int, int]  # for every number of features, how often its needed rows are measured
    regimes: Mapping[int, int]  # the same for the other regimes
    draws: int  # tables over which an error is averaged
    best: Mapping[str, int]  # features at most for what takes long, by regime
    places: int  # features for the curves against ε, γ and α …
    every: int  # … and every which of their places is measured
    exact: tuple[int, ...]  # features for the theorem's own learner


FULL = Effort(
    robust={16: 4, 32: 4, 64: 4, 128: 4, 256: 3, 512: 2, 1024: 2},
    regimes={16: 3, 64: 2, 256: 2},
    draws=4,
    best={"robust": 256, "uniform": 64},
    places=256,
    every=1,
    exact=(3, 5, 7),
)
QUICK = Effort({16: 3, 64: 3, 256: 1}, {16: 2, 64: 1}, draws=3, best={"robust": 64}, places=64, every=3, exact=(3, 5))


# Curves

PAPER = {
    ("attribute", "d"): "0",
    ("person", "d"): "1",
    ("attribute", "epsilon"): "-2",
    ("person", "epsilon"): "-1",
    ("attribute", "gamma"): "-4",
    ("person", "gamma"): "-2",
    ("attribute", "alpha"): "-2",
    ("person", "alpha"): "-1 to -2",
}


def needed(side: Side, problem: Problem, start: float, draws: int, group: int) -> float:
    """The fewest rows with which the mean error over some tables is at most α."""

    def enough(n: float) -> bool:
        tables = (Rows.drawn(problem, max(2, math.ceil(n)), 100 * group + draw) for draw in range(draws))
        return sum(map(side.error, tables)) <= problem.alpha * draws

    return least(enough, start, WITHIN)


def measured(name: str, regime: str, against: str, problems: Iterable[Problem], groups: list[int], draws: int) -> Curve:
    """Needed rows of one side, for problems that differ in one thing; each measured so many times."""
    side, points = SIDES[name], []
    for problem, times in zip(problems, groups, strict=True):
        predicted = problem.predicted(side.noise(problem))
        rows = [needed(side, problem, 0.8 * predicted, draws, 1 + group) for group in seeds(times)]
        points.append(point(getattr(problem, against), rows, predicted if side.bounded else None))
        print(f"halfspaces, {regime}, {name}, {against}: {points[-1]}", flush=True)
    fixed = {key: value for key, value in vars(problem).items() if key != against and value is not None}
    if against == "gamma":
        fixed["gamma_prime"] = "gamma/2"
    paper = PAPER[side.unit, against] if problem.gamma_prime else "none"
    return curve(f"{name}, {regime}", side.unit, side.mechanism, against, "needed n", fixed, points, paper)


ROBUST = Problem(0, 1.0, 0.1, 1 / 4, 1 / 8)
REGIMES: dict[str, tuple[Problem, tuple[str, ...]]] = {
    "robust": (ROBUST, tuple(name for name in SIDES if name != "ours, default")),
    "small budget": (replace(ROBUST, epsilon=0.1), ("ours", "averaging")),
    "plain": (Problem(0, 0.1, 0.1, 1 / 8), ("ours", "ours, public labels", "averaging", "averaging, pure")),
    "uniform": (Problem(0, 0.5, 0.1, None), ("ours", "ours, public labels", "ours, default", "averaging", BEST)),
}
SLOW = (BEST, "ours, default", "ours, evened")


def by_d(effort: Effort) -> dict[tuple[str, str], Curve]:
    found = {}
    for regime, (problem, names) in REGIMES.items():
        for name in names:
            times = effort.robust if regime == "robust" else effort.regimes
            if name in SLOW:
                times = {d: (many + 1) // 2 for d, many in times.items() if d <= effort.best.get(regime, 0)}
            if not times:
                continue
            problems = [replace(problem, d=d) for d in times]
            found[regime, name] = measured(name, regime, "d", problems, list(times.values()), effort.draws)
    return found


PLACES: dict[str, tuple[float, ...]] = {
    "epsilon": (0.5, 1.0, 1.4, 2.0),
    "gamma": (1 / 8, 3 / 16, 1 / 4, 3 / 8),
    "alpha": (0.2, 0.1, 0.05, 0.02),
}


def others(effort: Effort) -> Iterator[Curve]:
    """Against ε, γ and α, at one d."""
    for against, all_places in PLACES.items():
        places = all_places[:: effort.every]
        for name in ("ours", "averaging"):
            problems = [replace(ROBUST, d=effort.places, **{against: place}) for place in places]
            if against == "gamma":
                problems = [
                    replace(problem, gamma_prime=place / 2) for problem, place in zip(problems, places, strict=True)
                ]
            groups = [effort.regimes[effort.places]] * len(places)
            yield measured(name, "robust", against, problems, groups, effort.draws)


def exact(effort: Effort) -> Curve:
    """The theorem's own learner among all halfspaces, labels paid for in the choice; beside it what is promised.

    A row has one more vote for its label than against it, so γ = 1/d, and γ' = 0: this is no constant margin, which so
    few features cannot have. The logarithm of the number of halfspaces grows faster than d, which shows; from eight
    features on they can hardly be listed.
    """
    points = []
    for d in effort.exact:
        learner = HalfspaceLearner(
            CDP(1.0), "y", method="exact", gamma=1 / d, gamma_prime=0.0, label_treatment="direct"
        )
        problem = Problem(d, 1.0, 0.1, 1 / (2 * d))
        side = replace(SIDES["ours"], error=partial(ours, learner=learner))
        promised = learner.needed_rows(signs_schema(d, False), problem.alpha)
        rows = [needed(side, problem, promised / 8, effort.draws, 1 + group) for group in seeds(3)]
        points.append(point(d, rows, promised))
        print(f"halfspaces, exact, d: {points[-1]}", flush=True)
    fixed = {"epsilon": 1.0, "alpha": 0.1, "gamma": "1/d", "gamma_prime": 0}
    mechanism = "HalfspaceLearner(method='exact', label_treatment='direct')"
    return curve("the theorem's learner", "attribute", mechanism, "d", "needed n", fixed, points, "0")


NOTES = [
    "At constant margin and for plain error (γ' = 0) a budget for the whole person costs no more than one for each "
    "attribute with private labels: averaging needs the same number of rows on both sides, whatever d is. The margin "
    "makes that easy, not the kind of privacy.",
    "A budget per attribute helps where predictions must survive changed features (γ' = γ/2): the noise of one weight "
    "must then be small compared with γ'. Per person it grows like √d (zCDP) or d (pure); per attribute labels can be "
    "randomized instead once √d/ε is larger than the cost of that, and nothing grows with d any more: the paper's 0, "
    "with the paper's 1/ε² instead of 1/ε.",
    "At ε = 0.1 that point lies beyond the d measured. Both sides need the same number of rows, on the way to √d.",
    "Public labels need fewest rows of all, and fewer the more features vote.",
    "Without margin (uniform rows) all learners need rows in proportion to d, also without privacy. With few features "
    "averaging is not the best there, on neither side, so our default method is shown as well.",
    "The paper's exponents for γ and α are those of a bound for any population with the best halfspace unknown; on "
    "these tables errors fall exponentially once there are enough rows, so α hardly matters.",
    "Best of four: the best of all record-level learners and settings on the test rows of every single table, its "
    "weights as they are or all of the same size (evened), which costs nothing and needs fewer rows on both sides. "
    "Compare it with ours, evened.",
]


def run(quick: bool) -> dict[str, Any]:
    effort = QUICK if quick else FULL
    curves = by_d(effort)
    rest = [*others(effort), exact(effort)]
    told = {
        "halfspace_d": ("robust", "ours"),
        "halfspace_d_person": ("robust", "averaging"),
        "halfspace_d_person_best": ("robust", BEST),
        "halfspace_d_evened": ("robust", "ours, evened"),
        "halfspace_d_person_pure": ("robust", "averaging, pure"),
        "halfspace_d_public_labels": ("robust", "ours, public labels"),
        "halfspace_d_small_budget": ("small budget", "ours"),
        "halfspace_d_small_budget_person": ("small budget", "averaging"),
        "halfspace_d_plain": ("plain", "ours"),
        "halfspace_d_plain_person": ("plain", "averaging"),
        "halfspace_d_uniform": ("uniform", "ours"),
        "halfspace_d_uniform_person": ("uniform", "averaging"),
    }
    return {
        "row": "halfspaces",
        "title": "Robust halfspaces",
        "curves": [*curves.values(), *rest],
        "notes": NOTES,
        "summary": {key: summary(curves[which]) for key, which in told.items()},
    }
