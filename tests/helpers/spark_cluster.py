"""A real standalone Spark cluster on loopback: a master and two workers, each a process of its own.

One for all tests of a process: a driver can have a single session. ``spark`` is the fixture to import.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import nabladp

HERE = "127.0.0.1"
FOLDER = Path(__file__).parent  # of kernels for tests, too
QUICK_START = (  # short lives: what takes long to warm up never pays
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss512k -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
SETTINGS = {
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "500m",
    "spark.driver.memory": "600m",
    "spark.driver.host": HERE,
    "spark.driver.bindAddress": HERE,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    "spark.locality.wait": "0",
    "spark.task.maxFailures": "3",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",  # nor does compiling a query that runs once
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.files.maxPartitionBytes": "2k",  # small files, yet several partitions
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.executorEnv.PYTHONPATH": f"{FOLDER}:{FOLDER}/spark_worker:{Path(nabladp.__file__).parents[1]}",
}


class Cluster:
    def __init__(self) -> None:
        import pyspark

        self.home = Path(pyspark.__file__).parent
        self.folder = Path(tempfile.mkdtemp(prefix="nabladp-spark-"))
        self.workers: list[subprocess.Popen[bytes]] = []
        self.session: Any = None
        with socket.socket() as free:
            free.bind((HERE, 0))
            self.port = free.getsockname()[1]
        self.master = self._start("master.Master", "--host", HERE, "--port", str(self.port), "--webui-port", "0")
        self._wait_for(lambda: self._answers())
        for _ in range(2):
            self.add_worker()

    @property
    def address(self) -> str:
        return f"spark://{HERE}:{self.port}"

    def connect(self) -> Any:
        from pyspark.sql import SparkSession

        os.environ.update(self._environment())
        builder: Any = SparkSession.builder.master(self.address).appName("tests")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        return self.session

    def add_worker(self) -> None:
        work = str(self.folder / f"work-{time.monotonic_ns()}")
        options = ["--host", HERE, "--cores", "1", "--memory", "700m", "--webui-port", "0", "--work-dir", work]
        self.workers.append(self._start("worker.Worker", *options, self.address))

    def kill_worker(self) -> None:
        """As if its machine lost power: the worker and its executors at once."""
        victim = self.workers.pop()
        for process in [victim.pid, *_children(victim.pid)]:
            _kill(process)
        victim.wait()

    def stop(self) -> None:
        if self.session is not None:
            gateway = self.session.sparkContext._gateway
            self.session.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)
            from pyspark import SparkContext

            SparkContext._gateway = SparkContext._jvm = None
            self.session = None
        for process in (*self.workers, self.master):
            for one in [*_children(process.pid), process.pid]:
                _kill(one)
            process.wait()
        self.workers = []
        shutil.rmtree(self.folder, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        return {
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": HERE,
            "SPARK_LOCAL_DIRS": str(self.folder),
            "SPARK_DAEMON_MEMORY": "200m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *options]
        environment = {**os.environ, **self._environment()}
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self.folder)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HERE, self.port)) == 0

    def _wait_for(self, ready: Callable[[], bool], seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end or self.master.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.2)


def _children(pid: int) -> list[int]:
    """All processes below this one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        own = parents.get(waiting.pop(), [])
        found += own
        waiting += own
    return found


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


_shared: list[Cluster] = []


@pytest.fixture(scope="session")
def cluster(program: Callable[[str], str]) -> Iterator[Cluster]:
    program("java")
    if not _shared:  # the fixture may be imported by several modules
        _shared.append(Cluster())
        _shared[0].connect()
    yield _shared[0]
    if _shared[0].session is not None:
        _shared[0].stop()


@pytest.fixture(scope="session")
def spark(cluster: Cluster) -> Any:
    return cluster.session
