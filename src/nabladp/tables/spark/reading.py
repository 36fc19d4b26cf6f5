"""The Spark source of a plan: one of Spark's own readers, on the session that runs or on one that is started for it.

source = { spark = "parquet", path = "s3a://census/people", master = "spark://host:7077" }
source = { spark = "delta", path = "people", options = { versionAsOf = "12" } }
source = { spark = "table", name = "census.people" }
source = { spark = "jdbc", url = "jdbc:postgresql://host/census", table = "people", user = "reader",
           password_env = "CENSUS_PASSWORD", split = { column = "id", low = 1, high = 2000000000, parts = 400 } }
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.errors import DataError, MissingPart, SourceError
from nabladp.tables.duck import Batches
from nabladp.tables.spark.jobs import condition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# ---- Spark's own readers ---------------------------------------------------------------------------------------------

_COMMON: dict[str, type] = {"spark": str, "master": str, "conf": Mapping, "options": Mapping}
_OWN: dict[str, dict[str, type]] = {
    "parquet": {"path": str},
    "delta": {"path": str},
    "table": {"name": str},
    "jdbc": {"url": str, "table": str, "user": str, "password_env": str, "driver": str, "split": Mapping},
}
_NEEDED = {"parquet": ("path",), "delta": ("path",), "table": ("name",), "jdbc": ("url", "table")}
_SPLIT = {"column": str, "low": int, "high": int, "parts": int}
_IN_URL = re.compile(r"\bpassword\s*=", re.IGNORECASE)
_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "FATAL"}  # logs may quote rows


def check_spark(source: Mapping[str, Any]) -> None:
    """Refuse what is no Spark source of a plan, without starting anything."""
    kind = source.get("spark")
    if not isinstance(kind, str) or kind not in _OWN:
        raise SourceError(
            "A Spark source names one of Spark's readers.",
            fix=f'Write, for instance, {{ spark = "parquet", path = "…" }}; known: {", ".join(_OWN)}.',
        )
    if _holds_password(source):
        raise SourceError(
            "A plan must not contain a password.",
            fix="Write password_env, the name of an environment variable that holds it.",
        )
    _check_entries(f"A Spark source of kind {kind!r}", source, _COMMON | _OWN[kind], _NEEDED[kind])
    if "split" in source:
        _check_entries("'split' of a Spark source", source["split"], _SPLIT, tuple(_SPLIT))
    for key in source.get("conf", ()):
        if not key.startswith("spark."):
            raise SourceError(f"{key!r} is not a Spark setting.", fix="Their names start with 'spark.'.")


def _holds_password(source: Mapping[str, Any]) -> bool:
    named = any("password" in key.lower() for key in source.get("options", ()))
    return "password" in source or named or _IN_URL.search(str(source.get("url"))) is not None


def _check_entries(what: str, given: Mapping[str, Any], known: Mapping[str, type], needed: tuple[str, ...]) -> None:
    for name, value in given.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            fix = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
            raise SourceError(f"{what} has no entry {name!r}.", fix=fix, entry=name)
        if not isinstance(value, known[name]) or isinstance(value, bool):
            raise SourceError(f"{name!r} of a Spark source has the wrong type.", fix=f"Give {_TYPES[known[name]]}.")
    for name in needed:
        if name not in given:
            raise SourceError(f"{what} needs {name!r}.", fix="See docs/spark.md.", entry=name)


_TYPES = {str: "text", int: "a whole number", Mapping: "a table of entries, in braces"}


def read_spark(source: Mapping[str, Any], folder: str = "") -> DataFrame:
    """The Spark data frame that a plan's source stands for; no row is read yet."""
    check_spark(source)
    spark = session(source.get("master"), source.get("conf", {}))
    try:
        return _READERS[source["spark"]](spark, source, folder)
    except SourceError:
        raise
    except Exception as error:  # texts of drivers may hold the address, and with it a password
        kind = condition(error) or ""
        raise SourceError(
            f"Spark cannot open the table{f' ({kind})' if kind else ''}.", fix=_fix(error, kind)
        ) from None


def _read_path(spark: SparkSession, source: Mapping[str, Any], folder: str) -> DataFrame:
    path = source["path"]
    if "://" not in path and not path.startswith("/"):
        path = str(Path(folder).absolute() / path)
    frame = spark.read.format(source["spark"]).options(**source.get("options", {})).load(path)
    return _texts(frame) if source["spark"] == "parquet" else frame


def _texts(frame: DataFrame) -> DataFrame:
    """A Spark data frame with bytes as text, which they are in a Parquet file whose writer did not say so."""
    from pyspark.sql import functions as f

    names = [f"c{i}" for i in range(len(frame.columns))]
    bare = frame.toDF(*names)
    columns = [f.col(n).cast("string") if kind == "binary" else f.col(n) for n, kind in bare.dtypes]
    return bare.select(*columns).toDF(*frame.columns) if any(k == "binary" for _, k in frame.dtypes) else frame


def _read_table(spark: SparkSession, source: Mapping[str, Any], folder: str) -> DataFrame:
    return spark.read.options(**source.get("options", {})).table(source["name"])


def _read_jdbc(spark: SparkSession, source: Mapping[str, Any], folder: str) -> DataFrame:
    options = {"url": source["url"], "dbtable": source["table"], **source.get("options", {})}
    options |= {name: source[name] for name in ("user", "driver") if name in source}
    if "password_env" in source:
        password = os.environ.get(source["password_env"])
        if password is None:
            raise SourceError(
                "There is no environment variable of the name that 'password_env' gives.",  # it may be the password
                fix="Set it to the password of the database.",
            )
        options["password"] = password
    if "split" in source:
        split = source["split"]
        options |= {"partitionColumn": split["column"], "lowerBound": str(split["low"])}
        options |= {"upperBound": str(split["high"]), "numPartitions": str(split["parts"])}
    return spark.read.format("jdbc").options(**options).load()


_READERS = {"parquet": _read_path, "delta": _read_path, "table": _read_table, "jdbc": _read_jdbc}


def _fix(error: Exception, kind: str) -> str:
    text = str(error).lower()
    if "path_not_found" in text or "path does not exist" in text:
        return "Check the path, as the cluster sees it."
    if "data_source_not_found" in text or "failed to find the data source" in text or "classnotfound" in text:
        return "Add the reader's package to spark.jars.packages, for Delta io.delta:delta-spark."
    if "no suitable driver" in text:
        return "Add the database's driver to spark.jars, and name its class as 'driver'."
    if "table_or_view_not_found" in text:
        return "Check the name of the table."
    return "Check the address, the permissions and the options of the source."


# ---- sessions ------------------------------------------------------------------------------------------------------


def session(master: str | None = None, conf: Mapping[str, Any] | None = None) -> SparkSession:
    """The Spark session that runs, or a new one. A running one must be what was asked for."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingPart("Spark tables need pyspark.", fix="Install nabladp[spark].") from None
    running = SparkSession.getActiveSession()
    if running is not None:
        _check_same(running, master, conf or {})
        return running
    builder: Any = SparkSession.builder.appName("nabladp")
    if master is not None:
        builder = builder.master(master)
    if (master or "").startswith("local"):  # workers on this machine run what this process runs
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in {**_QUIET, **(conf or {})}.items():
        builder = builder.config(name, _plain(value))
    try:
        started: SparkSession = builder.getOrCreate()
    except Exception as error:
        no_gateway = "java_gateway" in str(error).lower()
        fix = (
            "Install Java 17 or newer."
            if no_gateway
            else "Check the master's address, and that this machine reaches it."
        )
        raise SourceError("Spark does not start.", fix=fix, condition=condition(error)) from None
    return started


def _check_same(running: SparkSession, master: str | None, conf: Mapping[str, Any]) -> None:
    if master is not None and running.sparkContext.master != master:
        raise SourceError(
            "A Spark session runs already, with another master.", fix="Leave out 'master', or stop that session."
        )
    for name, value in conf.items():
        if running.conf.get(name, None) != _plain(value):
            raise SourceError(
                f"A Spark session runs already, with another {name!r}.", fix="Leave it out, or stop that session."
            )


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---- a Spark DataFrame as a source -----------------------------------------------------------------------------------

WHAT = "The Spark table"
_WORDS = {"tinyint": "integer", "smallint": "integer", "int": "integer", "bigint": "integer"}
_WORDS |= {"float": "real", "double": "real", "boolean": "boolean"}
_WORDS |= {"date": "date", "timestamp": "date", "timestamp_ntz": "date"}


def is_spark(source: Any) -> bool:
    """Whether a source is a DataFrame of Spark, without importing Spark."""
    return any(k.__module__.startswith("pyspark.sql.") and k.__name__ == "DataFrame" for k in type(source).__mro__)


@dataclass(frozen=True)
class SparkFrame:
    frame: DataFrame
    in_memory = False
    query = ""
    keeps_order = True  # what has none is refused by `check_row_order`

    def __post_init__(self) -> None:
        if ".connect." in type(self.frame).__module__:
            raise SourceError(
                "A DataFrame of Spark Connect cannot be counted.",
                fix="Run on a classic session, for example a cluster with dedicated access, or with spark-submit.",
            )
        if self.frame.isStreaming:
            raise SourceError("A stream has no number of rows.", fix="Write it to a table first.")

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        yield WHAT, tuple(self.frame.columns), False

    def type_words(self) -> list[str]:
        return ["real" if kind.startswith("decimal") else _WORDS.get(kind, "text") for _, kind in self.frame.dtypes]

    def known_count(self) -> int | None:
        return None

    def count(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The number of rows of each Spark partition. Of a Parquet file Spark reads no more than its footers for
        this."""
        from pyspark.sql import functions as f

        from nabladp.tables.spark.jobs import act

        counted = self._bare.select(f.spark_partition_id().alias("part")).groupBy("part").count()
        rows = act(self.frame.sparkSession, "counting rows", counted.collect)
        sizes = np.zeros(max((row["part"] for row in rows), default=-1) + 1, dtype=np.int64)
        for row in rows:
            sizes[row["part"]] = row["count"]
        return sizes

    def check_people(self) -> None:
        """Refuse IDs that do not name people; without them there is nothing to refuse."""

    def check_row_order(self) -> None:
        """Refuse a Spark data frame whose rows may have another index in another pass.

        After a shuffle they do: Spark deals rows out by what the columns in use hold, and fetches blocks as they come.
        A database promises no order either.
        """
        plan = self.frame._jdf.queryExecution().executedPlan().toString()
        if "Exchange" in plan or "JDBC" in plan:
            raise DataError(
                "Rows of this Spark table have no fixed order (it is shuffled, or read from a database); a holdout and "
                "randomized labels need one.",
                fix="Write it to Parquet or Delta and release from there, or leave out holdout and responses.",
            )

    def columns(self, names: tuple[str, ...]) -> DataFrame:
        """The Spark data frame with these columns, selected by position: names may hold anything."""
        index = {name: i for i, name in enumerate(self.frame.columns)}
        return self._bare.select(*(f"c{index[name]}" for name in names))

    def no_columns(self) -> DataFrame:
        """The rows of a Spark data frame, of which nothing is read."""
        return self.frame.selectExpr("true as c0")

    @property
    def _bare(self) -> DataFrame:
        return self.frame.toDF(*(f"c{i}" for i in range(len(self.frame.columns))))

    def batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        raise DataError("Rows of a Spark table stay on the cluster.", fix="Ask for counts.")
