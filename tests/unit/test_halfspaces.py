"""HalfspaceLearner and its model: what they offer, what they refuse, and that nothing is spent by a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from nabladp.errors import BudgetError, DataError, DomainTooLarge, MechanismError, NablaDPError, PlanError
from nabladp.mechanisms.learners.halfspaces import NEVER, HalfspaceLearner, HalfspaceModel
from nabladp.mechanisms.learners.halfspaces.average import Average
from nabladp.mechanisms.learners.halfspaces.gram import GramFit, _inverse_root, _usual_length
from nabladp.mechanisms.learners.halfspaces.randomized_labels import AnsweredRows
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Approx, Budget, Pure, Rho
from nabladp.privacy.values import limit_units
from nabladp.release import Session
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, Counts, Kernel, Progress

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("n", "s", "w")),
        Attribute("age", "integer", low=0, high=39),
        Attribute("sex", "categorical", values=("f", "m")),
        Attribute("smoker", "boolean"),
        Attribute("one", "integer", low=1, high=1),
        Attribute("sick", "categorical", values=("yes", "no")),
    )
)
MARGINS: dict[str, Any] = {"gamma": 0.4, "gamma_prime": 0.2}
METHODS: dict[str, HalfspaceLearner] = {
    "gram": HalfspaceLearner(CDP(1), "sick", method="gram"),
    "gram, response": HalfspaceLearner(
        CDP(1), "sick", method="gram", label_treatment="response", budgets={"age": Rho(0.2)}
    ),
    "gram, holdout": HalfspaceLearner(
        CDP(1), "sick", method="gram", holdout=0.2, encode={"age": "thermometer"}, ridge=50.0
    ),
    "descent": HalfspaceLearner(CDP(1), "sick", method="descent"),
    "descent, holdout": HalfspaceLearner(
        CDP(1), "sick", method="descent", steps=5, holdout=0.2, encode={"age": "thermometer"}, label_epsilon=0.7
    ),
    "average": HalfspaceLearner(Rho(0.3), "sick", method="average", label_epsilon=2.0, feature_epsilon=0.5),
    "gradient": HalfspaceLearner(Approx(1, 1e-6), "sick", method="gradient", steps=4),
    "gradient, response": HalfspaceLearner(CDP(1), "sick", method="gradient", label_treatment="response", steps=2),
    "robust": HalfspaceLearner(CDP(1), "sick", method="robust", holdout=0.1, holdout_budget=Rho(0.01), **MARGINS),
    "exact": HalfspaceLearner(
        CDP(1), "sick", over=("sex", "smoker"), method="exact", intercept=True, gamma=1, gamma_prime=0
    ),
    "net": HalfspaceLearner(
        CDP(1), "sick", over=("sex", "smoker"), method="exact", resolution=5, gamma=1, gamma_prime=0.5, holdout=0.3
    ),
    "handed in": HalfspaceLearner(
        CDP(1), "sick", over=("region", "sex"), method="exact", hypotheses=((1, 0, 0, 1), (0, 1, -1, 0, 2)),
        label_treatment="direct", gamma=1, gamma_prime=0,
    ),
    "handed in, response": HalfspaceLearner(
        CDP(1), "sick", over=("sex", "smoker"), method="exact", hypotheses=((1, 0), (0, 1, 2)), gamma=1, gamma_prime=0
    ),
}  # fmt: skip
BY_PLACE = {name for name, learner in METHODS.items() if learner.holdout is not None or "response" in name}
every = pytest.mark.parametrize("name", METHODS)


def people(rows: int = 3000, seed: int = 5) -> dict[str, Any]:
    draws = NoiseSource.seeded(seed)
    made: dict[str, Any] = {a.name: draws.uniform_integers(a.size, rows) for a in SCHEMA}
    healthy = (made["age"] < 20).astype(int) + (made["smoker"] == 0) + made["sex"] + draws.uniform_integers(2, rows)
    return made | {"sick": (healthy >= 2).astype(np.int64)}


def frame(rows: int = 3000, seed: int = 5) -> pd.DataFrame:
    codes = people(rows, seed)
    return pd.DataFrame(
        {
            "region": np.array(["n", "s", "w"])[codes["region"]],
            "age": codes["age"],
            "sex": np.array(["f", "m"])[codes["sex"]],
            "smoker": codes["smoker"].astype(bool),
            "one": 1,
            "sick": np.array(["yes", "no"])[codes["sick"]],
        }
    )


def learn(learner: HalfspaceLearner, seed: int = 3, rows: int = 3000) -> HalfspaceModel:
    return learner.run(CodedTable(SCHEMA, people(rows)), NoiseSource.seeded(seed))


# ---- every method --------------------------------------------------------------------------------------------------


@every
def test_who_needs_row_order_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set[bool]()
    plain = CodedTable.fold

    def fold(table: CodedTable, kernel: Any, progress: Any = None) -> Any:
        asked.add(kernel.by_row_index)
        return plain(table, kernel, progress)

    monkeypatch.setattr(CodedTable, "fold", fold)
    learn(METHODS[name], rows=300)
    assert METHODS[name].needs_row_order(SCHEMA, 300) == (True in asked) == (name in BY_PLACE)


@every
def test_every_attribute_keeps_to_its_budget(name: str) -> None:
    learner = METHODS[name]
    short = {"sick": learner.label_epsilon} | dict.fromkeys(learner.features(SCHEMA), learner.feature_epsilon)
    for n in (0, 2, 50, 3000, 10**6):
        claim = learner.guarantee(SCHEMA, n)
        for attribute in SCHEMA.names:
            limit = learner.budgets.get(attribute, CDP(short[attribute]) if short.get(attribute) else learner.budget)
            units = claim.rho_units(attribute)
            assert units is not None and units <= limit_units(limit)
            assert (units == 0) == (attribute not in learner.reads(SCHEMA) or attribute == "one") or n == 0
    claim = learner.guarantee(SCHEMA, 3000)
    used = max(
        (claim.rho_units(a) or 0) / limit_units(learner.budgets.get(a, learner.budget)) for a in learner.reads(SCHEMA)
    )
    assert used > 0.99  # nothing is wasted for whoever limits it


@every
def test_models_predict_and_say_what_they_are(name: str) -> None:
    model, rows = learn(METHODS[name]), frame(500, 9)
    predicted = model.predict(rows)
    assert set(predicted) <= {"yes", "no"} and f"method {METHODS[name].method!r}" in repr(model)
    decided = model.decision_function(rows)
    assert ((decided >= 0) == (predicted == "no")).all()
    assert model.score(rows) == model.score(rows, rows["sick"]) == (predicted == rows["sick"]).mean()
    if name.startswith(("gram", "descent")):
        assert model.score(rows) > 0.72
    real = model.columns.matrix(_codes(rows, model.features))
    assert np.abs(real @ model.weights - decided).max() <= 0.01 * np.abs(model.weights).max() * len(model.weights)
    assert model.intercept == model.weights[0] and len(model.names) == len(model.integers)
    told = model.distance_to_flip(rows)
    assert (model.distance_to_flip(rows, predicted) == told).all() and told.min() >= 1
    wrong = model.distance_to_flip(rows, np.where(predicted == "yes", "no", "yes"))
    assert (wrong == 0).all()
    errors = [model.robust_error(rows, rows["sick"], gamma) for gamma in (0, 0.4, 1.0)]
    assert errors == sorted(errors) and errors[0] == pytest.approx(1 - model.score(rows))
    assert model.robust_error(rows) == errors[0]
    if model.holdout is not None:
        low, high = model.holdout.interval()
        assert low <= model.holdout.accuracy <= high and "held out" in repr(model)
        labels = model.holdout.labels
        assert labels is not None and 0.5 <= labels.majority <= 1 and "the more frequent label" in repr(model)


def _codes(rows: pd.DataFrame, names: tuple[str, ...]) -> dict[str, Any]:
    return {n: np.array([list(SCHEMA[n].texts).index(_text(v)) for v in rows[n]]) for n in names}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool | np.bool_) else str(value)


@every
def test_json_and_tables(name: str) -> None:
    model = learn(METHODS[name])
    again = HalfspaceModel.from_json(json.loads(json.dumps(model.to_json())), SCHEMA)
    assert again.to_json() == model.to_json()
    assert (again.predict(frame(50)) == model.predict(frame(50))).all()
    table = model.to_arrow(SCHEMA)
    assert table.column_names == ["column", "attribute", "value", "low", "high", "noise_scale", "integer"]
    assert table.num_rows == len(model.weights)
    assert (
        (table["low"].null_count == 0)
        == (model.deviations is not None)
        == (METHODS[name].method in ("gram", "average"))
    )
    extra = model.extra_tables(SCHEMA)
    assert ("holdout" in extra) == (model.holdout is not None)
    assert extra["contributions"].num_rows == sum(SCHEMA[f].size for f in model.features)
    other = Schema(tuple(a for a in SCHEMA if a.name != "sex"))
    with pytest.raises(NablaDPError):
        HalfspaceModel.from_json(model.to_json(), other)


@every
def test_plan_form_round_trips_and_expectations_have_a_summary(name: str) -> None:
    learner = METHODS[name]
    again = HalfspaceLearner.from_plan(json.loads(json.dumps(learner.to_json())))
    assert again.to_json() == learner.to_json()
    for n in (0, 3000):
        assert again.guarantee(SCHEMA, n) == learner.guarantee(SCHEMA, n)
        expected = learner.expected_error(SCHEMA, n).to_json()
        assert expected["summary"]["method"] == learner.method and json.dumps(expected)
    assert ("rows held out" in expected["summary"]) == (learner.holdout is not None)


@every
def test_small_and_odd_tables_never_raise(name: str) -> None:
    """Constant labels, a feature that is the label, two rows: a model comes out, whatever the data hold."""
    learner, draws = METHODS[name], NoiseSource.seeded(0)
    same = people(200)
    same["sex"] = same["sick"]
    for codes in (
        people(200) | {"sick": np.zeros(200, np.int64)},
        people(200) | {"sick": np.ones(200, np.int64)},
        same,
        {a.name: np.zeros(2, np.int64) for a in SCHEMA},
        {a.name: np.full(2, a.size - 1) for a in SCHEMA},
    ):
        assert set(learner.run(CodedTable(SCHEMA, codes), draws).predict(frame(5))) <= {"yes", "no"}


def test_a_feature_equal_to_the_label_is_found() -> None:
    codes = people()
    codes["sex"] = codes["sick"]
    model = METHODS["gram"].run(CodedTable(SCHEMA, codes), NoiseSource.seeded(1))
    assert model.names[int(np.argmax(np.abs(model.weights)))] == "sex = m"


# ---- parts ---------------------------------------------------------------------------------------------------------


def flat(d: int, public: str = "") -> Schema:
    return Schema(
        (
            *(Attribute(f"x{i}", "boolean", public=public == "features") for i in range(d)),
            Attribute("y", "boolean", public=public == "label"),
        )
    )


def test_the_label_is_randomized_where_that_leaves_less_noise() -> None:
    """As measured: averaging prefers a response below about 0.6·d, 1.0·d, 1.2·d, 10.8·d rows."""
    d = 1000
    for epsilon, times in ((0.1, 0.6), (0.5, 1.0), (1, 1.2), (3, 10.8)):
        learner = HalfspaceLearner(CDP(epsilon), "y", method="average")
        chosen = {
            n: learner.learner(flat(d), n).response is not None  # type: ignore[attr-defined]
            for n in (round(0.7 * times * d), round(1.4 * times * d))
        }
        assert list(chosen.values()) == [True, False]
    gram = HalfspaceLearner(CDP(1), "y", method="gram")
    assert gram.learner(flat(50), 5000).response is None  # type: ignore[attr-defined]
    poor = HalfspaceLearner(CDP(1), "y", method="gram", label_epsilon=0.02, feature_epsilon=2)
    assert isinstance(poor.learner(flat(50), 100), GramFit)


def test_before_rows_are_known_the_claim_holds_for_any_number_of_them() -> None:
    for schema, learner in (
        (flat(40), HalfspaceLearner(CDP(1), "y", method="average")),  # decided by the rows
        (flat(40), HalfspaceLearner(CDP(1), "y", label_epsilon=0.05, method="gradient", steps=3)),
        (flat(40), HalfspaceLearner(CDP(1), "y")),  # decided already
        (flat(40), HalfspaceLearner(CDP(1), "y", feature_epsilon=0.01)),  # and for "gram"
        (SCHEMA, METHODS["robust"]),
    ):
        early = learner.guarantee(schema, 0)
        rows = [2, 10, 60, 10_000]
        for n in rows:
            claim = learner.guarantee(schema, n)
            for chosen in (schema.names, schema.names[-1:], schema.names[-3:], schema.names[:2]):
                assert claim.rho(chosen) <= early.rho(chosen) * (1 + 1e-12)
        if learner.method in ("auto", "robust"):
            assert early == learner.guarantee(schema, 10_000)


def test_public_labels_cost_nothing_and_public_features_leave_the_label_alone() -> None:
    for method in ("auto", "descent", "gram", "average", "gradient"):
        learner = HalfspaceLearner(CDP(0.5), "y", method=method)
        claim = learner.guarantee(flat(5, "label"), 1000)
        assert claim.rho("x0") > 0.12 and learner.expected_error(flat(5, "label"), 9).figures["the label"] == "public"
        only = learner.guarantee(flat(5, "features"), 1000)
        assert only.rho("y") == pytest.approx(0.125, rel=1e-2)
        everything = flat(3).attributes[:-1]
        open_schema = Schema(
            (*(Attribute(a.name, "boolean", public=True) for a in everything), Attribute("y", "boolean", public=True))
        )
        table = CodedTable(open_schema, {a.name: np.array([0, 1, 1, 0, 1]) for a in open_schema})
        assert learner.guarantee(open_schema, 5).per_attribute() == {} or not learner.guarantee(open_schema, 5).terms
        assert (
            learner.run(table, NoiseSource.seeded(1)).score({f"x{i}": [False, True] for i in range(3)}, [False, True])
            == 1
        )
    exact = HalfspaceLearner(CDP(0.5), "y", method="exact", gamma=0.67, gamma_prime=0.34)
    assert exact.guarantee(flat(3, "label"), 9).rho("x0") == pytest.approx(0.125)
    assert exact.guarantee(flat(3, "features"), 9).rho("y") == pytest.approx(0.125, rel=1e-2)


def test_a_label_dp_learner_is_as_good_as_its_answers() -> None:
    """All features public: the Gram matrix of features is exact, only products with the label have noise."""
    learner = HalfspaceLearner(CDP(0.5), "y", method="gram").learner(flat(5, "features"), 1000)
    assert isinstance(learner, GramFit)
    scales = learner.calibration.scales.reshape(-1)
    assert (scales > 0).sum() == 6


def test_answers_are_drawn_once() -> None:
    method = HalfspaceLearner(CDP(1), "sick", method="average", label_treatment="response").learner(SCHEMA, 100)
    assert isinstance(method, Average) and method.response is not None
    rows = method.response.rows(CodedTable(SCHEMA, people(100)), NoiseSource.seeded(1))
    assert isinstance(rows, AnsweredRows) and rows.n == 100
    first, second = rows.marginals([("sex", method.response.answer), ("smoker", method.response.answer)])
    assert first.sum(axis=0).tolist() == second.sum(axis=0).tolist()  # the same answers in every table of one pass
    with pytest.raises(MechanismError, match="once"):
        rows.marginals([("sex", method.response.answer)])


def test_the_gram_method_is_the_gram_mechanism_with_a_ridge() -> None:
    learner = METHODS["gram"]
    method = learner.learner(SCHEMA, 3000)
    assert isinstance(method, GramFit)
    gram = method.mechanism.run(CodedTable(SCHEMA, people()), NoiseSource.seeded(3))
    fit = gram.regress("sick")
    model = learn(learner)
    assert np.allclose(model.weights, fit.coefficients) and model.facts["ridge"] == fit.ridge
    low, high = model.interval() or (None, None)
    assert np.allclose(low, fit.interval()[0]) and np.allclose(high, fit.interval()[1])


def test_the_default_is_the_method_that_suits_the_budgets() -> None:
    def taken(schema: Schema = SCHEMA, **options: Any) -> str:
        label = "sick" if schema is SCHEMA else "y"
        learner = HalfspaceLearner(CDP(1), label, **options)
        found = {learner.expected_error(schema, n).method for n in (0, 5, 10**6)}  # rows do not matter
        assert len(found) == 1
        return found.pop()

    assert taken() == taken(flat(60)) == taken(label_epsilon=0.1) == taken(label_treatment="gaussian") == "descent"
    assert taken(flat(60, "label")) == taken(flat(60), label_epsilon=100.0) == "gram"
    assert taken(label_treatment="response") == taken(ridge=3.0) == "gram"
    assert taken(method="gram") == "gram" and taken(method="average") == "average"
    model = learn(HalfspaceLearner(CDP(1), "sick"))
    assert model.method == "descent" and model.interval() is None and model.facts["steps"] == 12
    assert learn(HalfspaceLearner(CDP(1), "sick", ridge=100.0)).interval() is not None


class Apart(Counts):
    """A table whose rows are on other machines, as far as anyone can tell."""

    def __init__(self, counts: CodedTable) -> None:
        self.counts, self.schema = counts, counts.schema

    @property
    def n(self) -> int:
        return self.counts.n

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> NDArray[np.int64]:
        return self.counts.fold(kernel, progress)


def test_steps_are_the_same_from_memory_and_from_rows_read_again() -> None:
    learner = METHODS["descent"]
    kept = learn(learner)
    for batch in (100, 1 << 16):
        table = CodedTable(SCHEMA, people(), batch_rows=batch)
        again = learner.run(Apart(table), NoiseSource.seeded(3))
        assert (again.weights == kept.weights).all()
        assert (learner.run(table, NoiseSource.seeded(3)).weights == kept.weights).all()


def test_whitened_rows_have_about_the_length_that_is_expected() -> None:
    """Without Stein's correction it would be too short, the more so the more noise there is."""
    table = CodedTable(SCHEMA, people())
    for epsilon in (0.05, 0.3, 3.0):
        method: Any = HalfspaceLearner(CDP(epsilon), "sick", method="descent").learner(SCHEMA, 3000)
        gram = method.mechanism.run(table, NoiseSource.seeded(1))
        ridge, inverse = _inverse_root(gram)
        signs = method.task.columns.matrix(people())
        true = float(np.sqrt(((signs @ inverse.T) ** 2).sum(axis=1).mean()))
        assert _usual_length(gram, ridge, inverse) == pytest.approx(true, rel=0.05)
        assert np.allclose(
            inverse @ (gram.matrix / gram.n + ridge * np.eye(len(inverse))) @ inverse.T, np.eye(len(inverse))
        )


def test_more_budget_does_not_whiten_what_a_few_steps_cannot_use() -> None:
    """With a ridge that vanishes with the noise, Adult was learned worse with ε = 5 than with ε = 1."""
    rich = HalfspaceLearner(CDP(50), "sick", method="descent").run(CodedTable(SCHEMA, people()), NoiseSource.seeded(1))
    assert rich.facts["ridge"] == 0.1


def test_columns_that_follow_from_others_can_be_whitened_without_noise() -> None:
    schema = Schema(tuple(Attribute(name, "boolean", public=True) for name in "aby"))
    column = np.arange(40) % 2
    table = CodedTable(schema, {"a": column, "b": 1 - column, "y": column})
    model = HalfspaceLearner(CDP(1), "y", method="descent").run(table, NoiseSource.seeded(1))
    assert model.score({"a": [False, True], "b": [True, False]}, [False, True]) == 1


def test_a_ridge_too_small_is_raised_and_said() -> None:
    learner = HalfspaceLearner(CDP(0.05), "sick", ridge=1e-9)
    model = learner.run(CodedTable(SCHEMA, people(50)), NoiseSource.seeded(2))
    assert model.facts["ridge"] > 1 and np.isfinite(model.weights).all()


def test_integer_weights_decide_and_have_exact_distances() -> None:
    model = learn(HalfspaceLearner(CDP(3), "sick", over=("sex", "smoker"), method="exact", gamma=1, gamma_prime=0))
    assert (model.weights == model.integers).all()
    rows = {"sex": ["f", "f", "m", "m"], "smoker": [False, True, False, True]}
    said = model.predict(rows)
    for row in range(4):
        codes = [row >> 1, row & 1]
        apart = [bin(other ^ row).count("1") for other in range(4) if said[other] != said[row]]
        assert model.distance_to_flip(rows)[row] == (min(apart) if apart else NEVER), codes


def test_margins_are_numbers_of_features_however_they_are_written() -> None:
    for d in range(2, 8):
        for outer in range(1, d + 1):
            learner = HalfspaceLearner(CDP(1), "y", method="robust", gamma=outer / d, gamma_prime=(outer - 1) / d)
            loss = learner.learner(flat(d), 10).pick.loss  # type: ignore[attr-defined]
            assert (loss.outer, loss.inner) == (outer, outer - 1)
    model = learn(METHODS["gram"])
    changed = np.mean(model.distance_to_flip(frame(300), frame(300)["sick"]) <= 3)
    assert model.robust_error(frame(300), frame(300)["sick"], 3 / 5) == changed


def test_needed_rows_is_the_theorems_number() -> None:
    learner = HalfspaceLearner(CDP(1), "y", method="exact", gamma=0.67, gamma_prime=0.34)
    rows = learner.needed_rows(flat(3), 0.1)
    for n in (rows - 1, rows):
        told = learner.expected_error(flat(3), n).figures
        excess = next(value for words, value in told.items() if "robust error" in words)
        assert (excess <= 0.1) == (n == rows)
    public = learner.needed_rows(flat(3, "label"), 0.1)
    direct = HalfspaceLearner(CDP(1), "y", method="exact", label_treatment="direct", gamma=0.67, gamma_prime=0.34)
    assert public < direct.needed_rows(flat(3), 0.1) + 1 < rows
    robust = HalfspaceLearner(CDP(1), "y", method="robust", gamma=0.67, gamma_prime=0.34)
    assert 1 < robust.needed_rows(flat(3), 0.01) < 10**5
    for bad in (METHODS["gram"], METHODS["average"]):
        with pytest.raises(MechanismError):
            bad.needed_rows(SCHEMA, 0.1)


def test_held_out_rows_are_not_learned_from() -> None:
    learner = HalfspaceLearner(CDP(20), "sick", holdout=0.25)
    model = learn(learner)
    assert model.holdout is not None and model.holdout.rows == 750 and model.n == 3000
    assert learner.task(SCHEMA, 3000).n == 2250
    assert abs(model.holdout.accuracy - model.score(frame(3000, 11))) < 0.06
    labels = model.holdout.labels
    sick = people()["sick"]
    assert labels is not None and labels.rows == 3000 and abs(labels.second - sick.sum()) < 10
    assert model.label_names()[labels.more_frequent] == SCHEMA["sick"].label(int(np.bincount(sick).argmax()))
    low, high = labels.interval()
    told = dict(model._majority_fact())[f"always predicting sick = {model.label_names()[labels.more_frequent]}"]
    assert "of 3,000 rows" in told and low < max(sick.mean(), 1 - sick.mean()) < high
    earlier = model.to_json()
    del earlier["holdout"]["labels"]  # a release of an earlier version
    assert HalfspaceModel.from_json(earlier, SCHEMA).released_majority() is None
    plan = learner._holdout(SCHEMA)
    assert plan is not None and [plan.rows(n) for n in (0, 2, 3, 100)] == [0, 1, 1, 25]
    train, held = plan.split(CodedTable(SCHEMA, people()), NoiseSource.seeded(1))
    both = train.marginals([("age", "sick")])[0] + held.marginals([("age", "sick")])[0]
    assert (both == CodedTable(SCHEMA, people()).marginals([("age", "sick")])[0]).all()


# ---- refusals ------------------------------------------------------------------------------------------------------

EIGHT = flat(8)
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"label": "region"}, MechanismError, "3 values"),
    ({"label": "one"}, MechanismError, "1 values"),
    ({"label": "sik"}, KeyError, "sick"),
    ({"over": ("sex", "sick")}, MechanismError, "'sick' is the label"),
    ({"over": "sex"}, MechanismError, "list of attributes"),
    ({"over": ("one",)}, MechanismError, "two values"),
    ({"method": "svm"}, MechanismError, "'svm'"),
    ({"method": "exact"}, MechanismError, "gamma"),
    ({"method": "robust", "gamma": 0.2}, MechanismError, "gamma_prime"),
    ({"method": "robust", "gamma": 0.2, "gamma_prime": 0.2}, MechanismError, "larger than γ'"),
    ({"method": "robust", "gamma": 0.2, "gamma_prime": 0.4}, MechanismError, "larger than γ'"),
    ({"method": "robust", "gamma": 1.5, "gamma_prime": 0.4}, MechanismError, "'gamma' must be a margin"),
    ({"method": "exact", "gamma": 1, "gamma_prime": 0}, MechanismError, "every feature here has two"),
    ({"gamma": 0.2}, MechanismError, "'gamma' means nothing"),
    ({"steps": 3}, MechanismError, "'steps' means nothing"),
    ({"method": "gradient", "steps": 0}, MechanismError, "from 1 to 10,000"),
    ({"method": "descent", "steps": 10**15}, MechanismError, "from 1 to 10,000"),
    ({"method": "descent", "ridge": 3.0}, MechanismError, "'ridge' means nothing"),
    ({"method": "descent", "label_treatment": "response"}, MechanismError, "'gaussian'"),
    ({"ridge": -1.0}, MechanismError, "at least 0"),
    ({"holdout": 1.0}, MechanismError, "share"),
    ({"holdout": 0.1, "holdout_budget": CDP(1)}, BudgetError, "whole budget"),
    ({"holdout_budget": CDP(1)}, MechanismError, "means nothing"),
    ({"label_treatment": "direct"}, MechanismError, "'response' or 'gaussian'"),
    ({"label_epsilon": 1.0, "budgets": {"sick": CDP(1)}}, BudgetError, "twice"),
    ({"feature_epsilon": 1.0, "budgets": {"age": CDP(1)}}, BudgetError, "twice"),
    ({"label_epsilon": -1.0}, BudgetError, "'label_epsilon'.*above zero"),
    ({"budget": Pure(1)}, BudgetError, "Gaussian"),
    ({"budget": CDP(1e-7)}, BudgetError, "too small"),
    ({"label_treatment": "response", "label_epsilon": 1e-5}, BudgetError, "would be pure noise"),
    ({"encode": {"sex": "thermometer", "moon": 3}}, KeyError, "moon"),
    ({"memory_mb": 0}, MechanismError, "megabytes"),
    ({"method": "exact", "hypotheses": ((1, 2),), **MARGINS}, MechanismError, "A hypothesis is a list"),
    ({"method": "exact", "hypotheses": ((0.5,) * 22,), **MARGINS}, MechanismError, "whole numbers"),
    ({"method": "exact", "hypotheses": 3, **MARGINS}, MechanismError, "list of lists"),
    ({"method": "exact", "hypotheses": ((1,),), "resolution": 3, **MARGINS}, MechanismError, "are given"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "kind", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_makes_no_sense_is_refused_before_anything_is_spent(
    options: dict[str, Any], kind: type[Exception], words: str, tmp_path: Path
) -> None:
    session = Session(frame(50), SCHEMA, Budget(per_attribute=CDP(5.0)), tmp_path / "ledger.db", new_ledger=True)
    given = {"budget": CDP(1), "label": "sick"} | options
    with pytest.raises(kind, match=words) as caught:
        session.release(HalfspaceLearner(**given))
    assert isinstance(caught.value, NablaDPError) and caught.value.fix
    assert session.ledger.head.seq == 1


def test_too_many_features_for_all_halfspaces() -> None:
    exact: dict[str, Any] = {"method": "exact", "gamma": 0.5, "gamma_prime": 0.25}
    with pytest.raises(DomainTooLarge, match="8,378,070,864"):
        HalfspaceLearner(CDP(1), "y", **exact).guarantee(EIGHT, 100)
    net = HalfspaceLearner(CDP(1), "y", resolution=9, memory_mb=1, **exact)
    with pytest.raises(DomainTooLarge, match="memory"):
        net.guarantee(EIGHT, 100)
    assert HalfspaceLearner(CDP(1), "y", resolution=9, memory_mb=64, **exact).guarantee(EIGHT, 100).rho("x0") > 0
    with pytest.raises(DomainTooLarge, match="64 bits"):
        HalfspaceLearner(CDP(1), "y", resolution=9, **exact).guarantee(EIGHT, 10**12)


def test_one_row_is_refused(tmp_path: Path) -> None:
    session = Session(frame(1), SCHEMA, Budget(per_attribute=CDP(5.0)), tmp_path / "ledger.db", new_ledger=True)
    for learner in METHODS.values():
        with pytest.raises(MechanismError, match="At least two rows"):
            session.release(learner)
    assert session.ledger.head.seq == 1


def test_plans_need_a_label_and_known_options() -> None:
    with pytest.raises(PlanError, match="label"):
        HalfspaceLearner.from_plan({"budget": {"cdp": 1}})
    with pytest.raises(PlanError, match="gamma_prime"):
        HalfspaceLearner.from_plan({"budget": {"cdp": 1}, "label": "y", "gama_prime": 1})


def test_columns_missing_when_predicting_are_named() -> None:
    model = learn(METHODS["gram"])
    with pytest.raises(DataError, match="'smoker'"):
        model.predict(frame(5).drop(columns="smoker"))
    with pytest.raises(DataError, match="'sick'"):
        model.score(frame(5).drop(columns="sick"))
    with pytest.raises(DataError, match="every row"):
        model.robust_error(frame(5), ["yes"], 0.1)
    with pytest.raises(DataError) as caught:
        model.score(frame(2), ["yes", "secret"])
    assert "secret" not in str(caught.value)
    for bad in (0, 1):
        with pytest.raises(MechanismError):
            model.interval(bad)


# ---- scikit-learn --------------------------------------------------------------------------------------------------


def test_in_the_manner_of_scikit_learn(tmp_path: Path) -> None:
    session = Session(frame(), SCHEMA, Budget(per_attribute=CDP(4.0)), tmp_path / "ledger.db", new_ledger=True)
    estimator = HalfspaceLearner(CDP(1), "sick").estimator(session)
    assert estimator.fit() is estimator and list(estimator.classes_) == ["no", "yes"]
    test = frame(800, 21)
    features, labels = test.drop(columns="sick"), test["sick"]
    assert estimator.score(features, labels) > 0.75
    decided = estimator.decision_function(features)
    assert ((decided > 0) == (estimator.predict(features) == "yes")).all()
    assert roc_auc_score(labels == "yes", decided) > 0.8
    assert estimator.robust_error(features, labels, 0.2) >= 1 - estimator.score(features, labels)
    assert (estimator.distance_to_flip(features) >= 1).all()
    assert type(clone(estimator)) is type(estimator)
    array = features.to_numpy()
    assert (estimator.decision_function(array) == decided).all()


def keep_frame(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(age=table["age"].clip(0, 39))


def test_in_pipelines_with_steps_that_keep_a_frame(tmp_path: Path) -> None:
    session = Session(frame(), SCHEMA, Budget(per_attribute=CDP(4.0)), tmp_path / "ledger.db", new_ledger=True)
    data = frame(2000, 8)
    features, labels = data.drop(columns="sick"), data["sick"]
    passing = ColumnTransformer([("keep", "passthrough", list(features))], verbose_feature_names_out=False)
    for before in ([], [("tidy", FunctionTransformer(keep_frame))], [("pick", passing.set_output(transform="pandas"))]):
        model = Pipeline([*before, ("model", HalfspaceLearner(CDP(1), "sick").estimator(session))])
        fitted = model.fit(features, labels)
        assert fitted.score(features, labels) > 0.75
        assert fitted.decision_function(features).shape == (2000,)
    assert len([e for e in session.ledger.entries() if e.kind == "bind"]) == 3


def test_released_through_a_session_and_read_again(tmp_path: Path) -> None:
    session = Session(
        pa.Table.from_pandas(frame()), SCHEMA, Budget(per_attribute=CDP(2.0)), tmp_path / "ledger.db", new_ledger=True
    )
    release = session.release(METHODS["gram, holdout"])
    assert release.output.holdout.rows == 600
    assert session.cost(METHODS["gram"]).fits
