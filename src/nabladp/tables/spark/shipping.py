"""A task on its way to the executors. It first makes sure that they are the same as the driver in what matters."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import nabladp
from nabladp import errors
from nabladp.errors import NablaDPError, SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# ---- what travels between tasks and driver ---------------------------------------------------------------------------
# Faults travel as records, too. An error raised on an executor would be tried again three times, and would come back as
# a text that may quote a row.

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


# ---- a task on its way to the executors ------------------------------------------------------------------------------

PACKAGES = ("numpy", "pyarrow", "numba")
Run = Callable[[Iterator[Any]], Iterator[Any]]


def driver_versions() -> dict[str, str]:
    """What executors must agree on: Python and packages in their first two numbers, nabladp in all."""
    same = {name: ".".join(version(name).split(".")[:2]) for name in PACKAGES}
    return {"Python": f"{sys.version_info[0]}.{sys.version_info[1]}", "nabladp": nabladp.__version__, **same}


class Shipping:
    """Sends tasks to the rows of data frames. Tasks are broadcast: a list they carry reaches each executor once.

    Close it when nothing that was sent will run again.
    """

    def __init__(self) -> None:
        self._sent: list[Any] = []

    def __call__(self, frame: DataFrame, task: Any, layout: str = LAYOUT) -> DataFrame:
        from pyspark import cloudpickle

        self._sent.append(frame.sparkSession.sparkContext.broadcast(cloudpickle.dumps(task)))  # type: ignore[no-untyped-call]
        return frame.mapInArrow(shipped(self._sent[-1], driver_versions()), layout)

    def close(self) -> None:
        with suppress(Exception):  # the session may be over
            while self._sent:
                self._sent.pop().destroy()


def shipped(task: Any, wanted: Mapping[str, str]) -> Run:
    """What an executor is to run: ``task`` is a broadcast of the pickled task.

    The function inside is sent by value and leans on nothing of ours, so that it can tell of an executor where there is
    no nabladp. It looks at every task: executors come and go.
    """

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import json
        import pickle
        import sys
        from importlib.metadata import PackageNotFoundError, version

        import pyarrow as pa

        def found(name: str) -> str:
            try:
                if name == "Python":
                    return f"{sys.version_info[0]}.{sys.version_info[1]}"
                if name == "nabladp":  # may have been shipped as plain files
                    import nabladp

                    return nabladp.__version__
                return ".".join(version(name).split(".")[:2])
            except (ImportError, PackageNotFoundError):
                return "none"

        other = {name: found(name) for name in wanted if found(name) != wanted[name]}
        if other:
            what = ", ".join(f"{name} {there} where the driver has {wanted[name]}" for name, there in other.items())
            fix = "Give executors the driver's environment, installed on each or sent along with spark.archives."
            fault = json.dumps(["MissingPart", f"An executor has {what}.", fix, {"packages": sorted(other)}])
            whole = pa.array([0], pa.int32())
            columns = [whole, whole, pa.array([0], pa.int64()), pa.array([b""], pa.binary()), pa.array([fault])]
            yield pa.RecordBatch.from_arrays(columns, names=["chunk", "branch", "rows", "data", "fault"])
            return
        yield from pickle.loads(task.value)(batches)

    return run
