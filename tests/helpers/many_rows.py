"""A table of visits, several for each patient, and which of them are used, as pandas finds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from nabladp.person import Person
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
