"""A Spark DataFrame as a source. Its rows are never handed out here: tasks go to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.errors import DataError, SourceError
from nabladp.tables.duck import Batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WHAT = "The Spark table"
_WORDS = {"tinyint": "integer", "smallint": "integer", "int": "integer", "bigint": "integer"}
_WORDS |= {"float": "real", "double": "real", "boolean": "boolean"}
_WORDS |= {"date": "date", "timestamp": "date", "timestamp_ntz": "date"}


def is_spark(source: Any) -> bool:
    """Whether it is a DataFrame of Spark, told without importing Spark."""
    return any(k.__module__.startswith("pyspark.sql.") and k.__name__ == "DataFrame" for k in type(source).__mro__)


@dataclass(frozen=True)
class SparkFrame:
    frame: DataFrame
    in_memory = False
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
        """How many rows each partition has. Of a Parquet file Spark reads no more than its footers for this."""
        from pyspark.sql import functions as f

        from nabladp.tables.spark.jobs import act

        counted = self._bare.select(f.spark_partition_id().alias("part")).groupBy("part").count()
        found = act(self.frame.sparkSession, "counting rows", counted.collect)
        sizes = np.zeros(max((row["part"] for row in found), default=-1) + 1, dtype=np.int64)
        for row in found:
            sizes[row["part"]] = row["count"]
        return sizes

    def check_row_order(self) -> None:
        """A row must stand in the same place in every pass. After a shuffle it does not: Spark deals rows out by what
        the columns in use hold, and fetches blocks as they come. A database promises no order either."""
        plan = self.frame._jdf.queryExecution().executedPlan().toString()
        if "Exchange" in plan or "JDBC" in plan:
            raise DataError(
                "Rows of this Spark table have no fixed order (it is shuffled, or read from a database); a holdout and "
                "randomized labels need one.",
                fix="Write it to Parquet or Delta and release from there, or leave out holdout and responses.",
            )

    def columns(self, names: tuple[str, ...]) -> DataFrame:
        """Told by their positions: names may hold anything."""
        places = {name: i for i, name in enumerate(self.frame.columns)}
        return self._bare.select(*(f"c{places[name]}" for name in names))

    def no_columns(self) -> DataFrame:
        """Its rows, of which nothing is read."""
        return self.frame.selectExpr("true as c0")

    @property
    def _bare(self) -> DataFrame:
        return self.frame.toDF(*(f"c{i}" for i in range(len(self.frame.columns))))

    def batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        raise DataError("Rows of a Spark table stay on the cluster.", fix="Ask for counts.")
