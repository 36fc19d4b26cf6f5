"""What Projection returns: every query's noisy and projected answer, with intervals and a bound on the whole error.

Everything here is post-processing of published numbers: it never sees the data again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.checks import damaged, is_number, stored_rows
from nabladp.errors import MechanismError
from nabladp.mechanisms.mechanism import Output, ReleaseContext
from nabladp.mechanisms.query_views import (
    QueryViews,
    as_shares,
    compare_queries,
    group_texts,
    query_names,
    query_runs,
)
from nabladp.mechanisms.tidy import tidy_table
from nabladp.noise import half_width
from nabladp.noise.parameters import confidence
from nabladp.schema import Schema
from nabladp.views.compared import Compared
from nabladp.views.view import View, format_percent, format_range
from nabladp.workloads import Queries, Workload, as_workload

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts

LEVEL = 0.95


@lru_cache(maxsize=4096)  # thousands of groups share a few scales
def _half_width(scale: float, level: float) -> int:
    return half_width("gaussian", scale, level)


@dataclass(frozen=True)
class Answer:
    """One query's answer, as a share of the rows, before and after projection, each with its interval."""

    query: str
    noisy: float
    low: float
    high: float
    projected: float
    projected_low: float
    projected_high: float


@dataclass(frozen=True)
class HullNote:
    """How the answers were projected: onto the exact hull of all records, or onto pieces that contain it.

    ``moved`` and ``gap`` are squared distances in units of the noise, summed over the pieces: what the projection took
    off, and by how much each piece's point may miss the nearest. ``unfinished`` pieces met a limit of the search.
    """

    exact: bool
    pieces: int
    records: int  # of the largest piece
    moved: float
    gap: float
    unfinished: int = 0


@dataclass(frozen=True, eq=False)
class ProjectedAnswers(Output):
    """All answers of one release. ``answers`` are projected shares; ``noisy`` the integers that came from the data.

    ``output["region", "income"]`` are the queries on these attributes. ``scales`` are those of the integer noise, one
    for each group of queries.
    """

    workload: Workload
    queries: Queries
    n: int
    noisy: Integers
    answers: Floats
    scales: tuple[float, ...]
    hull: HullNote

    @property
    def schema(self) -> Schema:
        return self.queries.schema

    def __len__(self) -> int:
        return len(self.noisy)

    def __repr__(self) -> str:
        how = "the exact hull" if self.hull.exact else f"{self.hull.pieces:,} pieces"
        return f"ProjectedAnswers({len(self):,} queries on {self.n:,} rows, projected onto {how})"

    # ---- shares ---------------------------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> Integers:
        """The divisor that turns a query's integer numerator into a share of rows."""
        return self.queries.grids * max(self.n, 1)

    def _each(self, by_group: Sequence[float]) -> Floats:
        return np.repeat(np.asarray(by_group, dtype=np.float64), np.diff(self.queries.starts))

    @property
    def noisy_answers(self) -> Floats:
        """Every query's noisy answer before projection, as a share: unbiased, independent, possibly below 0 or above
        1."""
        return self.noisy / self._rows

    @property
    def deviations(self) -> Floats:
        """The noise scale of every noisy answer, as a share."""
        return self._each(self.scales) / self._rows

    def interval(self, projected: bool = True, level: float = LEVEL) -> tuple[Floats, Floats]:
        """Bounds on each query's true share, before or after projection, right with probability at least ``level``.

        Before projection: the noisy answer, more or less what the noise allows. After: that interval cut to [0, 1],
        where the truth lies, and widened where it does not hold the projected answer.
        """
        width = self._each([_half_width(scale, level) for scale in self.scales]).astype(np.int64)
        low, high = (self.noisy - width) / self._rows, (self.noisy + width) / self._rows
        if not projected:
            return low, high
        return np.minimum(np.clip(low, 0, 1), self.answers), np.maximum(np.clip(high, 0, 1), self.answers)

    def error_bound(self, level: float = LEVEL) -> float:
        """A bound on the mean squared error of all projected answers, right with probability at least ``level``.

        Where queries have noise of different scales, the mean weighs each by 1/scale².
        """
        confidence(level)
        weights = self.deviations**-2.0
        allowed = math.log(1 / (1 - level))
        noise = len(self) + 2 * math.sqrt(len(self) * allowed) + 2 * allowed
        left = max(0.0, noise - self.hull.moved + self.hull.gap)  # [certificate]
        farthest = float(weights @ np.maximum(np.abs(self.answers), np.abs(1 - self.answers)) ** 2)
        return min(left, farthest) / float(weights.sum())

    # ---- looking up -----------------------------------------------------------------------------------------------

    @cached_property
    def _by_set(self) -> dict[frozenset[str], list[int]]:
        results: dict[frozenset[str], list[int]] = {}
        for number, group in enumerate(self.queries.groups):
            results.setdefault(frozenset(group.attributes), []).append(number)
        return results

    def __getitem__(self, names: str | tuple[str, ...]) -> tuple[Answer, ...]:
        wanted = (names,) if isinstance(names, str) else tuple(names)
        self.schema.sizes(wanted)
        if frozenset(wanted) not in self._by_set:
            asked = ["+".join(chosen) for chosen in self.queries.sets[:8]]
            raise MechanismError(f"Nothing was asked on {'+'.join(wanted)}.", fix=f"Asked on: {', '.join(asked)}, ….")
        starts = self.queries.starts
        numbers = self._by_set[frozenset(wanted)]
        indices = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in numbers])
        texts = [text for number in numbers for text in group_texts(self.schema, self.queries.groups[number])]
        columns = [column[indices].tolist() for column in self._columns]
        return tuple(Answer(*row) for row in zip(texts, *columns, strict=True))

    @cached_property
    def _columns(self) -> tuple[Floats, ...]:
        return (self.noisy_answers, *self.interval(projected=False), self.answers, *self.interval())

    # ---- keeping --------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        scales = self.scales[:1] if len(set(self.scales)) == 1 else self.scales
        return {
            "n": self.n,
            "workload": self.workload.to_json(),
            "hull": asdict(self.hull),
            "level": LEVEL,
            "error_bound": self.error_bound(),
            "scales": list(scales),
            "noisy": self.noisy.tolist(),
            "answers": self.answers.tolist(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> ProjectedAnswers:
        workload = as_workload(data["workload"])
        queries = workload.bind(schema)
        scales = tuple(float(scale) for scale in data["scales"])
        noisy, answers = np.array(data["noisy"], dtype=np.int64), np.array(data["answers"], dtype=np.float64)
        if len(scales) not in (1, len(queries.groups)) or not len(noisy) == len(answers) == len(queries):
            raise MechanismError("These are not the answers to this workload.", fix="Read them from a release.")
        scales = scales * len(queries.groups) if len(scales) == 1 else scales
        if not np.isfinite(answers).all():
            raise damaged("answers")
        if not all(isinstance(value, bool) or is_number(value) for value in data["hull"].values()):
            raise damaged("hull")
        return cls(workload, queries, stored_rows(data), noisy, answers, scales, HullNote(**data["hull"]))

    def values_table(self, schema: Schema) -> pa.Table:
        """One row per query: its text, the projected answer with its interval, the noise scale; and the noisy answer
        with its own."""
        labels = ("noisy", "noisy_low", "noisy_high", "value", "low", "high")
        numbers = dict(zip(labels, self._columns, strict=True))
        return tidy_table(query_names(self.queries), numbers | {"noise_scale": self.deviations})

    # ---- showing --------------------------------------------------------------------------------------------------

    def explanation(self) -> str:
        return (
            "Every query was answered with random noise, and all answers were then moved together to the nearest ones "
            "that a table could give: a number estimates the share of rows that meet the query."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        """Views of every answer before and after projection."""
        scales, level, bound = self.deviations, format_percent(LEVEL), format_percent(math.sqrt(self.error_bound()))

        def facts(numbers: Integers) -> list[tuple[str, str]]:
            return [
                ("noise of an answer", f"discrete Gaussian, scale {format_range(scales[numbers])} of the rows"),
                (
                    "error of all projected answers",
                    f"at most {bound} with probability {level}, as a root mean square",
                ),
                ("interval", f"of the noisy answer, {level} each"),
            ]

        return QueryViews(
            schema=context.schema,
            runs=query_runs(self.queries),
            columns=dict(zip(("noisy", "low", "high", "projected"), map(as_shares, self._columns), strict=False)),
            series=(("noisy, with its interval", "noisy"), ("projected", "projected")),
            squares="projected",
            facts=facts,
            caption="Shares of the rows, before and after projection",
            note="Projected answers lie where some table's answers do; their interval is that of the noisy ones, cut "
            "to 0 … 100%, and widened where it does not hold them.",
        ).views()

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        truth = self.queries.counts(counts) / self._rows
        yield from compare_queries(self.queries, self.answers, truth, self.interval())
