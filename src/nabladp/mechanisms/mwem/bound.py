"""The accuracy bound (`eq:pdp-mwem-T`), and the number of rounds that makes it smallest."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from nabladp.mechanisms.mechanism import ExpectedError

MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class Bound:
    """E[max over ℓ disjoint queries of their mean error] ≤ √(1/(n·e_a)² + 4·ln|X|/(T·ℓ)) + ln(m)/(n·e_s).

    e_a and e_s are what a round spends on answers and on selection, √(2ρ·share/T) each; with half the budget for each
    this is the theorem's right-hand side.
    """

    rho: float
    log_records: float
    queries: int
    share: float
    n: int

    def at(self, rounds: int, per_round: float) -> float:
        answers = self.n * math.sqrt(2 * self.rho * (1 - self.share) / rounds)
        selection = self.n * math.sqrt(2 * self.rho * self.share / rounds)
        step = 1 / answers**2 + 4 * self.log_records / (rounds * per_round)
        return math.sqrt(step) + math.log(self.queries) / selection

    def best_rounds(self, per_round: float) -> int:
        """The minimiser; the bound first falls, then rises."""
        low, high = 1, MOST_ROUNDS
        while low < high:
            middle = (low + high) // 2
            if self.at(middle, per_round) <= self.at(middle + 1, per_round):
                high = middle
            else:
                low = middle + 1
        return low


@dataclass(frozen=True)
class DistributionError(ExpectedError):
    """What is known before anything is spent.

    Bounds are None while the number of rows is not known, and where the theorem does not speak: queries with different
    weights or budgets, or picked in blocks. For "fit", and for joint steps, they are the paper's, measured and not
    proven (docs/errata.md).
    """

    queries: int
    records: int
    rounds: int | None
    per_round: float
    rows: int  # of the synthetic table
    scale: float | None = None  # of the noise on a measured count
    bound: float | None = None  # `eq:pdp-mwem-T` at these rounds
    bound_best_rounds: float | None = None  # at the rounds where it is smallest
    bound_one_query: float | None = None  # the same for classic MWEM, this budget for the whole person

    def values_written(self) -> int:
        return self.queries + 2 * self.records + self.rows // 8

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"summary": self._summary()}

    def _summary(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "queries": self.queries,
            "possible records": self.records,
            "rounds": "chosen when the number of rows is known" if self.rounds is None else self.rounds,
            "disjoint queries per round": f"{self.per_round:g}",
        }
        if self.scale is not None:
            told["noise scale of a measured count"] = self.scale
        if self.bound is not None:
            told["mean error of the worst disjoint queries: the paper's bound"] = self.bound
            told["… at the bound's best rounds"] = self.bound_best_rounds
            told["… this budget for the whole person"] = self.bound_one_query
        return told
