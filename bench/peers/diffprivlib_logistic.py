"""Run by .venv-peers-diffprivlib: ``python diffprivlib_logistic.py IN.npz OUT.npz``.

IN: ±1 rows ``x``, ``y`` to learn from, ``x_test``, ``y_test``, ``epsilons``, ``strengths`` (values of C), ``seed``.
OUT: ``accuracy`` on the test rows, a row for each ε, a column for each C; ``seconds`` and ``processor`` are of one fit.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from _measured import Clock, given
from diffprivlib.models import LogisticRegression


def main(source: str, target: str) -> None:
    warnings.simplefilter("ignore")  # it warns where it has not converged; the best C is taken anyway
    data = given(source)
    norm = float(np.sqrt(data["x"].shape[1]))  # of every row of ±1
    accuracy = np.zeros((len(data["epsilons"]), len(data["strengths"])))
    clock = Clock()
    for i, epsilon in enumerate(data["epsilons"]):
        for j, strength in enumerate(data["strengths"]):
            model = LogisticRegression(
                epsilon=float(epsilon), data_norm=norm, C=float(strength), max_iter=200, random_state=int(data["seed"])
            )
            model.fit(data["x"], data["y"])
            accuracy[i, j] = np.mean(model.predict(data["x_test"]) == data["y_test"])
    clock.keep(target, parts=accuracy.size, accuracy=accuracy)


if __name__ == "__main__":
    main(*sys.argv[1:])
