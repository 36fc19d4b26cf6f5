"""A whole table against its schema: every column at fault, with the rule it breaks and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from nabladp.tables.encode import Finding, encode_column
from nabladp.tables.spark.table import SparkTable
from nabladp.tables.table import Table

KEPT_ROWS = 1 << 20


def check_table(table: Table) -> list[Finding]:
    """All rules the table breaks, in the order of the schema; empty when it breaks none. Names no value, row or number.

    A derived column must be a function of the columns it is said to be derived from: otherwise what it costs to release
    it would not be charged to all it reveals.
    """
    if isinstance(table, SparkTable):
        return _on_cluster(table)
    schema = table.schema
    findings: dict[str, dict[str, Finding]] = {name: {} for name in schema.names}
    derivations = [Derivation(a.name, a.derived_from) for a in schema if a.derived_from]
    with closing(table.raw_batches()) as batches:
        for batch in batches:
            codes: dict[str, Any] = {}
            for attribute in schema:
                codes[attribute.name], faults = encode_column(attribute, batch.column(attribute.name))
                findings[attribute.name].update({fault.rule: fault for fault in faults})
            sound = {name for name in codes if not findings[name]}
            for derivation in derivations:
                if sound.issuperset(derivation.columns):  # codes of a faulty column mean nothing
                    derivation.see(pa.table({name: codes[name] for name in derivation.columns}))
    for derivation in derivations:
        if not any(findings[name] for name in derivation.columns) and not derivation.holds():
            fault = derivation.finding()
            findings[derivation.column][fault.rule] = fault
    return [fault for faults in findings.values() for fault in faults.values()]


def _on_cluster(table: SparkTable) -> list[Finding]:
    """The same, where the rows are."""
    found = table.findings()
    faulty = {finding.column for finding in found}
    for attribute in table.schema:
        name, sources = attribute.name, attribute.derived_from
        if sources and faulty.isdisjoint((name, *sources)) and not table.is_function(name, sources):
            found.append(Derivation(name, sources).finding())
    return sorted(found, key=lambda finding: table.schema.names.index(finding.column))


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
        self._seen.append(_distinct(codes, self.columns))
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
        fix = "Name all its sources in 'derived_from', or remove it to make the column an attribute of its own."
        return Finding(self.column, f"is not a function of {names}, from which it is said to be derived", fix)


def _distinct(table: pa.Table, columns: list[str]) -> pa.Table:
    return table.select(columns).group_by(columns).aggregate([])
