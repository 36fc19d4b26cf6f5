"""What Statistics returns: noisy sums, and the answers made of them with their intervals and their bill."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.errors import ReleaseError
from nabladp.mechanisms.mechanism import ExpectedError, Output
from nabladp.mechanisms.statistics.answer import LEVEL, Answer, Estimator
from nabladp.mechanisms.statistics.calibration import Calibration
from nabladp.mechanisms.statistics.estimates import Measured, mean, quantile_of_noise
from nabladp.noise import variance
from nabladp.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts


@dataclass(frozen=True)
class StatisticError(ExpectedError):
    """The noise of one aggregate: half of its interval, in a group of average size (None where n is not known)."""

    query: int
    aggregate: str
    groups: int
    half_width: float | None
    unit: str

    def values_written(self) -> int:
        return self.groups

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_release(cls, calibration: Calibration, n: int) -> tuple[StatisticError, ...]:
        found = []
        for number, query in enumerate(calibration.plan.queries):
            for index, aggregate in enumerate(query.aggregates):
                grouping = query.grouping[0]
                groups = query.cells(grouping)
                width = _half_width(calibration, number, grouping, index, n) if n else None
                name = aggregate.function + (f"({aggregate.value_text})" if aggregate.value_text else "")
                unit = "rows" if aggregate.function.startswith("count") else "the value's own"
                found.append(cls(number + 1, name, groups, width, unit))
        return tuple(found)


def _half_width(calibration: Calibration, number: int, grouping: tuple[int, ...], index: int, n: int) -> float | None:
    """Of a group with n/groups rows whose values lie in the middle of their range."""
    query = calibration.plan.queries[number]
    places = calibration.plan.places[number, grouping, index]
    function = query.aggregates[index].function
    z = quantile_of_noise(LEVEL, calibration.pure)
    rows = n / query.cells(grouping)

    def deviation(kind: str) -> float:
        own = calibration.plan.blocks[places[kind]]
        kinds = [part.kind for part in own.parts]
        at = kinds.index(kind) if kind in kinds else kinds.index("squares")
        scales = calibration.scales(places[kind], at, n)
        merged = own.cells // max(1, query.cells(grouping))
        noise = "laplace" if calibration.pure else "gaussian"
        return 0.0 if scales is None else math.sqrt(variance(noise, scales[0]) * merged)  # type: ignore[arg-type]

    if function in ("count", "count_distinct"):
        return z * deviation(next(iter(places)))
    if function == "sum" and "total" in places:
        block = calibration.plan.blocks[places["total"]]
        part = next(part for part in block.parts if part.kind == "total")
        return z * deviation("total") * calibration.grid(block, part, n).step
    if function in ("avg", "sum") or function.startswith(("var", "stddev")):
        kind = "sum" if "sum" in places else "squares"
        block = calibration.plan.blocks[places[kind]]
        part = next(part for part in block.parts if part.kind in ("sum", "squares"))
        grid = calibration.grid(block, part, n)
        counts = deviation("values" if "values" in places else "count")
        interval = mean(Measured(np.zeros(1), deviation(kind)), Measured(np.full(1, rows), counts), grid, z)
        width = float(interval.high[0] - interval.low[0]) / 2
        return width * rows if function == "sum" else width
    return None


@dataclass(frozen=True, eq=False)
class StatisticsOutput(Output):
    """``numbers``: for every block and part an array with a row for each group. ``answers`` are what people read."""

    schema: Schema
    sql: tuple[str, ...]
    quantiles: str
    calibration: Calibration
    numbers: tuple[tuple[Any, ...], ...]
    n: int

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        estimator = Estimator(self.calibration, self.numbers, self.n)
        return tuple(Answer(query, estimator, i) for i, query in enumerate(self.calibration.plan.queries))

    @property
    def answer(self) -> Answer:
        """The answer to the first query."""
        return self.answers[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "sql": list(self.sql),
            "quantiles": self.quantiles,
            "n": self.n,
            "pure": self.calibration.pure,
            "units": [[None if own is None else str(own) for own in block] for block in self.calibration.units],
            "numbers": [[part.tolist() for part in block] for block in self.numbers],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> StatisticsOutput:
        from nabladp.mechanisms.statistics.blocks import plan_blocks
        from nabladp.privacy.universe import Universe
        from nabladp.sql.query import parse_query

        try:
            sql, pure, n = tuple(map(str, data["sql"])), bool(data["pure"]), int(data["n"])
            plan = plan_blocks([parse_query(text, schema) for text in sql], str(data["quantiles"]), pure)
            units = tuple(tuple(None if own is None else int(own) for own in block) for block in data["units"])
            numbers = tuple(tuple(np.array(part, dtype=np.int64) for part in block) for block in data["numbers"])
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise ReleaseError("The stored answers are damaged.", fix="Restore the release from a copy.") from error
        calibration = Calibration(plan, Universe.of(schema), pure, units)
        return cls(schema, sql, str(data["quantiles"]), calibration, numbers, n)

    def to_arrow(self, schema: Schema) -> pa.Table:
        """The answer; of several queries one under the other, with a row for each number."""
        if len(self.answers) == 1:
            return self.answer.to_arrow()
        import pyarrow as pa

        rows = []
        for number, answer in enumerate(self.answers):
            for row in answer.rows:
                keys = {name: row[name] for name in row if f"{name}_low" not in row and not name.endswith(("_low", "_high"))}
                group = ", ".join(f"{name} = {value}" for name, value in keys.items())
                for name in (name for name in row if f"{name}_low" in row):
                    rows.append((number + 1, group, name, row[name], row[f"{name}_low"], row[f"{name}_high"]))
        names = ("query", "group", "column", "value", "low", "high")
        return pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})

    def truth(self, counts: Counts) -> StatisticsOutput | None:
        return None
