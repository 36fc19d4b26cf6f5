"""Run by .venv-peers: ``python opendp_gaussian.py IN.npz OUT.npz``: OpenDP's Gaussian noise on every set of k columns.

IN: ``codes`` (a row for each person, a column for each attribute), ``sizes``, ``rho`` per person, ``k``,
``repeats``. OUT: noisy counts of every set of k columns one after another (``counts``), a row for each repeat.

ρ is for one row more or less, which moves one cell of every marginal by one: distance 1 in L2.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import opendp.prelude as dp
from _measured import Clock, given
from opendp.core import as_array


def main(source: str, target: str) -> None:
    data = given(source)
    dp.enable_features("contrib")
    clock = Clock()
    codes, sizes = data["codes"], data["sizes"]
    sets = list(itertools.combinations(range(len(sizes)), int(data["k"])))
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    each = float(data["rho"]) / len(sets)
    scale = dp.binary_search_param(lambda s: dp.m.make_gaussian(*space, scale=s), d_in=1.0, d_out=each)
    release = dp.m.make_gaussian(*space, scale=scale) >> as_array()
    repeats = int(data["repeats"])
    noisy = [np.concatenate([release(marginal(codes, sizes, s)) for s in sets]) for _ in range(repeats)]
    clock.keep(target, repeats, counts=noisy)


def marginal(codes: np.ndarray, sizes: np.ndarray, chosen: tuple[int, ...]) -> np.ndarray:
    shape = sizes[list(chosen)]
    cells = np.ravel_multi_index(codes[:, chosen].T, shape)
    return np.bincount(cells, minlength=int(shape.prod())).astype(np.int64)


if __name__ == "__main__":
    main(*sys.argv[1:])
