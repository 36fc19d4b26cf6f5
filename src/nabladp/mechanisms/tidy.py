"""Tidy tables, the form in which outputs leave: one row per number, a column for each attribute with the labels of its
values, then ``value``, ``low``, ``high``, ``noise_scale``, and what else is known of the number.

An attribute's column is empty where the number is about all of its values together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Integers
from nabladp.schema import Attribute, Schema
from nabladp.views.tables import VALUE_AT, Layout, plain_value

if TYPE_CHECKING:
    import pyarrow as pa

NUMBERS = ("value", "low", "high", "noise_scale")
_MOST_ENTRIES = 1 << 25  # rows times attributes; beyond, attributes share columns
_FEW_LABELS = 1 << 12  # labels that are listed whether they occur or not


def tidy_table(names: Mapping[str, Any], numbers: Mapping[str, Any]) -> pa.Table:
    """A tidy table from the columns that name its numbers and the numbers themselves; of :data:`NUMBERS` those that are
    not known are empty. A column of numbers whose name an attribute has, too, gets an underscore."""
    import pyarrow as pa

    columns = {name: _array(column) for name, column in names.items()}
    rows = len(next(iter((*columns.values(), *numbers.values()))))
    for name in (*NUMBERS, *(name for name in numbers if name not in NUMBERS)):
        given = numbers.get(name)
        known = pa.nulls(rows, pa.float64()) if given is None else _array(given, from_pandas=True)
        columns[unused_name(name, columns)] = known
    return pa.table(columns, metadata={VALUE_AT: str(len(names))})


def tidy_values(table: pa.Table) -> pa.Table:
    """The tidy form of any table of values; one without numbers stays as it is, but for its lists."""
    import pyarrow as pa

    if VALUE_AT in (table.schema.metadata or {}):
        return table
    layout, heads = Layout.of(table), table.column_names
    plain = {name: _plain(table.column(i)) for i, name in enumerate(heads)}
    if layout.value is None:
        return pa.table(plain)
    known = dict(zip((layout.value, *(layout.interval or ())), NUMBERS, strict=False))
    names = {heads[i]: plain[heads[i]] for i in layout.names}
    rest = [i for i in range(len(heads)) if i not in known and i not in layout.names]
    numbers = {known[i]: plain[heads[i]] for i in known}
    return tidy_table(names, numbers | {_SCALES.get(heads[i], heads[i]): plain[heads[i]] for i in rest})


_SCALES = {"scale": "noise_scale"}


def _plain(column: pa.ChunkedArray) -> Any:
    import pyarrow as pa

    nested = pa.types.is_nested(column.type)
    return pa.array([plain_value(value) for value in column.to_pylist()]) if nested else column.combine_chunks()


def _array(column: Any, **options: Any) -> pa.Array:
    import pyarrow as pa

    return column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column, **options)


def unused_name(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


# ---- the columns of attributes ---------------------------------------------------------------------------------------


def cell_names(schema: Schema, sets: Sequence[Sequence[str]]) -> dict[str, pa.Array]:
    """The name columns of all cells of some marginals, in the order of the counts: which table, and every attribute."""
    shapes = [schema.sizes(own) for own in sets]
    parts = [
        dict(zip(own, np.unravel_index(np.arange(math.prod(shape)), shape), strict=True))
        for own, shape in zip(sets, shapes, strict=True)
    ]
    return named_codes(schema, ["+".join(own) for own in sets], [math.prod(shape) for shape in shapes], parts)


def named_codes(
    schema: Schema, titles: Sequence[str], rows: Sequence[int], parts: Sequence[Mapping[str, Integers]]
) -> dict[str, pa.Array]:
    """The name columns of tables that follow each other: for each its title, its rows, and codes by attribute."""
    import pyarrow as pa

    used = {name for part in parts for name in part}
    names = [name for name in schema.names if name in used]
    numbers = np.repeat(np.arange(len(titles), dtype=np.int32), rows)
    title = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(titles, pa.string()))
    label = unused_name("table", names)
    if len(numbers) * len(names) > _MOST_ENTRIES:
        return {label: title, **_shared_columns(schema, rows, parts)}
    ends = np.cumsum(rows)
    columns: dict[str, Any] = {label: title}
    for name in names:
        codes = np.full(len(numbers), -1, dtype=np.int64)
        for part, many, end in zip(parts, rows, ends, strict=True):
            if name in part:
                codes[end - many : end] = part[name]
        columns[name] = label_column(schema[name], codes)
    return columns


def label_column(attribute: Attribute, codes: Integers) -> pa.Array:
    """The labels of codes as Arrow's dictionary type, in the order of the codes; null for −1."""
    import pyarrow as pa

    if attribute.size <= _FEW_LABELS:
        used, indices = np.arange(attribute.size), codes
    else:
        used, indices = np.unique(codes, return_inverse=True)
        absent = int(len(used) > 0 and used[0] < 0)
        used, indices = used[absent:], indices - absent
    labels = pa.array([attribute.label(code) for code in used.tolist()], pa.string())
    kept = pa.array(indices.astype(np.int32), mask=indices < 0)
    return pa.DictionaryArray.from_arrays(kept, labels, ordered=attribute.is_ordered)


def _shared_columns(
    schema: Schema, rows: Sequence[int], parts: Sequence[Mapping[str, Integers]]
) -> dict[str, pa.Array]:
    """Where a column for every attribute would be too much: the first attribute of each table and its value, the
    second, and so on."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    number = {name: i for i, name in enumerate(names)}
    starts = np.cumsum([0, *(schema[name].size for name in names)])
    labels = [schema[name].label(code) for name in names for code in range(schema[name].size)]
    columns: dict[str, Any] = {}
    for position in range(max(len(part) for part in parts)):
        owners = [next(iter(list(part)[position:]), None) for part in parts]
        numbers = np.repeat([-1 if own is None else number[own] for own in owners], rows)
        codes = [
            np.full(many, -1) if own is None else starts[number[own]] + part[own]
            for own, part, many in zip(owners, parts, rows, strict=True)
        ]
        columns[f"attribute_{position + 1}"] = _strings(numbers, names)
        columns[f"level_{position + 1}"] = _strings(np.concatenate(codes), labels)
    return columns


def _strings(indices: Integers, of: Sequence[str | None]) -> pa.Array:
    """The strings with these indices; null for −1."""
    import pyarrow as pa

    kept = pa.array(indices.astype(np.int32), mask=indices < 0)
    return pa.DictionaryArray.from_arrays(kept, pa.array(of, pa.string())).cast(pa.string())
