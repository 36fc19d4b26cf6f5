"""Clients, the ledger's server and Spark's workers are killed with SIGKILL at random moments of real releases.

``kills``         of client processes, of the whole PostgreSQL server, and of workers of a standalone Spark cluster
``lost``          releases that a client was told are done, or that are in sight, and that the ledger has not bound
``overspent``     units booked beyond the limit, once clients have spent all of it
``wrong_counts``  releases that got out with other numbers than an undisturbed one (all noise has the same seed)
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from bench._fault_clients import SCHEMA, budget, price, release, work
from nabladp.errors import BudgetExceeded, ReleaseError
from nabladp.privacy import Ledger
from nabladp.release import Release, recover

SECONDS = {"full": 720, "quick": 200}
CLIENTS = 4
HELPERS = Path(__file__).resolve().parent.parent / "tests" / "helpers"


def run(quick: bool) -> dict[str, object]:
    sys.path.insert(0, str(HELPERS))
    from postgres_server import find_postgres, running_server

    program = find_postgres()
    if program is None:
        raise RuntimeError("PostgreSQL is not installed")
    clients, servers, workers = (9, 8, 4) if quick else (64, 40, 24)
    with running_server(program) as server, tempfile.TemporaryDirectory() as place:
        scene = Scene(server, Path(place), rows=20_000 if quick else 100_000, fits=200 if quick else 1_500)
        scene.disturb_clients(clients, servers)
        scene.disturb_spark(workers)
        return scene.result()


@dataclass
class Scene:
    server: Any
    folder: Path
    rows: int
    fits: int
    kills: dict[str, int] = field(default_factory=lambda: {"clients": 0, "server": 0, "workers": 0})
    told: dict[str, str] = field(default_factory=dict)  # name and digest of each release that was said to be done

    def __post_init__(self) -> None:
        self.out = self.folder / "out"
        self.out.mkdir()
        self.source = _people(self.folder / "people.parquet", self.rows)
        self.address = self.server.database()
        Ledger.create(self.address, SCHEMA, budget(self.fits), test=True).close()
        with Ledger.create(self.folder / "calm.db", SCHEMA, budget(1), test=True) as calm:
            self.right = release(str(self.source), calm, "calm", self.folder / "calm").parquet

    # ---- clients and their server --------------------------------------------------------------------------------

    def disturb_clients(self, clients: int, servers: int) -> None:
        chance = random.Random(3)
        victims = ["clients"] * clients + ["server"] * servers
        chance.shuffle(victims)
        alive = [self._client(number) for number in range(CLIENTS)]
        for number, victim in enumerate(victims, CLIENTS):
            place = chance.randrange(CLIENTS)
            self._until_begun(alive[place])
            time.sleep(chance.uniform(0, 0.5))
            if victim == "server":
                self.server.kill()
                time.sleep(chance.uniform(0, 0.3))
                self.server.start()
            else:
                alive[place].kill()
                alive[place].join()
                if alive[place].exitcode != -signal.SIGKILL:
                    raise RuntimeError("a client ended by itself")
                alive[place] = self._client(number)
            self.kills[victim] += 1
        (self.out / "stop").touch()
        for client in alive:
            client.join()
            if client.exitcode != 0:
                raise RuntimeError("a client failed by itself")
        for file in self.out.glob("told-*"):
            self.told |= dict(line.split() for line in file.read_text().splitlines())

    def _client(self, number: int) -> ForkServerProcess:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["bench._fault_clients", "nabladp.privacy.ledger.postgres"])
        client = context.Process(target=work, args=(self.source, self.address, number, self.out), name=str(number))
        client.start()
        return client

    def _until_begun(self, client: ForkServerProcess) -> None:
        while not (self.out / f"told-{client.name}").exists():
            if client.exitcode is not None:
                raise RuntimeError("a client failed by itself")
            time.sleep(0.01)

    # ---- Spark -----------------------------------------------------------------------------------------------------

    def disturb_spark(self, workers: int) -> None:
        """One worker of two dies in the middle of a release's pass; another takes its place before the next."""
        if shutil.which("java") is None or importlib.util.find_spec("pyspark") is None:
            return
        from spark_cluster import Cluster

        chance = random.Random(4)
        cluster = Cluster()
        try:
            frame = cluster.connect().read.parquet(str(self.source))
            with Ledger.open(self.address, test=True) as ledger:
                self._spark_release(frame, ledger, "spark-warm")
                took = self._spark_release(frame, ledger, "spark-calm")
                for number in range(workers):
                    blow = threading.Timer(chance.uniform(0, took), cluster.kill_worker)
                    blow.start()
                    self._spark_release(frame, ledger, f"spark-{number}")
                    blow.join()
                    cluster.add_worker()
                    self.kills["workers"] += 1
        finally:
            cluster.stop()

    def _spark_release(self, frame: Any, ledger: Ledger, name: str) -> float:
        start = time.monotonic()
        self.told[name] = release(frame, ledger, name, self.out / name).digest
        return time.monotonic() - start

    # ---- the books afterwards --------------------------------------------------------------------------------------

    def result(self) -> dict[str, object]:
        with Ledger.open(self.address, test=True) as ledger:
            recovered = sum(_recovered(path, ledger) for path in sorted(self.out.glob(".*.pending-*")))
            unfinished = len(ledger.unfinished())
            _spend_the_rest(ledger)
            bound = {entry.name: entry.digest for entry in ledger.entries() if entry.kind == "bind"}
            booked = sum(entry.kind == "reserve" for entry in ledger.entries())
            (line,) = ledger.spent()
            problems = ledger.verify()
        seen = {path.name: Release.load(path) for path in self.out.iterdir() if (path / "release.json").exists()}
        in_sight = {name: found.digest for name, found in seen.items()}
        missing = {name for name, digest in {**self.told, **in_sight}.items() if bound.get(name) != digest}
        units = price().rho_units(frozenset("abcd")) or 0
        return {
            "kills": sum(self.kills.values()),
            "killed": self.kills,
            "lost": len(missing | (self.told.keys() - seen.keys())),
            "overspent": max(0, max(line.spent_units or 0, booked * units) - line.limit.units),
            "wrong_counts": sum(found.parquet != self.right for found in seen.values()),
            "releases": len(seen),
            "recovered": recovered,
            "unfinished": unfinished,  # killed before they had anything to show; they stay spent
            "booked": booked,
            "fits": self.fits,
            "chain_problems": len(problems),
        }


def _people(path: Path, rows: int) -> Path:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = np.random.default_rng(1)
    table = pa.table({name: chance.integers(0, 8, rows) for name in SCHEMA.names})
    pq.write_table(table, path, row_group_size=rows // 20)
    return path


def _recovered(hidden: Path, ledger: Ledger) -> bool:
    try:
        recover(hidden, ledger)
    except ReleaseError:  # it was killed before all was written
        return False
    return True


def _spend_the_rest(ledger: Ledger) -> None:
    """Whatever was booked and whatever was not: the limit lets through what fits and no more."""
    guarantee = price()
    for number in range(1_000_000):
        try:
            ledger.reserve(guarantee, f"rest-{number}", seeded=True)
        except BudgetExceeded:
            return
