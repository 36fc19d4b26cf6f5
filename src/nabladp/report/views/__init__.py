"""What was released, as views: plain data that scripts draw. A mechanism may have its own; others get a generic one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from nabladp.release import Release
from nabladp.report.views.view import View

SCRIPTS = ("drawing.js", "marks.js", "heat.js", "charts.js", "tables.js")
STYLE = "charts.css"
_HOME = {
    "NoisyMarginals": "marginals.marginal_views",
    "Projection": "queries.projection_views",
    "MWEM": "queries.mwem_views",
    "Synthesis": "synthesis.synthesis_views",
    "HeavyHitters": "lists.heavy_views",
    "DistributionEstimate": "lists.distribution_views",
    "PointLearner": "learners.point_views",
    "ThresholdLearner": "learners.threshold_views",
    "GramMatrix": "gram.gram_views",
    "HalfspaceLearner": "learners.halfspace_views",
}


def views(release: Release) -> list[dict[str, Any]]:
    """The views of one release, in JSON; values of its record are never changed, only arranged."""
    return [view.to_json() for view in _maker(release.mechanism)(release)]


def _maker(mechanism: str) -> Callable[[Release], list[View]]:
    module, _, name = _HOME.get(mechanism, "generic.generic_views").partition(".")
    found: Callable[[Release], list[View]] = getattr(import_module(f"{__name__}.{module}"), name)
    return found
