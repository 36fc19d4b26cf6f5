"""Statistics asked for in SQL."""

from nabladp.mechanisms.statistics.mechanism import Statistics
from nabladp.mechanisms.statistics.output import StatisticsOutput

__all__ = ["Statistics", "StatisticsOutput"]
