"""The halfspace as a scikit-learn classifier: also its decision function and robust errors."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from nabladp.mechanisms.learners.columns import label_values
from nabladp.mechanisms.learners.estimator import Estimator


class HalfspaceEstimator(Estimator):
    """As :class:`~nabladp.mechanisms.learners.estimator.Estimator`, and what a halfspace can do beyond predicting."""

    def decision_function(self, X: Any) -> NDArray[Any]:
        """At least 0 where ``classes_[1]`` is predicted (above 0, should that be the label's first value)."""
        check_is_fitted(self, "model_")
        found: NDArray[Any] = self.model_.decision_function(self._named(X))
        return found if label_values(self._schema, self.mechanism.label)[1] == self.classes_[1] else -found

    def distance_to_flip(self, X: Any, y: Any = None) -> NDArray[Any]:
        """For every row, how many features have to change at least until another label is predicted."""
        check_is_fitted(self, "model_")
        found: NDArray[Any] = self.model_.distance_to_flip(self._named(X), y)
        return found

    def robust_error(self, X: Any, y: Any, gamma: float) -> float:
        """The share of rows that are wrong after at most γ·d of the d features have changed."""
        check_is_fitted(self, "model_")
        return float(self.model_.robust_error(self._named(X), y, gamma))
