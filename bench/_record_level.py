"""Learners that protect whole records: ρ-zCDP per person, a row replaced, on the same ±1 columns as ours.

Each returns a weight vector (the intercept first) for every setting it could have been run with. Who compares with them
takes the learner and the setting that are best on the test rows: a favour, as finding them would cost budget.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Single = NDArray[np.float32]
Weights = dict[str, Floats]  # by setting


@dataclass(frozen=True, eq=False)
class SignedRows:
    """±1 columns with the intercept in front, and ±1 labels."""

    z: Single
    y: Single

    @classmethod
    def of(cls, x: NDArray[np.int8], y: NDArray[np.int8]) -> SignedRows:
        z = np.ones((len(y), 1 + x.shape[1]), dtype=np.float32)
        z[:, 1:] = x
        return cls(z, y.astype(np.float32))

    @property
    def width(self) -> int:
        return int(self.z.shape[1])


Learner = Callable[[SignedRows, float, np.random.Generator], Weights]


def averaging(rows: SignedRows, rho: float, draw: np.random.Generator) -> Weights:
    """Σ y·z: another record moves it by at most 2√p."""
    total = (rows.y @ rows.z).astype(np.float64)
    return {"once": total + draw.normal(0, 2 * math.sqrt(rows.width / (2 * rho)), rows.width)}


def gram(rows: SignedRows, rho: float, draw: np.random.Generator) -> Weights:
    """The Gram matrix of all columns and the label, with noise above the diagonal, then a regression.

    Another record may flip any t of the P columns; the t·(P − t) pairs of a flipped and an unflipped one move by 2.
    Directions lost in the noise are held down by a ridge, or by lifting small eigenvalues to the noise's norm.
    """
    both = np.column_stack([rows.z, rows.y])
    width = both.shape[1]
    scale = 2 * math.sqrt((width // 2) * (width - width // 2) / (2 * rho))
    noise = np.triu(draw.normal(0, scale, (width, width)), 1)
    noisy = (both.T @ both).astype(np.float64) + noise + noise.T
    products, with_label = noisy[:-1, :-1], noisy[:-1, -1]
    values, vectors = np.linalg.eigh(products)
    half = scale * math.sqrt(width)  # of what the noise's spectral norm hardly ever exceeds
    lifted = {f"lifted {c}": vectors @ (vectors.T @ with_label / np.maximum(values, c * half)) for c in (1, 2, 3)}
    ridged = {f"ridge {c}": np.linalg.solve(products + c * half * np.eye(width - 1), with_label) for c in (1, 2, 3)}
    return lifted | ridged


STEPS, RATES, CLIPS = (20, 80, 320), (4.0, 16.0, 64.0, 256.0), (1.0, 0.25)


def gradient(rows: SignedRows, rho: float, draw: np.random.Generator) -> Weights:
    """Logistic regression on rows of norm 1, each row's gradient cut to length ``clip``, noise in every step.

    Gives the mean of the later half of the iterates. A logistic gradient is never longer than its row, so clip 1 cuts
    nothing. All rates and clips are run side by side, as one matrix.
    """
    settings = [(rate, clip) for rate in RATES for clip in CLIPS]
    rate, clip = (np.array(each, dtype=np.float32) for each in zip(*settings, strict=True))
    signed = rows.z * (rows.y / np.float32(math.sqrt(rows.width)))[:, None]
    found: Weights = {}
    for steps in STEPS:
        scale = 2 * clip * np.float32(math.sqrt(steps / (2 * rho)))  # another record moves a step's sum by 2·clip
        weights = np.zeros((rows.width, len(settings)), dtype=np.float32)
        later = np.zeros(weights.shape)
        for step in range(steps):
            length = np.minimum(1 / (1 + np.exp(np.clip(signed @ weights, -30, 30))), clip)
            noise = scale * draw.standard_normal(weights.shape, dtype=np.float32)
            weights += rate / np.float32(len(rows.y)) * (signed.T @ length + noise)
            if 2 * step >= steps:
                later += weights
        found |= {f"{steps} steps, rate {r:g}, clip {c:g}": later[:, i] for i, (r, c) in enumerate(settings)}
    return found


SHARES, RIDGES = (0.1, 0.3, 0.5), (0.5, 2.0)


def whitened(rows: SignedRows, rho: float, draw: np.random.Generator) -> Weights:
    """Ours, for whole records: a share of ρ for the Gram matrix of the features, the rest for 12 steps of a hinge.

    Rows are whitened by the noisy matrix and cut to their usual length; another record moves a step's sum by 2. Not the
    label but the Gram matrix makes the difference: here a record may flip half of the columns.
    """
    p, n, steps = rows.width, len(rows.y), 12
    exact = (rows.z.T @ rows.z).astype(np.float64) / n
    found: Weights = {}
    for share, ridges in itertools.product(SHARES, RIDGES):
        scale = 2 * math.sqrt((p // 2) * (p - p // 2) / (2 * share * rho)) / n
        noise = np.triu(draw.normal(0, scale, (p, p)), 1)
        inverse, length = _whitening(exact + noise + noise.T, scale, 2 * ridges * scale * math.sqrt(p))
        turned = rows.z @ inverse.T.astype(np.float32)
        shorter = np.maximum(np.linalg.norm(turned, axis=1), length)
        signed = turned * (rows.y / shorter)[:, None].astype(np.float32)
        rest = 2 * (1 - share) * rho
        rate = min(2.0 * p, 0.3 * n * math.sqrt(rest) / steps) / n
        weights, later = np.zeros(p), np.zeros(p)
        for step in range(steps):
            lacking = np.clip(2 * (1 - signed @ weights.astype(np.float32)), 0, 1)
            weights = weights + rate * (lacking @ signed + draw.normal(0, 2 * math.sqrt(steps / rest), p))
            if 2 * (step + 1) > steps:
                later += weights
        found[f"share {share:g}, ridge {ridges:g}"] = later @ inverse
    return found


def _whitening(gram: Floats, scale: float, ridge: float) -> tuple[Floats, float]:
    """The inverse root of the matrix with a ridge, and the usual length of a row that it is applied to."""
    one = np.eye(len(gram))
    while True:
        try:
            inverse = np.linalg.inv(np.linalg.cholesky(gram + ridge * one))
            break
        except np.linalg.LinAlgError:
            ridge *= 2
    product = inverse.T @ inverse
    own = np.diag(product)
    follows = np.outer(own, own) + product**2
    square = len(own) - ridge * own.sum() + scale**2 * (follows.sum() - np.trace(follows))
    return inverse, math.sqrt(min(max(square, 1.0), len(own)))


LEARNERS: dict[str, Learner] = {
    "averaging": averaging,
    "gram": gram,
    "gradient": gradient,
    "whitened": whitened,
}
