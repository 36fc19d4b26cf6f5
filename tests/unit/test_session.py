"""Session: the order of a release, what is spent when, and what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nabladp.errors import BudgetError, BudgetExceeded, DataError, LedgerError, ReleaseError
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Ledger, Rho
from nabladp.privacy.ledger import NoLedger
from nabladp.release import Release, Session, recover
from nabladp.release.publish import DIGESTS
from nabladp.schema import Attribute, Schema
from nabladp.tables import Table

SCHEMA = Schema((Attribute("a", "categorical", values=("x", "y")), Attribute("b", "integer", low=0, high=4)))
BUDGET = Budget(per_attribute=CDP(1.0), person=Rho(1.0))
PAIRS = NoisyMarginals(CDP(0.5), k=2)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("a,b\n" + "\n".join(f"{'xy'[i % 2]},{i % 5}" for i in range(400)) + "\n")
    return path


def session(people: Path, **options: Any) -> Session:
    ledger = people.parent / "ledger.db"
    return Session(people, SCHEMA, BUDGET, ledger, new_ledger=not ledger.exists(), **options)


def test_release_round_trips_through_its_folder(people: Path, tmp_path: Path) -> None:
    s = session(people, adversaries={"both": ["a", "b"]})
    release = s.release(PAIRS, name="first", to=tmp_path / "out")
    assert release.stamp is None and release["a", "b"].counts.shape == (2, 5)
    again = Release.load(tmp_path / "out")
    assert again.digest == release.digest and again.guarantee == release.guarantee
    assert np.array_equal(again["b", "a"].counts, release["a", "b"].counts.T)
    entry = s.ledger.entry("first")
    assert release.ledger["hash"] == entry.hash and not s.ledger.unfinished()
    assert [e.digest for e in s.ledger.entries() if e.kind == "bind"] == [release.digest]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        DIGESTS,
        "release.json",
        "report.html",
        "values.csv",
        "values.parquet",
    ]


def test_parquet_holds_values_intervals_and_scale(people: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    release = session(people).release(PAIRS, to=tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "values.parquet").to_pylist()
    assert len(rows) == 10 and (rows[1]["a"], rows[1]["b"], rows[1]["table"]) == ("x", "1", "a+b")
    table = release["a", "b"]
    assert [row["measured"] for row in rows] == table.counts.ravel().tolist()
    for end, sign in (("low", -1), ("high", 1)):
        assert [row[end] - row["value"] for row in rows] == pytest.approx([sign * table.half_width()] * 10, abs=1e-6)


def test_cost_spends_nothing_and_predicts_the_spend(people: Path) -> None:
    s = session(people)
    before = s.left()
    cost = s.cost(PAIRS, NoisyMarginals(CDP(0.5), k=1))
    assert cost.fits and s.left() == before and s.ledger.head.seq == 1
    s.release(PAIRS)
    s.release(NoisyMarginals(CDP(0.5), k=1))
    for name, left in s.left().items():
        (line,) = [line.to_json() for line in cost.lines if line.standing.limit.name == name]
        assert before[name] - left == pytest.approx(line["requested"])


def test_a_request_over_the_limit_is_refused_before_a_row_is_read(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = session(people)
    people.unlink()  # not even the number of rows is asked for

    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr(Table, "fold", read)
    with pytest.raises(BudgetExceeded) as caught:
        s.release(NoisyMarginals(CDP(1.5), k=1))
    assert {"limit", "requested", "spent", "left"} <= set(caught.value.fields)
    assert s.ledger.head.seq == 1


def test_the_reservation_is_durable_before_the_first_row_is_read(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s = session(people)
    seen: list[int] = []

    def read(*_: Any, **__: Any) -> None:
        with Ledger.read(people.parent / "ledger.db") as other:
            seen.extend(entry.seq for entry in other.unfinished())
        raise RuntimeError("the machine stopped here")

    monkeypatch.setattr(Table, "fold", read)
    with pytest.raises(RuntimeError):
        s.release(PAIRS, name="lost", to=people.parent / "out")
    assert seen == [2]
    assert [e.name for e in s.ledger.unfinished()] == ["lost"]
    assert s.left()["a"] < 0.5  # it stays spent
    assert not (people.parent / "out").exists() and not list(people.parent.glob(".out*"))


def test_another_table_is_paid_from_the_same_ledger(people: Path) -> None:
    import pyarrow as pa

    s = session(people, adversaries={"both": ["a", "b"]}, delta=1e-5, rows_per_person=2)
    other = s.with_table(pa.table({"a": ["x", "y"], "b": [0, 4]}))
    small = NoisyMarginals(CDP(0.2), k=1)
    s.release(small, name="first")
    release = other.release(small, name="second")
    assert other.ledger is s.ledger and other.noise is s.noise and release.n == 2
    assert (release.delta, release.rows_per_person) == (1e-5, 2) and release.adversaries == {"both": ("a", "b")}
    assert [entry.name for entry in s.ledger.entries() if entry.kind == "reserve"] == ["first", "second"]
    assert s.left() == other.left()
    with pytest.raises(BudgetExceeded):
        other.release(NoisyMarginals(CDP(0.45), k=1))  # two rows a person: four times 0.45²/2
    with pytest.raises(DataError):
        s.with_table(pa.table({"a": ["x"]}))


def test_delta_follows_the_rows_of_the_table_where_none_is_given(people: Path) -> None:
    import pyarrow as pa

    s = session(people)
    many = s.with_table(pa.table({"a": ["x"] * 200_000, "b": [0] * 200_000}))
    release = many.release(NoisyMarginals(CDP(0.1), k=1), name="many")
    assert (s.delta, many.delta, release.delta) == (1e-6, 1e-7, 1e-7)


def test_ten_tenths_fit_exactly(people: Path) -> None:
    s = Session(people, SCHEMA, Budget(per_attribute=Rho(1)), people.parent / "tenths.db", new_ledger=True)
    for _ in range(10):
        s.release(NoisyMarginals(Rho(0.1), k=1))
    with pytest.raises(BudgetExceeded):
        s.release(NoisyMarginals(Rho(0.001), k=1))


def test_a_plan_is_all_or_nothing(people: Path, tmp_path: Path) -> None:
    s = session(people)
    with pytest.raises(BudgetExceeded):
        s.release_all([("fits", PAIRS), ("does-not", NoisyMarginals(CDP(0.99), k=1))], tmp_path / "out")
    assert s.ledger.head.seq == 1 and not (tmp_path / "out").exists()


def test_seeded_noise_is_stamped_and_needs_a_test_ledger(people: Path, tmp_path: Path) -> None:
    private = session(people).ledger
    with pytest.raises(LedgerError, match="private ledger"):
        Session(people, SCHEMA, BUDGET, private, noise=NoiseSource.seeded(1))
    with pytest.raises(LedgerError, match="seeded release is not private"):
        private.reserve(PAIRS.guarantee(SCHEMA, 400), "seeded", seeded=True)
    with pytest.raises(LedgerError):
        session(people, noise=NoiseSource.seeded(1))
    s = Session(people, SCHEMA, BUDGET, tmp_path / "test.db", noise=NoiseSource.seeded(1), new_ledger=True)
    release = s.release(PAIRS, to=tmp_path / "out")
    assert release.stamp == "TEST — NOT PRIVATE" and Release.load(tmp_path / "out").stamp == release.stamp


def test_existing_folder_and_bad_places_cost_nothing(people: Path, tmp_path: Path) -> None:
    s = session(people)
    (tmp_path / "taken").mkdir()
    for place in (tmp_path / "taken", people / "below-a-file" / "out"):
        with pytest.raises(ReleaseError):
            s.release(PAIRS, to=place)
    assert s.ledger.head.seq == 1


@pytest.mark.parametrize("moment", ["before bind", "before rename"])
def test_a_crash_after_writing_loses_nothing(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    s = session(people)

    def crash(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if moment == "before bind":
            patch.setattr(Ledger, "bind_all", crash)
        else:
            patch.setattr("nabladp.release.publish.rename_new", crash)
        with pytest.raises(KeyboardInterrupt):
            s.release(PAIRS, name="kept", to=tmp_path / "out")
    (hidden,) = tmp_path.glob(".out.pending-*")
    assert not (tmp_path / "out").exists()
    assert recover(hidden, s.ledger) == tmp_path / "out"
    assert not s.ledger.unfinished() and Release.load(tmp_path / "out").name == "kept"


def test_recover_refuses_what_was_changed_and_what_was_voided(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = session(people)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "bind_all", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            s.release(PAIRS, name="kept", to=tmp_path / "out")
    (hidden,) = tmp_path.glob(".out.pending-*")
    record = hidden / "release.json"
    original = record.read_text()
    record.write_text(original.replace('"kept"', '"kepp"'))
    with pytest.raises(ReleaseError, match="changed"):
        recover(hidden, s.ledger)
    record.write_text(original)
    s.ledger.void("kept", "never shown")
    with pytest.raises(LedgerError, match="voided"):
        recover(hidden, s.ledger)
    with pytest.raises(ReleaseError, match="no finished release"):
        recover(tmp_path, s.ledger)


def test_broken_records_are_refused(people: Path, tmp_path: Path) -> None:
    session(people).release(PAIRS, to=tmp_path / "out")
    values = tmp_path / "out" / "values.parquet"
    values.write_bytes(values.read_bytes()[:-1])
    with pytest.raises(ReleaseError, match="not the file"):
        Release.load(tmp_path / "out")
    (tmp_path / "other.json").write_text('{"kind": "something"}')
    for where in (tmp_path / "other.json", tmp_path / "nothing", people):
        with pytest.raises(ReleaseError):
            Release.load(where)


def test_sessions_refuse_what_makes_no_sense(people: Path, tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="needs a ledger"):
        Session(people, SCHEMA, BUDGET)
    from nabladp.tables import open_table

    other = Schema((Attribute("a", "categorical", values=("x", "y")),))
    with pytest.raises(DataError, match="another schema"):
        Session(open_table(people, other), SCHEMA, BUDGET, tmp_path / "l.db", new_ledger=True)
    with pytest.raises(DataError):
        Session(people, SCHEMA, BUDGET, tmp_path / "l2.db", rows=7, new_ledger=True).release(PAIRS)


def test_a_ledger_is_created_only_where_that_is_asked_for(people: Path, tmp_path: Path) -> None:
    """A mistyped path must not bring a fresh budget, nor an old ledger pass for a new one."""
    path = tmp_path / "new.db"
    with pytest.raises(NoLedger, match="There is no ledger"):
        Session(people, SCHEMA, BUDGET, path)
    with pytest.raises(BudgetError, match="needs a budget"):
        Session(people, SCHEMA, None, path, new_ledger=True)
    assert not path.exists()
    Session(people, SCHEMA, BUDGET, path, new_ledger=True).release(PAIRS, "first")
    with pytest.raises(LedgerError, match="already"):
        Session(people, SCHEMA, BUDGET, path, new_ledger=True)
    assert Session(people, SCHEMA, None, path).ledger.entry("first").seq == 2


def test_an_open_ledger_must_agree_with_the_session(people: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "open.db", SCHEMA, Budget(per_attribute=Rho(100)))
    with pytest.raises(LedgerError, match="another budget"):
        Session(people, SCHEMA, Budget(per_attribute=Rho(0.01)), ledger)
    test = Ledger.create(tmp_path / "test.db", SCHEMA, BUDGET, test=True)
    with pytest.raises(LedgerError, match="test ledger"):
        Session(people, SCHEMA, BUDGET, test)
    assert Session(people, SCHEMA, None, ledger).left()["a"] == 100


@pytest.mark.parametrize(
    "options", [{"delta": 0}, {"delta": 2.0}, {"rows_per_person": 0}, {"rows_per_person": 1.5}], ids=str
)
def test_parameters_are_checked_before_anything_is_spent(people: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        session(people, **options)
    assert not (people.parent / "ledger.db").exists()


def test_several_rows_per_person_cost_their_square(people: Path, tmp_path: Path) -> None:
    s = Session(people, SCHEMA, Budget(per_attribute=Rho(1)), tmp_path / "rows.db", rows_per_person=3, new_ledger=True)
    mechanism = NoisyMarginals(Rho(0.1), k=1)
    assert s.cost(mechanism).guarantee.rho("a") == pytest.approx(0.9)
    release = s.release(mechanism, to=tmp_path / "out")
    assert release.guarantee.rho("a") == pytest.approx(0.9) and s.left()["a"] == pytest.approx(0.1)
    assert Release.load(tmp_path / "out").rows_per_person == 3


def test_a_reservation_voided_while_it_runs_leaves_nothing_behind(people: Path, tmp_path: Path) -> None:
    s = session(people)

    class Voided(NoisyMarginals):
        def run(self, counts: Any, noise: Any) -> Any:
            s.ledger.void("gone", "changed our minds")
            return super().run(counts, noise)

    Voided.__name__ = "NoisyMarginals"
    with pytest.raises(LedgerError, match="voided"):
        s.release(Voided(CDP(0.5), k=1), name="gone", to=tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.db", "people.csv"]


def test_recover_binds_only_the_reservation_that_paid(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = session(people)
    cheap = s.ledger.reserve(NoisyMarginals(Rho(0.001), k=1).guarantee(SCHEMA, 400), "cheap")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "bind_all", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            s.release(PAIRS, name="dear", to=tmp_path / "out")
    (hidden,) = tmp_path.glob(".out.pending-*")
    listing = hidden / DIGESTS
    listing.write_text(listing.read_text().replace(f" {cheap.seq + 1} ", f" {cheap.seq} "))
    with pytest.raises(ReleaseError, match="changed"):
        recover(hidden, s.ledger)
    assert {entry.name for entry in s.ledger.unfinished()} == {"cheap", "dear"}


def test_a_changed_record_is_refused(people: Path, tmp_path: Path) -> None:
    s = session(people)
    s.release_all([("one", PAIRS)], tmp_path / "out")
    from nabladp.release.publish import check_published

    assert [r.name for r in check_published(tmp_path / "out", s.ledger)] == [
        Release.load(tmp_path / "out" / "one").name
    ]
    record = tmp_path / "out" / "one" / "release.json"
    record.write_text(record.read_text().replace('"n": 400', '"n": 401'))
    with pytest.raises(ReleaseError, match="not the record"):
        Release.load(tmp_path / "out" / "one")
    (tmp_path / "out" / DIGESTS).unlink()
    assert Release.load(tmp_path / "out" / "one").n == 401  # nothing beside it says otherwise; the ledger does
    with pytest.raises(ReleaseError, match="has bound"):
        check_published(tmp_path / "out", s.ledger)
    with pytest.raises(ReleaseError, match="no release"):
        check_published(tmp_path, s.ledger)


def test_releases_compare_and_show_themselves_briefly(people: Path, tmp_path: Path) -> None:
    s = session(people)
    release = s.release(PAIRS, name="first", to=tmp_path / "out")
    assert Release.load(tmp_path / "out") == release != s.release(PAIRS)
    assert repr(release) == "Release('first', NoisyMarginals of 400 rows, ledger entry 2)"
    assert repr(release.guarantee.figure("a")) == "Figure(a: ρ = 0.125)"
    assert "ledger.db" in repr(s)


def test_a_wrong_number_of_rows_is_met_before_anything_is_spent_where_it_can_be(people: Path, tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.read_csv(people)
    with pytest.raises(DataError, match="remove 'rows'"):
        Session(frame, SCHEMA, BUDGET, tmp_path / "rows.db", rows=7, new_ledger=True)
    frame.to_parquet(tmp_path / "people.parquet")
    with pytest.raises(DataError, match="remove 'rows'"):
        Session(tmp_path / "people.parquet", SCHEMA, BUDGET, tmp_path / "rows.db", rows=7, new_ledger=True)
    assert not (tmp_path / "rows.db").exists()


def test_a_release_that_was_bound_is_kept_even_if_the_ledger_then_fails(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = session(people)
    bind = Ledger.bind_all

    def bound_but_reported_as_failed(*given: Any, **options: Any) -> None:
        bind(*given, **options)
        raise LedgerError("the answer was lost on its way")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "bind_all", bound_but_reported_as_failed)
        with pytest.raises(LedgerError, match="lost on its way"):
            s.release(PAIRS, name="paid", to=tmp_path / "out")
    (hidden,) = tmp_path.glob(".out.pending-*")
    assert Release.load(recover(hidden, s.ledger)).name == "paid"
