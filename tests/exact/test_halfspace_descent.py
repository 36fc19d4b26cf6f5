"""method="descent": how far rows, steps and claims go, for every pair of records and every set of attributes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from one_step import OneStep, scaled

from nabladp.audit import exact_audit
from nabladp.errors import AuditError
from nabladp.mechanisms.gram_matrix import GramMatrix
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner, descent, gram
from nabladp.mechanisms.learners.halfspaces.descent import Descent, HingeSums, Vectors
from nabladp.mechanisms.learners.halfspaces.gram import Whitening, longest_step
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Rho
from nabladp.privacy.units import UNIT
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

MIXED = Schema(
    (
        Attribute("c", "categorical", values=tuple("uvw")),
        Attribute("t", "integer", low=0, high=3),
        Attribute("a", "boolean"),
        Attribute("b", "boolean"),
        Attribute("y", "boolean"),
    )
)
ENCODE = {"t": "thermometer"}
RECORDS = list(itertools.product(*(range(a.size) for a in MIXED)))


def bits(names: str, public: str = "") -> Schema:
    return Schema(tuple(Attribute(name, "boolean", public=name in public) for name in names))


def table(records: Any, schema: Schema = MIXED) -> CodedTable:
    return CodedTable(schema, dict(zip(schema.names, np.array(records).T, strict=True)))


def skewed(rows: int, seed: int) -> CodedTable:
    draw = np.random.default_rng(seed)
    rare = {a.name: np.minimum(draw.geometric(0.8, rows) - 1, a.size - 1) for a in MIXED}
    return CodedTable(MIXED, rare | {"b": rare["a"] ^ (draw.random(rows) < 0.01)})


def maps(count: int = 6) -> list[Whitening]:
    """Of skewed tables, some with so much noise that nothing is left of them."""
    found = []
    for seed, epsilon in itertools.product(range(count), (0.05, 1.0, 30.0)):
        gram = GramMatrix(CDP(epsilon), over=tuple("ctab"), encode=ENCODE)
        found.append(Whitening.of(gram.run(skewed(300, seed), NoiseSource.seeded(seed))))
    return found


@pytest.mark.parametrize(("radius", "levels"), [(4, 1), (64, 3), (1 << 13, 1 << 8)])
def test_no_record_moves_a_step_farther_than_claimed(radius: int, levels: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(gram, "RADIUS", radius)
    monkeypatch.setattr(descent, "LEVELS", levels)
    learner = HalfspaceLearner(CDP(1), "y", method="descent", encode=ENCODE)
    columns, draw = learner.task(MIXED, 300).columns, np.random.default_rng(1)
    reached = {"any": 0.0, "one": 0.0}
    for made in maps():
        vectors = Vectors(columns, "y", made)
        lengths = (vectors.of(table(RECORDS)._rows).astype(np.int64) ** 2).sum(axis=0)
        assert lengths.max() <= made.radius**2
        for size in (0, 0.5, 3, 100):
            weights = np.rint(size * draw.standard_normal(columns.width) * descent.WEIGHT_GRID).astype(np.int64)
            sums = [table([record]).fold(HingeSums(vectors, weights)) for record in RECORDS]
            apart = np.array([((np.array(sums) - own) ** 2).sum(axis=1) for own in sums])
            differ = np.array([[sum(i != j for i, j in zip(p, q, strict=True)) for q in RECORDS] for p in RECORDS])
            label = np.array([[p[-1] != q[-1] for q in RECORDS] for p in RECORDS])
            one = apart[(differ == 1) & ~label].max()
            assert one <= (levels * made.radius) ** 2 and apart.max() <= (2 * levels * made.radius) ** 2
            reached["one"] = max(reached["one"], one / (levels * made.radius) ** 2)
            reached["any"] = max(reached["any"], apart.max() / (2 * levels * made.radius) ** 2)
    assert min(reached.values()) > (0.9 if radius > 64 else 0.3)  # of squares: nearly nothing is given away


def test_one_attribute_moves_a_row_less_than_its_length() -> None:
    columns = HalfspaceLearner(CDP(1), "y", method="descent", encode=ENCODE).task(MIXED, 9).columns
    for made in maps():
        ends = {record[:4]: made.matrix @ _signs(columns, record) for record in RECORDS}
        alike = [(p, q) for p, q in itertools.combinations(ends, 2) if sum(i != j for i, j in zip(p, q)) == 1]  # noqa: B905
        farthest = max(int(((ends[p] - ends[q]) ** 2).sum()) for p, q in alike)
        assert farthest == longest_step(made.matrix, columns)
        assert math.isqrt(farthest) + 1 + math.sqrt(columns.width) <= made.radius


def test_many_values_are_bounded_by_way_of_the_first(monkeypatch: Any) -> None:
    columns = HalfspaceLearner(CDP(1), "y", method="descent", encode=ENCODE).task(MIXED, 9).columns
    for made in maps(2):
        exact = longest_step(made.matrix, columns)
        monkeypatch.setattr(gram, "_MOST_COMPARED", 1)
        assert exact <= longest_step(made.matrix, columns) <= 4 * exact
        monkeypatch.undo()


def _signs(columns: Any, record: tuple[int, ...]) -> Any:
    codes = {name: np.array([code]) for name, code in zip("ctab", record, strict=False)}
    return columns.matrix(codes)[0].astype(np.int64)


# ---- a step's law --------------------------------------------------------------------------------------------------

STEPS: dict[str, tuple[Schema, dict[str, Any], tuple[int, ...], tuple[float, ...]]] = {
    "at the start": (bits("aby"), {}, (4, 8, 8), (0, 0, 0)),
    "rows cut": (bits("aby"), {}, (30, 8, 6), (0.3, -0.5, 0.2)),
    "rows far apart": (bits("aby"), {}, (1, 9, 9), (0.1, 3.0, -2.0)),
    "public label": (bits("aby", "y"), {}, (3, 9, 9), (0.1, 3.0, -2.0)),
    "public features": (bits("aby", "ab"), {}, (3, 9, 9), (0.1, 1.0, -2.0)),
    "one public feature": (bits("aby", "a"), {}, (3, 9, 9), (0, 0, 0)),
    "unequal": (bits("aby"), {"label_epsilon": 3.0, "budgets": {"a": CDP(1)}}, (3, 9, 2), (0.5, 0, 1.0)),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_law_of_a_step_keeps_to_its_claim(name: str, monkeypatch: Any) -> None:
    for module in (descent,):
        monkeypatch.setattr(module, "LEVELS", 2)
    schema, options, sizes, weights = STEPS[name]
    learner = HalfspaceLearner(CDP(4), "y", method="descent", steps=1, **options)
    step = OneStep(learner, schema, scaled(learner, schema, sizes), weights)
    for n in (1, 2):
        audit = exact_audit(step, schema, n)  # type: ignore[arg-type]
        assert audit.passed, audit.refuted
    assert audit.tightest.tightness > 0.25


def test_derived_columns_are_charged_to_their_sources(monkeypatch: Any) -> None:
    for module in (descent,):
        monkeypatch.setattr(module, "LEVELS", 1)
    schema = Schema(
        (
            Attribute("age", "integer", low=0, high=2),
            Attribute("old", "boolean", derived_from=("age",)),
            Attribute("sex", "boolean"),
            Attribute("y", "boolean", derived_from=("sex", "age")),
        )
    )
    learner = HalfspaceLearner(CDP(4), "y", over=("age", "old", "sex"), method="descent", steps=1)
    step = OneStep(learner, schema, scaled(learner, schema, (4, 8, 8, 8, 8, 8)), (0, 1, -1, 0, 0.5, 0))
    derive = {"old": lambda r: int(r["age"] == 2), "y": lambda r: int(r["age"] + r["sex"] >= 2)}
    audit = exact_audit(step, schema, 1, derive=derive)  # type: ignore[arg-type]
    assert audit.passed, audit.refuted
    assert step.method.held == {"age": 4, "sex": 3}
    claim = learner.guarantee(schema, 50)
    assert all((claim.rho_units(name) or 0) <= 8 * UNIT for name in ("age", "sex"))


# ---- the whole claim -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "public"),
    [
        ({}, ""),
        ({"steps": 3}, ""),
        ({"label_epsilon": 0.3}, ""),
        ({"label_epsilon": 5.0}, ""),
        ({"budgets": {"a": Rho(0.01)}}, ""),
        ({}, "y"),
        ({}, "ctab"),
        ({"holdout": 0.2}, ""),
    ],
    ids=str,
)
def test_the_claim_is_that_of_matrix_and_steps_and_within_the_budgets(options: Any, public: str) -> None:
    schema = Schema(tuple(Attribute(a.name, a.kind, values=a.values, low=a.low, high=a.high, public=a.name in public)
                          for a in MIXED))  # fmt: skip
    learner = HalfspaceLearner(CDP(1), "y", method="descent", encode=ENCODE, **options)
    method, claim = learner.learner(schema, 100), learner.guarantee(schema, 100)
    assert isinstance(method, Descent)
    held = learner._holdout(schema)
    protected = [name for name in schema.names if name not in public]
    for size in range(1, len(protected) + 1):
        for chosen in itertools.combinations(protected, size):
            count = sum(2 if name == "y" else 1 for name in chosen)
            steps = Fraction(method.steps * method.quarter * (1 if count == 1 else 4), UNIT)
            expected = method.calibration.guarantee().rho(chosen) + float(steps)
            expected += held.guarantee().rho(chosen) if held else 0.0
            assert claim.rho(chosen) == pytest.approx(expected, rel=1e-12)
    for name, units in learner._units(schema).items():
        assert 0.5 * units < (claim.rho_units(name) or 0) <= units or name == "y" or options.get("budgets")
    assert claim == learner.guarantee(schema, 0)


def test_what_is_not_worked_out_says_so() -> None:
    with pytest.raises(AuditError):
        HalfspaceLearner(CDP(1), "y", method="descent").distribution(table(RECORDS))
