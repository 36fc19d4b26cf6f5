"""GramMatrix: the claim against the full output law, over every neighbour and every set of attributes."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_cases import DERIVE, DERIVED, check_two_rows

from nabladp.audit import exact_audit
from nabladp.mechanisms.gram_matrix import GramMatrix
from nabladp.mechanisms.gram_matrix.calibration import moved
from nabladp.privacy import CDP, Approx, Rho
from nabladp.privacy.values import limit_units
from nabladp.schema import Attribute, Schema

BITS = Schema(tuple(Attribute(name, "boolean") for name in "abcd"))
MIXED = Schema(
    (Attribute("a", "boolean"), Attribute("b", "categorical", values=("x", "y", "z")), Attribute("c", "boolean"))
)
ORDERED = Schema(
    (
        Attribute("a", "boolean"),
        Attribute("b", "ordered", values=("w", "x", "y", "z"), null="category"),
        Attribute("c", "categorical", values=("u", "v", "w")),
    )
)
LABEL = Schema(
    (
        Attribute("a", "boolean"),
        Attribute("b", "categorical", values=("x", "y", "z")),
        Attribute("y", "boolean"),
    )
)
REQUESTS: dict[str, tuple[Schema, GramMatrix]] = {
    "bits": (BITS, GramMatrix(CDP(1))),
    "mixed": (MIXED, GramMatrix(CDP(1))),
    "some": (MIXED, GramMatrix(CDP(1), over=("c", "b"))),
    "onehot": (ORDERED, GramMatrix(Rho(0.7))),
    "thermometer": (ORDERED, GramMatrix(Rho(0.7), encode={"b": "thermometer"})),
    "binary": (ORDERED, GramMatrix(Rho(0.7), encode={"b": "bits", "c": "bits"})),
    "ranges": (ORDERED, GramMatrix(Rho(0.7), encode={"b": 2})),
    "poor": (MIXED, GramMatrix(Rho(0.5), budgets={"a": Rho(0.05), "b": Rho(0.2)})),
    "rich": (MIXED, GramMatrix(Rho(0.5), budgets={"b": Rho(3)})),
    "label-alike": (LABEL, GramMatrix(Rho(0.5), label="y")),
    "label-poor": (LABEL, GramMatrix(Rho(0.5), label="y", budgets={"y": Rho(0.1)})),
    "label-rich": (LABEL, GramMatrix(Rho(0.5), label="y", budgets={"y": Rho(4)})),
    "label-richer": (LABEL, GramMatrix(Rho(0.5), label="y", budgets={"y": Rho(40), "a": Rho(0.2)})),
    "label-bits": (BITS, GramMatrix(Rho(0.5), label="d", budgets={"d": Rho(1.5)})),
}
each = pytest.mark.parametrize("name", REQUESTS)


@each
def test_claim_holds_for_every_neighbour_and_every_set(name: str) -> None:
    schema, mechanism = REQUESTS[name]
    audit = exact_audit(mechanism, schema, 1 if schema is ORDERED else 2)
    assert audit.passed, audit.refuted
    single = [row for row in audit.rows if len(row.attributes) == 1]
    assert max(row.tightness for row in single) == pytest.approx(1.0, abs=1e-8)
    if name in ("bits", "mixed", "some", "poor", "rich"):  # here the claim is exact for every set
        assert all(row.tightness == pytest.approx(1.0, abs=1e-6) for row in audit.rows)


@each
def test_every_attribute_keeps_to_its_budget_and_none_is_wasted(name: str) -> None:
    schema, mechanism = REQUESTS[name]
    claim = mechanism.guarantee(schema, 0)
    for attribute in mechanism.reads(schema):
        units, limit = claim.rho_units(attribute), limit_units(mechanism.budgets.get(attribute, mechanism.budget))
        assert units is not None and units <= limit
        if name != "label-richer":  # there the features cannot use up what the label has
            assert units / limit == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("budget", [Rho(0.02), Rho(30), Approx(2.0, 1e-3)], ids=str)
def test_any_budget(budget: Any) -> None:
    audit = exact_audit(GramMatrix(budget), MIXED, 1)
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness == pytest.approx(1.0, abs=1e-6)


def test_the_products_move_as_far_as_the_formula_says() -> None:
    """Brute force over all sign vectors and all flips, in units of the matrix; and the known figure at d = 2."""
    for width in range(2, 7):
        above = np.triu_indices(width, 1)
        for flips in range(width):
            farthest = 0.0
            for rest in itertools.product((1, -1), repeat=width - 1):
                for flipped in itertools.product((1, -1), repeat=width - 1):
                    if flipped.count(-1) <= flips:
                        one, other = np.array([1, *rest]), np.array([1, *rest]) * np.array([1, *flipped])
                        change = (np.outer(one, one) - np.outer(other, other))[above]
                        farthest = max(farthest, float(np.linalg.norm(change)))
            assert farthest == pytest.approx(2 * math.sqrt(moved(flips, width)))
    assert 2 * math.sqrt(moved(1, 4)) == pytest.approx(3.464, abs=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"over": ("band", "sex")},
        {"over": ("band", "both", "sex")},
        {"over": ("age", "band", "both")},
        {"over": ("age", "sex", "band"), "encode": {"age": "thermometer"}},
        {"over": ("age", "sex"), "label": "band", "budgets": {"age": Rho(2)}},
        {"over": ("both",), "label": "sex", "budgets": {"sex": Rho(9)}},
    ],
    ids=str,
)
def test_derived_columns_are_charged_to_their_sources(options: dict[str, Any]) -> None:
    mechanism = GramMatrix(CDP(1.0), **options)
    audit = exact_audit(mechanism, DERIVED, 1, derive=DERIVE)
    assert audit.passed, audit.refuted
    for name in DERIVED.roots:
        units = mechanism.guarantee(DERIVED, 1).rho_units(name)
        assert units is not None and units <= limit_units(mechanism.budgets.get(name, CDP(1.0)))


NUMBERS = Schema(
    (
        Attribute("a", "boolean"),
        Attribute("u", "integer", low=0, high=2),
        Attribute("v", "integer", low=-1, high=1, null="category"),
    )
)
NUMBER_REQUESTS: dict[str, tuple[Schema, GramMatrix]] = {
    "one": (NUMBERS, GramMatrix(CDP(1), over=("a", "u"), encode={"u": "number"})),
    "both": (NUMBERS, GramMatrix(CDP(1), encode={"u": "number", "v": "number"})),
    "only": (NUMBERS, GramMatrix(CDP(1), over=("u", "v"), encode={"u": "number", "v": "number"})),
    "beside ranges": (NUMBERS, GramMatrix(Rho(0.3), encode={"v": "number"})),
    "uneven": (NUMBERS, GramMatrix(Rho(0.5), encode={"u": "number", "v": "number"}, budgets={"u": Rho(0.1)})),
    "label": (
        NUMBERS,
        GramMatrix(Rho(0.5), encode={"u": "number", "v": "number"}, label="v", budgets={"v": Rho(4)}),
    ),
}


@pytest.mark.parametrize("name", NUMBER_REQUESTS)
def test_numbers_for_every_neighbour_and_every_set(name: str) -> None:
    schema, mechanism = NUMBER_REQUESTS[name]
    audit = exact_audit(mechanism, schema, 1)
    assert audit.passed, audit.refuted
    single = [row for row in audit.rows if len(row.attributes) == 1]
    width = mechanism.calibration(schema).columns.width
    assert max(row.tightness for row in single) >= (width - 1) / width  # the square is paid for beside the products
    claim = mechanism.guarantee(schema, 0)
    for attribute in mechanism.reads(schema):
        units = claim.rho_units(attribute)
        assert units is not None and units <= limit_units(mechanism.budgets.get(attribute, mechanism.budget))


def test_two_rows_of_numbers() -> None:
    schema, mechanism = NUMBER_REQUESTS["one"]
    audit = exact_audit(mechanism, schema, 2)
    assert audit.passed, audit.refuted


def test_products_of_numbers_move_no_farther_than_those_of_their_ends() -> None:
    """The proof's step: over a grid of real rows, the weighted sum of squared changes is largest at the ends."""
    steps = np.linspace(-1, 1, 5)
    above = np.triu_indices(4, 1)
    rows = np.array([(1.0, *z) for z in itertools.product(steps, repeat=3)])
    for changing in range(1, 4):  # the last so many columns may change
        farthest = 0.0
        for row in rows:
            others = rows[(rows[:, : 4 - changing] == row[: 4 - changing]).all(axis=1)]
            change = (others[:, :, None] * others[:, None, :] - np.outer(row, row))[:, above[0], above[1]] / 2
            farthest = max(farthest, float((change**2).sum(axis=1).max()))
        assert farthest == pytest.approx(moved(changing, 4))


def with_public(*names: str) -> Schema:
    return Schema(
        (
            *(Attribute(x, "boolean", public=x in names) for x in "abc"),
            Attribute("d", "ordered", values=(1, 2, 3), public="d" in names),
        )
    )


@pytest.mark.parametrize("public", ["u", "v", "au", "uv"])
def test_public_numbers_cost_nothing_and_are_exact(public: str) -> None:
    names = tuple(public)
    schema = Schema(tuple(replace(attribute, public=attribute.name in names) for attribute in NUMBERS))
    mechanism = GramMatrix(Rho(0.4), encode={"u": "number", "v": "number"})
    audit = exact_audit(mechanism, schema, 1)
    assert audit.passed, audit.refuted
    found = mechanism.calibration(schema)
    assert [scale > 0 for scale in found.square_scales] == [name not in names for name in ("u", "v")]


@pytest.mark.parametrize("public", ["a", "ab", "bcd", "d", "abc"])
@pytest.mark.parametrize("label", [None, "a", "b"])
def test_public_attributes_limit_nothing(public: str, label: str | None) -> None:
    schema = with_public(*public)
    mechanism = GramMatrix(Rho(0.4), label=label, budgets={"c": Rho(1.0)})
    audit = exact_audit(mechanism, schema, 1)
    assert audit.passed, audit.refuted
    for name in schema.names:
        if name not in public:
            assert mechanism.guarantee(schema, 0).rho(name) == pytest.approx(1.0 if name == "c" else 0.4)


def test_public_features_and_a_private_label_is_label_privacy() -> None:
    schema = with_public("b", "c", "d")
    found = GramMatrix(Rho(0.4), label="a").calibration(schema)
    columns = found.columns
    assert (found.scales > 0).sum() == columns.width - 1  # the label's row, and nothing else


def test_a_derived_column_of_a_public_and_a_protected_source_is_protected() -> None:
    schema = Schema(
        (
            Attribute("open", "boolean", public=True),
            Attribute("closed", "boolean"),
            Attribute("either", "boolean", derived_from=("open", "closed")),
        )
    )
    mechanism = GramMatrix(Rho(0.4), over=("open", "either"))
    derive = {"either": lambda record: record["open"] | record["closed"]}
    audit = exact_audit(mechanism, schema, 2, derive=derive)
    assert audit.passed and audit.rows[-1].tightness == pytest.approx(1.0, abs=1e-6)


def test_what_has_one_value_costs_nothing() -> None:
    still = Schema((Attribute("one", "integer", low=0, high=0), Attribute("a", "boolean"), Attribute("b", "boolean")))
    mechanism = GramMatrix(Rho(0.5))
    assert mechanism.reads(still) == ("a", "b") and mechanism.guarantee(still, 2).rho("one") == 0
    assert exact_audit(mechanism, still, 2).passed


def test_a_person_with_two_rows_pays_for_both() -> None:
    check_two_rows(GramMatrix(Rho(0.3)))


def test_hard_pairs_attain_the_worst_case_of_one_attribute() -> None:
    columns = REQUESTS["mixed"][1].calibration(MIXED).columns
    for name in MIXED.names:
        for one, other in REQUESTS["mixed"][1].hard_pairs([name]):
            rows = columns.matrix({x: [one.get(x, 0), other.get(x, 0)] for x in MIXED.names})
            flipped = int((rows[0] != rows[1]).sum())
            assert flipped == next(block.flips for block in columns.blocks if block.attribute == name)
