"""Values to codes. Text and typed sources give the same codes: "3", 3 and 3.0 are one value.

Everything is done a column at a time with Arrow and numpy, so the same code runs on one machine and inside a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.errors import DataError
from nabladp.schema import Attribute, Schema
from nabladp.tables.values import ABOVE, BELOW, FOREIGN, NULL, plain_codes, raw_codes

Codes = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Finding:
    """A rule of the schema that a column breaks. Says nothing about which rows or how many."""

    column: str
    rule: str
    fix: str

    def to_json(self) -> dict[str, str]:
        return {"column": self.column, "rule": self.rule, "fix": self.fix}

    def error(self) -> DataError:
        return DataError(f"Column {self.column!r} {self.rule}.", fix=self.fix, column=self.column, rule=self.rule)


def code_type(size: int) -> type[np.unsignedinteger]:
    """The smallest unsigned integer that holds the codes 0 … size − 1."""
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32


def encode_column(attribute: Attribute, column: pa.Array) -> tuple[Codes, list[Finding]]:
    """The codes of a column, and the rules it breaks. Where a rule is broken, the codes mean nothing."""
    kind = code_type(attribute.size)
    plain = plain_codes(attribute, column)
    if plain is not None:
        return plain.astype(kind), []  # a copy: the table may change behind our back, codes never do
    try:
        raw = raw_codes(attribute, column)
    except pa.ArrowException:  # the text of such an error may hold a value
        unreadable = Finding(attribute.name, "holds text that is not valid UTF-8", "Write the column again as UTF-8.")
        return np.zeros(len(column), kind), [unreadable]
    faults = _apply_rules(attribute, raw) if raw.size and raw.min() < 0 else []
    return (np.zeros(raw.size, kind) if faults else raw.astype(kind)), faults


def _apply_rules(attribute: Attribute, raw: NDArray[np.int64]) -> list[Finding]:
    """Turn what is not a declared value into its declared category, in place."""
    faults = []
    null, outside = raw == NULL, raw < NULL
    if attribute.null_code is not None:
        raw[null] = attribute.null_code
    elif null.any():
        fix = 'Write null = "category" for it in the schema, or fill the gaps before.'
        faults.append(Finding(attribute.name, "holds empty values, which the schema refuses", fix))
    if attribute.other_code is not None:
        raw[outside] = attribute.other_code
    elif attribute.unknown == "clamp":
        if (raw == FOREIGN).any():
            what = "integer" if attribute.kind == "integer" else "number"
            fix = 'Write unknown = "other" for it in the schema, or mend them before.'
            faults.append(Finding(attribute.name, f"holds values that are no {what} and so cannot be clamped", fix))
        raw[raw == BELOW] = 0
        raw[raw == ABOVE] = attribute.ordered_size - 1
    elif outside.any():
        faults.append(Finding(attribute.name, "holds values outside its declared domain", _outside_fix(attribute, raw)))
    return faults


def _outside_fix(attribute: Attribute, raw: NDArray[np.int64]) -> str:
    if attribute.kind == "boolean":
        return 'Declare it "categorical" with its two values, or write unknown = "other" for it in the schema.'
    numeric = attribute.kind in ("integer", "real")
    if numeric and (raw == FOREIGN).any():
        what = "whole numbers" if attribute.kind == "integer" else "numbers"
        return (
            f'Not all are {what}: mend them, name those that mean "missing" in null_values, or write unknown = "other".'
        )
    clamp = ' or "clamp"' if numeric else ""
    return f'Widen the domain from public knowledge, or write unknown = "other"{clamp} for it in the schema.'


@dataclass(frozen=True)
class Encoder:
    """Encodes batches of rows by a schema; picklable, and without state between batches."""

    schema: Schema
    names: tuple[str, ...]

    def __init__(self, schema: Schema, names: Iterable[str] | None = None) -> None:
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "names", schema.names if names is None else tuple(names))
        for name in self.names:
            schema[name]  # refuses an unknown name

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows as codes; a value the schema refuses is a DataError."""
        if not self.names:
            return batch.select([])  # which still knows how many rows it has
        columns = []
        for name in self.names:
            codes, faults = encode_column(self.schema[name], batch.column(name))
            if faults:
                raise faults[0].error()
            columns.append(pa.array(codes))
        return pa.RecordBatch.from_arrays(columns, names=list(self.names))

    def bytes_per_row(self) -> int:
        return sum(np.dtype(code_type(self.schema[name].size)).itemsize for name in self.names)
