"""One folder per mechanism, each with its proof. A new one is a folder and a line here."""

from __future__ import annotations

import difflib
from importlib import import_module

from nabladp.errors import PlanError
from nabladp.mechanisms.mechanism import Branch, Law, Mechanism, Output, Records, report_progress

_HOME = {
    "NoisyMarginals": "nabladp.mechanisms.noisy_marginals",
    "Projection": "nabladp.mechanisms.projection",
    "MWEM": "nabladp.mechanisms.mwem",
    "Synthesis": "nabladp.mechanisms.synthesis",
    "HeavyHitters": "nabladp.mechanisms.heavy_hitters",
    "DistributionEstimate": "nabladp.mechanisms.distribution_estimate",
    "PointLearner": "nabladp.mechanisms.learners.points",
    "ThresholdLearner": "nabladp.mechanisms.learners.thresholds",
    "GramMatrix": "nabladp.mechanisms.gram_matrix",
    "HalfspaceLearner": "nabladp.mechanisms.learners.halfspaces",
}
MECHANISMS = tuple(_HOME)


def mechanism_class(name: str) -> type[Mechanism]:
    """The mechanism of this name, loaded when first asked for."""
    if name not in _HOME:
        near = difflib.get_close_matches(str(name), MECHANISMS, n=1)
        fix = f"Did you mean {near[0]!r}?" if near else f"Mechanisms: {', '.join(MECHANISMS)}."
        raise PlanError(f"There is no mechanism {name!r}.", fix=fix)
    found: type[Mechanism] = getattr(import_module(_HOME[name]), name)
    return found


__all__ = [
    "MECHANISMS",
    "Branch",
    "Law",
    "Mechanism",
    "Output",
    "Records",
    "mechanism_class",
    "report_progress",
]
