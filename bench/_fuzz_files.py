"""Kinds of input: the files that people and the library write: schemas, plans, releases, certificates, ledgers."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench._fuzz_kind import Kind
from bench._fuzz_privacy import SCHEMA, _every_shape, figures
from bench._fuzz_scene import BUDGET, PLAN, Scene
from bench._fuzz_values import TEXTS, deep_json, deep_toml, mutated, mutated_bytes, mutated_text, odd
from nabladp.errors import NablaDPError
from nabladp.privacy import Guarantee, Ledger, Rho
from nabladp.release import Plan, Release, recover
from nabladp.release.publish import check_published
from nabladp.report import Certificate, Claim, report
from nabladp.schema import Schema


def odd_path(rng: random.Random, folder: Path, name: str) -> Any:
    """A pipe, a device, a folder, a link to itself, or no path at all."""
    path, pick = folder / name, rng.randrange(8)
    if pick == 0:
        os.mkfifo(path)
    elif pick == 1:
        path.symlink_to(rng.choice(("/dev/zero", "/dev/stdin", "/dev/full", "/proc/self/mem", path)))
    elif pick == 2:
        path.mkdir()
    elif pick == 3:
        return rng.choice((Path("/dev/zero"), "/dev/zero", str(folder) + "\0", Path("a\0"), "\ud800", "x" * 5000))
    elif pick == 4:
        return odd(rng)
    elif pick == 5:
        path.touch()
        path.chmod(0)
    elif pick == 6:
        with path.open("wb") as file:
            file.truncate(1 << 36)  # holes: takes no disk
    return path


def _toml_input(rng: random.Random, right: str, parts: Callable[[], Any]) -> bytes:
    """Half of them right texts with changes."""
    pick = rng.random()
    if pick < 0.5:
        return mutated_text(rng, right).encode("utf-8", "surrogatepass")
    if pick < 0.6:
        return mutated_bytes(rng, right.encode())
    if pick < 0.65:
        return rng.randbytes(rng.choice((0, 10, 1000)))
    if pick < 0.8:
        return deep_toml(rng).encode()
    return right.encode() + b"\n" + deep_toml(rng).encode() if pick < 0.85 else right.encode() * rng.choice((2, 200))


def schema_file(rng: random.Random, scene: Scene) -> None:
    place = scene.place()
    path: Any = place / "schema.toml"
    if rng.random() < 0.1:
        path = odd_path(rng, place, "schema.toml")
    else:
        path.write_bytes(_toml_input(rng, SCHEMA.to_toml(), lambda: None))
    found = Schema.load(path)
    found.fingerprint()
    repr(found)


def plan_file(rng: random.Random, scene: Scene) -> None:
    path: Any = scene.folder / "changed.toml"
    if rng.random() < 0.05:
        path = odd_path(rng, scene.place(), "plan.toml")
    else:
        path.write_bytes(_toml_input(rng, PLAN, lambda: None))
    plan = Plan.load(path)
    repr(plan)
    if rng.random() < 0.3:
        plan.cost().to_json()


def plan_data(rng: random.Random, scene: Scene) -> None:
    import tomllib

    data: Any = tomllib.loads(PLAN)
    data = mutated(rng, data) if rng.random() < 0.7 else mutated(rng, mutated(rng, data))
    plan = Plan.of(data, scene.folder)
    repr(plan)
    if rng.random() < 0.3:
        plan.cost().to_json()


# ---- releases ------------------------------------------------------------------------------------------------------


def use_release(release: Release, rng: random.Random) -> None:
    repr(release)
    release.to_json()
    release._repr_html_()
    if rng.random() < 0.2:
        release.parquet  # noqa: B018
        release.extra  # noqa: B018


def release_record(rng: random.Random, scene: Scene) -> None:
    """A record that travels alone, without digests beside it."""
    name = rng.choice(list(scene.records))
    path: Any = scene.place() / "release.json"
    pick = rng.random()
    if pick < 0.75:
        changed: Any = mutated(rng, scene.records[name])
        path.write_text(json.dumps(changed, default=repr, skipkeys=True) if _dumps(changed) else deep_json(rng))
    elif pick < 0.85:
        path.write_bytes(mutated_bytes(rng, json.dumps(scene.records[name]).encode()))
    elif pick < 0.95:
        path.write_text(json.dumps(scene.records[name])[:-1] + ', "x": ' + deep_json(rng) + "}")
    else:
        path = odd_path(rng, scene.place(), "release.json")
    use_release(Release.load(path), rng)


def _dumps(value: Any) -> bool:
    try:
        json.dumps(value, default=repr, skipkeys=True)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return False
    return True


def release_folder(rng: random.Random, scene: Scene) -> None:
    """A whole published folder in which one file was changed."""
    name = rng.choice(list(scene.records))
    place = scene.place() / "release"
    shutil.copytree(scene.folder / "releases" / name, place)
    victim = rng.choice(sorted(place.iterdir()))
    if rng.random() < 0.85:
        victim.write_bytes(mutated_bytes(rng, victim.read_bytes()))
    else:
        victim.unlink()
        odd_path(rng, place, victim.name)
    given = rng.choice((place, str(place), place / "release.json", victim))
    found = Release.load(given)
    use_release(found, rng)
    with Ledger.read(scene.folder / "ledger.db") as ledger:
        if rng.random() < 0.5:
            check_published(place, ledger)
        else:
            hidden = place.parent / ".release.pending-00ff"
            place.rename(hidden)
            recover(hidden, ledger)


def report_release(rng: random.Random, scene: Scene) -> None:
    """The page of a record that was changed."""
    path = scene.place() / "release.json"
    changed: Any = mutated(rng, scene.records[rng.choice(list(scene.records))])
    path.write_text(json.dumps(changed, default=repr, skipkeys=True) if _dumps(changed) else "{}")
    report(path)


# ---- certificates --------------------------------------------------------------------------------------------------


def certificate_file(rng: random.Random, scene: Scene) -> None:
    claim = Claim(_every_shape(), "one", 1e-6, attributes={"age": "years"}, adversaries={"a": ["age", "sick"]})
    right: Any = Certificate((claim,)).to_json() if rng.random() < 0.7 else _every_shape().to_json()
    path: Any = scene.place() / "certificate.json"
    pick = rng.random()
    if pick < 0.6:
        changed = mutated(rng, right)
        path.write_text(json.dumps(changed, default=repr, skipkeys=True) if _dumps(changed) else deep_json(rng))
    elif pick < 0.8:
        path.write_bytes(mutated_bytes(rng, json.dumps(right).encode()))
    elif pick < 0.9:
        path.write_text(deep_json(rng))
    else:
        path = odd_path(rng, scene.place(), "certificate.json")
    if rng.random() < 0.9:
        for found in Certificate.load(path).claims:
            figures(found.guarantee)
    else:
        report(path)


# ---- ledgers -------------------------------------------------------------------------------------------------------


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
            value = json.dumps(changed, default=repr, skipkeys=True) if _dumps(changed) else "{}"
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


def _released(folder: Path) -> Scene:
    return Scene.build(folder, releases=True)


def _warm(scene: Scene) -> None:
    for name in scene.records:
        report(scene.folder / "releases" / name)


KINDS: tuple[Kind, ...] = (
    Kind("schema files", schema_file, 30_000, 600, Scene.build),
    Kind("plan files", plan_file, 8000, 300, Scene.build),
    Kind("plans as data", plan_data, 8000, 300, Scene.build),
    Kind("release records", release_record, 20_000, 400, _released),
    Kind("release folders", release_folder, 4000, 150, _released),
    Kind("reports of releases", report_release, 3000, 100, _released, warm=_warm),
    Kind("certificates", certificate_file, 12_000, 300, Scene.build),
    Kind("ledger files", ledger_file, 3000, 100, prepare_ledger),
    Kind("ledger calls", ledger_calls, 3000, 100, prepare_ledger),
)
