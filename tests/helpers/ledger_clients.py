"""Clients that reserve from one ledger at once, each in a process of its own, and write down what they are told."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable
from fractions import Fraction
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from nabladp.errors import BudgetExceeded, LedgerError, NablaDPError
from nabladp.privacy import Budget, Guarantee, Ledger, Rho
from nabladp.privacy.units import UNIT

NAMES = ("age", "income")
UNITS = 1001  # what one reservation costs


def cost(names: Iterable[str] = NAMES) -> Guarantee:
    return Guarantee.touch(list(names), ["age"], Rho(Fraction(UNITS, UNIT)))


def budget(reservations: int) -> Budget:
    return Budget(person=Rho(Fraction(reservations * UNITS, UNIT)))


def context() -> ForkServerContext:
    """Processes that are forked from one that has loaded everything: a new one costs next to nothing."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(["ledger_clients", "psycopg", "sqlalchemy.dialects.postgresql.psycopg",
                                 "nabladp.privacy.ledger.store", "nabladp.privacy.cost_index"])  # fmt: skip
    return made


def opened(address: str, fits: int) -> Ledger:
    """Of several that want to create it at once, one does."""
    try:
        return Ledger.create(address, NAMES, budget(fits))
    except LedgerError:
        return Ledger.open(address, NAMES, budget(fits))


def client(address: str, fits: int, number: int, attempts: int, told: Path) -> None:
    """One line for each attempt, in one write: whole or not at all, even if killed."""
    with opened(address, fits) as ledger:
        line = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)  # a file: this client has begun
        for attempt in range(attempts):
            name = f"{number}:{attempt}"
            try:
                ledger.reserve(cost(), name)
                said = f"granted {name}"
            except BudgetExceeded:
                said = f"refused {name}"
            except NablaDPError as error:
                said = f"{error.fields.get('outcome', 'failed')} {name} {error}"
            os.write(line, f"{said}\n".encode())


def start(address: str, fits: int, clients: int, attempts: int, folder: Path) -> list[ForkServerProcess]:
    """They create the ledger where there is none, for a budget that fits so many reservations."""
    made = context()
    started = [
        made.Process(target=client, args=(address, fits, number, attempts, folder / f"told-{number}"))
        for number in range(clients)
    ]
    for process in started:
        process.start()
    return started


def told(folder: Path) -> dict[str, set[str]]:
    """The names by what was said of them: granted, refused, unknown, failed."""
    found: dict[str, set[str]] = {}
    for file in folder.glob("told-*"):
        for line in file.read_text().splitlines():
            word, name, *_ = line.split(" ")
            found.setdefault(word, set()).add(name)
    return found


def booked(ledger: Ledger) -> list[str]:
    return [entry.name for entry in ledger.entries() if entry.kind == "reserve"]


def spent(ledger: Ledger) -> Any:
    (line,) = ledger.spent()
    return line.spent_units
