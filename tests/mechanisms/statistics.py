"""Statistics: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from faults import Fault, Patches

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.statistics import Statistics, blocks, calibration, counting
from nabladp.privacy import CDP, Approx, Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema

INSTANCES: list[Mechanism] = [
    Statistics(CDP(1), "SELECT region, COUNT(*) AS people, AVG(age) FROM people WHERE sick GROUP BY region"),
    Statistics(
        Rho(0.5),
        (
            "SELECT band, SUM(age), VAR_POP(age), MEDIAN(income) FROM people GROUP BY band",
            "SELECT COUNT(*) FILTER (WHERE income > 10), COUNT(income), COUNT(DISTINCT region) FROM people",
        ),
        budgets={"sick": CDP(0.5)},
    ),
    Statistics(
        Approx(2, 1e-6), "SELECT sick, COUNT(*), QUANTILE(age, 0.25) FROM people GROUP BY sick", quantiles="point"
    ),
    Statistics(Pure(2), "SELECT region, sick, AVG(income), MEDIAN(age) FROM people GROUP BY ROLLUP(region, sick)"),
    Statistics(
        CDP(1),
        by=["region", "sick"],
        where="age > 2",
        count=True,
        mean=["income"],
        quantile={"income": [0.25, 0.75]},
        groups={"sick": [True]},
        sampling_error=True,
    ),
    Statistics(CDP(1), "SELECT sick, age, GROUPING(age), COUNT(*), SUM(income) FROM people GROUP BY ROLLUP(sick, age)"),
]


def noisy(out: Any) -> list[Any]:
    priced = zip(out.numbers, out.calibration.units, strict=True)
    return [part for numbers, units in priced for part, own in zip(numbers, units, strict=True) if own is not None]


# ---- faults ---------------------------------------------------------------------------------------------------------

TINY = Schema(tuple(Attribute(name, "integer", low=0, high=1) for name in "gfv"))
MEANS = Statistics(CDP(1), "SELECT g, AVG(v), COUNT(*) FROM t WHERE f = 1 GROUP BY g")


def groups_at_half(patches: Patches) -> None:
    """A row that changes its group is thought to move one group: M instead of 2M."""
    true = calibration.Calibration.role_weights

    def weights(self: Any, number: int) -> Any:
        return {
            name: {role: cost / 2 if role == "group" else cost for role, cost in roles.items()}
            for name, roles in true(self, number).items()
        }

    patches.set(calibration.Calibration, "role_weights", weights)


def value_as_a_row(patches: Patches) -> None:
    """A value is thought to move by its half range: aR² instead of 4aR²."""
    true = blocks.Block.value_cost
    patches.set(blocks.Block, "value_cost", lambda self, parts, units=None: true(self, parts, units) / 4)


def forgotten_source(patches: Patches) -> None:
    """Of an expression over several columns only the first pays."""
    true = blocks.Block.columns

    def columns(self: Any) -> Any:
        groups, filters, values = true(self)
        return groups, filters, values[:1]

    patches.set(blocks.Block, "columns", columns)


def one_touch_for_all(patches: Patches) -> None:
    """All blocks as one touch, each source at its own weight: aggregates with other filters, too."""

    def guarantee(self: Any, *n: int) -> Guarantee:
        together: dict[str, Any] = {}
        for number in range(len(self.plan.blocks)):
            for name, roles in self.role_weights(number).items():
                together[name] = max(together.get(name, 0), max(roles.values()))
        kind = Pure if self.pure else Rho
        return Guarantee.touch(self.universe, {name: kind(cost) for name, cost in together.items() if cost})

    patches.set(calibration.Calibration, "guarantee", guarantee)


def null_is_free(patches: Patches) -> None:
    """A value that becomes NULL is thought to cost what a change between values does."""

    def value_cost(self: Any, parts: Any, units: Any = None) -> Any:
        listed = tuple(parts)
        return sum(part.change * own for part, own in zip(listed, units or (1,) * len(listed), strict=True))

    patches.set(blocks.Block, "value_cost", value_cost)


def shared_noise(patches: Patches) -> None:
    """One draw for all groups."""

    def with_noise(self: Any, exact: Any, scales: Any, noise: Any) -> Any:
        if scales is None:
            return exact
        draw = noise.discrete_laplace if self.budget.pure else noise.discrete_gaussian
        return exact + np.array([int(draw(scale, 1)[0]) for scale in scales])

    patches.set(Statistics, "_with_noise", with_noise)


def seven_tenths(patches: Patches) -> None:
    """Noise of 0.7 times the scale, in a run alone."""
    true = Statistics._with_noise

    def with_noise(self: Any, exact: Any, scales: Any, noise: Any) -> Any:
        return true(self, exact, None if scales is None else tuple(0.7 * scale for scale in scales), noise)

    patches.set(Statistics, "_with_noise", with_noise)


def three_digits(numbers: Any) -> Any:
    """As floating-point numbers of three binary digits hold them."""
    mantissa, exponent = np.frexp(numbers)
    return np.ldexp(np.round(8 * mantissa) / 8, exponent)


def float_sums(patches: Patches) -> None:
    """Values are added up as floating-point numbers: rounding moves a sum by more than the range of a value."""
    true = counting._add

    def add(loop: Any, out: Any, index: Any, kept: Any, weights: Any, *steps: Any) -> None:
        if not steps:
            return true(loop, out, index, kept, weights)
        times = np.asarray(kept, np.int64) if weights is None else np.where(kept, weights, 0)
        for i in np.repeat(np.arange(len(index)), times).tolist():
            out[index[i]] = three_digits(out[index[i]] + three_digits(steps[0][i]))

    patches.set(counting, "_add", add)


NULLS = Schema((TINY["g"], Attribute("v", "integer", low=3, high=4, null="category")))
FAR = Schema((Attribute("v", "integer", low=9, high=11),))  # of four digits
BUDGETS = {"": CDP(1), ", pure": Pure(1)}
FAULTS = (
    *(
        fault
        for note, budget in BUDGETS.items()
        for fault in (
            Fault(f"groups charged M{note}", replace(MEANS, budget=budget), TINY, groups_at_half),
            Fault(f"values charged a quarter{note}", replace(MEANS, budget=budget), TINY, value_as_a_row),
            Fault(f"a forgotten source{note}", Statistics(budget, "SELECT SUM(v * f) FROM t"), TINY, forgotten_source),
            Fault(
                f"filters charged as one{note}",
                Statistics(budget, "SELECT SUM(v), COUNT(*) FILTER (WHERE f = 1) FROM t"),
                TINY,
                one_touch_for_all,
            ),
            Fault(f"NULL is free{note}", Statistics(budget, "SELECT g, SUM(v) FROM t GROUP BY g"), NULLS, null_is_free),
            Fault(f"float sums{note}", Statistics(budget, "SELECT SUM(v) FROM t"), FAR, float_sums),
            Fault(
                f"one noise for all groups{note}",
                replace(MEANS, budget=budget),
                TINY,
                shared_noise,
                how="run",
            ),
        )
    ),
    Fault("noise x 0.7 in a run (Statistics)", MEANS, TINY, seven_tenths, how="run"),
)
