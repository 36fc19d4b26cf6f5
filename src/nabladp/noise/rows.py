"""Randomized response for the rows of a table, wherever they are read.

A row's answer follows from a secret key and the row's place alone. So a part of the table can be read twice, as a
cluster does when it loses a machine, and no row ever answers twice: two different answers about one person would say
more than one does. The key is 256 bits from the operating system; SHAKE-256 of it is the same kind of stream that the
operating system itself makes of its own secret.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from nabladp.noise.bits import Words
from nabladp.noise.draws import Draws

BLOCK = 1 << 13  # rows whose answers are drawn together, always from the start of a block


class KeyedBits:
    """Words of a secret key, for one block of rows."""

    def __init__(self, key: bytes, block: int) -> None:
        self._name = key + b" nabladp rows " + block.to_bytes(8, "little")
        self._taken = 0

    def words(self, count: int) -> Words:
        """Asked for again, which happens once in 2⁴⁰ words or so, it goes on in a stream of its own."""
        name = self._name + self._taken.to_bytes(8, "little")
        self._taken += count
        return np.frombuffer(hashlib.shake_256(name).digest(8 * count), dtype="<u8")


@dataclass(frozen=True)
class RowResponse:
    """Turns labels of 0 and 1: each is kept with probability ``keep``, by the place of its row. Picklable.

    Whoever sees it knows every row's answer: like the rows, it stays on the machines that read them.
    """

    keep: Fraction
    key: bytes = field(repr=False)

    def __call__(self, labels: NDArray[np.integer], first: int) -> NDArray[np.int64]:
        """Answers of the rows first, first + 1, …"""
        kept = self._kept(first, len(labels))
        return np.where(kept, labels, 1 - labels.astype(np.int64))

    def _kept(self, first: int, count: int) -> NDArray[np.bool_]:
        blocks = range(first // BLOCK, -(-(first + count) // BLOCK))
        drawn = [Draws(KeyedBits(self.key, block)).bernoulli(self.keep, BLOCK) for block in blocks]
        start = first % BLOCK
        return np.concatenate([np.empty(0, np.bool_), *drawn])[start : start + count]
