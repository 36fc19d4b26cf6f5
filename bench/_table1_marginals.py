"""Rows 1 and 2 of the paper's Table 1: all cells of all k-way marginals of d yes/no attributes.

ε goes to each attribute, or to the whole person (ρ = ε²/2 either way). Every set of attributes is as hard as any other,
whatever d is.

Average error is the root of the mean squared error (`thm:projection_mechanism`): Projection for both, and for the
person also what else a standard toolbox has. Bits are fair and independent: of the tables we tried, projecting helps
least there, and the theorem is about the worst one.

Maximum error is the mean error of the worst ⌊d/k⌋ disjoint answers (`thm:pdp-mwem`): joint picks for the attribute, one
query a round for the person; Projection beside them. MWEM would know fair bits before it starts, so these tables are
two camps with opposite bits (:func:`bench._binary.two_camps`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._table1_fits import Curve, curve, least, point, seeds, summary
from bench._table1_tasks import (
    AVERAGE,
    CAMPS,
    MAXIMUM,
    MAXIMUM_PROJECTED,
    TOOLBOX,
    Case,
    Task,
    mwem,
    plain_noise,
    side,
)

RUNS = {6: 64, 8: 48, 10: 32, 12: 24, 14: 16, 16: 8}  # by d, for an error: large ones take long
ENDINGS = {"attribute": "", "person": "_person"}  # of the keys in the last line
NEAR = (0.6, 0.8, 1.0, 1.25, 1.6)  # where the error is measured to find the n that is needed, over a first guess
Floats = NDArray[np.float64]


# Curves


def named(task: Task, unit: str) -> str:
    picks = {"attribute": ", joint picks", "person": ", one query a round"}[unit] if task.make is mwem else ""
    return f"{task.mechanism}{picks}"


def against(axis: str, values: Sequence[float], task: Task, unit: str, base: Case, part: int, paper: str) -> Curve:
    """The error, everything else being fixed, by one in ``part`` of the usual runs."""
    cases = [replace(base, **{axis: value}) for value in values]
    points = [
        point(
            value,
            (task.error(case, unit, seed) for seed in seeds(RUNS[case.d] // part)),
            task.bound and task.bound(case, unit),
        )
        for value, case in zip(values, cases, strict=True)
    ]
    fixed = base.told(axis) | {"loyal": task.loyal, "part_of_runs": f"1/{part}"} | _sides(task, unit, cases)
    return curve(named(task, unit), unit, named(task, unit), axis, "error", fixed, points, paper)


def needed(alpha: float, sizes: Sequence[int], task: Task, unit: str, base: Case, runs: int, paper: str) -> Curve:
    """The number of rows at which the error is α, against d."""
    points, promised = [], []
    for d in sizes:
        case = replace(base, d=d)
        rows = least(lambda n, at=case: task.bound(replace(at, n=math.ceil(n)), unit) <= alpha, 1000, within=1e-3)
        points.append(point(d, rows_for(alpha, task, unit, case, runs), rows))
        promised += [replace(case, n=math.ceil(rows))] if math.isfinite(rows) else []
    fixed = base.told("d", "n") | {"alpha": alpha, "loyal": task.loyal, "runs": runs} | _sides(task, unit, promised)
    return curve(named(task, unit), unit, named(task, unit), "d", "needed n", fixed, points, paper)


def rows_for(alpha: float, task: Task, unit: str, case: Case, runs: int) -> list[float]:
    """By run: a few steps towards the right n, then near it a straight line through log(error) over log(n).

    The slope is that of all runs together, as one alone would know it badly.
    """
    guess = 3 / (alpha * case.epsilon) * (math.sqrt(case.d / case.k) if unit == "person" else 1)
    for step in range(5):
        tried = replace(case, n=max(10, round(guess)))
        errors = [task.error(tried, unit, 1000 + 2 * step + i) for i in range(2)]
        guess *= (statistics.fmean(errors) / alpha) ** 1.3
    ns = [max(10, round(guess * near)) for near in NEAR]
    logs = np.log([[task.error(replace(case, n=n), unit, seed) for n in ns] for seed in seeds(runs)])
    slope = np.polyfit(np.log(ns), logs.mean(axis=0), 1)[0]
    return [float(each) for each in np.exp(np.log(ns).mean() + (math.log(alpha) - logs.mean(axis=1)) / slope)]


def _sides(task: Task, unit: str, cases: Sequence[Case]) -> dict[str, str]:
    """Which of the two terms of Projection's bound is the smaller one."""
    if task is not AVERAGE:
        return {}
    return {"side": " and ".join(sorted({side(case, unit) for case in cases}))}


def by_rows_and_budget(sweep: Callable[..., Curve], *bases: tuple[Case, str]) -> list[Curve]:
    """Error against n and against ε, where there is little of both, and where there is much; with the paper's word."""
    return [
        sweep(axis, [getattr(base, axis) * times for times in (1, 2, 4)], base=base, paper=paper)
        for axis in ("n", "epsilon")
        for base, paper in bases
    ]


# Rows


def average(quick: bool) -> dict[str, Any]:
    sizes, part, runs = ([8, 10, 12, 14], 4, 2) if quick else ([8, 10, 12, 14, 16], 1, 12)
    few, some = Case(n=120), Case(n=800)  # errors of about 0.1 and 0.03, on both sides of the theorem's minimum
    curves = []
    for unit in ENDINGS:
        mine = unit == "attribute"
        sweep = partial(against, task=AVERAGE, unit=unit, part=part)
        curves.append(sweep("d", sizes, base=few, paper="0" if mine else "1/4"))
        curves.append(sweep("d", sizes, base=some, paper="1/2" if mine else "1"))
        for k, alpha in ((2, 0.1), (2, 0.03), (3, 0.1))[: 1 if quick else 3]:
            paper = f"0 or {_half(k - 1)}" if mine else f"1/2 or {_half(k)}"
            curves.append(needed(alpha, sizes[:4], AVERAGE, unit, Case(k=k), runs, paper))
        sweep = partial(sweep, part=2 * part)
        curves.append(sweep("k", [1, 2, 3, 4], base=Case(d=10, n=100), paper="1/4" if mine else "0"))
        curves += by_rows_and_budget(sweep, (Case(d=10, k=3, n=25), "-1/2"), (Case(d=10, n=5_000), "-1"))
    told = {
        key + ending: summary(chosen(curves, unit, n=base.n))
        for key, base in (("marginals_avg_d", some), ("marginals_avg_d_few_rows", few))
        for unit, ending in ENDINGS.items()
    }
    curves += toolbox(sizes[:4], Case(n=500), 2 * part)
    return {"row": "marginals_avg", "title": "k-way marginals, average error", "curves": curves, "summary": told}


def maximum(quick: bool) -> dict[str, Any]:
    sizes, part, runs = [6, 8, 10, 12, 14], 4 if quick else 1, 2 if quick else 8
    curves = []
    for unit in ENDINGS:
        mine = unit == "attribute"
        sweep = partial(against, task=MAXIMUM, unit=unit, part=part)
        paper = "0, times √log d" if mine else "1/4, times √log d"
        curves.append(sweep("d", sizes, base=Case(n=500), paper=paper))
        paper = "0, times log d" if mine else "1/2, times log d"
        for alpha, some in ((0.1, sizes), (0.03, sizes[:3]))[
            : 1 if quick else 2
        ]:  # small α takes one query a round long
            curves.append(needed(alpha, some, MAXIMUM, unit, Case(), runs, paper))
        sweep = partial(sweep, part=2 * part)
        curves.append(sweep("k", [1, 2, 3, 4], base=Case(d=12, n=500), paper="3/4" if mine else "1/2"))
        curves += by_rows_and_budget(sweep, (Case(d=8, n=200), "-1/2"), (Case(d=8, n=2_000), "-1/2"))
        curves.append(against("d", sizes, MAXIMUM_PROJECTED, unit, Case(n=500), 2 * part, paper="not stated"))
    told = {
        key + ending: summary(chosen(curves, unit, **fixed))
        for key, fixed in (("marginals_max_d", {"n": 500}), ("marginals_max_d_rows", {"alpha": 0.1}))
        for unit, ending in ENDINGS.items()
    }
    title = "k-way marginals, maximum error over disjoint ones"
    return {"row": "marginals_max", "title": title, "curves": curves, "summary": told}


def toolbox(sizes: Sequence[int], base: Case, part: int) -> list[Curve]:
    """All that there is for the person, on two camps: the best of these is the one to compare with."""
    sides = ((TOOLBOX[0], "attribute", "0 or 1/2"), *((task, "person", "1/4 or 1") for task in TOOLBOX))
    curves = [against("d", sizes, task, unit, base, part, paper) for task, unit, paper in sides]
    for kind, paper in (("gaussian", "1"), ("laplace", "2")):
        cases = [replace(base, d=d) for d in sizes]
        points = [point(at.d, (plain_noise(kind, at, seed) for seed in seeds(RUNS[at.d] // part))) for at in cases]
        name, fixed = f"{kind.capitalize()} noise", base.told("d") | {"loyal": CAMPS, "part_of_runs": f"1/{part}"}
        curves.append(curve(name, "person", f"NoisyMarginals(noise={kind!r})", "d", "error", fixed, points, paper))
    return curves


def chosen(curves: Sequence[Curve], unit: str, **fixed: float) -> Curve:
    """The curve against d that has these settings: of the row's own mechanism, which knows a bound."""
    return next(
        each
        for each in curves
        if each["unit"] == unit
        and each["against"] == "d"
        and each["exponent"]["predicted"] is not None
        and fixed.items() <= each["fixed"].items()
    )


def _half(number: int) -> str:
    return f"{number}/2" if number % 2 else f"{number // 2}"
