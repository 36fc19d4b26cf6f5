"""From noisy marginals to a model: the flattest distribution that agrees with them as far as their noise deserves.

``fit`` builds the junction tree and hands the convex problem (``Dual``) to ``minimise``."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.errors import MechanismError, MissingPart
from nabladp.mechanisms.synthesis.inference.junction_tree import (
    BYTES_A_CELL,
    JunctionTree,
    admit,
    model_bytes,
    refuse_too_large,
)
from nabladp.mechanisms.synthesis.inference.measurement import (
    Measurement,
    Names,
    Zeros,
    check,
    combined,
    spread,
    sum_to,
)
from nabladp.mechanisms.synthesis.inference.model import Model
from nabladp.mechanisms.synthesis.inference.pooling import Parts, Residual, residuals
from nabladp.mechanisms.synthesis.inference.potentials import Network

# ---- the same fit by mbi ---------------------------------------------------------------------------------------------

STEPS = 1000  # between two looks at how far the fit is
MOST_LOOKS = 10
CLOSE = 0.1  # deviations of the noise that the last so many steps may still have moved an average cell


def fit_with_mbi(
    tree: JunctionTree, total: float, measurements: Sequence[Measurement], zeros: Sequence[Zeros], cliques: list[Names]
) -> Model:
    """Fit the model with mbi: least squares over the same junction tree, by mirror descent, until it no longer
    moves."""
    if zeros:
        raise MechanismError("mbi knows no declared zeros.", fix='Leave back_end = "mbi" out, or declare no zeros.')
    inside = combined(part for m in measurements for part in _held_marginals(tree, m))
    mbi, jax = _packages()
    with jax.enable_x64(True):
        domain = mbi.Domain(tuple(tree.sizes), tuple(tree.sizes.values()))
        loss = [
            mbi.LinearMeasurement(m.values.ravel(), m.attributes, stddev=math.sqrt(m.variance)) for m in inside
        ]  # fmt: skip
        result, before, gap = None, [np.full(m.values.shape, math.inf) for m in inside], math.inf
        looks = 0
        while gap > CLOSE and looks < MOST_LOOKS:
            result = mbi.estimation.MirrorDescent().estimate(
                domain, loss, known_total=total, iters=STEPS, warm_start=result
            )
            now = [np.asarray(result.project(m.attributes).datavector()).reshape(m.values.shape) for m in inside]
            gap = max((_moved(a, b, m.variance) for a, b, m in zip(before, now, inside, strict=True)), default=0.0)
            before, looks = now, looks + 1
        potentials = _potentials(result, tree)
    network = Network(tree, [names for names, _ in potentials])
    tables = [sum_to(table, names, network.sub_tables[i].names) for i, (names, table) in enumerate(potentials)]
    return Model(
        network, total, tables, cliques=cliques, gap=gap, converged=gap <= CLOSE, steps=looks * STEPS
    )  # fmt: skip


def _packages() -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that numbers are single, which is changed for the fit alone
        try:
            import jax
            import mbi
            import mbi.estimation
        except ImportError:
            raise MissingPart('back_end = "mbi" needs mbi.', fix="Install nabladp[synthesis].") from None
    return mbi, jax


def _held_marginals(tree: JunctionTree, m: Measurement) -> Iterator[Measurement]:
    """A measured marginal, or its largest sub-marginals that clusters of the junction tree hold."""
    for size in range(len(m.attributes), 0, -1):
        kept = [part for part in itertools.combinations(m.attributes, size) if tree.home(part) is not None]
        for part in kept:
            table = sum_to(m.values, m.attributes, part)
            yield Measurement(part, table, m.variance * m.values.size / table.size)
        if kept:
            return


def _moved(before: Floats, now: Floats, variance: float) -> float:
    return math.sqrt(float(((now - before) ** 2).mean()) / variance)


def _potentials(result: Any, tree: JunctionTree) -> list[tuple[Names, Floats]]:
    if result is None:  # nothing was measured
        return []
    tables = [(tuple(clique), result.potentials[clique]) for clique in result.potentials.cliques]
    return [
        (clique, np.asarray(factor.transpose(clique).values, dtype=np.float64)) for clique, factor in tables if clique
    ]


# ---- minimising: limited-memory BFGS ---------------------------------------------------------------------------------

Value = Callable[[Floats], tuple[float, Floats]]
MEMORY = 8
_ENOUGH = 1e-4  # of the decrease that the slope promises
_FLAT = 0.9  # of the slope: a step that leaves more is too short
_TRIES = 20


def minimise(value: Value, start: Floats, done: Callable[[Floats], bool], most: int) -> tuple[Floats, Floats, int]:
    """Minimise a function by L-BFGS: where it stopped, the gradient there, and the number of evaluations. Stops when
    ``done(gradient)``.

    Variables should be scaled so that the curvature is about one.
    """
    x = start
    now, gradient = value(x)
    asked = 1
    memory: deque[tuple[Floats, Floats, float]] = deque(maxlen=MEMORY)
    while not done(gradient) and asked < most:
        direction = _direction(gradient, memory)
        slope = float(gradient @ direction)
        if slope >= 0:  # only rounding is left of the slope, or the memory has gone stale
            if not memory:
                break
            memory.clear()
            continue
        step = 1.0 if memory else min(1.0, 1.0 / float(np.abs(gradient).max()))
        low, high = 0.0, np.inf
        for _ in range(_TRIES):
            there = x + step * direction
            then, slope_vector = value(there)
            asked += 1
            if not then <= now + _ENOUGH * step * slope + 1e-12 * abs(now):
                high = step
            elif float(slope_vector @ direction) < _FLAT * slope:
                low = step
            else:
                break
            step = (low + high) / 2 if np.isfinite(high) else 4 * step
        else:
            if not memory:
                break
            memory.clear()
            continue
        moved, turned = there - x, slope_vector - gradient
        bend = float(moved @ turned)
        if bend > 0:
            memory.append((moved, turned, bend))
        x, now, gradient = there, then, slope_vector
    return x, gradient, asked


def _direction(gradient: Floats, memory: deque[tuple[Floats, Floats, float]]) -> Floats:
    """The L-BFGS direction: minus the inverse curvature, as far as the last steps have shown it, times the gradient."""
    q = -gradient
    shares = []
    for moved, turned, bend in reversed(memory):
        share = float(moved @ q) / bend
        q -= share * turned
        shares.append(share)
    if memory:
        _, turned, bend = memory[-1]
        q *= bend / float(turned @ turned)
    for (moved, turned, bend), share in zip(memory, reversed(shares), strict=True):
        q += (share - float(turned @ q) / bend) * moved
    return q


# ---- the convex problem ----------------------------------------------------------------------------------------------

_SMOOTH_ONE, _SMOOTH = 0.2, 0.7  # how strongly residuals on one attribute, and on several, are drawn towards zero
_LEAST_DEVIATION = 0.05  # of a row: no fit has to be closer than whole rows
_WORST = 10  # a single part may be so many times as far off as all are on average


class Dual:
    """n·ln Z(Φ) − Σ_A ⟨Φ_A, z_A⟩ + ½·Σ_A r_A·|Φ_A|², to be minimised.

    z_A are the measured residuals (see ``residuals``), Φ_A those of the sum of all potentials, and r_A is about half a
    deviation of z_A: at the optimum the model misses z_A by r_A·Φ_A. This is the dual of minimising n·KL(p ‖ uniform)
    + Σ_A |n·p_A − z_A|²/(2·r_A) over distributions p.

    Potentials θ_S are kept on the largest measured sets that clusters hold. What several of them could hold alike may
    lie with any: only Φ counts. So no step is spent on shifting it to and fro, which would take most of them.
    """

    def __init__(
        self,
        tree: JunctionTree,
        total: float,
        known: Mapping[Names, Residual],
        zeros: Sequence[Zeros],
        ridge: float = 1.0,
    ) -> None:
        inside = [part for part in known if tree.home(part) is not None]
        largest = [part for part in inside if not any(set(part) < set(other) for other in inside)]
        self.total = total
        self.network = Network(tree, largest, zeros)
        self.sub_tables = self.network.sub_tables
        self.parts = Parts(tree.sizes, [sub_table.names for sub_table in self.sub_tables], inside)
        self._refuse_nothing_left()
        order = [known[part] for part in self.parts.parts]
        deviation = np.array([max(math.sqrt(r.variance), _LEAST_DEVIATION) for r in order])
        pull = ridge * deviation * [_SMOOTH_ONE if len(part) == 1 else _SMOOTH for part in self.parts.parts]
        self.variance = deviation**2
        self.pull = np.repeat(pull, np.diff(self.parts.bounds))
        at = self.parts.at
        even = np.repeat(total / np.diff(at), np.diff(at))
        self.target = self.parts.spread(np.concatenate([_NONE, *(r.values.ravel() for r in order)])) + even
        strength = dict(zip(self.parts.parts, pull, strict=True))
        own = np.repeat([strength[tuple(sorted(sub_table.names))] for sub_table in self.sub_tables], np.diff(at))
        self.scale = 1 / np.sqrt(np.maximum(self.target, 0) + own)  # about the curvature in each direction
        self._room = self.network.empty()

    def _refuse_nothing_left(self) -> None:
        if math.isinf(self.network.beliefs([np.zeros(sub_table.shape) for sub_table in self.sub_tables])[0]):
            raise MechanismError(
                "The declared zeros contradict each other: no combination of values is left.",
                fix="Declare fewer combinations impossible.",
            )

    def split(self, theta: Floats) -> list[Floats]:
        at = self.parts.at
        return [theta[at[i] : at[i + 1]].reshape(sub_table.shape) for i, sub_table in enumerate(self.sub_tables)]

    def value(self, theta: Floats) -> tuple[float, Floats]:
        """The dual objective of the fit at these potentials, and its gradient."""
        log_total, beliefs = self.network.beliefs(self.split(theta), self._room)
        mean = np.concatenate([table.ravel() for table in self.network.marginals(beliefs)])
        pulled = self.parts.spread(self.parts.centred(self.parts.means(theta)) * self.pull)
        mean *= self.total
        mean -= self.target
        return self.total * log_total + float(theta @ (pulled / 2 - self.target)), mean + pulled

    def gap(self, gradient: Floats) -> float:
        """A bound on how far the fitted model is from the optimum, in deviations of the noise: the root mean square
        over all residuals, or a tenth of the worst residual's, whichever is larger.

        The gradient g of a residual bounds it: moving to the optimum changes n·p by H(H+R)⁻¹g, where H ≥ 0 is the
        curvature of n·ln Z and R that of the rest, and that is no longer than g in R's norm.
        """
        squares = np.add.reduceat(self.parts.of(gradient) ** 2, self.parts.bounds[:-1]) / self.variance
        worst = float((squares / self.parts.dimensions).max())
        return max(math.sqrt(float(squares.sum() / self.parts.dimensions.sum())), math.sqrt(worst) / _WORST)

    def solve(self, warm: Iterable[tuple[Names, Floats]], close: float, most: int) -> tuple[list[Floats], float, int]:
        """Fit the potentials: the potentials, the gap, and the number of evaluations."""
        if not self.sub_tables:
            return [], 0.0, 0

        def scaled(x: Floats) -> tuple[float, Floats]:
            value, gradient = self.value(x * self.scale)
            return value, gradient * self.scale

        def done(gradient: Floats) -> bool:
            return self.gap(gradient / self.scale) <= close

        x, gradient, asked = minimise(scaled, self._start(warm) / self.scale, done, most)
        return self.split(x * self.scale), self.gap(gradient / self.scale), asked

    def _start(self, warm: Iterable[tuple[Names, Floats]]) -> Floats:
        """Start potentials from an earlier fit, as far as a table of the new problem holds their attributes."""
        theta = np.zeros(len(self.target))
        tables = self.split(theta)
        for names, potential in warm:
            home = next((i for i, sub_table in enumerate(self.sub_tables) if set(names) <= set(sub_table.names)), None)
            if home is not None:
                tables[home] += spread(potential, names, self.sub_tables[home].names)
        return theta


_NONE = np.empty(0)
MOST_STEPS = 2000
LIMIT_BYTES = 1 << 26


def fit(
    sizes: Mapping[str, int],
    total: float,
    measurements: Sequence[Measurement],
    *,
    cliques: Iterable[Sequence[str]] | None = None,
    limit_bytes: int = LIMIT_BYTES,
    warm: Model | None = None,
    zeros: Sequence[Zeros] = (),
    back_end: str = "own",
    close: float = CLOSE,
    ridge: float = 1.0,
    most_steps: int = MOST_STEPS,
) -> Model:
    """Fit a graphical model of ``total`` rows to all noisy marginals.

    ``cliques`` are the sets that the model's clusters must hold; if not given, what was measured, in that order, as far
    as ``limit_bytes`` allows. Of what was measured on other sets the part that clusters do hold counts too. ``warm`` is
    an earlier model to start from, whatever its cliques. ``zeros`` never get any mass. ``close`` says when to stop (see
    ``Dual.gap``) and ``ridge`` how smooth the result is; the model says whether it converged.
    """
    check(sizes, measurements, zeros)
    always = [z.attributes for z in zeros]
    if cliques is None:
        cliques = admit(sizes, [m.attributes for m in measurements], limit_bytes, always=always)
    held = [*always, *map(tuple, cliques)]
    refuse_too_large(sizes, held, limit_bytes)
    tree = JunctionTree(sizes, held)
    if back_end == "mbi":
        return fit_with_mbi(tree, float(total), [_possible(m, zeros) for m in measurements], zeros, held)
    if back_end != "own":
        raise MechanismError(f"There is no back end {back_end!r}.", fix='Use "own" or "mbi".')
    dual = Dual(tree, float(total), residuals(_possible(m, zeros) for m in measurements), zeros, ridge)
    tables, gap, steps = dual.solve(warm.potentials() if warm is not None else (), close, most_steps)
    return Model(
        dual.network, float(total), tables, zeros=zeros, cliques=held, gap=gap, converged=gap <= close, steps=steps
    )


def _possible(m: Measurement, zeros: Sequence[Zeros]) -> Measurement:
    """A measured marginal without its impossible cells, whose counts are known to be noise."""
    values = m.values
    for z in zeros:
        if set(z.attributes) <= set(m.attributes):
            values = np.where(spread(z.forbidden, z.attributes, m.attributes), 0.0, values)
    return m if values is m.values else Measurement(m.attributes, values, m.variance, grouped=m.grouped)


def fit_seconds(sizes: Mapping[str, int], cliques: Sequence[Sequence[str]], steps: int = 60) -> float:
    """About how long fitting a model from scratch takes on one core, from public facts only: good to a factor of
    three."""
    cells = model_bytes(sizes, cliques) / BYTES_A_CELL
    return 0.02 + steps * (8e-5 * len(sizes) + 2e-8 * cells)
