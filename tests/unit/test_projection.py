"""Projection: its options, its noise, what it expects, and what it returns."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp.errors import BudgetError, DomainTooLarge, MechanismError, NablaDPError, PlanError, UnknownAttribute
from nabladp.mechanisms.projection import ProjectedAnswers, Projection
from nabladp.noise import NoiseSource, half_width
from nabladp.privacy import CDP, Approx, Pure, Rho
from nabladp.privacy.units import UNIT
from nabladp.privacy.values import limit_units
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, Counts
from nabladp.workloads import GRID, Conjunctions, LinearQueries, LinearQuery, Marginals, Parities

MIXED = Schema(
    (
        Attribute("a", "boolean"),
        Attribute("b", "ordered", values=("x", "y", "z")),
        Attribute("c", "boolean"),
        Attribute("age", "integer", low=0, high=5),
        Attribute("band", "boolean", derived_from=("age",)),
    )
)
HALF = LinearQueries((LinearQuery(("b",), (0, 0.5, 1), "average of b"),))


def bits(d: int) -> Schema:
    return Schema(tuple(Attribute(f"x{i}", "boolean") for i in range(d)))


def table(schema: Schema, rows: int = 400) -> CodedTable:
    draws = NoiseSource.seeded(4)
    codes = {a.name: draws.uniform_integers(a.size, rows) for a in schema}
    return CodedTable(schema, codes | ({"band": codes["age"] // 3} if "band" in codes else {}))


def output(workload: Any, schema: Schema = MIXED, budget: Any = None, **options: Any) -> ProjectedAnswers:
    return Projection(budget or CDP(0.5), workload, **options).run(table(schema), NoiseSource.seeded(7))


# ---- noise ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "k"), [(4, 1), (6, 2), (14, 3), (8, 8)])
def test_the_paper_s_scale_and_costs(d: int, k: int) -> None:
    """σ·n = Δ0/ε0 with Δ0² = C(d−1, k−1), and ε/ε0 = √(d/k)."""
    mechanism = Projection(CDP(0.5), Conjunctions(k))
    guarantee = mechanism.guarantee(bits(d), 1000)
    error = mechanism.expected_error(bits(d), 1000)
    assert error.attribute.scale == pytest.approx(math.sqrt(math.comb(d - 1, k - 1)) / 0.5)
    assert guarantee.per_attribute()["x0"].eps0 == pytest.approx(0.5) and guarantee.per_attribute()["x0"].eps0 <= 0.5
    assert guarantee.per_person().eps0 / guarantee.per_attribute()["x1"].eps0 == pytest.approx(math.sqrt(d / k))
    assert error.ratio == pytest.approx(math.sqrt(d / k), rel=1e-12)
    for size in range(d + 1):
        chosen = [f"x{i}" for i in range(size)]
        share = (math.comb(d, k) - math.comb(d - size, k)) / math.comb(d - 1, k - 1)
        assert guarantee.rho(chosen) == pytest.approx(share * 0.125)


def test_the_scale_is_the_least_double_that_keeps_the_budget() -> None:
    for rho in (0.1, 0.37, 2.0):
        calibration, _ = Projection(Rho(rho), Conjunctions(2))._prepare(bits(5))
        scale, units = calibration.scales[0], limit_units(Rho(rho))
        assert Fraction(4) / (2 * Fraction(scale) ** 2) <= Fraction(units, UNIT)
        assert Fraction(4) / (2 * Fraction(math.nextafter(scale, 0)) ** 2) > Fraction(units, UNIT)


def test_noise_falls_as_weight_rises() -> None:
    workload = 3 * Marginals(sets=(("a", "b"),)) + Marginals(sets=(("b", "c"), ("a",)))
    calibration, _ = Projection(CDP(0.5), workload)._prepare(MIXED)
    pair, other, _ = calibration.scales
    assert other / pair == pytest.approx(3)


def test_values_on_a_grid_get_noise_on_that_grid() -> None:
    calibration, _ = Projection(CDP(0.5), HALF)._prepare(MIXED)
    assert calibration.queries.groups[0].grid == GRID
    assert calibration.scales[0] == pytest.approx(GRID / 0.5)
    assert calibration.count_scales[0] == pytest.approx(2.0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([("a", "b"), ("b", "age"), ("age", "band"), ("band",), ("a", "age", "band")]),
            st.integers(0, 10**6),
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([1e-8, 1e-4, 0.3, 50.0, 1e6]),
    st.booleans(),
)
def test_no_source_ever_pays_more_than_its_budget(asked: list[Any], rho: float, unequal: bool) -> None:
    queries = []
    for number, (names, seed) in enumerate(asked):
        values = np.random.default_rng(seed).random(MIXED.cells(names)).round(seed % 4)
        queries.append(LinearQuery(names, tuple(values), f"q{number}", weight=1 + seed % 3))
    budgets = {"age": Rho(rho / 7)} if unequal else {}
    try:
        guarantee = Projection(Rho(rho), LinearQueries(tuple(queries)), budgets=budgets).guarantee(MIXED, 100)
    except BudgetError:
        assert rho < 1e-7
        return
    for name in MIXED.roots:
        assert (guarantee.rho_units(name) or 0) <= limit_units(budgets.get(name, Rho(rho)))


@pytest.mark.parametrize("names", [("a", "b"), ("age", "band"), ("a", "b", "c", "age", "band")])
def test_distances_that_add_up_keep_the_budget_to_the_unit(names: tuple[str, ...]) -> None:
    """Averages: costs are rounded in ε, column by column, and still no source pays a unit too much."""
    sizes = MIXED.sizes(names)
    values = np.indices(sizes).reshape(len(sizes), -1) / (np.array(sizes)[:, None] - 1)
    average = LinearQueries((LinearQuery(names, tuple(values.mean(axis=0))),))
    assert average.bind(MIXED).groups[0].shift.shape == "linear"
    rng = np.random.default_rng(3)
    for rho in 10 ** rng.uniform(-9, 6, 150):
        used = [Projection(Rho(rho), average).guarantee(MIXED, 9).rho_units(name) or 0 for name in MIXED.roots]
        assert max(used) <= limit_units(Rho(rho)) and max(used) >= limit_units(Rho(rho)) * (1 - 1e-3)


def test_what_cannot_move_has_the_least_noise_of_all() -> None:
    flat = LinearQueries((LinearQuery(("c",), (0.5, 0.5)), LinearQuery(("b",), (1, 1, 1))))
    calibration, _ = Projection(CDP(0.5), flat + 2 * Marginals(1))._prepare(MIXED)
    noise = calibration.count_scales
    assert noise[0] == noise[1] == noise[2:].min()
    alone, _ = Projection(CDP(0.5), flat)._prepare(MIXED)
    assert alone.count_scales.tolist() == [1, 1] and alone.guarantee().rho(MIXED.roots) == 0


def test_one_budget_for_all_costs_less_than_the_sum_of_its_parts() -> None:
    """Parities that a pair of flips leaves alone cost nothing, which only the whole workload shows."""
    alike = Projection(CDP(1), Parities(2)).guarantee(bits(4), 10)
    apart = Projection(CDP(1), Parities(2), budgets={"x3": CDP(1.000001)}).guarantee(bits(4), 10)
    assert alike.rho("x0") == pytest.approx(apart.rho("x0"), rel=1e-5)
    assert alike.per_person().rho < 0.7 * apart.per_person().rho


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [Pure(1), 0.5, {"cdp": -1}, {"pure": 1}])
def test_budgets_that_buy_no_gaussian_noise_are_refused(budget: Any) -> None:
    with pytest.raises(BudgetError):
        Projection(budget, Marginals(1))
    with pytest.raises(BudgetError):
        Projection(CDP(1), Marginals(1), budgets={"a": budget})


def test_what_makes_no_sense_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(MechanismError, match="hull"):
        Projection(CDP(1), Marginals(1), hull="convex")
    with pytest.raises(BudgetError, match="table of budgets"):
        Projection(CDP(1), Marginals(1), budgets=CDP(1))  # type: ignore[arg-type]
    with pytest.raises(MechanismError):
        Projection(CDP(1), "conjunctions")  # type: ignore[arg-type]
    with pytest.raises(MechanismError, match=r"outside \[0, 1\]"):
        LinearQuery(("a",), (0, 1.5))
    for workload, problem in [
        (Marginals(sets=(("nobody",),)), UnknownAttribute),
        (Conjunctions(9), MechanismError),
        (Marginals(sets=()), MechanismError),
        (LinearQueries((LinearQuery(("a",), (0, 1, 1)),)), MechanismError),
    ]:
        with pytest.raises(problem):
            Projection(CDP(1), workload).reads(MIXED)
    with pytest.raises(UnknownAttribute):
        Projection(CDP(1), Marginals(1), budgets={"nobody": CDP(1)}).guarantee(MIXED, 10)


def test_a_hull_too_large_is_refused_and_blocks_are_taken_instead() -> None:
    with pytest.raises(DomainTooLarge, match="records") as caught:
        Projection(CDP(1), Conjunctions(2), hull="exact").reads(bits(40))
    assert "blocks" in caught.value.fix
    error = Projection(CDP(1), Conjunctions(2)).expected_error(bits(40), 100)
    assert not error.exact and error.attribute.hull is None and error.pieces > 1


def test_a_budget_too_small_is_refused() -> None:
    for workload in (Conjunctions(2), HALF, Marginals(sets=(("a", "b"),))):
        with pytest.raises(BudgetError, match="too small"):
            Projection(Rho(1e-15), workload).guarantee(MIXED, 10)


@pytest.mark.parametrize(
    "options", [{"workload": "x"}, {"budget": {"cdp": 1}}, {"budget": {"cdp": 1}, "workload": {}, "hul": "exact"}]
)
def test_plans_that_lack_or_misspell_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(PlanError) as caught:
        Projection.from_plan(options)
    assert caught.value.fix


def test_plan_form_keeps_everything() -> None:
    mechanism = Projection(
        Approx(1, 1e-6), 2 * Conjunctions(2, signed=True) + HALF, budgets={"a": Rho(0.1)}, hull="blocks"
    )
    again = Projection.from_plan(json.loads(json.dumps(mechanism.to_json())))
    assert again.to_json() == mechanism.to_json() and again.hull == "blocks" and again.budgets == {"a": Rho(0.1)}


# ---- expectations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 10**6])
def test_both_terms_of_the_theorem_side_by_side(n: int) -> None:
    d, k, eps = 10, 2, 0.3
    error = Projection(CDP(eps), Conjunctions(k)).expected_error(bits(d), n)
    m = math.comb(d, k)
    assert error.attribute.noise == pytest.approx(m * k / (eps**2 * n**2 * d))
    assert error.attribute.hull == pytest.approx(math.sqrt(k * 2 * math.log(2)) / (eps * n))
    assert error.person.noise == pytest.approx(m / (eps**2 * n**2))
    assert error.person.hull == pytest.approx(math.sqrt(d * 2 * math.log(2)) / (eps * n))
    assert error.attribute.least == min(error.attribute.noise, error.attribute.hull)
    assert (error.attribute.least == error.attribute.hull) == (n == 10)
    assert error.cells == m


def test_marginals_of_any_domain_and_unequal_noise() -> None:
    error = Projection(CDP(0.5), Marginals(2)).expected_error(MIXED, 500)
    queries = Marginals(2).bind(MIXED)
    scale = math.sqrt(2 * 3) / 0.5
    assert error.attribute.scale == pytest.approx(scale)
    expected = scale / 500 * math.sqrt(12) * math.sqrt(2 * math.log(2 * 3 * 2 * 6)) / len(queries)
    assert error.attribute.hull == pytest.approx(expected)
    mechanism = Projection(Rho(0.4), Marginals(1) + 2 * Parities(2), budgets={"a": Rho(0.01)})
    unequal = mechanism.expected_error(MIXED, 500)
    calibration, _ = mechanism._prepare(MIXED)
    rho = mechanism.guarantee(MIXED, 500).rho(MIXED.roots)
    widest, m = float(calibration.count_scales.max()), len(calibration.queries)
    assert unequal.attribute.noise == pytest.approx((widest / 500) ** 2)
    width = 500 * math.sqrt(2 * rho) * math.sqrt(2 * math.log(72))
    assert unequal.attribute.hull == pytest.approx((widest / 500) ** 2 * width / m)
    assert unequal.person.scale > unequal.attribute.scale or unequal.ratio > 1


def test_the_person_s_noise_goes_by_weight_too() -> None:
    """ρ of everything is the budget, and scales are as 1/weight: S² = Σ w²Δ²/(2ρ)."""
    workload = 3 * Marginals(sets=(("a",),)) + Marginals(sets=(("b", "c"), ("age",)))
    error = Projection(Rho(0.4), workload).expected_error(MIXED, 100)
    assert error.person.scale == pytest.approx(math.sqrt((9 * 2 + 2 + 2) / 0.8))
    assert error.ratio == pytest.approx(math.sqrt(3))  # three marginals on different attributes


def test_figures_without_a_number_of_rows() -> None:
    error = Projection(CDP(0.5), Conjunctions(2)).expected_error(bits(5), 0)
    assert error.attribute.scale == 4 and error.attribute.least is None and error.person.noise is None
    body = error.to_json()
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert all(isinstance(value, (int, float, str)) for value in body["summary"].values())


def test_the_summary_speaks_of_attribute_and_person() -> None:
    body = Projection(CDP(0.5), Conjunctions(2)).expected_error(bits(6), 1000).to_json()
    assert body["per_person"]["least"] > body["per_attribute"]["least"]
    assert any("person" in label for label in body["summary"])
    assert body["hull"] == "exact"


# ---- output ---------------------------------------------------------------------------------------------------------

EVERYTHING = Marginals(sets=(("a", "b"),)) + Conjunctions(2, over=("b", "c")) + Parities(2, over=("a", "c")) + HALF


def test_answers_lie_in_the_hull_and_noisy_ones_where_the_noise_put_them() -> None:
    found = output(EVERYTHING)
    truth = found.queries.counts(table(MIXED))
    assert found.noisy.dtype == np.int64 and len(found) == len(truth) == 6 + 2 + 1 + 1
    assert np.abs(found.noisy - truth).max() < 9 * max(found.scales)
    np.testing.assert_allclose(found.noisy_answers, found.noisy / (found.queries.grids * 400))
    assert found.answers[:6].sum() == pytest.approx(1) and found.answers.min() >= -1e-12
    assert found.hull.exact and found.hull.gap >= 0 and found.hull.unfinished == 0


def test_intervals_before_and_after() -> None:
    found = output(EVERYTHING, budget=CDP(0.05))
    low, high = found.interval(projected=False)
    width = [half_width("gaussian", scale, 0.95) for scale in found.scales]
    each = np.repeat(width, np.diff(found.queries.starts)) / (found.queries.grids * 400)
    np.testing.assert_allclose(high - found.noisy_answers, each)
    np.testing.assert_allclose(found.noisy_answers - low, each)
    after_low, after_high = found.interval()
    assert np.all(after_low <= found.answers) and np.all(found.answers <= after_high)
    assert after_low.min() >= -1e-12 and after_high.max() <= 1 + 1e-12
    assert np.all(after_low <= np.clip(low, 0, 1)) and np.all(after_high >= np.clip(high, 0, 1))
    narrow = found.interval(level=0.5)
    assert np.all(narrow[1] - narrow[0] <= after_high - after_low + 1e-12)


def test_the_bound_on_the_whole_error_is_what_was_proved() -> None:
    found = output(Marginals(2))
    m, x = len(found), math.log(20)
    sigma = found.scales[0] / 400
    left = m + 2 * math.sqrt(m * x) + 2 * x - found.hull.moved + found.hull.gap
    assert found.error_bound() == pytest.approx(sigma**2 * left / m)
    loose = dataclasses.replace(found, hull=dataclasses.replace(found.hull, gap=found.hull.gap + 7))
    assert loose.error_bound() == pytest.approx(sigma**2 * (left + 7) / m)
    none = dataclasses.replace(found, hull=dataclasses.replace(found.hull, moved=1e9))
    assert none.error_bound() == 0
    assert found.error_bound(0.999) > found.error_bound(0.95) > found.error_bound(0.5)
    vast = output(Marginals(1), budget=CDP(1e-4))
    assert 0 <= vast.error_bound() <= 1


def test_looking_up_a_set_of_attributes() -> None:
    found = output(EVERYTHING)
    pair = found["b", "a"]
    assert [answer.query for answer in pair] == [f"a = {a}, b = {b}" for a in ("false", "true") for b in "xyz"]
    assert [answer.projected for answer in pair] == found.answers[:6].tolist()
    assert all(answer.low <= answer.noisy <= answer.high for answer in pair)
    assert found["b"][0].query == "average of b"
    assert "parity" in found["a", "c"][0].query
    with pytest.raises(MechanismError, match="Nothing was asked") as caught:
        found["c"]
    assert "a+b" in caught.value.fix
    with pytest.raises(UnknownAttribute):
        found["nobody"]


def test_round_trip_and_refusal_of_what_does_not_fit() -> None:
    found = output(EVERYTHING)
    body = json.loads(json.dumps(found.to_json(), allow_nan=False))
    again = Projection.read_output(body, MIXED)
    assert again.to_json() == found.to_json()
    assert again["a", "b"] == found["a", "b"] and again.scales == found.scales
    even = output(Marginals(2))
    assert len(even.to_json()["scales"]) == 1
    assert ProjectedAnswers.from_json(even.to_json(), MIXED).scales == even.scales
    with pytest.raises(MechanismError, match="not the answers"):
        Projection.read_output(body | {"noisy": body["noisy"][1:]}, MIXED)


def test_the_table_has_a_row_for_each_query() -> None:
    found = output(EVERYTHING)
    rows = found.to_arrow(MIXED)
    labels = ["value", "low", "high", "noise_scale", "noisy", "noisy_low", "noisy_high"]
    assert rows.column_names == ["table", *found.queries.names, "query", *labels] and rows.num_rows == len(found)
    assert rows["query"].to_pylist() == [found.queries.text(q) for q in range(len(found))]
    assert rows["table"].to_pylist() == ["+".join(found.queries.attributes(q)) for q in range(len(found))]
    np.testing.assert_allclose(rows["value"].to_numpy(), found.answers)
    np.testing.assert_allclose(rows["noise_scale"].to_numpy(), found.deviations)
    assert "exact hull" in repr(found)


def test_blocks_are_stated() -> None:
    found = output(Conjunctions(1) + Conjunctions(2), bits(23))
    assert not found.hull.exact and found.hull.pieces > 1 and f"{found.hull.pieces} pieces" in repr(found)
    assert found.to_json()["hull"]["exact"] is False


def test_tables_with_no_row_or_one_are_no_trouble() -> None:
    class Nobody(Counts):
        n, schema = 0, MIXED

        def fold(self, kernel: Any, progress: Any = None) -> Any:
            raise AssertionError("Only marginals are asked for.")

        def marginals(self, sets: Any, progress: Any = None) -> list[Any]:
            return [np.zeros(MIXED.sizes(chosen), dtype=np.int64) for chosen in sets]

    for counts in (Nobody(), table(MIXED, 1)):
        found = Projection(CDP(1), EVERYTHING).run(counts, NoiseSource.seeded(1))
        assert np.isfinite(found.answers).all() and json.dumps(found.to_json(), allow_nan=False)


def test_progress_of_many_pieces_is_reported() -> None:
    told: list[tuple[str, int, int]] = []

    class Watched:
        def __init__(self, inner: CodedTable) -> None:
            self.n, self.schema, self.marginals = inner.n, inner.schema, inner.marginals

        def working(self, what: str, done: int, total: int) -> None:
            told.append((what, done, total))

    Projection(CDP(1), Marginals(1)).run(Watched(table(MIXED)), NoiseSource.seeded(1))  # type: ignore[arg-type]
    assert [done for _, done, _ in told] == [0, 1, 2, 3] and told[0][0] == "projecting piece"


def test_errors_never_hold_data() -> None:
    with pytest.raises(NablaDPError) as caught:
        Projection(Rho(1e-15), Marginals(1)).run(table(MIXED), NoiseSource.seeded(1))
    assert "400" not in str(caught.value)


def test_very_many_columns_with_one_value() -> None:
    ones = tuple(Attribute(f"c{i}", "categorical", values=("x",)) for i in range(70))
    schema = Schema((*bits(2).attributes, *ones))
    made = output(Marginals(2), schema)
    assert np.isfinite(made.answers).all() and len(made) == len(made.noisy)
    with pytest.raises(DomainTooLarge, match="most is 60"):
        Projection(CDP(1), Marginals(sets=[schema.names])).guarantee(schema, 10)


def test_the_person_beside_unequal_budgets_has_the_least_of_them() -> None:
    error = Projection(CDP(0.5), Conjunctions(2), budgets={"x0": CDP(0.05)}).expected_error(bits(6), 1000)
    assert error.person.scale > error.attribute.scale and error.person.least is not None
    assert error.attribute.least is not None and error.attribute.least < error.person.least <= 1


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5])
def test_a_level_that_is_none(level: float) -> None:
    with pytest.raises(MechanismError):
        output(Marginals(1)).error_bound(level)
