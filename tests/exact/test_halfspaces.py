"""HalfspaceLearner: the claim against the full output law, for every neighbour and every set of features and label."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.errors import AuditError
from nabladp.mechanisms import Auditable
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner
from nabladp.mechanisms.learners.halfspaces import gradient as steps
from nabladp.mechanisms.learners.halfspaces.exact import Robust
from nabladp.mechanisms.learners.halfspaces.gradient import Gradient, TanhSums
from nabladp.mechanisms.learners.halfspaces.randomized_labels import response_cost
from nabladp.mechanisms.learners.halfspaces.selection import Pick, RowScores, log_law
from nabladp.mechanisms.mechanism import Law
from nabladp.privacy import CDP, Guarantee, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, Counts


def bits(names: str, public: str = "") -> Schema:
    return Schema(tuple(Attribute(name, "boolean", public=name in public) for name in names))


MIXED = Schema(
    (Attribute("a", "boolean"), Attribute("b", "categorical", values=("x", "y", "z")), Attribute("y", "boolean"))
)
DERIVED = Schema(
    (
        Attribute("age", "integer", low=0, high=2),
        Attribute("old", "boolean", derived_from=("age",)),
        Attribute("sex", "boolean"),
        Attribute("y", "boolean", derived_from=("age", "sex")),
    )
)
DERIVE = {"old": lambda r: int(r["age"] == 2), "y": lambda r: int(r["age"] + r["sex"] >= 2)}
GRAM: dict[str, Any] = {"method": "gram"}
MARGINS: dict[str, Any] = {"method": "exact", "gamma": 1.0, "gamma_prime": 0.0}
INNER: dict[str, Any] = {"method": "exact", "gamma": 0.67, "gamma_prime": 0.34}
ONE: dict[str, tuple[Schema, HalfspaceLearner]] = {  # tables of one row: all that there is to differ
    "gram": (MIXED, HalfspaceLearner(CDP(1), "y", **GRAM, label_treatment="gaussian")),
    "gram, response": (MIXED, HalfspaceLearner(CDP(1), "y", **GRAM, label_treatment="response")),
    "gram, poor label": (MIXED, HalfspaceLearner(CDP(1), "y", **GRAM, label_treatment="gaussian", label_epsilon=0.2)),
    "gram, rich label": (MIXED, HalfspaceLearner(CDP(1), "y", **GRAM, label_treatment="gaussian", label_epsilon=3)),
    "gram, response, unequal": (
        MIXED,
        HalfspaceLearner(CDP(1), "y", **GRAM, label_treatment="response", budgets={"b": Rho(0.1), "y": CDP(2)}),
    ),
    "gram, public label": (bits("aby", "y"), HalfspaceLearner(CDP(1), "y", **GRAM)),
    "gram, public features": (bits("aby", "ab"), HalfspaceLearner(CDP(1), "y", **GRAM, label_treatment="gaussian")),
    "gram, label privacy by response": (
        bits("aby", "ab"),
        HalfspaceLearner(CDP(1), "y", **GRAM, label_treatment="response"),
    ),
    "average": (MIXED, HalfspaceLearner(CDP(1), "y", method="average", label_treatment="gaussian")),
    "average, response": (MIXED, HalfspaceLearner(CDP(1), "y", method="average", label_treatment="response")),
    "average, public label": (bits("aby", "y"), HalfspaceLearner(CDP(1), "y", method="average")),
    "exact": (bits("aby"), HalfspaceLearner(CDP(1), "y", **MARGINS)),
    "exact, direct": (bits("abcy"), HalfspaceLearner(CDP(1), "y", label_treatment="direct", **INNER)),
    "exact, intercept": (bits("aby"), HalfspaceLearner(CDP(1), "y", intercept=True, **MARGINS)),
    "exact, net": (bits("aby"), HalfspaceLearner(CDP(1), "y", resolution=5, **MARGINS)),
    "handed in": (MIXED, HalfspaceLearner(CDP(1), "y", hypotheses=((1, 1, 0, 0), (0, -1, 2, 0, 1)), **MARGINS)),
}
TWO: dict[str, tuple[Schema, HalfspaceLearner]] = {  # tables of two rows
    "gram": (bits("aby"), HalfspaceLearner(CDP(1), "y", **GRAM, label_treatment="gaussian")),
    "average": (bits("aby"), HalfspaceLearner(Rho(0.3), "y", method="average", label_treatment="gaussian")),
    "exact": (bits("aby"), HalfspaceLearner(CDP(1), "y", **MARGINS)),
    "exact, narrow": (bits("aby"), HalfspaceLearner(CDP(1), "y", method="exact", gamma=0.5, gamma_prime=0.0)),
    "exact, inner": (bits("abcy"), HalfspaceLearner(CDP(2), "y", **INNER)),
    "exact, direct": (bits("aby"), HalfspaceLearner(CDP(1), "y", label_treatment="direct", **MARGINS)),
    "exact, public label": (bits("aby", "y"), HalfspaceLearner(CDP(1), "y", **MARGINS)),
    "exact, public features": (bits("aby", "ab"), HalfspaceLearner(CDP(1), "y", **MARGINS)),
    "exact, one public feature": (bits("aby", "a"), HalfspaceLearner(CDP(1), "y", **MARGINS)),
    "exact, unequal": (bits("aby"), HalfspaceLearner(CDP(1), "y", label_epsilon=2, budgets={"a": CDP(0.5)}, **MARGINS)),
    "handed in": (bits("aby"), HalfspaceLearner(CDP(1), "y", hypotheses=((1, 1), (1, -1), (1, 0, 0)), **MARGINS)),
    "holdout": (bits("ay"), HalfspaceLearner(CDP(2), "y", holdout=0.5, holdout_budget=Rho(0.7), **MARGINS)),
    "holdout, direct": (
        bits("ay"),
        HalfspaceLearner(CDP(3), "y", holdout=0.4, holdout_budget=Rho(1.5), label_treatment="direct", **MARGINS),
    ),
}


def check(learner: HalfspaceLearner, schema: Schema, n: int, derive: Any = None) -> Any:
    audit = exact_audit(learner, schema, n, derive=derive, guarantee=learner.guarantee(schema, max(n, 2)))
    assert audit.passed, audit.refuted
    protected = [name for name in schema.roots if name not in schema.public]
    assert {row.attributes for row in audit.rows} == {
        chosen for size in range(len(protected) + 1) for chosen in itertools.combinations(protected, size)
    }
    return audit


@pytest.mark.parametrize("name", ONE)
def test_one_row_tells_no_more_than_claimed(name: str) -> None:
    schema, learner = ONE[name]
    audit = check(learner, schema, 1)
    assert audit.tightest.tightness > (0.2 if learner.method == "exact" else 0.9)


@pytest.mark.parametrize("name", TWO)
def test_no_set_of_features_and_label_loses_more_than_claimed(name: str) -> None:
    schema, learner = TWO[name]
    audit = check(learner, schema, 2)
    assert audit.tightest.tightness > (0.15 if learner.method == "exact" else 0.9)  # answers are not shown


def test_three_rows_of_which_one_is_held_out() -> None:
    learner = HalfspaceLearner(CDP(3), "y", holdout=0.34, holdout_budget=Rho(2), **MARGINS)
    check(learner, bits("ay"), 3)


@pytest.mark.parametrize(
    "options",
    [
        {"over": ("age", "old"), "label_treatment": "gaussian", **GRAM},
        {"over": ("old", "sex"), "label_treatment": "response", **GRAM},
        {"over": ("old", "sex"), "method": "average", "label_treatment": "response"},
        {"over": ("age", "sex"), "method": "average", "label_treatment": "gaussian"},
        {"over": ("old", "sex"), **MARGINS},
        {"over": ("old", "sex"), "label_treatment": "direct", **MARGINS},
    ],
    ids=str,
)
def test_derived_columns_are_charged_to_their_sources_even_where_label_and_features_share_them(options: Any) -> None:
    learner = HalfspaceLearner(CDP(1.5), "y", **options)
    check(learner, DERIVED, 1, DERIVE)
    claim = learner.guarantee(DERIVED, 2)
    assert all((claim.rho_units(name) or 0) <= 1.125 * (1 << 60) for name in DERIVED.roots)


def test_a_feature_that_follows_from_the_label() -> None:
    """The answers are public, the label is not: a feature made from it stays protected."""
    schema = Schema(
        (Attribute("y", "boolean"), Attribute("not_y", "boolean", derived_from=("y",)), Attribute("a", "boolean"))
    )
    for treatment in ("response", "gaussian"):
        learner = HalfspaceLearner(CDP(1), "y", over=("not_y", "a"), method="gram", label_treatment=treatment)
        check(learner, schema, 1, {"not_y": lambda record: 1 - record["y"]})


@pytest.mark.parametrize("method", ["gradient", "robust"])
def test_what_is_not_worked_out_says_so(method: str) -> None:
    options: dict[str, Any] = {"gamma": 1.0, "gamma_prime": 0.0} if method == "robust" else {}
    table = CodedTable(bits("aby"), {name: np.array([0, 1]) for name in "aby"})
    with pytest.raises(AuditError):
        HalfspaceLearner(CDP(1), "y", method=method, **options).distribution(table)
    with pytest.raises(AuditError):
        HalfspaceLearner(CDP(1), "y", holdout=0.5).distribution(table)


# ---- the parts of gradient and robust ------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [8, 1 << 16])
@pytest.mark.parametrize("box", [0.5, 2, 8])
def test_the_sums_of_a_step_move_as_far_as_claimed_and_no_farther(grid: int, box: float, monkeypatch: Any) -> None:
    """Every pair of records, at the corners of the box and inside, with a coarse grid and a fine one."""
    monkeypatch.setattr(steps, "ROW_GRID", grid)
    monkeypatch.setattr(steps, "BOX", box)
    schema = Schema((Attribute("c", "categorical", values=tuple("uvw")), *(Attribute(x, "boolean") for x in "aby")))
    learner = HalfspaceLearner(CDP(1), "y", method="gradient", label_treatment="gaussian").learner(schema, 100)
    assert isinstance(learner, Gradient)
    records = list(itertools.product(range(3), range(2), range(2)))
    columns, reached, draw = learner.task.columns, 0.0, np.random.default_rng(1)
    corners = [np.array(signs) * learner.largest for signs in itertools.product((-1, 1), repeat=6)]
    inside = [draw.integers(-learner.largest, learner.largest + 1, 6) for _ in range(40)]
    for weights in (*corners, *inside):
        sums = []
        for record in records:
            codes = {name: np.array([code]) for name, code in zip("cab", record, strict=True)}
            table = CodedTable(schema, codes | {"y": np.array([0])})
            sums.append(table.fold(TanhSums(columns, weights)))
        for (one, x), (other, z) in itertools.permutations(zip(records, sums, strict=True), 2):
            held = sum(learner.task.flips[name] for name, i, j in zip("cab", one, other, strict=True) if i != j)
            moved = int(((x - z) ** 2).sum())
            assert moved <= learner._moves[held]
            reached = max(reached, moved / float(learner._moves[held]))
    assert reached > (0.9 if grid > 8 and box > 1 else 0.25)


def test_a_row_is_rounded_to_the_grid_within_what_is_allowed_for() -> None:
    schema = bits("abcy")
    learner = HalfspaceLearner(CDP(1), "y", method="gradient", label_treatment="gaussian").learner(schema, 9)
    assert isinstance(learner, Gradient)
    draw = np.random.default_rng(3)
    for _ in range(50):
        weights = draw.integers(-learner.largest, learner.largest + 1, 4)
        codes = {name: draw.integers(0, 2, 1) for name in "abcy"}
        found = CodedTable(schema, codes).fold(TanhSums(learner.task.columns, weights))
        signs = np.array([1, *(2 * int(codes[name][0]) - 1 for name in "abc")])
        exact = steps.ROW_GRID * math.tanh(int(signs @ weights) / (2 * steps.WEIGHT_GRID))
        assert (np.abs(found * signs - exact) <= 0.5 + 1e-6).all()


class Chosen(Auditable):
    """The pick of method="robust" among candidates that are given, as a mechanism."""

    def __init__(self, learner: HalfspaceLearner, schema: Schema) -> None:
        robust = learner.learner(schema, 2)
        assert isinstance(robust, Robust)
        self.pick: Pick = robust.pick
        given = HalfspaceLearner(CDP(1), "y", hypotheses=((1, 1), (1, -1), (-1, -1), (1, 2, -1)), **MARGINS)
        self.halfspaces = given.learner(schema, 2).candidates.halfspaces  # type: ignore[attr-defined]

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return self.pick.guarantee()

    def distribution(self, counts: Counts) -> Law:
        scores = counts.fold(RowScores(self.halfspaces, ("a", "b"), "y", self.pick.loss))
        return Law((log_law(scores, self.pick.rate),))


@pytest.mark.parametrize(("gamma", "inner"), [(1.0, 0.0), (0.5, 0.0), (1.0, 0.5)])
def test_the_pick_of_robust_costs_what_is_claimed(gamma: float, inner: float) -> None:
    schema = bits("aby")
    learner = HalfspaceLearner(CDP(2), "y", method="robust", gamma=gamma, gamma_prime=inner)
    audit = exact_audit(Chosen(learner, schema), schema, 2)  # type: ignore[arg-type]
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness > 0.6
    person = audit.rows[-1]
    assert person.claimed_rho <= learner.guarantee(schema, 9).rho(schema.names)


def test_rows_and_tables_give_the_same_scores() -> None:
    learner = HalfspaceLearner(CDP(1), "y", hypotheses=((1, 1, 0, 2), (0, -1, 2, 0, 1)), **MARGINS)
    method: Any = learner.learner(MIXED, 40)
    draw = np.random.default_rng(5)
    counts = CodedTable(MIXED, {a.name: draw.integers(0, a.size, 40) for a in MIXED})
    kernel = RowScores(method.candidates.halfspaces, ("a", "b"), "y", method.pick.loss, method.pick.keep)
    table = counts.marginals([("a", "b", "y")])[0]
    assert (counts.fold(kernel) == method.candidates.table_scores(table)).all()


def test_a_response_costs_what_its_divergences_say() -> None:
    """ε·tanh(ε/2) against Rényi divergences of all orders, attained as the order goes to 1, and below ε²/2."""
    for keep in (Fraction(2049, 4096), Fraction(3, 5), Fraction(3, 4), Fraction(9, 10), Fraction(4095, 4096)):
        p, q = (np.log([float(k), float(1 - k)]) for k in (keep, 1 - keep))
        cost, epsilon = float(response_cost(keep)), float(p[0] - q[0])
        orders = 1 + np.geomspace(1e-4, 1e3, 200)
        found = [float(np.logaddexp.reduce(a * p + (1 - a) * q)) / (a - 1) / a for a in orders]
        assert max(found) <= cost * (1 + 1e-9) + 1e-11 and found[0] >= cost * (1 - 1e-3)
        assert cost <= epsilon**2 / 2
