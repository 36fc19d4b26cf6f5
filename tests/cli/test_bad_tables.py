"""Tables as they come: cut short, of another encoding, with values nobody declared. Each is met with a clear refusal
that names the column and the fix, never a value; nothing is spent unless it was reserved, nothing is half-written."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from nabladp.privacy import Ledger

NAMES = ["region", "age", "income", "health"]
SECRET = "CANARY-7391"
GOOD = ["north", "30", "20000", "true"]


def changed(column: str, value: str) -> list[list[str]]:
    bad = [value if name == column else good for name, good in zip(NAMES, GOOD, strict=True)]
    return [NAMES, *[GOOD] * 30, bad, *[GOOD] * 30]


def table(desk: Any, rows: list[list[str]]) -> None:
    desk.csv("people.csv", rows)


def raw(content: bytes) -> Callable[[Any], None]:
    return lambda desk: desk.write("people.csv", content)


def other_file(name: str, content: bytes) -> Callable[[Any], None]:
    def lay(desk: Any) -> None:
        desk.write(name, content)
        desk.plan(('source = "people.csv"', f'source = "{name}"'))

    return lay


def text(rows: list[list[str]]) -> str:
    return "\n".join(",".join(row) for row in rows) + "\n"


UNREADABLE: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "missing": (lambda desk: (desk.folder / "people.csv").unlink(), "SourceError", "There is no file"),
    "a folder": (lambda desk: desk.plan(('"people.csv"', '"."')), "SourceError", "is a folder"),
    "no such pattern": (lambda desk: desk.plan(('"people.csv"', '"p*.parquet"')), "SourceError", "No file matches"),
    "unknown kind": (other_file("people.doc", b"PK"), "SourceError", "file type that is not read"),
    "empty": (raw(b""), "SourceError", ""),
    "binary": (raw(bytes(range(256)) * 20), "SourceError", ""),
    "utf-16": (raw(text([NAMES, GOOD]).encode("utf-16")), "SourceError", "not UTF-8"),
    "not parquet": (other_file("people.parquet", b"PAR1" + SECRET.encode()), "SourceError", "cannot be read"),
    "not json": (other_file("people.json", b'{"region": ' + SECRET.encode()), "SourceError", "not valid JSON"),
    "no such table": (
        lambda desk: desk.plan(('"people.csv"', '"SELECT * FROM people"')),
        "SourceError",
        "The query is not valid",
    ),
    "a query that writes": (
        lambda desk: desk.plan(('"people.csv"', "\"FROM 'people.csv'; COPY (SELECT 1) TO 'written.csv'\"")),
        "SourceError",
        "must only select",
    ),
    "no header": (lambda desk: table(desk, [[SECRET, "7391", "1", "true"], GOOD]), "DataError", "first line"),
    "duplicated column": (lambda desk: table(desk, [[*NAMES, "age"], [*GOOD, SECRET]]), "DataError", "'age' twice"),
    "missing column": (
        lambda desk: table(desk, [["regoin", *NAMES[1:]], GOOD]),
        "DataError",
        "has no column 'region'",
    ),
    "no rows": (lambda desk: table(desk, [NAMES]), "DataError", "no rows"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_opened_is_refused_before_anything_is_spent(desk: Any, case: str) -> None:
    lay, error, message = UNREADABLE[case]
    lay(desk)
    before = desk.names()
    answer = desk.refused("release", "plan.toml", error=error)
    assert message in answer["message"] and SECRET not in json.dumps(answer)
    assert desk.spent() == {} and desk.names() <= before | {"ledger.db"}
    source = "SELECT * FROM people" if case == "no such table" else None
    if source or case in ("missing", "empty", "binary", "utf-16", "no header", "duplicated column", "no rows"):
        assert message in desk.refused("check", source or "people.csv", error=error)["message"]


def test_near_names_are_suggested(desk: Any) -> None:
    table(desk, [["regoin", *NAMES[1:]], GOOD])
    assert "'regoin'" in desk.refused("check", "people.csv", error="DataError")["fix"]


FOUND_WHILE_READING: dict[str, tuple[list[list[str]], str, str]] = {
    "outside a list": (changed("region", SECRET), "region", "outside its declared domain"),
    "outside a range": (changed("age", "7391"), "age", "outside its declared domain"),
    "no number": (changed("age", SECRET), "age", "outside its declared domain"),
    "a fraction": (changed("age", "30.5"), "age", "outside its declared domain"),
    "outside the bins": (changed("income", "73917391"), "income", "outside its declared domain"),
    "infinite": (changed("income", "inf"), "income", "outside its declared domain"),
    "nan": (changed("income", "nan"), "income", "empty values"),
    "null": (changed("income", ""), "income", "empty values"),
    "no truth": (changed("health", SECRET), "health", "outside its declared domain"),
}


@pytest.mark.parametrize("case", FOUND_WHILE_READING)
def test_values_that_break_a_rule(desk: Any, case: str) -> None:
    """Rows are read after the reservation, which is voided as no noise was drawn; the error says so."""
    rows, column, rule = FOUND_WHILE_READING[case]
    table(desk, rows)
    desk.plan(('["health"]]', '["health"], ["age"]]'))
    checked = desk.run("check", "people.csv", "--json")
    assert checked.code == 1 and checked.err == ""
    found = checked.json
    assert not found["ok"] and [finding["column"] for finding in found["findings"]] == [column]
    assert rule in found["findings"][0]["rule"] and found["findings"][0]["fix"]
    shown = desk.run("check", "people.csv")
    assert shown.code == 1 and shown.err == "" and column in shown.out
    assert desk.spent() == {} and not desk.ledger.exists()

    said = desk.run("release", "plan.toml", "--json")
    answer = said.json
    assert said.code == 1 and answer["error"] == "DataError"
    assert answer["column"] == column and rule in answer["rule"] and answer["fix"]
    assert answer["spent"] is False and answer["reserved"] == desk.unfinished() == [] and desk.spent() == {}
    assert "Nothing was spent" in answer["note"] and answer["commands"] == []
    (voided,) = answer["voided"]
    with Ledger.read(desk.ledger) as ledger:
        last = list(ledger.entries())[-1]
    assert (last.kind, last.name) == ("void", voided) and repr(column) in (last.reason or "")
    assert "7391" not in (last.reason or "")
    assert desk.names() == {"people.csv", "schema.toml", "plan.toml", "ledger.db"}
    assert SECRET not in said.words + checked.words + shown.words and "7391" not in said.words.replace("-7391", "")

    table(desk, [NAMES, *[GOOD] * 60])
    assert desk.run("release", "plan.toml").code == 0


def test_a_column_that_the_plan_does_not_read_makes_nothing_fail(desk: Any) -> None:
    table(desk, changed("age", SECRET))
    assert desk.run("check", "people.csv").code == 1
    assert desk.run("release", "plan.toml").code == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (text([NAMES, *[GOOD] * 50, [SECRET, "30"], *[GOOD] * 50]).encode(), "rows of different lengths"),
        (text([NAMES, *[GOOD] * 50, [SECRET, *GOOD], *[GOOD] * 50]).encode(), "rows of different lengths"),
        (text([NAMES, *[GOOD] * 50]).encode() + "nörd,1,2,true\n".encode("latin-1"), "not UTF-8"),
        (text([NAMES, *[GOOD] * 50]).encode() + f'"{SECRET},1,2,true\n'.encode(), ""),
    ],
    ids=["too short", "too long", "latin-1", "open quote"],
)
def test_a_csv_that_breaks_halfway(desk: Any, content: bytes, message: str) -> None:
    desk.write("people.csv", content)
    for arguments in (["check", "people.csv"], ["release", "plan.toml"]):
        said = desk.run(*arguments, "--json")
        assert said.code == 1 and said.json["error"] == "SourceError" and said.json["fix"]
        assert message in said.json["message"] and SECRET not in said.words
    assert desk.hidden() == [] and "plan-release" not in desk.names()
    assert desk.spent() == {} and not said.json.get("reserved")


def test_the_note_for_people_says_that_nothing_was_spent(desk: Any) -> None:
    table(desk, changed("region", SECRET))
    said = desk.run("release", "plan.toml")
    assert said.code == 1 and said.out == "" and "note: Nothing was spent: reading failed" in said.words
    assert "nabladp ledger void" not in said.words and desk.unfinished() == []


def test_the_note_for_people_names_the_command_that_voids(desk: Any) -> None:
    """An error after noise was drawn: what was reserved counts on, and its owner is told what to type."""
    broken = """
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
whole = NoisyMarginals.run
def run(*arguments):
    whole(*arguments)
    raise ZeroDivisionError
NoisyMarginals.run = run
"""
    said = desk.process("release", "plan.toml", "--new-ledger", before=broken)
    (name,) = desk.unfinished()
    assert said.code == 1 and f"'{name}' stays reserved" in said.words
    command = next(line.strip() for line in said.err.splitlines() if line.strip().startswith("nabladp ledger void"))
    assert shlex.split(command)[3:5] == [str(desk.ledger), name]
    assert desk.run(*shlex.split(command)[1:]).code == 0 and desk.spent() == {}


def test_a_wrong_number_of_rows(desk: Any) -> None:
    desk.plan(('schema = "schema.toml"', 'schema = "schema.toml"\nrows = 61'))
    said = desk.run("release", "plan.toml", "--json")
    assert said.code == 1 and "number of rows" in said.json["message"]
    assert said.json["spent"] is False and desk.unfinished() == [] and desk.spent() == {}


def test_a_single_row(desk: Any) -> None:
    table(desk, [NAMES, GOOD])
    assert desk.run("check", "people.csv").code == 0
    assert desk.run("release", "plan.toml").code == 0


def test_a_single_attribute(desk: Any) -> None:
    desk.csv("people.csv", [["smoker"], ["yes"], ["no"]])
    desk.write("schema.toml", '[[attribute]]\nname = "smoker"\nkind = "boolean"\n')
    desk.write(
        "plan.toml",
        '[table]\nsource = "people.csv"\nschema = "schema.toml"\n'
        '[budget]\nledger = "ledger.db"\nperson = { pure = 1 }\n'
        '[[release]]\nmechanism = "NoisyMarginals"\nk = 1\nnoise = "laplace"\nbudget = { pure = 1 }\n',
    )
    assert desk.run("cost", "plan.toml").code == 0
    assert desk.run("release", "plan.toml").code == 0
    assert desk.spent() == {"person": 1.0}


def test_two_thousand_attributes(desk: Any) -> None:
    names = [f"column {i}" for i in range(2000)]
    desk.csv("people.csv", [names, *[["true", "false"] * 1000] * 20])
    desk.write("schema.toml", "".join(f'[[attribute]]\nname = "{name}"\nkind = "boolean"\n' for name in names))
    desk.write(
        "plan.toml",
        '[table]\nsource = "people.csv"\nschema = "schema.toml"\n'
        '[budget]\nledger = "ledger.db"\nper_attribute = { cdp = 1 }\n'
        '[[release]]\nmechanism = "NoisyMarginals"\nk = 1\nbudget = { cdp = 1 }\n',
    )
    assert desk.run("init", "people.csv", "--schema", "draft.toml", "--json").json["columns"] == 2000
    assert desk.run("check", "people.csv").code == 0
    cost = desk.run("cost", "plan.toml")
    assert cost.code == 0 and "more attributes (see --json)" in cost.words and len(cost.out.splitlines()) < 160
    assert desk.run("release", "plan.toml").code == 0
    shown = desk.run("ledger")
    assert "more limits (see --json)" in shown.words and len(shown.out.splitlines()) < 80  # two tables, of 40 each
    assert len(desk.spent()) == 2000


def test_a_domain_too_large_says_how_large_and_what_to_do(desk: Any) -> None:
    wide = (f'[[attribute]]\nname = "{name}"\nkind = "integer"\nlow = 0\nhigh = 99999\n' for name in NAMES)
    desk.write("schema.toml", "".join(wide))
    answer = desk.refused("cost", "plan.toml", error="DomainTooLarge")
    assert (
        "10,000,000,000 cells" in answer["message"] and "region" in answer["message"] and "income" in answer["message"]
    )
    assert "coarser" in answer["fix"]
    assert desk.refused("release", "plan.toml", error="DomainTooLarge") == answer
    assert not desk.ledger.exists()
