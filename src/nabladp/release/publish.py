"""Writing a release so that a crash never loses one that was paid for, and never leaves half of one in sight.

Everything goes into a hidden folder beside the goal, every file is synced to disk, the ledger binds the digests, and
one rename makes it visible. A crash before the rename leaves the hidden folder, from which :func:`recover` finishes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nabladp.errors import ReleaseError
from nabladp.privacy import Ledger
from nabladp.release.record import RECORD, Release

DIGESTS = "digests.txt"  # written last: digest, ledger entry and place of every record. Its presence means complete


class Pending:
    """A hidden folder that becomes ``goal``. Made before anything is reserved, so that a bad place costs nothing."""

    def __init__(self, where: Path, run: str) -> None:
        goal = self.goal = Path(os.path.abspath(where))
        self.folder = goal.parent / f".{goal.name}.pending-{run}"
        if goal.exists():
            raise ReleaseError(f"{goal.name!r} exists already.", fix="Choose another folder or move it away.")
        try:
            goal.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir()
        except OSError as error:
            raise _unwritable(error, goal) from None

    def check_space(self, needed: int) -> None:
        if shutil.disk_usage(self.folder).free < needed:
            raise ReleaseError(
                f"The disk is too full: the release needs about {needed:,} bytes.", fix="Make room or use another disk."
            )

    def write(self, releases: Sequence[tuple[str, Release]]) -> None:
        """All files of all releases (each in its own subfolder; "" for the folder itself), synced to disk."""
        try:
            for sub, release in releases:
                folder = self.folder / sub
                folder.mkdir(exist_ok=True)
                for name, content in release.files().items():
                    _write_synced(folder / name, content)
                _sync_folder(folder)
            lines = [f"{release.digest} {release.ledger['entry']} {sub}" for sub, release in releases]
            _write_synced(self.folder / DIGESTS, ("\n".join(lines) + "\n").encode())
            _sync_folder(self.folder)
        except OSError as error:
            raise _unwritable(error, self.goal) from None

    def show(self) -> None:
        _show(self.folder, self.goal)

    def discard(self) -> None:
        """Remove what is not complete; a complete folder is kept for :func:`recover`."""
        if self.folder.exists() and not (self.folder / DIGESTS).exists():
            shutil.rmtree(self.folder, ignore_errors=True)


def recover(folder: str | Path, ledger: Ledger) -> Path:
    """Finish a release that was written but not shown: check it, bind what is unbound, rename."""
    hidden = Path(os.path.abspath(folder))
    match = re.fullmatch(r"\.(.+)\.pending-[0-9a-f]+", hidden.name)
    if match is None or not (hidden / DIGESTS).exists():
        raise ReleaseError(f"{hidden.name!r} holds no finished release.", fix="Its reservation can only be voided.")
    goal = hidden.parent / match.group(1)
    if goal.exists():
        raise ReleaseError(f"{goal.name!r} exists already.", fix="Move it away, then recover again.")
    bindings, seeded = [], False
    for line in (hidden / DIGESTS).read_text().splitlines():
        digest, entry, sub = line.split(" ", 2)
        record = hidden / sub / RECORD
        release = Release.load(record)
        if hashlib.sha256(record.read_bytes()).hexdigest() != digest or release.ledger["ledger"] != ledger.id:
            raise ReleaseError(f"{hidden.name!r} was changed, or is of another ledger.", fix="Void its reservation.")
        bindings.append((int(entry), digest, {"recovered": True}))
        seeded = release.stamp is not None
    ledger.bind_all(bindings, seeded=seeded)
    _show(hidden, goal)
    return goal


def _show(hidden: Path, goal: Path) -> None:
    try:
        os.rename(hidden, goal)
    except OSError as error:
        raise _unwritable(error, goal) from None
    _sync_folder(goal.parent)


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every file system lets a folder be synced
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _unwritable(error: OSError, goal: Path) -> ReleaseError:
    if error.errno == errno.ENOSPC:
        return ReleaseError("The disk is full.", fix="Make room; the reservation can be voided by name.")
    return ReleaseError(f"Cannot write {goal.name!r} into its folder.", fix="Check that the folder is writable.")
