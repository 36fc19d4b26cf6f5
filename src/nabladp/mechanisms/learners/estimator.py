"""A learner in the manner of scikit-learn. Fitting is a release: it is booked, and what it costs stays spent."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from nabladp.errors import DataError, MechanismError
from nabladp.mechanisms.learners.columns import as_arrow, column, label_values, no_column

if TYPE_CHECKING:
    from nabladp.schema import Schema


class Estimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose ``fit`` releases ``mechanism`` through ``session``.

    Every call of ``fit`` reserves the mechanism's whole cost in the session's ledger before it reads a row, and is
    refused when that does not fit the budget. Clones share the session, so that a search or a cross-validation that
    fits many times pays many times; the mechanism's parameters are the estimator's (``budget``, ``method``, …). After
    fitting: ``release_``, ``model_`` (its output), ``classes_``, ``feature_names_in_``, ``n_features_in_``. A pickled
    estimator predicts, and has left its session behind.
    """

    def __init__(self, mechanism: Any, session: Any) -> None:
        self.mechanism = mechanism
        self.session = session

    def __sklearn_clone__(self) -> Estimator:
        """A copy of a session would be a second account of the same budget."""
        return type(self)(self.mechanism, self.session)

    def __deepcopy__(self, memo: Any) -> Estimator:
        """A copy with what was learned, and the same session."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(
            {name: value if name == "session" else deepcopy(value, memo) for name, value in self.__dict__.items()}
        )
        return copied

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "session": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The mechanism and the session; with ``deep`` also the mechanism's own parameters, by name."""
        own = {"mechanism": self.mechanism, "session": self.session}
        return own | (self._settings() if deep else {})

    def set_params(self, **params: Any) -> Estimator:
        """Set the mechanism, the session, or parameters of the mechanism, which becomes another one."""
        for name in ("mechanism", "session"):
            if name in params:
                setattr(self, name, params.pop(name))
        unknown = sorted(set(params) - set(self._settings())) if params else []
        if unknown:
            raise MechanismError(
                f"{type(self.mechanism).__name__} has no parameter {unknown[0]!r}.",
                fix=f"It takes {', '.join(field.name for field in fields(self.mechanism))}.",
            )
        if params:
            self.mechanism = replace(self.mechanism, **params)
        return self

    def fit(self, X: Any = None, y: Any = None) -> Estimator:
        """Release the learner: without arguments from the session's own table; with them from X and y, through the same
        ledger.

        X is a data frame, an Arrow table, a mapping of columns, or an array with the features in order; y holds the
        labels, where X has no such column. Only the columns that the learner reads are needed.
        """
        self.keep(self.session_for(X, y).release(self.mechanism))
        return self

    def session_for(self, X: Any = None, y: Any = None) -> Any:
        """The session's own, or one for these rows with the same ledger."""
        if self.session is None:
            raise MechanismError(
                "This estimator has no session: it was pickled, or sent to another process.",
                fix="Fit where the session is (n_jobs=None), or set_params(session=session).",
            )
        return self.session if X is None else self.session.with_table(self._complete(self._with_label(X, y)))

    def keep(self, release: Any) -> None:
        """Take on what a release of this estimator's mechanism learned."""
        self.release_ = release
        self.model_ = release.output
        self.schema_ = release.schema
        self.classes_ = np.unique(label_values(self._schema, self.mechanism.label))
        self.feature_names_in_ = np.array(self._features, dtype=object)
        self.n_features_in_ = len(self._features)

    def predict(self, X: Any) -> NDArray[Any]:
        """The predicted label of every row, as the schema declares its values."""
        check_is_fitted(self, "model_")
        predicted: NDArray[Any] = self.model_.predict(self._with_names(X))
        return predicted

    def _settings(self) -> dict[str, Any]:
        return {field.name: getattr(self.mechanism, field.name) for field in fields(self.mechanism)}

    @property
    def _schema(self) -> Schema:
        schema: Schema = self.schema_ if self.session is None else self.session.schema
        return schema

    @property
    def _features(self) -> tuple[str, ...]:
        return tuple(name for name in self.mechanism.reads(self._schema) if name != self.mechanism.label)

    def _with_names(self, X: Any) -> Any:
        if not isinstance(X, np.ndarray):
            return X
        columns = X.shape[1] if X.ndim == 2 else 1
        if X.ndim != 2 or columns != len(self._features):
            raise DataError(  # in the words of scikit-learn
                f"X has {columns} features, but {type(self).__name__} is expecting {len(self._features)} features as "
                "input.",
                fix="Give a column for each feature, in order, or a table with named columns.",
            )
        return {name: X[:, i] for i, name in enumerate(self._features)}

    def _complete(self, table: pa.Table) -> pa.Table:
        """The table with an empty column for each of the schema that is missing and that the learner never reads."""
        levels = self._schema.levels
        read = {levels[name][0] if name in levels else name for name in self.mechanism.reads(self._schema)}
        missing = [name for name in self._schema.columns if name not in table.column_names]
        needed = [name for name in missing if name in read]
        if needed:
            raise no_column(needed, fix="Give every feature, and the label in X or in y.")
        for name in missing:
            table = table.append_column(name, pa.nulls(table.num_rows))
        return table

    def _with_label(self, X: Any, y: Any) -> pa.Table:
        table, label = as_arrow(self._with_names(X)), self.mechanism.label
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

    def keep(self, release: Any) -> None:
        super().keep(release)
        second = label_values(self._schema, self.mechanism.label)[1]
        self._sign = 1.0 if second == self.classes_[1] else -1.0
        self.coef_ = self._sign * self.model_.weights[None, 1:]
        self.intercept_ = self._sign * self.model_.weights[:1]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The ±1 columns that the features become, one for each of ``coef_``."""
        check_is_fitted(self, "model_")
        return np.array(self.model_.names[1:], dtype=object)

    def decision_function(self, X: Any) -> NDArray[Any]:
        """The halfspace's decision value: at least 0 where ``classes_[1]`` is predicted (above 0, should that be the
        label's first value)."""
        check_is_fitted(self, "model_")
        result: NDArray[Any] = self._sign * self.model_.decision_function(self._with_names(X))
        return result

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each of ``classes_`` for every row; refused unless ``probabilities`` were asked for."""
        check_is_fitted(self, "model_")
        second = self.model_.probability(self._with_names(X))
        columns = (1 - second, second) if self._sign > 0 else (second, 1 - second)
        result: NDArray[Any] = np.column_stack(columns)
        return result

    def distance_to_flip(self, X: Any, y: Any = None) -> NDArray[Any]:
        """For every row, the fewest features to change until the fitted halfspace predicts another label."""
        check_is_fitted(self, "model_")
        result: NDArray[Any] = self.model_.distance_to_flip(self._with_names(X), y)
        return result

    def robust_error(self, X: Any, y: Any, gamma: float) -> float:
        """The share of rows that the fitted halfspace gets wrong after at most γ·d of the d features have changed."""
        check_is_fitted(self, "model_")
        return float(self.model_.robust_error(self._with_names(X), y, gamma))
