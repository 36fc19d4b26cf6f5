"""What is asked of a table."""

from nabladp.workloads.marginals import marginal_sets

__all__ = ["marginal_sets"]
