"""A changed, missing or reordered entry is reported; the database itself refuses the ordinary ways to make one."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from nabladp.errors import LedgerError
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.ledger.entry import digest_of
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Rho

PEOPLE = Universe(("age", "race"))


def touch(name: str, cost: float = 0.01) -> Guarantee:
    return Guarantee.touch(PEOPLE, [name], Rho(cost))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """open, reserve a, reserve b, bind a, void b, budget, external c, reserve d."""
    path = tmp_path_factory.mktemp("whole") / "ledger.db"
    with Ledger.create(path, PEOPLE, Budget(per_attribute=Rho(1))) as ledger:
        ledger.reserve(touch("age"), "a")
        ledger.reserve(touch("race"), "b")
        ledger.bind("a", "digest")
        ledger.void("b", "not run")
        ledger.change_budget(Budget(per_attribute=Rho(1), person=Rho(1)), "a person limit")
        ledger.record_external(touch("race"), "c", who="x")
        ledger.reserve(touch("age"), "d")
        assert ledger.verify() == []
    return path


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "copy.db"))


def tamper(path: Path, *statements: str) -> list[tuple[int, str]]:
    """Drop every trigger, change the file behind the ledger's back, and see what verify says."""
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA synchronous = OFF")
    raw.execute("BEGIN")
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        raw.execute(statement)
    raw.execute("COMMIT")
    raw.close()
    with Ledger.read(path) as ledger:
        return [(problem.seq, problem.what) for problem in ledger.verify()]


@pytest.mark.parametrize("column", ["kind", "name", "time", "payload", "totals", "previous", "hash", "ref"])
@pytest.mark.parametrize("seq", [1, 2, 5, 8])
def test_any_changed_field_is_reported(copy: Path, seq: int, column: str) -> None:
    value = "77" if column == "ref" else f"'#' || substr({column}, 2)"
    assert (seq, "changed") in tamper(copy, f"UPDATE entries SET {column} = {value} WHERE seq = {seq}")


def test_a_cost_made_smaller_is_reported(copy: Path) -> None:
    weight = str(touch("age").rho_units("age"))
    found = tamper(copy, f"UPDATE entries SET payload = replace(payload, '{weight}', '1') WHERE seq = 2")
    assert found == [(2, "changed"), (2, "totals"), (6, "totals")]  # 6 replays what 2 said for its new limit


@pytest.mark.parametrize("seq", range(1, 9))
def test_a_missing_entry_is_reported_even_the_last(copy: Path, seq: int) -> None:
    assert (seq, "missing") in tamper(copy, f"DELETE FROM entries WHERE seq = {seq}")


def test_the_last_entry_and_the_head_removed_together(copy: Path) -> None:
    """Nothing inside the file can show this: the head that a release kept does."""
    with Ledger.read(copy) as ledger:
        kept = ledger.head
    hash_7 = "(SELECT hash FROM entries WHERE seq = 7)"
    assert tamper(copy, "DELETE FROM entries WHERE seq = 8", f"UPDATE head SET seq = 7, hash = {hash_7}") == []
    with Ledger.read(copy) as ledger:
        assert ledger.head.seq < kept.seq


def test_swapped_entries_are_reported(copy: Path) -> None:
    swap = ["UPDATE entries SET seq = 99 WHERE seq = 2", "UPDATE entries SET seq = 2 WHERE seq = 3"]
    found = tamper(copy, *swap, "UPDATE entries SET seq = 3 WHERE seq = 99")
    assert {(2, "changed"), (3, "changed"), (2, "order"), (4, "order")} <= set(found)


def test_a_row_put_behind_the_head_is_reported(copy: Path) -> None:
    extra = "INSERT INTO entries SELECT 9, 'bind', 'd', 8, time, payload, totals, hash, 'x' FROM entries WHERE seq = 8"
    assert (8, "head") in tamper(copy, extra)


def test_a_changed_head_is_reported(copy: Path) -> None:
    assert tamper(copy, "UPDATE head SET hash = 'x'") == [(8, "head")]
    assert tamper(copy, "UPDATE head SET seq = 1000000000000") == [(9, "missing")]  # one line, however many


def test_a_changed_identity_is_reported(copy: Path) -> None:
    assert tamper(copy, "UPDATE meta SET ledger = 'another'") == [(1, "changed")]


def test_lowered_totals_are_reported_even_with_every_hash_recomputed(copy: Path) -> None:
    """Someone who knows the format rewrites the last entry, its hash and the head: its totals give them away."""
    with sqlite3.connect(copy) as raw:
        row = list(
            raw.execute("SELECT previous, seq, kind, name, ref, time, payload, totals FROM entries WHERE seq = 8")
        )
    raw.close()
    previous, *body, totals = row[0]
    forged = json.loads(totals)
    forged["spent"].clear()
    text = json.dumps(forged, sort_keys=True, separators=(",", ":"))
    hash_ = digest_of(previous, *body, text)
    found = tamper(
        copy,
        f"UPDATE entries SET totals = '{text}', hash = '{hash_}' WHERE seq = 8",
        f"UPDATE head SET hash = '{hash_}'",
    )
    assert found == [(8, "totals")]


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM entries WHERE seq = 8", "UPDATE entries SET totals = '{}' WHERE seq = 8", "DELETE FROM head"],
)
def test_nothing_is_written_on_top_of_a_broken_chain(copy: Path, damage: str) -> None:
    ledger = Ledger.open(copy)
    tamper(copy, damage)
    calls: list[Callable[[], object]] = [
        lambda: ledger.reserve(touch("age"), "new"),
        lambda: ledger.void("d", "why"),
        lambda: Ledger.open(copy),
        lambda: Ledger.read(copy).spent(),
    ]
    for call in calls:
        with pytest.raises(LedgerError, match="broken"):
            call()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET name = 'x' WHERE seq = 2",
        "DELETE FROM entries WHERE seq = 8",
        "INSERT OR REPLACE INTO entries SELECT 2, kind, 'x', ref, time, payload, totals, previous, hash "
        "FROM entries WHERE seq = 2",
        "INSERT INTO entries SELECT 20, 'bind', 'x', 8, time, payload, totals, previous, hash "
        "FROM entries WHERE seq = 2",
        "UPDATE head SET seq = seq - 1",
        "UPDATE head SET seq = seq + 1",
        "UPDATE head SET seq = seq + 2",
        "DELETE FROM head",
        "INSERT INTO head VALUES (2, 1, 'x')",
        "UPDATE meta SET format = 2",
        "DELETE FROM meta",
    ],
)
def test_the_database_refuses_to_rewrite(copy: Path, statement: str) -> None:
    with sqlite3.connect(copy) as raw, pytest.raises(sqlite3.IntegrityError):
        raw.execute(statement)
    raw.close()
    with Ledger.read(copy) as ledger:
        assert ledger.verify() == []


def test_problems_read_well(copy: Path) -> None:
    tamper(copy, "UPDATE entries SET name = 'x' WHERE seq = 3")
    with Ledger.read(copy) as ledger:
        problem, void = ledger.verify()
    assert problem.to_json() == {"seq": 3, "what": "changed", "text": "Entry 3 was changed after it was written."}
    text = "Entry 5 is not allowed: 'void' must refer to a reservation of the same name."
    assert void.to_json() == {"seq": 5, "what": "illegal", "text": text}
