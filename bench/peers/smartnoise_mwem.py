"""Run by .venv-peers-smartnoise: ``python smartnoise_mwem.py IN.npz OUT.npz``: smartnoise-synth's MWEM.

IN: ``codes`` (a row for each person, a column for each attribute), ``sizes``, ``epsilon`` per person, ``k``,
``repeats``, ``rounds`` (0: its own number). OUT: its histogram's counts of every set of k columns one after another
(``counts``), a row for each repeat.

ε is pure, for one row more or less. It keeps a count for every possible record and goes through all of them for every
cell it has measured, so that only small tables can be tried. It takes the domain from the data, for nothing.
"""

from __future__ import annotations

import itertools
import random
import sys

import numpy as np
from _measured import Clock, given
from snsynth.mwem import MWEMSynthesizer
from snsynth.transform.table import NoTransformer

MOST_RECORDS = 1_000_000


def main(source: str, target: str) -> None:
    data = given(source)
    records = int(np.prod(data["sizes"].astype(object)))
    if records > MOST_RECORDS:
        raise SystemExit(f"it would keep a count for each of {records:.1e} possible records")
    if np.any(data["codes"].max(axis=0) + 1 != data["sizes"]) or data["codes"].min() != 0:
        raise SystemExit("not every value occurs, and it takes the domain from the data")
    repeats = int(data["repeats"])
    clock = Clock()
    clock.keep(target, repeats, counts=[one(data, seed) for seed in range(repeats)])


def one(data: dict[str, np.ndarray], seed: int) -> np.ndarray:
    random.seed(seed)
    np.random.seed(seed)
    k, rounds = int(data["k"]), int(data["rounds"]) or None
    mwem = MWEMSynthesizer(epsilon=float(data["epsilon"]), marginal_width=k, iterations=rounds)
    mwem.fit(data["codes"].astype(np.int64), transformer=NoTransformer())
    ((model, _, columns),) = mwem.synthetic_histograms
    model = np.moveaxis(model, range(model.ndim), columns)
    counts = []
    for chosen in itertools.combinations(range(model.ndim), k):
        others = tuple(i for i in range(model.ndim) if i not in chosen)
        counts.append(model.sum(axis=others).ravel())
    return np.concatenate(counts)


if __name__ == "__main__":
    main(*sys.argv[1:])
