"""More tables for the benchmark of synthetic tables: other real ones, and tables sampled from fitted models.

The rules of ``strategy="auto"`` were chosen on ``CHOSEN_ON`` and on nothing else; figures are reported on ``UNSEEN``.
A table of a shape has the columns of a real one, but only the dependences inside the shape's cliques.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from bench._binary import DATA
from bench._learning import task
from bench._synthesis_data import TABLES, Attributes, Data, acs, acs_of, adult, made_up
from nabladp.mechanisms.synthesis.inference import Measurement, fit
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema

Maker = Callable[[], Data | None]


# Real ones


def bits_of(source: str, columns: int, rows: int | None = None) -> Data | None:
    """The most evenly split columns of a real table of bits."""
    found = task(source)
    if found is None:
        return None
    names = sorted(found.codes, key=lambda name: abs(float(found.codes[name].mean()) - 0.5))[:columns]
    schema = Schema(tuple(found.schema[name] for name in names))
    return some_rows(Data(source, "binary", schema, {name: found.codes[name] for name in names}), rows)


def voting(columns: int) -> Data | None:
    file = DATA / "binary" / "voting.csv.gz"
    if not file.exists():
        return None
    bits = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.uint8)
    chosen = np.argsort(np.abs(bits.mean(axis=0) - 0.5), kind="stable")[:columns]
    schema = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(columns)))
    return Data("voting", "binary", schema, {f"b{i}": np.ascontiguousarray(bits[:, c]) for i, c in enumerate(chosen)})


def page_views(columns: int, rows: int) -> Data | None:
    file = DATA / "msnbc" / "msnbc.parquet"
    if not file.exists():
        return None
    import pyarrow.parquet as pq

    names = [f"site_{i}" for i in range(columns)]
    read = pq.read_table(file, columns=names)
    schema = Schema(tuple(Attribute(name, "integer", low=0, high=17) for name in names))
    return some_rows(Data("msnbc", "mixed", schema, {name: read[name].to_numpy() for name in names}), rows)


def some_rows(data: Data, rows: int | None) -> Data:
    if rows is None or rows >= data.n:
        return data
    return data.rows(np.random.default_rng(3).permutation(data.n)[:rows])


# Shapes

SHAPES = ("chain", "star", "clusters", "band", "independent")


def cliques(shape: str, names: Sequence[str]) -> list[Attributes]:
    if shape == "star":
        return [(names[0], name) for name in names[1:]]
    if shape == "independent":
        return [(name,) for name in names]
    width, step = {"chain": (2, 1), "clusters": (3, 3), "band": (4, 1)}[shape]
    starts = range(0, max(1, len(names) - (width - 1 if step == 1 else 0)), step)
    return [tuple(names[start : start + width]) for start in starts]


def shaped(data: Data | None, shape: str, columns: int, rows: int) -> Data | None:
    """Rows sampled from the flattest distribution that has the table's marginals on the cliques of a shape."""
    if data is None:
        return None
    order = np.random.default_rng(5).permutation(len(data.schema.names))[:columns]
    own = data.columns([data.schema.names[i] for i in sorted(order)])
    sets = cliques(shape, own.schema.names)
    counted = zip(sets, own.table.marginals(sets), strict=True)
    exact = [Measurement(names, table.astype(float), 1.0) for names, table in counted]
    model = fit(own.sizes, own.n, exact, cliques=sets)
    codes = model.draw(rows, NoiseSource.seeded(11))
    return Data(f"{data.name}, {shape}", data.kind, own.schema, dict(codes))


def side_by_side(first: Data | None, second: Data | None) -> Data | None:
    """The columns of both, each with rows of its own: numbers of values from two to many."""
    if first is None or second is None:
        return None
    rows = min(first.n, second.n)
    both = [some_rows(each, rows) for each in (first, second)]
    schema = Schema(tuple(attribute for each in both for attribute in each.schema))
    return Data("both", "mixed", schema, {name: codes for each in both for name, codes in each.codes.items()})


def skewed(n: int, sizes: Sequence[int], evenness: float, seed: int) -> Data:
    """Six kinds of people in columns of which few values are common; each follows the kind or an earlier column."""
    draw = np.random.default_rng(seed)
    kind = draw.choice(6, n, p=(0.3, 0.25, 0.2, 0.12, 0.08, 0.05))
    columns: list[Any] = []
    order = draw.permutation(np.array(sizes)).tolist()
    for place, size in enumerate(order):
        usual = np.arange(1, size + 1) ** -1.6
        usual = draw.permutation(usual / usual.sum())
        loyalty = draw.uniform(0.2, 0.8)
        parent = columns[draw.integers(place)] if place else kind
        laws = np.stack([draw.dirichlet(evenness * size * usual + 1e-3) for _ in range(6)])
        follow = np.where(draw.random(n) < loyalty, kind, parent % 6)
        shares = np.where((draw.random(n) < 0.25)[:, None], usual, laws[follow])
        columns.append((draw.random((n, 1)) > np.cumsum(shares, axis=1)).sum(axis=1).clip(max=size - 1))
    schema = Schema(
        tuple(
            Attribute(f"c{i}", "categorical", values=tuple(f"v{k}" for k in range(size)))
            for i, size in enumerate(order)
        )
    )
    return Data("skewed", "mixed", schema, {f"c{i}": column for i, column in enumerate(columns)})


@cache
def ma2019() -> Data | None:
    return acs_of("ma2019")


@cache
def few_of_acs() -> Data | None:
    found = acs()
    return None if found is None else some_rows(found, 7_000)


CHOSEN_ON: dict[str, Maker] = {
    **TABLES,
    "plants, 40 bits": cache(lambda: bits_of("plants", 40)),
    "adult, few rows": cache(lambda: shaped(adult(), "band", 13, 4_000)),
    "adult, chain": cache(lambda: shaped(adult(), "chain", 13, 20_000)),
    "acs, star": cache(lambda: shaped(acs(), "star", 16, 3_000)),
    "plants, clusters": cache(lambda: shaped(bits_of("plants", 30), "clusters", 30, 3_000)),
    "made up, independent": cache(lambda: shaped(made_up(), "independent", 16, 10_000)),
    "plants, band": cache(lambda: shaped(bits_of("plants", 16), "band", 16, 2_000)),
    "plants, chain": cache(lambda: shaped(bits_of("plants", 24), "chain", 24, 10_000)),
    "adult, clusters": cache(lambda: shaped(adult(), "clusters", 13, 20_000)),
    "acs, band": cache(lambda: shaped(acs(), "band", 12, 30_000)),
    "acs, some rows": few_of_acs,
    "skewed": cache(lambda: skewed(40_000, (10, 12, 12, 14, 15, 16, 18, 20, 20, 24, 24, 30), 0.4, 2)),
    "skewed, few rows": cache(lambda: skewed(6_000, (6, 8, 8, 10, 10, 12, 12, 12, 16, 16, 20, 20), 0.6, 4)),
}

UNSEEN: dict[str, Maker] = {
    "ma2019": ma2019,
    "msnbc": cache(lambda: page_views(12, 60_000)),
    "mushrooms, 32 bits": cache(lambda: bits_of("mushrooms", 32)),
    "connect4, 24 bits": cache(lambda: bits_of("connect4", 24)),
    "voting, 60 bits": cache(lambda: voting(60)),
    "connect4, chain": cache(lambda: shaped(bits_of("connect4", 40), "chain", 40, 10_000)),
    "ma2019, clusters": cache(lambda: shaped(ma2019(), "clusters", 20, 30_000)),
    "msnbc, star": cache(lambda: shaped(page_views(16, 60_000), "star", 16, 5_000)),
    "mushrooms, band": cache(lambda: shaped(bits_of("mushrooms", 16), "band", 16, 2_000)),
    "two kinds, independent": cache(
        lambda: shaped(side_by_side(ma2019(), bits_of("mushrooms", 24)), "independent", 24, 20_000)
    ),
}

ALL: dict[str, Maker] = {**CHOSEN_ON, **UNSEEN}
MOST_THREE_WAY = 10  # columns; with all, everyone's rounds over the triples take a day
THREE_WAY_COLUMNS: dict[str, Sequence[str]] = {
    "acs": ("AGEP", "SEX", "MSP", "HISP", "RAC1P", "OWN_RENT", "INDP_CAT", "EDU", "PINCP_DECILE", "DPHY"),
    "made up": [f"c{i}" for i in range(10)],
}


@cache
def table_of(name: str, k: int) -> Data | None:
    """The table on which all marginals of ``k`` columns are asked for."""
    data = ALL[name]()
    if data is None or k == 2:
        return data
    names = data.schema.names
    chosen = THREE_WAY_COLUMNS.get(name) or (names if name in TABLES else names[:MOST_THREE_WAY])
    return data.columns(chosen)
