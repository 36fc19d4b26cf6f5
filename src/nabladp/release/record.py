"""Release: what was published, with everything a reader needs to check it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

from nabladp import __version__
from nabladp.checks import as_path, is_number, is_share, is_whole, read_file
from nabladp.displayed import Displayed
from nabladp.errors import NablaDPError, ReleaseError, SourceError, quote_path
from nabladp.mechanisms import Output, mechanism_class
from nabladp.mechanisms.mechanism import ReleaseContext
from nabladp.person import Person
from nabladp.privacy import Guarantee
from nabladp.privacy.guarantee import MOST_ROWS
from nabladp.release.cost import DELTA, figures
from nabladp.release.imprint import LOGO_FILES, Imprint
from nabladp.schema import Schema
from nabladp.views import View

if TYPE_CHECKING:
    import pyarrow as pa


# ---- reading a stored record -----------------------------------------------------------------------------------------

MOST_PEOPLE = 1 << 53
MOST_BYTES = 1 << 31  # of a record
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ERROR_NUMBERS = ("scale", "mean_absolute", "standard_deviation")


def check_record(data: Any) -> None:
    """Check a release's record: everything but the schema, the guarantee and the values, which their own classes
    read."""
    _need(isinstance(data, Mapping), "the record")
    _need(isinstance(data.get("files"), Mapping), "files")
    _need(all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in data["files"].values()), "files")
    for key in ("name", "mechanism", "created"):
        _need(isinstance(data.get(key), str) and 0 < len(data[key]) < 1000, key)
    _need(_is_time(data["created"]), "created")
    _need("stamp" in data and (data["stamp"] is None or isinstance(data["stamp"], str)), "stamp")
    _need(is_whole(data.get("n"), 1, MOST_PEOPLE), "n")
    _need(is_whole(data.get("rows_per_person"), 1, MOST_ROWS), "rows_per_person")
    _check_person(data)
    for key in ("parameters", "values", "figures", "ledger", "versions"):
        _need(isinstance(data.get(key), Mapping), key)
    _need(_all_texts(data["versions"]), "versions")
    _need(is_share(data["figures"].get("delta")), "delta")
    _check_population(data.get("population"))
    _check_ledger(data["ledger"])
    _check_limits(data.get("limits", []))
    report = data.get("report", {})
    _need(isinstance(report, Mapping) and _all_texts(report), "report")
    _check_error(data.get("expected_error"))


def _check_person(data: Mapping[str, Any]) -> None:
    """A record names the column of people where it bounds their rows; otherwise their number is a promise."""
    if "person" in data:
        _need(isinstance(data["person"], Mapping) and data["person"].get("rows") == data["rows_per_person"], "person")
        _need(Person.from_json(data["person"]).id is not None, "person")


def read_person(data: Mapping[str, Any]) -> Person:
    return Person.from_json(data["person"]) if "person" in data else Person(rows=data["rows_per_person"])


def read_adversaries(data: Mapping[str, Any], guarantee: Guarantee) -> dict[str, tuple[str, ...]]:
    """A record's named adversaries: sets of attributes that the guarantee speaks of."""
    listed = data["figures"].get("adversaries")
    _need(isinstance(listed, list) and all(isinstance(body, Mapping) for body in listed), "adversaries")
    adversaries = {}
    for body in listed:
        name, chosen = body.get("name"), body.get("attributes")
        _need(isinstance(name, str) and isinstance(chosen, list) and len(chosen) > 0, "adversaries")
        guarantee.universe.sources(chosen)  # refuses what is no attribute
        adversaries[name] = tuple(chosen)
    return adversaries


def check_same_attributes(schema: Schema, guarantee: Guarantee) -> None:
    universe = guarantee.universe
    same = (universe.roots, dict(universe.derived), universe.public) == (
        tuple(schema.roots),
        dict(schema.derived),
        schema.public,
    )
    _need(same, "guarantee")


def _check_population(given: Any) -> None:
    if given is not None:
        _need(isinstance(given, Mapping) and _all_texts(given) and given.keys() <= {"sentence", "query"}, "population")
        _need("sentence" in given, "population")


def _check_ledger(booked: Mapping[str, Any]) -> None:
    for key in ("ledger", "name", "hash"):
        _need(isinstance(booked.get(key), str), "ledger")
    _need(is_whole(booked.get("entry"), 1, MOST_PEOPLE), "ledger")


def _check_limits(limits: Any) -> None:
    _need(isinstance(limits, list), "limits")
    for line in limits:
        _need(isinstance(line, Mapping), "limits")
        _need(isinstance(line.get("limit"), str) and line.get("measure") in ("ρ", "pure ε"), "limits")
        _need(_are_texts(line.get("attributes")) and isinstance(line.get("value"), Mapping), "limits")
        _need(is_number(line.get("allowed")) and is_number(line.get("left")), "limits")
        _need("spent" in line and (line["spent"] is None or is_number(line["spent"])), "limits")
        _need(isinstance(line.get("exceeded"), bool), "limits")


def _check_error(error: Any) -> None:
    """Check a record's expected error: a list of the errors of marginals, or an object that sums itself up in words."""
    if isinstance(error, list):
        for part in error:
            _need(isinstance(part, Mapping) and _are_texts(part.get("attributes")), "expected_error")
            _need(is_whole(part.get("cells"), 1) and is_whole(part.get("half_width"), 0), "expected_error")
            _need(all(is_number(part[name]) for name in _ERROR_NUMBERS if name in part), "expected_error")
            _need("scale" in part and "mean_absolute" in part, "expected_error")
        return
    _need(isinstance(error, Mapping) and isinstance(error.get("summary", {}), Mapping), "expected_error")
    for value in error.get("summary", {}).values():
        _need(value is None or isinstance(value, (bool, str)) or is_number(value), "expected_error")


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _all_texts(mapping: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, str) and isinstance(value, str) for key, value in mapping.items())


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _need(condition: object, field: str) -> None:
    if not condition:
        raise ReleaseError(
            f"This is not a release record: {field!r} is missing or not what nabladp writes.",
            fix="Give a folder written by nabladp, or fetch it again.",
            field=field,
        )


# ---- the record ------------------------------------------------------------------------------------------------------

FORMAT = 1
KIND = "nabladp release"
RECORD, VALUES = "release.json", "values.parquet"
TABLE = re.compile(r"[a-z]+\.parquet")  # the values, and what else an output offers
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
MOST_TABLE = 1 << 35  # bytes of a published table
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
DIGESTS = "digests.txt"  # digest, ledger entry and subfolder of every record of a published folder


@dataclass(frozen=True, eq=False, repr=False)
class Release(Displayed):
    """One mechanism's output. ``stamp`` is "TEST — NOT PRIVATE" when the noise was seeded, otherwise None."""

    displayed_as = "release"

    name: str
    mechanism: str
    parameters: Mapping[str, Any]
    schema: Schema
    n: int
    guarantee: Guarantee
    output: Output
    expected_error: Any  # in its JSON form
    ledger: Mapping[str, Any]  # ledger id, number, name and hash of the reservation
    created: str
    stamp: str | None = None
    adversaries: Mapping[str, Sequence[str]] = field(default_factory=dict)
    delta: float = DELTA
    person: Person = field(default_factory=Person)
    versions: Mapping[str, str] = field(default_factory=dict)
    population: Mapping[str, str] = field(default_factory=dict)  # why it is public which rows are in, and the query
    limits: Sequence[Mapping[str, Any]] = ()  # every limit as the ledger stood once this was reserved
    imprint: Imprint = field(default_factory=Imprint)
    folder: Path | None = None  # from which it was loaded

    @property
    def rows_per_person(self) -> int:
        """The most rows of one person that were used."""
        return self.person.rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        stamp = f", {self.stamp}" if self.stamp else ""
        return (
            f"Release({self.name!r}, {self.mechanism} of {self.n:,} rows, ledger entry {self.ledger['entry']}{stamp})"
        )

    def __getitem__(self, names: Any) -> Any:
        """A part of the output, e.g. ``release["region", "income"]``."""
        return self.output[names]  # type: ignore[index]

    @cached_property
    def parquet(self) -> bytes:
        """The released values as a Parquet file."""
        return _parquet(self.output.to_arrow(self.schema))

    @cached_property
    def extra(self) -> dict[str, bytes]:
        """Further tables of the release, as Parquet files by name."""
        tables = self.output.extra_tables(self.schema)
        files = {f"{name}.parquet": _parquet(table) for name, table in tables.items()}
        if VALUES in files or not all(TABLE.fullmatch(name) for name in files):
            raise ReleaseError(
                f"{self.mechanism} offers a table whose name is not a valid file name.",
                fix="Use one plain lowercase word.",
            )
        return files

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Every file beside the release's record, with its SHA-256."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self._tables.items()}

    @property
    def _tables(self) -> dict[str, bytes]:
        logo = self.imprint.logo
        return {VALUES: self.parquet, **self.extra, **({} if logo is None else {logo.file: logo.content})}

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "format": FORMAT,
            "name": self.name,
            "stamp": self.stamp,
            "created": self.created,
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "n": self.n,
            "rows_per_person": self.rows_per_person,
            **({} if self.person.id is None else {"person": self.person.to_json()}),
            "figures": figures(self.guarantee, self.adversaries, self.delta),
            "expected_error": self.expected_error,
            "values": self.output.to_json(),
            "files": self.hashes,
            "guarantee": self.guarantee.to_json(),
            "schema": self.schema.to_json(),
            "ledger": dict(self.ledger),
            "versions": dict(self.versions),
            **({"population": dict(self.population)} if self.population else {}),
            **({"limits": list(self.limits)} if self.limits else {}),  # records of 0.3 and before have none
            **({"report": self.imprint.to_json()} if self.imprint != Imprint() else {}),
        }

    def context(self, folder: Path | None = None) -> ReleaseContext:
        """What the release's output needs to be shown or compared; ``folder`` is where its files are, for tables that
        are not in the record."""

        def read_table(name: str, columns: Sequence[str]) -> pa.Table | None:
            import pyarrow.parquet as pq

            path = None if folder is None else folder / f"{name}.parquet"
            if path is None or not path.exists():
                return None
            known = set(pq.read_schema(path).names)  # older versions wrote fewer columns
            chosen = [name for name in columns if name in known]
            return pq.read_table(path, columns=chosen, use_threads=False, pre_buffer=False)  # takes less memory

        return ReleaseContext(self.schema, self.n, self.parameters, self.expected_error, read_table)

    def views(self) -> list[View]:
        """The views of the release that a report shows; values of the record are never changed, only arranged."""
        try:
            return self.output.views(self.context(self.folder))
        except NablaDPError:
            raise
        except _UNREADABLE as error:  # parameters and expected error of a stored record are checked for shape alone
            raise ReleaseError(
                f"The record of {self.name!r} does not fit together: its values cannot be shown.", fix="Fetch it again."
            ) from error

    @cached_property
    def text(self) -> bytes:
        """The release's record as it is written; its digest is what the ledger binds."""
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text).hexdigest()

    def files(self) -> dict[str, bytes]:
        return {**self._tables, RECORD: self.text}

    @classmethod
    def load(cls, where: str | Path) -> Release:
        """A release from its folder or its release.json; refuses a record or a file beside it that was changed or cut
        short."""
        path = as_path(where, "The release")
        record = path / RECORD if os.path.isdir(path) else path  # false for a name too long for a file, too
        try:
            text = read_file(record, f"The record {record.name!r}", MOST_BYTES)
            data = json.loads(text, parse_constant=_refuse_constant)
            if _listed_digest(record) not in (None, hashlib.sha256(text).hexdigest()):
                raise ReleaseError(f"{RECORD} is not the record that {DIGESTS} names.", fix="Fetch it again.")
            check_record(data)
            _check_text(text, data)
            _check_files(record.parent, data["files"])
            release = cls._of(data, record.parent)
            # As written: a table that was drawn, or packed by another version, need not come out the same again, and a
            # logo may be missing where a record travels alone.
            vars(release).update(hashes=data["files"], text=text, folder=record.parent)
            return release
        except SourceError:
            raise
        except OSError:
            raise ReleaseError(
                f"There is no readable release at {quote_path(where)}.", fix="Give its folder."
            ) from None
        except _UNREADABLE as error:
            if isinstance(error, NablaDPError):
                raise
            raise ReleaseError(
                f"{record.name!r} is not a release record.", fix="Give a folder written by nabladp."
            ) from None

    @classmethod
    def _of(cls, data: Mapping[str, Any], folder: Path) -> Release:
        if data["kind"] != KIND or data["format"] != FORMAT:
            raise ReleaseError("This release was written in another format.", fix="Use the version that wrote it.")
        schema, guarantee = Schema.from_json(data["schema"]), Guarantee.from_json(data["guarantee"])
        check_same_attributes(schema, guarantee)
        return cls(
            name=data["name"],
            mechanism=data["mechanism"],
            parameters=data["parameters"],
            schema=schema,
            n=data["n"],
            guarantee=guarantee,
            output=mechanism_class(data["mechanism"]).read_output(data["values"], schema),
            expected_error=data["expected_error"],
            ledger=data["ledger"],
            created=data["created"],
            stamp=data["stamp"],
            adversaries=read_adversaries(data, guarantee),
            delta=data["figures"]["delta"],
            person=read_person(data),
            versions=data["versions"],
            limits=data.get("limits", ()),
            imprint=Imprint.from_json(data.get("report", {}), folder),
            population=data.get("population", {}),
        )


def _refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity in a record: they are not JSON, and a record that held them could not be written
    again."""
    raise ValueError(f"{name} is not JSON.")


def _parquet(table: pa.Table) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def _check_text(text: bytes, data: Any) -> None:
    """Refuse half of a surrogate pair in a record: it could be read, but never be written again."""
    if _SURROGATE.search(text):
        json.dumps(data, ensure_ascii=False).encode()


def _check_files(folder: Path, listed: Mapping[str, str]) -> None:
    """Refuse a release whose files are not those that the record names; a record may travel alone."""
    if VALUES not in listed or not all(TABLE.fullmatch(name) or name in LOGO_FILES for name in listed):
        raise ValueError  # and nothing outside the folder is looked at
    for name, expected in listed.items():
        path = folder / name
        if path.exists():
            if not path.is_file():  # a pipe would never end
                raise ReleaseError(f"{name} is not a regular file.", fix="Fetch it again.")
            if path.stat().st_size > MOST_TABLE:
                raise ReleaseError(f"{name} is too large: the limit is {MOST_TABLE:,} bytes.", fix="Fetch it again.")
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                    raise ReleaseError(f"{name} is not the file that {RECORD} names.", fix="Fetch both again.")


def _listed_digest(record: Path) -> str | None:
    """The digest that the list beside the record, or beside its folder, gives for a release."""
    for folder, subfolder in ((record.parent, ""), (record.parent.parent, record.parent.name)):
        with suppress(OSError, ValueError):
            for line in read_file(folder / DIGESTS, DIGESTS).decode().removesuffix("\n").split("\n"):
                digest, _, listed = line.split(" ", 2)
                if listed == subfolder:
                    return digest
    return None


def versions() -> dict[str, str]:
    return {"nabladp": __version__, "python": python_version()} | {
        package: metadata.version(package) for package in ("numpy", "pyarrow", "duckdb")
    }
