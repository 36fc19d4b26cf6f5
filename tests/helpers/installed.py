"""Packages installed for real into a folder of their own, and commands run there, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from every_mechanism import SCHEMA, codes

from nabladp.tables import decode

PLAN = """\
[table]
source = "people.parquet"
schema = "schema.toml"
[budget]
ledger = "ledger.db"
per_attribute = { pure = 2.0 }
[[release]]
name = "sick"
mechanism = "NAME"
column = "sick"
budget = { pure = 0.5 }
"""


def pip_install(package: Path, target: Path) -> Path:
    """From its pyproject.toml, as a user does; only the package index is asked for what builds it."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), str(package)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def run_python(path: Path, *arguments: str, cwd: Path, code: int | None = 0) -> str:
    """What a Python process prints that finds packages in ``path`` first."""
    environment = os.environ | {"PYTHONPATH": str(path)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done.stdout


class Desk:
    """A folder with a table, a schema and a plan for one mechanism, and the command run in it."""

    def __init__(self, path: Path, folder: Path, mechanism: str) -> None:
        self.path, self.folder = path, folder
        self.people = codes(400)
        pq.write_table(decode(SCHEMA, self.people), folder / "people.parquet")
        (folder / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
        (folder / "plan.toml").write_text(PLAN.replace("NAME", mechanism), encoding="utf-8")

    def ask(self, *command: str, code: int = 0) -> Any:
        said = run_python(self.path, "-m", "nabladp", *command, cwd=self.folder, code=code)
        return json.loads(said) if "--json" in command else said
