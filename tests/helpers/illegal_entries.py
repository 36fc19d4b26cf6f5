"""Entries that somebody who knows the format appends to a ledger: hashes are right, rules are broken.

The hashing is written out here once more, independently of the library. Every forgery is a function of the entries that
are there; it answers with the parts of an entry that an attacker would like to see accepted.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nabladp.errors import LedgerError
from nabladp.privacy import Budget, Guarantee, Ledger, Rho, Universe

PEOPLE = Universe(("age", "income", "region"), {"band": ("age",)})
WIDER = Universe(PEOPLE.roots, {"band": ("age",), "decile": ("income",)})
LARGE, SMALL = Budget(per_attribute=Rho(4), person=Rho(8)), Budget(per_attribute=Rho(2), person=Rho(3))
COST = Guarantee.touch(PEOPLE, ["age"], Rho(0.25))
COLUMNS = ("seq", "kind", "name", "ref", "time", "payload", "totals", "previous", "hash")


def fill(ledger: Ledger) -> None:
    """One entry of every kind: 1 open, 2 bound by 4, 3 voided by 5, 6 external, 7 schema, 8 budget, 9 unfinished."""
    ledger.reserve(COST, "bound")
    ledger.reserve(COST, "voided")
    ledger.bind("bound", "d" * 64)
    ledger.void("voided", "nothing was published")
    ledger.record_external(COST, "theirs", who="another office")
    ledger.reserve(Guarantee.touch(WIDER, ["decile"], Rho(0.25)), "derived")
    ledger.change_budget(SMALL, "the board decided")
    ledger.reserve(COST, "unfinished")


@dataclass(frozen=True)
class Forged:
    """What is appended; anything left out is taken from the entry before."""

    kind: str
    name: str = "ledger"
    ref: int | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    totals: Mapping[str, Any] = field(default_factory=dict)


class Entries:
    """The entries of a ledger, as plain data, found by kind or name."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self.rows = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        for row in self.rows:
            row["payload"], row["totals"] = json.loads(row["payload"]), json.loads(row["totals"])

    def first(self, kind: str, name: str | None = None) -> dict[str, Any]:
        return next(row for row in self.rows if row["kind"] == kind and name in (None, row["name"]))

    @property
    def last(self) -> dict[str, Any]:
        return self.rows[-1]

    def seal(self, forged: Forged) -> tuple[Any, ...]:
        """The row to insert, with its right number and hash."""
        payload = {"ticket": "0" * 32, **forged.payload}
        totals = {**self.last["totals"], **forged.totals}
        number, time, previous = self.last["seq"] + 1, self.last["time"], self.last["hash"]
        body = [number, forged.kind, forged.name, forged.ref, time, _text(payload), _text(totals)]
        return (*body, previous, hashlib.sha256(_text([previous, *body]).encode()).hexdigest())


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _limits(entries: Entries, factor: int = 1, keep: int = 99, **changes: Any) -> dict[str, Any]:
    """The payload of a budget entry like the one in force, with other units, fewer limits or other fields."""
    payload = json.loads(json.dumps(entries.first("budget")["payload"]))
    limits = [{**limit, "units": str(int(limit["units"]) * factor), **changes} for limit in payload["limits"]]
    return {**payload, "limits": limits[:keep]}


def _budget_in_force(entries: Entries, **totals: Any) -> dict[str, Any]:
    return {"budget": entries.last["seq"] + 1, **totals}


def _schema(entries: Entries, **changes: Any) -> Forged:
    universe = {**entries.first("schema")["payload"]["universe"], **changes}
    return Forged("schema", "schema", None, {"universe": universe}, {"schema": entries.last["seq"] + 1})


def _reserve(entries: Entries, name: str = "new", cost: Guarantee = COST, spent: Any = None, **payload: Any) -> Forged:
    """A reservation whose totals are raised by as much as it costs, unless ``spent`` states others."""
    plain = {"guarantee": cost.to_json(), "details": {}, "seeded": False, **payload}
    return Forged("reserve", name, None, plain, {"spent": _raised(entries, cost) if spent is None else spent})


def _raised(entries: Entries, cost: Guarantee, sign: int = 1) -> dict[str, Any]:
    spent = json.loads(json.dumps(entries.last["totals"]["spent"]))
    for key, names in (("0", ["age"]), ("1", ["income"]), ("2", ["region"]), ("*", list(PEOPLE.roots))):
        units = cost.rho_units(frozenset(names)) or 0
        if units:
            tally = spent.setdefault(key, {})
            tally["rho"] = str(int(tally.get("rho", "0")) + sign * units)
            tally["unbounded_pure"] = tally.get("unbounded_pure", 0) + sign
    return spent


def _ending(entries: Entries, kind: str, target: str, name: str, as_name: str | None = None) -> Forged:
    """An entry that ends ``name`` of kind ``target``; a void lowers the totals."""
    payload = {"reason": "a mistake", "digest": "d" * 64, "details": {}, "seeded": False}
    totals = {"spent": _raised(entries, COST, -1)} if kind == "void" else {}
    return Forged(kind, as_name or name, entries.first(target, name)["seq"], payload, totals)


def _negative(entries: Entries) -> Forged:
    guarantee = json.loads(json.dumps(COST.to_json()))
    for term in guarantee["terms"]:
        term["weight"] = str(-int(term["weight"]))
    return _reserve(entries, guarantee=guarantee, spent=_raised(entries, COST, -1))


def _from_nothing(entries: Entries) -> Forged:
    """A release of a column that, so it says, derives from nothing, and so costs nothing."""
    guarantee = json.loads(json.dumps(COST.to_json()))
    guarantee["universe"]["derived"]["free"] = []
    guarantee["terms"] = []
    return _reserve(entries, guarantee=guarantee, spent=entries.last["totals"]["spent"])


def _external(entries: Entries, **payload: Any) -> Forged:
    plain = {"guarantee": COST.to_json(), "who": "an office", "note": "", "exceeded": [], **payload}
    return Forged("external", "new", None, plain, {"spent": _raised(entries, COST)})


def _opened_again(entries: Entries, **payload: Any) -> Forged:
    number = entries.last["seq"] + 1
    totals = {"budget": number, "schema": number, "spent": {}}
    return Forged("open", "ledger", None, {**entries.first("open")["payload"], **payload}, totals)


FORGERIES: Mapping[str, Callable[[Entries], Forged]] = {
    "a second opening with nothing spent": _opened_again,
    "a second opening as a test ledger": lambda e: _opened_again(e, test=True, stamp="TEST — NOT PRIVATE"),
    "a budget with larger units than its value": lambda e: Forged(
        "budget", "budget", None, _limits(e, 10), _budget_in_force(e)
    ),
    "a budget with one unit in a thousand more": lambda e: Forged(
        "budget",
        "budget",
        None,
        _limits(e) | {"limits": [{**x, "units": str(int(x["units"]) * 1001 // 1000)} for x in _limits(e)["limits"]]},
        _budget_in_force(e),
    ),
    "a budget that leaves out limits": lambda e: Forged(
        "budget", "budget", None, _limits(e, keep=1), _budget_in_force(e)
    ),
    "a budget whose limits name other attributes": lambda e: Forged(
        "budget", "budget", None, _limits(e, attributes=["region"]), _budget_in_force(e)
    ),
    "a budget that forgets what is spent": lambda e: Forged(
        "budget", "budget", None, _limits(e), _budget_in_force(e, spent={})
    ),
    "a budget without a reason": lambda e: Forged(
        "budget", "budget", None, _limits(e) | {"reason": ""}, _budget_in_force(e)
    ),
    "a schema in another order": lambda e: _schema(e, attributes=["region", "income", "age"]),
    "a schema without an attribute": lambda e: _schema(e, attributes=["age", "income"]),
    "a schema with another attribute": lambda e: _schema(e, attributes=[*PEOPLE.roots, "free"]),
    "a schema that derives a column anew": lambda e: _schema(e, derived={"band": ["region"], "decile": ["income"]}),
    "a schema that drops a derived column": lambda e: _schema(e, derived={"decile": ["income"], "x": ["age"]}),
    "a schema with a column derived from nothing": lambda e: _schema(
        e, derived={"band": ["age"], "decile": ["income"], "free": []}
    ),
    "a schema that makes an attribute public": lambda e: _schema(
        e, public=["income"], derived={"band": ["age"], "decile": ["income"], "x": ["age"]}
    ),
    "a schema that adds nothing": lambda e: _schema(e),
    "a void of an external release": lambda e: _ending(e, "void", "external", "theirs"),
    "a void of a bound release": lambda e: _ending(e, "void", "reserve", "bound"),
    "a void of a binding": lambda e: _ending(e, "void", "bind", "bound"),
    "a second void": lambda e: _ending(e, "void", "reserve", "voided"),
    "a void of a void": lambda e: _ending(e, "void", "void", "voided"),
    "a void under another name": lambda e: _ending(e, "void", "reserve", "unfinished", as_name="theirs"),
    "a void of nothing": lambda e: Forged("void", "x", 999, {"reason": "x"}, {"spent": _raised(e, COST, -1)}),
    "a void without a reference": lambda e: Forged("void", "x", None, {"reason": "x"}, {"spent": {}}),
    "a void without a reason": lambda e: Forged(
        "void", "unfinished", e.first("reserve", "unfinished")["seq"], {}, {"spent": _raised(e, COST, -1)}
    ),
    "a void that takes away too much": lambda e: Forged(
        "void", "unfinished", e.first("reserve", "unfinished")["seq"], {"reason": "x"}, {"spent": {}}
    ),
    "a binding of an external release": lambda e: _ending(e, "bind", "external", "theirs"),
    "a binding of a voided reservation": lambda e: _ending(e, "bind", "reserve", "voided"),
    "a failure of a bound release": lambda e: _ending(e, "failed", "reserve", "bound"),
    "a binding that lowers the totals": lambda e: Forged(
        "bind",
        "unfinished",
        e.first("reserve", "unfinished")["seq"],
        {"digest": "d", "details": {}, "seeded": False},
        {"spent": {}},
    ),
    "a binding that puts an earlier budget in force": lambda e: Forged(
        "bind",
        "unfinished",
        e.first("reserve", "unfinished")["seq"],
        {"digest": "d", "details": {}, "seeded": False},
        {"budget": 1},
    ),
    "a reservation beyond its limit": lambda e: _reserve(e, cost=Guarantee.touch(PEOPLE, ["age"], Rho(3.5))),
    "a reservation that does not count": lambda e: _reserve(e, spent=e.last["totals"]["spent"]),
    "a reservation with a negative cost": _negative,
    "a reservation with a name in use": lambda e: _reserve(e, name="theirs"),
    "a reservation of a column from nothing": _from_nothing,
    "a reservation with a seed": lambda e: _reserve(e, seeded=True),
    "a reservation stamped as a test": lambda e: _reserve(e, stamp="TEST — NOT PRIVATE"),
    "a reservation that refers to another": lambda e: Forged(
        "reserve", "new", 2, _reserve(e).payload, _reserve(e).totals
    ),
    "an external release of nobody": lambda e: _external(e, who=""),
    "an external release that exceeds more than it says": lambda e: _external(
        e, guarantee=Guarantee.touch(PEOPLE, ["age"], Rho(9)).to_json()
    ),
    "a format that falls": lambda e: Forged("format", "format", None, {"from": 3, "format": 2}),
    "a format from the future": lambda e: Forged("format", "format", None, {"from": 3, "format": 4}),
    "a kind that does not exist": lambda e: Forged("refund", "theirs", None, {}, {"spent": {}}),
}


def append_to_file(path: Path, forge: Callable[[Entries], Forged]) -> bool:
    """Append to a SQLite ledger whatever its triggers say; whether they said no."""
    database = sqlite3.connect(path, isolation_level=None)
    row = Entries(database.execute("SELECT * FROM entries ORDER BY seq").fetchall()).seal(forge_of(database, forge))
    try:
        refused = not _inserted(database, row)
        if refused:
            for kind in ("trigger", "index"):
                query = "SELECT name FROM sqlite_master WHERE type = ? AND sql IS NOT NULL"
                for (name,) in database.execute(query, [kind]).fetchall():
                    database.execute(f"DROP {kind} {name}")
            _inserted(database, row)
            database.execute("UPDATE head SET seq = ?, hash = ?", [row[0], row[-1]])
        return refused
    finally:
        database.close()


def forge_of(database: sqlite3.Connection, forge: Callable[[Entries], Forged]) -> Forged:
    return forge(Entries(database.execute("SELECT * FROM entries ORDER BY seq").fetchall()))


def _inserted(database: sqlite3.Connection, row: Sequence[Any]) -> bool:
    try:
        database.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    except sqlite3.IntegrityError:
        return False
    return True


def append_to_server(connection: Any, forge: Callable[[Entries], Forged]) -> bool:
    """The same in a PostgreSQL database, over a connection of the owner."""
    import psycopg

    entries = Entries(connection.execute("SELECT * FROM entries ORDER BY seq").fetchall())
    row = entries.seal(forge(entries))
    insert = f"INSERT INTO entries VALUES ({', '.join(['%s'] * 9)})"
    try:
        connection.execute(insert, row)
    except psycopg.Error:
        for table in ("entries", "head"):
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        connection.execute("DROP INDEX entry_names, entry_ends")
        connection.execute(insert, row)
        connection.execute("UPDATE head SET seq = %s, hash = %s", [row[0], row[-1]])
        return True
    return False


def uses_that_go_on(where: str | Path, opened: Ledger) -> list[str]:
    """The uses of a ledger that an illegal entry does not stop; ``opened`` was opened before it was appended."""
    uses: Mapping[str, Callable[[], object]] = {
        "open": lambda: Ledger.open(where).close(),
        "open with schema and budget": lambda: Ledger.open(where, WIDER, SMALL).close(),
        "spent": lambda: _read(where, lambda ledger: ledger.spent()),
        "guarantee": lambda: _read(where, lambda ledger: ledger.guarantee()),
        "entries": lambda: _read(where, lambda ledger: list(ledger.entries())),
        "entry": lambda: _read(where, lambda ledger: ledger.entry("bound")),
        "unfinished": lambda: _read(where, lambda ledger: ledger.unfinished()),
        "reserve": lambda: opened.reserve(COST, "after"),
        "void": lambda: opened.void("derived", "x"),
        "spent, opened before": lambda: opened.spent(),
    }
    return [name for name, use in uses.items() if not _stopped(use)]


def _read(where: str | Path, look: Callable[[Ledger], object]) -> None:
    with Ledger.read(where) as ledger:
        look(ledger)


def _stopped(use: Callable[[], object]) -> bool:
    try:
        use()
    except LedgerError as error:
        return "broken" in error.message
    return False


def is_reported(where: str | Path, rights: bool = False) -> bool:
    """Whether verify reports the last entry, for another reason than missing rights or triggers."""
    with Ledger.read(where) as ledger:
        last = ledger.head.seq
        return any(problem.seq == last and problem.what != "rights" for problem in ledger.verify())
