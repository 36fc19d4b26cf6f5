"""What is asked of a table."""

from nabladp.workloads.families import Conjunctions, Marginals, Parities, Union, Workload
from nabladp.workloads.linear import LinearQueries, LinearQuery, as_workload
from nabladp.workloads.marginals import marginal_sets, refuse_bare_names, refuse_sets_and_k
from nabladp.workloads.queries import GRID, Group, Queries
from nabladp.workloads.sensitivity import Curve, Shift

__all__ = [
    "GRID",
    "Conjunctions",
    "Curve",
    "Group",
    "LinearQueries",
    "LinearQuery",
    "Marginals",
    "Parities",
    "Queries",
    "Shift",
    "Union",
    "Workload",
    "as_workload",
    "marginal_sets",
    "refuse_bare_names",
    "refuse_sets_and_k",
]
