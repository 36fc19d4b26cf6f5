"""A learner in the manner of scikit-learn. Fitting is a release: it is booked, and what it costs stays spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from nabladp.errors import DataError
from nabladp.mechanisms.learners.columns import as_arrow, column, label_values, no_column

if TYPE_CHECKING:
    from nabladp.schema import Schema


class Estimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose ``fit`` releases ``mechanism`` through ``session``.

    Every call of ``fit`` reserves the mechanism's whole cost in the session's ledger before it reads a row, and is
    refused when that does not fit the budget. Clones share the session, so that a search or a cross-validation that
    fits many times pays many times. After fitting: ``release_``, ``model_`` (its output), ``classes_``,
    ``feature_names_in_``, ``n_features_in_``.
    """

    def __init__(self, mechanism: Any, session: Any) -> None:
        self.mechanism = mechanism
        self.session = session

    def __sklearn_clone__(self) -> Estimator:
        """A copy of a session would be a second account of the same budget."""
        return type(self)(self.mechanism, self.session)

    def fit(self, X: Any = None, y: Any = None) -> Estimator:
        """Release the learner: without arguments from the session's own table; with them from X and y, through the same
        ledger.

        X is a data frame, an Arrow table, a mapping of columns, or an array with the features in order; y holds the
        labels, where X has no such column. Together they must have every column of the session's schema.
        """
        session = self.session if X is None else self.session.with_table(self._complete(self._labelled(X, y)))
        self.release_ = session.release(self.mechanism)
        self.model_ = self.release_.output
        self.classes_ = np.unique(label_values(self._schema, self.mechanism.label))
        self.feature_names_in_ = np.array(self._features, dtype=object)
        self.n_features_in_ = len(self._features)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The predicted label of every row, as the schema declares its values."""
        check_is_fitted(self, "model_")
        predicted: NDArray[Any] = self.model_.predict(self._named(X))
        return predicted

    @property
    def _schema(self) -> Schema:
        schema: Schema = self.session.schema
        return schema

    @property
    def _features(self) -> tuple[str, ...]:
        return tuple(name for name in self.mechanism.reads(self._schema) if name != self.mechanism.label)

    def _named(self, X: Any) -> Any:
        if not isinstance(X, np.ndarray):
            return X
        if X.ndim != 2 or X.shape[1] != len(self._features):
            raise DataError(
                f"An array needs a column for each of the {len(self._features)} features, in order.",
                fix="Give a table with named columns instead.",
            )
        return {name: X[:, i] for i, name in enumerate(self._features)}

    def _complete(self, table: pa.Table) -> pa.Table:
        """Refuse a table for ``fit`` that lacks a column of the session's schema, even one that the learner never
        reads."""
        missing = [name for name in self._schema.columns if name not in table.column_names]
        if not missing or set(missing) & set(self.mechanism.reads(self._schema)):
            return table  # complete, or refused by the session with the name of what is needed
        raise no_column(
            missing,
            ", which the learner never reads but the session's schema has",
            fix="Fit with a session whose schema holds only the columns in use, or add the column.",
        )

    def _labelled(self, X: Any, y: Any) -> pa.Table:
        table, label = as_arrow(self._named(X)), self.mechanism.label
        if y is None:
            return table
        labels = column(y)
        if label in table.column_names or len(labels) != table.num_rows:
            what = "comes twice" if label in table.column_names else "has not one value for each row"
            raise DataError(
                f"The label {label!r} {what}.", fix="Give it in X or in y, for the same rows.", column=label
            )
        return table.append_column(label, labels)


class HalfspaceEstimator(Estimator):
    """As :class:`Estimator`, and what a halfspace can do beyond predicting: its decision function and robust errors."""

    def decision_function(self, X: Any) -> NDArray[Any]:
        """The halfspace's decision value: at least 0 where ``classes_[1]`` is predicted (above 0, should that be the
        label's first value)."""
        check_is_fitted(self, "model_")
        result: NDArray[Any] = self.model_.decision_function(self._named(X))
        return result if label_values(self._schema, self.mechanism.label)[1] == self.classes_[1] else -result

    def distance_to_flip(self, X: Any, y: Any = None) -> NDArray[Any]:
        """For every row, the fewest features to change until the fitted halfspace predicts another label."""
        check_is_fitted(self, "model_")
        result: NDArray[Any] = self.model_.distance_to_flip(self._named(X), y)
        return result

    def robust_error(self, X: Any, y: Any, gamma: float) -> float:
        """The share of rows that the fitted halfspace gets wrong after at most γ·d of the d features have changed."""
        check_is_fitted(self, "model_")
        return float(self.model_.robust_error(self._named(X), y, gamma))
