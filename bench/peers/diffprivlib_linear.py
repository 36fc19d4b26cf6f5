"""Run by .venv-peers-diffprivlib: ``python diffprivlib_linear.py IN.npz OUT.npz``.

IN: rows ``x``, ``y`` to learn from and ``x_test``, ``y_test``, all scaled to −1 … 1, ``epsilons``, ``seed``.
OUT: ``r2`` on the test rows, for each ε; ``seconds`` and ``processor`` are of one fit.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from _measured import Clock, given
from diffprivlib.models import LinearRegression


def main(source: str, target: str) -> None:
    warnings.simplefilter("ignore")
    data = given(source)
    ends = (-np.ones(data["x"].shape[1]), np.ones(data["x"].shape[1]))
    spread = ((data["y_test"] - data["y_test"].mean()) ** 2).sum()
    clock, found = Clock(), []
    for epsilon in data["epsilons"]:
        model = LinearRegression(
            epsilon=float(epsilon), bounds_X=ends, bounds_y=(-1, 1), random_state=int(data["seed"])
        )
        model.fit(data["x"], data["y"])
        found.append(1 - ((data["y_test"] - model.predict(data["x_test"])) ** 2).sum() / spread)
    clock.keep(target, parts=len(found), r2=np.array(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
