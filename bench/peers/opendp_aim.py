"""Run by .venv-peers: ``python opendp_aim.py IN.npz OUT.npz``: OpenDP's own AIM, on mbi, over all sets of k columns.

IN: ``codes`` (a row for each person, a column for each attribute), ``sizes``, ``rho`` per person, ``k``, ``max_mb``.
OUT: ``seconds`` until the table is drawn, and the expected counts of every set of k columns one after another
(``counts``).

Its unit is one row more or less, which needs half the noise variance that changing a row needs: to its advantage.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import opendp.prelude as dp
import polars as pl
from _measured import Clock, given

ONE_WAY_SHARE = 1 / 16  # as published: the one-way marginals are the first d of 16·d rounds


def main(source: str, target: str) -> None:
    data = given(source)
    dp.enable_features("contrib")
    names = [f"c{i}" for i in range(data["codes"].shape[1])]
    frame = pl.DataFrame(dict(zip(names, data["codes"].T.astype(np.int64), strict=True)))
    # Every value is a bin of its own: declared keys would get one more for null.
    cuts = {name: list(range(int(size) - 1)) for name, size in zip(names, data["sizes"], strict=True)}
    clock = Clock()
    rho, k = float(data["rho"]), int(data["k"])
    context = dp.Context.compositor(
        data=frame.lazy(), privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho)
    )
    aim = dp.mbi.AIM(queries=k, oneway_split=ONE_WAY_SHARE, max_size=float(data["max_mb"]))
    table = context.query(rho=rho).contingency_table(cuts=cuts, algorithm=aim).release()
    table.synthesize(rows=len(frame))
    clock.stop()
    counts = [np.asarray(table.project(chosen)).ravel() for chosen in itertools.combinations(names, k)]
    clock.keep(target, counts=np.concatenate(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
