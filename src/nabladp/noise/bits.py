"""Where randomness comes from: sources of independent, uniform 64-bit words."""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


class BitSource(Protocol):
    def words(self, count: int) -> Words:
        """The next ``count`` words; read-only."""
        ...


class SystemBits:
    """Words from the operating system's cryptographic generator.

    Nothing is kept between calls, so neither a forked child nor a second thread can ever be handed words that somebody
    else has used. Draws are vectorised, so a buffer would save next to nothing.
    """

    def words(self, count: int) -> Words:
        return np.frombuffer(os.urandom(8 * count), dtype="<u8")


class SeededBits:
    """A reproducible stream for tests and examples: SHAKE-256 of (seed, block number). Never private.

    The stream does not depend on how it is asked for: ``words(a)`` then ``words(b)`` is ``words(a + b)``.
    """

    BLOCK = 8192

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._blocks = 0
        self._left: Words = np.empty(0, dtype="<u8")

    def words(self, count: int) -> Words:
        if count > len(self._left):
            missing = -(-(count - len(self._left)) // self.BLOCK)
            self._left = np.concatenate([self._left, *(self._next_block() for _ in range(missing))])
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def _next_block(self) -> Words:
        name = f"nabladp noise, seed {self._seed}, block {self._blocks}"
        self._blocks += 1
        return np.frombuffer(hashlib.shake_256(name.encode()).digest(8 * self.BLOCK), dtype="<u8")
