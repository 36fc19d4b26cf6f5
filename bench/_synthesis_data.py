"""Four tables for the benchmark of synthetic tables: three of people (mixed kinds) and one of bits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._binary import DATA, four_kinds, plants
from bench._learning import task
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable
from nabladp.tables.encode import encode_column

Attributes = tuple[str, ...]
BITS = 16
MODEL_MB = 2  # for everyone's model


@dataclass(frozen=True, eq=False)
class Data:
    name: str
    kind: str  # "mixed" or "binary"
    schema: Schema
    codes: dict[str, NDArray[Any]]

    @property
    def n(self) -> int:
        return len(next(iter(self.codes.values())))

    @cached_property
    def sizes(self) -> dict[str, int]:
        return {attribute.name: attribute.size for attribute in self.schema}

    @cached_property
    def table(self) -> CodedTable:
        return CodedTable(self.schema, self.codes)

    def sets(self, k: int) -> list[Attributes]:
        return list(itertools.combinations(self.schema.names, k))

    def cells(self, attributes: Sequence[str]) -> int:
        return math.prod(self.sizes[name] for name in attributes)

    @cache  # noqa: B019  (a few tables, each kept for the whole run)
    def counts(self, k: int) -> dict[Attributes, NDArray[np.float64]]:
        """All k-way marginals."""
        sets = self.sets(k)
        return {s: c.astype(float) for s, c in zip(sets, self.table.marginals(sets), strict=True)}

    def rows(self, chosen: NDArray[np.int64]) -> Data:
        return Data(self.name, self.kind, self.schema, {name: column[chosen] for name, column in self.codes.items()})

    def columns(self, chosen: Sequence[str]) -> Data:
        schema = Schema(tuple(self.schema[name] for name in chosen))
        return Data(self.name, self.kind, schema, {name: self.codes[name] for name in chosen})


@cache
def adult() -> Data | None:
    found = task("adult")
    return None if found is None else Data("adult", "mixed", found.schema, found.codes)


@cache
def bits() -> Data:
    """The 16 columns of plants that are most evenly split; made-up ones where it is not at hand."""
    found = plants(BITS, 100_000)
    name, rows = ("bits, made up", four_kinds(BITS, 20_000)) if found is None else ("plants", found)
    names = [f"b{i}" for i in range(BITS)]
    schema = Schema(tuple(Attribute(each, "boolean") for each in names))
    return Data(name, "binary", schema, dict(zip(names, np.ascontiguousarray(rows.T), strict=True)))


# ACS: the national excerpt, 27,253 people, without survey weights and the four-digit industry (its groups remain)

_ACS_EDGES: dict[str, tuple[float, ...]] = {
    "AGEP": (0, 5, 10, 15, 18, 21, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 100),
    "DENSITY": (0, 50, 100, 500, 1000, 2000, 4000, 6000, 8000, 10_000, 15_000, 50_000),
    "PINCP": (-20_000, 0, 1, 5000, 10_000, 15_000, 20_000, 30_000, 40_000, 50_000, 75_000, 100_000, 2_000_000),
    "POVPIP": (0, 50, 100, 150, 200, 300, 400, 501, 502),
}
_ACS_LEFT_OUT = ("INDP", "PWGTP", "WGTP")


@cache
def acs() -> Data | None:
    return acs_of("national2019")


def acs_of(name: str) -> Data | None:
    file = DATA / "nist_acs_excerpts" / f"{name}.csv.gz"
    if not file.exists():
        return None
    import pyarrow as pa
    from pyarrow import csv

    with pa.input_stream(file, compression="gzip") as stream:
        names = stream.read().split(b"\n", 1)[0].decode().strip().split(",")
    as_text = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    rows = csv.read_csv(file, convert_options=as_text)
    attributes = [_acs_attribute(name, rows[name]) for name in names if name not in _ACS_LEFT_OUT]
    codes = {each.name: encode_column(each, rows[each.name].combine_chunks())[0] for each in attributes}
    return Data(name, "mixed", Schema(tuple(attributes)), codes)


def _acs_attribute(name: str, column: Any) -> Attribute:
    """Values are those that occur, which is NIST's published list; "N" means missing."""
    values = sorted(column.unique().to_pylist())
    missing: dict[str, Any] = {"null": "category", "null_values": ("N",)} if "N" in values else {}
    if name in _ACS_EDGES:
        return Attribute(name, "real", edges=_ACS_EDGES[name], **missing)
    return Attribute(name, "categorical", values=tuple(value for value in values if value != "N"), **missing)


# Made up: 16 columns with 2 to 32 values, some missing, more and less dependent on each other

_SIZES = (2, 2, 2, 3, 3, 4, 5, 6, 6, 8, 10, 12, 12, 16, 24, 32)
_MISSING = (4, 8, 12)  # columns whose last value is null


@cache
def made_up(n: int = 40_000, seed: int = 0) -> Data:
    """Six kinds of people; every column follows the kind, an earlier column, or neither, to its own degree."""
    draw = np.random.default_rng(seed)
    kind = draw.choice(6, n, p=(0.3, 0.25, 0.2, 0.12, 0.08, 0.05))
    order = draw.permutation(len(_SIZES))  # small and large domains mixed
    attributes, columns = [], []
    for place, size in enumerate(np.array(_SIZES)[order].tolist()):
        loyalty = draw.uniform(0.2, 0.9)
        parent = columns[draw.integers(place)] if place else kind
        laws = np.stack([draw.dirichlet(np.full(size, 0.4), 6), draw.dirichlet(np.full(size, 1.0), 6)])
        follow = np.where(draw.random(n) < loyalty, kind, parent % 6)
        own = draw.random(n) < 0.25
        shares = np.where(own[:, None], laws[1, 0], laws[0, follow])
        column = (draw.random((n, 1)) > np.cumsum(shares, axis=1)).sum(axis=1).clip(max=size - 1)
        columns.append(column)
        attributes.append(_made_up_attribute(f"c{place}", size, place in _MISSING))
    return Data("made up", "mixed", Schema(tuple(attributes)), {f"c{i}": each for i, each in enumerate(columns)})


def _made_up_attribute(name: str, size: int, missing: bool) -> Attribute:
    """Codes count from 0 and null comes last, so the columns drawn are codes already."""
    if missing:
        return Attribute(name, "integer", low=0, high=size - 2, null="category")
    if size == 2:
        return Attribute(name, "boolean")
    if size >= 12:
        return Attribute(name, "real", edges=tuple(float(i) for i in range(size + 1)))
    return Attribute(name, "categorical", values=tuple(f"v{i}" for i in range(size)))


TABLES: dict[str, Callable[[], Data | None]] = {"adult": adult, "acs": acs, "bits": bits, "made up": made_up}
