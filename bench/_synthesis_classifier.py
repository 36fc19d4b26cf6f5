"""Predicting income on real rows of Adult, learnt from real rows, from our synthetic table, and from AIM's."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._synthesis_data import MODEL_MB, Data, adult
from nabladp.mechanisms.synthesis.mechanism import Synthesis
from nabladp.noise import NoiseSource
from nabladp.privacy import Rho


def classifiers(seeds: Iterable[int]) -> dict[str, object]:
    """Accuracy on rows held out, at ε0 = 1; AIM's ρ is a person's, ours an attribute's."""
    data = adult()
    if data is None:
        return {"classifier_points_lost": None}
    found = [classifier(data, seed) for seed in seeds]
    mean = {name: 100 * statistics.fmean(each[name] for each in found) for name in found[0]}
    return {
        "classifier_points_lost": round(mean["real rows"] - mean["ours"], 2),
        "classifier_points_lost_aim": round(mean["real rows"] - mean["AIM"], 2),
        "classifier_accuracy": {name: round(value, 2) for name, value in mean.items()},
    }


def classifier(data: Data, seed: int) -> dict[str, float]:
    from bench._synthesis_baselines import aim

    order = np.random.default_rng(seed).permutation(data.n)
    cut = round(0.7 * data.n)
    train, test = data.rows(order[:cut]), data.rows(order[cut:])
    mine = Synthesis(Rho(0.5), target="income").run(train.table, NoiseSource.seeded(seed)).codes
    model = aim(train, 0.5, 2, seed, int(MODEL_MB * 1e6)).model
    theirs = None if model is None else model.draw(train.n, NoiseSource.seeded(seed))
    return {
        "real rows": accuracy(train.codes, test),
        "ours": accuracy(dict(mine or {}), test),
        "AIM": accuracy(dict(theirs or {}), test),
        "always the same": float(max(np.mean(test.codes["income"] == value) for value in (0, 1))),
    }


def accuracy(codes: dict[str, Any], test: Data) -> float:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=300).fit(indicators(codes, test.sizes), codes["income"])
    return float(model.score(indicators(test.codes, test.sizes), test.codes["income"]))


def indicators(codes: dict[str, Any], sizes: dict[str, int]) -> NDArray[np.float32]:
    """A column for each value of each attribute but the label."""
    columns = [codes[name][:, None] == np.arange(size) for name, size in sizes.items() if name != "income"]
    return np.concatenate(columns, axis=1).astype(np.float32)
