"""A workload bound to a schema: a list of queries, each a number in [0, 1] for every record.

Queries on one set of attributes belong together: all are linear functions of that set's marginal. So a workload is a
list of sets and one sparse matrix from the cells of their marginals to the answers. Values that are not 0 or 1 are put
on a grid of 2⁻²⁰ once, as part of what the query *is*; sums over rows are then exact integers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Floats, Integers
from nabladp.checks import is_whole, name_or_names
from nabladp.errors import DomainTooLarge, MechanismError, OutOfRange
from nabladp.schema import Schema
from nabladp.workloads.sensitivity import Curve, Shift

if TYPE_CHECKING:
    from scipy.sparse import csr_array

GRID = 1 << 20
MOST_QUERIES = 1 << 22


class HasMarginals(Protocol):
    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[Integers]: ...


@dataclass(frozen=True, eq=False)
class Group:
    """Queries on one set of attributes that share a weight and a grid.

    ``values`` holds their values times ``grid``, one row a query, one column a cell of the set's marginal; None stands
    for one query a cell. ``texts`` says what each query asks.
    """

    attributes: tuple[str, ...]
    count: int
    weight: float
    shift: Shift
    values: Integers | None = None
    grid: int = 1
    texts: tuple[str, ...] | None = None
    cells: Integers | None = None  # where each query asks for one cell, but not all of them: which

    @property
    def is_identity(self) -> bool:
        return self.values is None and self.cells is None


def refuse_too_many(queries: int) -> None:
    if queries > MOST_QUERIES:
        raise DomainTooLarge(
            f"The workload has {queries:,} queries; the most is {MOST_QUERIES:,}.",
            fix="Lower k, name fewer attributes in 'over', or declare coarser domains.",
            queries=queries,
        )


class Queries:
    """What is asked, query by query. Answers are fractions of rows; ``counts`` are their integer numerators.

    ``curve``, where there is one, is the shift of all queries together; all of them then have one weight.
    """

    def __init__(self, schema: Schema, groups: Sequence[Group], curve: Curve | None = None) -> None:
        if not groups:
            raise MechanismError("The workload is empty.", fix="Ask for at least one query.")
        self.schema = schema
        self.groups = tuple(groups)
        self.curve = curve
        self.sets = tuple(dict.fromkeys(group.attributes for group in groups))
        self.starts = np.concatenate([[0], np.cumsum([group.count for group in groups])]).astype(np.int64)
        refuse_too_many(len(self))

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __repr__(self) -> str:
        return f"Queries({len(self):,} on {len(self.sets):,} sets of attributes)"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that the queries ask about, in the order of the schema."""
        used = {name for chosen in self.sets for name in chosen}
        return tuple(name for name in self.schema.names if name in used)

    @cached_property
    def cells(self) -> int:
        """The number of records over the queries' columns, exactly: |X|."""
        return self.schema.cells(self.names)

    # ---- one query ------------------------------------------------------------------------------------------------

    @cached_property
    def group_of(self) -> Integers:
        return np.repeat(np.arange(len(self.groups)), np.diff(self.starts))

    @cached_property
    def weights(self) -> Floats:
        return np.repeat([float(group.weight) for group in self.groups], np.diff(self.starts))

    @cached_property
    def grids(self) -> Integers:
        """The grid of every query: what an answer's integer numerator is divided by, besides the number of rows; 1, or
        more."""
        return np.repeat([group.grid for group in self.groups], np.diff(self.starts)).astype(np.int64)

    def attributes(self, query: int) -> tuple[str, ...]:
        """The columns on which this query depends."""
        return self._locate(query)[0].attributes

    def text(self, query: int) -> str:
        """The text of this query, for people."""
        group, inside = self._locate(query)
        if group.texts is not None:
            return group.texts[inside]
        cell = inside if group.cells is None else group.cells[inside]
        codes = np.unravel_index(cell, self.schema.sizes(group.attributes))
        return ", ".join(
            f"{name} = {self.schema[name].label(int(code))}" for name, code in zip(group.attributes, codes, strict=True)
        )

    def _locate(self, query: int) -> tuple[Group, int]:
        """The group that holds this query, and its index in the group."""
        if not is_whole(query, 0, len(self) - 1):
            raise OutOfRange(f"The workload has queries 0 to {len(self) - 1}.", fix="Give the number of one of these.")
        number = int(self.group_of[query])
        return self.groups[number], int(query - self.starts[number])

    # ---- how far one person moves the answers ---------------------------------------------------------------------

    def squared_shift(self, attributes: Collection[str]) -> float:
        """A bound on the squared sensitivity Δ_T²: the L2 distance of all answers (times n) when one row changes on T
        only.

        A derived column in T stands for its sources, and all that is derived from them moves with them.
        """
        affected = self._affected_columns(attributes)
        if self.curve is not None:
            return self.curve.squared_distance(affected)
        return math.fsum(group.shift.squared_distance(affected) for group in self.groups)

    def _affected_columns(self, attributes: Collection[str]) -> frozenset[str]:
        attributes = name_or_names(attributes)
        self.schema.sizes(attributes)  # refuses unknown names, which would seem to move nothing
        derived = self.schema.derived
        sources = {source for name in attributes for source in derived.get(name, (name,))}
        return frozenset(sources).union(name for name, behind in derived.items() if sources.intersection(behind))

    # ---- answers --------------------------------------------------------------------------------------------------

    @cached_property
    def offsets(self) -> dict[tuple[str, ...], int]:
        """Where the marginal of each query group's set starts in the list of all cells."""
        return dict(zip(self.sets, itertools.accumulate(self._widths, initial=0), strict=False))

    @cached_property
    def _widths(self) -> list[int]:
        sizes = {attribute.name: attribute.size for attribute in self.schema}
        return [math.prod([sizes[name] for name in chosen]) for chosen in self.sets]

    @cached_property
    def matrix(self) -> csr_array[Any]:
        """The query matrix from all cells of all sets to the answers' integer numerators."""
        from scipy.sparse import csr_array

        rows, columns, values = [], [], []
        for start, group in zip(self.starts, self.groups, strict=False):
            if group.values is None:
                row = np.arange(group.count)
                column = row if group.cells is None else group.cells
                value = np.ones(group.count, np.int64)
            else:
                row, column = np.nonzero(group.values)
                value = group.values[row, column]
            rows.append(row + start)
            columns.append(column + self.offsets[group.attributes])
            values.append(value)
        parts = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        return csr_array(parts, shape=(len(self), sum(self._widths)))

    @cached_property
    def _is_identity(self) -> bool:
        return len(self.sets) == len(self.groups) and all(group.is_identity for group in self.groups)

    def from_marginals(self, tables: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The queries' numerators from the marginals of ``sets``; integers stay integers."""
        flat = np.concatenate([np.ravel(table) for table in tables])
        return flat if self._is_identity else np.asarray(self.matrix @ flat)

    def counts(self, table: HasMarginals) -> Integers:
        """Every query's exact answer on a table, times n and its grid."""
        return self.from_marginals(table.marginals(self.sets)).astype(np.int64, copy=False)

    def on_rows(self, codes: Mapping[str, ArrayLike]) -> Floats:
        """Every query's answer on encoded rows."""
        columns = {name: np.asarray(codes[name]) for name in self.names}
        rows = len(columns[self.names[0]])
        if not rows:
            raise MechanismError("There are no rows to answer on.", fix="Give at least one.")
        tables = []
        for chosen in self.sets:
            sizes = self.schema.sizes(chosen)
            cells = np.ravel_multi_index([columns[name] for name in chosen], sizes)
            tables.append(np.bincount(cells, minlength=math.prod(sizes)))
        return np.asarray(self.from_marginals(tables) / (self.grids * rows))

    def at_records(self, records: Mapping[str, Integers]) -> Floats:
        """The value of every query (a row) at every one of some records (a column)."""
        from scipy.sparse import csc_array

        rows = [
            np.ravel_multi_index([records[name] for name in chosen], self.schema.sizes(chosen)) + self.offsets[chosen]
            for chosen in self.sets
        ]
        cells = np.stack(rows, axis=1)  # one cell of every set for each record
        number, per = cells.shape
        ends = np.arange(0, number * per + 1, per)
        inside = csc_array((np.ones(number * per), cells.ravel(), ends), shape=(self.matrix.shape[1], number))
        return np.asarray((self.matrix @ inside).toarray() / self.grids[:, None])
