"""Positions of synthetic numbers inside their bins that follow the bins beside them: ``decode = "smooth"``.

What is known are the synthetic rows in every bin. Inside a bin the density is taken to be exponential: its slope is
that of the bins on both sides, and in a bin at an end it goes on from where the next one leaves off, so that a wide top
bin becomes a tail. A bin a hundred times as dense as both of its neighbours is a point mass at its lower edge, and so
is one that holds a single number (``spikes``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.schema import Attribute, Schema

POINT_MASS = 100.0  # times as dense as the bins beside it
_STEEPEST = 3.0  # the log of the density's ratio between the edges of a bin that has neighbours
_LONGEST = 700.0  # the same for a tail
_THINNEST = 1e-300
_MANY = 10  # rows that a point mass has at least
_SOME = 0.5  # rows added to each bin, so that each has a density


def smooth(schema: Schema, codes: Mapping[str, NDArray[Any]], within: Mapping[str, NDArray[np.float32]]) -> Any:
    """Uniform positions inside bins, made to follow the bins' densities for columns decoded as "smooth"."""
    return {
        name: _follow(schema[name], codes[name], uniform) if schema[name].decode == "smooth" else uniform
        for name, uniform in within.items()
    }


def _follow(attribute: Attribute, codes: NDArray[Any], uniform: NDArray[np.float32]) -> NDArray[np.float32]:
    bins = attribute.ordered_size
    counts = np.bincount(codes, minlength=attribute.size)[:bins]
    falls = np.zeros(attribute.size)  # null and other have no position
    falls[:bins] = density_falls(counts, np.array(attribute.edges))
    own = falls[codes]
    steep = np.where(np.abs(own) < 1e-6, 1.0, np.minimum(own, _LONGEST))
    followed = -np.log1p(-uniform * -np.expm1(-steep)) / steep
    position = np.where(np.abs(own) < 1e-6, uniform, followed)
    return np.asarray(np.where(own == math.inf, 0.0, np.clip(position, 0.0, 1.0)), np.float32)


def density_falls(counts: NDArray[Any], edges: Floats) -> Floats:
    """By which logarithm the density falls from the lower to the upper edge of each bin; infinite for a point mass."""
    with np.errstate(all="ignore"):  # edges may be as far apart as numbers can be
        falls = _falls(counts, edges)
    return np.nan_to_num(falls, nan=0.0, posinf=math.inf)


def _falls(counts: NDArray[Any], edges: Floats) -> Floats:
    widths = np.diff(edges)
    density = np.maximum((counts + _SOME) / widths, _THINNEST)
    falls = np.full(len(counts), math.inf)
    single = np.nextafter(edges[:-1], np.inf) == edges[1:]  # bins of one number, declared as spikes
    wide = np.flatnonzero(~single)
    spread = wide[~(_point_masses(density[wide]) & (counts[wide] >= _MANY))]
    if len(spread) < 2:
        falls[spread] = 0.0
        return falls
    logs, middle = np.log(density[spread]), (edges[1:] / 2 + edges[:-1] / 2)[spread]
    slopes = np.empty(len(spread))
    slopes[1:-1] = (logs[2:] - logs[:-2]) / (middle[2:] - middle[:-2])
    slopes[0], slopes[-1] = 0.0, 0.0
    falls[spread] = np.clip(-slopes * widths[spread], -_STEEPEST, _STEEPEST)
    falls[spread[-1]] = _tail(density[spread][::-1], widths[spread][::-1])
    falls[spread[0]] = -_tail(density[spread], widths[spread])
    return falls


def _point_masses(density: Floats) -> NDArray[np.bool_]:
    beside = np.full((2, len(density)), 0.0)
    beside[0, 1:], beside[1, :-1] = density[:-1], density[1:]
    return np.asarray((density > POINT_MASS * beside.max(axis=0)) & (len(density) > 1))


def _tail(density: Floats, widths: Floats) -> float:
    """How much the density falls towards the end of the first of these bins, so that it meets that of the second."""
    slope = min(0.0, math.log(density[1] / density[2]) * 2 / (widths[1] + widths[2])) if len(density) > 2 else 0.0
    ratio = density[1] * math.exp(max(slope * widths[1] / 2, -_STEEPEST)) / density[0]
    if ratio <= 1:
        return 0.0
    low, high = 0.0, _LONGEST  # ratio = fall/(1 − e^−fall), which grows with the fall
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle < -math.expm1(-middle) * ratio else (low, middle)
    return low
