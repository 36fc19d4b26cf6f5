"""Run by .venv-peers-mbi: ``python mbi_gaussian.py IN.npz OUT.npz``: mbi's inference over Gaussian marginals.

IN: ``codes`` (a row for each person, a column for each attribute), ``sizes``, ``rho`` per person, ``k``,
``repeats``, ``steps`` of the fit. OUT: the model's counts of every set of k columns one after another (``counts``), a
row for each repeat.

mbi fits a model to noisy marginals; what is measured, with what noise, is its caller's. Here: every set of k columns,
and Gaussian noise from numpy. ρ is for one row more or less.
"""

from __future__ import annotations

import itertools
import math
import sys

import jax
import numpy as np
from _measured import Clock, given

jax.config.update("jax_enable_x64", True)  # before mbi is loaded

from mbi import Domain, LinearMeasurement, estimation, junction_tree  # noqa: E402

MOST_MB = 64.0  # of the model; a table that needs more has a graph that mbi cannot hold, or only just


def main(source: str, target: str) -> None:
    data = given(source)
    names = [f"c{i}" for i in range(len(data["sizes"]))]
    domain = Domain(names, [int(size) for size in data["sizes"]])
    sets = list(itertools.combinations(names, int(data["k"])))
    needed = junction_tree.hypothetical_model_size(domain, sets)
    if needed > MOST_MB:
        raise SystemExit(f"its model of all {len(sets)} marginals would take {needed:,.0f} MB")
    clock = Clock()
    deviation = math.sqrt(len(sets) / (2 * float(data["rho"])))
    repeats = int(data["repeats"])
    fitted = []
    for seed in range(repeats):
        draw = np.random.default_rng(seed)
        measured = []
        for chosen in sets:
            true = marginal(data, [names.index(name) for name in chosen])
            measured.append(LinearMeasurement(true + draw.normal(0, deviation, true.size), chosen, stddev=deviation))
        model = estimation.MirrorDescent().estimate(
            domain, measured, known_total=float(len(data["codes"])), iters=int(data["steps"])
        )
        fitted.append(np.concatenate([np.asarray(model.project(chosen).datavector()) for chosen in sets]))
    clock.keep(target, repeats, counts=fitted)


def marginal(data: dict[str, np.ndarray], columns: list[int]) -> np.ndarray:
    shape = data["sizes"][columns]
    cells = np.ravel_multi_index(data["codes"][:, columns].T, shape)
    return np.bincount(cells, minlength=int(shape.prod()))


if __name__ == "__main__":
    main(*sys.argv[1:])
