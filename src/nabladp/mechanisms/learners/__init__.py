"""Learners: mechanisms whose output predicts a label from features. Their guarantee covers features and label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nabladp.errors import MissingPart

if TYPE_CHECKING:
    from nabladp.mechanisms.learners.estimator import Estimator


def as_estimator(mechanism: Any, session: Any) -> Estimator:
    """Any learner as a scikit-learn classifier that releases through this session."""
    try:
        from nabladp.mechanisms.learners.estimator import Estimator
    except ModuleNotFoundError:
        raise MissingPart("Estimators need scikit-learn.", fix="Install nabladp[learn].") from None
    return Estimator(mechanism, session)
