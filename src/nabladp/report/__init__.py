"""The report: one HTML file that says what a release tells about people, in words, in figures, and to play with.

It is made of published releases, or of a guarantee alone: then it says what could be learnt, and shows no values.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nabladp.checks import as_path, expect, members
from nabladp.displayed import Stage
from nabladp.errors import ReleaseError, quote_path
from nabladp.privacy import Guarantee
from nabladp.report.claims import Certificate, Claim

if TYPE_CHECKING:
    from nabladp.release.record import Release
    from nabladp.report.verification import Verification

    Source = Release | Sequence[Release] | Guarantee | Certificate | str | Path

FILE = "report.html"
MOST_SUGGESTED = 3


def report(source: Source, title: str | None = None, *, stage: Stage | None = None, language: str | None = None) -> str:
    """The report as HTML text, for a release, several releases of one table, or a published folder; or for a guarantee
    alone, several of them (:class:`Certificate`), or the JSON file that either was kept in.

    ``title`` and ``language`` (such as "en" or "de") default to those of the release's imprint.
    """
    from nabladp.report.page import claims_page, page

    content = _content_of(source)
    if isinstance(content, Certificate):
        return claims_page(content, title or content.imprint.title or content.title, language)
    title = title or content[0].imprint.title or _title(source, content)
    return page(content, title, stage or _ignore_progress, language)


def _ignore_progress(what: str, done: int, total: int) -> None:
    return None


def write(
    source: Source,
    to: str | Path | None = None,
    title: str | None = None,
    *,
    stage: Stage | None = None,
    language: str | None = None,
) -> Path:
    """Write the report, by default as ``report.html`` into the folder that it is about; replaces an older one.

    ``to`` is a file, or a folder to put ``report.html`` into.
    """
    from nabladp.release.names import folder_of, refuse_published

    if to is None and not isinstance(source, str | Path):
        raise ReleaseError("No output path.", fix="Add to='report.html'.")
    goal = Path(to) if to is not None else folder_of(Path(str(source))) / FILE
    if goal.is_dir():
        goal /= FILE
    refuse_published(goal)
    text = report(source, title, stage=stage, language=language)
    draft = goal.with_name(f".{goal.name}.part")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        os.replace(draft, goal)
    except OSError:
        raise ReleaseError(
            f"Cannot write {goal.name!r}.", fix="Check that its folder exists and is writable."
        ) from None
    return goal


def verify(subject: str | Path, ledger: str | Path | None = None) -> Verification:
    """Check a published folder, a report or certificate in it, or the text of a QR code; see
    :func:`nabladp.report.verification.verify`."""
    from nabladp.report import verification

    return verification.verify(subject, ledger)


def _content_of(source: Source) -> Certificate | list[Release]:
    """The releases or guarantees that a report is about. A JSON file that is not a release's record is a
    certificate."""
    from nabladp.release.record import RECORD

    if isinstance(source, Guarantee):
        return Certificate((Claim(source),))
    if isinstance(source, Certificate):
        return source
    if isinstance(source, str | Path):
        path = as_path(source, "The release or certificate")
        if os.path.isfile(path) and path.suffix == ".json" and path.name != RECORD:
            return Certificate.load(path)
    return load(source)


def load(source: Release | Sequence[Release] | str | Path) -> list[Release]:
    """The releases that a report is about, in the order of their ledger entries."""
    from nabladp.release.names import folder_of
    from nabladp.release.record import RECORD, Release

    if isinstance(source, Release):
        return [source]
    if not isinstance(source, str | Path):
        listed = members(source, "What is reported on", "Give a release, several, or the folder of one.")
        if not listed:
            raise ReleaseError("There is no release to report on.", fix="Give at least one.")
        return [expect(release, Release, "What is reported on", "Give a Release.") for release in listed]
    folder = folder_of(as_path(source, "The release"))
    try:
        records = [*folder.glob(RECORD), *folder.glob(f"*/{RECORD}")]
    except OSError:
        raise ReleaseError(f"{quote_path(folder)} cannot be listed.", fix="Check that it is still there.") from None
    if not records:
        where = f"in {str(folder)!r}" if str(folder) == str(source) else f"beside {quote_path(source)}"
        fix = _suggest_folder(folder)
        if str(source).endswith(".toml"):
            fix = f"Run `nabladp release {Path(source).name}` first, or g{fix[1:]}"
        raise ReleaseError(f"There is no release {where}.", fix=fix)
    return sorted((Release.read(record) for record in records), key=ledger_order)


def ledger_order(release: Release) -> tuple[int, str]:
    """The sort key of releases in a report: their entries in the ledger."""
    return int(release.ledger["entry"]), release.name


def _suggest_folder(folder: Path) -> str:
    """A published folder further below that may have been meant."""
    from nabladp.release.record import RECORD

    records: list[Path] = []
    for depth in ("*/*", "*/*/*"):
        with suppress(OSError):  # a folder that went away meanwhile: there is less to suggest
            records.extend(folder.glob(f"{depth}/{RECORD}"))
    below = [repr(str(folder_below)) for folder_below in sorted({record.parent.parent for record in records})]
    if not below:
        return "Give the folder of a release."
    more = f" (and {len(below) - MOST_SUGGESTED:,} more)" if len(below) > MOST_SUGGESTED else ""
    folders = " or ".join(below[:MOST_SUGGESTED])
    return f"Give the folder of a release. Below it there {'is' if len(below) == 1 else 'are'} {folders}{more}."


def _title(source: Source, releases: Sequence[Release]) -> str:
    from nabladp.release.names import folder_of

    if isinstance(source, str | Path):
        return folder_of(Path(source)).resolve().name
    return releases[0].name.partition("/")[0] if len(releases) > 1 else releases[0].name


__all__ = ["FILE", "Certificate", "Claim", "load", "report", "verify", "write"]
