"""What Statistics returns: noisy sums, and the answers made of them with their intervals and their bill."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.errors import ReleaseError
from nabladp.mechanisms.mechanism import ExpectedError, Output, ReleaseContext
from nabladp.mechanisms.output_tables import group_axis
from nabladp.mechanisms.statistics.answer import LEVEL, Answer, as_column
from nabladp.mechanisms.statistics.bill import Bill
from nabladp.mechanisms.statistics.blocks import plan_blocks
from nabladp.mechanisms.statistics.calibration import Calibration
from nabladp.mechanisms.statistics.counting import exact_numbers
from nabladp.mechanisms.statistics.estimator import Estimator
from nabladp.mechanisms.statistics.selection import rank_scores
from nabladp.mechanisms.tidy import tidy_table
from nabladp.privacy.universe import Universe
from nabladp.schema import Schema
from nabladp.sql.keys import OTHERS
from nabladp.sql.query import parse_query
from nabladp.views.compared import Compared
from nabladp.views.tables import predicted_facts, table_view
from nabladp.views.view import Series, View, count_of, format_figure, marginal_kind, round_digits, value_column

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts

_MOST_DRAWN = 6  # columns of one answer that get a picture
_MOST_BARS = 30  # groups of two keys; more are a heat map


# ---- what to expect --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExpectedColumn:
    """``half_width``: half of the 95 % interval, in a group of average size with values in the middle of their range;
    None where the number of rows is not known, or where there is no interval."""

    query: int
    column: str
    groups: int
    half_width: float | None


def _rows(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _width(number: float) -> str:
    """Half an interval with three digits, and never as a power of ten where it can be read without."""
    return f"{float(f'{number:.3g}'):,.0f}" if 1000 <= number < 1e15 else f"{number:.3g}"


@dataclass(frozen=True)
class StatisticsError(ExpectedError):
    """The error to expect in every column of every answer."""

    columns: tuple[ExpectedColumn, ...]
    n: int

    @classmethod
    def of(cls, calibration: Calibration, n: int) -> StatisticsError:
        expected = []
        estimator = Estimator(calibration, (), n)
        for number, query in enumerate(calibration.plan.queries):
            for name, released in query.columns:
                if released.aggregates():
                    width = Answer(query, estimator, number).expected_half_width(released) if n else None
                    expected.append(ExpectedColumn(number + 1, name, query.cells(query.grouping[0]), width))
        return cls(tuple(expected), n)

    def half_width(self, column: str, query: int = 1) -> float | None:
        return next(own.half_width for own in self.columns if (own.query, own.column) == (query, column))

    def values_written(self) -> int:
        return sum(own.groups for own in self.columns)

    def sentence(self) -> str:
        """Whether a group of average size has intervals at all."""
        if not self.n:
            return "give rows = … in [table] to see how wide the intervals are."
        lost = [own for own in self.columns if own.half_width is None or not math.isfinite(own.half_width)]
        if not lost:
            widths = ", ".join(f"{own.column} ± {_width(own.half_width or 0)}" for own in self.columns[:4])
            return f"in a group of average size ({_rows(self.n / self.columns[0].groups)} rows): {widths}."
        return (
            f"at this budget the noise hides {lost[0].column!r} in a group of average size "
            f"({_rows(self.n / lost[0].groups)} rows). Raise it, or ask for fewer groups."
        )

    def to_json(self) -> dict[str, Any]:
        several = len({own.query for own in self.columns}) > 1
        summary = {
            f"± {own.column}"
            + (f" (query {own.query})" if several else "")
            + ", in a group of average size": own.half_width
            for own in self.columns
            if own.half_width is not None
        }
        return {"n": self.n, "columns": [asdict(own) for own in self.columns], "summary": summary}


# ---- the output ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """What decides, beside the queries, what is measured for them and how it is read."""

    quantiles: str
    groups: Mapping[str, Sequence[Any]]
    sampling_error: bool
    one_row_per: tuple[str, ...] = ()
    id: str = ""

    def to_json(self) -> dict[str, Any]:
        groups = {name: list(listed) for name, listed in self.groups.items()}
        changed = {"groups": groups, "sampling_error": self.sampling_error}
        changed |= {"one_row_per": list(self.one_row_per), "id": self.id}
        return {"quantiles": self.quantiles, **{name: value for name, value in changed.items() if value}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Options:
        groups = {str(name): tuple(listed) for name, listed in data.get("groups", {}).items()}
        once = tuple(map(str, data.get("one_row_per", ())))
        sampling_error = bool(data.get("sampling_error", False))
        return cls(str(data["quantiles"]), groups, sampling_error, once, str(data.get("id", "")))


@dataclass(frozen=True, eq=False)
class StatisticsOutput(Output):
    """``numbers``: for every block and part an array with a row for each group. ``answers`` are what people read."""

    schema: Schema
    sql: tuple[str, ...]
    options: Options
    calibration: Calibration
    numbers: tuple[tuple[Any, ...], ...]
    n: int

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """The answer to each query."""  # [post-processing]
        estimator = Estimator(self.calibration, self.numbers, self.n)
        return tuple(Answer(query, estimator, i) for i, query in enumerate(self.calibration.plan.queries))

    @property
    def answer(self) -> Answer:
        """The answer to the first query."""
        return self.answers[0]

    @cached_property
    def bill(self) -> Bill:
        return Bill(self.calibration, self.n)

    def __repr__(self) -> str:
        return f"StatisticsOutput({len(self.answers)} answers)" if len(self.sql) > 1 else repr(self.answer)

    # ---- record ---------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "sql": list(self.sql),
            **self.options.to_json(),
            "n": self.n,
            "pure": self.calibration.pure,
            "units": [[None if own is None else str(own) for own in block] for block in self.calibration.units],
            "numbers": [[part.tolist() for part in block] for block in self.numbers],
            "answers": [answer.rows for answer in self.answers],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> StatisticsOutput:
        try:
            sql, pure, n = tuple(map(str, data["sql"])), bool(data["pure"]), int(data["n"])
            options = Options.from_json(data)
            queries = [parse_query(text, schema, options.groups, options.id) for text in sql]
            plan = plan_blocks(queries, options.quantiles, pure, options.sampling_error, options.one_row_per)
            units = tuple(tuple(None if own is None else int(own) for own in block) for block in data["units"])
            numbers = tuple(tuple(np.array(part, dtype=np.int64) for part in block) for block in data["numbers"])
            calibration = Calibration(plan, Universe.of(schema), pure, units)
            calibration.check_numbers(numbers, n)
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise ReleaseError("The stored answers are damaged.", fix="Restore the release from a copy.") from error
        return cls(schema, sql, options, calibration, numbers, n)

    def values_table(self, schema: Schema) -> pa.Table:
        """A row for each number of each answer: the keys of its group, the column of the answer, value and interval."""
        parts = [answer.numbers_by_row() for answer in self.answers]
        keys = dict.fromkeys(name for answer in self.answers for name in answer.key_columns)
        rows = [(i + 1, *row) for i, part in enumerate(parts) for row in part]
        number, groups, names, *numbers = zip(*rows, strict=True) if rows else ((),) * 6
        named = {"query": list(number)} if len(self.answers) > 1 else {}
        named |= {key: as_column([group.get(key) for group in groups]) for key in keys}
        named[next(word for word in ("column", "column_", "statistic") if word not in keys)] = list(names)
        return tidy_table(named, dict(zip(("value", "low", "high"), map(as_column, numbers), strict=True)))

    # ---- for the report and for the owner -------------------------------------------------------------------------

    def explanation(self) -> str:
        return (
            "The queries were answered from counts and sums of rows with random noise: a number estimates what the "
            "query would give without noise, and its interval says how far off it may be."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        """For every query the table of its answer, and a picture of each of its columns; one bill for all."""
        views = []
        bill = replace(self.bill, rows=context.rows_per_person)
        for number, answer in enumerate(self.answers):
            table = answer.to_arrow()
            title = f"query {number + 1}" if len(self.answers) > 1 else "answer"
            plain = _with_headings(table_view(title, table, "values.parquet"), answer.headings)
            facts = [("query", answer.query.text), *self._group_facts()]
            facts += [("rows in use", f"of each person at most one for each {key}") for key in self.options.one_row_per]
            facts += predicted_facts(context.expected_error)
            notes = [*plain.notes, ABOUT_INTERVALS[self.options.sampling_error]]
            views.append(
                View(title, "table", plain.columns, plain.rows, plain.summary, facts, notes, names=plain.names)
            )
            views += self._pictures(title, answer, table, plain)
        return [views[0], self._bill_view(bill), *views[1:]]

    def _group_facts(self) -> list[tuple[str, str]]:
        return [
            (f"groups of {name}", f"{', '.join(map(str, listed))}; all others are {OTHERS}")
            for name, listed in self.options.groups.items()
        ]

    def _bill_view(self, bill: Bill) -> View:
        sign = "ε" if self.calibration.pure else "ρ"
        columns = [value_column(name, "text", i) for i, name in enumerate(("attribute", "as", "for"))]
        columns.append(value_column(sign, "number", 3))
        titles = self.schema.titles
        rows = [
            [titles[own.attribute], own.role, ", ".join(own.pays_for), round_digits(own.cost)] for own in bill.lines
        ]
        facts = [
            (
                f"{titles[own.attribute]}, changed by at most {own.distance:,.6g}",
                f"{sign} = {format_figure(own.cost)} in all",
            )
            for own in bill.small_changes
        ]
        notes = ["Lines of one attribute add up. A set of attributes costs at most the sum of theirs."]
        if bill.rows > 1:
            notes.append(f"All costs are for up to {bill.rows:,} rows of one person together.")
        return View("bill", "table", columns, rows, count_of(len(rows), "line"), facts, notes, names=(0, 1, 2))

    def _pictures(self, title: str, answer: Answer, table: pa.Table, plain: View) -> Iterator[View]:
        names = table.column_names
        keys = tuple(names.index(name) for name in answer.key_columns)
        drawn = [name for name in names if f"{name}_low" in names][: _MOST_DRAWN if keys else 0]
        columns, ordered = list(plain.columns), False
        if len(keys) == 1 and answer.key_columns[0] in answer.headings:
            groups = [row[keys[0]] for row in plain.rows]
            columns[keys[0]] = axis = group_axis(self.schema[answer.key_columns[0]], groups)
            ordered = "ordered" in axis.source
        pairs = {tuple(row[key] for key in keys) for row in plain.rows}
        sizes = [len(set(column)) for column in zip(*pairs, strict=True)]
        whole = len(keys) == 2 and len(plain.rows) == len(pairs) == math.prod(sizes) > _MOST_BARS
        for name in drawn:
            series = Series(name, names.index(name), names.index(f"{name}_low"), names.index(f"{name}_high"))
            yield View(
                f"{title}: {name}",
                marginal_kind(sizes) if whole else "bars",
                columns,
                plain.rows,
                plain.summary,
                names=keys,
                series=[series],
                caption=f"{name} of every group, with its interval",
                ordered=ordered,
                signed=True,
            )

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        """Every column of every answer, for all declared groups, beside the values without noise."""
        exact = self.calibration.without_noise()
        numbers = tuple(map(tuple, _chosen_positions(exact, exact_numbers(self.calibration, counts))))
        truth = StatisticsOutput(self.schema, self.sql, self.options, exact, numbers, self.n)
        for number, (answer, true) in enumerate(zip(self.answers, truth.answers, strict=True)):
            title = f"query {number + 1}: " if len(self.answers) > 1 else ""
            yield from answer.compare(true, title)


ABOUT_INTERVALS = {
    False: f"Intervals hold the table's own value with probability {LEVEL:.0%} over the noise, each taken by itself; "
    "they say nothing about sampling.",
    True: f"Intervals hold the population's value with probability {LEVEL:.0%} over noise and sampling, each taken by "
    "itself, if the rows are a simple random sample of it; counts and sums are those to expect among as many rows.",
}


def _with_headings(view: View, headings: Mapping[str, str]) -> View:
    columns = [replace(column, name=headings.get(column.name, column.name)) for column in view.columns]
    return replace(view, columns=columns)


def _chosen_positions(exact: Calibration, numbers: Any) -> Iterator[list[Any]]:
    """Histograms of quantiles that are chosen one by one become the position of the best."""
    for block, parts in zip(exact.plan.blocks, numbers, strict=True):
        yield [
            rank_scores(own, part.q.numerator, part.q.denominator).argmax(axis=1)[:, None] if part.q else own
            for part, own in zip(block.parts, parts, strict=True)
        ]
