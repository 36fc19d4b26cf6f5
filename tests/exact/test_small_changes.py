"""Distance-aware figures, exactly: for all pairs of rows that differ within a set of attributes, and there in the value
by at most a distance, no release loses more than claimed; a value that is only summed loses just that."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp.mechanisms.statistics import Statistics, calibration, small_changes
from nabladp.mechanisms.statistics.counting import exact_numbers
from nabladp.mechanisms.statistics.grids import Bins, Grid, strategy
from nabladp.privacy import CDP, Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.sql.domains import attribute_domain
from nabladp.sql.expressions import Column
from nabladp.tables import CodedTable
from nabladp.tables.encode import grid_codes, grid_column

HIGH = 6
SCHEMA = Schema(
    (
        Attribute("g", "integer", low=0, high=1),
        Attribute("f", "integer", low=0, high=1),
        Attribute("v", "integer", low=0, high=HIGH, null="category"),
        Attribute("w", "integer", low=3, high=3 + HIGH),
        Attribute("o", "integer", low=0, high=HIGH, unknown="other"),
        Attribute("band", "ordered", values=("low", "high"), derived_from=("w",)),
    )
)
SETS = [T for size in (1, 2, 3, 4, 5) for T in itertools.combinations(("g", "f", "v", "w", "o"), size)]
TIGHT = {  # the value has no other role
    "mean": ("w", "SELECT g, AVG(w), COUNT(*) FROM t WHERE f = 1 GROUP BY g"),
    "mean, NULL": ("v", "SELECT g, AVG(v), COUNT(*) FROM t WHERE f = 1 GROUP BY g"),
    "variance": ("w", "SELECT g, VAR_POP(w) FROM t GROUP BY g"),
    "total": ("w", "SELECT g, SUM(w) FROM t WHERE f = 1 GROUP BY g"),
    "quantile": ("w", "SELECT g, MEDIAN(w) FROM t GROUP BY g"),
}
LOOSE = {
    "the value is the key": ("w", "SELECT w, AVG(w) FROM t GROUP BY w"),
    "the key follows from the value": ("w", "SELECT band, AVG(w) FROM t GROUP BY band"),
    "the filter is about the value": ("w", "SELECT AVG(w) FROM t WHERE w > 4"),
    "an expression": ("w", "SELECT SUM(w * f) FROM t"),
    "two sums": ("w", "SELECT SUM(w), SUM(w) FILTER (WHERE f = 1) FROM t"),
    "distinct": ("w", "SELECT COUNT(DISTINCT w), SUM(w) FROM t"),
    "others": ("o", "SELECT AVG(o) FROM t"),
}


def records() -> list[dict[str, int]]:
    """Every row, by codes: values above the last number are NULL or other."""
    free = itertools.product(range(2), range(2), range(HIGH + 2), range(HIGH + 1), range(HIGH + 2))
    rows = [dict(zip(("g", "f", "v", "w", "o"), codes, strict=True)) for codes in free]
    return [row | {"band": int(row["w"] > 3)} for row in rows]


def numbers(mechanism: Statistics, rows: list[dict[str, int]]) -> tuple[np.ndarray, np.ndarray]:
    """What each row adds to every number, and the scale of the noise of each."""
    own = mechanism.calibration(SCHEMA)
    added = []
    for row in rows:
        table = CodedTable(SCHEMA, {name: np.array([code]) for name, code in row.items()})
        added.append(np.concatenate([part.ravel() for block in exact_numbers(own, table) for part in block]))
    scales = []
    for number, block in enumerate(own.plan.blocks):
        for index, _ in enumerate(block.parts):
            used = own.scales(number, index, 1) or (np.inf,)
            scales += list(used) * block.cells
    return np.array(added, float), np.array(scales)


def distinct_rows(rows: list[dict[str, int]], used: set[str]) -> list[dict[str, int]]:
    """One of those that agree on all that a query reads."""
    return list({tuple(row[name] for name in sorted(used)): row for row in rows}.values())


def excess(query: str, value: str, budget: Any) -> list[tuple[float, tuple[str, ...], int]]:
    """For every set and distance the largest loss of a pair of rows over what is claimed."""
    mechanism = Statistics(budget, (query,))
    reads = set(mechanism.reads(SCHEMA)) | {value}
    rows = distinct_rows(records(), reads | ({"w"} if "band" in reads else set()))
    added, scales = numbers(mechanism, rows)
    moved = np.abs(added[:, None, :] - added[None, :, :])
    loss = (moved / scales).sum(axis=2) if budget.pure else (moved**2 / (2 * scales**2)).sum(axis=2)
    guarantee = mechanism.guarantee(SCHEMA, 1)
    codes = {name: np.array([row[name] for row in rows]) for name in ("g", "f", "v", "w", "o")}
    result = []
    for T in SETS:
        if value not in T:
            continue
        same = np.ones_like(loss, bool)
        for name in codes.keys() - set(T):
            same &= codes[name][:, None] == codes[name][None, :]
        present = codes[value] <= HIGH  # both are numbers
        for far in range(1, HIGH + 1):
            near = (np.abs(codes[value][:, None] - codes[value][None, :]) <= far) & np.outer(present, present)
            if value == "o":  # a number outside the domain is a number, however near
                near |= np.outer(present, ~present) | np.outer(~present, present)
            figure = guarantee.figure(T, within={value: far})
            claimed = figure.pure if budget.pure else figure.rho
            result.append((float(loss[same & near].max()) / claimed, T, far))
    return result


@pytest.mark.parametrize("budget", [CDP(1), Pure(1)], ids=["cdp", "pure"])
@pytest.mark.parametrize("case", [*TIGHT, *LOOSE])
def test_no_pair_loses_more_than_claimed(case: str, budget: Any) -> None:
    value, query = (TIGHT | LOOSE)[case]
    assert max(excess(query, value, budget))[0] <= 1 + 1e-9


@pytest.mark.parametrize("budget", [CDP(1), Pure(1)], ids=["cdp", "pure"])
@pytest.mark.parametrize("case", ["mean", "mean, NULL", "variance", "total"])
def test_a_value_alone_loses_just_what_is_claimed(case: str, budget: Any) -> None:
    value, query = TIGHT[case]
    assert min(ratio for ratio, T, _ in excess(query, value, budget) if (value,) == T) > 1 - 1e-6


def test_quantiles_cost_less_for_small_changes() -> None:
    value, query = TIGHT["quantile"]
    guarantee = Statistics(CDP(1), (query,)).guarantee(SCHEMA, 1)
    costs = [guarantee.figure(value, within={value: far}).rho for far in range(1, HIGH + 1)]
    assert costs == sorted(costs) and costs[0] < 0.8 * guarantee.rho(value)


FAULTS = {  # each of them a slip that somebody could make, and a query that shows it
    "whole steps for half ones": ("mean", "_steps_within", lambda attribute, grid, far: int(far)),
    "one bin, however far": (
        "quantile",
        "_last_bin_within",
        lambda bins, far: np.minimum(np.arange(bins.count) + 1, bins.count - 1),
    ),
    "numbers outside are near": ("others", "numeric_value", lambda block: block.value and block.value.attribute),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, name, wrong = FAULTS[fault]
    for module in (small_changes, calibration):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, wrong)
    value, query = (TIGHT | LOOSE)[case]
    assert max(excess(query, value, CDP(1)))[0] > 1.01


def test_forgotten_roles_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = calibration.Calibration.role_weights

    def value_alone(self: Any, number: int) -> Any:
        weights = right(self, number)
        return {name: {"value": max(roles.values())} for name, roles in weights.items()}

    monkeypatch.setattr(calibration.Calibration, "role_weights", value_alone)
    assert max(excess(LOOSE["the key follows from the value"][1], "w", CDP(1)))[0] > 1.01


# ---- real numbers ----------------------------------------------------------------------------------------------------

RANGES = [(0.0, 10.0), (-1e-9, 2e-9), (1e12, 1e12 + 1), (0.1, 0.7), (-1e15, 3e15), (0.0, 50_000.0)]


class OneColumn:
    """Numbers of a real attribute, as expressions read them."""

    def __init__(self, attribute: Attribute, values: np.ndarray) -> None:
        self.steps = grid_codes(attribute, pa.array(values))[0]

    def grid(self, name: str) -> np.ndarray:
        return self.steps


@pytest.mark.parametrize("low, high", RANGES)
def test_steps_between_real_numbers(low: float, high: float) -> None:
    """However a number is rounded on its way, two of them are not further apart than claimed; nor much nearer."""
    attribute = Attribute("x", "real", edges=(low, (low + high) / 2, high), unknown="clamp")
    column, rng = Column(attribute), np.random.default_rng(1)
    for bits, share in itertools.product((5, 16, 20, 32), (1e-6, 1e-3, 0.1, 0.37)):
        far = share * (high - low)
        start = rng.uniform(low, high, 20_000)
        end = start + far  # rounding may make it a little more: that is the caller's number
        grid = Grid.centred(attribute_domain(attribute), bits)
        pair = [grid.steps(np.asarray(column.evaluate(OneColumn(attribute, x)).data)) for x in (start, end)]  # type: ignore[arg-type]
        claimed = small_changes._steps_within(attribute, grid, Fraction(far) + Fraction(np.spacing(high)))
        moved = int(np.abs(pair[1] - pair[0]).max())
        assert moved <= claimed
        assert claimed <= moved + 3 + 2 * small_changes._rounding(attribute) / Fraction(grid.step)
    assert grid_column("x") != "x"


def test_bins_that_a_small_change_can_reach() -> None:
    """For every pair of numbers of a wide integer attribute, by trying them all."""
    attribute = Attribute("x", "integer", low=0, high=1500)
    bins = Bins.of(attribute_domain(attribute))
    blocks = Statistics(CDP(1), ("SELECT MEDIAN(x) FROM t",)).plan(Schema((attribute,))).blocks
    (part,) = [part for block in blocks for part in block.parts if part.kind == "cdf"]
    own = strategy(bins.count, False)
    gram = own.matrix.astype(float).T @ own.matrix
    apart = np.diag(gram)[:, None] + np.diag(gram)[None, :] - 2 * gram
    index = bins.index(np.arange(1501))
    assert len(set(index.tolist())) < 1501  # some numbers share a bin
    for far in (1, 7, 100, 900):
        widest = max(int(apart[index[:-step], index[step:]].max()) for step in range(1, far + 1))
        true = Fraction(widest, max(own.change, 2 * own.member))
        claimed = small_changes.change_of_bins(attribute, part, bins, Fraction(far), False)
        assert true <= claimed <= true * Fraction(6, 5)


# ---- as a property of any guarantee ----------------------------------------------------------------------------------


def test_terms_that_know_no_distance_count_in_full() -> None:
    near = Guarantee.touch(SCHEMA, {"w": Rho(1)}, near={"w": {1: Rho(0.1), 10: Rho(0.5)}})
    both = near + Guarantee.touch(SCHEMA, {"w": Rho(2)})
    assert both.figure("w").rho == 3
    assert both.figure("w", within={"w": 1}).rho == pytest.approx(2.1)
    assert both.figure("w", within={"w": 1.5}).rho == pytest.approx(2.5)
    assert both.figure("w", within={"w": 11}).rho == 3
    assert both.for_rows(3).figure("w", within={"w": 1}).rho == pytest.approx(9 * 2.1)
    assert Guarantee.from_json(both.to_json()) == both
    assert both.epsilon_between({"w": 4}, {"w": 5}) == pytest.approx((2 * 2.1) ** 0.5)
    assert "w by up to 1" in repr(both.figure("w", within={"w": 1}))


def test_a_number_that_stands_for_a_missing_value_is_no_small_change_away() -> None:
    """From 6 to 8 is a change by 2, and from a number to none."""
    for markers, unknown, lower in (
        ((), "refuse", {1, 2, 4}),
        ((8,), "refuse", {1}),
        (("8", "?"), "refuse", {1}),
        ((-3, 99), "refuse", {1, 2}),
        ((3,), "refuse", set()),
        ((99,), "clamp", set()),
    ):
        value = Attribute("v", "integer", low=0, high=HIGH, null="category", null_values=markers, unknown=unknown)
        claim = Statistics(CDP(1), "SELECT SUM(v) FROM t").guarantee(Schema((value,)), 9)
        full = claim.epsilon_between({"v": 0}, {"v": HIGH})
        assert {far for far in (1, 2, 4) if claim.epsilon_between({"v": 0}, {"v": far}) < full} == lower, markers
