"""Estimators as scikit-learn's users expect them: its own checks, searches, pipelines, pickling."""

from __future__ import annotations

import pickle
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_estimator_cloneable,
    check_estimator_repr,
    check_estimators_unfitted,
    check_get_params_invariance,
    check_mixin_order,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
    check_valid_tag_types,
    estimator_checks_generator,
)

from nabladp import (
    CDP,
    Attribute,
    Budget,
    GridSearch,
    HalfspaceLearner,
    Ledger,
    LinearClassifier,
    LinearRegressor,
    PointLearner,
    Rho,
    Schema,
    Session,
    ThresholdLearner,
)
from nabladp.errors import BudgetError, BudgetExceeded, DataError, LedgerError, MechanismError
from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.learners.halfspaces.model import HalfspaceModel
from nabladp.noise import NoiseSource
from nabladp.release.learn import released_accuracy

TWO_FITS = "fits twice and compares: every fit draws its own noise"
CHECKS_WITHOUT_ROWS = {
    check_estimator_cloneable,
    check_estimator_repr,
    check_estimators_unfitted,
    check_get_params_invariance,
    check_mixin_order,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
    check_valid_tag_types,
}
EXCEPTIONS = dict.fromkeys(
    (
        "check_fit_idempotent",
        "check_supervised_y_2d",
        "check_regressors_int",
        "check_regressor_data_not_an_array",
        "check_classifier_data_not_an_array",
    ),
    TWO_FITS,
)
MANY = Budget(per_attribute=Rho(1e9))


def regressor(folder: Path, **options: Any) -> LinearRegressor:
    given = {"bounds": (-100, 100), "target_bounds": (-1000, 1000), "ledger": folder, "limits": MANY, **options}
    return LinearRegressor(**{"budget": Rho(1e6), **given})


def classifier(folder: Path, **options: Any) -> LinearClassifier:
    given = {"bounds": (-100, 100), "classes": "public", "ledger": folder, "limits": MANY, **options}
    return LinearClassifier(**{"budget": Rho(1e6), **given})


@pytest.mark.slow
@pytest.mark.parametrize("kind", [regressor, classifier])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass_but_for_those_that_fit_twice(kind: Any, tmp_path: Path) -> None:
    results = check_estimator(kind(tmp_path), expected_failed_checks=EXCEPTIONS, on_fail=None)
    assert not [result["check_name"] for result in results if result["status"] == "failed"]
    assert Counter(result["status"] for result in results)["passed"] >= 44
    failed = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert failed <= EXCEPTIONS.keys() and len(EXCEPTIONS) <= 10


def points(rows: int = 3000) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    draws = NoiseSource.seeded(6)
    numbers = draws.uniform_integers(2001, (rows, 2)) / 100 - 10
    frame = pd.DataFrame(numbers, columns=["height", "weight"])
    return frame, 3 * numbers[:, 0] - 2 * numbers[:, 1] + 5


def test_a_regressor_has_the_coefficients_of_the_raw_columns(tmp_path: Path) -> None:
    X, y = points()
    fitted = regressor(tmp_path, bounds=(-10, 10), target_bounds=(-60, 60), budget=CDP(5)).fit(X, y)
    np.testing.assert_allclose(fitted.coef_, [3, -2], atol=0.2)
    assert abs(fitted.intercept_ - 5) < 1 and fitted.r2_[0] > 0.95 and fitted.score(X, y) > 0.95
    assert list(fitted.feature_names_in_) == ["height", "weight"]
    assert fitted.release_.guarantee.rho("y") <= 12.5 and fitted.release_.guarantee.rho("height") > 0
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_three_classes_cost_one_release(tmp_path: Path) -> None:
    X, y = points()
    names = np.array(["low", "middle", "high"])[np.digitize(y, [-5, 15])]
    fitted = classifier(tmp_path, bounds=(-10, 10), classes=["low", "middle", "high"], budget=CDP(2)).fit(X, names)
    assert list(fitted.classes_) == ["high", "low", "middle"] and fitted.coef_.shape == (3, 2)
    assert fitted.score(X, names) > 0.65 and fitted.decision_function(X).shape == (3000, 3)
    (ledger,) = tmp_path.glob("*.db")
    assert fitted.release_.guarantee.rho("label") <= 2.0  # CDP(2), for all classes together
    assert ledger.stat().st_size > 0


def test_what_is_not_declared_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    X, y = points(50)
    labels = (y > 0).astype(int)
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (regressor(tmp_path, bounds=None), y, MechanismError, "'bounds' is missing"),
        (regressor(tmp_path, bounds=(1, 1)), y, MechanismError, "empty or not finite"),
        (regressor(tmp_path, bounds=([0, 0, 0], [1, 1, 1])), y, MechanismError, "one for each of 2 columns"),
        (regressor(tmp_path, target_bounds=None), y, MechanismError, "'target_bounds' is missing"),
        (regressor(tmp_path, budget=None), y, BudgetError, "A budget is missing"),
        (regressor(tmp_path, ledger=None), y, BudgetError, "A ledger is missing"),
        (regressor(tmp_path / "new", limits=None), y, BudgetError, "limits of a new ledger are missing"),
        (classifier(tmp_path, classes=None), labels, MechanismError, "The classes are missing"),
        (classifier(tmp_path, classes=[1]), labels, MechanismError, "needs two classes"),
        (classifier(tmp_path, classes=[1, 2]), labels, DataError, "a label that is none of the classes"),
    ]
    for estimator, target, error, words in cases:
        with pytest.raises(error, match=words):
            estimator.fit(X, target)
    assert not list(tmp_path.rglob("*.db"))


def test_a_limit_holds_over_all_fits_on_a_column_whatever_their_ranges_and_other_columns(tmp_path: Path) -> None:
    """Each set of columns has a ledger of its own; neither another range nor another column is a new budget."""
    X, y = points(200)
    once = {"budget": CDP(1), "limits": Budget(per_attribute=CDP(1.2))}
    first = regressor(tmp_path, **once).fit(X, y)
    with pytest.raises(BudgetExceeded, match=r"with those on other columns, would break the limit 'height'"):
        regressor(tmp_path, **once, bounds=(-100, 101), target_bounds=(-1, 1)).fit(X, y)
    with pytest.raises(BudgetExceeded, match="'height'"):
        regressor(tmp_path, **once).fit(X[["height"]], y)
    with pytest.raises(BudgetExceeded, match="'height'"):
        regressor(tmp_path, **once).fit(X.assign(age=1.0), y)
    third = pd.DataFrame({"age": X["height"]})
    labels = (y > 0).astype(int)
    assert (
        classifier(tmp_path, **once).fit(third, labels).release_.guarantee.rho("age") > 0.4
    )  # new columns: label, age
    spent = {line.limit.name: line.spent for path in tmp_path.glob("*.db") for line in Ledger.read(path).spent()}
    assert spent["height"] == pytest.approx(first.release_.guarantee.rho("height")) and spent["label"] > 0.4
    named = pd.Series(y, name="height")  # the target now, a feature before
    with pytest.raises(BudgetExceeded, match="'height'"):
        regressor(tmp_path, **once).fit(third.rename(columns={"age": "weeks"}), named)
    (tmp_path / "broken.db").write_bytes(b"no ledger")
    with pytest.raises(LedgerError, match="is not a ledger"):
        classifier(tmp_path, **once).fit(third, labels)


def test_a_persons_limit_holds_over_all_columns_of_the_folder(tmp_path: Path) -> None:
    X, y = points(200)
    once: dict[str, Any] = {"budget": CDP(1), "limits": Budget(person=Rho(1.0))}
    first = regressor(tmp_path, **once).fit(X[["height"]], pd.Series(y, name="income"))
    spent = first.release_.guarantee.per_person().rho
    assert 0.5 < spent < 1.0 and first.release_.guarantee.rho("income") > 0.4
    others = X[["weight"]].rename(columns={"weight": "age"})
    with pytest.raises(BudgetExceeded, match=r"with those on other columns, would break the limit 'person'"):
        regressor(tmp_path, **once).fit(others, pd.Series(y, name="rent"))
    regressor(tmp_path, **{**once, "budget": CDP(0.1)}).fit(others, pd.Series(y, name="rent"))


SCHEMA = Schema(
    (
        *(Attribute(name, "boolean") for name in "abc"),
        Attribute("unread", "categorical", values=("x", "y")),
        Attribute("ill", "categorical", values=("yes", "no")),
    )
)


def patients(rows: int = 4000) -> pd.DataFrame:
    draws = NoiseSource.seeded(7)
    frame = pd.DataFrame({name: draws.uniform_integers(2, rows).astype(bool) for name in "abc"})
    often = frame["a"].astype(int) + frame["b"] + (draws.uniform_integers(4, rows) == 0)
    return frame.assign(unread="x", ill=np.where(often > 1, "yes", "no"))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    budget = Budget(per_attribute=CDP(4))
    return Session(patients(), SCHEMA, budget, tmp_path / "ledger.db", new_ledger=True)


def learner(session: Session, **options: Any) -> Any:
    return HalfspaceLearner(CDP(1.0), "ill", over=("a", "b", "c"), **options).estimator(session)


def test_parameters_of_the_mechanism_are_the_estimators(session: Session) -> None:
    estimator = learner(session)
    assert estimator.get_params()["method"] == "auto" and "method" not in estimator.get_params(deep=False)
    other = clone(estimator).set_params(budget=CDP(0.5), method="gram")
    assert (other.mechanism.budget, other.mechanism.method, estimator.mechanism.method) == (CDP(0.5), "gram", "auto")
    with pytest.raises(MechanismError, match="no parameter 'bugdet'"):
        other.set_params(bugdet=CDP(1))
    with pytest.raises(MechanismError):
        other.set_params(method="sideways")


def test_a_fitted_halfspace_has_what_linear_models_have_and_pickles(session: Session) -> None:
    frame = patients()
    fitted = learner(session).fit(frame[["a", "b", "c"]], frame["ill"])  # 'unread' is not asked for
    assert list(fitted.get_feature_names_out()) == ["a = true", "b = true", "c = true"]
    assert fitted.coef_.shape == (1, 3) and fitted.intercept_.shape == (1,)
    signs = np.where(frame[["a", "b", "c"]], 1, -1)
    predicted = fitted.decision_function(frame)
    np.testing.assert_allclose(signs @ fitted.coef_[0] + fitted.intercept_[0], predicted, atol=2e-2)
    assert (fitted.predict(frame) == fitted.classes_[(predicted > 0).astype(int)]).mean() > 0.999
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict(frame) == fitted.predict(frame)).all() and again.session is None
    with pytest.raises(DataError, match="'b'"):
        learner(session).fit(frame[["a", "c"]], frame["ill"])


def test_a_label_that_follows_from_a_column_is_learnt_without_it_and_charged_to_it(tmp_path: Path) -> None:
    level = [Attribute("c", "boolean"), Attribute("schooling", "integer", low=1, high=12)]
    schema = Schema((*level, Attribute("degree", "boolean", derived_from=("schooling",))))
    rows = pd.DataFrame({"c": [True, False] * 300, "schooling": [11, 3] * 300, "degree": [True, False] * 300})
    budget = Budget(per_attribute=CDP(4))
    session = Session(rows, schema, budget, tmp_path / "ledger.db", new_ledger=True)
    fitted = HalfspaceLearner(CDP(2), "degree", over=("c",)).estimator(session).fit(rows[["c"]], rows["degree"])
    assert list(fitted.feature_names_in_) == ["c"] and fitted.score(rows[["c"]], rows["degree"]) == 1
    assert fitted.release_.guarantee.rho("schooling") == fitted.release_.guarantee.rho("degree") > 0


def test_probabilities_are_part_of_the_release_or_refused(session: Session) -> None:
    frame = patients()
    fitted = learner(session, holdout=0.5, probabilities=True).fit()
    chances = fitted.predict_proba(frame)
    assert chances.shape == (len(frame), 2) and np.allclose(chances.sum(axis=1), 1) and (chances > 0).all()
    second = (frame["ill"] == fitted.classes_[1]).to_numpy()
    for sure in (chances[:, 1] < 0.3, chances[:, 1] > 0.7):  # as often as it says
        assert sure.any() and abs(second[sure].mean() - chances[sure, 1].mean()) < 0.1
    clear = np.abs(chances[:, 1] - 0.5) > 0.2  # the curve of so few margins may be anywhere beside these
    likely = fitted.classes_[(chances[:, 1] > 0.5).astype(int)]
    assert (likely == fitted.predict(frame))[clear].mean() > 0.9
    budget = fitted.release_.guarantee.per_person().rho
    assert budget == pytest.approx(learner(session, holdout=0.5).fit().release_.guarantee.per_person().rho, rel=1e-6)
    again = HalfspaceModel.from_json(fitted.model_.to_json(), session.schema)
    assert again.holdout == fitted.model_.holdout
    assert (again.probability(frame) == fitted.model_.probability(frame)).all()
    with pytest.raises(MechanismError, match="no probabilities"):
        learner(session, holdout=0.5).fit().predict_proba(frame)
    with pytest.raises(MechanismError, match="means nothing"):
        learner(session, probabilities=True)


def fitted_learners(folder: Path) -> list[tuple[Any, pd.DataFrame]]:
    """An estimator of each learner that was fitted to rows, and these rows."""
    numbers = pd.DataFrame({"v": np.arange(400) % 16})
    numbers = numbers.assign(high=numbers["v"] > 7, nine=numbers["v"] == 9)
    labels = (Attribute("high", "boolean"), Attribute("nine", "boolean"))
    schema = Schema((Attribute("v", "integer", low=0, high=15), *labels))
    limits = Budget(per_attribute=Rho(100))
    one = Session(numbers, schema, limits, folder / "numbers.db", new_ledger=True)
    two = Session(patients(400), SCHEMA, limits, folder / "patients.db", new_ledger=True)
    learners = [ThresholdLearner(CDP(5), over=("v",), label="high"), PointLearner(CDP(5), over=("v",), label="nine")]
    fitted = [(learner.estimator(one).fit(), numbers) for learner in learners]
    return [*fitted, (learner(two).fit(), patients(400))]


def test_the_estimator_of_every_learner_is_one_to_scikit_learn(tmp_path: Path) -> None:
    for fitted, rows in fitted_learners(tmp_path):
        kind, features = type(fitted).__name__, list(fitted.feature_names_in_)
        own = [check for _, check in estimator_checks_generator(fitted) if check.func in CHECKS_WITHOUT_ROWS]
        assert len(own) == len(CHECKS_WITHOUT_ROWS)
        for check in own:  # the others bring rows of their own, which no schema declares
            check(clone(fitted))
        with pytest.raises(NotFittedError):
            clone(fitted).predict(rows)
        predicted = fitted.predict(rows)
        for copied in (pickle.loads(pickle.dumps(fitted)), deepcopy(fitted)):
            assert (copied.predict(rows) == predicted).all()
        assert deepcopy(fitted).session is fitted.session
        with pytest.raises(MechanismError, match="no session"):
            pickle.loads(pickle.dumps(fitted)).fit()
        assert fitted.n_features_in_ == len(features) and set(fitted.classes_) == set(rows[fitted.mechanism.label])
        assert (fitted.predict(rows[features[::-1]]) == predicted).all()  # columns are found by name
        with pytest.raises(DataError, match=f"X has 7 features, but {kind} is expecting {len(features)} features"):
            fitted.predict(np.zeros((2, 7)))
        whole = Pipeline([("keep", FunctionTransformer()), ("learn", clone(fitted))])
        assert (whole.fit(rows[features], rows[fitted.mechanism.label]).predict(rows)).shape == predicted.shape
        assert 0 <= fitted.score(rows[features], rows[fitted.mechanism.label]) <= 1


def test_a_search_of_scikit_learn_pays_for_each_fit(session: Session) -> None:
    frame = patients()
    grid = {"budget": [CDP(0.3), CDP(0.6)], "method": ["gram", "descent"]}
    search = GridSearchCV(learner(session), grid, cv=2).fit(frame.drop(columns="ill"), frame["ill"])
    assert search.best_score_ > 0.7 and search.best_params_.keys() == grid.keys()
    assert len([entry for entry in session.ledger.entries() if entry.kind == "reserve"]) == 4 * 2 + 1


def test_a_search_of_scikit_learn_can_choose_by_what_was_released(session: Session) -> None:
    """No row is scored: labels of the rows given for scoring may be anything."""
    grid = {"vote__budget": [CDP(0.2), CDP(1.0)]}
    vote = Pipeline([("vote", learner(session, method="gram", holdout=0.25))])
    search = GridSearchCV(vote, grid, cv=KFold(2), scoring=released_accuracy, error_score="raise")
    frame = patients()
    search.fit(frame.drop(columns="ill"), frame["ill"])
    stated = search.best_estimator_[-1].model_.released_accuracy()
    assert stated is not None and released_accuracy(search.best_estimator_, "no rows") == stated[0]
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) > 0.6
    assert len([entry for entry in session.ledger.entries() if entry.kind == "reserve"]) == 2 * 2 + 1
    with pytest.raises(MechanismError, match="No accuracy was released"):
        released_accuracy(learner(session).fit())


def test_a_private_search_is_one_reservation_or_none(session: Session) -> None:
    search = GridSearch(learner(session, holdout=0.25), {"budget": [CDP(0.5), CDP(1.5)], "method": ["gram", "descent"]})
    cost = search.cost()
    assert not cost.fits or cost.guarantee.rho("a") > 0
    before = len(list(session.ledger.entries()))
    fitted = search.fit()
    assert isinstance(search, GridSearchCV) and list(search.cv_results_["rank_test_score"]).count(1) >= 1
    assert fitted.score(patients(), patients()["ill"]) > 0.6 and fitted.decision_function(patients()).shape == (4000,)
    assert len(fitted.releases_) == 4 and len(list(session.ledger.entries())) == before + 8
    assert fitted.best_score_ == max(fitted.cv_results_["mean_test_score"]) > 0.6
    assert (fitted.cv_results_["low"] <= fitted.cv_results_["high"]).all()
    assert (abs(fitted.cv_results_["majority_share"] - 0.62) < 0.1).all()  # of 4,000 patients, with noise
    assert (fitted.predict(patients()) == patients()["ill"]).mean() > 0.7
    left = session.left()
    with pytest.raises(BudgetExceeded) as refused:
        GridSearch(learner(session, holdout=0.25), {"budget": [CDP(3.0), CDP(3.5)]}).fit()
    assert "requested ρ = 10.625" in str(refused.value) and session.left() == left
    with pytest.raises(MechanismError, match="not a Pipeline"):
        GridSearch(Pipeline([("vote", learner(session))]), {"vote__budget": [CDP(0.1)]}).cost()
    with pytest.raises(MechanismError, match="holds out no rows"):
        GridSearch(learner(session), {"budget": [CDP(0.1)]}).fit()


def test_it_is_the_last_step_of_pipelines(session: Session, tmp_path: Path) -> None:
    frame = patients()
    keep = ColumnTransformer([("keep", "passthrough", ["a", "b", "c"])], verbose_feature_names_out=False)
    steps = [("keep", keep.set_output(transform="pandas")), ("vote", learner(session))]
    pipeline = Pipeline(steps).fit(frame.drop(columns="ill"), frame["ill"])
    assert (pipeline.predict(frame) == frame["ill"]).mean() > 0.7
    X, y = points(500)
    scale = FunctionTransformer(lambda numbers: numbers / 10)
    regression = regressor(tmp_path / "other", bounds=(-1, 1), target_bounds=(-60, 60))
    assert Pipeline([("scale", scale), ("fit", regression)]).fit(X, y).score(X, y) > 0.9


def test_a_mechanism_and_its_estimator_show_what_was_chosen(session: Session) -> None:
    mechanism = HalfspaceLearner(CDP(1.0), "ill", holdout=0.25)
    assert repr(mechanism) == "HalfspaceLearner(budget=CDP(eps0=1.0), label='ill', holdout=0.25)"
    assert eval(repr(mechanism)) == mechanism
    assert repr(type("Bare", (HalfspaceLearner,), {})(CDP(1.0), "ill")).startswith("Bare(budget=")
    bare: Any = type("Own", (Mechanism,), dict.fromkeys(Mechanism.__abstractmethods__))
    assert repr(bare()) == "Own()"
