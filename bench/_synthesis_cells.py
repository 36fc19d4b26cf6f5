"""One cell of the benchmark of synthetic tables: one method on one table with one budget and one seed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from bench._synthesis_data import MODEL_MB, Attributes, Data
from bench._synthesis_shapes import ALL, CHOSEN_ON, table_of
from nabladp.mechanisms.synthesis.mechanism import Synthesis
from nabladp.mechanisms.synthesis.repair import Tables, Target, repair
from nabladp.noise import NoiseSource
from nabladp.privacy import Rho

EPSILONS = (0.1, 0.3, 1.0, 3.0)
OURS, PERSON = "ours", "ours, person"
AIM = "AIM + pooling"  # the one that ours is compared with
BASELINES = ("AIM", AIM, "Gaussian", "Gaussian + model", "single")
FIXED = tuple(f"{OURS}, {strategy}" for strategy in ("packed", "single", "refined", "all"))  # what "auto" chooses from
FIXED_PERSON = tuple(f"{PERSON}, {strategy}" for strategy in ("single", "refined", "all"))


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
    ``person``: ρ of a person over the ρ that was given; what the release itself says of the first two."""

    error: float
    drawn: float | None
    person: float
    seconds: float
    repaired: float | None = None
    told: float | None = None
    told_drawn: float | None = None


def cells(tables: Iterable[str], widths: Iterable[int], seeds: Iterable[int]) -> Iterator[Cell]:
    """All baselines on the tables that they have always been on; elsewhere AIM, and the strategies that "auto" did
    not choose."""
    seeds, tables = tuple(seeds), tuple(tables)
    for k in widths:
        for name in tables:
            if ALL[name]() is None:
                print(f"{name} is left out: its file is not at hand", flush=True)
                continue
            for epsilon in EPSILONS:
                for method in (OURS, PERSON, *others(name, k, epsilon)):
                    yield from (Cell(name, k, epsilon, seed, method) for seed in seeds)


def others(name: str, k: int, epsilon: float) -> tuple[str, ...]:
    if name in OLD_TABLES:
        return BASELINES
    return (AIM, *(m for m in (*FIXED, *FIXED_PERSON) if not same_as_auto(name, k, epsilon, m)))


OLD_TABLES = tuple(CHOSEN_ON)[:4]


@cache
def same_as_auto(name: str, k: int, epsilon: float, method: str) -> bool:
    """Whether "auto" comes to the same design, so that its runs are those of this method."""
    data = table_of(name, k)
    if data is None:
        return True
    auto = PERSON if method.startswith(PERSON) else OURS
    both = [mechanism(Cell(name, k, epsilon, 0, m)).design(data.schema, data.n).choice for m in (auto, method)]
    return replace(both[0], why="") == replace(both[1], why="")


# One cell


def mechanism(cell: Cell) -> Synthesis:
    limits: dict[str, Any] = {"person" if cell.method.startswith(PERSON) else "budget": Rho(cell.rho)}
    strategy = cell.method.removeprefix(PERSON).removeprefix(OURS).removeprefix(", ") or "auto"
    return Synthesis(workload=cell.k, model_mb=MODEL_MB, strategy=strategy, **limits)


def measured(*given: Any) -> dict[str, Any]:
    return asdict(measure(Cell(*given)))


def measure(cell: Cell) -> Found:
    from bench import _synthesis_baselines as baselines

    data = table_of(cell.table, cell.k)
    if data is None:
        raise RuntimeError("its file has gone")
    start = time.process_time()
    if cell.method.startswith(OURS):
        return ours(data, cell, start)
    drawn = repaired = None
    estimate = baselines.BASELINES[cell.method](data, cell.rho, cell.k, cell.seed, int(MODEL_MB * 1e6))
    if cell.method == AIM:
        drawn, repaired = rows_of(data, cell, estimate)
    error = baselines.error(data, cell.k, dict(estimate.marginals))
    return Found(error, drawn, estimate.person, time.process_time() - start, repaired)


def ours(data: Data, cell: Cell, start: float) -> Found:
    from bench._synthesis_baselines import error

    chosen = mechanism(cell)
    released = chosen.run(data.table, NoiseSource.seeded(cell.seed))
    answers: dict[Attributes, Any] = {answer.attributes: answer.counts for answer in released.answers}
    return Found(
        error(data, cell.k, answers),
        error(data, cell.k, Data("", "", data.schema, dict(released.codes or {})).counts(cell.k)),
        float(chosen.guarantee(data.schema, data.n).per_person().rho / cell.rho),
        time.process_time() - start,
        told=released.quality["predicted_error"],
        told_drawn=released.quality["predicted_error_drawn"],
    )


def rows_of(data: Data, cell: Cell, estimate: Any) -> tuple[float, float]:
    """The errors of rows sampled from a baseline's model, and of the same repaired towards its answers in our way."""
    from bench._synthesis_baselines import error

    codes = estimate.model.draw(data.n, NoiseSource.seeded(cell.seed))
    tables = Tables(data.sizes, [Target(names, counts, 1.0) for names, counts in estimate.marginals.items()])
    both = (codes, repair(codes, tables).codes)
    sampled, repaired = (error(data, cell.k, Data("", "", data.schema, own).counts(cell.k)) for own in both)
    return sampled, repaired
