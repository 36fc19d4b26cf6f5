"""What a schema declares about several columns at once, on rows: its rules between numbers, its formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.schema import Attribute, Schema
from nabladp.schema.formulas import UNKNOWN
from nabladp.tables.decode import bin_numbers
from nabladp.tables.encode import Finding, column_numbers, encode_numbers

Codes = Mapping[str, NDArray[Any]]


def coded_numbers(attribute: Attribute, codes: NDArray[Any], positions: NDArray[np.floating] | None = None) -> Floats:
    """The number behind each code, as a decoded row holds it; NaN for null and other."""
    if positions is not None:
        numbers = bin_numbers(attribute, codes, positions)
    elif attribute.kind == "boolean":
        numbers = codes.astype(np.float64)
    elif attribute.low is not None:
        numbers = codes.astype(np.float64) + attribute.low
    else:
        known = attribute.representatives
        extra = [math.nan] * (attribute.size - attribute.ordered_size)
        numbers = np.append(known if known is not None else [math.nan] * attribute.ordered_size, extra)[codes]
    return np.where(codes < attribute.ordered_size, numbers, math.nan)


def formula_codes(schema: Schema, name: str, numbers: Mapping[str, Floats], codes: Codes) -> NDArray[Any]:
    """The code of a derived column that its formula gives each row; UNKNOWN where it says nothing and the column has
    neither null nor other."""
    attribute, formula = schema[name], schema.formulas[name]
    result = formula.codes(numbers, codes)
    if result is None and formula.expression is not None:
        result = encode_numbers(attribute, formula.expression.values(numbers))
    fallback = next((code for code in (attribute.null_code, attribute.other_code) if code is not None), UNKNOWN)
    return np.where(np.asarray(result) == UNKNOWN, fallback, np.asarray(result))


def declaration_faults(schema: Schema, batch: pa.RecordBatch, codes: Codes, sound: frozenset[str]) -> Iterator[Finding]:
    """Rules and formulas that rows of the table contradict, by how many; of columns that break no rule of their own."""
    return (finding for finding, _, _ in contradictions(schema, batch, codes, sound))


def contradictions(
    schema: Schema, batch: pa.RecordBatch, codes: Codes, sound: frozenset[str]
) -> Iterator[tuple[Finding, tuple[str, ...], NDArray[np.bool_]]]:
    """The same with the columns that each is about, and which rows contradict it."""
    known = {name: level[codes[column]] for name, (column, level) in schema.levels.items() if column in sound}
    codes, sound = {**codes, **known}, sound | known.keys()
    read = {name for rule in schema.inequalities for name in rule.names}
    read |= {source for formula in schema.formulas.values() for source in formula.sources}
    numbers = {
        name: coded_numbers(schema[name], codes[name])
        if schema[name].kind == "date"
        else column_numbers(schema[name], batch.column(name), codes[name])
        for name in read & sound
        if schema[name].is_numeric or schema[name].kind == "boolean"
    }
    for rule in schema.inequalities:
        if sound.issuperset(rule.names):
            broken = np.asarray(rule.broken(numbers), bool)
            if broken.any():
                yield broken_rule(rule.names[0], rule.text, int(broken.sum())), tuple(rule.names), broken
    for name, formula in schema.formulas.items():
        if sound.issuperset((name, *formula.sources)):
            computed = formula_codes(schema, name, numbers, {own: codes[own] for own in formula.sources})
            broken = (computed != UNKNOWN) & (computed != codes[name])
            if broken.any():
                fix = "Correct the formula, or the column; synthetic rows follow the formula."
                finding = Finding(name, "differs from its formula", fix, int(broken.sum()), between=True)
                yield finding, (*formula.sources, name), broken


def broken_rule(column: str, text: str, rows: int) -> Finding:
    fix = "Correct the rule or the rows. These rows are counted all the same, but no synthetic row will be like them."
    return Finding(column, f"breaks the rule '{text}'", fix, rows, between=True)
