"""What is known before anything is spent: how, how well, with how much memory and time."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from nabladp.mechanisms.mechanism import ExpectedError
from nabladp.mechanisms.synthesis.design import Design, scale_for
from nabladp.mechanisms.synthesis.rounds import AT_ONCE, MOST_BYTES, variance_of
from nabladp.mechanisms.synthesis.selection import ABSOLUTE

_ROWS_A_SECOND = 3e6  # counted, for each hundred marginals
_CELLS_A_SECOND = 2e7  # compared with the model
_SECONDS_A_BYTE = 4e-7  # of a model, to fit it
_SECONDS_A_SET = 1.5e-3  # of a fit, for every marginal it is fitted to
_SECONDS_A_ROUND = 1.25e-9  # for every byte of the model and every column, to answer all candidates
_SECONDS_PUBLISHED = 1.5e-3  # for every marginal that is answered, written and shown
_BYTES_A_SET = 47_000
_BYTES_COMPARED = 38_000  # and in rounds, for every candidate
_BASE_BYTES = 470_000_000  # the packages
_COPIES = 12  # of the model's tables, while it answers all pairs at once
_ANSWER_COPIES = 6


@dataclass(frozen=True)
class SynthesisError(ExpectedError):
    """``noise_error`` is the mean total variation distance of a marginal from the truth, by its noise alone, if it is
    measured once; the model, and measuring again, make it smaller. None while the number of rows is not known."""

    columns: int
    marginals: int
    workload_cells: int
    strategy: str
    why: str
    rounds: int
    rows: int
    scale: float  # of the noise on a marginal when first measured, in the middle
    noise_error: float | None
    memory_mb: float
    seconds: float

    def values_written(self) -> int:
        """How much will be written: answers, what was measured, the drawn table."""
        return 2 * self.workload_cells + self.rows * self.columns // 32

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"summary": self._summary()}

    def _summary(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "columns": self.columns,
            "marginals wanted": self.marginals,
            "strategy": f"{self.strategy}: {self.why}",
        }
        if self.rounds:
            told["rounds, at most"] = self.rounds
        told["noise scale of a measured marginal"] = self.scale
        if self.noise_error is not None:
            told["its error by noise alone (total variation)"] = self.noise_error
        return told | {"memory, MB": round(self.memory_mb), "time, seconds": round(self.seconds)}


def expect(design: Design, limit_bytes: int, rows: int) -> SynthesisError:
    wanted, n = design.wanted, design.n
    if design.accounts is None:
        chosen = {frozenset(p.attributes): p.scale for p in design.planned}
        scales = np.array([chosen[frozenset(names)] for names in wanted.sets])
    else:
        grown = design.accounts.grow(Fraction(1, design.choice.rounds))
        units = [grown.affordable(design.limits.charged(names), design.sharing) for names in wanted.sets]
        scales = np.array([scale_for(max(amount, 1)) for amount in units])
    cells = np.array([wanted.cells(names) for names in wanted.sets])
    noise = None
    if n:
        deviations = np.array([np.sqrt(variance_of(float(scale))) for scale in scales])
        noise = float(np.average(np.minimum(1.0, ABSOLUTE * deviations * cells / (2 * n)), weights=wanted.weights))
    return SynthesisError(
        columns=len(wanted.columns),
        marginals=len(wanted.sets),
        workload_cells=int(cells.sum()),
        strategy=design.choice.strategy,
        why=design.choice.why,
        rounds=design.choice.rounds,
        rows=rows,
        scale=float(np.median(scales)),
        noise_error=noise,
        memory_mb=_memory(design, limit_bytes, int(cells.sum())) / 1e6,
        seconds=_seconds(design, limit_bytes),
    )


def _model_bytes(design: Design, limit_bytes: int) -> int:
    """As large as it is allowed to be, or could ever be."""
    return min(limit_bytes, 8 * math.prod(design.wanted.sizes.values()))


def _memory(design: Design, limit_bytes: int, workload_cells: int) -> int:
    counted = int(design.cells.sum()) if design.accounts is not None else workload_cells
    kept = min(MOST_BYTES, 4 * counted)
    counting = 8 * min(2 * AT_ONCE, counted)
    return (
        _BASE_BYTES
        + (_BYTES_A_SET + (_BYTES_COMPARED if design.rounds else 0)) * len(design.wanted.candidates)
        + kept
        + counting
        + _COPIES * _model_bytes(design, limit_bytes)
        + _ANSWER_COPIES * 8 * workload_cells
    )


def _seconds(design: Design, limit_bytes: int) -> float:
    """Counting, comparing candidates with the model in every round, fitting, mostly with a half-grown model, and
    publishing with the report."""
    rounds = design.choice.rounds
    fits = 2 + rounds / 2
    counting = design.n * max(1.0, len(design.wanted.candidates) / 100) / _ROWS_A_SECOND
    compared = sum(int(design.cells[list(block.members)].sum()) for blocks in design.rounds for block in blocks)
    answering = _SECONDS_A_ROUND * rounds * _model_bytes(design, limit_bytes) * len(design.wanted.columns)
    measured = len(design.planned) + sum(block.most for blocks in design.rounds for block in blocks)
    fitting = 0.05 + _SECONDS_A_SET * measured + _SECONDS_A_BYTE * _model_bytes(design, limit_bytes) / 2
    published = _SECONDS_PUBLISHED * len(design.wanted.sets)
    return counting + answering + compared / _CELLS_A_SECOND + fits * fitting + published
