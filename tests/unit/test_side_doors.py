"""Side doors: what could tell about people beside the noisy numbers themselves.

Elsewhere: a seeded source is never booked as private (test_ledger.py, test_session.py), two default runs differ, and
neither the order of rows nor what a mechanism does not name plays a part (contract/test_mechanisms.py); values of
tables and of the command line (cli/test_canary.py).
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import sqlite3
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from every_mechanism import FAULTS, FILES, INSTANCES, SCHEMA, codes, table
from faults import Fault

from nabladp.audit.exact import _records, _table
from nabladp.errors import MechanismError, NablaDPError
from nabladp.mechanisms import Branch, Law, Mechanism
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Pure
from nabladp.release import Session
from nabladp.tables import CodedTable

every = pytest.mark.parametrize("mechanism", INSTANCES, ids=lambda m: f"{type(m).__name__}-{INSTANCES.index(m)}")

# ---- the integer lattice, and what is possible ---------------------------------------------------------------------


@every
def test_what_gets_noise_is_a_whole_number_and_stays_one(mechanism: Mechanism) -> None:
    """Floats have gaps that differ from place to place, and give away what was added to what. Integers have none."""
    released = FILES[type(mechanism).__name__].noisy
    moved = {name: column.copy() for name, column in codes().items()}
    moved |= {"age": np.append(moved["age"][:-1], 9), "band": np.append(moved["band"][:-1], 1)}
    for people in (table(), CodedTable(SCHEMA, moved)):
        output = mechanism.run(people, NoiseSource.seeded(11))
        again = mechanism.read_output(json.loads(json.dumps(output.to_json())), SCHEMA)
        for found, kept in zip(released(output), released(again), strict=True):
            assert found.dtype.kind == "i" and np.array_equal(found, kept)


def test_entries_of_a_gram_matrix_all_have_the_parity_of_the_number_of_rows() -> None:
    for mechanism in INSTANCES:
        if type(mechanism).__name__ == "GramMatrix":
            output = mechanism.run(table(), NoiseSource.seeded(1))
            counts = mechanism.calibration(output.columns.schema).are_counts[: len(output.entries)]
            assert not ((output.entries - output.n) % 2)[counts].any()  # sums with numbers have none


def possible(law: Law) -> Any:
    """Which outcomes may come out, step by step."""
    found: list[Any] = []
    for part in law.parts:
        outcomes = part.outcomes if isinstance(part, Branch) else part
        found.append((~np.isneginf(outcomes)).tolist())
        if isinstance(part, Branch):
            found.append([possible(then) for then in part.then])
    return found


TINY = {kind: fault for kind, found in FILES.items() for fault in found.FAULTS if fault.how == "exact"}


@pytest.mark.parametrize("fault", TINY.values(), ids=list(TINY))
def test_what_may_come_out_is_the_same_for_every_table(fault: Fault) -> None:
    records = _records(fault.schema, fault.derive or {})
    rest = [records[0]] * (fault.n - 1)
    for number in (0, 1, len(records) - 1):
        law = fault.mechanism.distribution(_table(fault.schema, [*rest, records[number]]))
        if not number:
            first = possible(law)
            assert first
        assert possible(law) == first


def test_every_mechanism_is_looked_at() -> None:
    assert set(TINY) == set(FILES) == {type(mechanism).__name__ for mechanism in INSTANCES}


# ---- canaries: exact counts that can be told from all others -------------------------------------------------------

ROWS = 300_007
FAR = 1_000_000_007  # noise is moved so far that no noisy count can be an exact one


class Shouting(NoiseSource):
    """Draws like any other, moved far away: an exact count that turns up anywhere was not noisy.

    Each a little further than the one before: a common distance would vanish where counts are made to add up to the
    public number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self._draws = NoiseSource.seeded(5)._draws
        self._moved = 0

    def _move(self, drawn: Any) -> Any:
        far = FAR + 100_003 * (self._moved + np.arange(np.size(drawn), dtype=np.int64))
        self._moved += np.size(drawn)
        return drawn + far.reshape(np.shape(drawn))

    def discrete_gaussian(self, scale: Any, size: Any) -> Any:
        return self._move(super().discrete_gaussian(scale, size))

    def discrete_laplace(self, scale: Any, size: Any) -> Any:
        return self._move(super().discrete_laplace(scale, size))


class Broken(Shouting):
    """Fails after some draws, in the middle of a release."""

    def __init__(self, draws: int) -> None:
        super().__init__()
        self.left = draws

    def _fail(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise MechanismError("The generator broke down.", fix="Repair it.")

    def discrete_gaussian(self, scale: Any, size: Any) -> Any:
        self._fail()
        return super().discrete_gaussian(scale, size)

    def discrete_laplace(self, scale: Any, size: Any) -> Any:
        self._fail()
        return super().discrete_laplace(scale, size)

    def select_exponential(self, scores: Any, scale: Any) -> int:
        self._fail()
        return super().select_exponential(scores, scale)

    def uniform_integers(self, bound: int, size: Any) -> Any:
        self._fail()
        return super().uniform_integers(bound, size)


def people() -> dict[str, Any]:
    """Codes of a crowd with counts of five digits, in which most cells are told apart by their counts."""
    draws = np.random.default_rng(7)
    region = draws.choice(3, ROWS, p=[0.55, 0.27, 0.18])
    sick = (draws.random(ROWS) < 0.3 + 0.2 * (region == 1)).astype(np.int64)
    age = draws.choice(10, ROWS, p=[0.28, 0.02, 0.03, 0.03, 0.04, 0.2, 0.03, 0.02, 0.15, 0.2])
    income = draws.choice(4, ROWS, p=[0.45, 0.3, 0.2, 0.05])
    unused = draws.integers(0, 2, ROWS)
    return {"region": region, "age": age, "income": income, "sick": sick, "unused": unused, "band": age // 5}


@cache
def as_values() -> pa.Table:
    spelled = {"region": ["n", "s", "w"], "income": [5.0, 15.0, 30.0, None], "band": ["low", "high"]}
    spelled |= {"sick": [False, True], "unused": [False, True]}
    values = {name: pa.array(spelled.get(name, range(10))) for name in CODES}
    return pa.table({name: values[name].take(pa.array(column)) for name, column in CODES.items()})


CODES = people()
CODED = CodedTable(SCHEMA, CODES)


def canaries(mechanism: Mechanism) -> frozenset[int]:
    """Exact counts of one, two and all attributes that it reads, of five digits or more; that of all rows is public."""
    names = mechanism.reads(SCHEMA)
    counts = CODED.marginals([*((name,) for name in names), *itertools.combinations(names, 2), names])
    return frozenset(int(count) for table in counts for count in table.ravel() if 10_000 <= count < ROWS)


def numbers(value: Any) -> Iterator[float]:
    """Every number in it, those in texts too; not in texts of letters and digits, such as hashes and names."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(key)
            yield from numbers(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, str):
        yield from (float(found.replace(",", "")) for found in re.findall(r"(?<![\w.+:-])\d[\d,]*(?![\w.+:-])", value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def leaked(value: Any, exact: frozenset[int]) -> set[float]:
    """Exact counts in it: as they are or as shares of all rows, of agreements less disagreements, or of the others."""
    return {x for x in numbers(value) if any(_whole(count) in exact for count in _readings(x))}


def _readings(x: float) -> Iterator[float]:
    for rows in (x, x * ROWS) if abs(x) < 1 else (x,):
        yield from (rows, ROWS - rows, (ROWS - rows) / 2, (ROWS + rows) / 2)


def _whole(count: float) -> int | None:
    near = round(count)
    return near if abs(count - near) < 1e-7 else None


def distinct(column: pa.ChunkedArray) -> list[Any]:
    """Each of its values once: sampled rows hold few values many times."""
    return list((column if pa.types.is_nested(column.type) else column.unique()).to_pylist())


def written(folder: Path) -> Iterator[tuple[str, Any]]:
    """What every file of a release says, and the ledger."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            values = pq.read_table(path)
            yield path.name, [values.column_names, *map(distinct, values.columns)]
            yield path.name, str(pq.read_metadata(path).metadata)
        elif path.suffix == ".json":
            yield path.name, json.loads(path.read_text())
        elif path.suffix == ".db":
            with sqlite3.connect(path) as ledger:
                yield path.name, list(ledger.iterdump())


def session(folder: Path, noise: NoiseSource, mechanism: Any) -> Session:
    limit = Pure(1000) if mechanism.budget is not None and mechanism.budget.pure else CDP(1000)
    return Session(as_values(), SCHEMA, Budget(per_attribute=limit), folder / "ledger.db", noise=noise, new_ledger=True)


def test_canaries_are_many_and_are_found_where_they_are() -> None:
    for mechanism in INSTANCES:
        cells = int(np.prod([SCHEMA[name].size for name in mechanism.reads(SCHEMA)]))
        assert len(canaries(mechanism)) >= min(5, cells)  # a yes or no has only two
    own = canaries(INSTANCES[0])
    assert len(own) >= 5
    one = min(own)
    for shown in (
        one,
        f"{one:,} rows",
        f"({one})",
        {"a": [{"b": one}]},
        {one: 0},
        one / ROWS,
        f"at {one}",
        1 - 2 * one / ROWS,
    ):
        assert leaked(shown, own), shown
    for hidden in (one + FAR, f"a{one}", f"{one}-4f3a", one / (ROWS + 2), f"0.{one}", ROWS):
        assert not leaked(hidden, own), hidden


@every
def test_a_release_holds_no_exact_count(
    mechanism: Mechanism, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[Any] = []
    with caplog.at_level(logging.DEBUG):
        release = session(tmp_path, Shouting(), mechanism).release_all(
            [("one", mechanism)], tmp_path / "out", lambda what, done, total: said.append((what, total))
        )[0]
    files = list(written(tmp_path))
    assert {"release.json", "values.parquet", "ledger.db"} <= {name for name, _ in files}
    exact = canaries(mechanism)
    for name, content in files:
        assert not leaked(content, exact), name
    streams = capfd.readouterr()
    for spoken in (said, caplog.text, streams.out, streams.err, repr(release), repr(release.output), str(release)):
        assert not leaked(spoken, exact)


@every
def test_an_error_in_the_middle_holds_no_exact_count(
    mechanism: Mechanism, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exact = canaries(mechanism)
    for draws in (0, 1, 3):
        place = tmp_path / str(draws)
        place.mkdir()
        with caplog.at_level(logging.DEBUG):
            try:
                session(place, Broken(draws), mechanism).release(mechanism, "one", to=place / "out")
                continue  # it needs no more draws than that
            except NablaDPError as error:
                told = [str(error), error.to_json(), repr(error), *traceback.format_exception(error)]
        assert not leaked([told, caplog.text], exact)
        assert not (place / "out").exists()
        for name, content in written(place):
            assert not leaked(content, exact), name
    assert (tmp_path / "0").exists() and not (tmp_path / "0" / "out").exists()


@pytest.mark.parametrize("name", ["a cell without noise", "counts from the table itself"])
def test_exact_counts_would_be_found(name: str, tmp_path: Path) -> None:
    """The same search, on two faults of the zoo."""
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    mechanism = next(mechanism for mechanism in INSTANCES if type(mechanism) is type(fault.mechanism))
    with fault.planted():
        session(tmp_path, Shouting(), mechanism).release(mechanism, "one", to=tmp_path / "out")
    assert any(leaked(content, canaries(mechanism)) for _, content in written(tmp_path))
