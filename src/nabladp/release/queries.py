"""Queries in SQL through a session: what they cost, the least budget for an error, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from nabladp.checks import is_above_zero, mapping
from nabladp.errors import BudgetError, QueryError, suggestion
from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.statistics import Statistics, StatisticsOutput
from nabladp.privacy.values import CDP, BudgetValue, Pure, Rho, as_value
from nabladp.release.cost import Cost
from nabladp.release.record import Release
from nabladp.views.exports import Exported

if TYPE_CHECKING:
    from nabladp.mechanisms.statistics.answer import Answer
    from nabladp.mechanisms.statistics.bill import Bill
    from nabladp.mechanisms.statistics.output import StatisticsError
    from nabladp.schema import Schema

_LARGEST, _SMALLEST = 1e6, 1e-6  # budgets looked at


@dataclass(frozen=True, eq=False)
class Answers(Exported):
    """The answer to a query, or to several: ``rows``, ``to_pandas()`` and the like are those of the first; what
    they cost is on the ``bill``. ``release`` is the record of it all."""

    release: Release

    @property
    def _output(self) -> StatisticsOutput:
        return cast(StatisticsOutput, self.release.output)

    @property
    def answers(self) -> tuple[Answer, ...]:
        return self._output.answers

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.answers[0].rows

    @property
    def bill(self) -> Bill:
        return replace(self._output.bill, rows=self.release.rows_per_person)

    def to_arrow(self) -> Any:
        return self.answers[0].to_arrow()

    def __len__(self) -> int:
        return len(self.answers[0])

    def __repr__(self) -> str:
        return repr(self.release.output)


@dataclass(frozen=True, eq=False)
class QueryCost:
    """A dry run of queries: their bill, the errors to expect, and how they stand against the limits."""

    cost: Cost
    bill: Bill
    expected: StatisticsError

    @property
    def fits(self) -> bool:
        return self.cost.fits

    def to_json(self) -> dict[str, Any]:
        return self.cost.to_json() | {"bill": self.bill.to_json()}

    def __str__(self) -> str:
        widths = [
            f"{own.column} ± {own.half_width:.4g} in a group of average size"
            for own in self.expected.columns
            if own.half_width is not None
        ]
        return "\n".join([str(self.bill), *widths])


def statistics(query: str | Sequence[str], budget: BudgetValue, **options: Any) -> Statistics:
    return Statistics(budget, query, **options)


def query_cost(
    cost: Callable[[Mechanism], Cost],
    schema: Schema,
    rows: int | None,
    rows_per_person: int,
    query: str | Sequence[str],
    budget: BudgetValue | None = None,
    **options: Any,
) -> QueryCost:
    if budget is None:
        raise QueryError("A query needs a budget.", fix='Write session.cost("SELECT …", CDP(0.2)).')
    mechanism = statistics(query, budget, **options)
    expected = mechanism.expected_error(schema, rows or 0)
    return QueryCost(cost(mechanism), mechanism.bill(schema, rows or 0, rows_per_person), expected)


def least_budget(
    query: str | Sequence[str],
    error: Mapping[str, float],
    schema: Schema,
    n: int,
    like: type[BudgetValue],
    **options: Any,
) -> BudgetValue:
    """The least budget, of this kind, whose expected half-widths are at most these, by column of the first query."""
    fix = 'Write error={"avg_income": 500}.'
    wanted = dict(mapping(error, "'error'", fix))
    if not wanted or not all(is_above_zero(width) for width in wanted.values()):
        raise QueryError("'error' names columns of the answer, each with a half-width above 0.", fix=fix)
    if like not in (CDP, Rho, Pure):
        raise QueryError("A budget for a query is CDP, Rho or Pure.", fix="Write like=CDP.")
    columns = [own.column for own in statistics(query, like(1), **options).expected_error(schema, n).columns]
    for name in wanted:
        if name not in columns:
            raise QueryError(
                f"The answer has no column {name!r}.", fix=suggestion(name, columns, f"Columns: {', '.join(columns)}.")
            )
    low, high = _SMALLEST, _LARGEST
    if not _is_enough(statistics(query, like(high), **options), wanted, schema, n):
        raise QueryError("No budget makes the error so small.", fix="Ask for a larger one, or group coarser.")
    while high / low > 1.0005:
        middle = (low * high) ** 0.5
        enough = _is_enough(statistics(query, like(middle), **options), wanted, schema, n)
        low, high = (low, middle) if enough else (middle, high)
    return like(float(f"{high * 1.0005:.4g}"))


def _is_enough(mechanism: Statistics, wanted: Mapping[str, float], schema: Schema, n: int) -> bool:
    try:
        expected = mechanism.expected_error(schema, n)
    except BudgetError:  # too small for any noise
        return False
    widths = {name: expected.half_width(name) for name in wanted}
    return all(widths[name] is not None and widths[name] <= limit for name, limit in wanted.items())  # type: ignore[operator]


# ---- budgets and groups as they are written on a command line --------------------------------------------------------

_BUDGET_FIX = (
    "Write --budget cdp=0.2, --budget rho=0.02 or --budget pure=0.5; for one attribute --budget income:cdp=0.1."
)


def read_budgets(texts: list[str]) -> tuple[BudgetValue, dict[str, BudgetValue]]:
    """The budget of every attribute, and exceptions for single ones."""
    general: BudgetValue | None = None
    named: dict[str, BudgetValue] = {}
    for text in texts:
        name, _, value = text.rpartition(":")
        if name:
            named[name] = _budget(value)
        elif general is None:
            general = _budget(value)
        else:
            raise BudgetError("The budget of every attribute is given twice.", fix=_BUDGET_FIX)
    if general is None:
        raise BudgetError("The budget of every attribute is missing.", fix=_BUDGET_FIX)
    return general, named


def read_distances(texts: list[str]) -> dict[str, float]:
    """Distances by attribute, from texts such as income=1000."""
    distances = {}
    for text in texts:
        name, _, amount = text.rpartition("=")
        try:
            distances[name] = float(amount)
        except ValueError:
            raise QueryError(f"{text!r} is not a distance.", fix="Write --within income=1000.") from None
    return distances


def _budget(text: str) -> BudgetValue:
    kind, _, amount = text.partition("=")
    try:
        return as_value({kind.strip(): float(amount)}, "A budget")
    except ValueError as error:
        if isinstance(error, BudgetError):
            raise
        raise BudgetError(f"{text!r} is not a budget.", fix=_BUDGET_FIX) from None


def read_groups(texts: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Public lists of groups, by key; a key may be given several times."""
    listed: dict[str, tuple[str, ...]] = {}
    for text in texts or ():
        name, _, values = text.partition("=")
        found = tuple(value.strip() for value in values.split(",") if value.strip())
        if not name.strip() or not found:
            raise QueryError(f"{text!r} is not a list of groups.", fix="Write --groups region=north,south.")
        listed[name.strip()] = (*listed.get(name.strip(), ()), *found)
    return listed
