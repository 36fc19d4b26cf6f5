"""What a killed release leaves behind: hidden folders. A complete one is published, any other is removed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from nabladp.displayed import Stage
from nabladp.errors import ReleaseError
from nabladp.privacy import Ledger
from nabladp.release.publish import (
    HIDDEN,
    Announce,
    Published,
    ignore_progress,
    is_complete,
    is_in_use,
    recover_releases,
)


def find(ledger: Ledger, places: Iterable[str | Path]) -> list[Path]:
    """The hidden folders in these places that unfinished reservations of this ledger name, or that hold no file."""
    named = {entry.details.get("folder") for entry in ledger.unfinished()}
    found = []
    for place in dict.fromkeys(Path(os.path.abspath(place)) for place in places):
        hidden = [folder for folder in sorted(place.glob(".*.pending-*")) if re.fullmatch(HIDDEN, folder.name)]
        found += [folder for folder in hidden if folder.is_dir() and (folder.name in named or _is_empty(folder))]
    return found


def clean_up(
    folders: Iterable[Path], ledger: Ledger, stage: Stage = ignore_progress, announce: Announce = ignore_progress
) -> tuple[list[Published], list[str]]:
    """Publish each hidden folder that is complete, and remove the others; returns what was published, and the names of
    what was removed."""
    published, removed = [], []
    for hidden in folders:
        if HIDDEN.fullmatch(hidden.absolute().name) and hidden.is_dir() and not is_complete(hidden):
            remove_incomplete(hidden)
            removed.append(hidden.absolute().name)
        else:
            published.append(recover_releases(hidden, ledger, stage, announce))
    return published, removed


def remove_incomplete(folder: str | Path) -> None:
    """Remove a hidden folder that no process writes to and that holds no complete release. Costs stay as they are."""
    hidden = Path(os.path.abspath(folder))
    if not re.fullmatch(HIDDEN, hidden.name) or not hidden.is_dir() or is_complete(hidden):
        raise ReleaseError(f"{hidden.name!r} is not the folder of an unfinished release.", fix="Give a hidden folder.")
    if is_in_use(hidden):
        raise ReleaseError(
            f"{hidden.name!r} may be in use: its release is still running, or the file system knows no locks.",
            fix="Wait for it. If no release is running, delete the folder yourself.",
            folder=hidden.name,
        )
    try:
        shutil.rmtree(hidden)
    except OSError:
        raise ReleaseError(f"{hidden.name!r} cannot be removed.", fix="Check its permissions.") from None


def _is_empty(folder: Path) -> bool:
    return not any(names for _, _, names in os.walk(folder))
