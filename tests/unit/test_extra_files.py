"""Further tables of an output: written, listed, bound and checked like the values; without any, all is as before."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nabladp.errors import ReleaseError
from nabladp.mechanisms import Output
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.noisy_marginals.output import MarginalTables
from nabladp.mechanisms.registry import HOMES
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Ledger
from nabladp.release import Release, Session, recover
from nabladp.release.publish import check_published
from nabladp.release.record import DIGESTS
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("a", "categorical", values=("x", "y")),))
EXTRA = "synthetic.parquet"


@dataclass(frozen=True)
class WithSample(Output):
    """Noisy counts, and a table drawn anew each time it is asked for: what was published cannot be made again."""

    counts: MarginalTables

    def extra_tables(self, schema: Schema) -> dict[str, pa.Table]:
        drawn = NoiseSource().uniform_integers(1 << 60, 5)
        return {"synthetic": pa.table({"a": drawn}), "summary": pa.table({"rows": [5]})}

    def to_json(self) -> dict[str, Any]:
        return self.counts.to_json()

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> WithSample:
        return cls(MarginalTables.from_json(data, schema))

    def values_table(self, schema: Schema) -> pa.Table:
        return self.counts.values_table(schema)


class Sampled(NoisyMarginals):
    def run(self, counts: Any, noise: Any) -> Any:
        return WithSample(super().run(counts, noise))

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> Any:
        return WithSample.from_json(data, schema)


@pytest.fixture(autouse=True)
def a_mechanism_with_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    home = ModuleType("mechanism_with_tables")
    home.Sampled = Sampled  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, home.__name__, home)
    monkeypatch.setitem(HOMES, "Sampled", home.__name__)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    people = pa.table({"a": ["x", "y"] * 50})
    return Session(people, SCHEMA, Budget(per_attribute=CDP(2.0)), tmp_path / "ledger.db", new_ledger=True)


MECHANISM = Sampled(CDP(0.5), k=1)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_every_table_is_written_and_listed(session: Session, tmp_path: Path) -> None:
    release = session.release(MECHANISM, to=tmp_path / "out")
    assert files(tmp_path / "out") == [
        DIGESTS,
        "release.json",
        "report.html",
        "summary.csv",
        "summary.parquet",
        "synthetic.csv",
        EXTRA,
        "values.csv",
        "values.parquet",
    ]
    listed = json.loads((tmp_path / "out" / "release.json").read_bytes())["files"]
    assert list(listed) == ["values.parquet", "values.csv", EXTRA, "summary.parquet", "synthetic.csv", "summary.csv"]
    for name, digest in listed.items():
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest == release.hashes[name]
    assert pq.read_table(tmp_path / "out" / EXTRA)["a"].to_numpy().shape == (5,)


def test_what_was_drawn_is_bound_and_needs_not_be_drawn_alike_again(session: Session, tmp_path: Path) -> None:
    release = session.release(MECHANISM, to=tmp_path / "out")
    again = Release.load(tmp_path / "out")
    assert again == release and again.hashes == release.hashes
    assert again.extra[EXTRA] != release.extra[EXTRA]  # drawn anew
    assert check_published(tmp_path / "out", session.ledger) == [release]
    assert session.ledger.bound(release.name) == again.digest


@pytest.mark.parametrize("name", [EXTRA, "summary.parquet", "values.parquet", "values.csv", "synthetic.csv"])
def test_a_changed_file_is_refused(session: Session, tmp_path: Path, name: str) -> None:
    session.release(MECHANISM, to=tmp_path / "out")
    path = tmp_path / "out" / name
    path.write_bytes(path.read_bytes()[:-1])
    for check in (Release.load, lambda where: check_published(where, session.ledger)):
        with pytest.raises(ReleaseError, match=f"{name} is not the file"):
            check(tmp_path / "out")
    path.unlink()  # a record may travel alone
    assert Release.load(tmp_path / "out").n == 100


@pytest.mark.parametrize("name", [EXTRA, "values.parquet", "values.csv"])
def test_recover_wants_every_file_as_it_was_written(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "bind_all", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            session.release(MECHANISM, name="kept", to=tmp_path / "out")
    (hidden,) = tmp_path.glob(".out.pending-*")
    path = hidden / name
    whole = path.read_bytes()
    for spoil in (lambda: path.write_bytes(whole + b"x"), path.unlink):
        spoil()
        with pytest.raises(ReleaseError, match="changed"):
            recover(hidden, session.ledger)
        path.write_bytes(whole)
    assert recover(hidden, session.ledger) == tmp_path / "out" and (tmp_path / "out" / name).read_bytes() == whole
    assert [release.name for release in check_published(tmp_path / "out", session.ledger)] == ["kept"]


@pytest.mark.parametrize("name", ["values", "Synthetic", "two words", "../out", "a.b", "", "release.json", "ünï"])
def test_names_are_plain_words(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(WithSample, "extra_tables", lambda *_: {name: pa.table({"a": [1]})})
    with pytest.raises(ReleaseError, match="Sampled offers a table"):
        session.release(MECHANISM, to=tmp_path / "out")
    assert files(tmp_path) == ["ledger.db"]


@pytest.mark.parametrize("listed", [{}, {EXTRA: "0"}, {"values.parquet": "0", "../secret.parquet": "0"}, ["a"], 3])
def test_records_that_list_no_proper_files_are_refused(session: Session, tmp_path: Path, listed: Any) -> None:
    session.release(MECHANISM, to=tmp_path / "out")
    (tmp_path / "out" / DIGESTS).unlink()
    (tmp_path / "out" / "values.parquet").unlink()
    record = tmp_path / "out" / "release.json"
    record.write_text(json.dumps(json.loads(record.read_bytes()) | {"files": listed}))
    with pytest.raises(ReleaseError, match="not a release record"):
        Release.load(tmp_path / "out")


def test_an_output_without_tables_is_as_before(session: Session, tmp_path: Path) -> None:
    release = session.release(NoisyMarginals(CDP(0.5), k=1), to=tmp_path / "out")
    assert files(tmp_path / "out") == [DIGESTS, "release.json", "report.html", "values.csv", "values.parquet"]
    assert list(release.hashes) == ["values.parquet", "values.csv"]
    assert list(release.files()) == ["values.parquet", "values.csv", "release.json"]
    assert np.array_equal(Release.load(tmp_path / "out")["a"].counts, release["a"].counts)
