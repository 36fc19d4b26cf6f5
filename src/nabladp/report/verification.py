"""Checking a published folder, its certificate, or the text of a certificate's QR code, with a ledger or without."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nabladp import __version__
from nabladp.checks import as_path, read_file
from nabladp.errors import NablaDPError, ReleaseError, quote_path
from nabladp.privacy import Ledger
from nabladp.release.names import PAGE, folder_of
from nabladp.release.record import DIGESTS, RECORD, Release
from nabladp.report.certificate import MARK, code_of_all, guarantee_code, release_code
from nabladp.report.claims import Certificate
from nabladp.report.page import page as written_page

MOST_PAGE, MOST_BLOCK = 1 << 28, 1 << 24
BLOCK = "certificate"  # the block of a page that names the codes on its certificates, and how the page was made
_CODES = re.compile(rf'<script type="application/json\+gzip" id="data-{BLOCK}">([A-Za-z0-9+/=]+)</script>')


@dataclass(frozen=True)
class Verification:
    """What was found: ``checked`` holds, ``problems`` do not; ``open`` could not be checked."""

    checked: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        listed = {"checked": self.checked, "problems": self.problems, "open": self.open}
        return {"ok": self.ok, **{name: list(texts) for name, texts in listed.items()}}


@dataclass
class _Findings:
    checked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def note(self, holds: bool, right: str, wrong: str) -> bool:
        (self.checked if holds else self.problems).append(right if holds else wrong)
        return holds


def verify(subject: str | Path, ledger: str | Path | None = None) -> Verification:
    """Check that a published folder is as it was written, that the certificate in it says the same, and, with its
    ledger, that every release stands in the ledger's chain, bound to this very record.

    ``subject`` is the folder, a file in it such as its report, or the text of a certificate's QR code. The entry need
    not be the ledger's latest: what was booked later changes nothing about it.
    """
    found = _Findings()
    if isinstance(subject, str) and subject.strip().upper().startswith(f"{MARK}:"):
        codes = [subject.strip().upper()]
        if codes[0].split(":")[2] in ("ALL", "GUARANTEE"):
            raise ReleaseError(
                "This code holds the hash of several parts, or of a guarantee: it needs their files.",
                fix="Give the folder of the release, or the code of one part from the annex.",
            )
        found.open.append("No files were given, so only the ledger can be looked at.")
    else:
        codes = _verify_files(as_path(subject, "What is verified"), found)
    if ledger is None:
        found.open.append("No ledger was given, so whether the release was booked is not known.")
    elif codes:
        _verify_ledger(codes, ledger, found)
    return Verification(tuple(found.checked), tuple(found.problems), tuple(found.open))


# ---- files -----------------------------------------------------------------------------------------------------------


def _verify_files(path: Path, found: _Findings) -> list[str]:
    """Check a folder, or the folder that a file is in; returns the codes of its releases."""
    if path.suffix.lower() == ".pdf":
        raise ReleaseError(
            "A PDF is not read.", fix=f'Give the text of its QR code, "{MARK}:…", or the folder of the release.'
        )
    folder = folder_of(path)
    is_page = path.is_file() and path.suffix.lower() in (".html", ".htm")
    if path.is_file() and path.suffix == ".json" and path.name != RECORD:
        codes = [guarantee_code(claim.fingerprint) for claim in Certificate.load(path).claims]
        found.checked += [f"{path.name} holds the guarantee {code.rpartition(':')[2].lower()}." for code in codes]
        return []
    releases = _read_releases(folder, found)
    page = path if is_page else folder / PAGE
    if page.is_file() and found.problems:
        found.open.append(f"{page.name} was not compared, as the files that it is about are not all right.")
    elif page.is_file():
        _verify_page(page, folder, releases, found)
    elif not releases:
        raise ReleaseError(f"There is no release in {quote_path(folder)}.", fix="Give the folder of a release.")
    return [release_code(release) for release in releases]


def _read_releases(folder: Path, found: _Findings) -> list[Release]:
    """The releases of a folder; every file that a record names must be there, and be what it names."""
    releases = []
    for record in sorted([*folder.glob(RECORD), *folder.glob(f"*/{RECORD}")]):
        label = record.relative_to(folder).as_posix()
        try:
            release = Release.read(record)
        except NablaDPError as error:
            found.problems.append(f"{label}: {error.message}")
            continue
        missing = [name for name in release.hashes if not (record.parent / name).is_file()]
        found.note(
            not missing,
            f"{label} and the {len(release.hashes)} files that it names are as they were written.",
            f"{label}: missing beside it: {', '.join(missing)}.",
        )
        releases.append(release)
    listed = _listed_folders(folder)
    gone = [repr(name) for name in listed if not (folder / name / RECORD).is_file()]
    if gone:
        found.problems.append(f"{DIGESTS} also lists {', '.join(gone)}, which is missing.")
    return sorted(releases, key=lambda release: int(release.ledger["entry"]))


def _listed_folders(folder: Path) -> list[str]:
    """The subfolders of all releases that were published together, as their list of digests names them."""
    try:
        lines = read_file(folder / DIGESTS, DIGESTS).decode().removesuffix("\n").split("\n")
        return [line.split(" ", 2)[2] for line in lines]
    except (OSError, ValueError, IndexError):  # a record that travels alone has none
        return []


def _verify_page(page: Path, folder: Path, releases: Sequence[Release], found: _Findings) -> None:
    """Check that a page's certificate names these releases, and that the page is what this version writes of them."""
    told = _told_by(page)
    if told is None:
        found.open.append(f"{page.name} holds no codes: it is from an earlier version. Write it again to compare.")
        return
    if not releases:
        found.open.append(f"The files that {page.name} is about are not beside it.")
        return
    codes = [release_code(release) for release in releases]
    same = told["codes"] == codes and told["code"] == code_of_all(codes)
    if not found.note(
        same,
        f"The certificate in {page.name} names these releases.",
        f"{page.name} is about other releases than those beside it.",
    ):
        return
    if told["version"] != __version__:
        found.open.append(f"nabladp {told['version']} wrote {page.name}; its words and figures were not compared.")
        return
    again = written_page(releases, told["title"], _ignore_progress, told["language"])
    found.note(
        again.encode() == read_file(page, "The report", MOST_PAGE),
        f"{page.name} says what nabladp {__version__} writes of these releases, to the letter.",
        f"{page.name} was changed: nabladp {__version__} writes another page of these releases.",
    )


def _ignore_progress(what: str, done: int, total: int) -> None:
    return None


def _told_by(page: Path) -> dict[str, Any] | None:
    match = _CODES.search(read_file(page, "The report", MOST_PAGE).decode("utf-8", "replace"))
    if match is None:
        return None
    try:
        told = json.loads(zlib.decompressobj(31).decompress(b64decode(match[1]), MOST_BLOCK))
        named = {name: told[name] for name in ("codes", "code", "version", "title", "language")}
    except (zlib.error, ValueError, TypeError, LookupError):
        raise ReleaseError(f"{page.name} was changed: its codes cannot be read.", fix="Fetch it again.") from None
    return named


# ---- the ledger ------------------------------------------------------------------------------------------------------


def _verify_ledger(codes: Sequence[str], ledger: str | Path, found: _Findings) -> None:
    """Check that the chain holds, and that each code's entry is in it and bound to the record that it names."""
    with Ledger.read(ledger) as book:
        broken = [problem.to_json()["text"] for problem in book.verify()]
        if broken:
            found.problems += [f"The ledger is broken: {text}" for text in broken]
            return
        found.checked.append(f"The chain of the ledger {book.id} holds.")
        for code in codes:
            _verify_entry(code, book, found)


def _verify_entry(code: str, book: Ledger, found: _Findings) -> None:
    try:
        _, _, ledger, number, hash_, digest = code.lower().split(":")
        seq = int(number)
    except ValueError:
        raise ReleaseError("This is not the code of a release.", fix="Copy all of it from the QR code.") from None
    if ledger != book.id.lower():
        found.problems.append(f"Entry {seq} is of the ledger {ledger}, not of this one.")
        return
    entry = next((entry for entry in book.entries(after=seq - 1) if entry.seq == seq), None) if seq > 0 else None
    if entry is None or entry.hash != hash_:
        found.problems.append(f"The ledger has no entry {seq} with the hash {hash_}.")
        return
    found.note(
        book.bound(entry.name) == digest,
        f"Entry {seq} is in the chain, and bound to the record {digest}.",
        f"Entry {seq} is in the chain, but not bound to the record {digest}.",
    )
