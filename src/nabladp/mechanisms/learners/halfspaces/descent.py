"""method="descent": a few noisy steps of a clipped hinge loss, in coordinates whitened by a noisy Gram matrix.

In every step the rows that are not safely on their side are added up. Whatever changes in a row, the sum moves by at
most 2 (rows have length 1); if only one feature changes, by at most 1, so that it pays a quarter of what the label
pays. The rest of the features' budgets buys the Gram matrix, of which the label is no part.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers, compile_loop
from nabladp.errors import AuditError, BudgetError
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.gram_matrix import GramMatrix, NoisyGram, SignedColumns
from nabladp.mechanisms.gram_matrix.calibration import Calibration
from nabladp.mechanisms.learners.halfspaces.gram import RADIUS, GramFit, Whitening
from nabladp.mechanisms.learners.halfspaces.task import FEWEST_UNITS, Fitted, NoisySums, Task, curve
from nabladp.mechanisms.mechanism import Law
from nabladp.mechanisms.noise_uses import Charge, NoiseUse, with_steps
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.values import Rho
from nabladp.tables import Counts, Kernel

# ---- sums over rows --------------------------------------------------------------------------------------------------
# Everything is a whole number. Rows stay in memory between steps where they may, as 16-bit numbers; otherwise the table
# is read again in every step.

LEVELS = 1 << 8  # a row counts this many times, up to half the margin; then less and less
WEIGHT_GRID = 1 << 20  # weights are multiples of 1/this: inner products are exact in doubles
_BLOCK = 256  # rows at a time
_CAREFUL = 1 - 2.0**-40  # more than doubles may add to a length


class Vectors:
    """Rows as they count: label times whitened features, cut to the radius; a column for each row."""

    def __init__(self, columns: SignedColumns, label: str, whitening: Whitening) -> None:
        self.columns, self.label, self.whitening = columns, label, whitening
        self.attributes = (*columns.attributes, label)
        largest = int(np.abs(whitening.matrix).sum(axis=1).max())  # of any partial sum of an inner product
        self.real: Any = np.float32 if largest < 1 << 24 else np.float64
        self.whole: Any = np.int16 if whitening.radius < 1 << 15 else np.int32

    def of(self, batch: pa.RecordBatch) -> NDArray[Any]:
        signs = np.ones((self.columns.width, batch.num_rows), dtype=self.real)
        for block in self.columns.blocks:
            if block.names:
                span = self.columns.column_ranges[block.attribute]
                values = np.where(block.positive, 1, -1).astype(self.real)
                codes = batch.column(block.attribute).to_numpy()  # all within the domain: "clip" only saves a copy
                values.take(codes, axis=1, out=signs[span.start : span.stop], mode="clip")
        vectors = self.whitening.matrix.astype(self.real) @ signs  # whole numbers, exact in any order
        labels = 2.0 * batch.column(self.label).to_numpy() - 1
        result = np.empty(vectors.shape, dtype=self.whole)
        compile_loop(_cut)(vectors, labels, float(self.whitening.radius), result)
        return result


class HingeSums(Kernel):
    """A kernel: one step's sums, from rows as they are read."""

    def __init__(self, vectors: Vectors, weights: Integers) -> None:
        self.vectors, self.weights, self.attributes = vectors, weights, vectors.attributes

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        return hinge_sums(self.vectors.of(batch), self.weights, self.vectors.whitening.radius)


class Kept(Kernel):
    """For ``fold`` where batches come one after the other: all rows' vectors, as they come, in one array."""

    def __init__(self, vectors: Vectors, rows: int) -> None:
        self.vectors, self.rows, self.filled, self.attributes = vectors, rows, 0, vectors.attributes

    @property
    def bytes(self) -> int:
        return int(self.rows * self.vectors.columns.width * np.dtype(self.vectors.whole).itemsize)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        total = np.zeros(-(-self.bytes // 8), dtype=np.int64)
        self.add_to(total, batch)
        return total

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        start = min(self.filled, self.rows)
        self.filled += batch.num_rows
        room = min(self.filled, self.rows) - start  # of more rows than were declared ``fold`` will tell
        self.seen(total)[:, start : start + room] = self.vectors.of(batch)[:, :room]

    def seen(self, total: Integers) -> NDArray[Any]:
        width = self.vectors.columns.width
        result: NDArray[Any] = total.view(self.vectors.whole)[: width * self.rows]
        return result.reshape(width, self.rows)


class Rows:
    """The sums of one step after another, from rows kept in memory if they take at most so many bytes."""

    def __init__(self, counts: Counts, vectors: Vectors, most: int) -> None:
        self.counts, self.vectors = counts, vectors
        self.kept: NDArray[Any] | None = None
        kept = Kept(vectors, counts.n)
        if counts.one_process and kept.bytes <= most:  # rows never leave the machines they are on
            self.kept = kept.seen(counts.fold(kept))

    def sums(self, weights: Integers) -> Integers:
        if self.kept is None:
            return self.counts.fold(HingeSums(self.vectors, weights))
        return hinge_sums(self.kept, weights, self.vectors.whitening.radius)


def hinge_sums(vectors: NDArray[Any], weights: Integers, radius: int) -> Integers:
    """One step's gradient sums of the clipped hinge loss: Σ r·v over rows v, 0 ≤ r ≤ LEVELS whole and smaller the
    farther ⟨w, v⟩ is above half of the margin."""
    total = np.zeros(len(vectors), dtype=np.int64)
    compile_loop(_add)(vectors, weights.astype(np.float64), 1 / (radius * WEIGHT_GRID), LEVELS, total)
    return total


# ---- kernels -------------------------------------------------------------------------------------------------------


def _cut(vectors: NDArray[Any], labels: NDArray[np.float64], radius: float, result: NDArray[Any]) -> None:
    squares, factors = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, vectors.shape[1], _BLOCK):
        size = min(_BLOCK, vectors.shape[1] - start)
        squares[:] = 0
        for j in range(len(vectors)):
            row = vectors[j, start : start + size]
            for i in range(size):
                squares[i] += np.float64(row[i]) * np.float64(row[i])
        for i in range(size):
            long = squares[i] > radius * radius
            factors[i] = labels[start + i] * (_CAREFUL * radius / np.sqrt(squares[i]) if long else 1.0)
        for j in range(len(vectors)):
            row, target = vectors[j, start : start + size], result[j, start : start + size]
            for i in range(size):
                target[i] = np.int32(row[i] * factors[i])  # towards 0: never longer [cut]


def _add(vectors: NDArray[Any], weights: NDArray[np.float64], unit: float, levels: int, total: Integers) -> None:
    inner, parts = np.empty(_BLOCK), np.empty(_BLOCK, np.int32)
    for start in range(0, vectors.shape[1], _BLOCK):
        size = min(_BLOCK, vectors.shape[1] - start)
        inner[:] = 0
        for j in range(len(vectors)):
            row, weight = vectors[j, start : start + size], weights[j]
            for i in range(size):
                inner[i] += weight * row[i]
        for i in range(size):
            lacking = 2 * (1 - inner[i] * unit)
            parts[i] = np.int32(np.rint(levels * min(max(lacking, 0.0), 1.0)))  # [levels]
        for j in range(len(vectors)):
            row, sums = vectors[j, start : start + size], np.int64(0)
            for i in range(size):
                sums += np.int64(row[i]) * np.int64(parts[i])
            total[j] += sums


# ---- the method ------------------------------------------------------------------------------------------------------

STEPS = 12
RATE = 2.0  # for each column: the most that a step goes
NOISE_RATE = 0.3  # all steps together go so far that noise moves a row by about this share of the margin
_LARGEST = 1 << 27  # of a weight on its grid: inner products stay below 2⁵³
_RARE = 200  # rows of first values for each of another
_ABOUT = 1e-2  # relative: how near the radius is to RADIUS
_NOISIER = 1.25  # than a Gram matrix, where that is still preferred


@dataclass(frozen=True, eq=False)
class Descent:
    task: Task
    steps: int = STEPS
    memory: int = 1 << 30

    @property
    def randomizes(self) -> bool:
        return False

    # ---- what it costs --------------------------------------------------------------------------------------------

    @cached_property
    def held(self) -> Counter[str]:
        """The features that each source can change in a descent step; the label counts as two, as much as all
        together."""
        return self.task.reach + Counter(dict.fromkeys(self.task.label_sources, 2))  # [one-feature]

    def _cost(self, held: int) -> int:
        """The cost of one descent step for so many changed features, in units."""
        return (0, self.quarter, 4 * self.quarter)[min(held, 2)]  # [quarter]

    @cached_property
    def quarter(self) -> int:
        """One feature's cost of a descent step: the label spends its whole budget over all steps, a feature at most
        half of it."""
        most = []
        for source, count in self.held.items():
            own = self.task.units[source] // (2 if source in self.task.feature_sources else 1)
            most.append(own // (self.steps * (1 if count == 1 else 4)))
        if most and min(most) < FEWEST_UNITS:
            raise BudgetError("The budget is too small for so many steps.", fix="Raise it or take fewer steps.")
        return min(most, default=0)

    def _steps_cost(self, steps: int) -> Guarantee:
        def cost(count: int) -> Fraction:
            return Fraction(steps * self._cost(count), UNIT)

        return curve(self.task.universe, self.held, cost)  # [hinge-steps]

    @cached_property
    def mechanism(self) -> GramMatrix:
        """The GramMatrix of the features alone that whitens rows before the descent, for the budget they have left."""
        spent = {source: self.steps * self._cost(self.held[source]) for source in self.task.feature_sources}
        rest = self.task.features_after(spent)
        return GramMatrix(Rho(1), rest.columns.attributes, self._encode(), None, rest.budgets())

    def _encode(self) -> dict[str, Any]:
        columns = self.task.columns
        return {name: how for name, how in columns.to_json().items() if name in columns.attributes}

    @cached_property
    def calibration(self) -> Calibration:
        return self.mechanism.calibration(self.task.schema)

    def guarantee(self) -> Guarantee:
        return self.calibration.guarantee() + self._steps_cost(self.steps)  # [features-first]

    def noise_uses(self) -> list[NoiseUse]:
        """The noise of the method "descent": the Gram matrix, and every step's sums over rows cut to about
        ``RADIUS``."""
        moved = {frozenset({s}): self.steps * self.moved(count, RADIUS) for s, count in self.held.items()}
        numbers, laws = (self.steps * self.task.width, self.step_laws()) if self.held else (0, ())
        charge = Charge(self._steps_cost(self.steps), moved)
        steps = NoiseUse.exactly("the steps' sums", "discrete_gaussian", numbers, charge, accuracy=_ABOUT, steps=laws)
        return [*with_steps(self.calibration.noise_uses(), self.mechanism), steps]

    def step_laws(self) -> tuple[NoisySums, ...]:
        """Exact laws of a descent step after two possible Gram matrices: of rare values, and of values that are all
        alike.

        Rare values go farthest in whitened coordinates. At weights of 0 every row counts in full.
        """
        columns, classes = self.calibration.columns, self.calibration.class_of
        signs = 1 - 2 * (np.arange(columns.width) % 2)
        results = []
        for often in (_RARE, 1):
            entries = often_first(columns, often)
            gram = NoisyGram(
                columns, len(entries), _products(entries), classes, np.zeros_like(self.calibration.class_scales)
            )
            whitening = Whitening.of(gram)
            for weights in (0 * signs, WEIGHT_GRID * signs):
                results.append(self._step_law(whitening, weights))
        return tuple(results)

    def _step_law(self, whitening: Whitening, weights: Integers) -> NoisySums:
        kernel = HingeSums(Vectors(self.task.columns, self.task.label, whitening), weights)
        reach, scale = LEVELS * whitening.radius, self.scale(whitening.radius)
        return NoisySums(self._steps_cost(1), scale, lambda counts: counts.fold(kernel), reach)

    @staticmethod
    def moved(held: int, radius: int) -> int:
        """The squared sensitivity of a descent step's sum to so many changed features in a row of this length."""
        return (0, 1, 4)[min(held, 2)] * (LEVELS * radius) ** 2

    def scale(self, radius: int) -> float:
        """The noise scale of a descent step, for rows of this length; 0 where nothing protected moves them."""
        return least_scale("gaussian", 4 * self.quarter, (2 * LEVELS * radius) ** 2) if self.held else 0.0  # [two]

    # ---- how well it will do --------------------------------------------------------------------------------------

    @property
    def _noise(self) -> float:
        """The noise in an entry of a descent step's sum, for rows of length 1."""
        return 2 / math.sqrt(8 * self.quarter / UNIT) if self.held else 0.0

    def suits(self) -> bool:
        """Whether all descent steps together have about as little noise as a Gram matrix leaves in products with the
        label.

        Where both have the same budget, so it is; not where labels are public, or nearly.
        """
        if not self.task.label_sources:
            return False
        mean = self._noise * math.sqrt(self.task.width / self.steps)
        label = min(self.task.units[source] for source in self.task.label_sources)
        least = 2 * math.sqrt(self.task.width * UNIT / (2 * label))  # what a label pays for in a Gram matrix at best
        return mean <= _NOISIER * least or mean <= _NOISIER * GramFit(self.task).label_noise()

    def rate(self, n: int) -> float:
        most = RATE * self.task.width
        return min(most, 2 * NOISE_RATE * n / (self._noise * math.sqrt(self.steps))) if self._noise else most

    def figures(self) -> dict[str, Any]:
        how = "charged in every step" if self.task.label_sources else "public"
        figures: dict[str, Any] = {"columns of ±1, with the intercept": self.task.width, "the label": how}
        expected = self.mechanism.expected_error(self.task.schema, self.task.n)
        figures |= {"noise scale of a product of two columns": expected.largest_scale, "noisy steps": self.steps}
        if self.task.n:
            figures["noise in an entry of a step's sum, as a share of the rows"] = self._noise / self.task.n
        return figures

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted:
        whitening = Whitening.of(self.mechanism.run(counts, noise))
        rows = Rows(counts, Vectors(self.task.columns, self.task.label, whitening), self.memory)
        scale = self.scale(whitening.radius)
        drawn = self._draw_noise(scale, noise)
        weights, total, taken = np.zeros(self.task.width), np.zeros(self.task.width), 0
        rate = self.rate(counts.n) / (LEVELS * whitening.radius * counts.n)
        for step in range(self.steps):
            on_grid = np.rint(weights * WEIGHT_GRID).clip(-_LARGEST, _LARGEST).astype(np.int64)
            weights = weights + rate * (rows.sums(on_grid) + drawn[step])  # [step-noise]
            counts.working("learning, step", step + 1, self.steps)
            if 2 * (step + 1) > self.steps:  # the mean of the later half
                total, taken = total + weights, taken + 1
        return Fitted(whitening.weights(_mean(total, taken)), self._facts(whitening, scale))

    def _draw_noise(self, scale: float, noise: NoiseSource) -> Integers:
        """Noise for all descent steps, one row per step, drawn at once."""
        shape = (self.steps, self.task.width)
        return noise.discrete_gaussian(scale, shape) if scale else np.zeros(shape, dtype=np.int64)

    def _facts(self, whitening: Whitening, scale: float) -> dict[str, Any]:
        each = scale / (LEVELS * whitening.radius)
        return {"steps": self.steps, "ridge": whitening.ridge, "noise_scale": each}

    def law(self, counts: Counts) -> Law:
        raise AuditError(
            "The exact output distribution of noisy steps is not available.", fix="Audit 'gram', or a step of your own."
        )


def often_first(columns: SignedColumns, often: int) -> Integers:
    """Rows of ±1 for a made-up Gram matrix: the first values so many times, and one row for every other value of every
    attribute."""
    codes = {block.attribute: 0 for block in columns.blocks}
    rows = [codes] * often
    for block in columns.blocks:
        rows = [*rows, *(codes | {block.attribute: code} for code in range(1, block.positive.shape[1]))]
    return columns.matrix({name: np.array([row[name] for row in rows]) for name in codes}).astype(np.int64)


def _products(signs: Integers) -> Integers:
    result: Integers = (signs.T @ signs)[np.triu_indices(signs.shape[1], 1)]
    return result


def _mean(total: Floats, taken: int) -> Floats:
    return np.asarray(total / taken)
