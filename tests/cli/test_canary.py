"""Distinctive values are planted in every kind of column. No output, error or file of ours may ever hold one, nor the
exact counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from nabladp import Release, Schema
from nabladp.tables import open_table

WORD, NUMBER = "CANARY-7391", "739173917391"
SCHEMA = """
[[attribute]]
name = "region"
kind = "categorical"
values = ["north", "south", "east"]
{other}

[[attribute]]
name = "size"
kind = "ordered"
values = [1, 2, 3]
{other}

[[attribute]]
name = "age"
kind = "integer"
low = 0
high = 99
{clamp}

[[attribute]]
name = "income"
kind = "real"
edges = [0, 10000, 50000, 100000]
{clamp}

[[attribute]]
name = "health"
kind = "boolean"
{other}
"""
NAMES = ["region", "size", "age", "income", "health"]
PLANTED = {"region": WORD, "size": NUMBER, "age": NUMBER, "income": f"{NUMBER}.25", "health": WORD}


@pytest.fixture
def planted(desk: Any) -> Any:
    good = [
        [("north", "south", "east")[i % 3], str(1 + i % 3), str(i % 60), str(997 * i % 100_000), "true"]
        for i in range(200)
    ]
    bad = [[value if name == column else "1" for name in NAMES] for column, value in PLANTED.items()]
    desk.csv("people.csv", [NAMES, *good, *([PLANTED[name] for name in NAMES] for _ in range(3)), *bad[:0]])
    desk.write("schema.toml", SCHEMA.format(other='unknown = "other"', clamp='unknown = "clamp"'))
    desk.write("strict.toml", SCHEMA.format(other="", clamp=""))
    desk.plan(
        (
            "[[release]]",
            '[[release]]\nname = "all"\nmechanism = "NoisyMarginals"\nk = 2\nbudget = { cdp = 0.2 }\n\n[[release]]',
        )
    )
    return desk


def held(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The content of every file of ours, compressed or not."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("people.csv", "ragged.csv", "broken.json"):
            yield path.name, path.read_bytes()
            if path.suffix == ".parquet":
                yield path.name, json.dumps(pq.read_table(path).to_pylist()).encode()
                yield path.name, str(pq.read_metadata(path).to_dict()).encode()


def test_no_value_ever_gets_out(planted: Any) -> None:
    source = (planted.folder / "people.csv").read_text()
    assert WORD in source and NUMBER in source
    planted.write("ragged.csv", source + f"{WORD},{NUMBER}\n")
    planted.write("broken.json", f'{{"region": "{WORD}", "size": {NUMBER}')
    strict = (planted.folder / "plan.toml").read_text().replace("schema.toml", "strict.toml")
    planted.write("strict-plan.toml", strict)
    for i, name in enumerate(("ragged.csv", "broken.json")):
        planted.write(f"bad{i}.toml", strict.replace("people.csv", name))
    queries = [f"SELECT {column} FROM 'people.csv'" for column in ("nothing", "region::int AS region", "error(region)")]
    commands = [
        ["init", "people.csv", "--schema", "draft.toml"],
        ["init", "ragged.csv", "--schema", "draft2.toml"],
        ["init", "broken.json", "--schema", "draft3.toml"],
        *(["check", source] for source in ("people.csv", "ragged.csv", "broken.json")),
        *(
            ["check", source, "--schema", "strict.toml"]
            for source in ("people.csv", "ragged.csv", "broken.json", *queries)
        ),
        ["cost", "plan.toml"],
        ["release", "plan.toml", "--to", "{}"],
        *(["release", f"{plan}.toml", "--to", "{}"] for plan in ("strict-plan", "bad0", "bad1")),
        ["ledger"],
        ["ledger", "verify"],
    ]
    codes = set()
    for run, command in enumerate([*commands, *([*command, "--json"] for command in commands)]):
        said = planted.run(*(part.format(f"out{run}") if part == "{}" else part for part in command))
        codes.add(said.code)
        assert WORD not in said.out + said.err and NUMBER not in said.out + said.err, command
    assert codes == {0, 1}
    contents = list(held(planted.folder))
    assert {"ledger.db", "release.json", "values.parquet", "draft.toml"} <= {name for name, _ in contents}
    for name, content in contents:
        assert WORD.encode() not in content and NUMBER.encode() not in content, name


def test_exact_counts_are_nowhere(planted: Any) -> None:
    assert planted.run("release", "plan.toml").code == 0
    schema = Schema.load(planted.folder / "schema.toml")
    table = open_table(planted.folder / "people.csv", schema)
    for name in ("all", "pairs"):
        record = Release.load(planted.folder / "plan-release" / name)
        exact = table.marginals([part.attributes for part in record.output])
        for part, truth in zip(record.output, exact, strict=True):
            assert part.scale >= 5
            if truth.size >= 12:
                assert not np.array_equal(part.counts, truth)
            if (truth == 0).sum() >= 12:
                assert part.counts[truth == 0].any(), "empty cells carry noise, too"
                texts = [
                    json.dumps(truth.ravel().tolist(), separators=style)
                    for style in ((",", ":"), (", ", ": "), (",\n", ":"))
                ]
                raw = [truth.ravel().tobytes(), *(text.strip("[]").encode() for text in texts)]
                assert not [name for name, content in held(planted.folder) if any(form in content for form in raw)]
