"""YesTotal: the number of rows that say yes, with discrete Laplace noise. The proof is in PROOF.md beside this file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from nabladp.errors import MechanismError
from nabladp.mechanisms import ExpectedError, Law, Mechanism, Output, Records, parameter
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.kinds import BudgetKind, Name
from nabladp.noise import NoiseSource, half_width, laplace_log_pmf
from nabladp.privacy import Guarantee, Pure
from nabladp.privacy.values import limit_units
from nabladp.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts

LEVEL = 0.95


@dataclass(frozen=True)
class Total(Output):
    """The noisy number of rows that say yes in ``column``; the true one lies within ± ``half_width`` with 95%."""

    column: str
    count: int
    half_width: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> Self:
        return cls(data["column"], data["count"], data["half_width"])

    def values_table(self, schema: Schema) -> pa.Table:
        import pyarrow as pa

        low, high = self.count - self.half_width, self.count + self.half_width
        return pa.table({"column": [self.column], "count": [self.count], "low": [low], "high": [high]})

    def truth(self, counts: Counts) -> Total:
        return replace(self, count=yes(counts, self.column))


@dataclass(frozen=True)
class TotalError(ExpectedError):
    """The noise of the total, known before anything is spent."""

    scale: float

    def values_written(self) -> int:
        return 1

    def to_json(self) -> dict[str, Any]:
        width = half_width("laplace", self.scale, LEVEL)
        return {"scale": self.scale, "half_width": width, "summary": {"95% interval of the total, ±": width}}


@dataclass(frozen=True)
class YesTotal(Mechanism):
    """How many rows say yes in ``column``, a column with two values.

    Guarantee: ``touch(sources of column, ε)``, pure, with ε the budget. Assumed: the number of rows is public and one
    row is one person (PROOF.md).
    """

    budget: Pure = field(metadata=parameter(BudgetKind("laplace"), "What every source of the column may lose."))
    column: str = field(metadata=parameter(Name(), "The column; its second value is yes."))

    def reads(self, schema: Schema) -> tuple[str, ...]:
        if schema[self.column].size != 2:
            raise MechanismError(f"{self.column!r} does not have two values.", fix="Name a column of yes and no.")
        return (self.column,)

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.touch(schema, self.reads(schema), self.budget)  # [touch]

    def scale(self) -> float:
        return least_scale("laplace", limit_units(self.budget), 1)  # [scale]

    def expected_error(self, schema: Schema, n: int) -> TotalError:
        self.reads(schema)
        return TotalError(self.scale())

    def run(self, counts: Counts, noise: NoiseSource) -> Total:
        noisy = yes(counts, self.column) + int(noise.discrete_laplace(self.scale(), 1)[0])  # [noise]
        return Total(self.column, noisy, half_width("laplace", self.scale(), LEVEL))

    def distribution(self, counts: Counts) -> Law:
        """Where outcomes are cut, ratios no longer change: nothing is lost."""
        window, held = math.ceil(10 * self.scale()), yes(counts, self.column)
        return Law((laplace_log_pmf(self.scale(), -window - held, counts.n + window - held),))

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """Whoever changes from no to yes, or back, moves the total by one."""
        return [({}, dict.fromkeys(attributes, 1)), (dict.fromkeys(attributes, 1), {})]

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> Total:
        return Total.from_json(data, schema)


def yes(counts: Counts, column: str) -> int:
    (table,) = counts.marginals([(column,)])
    return int(table[1])
