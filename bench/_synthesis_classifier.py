"""Predicting income above 50,000 on real rows, learnt from real rows, from our synthetic table, and from AIM's."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._synthesis_data import MODEL_MB, Data, acs, adult
from nabladp.mechanisms.synthesis.mechanism import Synthesis
from nabladp.noise import NoiseSource
from nabladp.privacy import Rho
from nabladp.schema import Attribute, Schema

LABEL = "income"
LABELS = ("adult", "acs")
FROM = 50_000
_SAME = ("PINCP", "PINCP_DECILE")  # columns that say what is to be predicted


def points_lost(found: Iterable[Mapping[str, Any]]) -> dict[str, object]:
    """Accuracy on rows held out, at ε0 = 1; AIM's ρ is a person's, ours an attribute's."""
    results: dict[str, object] = {}
    runs = list(found)
    for name, suffix in (("adult", ""), ("acs", "_acs")):
        own = [run["accuracy"] for run in runs if run["table"] == name]
        if not own:
            results[f"classifier_points_lost{suffix}"] = None
            continue
        mean = {method: 100 * statistics.fmean(each[method] for each in own) for method in own[0]}
        results[f"classifier_points_lost{suffix}"] = round(mean["real rows"] - mean["ours"], 2)
        results[f"classifier_points_lost_aim{suffix}"] = round(mean["real rows"] - mean["AIM"], 2)
        results[f"classifier_accuracy{suffix}"] = {method: round(value, 2) for method, value in mean.items()}
    return results


def classifier(table: str, seed: int) -> dict[str, Any]:
    from bench._synthesis_baselines import aim

    data = adult() if table == "adult" else income_known(acs())
    if data is None:
        raise RuntimeError("its file has gone")
    order = np.random.default_rng(seed).permutation(data.n)
    cut = round(0.7 * data.n)
    train, test = data.rows(order[:cut]), data.rows(order[cut:])
    mine = Synthesis(Rho(0.5), target=LABEL).run(train.table, NoiseSource.seeded(seed)).codes
    model = aim(train, 0.5, 2, seed, int(MODEL_MB * 1e6)).model
    theirs = None if model is None else model.draw(train.n, NoiseSource.seeded(seed))
    accuracies = {
        "real rows": accuracy(train.codes, test),
        "ours": accuracy(dict(mine or {}), test),
        "AIM": accuracy(dict(theirs or {}), test),
        "always the same": float(max(np.mean(test.codes[LABEL] == value) for value in (0, 1))),
    }
    return {"table": table, "accuracy": accuracies}


def income_known(data: Data | None) -> Data | None:
    """People whose income is known, whether it is above 50,000, and no other column of it."""
    if data is None:
        return None
    edges = data.schema["PINCP"].edges
    codes = data.codes["PINCP"]
    known = np.flatnonzero(codes < len(edges) - 1)
    kept = [attribute for attribute in data.schema if attribute.name not in _SAME]
    schema = Schema((*kept, Attribute(LABEL, "boolean")))
    chosen = {attribute.name: data.codes[attribute.name] for attribute in kept}
    label = (codes >= edges.index(FROM)).astype(np.uint8)
    return Data("acs, income", "mixed", schema, {**chosen, LABEL: label}).rows(known)


def accuracy(codes: dict[str, Any], test: Data) -> float:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=300).fit(indicators(codes, test.sizes), codes[LABEL])
    return float(model.score(indicators(test.codes, test.sizes), test.codes[LABEL]))


def indicators(codes: dict[str, Any], sizes: dict[str, int]) -> NDArray[np.float32]:
    """A column for each value of each attribute but the label."""
    columns = [codes[name][:, None] == np.arange(size) for name, size in sizes.items() if name != LABEL]
    return np.concatenate(columns, axis=1).astype(np.float32)
