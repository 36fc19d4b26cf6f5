"""What NoisyMarginals returns: signed noisy counts with their error bars, and estimates made from them.

Everything here is post-processing of published numbers: it never sees the data again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.checks import damaged, stored
from nabladp.displayed import Displayed
from nabladp.errors import MechanismError, quote
from nabladp.mechanisms.mechanism import ExpectedError, Output, ReleaseContext
from nabladp.mechanisms.output_tables import schema_axes
from nabladp.mechanisms.tidy import cell_names, tidy_table
from nabladp.noise import gaussian_log_pmf, half_width, variance
from nabladp.schema import Schema
from nabladp.views.compared import Compared
from nabladp.views.exports import Exported, short_text, text_table
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

LEVEL = 0.95
_MOST_LISTED = 8
_NO_NOISE = 1e-30  # the variance of noise so small that it underflows
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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Estimate:
    """A number from a release, with the interval that noise (and for bins, their width) allows it."""

    value: float | str
    low: float | str
    high: float | str
    level: float
    note: str = ""

    def __float__(self) -> float:
        return float(self.value)

    def __iter__(self) -> Iterator[float | str]:
        """value, low, high"""
        return iter((self.value, self.low, self.high))

    def __str__(self) -> str:
        return f"{short_text(self.value)} ({short_text(self.low)} to {short_text(self.high)})"

    def __repr__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return f"Estimate({self}, {format_percent(self.level)} interval{note})"


@dataclass(frozen=True, repr=False)
class NoisyMarginal(Displayed, Exported):
    """One table of noisy counts; axes in the order of ``attributes``.

    ``table["north", "female"]`` is the estimate of a cell, by values or their labels; with values for the first axes
    alone it is the table of the others.
    """

    displayed_as = "table"

    attributes: tuple[str, ...]
    counts: NDArray[np.int64]
    noise: str
    scale: float
    schema: Schema

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
        codes = tuple(self._code(name, value) for name, value in zip(self.attributes, given, strict=False))
        if len(codes) < len(self.attributes):
            return replace(self, attributes=self.attributes[len(codes) :], counts=self.counts[codes])
        count, width = int(self.counts[codes]), self.half_width()
        return Estimate(count, count - width, count + width, LEVEL)

    def _code(self, name: str, value: Any) -> int:
        code = self.schema[name].code(value)
        if code is None:
            attribute = self.schema[name]
            first = [attribute.label(own) for own in range(min(attribute.size, _MOST_LISTED))]
            more = ", …" if attribute.size > _MOST_LISTED else ""
            raise MechanismError(
                f"{quote(value)} is not a value of {name!r}.", fix=f"Values: {', '.join(first)}{more}."
            )
        return code

    def to_arrow(self) -> pa.Table:
        table = marginals_table(self.schema, [self])
        return table.drop_columns(table.column_names[0])

    @property
    def variance(self) -> float:
        return _variance(self.noise, self.scale)

    def half_width(self, level: float = LEVEL) -> int:
        """The half-width of each noisy count's interval: the true count lies within it with probability at least
        ``level``."""
        return _half_width(self.noise, self.scale, level)

    def interval(self, level: float = LEVEL) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        width = self.half_width(level)
        return self.counts - width, self.counts + width

    def clamped(self) -> NDArray[np.int64]:
        """The marginal with negative counts clamped to zero: nicer to look at, no longer unbiased."""
        return np.maximum(self.counts, 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "attributes": list(self.attributes),
            "noise": self.noise,
            "scale": self.scale,
            "half_width": self.half_width(),
            "level": LEVEL,
            "counts": self.counts.ravel().tolist(),
        }


@dataclass(frozen=True, repr=False)
class MarginalTables(Output):
    """All marginals of one release. ``tables["region", "income"]`` is one of them, in the order asked."""

    tables: tuple[NoisyMarginal, ...]
    n: int
    schema: Schema

    @cached_property
    def _by_set(self) -> dict[frozenset[str], NoisyMarginal]:
        return {frozenset(table.attributes): table for table in self.tables}

    def __getitem__(self, names: str | tuple[str, ...]) -> NoisyMarginal:
        wanted = (names,) if isinstance(names, str) else tuple(names)
        self.schema.sizes(wanted)
        result = self._by_set.get(frozenset(wanted))
        if result is None or len(wanted) != len(result.attributes):
            raise MechanismError(
                f"The marginal {'+'.join(wanted)} was not released.",
                fix="Released: " + ", ".join("+".join(t.attributes) for t in self.tables[:8]) + ".",
            )
        axes = [result.attributes.index(name) for name in wanted]
        return NoisyMarginal(wanted, result.counts.transpose(axes), result.noise, result.scale, self.schema)

    def __repr__(self) -> str:
        listed = [f"{'+'.join(own.attributes)} ({own.counts.size:,} cells)" for own in self.tables[:_MOST_LISTED]]
        more = [f"{len(self) - len(listed):,} more"] if len(self) > len(listed) else []
        return f"MarginalTables of {self.n:,} rows: {', '.join(listed + more)}"

    def __iter__(self) -> Any:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def counts_of(self, name: str) -> tuple[Floats, float]:
        """One attribute's counts pooled over every marginal that holds it, weighted by variance; and a cell's
        deviation."""
        size = self.schema[name].size
        total, precision = np.zeros(size), 0.0
        for table in self.tables:
            if name not in table.attributes:
                continue
            axis = table.attributes.index(name)
            summed = table.counts.sum(axis=tuple(i for i in range(table.counts.ndim) if i != axis))
            weight = 1 / (max(table.variance, _NO_NOISE) * (table.counts.size // size))
            total, precision = total + weight * summed, precision + weight
        if not precision:
            raise MechanismError(f"No released marginal holds {name!r}.", fix="Add a set with it to the release.")
        return total / precision, 1 / math.sqrt(precision)

    def mean(self, name: str, level: float = LEVEL) -> Estimate:
        """The mean of a numeric attribute, estimated from the noisy marginals over people whose value is known.

        Uses its bins' representatives. The interval covers the noise and, for real attributes, where in their bins
        people may be. Both are clamped to the domain, where every mean is.
        """
        attribute = self.schema[name]
        values, bounds = attribute.representatives, attribute.bin_bounds
        if values is None or bounds is None:
            raise MechanismError(f"{name!r} is not numeric.", fix="Means need integer, real or numeric ordered kinds.")
        counts, deviation = self.counts_of(name)
        known = counts[: len(values)]
        everyone = attribute.size == len(values)  # then the denominator is public
        people = float(self.n) if everyone else float(known.sum())
        if people <= 3 * deviation * math.sqrt(len(values)):
            raise MechanismError(f"Too few people have a known {name!r} for this much noise.", fix="Raise its budget.")

        def average(of: Floats) -> float:
            centre = float(of.mean())  # any constant is right, as the counts sum to the people; this one is quietest
            return centre + float((of - centre) @ known) / people

        value = average(values)
        spread = max(float(np.linalg.norm(v - (v.mean() if everyone else value))) for v in (values, *bounds))
        width = _reach(self.tables[0].noise, level) * deviation * spread / people
        low, high = average(bounds[0]) - width, average(bounds[1]) + width
        least, most = float(min(bounds[0])), float(max(bounds[1]))  # every true mean lies between them
        notes = [f"noise alone: ±{width:.4g}"] if attribute.kind == "real" else []
        if not least <= value <= most:
            notes.append(f"clamped to the domain, {least:g} to {most:g}")
        value, low, high = (min(max(number, least), most) for number in (value, low, high))
        return Estimate(value, low, high, level, "; ".join(notes))

    def quantile(self, name: str, q: float, level: float = LEVEL) -> Estimate:
        """The q-quantile of an ordered attribute, estimated from the noisy marginals over people whose value is known.

        D_b = (people at or below b) − q·(people) is a sum of noisy counts; the interval is where D_b may cross zero
        when every b is allowed its own error at once.
        """
        attribute = self.schema[name]
        if not attribute.is_ordered:
            raise MechanismError(f"{name!r} has no order.", fix="Declare it 'ordered', 'integer' or 'real'.")
        if not 0 < q < 1:
            raise MechanismError("A quantile lies strictly between 0 and 1.", fix="The median is q = 0.5.")
        counts, deviation = self.counts_of(name)
        known = counts[: attribute.ordered_size]
        size = len(known)
        below = np.arange(1, size + 1)
        crossing = np.cumsum(known) - q * known.sum()
        noise = deviation * np.sqrt(below * (1 - q) ** 2 + (size - below) * q**2)
        reach = _reach(self.tables[0].noise, 1 - (1 - level) / size) * noise
        low, middle, high = (
            min(int(np.count_nonzero(edge < 0)), size - 1) for edge in (crossing + reach, crossing, crossing - reach)
        )
        bounds, values = attribute.bin_bounds, attribute.representatives
        if bounds is None or values is None:
            return Estimate(attribute.label(middle), attribute.label(low), attribute.label(high), level)
        return Estimate(float(values[middle]), float(bounds[0][low]), float(bounds[1][high]), level)

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
        """One row per cell of every marginal: its values, the noisy count, its interval, the noise scale."""
        return marginals_table(schema, self.tables)

    # ---- showing --------------------------------------------------------------------------------------------------

    def explanation(self) -> str:
        return (
            "Rows with each combination of values were counted, and random noise was added to every count: a number is "
            "the true count give or take its interval."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        """Marginals as views: bars for one attribute, a heat map for two, panels for three, a table for more."""
        errors = context.expected_error
        return [_view(table, error, context.schema) for table, error in zip(self.tables, errors, strict=True)]

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        truths = counts.marginals([table.attributes for table in self.tables])
        for table, truth, error in zip(self.tables, truths, context.expected_error, strict=True):
            yield Compared.of(
                " + ".join(table.attributes),
                "count",
                table.counts,
                truth,
                table.interval(),
                attributes=table.attributes,
                predicted=error["mean_absolute"],
            )


def _reach(noise: str, level: float) -> float:
    """The half-width of an interval in standard deviations: the normal figure, or Laplace's own where its tail is
    heavier."""
    normal = NormalDist().inv_cdf((1 + level) / 2)
    return normal if noise == "gaussian" else max(normal, math.log(1 / (1 - level)) / math.sqrt(2))


def marginals_table(schema: Schema, tables: Sequence[NoisyMarginal]) -> pa.Table:
    """The cells of noisy marginals as a tidy table."""
    counts = np.concatenate([table.counts.ravel() for table in tables])
    sizes = [table.counts.size for table in tables]
    widths = np.repeat([table.half_width() for table in tables], sizes)
    numbers = {
        "value": counts,
        "low": counts - widths,
        "high": counts + widths,
        "noise_scale": np.repeat([table.scale for table in tables], sizes),
    }
    return tidy_table(cell_names(schema, [table.attributes for table in tables]), numbers)


def _view(table: NoisyMarginal, error: Mapping[str, Any], schema: Schema) -> View:
    names, many, width = table.attributes, len(table.attributes), table.half_width()
    level, scale = format_percent(LEVEL), format_figure(table.scale)
    counts = table.counts.ravel()
    negative = bool((counts < 0).any())
    return View(
        title=schema.title(names),
        kind=marginal_kind(schema.sizes(names)),
        columns=[
            *schema_axes(schema, names),
            value_column("count", "count"),
            offset_column("low", "count", many, -width),
            offset_column("high", "count", many, width),
        ],
        rows=Cells(counts),
        summary=f"{count_of(len(counts), 'cell')}, noise scale {scale}, ±{width:,} with {level}",
        facts=[
            ("noise", f"discrete {table.noise.capitalize()}, scale {scale}"),
            ("predicted error of a count", f"{format_figure(error['mean_absolute'])} on average"),
            ("interval of each count", f"± {width:,} with probability {level}"),
        ],
        notes=["Noise takes small counts below zero; they are shown as released."] if negative else [],
        names=range(many),
        series=[Series("noisy count", many, many + 1, many + 2)],
        caption=f"Noisy counts with {level} intervals",
        ordered=many == 1 and schema[names[0]].is_ordered,
    )
