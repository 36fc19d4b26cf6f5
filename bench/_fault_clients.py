"""Clients of ``bench faults``: processes that release again and again, until they are told to stop or are killed."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from nabladp.errors import BudgetExceeded, SourceError
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import Budget, Guarantee, Ledger, Rho
from nabladp.release import Release, Session
from nabladp.schema import Attribute, Schema
from nabladp.tables import open_table

SCHEMA = Schema(tuple(Attribute(name, "integer", low=0, high=7) for name in "abcd"))
COST = Rho(Fraction(1, 1024))
SEED = 7  # all releases are drawn with it, so that each must give the same numbers
MECHANISM = NoisyMarginals(COST, k=2)


def price() -> Guarantee:
    return MECHANISM.guarantee(SCHEMA, 0)


def budget(releases: int) -> Budget:
    units = price().rho_units(frozenset("abcd"))
    if units is None:
        raise RuntimeError("Gaussian noise has a bound")
    return Budget(person=Rho(Fraction(releases * units, 1 << 60)))


def release(table: object, ledger: Ledger, name: str, to: Path) -> Release:
    """A real one: counted, drawn, written, synced, bound and shown."""
    session = Session(table, SCHEMA, None, ledger, noise=NoiseSource.seeded(SEED))
    return session.release(MECHANISM, name, to)


def work(source: Path, address: str, number: int, folder: Path) -> None:
    """Writes down each release that it was told is done: one line, one write, whole or not at all."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # DuckDB takes a forked process for a terminal, and draws bars
    ledger = _reached(address)
    table = open_table(str(source), SCHEMA)
    line = os.open(folder / f"told-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)  # a file: it has begun
    for name in _names(number, folder):
        try:
            done = release(table, ledger, name, folder / name)
        except BudgetExceeded:
            return
        os.write(line, f"{name} {done.digest}\n".encode())


def _names(number: int, folder: Path) -> Iterator[str]:
    for attempt in itertools.count():
        if (folder / "stop").exists():
            return
        yield f"release-{number}-{attempt}"


def _reached(address: str) -> Ledger:
    """A ledger that was reached once waits for its server by itself; the first time is for the caller to repeat."""
    until = time.monotonic() + 60
    while True:
        try:
            return Ledger.open(address, test=True)
        except SourceError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
