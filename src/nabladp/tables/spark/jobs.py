"""A Spark action in a job group of its own: its progress is reported, Ctrl-C stops it, its errors hold no data."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from logging import LogRecord
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from nabladp.errors import NablaDPError, SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
Share = Callable[[float], None]  # how much is done, from 0 to 1
_MOMENT = 0.1  # seconds between looks
_THREAD = "nabladp-spark"
_LOGS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


class Stopped(Exception):
    """Raised inside an action that nobody waits for any more."""


def act(
    spark: SparkSession,
    what: str,
    action: Callable[[], Result],
    progress: Share | None = None,
    stop: Event | None = None,
) -> Result:
    """Run a Spark action in a thread of its own while this one watches: it always notices Ctrl-C, and cancels the jobs.

    ``stop`` is set when nobody waits any more, for actions that consist of several jobs.
    """
    from pyspark import InheritableThread

    context, group = spark.sparkContext, f"nabladp-{uuid.uuid4().hex}"
    results: list[Result] = []
    faults: list[BaseException] = []
    finished = Event()

    def work() -> None:
        try:
            context.setJobGroup(group, f"nabladp: {what}", interruptOnCancel=True)
            results.append(action())
        except BaseException as error:
            faults.append(error)
        finally:
            finished.set()

    _hush()
    thread = InheritableThread(target=work, session=spark, name=_THREAD, daemon=True)
    thread.start()
    try:
        while not finished.wait(_MOMENT):
            if progress is not None:
                progress(_share(context, group))
    except BaseException:
        if stop is not None:
            stop.set()
        with suppress(Exception):  # Java may be gone
            context.cancelJobGroup(group)
        finished.wait(10)
        raise
    if faults:
        raise readable(faults[0], what) from None
    if progress is not None:
        progress(1.0)
    return results[0]


def _hush() -> None:
    """Keep Spark's Python side from writing errors of our queries, values included, to the terminal."""
    from pyspark.logger import PySparkLogger

    for name in _LOGS:
        PySparkLogger.getLogger(name).addFilter(_is_not_ours)


def _is_not_ours(record: LogRecord) -> bool:
    return record.threadName != _THREAD


def _share(context: Any, group: str) -> float:
    """The progress of a Spark action's first stage, which reads the rows; later ones only add up its results."""
    try:
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [stage for job in jobs if job is not None for stage in job.stageIds]
        first = tracker.getStageInfo(min(stages)) if stages else None
    except Exception:  # Java may be gone; the action will tell
        return 0.0
    return first.numCompletedTasks / first.numTasks if first is not None and first.numTasks else 0.0


def readable(error: BaseException, what: str) -> BaseException:
    """Our error for one of Spark's, whose texts quote rows: only the kind of fault is kept."""
    if isinstance(error, NablaDPError) or not isinstance(error, Exception):
        return error
    text = str(error).lower()
    for sign, rule, fix in _FAULTS:
        if sign in text:
            return SourceError(f"Spark stopped while {what}: {rule}.", fix=fix, rule=rule)
    kind = condition(error)
    named = f" ({kind})" if kind else ""
    return SourceError(f"Spark failed while {what}{named}.", fix="See the logs of the executors.", condition=kind)


def condition(error: BaseException) -> str | None:
    """Spark's own name for the kind of error, which holds no value."""
    ask = getattr(error, "getCondition", None)  # errors of PySpark 4 have it, those of Python do not
    try:
        name = ask() if ask is not None else None
    except Exception:  # the other side may be gone
        return None
    return name if isinstance(name, str) else None


_FAULTS = (
    (
        "python_version_mismatch",
        "executors have another Python",
        "Set PYSPARK_PYTHON to the same minor version of Python everywhere.",
    ),
    ("no module named 'pyarrow'", "executors have no pyarrow", "Give executors the driver's environment."),
    (
        "cannot run program",
        "executors have no such Python",
        "Set PYSPARK_PYTHON to a Python that every executor has.",
    ),
    ("maxresultsize", "the counts exceed spark.driver.maxResultSize", "Raise it to the size of the counts."),
    ("outofmemory", "an executor or the driver ran out of memory", "Raise spark.executor.memory; see the cost model."),
    (
        "python worker exited",
        "a Python worker died, perhaps for lack of memory",
        "Raise spark.executor.memoryOverhead; see the cost model.",
    ),
    ("cancelled", "the job was cancelled", "Start it again."),
    ("path_not_found", "a path does not exist", "Check it as the executors see it."),
    ("connection refused", "the driver's Java process is gone", "Start the session again."),
)
