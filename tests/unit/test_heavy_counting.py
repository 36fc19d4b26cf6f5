"""Counts of products of lists against counting row by row, on every engine and by every route."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nabladp.mechanisms.heavy_hitters import candidates, numbering
from nabladp.mechanisms.heavy_hitters.candidates import PackedRows, Tally, Window, frequent
from nabladp.mechanisms.heavy_hitters.numbering import (
    Batch,
    Buckets,
    Column,
    Digit,
    Listed,
    Product,
    Whole,
    listed_strings,
)
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, open_table

SIZES = (2, 3, 1, 256, 2, 300, 70_000, 5)
NAMES = tuple(f"a{i}" for i in range(len(SIZES)))
SCHEMA = Schema(tuple(Attribute(n, "integer", low=0, high=s - 1) for n, s in zip(NAMES, SIZES, strict=True)))


def data(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    columns = {name: draw.integers(0, size, rows) for name, size in zip(NAMES, SIZES, strict=True)}
    for name in NAMES:  # something frequent everywhere
        columns[name][: rows // 3] = columns[name][0]
    return columns


def coded(codes: dict[str, np.ndarray], folder: Path) -> CodedTable:
    return CodedTable(SCHEMA, codes, batch_rows=700)


def arrow(codes: dict[str, np.ndarray], folder: Path):
    return open_table(pa.table(codes), SCHEMA)


def parquet(codes: dict[str, np.ndarray], folder: Path):
    pq.write_table(pa.table(codes), folder / "t.parquet", row_group_size=500)
    return open_table(folder / "t.parquet", SCHEMA)


ENGINES = [coded, arrow, parquet]


def columns(*places: int) -> Product:
    return Product(tuple(Column(NAMES[i], SIZES[i]) for i in places))


def batch_of(rows: int) -> Batch:
    return Batch({name: codes.astype(np.uint32) for name, codes in data(rows).items()})


def some(product: Product, many: int, seed: int) -> Listed:
    """Cells that occur in the data, and others."""
    occurring = product.cells(batch_of(2000))
    wanted = np.concatenate([occurring[:many].astype(np.int64), np.arange(min(many, product.size))])
    return Listed(product, np.unique(wanted))


def tree() -> tuple[Product, Callable[[dict[str, int]], tuple[int, ...]]]:
    """A list of three parts, each of columns, one of them joined from two; and the same, literally, for one row."""
    first, second, third = some(columns(0, 1, 2), 4, 1), some(columns(5, 3), 30, 2), some(columns(6), 300, 3)
    pair = Listed(
        Product((first, second)),
        np.array(sorted(i * second.axis + j for i in range(1, first.axis) for j in (1, second.axis - 1))),
    )

    def numbers(row: dict[str, int]) -> tuple[int, ...]:
        def place(listed: Listed, cell: int) -> int:
            cells = listed.listed.tolist()
            return cells.index(cell) + 1 if cell in cells else 0

        one = place(first, (row["a0"] * 3 + row["a1"]) * 1 + row["a2"])
        two = place(second, row["a5"] * 256 + row["a3"])
        return place(pair, one * second.axis + two), place(third, row["a6"])

    return Product((pair, third)), numbers


def literal(codes: dict[str, np.ndarray], cell: Callable[[dict[str, int]], int | None], above: int) -> dict[int, int]:
    rows = (dict(zip(codes, values, strict=True)) for values in zip(*(c.tolist() for c in codes.values()), strict=True))
    counted = Counter(at for at in map(cell, rows) if at is not None)
    return {at: many for at, many in sorted(counted.items()) if many > above}


def as_dict(product: Product, result: tuple[np.ndarray, np.ndarray]) -> dict[int, int]:
    rows = result[0].tolist()
    assert rows == sorted(rows) and result[0].shape == (len(result[1]), len(product.parts))
    cells = np.ravel_multi_index(tuple(result[0].T), product.shape)
    return dict(zip(cells.tolist(), result[1].tolist(), strict=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_products_of_columns(engine: Callable[..., object], tmp_path: Path) -> None:
    codes = data(1500)
    products = [columns(0, 1, 3), columns(6), columns(4, 5, 2, 7, 1)]
    found = [*map(as_dict, products, frequent(engine(codes, tmp_path), products, 0, 1 << 22))]
    assert found[0] == literal(codes, lambda r: (r["a0"] * 3 + r["a1"]) * 256 + r["a3"], 0)
    assert found[1] == literal(codes, lambda r: r["a6"], 0)
    assert found[2] == literal(codes, lambda r: ((r["a4"] * 300 + r["a5"]) * 5 + r["a7"]) * 3 + r["a1"], 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("looked_up", [1, 50, 1 << 16])
@pytest.mark.parametrize("most", [7, 64, 1000, 1 << 22])
def test_lists_of_lists(
    engine: Callable[..., object], looked_up: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In tables and hashed, all at once and in pieces."""
    monkeypatch.setattr(numbering, "LOOKED_UP", looked_up)
    codes = data(600)
    product, numbers = tree()

    def cell(row: dict[str, int]) -> int | None:
        left, right = numbers(row)
        return left * product.shape[1] + right if left and right else None

    for above in (0, 1, 100):
        (found,) = frequent(engine(codes, tmp_path), [product], above, most)
        assert as_dict(product, found) == literal(codes, cell, above)


@pytest.mark.parametrize("most", [5, 6, 100, 1 << 10, 1 << 20])
@pytest.mark.parametrize("above", [0, 1, 3])
def test_many_products_in_few_or_many_passes(most: int, above: int) -> None:
    codes = data(900, seed=4)
    products = [columns(0), columns(1, 0), columns(2), columns(7, 1, 0), columns(3), columns(5, 4)]
    whole = frequent(coded(codes, Path()), products, above, 1 << 22)
    pieces = frequent(coded(codes, Path()), products, above, most)
    for product, one, other in zip(products, whole, pieces, strict=True):
        assert as_dict(product, one) == as_dict(product, other)


def test_a_large_domain_takes_few_passes_and_little_memory() -> None:
    class Counting(CodedTable):
        passes = 0

        def fold(self, kernel, progress=None):
            self.passes += 1
            assert kernel.bounds[-1] <= 1 << 11
            return super().fold(kernel, progress)

    codes = data(900)
    table, product = Counting(SCHEMA, codes), columns(6)
    (found,) = frequent(table, [product], 100, 1 << 11)
    assert as_dict(product, found) == literal(codes, lambda r: r["a6"], 100) != {}
    assert table.passes <= 4


@pytest.mark.parametrize("above", [0, 1, 5])
@pytest.mark.parametrize("most", [40, 1 << 9, 1 << 14])
def test_sifting_finds_exactly_what_is_frequent(most: int, above: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strings that share many of their parts, so that parts of different strings go together, as well."""
    monkeypatch.setattr(candidates, "LEAST_SHARE", 1)
    draw = np.random.default_rng(above)
    pool = np.stack([draw.choice(draw.integers(0, size, 3), 40) for size in SIZES], axis=1)
    rows = pool[(40 * draw.random(1200) ** 3).astype(int)]
    codes = {name: rows[:, i] for i, name in enumerate(NAMES)}
    lists = [Listed(columns(i), np.unique(pool[:30, i])) for i in (5, 6)]
    wide, partly = columns(*range(8)), Product((columns(0).parts[0], *lists, Whole(columns(3, 4))))
    for product in (wide, partly):
        (found,) = frequent(coded(codes, Path()), [product], above, most)
        kept = [all(r[i] in set(pool[:30, i]) for i in (5, 6)) or product is wide for r in rows]
        names = NAMES if product is wide else ("a0", "a5", "a6", "a3", "a4")
        expected = Counter(tuple(r[NAMES.index(name)] for name in names) for r, k in zip(rows, kept, strict=True) if k)
        assert Counter(found[1].tolist()) == Counter(many for many in expected.values() if many > above)
    monkeypatch.setattr(candidates, "LEAST_SHARE", 1 << 17)
    (direct,) = frequent(coded(codes, Path()), [partly], above, 1 << 30)
    assert direct[0].tolist() == found[0].tolist() and direct[1].tolist() == found[1].tolist()


def test_buckets_hold_strings_together_and_leave_out_what_is_not_listed() -> None:
    batch = batch_of(500)
    lists = (some(columns(5), 40, 0), Whole(columns(3, 1)))
    buckets = Buckets.of(lists, 6)
    where, listed = buckets.numbers(batch), lists[0].numbers(batch) > 0
    assert ((where > 0) == listed).all() and listed.any() and not listed.all() and where.max() < buckets.axis
    strings = np.stack([part.numbers(batch) for part in lists], axis=1)
    for other in (buckets, buckets.again(np.unique(where[listed])[::2].astype(np.int64))):
        numbers = other.numbers(batch)
        assert len(np.unique(strings, axis=0)) == len(np.unique(np.column_stack([strings, numbers]), axis=0))
    kept = np.isin(where, np.unique(where[listed])[::2]) & listed
    assert ((numbers > 0) == kept).all() and (numbers[kept] != where[kept]).any()


def test_digits_make_up_numbers() -> None:
    batch = batch_of(500)
    column = columns(6).parts[0]
    high, low = Digit(column, 9, 1 << 8), Digit(column, 0, 1 << 9)
    assert ((high.numbers(batch) << 9) + low.numbers(batch) == column.numbers(batch)).all()
    assert high.numbers(batch).max() < high.axis and low.numbers(batch).max() < low.axis


def test_strings_are_numbered_in_order() -> None:
    batch = batch_of(300)
    parts = (columns(0).parts[0], some(columns(5), 100, 0), columns(3).parts[0])
    rows = np.stack([part.numbers(batch).astype(np.int64) for part in parts], axis=1)
    strings = np.unique(rows[::2], axis=0)
    numbers = listed_strings(parts, strings).numbers(batch)
    assert (strings[numbers[::2] - 1] == rows[::2]).all()
    assert all(
        (strings[k - 1] == row).all() if k else row.tolist() not in strings.tolist()
        for k, row in zip(numbers, rows, strict=True)
    )


def test_a_list_of_nothing_and_a_list_of_everything() -> None:
    codes = data(400)
    nothing = Listed(columns(0), np.empty(0, np.int64))
    everything = Listed(columns(3, 2), np.arange(256))
    full = Listed(columns(3, 3), np.arange(1 << 16))
    products = [
        Product((nothing, everything)),
        Product((everything, Listed(columns(4), np.array([1])))),
        Product((full,)),
    ]
    found = [*map(as_dict, products, frequent(coded(codes, Path()), products, 0, 1 << 22))]
    assert found[0] == {}
    assert found[1] == literal(codes, lambda r: (r["a3"] + 1) * 2 + 1 if r["a4"] else None, 0)
    assert found[2] == literal(codes, lambda r: r["a3"] * 257 + 1, 0)


def test_the_kernel_has_one_shape_and_survives_pickling() -> None:
    product, _ = tree()
    kernel = Tally([Window(product, 3, 90), Window(columns(0, 1), 0, 6), Window(product, 0, 2)], 500)
    assert set(kernel.attributes) == {"a0", "a1", "a2", "a3", "a5", "a6"}
    codes = data(500)
    table = coded(codes, Path())
    copy = pickle.loads(pickle.dumps(kernel))
    assert (table.fold(copy) == table.fold(kernel)).all()
    batch = next(table._batches(kernel.attributes))
    whole, halves = kernel(batch), kernel(batch.slice(0, 123)) + kernel(batch.slice(123))
    assert whole.dtype == np.int64 and whole.shape == (48,) and (whole == halves).all()
    wide = Tally(kernel.windows, 1 << 32)
    for narrow, expected in zip(kernel.split(whole), wide.split(wide(batch)), strict=True):
        assert (narrow == expected).all() and expected.dtype == np.int64
    assert (kernel(batch.slice(0, 0)) == 0).all()


def test_codes_are_never_written_to() -> None:
    codes = data(300)
    table = coded(codes, Path())
    before = [column.to_pylist() for column in table._rows.columns]
    frequent(table, [columns(3), columns(0, 1), tree()[0]], 0, 1 << 22)
    assert before == [column.to_pylist() for column in table._rows.columns]


@pytest.mark.parametrize("engine", ENGINES)
def test_packed_rows_are_counted_like_the_table(engine: Callable[..., object], tmp_path: Path) -> None:
    codes = data(1500)
    table = engine(codes, tmp_path)
    parts = {
        "x": Whole(columns(0, 1, 2)),
        "y": columns(5).parts[0],
        "z": Whole(columns(6, 7)),
        "w": columns(3).parts[0],
    }
    packed = PackedRows.of(table, parts, 1 << 20)
    assert packed is not None and [c.itemsize for c in packed.columns.values()] == [1, 2, 4, 1]
    product = Product(tuple(Column(name, part.axis) for name, part in parts.items()))
    same = Product(tuple(parts.values()))
    for above in (0, 3):
        (one,), (other,) = frequent(packed, [product], above, 1 << 16), frequent(table, [same], above, 1 << 16)
        assert one[0].tolist() == other[0].tolist() and one[1].tolist() == other[1].tolist()
    assert PackedRows.of(table, parts, 1500 * 8 - 1) is None
