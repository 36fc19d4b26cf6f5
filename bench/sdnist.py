"""NIST's evaluation of synthetic tables, by its own package SDNist: the national 2019 excerpt of the ACS, its ten
demographic features, means over seeds.

``person``: a person's limit of (ε, δ) = (1, 1e-9); ``attribute``: ε0 = 1 for each attribute. The schema is that of
NIST's data dictionary: single years of age, no bins, no zeros, no rules. The rule by which Synthesis counts ages in
groups was chosen on other excerpts (national 2018, Massachusetts 2019). SDNist runs in an environment of its own
(``make peers``).
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from bench._binary import DATA
from bench.peers.processes import ROOT
from nabladp import CDP, Approx, Synthesis
from nabladp.noise import NoiseSource
from nabladp.release.evaluation import evaluate
from nabladp.schema import Attribute, Schema
from nabladp.tables import open_table

SECONDS = {"full": 240, "quick": 90}
FEATURES = ("AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE")
EXCERPTS = DATA / "nist_acs_excerpts"
PYTHON = ROOT / ".venv-peers-sdnist/bin/python"
OLDEST = 99  # years, as the data dictionary has it
PUBLISHED = {"AIM, person": 976, "MST, person": 958}  # k-marginal scores in the reports published with SDNist
LIMITS: dict[str, dict[str, Any]] = {"person": {"person": Approx(1, 1e-9)}, "attribute": {"budget": CDP(1)}}


def run(quick: bool) -> dict[str, object]:
    table = excerpt("national2019")
    if table is None or not PYTHON.exists():
        return {"person_score": None, "attribute_score": None, "why": "NIST's excerpts or `make peers` are missing"}
    found: dict[str, object] = {"published": PUBLISHED}
    own = schema()
    with tempfile.TemporaryDirectory(prefix="nabladp-sdnist-") as folder:
        data = sdnist_data(Path(folder) / "data")
        for name, limit in LIMITS.items():
            seeds = [scores(table, own, limit, seed, data) for seed in range(1 if quick else 3)]
            mean = {key: round(statistics.fmean(each[key] for each in seeds), 4) for key in seeds[0]}
            found[f"{name}_score"] = round(mean.pop("score"), 1)
            found |= {f"{name}_{key}": value for key, value in mean.items()}
    return found


def scores(table: pa.Table, own: Schema, limit: dict[str, Any], seed: int, data: Path) -> dict[str, float]:
    """SDNist's figures of one release, and our own k-marginal score, which should be the same."""
    rows = Synthesis(**limit).run(open_table(table, own), NoiseSource.seeded(seed)).synthetic
    file = data.parent / "synthetic.csv"
    missing = {name: pc.fill_null(rows[name].cast(pa.string()), "N") for name in FEATURES}
    csv.write_csv(pa.table(missing), file, csv.WriteOptions(quoting_style="none"))
    told = subprocess.run([PYTHON, ROOT / "bench/peers/sdnist_scores.py", data, file], capture_output=True, text=True)
    if told.returncode:
        raise RuntimeError(told.stderr[-2000:])
    theirs = json.loads(told.stdout.splitlines()[-1])
    return theirs | {"own_score": evaluate(table, rows, own, models=False).score}


def excerpt(name: str) -> pa.Table | None:
    """Texts, as NIST's file has them."""
    file = EXCERPTS / f"{name}.csv.gz"
    if not file.exists():
        return None
    with pa.input_stream(file, compression="gzip") as stream:
        names = stream.read().split(b"\n", 1)[0].decode().strip().split(",")
    texts = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    return csv.read_csv(file, convert_options=texts).select(FEATURES)


def schema() -> Schema:
    """The values that NIST's data dictionary lists; N is missing."""
    dictionary = json.loads((EXCERPTS / "data_dictionary.json").read_text())
    attributes = []
    for name in FEATURES:
        values = dictionary[name]["values"]
        if name == "AGEP":
            attributes.append(Attribute(name, "integer", low=0, high=OLDEST))
            continue
        known = tuple(value for value in values if value != "N")
        missing: dict[str, Any] = {"null": "category", "null_values": ("N",)} if "N" in values else {}
        attributes.append(Attribute(name, "categorical", values=known, **missing))
    return Schema(tuple(attributes))


def sdnist_data(folder: Path) -> Path:
    """A folder as SDNist would download it."""
    (folder / "national").mkdir(parents=True)
    with pa.input_stream(EXCERPTS / "national2019.csv.gz", compression="gzip") as stream:
        (folder / "national/national2019.csv").write_bytes(stream.read())
    shutil.copy(EXCERPTS / "national2019-schema.json", folder / "national/national2019.json")
    for name in ("data_dictionary.json", "mappings.json"):
        shutil.copy(EXCERPTS / name, folder / name)
    (folder / "config.json").write_text("{}")
    return folder
