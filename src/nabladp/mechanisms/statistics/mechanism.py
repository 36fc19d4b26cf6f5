"""Statistics: counts, sums, means, variances and quantiles by group, asked for in SQL. Proof in PROOF.md."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Integers
from nabladp.errors import AuditError, BudgetError, MechanismError, QueryError, quote, suggestion
from nabladp.mechanisms.allocation import source_units
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Choice, Flag, Name, check_all_support
from nabladp.mechanisms.mechanism import Law, Mechanism, Records, Scenario, ValueLaw, check_asked
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.mechanisms.parameters import parameter
from nabladp.mechanisms.statistics.bill import Bill
from nabladp.mechanisms.statistics.blocks import Plan, check_once, part_size, plan_blocks
from nabladp.mechanisms.statistics.calibration import Calibration
from nabladp.mechanisms.statistics.counting import exact_numbers
from nabladp.mechanisms.statistics.grids import strategy
from nabladp.mechanisms.statistics.options import (
    Bounds,
    Condition,
    Counted,
    Expressions,
    GroupLists,
    Levels,
    Queries,
    SetLimits,
)
from nabladp.mechanisms.statistics.output import Options, StatisticsError, StatisticsOutput
from nabladp.mechanisms.statistics.selection import rank_scores, selection_law
from nabladp.noise import NoiseSource, gaussian_log_pmf, laplace_log_pmf
from nabladp.person import Person
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue
from nabladp.schema import Schema
from nabladp.sql.compose import WrittenQuery
from nabladp.sql.query import Query, parse_query
from nabladp.tables.encode import grid_column

if TYPE_CHECKING:
    from nabladp.tables import Counts

_AUDIT_ORDER = 24.0  # the exact law is cut where Rényi orders up to this cannot notice
_MOST_OUTCOMES = 1 << 22


@dataclass(frozen=True)
class Statistics(Mechanism):
    """Answers to SQL queries over one table: COUNT, SUM, AVG, VAR, STDDEV, MEDIAN, QUANTILE, COUNT(DISTINCT), by group.

    ``budget`` is the budget of every source attribute for all queries together (``budgets`` names exceptions; ``sets``
    and ``person`` limit several attributes together): Gaussian noise for CDP, Rho or Approx, Laplace noise for Pure.
    What an attribute pays depends on its role: in GROUP BY, in a condition, or as the value of an aggregate.
    ``quantiles``: "cdf" (all quantiles of a column at one cost, with intervals) or "point" (each by the exponential
    mechanism: better for a single one, without an interval).
    A query is given in ``sql``, or by its parts: ``by`` and ``where``, and columns under ``count`` (or true, for
    rows), ``sum``, ``mean``, ``median``, ``quantile``, ``variance``, ``stddev`` and ``count_distinct``.
    ``groups`` are public lists of groups by key; all other values of the key are then one group, OTHER.
    Where people have several rows, COUNT(DISTINCT id) counts each once in a group, SUM_PER_PERSON(x, low, high) clamps
    each one's sum before it is added, and with ``one_row_per`` at most one row of each person is used for every value
    of these keys, the first; ``id`` is filled in from the table.
    Intervals are about the noise; with ``sampling_error`` also about the sampling of rows from a population.

    Guarantee: for every block of aggregates with the same groups, filter and value, one ``touch`` with the weights 2M
    for sources of the groups, M for those of the filter, D for those of the value; blocks add. Assumed: the number of
    rows is public, and one row is one person (PROOF.md). People with m rows cost m² times as much, but where each
    counts once in a group: there about m times.
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind(), "The budget of every source attribute."))
    sql: str | Sequence[str] = field(
        default=(), metadata=parameter(Queries(), "The query, or several that share measurements.")
    )
    quantiles: str = field(
        default="cdf",
        metadata=parameter(Choice("cdf", "point"), "How quantiles are found: all at one cost, or one by one."),
    )
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(Budgets(), "Attributes with a budget other than `budget`.")
    )
    sets: Mapping[Any, BudgetValue] = field(
        default_factory=dict, metadata=parameter(SetLimits(), "Limits on several attributes together, as in `age+sex`.")
    )
    person: BudgetValue | None = field(
        default=None, metadata=parameter(BudgetKind(), "The limit of all attributes together.")
    )

    groups: Mapping[str, Sequence[Any]] = field(
        default_factory=dict, metadata=parameter(GroupLists(), "Groups to answer, by key; all others count as OTHER.")
    )
    sampling_error: bool = field(
        default=False,
        metadata=parameter(Flag(), "Whether intervals also cover that rows are a random sample.", stored="changed"),
    )
    by: str | Sequence[str] = field(default=(), metadata=parameter(Expressions(), "In place of `sql`: the groups."))
    where: str | None = field(default=None, metadata=parameter(Condition(), "Likewise: which rows."))
    count: bool | str | Sequence[str] = field(
        default=(), metadata=parameter(Counted(), "Likewise: how many rows, or values of a column.")
    )
    sum: str | Sequence[str] = field(default=(), metadata=parameter(Expressions(), "Likewise: SUM of columns."))
    mean: str | Sequence[str] = field(default=(), metadata=parameter(Expressions(), "Likewise: AVG of columns."))
    median: str | Sequence[str] = field(default=(), metadata=parameter(Expressions(), "Likewise: MEDIAN of columns."))
    quantile: Mapping[str, float | Sequence[float]] = field(
        default_factory=dict, metadata=parameter(Levels(), "Likewise: quantiles of columns at these levels.")
    )
    variance: str | Sequence[str] = field(
        default=(), metadata=parameter(Expressions(), "Likewise: VAR_SAMP of columns.")
    )
    stddev: str | Sequence[str] = field(
        default=(), metadata=parameter(Expressions(), "Likewise: STDDEV_SAMP of columns.")
    )
    count_distinct: str | Sequence[str] = field(
        default=(), metadata=parameter(Expressions(), "Likewise: how many different values; of the ID, people.")
    )
    sum_per_person: Mapping[str, tuple[float, float]] = field(
        default_factory=dict,
        metadata=parameter(Bounds(), "Likewise: sums of each person's own sum, clamped.", stored="changed"),
    )
    one_row_per: str | Sequence[str] = field(
        default=(),
        metadata=parameter(Expressions(), "Keys for each value of which a person has one row.", stored="changed"),
    )
    id: str | None = field(
        default=None,
        metadata=parameter(Name(), "The column that names people; filled in from [person].", stored="changed"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_query()
        kind = "Laplace noise" if self.budget.pure else "Gaussian noise"
        check_all_support(self.budget, self.budgets, self.budget.pure, kind)
        further = [*self.sets.values(), *([] if self.person is None else [self.person])]
        if any(limit.pure != self.budget.pure for limit in further):
            raise BudgetError(
                "'sets' and 'person' limit what 'budget' spends.", fix="Give all of them as Pure, or none of them."
            )

    def _check_query(self) -> None:
        written = self._written_query
        given = [key for key, parts in written.aggregates.items() if parts] + ["quantile"] * bool(written.quantile)
        given += ["sum_per_person"] * bool(written.sum_per_person)
        around = ["by"] * bool(written.by) + ["where"] * (written.where is not None)
        if self.sql and (given or around):
            raise MechanismError(
                f"Both 'sql' and {(given or around)[0]!r} are given.", fix=f"Remove 'sql' or {(given or around)[0]!r}."
            )
        if not self.sql and not given:
            text = f"{around[0]!r} is given without an aggregate." if around else "There is no query."
            example = "count = true" if around else 'sql = "SELECT region, COUNT(*) FROM people GROUP BY region"'
            raise MechanismError(text, fix=f"Add, for instance, {example}.")

    # ---- before data ----------------------------------------------------------------------------------------------

    @property
    def _written_query(self) -> WrittenQuery:
        """The query that is given by its parts."""
        aggregates = {
            "count": self.count,
            "sum": self.sum,
            "mean": self.mean,
            "median": self.median,
            "variance": self.variance,
            "stddev": self.stddev,
            "count_distinct": self.count_distinct,
        }
        own = (self.quantile, self.sum_per_person, self.id or "")
        return WrittenQuery(self.by, self.where, aggregates, *own)  # type: ignore[arg-type]  # as checked

    def queries(self, schema: Schema) -> tuple[Query, ...]:
        written, groups = self._written_query, tuple(self.groups.items())
        texts = tuple(self.sql) or (written.text(schema),)
        try:
            found = tuple(_parse_query(text, schema, groups, self.id or "") for text in texts)
        except QueryError as error:
            raise error if self.sql else written.explain(error, schema) from None
        keys = [key for query in found for key in query.keys]
        for name in self.groups:
            if not any(key.is_named(name) for key in keys):
                known = tuple(dict.fromkeys(key.name for key in keys))
                fix = suggestion(name, known, f"Keys: {', '.join(known)}." if known else "Remove it, or add GROUP BY.")
                raise QueryError(f"'groups' names {quote(name)}, by which no query groups.", fix=fix)
        return found

    def reads(self, schema: Schema) -> tuple[str, ...]:
        check_asked(schema)
        used = {name for query in self.queries(schema) for name in query.reads}
        return tuple(name for name in schema.names if name in used)

    def plan(self, schema: Schema) -> Plan:
        for name in self.reads(schema):  # [sources]: a kernel asks for numbers on the grid by a name of its own
            if grid_column(name) in schema:
                raise MechanismError(
                    f"{name!r} cannot be told from another attribute, whose name ends in a control character.",
                    fix="Rename that attribute.",
                    attribute=name,
                )
        queries = self.queries(schema)
        check_once(self.one_row_per, queries)
        plan = plan_blocks(queries, self.quantiles, self.budget.pure, self.sampling_error, self.one_row_per)
        if any(block.left_out for block in plan.blocks) and not Universe.of(schema).protected:
            raise MechanismError(
                "Every attribute is public, so nothing limits what is released.", fix="Protect one, or ask for less."
            )
        if self.sampling_error and any(block.by_person for block in plan.blocks):
            raise MechanismError(
                "Sampling error is about rows, not about people.", fix="Leave out 'sampling_error', or count rows."
            )
        return plan

    def for_people(self, person: Person, schema: Schema) -> Statistics:
        own = replace(self, id=person.id)
        asked = {aggregate.function for query in own.queries(schema) for aggregate in query.aggregates}
        if person.id is None and (self.one_row_per or asked & {"sum_per_person", "rows_left_out"}):
            raise MechanismError(
                "This query counts people, but no column of the table identifies them.",
                fix='Name the column: [person] id = "patient", or Person("patient").',
            )
        return own if "count_people" in asked or person.id is None else replace(self, id=None)

    def needs_people(self, schema: Schema) -> bool:
        return any(block.by_person for block in self.plan(schema).blocks)

    def calibration(self, schema: Schema) -> Calibration:
        universe = Universe.of(schema)
        budgets = source_units(universe, self.budget, self.budgets)
        calibration = Calibration.of(self.plan(schema), universe, self.budget.pure, budgets)
        if not self.sets and self.person is None:
            return calibration
        return calibration.within(Budget(sets=self.sets, person=self.person).limits(schema))

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        return self.calibration(schema).guarantee(n)

    def expected_error(self, schema: Schema, n: int) -> StatisticsError:
        """For every aggregate of every query: the half-width of its interval in a group of average size."""
        check_asked(schema, n)
        return StatisticsError.of(self.calibration(schema), n)

    def bill(self, schema: Schema, n: int = 0, rows: int = 1) -> Bill:
        """What each attribute will pay, and for what. n = 0: for any number of rows; ``rows`` are those of a person."""
        return Bill(self.calibration(schema), n, rows)

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> StatisticsOutput:
        calibration = self.calibration(counts.schema)
        numbers = []
        for number, block in enumerate(exact_numbers(calibration, counts)):
            parts = []
            for index, exact in enumerate(block):
                scales = calibration.scales(number, index, counts.n)
                if calibration.plan.blocks[number].parts[index].kind == "point":
                    parts.append(self._choose(calibration, number, index, exact, scales, noise))
                else:
                    parts.append(self._with_noise(exact, scales, noise))
            numbers.append(tuple(parts))
        texts = tuple(query.text for query in calibration.plan.queries)
        once, groups = tuple(self.one_row_per), dict(self.groups)
        options = Options(self.quantiles, groups, self.sampling_error, once, self.id or "")
        return StatisticsOutput(counts.schema, texts, options, calibration, tuple(numbers), counts.n)

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
        scores = rank_scores(histogram, q.numerator, q.denominator)
        if scales is None:
            return np.asarray(scores.argmax(axis=1)[:, None], dtype=np.int64)
        return np.array([[noise.select_exponential(own, scales[0])] for own in scores], dtype=np.int64).reshape(-1, 1)

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        calibration = self.calibration(counts.schema)
        parts = []
        for number, block in enumerate(exact_numbers(calibration, counts)):
            for index, exact in enumerate(block):
                parts += self._laws(calibration, number, index, exact, counts.n)
        return Law(tuple(parts), math.inf if self.budget.pure else _AUDIT_ORDER)

    def _laws(self, calibration: Calibration, number: int, index: int, exact: Integers, n: int) -> list[Any]:
        scales = calibration.scales(number, index, n)
        part = calibration.plan.blocks[number].parts[index]
        if part.kind == "point":
            scores = rank_scores(exact, part.q.numerator, part.q.denominator)
            return [selection_law(own, scales) for own in scores]
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
                "The exact output distribution is for values of a small range.",
                fix="Audit whole numbers of few values.",
            )
        return low - beyond, high + beyond

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        """All numbers are published, block by block."""
        starts = self._starts(self.calibration(schema), n)
        return [
            Scenario(
                0.0,
                {i: ValueLaw(start, part) for i, (start, part) in enumerate(zip(starts, law.arrays(), strict=True))},
            )
        ]

    def _starts(self, calibration: Calibration, n: int) -> list[int]:
        starts = []
        for number, block in enumerate(calibration.plan.blocks):
            for index, part in enumerate(block.parts):
                width = (
                    1
                    if part.kind == "point"
                    else len(calibration.scales(number, index, n) or _one(calibration, number, index))
                )
                for _ in range(block.cells):
                    starts += [
                        0 if part.kind == "point" else self._window(calibration, number, index, column, n)[0]
                        for column in range(width)
                    ]
        return starts

    def published_values(self, output: StatisticsOutput, schema: Schema, n: int) -> Mapping[Hashable, int]:
        return dict(enumerate(int(value) for block in output.numbers for part in block for value in part.ravel()))

    def noise_uses(self, schema: Schema, n: int, output: StatisticsOutput) -> list[NoiseUse]:
        return self.calibration(schema).noise_uses(n)

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """First values against second ones, with all other attributes at either end."""
        changed = dict.fromkeys(attributes, 1)
        return [({}, changed), (changed, {})]

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> StatisticsOutput:
        return StatisticsOutput.from_json(data, schema)


@lru_cache(maxsize=64)
def _parse_query(text: str, schema: Schema, groups: tuple[tuple[str, Sequence[Any]], ...], person: str) -> Query:
    return parse_query(text, schema, dict(groups), person)


def _possible(calibration: Calibration, number: int, index: int, column: int, n: int) -> tuple[int, int]:
    """The range of an exact number over all tables of n rows."""
    block = calibration.plan.blocks[number]
    part = block.parts[index]
    if part.kind in ("count", "values") or (part.kind == "people" and block.value is None):
        return 0, n
    if part.kind == "distinct":
        return 0, min(n, block.bins.count)
    if part.kind == "cdf":
        return 0, n * int(strategy(block.bins.count, calibration.pure).matrix[column].max())
    if part.kind == "left_out":
        return 0, n * block.left_out
    grid = calibration.grid(block, part, n)
    if part.kind == "squares" and column == 1:
        return -n * grid.reach**2, n * grid.reach**2
    return n * min(grid.low, 0), n * max(grid.high, 0)


def _one(calibration: Calibration, number: int, index: int) -> tuple[int, ...]:
    block = calibration.plan.blocks[number]
    return (0,) * part_size(block, block.parts[index], calibration.pure)
