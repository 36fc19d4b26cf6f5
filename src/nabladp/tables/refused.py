"""Why something is not read as a table, and what to give instead."""

from __future__ import annotations

from typing import Any

_TYPES = ".csv, .tsv, .json, .ndjson (these also with .gz), .parquet, .feather, .arrow or .xlsx"
_ELSEWHERE = {
    ("zip", "bz2", "xz", "zst", "7z", "tar", "tgz"): "Unpack it first.",
    ("xls", "xlsb", "xlsm", "ods"): "Save it as .xlsx or CSV.",
    ("dta", "sav", "por", "sas7bdat", "xpt", "rds", "rdata"): "Read it with pandas, and write it as Parquet.",
    ("orc", "avro", "h5", "hdf5", "pkl", "pickle"): "Write it as Parquet.",
    ("duckdb", "db", "sqlite", "sqlite3", "mdb", "accdb"): "Write the table that you need as Parquet or CSV.",
    ("txt", "dat"): "If it has commas or tabs between fields, name it .csv or .tsv.",
}


def other_file(ending: str) -> str:
    """What to do with a file of a type that is not read."""
    return next((fix for known, fix in _ELSEWHERE.items() if ending in known), f"Save the table as one of: {_TYPES}.")


def other_object(source: Any) -> str:
    """What to give in place of an object that is no table, or whose rows can be read only once."""
    name = type(source).__name__
    if name in ("RecordBatchReader", "RecordBatchFileReader", "RecordBatchStreamReader"):
        return "Its rows can be read only once, and may be needed again: give the table that its read_all() returns."
    if name in ("Scanner", "GroupBy", "LazyGroupBy", "DataFrameGroupBy"):
        return "Give the table or dataset that it was made from."
    if name == "DuckDBPyConnection":
        return 'Give a relation: connection.table("people").'
    if name in ("Series", "ndarray", "ChunkedArray", "list", "tuple", "generator"):
        return "Give its columns names: pyarrow.table({…}), or a pandas or polars DataFrame."
    if hasattr(source, "__arrow_c_stream__"):
        return "Make it an Arrow table: pyarrow.table(…)."
    return (
        "Give a file, a glob, a DuckDB query or relation, a pandas, polars or Arrow table, a LazyFrame, an Arrow "
        "dataset, or a Spark DataFrame."
    )
