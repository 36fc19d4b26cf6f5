"""Whether the intervals of free answers hold the truth: many releases of the same people, asked by the public calls.

Every release of ``NoisyMarginals`` is drawn anew and asked for counts, sums, shares, means and quantiles, by groups and
for some of the rows, and for differences and ratios of two groups. Columns have 2 to 10 values; a group has 12 people.
Pay is at the lowest end of its bin, the worst case for an interval that allows for any place in it.

``runs``              releases of each setting
``numbers``           true numbers whose intervals were counted, over all settings
``coverage_by_kind``  the share of intervals of each kind of answer that hold the true number, all settings together
``coverage_min``      the same for the one number and setting with the fewest; by chance alone the least of so many is
                      about 1.5 % below the others
``coverage_noise``    for each setting of the noise: the share over all of its numbers
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from nabladp import CDP, Attribute, NoisyMarginals, Pure, Schema
from nabladp.noise import NoiseSource
from nabladp.tables import CodedTable

SECONDS = {"full": 300, "quick": 10}
RUNS = {"full": 2000, "quick": 25}
SHARES = (0.5, 0.3, 0.194, 0.006)  # of the regions: the last one has 12 people
ROWS = 2000
SCHEMA = Schema(
    (
        Attribute("sex", "categorical", values=("f", "m")),
        Attribute("region", "categorical", values=("north", "south", "east", "isles")),
        Attribute("age", "integer", low=0, high=9),
        Attribute("pay", "real", edges=(0, 10, 20, 40), null="category"),
        Attribute("sick", "boolean"),
    )
)
SETS = [("sex", "age"), ("region", "pay"), ("region", "sick"), ("sex", "region"), ("age", "sick"), ("region", "age")]
SETTINGS = {
    "gaussian, large": NoisyMarginals(CDP(0.2), sets=SETS),
    "gaussian, small": NoisyMarginals(CDP(2.5), sets=SETS),
    "laplace, large": NoisyMarginals(Pure(0.8), sets=SETS, noise="laplace"),
    "laplace, small": NoisyMarginals(Pure(8), sets=SETS, noise="laplace"),
}
Answer = tuple[str, str, Any, float]  # its kind, its name, the estimate, the truth


def _people() -> dict[str, Any]:
    draws = np.random.default_rng(1)
    return {
        "sex": draws.integers(0, 2, ROWS),
        "region": np.repeat(np.arange(4), np.round(np.array(SHARES) * ROWS).astype(int)),
        "age": draws.binomial(9, 0.35, ROWS),
        "pay": draws.choice(4, ROWS, p=[0.5, 0.2, 0.2, 0.1]),
        "sick": (draws.random(ROWS) < 0.3).astype(int),
    }


class _Truth:
    """The same numbers from the people themselves."""

    def __init__(self) -> None:
        self.codes = _people()
        self.of = {"age": self.codes["age"], "pay": np.array([0.0, 10.0, 20.0, np.nan])[self.codes["pay"]]}
        self.sick = self.codes["sick"] == 1

    def groups(self, by: str) -> list[tuple[str, Any]]:
        return [(value, self.codes[by] == code) for code, value in enumerate(SCHEMA[by].values)]

    def known(self, name: str, rows: Any) -> Any:
        own = self.of[name][rows]
        return own[~np.isnan(own)]

    def median(self, name: str, rows: Any, q: float = 0.5) -> float:
        return float(np.quantile(self.known(name, rows), q, method="inverted_cdf"))


def _answers(release: Any, truth: _Truth) -> Iterator[Answer]:
    """Every question, with its answer and the true one."""
    grown = truth.codes["age"] >= 4
    for by, name in (("sex", "age"), ("region", "age"), ("region", "pay")):
        count, total, mean = release.count(by), release.sum(name, by), release.mean(name, by)
        medians = {q: release.quantile(name, q, by) for q in (0.5, 0.75)}
        for value, rows in truth.groups(by):
            known = truth.known(name, rows)
            if name == "age":
                yield "count", f"{by} {value}", count[value], rows.sum()
            yield "sum", f"{name} {by} {value}", total[value], known.sum()
            yield "mean", f"{name} {by} {value}", mean[value], known.mean()
            for q, own in medians.items():
                yield "quantile", f"{name} {q} {by} {value}", own[value], truth.median(name, rows, q)
        yield from _compared(f"{name} {by}", by, name, (count, total, mean, medians[0.5]), truth)
    share, old = release.share({"sick": True}, "region"), release.count("sex", {"age": "4.."})
    for value, rows in truth.groups("region"):
        yield "share", f"sick {value}", share[value], truth.sick[rows].mean()
    for value, rows in truth.groups("sex"):
        yield "count", f"4.. {value}", old[value], (rows & grown).sum()
    chosen = (truth.codes["age"] >= 2) & (truth.codes["age"] <= 6)
    yield "mean", "age 2..6", release.mean("age", where={"age": "2..6"}), truth.of["age"][chosen].mean()
    yield "share", "sick", release.share({"sick": True}), truth.sick.mean()
    yield "share", "sick 4..", release.share({"sick": True}, where={"age": "4.."}), truth.sick[grown].mean()
    f, m = (truth.sick[rows].mean() for _, rows in truth.groups("region")[:2])
    yield "difference", "sick", share.difference("north", "south"), f - m
    yield "ratio", "sick", share.ratio("north", "south"), f / m


def _compared(what: str, by: str, name: str, answers: tuple[Any, ...], truth: _Truth) -> Iterator[Answer]:
    """The first group of an attribute with its second one, and with its last, which may be small."""
    count, total, mean, median = answers
    (first, one), *others = truth.groups(by)
    for value, other in {others[0][0]: others[0][1], others[-1][0]: others[-1][1]}.items():
        both = [truth.known(name, rows) for rows in (one, other)]
        told = (
            ("count", count, [one.sum(), other.sum()]),
            ("sum", total, [own.sum() for own in both]),
            ("mean", mean, [own.mean() for own in both]),
            ("median", median, [truth.median(name, rows) for rows in (one, other)]),
        )
        for kind, answer, (a, b) in told[name == "pay" :]:  # counts once
            yield "difference", f"{kind} {what} {value}", answer.difference(first, value), a - b
            if b > 0:
                yield "ratio", f"{kind} {what} {value}", answer.ratio(first, value), a / b


def _holds(answer: Any, true: float) -> bool:
    low = -np.inf if answer.low is None else answer.low
    high = np.inf if answer.high is None else answer.high
    return bool(low - 1e-9 <= true <= high + 1e-9)


def run(quick: bool) -> dict[str, Any]:
    runs, truth, noise = RUNS["quick" if quick else "full"], _Truth(), NoiseSource.seeded(2)
    people = CodedTable(SCHEMA, truth.codes)
    held: dict[tuple[str, str, str], int] = defaultdict(int)
    for setting, mechanism in SETTINGS.items():
        for _ in range(runs):
            for kind, name, answer, true in _answers(mechanism.run(people, noise), truth):
                held[setting, kind, name] += _holds(answer, true)
    shares = {key: number / runs for key, number in held.items()}
    least = min(shares, key=lambda key: shares[key])
    return {
        "runs": runs,
        "numbers": len(shares),
        "coverage_by_kind": _means(shares, 1),
        "coverage_noise": _means(shares, 0),
        "coverage_min": round(shares[least], 4),
        "least_covered": ", ".join(least),
    }


def _means(shares: dict[tuple[str, str, str], float], part: int) -> dict[str, float]:
    listed = defaultdict(list)
    for key, share in shares.items():
        listed[key[part]].append(share)
    return {name: round(float(np.mean(own)), 4) for name, own in listed.items()}
