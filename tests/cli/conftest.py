"""A desk: a folder with a table, a schema and a plan, and the real commands to run there."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from plans import changed
from schema_texts import AGE

from nabladp.cli import main
from nabladp.errors import NablaDPError
from nabladp.privacy import Ledger

SCHEMA = f"""
[[attribute]]
name = "region"
kind = "categorical"
values = ["north", "south", "east"]

{AGE}[[attribute]]
name = "income"
kind = "real"
edges = [0, 10000, 50000, 100000]

[[attribute]]
name = "health"
kind = "boolean"
"""
PLAN = """
[table]
source = "people.csv"
schema = "schema.toml"

[budget]
ledger = "ledger.db"
per_attribute = { cdp = 0.5 }
sets = { "age+income" = { rho = 0.2 } }
person = { rho = 1.0 }

[[release]]
name = "pairs"
mechanism = "NoisyMarginals"
sets = [["region", "income"], ["health"]]
budget = { cdp = 0.2 }

[[adversary]]
name = "a neighbour"
attributes = ["income", "health"]
"""
NAMES = ["region", "age", "income", "health"]


def people(rows: int = 60) -> list[list[str]]:
    return [
        [("north", "south", "east")[i % 3], str(i % 100), str(997 * i % 100_000), ("true", "false")[i % 2]]
        for i in range(rows)
    ]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Everything, without line breaks: what a terminal wraps is still one sentence."""
        return " ".join((self.out + " " + self.err).split())

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        answer = json.loads(self.out, parse_constant=_no_constant)
        assert isinstance(answer, dict)
        return answer


def _steady(text: str) -> str:
    """Without the random part that names of runs hold."""
    return re.sub(r"-[0-9a-f]{8}\b", "-run", " ".join(text.split()))


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


class Desk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before = ""  # Python that runs first in every process
        self.ledger = folder / "ledger.db"
        self.lay_out()

    # ---- laying things out ------------------------------------------------------------------------------------

    def lay_out(self) -> None:
        self.write("schema.toml", SCHEMA)
        self.write("plan.toml", PLAN)
        self.csv("people.csv", [NAMES, *people()])

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def csv(self, name: str, rows: Iterable[Sequence[str]]) -> Path:
        path = self.folder / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        return path

    def plan(self, *changes: tuple[str, str], name: str = "plan.toml", text: str = PLAN) -> Path:
        """The plan with texts replaced; each must be there."""
        return self.write(name, changed(text, *changes))

    # ---- running ----------------------------------------------------------------------------------------------

    def run(self, *arguments: str) -> Said:
        """The command in this process, from this folder. A first release is asked for with --new-ledger."""
        return self.typed(*self.with_ledger(arguments))

    def with_ledger(self, arguments: Sequence[str]) -> Sequence[str]:
        if arguments[:1] != ("release",) or "--new-ledger" in arguments or len(arguments) < 2:
            return arguments
        plan = self.folder / arguments[1]
        try:
            ledger = tomllib.loads(plan.read_text(encoding="utf-8"))["budget"]["ledger"]
            missing = "://" not in ledger and not os.path.lexists(plan.parent / ledger)
        except (OSError, ValueError, LookupError, TypeError):
            return arguments  # which the command has to say something about
        return (*arguments, "--new-ledger") if missing else arguments

    def typed(self, *arguments: str) -> Said:
        """The command exactly so."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(arguments)
            except SystemExit as left:
                code = left.code
        assert isinstance(code, int)
        return Said(code, out.getvalue(), err.getvalue())

    def priced(self, *words: str) -> dict[str, Any]:
        """What the plan would cost, as JSON; people are told in these words; nothing is spent."""
        told = self.run("cost", "plan.toml")
        assert told.code == 0 and not self.ledger.exists()
        for said in words:
            assert said in told.words, said
        return self.run("cost", "plan.toml", "--json").json

    def refused(self, *arguments: str, error: str, code: int = 1) -> dict[str, Any]:
        """Run it for people and for machines: both say the same and say what to do. Answers with the JSON."""
        text = self.run(*arguments)
        assert text.code == code, text.words
        assert "Traceback" not in text.words
        said = self.run(*arguments, "--json")
        assert said.code == code
        assert said.err == ""
        answer = said.json
        assert answer["error"] == error, answer
        assert answer["fix"]
        for sentence in (answer["message"], answer["fix"]):
            assert _steady(sentence) in _steady(text.words)
        return answer

    def refused_plan(self, error: str, word: str, *commands: str) -> None:
        """By these commands (default: cost and release), in these words, and nothing is spent."""
        for command in commands or ("cost", "release"):
            answer = self.refused(command, "plan.toml", error=error)
            assert word in answer["message"] + answer["fix"]
        assert not self.ledger.exists()

    def start(self, *arguments: str, before: str = "", options: Sequence[str] = ()) -> subprocess.Popen[str]:
        """The command in a process of its own; ``before`` is Python that runs first there."""
        return subprocess.Popen(
            [sys.executable, *options, *self.program(before), *self.with_ledger(arguments)],
            cwd=self.folder,
            env=dict(os.environ, COLUMNS="80"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def program(self, before: str = "") -> list[str]:
        first = self.before + before
        return ["-c", f"{first}\nfrom nabladp.cli import main\nmain()"] if first else ["-m", "nabladp"]

    def process(self, *arguments: str, before: str = "", options: Sequence[str] = ()) -> Said:
        process = self.start(*arguments, before=before, options=options)
        out, err = process.communicate(timeout=120)
        return Said(process.returncode, out, err)

    # ---- looking ----------------------------------------------------------------------------------------------

    def spent(self) -> dict[str, float]:
        """By limit; empty where there is no ledger."""
        if not self.ledger.exists():
            return {}
        with Ledger.read(self.ledger) as ledger:
            assert ledger.verify() == []
            return {line.limit.name: line.spent for line in ledger.spent() if line.spent}

    def unfinished(self) -> list[str]:
        with Ledger.read(self.ledger) as ledger:
            return [entry.name for entry in ledger.unfinished()]

    def names(self) -> set[str]:
        return set(os.listdir(self.folder))

    def hidden(self) -> list[str]:
        return sorted(name for name in self.names() if name.startswith("."))

    def wait_until_reserved(self, process: subprocess.Popen[str]) -> None:
        wait_for(lambda: process.poll() is not None or (self.ledger.exists() and self._reserved()))
        assert process.poll() is None, process.communicate()

    def _reserved(self) -> bool:
        try:
            return bool(self.unfinished())
        except NablaDPError:  # it is being created
            return False


def wait_for(reached: Callable[[], bool], patience: float = 60.0) -> None:
    end = time.monotonic() + patience
    while not reached():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    folder = tmp_path / "desk"
    folder.mkdir()
    return Desk(folder)


ROWS = 300_000
SLOW = """
import time
from nabladp.tables import Marginals
whole = Marginals.add_to
def add_to(*arguments):
    time.sleep(0.6)
    whole(*arguments)
Marginals.add_to = add_to
"""


@pytest.fixture
def busy(desk: Desk) -> Desk:
    """A desk whose table takes seconds to count, batch after batch, when ``SLOW`` runs before the command."""
    line = b"north,30,20000,true\nsouth,31,30000,false\n"
    desk.write("people.csv", b"region,age,income,health\n" + line * (ROWS // 2))
    desk.plan(('source = "people.csv"', f'source = "people.csv"\nrows = {ROWS}'))
    desk.before = SLOW
    return desk
