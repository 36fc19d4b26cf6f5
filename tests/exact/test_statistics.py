"""Statistics, exactly: on tiny tables no set of attributes loses more than claimed; where no attribute has two roles,
each set loses just that."""

from __future__ import annotations

from typing import Any

import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms.statistics import Statistics
from nabladp.privacy import CDP, Pure
from nabladp.schema import Attribute, Schema


def schema(v: int = 2, *, low: int = 0, null: bool = False, public: str = "") -> Schema:
    gap: dict[str, Any] = {"null": "category"} if null else {}
    return Schema(
        (
            Attribute("g", "integer", low=0, high=1, public=public == "g"),
            Attribute("f", "integer", low=0, high=1),
            Attribute("v", "integer", low=low, high=low + v, **gap),
        )
    )


NESTED = Schema((Attribute("g", "integer", low=0, high=5), *schema(1).attributes[1:]))  # more groups than are summed
TIGHT = {  # no attribute has two roles, and extremes are reached
    "count": (schema(), "SELECT g, COUNT(*) FROM t GROUP BY g"),
    "filter": (schema(), "SELECT COUNT(*) FROM t WHERE f = 1"),
    "total": (schema(low=3), "SELECT g, SUM(v) FROM t WHERE f = 1 GROUP BY g"),
    "mean": (schema(), "SELECT g, AVG(v), COUNT(*) FROM t WHERE f = 1 GROUP BY g"),
    "variance": (schema(), "SELECT g, VAR_POP(v) FROM t WHERE f = 1 GROUP BY g"),
    "no groups": (schema(), "SELECT AVG(v) FROM t"),
    "mean, NULL": (schema(null=True), "SELECT g, AVG(v), COUNT(*) FROM t GROUP BY g"),
    "variance, NULL": (schema(null=True), "SELECT g, VAR_POP(v), COUNT(v) FROM t WHERE f = 1 GROUP BY g"),
    "far from zero, NULL": (schema(1, low=10, null=True), "SELECT SUM(v) FROM t"),
    "quantile": (schema(1), "SELECT g, MEDIAN(v) FROM t GROUP BY g"),
    "distinct": (schema(), "SELECT g, COUNT(DISTINCT v) FROM t GROUP BY g"),
    "two filters": (schema(), "SELECT SUM(v), COUNT(*) FILTER (WHERE f = 1) FROM t"),
    "product": (schema(1), "SELECT SUM(v * f) FROM t"),
    "survey weights": (schema(), "SELECT g, SUM(f * v) / SUM(f) AS mean FROM t GROUP BY g"),
    "survey weights, NULL": (schema(null=True), "SELECT SUM(f * v) AS total FROM t"),
    "nested groups": (NESTED, "SELECT g, f, COUNT(*), AVG(v) FROM t GROUP BY ROLLUP(f, g)"),
    "sets of groups": (NESTED, "SELECT g, f, AVG(v) FROM t GROUP BY GROUPING SETS ((g), (f), ())"),
    "public groups": (schema(public="g"), "SELECT g, AVG(v), COUNT(*) FROM t WHERE f = 1 GROUP BY g"),
}
WIDE = Schema((Attribute("g", "integer", low=0, high=3), *schema().attributes[1:]))
NARROWED = {  # groups that are listed, or that WHERE leaves; also exact
    "listed groups": (WIDE, "SELECT g, AVG(v), COUNT(*) FROM t WHERE f = 1 GROUP BY g", {"g": [1]}),
    "two of four groups": (WIDE, "SELECT g, SUM(v) FROM t WHERE f = 1 GROUP BY g", {"g": [0, 3]}),
    "one group is left": (WIDE, "SELECT g, COUNT(*) FROM t WHERE g = 2 GROUP BY g", {}),
    "one of few is listed": (WIDE, "SELECT g, SUM(v) FROM t WHERE f = 1 AND v > 0 GROUP BY g", {"g": [2]}),
}
LOOSE = {  # an attribute with two roles pays the larger, which may be more than it loses
    "the filter names the key": (schema(), "SELECT g, COUNT(*) FROM t WHERE g = f GROUP BY g"),
    "the key is the value": (schema(), "SELECT v, AVG(v), COUNT(*) FROM t GROUP BY v"),
    "one value in two sums": (schema(), "SELECT SUM(v), SUM(v * f) FROM t"),
    "nested totals": (NESTED, "SELECT g, f, COUNT(*), SUM(v) FROM t GROUP BY ROLLUP(f, g)"),
    "rollup": (schema(1), "SELECT g, f, SUM(v), COUNT(DISTINCT v) FROM t GROUP BY ROLLUP(g, f)"),
    "the filter narrows the key": (WIDE, "SELECT g, SUM(v), COUNT(*) FROM t WHERE g > 1 GROUP BY g"),
    "survey weights far from zero": (schema(1, low=3), "SELECT g, SUM(f * v) / SUM(f) AS mean FROM t GROUP BY g"),
    "weights of both signs": (schema(1, low=-1), "SELECT SUM(f * v), SUM(v) FROM t"),
    "weights of filtered rows": (schema(), "SELECT g, SUM(f * v), SUM(f) FROM t WHERE v > 0 GROUP BY g"),
    "quantile": (schema(1, null=True), "SELECT g, MEDIAN(v) FROM t GROUP BY g"),
}


@pytest.mark.parametrize("budget", [CDP(1), Pure(1)], ids=["cdp", "pure"])
@pytest.mark.parametrize("case", TIGHT)
def test_every_set_loses_just_what_is_claimed(case: str, budget: Any) -> None:
    own, query = TIGHT[case]
    audit = exact_audit(Statistics(budget, query), own, 2)
    assert audit.passed
    assert min(row.tightness for row in audit.rows if row.claimed_rho > 0) > 1 - 1e-6


@pytest.mark.parametrize("budget", [CDP(1), Pure(1)], ids=["cdp", "pure"])
@pytest.mark.parametrize("case", NARROWED)
def test_listed_and_narrowed_groups_lose_just_what_is_claimed(case: str, budget: Any) -> None:
    own, query, groups = NARROWED[case]
    audit = exact_audit(Statistics(budget, query, groups=groups), own, 2)
    assert audit.passed
    assert min(row.tightness for row in audit.rows if row.claimed_rho > 0) > 1 - 1e-6


@pytest.mark.parametrize("quantiles", ["cdf", "point"])
@pytest.mark.parametrize("budget", [CDP(1), Pure(1)], ids=["cdp", "pure"])
@pytest.mark.parametrize("case", LOOSE)
def test_no_set_loses_more(case: str, budget: Any, quantiles: str) -> None:
    own, query = LOOSE[case]
    if quantiles == "cdf" or "MEDIAN" in query:
        assert exact_audit(Statistics(budget, query, quantiles=quantiles), own, 2).passed


def test_the_trap_of_single_attributes() -> None:
    """GROUP BY a WHERE a = b: each of them alone moves one cell, both together two."""
    own, query = LOOSE["the filter names the key"]
    losses = {row.attributes: row.true_rho for row in exact_audit(Statistics(CDP(1), query), own, 2).rows}
    assert losses["g", "f"] == pytest.approx(2 * losses["f",]) and losses["f",] == pytest.approx(losses["g",])


def test_two_filters_cost_their_sum() -> None:
    guarantee = Statistics(CDP(1), TIGHT["two filters"][1]).guarantee(schema(), 2)
    assert guarantee.rho(["v", "f"]) == pytest.approx(guarantee.rho("v") + guarantee.rho("f"))


def test_survey_weights_cost_what_they_move() -> None:
    """SUM(w · x) for 0 ≤ w ≤ 1 and 3 ≤ x ≤ 4: a weight moves it by up to 4, as a row that comes does; both together by
    no more."""
    own, query = schema(1, low=3), "SELECT SUM(f * v) AS total FROM t"
    rows = {row.attributes: row for row in exact_audit(Statistics(CDP(1), query), own, 2).rows}
    assert rows["f",].tightness == pytest.approx(1) and rows["f", "v"].tightness == pytest.approx(1)
    assert rows["v",].true_rho == pytest.approx(rows["f",].true_rho / 16)  # which is charged as if it were a weight


def test_limits_on_sets_and_on_the_person_hold() -> None:
    query = TIGHT["mean"][1]
    free = Statistics(CDP(1), query).guarantee(schema(), 2)
    limited = Statistics(CDP(1), query, sets={"g+v": CDP(0.4)}, person=CDP(0.3)).guarantee(schema(), 2)
    assert limited.rho(["g", "v"]) <= CDP(0.4).amount() < free.rho(["g", "v"])
    assert limited.per_person().rho <= CDP(0.3).amount()
    assert limited.per_person().rho > 0.999 * float(CDP(0.3).amount())
