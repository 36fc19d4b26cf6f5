"""What learners share about columns: features and label of a schema, and tables of features as codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.errors import DataError, MechanismError, SourceError, without
from nabladp.schema import Schema
from nabladp.tables import Encoder, decode
from nabladp.tables.memory import object_texts
from nabladp.tables.sources import open_source

_SERIES = ("pandas.Series", "polars.Series")  # neither is loaded here


def features(schema: Schema, label: str, over: Sequence[str] | None) -> tuple[str, ...]:
    """A learner's feature columns: ``over``, or every source attribute but the label."""
    if schema[label].size != 2:
        raise MechanismError(
            f"The label {label!r} has {schema[label].size:,} values.",
            fix="Give an attribute with two values; for others take GramMatrix, with classify() or regress().",
            attribute=label,
        )
    result = tuple(name for name in schema.roots if name != label) if over is None else tuple(over)
    schema.sizes(result)
    if label in result:
        raise MechanismError(
            f"{label!r} is the label, and 'over' names it as a feature too.",
            fix="Remove it from 'over'.",
            attribute=label,
        )
    if not result:
        why = "" if over is None else "'over' is empty: "
        raise MechanismError(
            f"{why}there is no feature to predict {label!r} from.",
            fix="Name at least one attribute other than the label.",
        )
    return result


def label_values(schema: Schema, label: str) -> NDArray[Any]:
    """The values that a learner predicts: the label's values, by code. The second one is the positive one."""
    values: NDArray[Any] = decode(schema, {label: np.arange(2)}).column(label).to_numpy(zero_copy_only=False)
    return values


def codes_of(values: Iterable[Any], schema: Schema, names: Sequence[str], what: str) -> tuple[int, ...]:
    """A stored learner's codes, one for each of these columns, checked against the schema."""
    codes, sizes = tuple(int(value) for value in values), schema.sizes(names)
    if len(codes) != len(sizes) or not all(0 <= code < size for code, size in zip(codes, sizes, strict=True)):
        raise MechanismError(
            f"The {what} does not belong to this schema.", fix="Read it with the schema of its release."
        )
    return codes


def as_arrow(data: Any) -> pa.Table:
    """Rows to predict as an Arrow table, from a data frame, an Arrow table or a mapping of columns, each value read by
    itself."""
    if isinstance(data, Mapping):
        columns = {str(name): column(values) for name, values in data.items()}
        if len({len(values) for values in columns.values()}) > 1:
            first, *others = columns
            odd = next(name for name in others if len(columns[name]) != len(columns[first]))
            raise DataError(
                f"The columns {first!r} and {odd!r} are not equally long.",
                fix="Give one value for each row.",
                column=odd,
            )
        return pa.table(columns)
    if isinstance(data, pa.Table):
        return data
    source = open_source(data)
    ((_, names, _),) = source.headers()
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise DataError(f"The table has the column {name!r} twice.", fix="Rename or remove one.", column=name)
    batches = list(source.batches(tuple(names)))
    return pa.Table.from_batches(batches) if batches else pa.table({name: pa.array([], pa.null()) for name in names})


def column(values: Any) -> pa.Array | pa.ChunkedArray:
    """A list, an array or a series as an Arrow column, such as the labels given to a learner."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if any(f"{kind.__module__.partition('.')[0]}.{kind.__name__}" in _SERIES for kind in type(values).__mro__):
        return as_arrow(values.to_frame()).column(0)
    given = np.asarray(values, dtype=object)
    if given.ndim == 0:  # a text, a number, a generator, a set
        raise SourceError("A column must be a list or an array.", fix="Give one value for each row.")
    if given.ndim != 1:
        raise SourceError("A column must have one value for each row.", fix="Give a flat list.")
    missing = np.array([value is None or value != value for value in given], dtype=bool)  # NaN is not itself
    return object_texts(given, missing)


def no_column(missing: Sequence[str], why: str = "", *, fix: str) -> DataError:
    message = f"There is no {without(missing)}{why}."
    return DataError(message, fix=fix, column=missing[0], columns=list(missing))


def encoded(data: Any, schema: Schema, names: Sequence[str]) -> Integers:
    """Rows to predict as codes of the feature columns: one row per row, one column per name."""
    columns = encoded_columns(data, schema, names)
    return np.stack([columns[name] for name in names], axis=1) if columns else np.empty((0, 0), np.int64)


def encoded_columns(data: Any, schema: Schema, names: Sequence[str]) -> dict[str, Integers]:
    """Rows to predict as what kernels read: an array of codes, or of numbers on the grid, for each of these names."""
    table, encoder = as_arrow(data), Encoder(schema, names)
    missing = [name for name in encoder.columns if name not in table.column_names]
    if missing:
        raise no_column(missing, fix="Give every feature that was learned from.")
    parts = [encoder.encode(batch) for batch in table.select(list(encoder.columns)).to_batches()]
    empty = np.empty(0, np.int64)
    return {
        name: np.concatenate([empty, *(part.column(name).to_numpy().astype(np.int64) for part in parts)])
        for name in encoder.names
    }
