"""People with many rows on Spark: at most so many of each are used, as :mod:`nabladp.tables.people` says.

People are dealt out by their ID, and each one's rows sorted by their row IDs, which differ. So which rows are used, and
in which order they come, depends on nothing else: on no partition that they were in, and on nothing that they say.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from nabladp.person import Person
from nabladp.tables.people import POINT, WHOLE, no_id, no_row_id
from nabladp.tables.spark.jobs import act
from nabladp.tables.spark.reading import SparkFrame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEYS = ("person", "number", "text")  # whose a row is, and where it comes among that person's rows


@dataclass(frozen=True)
class UsedSparkRows(SparkFrame):
    """The rows of a Spark data frame that are used: of ``keys``, one row for each of its rows, at most ``person.rows``
    for each person."""

    keys: DataFrame
    person: Person
    ranked: DataFrame  # the used rows with their rank among their person's, which are all in one partition, in order

    @classmethod
    def of(cls, source: SparkFrame, names: tuple[str, ...], person: Person) -> UsedSparkRows:
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        chosen = source.columns((*names, *person.columns))
        rows = chosen.toDF(*(f"c{i}" for i in range(len(chosen.columns))))
        who, order = (_text(rows[name], kind) for name, kind in rows.dtypes[len(names) :])
        keyed = rows.select(*(f"c{i}" for i in range(len(names))), who.alias("person"), *_order(order))
        parts = int(source.frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
        dealt = keyed.repartition(parts, "person")  # [dealt-by-id]
        rank = f.row_number().over(Window.partitionBy("person").orderBy("number", "text"))
        used = dealt.withColumn("rank", rank).where(f"rank <= {person.rows}")  # [first-rows]
        columns = [f"c{i}" for i in range(len(names))]
        return cls(used.select(*columns).toDF(*names), keyed.select(*_KEYS), person, used.select(*columns, "rank"))

    def of_people(self, names: tuple[str, ...]) -> DataFrame:
        """These columns, and the rank of each row among its person's."""
        index = {name: i for i, name in enumerate(self.frame.columns)}
        return self.ranked.select(*(f"c{index[name]}" for name in names), "rank")

    def count(self) -> int:
        return self._used_rows

    def check_people(self) -> None:
        self._used_rows  # noqa: B018  (refuses IDs that do not name people)

    def check_row_order(self) -> None:
        """Rows are sorted by person and row ID inside each of a fixed number of partitions."""

    def dropped(self, most: int) -> int:
        """How many rows are not used, counting at most so many of each person. No public number: it needs noise."""
        from pyspark.sql import functions as f

        more = f.greatest(f.col("count") - self.person.rows, f.lit(0))
        total = self.keys.groupBy("person").count().agg(f.sum(f.least(more, f.lit(most))).alias("dropped"))
        (row,) = act(self.frame.sparkSession, "counting rows", total.collect)
        return int(row["dropped"] or 0)

    @cached_property
    def _used_rows(self) -> int:
        """The number of rows that are used. Refuses rows of nobody, and two rows of a person that have one row ID."""
        from pyspark.sql import functions as f

        rows = self.keys.groupBy(*_KEYS).count()
        people = rows.groupBy("person").agg(f.sum("count").alias("rows"), f.max("count").alias("alike"))
        lacking = (f.col("number").isNull() & f.col("text").isNull()).cast("int")
        orders = self.keys.agg(f.max(lacking).alias("unordered")).crossJoin(
            people.agg(
                f.sum(f.least("rows", f.lit(self.person.rows))).alias("used"),
                f.max("alike").alias("alike"),
                f.max(f.col("person").isNull().cast("int")).alias("nobody"),
            )
        )
        (row,) = act(self.frame.sparkSession, "counting rows", orders.collect)
        if row["nobody"]:
            raise no_id(self.person)
        if row["unordered"] or (row["alike"] or 0) > 1:
            raise no_row_id(self.person)
        return int(row["used"] or 0)


def _text(column: Column, kind: str) -> Column:
    """IDs as text without the spaces around it, whole numbers without a point; an empty one is none."""
    from pyspark.sql import functions as f

    if kind in ("tinyint", "smallint", "int", "bigint"):
        return column.cast("string")
    if kind in ("float", "double"):  # 1.0E7 and -0.0 are whole numbers, too
        whole = (column == f.floor(column)) & (f.abs(column) < 1e16)
        return f.when(
            ~f.isnan(column), f.when(whole, column.cast("long").cast("string")).otherwise(column.cast("string"))
        )
    text = f.regexp_replace(f.regexp_replace(column.cast("string"), r"(?U)^\s+|\s+$", ""), POINT, "$1")
    return f.when(f.length(text) > 0, text)


def _order(text: Column) -> tuple[Column, Column]:
    """A row ID as a whole number, or as the last one and a text."""
    from pyspark.sql import functions as f

    whole = text.rlike(WHOLE)
    last = f.when(text.isNotNull(), f.lit((1 << 63) - 1))
    number = f.coalesce(f.when(whole, text).cast("long"), last)  # no other text is ever cast, which would fail
    return number.alias("number"), f.when(~whole, text).alias("text")
