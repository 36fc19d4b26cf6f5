"""Checking a published folder, its certificate, or the text of a certificate's QR code, with a ledger or without."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nabladp import __version__
from nabladp.checks import as_path, read_file
from nabladp.errors import NablaDPError, ReleaseError, quote, quote_path
from nabladp.privacy import Ledger
from nabladp.release.names import PAGE, folder_of
from nabladp.release.record import DIGESTS, RECORD, Release
from nabladp.report.certificate import MARK, code_of_all, guarantee_code, release_code
from nabladp.report.claims import Certificate
from nabladp.report.page import page as written_page

MOST_PAGE, MOST_BLOCK = 1 << 28, 1 << 24
MOST_OTHERS = 5  # files that are named, of those that no record names
_LISTED = re.compile(r"[0-9a-f]{64} [0-9]+ [^\x00-\x1f]*")  # a line of the list of digests
_CODE_START = "NABLADP:"
BLOCK = "certificate"  # the block of a page that names the codes on its certificates, and how the page was made
_CODES = re.compile(rf'<script type="application/json\+gzip" id="data-{BLOCK}">([A-Za-z0-9+/=]+)</script>')


@dataclass(frozen=True)
class Verification:
    """What was found: ``checked`` holds, ``problems`` do not; ``open`` could not be checked. It is ``ok`` if something
    was checked and all of it holds."""

    checked: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return bool(self.checked) and not self.problems

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
    if isinstance(subject, str) and subject.strip().upper().startswith(_CODE_START):
        codes = [subject.strip().upper()]
        _parse_code(codes[0])
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
            "PDF files cannot be verified directly.",
            fix=f'Give the text of its QR code, "{MARK}:…", or the folder of the release.',
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
        codes = _verify_page(page, releases, found)
        return [release_code(release) for release in releases] or codes
    elif not releases:
        raise ReleaseError(f"There is no release in {quote_path(folder)}.", fix="Give the folder of a release.")
    elif (folder / DIGESTS).is_file():
        found.open.append(f"There is no {PAGE} in the folder, so no certificate was checked.")
    return [release_code(release) for release in releases]


def _read_releases(folder: Path, found: _Findings) -> list[Release]:
    """The releases of a folder; every file that a record names must be there, and be what it names."""
    releases = {}
    records = sorted([*folder.glob(RECORD), *folder.glob(f"*/{RECORD}")])
    for record in records:
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
        releases[record.parent] = release
    _verify_list(folder, {_subfolder(record.parent, folder) for record in records}, releases, found)
    return sorted(releases.values(), key=lambda release: int(release.ledger["entry"]))


def _subfolder(part: Path, folder: Path) -> str:
    """The subfolder of a part as the list of digests writes it; of a release that stands alone, nothing."""
    return "" if part == folder else part.name


def _verify_list(folder: Path, parts: set[str], releases: Mapping[Path, Release], found: _Findings) -> None:
    """Check that the list of digests names the parts that are there and no other; name files that nobody wrote of."""
    try:
        lines = read_file(folder / DIGESTS, DIGESTS).decode().split("\n")
    except OSError:  # a record that travels alone has none
        if parts - {""}:
            found.problems.append(f"{DIGESTS}, which lists every part, is missing.")
        return
    except UnicodeDecodeError:
        lines = []
    if len(lines) < 2 or lines.pop() or not all(_LISTED.fullmatch(line) for line in lines):
        found.problems.append(f"{DIGESTS} was changed: its lines cannot be read.")
        return
    listed = {line.split(" ", 2)[2] for line in lines}
    gone, added = ([repr(name) for name in sorted(names)] for names in (listed - parts, parts - listed))
    if gone:
        found.problems.append(f"{DIGESTS} also lists {', '.join(gone)}, which is missing.")
    if added:
        found.problems.append(f"{DIGESTS} does not list {', '.join(added)}: added later.")
    wanted = {f"{own.digest} {own.ledger['entry']} {_subfolder(part, folder)}" for part, own in releases.items()}
    if not gone and not added and not found.problems and wanted != set(lines):
        found.problems.append(f"{DIGESTS} was changed: its lines are not those of the releases beside it.")
    others = _other_files(folder, releases) if not found.problems else []
    if others:
        more = f" and {len(others) - MOST_OTHERS:,} more" if len(others) > MOST_OTHERS else ""
        found.open.append(f"No record names these files: {', '.join(map(repr, others[:MOST_OTHERS]))}{more}.")


def _other_files(folder: Path, releases: Mapping[Path, Release]) -> list[str]:
    """Files in a published folder that belong to no release."""
    own = {folder / DIGESTS, folder / PAGE, *(part / name for part in releases for name in (RECORD, PAGE))}
    own |= {part / name for part, release in releases.items() for name in release.hashes}
    there = [path for place in {folder, *releases} for path in place.iterdir() if path not in own]
    return sorted(path.relative_to(folder).as_posix() for path in there if path not in releases)


def _verify_page(page: Path, releases: Sequence[Release], found: _Findings) -> list[str]:
    """Check that a page's certificate names these releases, and that the page is what this version writes of them;
    returns the codes that it holds."""
    stated = _page_facts(page)
    if stated is None:
        found.open.append(f"{page.name} holds no codes: it is from an earlier version. Write it again to compare.")
        return []
    if not releases:
        found.open.append(
            f"The files that {page.name} is about are not beside it: its words and figures were not compared."
        )
        return [str(code) for code in stated["codes"]]
    codes = [release_code(release) for release in releases]
    same = stated["codes"] == codes and stated["code"] == code_of_all(codes)
    if not found.note(
        same,
        f"The certificate in {page.name} names these releases.",
        f"{page.name} is about other releases than those beside it.",
    ):
        return []
    if stated["version"] != __version__:
        found.open.append(f"nabladp {stated['version']} wrote {page.name}; its words and figures were not compared.")
        return []
    again = written_page(releases, stated["title"], _ignore_progress, stated["language"])
    found.note(
        again.encode() == read_file(page, "The report", MOST_PAGE),
        f"{page.name} says to the letter what nabladp {__version__} writes of these releases, under the title "
        f"{quote(stated['title'])}.",
        f"{page.name} was changed: nabladp {__version__} writes another page of these releases.",
    )
    return []


def _ignore_progress(what: str, done: int, total: int) -> None:
    return None


def _page_facts(page: Path) -> dict[str, Any] | None:
    match = _CODES.search(read_file(page, "The report", MOST_PAGE).decode("utf-8", "replace"))
    if match is None:
        return None
    try:
        stated = json.loads(zlib.decompressobj(31).decompress(b64decode(match[1]), MOST_BLOCK))
        named = {name: stated[name] for name in ("codes", "code", "version", "title", "language")}
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


def _parse_code(code: str) -> tuple[str, int, str, str]:
    """Ledger, entry, its hash and the record's digest, from the code of a release."""
    parts = code.lower().split(":")
    if code.startswith(f"{MARK}:") and parts[2] in ("all", "guarantee"):
        raise ReleaseError(
            "This code holds the hash of several parts, or of a guarantee: it needs their files.",
            fix="Give the folder of the release, or the code of one part from the annex.",
        )
    if not code.startswith(f"{MARK}:") or len(parts) != 6 or not re.fullmatch("[0-9]{1,18}", parts[3]):
        raise ReleaseError("This is not the code of a release.", fix="Copy all of it from the QR code.")
    return parts[2], int(parts[3]), parts[4], parts[5]


def _verify_entry(code: str, book: Ledger, found: _Findings) -> None:
    ledger, seq, hash_, digest = _parse_code(code)
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
