"""A published release beside the truth, for the owner of the table only.

A comparison is not private: it holds exact counts. It is no part of a release, is never written where releases are
published, and is marked as unprotected.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nabladp.errors import DataError, ReleaseError
from nabladp.person import Person
from nabladp.release.record import DIGESTS, RECORD, Release
from nabladp.tables import Table, open_table
from nabladp.views import Compared

NOTICE = "contains unprotected statistics"


@dataclass(frozen=True)
class Comparison:
    """One release beside the truth."""

    release: Release
    tables: tuple[Compared, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.release.name,
            "mechanism": self.release.mechanism,
            "stamp": self.release.stamp,
            "tables": [table.to_json() for table in self.tables],
        }


def compare(folder: str | Path, source: Any) -> list[Comparison]:
    """Compare every release of a published folder with the table it was made from. Reads every row; spends nothing."""
    where = Path(folder)
    records = sorted([*where.glob(RECORD), *where.glob(f"*/{RECORD}")])
    if not records:
        raise ReleaseError(f"There is no release in {where.name!r}.", fix="Give the folder of a release.")
    releases = {record.parent: Release.read(record) for record in records}
    tables = {_rows_of(own): open_table(source, own.schema, person=own.person) for own in releases.values()}
    return [compare_release(own, tables[_rows_of(own)], path) for path, own in releases.items()]


def _rows_of(release: Release) -> tuple[str, Person]:
    """What decides which rows a release was made from, and how they were read."""
    return release.schema.fingerprint(), release.person


def compare_release(release: Release, table: Table, folder: Path | None = None) -> Comparison:
    """Compare one release with the true values; ``folder`` is where its files are, for tables that are not in the
    record."""
    if table.n != release.n:
        raise DataError(
            f"The table has another number of rows than the one behind {release.name!r}.",
            fix="Give the very table that was released from.",
        )
    return Comparison(release, tuple(release.output.compared(table, release.context(folder))))


def comparison_path(folder: str | Path | None, out: str | Path) -> Path:
    """The path of a comparison; refuses one inside a published folder, this one or another."""
    goal = Path(out).resolve()
    inside = folder is not None and goal.is_relative_to(Path(folder).resolve())
    if inside or any(_is_published(parent) for parent in goal.parents):
        raise ReleaseError(
            "A comparison holds unprotected statistics and must not lie in a published folder.",
            fix="Write it elsewhere, where only you can read it.",
        )
    if goal.exists():
        raise ReleaseError(f"{goal.name!r} exists already.", fix="Choose another name, or remove it.")
    return goal


def _is_published(folder: Path) -> bool:
    return any((folder / name).exists() for name in (DIGESTS, RECORD))
