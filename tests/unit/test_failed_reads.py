"""Budget is spent on what was published, not on mistakes: a failed read is voided, everything else stays reserved."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nabladp.errors import DataError, LedgerError, NablaDPError, SourceError, attached_facts
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource, Packings
from nabladp.noise.matchings import Matchings
from nabladp.noise.packings import AnyPackings
from nabladp.privacy import CDP, Budget, Ledger
from nabladp.release import Session
from nabladp.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("a", "integer", low=0, high=3),
        Attribute("b", "boolean"),
        Attribute("wrong", "categorical", values=("x", "y")),
    )
)
A, WRONG = (NoisyMarginals(CDP(0.2), sets=((name,),)) for name in ("a", "wrong"))


def people() -> pd.DataFrame:
    return pd.DataFrame({"a": [0, 1, 2, 3] * 5, "b": [True, False] * 10, "wrong": ["x"] * 19 + ["CANARY"]})


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return opened(tmp_path, people())


def opened(folder: Path, table: Any) -> Session:
    budget = Budget(per_attribute=CDP(9.0))
    return Session(table, SCHEMA, budget, folder / "ledger.db", noise=NoiseSource.seeded(1), new_ledger=True)


def kinds(session: Session) -> list[tuple[str, str]]:
    return [(entry.kind, entry.name.rpartition("/")[2]) for entry in session.ledger.entries()][1:]


def spent(session: Session) -> dict[str, float]:
    return {line.limit.name: line.spent for line in session.ledger.spent() if line.spent}


def test_a_failed_read_spends_nothing_and_says_so(session: Session, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Nothing was spent") as told:
        session.release(WRONG, "it", to=tmp_path / "out")
    facts = told.value.fields
    assert (facts["spent"], facts["reserved"], facts["voided"], facts["commands"]) == (False, [], ["it"], [])
    assert kinds(session) == [("reserve", "it"), ("void", "it")] and spent(session) == {}
    (entry,) = (entry for entry in session.ledger.entries() if entry.kind == "void")
    assert entry.reason is not None and "'wrong' holds values outside" in entry.reason
    assert "CANARY" not in str(told.value) + entry.reason
    assert not [path for path in tmp_path.iterdir() if "out" in path.name] and session.ledger.verify() == []
    assert session.release(A, "it again").n == 20


def query(folder: Path) -> str:
    people().to_csv(folder / "people.csv", index=False)
    cast = "cast(case when wrong = 'x' then '1' else wrong end as integer)"
    return f"select a, b, case when {cast} = 1 then 'x' end as wrong from '{folder}/people.csv'"


def short_csv(folder: Path) -> Path:
    path = folder / "people.csv"
    people().to_csv(path, index=False)
    path.write_text(path.read_text() + "1,True\n")
    return path


@pytest.mark.parametrize("made", [query, short_csv])
def test_so_it_is_for_a_query_that_cannot_convert_and_a_broken_file(made: Callable[..., Any], tmp_path: Path) -> None:
    budget = Budget(per_attribute=CDP(9.0))
    ledger = Ledger.create(tmp_path / "ledger.db", SCHEMA, budget)
    with pytest.raises(SourceError, match="Nothing was spent") as told:
        Session(made(tmp_path), SCHEMA, budget, ledger, rows=20).release(WRONG)
    assert "CANARY" not in str(told.value) and ledger.unfinished() == []


def test_so_it_is_for_a_wrong_number_of_rows(tmp_path: Path) -> None:
    people().to_csv(tmp_path / "people.csv", index=False)
    budget = Budget(per_attribute=CDP(9.0))
    for rows in (19, 21):
        session = Session(tmp_path / "people.csv", SCHEMA, budget, tmp_path / f"{rows}.db", rows=rows, new_ledger=True)
        with pytest.raises(DataError, match=r"number of rows.*Nothing was spent"):
            session.release(A)
        assert [kind for kind, _ in kinds(session)] == ["reserve", "void"]


def test_a_plan_meets_its_failed_reads_before_any_noise(session: Session, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the reservations were voided") as told:
        session.release_all([("first", A), ("second", WRONG)], to=tmp_path / "out")
    assert len(told.value.fields["voided"]) == 2 and spent(session) == {}


def test_fitting_an_estimator_goes_the_same_way(tmp_path: Path) -> None:
    schema = Schema((SCHEMA["a"], SCHEMA["b"], replace(SCHEMA["wrong"], name="c")))
    budget = Budget(per_attribute=CDP(9.0))
    rows = people().rename(columns={"wrong": "c"})
    session = Session(rows, schema, budget, tmp_path / "ledger.db", new_ledger=True)
    learner = HalfspaceLearner(CDP(1.0), label="b", over=("a", "c"))
    with pytest.raises(DataError, match="Nothing was spent"):
        learner.estimator(session).fit()
    assert [kind for kind, _ in kinds(session)] == ["reserve", "void"]


# What is read only when it is counted


@pytest.fixture
def large(tmp_path: Path, monkeypatch: Any) -> Session:
    """A file whose codes are not kept: each release reads its own columns, when it runs."""
    monkeypatch.setattr("nabladp.tables.table.KEPT_BYTES", 0)
    people().to_csv(tmp_path / "people.csv", index=False)
    return opened(tmp_path, tmp_path / "people.csv")


def test_entries_that_drew_no_noise_are_voided_and_the_others_stay(large: Session, tmp_path: Path) -> None:
    with pytest.raises(DataError) as told:
        large.release_all([("first", A), ("it's wrong", WRONG), ("last", A)], to=tmp_path / "out")
    facts = told.value.fields
    assert [name.rpartition("/")[2] for name in facts["voided"]] == ["it's wrong", "last"]
    (first,) = facts["reserved"]
    assert first.endswith("/first") and facts["spent"] is True and f"{first!r} stays reserved" in str(told.value)
    (command,) = facts["commands"]
    words = shlex.split(command)
    assert words[:5] == ["nabladp", "ledger", "void", large.ledger.label, first] and words[5] == "--reason" and words[6]
    assert f"`{command}`" in str(told.value) and [entry.name for entry in large.ledger.unfinished()] == [first]
    assert list(spent(large)) and set(spent(large)) <= {"a", "person"}


def test_a_single_release_of_a_large_file_is_voided_too(large: Session) -> None:
    with pytest.raises(DataError, match="Nothing was spent"):
        large.release(WRONG)
    assert large.ledger.unfinished() == []


# What stays reserved


def draw_then_read(counts: Any, noise: NoiseSource) -> None:
    noise.discrete_gaussian(1.0, 1)
    counts.marginals([("wrong",)])


def own_error(counts: Any, noise: NoiseSource) -> None:
    raise DataError("The mechanism's own.")


def foreign_error(counts: Any, noise: NoiseSource) -> None:
    raise ZeroDivisionError


def another_error(counts: Any, noise: NoiseSource) -> None:
    try:
        counts.marginals([("wrong",)])
    except DataError:
        raise DataError("Another.") from None


def interrupted(counts: Any, noise: NoiseSource) -> None:
    raise KeyboardInterrupt


_WAYS: dict[str, Callable[[Any, NoiseSource], None]] = {
    "draws, then reads": draw_then_read,
    "an error of its own": own_error,
    "a foreign error": foreign_error,
    "an error in place of the read's": another_error,
    "interrupted": interrupted,
}


@pytest.mark.parametrize("what", _WAYS)
def test_everything_else_stays_reserved_and_names_the_command(
    session: Session, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(NoisyMarginals, "run", lambda _, counts, noise: _WAYS[what](counts, noise))
    with pytest.raises((NablaDPError, ZeroDivisionError, KeyboardInterrupt)) as told:
        session.release(A, "it's mine")
    error = told.value
    assert kinds(session) == [("reserve", "it's mine")] and spent(session)
    said = str(error) if isinstance(error, NablaDPError) else " ".join(error.__notes__)
    command = (error.fields if isinstance(error, NablaDPError) else attached_facts(error))["commands"][0]
    assert "stays reserved" in said and command in said
    assert shlex.split(command)[:5] == ["nabladp", "ledger", "void", session.ledger.label, "it's mine"]


def test_a_caught_read_does_not_void_what_came_out_without_noise(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first mechanism swallows a failed read and ends without noise; the second one's failed read voids only its
    own entry."""

    def swallow(self: Any, counts: Any, noise: NoiseSource, whole: Any = NoisyMarginals.run) -> Any:
        try:
            counts.marginals([("wrong",)])
        except DataError:
            if self is first:
                return whole(self, counts, NoiseSource.seeded(5))
            raise
        raise AssertionError

    monkeypatch.setattr(NoisyMarginals, "run", swallow)
    first, second = (NoisyMarginals(CDP(0.2), sets=(("a",),)) for _ in range(2))
    with pytest.raises(DataError):
        session.release_all([("first", first), ("second", second)], to=tmp_path / "out")
    assert kinds(session) == [("reserve", "first"), ("reserve", "second"), ("void", "second")]


def test_a_ledger_out_of_reach_leaves_it_reserved(session: Session, monkeypatch: Any) -> None:
    def lost(*_: Any) -> Any:
        raise LedgerError("The ledger is gone.")

    monkeypatch.setattr(session.ledger, "fail_all", lost)
    with pytest.raises(DataError, match="'wrong'") as told:
        session.release(WRONG, "it")
    assert told.value.fields["reserved"] == ["it"] and "stays reserved" in str(told.value)
    assert [entry.name for entry in session.ledger.unfinished()] == ["it"]


def test_who_may_not_void_records_a_failure(session: Session, monkeypatch: Any) -> None:
    """As a curator on PostgreSQL: it still counts, and the message has the grantor's command."""
    monkeypatch.setattr("nabladp.privacy.ledger.store.Transaction.may_void", lambda _: False)
    with pytest.raises(DataError, match="until a grantor voids it") as told:
        session.release(WRONG, "it")
    facts = told.value.fields
    assert (facts["spent"], facts["reserved"], facts["voided"]) == (True, ["it"], [])
    assert kinds(session) == [("reserve", "it"), ("failed", "it")] and spent(session)
    assert shlex.split(facts["commands"][0])[3:5] == [session.ledger.label, "it"]


# Every draw is marked before it is made

DRAWS: dict[str, Callable[[NoiseSource], Any]] = {
    "discrete_laplace": lambda noise: noise.discrete_laplace(2.0, 1),
    "discrete_gaussian": lambda noise: noise.discrete_gaussian(2.0, 1),
    "uniform_integers": lambda noise: noise.uniform_integers(5, 1),
    "binomial": lambda noise: noise.binomial(5, 0.5),
    "randomized_response": lambda noise: noise.randomized_response([1], 3, 0.5),
    "row_response": lambda noise: noise.row_response(0.7),
    "randomized_response_counts": lambda noise: noise.randomized_response_counts([3, 4], 0.7),
    "uniform_subset": lambda noise: noise.uniform_subset(9, 3),
    "tail_subsets": lambda noise: noise.tail_subsets("gaussian", 2.0, 1, [5]),
    "tail_values": lambda noise: noise.tail_values("gaussian", 2.0, 1, 2),
    "select": lambda noise: noise.select([1, 2, 3]),
    "select_lowest": lambda noise: noise.select_lowest(np.array([1, 2, 3]), 0.5),
    "select_exponential": lambda noise: noise.select_exponential([1, 2, 3], 1.0),
    "select_packing": lambda noise: noise.select_packing(Packings([1, 2], 2, 1), [0.0, 1.0]),
    "select_any_packing": lambda noise: noise.select_any_packing(AnyPackings([1, 2], 2, np.zeros(2), 20)),
    "select_matching": lambda noise: noise.select_matching(Matchings([0, 1], [1, 1], 2), [0.0, 1.0]),
}
NO_DRAWS = {"seeded", "reseeded", "is_seeded", "stamp", "draws"}


@pytest.mark.parametrize("name", [name for name in vars(NoiseSource) if name[0] != "_" and name not in NO_DRAWS])
@pytest.mark.parametrize("make", [NoiseSource, lambda: NoiseSource.seeded(3)])
def test_every_draw_counts_even_one_that_fails(name: str, make: Callable[[], NoiseSource]) -> None:
    noise = make()
    assert noise.draws == 0
    DRAWS[name](noise)
    assert noise.draws > 0

    class Gone:
        def words(self, count: int) -> Any:
            raise OSError

    noise = make()
    noise._draws.bits = Gone()
    with pytest.raises(OSError):
        DRAWS[name](noise)
    assert noise.draws > 0


def test_answers_of_rows_need_no_mark_of_their_own() -> None:
    """They follow from a key, and the key was drawn from the source."""
    noise = NoiseSource()
    answer = noise.row_response(0.7)
    before = noise.draws
    answer(np.array([0, 1, 1]), 0)
    assert before > 0 and noise.draws == before
