"""What DistributionEstimate returns: probabilities made from a published histogram. It never sees the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.checks import damaged, is_number, is_share, stored, stored_rows
from nabladp.displayed import draw_plot
from nabladp.errors import MechanismError
from nabladp.mechanisms.distribution_estimate.squared_error import SquaredError
from nabladp.mechanisms.heavy_hitters.view import (
    REST,
    combination_columns,
    combination_labels,
    count_combinations,
    first_combination,
    names_title,
    rest_row,
)
from nabladp.mechanisms.mechanism import Output, ReleaseContext
from nabladp.mechanisms.tidy import label_column, tidy_table
from nabladp.schema import Schema
from nabladp.views.compared import Compared
from nabladp.views.view import Series, View, count_of, format_figure, format_percent, round_digits, value_column

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

    from nabladp.tables import Counts


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(Output):
    """Probabilities of the combinations that were kept, most frequent first; all others have probability 0.

    ``codes`` has a column for each of ``names``; ``counts`` are the noisy counts that were released.
    """

    names: tuple[str, ...]
    n: int
    codes: Integers
    counts: Integers
    count_variance: float
    error: SquaredError | None  # None for a table without rows
    failure: float
    schema: Schema

    def __repr__(self) -> str:
        return (
            f"Distribution({len(self.counts):,} combinations of {len(self.names):,} attributes, rest {self.rest:.3g})"
        )

    @cached_property
    def probabilities(self) -> Floats:
        """The estimated probabilities: counts over n, moved to the nearest that are not negative and sum to at most
        1."""  # [nearest]
        shares: Floats = np.maximum(self.counts, 0) / max(self.n, 1)
        if shares.sum() <= 1:
            return shares
        ordered = np.sort(shares)[::-1]
        excess = (np.cumsum(ordered) - 1) / np.arange(1, len(ordered) + 1)
        moved: Floats = np.maximum(shares - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)
        moved /= max(float(moved.sum()), 1.0) * (1 + 1e-12)  # so that rounding leaves nothing above 1
        return moved

    @property
    def rest(self) -> float:
        """The estimated probability of all combinations that were not kept."""
        return max(0.0, 1.0 - float(self.probabilities.sum()))

    @property
    def error_estimate(self) -> float | None:
        """The distribution's estimated squared error against the rows, from the noise variance and the bound on what
        was left out.

        A figure for orientation: kept counts are those that came out large, and what was left out may be less.
        """
        if self.error is None:
            return None
        hidden = self.rest * (self.error.hidden_below - 1) / self.n
        return min(len(self.counts) * self.count_variance / self.n**2 + hidden, 2.0)

    def probability(self, data: Any) -> Floats:
        """The estimated probability of every row of a data frame, an Arrow table or a mapping of columns."""
        from nabladp.mechanisms.learners.columns import encoded

        rows = np.ascontiguousarray(encoded(data, self.schema, self.names))
        return np.array([self._known.get(row.tobytes(), 0.0) for row in rows], dtype=np.float64)

    @cached_property
    def _known(self) -> dict[bytes, float]:
        rows = np.ascontiguousarray(self.codes)
        return {row.tobytes(): float(p) for row, p in zip(rows, self.probabilities, strict=True)}

    def plot(self, schema: Schema) -> alt.Chart:
        """The most probable combinations as bars."""
        chart: alt.Chart = draw_plot("probabilities", self, schema)
        return chart

    # ---- keeping --------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "attributes": list(self.names),
            "n": self.n,
            "codes": self.codes.tolist(),
            "counts": self.counts.tolist(),
            "probabilities": self.probabilities.tolist(),
            "count_variance": self.count_variance,
            "error": None if self.error is None else self.error.to_json(),
            "error_estimate": self.error_estimate,
            "failure": self.failure,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> Distribution:
        names, error = tuple(data["attributes"]), data["error"]
        schema.sizes(names)
        codes, counts = np.array(data["codes"], np.int64).reshape(-1, len(names)), np.array(data["counts"], np.int64)
        if len(codes) != len(counts):
            raise MechanismError("There are not as many counts as combinations.", fix="Read them from a release.")
        if not ((codes >= 0) & (codes < np.array(schema.sizes(names)))).all():
            raise damaged("codes")
        n, failure = stored_rows(data), stored(data, "failure", is_share)
        variance = stored(data, "count_variance", lambda value: is_number(value) and value >= 0)
        if error is not None and (n == 0 or not all(map(is_number, error.values()))):
            raise damaged("error")
        known = None if error is None else SquaredError(**error)
        return cls(names, n, codes, counts, variance, known, failure, schema)

    def values_table(self, schema: Schema) -> pa.Table:
        """One row per combination with its estimated probability and the noisy count behind it; the last row, without
        values, is everything else."""
        codes = np.vstack([self.codes, np.full((1, len(self.names)), -1)])
        names = {name: label_column(schema[name], codes[:, i]) for i, name in enumerate(self.names)}
        noisy = np.append(self.counts.astype(np.float64), np.nan)
        return tidy_table(names, {"value": [*self.probabilities, self.rest], "noisy_count": noisy})

    # ---- showing --------------------------------------------------------------------------------------------------

    def explanation(self) -> str:
        return (
            "Combinations of values were counted with random noise, and counts too small to be told from noise were "
            "left out: a number estimates how probable the combination is, and the rest is everything else."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        schema, names, codes = context.schema, self.names, self.codes.tolist()
        columns, rows = combination_columns(schema, names, codes)
        width, shares = len(columns), self.probabilities.tolist()
        rest = round(max(0.0, 1.0 - sum(shares)), 6)
        noise = format_figure(self.count_variance**0.5)
        facts = [("noise of a count", f"deviation {noise} of {self.n:,} rows")]
        if self.error is not None:
            chance = format_percent(1 - self.failure)
            facts += [
                ("predicted squared error, all together", f"{format_figure(self.error.mean)} on average at most"),
                (f"squared error with probability {chance}", f"{format_figure(self.error.bound)} at most"),
                ("what is not listed", f"has fewer than {self.error.hidden_below:,} rows with probability {chance}"),
            ]
        listed = View(
            title=f"probabilities of {names_title(schema, names)}",
            kind="bars",
            columns=[*columns, value_column("probability", "share", width)],
            rows=[
                *([*row, round_digits(share)] for row, share in zip(rows, shares, strict=True)),
                [*rest_row(columns), rest],
            ],
            summary=f"{count_of(len(rows), 'combination')}; everything else {format_percent(rest)}",
            facts=facts,
            names=range(width),
            series=[Series("probability", width)],
            caption="Estimated probabilities, made from noisy counts",
        )
        return [listed, *first_combination(schema, names, codes)]

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        shares = count_combinations(counts, self.names, self.codes) / max(self.n, 1)
        yield Compared.of(
            "probabilities",
            "share",
            np.append(self.probabilities, self.rest),
            np.append(shares, 1 - shares.sum()),
            labels=(*combination_labels(context.schema, self.names, self.codes), REST),
        )
