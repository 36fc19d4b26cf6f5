"""What a release may be called: its name becomes a folder, on any file system, beside files of our own."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nabladp.errors import NablaDPError, ReleaseError, quote, quote_path
from nabladp.release.record import CSV, DIGESTS, RECORD, VALUES

PAGE = "report.html"
OWN_FILES = frozenset((DIGESTS, f"{DIGESTS}.part", RECORD, VALUES, CSV, PAGE, f".{PAGE}.part"))
MOST_LETTERS = 100


def check_names(names: Sequence[Any], kind: type[NablaDPError] = ReleaseError) -> None:
    """Refuse names of releases that are no folder of their own, before anything is made or reserved."""
    taken: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        if not is_folder_name(name):
            raise kind(
                f"The name of release number {number} is not a valid folder name: {quote(name)}.",
                fix=f"Use letters, digits and hyphens, at most {MOST_LETTERS}: it becomes a folder inside the release.",
            )
        folder = _fold(name)
        if folder in OWN_FILES:
            raise kind(
                f"A release cannot have the name {name!r}: a published folder holds a file of that name.",
                fix="Choose another name, such as 'ages'.",
            )
        if folder in taken:
            same = taken[folder] == name
            problem = (
                f"Two releases have the name {name!r}" if same else f"{taken[folder]!r} and {name!r} are one folder"
            )
            more = "" if same else " where letters' case does not count"
            raise kind(f"{problem}{more}.", fix="Give each release a name of its own.")
        taken[folder] = name


def refuse_published(goal: Path) -> None:
    """Refuse to write a page or a certificate over a file that a release consists of."""
    if goal.name in (RECORD, DIGESTS) or (goal.suffix in (".parquet", ".csv") and (goal.parent / RECORD).exists()):
        raise ReleaseError(f"{goal.name!r} is a file of a release.", fix="Choose another name, such as 'page.html'.")


def folder_of(where: Path) -> Path:
    """A published folder; any file in it stands for it."""
    if not os.path.exists(where):
        raise ReleaseError(f"There is no file or folder {quote_path(where)}.", fix="Give the folder of a release.")
    return where if where.is_dir() else where.parent


def is_folder_name(name: Any) -> bool:
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= MOST_LETTERS:
        return False
    return name == name.strip() and name[0] != "." and name[-1] != "." and not set(name) & set('/\\:*?"<>|')


def _fold(name: str) -> str:
    """A release's name, folded: equal for names that some file systems take for one."""
    return unicodedata.normalize("NFC", name.casefold())
