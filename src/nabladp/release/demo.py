"""The demo: a made-up population, the very command a user would run, and a comparison only its maker may see.

The comparison with the truth is possible because nobody in this population exists. It is not part of a release.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.errors import ReleaseError
from nabladp.mechanisms.noisy_marginals.output import predicted_error
from nabladp.noise import NoiseSource
from nabladp.privacy import Guarantee
from nabladp.release.cost import DELTA, figures
from nabladp.release.record import Release
from nabladp.schema import Attribute, Schema
from nabladp.tables import open_table

# ---- a made-up population --------------------------------------------------------------------------------------------

REGIONS = ("north", "south", "east", "west", "capital", "islands")
RACES = ("white", "black", "asian", "native", "mixed", "other race")
EDUCATION = ("none", "primary", "secondary", "college", "graduate")
OCCUPATIONS = ("not working", "farming", "industry", "trade", "office", "care", "teaching", "management")
MARITAL = ("single", "married", "separated", "widowed")
TENURE = ("owner", "renter", "rent free")
INCOME_EDGES = (0, 5_000, 10_000, 15_000, 20_000, 30_000, 40_000, 50_000, 75_000, 100_000, 150_000, 250_000)
COMMUTE_EDGES = (0, 10, 20, 30, 45, 60, 90, 180)

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=REGIONS),
        Attribute("age", "integer", low=0, high=99),
        Attribute("sex", "categorical", values=("female", "male")),
        Attribute("race", "categorical", values=RACES),
        Attribute("ethnicity", "categorical", values=("hispanic", "not hispanic")),
        Attribute("education", "ordered", values=EDUCATION),
        Attribute("occupation", "categorical", values=OCCUPATIONS),
        Attribute("income", "real", edges=INCOME_EDGES, unknown="clamp"),
        Attribute("marital", "categorical", values=MARITAL),
        Attribute("disability", "boolean"),
        Attribute("tenure", "categorical", values=TENURE),
        Attribute("commute", "real", edges=COMMUTE_EDGES, null="category"),
    )
)

Codes = NDArray[np.int64]


def make_people(people: int, seed: int = 2020) -> dict[str, list[object] | NDArray[np.float64] | Codes]:
    """The demo's made-up population, columns by name. Everything follows from uniform draws of a seeded source."""
    uniform = NoiseSource.seeded(seed).uniform_integers(1 << 32, (13, people)) / float(1 << 32)
    region = _pick(uniform[0], [[0.2, 0.22, 0.18, 0.16, 0.2, 0.04]])
    age = np.minimum((99 * uniform[1] ** 1.15).astype(np.int64), 99)
    sex = _pick(uniform[2], [[0.51, 0.49]])
    race = _pick(uniform[3], _tilt([0.66, 0.13, 0.07, 0.02, 0.07, 0.05], len(REGIONS), 0.9), region)
    ethnicity = _pick(uniform[4], _tilt([0.18, 0.82], len(RACES), 1.4), race)
    band = np.digitize(age, [12, 18, 25, 65])  # child, youth, young, adult, old
    schooling: list[list[float]] = [[0.7, 0.3, 0, 0, 0], [0.05, 0.35, 0.6, 0, 0], [0.02, 0.08, 0.5, 0.35, 0.05]]
    schooling += [[0.03, 0.12, 0.4, 0.3, 0.15], [0.06, 0.3, 0.4, 0.16, 0.08]]
    education = _pick(uniform[5], schooling, band)
    working = (age >= 16) & (uniform[6] < np.where(age < 25, 0.55, np.where(age < 65, 0.8, 0.15)))
    jobs = [[0.2, 0.35, 0.3, 0.05, 0.09, 0.005, 0.005], [0.15, 0.35, 0.3, 0.08, 0.1, 0.01, 0.01]]
    jobs += [[0.06, 0.25, 0.3, 0.2, 0.13, 0.02, 0.04], [0.02, 0.1, 0.15, 0.35, 0.15, 0.1, 0.13]]
    jobs += [[0.01, 0.05, 0.06, 0.33, 0.15, 0.2, 0.2]]
    occupation = np.where(working, 1 + _pick(uniform[7], jobs, education), 0)
    disability = uniform[8] < 0.03 + 0.25 * (age / 99) ** 2
    level = 9.4 + 0.22 * education + 0.1 * occupation + 0.012 * np.minimum(age, 60) - 0.25 * disability
    income = np.where(working, np.exp(level + _bell(uniform[9]) * 0.45), 9_000 * (age >= 65) * (0.5 + uniform[9]))
    couples: list[list[float]] = [
        [1, 0, 0, 0],
        [0.97, 0.03, 0, 0],
        [0.7, 0.27, 0.03, 0],
        [0.25, 0.6, 0.12, 0.03],
        [0.1, 0.5, 0.1, 0.3],
    ]
    marital = _pick(uniform[10], couples, band)
    homes = [[0.35, 0.6, 0.05], [0.68, 0.29, 0.03], [0.45, 0.5, 0.05], [0.72, 0.24, 0.04]]
    tenure = _pick(uniform[11], homes, marital)
    commute = np.where(working, np.minimum(60 * uniform[12] ** 1.6 + 18 * (region == 4) + 3, 180), np.nan)
    return {
        "region": _names(REGIONS, region),
        "age": age,
        "sex": _names(("female", "male"), sex),
        "race": _names(RACES, race),
        "ethnicity": _names(("hispanic", "not hispanic"), ethnicity),
        "education": _names(EDUCATION, education),
        "occupation": _names(OCCUPATIONS, occupation),
        "income": np.round(income, 2),
        "marital": _names(MARITAL, marital),
        "disability": [bool(value) for value in disability],
        "tenure": _names(TENURE, tenure),
        "commute": np.round(commute, 1),
    }


def _pick(uniform: NDArray[np.float64], rows: Sequence[Sequence[float]], given: Codes | None = None) -> Codes:
    """A code per made-up person, from the row of probabilities that belongs to another attribute's code."""
    bounds = np.cumsum(np.array(rows, dtype=np.float64), axis=1)
    bounds /= bounds[:, -1:]
    chosen = bounds[given] if given is not None else bounds[np.zeros(len(uniform), dtype=np.int64)]
    codes: Codes = np.minimum((uniform[:, None] >= chosen).sum(axis=1), bounds.shape[1] - 1)
    return codes


def _tilt(base: Sequence[float], groups: int, strength: float) -> list[list[float]]:
    """Shares for every group of made-up people, each tilted a little towards another value."""
    return [[p * (strength + 1 if i == g % len(base) else 1) for i, p in enumerate(base)] for g in range(groups)]


def _bell(uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """A rough bell curve for made-up people from one uniform draw (the logistic quantile, scaled)."""
    inside = np.clip(uniform, 1e-6, 1 - 1e-6)
    return np.log(inside / (1 - inside)) * 0.55


def _names(values: Sequence[str], codes: Codes) -> list[object]:
    return list(np.array(values, dtype=object)[codes])


# ---- a made-up country -----------------------------------------------------------------------------------------------

_NORTH_WEST, _NORTH_EAST, _SOUTH_EAST, _SOUTH_WEST = (-3.6, 2.4), (2.6, 2.2), (2.3, -1.9), (-2.7, -2.2)
_CAPITAL = [(-1.2, 1.6), (0.8, 1.9), (1.7, 0.4), (0.7, -1.1), (-1, -1.3), (-1.9, 0.2)]
_COAST = [(-5.9, 2.8), (-6, 4), (-4.5, 5.2), (-2.5, 5.6), (-0.5, 5.1), (1.5, 5.8), (3.5, 5), (4.6, 3.6), (4.2, 2)]
_COAST += [(5.4, 0.4), (4.8, -1.5), (3.4, -2.6), (2.2, -4.4), (0.2, -5.2), (-1.6, -4.6), (-3.2, -5), (-4.4, -3.2)]
_COAST += [(-6.2, -2), (-5.6, -0.2), (-6.8, 1.4)]
LAND = {
    "north": [[*_COAST[:9], _NORTH_EAST, _CAPITAL[1], _CAPITAL[0], _NORTH_WEST]],
    "east": [[*_COAST[8:12], _SOUTH_EAST, *_CAPITAL[3:0:-1], _NORTH_EAST]],
    "south": [[*_COAST[11:17], _SOUTH_WEST, _CAPITAL[4], _CAPITAL[3], _SOUTH_EAST]],
    "west": [[*_COAST[16:], _COAST[0], _NORTH_WEST, _CAPITAL[0], _CAPITAL[5], _CAPITAL[4], _SOUTH_WEST]],
    "capital": [_CAPITAL],
    "islands": [
        [(5.4, -3.1), (6.2, -2.6), (7.3, -3.2), (6.9, -4.1), (5.8, -4)],
        [(4.6, -4.8), (5.3, -4.5), (5.7, -5.3), (4.9, -5.6)],
        [(7.1, -4.8), (7.8, -4.5), (7.9, -5.4)],
    ],
}


def country_map() -> dict[str, Any]:
    """The regions of the made-up country as GeoJSON."""
    features = [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": {"type": "MultiPolygon", "coordinates": [[[*ring, ring[0]]] for ring in rings]},
        }
        for name, rings in LAND.items()
    ]
    return {"type": "FeatureCollection", "features": features}


# ---- the demo --------------------------------------------------------------------------------------------------------

PEOPLE, SCHEMA_FILE, PLAN_FILE, MAP, OUT = (
    "people.parquet",
    "schema.toml",
    "plan.toml",
    "regions.geojson",
    "plan-release",
)
PLAN = """# A plan says what is released from which table under which budget.
[table]
source = "people.parquet"
schema = "schema.toml"
rows = {people}

[budget]
ledger = "ledger.db"
per_attribute = {{ cdp = 0.5 }}
attributes = {{ disability = {{ cdp = 0.3 }} }}
sets = {{ "race+ethnicity" = {{ rho = 0.15 }} }}
person = {{ rho = 1.0 }}

[[release]]
name = "single-columns"
mechanism = "NoisyMarginals"
k = 1
budget = {{ cdp = 0.1 }}

[[release]]
name = "pairs-and-triples"
mechanism = "NoisyMarginals"
sets = [["region", "income"], ["age", "sex"], ["race", "ethnicity"], ["education", "occupation"],
        ["income", "disability"], ["region", "tenure", "marital"], ["occupation", "commute"]]
budget = {{ cdp = 0.25 }}

[[adversary]]
name = "a neighbour curious about income and health"
attributes = ["income", "disability"]

[[adversary]]
name = "an official after origin"
attributes = ["race", "ethnicity"]

[report.shapes]
region = {{ file = "regions.geojson", key = "name" }}
"""


def run_demo(folder: Path, people: int, quiet: bool = False) -> dict[str, Any]:
    """Run the demo: write population, schema and plan, run ``nabladp release plan.toml --new-ledger``, compare with the
    truth."""
    write_inputs(folder, people)
    release(folder, quiet)
    return compare(folder)


def write_inputs(folder: Path, people: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if people < 1000:
        raise ReleaseError("The demo needs at least 1,000 people.", fix="Leave --people out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ReleaseError(f"{folder.name!r} is not empty.", fix="Give the demo a new folder.")
        pq.write_table(pa.table(make_people(people)), folder / PEOPLE)
        SCHEMA.save(folder / SCHEMA_FILE)
        (folder / MAP).write_text(json.dumps(country_map()), encoding="utf-8")
        (folder / PLAN_FILE).write_text(PLAN.format(people=people), encoding="utf-8")
    except OSError:
        raise ReleaseError(f"Cannot write into {folder.name!r}.", fix="Choose a folder that is writable.") from None


def release(folder: Path, quiet: bool) -> None:
    """Release the demo's plan by the very command a user would run, in a process of its own."""
    command = [sys.executable, "-m", "nabladp", "release", PLAN_FILE, "--new-ledger", *(["--json"] if quiet else [])]
    done = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE if quiet else None)
    if done.returncode:
        reason = json.loads(done.stdout)["message"] if quiet else "The message above says why."
        raise ReleaseError(f"The demo's release failed. {reason}", fix="Mend that, and give the demo a new folder.")


def compare(folder: Path) -> dict[str, Any]:
    """Compare the demo's release with its population: figures, and errors, predicted beside actual."""
    releases = [Release.read(folder / OUT / name) for name in ("single-columns", "pairs-and-triples")]
    total = Guarantee.compose(SCHEMA, [release.guarantee for release in releases])
    return {
        "folder": str(folder / OUT),
        "figures": figures(total, releases[0].adversaries, DELTA),
        "errors": [row for release in releases for row in _compare_tables(release, folder / PEOPLE)],
    }


def _compare_tables(release: Release, source: Path) -> list[dict[str, Any]]:
    tables = list(release.output)
    truth = open_table(source, SCHEMA).marginals([table.attributes for table in tables])
    rows = []
    for table, true, expected in zip(tables, truth, release.expected_error, strict=True):
        gap = np.abs(table.values - true)
        rows.append(
            {
                "marginal": "+".join(table.attributes),
                "cells": int(gap.size),
                "predicted": predicted_error(table, expected),
                "actual": float(gap.mean()),
                "covered": float((gap <= table.half_width()).mean()),
            }
        )
    return rows
