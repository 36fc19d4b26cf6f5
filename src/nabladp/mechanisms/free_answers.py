"""Free answers: counts, shares, sums, means and quantiles, by groups and for some of the rows, from released tables of
noisy counts. Post-processing: they read nothing else and cost nothing.

All tables that tell something are pooled (see pooling.py), so that sums are the best unbiased ones, with an interval
from the noise that is known to be in them. One number stands for each bin of an attribute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.checks import is_share
from nabladp.errors import MechanismError, quote
from nabladp.mechanisms.estimate import LEVEL, Estimate, GroupEstimates, single_estimate
from nabladp.mechanisms.intervals import Interval, quantile_of_noise, ratio_interval
from nabladp.mechanisms.pooling import overlap
from nabladp.mechanisms.released_counts import By, NoisyCounts, Question, Where, bin_numbers, conditions, read_values

Weights = Mapping[str, Floats]
_TIE = 1e-9  # relative to a rank: sums of noisy numbers are not exact


# ---- what is estimated, and how its groups compare ------------------------------------------------------------------


class Linear:
    """Weighted sums of rows. ``weights`` are given three times: as they are, at least and at most."""

    def __init__(self, asked: Question, weights: Sequence[Weights]) -> None:
        self.asked, self.weights = asked, weights
        self.sums = [asked.sums(own) for own in weights]
        self.least = min((float(own.min()) for part in weights for own in part.values()), default=0.0)

    def interval(self, z: float) -> Interval:
        value, low, high = self.sums
        return Interval(value, low - self._reach(z, 1), high + self._reach(z, 2))

    def _reach(self, z: float, part: int) -> float:
        weights = self.weights[part]
        deviation = self.asked.product(weights, weights) ** 0.5
        return float(z * deviation + self.asked.step(_largest(weights), deviation))

    def difference(self, one: Integers, other: Integers) -> Interval:
        value, low, high = self.sums
        variance = max(
            2 * (self.asked.product(own, own) - self.asked.product(own, own, one, other)) for own in self.weights
        )
        step = self.asked.step(max(map(_largest, self.weights)), variance**0.5)
        reach = self.asked.z * variance**0.5 + step
        return Interval(value[one] - value[other], low[one] - high[other] - reach, high[one] - low[other] + reach)

    def ratio(self, one: Integers, other: Integers) -> Interval:
        _refuse_negative(self.least)
        value, low, high = self.sums
        found = [
            self._fieller(pair[0][one], pair[1][other], part, one, other)
            for part, pair in enumerate(((value, value), (low, high), (high, low)))
        ]
        return Interval(found[0].value, found[1].low, found[2].high)

    def _fieller(self, above: Floats, below: Floats, part: int, one: Integers, other: Integers) -> Interval:
        weights = self.weights[part]
        same, across = self.asked.product(weights, weights), self.asked.product(weights, weights, one, other)
        z = self.asked.z + self.asked.step(_largest(weights), same**0.5) / (same**0.5 or 1.0)
        found = ratio_interval(above, below, (same, across, same), z, 0.0, np.inf)
        return found._replace(value=np.where(below > z * same**0.5, found.value, np.nan))


class Ratio:
    """A weighted sum of rows over another one, between two ends: Fieller's interval."""

    def __init__(
        self, asked: Question, numerators: Sequence[Weights], denominator: Weights, ends: tuple[float, float]
    ) -> None:
        self.asked, self.numerators, self.denominator, self.ends = asked, numerators, denominator, ends
        self.below = asked.sums(denominator)
        self._known: dict[float, list[Interval]] = {}
        self.above = [asked.sums(own) for own in numerators]

    @property
    def clamped(self) -> bool:
        """Whether noise takes some value out of its domain."""
        low, high = (end * self.below for end in self.ends)
        return bool(((self.below > 0) & ((self.above[0] < low) | (self.above[0] > high))).any())

    def interval(self, z: float) -> Interval:
        if z not in self._known:
            self._known[z] = [self._fieller(part, z) for part in range(3)]
        value, low, high = self._known[z]
        return Interval(value.value, low.low, high.high)

    def _fieller(self, part: int, z: float) -> Interval:
        spread = self._spread(part)
        with np.errstate(all="ignore"):
            value = np.clip(np.where(self.below > 0, self.above[part] / self.below, self.ends[0]), *self.ends)
        deviation = np.sqrt(np.maximum(spread[0] - 2 * value * spread[1] + value**2 * spread[2], 0.0))
        largest = np.maximum(np.abs(value - self.ends[0]), np.abs(self.ends[1] - value))
        wide = z + self.asked.step(largest, deviation) / np.where(deviation > 0, deviation, 1.0)
        found = ratio_interval(self.above[part], self.below, spread, wide, *self.ends)
        return found._replace(value=np.where(self.below > z * spread[2] ** 0.5, found.value, np.nan))

    def _spread(self, part: int, *groups: Integers) -> tuple[float, float, float]:
        above, below = self.numerators[part], self.denominator
        pairs = ((above, above), (above, below), (below, below))
        one, two, three = (self.asked.product(*pair, *groups) for pair in pairs)
        return one, two, three

    def difference(self, one: Integers, other: Integers) -> Interval:
        """Each end is as far from the difference as the ends of both are from their values, squared and added, less
        what the noise of both has in common (Zou and Donner 2008)."""
        whole, both = self.interval(self.asked.z), self.interval(_for_two(self.asked))
        (a, b), (a_low, b_low), (a_high, b_high) = (
            (part.value[one], part.value[other]) for part in self._known[self.asked.z]
        )
        together = self._correlation(a, b, one, other)
        low = a_low - b_high - _reach_of_difference(a_low - whole.low[one], whole.high[other] - b_high, together)
        high = a_high - b_low + _reach_of_difference(whole.high[one] - a_high, b_low - whole.low[other], together)
        wide = _box_difference(both, one, other)  # where the noise hides one of them
        return Interval(a - b, np.where(np.isfinite(low), low, wide.low), np.where(np.isfinite(high), high, wide.high))

    def _correlation(self, a: Floats, b: Floats, one: Integers, other: Integers) -> Floats:
        across, own = self._spread(0, one, other), self._spread(0)
        shared = across[0] - (a + b) * across[1] + a * b * across[2]
        alone = [np.maximum(own[0] - 2 * value * own[1] + value**2 * own[2], 0.0) for value in (a, b)]
        both = np.sqrt(alone[0] * alone[1])
        return np.asarray(np.divide(shared, both, out=np.zeros_like(both), where=both > 0))

    def ratio(self, one: Integers, other: Integers) -> Interval:
        _refuse_negative(self.ends[0])
        return _box_ratio(self.interval(self.asked.z), self.interval(_for_two(self.asked)), one, other)


class Ranks:
    """Quantiles, by inverting tests: values at which the number of rows up to them is compatible with the quantile.

    Only the two tests of the true value matter, so that no union over values is needed.
    """

    def __init__(self, asked: Question, name: str, q: float) -> None:
        self.asked = asked
        attribute = asked.schema[name]
        of = asked.known(name)
        self.kept = np.flatnonzero(of)
        if not len(self.kept):
            raise MechanismError(f"'where' matches no declared value of {name!r}.", fix="Widen it.")
        self.values, self.bounds = attribute.representatives, attribute.bin_bounds
        counts = asked.counts_along(name)[:, self.kept]
        self.upto = np.cumsum(counts, axis=1)
        self.rank = q * self.upto[:, -1:]
        above = self.upto - self.rank
        self.above = np.where(np.abs(above) < _TIE * (1 + np.abs(self.rank)), 0.0, above)
        others = {own: overlap(asked.mask(own), asked.mask(own)) for own in asked.rest if own != name}
        size, many, below = attribute.size, len(self.kept), np.arange(1, len(self.kept) + 1)
        tested = (below * (1 - q) ** 2 + (many - below) * q**2, ((below - q * many) / size) ** 2)
        self.deviations = np.sqrt(np.maximum(asked.covariance(others | {name: tested}), 0.0))
        self.doubt = float(asked.covariance(others | {name: (float(many), (many / size) ** 2)})) ** 0.5
        self.largest = max(q, 1 - q)

    def interval(self, z: float) -> Interval:
        reach = z * self.deviations + self.asked.step(self.largest, self.deviations)
        may_reach = self.above + reach >= 0
        may_reach[:, -1] = True
        below = np.ones_like(may_reach)
        below[:, 1:] = (self.above - reach)[:, :-1] < 0
        first, last = may_reach.argmax(axis=1), below.shape[1] - 1 - below[:, ::-1].argmax(axis=1)
        first, last = np.minimum(first, last), np.maximum(first, last)
        falling = np.minimum.accumulate(self.upto[:, ::-1], axis=1)[:, ::-1]
        rising = (np.maximum.accumulate(self.upto, axis=1) + falling) / 2  # noise makes sums fall; these do not
        middle = np.clip((rising >= self.rank - _TIE * (1 + np.abs(self.rank))).argmax(axis=1), first, last)
        hidden = self.upto[:, -1] <= z * self.doubt
        if self.values is None or self.bounds is None:
            value, low, high = (self.kept[own].astype(float) for own in (middle, first, last))
        else:
            lows, highs = self.bounds
            value, low, high = self.values[self.kept[middle]], lows[self.kept[first]], highs[self.kept[last]]
        return Interval(np.where(hidden, np.nan, value), low, high)

    def difference(self, one: Integers, other: Integers) -> Interval:
        found = _box_difference(self.interval(_for_two(self.asked)), one, other)
        value = self.interval(self.asked.z).value
        return found._replace(value=value[one] - value[other])

    def ratio(self, one: Integers, other: Integers) -> Interval:
        _refuse_negative(0.0 if self.bounds is None else float(np.min(self.bounds[0])))
        return _box_ratio(self.interval(self.asked.z), self.interval(_for_two(self.asked)), one, other)


def _largest(weights: Weights) -> float:
    return float(np.prod([np.abs(own).max() for own in weights.values()]))


def _for_two(asked: Question) -> float:
    """The same for two intervals that shall both hold."""
    return quantile_of_noise((1 + asked.level) / 2, asked.counts.laplace)


def _box_difference(found: Interval, one: Integers, other: Integers) -> Interval:
    value, low, high = found
    return Interval(value[one] - value[other], low[one] - high[other], high[one] - low[other])


def _box_ratio(found: Interval, both: Interval, one: Integers, other: Integers) -> Interval:
    with np.errstate(all="ignore"):
        value, low = found.value[one] / found.value[other], both.low[one] / both.high[other]
        high = np.where(both.low[other] > 0, both.high[one] / both.low[other], np.inf)
    return Interval(np.where(found.value[other] > 0, value, np.nan), np.nan_to_num(low, nan=0.0), high)


def _reach_of_difference(one: Floats, other: Floats, together: Floats) -> Floats:
    """The reach of a difference, from those of two numbers and how their noise belongs together."""
    return np.asarray(np.sqrt(np.maximum(one**2 + other**2 - 2 * together * one * other, 0.0)))


def _refuse_negative(least: float) -> None:
    if least < 0:
        raise MechanismError("A ratio of numbers that may be negative has no interval.", fix="Ask for the difference.")


Found = Linear | Ratio | Ranks


def _answer(
    asked: Question, found: Found, note: str = "", texts: Mapping[int, str] | None = None
) -> Estimate | GroupEstimates:
    interval = found.interval(asked.z)
    if not asked.by:
        return single_estimate(interval, asked.level, note, asked.sources, texts)
    return GroupEstimates(
        asked.what, asked.schema, asked.by, asked.codes, interval, asked.level, note, asked.sources, found, texts
    )


# ---- what can be asked -----------------------------------------------------------------------------------------------


class FreeAnswers(ABC):
    """What was released, to be asked for more. Every answer is made of released values alone, and costs nothing.

    ``by`` names attributes whose values make groups; without it there is one :class:`Estimate`. ``where`` keeps rows by
    their values: ``{"region": "north"}``, several values in a list, or a range of numbers, ``{"age": "18..65"}``.
    """

    @abstractmethod
    def noisy_counts(self) -> NoisyCounts:
        """The released tables of noisy counts; refuses where there are none."""

    @overload
    def count(self, by: None = None, where: Where = None, level: float = LEVEL) -> Estimate: ...
    @overload
    def count(self, by: str | Sequence[str], where: Where = None, level: float = LEVEL) -> GroupEstimates: ...
    def count(self, by: By = None, where: Where = None, level: float = LEVEL) -> Estimate | GroupEstimates:
        """The number of rows."""
        asked = Question(self.noisy_counts(), "count", by, where, level)
        return _answer(asked, Linear(asked, [asked.everyone()] * 3))

    @overload
    def share(self, of: Where, by: None = None, where: Where = None, level: float = LEVEL) -> Estimate: ...
    @overload
    def share(
        self, of: Where, by: str | Sequence[str], where: Where = None, level: float = LEVEL
    ) -> GroupEstimates: ...
    def share(self, of: Where, by: By = None, where: Where = None, level: float = LEVEL) -> Estimate | GroupEstimates:
        """The share of rows that meet a further condition: ``share({"sick": True}, by="region")``."""
        wanted = conditions(of)
        if not wanted:
            raise MechanismError("A share needs a condition.", fix='Write share({"sick": True}, by="region").')
        asked = Question(self.noisy_counts(), "share", by, where, level, tuple(wanted))
        own = {name: asked.mask(name) * read_values(asked.schema[name], text) for name, text in wanted.items()}
        return _answer(asked, Ratio(asked, [asked.everyone() | own] * 3, asked.everyone(), (0.0, 1.0)))

    @overload
    def sum(self, name: str, by: None = None, where: Where = None, level: float = LEVEL) -> Estimate: ...
    @overload
    def sum(self, name: str, by: str | Sequence[str], where: Where = None, level: float = LEVEL) -> GroupEstimates: ...
    def sum(self, name: str, by: By = None, where: Where = None, level: float = LEVEL) -> Estimate | GroupEstimates:
        """The sum of a numeric attribute over rows where it is known."""
        counts = self.noisy_counts()
        bin_numbers(counts.schema[name])  # refuses what is no number
        asked = Question(counts, "sum", by, where, level, (name,))
        return _answer(asked, Linear(asked, asked.numbers(name)), asked.bins_note(name))

    @overload
    def mean(self, name: str, by: None = None, where: Where = None, level: float = LEVEL) -> Estimate: ...
    @overload
    def mean(self, name: str, by: str | Sequence[str], where: Where = None, level: float = LEVEL) -> GroupEstimates: ...
    def mean(self, name: str, by: By = None, where: Where = None, level: float = LEVEL) -> Estimate | GroupEstimates:
        """The mean of a numeric attribute over rows where it is known.

        A bin counts as the number that ``decode`` gives it. The interval covers the noise and, for real attributes,
        where in their bins values may be; neither leaves the domain.
        """
        counts = self.noisy_counts()
        _, lows, highs = bin_numbers(counts.schema[name])
        asked = Question(counts, "mean", by, where, level, (name,))
        of = asked.known(name)
        kept = of[: len(lows)] > 0
        if not kept.any():
            raise MechanismError(f"'where' matches no declared value of {name!r}.", fix="Widen it.")
        ends = float(lows[kept].min()), float(highs[kept].max())
        found = Ratio(asked, asked.numbers(name), asked.everyone() | {name: of}, ends)
        notes = [asked.bins_note(name), f"clamped to the domain, {ends[0]:g} to {ends[1]:g}" if found.clamped else ""]
        return _answer(asked, found, "; ".join(note for note in notes if note))

    @overload
    def quantile(self, name: str, q: float, by: None = None, where: Where = None, level: float = LEVEL) -> Estimate: ...
    @overload
    def quantile(
        self, name: str, q: float, by: str | Sequence[str], where: Where = None, level: float = LEVEL
    ) -> GroupEstimates: ...
    def quantile(
        self, name: str, q: float, by: By = None, where: Where = None, level: float = LEVEL
    ) -> Estimate | GroupEstimates:
        """The q-quantile of an ordered attribute over rows where it is known."""
        if not is_share(q):
            raise MechanismError(
                f"q must lie strictly between 0 and 1, and is {quote(q)}.", fix="The median is q = 0.5."
            )
        counts = self.noisy_counts()
        attribute = counts.schema[name]
        if not attribute.is_ordered:
            raise MechanismError(f"{name!r} has no order.", fix=f"Ask how often its values occur: count(by={name!r}).")
        asked = Question(counts, f"{q:g}-quantile", by, where, level, (name,))
        found = Ranks(asked, name, q)
        if attribute.is_numeric:
            return _answer(asked, found, asked.bins_note(name))
        return _answer(asked, found, texts={code: attribute.label(code) for code in range(attribute.ordered_size)})
