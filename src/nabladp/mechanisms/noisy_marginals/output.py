"""What NoisyMarginals returns: signed noisy counts with their error bars, and estimates made from them.

Everything here is post-processing of published numbers: it never sees the data again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.checks import damaged, stored
from nabladp.displayed import Displayed
from nabladp.errors import MechanismError
from nabladp.mechanisms.estimate import LEVEL, Estimate, code_of
from nabladp.mechanisms.free_answers import FreeAnswers
from nabladp.mechanisms.intervals import quantile_of_noise
from nabladp.mechanisms.mechanism import ErrorMeasure, ExpectedError, Output, ReleaseContext
from nabladp.mechanisms.output_tables import schema_axes
from nabladp.mechanisms.released_counts import NoisyCounts
from nabladp.mechanisms.tidy import cell_names, tidy_table
from nabladp.noise import gaussian_log_pmf, half_width, variance
from nabladp.noise.parameters import confidence
from nabladp.schema import Schema
from nabladp.views.compared import Compared
from nabladp.views.exports import Exported, text_table
from nabladp.views.view import (
    Cells,
    Series,
    View,
    count_of,
    format_figure,
    format_percent,
    marginal_kind,
    offset_column,
    value_column,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts

_MOST_LISTED = 8
_DIGITS = 6  # after the point, of values that are means over tables
_SHOWN_DIGITS = 2
Kind = Literal["gaussian", "laplace"]


@lru_cache(maxsize=4096)  # thousands of marginals share a few scales
def _variance(noise: str, scale: float) -> float:
    return variance(cast(Kind, noise), scale)


@lru_cache(maxsize=4096)
def _half_width(noise: str, scale: float, level: float) -> int:
    return half_width(cast(Kind, noise), scale, level)


@lru_cache(maxsize=4096)
def _mean_absolute(noise: str, scale: float) -> float:
    if noise == "laplace":
        return 1 / math.sinh(1 / scale)
    if scale > 50:  # here the discrete and the continuous law agree to four digits
        return scale * math.sqrt(2 / math.pi)
    reach = math.ceil(40 * scale)
    return float(np.exp(gaussian_log_pmf(scale, -reach, reach)) @ np.abs(np.arange(-reach, reach + 1)))


@dataclass(frozen=True)
class MarginalError(ExpectedError):
    """The noise of one marginal, known before anything is spent."""

    attributes: tuple[str, ...]
    cells: int
    noise: str
    scale: float
    deviation: float  # standard deviation of a cell
    mean_absolute: float  # expected absolute error of a cell
    half_width: int  # a cell lies within ± this with probability ``LEVEL``
    share: float | None  # the deviation over the average count n/cells; None where n is not known yet

    @classmethod
    def of(cls, attributes: tuple[str, ...], cells: int, noise: str, scale: float, n: int) -> MarginalError:
        deviation, width = math.sqrt(_variance(noise, scale)), _half_width(noise, scale, LEVEL)
        share = deviation * cells / n if n else None
        return cls(attributes, cells, noise, scale, deviation, _mean_absolute(noise, scale), width, share)

    def values_written(self) -> int:
        return self.cells

    def measure(self, rows: int) -> ErrorMeasure:
        what = "Noise of a count, as a share of an average count"
        return ErrorMeasure(what, self.share, small=0.2, useless=1, scales=True, advice="ask for fewer tables")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Consistent:
    """What all tables of a release together say about the cells of one: counts, and the deviation of each."""

    counts: Floats
    deviation: float


@dataclass(frozen=True, repr=False)
class NoisyMarginal(Displayed, Exported):
    """One table of noisy counts; axes in the order of ``attributes``.

    ``counts`` are as they were measured, ``values`` agree with all other tables of the release and have less noise.
    ``table["north", "female"]`` is the estimate of a cell, by values or their labels; with values for the first axes
    alone it is the table of the others. ``raw`` is the same table without what the others say.
    """

    displayed_as = "table"

    attributes: tuple[str, ...]
    counts: NDArray[np.int64]
    noise: str
    scale: float
    schema: Schema
    consistent: Consistent | None = None

    def __repr__(self) -> str:
        named = "+".join(self.attributes)
        return f"NoisyMarginal({named}, noise scale {self.scale:.4g})\n{text_table(self.to_arrow())}"

    def __len__(self) -> int:
        """The number of cells."""
        return int(self.counts.size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_arrow().to_pylist())

    def __getitem__(self, values: Any) -> Any:
        given = values if isinstance(values, tuple) else (values,)
        if len(given) > len(self.attributes):
            raise MechanismError(f"The table has {len(self.attributes)} attributes.", fix="Give a value for each.")
        codes = tuple(code_of(self.schema[name], value) for name, value in zip(self.attributes, given, strict=False))
        if len(codes) < len(self.attributes):
            return self._with_axes(self.attributes[len(codes) :], lambda counts: counts[codes])
        value, width = self.values[codes].item(), self.half_width()
        return Estimate(value, value - width, value + width, LEVEL)

    def in_order(self, names: tuple[str, ...]) -> NoisyMarginal:
        """The same table with its axes in another order."""
        axes = [self.attributes.index(name) for name in names]
        return self._with_axes(names, lambda counts: counts.transpose(axes))

    def _with_axes(self, names: tuple[str, ...], turn: Callable[[Any], Any]) -> NoisyMarginal:
        known = self.consistent and replace(self.consistent, counts=turn(self.consistent.counts))
        return replace(self, attributes=names, counts=turn(self.counts), consistent=known)

    def to_arrow(self) -> pa.Table:
        table = marginals_table(self.schema, [self])
        return table.drop_columns(table.column_names[0])

    @property
    def raw(self) -> NoisyMarginal:
        """The table as it was measured, with whole numbers."""
        return replace(self, consistent=None)

    @property
    def values(self) -> NDArray[Any]:
        """The estimate of every count."""
        return self.counts if self.consistent is None else self.consistent.counts

    @property
    def variance(self) -> float:
        """Of the noise that was drawn for each count."""
        return _variance(self.noise, self.scale)

    @property
    def deviation(self) -> float:
        """The standard deviation of every value."""
        return math.sqrt(self.variance) if self.consistent is None else self.consistent.deviation

    def half_width(self, level: float = LEVEL) -> float:
        """The half-width of each value's interval, which holds the true count with probability ``level``: exactly for
        raw counts, by the normal law (for Laplace noise, the wider of it and Laplace's) for what several tables say."""
        if self.consistent is None:
            return _half_width(self.noise, self.scale, level)
        own = self.deviation**2 / self.variance if self.variance else 0.0  # the weight of the count's own noise
        width = quantile_of_noise(confidence(level), self.noise == "laplace") * self.deviation + own / 2
        return round(width, _DIGITS)

    def interval(self, level: float = LEVEL) -> tuple[NDArray[Any], NDArray[Any]]:
        width = self.half_width(level)
        return self.values - width, self.values + width

    def clamped(self) -> NDArray[Any]:
        """The values with negative ones clamped to zero: nicer to look at, no longer unbiased."""
        return np.asarray(np.maximum(self.values, 0))

    def to_json(self) -> dict[str, Any]:
        return {
            "attributes": list(self.attributes),
            "noise": self.noise,
            "scale": self.scale,
            "half_width": _half_width(self.noise, self.scale, LEVEL),
            "level": LEVEL,
            "counts": self.counts.ravel().tolist(),
        }


@dataclass(frozen=True, repr=False)
class MarginalTables(Output, FreeAnswers):
    """All marginals of one release. ``tables["region", "income"]`` is one of them, in the order asked.

    They agree with each other and with the number of rows: each is the best estimate from all of them together.
    ``tables.raw`` are the same as they were measured.
    """

    tables: tuple[NoisyMarginal, ...]  # as they were measured
    n: int
    schema: Schema
    pooled: bool = True

    @cached_property
    def _by_set(self) -> dict[frozenset[str], int]:
        return {frozenset(table.attributes): i for i, table in enumerate(self.tables)}

    def __getitem__(self, names: str | tuple[str, ...]) -> NoisyMarginal:
        wanted = (names,) if isinstance(names, str) else tuple(names)
        self.schema.sizes(wanted)
        found = self._by_set.get(frozenset(wanted))
        if found is None or len(wanted) != len(self.tables[found].attributes):
            raise MechanismError(
                f"The marginal {'+'.join(wanted)} was not released.",
                fix="Released tables: " + ", ".join("+".join(t.attributes) for t in self.tables[:8]) + ".",
            )
        return self._table(found).in_order(wanted)

    def __repr__(self) -> str:
        listed = [f"{'+'.join(own.attributes)} ({own.counts.size:,} cells)" for own in self.tables[:_MOST_LISTED]]
        more = [f"{len(self) - len(listed):,} more"] if len(self) > len(listed) else []
        return f"MarginalTables of {self.n:,} rows: {', '.join(listed + more)}"

    def __iter__(self) -> Iterator[NoisyMarginal]:
        return (self._table(position) for position in range(len(self.tables)))

    def __len__(self) -> int:
        return len(self.tables)

    def _table(self, position: int) -> NoisyMarginal:
        own, pool = self.tables[position], self._noisy_counts.pool
        if not self.pooled:
            return own
        counts = np.round(pool.shifted(position)[..., 0], _DIGITS)
        return replace(own, consistent=Consistent(counts, math.sqrt(max(pool.variances(own.attributes)[0], 0.0))))

    @property
    def raw(self) -> MarginalTables:
        """The tables as they were measured: whole numbers that need not agree."""
        return replace(self, pooled=False)

    @cached_property
    def _noisy_counts(self) -> NoisyCounts:
        return NoisyCounts(self.schema, self.n, [("+".join(own.attributes), own) for own in self.tables])

    def noisy_counts(self) -> NoisyCounts:
        return self._noisy_counts

    # ---- keeping --------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {"n": self.n, "tables": [table.to_json() for table in self.tables]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> MarginalTables:
        tables = []
        for body in data["tables"]:
            names = tuple(body["attributes"])
            counts = np.array(body["counts"], dtype=np.int64).reshape(schema.sizes(names))
            noise = stored(body, "noise", lambda kind: kind in ("gaussian", "laplace"))
            tables.append(NoisyMarginal(names, counts, noise, float(body["scale"]), schema))
        if not tables:
            raise damaged("tables")
        return cls(tuple(tables), int(data["n"]), schema)

    def values_table(self, schema: Schema) -> pa.Table:
        """One row per cell of every marginal: its labels, the count that agrees with all tables and its interval; the
        scale of the noise and the count as it was measured."""
        return marginals_table(schema, list(self))

    # ---- showing --------------------------------------------------------------------------------------------------

    def explanation(self) -> str:
        return (
            "Rows with each combination of values were counted, and random noise was added to every count: a number "
            "estimates the true count, which lies in its interval with the stated probability."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        """Marginals as views: bars for one attribute, a heat map for two, panels for three, a table for more."""
        errors = context.expected_error
        return [_view(table, error, context.schema) for table, error in zip(self, errors, strict=True)]

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        truths = counts.marginals([table.attributes for table in self.tables])
        for table, truth, error in zip(self, truths, context.expected_error, strict=True):
            drawn = float(np.abs(table.counts - truth).mean())
            yield Compared.of(
                " + ".join(table.attributes),
                "count",
                table.values,
                truth,
                table.interval(),
                attributes=table.attributes,
                predicted=predicted_error(table, error),
                summary=f"Before tables were made consistent, counts were off by {drawn:.4g} on average.",
            )


def marginals_table(schema: Schema, tables: Sequence[NoisyMarginal]) -> pa.Table:
    """The cells of noisy marginals as a tidy table."""
    sizes = [len(table) for table in tables]
    values = np.concatenate([table.values.ravel() for table in tables])
    widths = np.repeat([table.half_width() for table in tables], sizes)
    numbers = {
        "value": values,
        "low": np.round(values - widths, _DIGITS),
        "high": np.round(values + widths, _DIGITS),
        "noise_scale": np.repeat([table.scale for table in tables], sizes),
    }
    if any(table.consistent is not None for table in tables):
        numbers["measured"] = np.concatenate([table.counts.ravel() for table in tables])
    return tidy_table(cell_names(schema, [table.attributes for table in tables]), numbers)


def predicted_error(table: NoisyMarginal, error: Mapping[str, Any]) -> float:
    """The expected absolute error of a value of this table; ``error`` is that of its noise, in its JSON form."""
    alone = float(error["mean_absolute"])
    return alone if table.consistent is None else alone * table.deviation / (table.raw.deviation or 1.0)


def _view(table: NoisyMarginal, error: Mapping[str, Any], schema: Schema) -> View:
    names, many, width = table.attributes, len(table.attributes), table.half_width()
    level, scale = format_percent(LEVEL), format_figure(table.scale)
    gain = table.raw.deviation / table.deviation if table.deviation else math.inf
    before = f"± {table.raw.half_width():,} with probability {level}"
    before += f"; its noise is {gain:.3g} times as large" if 1.005 < gain < math.inf else ""
    return View(
        title=schema.title(names),
        kind=marginal_kind(schema.sizes(names)),
        columns=[
            *schema_axes(schema, names),
            value_column("count", "count"),
            offset_column("low", "count", many, -width),
            offset_column("high", "count", many, width),
            value_column("measured", "count", 1),
        ],
        rows=Cells(np.round(table.values, _SHOWN_DIGITS), table.counts),
        summary=f"{count_of(len(table), 'cell')}, noise scale {scale}, ±{width:,.4g} ({level} interval)",
        facts=[
            ("noise", f"discrete {table.noise.capitalize()}, scale {scale}"),
            ("predicted error of a count", f"{format_figure(predicted_error(table, error))} on average"),
            ("interval of each count", f"± {width:,.4g} with probability {level}"),
            ("a measured count, before tables agree", before),
        ],
        notes=["Noise takes small counts below zero; they are shown as released."] if (table.values < 0).any() else [],
        names=range(many),
        series=[Series("noisy count", many, many + 1, many + 2)],
        caption=f"Noisy counts with {level} intervals",
        ordered=many == 1 and schema[names[0]].is_ordered,
    )
