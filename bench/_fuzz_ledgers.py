"""Kinds of input: damaged and altered ledgers, and ledgers that are asked for something odd."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench._fuzz_files import can_dump, odd_path
from bench._fuzz_kind import Kind
from bench._fuzz_privacy import SCHEMA
from bench._fuzz_scene import BUDGET, Scene
from bench._fuzz_values import TEXTS, deep_json, mutated, mutated_bytes, mutated_text, odd
from nabladp.errors import NablaDPError
from nabladp.privacy import Guarantee, Ledger, Rho


def prepare_ledger(folder: Path) -> Scene:
    scene = Scene.build(folder)
    with Ledger.create(folder / "ledger.db", SCHEMA, BUDGET, test=True) as ledger:
        cost = Guarantee.touch(SCHEMA, ["age", "sick"], Rho(0.1))
        for number in range(4):
            ledger.reserve(cost, f"entry{number}", seeded=True)
        ledger.bind("entry0", "0" * 64, seeded=True)
        ledger.void("entry1", "a reason")
        ledger.record_external(cost, "elsewhere", "someone")
    return scene


def ledger_file(rng: random.Random, scene: Scene) -> None:
    place = scene.place()
    path: Any = place / "ledger.db"
    pick = rng.random()
    right = scene.folder / "ledger.db"
    if pick < 0.5:
        path.write_bytes(mutated_bytes(rng, right.read_bytes()))
    elif pick < 0.85:
        shutil.copy(right, path)
        _alter_rows(rng, path)
    elif pick < 0.9:
        path.write_bytes(rng.randbytes(rng.choice((0, 100, 5000))))
    else:
        path = odd_path(rng, place, "ledger.db")
    use_ledger(rng, path)


def _alter_rows(rng: random.Random, path: Path) -> None:
    """What somebody does who can write the file: guards are dropped, a cell is changed."""
    with sqlite3.connect(path) as base:
        for (trigger,) in base.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            base.execute(f'drop trigger "{trigger}"')
        tables = [name for (name,) in base.execute("select name from sqlite_master where type = 'table'").fetchall()]
        table = rng.choice(tables)
        columns = [row[1] for row in base.execute(f'pragma table_info("{table}")').fetchall()]
        pick = rng.random()
        if pick < 0.1:
            base.execute(f'drop table "{table}"')
        elif pick < 0.2:
            base.execute(f'delete from "{table}" where rowid = ?', (rng.randrange(1, 8),))
        elif pick < 0.3 and columns:
            base.execute(f'alter table "{table}" rename column "{rng.choice(columns)}" to "x"')
        elif columns:
            _alter_cell(rng, base, table, rng.choice(columns))
    base.close()


def _alter_cell(rng: random.Random, base: sqlite3.Connection, table: str, column: str) -> None:
    row = rng.randrange(1, 8)
    found = base.execute(f'select "{column}" from "{table}" where rowid = ?', (row,)).fetchone()
    held = found[0] if found else None
    value: Any = rng.choice(
        (None, -1, 2**62, 1.5, b"\xff\0", "", rng.choice(TEXTS), deep_json(rng), "{}", "[]", "null")
    )
    if isinstance(held, str) and rng.random() < 0.6:
        value = mutated_text(rng, held)
        if held.startswith("{") and rng.random() < 0.6:
            changed = mutated(rng, json.loads(held))
            value = json.dumps(changed, default=repr, skipkeys=True) if can_dump(changed) else "{}"
    try:
        base.execute(f'update "{table}" set "{column}" = ? where rowid = ?', (value, row))
    except (sqlite3.Error, UnicodeEncodeError, OverflowError):
        return


def use_ledger(rng: random.Random, path: Any) -> None:
    """Everything that is done with a ledger; one refusal does not hide the next."""
    cost = Guarantee.touch(SCHEMA, ["age"], Rho(0.1))

    def read(ledger: Ledger) -> None:
        ledger.spent()
        list(ledger.entries())
        ledger.unfinished()
        ledger.guarantee()
        ledger._repr_html_()

    uses: list[Callable[[], Any]] = [
        lambda: _with(Ledger.read(path), read),
        lambda: _with(Ledger.read(path), lambda ledger: ledger.verify()),
        lambda: _with(
            Ledger.open(path, SCHEMA, BUDGET, test=True), lambda ledger: ledger.reserve(cost, "x", seeded=True)
        ),
        lambda: _with(Ledger.open(path, test=True), lambda ledger: ledger.void("entry2", "why")),
        lambda: _with(Ledger.open(path, test=True), lambda ledger: ledger.bind("entry3", "1" * 64, seeded=True)),
        lambda: Ledger.migrate(path),
        lambda: Ledger.exists(path),
    ]
    for use in rng.sample(uses, 2):
        try:
            use()
        except NablaDPError:
            continue


def _with(ledger: Ledger, work: Callable[[Ledger], Any]) -> None:
    with ledger:
        work(ledger)


def ledger_calls(rng: random.Random, scene: Scene) -> None:
    """Right ledgers, wrong arguments."""
    path = scene.place() / "ledger.db"
    shutil.copy(scene.folder / "ledger.db", path)
    cost = Guarantee.touch(SCHEMA, ["age"], Rho(0.1))
    with Ledger.open(path, test=True) as ledger:
        asked: list[tuple[Callable[..., Any], list[Any], dict[str, Any]]] = [
            (ledger.reserve, [cost, "x"], {"seeded": True}),
            (ledger.reserve_all, [[(cost, "x", {}), (cost, "y", {})]], {"seeded": True}),
            (ledger.bind, ["entry2", "1" * 64], {"seeded": True}),
            (ledger.bind_all, [[("entry2", "1" * 64, {})]], {"seeded": True}),
            (ledger.void, ["entry2", "a reason"], {}),
            (ledger.record_external, [cost, "other", "who", "note"], {}),
            (ledger.change_budget, [BUDGET, "a reason"], {}),
            (ledger.entry, ["entry2"], {}),
            (ledger.bound, ["entry0"], {}),
            (ledger.spent_on, [["age", "sick"]], {}),
            (ledger.check_fits, [[(cost, "x")]], {}),
            (Ledger.create, [scene.place() / "new.db", SCHEMA, BUDGET], {"test": True}),
            (Ledger.open, [path, SCHEMA, BUDGET], {"test": True}),
            (Ledger.read, [path], {}),
            (Ledger.exists, [path], {}),
            (Ledger.label_of, [path], {}),
        ]
        function, arguments, options = rng.choice(asked)
        where = rng.randrange(len(arguments))
        arguments[where] = mutated(rng, arguments[where]) if rng.random() < 0.5 else odd(rng)
        found = function(*arguments, **options)
        if isinstance(found, Ledger):
            found.close()


KINDS: tuple[Kind, ...] = (
    Kind("ledger files", ledger_file, 3000, 100, prepare_ledger),
    Kind("ledger calls", ledger_calls, 3000, 100, prepare_ledger),
)
