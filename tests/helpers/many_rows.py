"""A table of visits, several for each patient, and which of them are used, as pandas finds them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nabladp.errors import LedgerError
from nabladp.mechanisms.statistics import Statistics
from nabladp.mechanisms.statistics.counting import exact_numbers
from nabladp.person import Person
from nabladp.privacy import CDP, Budget, Guarantee, Ledger, Rho
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("a", "integer", low=0, high=9), Attribute("b", "categorical", values=("x", "y"))))
SETS = [("a", "b"), ("a",)]
ROWS = 3000


def visits(rows: int = ROWS, seed: int = 3) -> pd.DataFrame:
    """Visits of about rows/6 patients, in an order of their own."""
    draws = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient": draws.integers(-(rows // 12), rows // 12, rows),
            "visit": draws.permutation(rows) * 3 - rows,
            "a": draws.integers(0, 10, rows),
            "b": np.array(["x", "y"])[draws.integers(0, 2, rows)],
        }
    )


def wanted(frame: pd.DataFrame, person: Person) -> np.ndarray[Any, Any]:
    """The used rows, as pandas finds them."""
    ordered = frame if person.row_id is None else frame.sort_values(person.row_id)
    return ordered.groupby("patient", sort=False).head(person.rows).index.sort_values().to_numpy()


def counted(frame: pd.DataFrame) -> list[list[int]]:
    a = np.zeros((10, 2), np.int64)
    np.add.at(a, (frame["a"].to_numpy(), (frame["b"] == "y").to_numpy().astype(int)), 1)
    return [a.ravel().tolist(), a.sum(axis=1).tolist()]


# ---- people, not rows ------------------------------------------------------------------------------------------------

PEOPLE = "SELECT b, COUNT(DISTINCT patient), SUM_PER_PERSON(a, 3, 12) FROM visits WHERE a > 1 GROUP BY b"
FIRST = "SELECT b, COUNT(*), SUM(a) FROM visits WHERE a > 1 GROUP BY b"


def of_people(table: Any) -> list[list[int]]:
    """People, their totals, rows of each person and group, and sums of these, without noise."""
    found = []
    for mechanism in (Statistics(CDP(1), PEOPLE, id="patient"), Statistics(CDP(1), FIRST, one_row_per="b")):
        numbers = exact_numbers(mechanism.calibration(SCHEMA), table)
        found += [part.ravel().tolist() for block in numbers for part in block]
    return found


def wanted_of_people(frame: pd.DataFrame, person: Person) -> list[list[int]]:
    """The same, as pandas finds it."""
    ordered = frame if person.row_id is None else frame.sort_values(person.row_id)
    used = ordered.groupby("patient", sort=False).head(person.rows)
    some, first = used[used["a"] > 1], used.groupby(["patient", "b"]).head(1)
    first = first[first["a"] > 1]
    totals = some.groupby(["b", "patient"])["a"].sum().clip(3, 12)
    return [
        some.groupby("b")["patient"].nunique().tolist(),
        totals.groupby("b").sum().tolist(),
        first.groupby("b").size().tolist(),
        first.groupby("b")["a"].sum().tolist(),
    ]


# ---- people of several kinds on one ledger ---------------------------------------------------------------------------


def booked_by_one_kind(address: Any) -> None:
    """Plans that disagree on what a person is use a new ledger for the first time, all at once: one of them decides,
    the others are refused, and so is whoever comes later."""
    kinds = [Person("patient", 5), Person("patient", 4), Person("doctor", 5), Person(rows=5)]
    Ledger.create(address, SCHEMA, Budget(person=Rho(1)), person=kinds[0]).close()
    start, said = threading.Barrier(len(kinds)), list[tuple[Person, str]]()

    def plan(number: int, person: Person) -> None:
        request = (Guarantee.touch(SCHEMA, ["a"], Rho(0.01)), f"plan {number}", {})
        with Ledger.open(address, SCHEMA) as ledger:
            start.wait(60)
            try:
                ledger.reserve_all([request], person=person)
                said.append((person, ""))
            except LedgerError as error:
                said.append((person, error.message))

    threads = [threading.Thread(target=plan, args=own) for own in enumerate(kinds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Ledger.open(address, SCHEMA) as ledger:
        booked = ledger.person
        assert booked in kinds and ledger.verify() == []
        assert len(said) == 4 and all((message == "") == (person == booked) for person, message in said)
        assert all(f"not for {person}: it is for {booked}" in message for person, message in said if message)
        assert ledger.spent_on(["a"]).rho == 0.01
        for other in kinds:
            if other != booked:
                with pytest.raises(LedgerError, match="not for"):
                    Ledger.open(address, SCHEMA, person=other)
