"""Release: what was published, with everything a reader needs to check it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any, TypeVar

from nabladp import __version__
from nabladp.checks import as_path, near_file, read_file
from nabladp.displayed import Displayed
from nabladp.errors import NablaDPError, ReleaseError, SourceError, quote, quote_path
from nabladp.mechanisms import Output, mechanism_class
from nabladp.mechanisms.free_answers import FreeAnswers
from nabladp.mechanisms.mechanism import ReleaseContext
from nabladp.mechanisms.released_counts import NoisyCounts
from nabladp.person import Person
from nabladp.privacy import Guarantee
from nabladp.release.cost import DELTA, figures
from nabladp.release.imprint import IMPRINT_FILES, Imprint
from nabladp.release.stored_record import check_record, check_same_attributes, read_adversaries, read_person
from nabladp.schema import Schema
from nabladp.views import View
from nabladp.views.exports import MOST_LINES, Exported, csv_bytes

if TYPE_CHECKING:
    import pyarrow as pa


Shown = TypeVar("Shown")
MOST_BYTES = 1 << 31  # of a record
FORMAT = 1
KIND = "nabladp release"
RECORD, VALUES, CSV = "release.json", "values.parquet", "values.csv"
TABLE = re.compile(r"[a-z]+\.(parquet|csv)")  # the values, and what else an output offers
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
MOST_TABLE = 1 << 35  # bytes of a published table
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
DIGESTS = "digests.txt"  # digest, ledger entry and subfolder of every record of a published folder


@dataclass(frozen=True, eq=False, repr=False)
class Release(Displayed, Exported, FreeAnswers):
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

    def __post_init__(self) -> None:
        if isinstance(self.output, Output):  # its tables have labels and columns for the attributes
            self.output.bind(self.schema)

    def __getitem__(self, names: Any) -> Any:
        """A part of the output, e.g. ``release["region", "income"]``."""
        return self.output[names]

    def __iter__(self) -> Iterator[Any]:
        """The parts of the output: its tables, or the rows of its only one."""
        return iter(self.output)

    def __len__(self) -> int:
        return len(self.output)

    def __bool__(self) -> bool:
        return True

    def to_arrow(self) -> pa.Table:
        """The released values as a tidy table: one row per number."""
        return self.output.to_arrow(self.schema)

    def noisy_counts(self) -> NoisyCounts:
        """The released tables of noisy counts, which free answers are made of."""
        if isinstance(self.output, FreeAnswers):
            return self.output.noisy_counts()
        raise ReleaseError(
            f"{self.name!r} has no free answers: {self.mechanism} publishes no counts with noise of their own.",
            fix="Use its values as they are, by to_pandas(), or release NoisyMarginals of these attributes.",
        )

    @cached_property
    def parquet(self) -> bytes:
        """The released values as a Parquet file."""
        return _parquet(self.to_arrow())

    @cached_property
    def extra(self) -> dict[str, bytes]:
        """Further tables of the release, as Parquet and CSV files by name."""
        tables = self.output.extra_tables(self.schema)
        if not all(_EXTRA.fullmatch(name) and name != "values" for name in tables):
            raise ReleaseError(
                f"{self.mechanism} offers a table whose name is not a valid file name.",
                fix="Use one plain lowercase word.",
            )
        files = {f"{name}.parquet": _parquet(table) for name, table in tables.items()}
        return files | {f"{name}.csv": csv_bytes(table) for name, table in tables.items() if _fits_csv(table)}

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Every file beside the release's record, with its SHA-256."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self._tables.items()}

    @property
    def _tables(self) -> dict[str, bytes]:
        table = self.to_arrow()
        values = {VALUES: self.parquet} | ({CSV: csv_bytes(table)} if _fits_csv(table) else {})
        return {**values, **self.extra, **self.imprint.files}

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
            import pyarrow as pa
            import pyarrow.parquet as pq

            path = None if folder is None else folder / f"{name}.parquet"
            if path is None or not path.exists():
                return None
            with pq.ParquetFile(path, pre_buffer=False) as file:
                known = set(file.schema_arrow.names)  # older versions wrote fewer columns
                table = file.read([name for name in columns if name in known], use_threads=False)
            pa.default_memory_pool().release_unused()  # wide releases have many megabytes of scratch for each column
            return table

        return ReleaseContext(
            self.schema, self.n, self.parameters, self.expected_error, self.rows_per_person, read_table
        )

    def explanation(self) -> str:
        """What was done and what the numbers mean, in one sentence; empty where the mechanism says nothing."""
        return self._show(self.output.explanation)

    def views(self) -> list[View]:
        """The views of the release that a report shows; values of the record are never changed, only arranged."""
        return self._show(lambda: self.output.views(self.context(self.folder)))

    def _show(self, show: Callable[[], Shown]) -> Shown:
        try:
            return show()
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
    def load(cls, where: str | Path) -> Release | Releases:
        """A release from its folder or its release.json, or all releases of a plan's folder; refuses a record or a file
        beside it that was changed or cut short."""
        path = as_path(where, "The release")
        several = [] if not os.path.isdir(path) or (path / RECORD).exists() else sorted(path.glob(f"*/{RECORD}"))
        if not several:
            return cls.read(path)
        loaded = ((record.parent.name, cls.read(record)) for record in several)
        return Releases(dict(sorted(loaded, key=lambda pair: int(pair[1].ledger["entry"]))))

    @classmethod
    def read(cls, where: str | Path) -> Release:
        """One release from its folder or its release.json, with the checks of :meth:`load`."""
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
                f"There is no readable release at {quote_path(where)}.",
                fix=near_file(path, "Give the folder that `nabladp release` wrote, such as plan-release."),
            ) from None
        except _UNREADABLE as error:
            if isinstance(error, NablaDPError):
                raise
            raise ReleaseError(
                f"{record.name!r} is not a release record.",
                fix="Give the folder that `nabladp release` wrote, such as plan-release.",
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


@dataclass(frozen=True, repr=False)
class Releases(Displayed, Exported, FreeAnswers, Mapping[str, Release]):
    """The releases of a plan's folder by name, in the order of the ledger."""

    displayed_as = "releases"

    by_name: Mapping[str, Release]

    def __getitem__(self, name: str) -> Release:
        if name not in self.by_name:
            raise ReleaseError(f"There is no release {quote(name)}.", fix=f"Releases: {', '.join(self.by_name)}.")
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __repr__(self) -> str:
        listed = "\n".join(f"  {name!r}: {release!r}" for name, release in self.items())
        return f"Releases({len(self)} of one plan:\n{listed})"

    def noisy_counts(self) -> NoisyCounts:
        """The tables of noisy counts of all releases, each with noise of its own."""
        return self._noisy_counts

    @cached_property
    def _noisy_counts(self) -> NoisyCounts:
        with_counts = {name: own for name, own in self.items() if isinstance(own.output, FreeAnswers)}
        if not with_counts:
            raise ReleaseError(
                f"None of {', '.join(map(repr, self))} has tables of noisy counts: there are no free answers.",
                fix="Release NoisyMarginals of the attributes in question.",
            )
        first = next(iter(with_counts.values()))
        if any(
            (own.n, own.schema.fingerprint()) != (first.n, first.schema.fingerprint()) for own in with_counts.values()
        ):
            raise ReleaseError(
                "These releases are of different tables or schemas.", fix=f"Ask one of them: {', '.join(with_counts)}."
            )
        once = {own.digest: (name, own) for name, own in with_counts.items()}  # a copied folder adds nothing
        tables = [
            (f"{name}: {title}", table) for name, own in once.values() for title, table in own.noisy_counts().tables
        ]
        return NoisyCounts(first.schema, first.n, tables)

    def sheets(self) -> Mapping[str, pa.Table]:
        return {name: release.to_arrow() for name, release in self.items()}

    def to_arrow(self) -> pa.Table:
        """The values of all releases, one row per number, with the name of the release in front."""
        import pyarrow as pa

        tables = [release.to_arrow() for release in self.values()]
        named = [
            table.add_column(0, "release", pa.array([name] * table.num_rows, pa.string()))
            for name, table in zip(self, tables, strict=True)
        ]
        try:
            return pa.concat_tables([_with_texts(table) for table in named], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            fix = f"Take one of them: {', '.join(map(repr, self))}."
            raise ReleaseError("These releases do not make one table.", fix=fix) from None


def _with_texts(table: pa.Table) -> pa.Table:
    """A table with texts in place of Arrow's dictionaries."""
    import pyarrow as pa

    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in table.schema.types]
    return table.cast(pa.schema(zip(table.column_names, kinds, strict=True)))


def _refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity in a record: they are not JSON, and a record that held them could not be written
    again."""
    raise ValueError(f"{name} is not JSON.")


_EXTRA = re.compile("[a-z]+")


def _fits_csv(table: pa.Table) -> bool:
    """Whether a table is also published as CSV: where a spreadsheet can hold it."""
    return bool(table.num_rows <= MOST_LINES)


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
    if VALUES not in listed or not all(TABLE.fullmatch(name) or name in IMPRINT_FILES for name in listed):
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
