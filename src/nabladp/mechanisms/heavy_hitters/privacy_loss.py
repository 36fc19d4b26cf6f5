"""The exact privacy loss of finding and counting, per attribute; PROOF.md proves that it is an upper bound.

On the way to the root an attribute meets thresholds τ_1 ≤ … ≤ τ_H. The string that loses a row has counts that fall
towards the root, and pays step(f − τ_i) wherever it passes. A step is 0 up to −μ, then 1/λ, and never grows again:
the worst counts are all equal, just above the cut-off τ_k − μ of some node k. The string that gains the row pays 1/λ,
once: having failed, it is no candidate above.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from nabladp.arrays import Floats
from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree

_SLACK = 1e-12  # relative: far above the rounding of the sums of a few dozen positive terms below
_PRECISION = 1e-9  # relative, of the scale that least_lambda finds


def log_pass_step(x: ArrayLike, mu: int, lam: float) -> Floats:
    """ln[P(x)/P(x−1)], P(x) = Pr[max(x, −μ) + Z > 0]: the privacy loss of one row for a passing string with f − τ = x.

    For 1 < x it is ln[(1 − q^x/(1+q)) / (1 − q^(x−1)/(1+q))] with q = e^(−1/λ), written so that nothing cancels.
    """
    x = np.asarray(x, dtype=np.float64)
    power, q = np.exp(-np.maximum(x - 1, 1) / lam), math.exp(-1 / lam)
    above = np.log1p(power * -math.expm1(-1 / lam) / (1 + (q - power)))
    return np.where(x <= -mu, 0.0, np.where(x <= 1, 1 / lam, np.minimum(above, 1 / lam)))


def path_chain(thresholds: Sequence[int], mu: int, lam: float) -> float:
    """The privacy loss of a path's thresholds, max over k of Σ_{i ≤ k} step(τ_k − μ + 1 − τ_i); never too small.

    Thresholds never fall on the way to the root.
    """
    return _worst_chain(_offsets(thresholds, mu), mu, lam)


def _offsets(thresholds: Sequence[int], mu: int) -> Floats:
    """τ_k − μ + 1 − τ_i in row k and column i; −∞, which costs nothing, for i > k."""
    levels = np.asarray(thresholds, dtype=np.float64)
    if len(levels) == 0 or np.any(levels[1:] < levels[:-1]):
        raise ValueError("A path needs a threshold, and thresholds must not fall on the way to the root.")
    return np.where(np.tri(len(levels), dtype=bool), levels[:, None] - levels[None, :] + (1 - mu), -np.inf)


def _worst_chain(offsets: Floats, mu: int, lam: float) -> float:
    return float(log_pass_step(offsets, mu, lam).sum(axis=1).max()) * (1 + _SLACK)


def chain(length: int, mu: int, lam: float, rise: int | None = None) -> float:
    """The privacy loss of ``length`` thresholds on a path that rise by ``rise`` each (default: μ)."""
    return path_chain([(mu if rise is None else rise) * i for i in range(length)], mu, lam)


def tree_loss(length: int, mu: int, lam: float, rise: int | None = None) -> float:
    """The privacy loss per attribute of all lists of the pure tree."""
    return chain(length, mu, lam, rise) + 1 / lam * (1 + _SLACK)  # [one-failure]


def counting_loss(lam: float, beta: float) -> float:
    """The privacy loss that counts of scale β on the root's list add, once for any set: max(1/β, 2/β − 1/λ)."""
    return max(1 / beta, 2 / beta - 1 / lam) * (1 + _SLACK)


def total_loss(length: int, mu: int, lam: float, beta: float, rise: int | None = None) -> float:
    """The privacy loss of one attribute, lists and counts together: chain + max(1/λ + 1/β, 2/β)."""
    return tree_loss(length, mu, lam, rise) + counting_loss(lam, beta)


def count_scale(lam: float, allowed: float) -> float:
    """The smallest noise scale β of the counts whose loss, beside a tree of noise scale λ, is at most ``allowed``."""
    return (1 + 4 * _SLACK) / min(allowed, (allowed + 1 / lam) / 2)


def least_lambda(length: int, mu: int, epsilon: float, rise: int | None = None) -> float:
    """The smallest noise scale λ (to 1e-9) of the tree whose privacy loss is at most ε."""
    return least_path_lambda([(mu if rise is None else rise) * i for i in range(length)], mu, epsilon)


def least_path_lambda(thresholds: Sequence[int], mu: int, epsilon: float) -> float:
    """The smallest λ for a path with any thresholds: between 2/ε (one step and one failure) and (H + 1)/ε (every step
    at its largest)."""
    if not (0 < epsilon < math.inf):
        raise ValueError("The privacy loss allowed must be positive and finite.")

    offsets = _offsets(thresholds, mu)

    def loss(lam: float) -> float:
        return _worst_chain(offsets, mu, lam) + 1 / lam * (1 + _SLACK)

    low, high = 2 / epsilon, (len(thresholds) + 1) / epsilon * (1 + 4 * _SLACK)
    for _ in range(20):  # λ·loss(λ) hardly depends on λ: this gets close within a few steps …
        guess = low * loss(low) / epsilon
        if guess - low <= _PRECISION / 4 * low:
            break
        low = guess
    near = low * (1 + _PRECISION / 2)  # … and whatever it has found is checked
    if near < high and loss(near) <= epsilon and loss(low * (1 - _PRECISION / 2)) > epsilon:
        return near
    return _bisect(lambda lam: loss(lam) <= epsilon, 2 / epsilon, high)


def _bisect(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest noise scale that is enough, by bisection; ``high`` is known to be enough, and so is the result."""
    while high - low > _PRECISION * low:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def path_loss(thresholds: Sequence[int], mu: int, lam: float) -> float:
    """The privacy loss of the lists of one path, all of whose nodes have noise of scale λ."""
    return path_chain(thresholds, mu, lam) + 1 / lam * (1 + _SLACK)


def finding_losses(tree: Tree, levels: Sequence[Level], mu: int) -> tuple[float, ...]:
    """The privacy loss of every attribute for the lists of the pure tree, chain_j + 1/λ, by the thresholds on its
    path."""
    paths: list[list[int]] = [[] for _ in tree.sizes]
    for node in tree.nodes:
        if node.thresholded:
            for attribute in node.attributes:
                paths[attribute].append(node.level - tree.lowest)
    lam = levels[0].scale
    known: dict[tuple[int, ...], float] = {}
    for path in {tuple(path) for path in paths}:
        # [one-failure] the second term
        known[path] = path_loss([levels[i].threshold for i in path], mu, lam)
    return tuple(known[tuple(path)] for path in paths)


def shared_losses(tree: Tree, levels: Sequence[Level], mu: int) -> list[tuple[tuple[int, ...], float]]:
    """chain + 1/λ once for all attributes that share a path of the pure tree: any set of them pays it once."""
    each = finding_losses(tree, levels, mu)
    groups: dict[int, list[int]] = {}
    for attribute, node in enumerate(tree.lowest_nodes):
        groups.setdefault(node, []).append(attribute)
    return [(tuple(held), each[held[0]]) for held in groups.values()]


def node_rho(scale: float) -> float:
    """The ρ that a thresholded node with discrete Gaussian noise costs every set that meets it: two counts move by
    one."""
    return 1 / scale**2 * (1 + _SLACK)


def losses(settings: Settings) -> tuple[float, ...]:
    """The whole privacy loss of every single attribute under these HeavyHitters settings: ε (pure) or ρ (cdp)."""
    if settings.notion == "pure":
        beta = settings.count_scale
        counts = 0.0 if beta is None else counting_loss(settings.levels[0].scale, beta)
        return tuple(loss + counts for loss in finding_losses(settings.tree, settings.levels, settings.mu))
    spent = [0.0] * len(settings.tree.sizes)
    for node in settings.tree.nodes:
        if node.thresholded:
            for attribute in node.attributes:
                spent[attribute] += node_rho(settings.level_of(node).scale)
    if settings.count_scale is None:
        return tuple(spent)
    return tuple(rho + node_rho(settings.count_scale) for rho in spent)
