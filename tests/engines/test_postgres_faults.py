"""A PostgreSQL server that dies under its clients: nothing overspent, nothing lost, nothing booked twice."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from ledger_clients import UNITS, booked, budget, cost, spent, start, told
from postgres_server import Server
from sqlalchemy import event
from sqlalchemy.engine import Engine

from nabladp.errors import LedgerError, SourceError
from nabladp.privacy import Ledger

NAMES = ("age", "income")


def test_32_clients_while_the_server_is_killed(server: Server, address: str, tmp_path: Path) -> None:
    """They race for a budget that fits 90 of their 128 reservations; the server dies three times meanwhile."""
    clients = start(address, 90, 32, 4, tmp_path)  # all create it, too
    chance = random.Random(5)
    kills = 0
    while any(client.is_alive() for client in clients):
        time.sleep(chance.uniform(0.05, 0.2))
        done = len(told(tmp_path).get("granted", ()))
        if kills < 3 and done > 25 * kills and len(list(tmp_path.iterdir())) == 32:  # all have begun
            server.kill()
            kills += 1
            time.sleep(chance.uniform(0, 0.3))
            server.start()
    said = told(tmp_path)
    assert kills == 3 and set(said) == {"granted", "refused"}, "every client found out how each request ended"
    assert [client.exitcode for client in clients] == [0] * 32
    with Ledger.read(address) as ledger:
        found = booked(ledger)
        assert len(found) == 90 and set(found) == said["granted"]
        assert spent(ledger) == 90 * UNITS and ledger.verify() == []


@contextmanager
def once(moment: str, act: Callable[[], None]) -> Iterator[list[str]]:
    """Do this the first time that a statement beginning so has been executed, or that a commit is about to be sent."""
    seen: list[str] = []

    def fire(*_: Any) -> None:
        if not seen:
            seen.append(moment)
            act()

    def after(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(moment):
            fire()

    what, listener = ("commit", fire) if moment == "COMMIT" else ("after_cursor_execute", after)
    event.listen(Engine, what, listener)
    try:
        yield seen
    finally:
        event.remove(Engine, what, listener)


@pytest.mark.parametrize("moment", ["SELECT seq, hash FROM head FOR UPDATE", "INSERT INTO entries", "COMMIT"])
def test_the_server_dies_in_the_middle_of_a_transaction(server: Server, address: str, moment: str) -> None:
    def restart() -> None:
        server.kill()
        threading.Timer(0.2, server.start).start()  # meanwhile nobody answers

    with Ledger.create(address, NAMES, budget(3)) as ledger:
        with once(moment, restart) as seen:
            entry = ledger.reserve(cost(), "first")
        assert seen and entry.seq == 2 and ledger.entry("first") == entry
        assert spent(ledger) == UNITS and ledger.verify() == []


def test_a_server_that_stays_away_is_named_and_nothing_is_booked(server: Server, address: str) -> None:
    with Ledger.create(address, NAMES, budget(3), patience=0.5) as ledger:
        with (
            once("INSERT INTO entries", server.kill),
            pytest.raises(SourceError, match="cannot be reached") as caught,
        ):
            ledger.reserve(cost(), "first")
        assert "outcome" not in caught.value.fields, "the commit was never sent"
        server.start()
        assert ledger.reserve(cost(), "first").seq == 2, "the same ledger goes on when the server is back"


class Line:
    """A line to the server that can break around a commit. What goes wrong: ``asked`` (the server never hears of the
    commit) or ``answered`` (it commits, and the client never hears of it)."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open = socket.create_server(("127.0.0.1", 0))
        self.port = self._open.getsockname()[1]
        self.breaks: list[str] = []
        self.closed = False
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            client, _ = self._open.accept()
            if self.closed:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._port))
            state = {"muted": False}
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(*pair, pair[0] is client, state), daemon=True).start()

    def _carry(self, source: socket.socket, goal: socket.socket, asks: bool, state: dict[str, bool]) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if asks and b"COMMIT\0" in data and self.breaks:
                    if self.breaks.pop(0) == "asked":
                        break
                    state["muted"] = True
                elif not asks and state["muted"]:
                    break  # the answer to the commit: it is done
                goal.sendall(data)
        for end in (source, goal):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes the thread of the other direction, too


@pytest.fixture
def line(server: Server) -> Line:
    return Line(server.port)


OPERATIONS: dict[str, Callable[[Ledger], Any]] = {
    "reserve": lambda ledger: ledger.reserve(cost(), "new"),
    "reserve_all": lambda ledger: ledger.reserve_all([(cost(), "one", {}), (cost(), "two", {})]),
    "bind": lambda ledger: ledger.bind("first", "digest"),
    "void": lambda ledger: ledger.void("second", "never ran"),
    "external": lambda ledger: ledger.record_external(cost(), "theirs", who="another office"),
    "budget": lambda ledger: ledger.change_budget(budget(8), "the board agreed"),
}


@pytest.mark.parametrize("broken", [["asked"], ["answered"], ["answered", "asked", "answered"]], ids="-".join)
def test_a_commit_without_an_answer_is_looked_up_and_never_repeated(
    server: Server, address: str, line: Line, broken: list[str]
) -> None:
    with Ledger.create(address.replace(str(server.port), str(line.port)), NAMES, budget(9)) as ledger:
        for name in ("first", "second"):
            ledger.reserve(cost(), name)
        for name, operation in OPERATIONS.items():
            before = ledger.head.seq
            line.breaks = list(broken)
            answer = operation(ledger)
            assert line.breaks == [], "the line did break"
            entries = answer if isinstance(answer, list) else [answer]
            assert list(ledger.entries(after=before)) == entries, f"{name}: once, and known to the client"
        assert ledger.verify() == []


@pytest.mark.parametrize("broken", ["asked", "answered"])
def test_a_creation_without_an_answer_is_looked_up(server: Server, address: str, line: Line, broken: str) -> None:
    with (
        once("INSERT INTO entries", lambda: line.breaks.append(broken)) as seen,
        Ledger.create(address.replace(str(server.port), str(line.port)), NAMES, budget(9)) as ledger,
    ):
        assert seen and line.breaks == [], "the line did break"
        assert ledger.head.seq == 1 and ledger.reserve(cost(), "first").seq == 2 and ledger.verify() == []
    with pytest.raises(LedgerError, match="already"):
        Ledger.create(address, NAMES, budget(9))


def test_an_outcome_that_stays_unknown_is_said_and_resolved_with_the_ticket(
    server: Server, address: str, line: Line
) -> None:
    def give_up() -> None:
        line.breaks, line.closed = ["answered"], True

    with Ledger.create(address.replace(str(server.port), str(line.port)), NAMES, budget(9), patience=0.3) as ledger:
        with once("COMMIT", give_up) as seen, pytest.raises(SourceError, match="not known") as caught:
            ledger.reserve(cost(), "job", ticket="job-17")
        assert seen and caught.value.fields == {"outcome": "unknown", "ticket": "job-17"}
    with Ledger.open(address) as later:
        with pytest.raises(LedgerError, match="already in the ledger"):
            later.reserve(cost(), "job")  # without the ticket it could be anybody's
        entry = later.reserve(cost(), "job", ticket="job-17")
        assert entry.seq == 2 and later.reserve(cost(), "job", ticket="job-17") == entry
        assert booked(later) == ["job"] and spent(later) == UNITS
