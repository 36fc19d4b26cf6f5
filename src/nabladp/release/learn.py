"""scikit-learn estimators that need no schema file: the ranges and classes of arrays are declared as parameters.

``LinearRegressor`` and ``LinearClassifier`` release one noisy Gram matrix of the numbers (:class:`GramMatrix`) and fit
from it. ``GridSearch`` releases every candidate of a search at once, or none.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone  # type: ignore[import-untyped]
from sklearn.metrics import check_scoring  # type: ignore[import-untyped]
from sklearn.model_selection import GridSearchCV, ParameterGrid  # type: ignore[import-untyped]
from sklearn.pipeline import Pipeline  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]

from nabladp.arrays import Floats, Integers
from nabladp.errors import BudgetError, DataError, LedgerError, MechanismError
from nabladp.mechanisms.gram_matrix import GramMatrix, NoisyGram
from nabladp.mechanisms.learners.estimator import Estimator
from nabladp.privacy import Budget, Guarantee, Ledger, Limit
from nabladp.privacy.ledger.limits import check_limits, limit_requests
from nabladp.privacy.values import BudgetValue
from nabladp.release.session import Session
from nabladp.schema import Attribute, Schema

PUBLIC, PERSON = "public", "person"
_PATIENCE = 600.0  # seconds to wait for other fits: each reads its whole table


class Linear(BaseEstimator):  # type: ignore[misc]
    """What both linear estimators share: a schema made of declared ranges, a ledger for it, and one release a fit."""

    budget: BudgetValue | None
    bounds: Any
    ledger: str | Path | None
    limits: Budget | None
    ridge: float | None

    def _release(self, X: Floats, target: Attribute, values: Any) -> NoisyGram:
        if self.budget is None:
            raise BudgetError("A budget is missing.", fix="Give one for every column, e.g. budget=CDP(0.5).")
        names, (lows, highs) = self._names(), ranges(self.bounds, X.shape[1])
        features = [
            Attribute(name, "real", low=float(low), high=float(high), unknown="clamp")
            for name, low, high in zip(names, lows, highs, strict=True)
        ]
        schema = Schema((*features, target))
        table = pa.table({**{name: X[:, i] for i, name in enumerate(names)}, target.name: values})
        numbers = [attribute.name for attribute in schema if attribute.kind == "real"]
        mechanism = GramMatrix(self.budget, encode=dict.fromkeys(numbers, "number"))
        if self.ledger is None:
            raise BudgetError("A ledger is missing.", fix='Give a folder for it, e.g. ledger="ledgers".')
        with ledger_for(schema, Path(self.ledger), self.limits) as (ledger, elsewhere):
            check_elsewhere(ledger, elsewhere, mechanism.guarantee(schema, len(X)))
            self.release_ = Session(table, schema, None, ledger).release(mechanism)
        return cast(NoisyGram, self.release_.output)

    def _names(self) -> list[str]:
        """The names of columns in the schema: those of a data frame where they are texts that a schema takes."""
        given = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if given is None else [str(name) for name in given]

    def _effects(self, gram: NoisyGram, target: str) -> tuple[float, Floats]:
        effects = gram.regress(target, on=self._names(), ridge=self.ridge).effects()
        weights = np.array([effects[name][0] for name in self._names()])
        return effects["(intercept)"][0], weights


class LinearRegressor(RegressorMixin, Linear):  # type: ignore[misc]
    """Linear regression of numbers, as scikit-learn has it; every ``fit`` is a release in the ledger.

    ``budget`` (CDP, Rho or Approx) is that of every column. ``bounds`` are the range of the features, (low, high) for
    all or a list of each; ``target_bounds`` that of the target. They are public knowledge: numbers outside count as the
    nearest end. ``ledger`` is a folder for one population, with a ledger for every set of columns; ``limits`` is the
    :class:`Budget` with which a new one is created. What fits on other columns spent counts: on a column of the same
    name, and on the person. The target's name is that of the series, or "y". The ridge follows from the noise unless
    given. Assumed: the number of rows is public, and one row is one person. After fitting: ``coef_``, ``intercept_``,
    ``release_`` (with its guarantee), ``r2_`` with an interval.
    """

    def __init__(
        self,
        budget: BudgetValue | None = None,
        *,
        bounds: Any = None,
        target_bounds: tuple[float, float] | None = None,
        ledger: str | Path | None = None,
        limits: Budget | None = None,
        ridge: float | None = None,
    ) -> None:
        self.budget = budget
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.ledger = ledger
        self.limits = limits
        self.ridge = ridge

    def fit(self, X: Any, y: Any) -> Self:
        own_name = name_of(y, "y")
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=2)
        (low,), (high,) = ranges(self.target_bounds, 1, "target_bounds")
        name = free_name(self._names(), own_name)
        gram = self._release(X, Attribute(name, "real", low=low, high=high, unknown="clamp"), np.asarray(y, np.float64))
        self.intercept_, self.coef_ = self._effects(gram, name)
        self.r2_ = gram.regress(name, on=self._names(), ridge=self.ridge).r2()
        return self

    def predict(self, X: Any) -> Floats:
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        result: Floats = X @ self.coef_ + self.intercept_
        return result

    def __sklearn_tags__(self) -> Any:
        return random_fits(super().__sklearn_tags__())


class LinearClassifier(ClassifierMixin, Linear):  # type: ignore[misc]
    """A linear classifier of two or more classes, as scikit-learn has it; every ``fit`` is a release in the ledger.

    One noisy Gram matrix serves all classes, one against the rest, for one cost. ``classes`` are the label's values,
    from public knowledge; ``classes="public"`` declares that which values occur is public. The other parameters are
    those of :class:`LinearRegressor`.
    """

    def __init__(
        self,
        budget: BudgetValue | None = None,
        *,
        bounds: Any = None,
        classes: Sequence[Any] | str | None = None,
        ledger: str | Path | None = None,
        limits: Budget | None = None,
        ridge: float | None = None,
    ) -> None:
        self.budget = budget
        self.bounds = bounds
        self.classes = classes
        self.ledger = ledger
        self.limits = limits
        self.ridge = ridge

    def fit(self, X: Any, y: Any) -> Self:
        own_name = name_of(y, "label")
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = self._coded(np.asarray(y))
        name, texts = free_name(self._names(), own_name), [str(value) for value in self.classes_.tolist()]
        label = Attribute(name, "categorical", values=tuple(texts))
        gram = self._release(X, label, np.array(texts, dtype=object)[codes])
        targets = [gram.names[i] for i in gram.columns.find(name)]  # two classes give one column
        fits = [self._effects(gram, target) for target in targets]
        self.intercept_ = np.array([start for start, _ in fits])
        self.coef_ = np.array([weights for _, weights in fits])
        return self

    def _coded(self, y: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
        if self.classes is None:
            raise MechanismError(
                "The classes are missing.",
                fix='Name them, e.g. classes=["no", "yes"], or write classes="public" if which occur is public.',
            )
        declared = isinstance(self.classes, str) and self.classes == PUBLIC
        known = np.unique(y) if declared else np.unique(np.asarray(self.classes))
        if len(known) < 2:
            raise MechanismError(f"A classifier needs two classes, not {len(known)} class.", fix="Give a second one.")
        index = np.searchsorted(known, y).clip(0, len(known) - 1)
        if not (known[index] == y).all():
            raise DataError("y holds a label that is none of the classes.", fix="Add it to 'classes'.")
        return known, index.astype(np.int64)

    def decision_function(self, X: Any) -> Floats:
        """For two classes above 0 where the second is predicted; for more, a column for each, the largest wins."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        result: Floats = X @ self.coef_.T + self.intercept_
        return result[:, 0] if len(self.classes_) == 2 else result

    def predict(self, X: Any) -> NDArray[Any]:
        values = self.decision_function(X)
        second = (values > 0).astype(np.int64) if values.ndim == 1 else values.argmax(axis=1)
        result: NDArray[Any] = self.classes_[second]
        return result

    def __sklearn_tags__(self) -> Any:
        return random_fits(super().__sklearn_tags__())


def random_fits(tags: Any) -> Any:
    """Tags that say that two fits differ, by their noise, and that little data is fitted badly."""
    tags.non_deterministic = True
    tags.target_tags.required = True
    for kind in (tags.classifier_tags, tags.regressor_tags):
        if kind is not None:
            kind.poor_score = True
    return tags


def ranges(bounds: Any, columns: int, name: str = "bounds") -> tuple[Floats, Floats]:
    """The lowest and the highest number of every column, from one pair for all or a pair of lists."""
    fix = f"Give {name}=(low, high) from public knowledge; for columns that differ ([low, …], [high, …])."
    if bounds is None:
        raise MechanismError(f"{name!r} is missing: the range of numbers cannot be read off the rows.", fix=fix)
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (columns,)) for end in bounds)
    except (TypeError, ValueError):
        raise MechanismError(f"{name!r} must be one range, or one for each of {columns} columns.", fix=fix) from None
    if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise MechanismError(f"A range in {name!r} is empty or not finite.", fix=fix)
    return low, high


def name_of(y: Any, otherwise: str) -> str:
    """The target's own name, where it is a named series: a column is limited by its name, whatever part it plays."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else otherwise


def free_name(names: Sequence[str], wanted: str) -> str:
    while wanted in names:
        wanted += "_"
    return wanted


# ---- ledgers of one population ---------------------------------------------------------------------------------------
# A ledger is about fixed columns, and every fit may take others. So a folder holds one for each set of columns, and
# what the others spent on a column counts too.


@contextmanager
def ledger_for(schema: Schema, folder: Path, limits: Budget | None) -> Iterator[tuple[Ledger, list[Guarantee]]]:
    """The ledger of a schema's columns, created with the first fit, and what the folder's other ledgers spent.

    No other fit uses the folder until this one is done, so that what was spent elsewhere does not grow meanwhile.
    Ranges and classes do not matter: another range is no new budget.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = json.dumps(sorted(schema.names))
    own = folder / f"{hashlib.sha256(columns.encode()).hexdigest()[:16]}.db"
    with _turn(folder):
        elsewhere = [_total(path) for path in sorted(folder.glob("*.db")) if path != own]
        if not Ledger.exists(own) and limits is None:
            raise BudgetError(
                "The limits of a new ledger are missing.", fix="Give them, e.g. limits=Budget(per_attribute=CDP(1))."
            )
        with Ledger.open(own) if Ledger.exists(own) else Ledger.create(own, schema, cast(Budget, limits)) as ledger:
            yield ledger, elsewhere


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """One fit at a time, whatever process or thread it is in."""
    with closing(sqlite3.connect(folder / ".lock", timeout=_PATIENCE, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            raise LedgerError(
                f"Other fits have used the ledgers in {str(folder)!r} for {_PATIENCE:.0f} seconds.",
                fix="Try again when they are done.",
            ) from None
        yield


def _total(path: Path) -> Guarantee:
    with Ledger.read(path) as ledger:
        return ledger.guarantee()


def check_elsewhere(ledger: Ledger, elsewhere: Sequence[Guarantee], cost: Guarantee) -> None:
    """Refuse a cost that breaks a limit of the ledger once what other ledgers spent on the same columns counts too."""
    standing, everything = [], frozenset(ledger.guarantee().universe.protected)
    for line in ledger.spent():
        person = line.limit.name == PERSON and line.limit.attributes == everything
        spent = [line.spent_units, *(_spent(other, line.limit, person) for other in elsewhere)]
        standing.append(replace(line, spent_units=None if None in spent else sum(filter(None, spent))))
    check_limits(limit_requests(standing, cost), "This fit, with those on other columns,")


def _spent(guarantee: Guarantee, limit: Limit, person: bool) -> int | None:
    """What another ledger spent on a limit's attributes; on a person whatever its columns: ρ, or pure ε, adds up."""
    own = frozenset(guarantee.universe.protected)
    shared = own if person else limit.attributes & own
    return guarantee.pure_units(shared) if limit.pure else guarantee.rho_units(shared)


# ---- searches --------------------------------------------------------------------------------------------------------


def released_accuracy(estimator: Any, X: Any = None, y: Any = None) -> float:
    """A score for scikit-learn's own searches that reads no row: the accuracy on rows held out that was released.

    ``GridSearchCV(…, scoring=released_accuracy, cv=KFold(3))`` then chooses by released numbers alone.
    """
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    check_is_fitted(last, "model_")
    released = last.model_.released_accuracy()
    if released is None:
        raise MechanismError("No accuracy was released.", fix="Give the learner holdout=0.2.")
    return float(released[0])


class GridSearch(GridSearchCV):  # type: ignore[misc]
    """scikit-learn's ``GridSearchCV`` as one release: all candidates or none, chosen by noisy accuracy.

    ``estimator`` is a learner's (``HalfspaceLearner(…, holdout=0.2).estimator(session)``), ``param_grid`` a table of
    parameter values, or a list of them. Every candidate is fitted once. All are reserved in the ledger together before
    a row is read, and refused together, with what they would cost. The score of a candidate is the released accuracy
    on the rows that its learner holds out, where scikit-learn's own searches count private rows exactly. After fitting:
    ``best_estimator_``, ``best_params_``, ``best_score_``, ``cv_results_`` (with the interval of every score, and the
    released share of the more frequent label, which scores are to be compared with) and ``releases_``.
    """

    def __init__(
        self, estimator: Estimator, param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
    ) -> None:
        super().__init__(estimator, param_grid)

    def candidates(self) -> list[tuple[dict[str, Any], Estimator]]:
        """Every setting with its estimator; nothing is released."""
        if not isinstance(self.estimator, Estimator):
            raise MechanismError(
                f"GridSearch takes a learner's estimator, not a {type(self.estimator).__name__}.",
                fix="Give HalfspaceLearner(…, holdout=0.2).estimator(session); transform the rows before.",
            )
        found = [(params, clone(self.estimator).set_params(**params)) for params in ParameterGrid(self.param_grid)]
        for _, candidate in found:
            if candidate.mechanism.holdout is None:
                raise MechanismError(
                    "A candidate holds out no rows, so that there is no score to choose by.",
                    fix="Give the learner holdout=0.2, or put 'holdout' into the grid.",
                )
        return found

    def cost(self) -> Any:
        """What the whole search would cost, and whether it fits the budget. Spends nothing."""
        mechanisms = [candidate.mechanism for _, candidate in self.candidates()]
        return self.estimator.session_for().cost(*mechanisms)

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Release all candidates from the session's table, or from X and y through its ledger, and keep the best."""
        found = self.candidates()
        session = self.estimator.session_for(X, y)
        named = [(f"candidate {i}", candidate.mechanism) for i, (_, candidate) in enumerate(found, 1)]
        self.releases_ = session.release_together(named)
        for (_, candidate), release in zip(found, self.releases_, strict=True):
            candidate.keep(release)
        scores = [release.output.released_accuracy() for release in self.releases_]
        middle, low, high = (np.array(column) for column in zip(*scores, strict=True))
        self.best_index_ = int(middle.argmax())
        self.best_params_, self.best_estimator_ = found[self.best_index_]
        self.best_score_ = float(middle[self.best_index_])
        self.scorer_, self.multimetric_, self.n_splits_ = check_scoring(self.best_estimator_), False, 1
        columns = {"mean_test_score": middle, "low": low, "high": high}
        columns["majority_share"] = np.array([release.output.released_majority()[0] for release in self.releases_])
        self.cv_results_ = self._results([params for params, _ in found], columns)
        return self

    def _results(self, settings: Sequence[Mapping[str, Any]], columns: Mapping[str, Floats]) -> dict[str, Any]:
        """The table that scikit-learn's searches have, with the columns that are released."""
        names = sorted({name for params in settings for name in params})
        of_settings = {f"param_{name}": [params.get(name) for params in settings] for name in names}
        scores = columns["mean_test_score"]
        rank = 1 + (scores[:, None] < scores).sum(axis=1)
        return {**of_settings, "params": settings, **columns, "rank_test_score": rank}
