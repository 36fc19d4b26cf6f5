"""Answers from the model and from direct measurements together.

Measurements are cut into residuals (see below): what all of them say about some attributes beyond their subsets.
Each is shrunk towards the model's, by as much as its noise explains the distance. One residual of two binary columns
has a single degree of freedom and could not tell; how large distances are is learnt from all residuals on as many
attributes (empirical Bayes). Where the model expects few rows it cannot be wrong by many, so a cell's share in the
model's error may grow with its expected count: to the power that makes what was measured most likely.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.synthesis.inference.measurement import Measurement, Names, sum_to
from nabladp.mechanisms.synthesis.inference.misses import (
    SQUARES,
    Miss,
    centred,
    freedom,
    likelihoods,
    mean_square,
    merge,
    shares_of,
    unit,
)
from nabladp.mechanisms.synthesis.inference.model import Model

# ---- residuals -------------------------------------------------------------------------------------------------------
# Measurements cut into independent parts, and what all of them together say about each part.
#
# A table on S is a sum of residuals, one for each A ⊆ S: what its sums over S∖A say about A beyond all subsets of A.
# They are orthogonal, so under equal independent noise on every cell the residuals' noises are independent. The
# residuals on A of all measured sets that hold A estimate the same thing; weighted by precision nothing is lost or
# counted twice.


@dataclass(frozen=True, eq=False)
class Residual:
    """What is known about A beyond its subsets: sums over everything else, centred along every axis."""

    names: Names  # sorted
    values: Floats
    variance: float  # of each sum before centring
    grouped: bool = False  # whether it was measured in groups of values only


def subsets(names: Sequence[str]) -> Iterable[Names]:
    """All nonempty subsets of the names, in the order given."""
    return (part for k in range(1, len(names) + 1) for part in combinations(names, k))


def residuals(measurements: Iterable[Measurement]) -> dict[Names, Residual]:
    """The residuals of all measurements, by sorted names; parts with an attribute of one value hold nothing and are
    left out."""
    precision: dict[Names, float] = {}
    sums: dict[Names, Floats] = {}
    single: set[Names] = set()  # measured value by value
    for m in measurements:
        names = tuple(sorted(m.attributes))
        table = sum_to(m.values, m.attributes, names)
        for part, values in _residuals_of(table, names).items():
            weight = values.size / (m.variance * table.size)  # its sums have |S∖A| cells each
            if len(part) == 1:
                weight /= m.grouped.get(part[0], 1.0)  # what it says of whole groups, and no more
            if len(part) == 1 or not m.grouped.keys() & set(part):
                single.add(part)
            precision[part] = precision.get(part, 0.0) + weight
            sums[part] = sums.get(part, 0.0) + weight * values
    return {
        part: Residual(part, sums[part] / precision[part], 1 / precision[part], part not in single) for part in sums
    }


def _residuals_of(table: Floats, names: Names) -> dict[Names, Floats]:
    """The residuals of one table: each axis is either summed out or centred."""
    parts: dict[Names, Floats] = {(): table}
    for name in names:  # the first axis of each part is the one to treat; kept ones move to the end
        after: dict[Names, Floats] = {}
        for done, values in parts.items():
            gone = values.sum(axis=0)
            after[done] = gone
            if values.shape[0] > 1:
                after[(*done, name)] = np.moveaxis(values - gone / values.shape[0], 0, -1)
        parts = after
    del parts[()]
    return {done: np.ascontiguousarray(values) for done, values in parts.items()}


def cells(sizes: Mapping[str, int], names: Iterable[str]) -> int:
    return math.prod(sizes[name] for name in names)


class Parts:
    """The linear maps between tables on some sets (one flat vector) and residuals on their subsets (another).

    Each set's axes are in the order given; residuals' are sorted by name.
    """

    def __init__(self, sizes: Mapping[str, int], sets: Sequence[Names], known: Iterable[Names]) -> None:
        self.sizes, self.sets = sizes, sets
        inside = {tuple(sorted(part)) for names in sets for part in subsets(names)}
        self.parts = sorted(part for part in known if part in inside)
        self.at = np.cumsum([0, *(cells(sizes, names) for names in sets)])
        self.bounds = np.cumsum([0, *(cells(sizes, part) for part in self.parts)])
        self.dimensions = np.array([math.prod(sizes[name] - 1 for name in part) for part in self.parts], float)

    @cached_property
    def _axes(self) -> list[tuple[Integers, Floats]]:
        """For the first, second, … axis of every residual: each cell's line along it, and 1/length of each line."""
        deepest = max(map(len, self.parts), default=0)
        results = []
        for axis in range(deepest):
            lines, inverse, start = [], [np.zeros(1)], 1  # line 0 is for residuals without such an axis
            for part in self.parts:
                shape = [self.sizes[name] for name in part]
                if axis >= len(shape):
                    lines.append(np.zeros(math.prod(shape), np.int64))
                    continue
                across = [1 if k == axis else size for k, size in enumerate(shape)]
                count = math.prod(across)
                numbers = np.arange(start, start + count).reshape(across)
                lines.append(np.broadcast_to(numbers, shape).ravel())
                inverse.append(np.full(count, 1 / shape[axis]))
                start += count
            results.append((np.concatenate(lines), np.concatenate(inverse)))
        return results

    def centred(self, vector: Floats) -> Floats:
        """Residuals from sums: the mean along every axis subtracted."""
        for lines, inverse in self._axes:
            vector = vector - (np.bincount(lines, vector, len(inverse)) * inverse)[lines]
        return vector

    @cached_property
    def _mean(self) -> Any:
        """The matrix of means, one row per cell of a residual, over every set's cells above it; also its transpose."""
        from scipy.sparse import csr_array

        rows, columns, weights = [], [], []
        number = {part: i for i, part in enumerate(self.parts)}
        for s, names in enumerate(self.sets):
            here = np.arange(self.at[s], self.at[s + 1])
            for part in subsets(names):
                i = number.get(tuple(sorted(part)))
                if i is not None:
                    rows.append(self.bounds[i] + self._slots(names, self.parts[i]))
                    columns.append(here)
                    count = cells(self.sizes, part) / len(here)
                    weights.append(np.full(len(here), count))
        shape = (int(self.bounds[-1]), int(self.at[-1]))
        if not rows:
            return csr_array(shape), csr_array(shape[::-1])
        entries = np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))
        mean = csr_array(entries, shape=shape)
        return mean, mean.T.tocsr()

    def _slots(self, names: Names, part: Names) -> Integers:
        """For every cell of a table on ``names``, the cell of the residual it falls into."""
        shape = [self.sizes[name] for name in names]
        slot = np.zeros(shape, np.int64)
        for name in part:
            axis = names.index(name)
            code = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(names))])
            slot = slot * self.sizes[name] + code
        return slot.ravel()

    def means(self, vector: Floats) -> Floats:
        """Σ over the sets above a residual of their tables' means: the residual's share in the sum of all tables."""
        return np.asarray(self._mean[0] @ vector)

    def spread(self, vector: Floats) -> Floats:
        """The transpose of :meth:`means`: residuals, given as sums, back to tables."""
        return np.asarray(self._mean[1] @ vector)

    @cached_property
    def _holders(self) -> Floats:
        """For every cell of a residual, Σ over the sets above it of its share of their cells."""
        result = dict.fromkeys(self.parts, 0.0)
        for names in self.sets:
            for part in subsets(names):
                key = tuple(sorted(part))
                if key in result:
                    result[key] += cells(self.sizes, part) / cells(self.sizes, names)
        return np.repeat(list(result.values()), np.diff(self.bounds))

    def of(self, vector: Floats) -> Floats:
        """The residuals of tables that agree with each other wherever they overlap."""
        return self.centred(self.means(vector) / self._holders)


# ---- surprises -------------------------------------------------------------------------------------------------------


def surprises(model: Model, before: Collection[Names], measurements: Sequence[Measurement]) -> list[tuple[Miss, ...]]:
    """How far the model was from what each new measurement says about attributes that none before held together: one
    for each number of attributes, with no degree of freedom where there are none."""
    results = []
    for m, guess in zip(measurements, model.marginals([m.attributes for m in measurements]), strict=True):
        by_width: dict[int, list[Miss]] = {}
        for part, residual in residuals([m]).items():
            if part not in before:
                expected = sum_to(guess, m.attributes, part)
                by_width.setdefault(len(part), []).append(Miss.of(expected, residual.values, residual.variance))
        results.append(tuple(merge(by_width.get(width, [])) for width in range(1, len(m.attributes) + 1)))
    return results


# ---- pooling ---------------------------------------------------------------------------------------------------------

_MANY = 200  # residuals on as many attributes that show what is typical
_SLOPES = (-2.0, -0.3)  # of surprises, over their rank
_RANKS = 64
POWERS = (0.0, 0.5, 1.0, 1.5)  # of a cell's expected count, for its share in the model's error
_EVIDENCE = 1.0  # in log-likelihood, that a power other than 0 must gain
_UNTOLD = 1.5  # the same power for a model that was not told
_DOUBT = 0.1
_FEW = 8  # surprises say as much of what is left as is usual
_USUAL = 4.0  # squared correlations of what rounds leave, over those of chance
_GUESSED = 0.5  # of what attributes have to do with each other, the model misses where nothing was measured
_INSIDE = 0.2  # of what attributes have to do with each other, the part inside groups of values measured together
_LEAST = 1e-3  # of an average cell: no cell is expected to hold less, here


@dataclass(frozen=True, eq=False)
class Pooled:
    """Counts of one marginal; ``error`` is the expected total variation distance from the truth, as a share of rows."""

    attributes: Names
    values: Floats
    variance: Floats  # of each cell, what the model gets wrong included
    error: float
    direct: float  # the weight of the direct measurements of the whole set, 0 where there are none
    guess: Floats  # counts of the model alone


@dataclass(frozen=True, eq=False)
class _Part:
    """For one residual: what is added to the model's, the variance that remains (both as sums), the mean weight."""

    shift: Floats
    variance: Floats
    weight: float


def pool(model: Model, measurements: Sequence[Measurement], sets: Iterable[Sequence[str]]) -> list[Pooled]:
    """Pool model and direct measurements: the best answer for each set, measured or not, and its expected error."""
    wanted = [tuple(names) for names in sets]
    guesses = model.marginals(wanted)
    if model.total <= 0:
        return [
            Pooled(names, guess, np.zeros(guess.shape), 0.0, 0.0, guess)
            for names, guess in zip(wanted, guesses, strict=True)
        ]
    known = residuals(measurements)
    expected: dict[Names, Floats] = {}
    for names, guess in zip(wanted, guesses, strict=True):
        for part in subsets(sorted(names)):
            if part not in expected:
                expected[part] = sum_to(guess, names, part)
    typical = Typical(model, measurements, known, {len(part) for part in expected})
    parts: dict[Names, _Part] = {}
    squares: dict[Names, tuple[float, float]] = {}  # the means of what is expected, and of what remains unknown
    for part, table in expected.items():  # comes after its subsets
        if part in known:
            parts[part] = _shrink(table, known[part], *typical.of(part))
        else:
            parts[part] = typical.unmeasured(table, _inherited(part, squares, model.total))
        squares[part] = float((centred(table) ** 2).mean()), float(parts[part].variance.mean())
    return [_one(model, names, guess, parts) for names, guess in zip(wanted, guesses, strict=True)]


class Typical:
    """What is typical of the model's misses, by number of attributes. It depends on the model and on what was measured,
    not on what is asked."""

    def __init__(
        self,
        model: Model,
        measurements: Sequence[Measurement],
        known: Mapping[Names, Residual],
        widths: Collection[int],
    ) -> None:
        self._tree = model.tree
        some: list[Names] = []
        for width in widths:
            measured = [part for part in known if len(part) == width]
            some += measured[:: max(1, len(measured) // _MANY)]
        self._dependence: dict[int, list[float]] = {}  # of attributes that the model was told of
        misses: dict[tuple[int, bool], list[Miss]] = {}
        for part, table in zip(some, model.marginals(some), strict=True):
            own = len(part), self._told(part)
            misses.setdefault(own, []).append(Miss.of(table, known[part].values, known[part].variance))
            if own[1]:
                self._dependence.setdefault(own[0], []).append(float((centred(table) ** 2).mean()) / unit(table))
        self._shares = {own: shares_of(each) for own, each in misses.items()}
        self._chance = 1 / model.total  # of attributes that have nothing to do with each other, in so many rows
        self._found = {
            width: max(self._chance, self._rate(width, measurements, self._left(width, known))) for width in widths
        }

    def _left(self, width: int, known: Mapping[Names, Residual]) -> int:
        return math.comb(len(self._tree.sizes), width) - sum(len(part) == width for part in known)

    def _told(self, part: Names) -> bool:
        return self._tree.home(part) is not None

    def of(self, part: Names) -> tuple[bool, Floats]:
        """Whether the model was told of these attributes together, and how common each squared correlation is."""
        told = self._told(part)
        shares = self._shares.get((len(part), told))
        return told, shares_of([]) if shares is None else shares

    def _rate(self, width: int, measurements: Sequence[Measurement], left: int) -> float:
        """The squared correlation to expect where nothing was measured: what measurements were surprised by, carried on
        to those that are left; or else that of measured attributes that the model was not told of, or a part of what
        it was told."""
        came = [m.surprise[width - 1] for m in measurements if len(m.surprise) >= width]
        new = [miss for miss in came if miss.freedom]
        if new:
            trust = len(new) / (len(new) + _FEW)
            return float(_carried_on(new, left) ** trust * (_USUAL * self._chance) ** (1 - trust))
        if (width, False) in self._shares:
            return mean_square(self._shares[width, False])
        return _GUESSED * float(np.median(self._dependence.get(width, [0.0])))

    def unmeasured(self, expected: Floats, inherited: float) -> _Part:
        square = self._found[expected.ndim] * unit(expected) + inherited
        return _Part(np.zeros(expected.shape), _untold(expected, square), 0.0)


def _untold(expected: Floats, square: float) -> Floats:
    """The variance of each cell where nothing was measured, if this is their mean."""
    shares = np.maximum(expected, _LEAST * expected.mean()) ** _UNTOLD
    return np.asarray(square * shares / shares.mean())


def _inherited(part: Names, known: Mapping[Names, tuple[float, float]], total: float) -> float:
    """The mean square by which an unmeasured residual is wrong because the model multiplies what it expects of some of
    its attributes with what it expects of the others, and either is wrong; known are both mean squares."""
    result = 0.0
    for some in subsets(part[:-1]):  # every split in two comes once
        others = tuple(name for name in part if name not in some)
        (square, wrong), (other_square, other_wrong) = known[some], known[others]
        result += square * other_wrong + wrong * other_square + wrong * other_wrong
    return result / total**2


def _carried_on(surprises: Sequence[Miss], left: int) -> float:
    """Rounds pick what surprises most, so each surprise is a little smaller than the one before: by a power of its
    rank, read from the second and the last quarter. What was never picked follows in the same way."""
    count = len(surprises)
    half, quarter = surprises[count // 2 :], max(1, count // 4)
    early, late = (math.sqrt(_typical(own)) for own in (surprises[quarter:][:quarter], surprises[-quarter:]))
    if not early or not left:
        return _typical(half)
    slope = float(np.clip(math.log(max(late, 1e-9) / early) / math.log(7 / 3), *_SLOPES))
    ranks = np.linspace(count + 0.5, count + left + 0.5, _RANKS) / (0.75 * count)
    return _typical(half) * float((ranks**slope).mean()) ** 2


def _typical(surprises: Sequence[Miss]) -> float:
    """Little doubt: strong relations, of which it holds some, would make up most of few surprises."""
    return mean_square(shares_of(surprises, _DOUBT))


def _shrink(expected: Floats, residual: Residual, told: bool, shares: Floats) -> _Part:
    """The correction of one residual of the model; ``expected`` are the model's counts on the residual's attributes."""
    miss = residual.values - centred(expected)
    own = Miss.of(expected, residual.values, residual.variance)
    held = likelihoods([own])[0] * shares
    held /= held.sum()
    weights = SQUARES / (SQUARES + own.noise)
    typical = float(held @ weights)
    noise = freedom(expected) * residual.variance
    weight = _by_cell(expected, miss, noise, typical * noise / (1 - typical))
    if told:
        variance = weight * noise + (1 - weight) * _inherited_error(expected, noise)
    else:
        variance = weight * noise + float(held @ (weights - typical) ** 2) * miss**2
    if residual.grouped:
        variance = variance + _untold(expected, _INSIDE * float((centred(expected + weight * miss) ** 2).mean()))
    return _Part(weight * miss, variance, float(weight.mean()))


def _by_cell(expected: Floats, miss: Floats, noise: float, beyond: float) -> Floats:
    """The weight of the measurement in every cell, if ``beyond`` noise the model misses so much in the mean."""
    best = None
    for power in POWERS if beyond else POWERS[:1]:
        shares = np.maximum(expected, _LEAST * expected.mean()) ** power
        amiss = beyond * shares / shares.mean()
        both = amiss + noise
        likelihood = -freedom(expected) * float((np.log(both) + miss**2 / both).sum()) / 2
        likelihood -= _EVIDENCE if power else 0.0
        if best is None or likelihood > best[0]:
            best = likelihood, amiss / both
    return best[1] if best is not None else np.ones(expected.shape)


def _inherited_error(expected: Floats, noise: float) -> Floats:
    """The model's error where it agrees with a measurement, because it was fitted to the same noise.

    All of the noise where it expects many rows; where it expects few it follows the noise less.
    """
    follows = expected / (expected + math.sqrt(noise))
    return np.asarray(follows * noise + (1 - follows) * np.minimum(_whole(expected), noise))


def _whole(expected: Floats) -> Floats:
    """The square of the largest error to expect in cells of few rows: as many rows as expected, and some."""
    return np.asarray(expected + expected**2)


def _one(model: Model, names: Names, guess: Floats, parts: Mapping[Names, _Part]) -> Pooled:
    values, variance = guess.copy(), np.zeros(guess.shape)
    ordered = tuple(sorted(names))
    for part in subsets(ordered):
        each = parts[part]
        others = guess.size // each.shift.size  # cells that share each sum
        shape = [model.sizes[name] if name in part else 1 for name in names]
        turned = [part.index(name) for name in names if name in part]
        values += each.shift.transpose(turned).reshape(shape) / others
        variance += each.variance.transpose(turned).reshape(shape) / others**2
    possible = guess > 0  # the model rules out nothing but declared zeros
    values = on_simplex(np.where(possible, values, -math.inf), model.total)
    variance = np.where(possible, np.minimum(variance, _whole(np.maximum(values, guess))), 0.0)
    return Pooled(names, values, variance, _error(variance, model.total), parts[ordered].weight, guess)


def _error(variance: Floats, total: float) -> float:
    return min(1.0, float(np.sqrt(variance).sum()) * math.sqrt(2 / math.pi) / (2 * max(total, 1.0)))


def on_simplex(values: Floats, total: float) -> Floats:
    """The nearest nonnegative counts that sum to the total; −∞ stays 0."""
    flat = np.sort(values[values > -math.inf])[::-1]
    level = (np.cumsum(flat) - total) / np.arange(1, len(flat) + 1)
    last = np.flatnonzero(flat > level)[-1]
    return np.asarray(np.maximum(values - level[last], 0.0))
