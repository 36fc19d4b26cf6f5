"""Run by .venv-peers-diffprivlib: ``python diffprivlib_kmeans.py IN.npz OUT.npz``.

IN: rows ``x`` between 0 and 1, ``clusters``, ``epsilons``, ``seed``. OUT: ``centres`` for each ε.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from _measured import Clock, given
from diffprivlib.models import KMeans


def main(source: str, target: str) -> None:
    warnings.simplefilter("ignore")
    data = given(source)
    columns, clock, found = data["x"].shape[1], Clock(), []
    for epsilon in data["epsilons"]:
        more = {"bounds": (np.zeros(columns), np.ones(columns)), "random_state": int(data["seed"])}
        model = KMeans(int(data["clusters"]), epsilon=float(epsilon), **more)
        found.append(model.fit(data["x"]).cluster_centers_)
    clock.keep(target, parts=len(found), centres=np.array(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
