"""Long work in processes of its own: looking at a table, checking it, releasing from it.

A process writes how far it is into a file and holds a lock for as long as it lives. So a page that is loaded again, and
a studio that is started again, find it as it is; and one that was killed is known to be dead. Which budget it had
reserved is on record in the ledger, whatever becomes of it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nabladp.errors import NablaDPError
from nabladp.studio.workspace import Workspace, write_whole

STATE, LOCK, PROCESS, STOPPING = "state.json", "lock", "process", "stopping"
MOST_KEPT = 50
_NUMBER = re.compile(r"[0-9]{20}-[0-9a-f]{8}", re.ASCII)
RUNNING, DONE, FAILED, STOPPED, DIED = "running", "done", "failed", "stopped", "died"


class Busy(NablaDPError, RuntimeError):
    """A task of the same kind is already running."""


@dataclass(frozen=True)
class Job:
    """Work that was begun: its kind, and how it stands.

    ``state`` is running, done, failed, stopped (by somebody) or died (its process ended without a word). ``answer`` is
    what it found out; ``error`` says what is wrong and what to do.
    """

    id: str
    kind: str
    state: str = RUNNING
    what: str = "starting"
    done: int = 0
    total: int = 0
    began: str = ""
    order: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        return self.state == RUNNING

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("id", "kind", "state", "what", "done", "total")}


class Jobs:
    """The work of a studio's folder."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def _home(self, number: str = "") -> Path:
        home = self._workspace.private("jobs/-").parent
        return home / number if number else home

    def start(self, kind: str, **order: Any) -> Job:
        """Start a task in a process of its own; refused while one of that kind runs."""
        with self._workspace.writing():
            running = self.latest(kind)
            if running is not None and running.runs:
                raise Busy("This task is already running.", fix="Wait for it, or stop it.")
            began = datetime.now(UTC)
            number = f"{began:%Y%m%d%H%M%S%f}-{uuid.uuid4().hex[:8]}"
            folder = self._home(number)
            folder.mkdir(mode=0o700)
            job = Job(number, kind, began=began.isoformat(timespec="seconds"), order=order)
            write_state(folder, job)
            self._spawn(folder)
            self._forget()
        return job

    def _spawn(self, folder: Path) -> None:
        """Start the process; it inherits the lock, so there is no moment at which nobody holds it."""
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            place = [str(self._workspace.folder), folder.name, str(lock.fileno())]
            process = subprocess.Popen(
                [sys.executable, "-m", "nabladp.studio.work", *place],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # what a library prints may hold a row
                stderr=subprocess.DEVNULL,
                cwd=self._workspace.folder,
                start_new_session=True,  # it outlives the studio, and a Ctrl-C meant for that
                pass_fds=(lock.fileno(),),
            )
        write_whole(folder / PROCESS, str(process.pid))

    def find(self, number: str) -> Job | None:
        """The job of this name, as it stands now."""
        folder = self._home(number)
        if not _NUMBER.fullmatch(number) or not (folder / STATE).is_file():
            return None
        with suppress(OSError, ValueError, TypeError):
            alive = _is_locked(folder)  # asked before: what it wrote last is then complete
            job = read_state(folder)
            return job if alive or not job.runs else _end_job(job, (folder / STOPPING).exists())
        return None

    def latest(self, kind: str) -> Job | None:
        """The last job of this kind."""
        for folder in sorted(self._home().iterdir(), reverse=True):
            job = self.find(folder.name)
            if job is not None and job.kind == kind:
                return job
        return None

    def stop(self, number: str) -> None:
        """Ask a job to stop, as Ctrl-C does; a second time, end its process at once."""
        job = self.find(number)
        if job is None or not job.runs:
            return
        hard = self.is_stopping(number)
        (self._home(number) / STOPPING).touch()
        process = int((self._home(number) / PROCESS).read_text(encoding="utf-8"))
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL if hard else signal.SIGINT)

    def is_stopping(self, number: str) -> bool:
        return (self._home(number) / STOPPING).exists()

    def _forget(self) -> None:
        for folder in sorted(self._home().iterdir(), reverse=True)[MOST_KEPT:]:
            job = self.find(folder.name)
            if job is None or not job.runs:
                shutil.rmtree(folder, ignore_errors=True)


def read_state(folder: Path) -> Job:
    return Job(**json.loads((folder / STATE).read_text(encoding="utf-8")))


def write_state(folder: Path, job: Job) -> None:
    body = {name: getattr(job, name) for name in Job.__dataclass_fields__}
    write_whole(folder / STATE, json.dumps(body, ensure_ascii=False, default=str))


def _is_locked(folder: Path) -> bool:
    with (folder / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def _end_job(job: Job, stopped: bool) -> Job:
    """A job whose process ended without a result."""
    why = "It was stopped." if stopped else "Its process was killed, or the machine was switched off."
    error = {
        "message": f"The task ended without a result. {why}",
        "fix": "What it had reserved stays spent. The ledger page lists it, and offers recovery.",
    }
    return replace(job, state=STOPPED if stopped else DIED, error=error)


__all__ = ["DIED", "DONE", "FAILED", "RUNNING", "STOPPED", "Busy", "Job", "Jobs"]
