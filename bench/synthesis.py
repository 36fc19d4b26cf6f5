"""Synthetic tables: ours against AIM, AIM with our pooling, all marginals at once, single rounds; same ρ an attribute.

Everyone runs on the same estimator in the same run; OpenDP's own AIM stands beside them after ``make peers``. The rules
of ``strategy="auto"`` were chosen on some tables (``_synthesis_shapes.CHOSEN_ON``); rows, predictions, ``auto`` against
its own strategies and AIM at the same ρ of a person are reported on others (``UNSEEN``). The runs are independent jobs:
``--workers N`` at a time, and ``--seconds S`` stops in time to go on later (see ``_synthesis_jobs``). ``--part NAME``
runs those of ``PARTS`` that begin with it. Figures are of those places (a table, a width, an ε0) of which every run is
known; ``included`` lists them.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from bench._synthesis_alone import compared_with_opendp, peak
from bench._synthesis_cells import (
    AIM,
    BASELINES,
    FIXED,
    FIXED_PERSON,
    OLD_TABLES,
    OURS,
    PERSON,
    Cell,
    Found,
    cells,
    same_as_auto,
)
from bench._synthesis_classifier import LABELS, points_lost
from bench._synthesis_jobs import Job, Kept, work_through
from bench._synthesis_shapes import ALL, CHOSEN_ON, UNSEEN, table_of

SECONDS = {"full": 9_000, "quick": 900}
PEER_SECONDS = {"full": 900, "quick": 300}

Results = dict[Cell, Found]
Place = tuple[str, int, float]  # table, k, ε0
Errors = dict[Place, dict[str, float]]  # by place and method


PARTS: dict[str, Callable[[range], Iterable[Cell]] | None] = {
    "unseen-2": partial(cells, UNSEEN, (2,)),
    "unseen-3": partial(cells, UNSEEN, (3,)),
    "chosen-2": partial(cells, OLD_TABLES, (2,)),
    "chosen-3": partial(cells, OLD_TABLES, (3,)),
    "alone": None,  # time and memory, OpenDP's AIM, many rows, a classifier
}


def run(
    quick: bool, workers: int | None = None, seconds: float | None = None, part: str | None = None
) -> dict[str, object]:
    end = time.monotonic() + (float("inf") if seconds is None else seconds)
    seeds = range(2 if quick else 5)
    rows = 1_000_000 if quick else 10_000_000
    parts = [name for name in PARTS if name.startswith(part or "") and not (quick and name.endswith("-3"))]
    if not parts:
        raise SystemExit(f"The parts are {', '.join(PARTS)}; a quick run has no triples.")
    wanted = [cell for name in parts if (made := PARTS[name]) is not None for cell in made(seeds)]
    alone = "alone" in parts
    jobs = list(other_jobs(rows, seeds, PEER_SECONDS["quick" if quick else "full"])) if alone else []
    kept = Kept.open("synthesis-quick" if quick else "synthesis")
    left = work_through([*jobs, *map(job_of, in_turn(wanted))], kept, workers or os.cpu_count() or 1, end)
    found = whole_places(wanted, kept)
    chosen, unseen = only(found, OLD_TABLES), only(found, UNSEEN)
    return {
        "finished": not left,
        "jobs_left": left,
        "parts": parts,
        "included": included(found),
        "seeds": len(seeds),
        **(compared(chosen) if chosen else {}),
        **(reported(unseen) if unseen else {}),
        **results_alone([job for job in jobs if job.key in kept.results], kept),
        "errors": listed(found),
        "rules_chosen_on": list(CHOSEN_ON),
        "reported_on": list(UNSEEN),
        "three_way_columns": {name: len(data.sizes) for name in ALL if (data := table_of(name, 3)) is not None},
        "processor_minutes": spent(wanted, kept),
    }


def whole_places(wanted: Iterable[Cell], kept: Kept) -> Results:
    """What is known of the places of which every run is known: all methods, all seeds."""
    places: dict[Place, list[Cell]] = {}
    for cell in wanted:
        places.setdefault((cell.table, cell.k, cell.epsilon), []).append(cell)
    whole = [own for own in places.values() if all(job_of(cell).key in kept.results for cell in own)]
    return {cell: Found(**kept.results[job_of(cell).key]) for own in whole for cell in own}


def included(found: Results) -> dict[str, list[float]]:
    """ε0 by table and width."""
    places: dict[str, list[float]] = {}
    for table, k, epsilon in dict.fromkeys((cell.table, cell.k, cell.epsilon) for cell in found):
        places.setdefault(f"{table}, {k}-way", []).append(epsilon)
    return places


def results_alone(jobs: Sequence[Job], kept: Kept) -> dict[str, Any]:
    if not jobs:
        return {}
    others = [kept.results[job.key] for job in jobs if job.alone and not job.function.endswith("peak")]
    results = {name: value for result in others for name, value in result.items()}
    if peaks := {job.given[0]: kept.results[job.key] for job in jobs if job.function.endswith("peak")}:
        results["peak_mb"] = round(max(each["peak_mb"] for each in peaks.values()))
        results["seconds_alone"] = {name: round(each["seconds"], 2) for name, each in peaks.items()}
    return {**results, **points_lost(kept.results[job.key] for job in jobs if job.function == CLASSIFIER)}


# Jobs

IN_TURN = (0.3, 0.1, 1.0, 3.0)  # ε0
WIDE = 32  # columns
CLASSIFIER = "_synthesis_classifier.classifier"


def other_jobs(rows: int, seeds: Iterable[int], peer_seconds: int) -> Iterator[Job]:
    yield Job("_synthesis_alone.many_rows", (rows,), alone=True)
    yield Job("_synthesis_alone.repair_seconds", (rows,), alone=True)
    yield from (Job(f"_synthesis_alone.{peak.__name__}", (name,), alone=True) for name in OLD_TABLES if ALL[name]())
    yield Job(f"_synthesis_alone.{compared_with_opendp.__name__}", (peer_seconds,), alone=True)
    yield from (Job(CLASSIFIER, (name, seed)) for name in LABELS if ALL[name]() for seed in seeds)


def job_of(cell: Cell) -> Job:
    return Job("_synthesis_cells.measured", tuple(asdict(cell).values()), baseline=cell.method in BASELINES)


def in_turn(wanted: Sequence[Cell]) -> list[Cell]:
    """A run that is cut short should know many tables: the widest come last, one ε0 after the other, with mixed and
    binary tables in turn, each with all its widths."""
    tables = sorted({cell.table for cell in wanted}, key=lambda name: (columns(name), name))
    rank = {name: [other for other in tables if binary(other) == binary(name)].index(name) for name in tables}

    def place(cell: Cell) -> tuple[Any, ...]:
        wide = columns(cell.table) > WIDE
        return wide, IN_TURN.index(cell.epsilon), rank[cell.table], binary(cell.table), cell.k

    return sorted(wanted, key=place)


def columns(table: str) -> int:
    data = ALL[table]()
    return 0 if data is None else len(data.sizes)


def spent(wanted: Iterable[Cell], kept: Kept) -> float:
    done = [kept.results.get(job_of(cell).key) for cell in wanted]
    return round(sum(each["seconds"] for each in done if each) / 60, 1)


# Comparisons


def only(found: Results, tables: Collection[str]) -> Results:
    return {cell: each for cell, each in found.items() if cell.table in tables}


def means(found: Results, what: str) -> Errors:
    """By place and method, over the seeds; a strategy that "auto" chose has its figures."""
    gathered: dict[Place, dict[str, list[float]]] = {}
    for cell, each in found.items():
        if (value := getattr(each, what)) is not None:
            gathered.setdefault((cell.table, cell.k, cell.epsilon), {}).setdefault(cell.method, []).append(value)
    errors = {place: {m: statistics.fmean(v) for m, v in by.items()} for place, by in gathered.items()}
    for place, by in errors.items():
        for method, auto in [*((m, OURS) for m in FIXED), *((m, PERSON) for m in FIXED_PERSON)]:
            if method not in by and auto in by and same_as_auto(*place, method):
                by[method] = by[auto]
    return errors


def compared(found: Results) -> dict[str, object]:
    """On the tables that have always been here, all of which rules were chosen on."""
    errors, person = means(found, "error"), means(found, "person")
    best = {place: by[OURS] / min(by[name] for name in BASELINES) for place, by in errors.items()}
    drawn, repaired = means(found, "drawn"), means(found, "repaired")
    return {
        "gain_vs_aim_pool_mixed": gain(errors, mixed),
        "gain_vs_aim_pool_binary": gain(errors, binary),
        "gain_by_width": {
            f"{k}-way": {"mixed": gain(some, mixed), "binary": gain(some, binary)}
            for k, some in by_width(errors).items()
        },
        **largest("worst_vs_best_baseline", best),
        **largest("rows_over_answers_chosen", rows_over_answers(errors, drawn)),
        **largest("person_equal_ratio_chosen", person_equal(errors)),
        **row_gains(drawn, repaired, "_chosen"),
        "person_over_attribute_rho": {
            name: [round(min(by[name] for by in person.values()), 2), round(max(by[name] for by in person.values()), 2)]
            for name in (OURS, *BASELINES)
        },
    }


def reported(found: Results) -> dict[str, object]:
    """On tables that no rule was chosen on."""
    errors, drawn, repaired = means(found, "error"), means(found, "drawn"), means(found, "repaired")
    return {
        **row_gains(drawn, repaired),
        "answers_gain_vs_aim": {"mixed": gain(errors, mixed), "binary": gain(errors, binary)},
        **largest("rows_over_answers_max", rows_over_answers(errors, drawn)),
        **largest("person_equal_ratio_max", person_equal(errors)),
        **largest("person_equal_ratio_rows", person_equal(drawn)),
        **largest("auto_over_best_max", over_best(errors)),
        "predicted_over_true": predictions(found, "told", "error"),
        "predicted_over_true_rows": predictions(found, "told_drawn", "drawn"),
    }


def largest(name: str, values: dict[Any, float]) -> dict[str, object]:
    if not values:
        return {}
    where = max(values, key=values.__getitem__)
    stem = name.removesuffix("_max")
    return {name: round(values[where], 3), f"{stem}_where": told(*where)}


def rows_over_answers(errors: Errors, drawn: Errors) -> dict[Place, float]:
    return {place: by[OURS] / errors[place][OURS] for place, by in drawn.items() if place[2] <= 1}


def person_equal(errors: Errors) -> dict[Place, float]:
    """Ours with a person's limit alone over AIM with our pooling, at the same ρ of a person."""
    return {place: by[PERSON] / by[AIM] for place, by in errors.items()}


def over_best(errors: Errors) -> dict[tuple[Any, ...], float]:
    """ "auto" over the best of the strategies it chooses from, with a budget for attributes and for a person."""
    return {
        (*place, auto): by[auto] / min(by[method] for method in fixed)
        for place, by in errors.items()
        for auto, fixed in ((OURS, FIXED), (PERSON, FIXED_PERSON))
    }


def predictions(found: Results, said: str, truth: str) -> dict[str, object]:
    """What releases say of their own error over the true one, means over the seeds: the range, also by strategy."""
    both = means(found, said), means(found, truth)
    ratios = {
        (*place, method): both[0][place][method] / both[1][place][method]
        for place in both[0]
        for method in both[0][place]
    }
    by_method = {
        method: [ratio for (*_, own), ratio in ratios.items() if own == method]
        for method in (OURS, PERSON, *FIXED, *FIXED_PERSON)
    }
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    return {
        "range": [round(ratios[low], 3), round(ratios[high], 3)],
        "where": [told(*low), told(*high)],
        "by_method": {name: [round(min(v), 3), round(max(v), 3)] for name, v in by_method.items() if v},
    }


def row_gains(drawn: Errors, repaired: Errors, suffix: str = "") -> dict[str, object]:
    """AIM's rows over ours, as it samples them and as we would repair them; AIM is the one with our pooling, at the
    same ρ of an attribute."""
    return {
        f"rows_gain_vs_aim{which}_{kind}{suffix}": gain(drawn, chosen, theirs)
        for which, theirs in (("", drawn), ("_repaired", repaired))
        for kind, chosen in (("mixed", mixed), ("binary", binary))
    }


def gain(errors: Errors, chosen: Callable[[str], bool], theirs: Errors | None = None) -> float | None:
    """Geometric mean of AIM's error with our pooling over ours, for ε0 up to 1; ρ of an attribute is the same, ρ of a
    person is not (see ``person_over_attribute_rho``)."""
    others = errors if theirs is None else theirs
    some = [others[p][AIM] / by[OURS] for p, by in errors.items() if chosen(p[0]) and p[2] <= 1]
    return round(statistics.geometric_mean(some), 3) if some else None


def mixed(table: str) -> bool:
    return not binary(table)


def binary(table: str) -> bool:
    data = ALL[table]()
    return data is not None and data.kind == "binary"


def by_width(errors: Errors) -> dict[int, Errors]:
    return {width: {p: by for p, by in errors.items() if p[1] == width} for width in sorted({k for _, k, _ in errors})}


def told(table: str, k: int, epsilon: float, *method: str) -> str:
    return ", ".join([table, f"{k}-way", f"eps0 = {epsilon}", *method])


def listed(found: Results) -> dict[str, dict[str, object]]:
    """For reading: mean errors by method; of ours also the drawn table's; ρ of a person over ρ of an attribute."""
    errors, drawn, person = (means(found, what) for what in ("error", "drawn", "person"))
    return {
        told(*place): {
            **{name: float(f"{value:.4g}") for name, value in by.items()},
            "ours, drawn table": float(f"{drawn[place][OURS]:.4g}"),
            "person": round(person[place][OURS], 2),
        }
        for place, by in errors.items()
    }
