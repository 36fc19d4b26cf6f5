"""NoisyMarginals: the claim against the full output law, over every neighbour and every set of attributes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from small_cases import DERIVE, DERIVED, LEVELS, MIXED, check_two_rows

from nabladp.audit import exact_audit
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.privacy import CDP, Approx, Pure, Rho
from nabladp.schema import Attribute, Schema

MECHANISMS = [
    NoisyMarginals(CDP(1.0), k=1),
    NoisyMarginals(CDP(0.7), k=2),
    NoisyMarginals(Rho(0.5), k=3),
    NoisyMarginals(Rho(0.3), sets=(("a", "b"), ("c",))),
    NoisyMarginals(Approx(2.0, 1e-3), sets=(("a",), ("a", "c"), ("b", "c"))),
    NoisyMarginals(Rho(0.4), sets=(("a", "b"), ("a", "c"), ("b",)), weights=(1, 3.5, Fraction(1, 7))),
    NoisyMarginals(Rho(0.4), sets=(("a", "b"), ("c",)), budgets={"a": Rho(0.1), "c": Rho(1)}),
    NoisyMarginals(Pure(1.0), k=1, noise="laplace"),
    NoisyMarginals(Pure(2.0), k=2, noise="laplace"),
    NoisyMarginals(Pure(0.5), sets=(("a", "b", "c"), ("a",)), noise="laplace", weights=(1, 3)),
]


@pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: f"{m.noise}-{m.k or len(m.sets)}-{type(m.budget).__name__}"
)
@pytest.mark.parametrize("n", [1, 2])
def test_claim_holds_for_every_neighbour_and_every_set(mechanism: NoisyMarginals, n: int) -> None:
    audit = exact_audit(mechanism, MIXED, n)
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness == pytest.approx(1.0, abs=1e-8)  # not only safe: no budget is wasted


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_no_attribute_pays_more_than_its_budget_and_one_pays_all(mechanism: NoisyMarginals) -> None:
    from nabladp.privacy.values import limit_units

    guarantee = mechanism.guarantee(MIXED, 10)
    used = []
    for name in MIXED.roots:
        limit = limit_units(mechanism.budgets.get(name, mechanism.budget))
        units = guarantee.pure_units(name) if mechanism.noise == "laplace" else guarantee.rho_units(name)
        assert units is not None and units <= limit
        used.append(units / limit)
    assert max(used) == pytest.approx(1.0)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_derived_columns_are_charged_to_their_sources(noise: str) -> None:
    budget = CDP(1.0) if noise == "gaussian" else Pure(1.0)
    for sets in [(("band",),), (("both",), ("age",)), (("band", "sex"), ("both",))]:
        mechanism = NoisyMarginals(budget, sets=sets, noise=noise)
        audit = exact_audit(mechanism, DERIVED, 1, derive=DERIVE)
        assert audit.passed, audit.refuted
        assert audit.tightest.tightness == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("level", ["month", "quarter", "year", "state"])
def test_a_change_of_the_date_is_charged_to_it_for_each_level(level: str) -> None:
    """The audit computes each level from its source as tables do, and finds the claim tight."""
    for mechanism in (NoisyMarginals(CDP(1.0), sets=((level,),)), NoisyMarginals(CDP(1.0), sets=((level, "sex"),))):
        audit = exact_audit(mechanism, LEVELS, 1)
        assert audit.passed, audit.refuted
        assert audit.tightest.tightness == pytest.approx(1.0, abs=1e-8)


def test_attributes_that_are_not_read_cost_nothing() -> None:
    guarantee = NoisyMarginals(CDP(1), sets=(("a", "b"),)).guarantee(MIXED, 5)
    assert guarantee.rho("c") == 0.0 and guarantee.rho(["a", "c"]) == guarantee.rho("a")


def test_public_attributes_are_left_out_of_the_promise() -> None:
    label = Schema((Attribute("x", "boolean", public=True), Attribute("y", "boolean")))
    audit = exact_audit(NoisyMarginals(CDP(1), k=2), label, 1)
    assert audit.passed and {row.attributes for row in audit.rows} == {(), ("y",)}


def test_public_attributes_do_not_limit_the_others() -> None:
    """Label privacy: the features are public, so the label's whole budget goes to its own marginals."""
    features = tuple(Attribute(f"x{i}", "boolean", public=True) for i in range(3))
    label = Schema((*features, Attribute("y", "boolean")))
    sets = (("x0", "x1"), ("x0", "x2"), ("x0", "y"))
    mechanism = NoisyMarginals(Rho(0.5), sets=sets)
    assert mechanism.guarantee(label, 1).rho("y") == pytest.approx(0.5)
    assert exact_audit(mechanism, label, 1).passed


@pytest.mark.parametrize(
    "mechanism",
    [NoisyMarginals(Rho(0.3), k=1), NoisyMarginals(Pure(1.0), sets=(("a", "c"), ("a",)), noise="laplace")],
    ids=["gaussian", "laplace"],
)
def test_a_person_with_two_rows_pays_for_both(mechanism: NoisyMarginals) -> None:
    check_two_rows(mechanism, pure=mechanism.noise == "laplace")
