"""Does a reservation stay as cheap with 100,000 entries, and does the ledger hold under 32 processes and kill -9?

``reserve_ratio_100k_vs_1k``  median time of one reservation in a ledger of 100,000 entries over one of 1,000, measured
                              in turns in one process, with everything on disk as in earnest
``overspent``                 units booked beyond the limit after the race
``lost``                      reservations that a worker was told were made and that the ledger does not have
``illegal_entries``           entries that break a rule of the ledger, appended with right hashes to a SQLite and to a
                              PostgreSQL ledger (past the triggers where those refuse): how many stop every use, and how
                              many ``verify`` reports
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from nabladp.errors import BudgetExceeded
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.units import UNIT
from nabladp.privacy.values import CDP, Rho

SECONDS = {"full": 120, "quick": 25}
ATTRIBUTES = [f"attribute{i}" for i in range(12)]
PROCESSES = 32
HELPERS = Path(__file__).resolve().parent.parent / "tests" / "helpers"
UNITS = 12345  # what one reservation of the race costs


def run(quick: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        growth = _growth(Path(folder), large=10_000 if quick else 100_000, rounds=100 if quick else 300)
        race = _race(Path(folder), fits=200 if quick else 1000)
        illegal = _illegal(Path(folder))
    return {**growth, **race, "illegal_entries": illegal}


# ---- growth ----


def _growth(folder: Path, large: int, rounds: int) -> dict[str, object]:
    ledgers = {size: _filled(folder / f"{size}.db", size) for size in (1_000, large)}
    took: dict[int, list[float]] = {size: [] for size in ledgers}
    for number in range(rounds):
        for size, ledger in ledgers.items():  # in turns, so that both see the same machine
            guarantee = _marginal(number)
            start = time.perf_counter()
            ledger.reserve(guarantee, f"timed-{number}")
            took[size].append(time.perf_counter() - start)
    small, big = (statistics.median(times) for times in took.values())
    return {
        "reserve_ratio_100k_vs_1k": round(big / small, 3),
        "reserve_ms": round(1000 * big, 2),
        "entries": [1_000, large],
    }


def _marginal(number: int) -> Guarantee:
    pair = [ATTRIBUTES[number % 12], ATTRIBUTES[(number * 5 + 1) % 12]]
    return Guarantee.touch(ATTRIBUTES, pair, Rho(Fraction(1, 10**9)))


def _filled(path: Path, entries: int, batch: int = 5_000) -> Ledger:
    ledger = Ledger.create(path, ATTRIBUTES, Budget(per_attribute=CDP(10), person=Rho(100)))
    kinds = [_marginal(number) for number in range(60)]
    for start in range(1, entries, batch):
        numbers = range(start, min(start + batch, entries))
        ledger.reserve_all([(kinds[number % 60], f"filled-{number}", {}) for number in numbers])
    return ledger


# ---- race ----


def _race(folder: Path, fits: int) -> dict[str, object]:
    """Workers reserve until the budget is gone, while some of them are killed and replaced at random moments."""
    path = folder / "race.db"
    budget = Budget(person=Rho(Fraction(fits * UNITS, UNIT)))
    Ledger.create(path, ATTRIBUTES, budget).close()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.ledger", "nabladp.privacy.ledger.store", "nabladp.privacy.cost_index"])
    chance = random.Random(2)
    alive: list[tuple[ForkServerProcess, Path]] = []
    kills = 0

    def start() -> tuple[ForkServerProcess, Path]:
        number = kills + len(alive)
        told = folder / f"told-{number}"
        worker = context.Process(target=_work, args=(path, budget, number, told))
        worker.start()
        return worker, told

    while len(alive) < PROCESSES:
        alive.append(start())
    while any(worker.exitcode is None for worker, _ in alive):  # a worker ends by itself when the budget is gone
        time.sleep(chance.uniform(0.05, 0.25))
        # the one that booked last is most likely to be writing again; another is taken at random
        latest = max(range(PROCESSES), key=lambda place: _changed(alive[place][1]))
        for place in {latest, chance.randrange(PROCESSES)}:
            worker, _ = alive[place]
            worker.kill()
            worker.join()
            if worker.exitcode == -signal.SIGKILL:
                kills += 1
                alive[place] = start()
    if any(worker.exitcode != 0 for worker, _ in alive):
        raise RuntimeError("a worker failed by itself")
    told = [name for file in folder.glob("told-*") for name in file.read_text().split()]
    with Ledger.read(path) as ledger:
        booked = [entry.name for entry in ledger.entries() if entry.kind == "reserve"]
        (line,) = ledger.spent()
        problems = ledger.verify()
    used = max(line.spent_units or 0, len(booked) * UNITS)
    return {
        "overspent": max(0, used - line.limit.units),
        "lost": len(set(told) - set(booked)),
        "processes": PROCESSES,
        "kills": kills,
        "booked": len(booked),  # at times more than acknowledged: booked, and killed before it could say so
        "acknowledged": len(told),
        "chain_problems": len(problems),
    }


def _changed(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


def _work(path: Path, budget: Budget, number: int, told: Path) -> None:
    cost = Guarantee.touch(ATTRIBUTES, ATTRIBUTES[:1], Rho(Fraction(UNITS, UNIT)))
    ledger = Ledger.open(path, ATTRIBUTES, budget)
    line = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    attempt = 0
    while True:
        try:
            name = ledger.reserve(cost, f"{number}:{attempt}").name
        except BudgetExceeded:
            return
        os.write(line, f"{name}\n".encode())  # one write: whole or not at all, even if killed
        attempt += 1


# ---- illegal entries ----


def _illegal(folder: Path) -> dict[str, int]:
    """Every forgery of the tests, on both kinds of database, each in a fresh copy of the same ledger."""
    sys.path.insert(0, str(HELPERS))
    from illegal_entries import FORGERIES, LARGE, PEOPLE, append_to_file, append_to_server, fill
    from postgres_server import find_postgres, running_server

    program = find_postgres()
    if program is None:
        raise RuntimeError("PostgreSQL is not installed")
    count = {"kinds": len(FORGERIES), "tried": 0, "refused_by_database": 0}
    count |= {"stopped_when_used": 0, "reported_by_verify": 0}
    with running_server(program) as server:
        server.run("CREATE DATABASE filled")
        for where in (folder / "filled.db", server.address("filled")):
            with Ledger.create(where, PEOPLE, LARGE) as ledger:
                fill(ledger)
        for number, forge in enumerate(FORGERIES.values()):
            path, name = folder / f"illegal-{number}.db", f"illegal{number}"
            shutil.copy(folder / "filled.db", path)
            _try_entry(path, partial(append_to_file, path, forge), count)
            server.run(f"CREATE DATABASE {name} TEMPLATE filled")
            with server.connect(name) as owner:
                _try_entry(server.address(name), partial(append_to_server, owner, forge), count)
    return count


def _try_entry(where: str | Path, append: Callable[[], bool], count: dict[str, int]) -> None:
    from illegal_entries import is_reported, uses_that_go_on

    with Ledger.open(where) as opened:
        opened.spent()
        count["tried"] += 1
        count["refused_by_database"] += append()
        count["stopped_when_used"] += not uses_that_go_on(where, opened)
    count["reported_by_verify"] += is_reported(where)
