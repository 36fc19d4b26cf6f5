"""Free answers and consistent tables: intervals that hold the truth in 95 % of 2,000 releases, whatever the noise.

Estimates are vectorised over groups, so all releases are answered at once, as if each were a group of its own.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pytest

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms import free_answers
from nabladp.mechanisms.noisy_marginals import MarginalTables, NoisyMarginal
from nabladp.mechanisms.pooling import Pool, Table
from nabladp.mechanisms.released_counts import Question
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema

RUNS = 2000
SCHEMA = Schema(
    (
        Attribute("sex", "categorical", values=("f", "m")),
        Attribute("age", "integer", low=0, high=9),
        Attribute("pay", "real", edges=(0, 10, 20, 40), null="category"),
        Attribute("sick", "boolean"),
    )
)
SETS = (("sex", "age"), ("sex", "pay"), ("age", "sick"), ("sex", "sick"), ("sex",))
ROWS = 900
_draws = np.random.default_rng(1)
PEOPLE = {
    "sex": _draws.integers(0, 2, ROWS),
    "age": _draws.binomial(9, 0.35, ROWS),
    "pay": _draws.choice(4, ROWS, p=[0.5, 0.2, 0.2, 0.1]),
    "sick": (_draws.random(ROWS) < 0.3).astype(int),
}
PAY = np.array([0.0, 10.0, 20.0, np.nan])[PEOPLE["pay"]]  # as low as their bins allow
NOISES = [("gaussian", 6.0), ("gaussian", 1.2), ("gaussian", 0.45), ("laplace", 4.0), ("laplace", 0.6)]
SIZES = (1.0, 1.3, 0.7, 1.0, 2.0)  # of the noise of each table, times the scale


def counted(names: tuple[str, ...]) -> Integers:
    table = np.zeros(SCHEMA.sizes(names), np.int64)
    np.add.at(table, tuple(PEOPLE[name] for name in names), 1)
    return table


class Releases:
    """Many releases of the same tables."""

    def __init__(self, noise: str, scale: float) -> None:
        source, self.scales = NoiseSource.seeded(7), [scale * size for size in SIZES]
        draw = source.discrete_gaussian if noise == "gaussian" else source.discrete_laplace
        self.noisy = [
            counted(names)[..., None] + draw(own, counted(names).size * RUNS).reshape((*SCHEMA.sizes(names), RUNS))
            for names, own in zip(SETS, self.scales, strict=True)
        ]
        tables = zip(SETS, self.noisy, self.scales, strict=True)
        self.first = MarginalTables(
            tuple(NoisyMarginal(names, own[..., 0], noise, size, SCHEMA) for names, own, size in tables), ROWS, SCHEMA
        )
        told = [
            Table(own.attributes, values, np.full(RUNS, own.variance))
            for own, values in zip(self.first.tables, self.noisy, strict=True)
        ]
        self.pool = Pool([*told, Table((), np.full(RUNS, ROWS), np.zeros(RUNS))])


@pytest.fixture(scope="module", params=NOISES, ids=str)
def releases(request: pytest.FixtureRequest) -> Releases:
    return Releases(*request.param)


def test_consistent_tables_cover_and_have_the_stated_error(releases: Releases) -> None:
    for position, table in enumerate(releases.first):
        error = releases.pool.shifted(position) - counted(table.attributes)[..., None]
        np.testing.assert_allclose(error[..., 0] + counted(table.attributes), table.values, atol=1e-6)
        inside = np.abs(error) <= table.half_width()
        assert inside.mean() >= 0.945 and inside.mean(axis=-1).min() >= 0.93
        assert error.std() == pytest.approx(table.deviation, rel=0.06)
        assert abs(error.mean(axis=-1)).max() < 5 * table.deviation / RUNS**0.5  # unbiased
        assert table.deviation < table.raw.deviation


@pytest.fixture
def many(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> MarginalTables:
    """The tables of the first release, whose answers are estimates for all of them: releases run fastest."""

    class OfAll(Question):
        @cached_property
        def cells(self) -> Floats:
            names = (*self.by, *self.rest)
            values, _ = releases.pool.estimate(names)
            return np.moveaxis(values.reshape((*SCHEMA.sizes(names), RUNS)), -1, len(self.by))

        @cached_property
        def groups(self) -> Integers:
            kept = Question.groups.func(self)  # type: ignore[attr-defined]
            return np.asarray((kept[:, None] * RUNS + np.arange(RUNS)).ravel())

        @cached_property
        def codes(self) -> Integers:
            sizes = SCHEMA.sizes(self.by)
            return np.indices(sizes).reshape(len(sizes), -1).T[self.groups // RUNS]

    monkeypatch.setattr(free_answers, "Question", OfAll)
    monkeypatch.setattr(free_answers, "_answer", lambda asked, found, *more: found)
    return releases.first


def check(found: Any, truth: Any, least: float = 0.94) -> None:
    """Of each group, at least this share of releases has an interval around the truth."""
    low, high = (np.asarray(end, float).reshape(-1, RUNS) for end in (found.low, found.high))
    inside = (low - 1e-9 <= np.reshape(truth, (-1, 1))) & (np.reshape(truth, (-1, 1)) <= high + 1e-9)
    assert inside.mean(axis=1).min() >= least, inside.mean(axis=1)


SEX = [PEOPLE["sex"] == code for code in (0, 1)]
KNOWN = ~np.isnan(PAY)


def pairs(compare: Any) -> Any:
    """One group compared with the other, in every release."""
    return compare(np.arange(RUNS), RUNS + np.arange(RUNS))


def quantiles(values: Any, q: float) -> list[float]:
    """Of those whose value is known, by sex."""
    return [float(np.quantile(values[own & np.isfinite(values)], q, method="inverted_cdf")) for own in SEX]


def test_counts_sums_and_shares_cover(many: Any) -> None:
    z = many.count(where={"sex": "f"}).asked.z
    old = PEOPLE["age"] >= 4
    check(many.count("sex", {"age": "4.."}).interval(z), [(old & own).sum() for own in SEX])
    check(many.count(where={"sex": "f", "sick": True}).interval(z), (SEX[0] & (PEOPLE["sick"] == 1)).sum())
    check(many.sum("age", "sex").interval(z), [PEOPLE["age"][own].sum() for own in SEX])
    check(many.sum("pay", "sex").interval(z), [PAY[own & KNOWN].sum() for own in SEX])
    check(many.share({"sick": True}, "sex").interval(z), [PEOPLE["sick"][own].mean() for own in SEX])
    check(many.share({"sick": True}).interval(z), PEOPLE["sick"].mean())


def test_means_and_quantiles_cover(many: Any) -> None:
    z = many.count().asked.z
    check(many.mean("age", "sex").interval(z), [PEOPLE["age"][own].mean() for own in SEX])
    check(many.mean("age").interval(z), PEOPLE["age"].mean())
    chosen = (PEOPLE["age"] > 1) & (PEOPLE["age"] < 7)
    check(many.mean("age", where={"age": "2..6"}).interval(z), PEOPLE["age"][chosen].mean())
    check(many.mean("pay", "sex").interval(z), [PAY[own & KNOWN].mean() for own in SEX])
    for q in (0.1, 0.5, 0.75):
        check(many.quantile("age", q, "sex").interval(z), quantiles(PEOPLE["age"], q))
        check(many.quantile("pay", q, "sex").interval(z), quantiles(PAY, q))


def test_differences_and_ratios_cover(many: Any) -> None:
    count, mean, share = many.count("sex"), many.mean("age", "sex"), many.share({"sick": True}, "sex")
    f, m = SEX[0].sum(), SEX[1].sum()
    check(pairs(count.difference), f - m)
    check(pairs(count.ratio), f / m)
    f, m = (PEOPLE["age"][own].mean() for own in SEX)
    check(pairs(mean.difference), f - m)
    check(pairs(mean.ratio), f / m)
    f, m = (PEOPLE["sick"][own].mean() for own in SEX)
    check(pairs(share.difference), f - m)
    f, m = (PEOPLE["age"][own].sum() for own in SEX)
    check(pairs(many.sum("age", "sex").ratio), f / m)
    f, m = quantiles(PEOPLE["age"], 0.5)
    check(pairs(many.quantile("age", 0.5, "sex").difference), f - m)
