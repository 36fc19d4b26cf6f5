"""Binary tables for the benchmarks of query workloads, and the error that `thm:pdp-mwem` speaks of."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nabladp.noise import Packings
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable
from nabladp.workloads import Queries

Bits = NDArray[np.integer]
DATA = Path(os.environ.get("NABLADP_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def as_table(bits: Bits) -> CodedTable:
    names = [f"b{i}" for i in range(bits.shape[1])]
    schema = Schema(tuple(Attribute(name, "boolean") for name in names))
    return CodedTable(schema, dict(zip(names, np.ascontiguousarray(bits.T), strict=True)))


def plants(d: int, n: int) -> Bits | None:
    """The columns of a real table that are most evenly split; None where the table is not at hand."""
    file = DATA / "binary" / "plants.csv.gz"
    if not file.exists():
        return None
    bits = np.loadtxt(file, delimiter=",", skiprows=1, max_rows=n, dtype=np.uint8)
    return bits[:, np.argsort(np.abs(bits.mean(axis=0) - 0.5), kind="stable")[:d]]


def four_kinds(d: int, n: int, seed: int = 0) -> Bits:
    """Four kinds of people; within a kind all bits are independent, with probabilities from Beta(0.7, 0.7)."""
    draw = np.random.default_rng(seed)
    kind, chances = draw.integers(0, 4, n), draw.beta(0.7, 0.7, (4, d))
    return (draw.random((n, d)) < chances[kind]).astype(np.uint8)


def two_camps(d: int, n: int, loyal: float, seed: int = 0) -> Bits:
    """Two camps with opposite bits, followed with probability ``loyal``: all pairs of bits are alike, for any d."""
    draw = np.random.default_rng(seed)
    camp, side = draw.integers(0, 2, (n, 1)), draw.integers(0, 2, d)
    return camp ^ side ^ (draw.random((n, d)) >= loyal)


def worst_disjoint(queries: Queries, errors: NDArray[np.float64], count: int) -> float:
    """The mean error of the ``count`` attribute-disjoint queries on which it is largest."""
    place = {name: 1 << i for i, name in enumerate(queries.names)}
    masks = [sum(place[name] for name in group.attributes) for group in queries.groups]
    largest = np.maximum.reduceat(errors, queries.starts[:-1])
    return Packings(masks, len(place), count).heaviest(largest)[0] / count
