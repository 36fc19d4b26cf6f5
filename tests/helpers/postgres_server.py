"""A real PostgreSQL server for tests and benchmarks: in a temporary folder, on loopback only, as its own user.

It asks for passwords, and it can be killed as a whole with SIGKILL and started again on the same data.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Identifier

OWNER, PASSWORD = "keeper", "CANARY-word-7391"


class Server:
    def __init__(self, program: str) -> None:
        self._home = Path(program).resolve().parent
        self._folder = Path(tempfile.mkdtemp(prefix="nabladp-postgres-", dir=_memory()))
        self._data = self._folder / "data"
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:  # which the server refuses to run as
            shutil.chown(self._folder, "postgres", "postgres")
            self._as = {"user": "postgres", "group": "postgres", "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        word = self._folder / "word"
        word.write_text(PASSWORD)
        word.chmod(0o644)
        options = ["-U", OWNER, "-A", "scram-sha-256", "--pwfile", str(word), "--no-sync", "-E", "UTF8"]
        command = [str(self._home / "initdb"), "-D", str(self._data), *options, "--locale", "C"]
        subprocess.run(command, cwd=self._folder, check=True, stdout=subprocess.DEVNULL, **self._as)

    def address(self, database: str, user: str = OWNER, password: str = PASSWORD) -> str:
        return f"postgresql://{quote(user)}:{quote(password)}@127.0.0.1:{self.port}/{quote(database)}"

    def start(self) -> None:
        """Returns when it takes connections; after a kill it first plays its log back."""
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self._folder,
            "max_connections": 80,
            "shared_buffers": "16MB",
            "dynamic_shared_memory_type": "mmap",  # in its folder: what a killed server leaves behind goes with it
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            command = [str(self._home / "postgres"), "-D", str(self._data), *options]
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, **self._as)
        until = time.monotonic() + 60
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the server does not start:\n{self.log()[-2000:]}")
            time.sleep(0.02)

    def _ready(self) -> bool:
        """The server writes its own state into the last line of its pid file."""
        with contextlib.suppress(OSError):
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            ours = self._process is not None and lines[:1] == [str(self._process.pid)]
            return ours and len(lines) >= 8 and lines[7].strip() == "ready"
        return False

    def kill(self) -> None:
        """SIGKILL to every process of the server at once: no checkpoint, no goodbye."""
        if self._process is None:
            return
        main = self._process.pid
        os.kill(main, signal.SIGSTOP)  # it forks no more while its children are counted
        children = _alive(lambda pid, parent: parent == main)
        for pid in (*children, main):  # in this order no child is left to say why it ends
            os.kill(pid, signal.SIGKILL)
        self._process.wait()
        while _alive(lambda pid, _: pid in children):
            time.sleep(0.005)
        self._process = None

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def connect(self, database: str = "postgres", user: str = OWNER) -> psycopg.Connection[Any]:
        return psycopg.connect(self.address(database, user), autocommit=True)

    def run(self, *statements: Any, database: str = "postgres", user: str = OWNER) -> list[Any]:
        """The rows of the last statement, if it gives any."""
        with self.connect(database, user) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def database(self, name: str = "") -> str:
        """The address of a new, empty database."""
        name = name or f"ledger_{uuid.uuid4().hex[:8]}"
        self.run(SQL("CREATE DATABASE {}").format(Identifier(name)))
        return self.address(name)

    def copy(self, source: str, goal: str) -> None:
        """As a backup does it."""
        text = subprocess.run([self._home / "pg_dump", source], check=True, capture_output=True).stdout
        command = [self._home / "psql", "-q", "-v", "ON_ERROR_STOP=1", goal]
        subprocess.run(command, check=True, input=text, stdout=subprocess.DEVNULL)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def find_postgres() -> str | None:
    """The server's program, which Debian keeps off the path."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return shutil.which("postgres") or (str(homes[-1]) if homes else None)


def _memory() -> str | None:
    """Where syncing a file takes no time, if there is room. Killed, a server loses nothing there."""
    shared = "/dev/shm"
    return shared if os.path.isdir(shared) and shutil.disk_usage(shared).free > 1 << 30 else None


def _alive(wanted: Callable[[int, int], bool]) -> set[int]:
    """Processes by number and parent; the dead that nobody has waited for do not count."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, (state, parent) = int(status.parent.name), status.read_text().rsplit(")", 1)[1].split()[:2]
            if state not in "ZX" and wanted(pid, int(parent)):
                found.add(pid)
    return found


@contextlib.contextmanager
def running_server(program: str) -> Iterator[Server]:
    server = Server(program)
    try:
        server.start()
        yield server
    finally:
        server.remove()
