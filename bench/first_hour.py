"""The first hour of a new user: from a raw CSV and its code book to an accepted plan, a release, a CSV and a
mean by group. Once with commands, once in Python.

``hand_typed_lines``  lines that differ between the drafts and the files used, in schema and plan together
``commands``          commands of ``nabladp`` from the CSV to the mean
``python_lines``      lines of Python that do the same
``seconds_commands``, ``seconds_python``  the machine's time for each
``means_covered``     released means whose interval holds the true one, of ``means``

The table is the Census excerpt of Massachusetts: 7,634 people, 24 columns of codes, ``N`` for not applicable, incomes
below zero; its code book is the data dictionary that comes with it.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench._binary import DATA

SECONDS = {"full": 60, "quick": 60}
EXCERPTS = DATA / "nist_acs_excerpts"

# What a person types into the drafts. INDP is the Census Bureau's industry code list of 2017: 0170 to 9920.
SCHEMA_EDITS = (
    ('low = "FILL IN: smallest"', "low = 170"),
    ('high = "FILL IN: largest"', "high = 9920"),
    ('null_values = ["FILL IN: the codes that mean missing"]', 'null_values = ["N"]'),
)
CONFIRMED = "confirm = "  # a line that is removed once a person has looked at the domain
RELEASE = """
[[release]]
name = "income"
mechanism = "Statistics"
mean = "PINCP"
by = "SEX"
budget = { cdp = 0.3 }
"""
COMMANDS = (
    "init people.csv --codebook codebook.json",
    # … the edits …
    "check plan.toml",
    "cost plan.toml",
    "release plan.toml --new-ledger",
    "show plan-release --csv",  # into a file
    "show plan-release/income",
)
DRAFT = """\
from pathlib import Path
from nabladp import draft_plan, draft_schema
Path("schema.toml").write_text(draft_schema("people.csv", "codebook.json"))
Path("plan.toml").write_text(draft_plan("people.csv"))
"""
PYTHON = """\
from nabladp import Plan, Release
plan = Plan.load("plan.toml")
assert plan.check() == []
cost = plan.cost()
print(cost.fits, *cost.verdict)
plan.run("plan-release", new_ledger=True)
releases = Release.load("plan-release")
releases.to_csv("values.csv")
print(releases["income"].to_csv())
"""


def run(quick: bool) -> dict[str, Any]:
    by_command, answer = _measured(_with_commands)
    in_python, answer_in_python = _measured(_with_python)
    truth = _true_means()
    found = [row for rows in (answer, answer_in_python) for row in csv.DictReader(rows.splitlines())]
    means = [row for row in found if row["SEX"] in truth]
    covered = [float(row["low"]) <= truth[row["SEX"]] <= float(row["high"]) for row in means]
    if len(means) != 2 * len(truth):
        raise RuntimeError("the means by group are not in the answer")
    return {
        "hand_typed_lines": by_command.typed,
        "commands": len(COMMANDS),
        "python_lines": len((DRAFT + PYTHON).splitlines()),
        "csv_lines": by_command.csv_lines,
        "means": len(means),
        "means_covered": sum(covered),
        "seconds_commands": round(by_command.seconds, 1),
        "seconds_python": round(in_python.seconds, 1),
    }


class _Desk:
    """A folder with the CSV and its code book, and what was done in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.typed, self.seconds, self.csv_lines = folder, 0, 0.0, 0
        with gzip.open(EXCERPTS / "ma2019.csv.gz") as packed, (folder / "people.csv").open("wb") as raw:
            shutil.copyfileobj(packed, raw)
        shutil.copy(EXCERPTS / "data_dictionary.json", folder / "codebook.json")

    def run(self, *arguments: str) -> str:
        start = time.perf_counter()
        environment = {**os.environ, "COLUMNS": "120"}
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        self.seconds += time.perf_counter() - start
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)[:80]}: {done.stderr[-500:]}")
        return done.stdout

    def edit(self) -> None:
        """Type what the drafts leave open, and count the lines that differ."""
        for name, change in (("schema.toml", _edit_schema), ("plan.toml", lambda text: text + RELEASE)):
            path = self.folder / name
            draft = path.read_text(encoding="utf-8")
            path.write_text(change(draft), encoding="utf-8")
            self.typed += _lines_that_differ(draft, path.read_text(encoding="utf-8"))


def _measured(work: Any) -> tuple[_Desk, str]:
    with tempfile.TemporaryDirectory() as folder:
        desk = _Desk(Path(folder))
        answer = work(desk)
        desk.csv_lines = len((desk.folder / "values.csv").read_text(encoding="utf-8").splitlines())
        return desk, answer


def _with_commands(desk: _Desk) -> str:
    first, *others = COMMANDS
    desk.run("-m", "nabladp", *first.split())
    desk.edit()
    for command in others:
        said = desk.run("-m", "nabladp", *command.split())
        if command.endswith("--csv"):
            (desk.folder / "values.csv").write_text(said, encoding="utf-8")
    if "Male" not in said or "Female" not in said:
        raise RuntimeError("the last command does not show the mean by group")
    return (desk.folder / "plan-release/income/values.csv").read_text(encoding="utf-8")


def _with_python(desk: _Desk) -> str:
    desk.run("-c", DRAFT)
    desk.edit()
    said = desk.run("-c", PYTHON)
    return said[said.index("\n") + 1 :]


def _edit_schema(draft: str) -> str:
    for old, new in SCHEMA_EDITS:
        if draft.count(old) != 1:
            raise RuntimeError(f"the draft no longer asks for {old}")
        draft = draft.replace(old, new)
    return "".join(line for line in draft.splitlines(keepends=True) if not line.startswith(CONFIRMED))


def _lines_that_differ(draft: str, used: str) -> int:
    """Lines typed, changed or removed; empty ones are typed, too."""
    steps = difflib.SequenceMatcher(None, draft.splitlines(), used.splitlines(), autojunk=False).get_opcodes()
    return sum(max(a1 - a0, b1 - b0) for kind, a0, a1, b0, b1 in steps if kind != "equal")


def _true_means() -> dict[str, float]:
    incomes = defaultdict(list)
    with gzip.open(EXCERPTS / "ma2019.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if row["PINCP"] != "N":
                incomes[row["SEX"]].append(float(row["PINCP"]))
    return {{"1": "Male", "2": "Female"}[sex]: statistics.fmean(values) for sex, values in incomes.items()}
