"""The whole list of mechanisms over every engine: one table gives the same counts and, seeded, the same release."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import every_mechanism as contract
import numpy as np
import pyarrow.parquet as pq
import pytest
from spark_cluster import cluster, spark  # noqa: F401

from nabladp.mechanisms import MECHANISMS, Mechanism
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP
from nabladp.tables import CodedTable, Counts, Table, decode, open_table

SCHEMA, ROWS = contract.SCHEMA, 3000


def with_few_passes(mechanism: Mechanism) -> Mechanism:
    """A descent reads the table in every step: three read values, codes that are being kept, and kept ones."""
    if isinstance(mechanism, HalfspaceLearner) and mechanism.method in ("auto", "descent"):
        return replace(mechanism, method="descent", steps=3)
    return mechanism


BY_PLACE: list[Mechanism] = [  # rows are told apart by where they stand: engines must agree on that, too
    HalfspaceLearner(CDP(1), "sick", over=("region", "age"), method="average", label_treatment="response"),
    HalfspaceLearner(
        CDP(2), "sick", over=("region", "age"), method="descent", steps=3, holdout=0.2, holdout_budget=CDP(0.5)
    ),
    HalfspaceLearner(
        CDP(2),
        "sick",
        over=("region", "age"),
        label_treatment="response",
        holdout=0.2,
        holdout_budget=CDP(0.5),
        probabilities=True,
    ),
]
EVERY: list[Mechanism] = [*map(with_few_passes, contract.INSTANCES), *BY_PLACE]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> dict[str, Any]:  # noqa: F811
    codes = contract.codes(ROWS)
    people = decode(SCHEMA, codes)
    path = tmp_path_factory.mktemp("engines") / "people.parquet"
    pq.write_table(people, path, row_group_size=1000)
    return {
        "codes": CodedTable(SCHEMA, codes),
        "Arrow": open_table(people, SCHEMA),
        "DuckDB": open_table(path, SCHEMA),
        "Spark": open_table(spark.read.parquet(str(path)), SCHEMA),
    }


class Told(Counts):
    """Counts that write down what was counted."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.counted: list[Any] = []
        self.schema, self.one_process = table.schema, table.one_process

    @property
    def n(self) -> int:
        return int(self.table.n)

    def marginals(self, sets: Any, progress: Any = None) -> Any:
        found = self.table.marginals(sets, progress)
        self.counted += found
        return found

    def fold(self, kernel: Any, progress: Any = None) -> Any:
        found = self.table.fold(kernel, progress)
        self.counted.append(found)
        return found


def test_every_mechanism_is_here() -> None:
    assert {type(mechanism).__name__ for mechanism in EVERY} == set(MECHANISMS)


def test_the_engines_are_what_they_are_called(engines: dict[str, Any]) -> None:
    assert [table.one_process for table in engines.values()] == [True, True, True, False]
    assert len(engines["Spark"]._frame.sizes) > 2 and isinstance(engines["Spark"], Table)


@pytest.mark.parametrize("mechanism", EVERY, ids=lambda m: f"{type(m).__name__}-{EVERY.index(m)}")
def test_equal_counts_and_equal_releases(mechanism: Mechanism, engines: dict[str, Any]) -> None:
    told, released = {}, {}
    tables = engines | {"codes, read again": engines["codes"]}  # as if rows were on other machines
    for name, table in tables.items():
        told[name] = Told(table)
        told[name].one_process = name in ("codes", "Arrow", "DuckDB")
        released[name] = contract.values(mechanism.run(told[name], NoiseSource.seeded(11)))
    assert len(set(released.values())) == 1
    for name, same in (("Arrow", "codes"), ("DuckDB", "codes"), ("Spark", "codes, read again")):
        assert told[name].counted
        for one, other in zip(told[name].counted, told[same].counted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mechanism", EVERY, ids=lambda m: f"{type(m).__name__}-{EVERY.index(m)}")
def test_kernels_can_travel(mechanism: Mechanism) -> None:
    """Every kernel is picklable, and gives the same sums after the journey; that it needs places is said beforehand."""
    by_place = set[bool]()

    class Travelling(Told):
        def fold(self, kernel: Any, progress: Any = None) -> Any:
            by_place.add(kernel.by_row_index)
            return super().fold(pickle.loads(pickle.dumps(kernel)), progress)

    table = CodedTable(SCHEMA, contract.codes(300))
    plain, travelled = Told(table), Travelling(table)
    plain.one_process = travelled.one_process = False
    runs = [contract.values(mechanism.run(rows, NoiseSource.seeded(4))) for rows in (plain, travelled)]
    assert runs[0] == runs[1]
    said = mechanism.needs_row_order(SCHEMA, 300)
    assert said == (True in by_place) == (mechanism in BY_PLACE)
