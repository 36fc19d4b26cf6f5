"""What a Gram release holds, and what can be made of it at no further cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.checks import damaged, stored_rows
from nabladp.deprecated import renamed
from nabladp.errors import MechanismError, NablaDPError
from nabladp.mechanisms.gram_matrix.components import PrincipalComponents, principal_components
from nabladp.mechanisms.gram_matrix.regression import LEVEL, Classification, Regression, fit, noise_norm
from nabladp.mechanisms.gram_matrix.signed_columns import Products, SignedColumns
from nabladp.mechanisms.mechanism import Output, ReleaseContext
from nabladp.mechanisms.output_tables import column_title
from nabladp.noise import half_width
from nabladp.schema import Schema
from nabladp.tables import decode
from nabladp.views.compared import Compared
from nabladp.views.view import (
    Column,
    Series,
    View,
    count_of,
    format_figure,
    format_percent,
    format_range,
    label_column,
    round_digits,
    value_column,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts


# ---- A Gram matrix, as views: a heat map, a table of entries, and regressions made from it at no further cost --------

MOST_DRAWN = 50  # columns of the heat map
MOST_TARGETS = 6  # attributes that are regressed where no label was named


def entry_views(table: pa.Table, names: Sequence[str], n: int, noise_norm: float, numbers: bool = False) -> list[View]:
    """Views of the Gram matrix, from its table of values: one row per entry above the diagonal."""
    rows = zip(*(table[name].to_pylist() for name in ("value", "low", "high")), strict=True)
    pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    entries = [[i, j, *row] for (i, j), row in zip(pairs, rows, strict=False)]  # squares of numbers come last
    facts = [
        ("noise of an entry", f"discrete Gaussian, scale {format_range(table['noise_scale'].to_numpy())}"),
        ("predicted: spectral norm of the noise", f"about {format_figure(noise_norm)} at most, of {n:,} rows"),
        ("interval", f"of each entry, {format_percent(LEVEL)}"),
    ]
    drawn = [row for row in entries if row[1] < MOST_DRAWN]
    kind = "" if numbers else " of ±1"
    heat = View(
        title="agreement of columns",
        kind="heat",
        columns=_entry_columns(names),
        rows=drawn,
        summary=f"{count_of(len(names), 'column')}{kind}, {count_of(len(entries), 'entry', 'entries')}",
        facts=facts,
        notes=[
            "An entry is the number of rows on which two columns agree, less those on which they do not; with a column "
            "of numbers, from −1 to 1, the sum of products."
            if numbers
            else "An entry is the number of rows on which two columns agree, less those on which they do not."
        ],
        names=(0, 1),
        series=[Series("entry", 2, 3, 4)],
        caption=f"Rows that agree less rows that do not, of {n:,}",
        signed=True,
        symmetric=True,
    )
    return [heat] if len(drawn) == len(entries) else [heat, _all_entries(names, entries, facts)]


def _entry_columns(names: Sequence[str]) -> list[Column]:
    numbers = [value_column(word, "count", i) for i, word in enumerate(("entry", "low", "high"), 2)]
    return [label_column("first", names, 0), label_column("second", names, 1), *numbers]


def _all_entries(names: Sequence[str], entries: list[list[Any]], facts: list[tuple[str, str]]) -> View:
    return View(
        title="all entries",
        kind="table",
        columns=_entry_columns(names),
        rows=entries,
        summary=count_of(len(entries), "entry", "entries"),
        facts=facts,
    )


def regression_view(schema: Schema, target: str, regression: Regression) -> View:
    """The view of a linear regression: weights with their intervals, of numbers in their own units."""
    fitted = regression.to_json()
    named = fitted["effects"] if "effects" in fitted else fitted["coefficients"]
    rows = [[column_title(schema, name), *map(round_digits, numbers)] for name, numbers in named.items()]
    numbers = [value_column(word, "number", i) for i, word in enumerate(("weight", "low", "high"), 1)]
    ridge, level = format_figure(fitted["ridge"]), format_percent(fitted["level"])
    facts = [
        ("made from", "the released matrix, at no further cost"),
        ("ridge", ridge),
        ("interval", f"{level} each, for the noise alone"),
    ]
    if "r2" in fitted:
        r2, low, high = (format_percent(max(0.0, value)) for value in fitted["r2"])
        facts.append(("variance explained (R²)", f"{r2}, {level} interval {low} to {high}"))
    return View(
        title=f"regression of {schema.titles[target]}",
        kind="bars",
        columns=[value_column("column"), *numbers],
        rows=rows,
        summary=f"{count_of(len(rows), 'weight')}, ridge {ridge}",
        facts=facts,
        series=[Series("weight", 1, 2, 3)],
        caption=f"Weights with {level} intervals for the noise",
        signed=True,
    )


# ---- What a Gram release holds, and what can be made of it at no further cost ----------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class NoisyGram(Output):
    """XᵀX of the ±1 columns X of n rows, with noise: every entry is (rows that agree) − (rows that disagree).

    ``entries`` are those above the diagonal, row by row, each of the parity of n; the diagonal is n. ``class_of`` and
    ``class_scales`` say how much noise each has, in entries: twice the noise of a count of disagreements. Columns of
    numbers lie between −1 and 1, the ends of their range; their ``entries`` are whole steps, and ``squares``, their own
    sums of squares, have noise as well.
    """

    columns: SignedColumns
    n: int
    entries: Integers
    class_of: Integers
    class_scales: Floats
    squares: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    square_scales: Floats = field(default_factory=lambda: np.zeros(0))

    def __repr__(self) -> str:
        return f"NoisyGram({self.columns.width:,} columns, {self.n:,} rows)"

    @property
    def names(self) -> tuple[str, ...]:
        return self.columns.names

    @cached_property
    def matrix(self) -> Integers | Floats:
        """The whole symmetric noisy Gram matrix; of whole numbers where all columns are of ±1."""
        whole = _symmetric(self.entries, self.n)
        if not self.columns.numbers:
            return whole
        result = whole / self._steps
        numbers = self.columns.numbers
        result[numbers, numbers] = self.squares / self._steps[numbers, numbers]
        return result

    @cached_property
    def _steps(self) -> Floats:
        """How many steps make up one, in every entry of the matrix."""
        ends = np.maximum(self.columns.reaches, 1).astype(np.float64)
        return np.outer(ends, ends)

    @cached_property
    def scales(self) -> Floats:
        """The noise scale of every Gram entry; 0 where an entry is exact, as on the diagonal of ±1 columns."""
        result: Floats = self.class_scales[np.ix_(self.class_of, self.class_of)] / self._steps
        np.fill_diagonal(result, 0.0)
        numbers = self.columns.numbers
        result[numbers, numbers] = self.square_scales / self._steps[numbers, numbers]
        return result

    @property
    def noise_norm(self) -> float:
        """About the largest spectral norm of the Gram matrix's noise: 2·s·√P for one scale s."""
        return noise_norm(self.scales)

    def __getitem__(self, pair: tuple[str, str]) -> int | float:
        """The entry of two columns, each given by its name or, where it has one column, its attribute's."""
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise MechanismError("An entry belongs to two columns.", fix="Write gram['sex', 'smoker'].")
        one, other = (self._one(name) for name in pair)
        entry: int | float = self.matrix[one, other].item()
        return entry

    def _one(self, name: str) -> int:
        indices = self.columns.find(name)
        if len(indices) != 1:
            raise MechanismError(
                f"{name!r} has {len(indices)} columns.", fix=self._way_out(name, indices), attribute=name
            )
        return indices[0]

    def _way_out(self, name: str, indices: Sequence[int]) -> str:
        one = f"Name one of them, e.g. {self.names[indices[0]]!r}" if indices else "Name a column of this release"
        schema = self.columns.schema
        if schema is None or name not in schema.names:
            return f"{one}."
        if schema[name].kind in ("integer", "real"):
            return f"{one}, or release the number itself with encode={{{name!r}: 'number'}}."
        return f"{one}, or predict its values with classify({name!r})."

    def interval(self, level: float = LEVEL) -> tuple[Integers | Floats, Integers | Floats]:
        """Bounds on each true Gram entry by itself, right with probability at least ``level``."""
        width = self._half_widths(level)[np.ix_(self.class_of, self.class_of)]
        np.fill_diagonal(width, 0)
        numbers = self.columns.numbers
        if not numbers:
            return self.matrix - width, self.matrix + width
        width[numbers, numbers] = [half_width("gaussian", s, level) if s else 0 for s in self.square_scales]
        return self.matrix - width / self._steps, self.matrix + width / self._steps

    def _half_widths(self, level: float) -> Integers:
        """Half-widths of the intervals, by class of columns, in units of entries: a count's is doubled."""
        reaches = np.zeros(len(self.class_scales), dtype=np.int64)
        reaches[self.class_of] = self.columns.reaches
        double = np.where(np.logical_and.outer(reaches == 0, reaches == 0), 2, 1)
        keys = list(zip(self.class_scales.ravel().tolist(), double.ravel().tolist(), strict=True))
        known = {key: key[1] * half_width("gaussian", key[0] / key[1], level) if key[0] else 0 for key in set(keys)}
        return np.array([known[key] for key in keys], dtype=np.int64).reshape(double.shape)

    # ---- what it is for -------------------------------------------------------------------------------------------

    @renamed(features="on")
    def regress(self, target: str, on: Iterable[str] | None = None, ridge: float | None = None) -> Regression:
        """Linear regression of one column on others, from the noisy Gram matrix; default: on all but the target
        attribute's own.

        ``on`` names columns or attributes; the intercept is always among them.
        """
        goal = self._one(target)
        own = self.columns.attribute_of[goal]
        if own is None:
            raise MechanismError("The intercept cannot be a target.", fix="Name another target.")
        if ridge is not None and not 0 <= ridge < float("inf"):
            raise MechanismError("A ridge must be a number of at least 0.", fix="Leave it out for that of the noise.")
        everything = [i for i in range(1, self.columns.width) if self.columns.attribute_of[i] != own]
        chosen = everything if on is None else [i for i in dict.fromkeys(self.columns.find(on)) if i]
        if goal in chosen:
            raise MechanismError(f"{target!r} is both target and feature.", fix="Leave it out of the features.")
        return fit(self.columns, self.n, self.matrix.astype(np.float64), self.scales, goal, [0, *chosen], ridge)

    def classify(self, target: str, on: Iterable[str] | None = None, ridge: float | None = None) -> Classification:
        """A linear classifier of an attribute by others: a regression of each of its one-hot columns, from one release.

        ``on`` names columns or attributes; by default all others.
        """
        columns, schema = self.columns, self.columns.schema
        if target not in columns.column_ranges or columns.to_json()[target] != "onehot" or schema is None:
            raise MechanismError(
                f"{target!r} is not one-hot in this release.",
                fix=f"Release it with encode = {{ {target} = 'onehot' }}.",
                attribute=target,
            )
        own = [columns.names[i] for i in columns.column_ranges[target]]
        values = decode(schema, {target: np.arange(schema[target].size)}).column(target).to_pylist()
        return Classification(target, tuple(values), tuple(self.regress(name, on, ridge) for name in own))

    def principal_components(self, on: Iterable[str] | None = None) -> PrincipalComponents:
        """The directions of the largest variance of some columns or attributes (default: all), and how many of them
        stand out from the noise."""
        chosen = range(1, self.columns.width) if on is None else dict.fromkeys(self.columns.find(on))
        features = [i for i in chosen if i]
        if len(features) < 2:
            raise MechanismError("Principal components need at least two columns.", fix="Name more in 'on'.")
        return principal_components(self.columns, self.n, self.matrix.astype(np.float64), self.scales, features)

    def correlation(self) -> Floats:
        """Correlations of all columns but the intercept, clipped to ±1; NaN where one is lost in the noise.

        That is where a column's variance is not above two deviations of the noise on it.
        """
        means = (self.matrix[0, 1:] / self.n).clip(-1, 1)
        variance = np.diag(self.matrix)[1:] / self.n - means**2
        noise = np.hypot(2 * means * self.scales[0, 1:], np.diag(self.scales)[1:]) / self.n
        spread = np.sqrt(np.where(variance > 2 * noise, variance, np.nan))
        result = ((self.matrix[1:, 1:] / self.n - np.outer(means, means)) / np.outer(spread, spread)).clip(-1, 1)
        np.fill_diagonal(result, np.where(np.isnan(spread), np.nan, 1.0))
        return np.asarray(result, dtype=np.float64)

    # ---- keeping --------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        own = {"squares": self.squares.tolist(), "square_scales": self.square_scales.tolist()}
        return {
            "n": self.n,
            "encode": [[name, encoding] for name, encoding in self.columns.to_json().items()],
            "columns": list(self.names),
            "class_of": self.class_of.tolist(),
            "class_scales": self.class_scales.tolist(),
            "entries": self.entries.tolist(),
        } | (own if self.columns.numbers else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> NoisyGram:
        columns = SignedColumns.from_json(dict(data["encode"]), schema, numbers=True)
        width, entries = columns.width, np.array(data["entries"], dtype=np.int64)
        class_of = np.array(data["class_of"], dtype=np.int64)
        scales = np.array(data["class_scales"], dtype=np.float64)
        if entries.shape != (width * (width - 1) // 2,):
            raise damaged("entries")
        if scales.shape != (len(scales),) * 2 or not np.isfinite(scales).all():
            raise damaged("class_scales")
        if class_of.shape != (width,) or not ((class_of >= 0) & (class_of < len(scales))).all():
            raise damaged("class_of")
        squares = np.array(data.get("squares", []), dtype=np.int64)
        own = np.array(data.get("square_scales", []), dtype=np.float64)
        if not squares.shape == own.shape == (len(columns.numbers),) or not np.isfinite(own).all():
            raise damaged("squares")
        return cls(columns, stored_rows(data), entries, class_of, scales, squares, own)

    def values_table(self, schema: Schema) -> pa.Table:
        """One row per Gram entry above the diagonal, and per square of a column of numbers: the two columns, the entry,
        its interval, its noise scale."""
        import pyarrow as pa

        first, second = np.triu_indices(self.columns.width, 1)
        first, second = (
            np.append(first, self.columns.numbers).astype(int),
            np.append(second, self.columns.numbers).astype(int),
        )
        names = pa.array(self.names)
        low, high = self.interval()
        return pa.table(
            {
                "first": names.take(pa.array(first)),
                "second": names.take(pa.array(second)),
                "value": self.matrix[first, second],
                "low": low[first, second],
                "high": high[first, second],
                "noise_scale": self.scales[first, second],
            }
        )

    def extra_tables(self, schema: Schema) -> dict[str, pa.Table]:
        """``columns``: every column with its attribute and encoding, and of numbers what −1 and 1 stand for."""
        import pyarrow as pa

        encoding = self.columns.to_json()
        behind = self.columns.attribute_of
        encodings = [None if name is None else str(encoding[name]) for name in behind]
        columns = {"column": list(self.names), "attribute": list(behind), "encoding": encodings}
        if self.columns.numbers:  # a number is middle + half · the column
            blocks = [self.columns.number_blocks.get(i) for i in range(self.columns.width)]
            columns |= {
                "middle": pa.array([None if block is None else block.middle for block in blocks], pa.float64()),
                "half": pa.array([None if block is None else block.half for block in blocks], pa.float64()),
            }
        return {"columns": pa.table(columns)}

    # ---- showing --------------------------------------------------------------------------------------------------

    def explanation(self) -> str:
        return (
            "For every two columns the rows in which they agree were counted, less those in which they differ, and "
            "random noise was added: a number estimates that difference, and regressions are computed from these "
            "numbers alone."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        """The Gram matrix, and regressions of the label; without a label, of the attributes with two values."""
        schema, label = context.schema, context.parameters.get("label")
        noise_norm = context.expected_error["noise_norm"]
        numeric = bool(self.columns.numbers)
        titles = [column_title(schema, name) for name in self.names]
        views = entry_views(self.values_table(schema), titles, context.n, noise_norm, numeric)
        numbers = [block.attribute for block in self.columns.number_columns]
        two_valued = [name for name in self.columns.to_json() if name in schema and schema[name].size == 2]
        targets = list(dict.fromkeys([*numbers, *two_valued]))[:MOST_TARGETS]
        for target in targets if label is None else [label]:
            try:
                views.append(regression_view(schema, target, self.regress(target)))
            except NablaDPError:  # a name that stands for several columns, or for none
                continue
        return views

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        first, second = np.triu_indices(self.columns.width, 1)
        low, high = self.interval()
        exact = self.exact(counts)
        yield Compared.of(
            "agreement of columns",
            "count",
            self.matrix[first, second],
            exact[first, second],
            (low[first, second], high[first, second]),
            labels=tuple(f"{self.names[i]} with {self.names[j]}" for i, j in zip(first, second, strict=True)),
        )

    def exact(self, counts: Counts) -> Integers | Floats:
        """The true Gram matrix, for the owner of the table."""
        sums, pairs = counts.fold(Products(self.columns)), len(self.entries)
        signs = self.columns.reaches == 0
        both = np.logical_and.outer(signs, signs)[np.triu_indices(self.columns.width, 1)]
        entries = np.where(both, self.n - 2 * sums[:pairs], sums[:pairs])
        return replace(self, entries=entries, squares=sums[pairs:]).matrix


def _symmetric(entries: Integers, diagonal: int) -> Integers:
    width = (1 + round((1 + 8 * len(entries)) ** 0.5)) // 2
    result = np.zeros((width, width), dtype=np.int64)
    result[np.triu_indices(width, 1)] = entries
    result += result.T
    np.fill_diagonal(result, diagonal)
    return result
