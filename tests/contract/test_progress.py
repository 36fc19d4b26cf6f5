"""What someone who waits is told follows from public parameters and from what is released, never from the rows.

How many passes a mechanism makes over the rows may depend on them, and no budget pays for showing that.
"""

from __future__ import annotations

from typing import Any

import every_mechanism as contract
import numpy as np
import pytest

from nabladp.mechanisms import Mechanism
from nabladp.noise import NoiseSource
from nabladp.release.attempt import RowMarks, Watched
from nabladp.tables import CodedTable

ROWS = 500
INSTANCES = contract.INSTANCES


def made_up() -> list[CodedTable]:
    """Tables as different as can be, in batches of different lengths."""
    schema, first = contract.SCHEMA, contract.codes(ROWS)
    alike = {name: np.zeros(ROWS, np.int64) for name in first}
    two = {name: np.where(np.arange(ROWS) < ROWS // 2, 0, schema[name].size - 1) for name in first}
    ordered = first | {"sick": (first["age"] > 4).astype(np.int64)}
    rare = {name: np.where(np.arange(ROWS) == 0, schema[name].size - 1, 0) for name in first}
    chosen = (first, alike, two, ordered, rare)
    return [CodedTable(schema, codes, rows) for codes, rows in zip(chosen, (1 << 16, 500, 97, 61, 7), strict=True)]


def of_released(mechanism: Mechanism, output: Any) -> Any:
    """What is released and decides how much is told; nothing for most."""
    kind = type(mechanism).__name__
    if kind == "ThresholdLearner":
        return output.prefix, output.ones is None or output.prefix is None
    return output.rounds if kind == "Synthesis" else None


@pytest.mark.parametrize("mechanism", INSTANCES, ids=lambda m: f"{type(m).__name__}-{INSTANCES.index(m)}")
def test_messages_say_nothing_about_the_rows(mechanism: Mechanism) -> None:
    seen: dict[Any, set[tuple[Any, ...]]] = {}
    for table in made_up():
        for seed in (1, 2):
            told: list[Any] = []
            watched = Watched(table, "it", lambda *stage, to=told: to.append(stage))  # type: ignore[misc]
            output = mechanism.run(watched, NoiseSource.seeded(seed))
            if type(mechanism).__name__ == "Synthesis":  # how far a round brings it follows from what it measured
                told = [(what, 0, total) for what, _, total in told]
            seen.setdefault(of_released(mechanism, output), set()).add(tuple(told))
    assert all(len(messages) == 1 for messages in seen.values())


@pytest.mark.parametrize("rows", [1, 7, 50, 51, 12_345])
def test_marks_do_not_depend_on_where_batches_end(rows: int) -> None:
    def told(ends: list[int]) -> list[Any]:
        messages: list[Any] = []
        marks = RowMarks(lambda *stage: messages.append(stage), "reading rows")
        for end in ends:
            marks(end, rows)
        return messages

    at_once = told([rows])
    assert at_once == told(list(range(1, rows + 1))) == told([rows // 3, rows // 3, rows])
    assert len(at_once) == min(rows, 50) and at_once[-1] == ("reading rows", rows, rows)
