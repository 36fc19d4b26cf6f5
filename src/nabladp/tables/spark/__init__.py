"""Tables on a Spark cluster: rows are encoded and counted where they are; counts alone come to the driver."""

from __future__ import annotations

from nabladp.tables.spark.reading import SparkFrame, check_spark, is_spark, read_spark

__all__ = ["SparkFrame", "check_spark", "is_spark", "read_spark"]
