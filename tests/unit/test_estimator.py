"""Learners in the manner of scikit-learn: what fitting spends, and what a classifier must offer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from nabladp.errors import BudgetExceeded, DataError, MissingPart
from nabladp.mechanisms.learners.estimator import Estimator
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Rho
from nabladp.release import Session
from nabladp.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("colour", "categorical", values=("red", "green", "blue")),
        Attribute("size", "integer", low=0, high=4),
        Attribute("old", "boolean"),
        Attribute("ill", "categorical", values=("no", "yes")),
    )
)
LEARNER = PointLearner(CDP(1.0), "ill")


def people(rows: int = 2000) -> pd.DataFrame:
    """Whoever is green, 3 and old is ill; a quarter of all."""
    draws = NoiseSource.seeded(4)
    codes = {name: draws.uniform_integers(size, rows) for name, size in (("c", 3), ("s", 5), ("o", 2), ("hit", 4))}
    hit = codes["hit"] == 0
    frame = pd.DataFrame(
        {
            "colour": np.where(hit, "green", np.array(["red", "green", "blue"])[codes["c"]]),
            "size": np.where(hit, 3, codes["s"]),
            "old": hit | (codes["o"] == 1),
        }
    )
    ill = (frame["colour"] == "green") & (frame["size"] == 3) & frame["old"]
    return frame.assign(ill=np.where(ill, "yes", "no"))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(people(), SCHEMA, Budget(per_attribute=CDP(2.0)), tmp_path / "ledger.db", new_ledger=True)


def test_fit_releases_from_the_sessions_table(session: Session) -> None:
    learner = LEARNER.estimator(session)
    with pytest.raises(NotFittedError):
        learner.predict(people(5))
    before = session.left()
    assert learner.fit() is learner and is_classifier(learner)
    assert learner.release_.mechanism == "PointLearner" and learner.model_ is learner.release_.output
    assert learner.model_.values == {"colour": "green", "size": "3", "old": "true"}
    assert all(session.left()[name] < before[name] for name in SCHEMA.names)
    assert [e.kind for e in session.ledger.entries()] == ["open", "reserve", "bind"]
    assert list(learner.classes_) == ["no", "yes"] and learner.n_features_in_ == 3
    assert list(learner.feature_names_in_) == ["colour", "size", "old"]
    assert learner.score(people().drop(columns="ill"), people()["ill"]) == 1.0


def forms() -> dict[str, tuple[Any, Any]]:
    frame = people(1500)
    features = frame.drop(columns="ill")
    return {
        "pandas": (features, frame["ill"]),
        "pandas, label inside": (frame, None),
        "polars": (pl.from_pandas(features), frame["ill"].tolist()),
        "arrow": (pa.Table.from_pandas(features), pa.array(frame["ill"])),
        "mapping": ({name: features[name].tolist() for name in features}, frame["ill"].to_numpy()),
        "nullable types": (features.convert_dtypes(), frame["ill"].astype("string")),
        "series of polars": (pl.from_pandas(features), pl.Series(frame["ill"].tolist())),
        "array": (features.to_numpy(), frame["ill"].to_numpy()),
    }


@pytest.mark.parametrize("form", forms())
def test_fit_takes_tables_of_every_form_and_spends_in_the_same_ledger(form: str, session: Session) -> None:
    table, labels = forms()[form]
    learner = LEARNER.estimator(session).fit(table, labels)
    assert learner.release_.n == 1500 and learner.release_.ledger["ledger"] == session.ledger.id
    assert list(learner.model_.values.values()) == ["green", "3", "true"]
    assert (learner.predict(table) == people(1500)["ill"].to_numpy()).all()


def test_fitting_again_is_paid_again_and_refused_when_nothing_is_left(session: Session) -> None:
    learner = LEARNER.estimator(session)
    for _ in range(4):  # (2/1)²
        learner.fit()
    with pytest.raises(BudgetExceeded):
        learner.fit()
    with pytest.raises(BudgetExceeded):
        learner.fit(people(), None)


def test_clones_share_the_ledger_and_every_fold_is_paid_for(session: Session) -> None:
    learner = LEARNER.estimator(session).fit()
    twin = clone(learner)
    assert isinstance(twin, Estimator) and twin.session is session and twin.mechanism is LEARNER
    assert not hasattr(twin, "model_") and twin.get_params(deep=False).keys() == {"mechanism", "session"}
    frame = people(900)
    scores = cross_val_score(twin, frame.drop(columns="ill"), frame["ill"], cv=3)
    assert len(scores) == 3 and min(scores) > 0.7
    reserved = [e for e in session.ledger.entries() if e.kind == "reserve"]
    assert len(reserved) == 4
    with pytest.raises(BudgetExceeded):
        learner.fit()


def test_it_works_at_the_end_of_a_pipeline(session: Session) -> None:
    steps = [("same", FunctionTransformer()), ("learn", LEARNER.estimator(session))]
    frame = people(1000)
    fitted = Pipeline(steps).fit(frame.drop(columns="ill"), frame["ill"])
    assert fitted.score(frame.drop(columns="ill"), frame["ill"]) == 1.0


def test_what_does_not_fit_is_refused_by_name_before_anything_is_spent(session: Session) -> None:
    learner, frame = LEARNER.estimator(session), people(50)
    features = frame.drop(columns="ill")
    for table, labels in [
        (features, None),
        (frame, frame["ill"]),
        (features, frame["ill"][:-1]),
        (features.to_numpy()[:, :2], frame["ill"]),
        (features.drop(columns="size"), frame["ill"]),
    ]:
        with pytest.raises(DataError):
            learner.fit(table, labels)
    assert session.ledger.head.seq == 1
    learner.fit()
    with pytest.raises(DataError, match="'old'"):
        learner.predict(features.drop(columns="old"))
    with pytest.raises(DataError) as caught:
        learner.predict({"colour": ["secret"], "size": [1], "old": [True]})
    assert "secret" not in str(caught.value)


def test_only_columns_that_are_read_are_asked_for(session: Session) -> None:
    learner, frame = PointLearner(CDP(1.0), "ill", over=("colour", "old")).estimator(session), people(50)
    with pytest.raises(DataError, match="'old'"):
        learner.fit(frame[["colour"]], frame["ill"])
    assert session.ledger.head.seq == 1
    assert learner.fit(frame[["colour", "old"]], frame["ill"]).release_.n == 50  # 'size' is no feature


def test_without_scikit_learn_the_error_says_what_to_install(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "nabladp.mechanisms.learners.estimator")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(MissingPart, match=r"nabladp\[learn\]"):
        LEARNER.estimator(session)


def test_a_person_limit_counts_too(tmp_path: Path) -> None:
    tight = Session(
        people(), SCHEMA, Budget(per_attribute=CDP(2.0), person=Rho(0.6)), tmp_path / "tight.db", new_ledger=True
    )
    LEARNER.estimator(tight).fit()
    with pytest.raises(BudgetExceeded):
        LEARNER.estimator(tight).fit()
