"""Minimising a smooth convex function of many variables: limited-memory BFGS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from nabladp.arrays import Floats

Value = Callable[[Floats], tuple[float, Floats]]
MEMORY = 8
_ENOUGH = 1e-4  # of the decrease that the slope promises
_FLAT = 0.9  # of the slope: a step that leaves more is too short
_TRIES = 20


def minimise(value: Value, start: Floats, done: Callable[[Floats], bool], most: int) -> tuple[Floats, Floats, int]:
    """Where it stopped, the gradient there, and how often the function was asked. Stops when ``done(gradient)``.

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
    """Minus the inverse curvature, as far as the last steps have shown it, times the gradient."""
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
