"""Tables for the benchmark of heavy hitters: planted strings, the lower bound's hard instance, and real ones."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._binary import DATA, Bits, as_table
from nabladp import CDP, HeavyHitters, Pure
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

NOTIONS = ("cdp", "pure")
BUDGETS: dict[str, type[CDP] | type[Pure]] = {"cdp": CDP, "pure": Pure}


def mechanism(notion: str, eps0: float = 1.0) -> HeavyHitters:
    return HeavyHitters(BUDGETS[notion](eps0), notion=notion)


def booleans(d: int) -> Schema:
    return Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(d)))


# Strings over random noise


@dataclass(frozen=True, eq=False)
class Planted:
    """``strings``, a row each, stand in exactly ``counts`` rows; every other row is drawn bit by bit."""

    columns: Bits  # a row for every attribute
    strings: Bits
    counts: NDArray[np.int64]

    @property
    def table(self) -> CodedTable:
        return as_table(self.columns.T)

    @classmethod
    def make(cls, d: int, n: int, counts: Sequence[int], seed: int, strings: Bits | None = None) -> Planted:
        draw = np.random.default_rng(seed)
        while strings is None or len(np.unique(_heads(strings.T))) < len(strings):
            strings = draw.integers(0, 2, (len(counts), d), dtype=np.uint8)
        columns = np.unpackbits(draw.integers(0, 256, (d, -(-n // 8)), dtype=np.uint8), axis=1, count=n)
        while len(same := np.flatnonzero(np.isin(_heads(columns), _heads(strings.T)))):
            columns[:, same] = draw.integers(0, 2, (d, len(same)), dtype=np.uint8)
        held = draw.permutation(n)[: sum(counts)]
        columns[:, held] = np.repeat(strings, counts, axis=0).T
        return cls(columns, strings, np.array(counts))

    def found(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the strings are among these."""
        listed = {row.tobytes() for row in codes.astype(np.uint8)}
        return np.array([row.tobytes() in listed for row in self.strings])


def _heads(columns: Bits) -> NDArray[np.int64]:
    """The first bits of every row as a number: two rows with different numbers are different."""
    number = np.zeros(columns.shape[1], np.int64)
    for column in columns[:62]:
        number = 2 * number + column
    return number


# The hard instance of `thm:heavy-hitters-lb`


@dataclass(frozen=True)
class OneHot:
    """All rows are zero, but ``count`` of them have a one, all at the same attribute. Which attribute is the question.

    Whoever lists combinations with counts can answer it, by the one of the d strings with a single one whose count is
    the largest. d answers exclude each other, and from no ones at all to any of the d tables ``count`` rows change, on
    one attribute each. So for p, the chance of the right answer at an attribute drawn at random,

    pure  p ≤ e^{ε·count}/d, and 1 − p ≥ e^{−ε·count}·(1 − 1/d) likewise for wrong answers;
    cdp   answering right is a coin of chance p, and of chance 1/d if the table says nothing: their Rényi divergences
          are at most α·ρ·count² for every order α, in both directions.
    """

    d: int
    n: int
    notion: str
    eps0: float = 1.0

    def most_success(self, count: int) -> float:
        """No algorithm with this guarantee per attribute answers right more often than this."""
        if self.notion == "pure":
            loss = self.eps0 * count
            return min(math.exp(min(loss, 700.0)) / self.d, 1 - math.exp(-loss) * (1 - 1 / self.d))
        low, high = 1 / self.d, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self._allowed(middle, count) else (low, middle)
        return high

    def _allowed(self, p: float, count: int) -> bool:
        orders = 1 + np.geomspace(1e-3, 1e3, 400)
        loss = orders * self.eps0**2 / 2 * count**2
        given, blind = np.array([[p], [1 - p]]), np.array([[1 / self.d], [1 - 1 / self.d]])
        return all(bool(np.all(_renyi(orders, *pair) <= loss)) for pair in ((given, blind), (blind, given)))

    @property
    def bound(self) -> int:
        """The smallest count at which answering right half of the time is not excluded."""
        return next(count for count in range(self.n) if self.most_success(count) >= 0.5)

    @cached_property
    def schema(self) -> Schema:
        return booleans(self.d)

    @cached_property
    def certified(self) -> int:
        return mechanism(self.notion, self.eps0).plan(self.schema, self.n).certified

    def success(self, count: int, runs: int) -> float:
        return sum(self._answers_right(count, seed) for seed in range(runs)) / runs

    def _answers_right(self, count: int, seed: int) -> bool:
        where = int(np.random.default_rng((count, seed)).integers(self.d))
        columns = np.zeros((self.d, self.n), np.uint8)
        columns[where, :count] = 1
        table = CodedTable(self.schema, dict(zip(self.schema.names, columns, strict=True)))
        found = mechanism(self.notion, self.eps0).run(table, NoiseSource.seeded(1000 * count + seed))
        single = found.codes[found.codes.sum(axis=1) == 1]  # the most frequent comes first
        return bool(len(single) and single[0, where])


def _renyi(orders: NDArray[np.float64], p: NDArray[Any], q: NDArray[Any]) -> NDArray[np.float64]:
    """The divergence of two coins, for every order; computed in logarithms, as powers of small chances vanish."""
    with np.errstate(divide="ignore"):
        terms = orders * np.log(p) + (1 - orders) * np.log(q)
    result: NDArray[np.float64] = np.logaddexp(terms[0], terms[1]) / (orders - 1)
    return result


# Real tables


@dataclass(frozen=True, eq=False)
class Real:
    """Codes of some columns, and all combinations in the table with their true counts."""

    name: str
    schema: Schema
    rows: NDArray[np.uint8]

    @cached_property
    def table(self) -> CodedTable:
        return CodedTable(self.schema, dict(zip(self.schema.names, self.rows.T, strict=True)))

    @cached_property
    def truth(self) -> dict[bytes, int]:
        order = np.lexsort(self.rows.T)
        rows = self.rows[order]
        starts = np.flatnonzero(np.r_[True, (rows[1:] != rows[:-1]).any(axis=1)])
        counts = np.diff(np.r_[starts, len(rows)]).tolist()
        return dict(zip((row.tobytes() for row in rows[starts]), counts, strict=True))

    def true_counts(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array([self.truth.get(row.tobytes(), 0) for row in codes.astype(np.uint8)], np.int64)


def real_tables() -> Iterable[Real]:
    """Those that are at hand: page views, and people of the American Community Survey."""
    if (DATA / "msnbc" / "msnbc.parquet").exists():
        yield msnbc()
    for name in ("national2019", "ma2019"):
        if (DATA / "nist_acs_excerpts" / f"{name}.csv.gz").exists():
            yield survey(name)


def msnbc() -> Real:
    import pyarrow.parquet as pq

    read = pq.read_table(DATA / "msnbc" / "msnbc.parquet")
    names = [f"site_{i}" for i in range(16)]
    return _coded("msnbc", {name: (read[name].to_numpy(), 18) for name in names})


ASKED = ("SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "DVET", "DREM", "DPHY", "DEYE", "DEAR")


def survey(name: str) -> Real:
    """Twelve columns with few values each; with age, region and income almost everybody is the only one of a kind."""
    import polars as pl

    folder = DATA / "nist_acs_excerpts"
    values = json.loads((folder / f"{name}-schema.json").read_text(encoding="utf-8"))["schema"]
    read = pl.read_csv(folder / f"{name}.csv.gz", infer_schema=False)
    columns = {}
    for asked in ASKED:
        codes = {str(value): code for code, value in enumerate(values[asked]["values"])}
        columns[asked] = np.array([codes[value] for value in read[asked]], np.uint8), len(codes)
    return _coded(name, columns)


def _coded(name: str, columns: dict[str, tuple[NDArray[Any], int]]) -> Real:
    schema = Schema(tuple(Attribute(key, "integer", low=0, high=size - 1) for key, (_, size) in columns.items()))
    return Real(name, schema, np.stack([codes for codes, _ in columns.values()], axis=1).astype(np.uint8))
