"""The report: one HTML file that says what a release tells about people, in words, in figures, and to play with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nabladp.errors import ReleaseError

if TYPE_CHECKING:
    from nabladp.release.record import Release

    Source = Release | Sequence[Release] | str | Path

FILE = "report.html"


def report(source: Source, title: str | None = None) -> str:
    """The page for a release, several releases of one table, or a published folder, as HTML text."""
    from nabladp.report.page import page

    releases = load(source)
    return page(releases, title or _title(source, releases))


def write(source: Source, to: str | Path | None = None, title: str | None = None) -> Path:
    """Write the page, by default as ``report.html`` into the folder that it is about; replaces an older one.

    ``to`` is a file, or a folder to put ``report.html`` into.
    """
    if to is None and not isinstance(source, str | Path):
        raise ReleaseError("It is not known where the report should go.", fix="Say where, with to='report.html'.")
    goal = Path(to) if to is not None else folder_of(Path(str(source))) / FILE
    if goal.is_dir():
        goal /= FILE
    text = report(source, title)
    draft = goal.with_name(f".{goal.name}.part")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        os.replace(draft, goal)
    except OSError:
        raise ReleaseError(
            f"Cannot write {goal.name!r}.", fix="Check that its folder exists and is writable."
        ) from None
    return goal


def load(source: Source) -> list[Release]:
    """The releases behind a source, in the order of their ledger entries."""
    from nabladp.release.record import RECORD, Release

    if isinstance(source, Release):
        return [source]
    if not isinstance(source, str | Path):
        if not source:
            raise ReleaseError("There is no release to report on.", fix="Give at least one.")
        return list(source)
    folder = folder_of(Path(source))
    records = [*folder.glob(RECORD), *folder.glob(f"*/{RECORD}")]
    if not records:
        raise ReleaseError(f"There is no release in {str(folder)!r}.", fix="Give the folder of a release.")
    found = [Release.load(record) for record in records]
    return sorted(found, key=lambda release: (int(release.ledger["entry"]), release.name))


def folder_of(where: Path) -> Path:
    """A published folder; any file in it stands for it."""
    if not where.exists():
        raise ReleaseError(f"There is no folder {str(where)!r}.", fix="Give the folder of a release.")
    return where if where.is_dir() else where.parent


def _title(source: Source, releases: Sequence[Release]) -> str:
    if isinstance(source, str | Path):
        return folder_of(Path(source)).resolve().name
    return releases[0].name.partition("/")[0] if len(releases) > 1 else releases[0].name
