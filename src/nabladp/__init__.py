"""nabladp: releases that say, for every set of attributes, what an adversary interested in just those can learn.

Public names load when first used, so that ``import nabladp`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nabladp import display as display  # registers how values look in a notebook; loads nothing heavy
from nabladp.mechanisms.registry import HOMES as _MECHANISMS

__version__ = "0.7.0"

if TYPE_CHECKING:
    from nabladp.audit import audit as audit
    from nabladp.audit import exact_audit as exact_audit
    from nabladp.audit import statistical_audit as statistical_audit
    from nabladp.errors import NablaDPError as NablaDPError
    from nabladp.mechanisms.catalogue import *  # noqa: F403
    from nabladp.noise import NoiseSource as NoiseSource
    from nabladp.person import Person as Person
    from nabladp.privacy import CDP as CDP
    from nabladp.privacy import Approx as Approx
    from nabladp.privacy import Budget as Budget
    from nabladp.privacy import Guarantee as Guarantee
    from nabladp.privacy import Ledger as Ledger
    from nabladp.privacy import Pure as Pure
    from nabladp.privacy import Rho as Rho
    from nabladp.release import Plan as Plan
    from nabladp.release import Release as Release
    from nabladp.release import Session as Session
    from nabladp.release import draft_plan as draft_plan
    from nabladp.release import draft_schema as draft_schema
    from nabladp.release.learn import GridSearch as GridSearch
    from nabladp.release.learn import LinearClassifier as LinearClassifier
    from nabladp.release.learn import LinearRegressor as LinearRegressor
    from nabladp.schema import Attribute as Attribute
    from nabladp.schema import CodeBook as CodeBook
    from nabladp.schema import Schema as Schema
    from nabladp.tables import open_table as open_table
    from nabladp.workloads import Conjunctions as Conjunctions
    from nabladp.workloads import LinearQueries as LinearQueries
    from nabladp.workloads import LinearQuery as LinearQuery
    from nabladp.workloads import Marginals as Marginals
    from nabladp.workloads import Parities as Parities

HOME = {
    "Attribute": "nabladp.schema",
    "CodeBook": "nabladp.schema",
    "Schema": "nabladp.schema",
    "Guarantee": "nabladp.privacy",
    "Budget": "nabladp.privacy",
    "Ledger": "nabladp.privacy",
    "Pure": "nabladp.privacy",
    "CDP": "nabladp.privacy",
    "Rho": "nabladp.privacy",
    "Approx": "nabladp.privacy",
    "NoiseSource": "nabladp.noise",
    "open_table": "nabladp.tables",
    "Person": "nabladp.person",
    "Marginals": "nabladp.workloads",
    "Conjunctions": "nabladp.workloads",
    "Parities": "nabladp.workloads",
    "LinearQueries": "nabladp.workloads",
    "LinearQuery": "nabladp.workloads",
    "Session": "nabladp.release",
    "Plan": "nabladp.release",
    "Release": "nabladp.release",
    "draft_plan": "nabladp.release",
    "GridSearch": "nabladp.release.learn",
    "LinearClassifier": "nabladp.release.learn",
    "LinearRegressor": "nabladp.release.learn",
    "draft_schema": "nabladp.release",
    "exact_audit": "nabladp.audit",
    "statistical_audit": "nabladp.audit",
    "NablaDPError": "nabladp.errors",
} | _MECHANISMS
_ROOMS = ("audit",)  # modules that can be called
__all__ = [*sorted((*HOME, *_ROOMS, "display")), "__version__"]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"nabladp.{name}")
    if name not in HOME:
        raise AttributeError(f"module 'nabladp' has no attribute {name!r}")
    value = getattr(import_module(HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
