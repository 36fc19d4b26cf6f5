"""For the ``sql_*`` scripts beside it: the three queries, what is public about the table, and how answers are kept.

Public, and given to everyone: the bounds of numbers, the values of keys, the levels of quantiles. Repeats are copies of
the table, told apart by one more public key: the same query at the same budget, with fresh noise in every group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

MEAN, MEDIAN, QUANTILES = "mean", "median", "quantiles"
BOUNDS = {"age": (17, 90), "education_num": (1, 16), "hours": (1, 99)}
LABELS = {
    "sex": ("Female", "Male"),
    "race": ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"),
    "income": ("<=50K", ">50K"),
}
LEVELS = tuple(range(5, 100, 10))  # in per cent
KEYS = {MEAN: ("sex",), MEDIAN: ("sex", "race", "income"), QUANTILES: ("sex",)}
COLUMNS = {
    MEAN: ("avg_age", "people"),
    MEDIAN: ("sum_hours", "median_age"),
    QUANTILES: tuple(f"hours_{level}" for level in LEVELS),
}
READS = {
    MEAN: ("sex", "age", "education_num"),
    MEDIAN: ("sex", "race", "income", "hours", "age"),
    QUANTILES: ("sex", "hours"),
}
LEAST_EDUCATION = 10


def cells(query: str) -> list[tuple[str, ...]]:
    """The declared groups, in order."""
    return list(itertools.product(*(LABELS[key] for key in KEYS[query])))


def copies_of(data: dict[str, Any], query: str, copies: int) -> dict[str, Any]:
    """The columns of a query, so many times one below the other; ``copy`` counts them."""
    rows = len(data["age"])
    columns = {name: np.tile(data[name], copies) for name in READS[query]}
    return {**columns, "copy": np.repeat(np.arange(copies), rows)}


def arrays(query: str, copies: int, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """A table for each column of the answer, from rows (copy, keys, values): a line for each copy, a group in each."""
    index = {cell: i for i, cell in enumerate(cells(query))}
    width = len(KEYS[query])
    found = {name: np.full((copies, len(index)), np.nan) for name in COLUMNS[query]}
    for copy, *rest in rows:
        group = index[tuple(rest[:width])]
        for name, value in zip(COLUMNS[query], rest[width:], strict=True):
            found[name][int(copy), group] = value
    return found
