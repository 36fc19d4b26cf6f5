"""Statistics: counts, sums, means, variances and quantiles by group, asked for in SQL. Proof in PROOF.md."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Integers
from nabladp.errors import AuditError, MechanismError
from nabladp.mechanisms.allocation import source_units
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Choice, check_all_support
from nabladp.mechanisms.mechanism import Law, Mechanism, Records, Scenario, ValueLaw, check_asked
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.mechanisms.parameters import Kind, Parameter, parameter
from nabladp.mechanisms.statistics.answer import Estimator
from nabladp.mechanisms.statistics.blocks import Plan, plan_blocks
from nabladp.mechanisms.statistics.calibration import Calibration
from nabladp.mechanisms.statistics.counting import StatisticsKernel, Sums
from nabladp.mechanisms.statistics.output import StatisticError, StatisticsOutput
from nabladp.noise import NoiseSource, gaussian_log_pmf, laplace_log_pmf
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue
from nabladp.schema import Schema
from nabladp.sql.query import Query, parse_query

if TYPE_CHECKING:
    from nabladp.tables import Counts

_AUDIT_ORDER = 24.0  # the exact law is cut where Rényi orders up to this cannot notice
_MOST_OUTCOMES = 1 << 22


class Queries(Kind):
    """One query, or several that share what they measure."""

    takes = "a query, or a list of queries"
    example = '"SELECT region, COUNT(*) FROM people GROUP BY region"'

    def checked(self, value: Any, declared: Parameter) -> tuple[str, ...]:
        listed = (value,) if isinstance(value, str) else value
        if not isinstance(listed, (list, tuple)) or not listed or not all(isinstance(text, str) for text in listed):
            raise declared.wrong()
        return tuple(listed)

    def stored(self, value: Any) -> Any:
        return value[0] if len(value) == 1 else list(value)


@dataclass(frozen=True)
class Statistics(Mechanism):
    """Answers to SQL queries over one table: COUNT, SUM, AVG, VAR, STDDEV, MEDIAN, QUANTILE, COUNT(DISTINCT), by group.

    ``budget`` is the budget of every source attribute for all queries together (``budgets`` names exceptions): Gaussian
    noise for CDP, Rho or Approx, Laplace noise for Pure. What an attribute pays depends on its role: in GROUP BY, in a
    condition, or as the value of an aggregate. ``quantiles``: "cdf" (all quantiles of a column at one cost, with
    intervals) or "point" (each by the exponential mechanism: better for a single one, without an interval).

    Guarantee: for every block of aggregates with the same groups, filter and value, one ``touch`` with the weights 2M
    for sources of the groups, M for those of the filter, D for those of the value; blocks add. Assumed: the number of
    rows is public, and one row is one person (PROOF.md).
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind(), "The budget of every source attribute."))
    sql: tuple[str, ...] = field(metadata=parameter(Queries(), "The query, or several that share measurements."))
    quantiles: str = field(
        default="cdf",
        metadata=parameter(Choice("cdf", "point"), "How quantiles are found: all at one cost, or one by one."),
    )
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(Budgets(), "Attributes with a budget other than `budget`.")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = "Laplace noise" if self.budget.pure else "Gaussian noise"
        check_all_support(self.budget, self.budgets, self.budget.pure, kind)

    # ---- before data ----------------------------------------------------------------------------------------------

    def queries(self, schema: Schema) -> tuple[Query, ...]:
        return tuple(_parsed(text, schema) for text in self.sql)

    def reads(self, schema: Schema) -> tuple[str, ...]:
        check_asked(schema)
        used = {name for query in self.queries(schema) for name in query.reads}
        return tuple(name for name in schema.names if name in used)

    def plan(self, schema: Schema) -> Plan:
        return plan_blocks(self.queries(schema), self.quantiles, self.budget.pure)

    def calibration(self, schema: Schema) -> Calibration:
        universe = Universe.of(schema)
        budgets = source_units(universe, self.budget, self.budgets)
        return Calibration.of(self.plan(schema), universe, self.budget.pure, budgets)

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        return self.calibration(schema).guarantee()

    def expected_error(self, schema: Schema, n: int) -> tuple[StatisticError, ...]:
        """For every aggregate of every query: the half-width of its interval in a group of average size."""
        check_asked(schema, n)
        return StatisticError.of_release(self.calibration(schema), n)

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> StatisticsOutput:
        calibration = self.calibration(counts.schema)
        numbers = []
        for number, block in enumerate(self._exact(calibration, counts)):
            parts = []
            for index, exact in enumerate(block):
                scales = calibration.scales(number, index, counts.n)
                if calibration.plan.blocks[number].parts[index].kind == "point":
                    parts.append(self._choose(calibration, number, index, exact, scales, noise))
                else:
                    parts.append(self._with_noise(exact, scales, noise))
            numbers.append(tuple(parts))
        return StatisticsOutput(counts.schema, self.sql, self.quantiles, calibration, tuple(numbers), counts.n)

    def _exact(self, calibration: Calibration, counts: Counts) -> list[list[Integers]]:
        sums = self._sums(calibration, counts.n)
        kernel = StatisticsKernel(sums, counts.schema)
        totals = kernel.split(counts.fold(kernel))
        return [
            [own.numbers(total, part.kind, calibration.pure) for part in own.block.parts]
            for own, total in zip(sums, totals, strict=True)
        ]

    def _sums(self, calibration: Calibration, n: int) -> list[Sums]:
        return [
            Sums(block, {part.kind: calibration.grid(block, part, n) for part in block.parts if part.kind in _ON_GRID})
            for block in calibration.plan.blocks
        ]

    def _with_noise(self, exact: Integers, scales: tuple[float, ...] | None, noise: NoiseSource) -> Integers:
        """Fresh noise on every number of every group, empty ones too."""  # [noise]
        if scales is None:
            return exact
        draw = noise.discrete_laplace if self.budget.pure else noise.discrete_gaussian
        noisy = exact.copy()
        for scale in sorted(set(scales)):
            columns = [i for i, own in enumerate(scales) if own == scale]
            noisy[:, columns] += draw(scale, (len(exact), len(columns)))
        return noisy

    def _choose(
        self,
        calibration: Calibration,
        number: int,
        index: int,
        histogram: Integers,
        scales: tuple[float, ...] | None,
        noise: NoiseSource,
    ) -> Integers:
        """One bin for each group, by the exponential mechanism with the rank error as its score."""  # [selection]
        q = calibration.plan.blocks[number].parts[index].q
        assert q is not None
        scores = rank_scores(histogram, q.numerator, q.denominator)
        if scales is None:
            return scores.argmax(axis=1, keepdims=True).astype(np.int64)
        return np.array([[noise.select_exponential(own, scales[0])] for own in scores], dtype=np.int64).reshape(-1, 1)

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        calibration = self.calibration(counts.schema)
        parts = []
        for number, block in enumerate(self._exact(calibration, counts)):
            for index, exact in enumerate(block):
                parts += self._laws(calibration, number, index, exact, counts.n)
        return Law(tuple(parts), math.inf if self.budget.pure else _AUDIT_ORDER)

    def _laws(self, calibration: Calibration, number: int, index: int, exact: Integers, n: int) -> list[Any]:
        scales = calibration.scales(number, index, n)
        part = calibration.plan.blocks[number].parts[index]
        if part.kind == "point":
            assert part.q is not None
            scores = rank_scores(exact, part.q.numerator, part.q.denominator)
            return [_selection_law(own, scales) for own in scores]
        log_pmf = laplace_log_pmf if self.budget.pure else gaussian_log_pmf
        laws = []
        for row in exact.tolist():
            for column, value in enumerate(row):
                low, high = self._window(calibration, number, index, column, n)
                if scales is None:
                    law = np.full(high - low + 1, -np.inf)
                    law[value - low] = 0.0
                else:
                    law = log_pmf(scales[column], low - value, high - value)
                laws.append(law)
        return laws

    def _window(self, calibration: Calibration, number: int, index: int, column: int, n: int) -> tuple[int, int]:
        """All values that some table could give, and noise beyond them."""
        low, high = _possible(calibration, number, index, column, n)
        scales = calibration.scales(number, index, n)
        beyond = 0 if scales is None else math.ceil(_AUDIT_ORDER * (high - low) + 14 * scales[column] + 24)
        if high - low + 2 * beyond > _MOST_OUTCOMES:
            raise AuditError(
                "The exact output distribution is for values of a small range.", fix="Audit whole numbers of few values."
            )
        return low - beyond, high + beyond

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        """All numbers are published, block by block."""
        starts = self._starts(self.calibration(schema), n)
        return [Scenario(0.0, {i: ValueLaw(start, part) for i, (start, part) in enumerate(zip(starts, law.arrays(), strict=True))})]

    def _starts(self, calibration: Calibration, n: int) -> list[int]:
        starts = []
        for number, block in enumerate(calibration.plan.blocks):
            for index, part in enumerate(block.parts):
                width = 1 if part.kind == "point" else len(calibration.scales(number, index, n) or _one(calibration, number, index))
                for _ in range(block.cells):
                    starts += [
                        0 if part.kind == "point" else self._window(calibration, number, index, column, n)[0]
                        for column in range(width)
                    ]
        return starts

    def published_values(self, output: StatisticsOutput, schema: Schema, n: int) -> Mapping[Hashable, int]:
        return dict(enumerate(int(value) for block in output.numbers for part in block for value in part.ravel()))

    def noise_uses(self, schema: Schema, n: int, output: StatisticsOutput) -> list[NoiseUse]:
        raise AuditError("not yet", fix="")

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """First values against second ones, with all other attributes at either end."""
        changed = dict.fromkeys(attributes, 1)
        return [({}, changed), (changed, {})]

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> StatisticsOutput:
        return StatisticsOutput.from_json(data, schema)


_ON_GRID = ("sum", "squares", "total")


@lru_cache(maxsize=64)
def _parsed(text: str, schema: Schema) -> Query:
    return parse_query(text, schema)


def rank_scores(histogram: Integers, numerator: int, denominator: int) -> Integers:
    """−den · max(0, #(V < t) − qN, qN − #(V ≤ t)) for every bin t and group."""
    upto = np.cumsum(histogram, axis=1)
    rows = upto[:, -1:]
    above = denominator * (upto - histogram) - numerator * rows
    below = numerator * rows - denominator * upto
    return -np.maximum(np.maximum(above, below), 0)


def _selection_law(scores: Integers, scales: tuple[float, ...] | None) -> Any:
    if scales is None:
        law = np.full(len(scores), -np.inf)
        law[int(scores.argmax())] = 0.0
        return law
    weights = (scores - scores.max()) / scales[0]
    return weights - math.log(np.exp(weights).sum())


def _possible(calibration: Calibration, number: int, index: int, column: int, n: int) -> tuple[int, int]:
    """The range of an exact number over all tables of n rows."""
    from nabladp.mechanisms.statistics.blocks import strategy

    block = calibration.plan.blocks[number]
    part = block.parts[index]
    if part.kind in ("count", "values"):
        return 0, n
    if part.kind == "distinct":
        return 0, min(n, block.bins.count if block.bins else n)
    if part.kind == "cdf":
        assert block.bins is not None
        return 0, n * int(strategy(block.bins.count, calibration.pure).matrix[column].max())
    grid = calibration.grid(block, part, n)
    if part.kind == "squares" and column == 1:
        return -n * grid.reach**2, n * grid.reach**2
    return n * min(grid.low, 0), n * max(grid.high, 0)


def _one(calibration: Calibration, number: int, index: int) -> tuple[int, ...]:
    from nabladp.mechanisms.statistics.blocks import part_size

    block = calibration.plan.blocks[number]
    return (0,) * part_size(block, block.parts[index], calibration.pure)


__all__ = ["Charge", "Estimator", "Statistics", "rank_scores"]
