"""Names, values and paths with every sign in them survive from schema to ledger, and are shown as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nabladp import Release

HOSTILE = [
    "</script><script>alert(1)</script>",
    "[red]alarm[/red]",
    "[/]",
    ":smile:",
    'it\'s "quoted", see',
    "two\nlines\tand a tab",
    "ünïcödé ✓ 日本 🙂",
    "a+b",
    "back\\slash\\",
    " spaces around ",
    "100% {of} %s {0}",
    "\x1b[31mred\x1b[0m\x07",
    "\u202eright to left",
    "'; DROP TABLE entries; --",
    "=1+1",
    "NULL",
    "person",
    "x" * 150,
]
NAMES = [text for text in HOSTILE if text.isprintable()]  # of columns: no control or direction characters


def quoted(text: str) -> str:
    """As TOML, which also escapes DEL."""
    return json.dumps(text, ensure_ascii=False)


@pytest.fixture
def hostile(desk: Any) -> Any:
    desk.csv("people.csv", [NAMES, *[[HOSTILE[(i + j) % len(HOSTILE)] for j in range(len(NAMES))] for i in range(40)]])
    values = ", ".join(quoted(value) for value in HOSTILE)
    blocks = (f'[[attribute]]\nname = {quoted(name)}\nkind = "categorical"\nvalues = [{values}]\n' for name in NAMES)
    desk.write("schema.toml", "\n".join(blocks))
    sets = ", ".join(f"[{quoted(name)}, {quoted(NAMES[i - 1])}]" for i, name in enumerate(NAMES))
    limits = ", ".join(f"{quoted(name)} = {{ cdp = 1 }}" for name in NAMES)
    desk.write(
        "plan.toml",
        f'[table]\nsource = "people.csv"\nschema = "schema.toml"\n'
        f'[budget]\nledger = "ledger.db"\nattributes = {{ {limits} }}\nsets = {{ "a+b" = {{ rho = 1 }} }}\n'
        f'[[release]]\nname = "[red] & it\'s"\nmechanism = "NoisyMarginals"\n'
        f"sets = [{sets}]\nbudget = {{ cdp = 1 }}\n"
        f"[[adversary]]\nname = {quoted(HOSTILE[1] + HOSTILE[11])}\nattributes = [{quoted(HOSTILE[1])}]\n",
    )
    return desk


def test_names_survive_from_schema_to_ledger(hostile: Any) -> None:
    said = [hostile.run("init", "people.csv", "--schema", "draft.toml")]
    assert f"{len(NAMES)} columns" in said[0].words
    for arguments in (["check", "people.csv"], ["cost", "plan.toml"], ["release", "plan.toml"], ["ledger"]):
        said.append(hostile.run(*arguments))
        assert said[-1].code == 0 and said[-1].err == "", said[-1].words
    shown = "".join(answer.out for answer in said)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", shown), "control characters are shown as escapes"
    assert "\\x1b[31mred" in shown and "[red]alarm[/red]" in shown and ":smile:" in shown and "[/]" in shown

    folder = hostile.folder / "plan-release" / "[red] & it's"
    record = Release.load(folder)
    assert list(record.schema.names) == NAMES and list(record.schema["a+b"].texts) == HOSTILE
    for i, name in enumerate(NAMES):
        assert record[name, NAMES[i - 1]].counts.shape == (len(HOSTILE), len(HOSTILE))
    rows = pq.read_table(folder / "values.parquet")
    assert {value for name in NAMES for value in rows[name].to_pylist()} - {None} == set(HOSTILE)

    answer = hostile.run("ledger", "--json").json
    assert {line["limit"] for line in answer["limits"]} == set(NAMES)
    assert hostile.run("cost", "plan.toml", "--json").json["adversaries"][0]["attributes"] == [HOSTILE[1]]
    assert hostile.run("ledger", "verify").code == 0


def test_errors_show_names_as_they_are(hostile: Any) -> None:
    rows = [NAMES, ["somewhere else"] * len(NAMES)]
    hostile.csv("people.csv", rows)
    said = hostile.run("check", "people.csv")
    assert said.code == 1 and "[red]alarm[/red]" in said.out and "\x1b" not in said.out
    found = hostile.run("check", "people.csv", "--json").json["findings"]
    assert [finding["column"] for finding in found] == NAMES
    refused = hostile.run("release", "plan.toml")
    assert refused.code == 1 and "\x1b" not in refused.err
    book = ("ledger", "record-external", "ledger.db", "[bold]x[/]", "--who", "[red]me", "--rho", "1", "--attribute")
    missing = hostile.run(*book, "[blue]nobody")
    assert missing.code == 1 and "'[blue]nobody'" in missing.words
    booked = hostile.run(*book, "[red]alarm[/red]")
    assert booked.code == 0 and "Booked [bold]x[/]" in booked.words and "Now exceeded: [red]alarm[/red]" in booked.words
    assert "[red]me" in hostile.run("ledger").words


@pytest.mark.parametrize("name", ["with space", 'it\'s "quoted"', "[glob]*?", "ünï ✓ %s {x};", "select from"])
def test_paths_with_every_sign(desk: Any, tmp_path: Path, name: str) -> None:
    odd = tmp_path / name
    odd.mkdir()
    laid = type(desk)(odd)
    (odd / "people.csv").rename(odd / f"{name}.csv")
    laid.plan(('"people.csv"', quoted(f"{name}.csv")), ('"ledger.db"', quoted(f"{name}.db")), name=f"{name}.toml")
    draft = laid.run("init", f"{name}.csv", "--schema", f"{name} draft.toml")
    assert draft.code == 0 and laid.run("check", f"{name}.csv").code == 0
    assert laid.run("cost", f"{name}.toml").code == 0
    assert laid.run("release", f"{name}.toml").code == 0
    assert Release.load(odd / f"{name}-release" / "pairs").n == 60
    assert laid.run("ledger", f"{name}.db").code == 0
    # the same from elsewhere: paths in a plan are relative to the plan
    assert desk.run("release", str(odd / f"{name}.toml"), "--to", name).code == 0
    assert (desk.folder / name / "pairs" / "release.json").exists() and not desk.ledger.exists()
    # and as a pattern, in which the signs of the plan's own folder mean nothing
    laid.plan(('"people.csv"', '"*.csv"'), ('"ledger.db"', quoted(f"{name}.db")), name="glob.toml")
    assert desk.run("release", str(odd / "glob.toml")).code == 0


def test_many_files_by_a_pattern(desk: Any) -> None:
    rows = (desk.folder / "people.csv").read_text().splitlines()
    (desk.folder / "parts").mkdir()
    for i in range(3):
        desk.write(f"parts/{i}.csv", "\n".join([rows[0], *rows[1 + 20 * i : 21 + 20 * i]]) + "\n")
    desk.plan(('"people.csv"', '"parts/*.csv"'))
    assert desk.run("release", "plan.toml", "--json").code == 0
    assert Release.load(desk.folder / "plan-release" / "pairs").n == 60
    desk.write("parts/3.csv", "regoin\nnorth\n")
    answer = desk.refused("release", "plan.toml", "--to", "x", error="DataError")
    assert "3.csv" in answer["message"] and desk.spent()["person"] == 0.04


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM '{}' WHERE age < 30",
        "\n  select *\n  from '{}'\n  where age < 30 -- young",
        "from '{}' where age < 30",
    ],
)
def test_a_query_as_source(desk: Any, query: str) -> None:
    written = query.format(desk.folder / "people.csv")
    source = f'source = """{written}"""'
    desk.plan(('source = "people.csv"', source))
    assert (
        "(where)" in desk.refused("release", "plan.toml", error="SourceError")["message"] and not desk.ledger.exists()
    )
    desk.plan(('source = "people.csv"', f'{source}\npopulation = "Everybody below 30, as listed in public."'))
    assert desk.run("check", written).code == 0
    assert desk.run("release", "plan.toml").code == 0
    assert Release.load(desk.folder / "plan-release" / "pairs").n == 30


def test_relative_paths_in_a_plan(desk: Any) -> None:
    (desk.folder / "plans").mkdir()
    (desk.folder / "data").mkdir()
    (desk.folder / "people.csv").rename(desk.folder / "data" / "people.csv")
    desk.plan(
        ('"people.csv"', '"../data/people.csv"'),
        ('"schema.toml"', '"../schema.toml"'),
        ('"ledger.db"', '"../ledger.db"'),
        ("[[release]]", '[report]\nfolder = "../out/first"\n[[release]]'),
        name="plans/plan.toml",
    )
    assert desk.run("cost", "plans/plan.toml").code == 0
    assert desk.run("release", "plans/plan.toml").code == 0
    assert (desk.folder / "out" / "first" / "pairs" / "release.json").exists() and desk.spent()["person"] == 0.04
