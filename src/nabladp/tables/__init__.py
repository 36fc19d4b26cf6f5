"""The only code that reads rows: files, queries and data frames in, exact counts out (never printed, never stored)."""

from __future__ import annotations

from nabladp.tables.columns import (
    column_types,
    count_rows,
    declared_categories,
    doubtful_header,
    headerless_query,
    look_at_columns,
)
from nabladp.tables.counts import CodedTable, Counts, PartOfRows, Progress
from nabladp.tables.declarations import coded_numbers, formula_codes
from nabladp.tables.decode import alike, decode, decode_labels, recode
from nabladp.tables.encode import Encoder, Finding
from nabladp.tables.kernels import Kernel, Marginals
from nabladp.tables.opening import check_person_columns, check_table, open_table, values_at_fault
from nabladp.tables.population import check_population, check_sentence, query_files
from nabladp.tables.spark import check_spark
from nabladp.tables.table import Table

__all__ = [
    "CodedTable",
    "Counts",
    "Encoder",
    "Finding",
    "Kernel",
    "Marginals",
    "PartOfRows",
    "Progress",
    "Table",
    "alike",
    "check_person_columns",
    "check_population",
    "check_sentence",
    "check_spark",
    "check_table",
    "coded_numbers",
    "column_types",
    "count_rows",
    "declared_categories",
    "decode",
    "decode_labels",
    "doubtful_header",
    "formula_codes",
    "headerless_query",
    "look_at_columns",
    "open_table",
    "query_files",
    "recode",
    "values_at_fault",
]
