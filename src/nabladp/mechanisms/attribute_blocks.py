"""Attributes split into blocks by a public shuffle: a packing is drawn exactly within a block, not among very many."""

from __future__ import annotations

import hashlib
import itertools
import math


def split_into_blocks(names: tuple[str, ...], pieces: int, seed: int, number: int) -> list[tuple[str, ...]]:
    """The attributes in blocks of about equal size, by a shuffle that depends on seed and round number alone."""
    order = sorted(names, key=lambda name: hashlib.sha256(f"{seed}/{number}/{name}".encode()).digest())
    ends = _ends(len(names), pieces)
    return [tuple(order[a:b]) for a, b in itertools.pairwise(ends)]


def chance_of_one_block(d: int, pieces: int, size: int) -> float:
    """The probability that ``size`` of d attributes all lie in one block."""
    sizes = (b - a for a, b in itertools.pairwise(_ends(d, pieces)))
    return sum(math.comb(own, size) for own in sizes) / math.comb(d, size)


def _ends(d: int, pieces: int) -> list[int]:
    return [d * i // pieces for i in range(pieces + 1)]
