"""What MWEM returns: answers, the distribution they come from, what was measured, and a table drawn from it.

Everything here is made from published numbers: it never sees the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.checks import damaged, is_number, stored, stored_rows
from nabladp.errors import MechanismError
from nabladp.mechanisms.bin_density import smooth
from nabladp.mechanisms.mechanism import Output, ReleaseContext
from nabladp.mechanisms.mwem.round_run import gibbs
from nabladp.mechanisms.output_tables import BinPositions, draw_bin_positions
from nabladp.mechanisms.query_views import (
    QueryRun,
    QueryViews,
    Shares,
    as_shares,
    compare_queries,
    query_names,
    query_runs,
)
from nabladp.mechanisms.tidy import tidy_table
from nabladp.noise import NoiseSource
from nabladp.schema import Schema
from nabladp.views.compared import Compared
from nabladp.views.tables import synthetic_preview
from nabladp.views.view import View, count_of, format_percent, format_range, round_digits
from nabladp.workloads import Queries, as_workload
from nabladp.workloads.cube import Cube

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts

LEVEL = 0.95
_MIX = 0.25
_FINE = 1 << 44  # probabilities become whole weights for drawing rows


@dataclass(frozen=True, eq=False)
class Measured:
    """The noisy answers: each one's round, query, numerator (in units of 1/grid rows) and scale of the noise."""

    round: Integers
    query: Integers
    count: Integers
    scale: Floats


@dataclass(frozen=True, eq=False)
class Step:
    """What one round changed in the model's coefficients."""

    query: Integers
    change: Floats

    @classmethod
    def together(cls, steps: Sequence[Step], queries: int) -> Step:
        """Several update steps of the MWEM model as one, where the models in between are not needed."""
        theta = np.zeros(queries)
        for step in steps:
            theta[step.query] += step.change
        known = np.flatnonzero(theta)
        return cls(known, theta[known])


@dataclass(frozen=True, eq=False, repr=False)
class FittedDistribution(Output):
    """A distribution over all records, fitted to noisy answers; ``answers`` are the workload's, as shares of rows."""

    workload: Any  # in its plan-file form
    schema: Schema
    n: int
    average: bool  # the mean of the distributions before each round, or the one after the last
    steps: tuple[Step, ...]
    measured: Measured
    answers: Floats
    bound: float | None  # of the expected error; see ``MWEM.expected_error``
    rows: tuple[Integers, Integers] | None = None  # of the synthetic table: record numbers and how often each occurs
    within: BinPositions | None = None  # where in their bins its numbers lie; not part of the record

    def __repr__(self) -> str:
        drawn = "" if self.rows is None else f", {int(self.rows[1].sum()):,} synthetic rows"
        return f"FittedDistribution({len(self.answers):,} answers, {len(self.measured.query):,} measurements{drawn})"

    @cached_property
    def queries(self) -> Queries:
        return as_workload(self.workload).bind(self.schema)

    @cached_property
    def cube(self) -> Cube:
        return Cube(self.queries)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The columns of MWEM's fitted distribution and of its synthetic table."""
        return self.queries.names

    @cached_property
    def probabilities(self) -> Floats:
        """The fitted probability of every record, the last column fastest."""
        return model_distribution(self.cube, self.steps, self.average)

    @property
    def distribution(self) -> Floats:
        """The fitted probabilities, with one axis for each of ``attributes``."""
        return self.probabilities.reshape(self.cube.sizes)

    def marginal(self, *names: str) -> Floats:
        """The fitted distribution's share of rows in every cell of these columns, in the workload or not."""
        missing = [name for name in names if name not in self.attributes]
        if missing:
            self.schema[missing[0]]  # an unknown name says so
            held = ", ".join(self.attributes)
            raise MechanismError(f"The model does not hold {missing[0]!r}.", fix=f"It holds {held}.")
        kept = [name for name in self.attributes if name in names]
        summed = self.distribution.sum(axis=tuple(i for i, name in enumerate(self.attributes) if name not in names))
        return np.asarray(summed.transpose([kept.index(name) for name in names]))

    def __getitem__(self, names: str | tuple[str, ...]) -> dict[str, float]:
        """The answers to the queries on exactly these columns, by what they ask."""
        wanted = {names} if isinstance(names, str) else set(names)
        results = {
            self.queries.text(q): float(self.answers[q])
            for start, group in zip(self.queries.starts, self.queries.groups, strict=False)
            if set(group.attributes) == wanted
            for q in range(int(start), int(start) + group.count)
        }
        if not results:
            raise MechanismError(f"No query was asked on {'+'.join(sorted(wanted))}.", fix="Use marginal(…).")
        return results

    # ---- what was measured directly -------------------------------------------------------------------------------

    @cached_property
    def direct(self) -> tuple[Floats, Floats, Integers]:
        """For every MWEM query its measured share (NaN if never measured), the interval's half-width, and the number of
        measurements.

        How often a round came back to a query depends on what was measured before. The sum of t noises of scale s stays
        within s·√(2(t+r)·ln(√((t+r)/r)/0.05)) for all t at once with probability 95%, whatever r is (a martingale of
        sub-Gaussian steps, mixed over N(0, 1/(r·s²)); r is chosen for small t).
        """
        m = self.measured
        times = np.bincount(m.query, minlength=len(self.answers))
        total = np.bincount(m.query, weights=m.count.astype(np.float64), minlength=len(self.answers))
        scale = np.full(len(self.answers), np.nan)
        scale[m.query] = m.scale
        rows = np.maximum(times, 1) * self.queries.grids * float(self.n)
        mixed = times + _MIX
        reach = scale * np.sqrt(2 * mixed * np.log(np.sqrt(mixed / _MIX) / (1 - LEVEL)))
        return np.where(times > 0, total / rows, np.nan), reach / rows, times

    # ---- synthetic rows -------------------------------------------------------------------------------------------

    def sample(self, rows: int, noise: NoiseSource | None = None) -> pa.Table:
        """A new synthetic table of ``rows`` rows from MWEM's distribution. Costs nothing: it uses published numbers
        only."""
        source = noise or NoiseSource()
        drawn = draw_rows(self.probabilities, rows, source)
        return self._table(drawn, draw_bin_positions(self.schema, self.attributes, rows, source))

    @property
    def synthetic(self) -> pa.Table:
        """The synthetic table that was sampled when MWEM was released.

        Read from its record, numbers that were drawn anywhere in their bin (``decode = "uniform"``) lie in the middle
        of it; synthetic.parquet has them as drawn.
        """
        if self.rows is None:
            raise MechanismError("No synthetic table was asked for.", fix="Draw one with sample(rows).")
        return self._table(self.rows, self.within or {})

    def _table(self, drawn: tuple[Integers, Integers], within: BinPositions) -> pa.Table:
        from nabladp.tables import decode

        records, times = drawn
        if not within:
            return decode(self.schema, self.cube.records(records)).take(np.repeat(np.arange(len(records)), times))
        codes = self.cube.records(np.repeat(records, times))
        return decode(self.schema, codes, smooth(self.schema, codes, within))

    # ---- keeping --------------------------------------------------------------------------------------------------

    def extra_tables(self, schema: Schema) -> dict[str, pa.Table]:
        from nabladp.tables import decode

        records = np.arange(self.cube.cells, dtype=np.int64)
        whole = decode(self.schema, self.cube.records(records))
        column = "probability" if "probability" not in self.attributes else "probability of the record"
        whole = whole.append_column(column, [self.probabilities])
        return {"distribution": whole} | ({} if self.rows is None else {"synthetic": self.synthetic})

    def values_table(self, schema: Schema) -> pa.Table:
        """One row per query: its text, MWEM's answer and, where it was measured, the measurement with its interval.

        The answer itself comes without an interval: what is known of its error is a bound on the mean of all.
        """
        shares = {f"measured{end}": column for end, column in zip(("", "_low", "_high"), self._measured, strict=True)}
        times = {"times_measured": self.direct[2]}
        return tidy_table(query_names(self.queries), {"value": self.answers, **shares, **times})

    @property
    def _measured(self) -> tuple[Floats, Floats, Floats]:
        """What was measured of every query, as a share with its interval; NaN if never."""
        share, width, _ = self.direct
        return share, np.clip(share - width, 0, 1), np.clip(share + width, 0, 1)

    def to_json(self) -> dict[str, Any]:
        m = self.measured
        body: dict[str, Any] = {
            "n": self.n,
            "workload": self.workload,
            "bound": self.bound,
            "average": self.average,
            "answers": self.answers.tolist(),
            "measured": {
                "round": m.round.tolist(),
                "query": m.query.tolist(),
                "count": m.count.tolist(),
                "scale": m.scale.tolist(),
            },
            "model": [{"query": s.query.tolist(), "change": s.change.tolist()} for s in self.steps],
        }
        if self.rows is not None:
            body["synthetic"] = {"record": self.rows[0].tolist(), "times": self.rows[1].tolist()}
        return body

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> FittedDistribution:
        rows = data.get("synthetic")
        model = cls(
            workload=data["workload"],
            schema=schema,
            n=stored_rows(data),
            average=bool(data["average"]),
            steps=tuple(Step(_whole(s["query"]), np.array(s["change"], float)) for s in data["model"]),
            measured=Measured(
                round=_whole(data["measured"]["round"]),
                query=_whole(data["measured"]["query"]),
                count=_whole(data["measured"]["count"]),
                scale=np.array(data["measured"]["scale"], float),
            ),
            answers=np.array(data["answers"], float),
            bound=stored(data, "bound", is_number, or_none=True),
            rows=None if rows is None else (_whole(rows["record"]), _whole(rows["times"])),
        )
        model._check_fits()
        return model

    def _check_fits(self) -> None:
        """Refuse a stored MWEM model whose parts do not belong to one workload."""
        asked, m = len(self.queries), self.measured
        if self.answers.shape != (asked,) or not np.isfinite(self.answers).all():
            raise damaged("answers")
        if len({m.round.shape, m.query.shape, m.count.shape, m.scale.shape}) > 1 or not _numbers_below(m.query, asked):
            raise damaged("measured")
        if not np.isfinite(m.scale).all() or not all(np.isfinite(step.change).all() for step in self.steps):
            raise damaged("model")
        if not all(s.query.shape == s.change.shape and _numbers_below(s.query, asked) for s in self.steps):
            raise damaged("model")
        if self.rows is not None:
            record, times = self.rows
            fit = record.shape == times.shape and _numbers_below(record, self.queries.cells) and (times >= 0).all()
            if not fit:
                raise damaged("synthetic")

    # ---- showing --------------------------------------------------------------------------------------------------

    def explanation(self) -> str:
        return (
            "Round by round, queries that a model of the table answered badly were measured with random noise, and the "
            "model was fitted to them: a number estimates the share of rows that meet the query."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        """Views of MWEM's answers beside what was measured, and beside the synthetic rows."""
        runs = query_runs(self.queries)
        columns = dict(
            zip(("model", "measured", "low", "high"), map(as_shares, (self.answers, *self._measured)), strict=True)
        )
        series = [("measured, with its interval", "measured"), ("model", "model")]
        drawn = None if self.rows is None or not len(self.rows[0]) else self.rows
        if drawn is not None:
            columns["synthetic rows"] = self._synthetic_shares(runs, *drawn)
            series.append(("synthetic rows", "synthetic rows"))
        scale, level = format_range(self.measured.scale.tolist()), format_percent(LEVEL)
        measured = f"{len(set(self.measured.query.tolist())):,} of {count_of(len(self.answers), 'query', 'queries')}"
        bound = "the paper's bound says nothing here"
        if self.bound is not None and self.bound < 1:
            bound = f"at most {format_percent(self.bound)}, by the paper's bound"

        def facts(numbers: Integers) -> list[tuple[str, str]]:
            return [
                ("noise of a measured count", f"discrete Gaussian, scale {scale}"),
                ("measured", f"{measured}, chosen in rounds"),
                ("interval", f"of the measured answer, {level} each, however often it was measured"),
                ("predicted mean error", bound),
            ]

        answers = QueryViews(
            schema=context.schema,
            runs=runs,
            columns=columns,
            series=series,
            squares="model",
            facts=facts,
            caption="Shares of the rows: the model and the noisy measurements",
            note="Queries that were not measured have an answer from the model only.",
        )
        if drawn is None:
            return answers.views()
        # as published, where that is at hand: a record does not say where in their bins numbers were drawn
        rows = context.read_table("synthetic", context.schema.names) if self.within is None else None
        return [*answers.views(), synthetic_preview(self.synthetic if rows is None else rows)]

    def _synthetic_shares(self, runs: Sequence[QueryRun], records: Integers, times: Integers) -> Shares:
        """The share of the synthetic rows in each cell of the whole marginals; null for other queries."""
        sizes, codes = self.schema.sizes, self.cube.records(records)
        shares: Shares = []
        for run in runs:
            if run.whole:
                cells = np.ravel_multi_index([codes[name] for name in run.attributes], sizes(run.attributes))
                counts = np.bincount(cells, weights=times, minlength=len(run.texts))
                shares += map(round_digits, counts / times.sum())
            else:
                shares += [None] * len(run.texts)
        return shares

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        truth = self.queries.counts(counts) / (self.queries.grids * max(self.n, 1))
        yield from compare_queries(self.queries, self.answers, truth)


def model_distribution(cube: Cube, steps: Sequence[Step], average: bool) -> Floats:
    """MWEM's distribution from the rounds' updates: the mean of those before each round, or the one after the last."""
    theta = np.zeros(len(cube.queries))
    total = np.zeros(cube.cells)
    for step in steps:
        if average:
            total += gibbs(cube, theta)[0]
        theta[step.query] += step.change
    return total / len(steps) if average else gibbs(cube, theta)[0]


def draw_rows(probabilities: Floats, rows: int, noise: NoiseSource) -> tuple[Integers, Integers]:
    """Sampled records of MWEM's distribution: record numbers, and how often each was drawn."""
    weights = np.rint(probabilities * _FINE).astype(np.int64)
    drawn = noise.select(weights, rows)
    records, times = np.unique(drawn, return_counts=True)
    return records, times


def _whole(values: Sequence[int]) -> Integers:
    return np.array(values, dtype=np.int64)


def _numbers_below(numbers: Integers, end: int) -> bool:
    return numbers.ndim == 1 and bool(((numbers >= 0) & (numbers < end)).all())
