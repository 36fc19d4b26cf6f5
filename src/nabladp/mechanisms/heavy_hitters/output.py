"""What HeavyHitters returns. Everything here is made from published numbers: it never sees the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.displayed import drawn
from nabladp.errors import MechanismError
from nabladp.mechanisms.heavy_hitters.engine.finding import Found
from nabladp.mechanisms.heavy_hitters.expectation import certificate
from nabladp.mechanisms.heavy_hitters.intervals import after_passing
from nabladp.mechanisms.heavy_hitters.settings import Settings
from nabladp.mechanisms.heavy_hitters.view import combination_labels, count_combinations, heavy_views
from nabladp.mechanisms.mechanism import Output, ReleaseContext
from nabladp.noise import half_width
from nabladp.schema import Schema
from nabladp.views.compared import Compared
from nabladp.views.view import View

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

    from nabladp.tables import Counts

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class NodeList:
    """The strings that one node of the tree listed: a row each, a code for every attribute of the node."""

    attributes: tuple[str, ...]
    codes: Integers

    def to_json(self) -> dict[str, Any]:
        return {"attributes": list(self.attributes), "codes": self.codes.tolist()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeList:
        names = tuple(data["attributes"])
        return cls(names, np.array(data["codes"], np.int64).reshape(-1, len(names)))


@dataclass(frozen=True, eq=False, repr=False)
class HeavyList(Output):
    """The combinations found, most frequent first, with noisy counts. ``codes`` has a column for each of ``names``.

    With probability at least 1 − ``failure`` every combination of at least ``certified`` rows is here and its count is
    within ± ``error``, and nothing that is not here has ``unlisted`` rows or more.
    """

    names: tuple[str, ...]
    n: int
    codes: Integers
    counts: Integers
    settings: Settings
    node_lists: tuple[NodeList, ...] = ()

    @classmethod
    def of(cls, found: Found, settings: Settings, names: Sequence[str], n: int, keep_lists: bool) -> HeavyList:
        order = np.lexsort((*found.strings.T[::-1], -found.counts))
        kept = [position for position, node in enumerate(found.tree.nodes) if node.thresholded] if keep_lists else []
        lists = tuple(
            NodeList(tuple(names[a] for a in found.tree.nodes[position].attributes), found.strings_of(position))
            for position in kept
        )
        return cls(tuple(names), n, found.strings[order], found.counts[order], settings, lists)

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        return f"HeavyList({len(self):,} combinations of {len(self.names):,} attributes among {self.n:,} rows)"

    # ---- what is promised -----------------------------------------------------------------------------------------

    @property
    def certified(self) -> int | None:
        """None where nothing could be promised."""
        return None if self.settings.certified > self.n else self.settings.certified

    @property
    def error(self) -> int | None:
        return None if self.certified is None else self.settings.count_error

    @property
    def unlisted(self) -> int:
        """What is not listed has fewer rows than this, with probability 1 − ``failure``."""
        return min(self.settings.unlisted, self.n + 1)

    @property
    def failure(self) -> float:
        return self.settings.failure

    def interval(self, level: float = LEVEL) -> tuple[Integers, Integers]:
        """For each count, bounds that hold the number of rows with probability at least ``level``, given it is listed.

        Pure: the counts have noise of their own. Concentrated: a count is listed for being above a threshold, so the
        interval is that of the noise given that it is; near the threshold it reaches down to 0.
        """
        if self.settings.count_scale is not None:
            width = half_width("laplace", self.settings.count_scale, level)
            low, high = self.counts - width, self.counts + width
        else:
            root = self.settings.levels[-1]
            low, high = after_passing(self.counts, root.threshold, root.scale, self.n, level)
        return np.clip(low, 0, self.n), np.clip(high, 0, self.n)

    @cached_property
    def _interval(self) -> tuple[Integers, Integers]:
        return self.interval()

    # ---- choosing -------------------------------------------------------------------------------------------------

    def at_least(self, count: int) -> HeavyList:
        """Only the combinations whose noisy count is at least this; free of cost."""
        return self._take(self.counts >= count)

    def heaviest(self, many: int) -> HeavyList:
        return self._take(np.arange(len(self)) < many)

    def _take(self, kept: NDArray[np.bool_]) -> HeavyList:
        return HeavyList(self.names, self.n, self.codes[kept], self.counts[kept], self.settings, self.node_lists)

    # ---- keeping --------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        low, high = self._interval
        body: dict[str, Any] = {"attributes": list(self.names), "n": self.n, "level": LEVEL}
        body |= certificate(self.settings, self.n) | {"settings": self.settings.to_json()}
        body |= {"codes": self.codes.tolist(), "counts": self.counts.tolist()}
        body |= {"low": low.tolist(), "high": high.tolist()}
        return body | ({"lists": [found.to_json() for found in self.node_lists]} if self.node_lists else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> HeavyList:
        names = tuple(data["attributes"])
        schema.sizes(names)
        codes, counts = np.array(data["codes"], np.int64).reshape(-1, len(names)), np.array(data["counts"], np.int64)
        if len(codes) != len(counts):
            raise MechanismError("There are not as many counts as combinations.", fix="Read them from a release.")
        settings = Settings.from_json(data["settings"])
        lists = tuple(NodeList.from_json(found) for found in data.get("lists", ()))
        return cls(names, int(data["n"]), codes, counts, settings, lists)

    def to_arrow(self, schema: Schema) -> pa.Table:
        """One row a combination: its values, its noisy count and the 95% interval."""
        import pyarrow as pa

        from nabladp.tables.decode import decode

        table = decode(schema, {name: self.codes[:, i] for i, name in enumerate(self.names)})
        taken = set(table.column_names)
        for label, column in zip(("count", "low", "high"), (self.counts, *self._interval), strict=True):
            while label in taken:
                label += "_"
            table = table.append_column(label, pa.array(column))
        return table

    def extra_tables(self, schema: Schema) -> dict[str, pa.Table]:
        """Every node's list, where that was asked for: attributes and codes of each string."""
        if not self.node_lists:
            return {}
        import pyarrow as pa

        rows = [(node, found, codes) for node, found in enumerate(self.node_lists) for codes in found.codes.tolist()]
        return {
            "lists": pa.table(
                {
                    "node": pa.array([node for node, _, _ in rows], pa.int64()),
                    "attributes": pa.array([found.attributes for _, found, _ in rows], pa.list_(pa.string())),
                    "codes": pa.array([codes for _, _, codes in rows], pa.list_(pa.int64())),
                }
            )
        }

    # ---- showing --------------------------------------------------------------------------------------------------

    def views(self, context: ReleaseContext) -> list[View]:
        return heavy_views(self.to_json(), context.schema)

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        yield Compared.of(
            "frequent combinations",
            "count",
            self.counts,
            count_combinations(counts, self.names, self.codes),
            self.interval(),
            labels=combination_labels(context.schema, self.names, self.codes),
        )

    def plot(self, schema: Schema) -> alt.LayerChart:
        """The most frequent combinations as bars with their intervals, and a line at the certified count."""
        chart: alt.LayerChart = drawn("combinations", self, schema)
        return chart
