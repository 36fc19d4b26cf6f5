"""A table of visits, several for each patient, and which of them are used, as pandas finds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from nabladp.mechanisms.statistics import Statistics
from nabladp.mechanisms.statistics.counting import exact_numbers
from nabladp.person import Person
from nabladp.privacy import CDP
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
