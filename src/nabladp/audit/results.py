"""What a statistical audit found."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from nabladp.checks import expect, is_whole
from nabladp.errors import AuditError, quote
from nabladp.mechanisms import Auditable
from nabladp.privacy.guarantee import Guarantee
from nabladp.schema import Schema

MOST_ROWS = 1_000_000
_ROUNDING = 1e-9  # relative: floating-point error of divergences, far below any real fault


def above(figure: float, claimed: float) -> bool:
    """Whether an audit's figure exceeds the claim by more than rounding could explain."""
    return figure > claimed * (1 + _ROUNDING) + 1e-12


@dataclass(frozen=True)
class StatisticalRow:
    """One set of attributes: what is claimed, and what it is at least."""

    attributes: tuple[str, ...]
    claimed_pure: float
    claimed_rho: float
    lower_pure: float
    lower_rho: float
    beyond_curve: bool  # whether a claimed (ε, δ) is broken
    runs: int

    @property
    def refuted(self) -> bool:
        beyond = above(self.lower_pure, self.claimed_pure) or above(self.lower_rho, self.claimed_rho)
        return beyond or self.beyond_curve

    @property
    def verdict(self) -> str:
        return "refuted" if self.refuted else "consistent"

    @property
    def claimed_mu(self) -> float:
        """The μ of Gaussian noise at the claimed ρ: √(2ρ)."""
        return math.sqrt(2 * self.claimed_rho)

    @property
    def lower_mu(self) -> float:
        return math.sqrt(2 * self.lower_rho)

    @property
    def tightness(self) -> float:
        """The statistical lower bound over the claim, of pure ε where claimed, otherwise of μ = √(2ρ)."""
        result, claimed = (self.lower_mu, self.claimed_mu)
        if not math.isinf(self.claimed_pure):
            result, claimed = self.lower_pure, self.claimed_pure
        return result / claimed if claimed else (math.inf if result > 0 else 1.0)

    def to_json(self) -> dict[str, Any]:
        more = {"lower_mu": self.lower_mu, "verdict": self.verdict, "refuted": self.refuted}
        return {name: _finite(value) for name, value in (asdict(self) | more | {"tightness": self.tightness}).items()}


@dataclass(frozen=True)
class StatisticalAudit:
    """``left_out``: sets that would have been looked at, had there been time."""

    rows: tuple[StatisticalRow, ...]
    beta: float
    table_rows: int
    left_out: tuple[tuple[str, ...], ...] = ()

    @property
    def refuted(self) -> tuple[StatisticalRow, ...]:
        return tuple(row for row in self.rows if row.refuted)

    @property
    def passed(self) -> bool:
        return not self.refuted

    @property
    def tightest(self) -> StatisticalRow:
        """The set whose claim the runs come closest to; one that claims nothing counts only where it is refuted."""
        telling = [row for row in self.rows if row.claimed_rho or row.refuted]
        return max(telling or self.rows, key=lambda row: row.tightness)

    @property
    def runs(self) -> int:
        return sum(row.runs for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        body = {"passed": self.passed, "confidence": 1 - self.beta, "table_rows": self.table_rows, "runs": self.runs}
        return body | {
            "sets": [row.to_json() for row in self.rows],
            "left_out": [list(names) for names in self.left_out],
        }


@dataclass(frozen=True)
class LawRow:
    """The runs on one table: how many, how many numbers each publishes, what the bets against the law have won."""

    table_rows: int
    runs: int
    numbers: int
    log_capital: float
    most_telling: str  # what won most

    def to_json(self) -> dict[str, Any]:
        return {name: _finite(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class LawAudit:
    """Whether ``run`` publishes what ``distribution`` says; ``log_capital`` is that of all tables' bets together.

    ``detectable`` is the smallest c such that noise divided by c in ``run`` alone would have been refuted with
    probability 0.9 at least; None where not even the largest c tried would, or where the law is refuted.
    """

    rows: tuple[LawRow, ...]
    beta: float
    log_capital: float
    detectable: float | None

    @property
    def p_value(self) -> float:
        """The p-value of the law audit: a bound on the probability of as much capital if ``run`` follows its law."""
        return min(1.0, math.exp(-min(max(self.log_capital, 0.0), 700.0)))

    @property
    def refuted(self) -> bool:
        return self.log_capital >= -math.log(self.beta)

    @property
    def passed(self) -> bool:
        return not self.refuted

    @property
    def verdict(self) -> str:
        return "refuted" if self.refuted else "consistent"

    @property
    def runs(self) -> int:
        return sum(row.runs for row in self.rows)

    @property
    def most_telling(self) -> str:
        return max(self.rows, key=lambda row: row.log_capital).most_telling

    def to_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "confidence": 1 - self.beta,
            "runs": self.runs,
            "p_value": self.p_value,
            "most_telling": self.most_telling,
            "detectable": self.detectable,
            "tables": [row.to_json() for row in self.rows],
        }


def _finite(value: Any) -> Any:
    """An audit figure for JSON, which has no infinity: "no bound" is null."""
    return None if isinstance(value, float) and math.isinf(value) else value


def check_asked(mechanism: Any, schema: Any, guarantee: Any, rows: Any = None) -> None:
    """Refuse wrong arguments of any audit: mechanism, schema, guarantee, rows."""
    if not isinstance(mechanism, Auditable):
        raise AuditError(
            f"An audit is of a mechanism, not of {quote(mechanism)}.",
            fix="Give one with its parameters, e.g. NoisyMarginals(CDP(0.5), k=1). A class of your own inherits "
            "nabladp.mechanisms.Auditable.",
        )
    expect(schema, Schema, "The schema of an audit", 'Load it with Schema.load("schema.toml").')
    if guarantee is not None:
        expect(guarantee, Guarantee, "The claim of an audit", "Leave it out for the mechanism's own.")
    if rows is not None and not is_whole(rows, 1, MOST_ROWS):
        raise AuditError(f"An audit is made on tables of 1 to {MOST_ROWS:,} rows.", fix="Give rows = 4.")
