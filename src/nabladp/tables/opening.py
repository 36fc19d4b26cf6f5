"""Opening a table, which reads no rows; and a whole table against its schema."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nabladp.checks import expect, is_whole
from nabladp.errors import DataError, without
from nabladp.person import Person
from nabladp.schema import Schema
from nabladp.tables.declarations import contradictions, declaration_faults
from nabladp.tables.encode import Finding, encode_column, outside_hint, outside_values, shown_texts
from nabladp.tables.lazy import DuckRelation, Files
from nabladp.tables.people import StoredQuery, UsedRows
from nabladp.tables.population import Origin
from nabladp.tables.sources import ScanSource, Source, open_source
from nabladp.tables.spark import SparkFrame
from nabladp.tables.spark.people import UsedSparkRows
from nabladp.tables.spark.table import SparkTable
from nabladp.tables.table import Table, other_number_of_rows
from nabladp.tables.values import value_texts

# ---- opening ---------------------------------------------------------------------------------------------------------


def open_table(
    source: Any,
    schema: Schema,
    rows: int | None = None,
    *,
    folder: str | Path = "",
    person: Person | None = None,
    population: str = "",
) -> Table:
    """Open a table: a CSV, JSON, Parquet, Feather, Arrow or Excel file, a glob of them, a DuckDB query or relation, a
    pandas, polars or Arrow table, a polars LazyFrame, an Arrow dataset, or a Spark DataFrame (or the ``source`` of a
    plan that names a Spark reader).

    Checks that it can be read and has the columns of the schema, and reads no rows (of JSON, the names in the first
    records). ``rows`` is their number where it is known beforehand; a table with any other number is refused when it is
    counted. ``folder`` is where relative paths inside a query start. Each row of a query must be made from one person's
    data alone. ``population`` is one sentence on why it is public which rows are in; nothing is released from a query
    that selects rows without it.

    ``person`` bounds the rows of each person: at most so many are used, and ``rows`` then counts those. The order of
    their rows decides which; several files, a query and Spark have none, and need a ``row_id``.
    """
    expect(schema, Schema, "The schema of a table", 'Load it with Schema.load("schema.toml").')
    if rows is not None and not is_whole(rows, 1):
        raise DataError("The number of rows must be a whole number above zero.", fix="Leave it out to have it counted.")
    bounds = person if person is not None and person.id is not None else None
    names = schema.columns if bounds is None else _with_person(schema, bounds)
    opened = open_source(source, frozenset(names), str(folder))
    for what, columns, is_text in opened.headers():
        _check_columns(what, columns, is_text, names, schema)
    table = _open(opened, schema, rows, bounds)
    table.origin = Origin(population, opened.query, any_function=isinstance(opened, DuckRelation))
    return table


def _open(opened: Source, schema: Schema, rows: int | None, bounds: Person | None) -> Table:
    if bounds is not None:
        return _open_bounded(opened, schema, rows, bounds)
    if rows is not None and (known := opened.known_count()) not in (None, rows):
        raise other_number_of_rows(rows, known)
    if isinstance(opened, SparkFrame):
        return SparkTable(opened, schema, rows)
    return Table(opened, schema, rows)


def check_person_columns(schema: Schema, person: Person) -> None:
    """Refuse people who are named, or whose rows are ordered, by an attribute: which rows are used may depend on no
    protected one."""
    for name in person.columns:
        if name in schema and (name == person.id or not schema[name].public):
            word = "names people" if name == person.id else "orders their rows"
            raise DataError(
                f"The column {name!r}, which {word}, is an attribute as well.",
                fix="Remove it from the schema: no mechanism reads it."
                if name == person.id
                else "Give a column that says nothing about a person, such as a running number, or declare it public.",
                column=name,
            )


def _with_person(schema: Schema, person: Person) -> tuple[str, ...]:
    """All columns that are read."""
    check_person_columns(schema, person)
    return tuple(dict.fromkeys((*schema.columns, *person.columns)))


def _open_bounded(opened: Source, schema: Schema, rows: int | None, person: Person) -> Table:
    if person.row_id is None and (isinstance(opened, SparkFrame) or not _in_order(opened)):
        raise DataError(
            "The rows of several files, of a query and on Spark have no order, so that a person's first rows are "
            "not defined.",
            fix="Give person a 'row_id', a column that orders them, such as a running number.",
        )
    if isinstance(opened, SparkFrame):
        return SparkTable(UsedSparkRows.of(opened, schema.columns, person), schema, rows, person)
    if not opened.keeps_order:
        opened = StoredQuery(opened, _with_person(schema, person))
    return Table(UsedRows(opened, person), schema, rows, person)


def _in_order(opened: Source) -> bool:
    several = isinstance(opened, Files) or (isinstance(opened, ScanSource) and len(opened.scans) > 1)
    return opened.keeps_order and not several


def _check_columns(what: str, columns: Sequence[str], is_text: bool, names: Sequence[str], schema: Schema) -> None:
    times = Counter(columns)
    for name in names:
        if times[name] > 1:
            raise DataError(f"{what} has the column {name!r} twice.", fix="Rename or remove one.", column=name)
    missing = [name for name in names if name not in times]
    if not missing:
        return
    if is_text and len(missing) == len(names):  # perhaps no header at all: then its first line is a person
        fix = "Put the column names into the first line, as the schema writes them."
        if len(columns) == 1 and len(names) > 1 and all(name in columns[0] for name in names):
            fix = "Separate the columns by a comma, a semicolon, a tab or a bar: the first line names them all in one."
        raise DataError(f"{what} names no column of the schema in its first line.", fix=fix, columns=missing)
    near = difflib.get_close_matches(missing[0], times, n=1)
    where = "in the schema, or remove it there" if missing[0] in schema else "where a person is declared"
    fix = f"Did you mean {near[0]!r}? Correct one of the two names." if near else f"Correct its name {where}."
    raise DataError(f"{what} has no {without(missing)}.", fix=fix, column=missing[0], columns=missing)


# ---- every column against its schema ---------------------------------------------------------------------------------

KEPT_ROWS = 1 << 20


def check_table(table: Table) -> list[Finding]:
    """Check a whole table against its schema: all rules it breaks, in schema order, and by how many rows. Names no
    value.

    A derived column must be a function of the columns it is said to be derived from, that is of their values, not
    only of their codes: otherwise what it costs to release it would not be charged to all it reveals.
    """
    expect(table, Table, "What is checked", "Open it with open_table.")
    if isinstance(table, SparkTable):
        return _on_cluster(table)
    schema = table.schema
    findings: dict[str, dict[str, Finding]] = {name: {} for name in schema.names}
    derivations = [Derivation(a.name, a.derived_from) for a in schema if _is_derivation(schema, a.name)]
    with closing(table.raw_batches()) as batches:
        for batch in batches:
            codes: dict[str, Any] = {}
            for attribute in map(schema.__getitem__, schema.columns):
                codes[attribute.name], faults = encode_column(attribute, batch.column(attribute.name))
                for fault in faults:
                    hint = outside_hint(attribute, batch.column(attribute.name))
                    findings[attribute.name][fault.rule] = _add_batch(
                        findings[attribute.name].get(fault.rule), fault, hint
                    )
            sound = frozenset(name for name in codes if not breaks_own_rules(findings[name]))
            for fault in declaration_faults(schema, batch, codes, sound):
                findings[fault.column][fault.rule] = _add_batch(findings[fault.column].get(fault.rule), fault, "")
            for derivation in derivations:
                if sound.issuperset(derivation.columns):  # codes of a faulty column mean nothing
                    derivation.see(pa.table({name: codes[name] for name in derivation.columns}))
    sound = frozenset(name for name, faults in findings.items() if not breaks_own_rules(faults))
    unclear = [own for own in derivations if sound.issuperset(own.columns) and not own.holds()]
    for derivation in _not_functions(table, unclear):
        fault = derivation.finding()
        findings[derivation.column][fault.rule] = fault
    return [fault for faults in findings.values() for fault in faults.values()]


def breaks_own_rules(faults: Mapping[str, Finding]) -> bool:
    """Whether a column breaks rules about itself; a rule between columns leaves its codes as they are."""
    return any(not fault.between for fault in faults.values())


def _add_batch(known: Finding | None, fault: Finding, hint: str) -> Finding:
    """A fault of one more batch; a hint comes first in its fix."""
    if known is None:
        return replace(fault, fix=hint + fault.fix)
    fix = known.fix if not hint or known.fix.startswith(hint) else hint + known.fix
    return replace(known, rows=known.rows + fault.rows, fix=fix)


def values_at_fault(table: Table, findings: Sequence[Finding], most: int = 10) -> dict[str, list[str]]:
    """Some values by which each of these columns breaks a rule; where the rule is about several columns, the values of
    all of them. They are data: for the owner's own screen."""
    if isinstance(table, SparkTable):
        raise DataError("Values are not fetched from Spark.", fix="Look for them there, by the rule that they break.")
    schema = table.schema
    columns = list(dict.fromkeys(own.column for own in findings))
    values: dict[str, list[str]] = {name: [] for name in columns}
    sound = frozenset(schema.columns) - {own.column for own in findings if not own.between}
    derivations = [Derivation(name, schema[name].derived_from) for name in columns if _is_derivation(schema, name)]
    with closing(table.raw_batches()) as batches:
        for batch in batches:
            for name in columns:
                if name not in sound:
                    _keep(values[name], outside_values(schema[name], batch.column(name), most), most)
            codes = {name: encode_column(schema[name], batch.column(name))[0] for name in sound}
            for finding, about, broken in contradictions(schema, batch, codes, sound):
                rows = batch.filter(pa.array(broken))
                _keep(values[finding.column], _together({name: shown_texts(rows.column(name)) for name in about}), most)
            for derivation in derivations:
                if sound.issuperset(derivation.columns):
                    texts = {name: shown_texts(batch.column(name)) for name in derivation.columns}
                    derivation.see(pa.table(texts))
    for derivation in derivations:
        if not sound.issuperset(derivation.columns):
            continue
        found = derivation.against(most)
        _keep(values[derivation.column], _together({name: found[name] for name in derivation.columns}), most)
    return values


def _is_derivation(schema: Schema, name: str) -> bool:
    return bool(schema[name].derived_from) and not schema[name].is_computed


def _keep(known: list[str], more: Sequence[str], most: int) -> None:
    known[:] = list(dict.fromkeys((*known, *more)))[:most]


def _together(texts: Mapping[str, Any]) -> list[str]:
    """Each row as one text, such as "age = '30', band = 'child'"."""
    rows = zip(*(own.to_pylist() for own in texts.values()), strict=True)
    return [", ".join(f"{name} = {own}" for name, own in zip(texts, row, strict=True)) for row in rows]


def _not_functions(table: Table, derivations: Sequence[Derivation]) -> list[Derivation]:
    """Those columns that do not follow from the values of their sources either. Codes may be coarser than values: from
    the age in bins of ten years nobody tells who is of age, from the age itself everybody does."""
    again = [Derivation(derivation.column, derivation.sources) for derivation in derivations]
    if again:
        with closing(table.raw_batches()) as batches:
            for batch in batches:
                for derivation in again:
                    derivation.see(_source_values(batch, derivation, table.schema))
    return [derivation for derivation in again if not derivation.holds()]


def _source_values(batch: pa.RecordBatch, derivation: Derivation, schema: Schema) -> pa.Table:
    """The values of the sources as they are, and the codes of what is derived from them."""
    values = {name: value_texts(batch.column(name)) for name in derivation.sources}
    codes, _ = encode_column(schema[derivation.column], batch.column(derivation.column))
    return pa.table({**values, derivation.column: codes})


def _on_cluster(table: SparkTable) -> list[Finding]:
    """Check a table on Spark against its schema, where the rows are."""
    findings = table.findings()
    faulty = {finding.column for finding in findings if not finding.between}
    for attribute in table.schema:
        name, sources = attribute.name, attribute.derived_from
        if (
            sources
            and not attribute.is_computed
            and faulty.isdisjoint((name, *sources))
            and not table.is_function(name, sources)
        ):
            findings.append(Derivation(name, sources).finding())
    return sorted(findings, key=lambda finding: table.schema.names.index(finding.column))


class Derivation:
    """Whether a column is a function of others, from the distinct combinations seen so far."""

    def __init__(self, column: str, sources: Sequence[str]) -> None:
        self.column, self.sources = column, list(sources)
        self.columns = [*self.sources, column]
        self._seen: list[pa.Table] = []
        self._limit = KEPT_ROWS
        self._broken = False

    def see(self, codes: pa.Table) -> None:
        if self._broken:
            return
        ones = pa.array(np.ones(codes.num_rows, np.int64))
        self._seen.append(_distinct(codes.select(self.columns).append_column(_ROWS, ones), self.columns))
        if sum(part.num_rows for part in self._seen) > self._limit:
            self._broken = not self.holds()
            self._limit = max(KEPT_ROWS, 2 * self._seen[0].num_rows)

    def holds(self) -> bool:
        if self._broken or not self._seen:
            return not self._broken
        self._seen = [_distinct(pa.concat_tables(self._seen), self.columns)]
        return bool(_distinct(self._seen[0], self.sources).num_rows == self._seen[0].num_rows)

    def finding(self) -> Finding:
        names = ", ".join(repr(name) for name in self.sources)
        fix = "Name all its sources in 'derived_from'; without it, nothing is charged to them for this column."
        rule = f"is not a function of {names}, from which it is said to be derived"
        return Finding(self.column, rule, fix, self.exceptions(), between=True)

    def exceptions(self) -> int:
        """The fewest rows that would have to change for it to be a function; 0 where not all rows were looked at."""
        if self._broken or not self._seen:
            return 0
        largest = self._seen[0].group_by(self.sources).aggregate([(_ROWS, "max"), (_ROWS, "sum")])
        return int(pc.sum(largest[f"{_ROWS}_sum"]).as_py() - pc.sum(largest[f"{_ROWS}_max"]).as_py())

    def against(self, most: int) -> pa.Table:
        """Some combinations that contradict each other: of the same sources, with different values."""
        self.holds()
        listed, same = self._seen[0], defaultdict(list)
        for index, row in enumerate(zip(*(listed[name].to_pylist() for name in self.sources), strict=True)):
            same[row].append(index)
        several = chain.from_iterable(own for own in same.values() if len(own) > 1)
        return listed.take(pa.array(list(several)[:most], pa.int64()))


_ROWS = "\0rows"  # how often a combination is met; no column has this name


def _distinct(table: pa.Table, columns: list[str]) -> pa.Table:
    """The distinct combinations of a table that counts its rows, with their number."""
    counted = table.group_by(columns).aggregate([(_ROWS, "sum")])
    return counted.select([*columns, f"{_ROWS}_sum"]).rename_columns([*columns, _ROWS])
