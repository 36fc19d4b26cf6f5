"""Writing a release so that a crash never loses one that was booked, and never leaves half of one in sight.

Everything goes into a hidden folder beside the goal, every file is synced to disk, the ledger binds the digests, and
one rename makes it visible; then its report is written. A crash before the rename leaves the hidden folder, from which
:func:`recover` finishes.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nabladp.checks import read_file
from nabladp.displayed import Stage, write_report
from nabladp.errors import NablaDPError, ReleaseError, ReportWarning
from nabladp.privacy import Ledger
from nabladp.release.record import DIGESTS, RECORD, Release

Announce = Callable[[Sequence[Release], Path], None]  # called with the releases and their folder


HIDDEN = re.compile(r"\.(.+)\.pending-[0-9a-f]+", re.DOTALL)  # the name of a folder whose release is not published yet


def ignore_progress(*_: object) -> None:
    """Progress of a publication, for someone who does not watch."""


@dataclass(frozen=True)
class Published:
    """Releases in their folder, and their report; where that could not be written, ``problem`` says why, and which
    command writes it."""

    releases: tuple[Release, ...]
    folder: Path
    report: Path | None = None
    problem: ReleaseError | None = None

    def warn(self) -> Published:
        """The published releases themselves, after a warning where the report is missing."""
        if self.problem is not None:
            warnings.warn(str(self.problem), ReportWarning, stacklevel=3)
        return self


class Pending:
    """A hidden folder that becomes ``goal``, with a subfolder for each release ("" for the folder itself).

    Made before anything is reserved, so that a bad path or name costs nothing.
    """

    def __init__(self, where: Path, run: str, subfolders: Sequence[str]) -> None:
        goal = self.goal = Path(os.path.abspath(where))
        self.folder = goal.parent / f".{goal.name}.pending-{run}"
        _refuse_taken(goal, "Move it away, or choose another folder (--to FOLDER).")
        _refuse_forgotten(goal)
        self._lock: int | None = None  # held as long as this process may write into the folder
        self._created = [folder for folder in (goal.parent, *goal.parent.parents) if not os.path.exists(folder)]
        try:
            for subfolder in ("", *subfolders):
                (self.folder / subfolder).mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.folder)
        except OSError as error:
            self.discard()
            raise _unwritable(error, goal) from None

    def check_space(self, needed: int) -> None:
        if shutil.disk_usage(self.folder).free < needed:
            raise ReleaseError(
                f"The disk is too full: the release needs about {needed:,} bytes.", fix="Make room or use another disk."
            )

    def write(self, releases: Sequence[tuple[str, Release]]) -> None:
        """Write all files of all releases into the hidden folder, synced to disk."""
        try:
            for subfolder, release in releases:
                for name, content in release.files().items():
                    _write_synced(self.folder / subfolder / name, content)
                _sync_folder(self.folder / subfolder)
            lines = [f"{release.digest} {release.ledger['entry']} {subfolder}" for subfolder, release in releases]
            draft = self.folder / f"{DIGESTS}.part"
            _write_synced(draft, ("\n".join(lines) + "\n").encode())
            os.rename(draft, self.folder / DIGESTS)
            _sync_folder(self.folder)
        except OSError as error:
            raise _unwritable(error, self.goal) from None

    def publish(self, releases: Sequence[Release], stage: Stage, announce: Announce) -> Published:
        """Publish bound releases: rename the hidden folder, announce, write the report."""
        self._unlock()
        return _publish(self.folder, self.goal, releases, stage, announce)

    @property
    def is_complete(self) -> bool:
        return is_complete(self.folder)

    def discard(self) -> None:
        """Remove a hidden folder that is not complete; a complete one is kept for :func:`recover`."""
        self._unlock()
        if not self.is_complete:
            self.destroy()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def destroy(self) -> None:
        self._unlock()
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # parents made for this release go, too, if they are still empty
            for folder in self._created:
                folder.rmdir()


def is_complete(hidden: Path) -> bool:
    """Whether a hidden folder holds all of its releases."""
    return os.path.exists(hidden / DIGESTS)


def _lock(folder: Path) -> int | None:
    """Lock a folder until the number returned is closed, or this process ends. None where somebody has locked it, or
    the system has no such locks."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
        return handle
    except (ImportError, OSError):
        return None


def is_in_use(hidden: Path) -> bool:
    """Whether a process may still write into a hidden folder."""
    lock = _lock(hidden)
    if lock is not None:
        os.close(lock)
    return lock is None


def recover(folder: str | Path, ledger: Ledger) -> Path:
    """Finish a release that was written but not published: check it, bind what is unbound, rename, write its report."""
    return recover_releases(folder, ledger).warn().folder


def recover_releases(
    folder: str | Path, ledger: Ledger, stage: Stage = ignore_progress, announce: Announce = ignore_progress
) -> Published:
    """Finish a release as :func:`recover` does, and return what became of the report."""
    hidden = Path(os.path.abspath(folder))
    if not hidden.is_dir():
        raise ReleaseError(
            f"There is no folder {hidden.name!r}.",
            fix="Give the hidden folder that `nabladp ledger` names; it lies where the release should have appeared.",
        )
    match = HIDDEN.fullmatch(hidden.name)
    if match is None or not is_complete(hidden):
        raise ReleaseError(f"{hidden.name!r} holds no finished release.", fix="Its reservation can only be voided.")
    goal = hidden.parent / match.group(1)
    _refuse_taken(goal, "Move it away, then recover again.")
    finished = list(_read_finished(hidden, ledger))
    bindings = [(int(release.ledger["entry"]), digest, {"recovered": True}) for release, digest in finished]
    ledger.bind_all(bindings, seeded=any(release.stamp is not None for release, _ in finished))
    return _publish(hidden, goal, [release for release, _ in finished], stage, announce)


def check_published(folder: str | Path, ledger: Ledger) -> list[Release]:
    """The releases of a published folder, each the very one that the ledger has bound; an error otherwise."""
    where = Path(folder)
    records = sorted([*where.glob(RECORD), *where.glob(f"*/{RECORD}")])
    if not records:
        raise ReleaseError(f"There is no release in {where.name!r}.", fix="Give the folder of a release.")
    releases = [Release.read(record) for record in records]
    for release in releases:
        if not _is_booked(release, ledger) or ledger.bound(release.name) != release.digest:
            raise ReleaseError(
                f"{release.name!r} is not the release that the ledger has bound.",
                fix="Name its own ledger; if that is the one, the release was changed: fetch it again.",
            )
    return releases


def _read_finished(hidden: Path, ledger: Ledger) -> Iterator[tuple[Release, str]]:
    """Every release of a hidden folder that is as it was written, with its digest."""
    try:
        for line in read_file(hidden / DIGESTS, DIGESTS).decode().removesuffix("\n").split("\n"):
            digest, entry, subfolder = line.split(" ", 2)
            record = hidden / subfolder / RECORD
            release = Release.read(record)
            complete = all((hidden / subfolder / name).exists() for name in release.hashes)
            same = complete and hashlib.sha256(record.read_bytes()).hexdigest() == digest
            if not same or int(entry) != release.ledger["entry"] or not _is_booked(release, ledger):
                raise ValueError
            yield release, digest
    except (OSError, ValueError, ReleaseError):
        raise ReleaseError(
            f"{hidden.name!r} was changed, or is of another ledger.",
            fix="Name its own ledger, or void its reservation.",
        ) from None


def _is_booked(release: Release, ledger: Ledger) -> bool:
    """Whether the ledger holds the very reservation that a record names, at the very cost that it states."""
    if release.ledger["ledger"] != ledger.id:
        return False
    entry = ledger.entry(release.ledger["name"])
    return (entry.seq, entry.hash) == (release.ledger["entry"], release.ledger["hash"]) and (
        entry.guarantee == release.guarantee
    )


def _refuse_taken(goal: Path, fix: str) -> None:
    if os.path.lexists(goal):
        raise ReleaseError(f"{goal.name!r} exists already.", fix=fix)


def _refuse_forgotten(goal: Path) -> None:
    """Refuse to publish beside a release that was paid for but not shown: it should not be paid for twice."""
    start = f".{goal.name}.pending-"
    with suppress(OSError):
        for folder in sorted(goal.parent.iterdir()):
            if folder.name.startswith(start) and (folder / DIGESTS).exists():
                raise ReleaseError(
                    f"A finished release of {goal.name!r} waits in {folder.name!r}.",
                    fix="Publish it with `nabladp ledger recover`; delete that folder if it was voided.",
                    folder=folder.name,
                )


def _publish(hidden: Path, goal: Path, releases: Sequence[Release], stage: Stage, announce: Announce) -> Published:
    """The end of every publication, once releases are bound: rename, announce, write the report.

    After the rename the releases are public, whatever becomes of the report.
    """
    _make_visible(hidden, goal)
    announce(releases, goal)
    stage("writing the report", 0, 0)
    try:
        return Published(tuple(releases), goal, write_report(releases, goal, stage))
    except Exception as error:
        return Published(tuple(releases), goal, problem=_report_problem(error, goal))


def _report_problem(error: Exception, folder: Path) -> ReleaseError:
    """Why the report could not be written. The text of a foreign error may hold a value, so only its type is shown, or
    the system's own words."""
    if isinstance(error, NablaDPError):
        why = error.message
    elif isinstance(error, OSError) and error.errno is not None:
        why = f"{os.strerror(error.errno)}."
    else:
        why = f"unexpected error ({type(error).__name__})."
    return ReleaseError(
        f"The release is published, but its report could not be written: {why}",
        fix=f"Write it with `nabladp report {shlex.quote(str(folder))}`.",
    )


def _make_visible(hidden: Path, goal: Path) -> None:
    try:
        rename_new(hidden, goal)
    except OSError:
        raise ReleaseError(
            f"The release is complete and booked, but {goal.name!r} cannot be moved to its path.",
            fix=f"See why, then publish it with `nabladp ledger recover`: it waits in {hidden.name!r}.",
            folder=hidden.name,
        ) from None
    _sync_folder(goal.parent)


def rename_new(old: Path, new: Path) -> None:
    """Rename a published folder; fails where there is anything of the new name, even an empty folder, as two may race
    for it.

    A plain rename replaces an empty folder. Where the system has no call that does not, the name is taken first.
    """
    if _rename_by_linux(old, new):
        return
    if os.name != "nt":  # which never replaces one
        os.mkdir(new)
    try:
        os.rename(old, new)
    except BaseException:
        with suppress(OSError):
            os.rmdir(new)
        raise


def _rename_by_linux(old: Path, new: Path) -> bool:
    """Rename a folder by Linux's own call; False where there is none, or the file system does not know it."""
    if not sys.platform.startswith("linux"):
        return False
    here, no_replace = -100, 1  # AT_FDCWD, RENAME_NOREPLACE
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    if call(here, os.fsencode(old), here, os.fsencode(new), no_replace) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
        return False
    raise OSError(code, os.strerror(code))


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
        return ReleaseError("The disk is full.", fix="Make room, and release again.")
    return ReleaseError(f"Cannot write {goal.name!r} into its folder.", fix="Check that the folder is writable.")
