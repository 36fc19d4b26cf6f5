"""The ledger under fire: racing processes, kill -9 at random and at planted moments, a creation cut short.

Run as a script, this file is the nursery: a process with one thread that forks the workers, so that each is a real
process and costs no new interpreter. It reports what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from nabladp.errors import BudgetExceeded, LedgerError
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Rho

PEOPLE = Universe(("age", "race"))
UNITS = 1001  # what one reservation costs


def cost() -> Guarantee:
    return Guarantee.touch(PEOPLE, ["age"], Rho(Fraction(UNITS, UNIT)))


def budget(reservations: int) -> Budget:
    return Budget(person=Rho(Fraction(reservations * UNITS, UNIT)))


def nursery(scene: str, path: Path, *arguments: object) -> Any:
    command = [sys.executable, __file__, scene, str(path), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def reserved(ledger: Ledger) -> set[str]:
    return {entry.name for entry in ledger.entries() if entry.kind == "reserve"}


def spent(ledger: Ledger) -> int | None:
    (line,) = ledger.spent()
    return line.spent_units


# ---- tests ----------------------------------------------------------------------------------------------------------


def test_32_processes_never_overspend_by_a_unit(tmp_path: Path) -> None:
    """All want to create the ledger at once, and one does; they race for a budget that fits exactly 50 of their 96
    reservations."""
    seen = nursery("race", tmp_path / "ledger.db", 32, 3, 50)
    assert seen["created"] == 1 and len(seen["granted"]) == 50 and seen["refused"] == 46 and seen["failed"] == []
    with Ledger.open(tmp_path / "ledger.db", PEOPLE, budget(50)) as ledger:
        assert spent(ledger) == 50 * UNITS
        assert reserved(ledger) == set(seen["granted"])
        assert ledger.verify() == []


def test_kill_9_at_random_moments_never_gives_budget_back(tmp_path: Path) -> None:
    seen = nursery("kill", tmp_path / "ledger.db", 8, 30)
    assert seen["kills"] == 30 and seen["failed"] == []
    with Ledger.open(tmp_path / "ledger.db", PEOPLE, budget(10**6)) as ledger:
        found = reserved(ledger)
        assert set(seen["acknowledged"]) <= found
        assert len(found) - len(seen["acknowledged"]) <= seen["kills"]  # booked, but killed before it could say so
        assert spent(ledger) == UNITS * len(found)
        assert ledger.verify() == []
        ledger.reserve(cost(), "afterwards")


def test_kill_9_at_planted_moments(tmp_path: Path) -> None:
    seen = nursery("planted", tmp_path)
    assert seen["hot journals"] >= 4  # some deaths left half-written pages behind, which the next open mended
    for operation in ("reserve", "reserve_all", "bind", "void", "change_budget"):
        for moment in ("after insert", "before commit", "after commit"):
            for pages in ("kept", "spilled"):
                end = seen["ends"][f"{operation}, {moment}, {pages}"]
                assert end["killed"] and end["problems"] == []
                assert end["happened"] == (moment == "after commit"), (operation, moment, pages)
                assert end["next"]  # the ledger still takes the same request


def test_a_creation_cut_short_is_completed_by_the_next_one(tmp_path: Path) -> None:
    seen = nursery("creation", tmp_path)
    assert seen["points"] > 10
    assert seen["broken"] == []


def test_void_and_bind_race_for_one_reservation(tmp_path: Path) -> None:
    seen = nursery("void or bind", tmp_path / "ledger.db", 12)
    assert seen["failed"] == []
    with Ledger.read(tmp_path / "ledger.db") as ledger:
        ends = {entry.name: entry.kind for entry in ledger.entries() if entry.ref is not None}
        bound = sum(kind == "bind" for kind in ends.values())
        assert len(ends) == 12 and seen["won"] == ends  # each has one winner, and the winner knows
        assert spent(ledger) == bound * UNITS
        assert ledger.unfinished() == [] and ledger.verify() == []


# ---- the nursery's side ---------------------------------------------------------------------------------------------


class Children:
    """Forked workers that report lines through one pipe; a line shorter than the pipe's buffer is never torn."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.lines: list[list[str]] = []
        self._rest = b""

    def start(self, work: Callable[[], None]) -> int:
        child = os.fork()
        if child:
            return child
        try:
            work()
        except BaseException as error:
            self.say("failed", repr(error))
        os._exit(0)

    def say(self, *words: str) -> None:
        os.write(self.writer, (json.dumps(words) + "\n").encode())

    def hear(self) -> None:
        try:
            while data := os.read(self.reader, 1 << 16):
                *whole, self._rest = (self._rest + data).split(b"\n")
                self.lines += [json.loads(line) for line in whole]
        except BlockingIOError:
            pass

    def told(self, word: str) -> list[str]:
        self.hear()
        return [line[1] for line in self.lines if line[0] == word]


def wait(children: list[int]) -> None:
    for child in children:
        os.waitpid(child, 0)


def race(path: Path, processes: str, attempts: str, fits: str) -> dict[str, Any]:
    family = Children()
    start = time.monotonic() + 0.3

    def work(number: int) -> None:
        time.sleep(max(0.0, start - time.monotonic()))
        try:
            ledger = Ledger.create(path, PEOPLE, budget(int(fits)))
            family.say("created", "")
        except LedgerError:
            ledger = Ledger.open(path, PEOPLE, budget(int(fits)))
        for attempt in range(int(attempts)):
            try:
                family.say("granted", ledger.reserve(cost(), f"{number}:{attempt}").name)
            except BudgetExceeded:
                family.say("refused", "")

    wait([family.start(lambda number=number: work(number)) for number in range(int(processes))])  # type: ignore[misc]
    return {
        "created": len(family.told("created")),
        "granted": family.told("granted"),
        "refused": len(family.told("refused")),
        "failed": family.told("failed"),
    }


def kill(path: Path, processes: str, kills: str) -> dict[str, Any]:
    family = Children()
    chance = random.Random(8)
    started = 0
    Ledger.create(path, PEOPLE, budget(10**6)).close()

    def work(number: int) -> None:
        ledger = Ledger.open(path, PEOPLE, budget(10**6))
        for attempt in range(10**6):
            family.say("acknowledged", ledger.reserve(cost(), f"{number}:{attempt}").name)

    def another() -> int:
        nonlocal started
        started += 1
        return family.start(lambda: work(started))

    alive = [another() for _ in range(int(processes))]
    for _ in range(int(kills)):
        time.sleep(chance.uniform(0.005, 0.06))
        place = chance.randrange(len(alive))
        os.kill(alive[place], signal.SIGKILL)
        os.waitpid(alive[place], 0)
        family.hear()
        alive[place] = another()
    for child in alive:
        os.kill(child, signal.SIGKILL)
    wait(alive)
    return {"acknowledged": family.told("acknowledged"), "failed": family.told("failed"), "kills": int(kills)}


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def plant(moment: str) -> None:
    """Arrange for this process to be killed at that moment of its next transaction."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine
    from sqlalchemy.pool import Pool

    def after(begin: str) -> Callable[..., None]:
        return lambda _c, _cursor, statement, *_: die() if statement.startswith(begin) else None

    if moment == "before commit":
        event.listen(Engine, "commit", die)
    elif moment == "after commit":
        event.listen(Engine, "commit", lambda _: event.listen(Pool, "checkin", die))
    else:
        event.listen(Engine, "after_cursor_execute", after("INSERT INTO entries"))  # the head has followed by then


def spill() -> None:
    """A cache of one page: SQLite must write changed pages into the file before the commit."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    event.listen(Engine, "connect", lambda connection, _: connection.execute("PRAGMA cache_size = 1"))


NOTE = {"note": "n" * 30_000}
OPERATIONS: dict[str, Callable[[Ledger], object]] = {
    "reserve": lambda ledger: ledger.reserve(cost(), "new", NOTE),
    "reserve_all": lambda ledger: ledger.reserve_all([(cost(), "new", NOTE), (cost(), "newer", NOTE)]),
    "bind": lambda ledger: ledger.bind("first", "digest", NOTE),
    "void": lambda ledger: ledger.void("first", "n" * 30_000),
    "change_budget": lambda ledger: ledger.change_budget(budget(7), "n" * 30_000),
}


def planted(folder: Path) -> dict[str, Any]:
    ends: dict[str, Any] = {}
    hot = 0
    for number, (operation, run) in enumerate(OPERATIONS.items()):
        for moment in ("after insert", "before commit", "after commit"):
            for pages in ("kept", "spilled"):
                path = folder / f"{number}-{moment}-{pages}.db"
                ledger = Ledger.create(path, PEOPLE, budget(100))
                ledger.reserve(cost(), "first")
                before = ledger.head

                def work(path: Path = path, moment: str = moment, pages: str = pages, run: Any = run) -> None:
                    if pages == "spilled":
                        spill()
                    ledger = Ledger.open(path, PEOPLE, budget(100))
                    plant(moment)
                    run(ledger)

                _, status = os.waitpid(Children().start(work), 0)
                journal = Path(f"{path}-journal")
                hot += journal.exists() and journal.stat().st_size > 0 and any(journal.read_bytes()[:8])
                seen = Ledger.read(path)  # a reader, too, mends what the dead writer left
                happened = seen.head != before
                ends[f"{operation}, {moment}, {pages}"] = {
                    "killed": os.WIFSIGNALED(status),
                    "problems": [problem.text for problem in seen.verify()],
                    "happened": happened,
                    "next": happened or bool(run(Ledger.open(path, PEOPLE, budget(100)))),
                }
    return {"ends": ends, "hot journals": hot}


def creation(folder: Path) -> dict[str, Any]:
    """Kill a creation before its first statement, its second, … until one survives. What is left is no ledger, and can
    be created, or a whole one."""
    broken = []
    for point in range(200):
        path = folder / f"{point}.db"

        def work(path: Path = path, point: int = point) -> None:
            from sqlalchemy import event
            from sqlalchemy.engine import Engine

            if point % 2:
                spill()
            left = iter(range(point))
            event.listen(Engine, "before_cursor_execute", lambda *_: die() if next(left, None) is None else None)
            event.listen(Engine, "commit", lambda *_: die() if next(left, None) is None else None)
            Ledger.create(path, PEOPLE, budget(100))

        _, status = os.waitpid(Children().start(work), 0)
        if not os.WIFSIGNALED(status):
            break
        try:
            use = Ledger.open if Ledger.exists(path) else Ledger.create
            with use(path, PEOPLE, budget(100)) as ledger:
                ledger.reserve(cost(), "first")
                broken += [[point, problem.text] for problem in ledger.verify()]
        except Exception as error:
            broken.append([point, repr(error)])
    return {"points": point, "broken": broken}


def void_or_bind(path: Path, pairs: str) -> dict[str, Any]:
    family = Children()
    names = [f"r{number}" for number in range(int(pairs))]
    with Ledger.create(path, PEOPLE, budget(100)) as ledger:
        ledger.reserve_all([(cost(), name, {}) for name in names])

    def work(kind: str) -> None:
        ledger = Ledger.open(path, PEOPLE, budget(100))
        for name in names:
            try:
                _ = ledger.void(name, "race") if kind == "void" else ledger.bind(name, "digest")
                family.say("won", f"{name} {kind}")
            except LedgerError:
                pass

    wait([family.start(lambda kind=kind: work(kind)) for kind in ("void", "bind", "void")])  # type: ignore[misc]
    return {"won": dict(line.split() for line in family.told("won")), "failed": family.told("failed")}


SCENES: dict[str, Callable[..., dict[str, Any]]] = {
    "race": race,
    "kill": kill,
    "planted": planted,
    "creation": creation,
    "void or bind": void_or_bind,
}

if __name__ == "__main__":
    import sqlalchemy.dialects.sqlite  # noqa: F401  what every worker needs is loaded once, before the forks

    import nabladp.privacy.cost_index
    import nabladp.privacy.ledger.store  # noqa: F401

    print(json.dumps(SCENES[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])))
