"""What HeavyHitters returns. Everything here is made from published numbers: it never sees the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.checks import damaged, stored_rows
from nabladp.displayed import draw_plot
from nabladp.errors import MechanismError
from nabladp.mechanisms.heavy_hitters.certificate import gaussian_tails
from nabladp.mechanisms.heavy_hitters.search import SearchResult
from nabladp.mechanisms.heavy_hitters.settings import Settings
from nabladp.mechanisms.heavy_hitters.view import combination_labels, count_combinations, heavy_views
from nabladp.mechanisms.mechanism import ErrorMeasure, ExpectedError, Output, ReleaseContext
from nabladp.mechanisms.tidy import label_column, tidy_table
from nabladp.noise import half_width
from nabladp.noise.parameters import confidence
from nabladp.schema import Schema
from nabladp.views.compared import Compared
from nabladp.views.view import View

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

    from nabladp.tables import Counts


# ---- intervals for counts that passed a threshold --------------------------------------------------------------------

_SEEN = 30  # scales below a threshold from which on tails are computed


def after_passing(shown: Integers, threshold: int, scale: float, n: int, level: float) -> tuple[Integers, Integers]:
    """Bounds on the exact count f, 0 ≤ f ≤ n, of a listed string from shown = f + Z > threshold, Z discrete Gaussian;
    right with probability ≥ ``level`` given that it passed.

    Given that, the chance of a value as large as the one shown grows with f: f is too small where that chance is below
    half of what is allowed, and too large where that of a value as small is.
    """
    confidence(level)
    values, which = np.unique(shown, return_inverse=True)
    allowed = (1 - level) / 2

    def chance(f: Integers, start: Integers) -> Floats:
        """Pr[f + Z ≥ start | f + Z > threshold]."""
        scales = np.array([scale])
        among = gaussian_tails((threshold + 1 - f)[None, :].astype(np.float64), scales)[0]
        return np.asarray(gaussian_tails((start - f)[None, :].astype(np.float64), scales)[0] / among)

    least = min(n, max(0, threshold + 1 - int(_SEEN * scale)))
    low = _first(lambda f: chance(f, values) > allowed, len(values), least, n)
    low[low == least] = 0  # and all below: their tails are too thin to tell apart
    high = _first(lambda f: 1 - chance(f, values + 1) < allowed, len(values), least, n) - 1
    return low[which], np.maximum(high, low)[which]


def _first(holds: Callable[[Integers], NDArray[np.bool_]], many: int, least: int, n: int) -> Integers:
    """For each string, the first count f in least … n from which on the condition holds, n + 1 if none does, by
    bisection."""
    low, high = np.full(many, least, np.int64), np.full(many, n + 1, np.int64)
    while np.any(low < high):
        middle = (low + high) // 2
        here = holds(middle)
        open_ = low < high
        high = np.where(open_ & here, middle, high)
        low = np.where(open_ & ~here, middle + 1, low)
    return low


# ---- what to expect before anything is spent -------------------------------------------------------------------------


@dataclass(frozen=True)
class HeavyHittersError(ExpectedError):
    """``settings`` hold the certificate; they are None where the number of rows is not known."""

    settings: Settings | None
    attributes: int
    n: int
    person: int | None  # the count that noise on every possible combination could certify at this budget per person

    @classmethod
    def of(cls, settings: Settings | None, sizes: tuple[int, ...], n: int, budget: float) -> HeavyHittersError:
        if settings is None:
            return cls(None, len(sizes), n, None)
        strings = math.fsum(math.log(size) for size in sizes)
        person = _per_person(settings, strings, budget)
        if sum(node.thresholded for node in settings.tree.nodes) == 1:  # costs a person what it costs an attribute
            person = min(person, settings.certified)
        return cls(settings, len(sizes), n, person)

    def values_written(self) -> int:
        return 0 if self.settings is None else math.ceil(min(self.settings.expected_list, 1e6)) * (self.attributes + 4)

    @property
    def promised(self) -> bool:
        """Whether a combination that all rows share would be listed for certain."""
        return self.settings is not None and self.settings.certified <= self.n

    def measure(self, rows: int) -> ErrorMeasure:
        value = self.settings.certified / self.n if self.settings is not None and self.promised else None
        what = "Rows that must share a combination for it to be found, as a share of all"
        return ErrorMeasure(what, value, small=0.02, useless=0.5, advice="ask about fewer attributes")

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"n": self.n, "attributes": self.attributes}
        if self.settings is not None:
            body |= {"certificate": certificate(self.settings, self.n), "per_person_certified": self.person}
        return body | {"summary": self._summary()}

    def _summary(self) -> dict[str, Any]:
        settings = self.settings
        if settings is None or not self.promised:
            unknown = "until the number of rows is known (rows = … under [table])"
            why = unknown if settings is None else "with so few rows at this budget"
            return {"attributes": self.attributes, "promised": f"nothing {why}"}
        return {
            "attributes": self.attributes,
            "rows that must share a combination for it to be found": settings.certified,
            "rows that must share a combination, as a share of all": settings.certified / self.n,
            "error of the count of such a combination, ± at most": settings.count_error,
            "probability that all these bounds hold, at least": 1 - settings.failure,
            "rows that must share a combination, at the same budget per person": self.person,
            "lists of the tree, expected length at most": math.ceil(settings.expected_list),
            "levels of the tree": len(settings.levels),
            "memory in MB, at most": math.ceil(settings.memory / 2**20),
        }


def certificate(settings: Settings, n: int) -> dict[str, Any]:
    """The HeavyHitters certificate for any data of n rows, as plain numbers for the summary."""
    return {
        "certified": settings.certified if settings.certified <= n else None,
        "count_error": settings.count_error,
        "unlisted_below": settings.unlisted,
        "failure": settings.failure,
        "expected_list": settings.expected_list,
    }


def _per_person(settings: Settings, log_strings: float, budget: float) -> int:
    """The certified count if the whole budget bought one per-person histogram: no empty cell above t, no cell of 2t
    rows below it, t by a union bound.

    Laplace noise of scale 2/ε, or Gaussian of scale 1/√ρ: one person moves two cells.
    """
    reach = log_strings + math.log(2 / settings.failure)
    noise = 2 / budget * reach if settings.notion == "pure" else math.sqrt(2 * reach / budget)
    return math.ceil(2 * noise)


# ---- the output ------------------------------------------------------------------------------------------------------

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
        if not names or not all(isinstance(name, str) for name in names):
            raise damaged("attributes")
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
    list_lengths: tuple[int, ...] = ()  # of every node, in the order of the tree; not part of the record

    @classmethod
    def of(cls, result: SearchResult, settings: Settings, names: Sequence[str], n: int, keep_lists: bool) -> HeavyList:
        order = np.lexsort((*result.strings.T[::-1], -result.counts))
        kept = [position for position, node in enumerate(result.tree.nodes) if node.thresholded] if keep_lists else []
        lists = tuple(
            NodeList(tuple(names[a] for a in result.tree.nodes[position].attributes), result.strings_of(position))
            for position in kept
        )
        lengths = tuple(map(len, result.lists))
        return cls(tuple(names), n, result.strings[order], result.counts[order], settings, lists, lengths)

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        return f"HeavyList({len(self):,} combinations of {len(self.names):,} attributes among {self.n:,} rows)"

    # ---- what is promised -----------------------------------------------------------------------------------------

    @property
    def certified(self) -> int | None:
        """The certified count of the released list; None where nothing could be promised."""
        return None if self.settings.certified > self.n else self.settings.certified

    @property
    def error(self) -> int | None:
        return None if self.certified is None else self.settings.count_error

    @property
    def unlisted(self) -> int:
        """Combinations that are not listed are held by fewer rows than this, with probability 1 − ``failure``."""
        return min(self.settings.unlisted, self.n + 1)

    @property
    def failure(self) -> float:
        return self.settings.failure

    def interval(self, level: float = LEVEL) -> tuple[Integers, Integers]:
        """For each noisy count, bounds on the number of rows, right with probability at least ``level`` given it is
        listed.

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
        """The frequent combinations whose noisy count is at least this; free of cost."""
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
        return body | ({"lists": [one.to_json() for one in self.node_lists]} if self.node_lists else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> HeavyList:
        names = tuple(data["attributes"])
        schema.sizes(names)
        codes, counts = np.array(data["codes"], np.int64).reshape(-1, len(names)), np.array(data["counts"], np.int64)
        if len(codes) != len(counts):
            raise MechanismError("There are not as many counts as combinations.", fix="Read them from a release.")
        settings = Settings.from_json(data["settings"])
        lists = tuple(NodeList.from_json(one) for one in data.get("lists", ()))
        return cls(names, stored_rows(data), codes, counts, settings, lists)

    def values_table(self, schema: Schema) -> pa.Table:
        """One row per frequent combination: its values, its noisy count and the 95% interval."""
        low, high = self._interval
        names = {name: label_column(schema[name], self.codes[:, i]) for i, name in enumerate(self.names)}
        scales = np.full(len(self), self.settings.count_scale or self.settings.levels[-1].scale)
        return tidy_table(names, {"value": self.counts, "low": low, "high": high, "noise_scale": scales})

    def extra_tables(self, schema: Schema) -> dict[str, pa.Table]:
        """The list of every tree node, if asked for: attributes and codes of each string."""
        if not self.node_lists:
            return {}
        import pyarrow as pa

        rows = [(node, one, codes) for node, one in enumerate(self.node_lists) for codes in one.codes.tolist()]
        return {
            "lists": pa.table(
                {
                    "node": pa.array([node for node, _, _ in rows], pa.int64()),
                    "attributes": pa.array([one.attributes for _, one, _ in rows], pa.list_(pa.string())),
                    "codes": pa.array([codes for _, _, codes in rows], pa.list_(pa.int64())),
                }
            )
        }

    # ---- showing --------------------------------------------------------------------------------------------------

    def explanation(self) -> str:
        return (
            "Combinations of values that many rows share were searched for and counted with random noise: a number "
            "estimates how many rows share the combination, and one that is not listed is rare."
        )

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
        """The most frequent combinations as bars with intervals, and a line at the certified count."""
        chart: alt.LayerChart = draw_plot("combinations", self, schema)
        return chart
