"""Tables with a label, for the benchmarks of learners: as coded tables for us, as ±1 matrices for everyone else."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._binary import DATA
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

Signs = NDArray[np.int8]
TRAIN_SHARE = 0.7
TOO_ALIKE = 0.95  # a column that is nearly the label, or its opposite, is dropped


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a task: ``table`` has features and label as codes, ``x`` and ``y`` have the same as ±1."""

    table: CodedTable
    codes: dict[str, NDArray[Any]]
    x: Signs
    y: Signs


@dataclass(frozen=True, eq=False)
class Task:
    """Predict the two-valued attribute ``label`` from all others."""

    name: str
    schema: Schema
    label: str
    codes: dict[str, NDArray[Any]]

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for name in self.schema.names if name != self.label)

    @cached_property
    def x(self) -> Signs:
        """A column for an attribute with two values, otherwise one for each value."""
        return np.concatenate([self._columns(name) for name in self.features], axis=1)

    @cached_property
    def attribute_of(self) -> NDArray[np.int64]:
        """For every column of ``x``, the number of its attribute."""
        return np.repeat(np.arange(len(self.features)), [self._columns(name).shape[1] for name in self.features])

    @cached_property
    def y(self) -> Signs:
        return self._columns(self.label)[:, 0]

    def _columns(self, name: str) -> Signs:
        size = self.schema[name].size
        shown = np.arange(size)[1 if size == 2 else 0 :]
        return np.where(self.codes[name][:, None] == shown, np.int8(1), np.int8(-1))

    def split(self, seed: int) -> tuple[Rows, Rows]:
        """Rows to learn from and rows to test on, at random."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        cut = round(TRAIN_SHARE * len(order))
        return self._rows(order[:cut]), self._rows(order[cut:])

    def _rows(self, chosen: NDArray[np.int64]) -> Rows:
        codes = {name: column[chosen] for name, column in self.codes.items()}
        return Rows(CodedTable(self.schema, codes), codes, self.x[chosen], self.y[chosen])


@cache
def task(name: str) -> Task | None:
    """One of ``TASKS``; None where its table is not at hand."""
    if name == "generated":
        return _of_bits(name, kinds_of_people())
    if name == "adult":
        return _adult()
    file = DATA / "binary" / f"{name}.csv.gz"
    if not file.exists():
        return None
    with gzip.open(file) as lines:
        next(lines)
        text = np.frombuffer(lines.read(), dtype=np.uint8)
    bits = text[(text == ord("0")) | (text == ord("1"))] - ord("0")  # single digits between commas
    return _of_bits(name, bits.reshape(int((text == ord("\n")).sum()), -1))


TASKS = ("adult", "mushrooms", "plants", "connect4", "generated")


# Tables of bits


def _of_bits(name: str, bits: NDArray[np.uint8]) -> Task:
    """The label is the most evenly split column; every column that remains is an attribute of its own."""
    means = bits.mean(axis=0)
    label = int(np.argmin(np.abs(means - 0.5)))
    spread = np.sqrt(means * (1 - means))
    with np.errstate(invalid="ignore", divide="ignore"):
        alike = ((bits.T @ bits[:, label].astype(float)) / len(bits) - means * means[label]) / (spread * spread[label])
    kept = [i for i in range(bits.shape[1]) if i == label or (spread[i] > 0 and abs(alike[i]) < TOO_ALIKE)]
    schema = Schema(tuple(Attribute(f"v{i}", "boolean") for i in kept))
    return Task(name, schema, f"v{label}", {f"v{i}": np.ascontiguousarray(bits[:, i]) for i in kept})


def kinds_of_people(d: int = 64, n: int = 20_000, kinds: int = 8, seed: int = 0) -> NDArray[np.uint8]:
    """Some kinds of people, all equally many; within a kind bits are independent, with chances from Beta(½, ½)."""
    draw = np.random.default_rng(seed)
    chances = draw.beta(0.5, 0.5, (kinds, d))
    return (draw.random((n, d)) < chances[draw.integers(0, kinds, n)]).astype(np.uint8)


# Adult

_CUTS: dict[str, tuple[float, ...]] = {
    "age": (16, 21, 26, 31, 36, 41, 46, 51, 56, 61, 66, 91),
    "capital-gain": (0, 1, 3000, 5000, 7000, 10_000, 100_000),
    "capital-loss": (0, 1, 1500, 2000, 10_000),
    "hours-per-week": (1, 20, 35, 40, 41, 50, 60, 100),
}
_LEFT_OUT = ("fnlwgt", "education-num", "split")  # a survey weight; the same as education; not an attribute


def _adult() -> Task | None:
    """Income above 50,000 from everything else; categories as they are, "?" among them, numbers cut into ranges."""
    file = DATA / "adult" / "adult_raw.csv.gz"
    if not file.exists():
        return None
    with gzip.open(file, "rt") as lines:
        rows = csv.reader(lines)
        names = next(rows)
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    attributes, codes = [], {}
    for name, column in columns.items():
        if name in _LEFT_OUT:
            continue
        if name in _CUTS:
            attributes.append(Attribute(name, "real", edges=_CUTS[name]))
            codes[name] = np.searchsorted(_CUTS[name], np.array(column, dtype=float), side="right") - 1
        else:
            values, codes[name] = np.unique(column, return_inverse=True)
            attributes.append(Attribute(name, "categorical", values=tuple(values.tolist())))
    return Task("adult", Schema(tuple(attributes)), "income", codes)
