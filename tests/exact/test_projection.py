"""Projection: the claim against the full output law, over every neighbour and every set of attributes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from small_cases import DERIVE, DERIVED, MIXED, check_two_rows

from nabladp.audit import exact_audit
from nabladp.audit.exact import Divergences
from nabladp.mechanisms.projection import Projection
from nabladp.privacy import CDP, Approx, Rho
from nabladp.privacy.values import limit_units
from nabladp.schema import Attribute, Schema
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals, Parities

BITS = Schema(tuple(Attribute(name, "boolean") for name in "abc"))


def linear(*queries: tuple[str, tuple[float, ...]]) -> LinearQueries:
    return LinearQueries(tuple(LinearQuery(tuple(names), values) for names, values in queries))


AVERAGE = linear(("ab", (0, 0.25, 0.5, 0.5, 0.75, 1)), ("c", (0.1, 0.9)))
SEVERAL = linear(("ab", (0, 1, 0.5, 0.3, 0, 1)), ("ab", (1, 0.25, 0, 0, 1, 1)), ("bc", (0, 1, 1, 0, 1, 0)))
WORKLOADS: dict[str, Any] = {
    "marginals-1": Marginals(1),
    "marginals-2": Marginals(2),
    "marginals-sets": Marginals(sets=(("a", "b"), ("c",), ("a", "b", "c"))),
    "marginals-weights": Marginals(sets=(("a", "b"), ("a", "c"), ("b",)), weights=(1, 3.5, Fraction(1, 7))),
    "unsigned-1": Conjunctions(1),
    "unsigned-2": Conjunctions(2),
    "unsigned-3": Conjunctions(3),
    "signed-2": Conjunctions(2, signed=True),
    "parities-1": Parities(1),
    "parities-2": Parities(2),
    "parities-3": Parities(3),
    "average": AVERAGE,
    "several": SEVERAL,
    "union": Marginals(1) + Parities(2),
    "weighted-union": 3 * Conjunctions(2) + 0.5 * AVERAGE + Parities(3),
}
TIGHT = {"marginals-1", "marginals-2", "unsigned-1", "unsigned-2", "unsigned-3", "signed-2"}
TIGHT |= {"parities-1", "parities-2", "parities-3"}


MIXED_ONLY = {"average", "several", "weighted-union"}  # their values are for the mixed schema
CASES = [(name, MIXED) for name in WORKLOADS] + [(name, BITS) for name in WORKLOADS if name not in MIXED_ONLY]


@pytest.mark.parametrize(("name", "schema"), CASES, ids=[f"{n}-{'bits' if s is BITS else 'mixed'}" for n, s in CASES])
def test_claim_holds_for_every_neighbour_and_every_set(name: str, schema: Schema) -> None:
    audit = exact_audit(Projection(CDP(1.0), WORKLOADS[name]), schema, 2)
    assert audit.passed, audit.refuted
    single = [row for row in audit.rows if len(row.attributes) == 1]
    assert max(row.tightness for row in single) == pytest.approx(1.0, abs=1e-6)  # no budget is wasted
    if schema is BITS and name in TIGHT:  # here the claim is exact for every set
        assert all(row.tightness == pytest.approx(1.0, abs=1e-8) for row in audit.rows)


@pytest.mark.parametrize("budget", [Rho(0.02), Rho(30), Approx(2.0, 1e-3)], ids=str)
@pytest.mark.parametrize("name", ["unsigned-2", "weighted-union"])
def test_any_budget(budget: Any, name: str) -> None:
    audit = exact_audit(Projection(budget, WORKLOADS[name]), MIXED, 1)
    assert audit.passed, audit.refuted
    single = [row.tightness for row in audit.rows if len(row.attributes) == 1]
    assert max(single) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", ["marginals-2", "unsigned-2", "parities-2", "average", "weighted-union"])
def test_unequal_budgets(name: str) -> None:
    budgets = {"a": Rho(0.1), "c": Rho(1)}
    mechanism = Projection(Rho(0.4), WORKLOADS[name], budgets=budgets)
    audit = exact_audit(mechanism, MIXED, 2)
    assert audit.passed, audit.refuted
    used = []
    for attribute in MIXED.roots:
        units, limit = mechanism.guarantee(MIXED, 2).rho_units(attribute), limit_units(budgets.get(attribute, Rho(0.4)))
        assert units is not None and units <= limit
        used.append(units / limit)
    assert max(used) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    "workload",
    [
        Marginals(sets=(("band",), ("sex",))),
        Marginals(sets=(("both", "sex"), ("age", "band"))),
        Conjunctions(2, over=("band", "both", "sex")),
        Parities(2, over=("band", "sex", "age")),
        LinearQueries((LinearQuery(("band", "both"), (0, 0.2, 0.4, 0.6, 0.1, 0.5, 0.7, 1)),)),
        LinearQueries((LinearQuery(("age", "band", "sex"), tuple(np.linspace(0, 1, 16))),)),
    ],
    ids=["columns", "pairs", "conjunctions", "parities", "linear", "sum"],
)
def test_derived_columns_are_charged_to_their_sources(workload: Any) -> None:
    mechanism = Projection(CDP(1.0), workload)
    audit = exact_audit(mechanism, DERIVED, 1, derive=DERIVE)
    assert audit.passed, audit.refuted
    for name in DERIVED.roots:
        units = mechanism.guarantee(DERIVED, 1).rho_units(name)
        assert units is not None and units <= limit_units(CDP(1.0))


def test_public_attributes_do_not_limit_the_others() -> None:
    label = Schema((*(Attribute(f"x{i}", "boolean", public=True) for i in range(3)), Attribute("y", "boolean")))
    mechanism = Projection(Rho(0.5), Marginals(sets=(("x0", "x1"), ("x0", "x2"), ("x0", "y"))))
    assert mechanism.guarantee(label, 1).rho("y") == pytest.approx(0.5)
    assert exact_audit(mechanism, label, 1).passed
    mostly = LinearQueries((LinearQuery(("x0", "x1", "y"), (0, 0.1, 0.4, 0.5, 0.5, 0.6, 0.9, 1)),))
    assert Projection(Rho(0.5), mostly).guarantee(label, 1).rho("y") == pytest.approx(0.5)
    assert exact_audit(Projection(Rho(0.5), mostly), label, 1).passed
    alike = Projection(Rho(0.5), Conjunctions(2), budgets={"x0": Rho(0.001)})
    assert alike.guarantee(label, 1).rho("y") == pytest.approx(0.5)
    audit = exact_audit(alike, label, 1)
    assert audit.passed and audit.tightest.tightness == pytest.approx(1.0, abs=1e-8)


def test_what_cannot_move_costs_nothing() -> None:
    still = Schema((Attribute("one", "integer", low=0, high=0), Attribute("a", "boolean")))
    mechanism = Projection(Rho(0.5), Marginals(sets=(("one",), ("a",))) + linear(("a", (0.5, 0.5))))
    audit = exact_audit(mechanism, still, 2)
    assert audit.passed and mechanism.guarantee(still, 2).rho("one") == 0
    assert audit.tightest.tightness == pytest.approx(1.0, abs=1e-6)


def test_a_person_with_two_rows_pays_for_both() -> None:
    check_two_rows(Projection(Rho(0.3), Conjunctions(2) + Marginals(1)))


def squared_distance(mechanism: Projection, schema: Schema, one: Mapping[str, int], other: Mapping[str, int]) -> float:
    queries = mechanism.workload.bind(schema)
    pair = [queries.on_rows({n: [record.get(n, 0)] for n in queries.names}) for record in (one, other)]
    return float(((pair[0] - pair[1]) ** 2).sum())


@pytest.mark.parametrize(
    "workload", [Marginals(2), Conjunctions(2, over=("a", "b", "c")), Conjunctions(2, signed=True)], ids=str
)
def test_hard_pairs_attain_the_worst_case(workload: Any) -> None:
    """On bits the listed pairs move the answers as far as the claim allows."""
    mechanism = Projection(CDP(1.0), workload)
    queries = workload.bind(BITS)
    for size in (1, 2, 3):
        for chosen in itertools.combinations("abc", size):
            found = [squared_distance(mechanism, BITS, *pair) for pair in mechanism.hard_pairs(chosen)]
            assert max(found) == pytest.approx(queries.squared_shift(chosen))


@pytest.mark.parametrize("scale", [0.4, 1.0, 20.0, 3000.0])
def test_the_law_is_not_cut_where_an_order_could_notice(scale: float) -> None:
    """Up to order 24, D_a of a shift by δ is a·δ²/(2s²) where noise is wide, and no less than that of more outcomes."""
    from nabladp.audit.exact import divergence_curve
    from nabladp.mechanisms.projection.mechanism import _log_law
    from nabladp.noise import gaussian_log_pmf

    most = max(1, int(scale))
    orders = np.array([1.0, 2.0, 12.0, 24.0])
    found = divergence_curve(*(_log_law(scale, 1, most, count) for count in (0, most)), orders)
    reach = 60 * most + int(40 * scale)
    whole = divergence_curve(*(gaussian_log_pmf(scale, -reach - c, reach - c) for c in (0, most)), orders)
    np.testing.assert_allclose(found[:-1], whole[:-1], rtol=1e-6)


def test_wide_noise_has_the_same_divergence_on_every_listing() -> None:
    """Outcomes of wide noise are thinned out; the divergence is that of the whole law."""
    from nabladp.mechanisms.projection.mechanism import _log_law
    from nabladp.noise import gaussian_log_pmf

    scale, known = 300.0, Divergences()
    window = int(24 * 20 + 14 * scale) + 1
    whole = [gaussian_log_pmf(scale, -window - count, 40 + window - count) for count in (7, 27)]
    thin = [_log_law(scale, 2, 20, count) for count in (7, 27)]
    assert len(thin[0]) < len(whole[0]) / 15

    def rho(pair: list[Any]) -> float:
        from nabladp.mechanisms import Law

        one, other = (known.learn(Law((part,), 24.0)) for part in pair)
        return known.between(one, other, 24.0)[0]

    assert rho(thin) == pytest.approx(rho(whole), rel=1e-10) == pytest.approx(20**2 / (2 * scale**2), rel=1e-9)
