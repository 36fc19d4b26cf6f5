"""Synthetic tables: ours against AIM, AIM with our pooling, all marginals at once, single rounds; same ρ an attribute.

Everyone runs on the same estimator in the same run; OpenDP's own AIM stands beside them after ``make peers``. The full
run is resumable: what was measured with the same code is kept under ``.bench-cache`` (or NABLADP_BENCH_CACHE).
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench._synthesis_alone import against_opendp, many_rows, peaks, repair_seconds
from bench._synthesis_classifier import classifiers
from bench._synthesis_data import MODEL_MB, TABLES, THREE_WAY_COLUMNS, Attributes, Data, table_of
from nabladp.mechanisms.synthesis.mechanism import Synthesis
from nabladp.mechanisms.synthesis.repair import Tables, Target, repair
from nabladp.noise import NoiseSource
from nabladp.privacy import Rho

SECONDS = {"full": 14_400, "quick": 900}
EPSILONS = (0.1, 0.3, 1.0, 3.0)
OURS, PERSON = "ours", "ours, person"
AIM = "AIM + pooling"  # the one that ours is compared with
BASELINES = ("AIM", AIM, "Gaussian", "Gaussian + model", "single")
PEER_SECONDS = {"full": 900, "quick": 300}

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Cell:
    """One run of one method; ``epsilon`` is ε0 of an attribute, or of a person where that is all that is limited."""

    table: str
    k: int
    epsilon: float
    seed: int
    method: str

    @property
    def rho(self) -> float:
        return self.epsilon**2 / 2


@dataclass(frozen=True)
class Found:
    """``error`` of the answers, of the rows as they are handed out, and of a baseline's rows repaired in our way;
    ``person``: ρ of a person over the ρ that was given."""

    error: float
    drawn: float | None
    person: float
    seconds: float
    repaired: float | None = None


Results = dict[Cell, Found]


def run(quick: bool) -> dict[str, object]:
    seeds = range(2 if quick else 5)
    mode = "quick" if quick else "full"
    quiet = {**against_opendp(PEER_SECONDS[mode]), **peaks()}  # first, while nothing else runs
    found = measured(list(cells((2,) if quick else (2, 3), seeds)), None if quick else kept_file())
    return {
        **compared(found),
        **quiet,
        **classifiers(seeds),
        **many_rows(1_000_000 if quick else 10_000_000),
        **repair_seconds(1_000_000 if quick else 10_000_000),
        "errors": listed(found),
        "three_way_columns": {name: len(chosen) for name, chosen in THREE_WAY_COLUMNS.items()},
        "seeds": len(seeds),
    }


def cells(widths: Iterable[int], seeds: Iterable[int]) -> Iterator[Cell]:
    for k in widths:
        for name, make in TABLES.items():
            if make() is None:
                print(f"{name} is left out: its file is not at hand", flush=True)
                continue
            for epsilon in EPSILONS:
                for seed in seeds:
                    yield from (Cell(name, k, epsilon, seed, method) for method in (OURS, PERSON, *BASELINES))


# One cell


def measure(cell: Cell) -> Found:
    from bench import _synthesis_baselines as baselines

    data = table_of(cell.table, cell.k)
    if data is None:
        raise RuntimeError("its file has gone")
    start = time.process_time()
    drawn = repaired = None
    if cell.method in (OURS, PERSON):
        answers, codes, person = ours(data, cell)
        drawn = baselines.error(data, cell.k, Data("", "", data.schema, codes).counts(cell.k))
    else:
        estimate = baselines.BASELINES[cell.method](data, cell.rho, cell.k, cell.seed, int(MODEL_MB * 1e6))
        answers, person = dict(estimate.marginals), estimate.person
        if cell.method == AIM:
            drawn, repaired = rows_of(data, cell, estimate)
    return Found(baselines.error(data, cell.k, answers), drawn, person, time.process_time() - start, repaired)


def ours(data: Data, cell: Cell) -> tuple[dict[Attributes, Any], dict[str, Any], float]:
    """Answers, the drawn table, ρ of a person over the ρ that was given."""
    limits = {"person" if cell.method == PERSON else "budget": Rho(cell.rho)}
    mechanism = Synthesis(workload=cell.k, model_mb=MODEL_MB, **limits)
    found = mechanism.run(data.table, NoiseSource.seeded(cell.seed))
    person = mechanism.guarantee(data.schema, data.n).per_person().rho / cell.rho
    return {answer.attributes: answer.counts for answer in found.answers}, dict(found.codes or {}), float(person)


def rows_of(data: Data, cell: Cell, estimate: Any) -> tuple[float, float]:
    """The errors of rows sampled from a baseline's model, and of the same repaired towards its answers in our way."""
    from bench._synthesis_baselines import error

    codes = estimate.model.draw(data.n, NoiseSource.seeded(cell.seed))
    tables = Tables(data.sizes, [Target(names, counts, 1.0) for names, counts in estimate.marginals.items()])
    both = (codes, repair(codes, tables).codes)
    sampled, repaired = (error(data, cell.k, Data("", "", data.schema, own).counts(cell.k)) for own in both)
    return sampled, repaired


# All cells


def kept_file() -> Path:
    """Named by the code that is measured, so that a change starts afresh."""
    folder = Path(os.environ.get("NABLADP_BENCH_CACHE", ROOT / ".bench-cache"))
    folder.mkdir(parents=True, exist_ok=True)
    sources = [
        *Path(__file__).parent.glob("*synthesis*.py"),
        *(ROOT / "src/nabladp/mechanisms/synthesis").rglob("*.py"),
    ]
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources))).hexdigest()
    return folder / f"synthesis-{code[:12]}.jsonl"


def measured(wanted: list[Cell], file: Path | None) -> Results:
    """Runs what is not in the file yet, several at a time, and writes each cell down when it is done."""
    known: Results = {}
    if file is not None and file.exists():
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            known[Cell(**entry["cell"])] = Found(**entry["found"])
    missing = [cell for cell in wanted if cell not in known]
    print(f"{len(wanted) - len(missing)} of {len(wanted)} runs are known", flush=True)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(measure, cell): cell for cell in missing}
        for i, done in enumerate(as_completed(waiting), 1):
            cell, found = waiting[done], done.result()
            known[cell] = found
            what = f"{cell.table}, {cell.k}-way, eps0 {cell.epsilon}, seed {cell.seed}, {cell.method}"
            print(f"{i} of {len(missing)}: {what}: {found.error:.6f} in {found.seconds:.1f} s", flush=True)
            if file is not None:
                with file.open("a") as out:
                    out.write(json.dumps({"cell": asdict(cell), "found": asdict(found)}) + "\n")
    return {cell: known[cell] for cell in wanted}


Place = tuple[str, int, float]  # table, k, ε0
Errors = dict[Place, dict[str, float]]  # by place and method


def means(found: Results, what: str) -> Errors:
    """By place and method, over the seeds."""
    gathered: dict[Place, dict[str, list[float]]] = {}
    for cell, each in found.items():
        if (value := getattr(each, what)) is not None:
            gathered.setdefault((cell.table, cell.k, cell.epsilon), {}).setdefault(cell.method, []).append(value)
    return {place: {m: statistics.fmean(v) for m, v in by.items()} for place, by in gathered.items()}


def compared(found: Results) -> dict[str, object]:
    errors, person = means(found, "error"), means(found, "person")
    best = {place: by[OURS] / min(by[name] for name in BASELINES) for place, by in errors.items()}
    alike = {place: by[PERSON] / by[AIM] for place, by in errors.items()}
    worst = max(best, key=best.__getitem__)
    rows = rows_compared(errors, means(found, "drawn"), means(found, "repaired"))
    return {
        **rows,
        "gain_vs_aim_pool_mixed": gain(errors, mixed),
        "gain_vs_aim_pool_binary": gain(errors, binary),
        "gain_by_width": {
            f"{k}-way": {"mixed": gain(some, mixed), "binary": gain(some, binary)}
            for k, some in by_width(errors).items()
        },
        "worst_vs_best_baseline": round(best[worst], 3),
        "worst_vs_best_baseline_where": told(worst),
        "person_equal_ratio_max": round(max(alike.values()), 3),
        "person_equal_ratio_where": told(max(alike, key=alike.__getitem__)),
        "person_over_attribute_rho": {
            name: [round(min(by[name] for by in person.values()), 2), round(max(by[name] for by in person.values()), 2)]
            for name in (OURS, *BASELINES)
        },
    }


def rows_compared(errors: Errors, drawn: Errors, repaired: Errors) -> dict[str, object]:
    """Our rows beside our answers, and beside AIM's rows as it samples them and as we would repair them; AIM is the one
    with our pooling, at the same ρ of an attribute."""
    over = {place: by[OURS] / errors[place][OURS] for place, by in drawn.items() if place[2] <= 1}
    worst = max(over, key=over.__getitem__)
    gains = {
        f"rows_gain_vs_aim{suffix}_{kind}": gain(drawn, chosen, theirs)
        for suffix, theirs in (("", drawn), ("_repaired", repaired))
        for kind, chosen in (("mixed", mixed), ("binary", binary))
    }
    return {"rows_over_answers_max": round(over[worst], 3), "rows_over_answers_where": told(worst), **gains}


def gain(errors: Errors, chosen: Callable[[str], bool], theirs: Errors | None = None) -> float | None:
    """Geometric mean of AIM's error with our pooling over ours, for ε0 up to 1; ρ of an attribute is the same, ρ of a
    person is not (see ``person_over_attribute_rho``)."""
    others = errors if theirs is None else theirs
    some = [others[p][AIM] / by[OURS] for p, by in errors.items() if chosen(p[0]) and p[2] <= 1]
    return round(statistics.geometric_mean(some), 3) if some else None


def mixed(table: str) -> bool:
    return not binary(table)


def binary(table: str) -> bool:
    return table == "bits"


def by_width(errors: Errors) -> dict[int, Errors]:
    return {width: {p: by for p, by in errors.items() if p[1] == width} for width in sorted({k for _, k, _ in errors})}


def told(place: Place) -> str:
    return f"{place[0]}, {place[1]}-way, eps0 = {place[2]}"


def listed(found: Results) -> dict[str, dict[str, object]]:
    """For reading: mean errors by method; of ours also the drawn table's; ρ of a person over ρ of an attribute."""
    errors, drawn, person = (means(found, what) for what in ("error", "drawn", "person"))
    return {
        told(place): {
            **{name: float(f"{value:.4g}") for name, value in by.items()},
            "ours, drawn table": float(f"{drawn[place][OURS]:.4g}"),
            "person": round(person[place][OURS], 2),
        }
        for place, by in errors.items()
    }
