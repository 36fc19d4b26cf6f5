"""Estimators beside scikit-learn: its own checks, regression of income on ACS, several classes, Adult.

Income (adults with one, clamped to 0 … 200,000) from twelve columns of the American Community Survey's national excerpt
of 2018, 30 % of rows held out, each figure a mean over splits. R² lost is that of a ridge regression without privacy
less ours: once with ε0 for every attribute (CDP), once with the same ε0 as concentrated figure of a person. The peer is
diffprivlib LinearRegression, pure ε of a person, rows added or removed: on all columns or on the numbers alone,
whichever did better on the test rows, and never worse than the mean.

Clusters: k-means on synthetic rows of age, schooling and income; the sum of squared distances of the real rows to the
nearest centre, over that of k-means on the real rows, beside diffprivlib KMeans.
"""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from bench._binary import DATA
from bench._installed import installed
from bench._learning import task
from bench.halfspaces import ours
from nabladp import CDP, Attribute, Budget, GramMatrix, LinearClassifier, LinearRegressor, Rho, Schema, Synthesis
from nabladp.noise import NoiseSource
from nabladp.tables import open_table

SECONDS = {"full": 300, "quick": 100}
EPSILONS = (0.5, 1.0, 3.0)
ROOT = Path(__file__).resolve().parents[1]
PEER_PYTHON = ROOT / ".venv-peers-diffprivlib" / "bin" / "python"
PEERS = Path(__file__).parent / "peers"
EXCEPTIONS = {  # each fits twice and compares what two draws of noise made of it
    "check_fit_idempotent",
    "check_supervised_y_2d",
    "check_regressors_int",
    "check_regressor_data_not_an_array",
    "check_classifier_data_not_an_array",
}
HIGHEST = 200_000
CLUSTERS = 5
NUMBERS = {"AGEP": (0, 99), "EDU": (1, 12)}
YES_NO = ("SEX", "DREM", "DPHY", "DEYE", "DEAR")
KINDS = ("MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT")


def run(quick: bool) -> dict[str, object]:
    seeds = range(1 if quick else 5)
    return {**installed(), **checks(), **adult(seeds), **census(seeds), **clusters(seeds)}


def checks() -> dict[str, object]:
    from sklearn.utils.estimator_checks import check_estimator

    found: Counter[str] = Counter()
    unexpected: list[str] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more: dict[str, Any] = {"ledger": folder, "limits": Budget(per_attribute=Rho(1e9)), "bounds": (-100, 100)}
        for estimator in (
            LinearRegressor(Rho(1e6), target_bounds=(-1000, 1000), **more),
            LinearClassifier(Rho(1e6), classes="public", **more),
        ):
            for result in check_estimator(estimator, on_fail=None):
                expected = result["status"] == "failed" and result["check_name"] in EXCEPTIONS
                found["excepted" if expected else result["status"]] += 1
                unexpected += [result["check_name"]] if result["status"] == "failed" and not expected else []
    return {
        "check_estimator_passed": found["passed"],
        "check_estimator_exceptions": len(EXCEPTIONS),
        "check_estimator_failed": unexpected,
    }


def adult(seeds: range) -> dict[str, object]:
    table = task("adult")
    if table is None:
        return {"adult_accuracy_eps05": None}
    right = []
    for seed in seeds:
        train, test = table.split(seed)
        right.append(float(np.mean(ours(train, test, table.schema, table.label, 0.5, seed) == test.y)))
    return {"adult_accuracy_eps05": round(float(np.mean(right)), 4)}


# The American Community Survey


def people() -> pd.DataFrame:
    frame = pd.read_csv(DATA / "nist_acs_excerpts" / "national2018.csv.gz", dtype=str)
    frame = frame[frame["PINCP"] != "N"]
    numbers = {name: pd.to_numeric(frame[name], errors="coerce").clip(*ends) for name, ends in NUMBERS.items()}
    income = pd.to_numeric(frame["PINCP"], errors="coerce").clip(0, HIGHEST)
    level = pd.cut(numbers["EDU"], [0, 8, 10, 20], labels=["school", "college", "degree"]).astype(str)
    kinds = {name: frame[name].astype(str) for name in (*YES_NO, *KINDS)}
    return pd.DataFrame({**numbers, **kinds, "PINCP": income, "LEVEL": level}).dropna().reset_index(drop=True)


def schema_of(frame: pd.DataFrame) -> Schema:
    """Domains as the code book has them: the values of a category are those that occur in this public excerpt."""
    numbers = [Attribute(name, "integer", low=low, high=high) for name, (low, high) in NUMBERS.items()]
    kinds = [Attribute(name, "categorical", values=tuple(sorted(frame[name].unique()))) for name in (*YES_NO, *KINDS)]
    levels = ("school", "college", "degree")
    income = Attribute("PINCP", "real", low=0, high=HIGHEST, unknown="clamp")
    level = Attribute("LEVEL", "categorical", values=levels, derived_from=("EDU",))
    return Schema((*numbers, *kinds, income, level))


def census(seeds: range) -> dict[str, object]:
    if not (DATA / "nist_acs_excerpts").exists():
        return {}
    frame = people()
    schema = schema_of(frame)
    lost: dict[str, list[list[float]]] = {"attribute": [], "person": [], "diffprivlib": []}
    several: dict[str, list[float]] = {"ours": [], "one against the rest, not private": []}
    best = []
    for seed in seeds:
        train, test = halves(frame, seed)
        whole = r2(test["PINCP"], ridge_without_privacy(train, test))
        best.append(whole)
        lost["attribute"].append([whole - regression(train, test, schema, e, seed, False) for e in EPSILONS])
        lost["person"].append([whole - regression(train, test, schema, e, seed, True) for e in EPSILONS])
        peer = diffprivlib(train, test, seed)
        lost["diffprivlib"] += [] if peer is None else [[whole - own for own in peer]]
        own, public = classes(train, test, schema, seed)
        several["ours"].append(own)
        several["one against the rest, not private"].append(public)
    return {
        "r2_not_private": round(float(np.mean(best)), 4),
        "epsilons": EPSILONS,
        **{f"r2_lost_{name}": np.mean(runs, axis=0).round(4).tolist() for name, runs in lost.items() if runs},
        "multiclass_accuracy": {name: round(float(np.mean(runs)), 4) for name, runs in several.items()},
        "rows": len(frame),
    }


def halves(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    order = np.random.default_rng(seed).permutation(len(frame))
    cut = round(0.7 * len(frame))
    return frame.iloc[order[:cut]], frame.iloc[order[cut:]]


def r2(truth: pd.Series[float], fitted: Any) -> float:
    return float(1 - ((truth - fitted) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())


def regression(
    train: pd.DataFrame, test: pd.DataFrame, schema: Schema, epsilon: float, seed: int, person: bool
) -> float:
    over = (*NUMBERS, *YES_NO, *KINDS, "PINCP")
    encode = {**dict.fromkeys(NUMBERS, "number"), **dict.fromkeys(KINDS, "onehot"), "PINCP": "number"}
    budget: Any = CDP(epsilon)
    if person:  # the same concentrated figure, of all attributes together
        probe = GramMatrix(Rho(1), over=over, encode=encode).guarantee(schema, len(train))
        budget = Rho(epsilon**2 / 2 / probe.per_person().rho)
    table = open_table(pa.Table.from_pandas(train, preserve_index=False), schema)
    gram = GramMatrix(budget, over=over, encode=encode).run(table, NoiseSource.seeded(seed))
    return r2(test["PINCP"], gram.regress("PINCP").predict(pa.Table.from_pandas(test, preserve_index=False)))


def design(train: pd.DataFrame, test: pd.DataFrame) -> tuple[Any, Any]:
    """Numbers between −1 and 1, a column of ±1 for each kind."""
    both = pd.concat([train, test])
    numbers = [(2 * (both[name] - low) / (high - low) - 1).to_numpy()[:, None] for name, (low, high) in NUMBERS.items()]
    kinds = 2 * pd.get_dummies(both[[*YES_NO, *KINDS]]).to_numpy(dtype=float) - 1
    matrix = np.column_stack([*numbers, kinds])
    return matrix[: len(train)], matrix[len(train) :]


def ridge_without_privacy(train: pd.DataFrame, test: pd.DataFrame) -> Any:
    from sklearn.linear_model import Ridge

    x, x_test = design(train, test)
    return Ridge(1.0).fit(x, train["PINCP"]).predict(x_test)


def diffprivlib(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> list[float] | None:
    """The peer's R², the better of all columns and of the numbers alone, chosen on the test rows; at least 0."""
    if not PEER_PYTHON.exists():
        return None
    everything = design(train, test)
    numbers = (everything[0][:, : len(NUMBERS)], everything[1][:, : len(NUMBERS)])
    y, y_test = (2 * half["PINCP"].to_numpy() / HIGHEST - 1 for half in (train, test))
    found = [_peer(x, y, x_test, y_test, seed) for x, x_test in (everything, numbers)]
    return [max(0.0, *values) for values in zip(*found, strict=True)]


def _peer(x: Any, y: Any, x_test: Any, y_test: Any, seed: int) -> list[float]:
    given = {"x": x, "y": y, "x_test": x_test, "y_test": y_test, "epsilons": EPSILONS, "seed": seed}
    return [float(value) for value in peer_run("diffprivlib_linear.py", given)["r2"]]


def peer_run(script: str, given: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, **given)
        subprocess.run([PEER_PYTHON, PEERS / script, source, made], check=True, capture_output=True)
        with np.load(made) as found:
            return dict(found)


def classes(train: pd.DataFrame, test: pd.DataFrame, schema: Schema, seed: int) -> tuple[float, float]:
    """School, college or degree from all but the schooling itself, at ε0 = 1 for every attribute."""
    from sklearn.linear_model import RidgeClassifier

    over = ("AGEP", *YES_NO, *KINDS, "PINCP", "LEVEL")
    encode = {"AGEP": "number", "PINCP": "number", **dict.fromkeys((*KINDS, "LEVEL"), "onehot")}
    table = open_table(pa.Table.from_pandas(train, preserve_index=False), schema)
    gram = GramMatrix(CDP(1), over=over, encode=encode).run(table, NoiseSource.seeded(seed))
    said = gram.classify("LEVEL").predict(pa.Table.from_pandas(test, preserve_index=False))
    x, x_test = design(train, test)
    keep = [i for i in range(x.shape[1]) if i != list(NUMBERS).index("EDU")]
    extra = [(2 * half["PINCP"] / HIGHEST - 1).to_numpy()[:, None] for half in (train, test)]
    public = RidgeClassifier(1.0).fit(np.column_stack([x[:, keep], extra[0]]), train["LEVEL"])
    truth = test["LEVEL"].to_numpy()
    return float(np.mean(said == truth)), float(public.score(np.column_stack([x_test[:, keep], extra[1]]), truth))


# Clusters


def clusters(seeds: range) -> dict[str, object]:
    """k-means from synthetic rows, which costs no more than these do: per attribute, and per person."""
    if not (DATA / "nist_acs_excerpts").exists():
        return {}
    frame = people()[[*NUMBERS, "PINCP"]]
    numbers = [Attribute(name, "integer", low=low, high=high) for name, (low, high) in NUMBERS.items()]
    schema = Schema((*numbers, Attribute("PINCP", "real", low=0, high=HIGHEST, bins=40, unknown="clamp")))
    table = open_table(pa.Table.from_pandas(frame, preserve_index=False), schema)
    real = unit_cube(frame)
    best = distances(real, centres(real, 0))
    share = Synthesis(Rho(1)).guarantee(schema, len(frame)).per_person().rho
    over: dict[str, list[list[float]]] = {"attribute": [], "person": [], "diffprivlib": []}
    for seed in seeds:
        for name, factor in (("attribute", 1.0), ("person", share)):
            found = [Synthesis(Rho(e**2 / 2 / factor)).run(table, NoiseSource.seeded(seed)) for e in EPSILONS]
            rows = [model.sample(len(frame)).to_pandas()[list(frame.columns)] for model in found]
            over[name].append([distances(real, centres(unit_cube(own), seed)) / best for own in rows])
        if PEER_PYTHON.exists():
            given = {"x": real, "clusters": CLUSTERS, "epsilons": EPSILONS, "seed": seed}
            theirs = peer_run("diffprivlib_kmeans.py", given)["centres"]
            over["diffprivlib"].append([distances(real, own) / best for own in theirs])
    return {f"kmeans_over_best_{name}": np.mean(runs, axis=0).round(4).tolist() for name, runs in over.items() if runs}


def unit_cube(frame: pd.DataFrame) -> Any:
    low, high = np.array([*NUMBERS.values(), (0, HIGHEST)], dtype=float).T
    return (frame.to_numpy(dtype=float) - low) / (high - low)


def centres(rows: Any, seed: int) -> Any:
    from sklearn.cluster import KMeans

    return KMeans(CLUSTERS, n_init=5, random_state=seed).fit(rows).cluster_centers_


def distances(rows: Any, middles: Any) -> float:
    return float(((rows[:, None] - middles) ** 2).sum(axis=2).min(axis=1).sum())
