"""A stored record with one damaged field is refused with an error of ours, or still shows what it holds."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from every_mechanism import FILES, SCHEMA, codes

from nabladp import Budget, NablaDPError, NoiseSource, Release, Rho, Session
from nabladp.tables.decode import decode

DAMAGES: tuple[Any, ...] = ("x", None, -1, 1.5, [], [1], {}, 10**30, 1e300, 1e-320, True, float("nan"))
FIELDS = 40  # of a record: enough for every class of field, and a second's work
Steps = tuple[str | int, ...]


def fields(value: Any, path: Steps = ()) -> Iterator[Steps]:
    """Paths to every field; of a list only the first two members."""
    yield path
    if isinstance(value, dict):
        parts: list[tuple[Any, Any]] = list(value.items())
    else:
        parts = list(enumerate(value))[:2] if isinstance(value, list) else []
    for key, part in parts:
        yield from fields(part, (*path, key))


def damage(record: dict[str, Any], path: Steps, value: Any) -> dict[str, Any]:
    changed: Any = copy.deepcopy(record)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return dict(changed)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_field_raises_no_foreign_error(name: str, tmp_path: Path) -> None:
    people: pa.Table = decode(SCHEMA, codes(60))
    budget, ledger = Budget(person=Rho(10**6)), tmp_path / "ledger.db"
    session = Session(people, SCHEMA, budget, ledger, noise=NoiseSource.seeded(1), new_ledger=True)
    record = json.loads(session.release(FILES[name].INSTANCES[0], "one").text)
    rng, path = random.Random(1), tmp_path / "release.json"
    every = [(top, *rest) for top in ("values", "parameters", "expected_error") for rest in fields(record[top])]
    refused = 0
    for steps in rng.sample(every, min(FIELDS, len(every))):
        for value in rng.sample(DAMAGES, 4):
            path.write_text(json.dumps(damage(record, steps, value)))
            try:
                release = Release.load(path)
                release.views()
                assert release.parquet and release.text and repr(release)
            except NablaDPError:
                refused += 1
    assert refused > FIELDS  # most damages are seen
