"""What kinds of input share that need files: a small table of made-up people with canaries, a plan, releases of all
mechanisms, and a ledger."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench._fuzz_privacy import SCHEMA
from bench._fuzz_values import CANARY_NUMBER, CANARY_TEXT
from nabladp.mechanisms import MECHANISMS
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Rho
from nabladp.release import Session

COLUMNS = (*SCHEMA.names, "secret", "number")  # the last two are not in the schema
BUDGET = Budget(person=Rho(10**6))


def people(rows: int = 60, seed: int = 1) -> dict[str, list[Any]]:
    """Columns of values. Canaries stand where they are never published: beside the schema, and outside domains."""
    rng = random.Random(seed)
    ages = [rng.randrange(10) for _ in range(rows)]
    return {
        "region": [rng.choice("nsw") for _ in range(rows)],
        "age": ages,
        "income": [rng.choice((None, 5.0, 15.5, 49.0)) for _ in range(rows)],
        "sick": [rng.random() < 0.5 for _ in range(rows)],
        "unused": [rng.random() < 0.5 for _ in range(rows)],
        "band": ["high" if age >= 5 else "low" for age in ages],
        "secret": [f"{CANARY_TEXT}{i}" for i in range(rows)],
        "number": [CANARY_NUMBER] * rows,
    }


def csv_text(columns: dict[str, list[Any]], delimiter: str = ",") -> str:
    def shown(value: Any) -> str:
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    lines = [delimiter.join(columns)]
    lines += [delimiter.join(map(shown, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


def bad_people(rng: random.Random) -> dict[str, list[Any]]:
    """People of whom one has a value outside its domain, which is a canary."""
    columns = people(rng.choice((2, 20, 60)), rng.randrange(5))
    name = rng.choice(SCHEMA.names)
    place = rng.randrange(len(columns[name]))
    columns[name][place] = rng.choice((CANARY_TEXT, CANARY_NUMBER, f"{CANARY_TEXT}\n{CANARY_TEXT}", f'"{CANARY_TEXT}'))
    return columns


PLAN = """[table]
source = "data/people.csv"
schema = "schema.toml"
rows = 60
rows_per_person = 1

[budget]
ledger = "ledger.db"
per_attribute = { cdp = 5000.0 }
attributes = { sick = { cdp = 5000.0 } }
sets = { "age+sick" = { rho = 1e9 } }
person = { rho = 1e9 }

[[release]]
name = "marginals"
mechanism = "NoisyMarginals"
sets = [["region", "sick"], ["age"]]
budget = { cdp = 0.2 }

[[release]]
mechanism = "HalfspaceLearner"
label = "sick"
memory_mb = 64
budget = { cdp = 0.5 }

[[adversary]]
name = "a neighbour"
attributes = ["income", "sick"]

[report]
delta = 1e-6
"""


@dataclass
class Scene:
    """A folder with a table, a schema, a plan, and in ``releases`` a published release of every mechanism."""

    folder: Path
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: int = 0

    @classmethod
    def build(cls, folder: Path, releases: bool = False) -> Scene:
        data = folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "people.csv").write_text(csv_text(people()))
        SCHEMA.save(folder / "schema.toml")
        (folder / "plan.toml").write_text(PLAN)
        scene = cls(folder)
        if releases:
            scene._release()
        return scene

    def _release(self) -> None:
        from bench._fuzz_mechanisms import instances

        table = self.folder / "data" / "people.csv"
        session = Session(
            table, SCHEMA, BUDGET, self.folder / "ledger.db", noise=NoiseSource.seeded(1), new_ledger=True
        )
        for name in MECHANISMS:
            for number, mechanism in enumerate(instances(name)[:2]):
                goal = self.folder / "releases" / f"{name}{number}"
                session.release(mechanism, goal.name, goal)
                self.records[goal.name] = json.loads((goal / "release.json").read_text())
        session.ledger.close()

    def place(self) -> Path:
        """A new empty folder; those before it go, so that disks stay small."""
        shutil.rmtree(self.folder / f"try-{self.made}", ignore_errors=True)
        self.made += 1
        made = self.folder / f"try-{self.made}"
        made.mkdir()
        return made


__all__ = ["BUDGET", "CDP", "COLUMNS", "PLAN", "SCHEMA", "Scene", "bad_people", "csv_text", "people"]
