"""Release: what was published, with everything a reader needs to check it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

from nabladp import __version__
from nabladp.checks import as_path, read_file
from nabladp.displayed import Displayed
from nabladp.errors import NablaDPError, ReleaseError, SourceError, shown
from nabladp.mechanisms import Output, mechanism_class
from nabladp.mechanisms.mechanism import ReleaseContext
from nabladp.privacy import Guarantee
from nabladp.release.cost import DELTA, figures
from nabladp.release.stored import MOST_BYTES, check_record, check_same_attributes, read_adversaries
from nabladp.schema import Schema
from nabladp.views import View

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
KIND = "nabladp release"
RECORD, VALUES = "release.json", "values.parquet"
TABLE = re.compile(r"[a-z]+\.parquet")  # the values, and what else an output offers
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
DIGESTS = "digests.txt"  # digest, ledger entry and place of every record of a published folder


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
    rows_per_person: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    limits: Sequence[Mapping[str, Any]] = ()  # every limit as the ledger stood once this was reserved

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
        """The values as a Parquet file."""
        return _parquet(self.output.to_arrow(self.schema))

    @cached_property
    def extra(self) -> dict[str, bytes]:
        """What else the output offers, as Parquet files by name."""
        tables = self.output.extra_tables(self.schema)
        found = {f"{name}.parquet": _parquet(table) for name, table in tables.items()}
        if VALUES in found or not all(TABLE.fullmatch(name) for name in found):
            raise ReleaseError(
                f"{self.mechanism} offers a table whose name is not a valid file name.", fix="Use one plain lowercase word."
            )
        return found

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Every file beside the record, with its SHA-256."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self._tables.items()}

    @property
    def _tables(self) -> dict[str, bytes]:
        return {VALUES: self.parquet, **self.extra}

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
            "figures": figures(self.guarantee, self.adversaries, self.delta),
            "expected_error": self.expected_error,
            "values": self.output.to_json(),
            "files": self.hashes,
            "guarantee": self.guarantee.to_json(),
            "schema": self.schema.to_json(),
            "ledger": dict(self.ledger),
            "versions": dict(self.versions),
            **({"limits": list(self.limits)} if self.limits else {}),  # records of 0.3 and before have none
        }

    def context(self, folder: Path | None = None) -> ReleaseContext:
        """What its output needs to be shown or compared; ``folder`` is where its files are, for tables that are not in
        the record."""

        def read_table(name: str, columns: Sequence[str]) -> pa.Table | None:
            import pyarrow.parquet as pq

            path = None if folder is None else folder / f"{name}.parquet"
            return None if path is None or not path.exists() else pq.read_table(path, columns=list(columns))

        return ReleaseContext(self.schema, self.n, self.parameters, self.expected_error, read_table)

    def views(self) -> list[View]:
        """What a report shows of the output; values of the record are never changed, only arranged."""
        return self.output.views(self.context())

    @cached_property
    def text(self) -> bytes:
        """The record as it is written; its digest is what the ledger binds."""
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text).hexdigest()

    def files(self) -> dict[str, bytes]:
        return {**self._tables, RECORD: self.text}

    @classmethod
    def load(cls, where: str | Path) -> Release:
        """From its folder or its release.json; refuses a record or a file beside it that was changed or cut short."""
        path = as_path(where, "The release")
        record = path / RECORD if os.path.isdir(path) else path  # false for a name too long for a file, too
        try:
            text = read_file(record, f"The record {record.name!r}", MOST_BYTES)
            data = json.loads(text)
            if _listed_digest(record) not in (None, hashlib.sha256(text).hexdigest()):
                raise ReleaseError(f"{RECORD} is not the record that {DIGESTS} names.", fix="Fetch it again.")
            check_record(data)
            _check_text(text, data)
            _check_files(record.parent, data["files"])
            release = cls._of(data)
            # As written: a table that was drawn, or packed by another version, need not come out the same again.
            vars(release)["hashes"] = data["files"]
            return release
        except SourceError:
            raise
        except OSError:
            raise ReleaseError(
                f"There is no readable release at {shown(str(where))}.", fix="Give its folder."
            ) from None
        except _UNREADABLE as error:
            if isinstance(error, NablaDPError):
                raise
            raise ReleaseError(
                f"{record.name!r} is not a release record.", fix="Give a folder written by nabladp."
            ) from None

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> Release:
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
            rows_per_person=data["rows_per_person"],
            versions=data["versions"],
            limits=data.get("limits", ()),
        )


def _parquet(table: pa.Table) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def _check_text(text: bytes, data: Any) -> None:
    """Half of a surrogate pair is no text: it could be read, but never be written again."""
    if _SURROGATE.search(text):
        json.dumps(data, ensure_ascii=False).encode()


def _check_files(folder: Path, listed: Mapping[str, str]) -> None:
    """Those that are there are those that the record names; a record may travel alone."""
    if VALUES not in listed or not all(TABLE.fullmatch(name) for name in listed):
        raise ValueError  # and nothing outside the folder is looked at
    for name, expected in listed.items():
        path = folder / name
        if path.exists():
            if not path.is_file():  # a pipe would never end
                raise ReleaseError(f"{name} is not a regular file.", fix="Fetch it again.")
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                    raise ReleaseError(f"{name} is not the file that {RECORD} names.", fix="Fetch both again.")


def _listed_digest(record: Path) -> str | None:
    """What the list of digests beside the record, or beside its folder, says of it."""
    for folder, place in ((record.parent, ""), (record.parent.parent, record.parent.name)):
        with suppress(OSError, ValueError):
            for line in read_file(folder / DIGESTS, DIGESTS).decode().removesuffix("\n").split("\n"):
                digest, _, listed = line.split(" ", 2)
                if listed == place:
                    return digest
    return None


def versions() -> dict[str, str]:
    return {"nabladp": __version__, "python": python_version()} | {
        package: metadata.version(package) for package in ("numpy", "pyarrow", "duckdb")
    }
