"""What travels between tasks, and from the last of them to the driver: a piece of counts, of codes, or a fault.

Faults travel as records, too. An error raised on an executor would be tried again three times, and would come back as a
text that may quote a row.
"""

from __future__ import annotations

import json

import pyarrow as pa

from nabladp import errors
from nabladp.errors import NablaDPError, SourceError

LAYOUT = "chunk int, branch int, rows long, data binary, fault string"
FIELDS = pa.schema(
    [("chunk", pa.int32()), ("branch", pa.int32()), ("rows", pa.int64()), ("data", pa.binary()), ("fault", pa.string())]
)


def record(
    chunk: int = 0, branch: int = 0, rows: int = 0, data: bytes = b"", fault: str | None = None
) -> pa.RecordBatch:
    values = (chunk, branch, rows, data, fault)
    return pa.RecordBatch.from_arrays(
        [pa.array([v], f.type) for v, f in zip(values, FIELDS, strict=True)], schema=FIELDS
    )


def fault_of(error: NablaDPError) -> str:
    return json.dumps([type(error).__name__, error.message, error.fix, error.fields], default=str)


def error_of(fault: str) -> NablaDPError:
    name, message, fix, fields = json.loads(fault)
    kind = getattr(errors, name, SourceError)
    found: NablaDPError = kind(message, fix=fix, **fields)
    return found
