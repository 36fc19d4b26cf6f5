"""Tables on a real Spark cluster: the counts are those of any engine, rows stay where they are, faults are survived."""

from __future__ import annotations

import datetime as dt
import gc
import importlib
import os
import signal
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from many_rows import SCHEMA as VISITS
from many_rows import SETS, counted, of_people, visits, wanted_of_people
from many_rows import wanted as rows_used
from spark_cluster import Cluster, cluster, spark  # noqa: F401
from spark_kernels import Broken, ColumnSums, Places, Slow, Wrong

from nabladp.errors import DataError, MechanismError, MissingPart, NablaDPError, SourceError
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.person import Person
from nabladp.privacy import CDP, Budget, Ledger
from nabladp.release import Session
from nabladp.schema import Attribute, Schema
from nabladp.tables import Marginals, PartOfRows, check_table, column_types, open_table
from nabladp.tables.spark import table as spark_table
from nabladp.tables.spark import tasks

DAY, MOMENT = dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 8, 30)
KINDS: dict[str, tuple[Attribute, pa.DataType, list[Any]]] = {
    "int": (Attribute("age", "integer", low=-1, high=4, unknown="clamp", null="category"), pa.int32(), [-5, 0, 4, 9]),
    "byte": (Attribute("a.b", "integer", low=0, high=200), pa.uint8(), [0, 7, 199, 200]),
    "long": (Attribute("long", "integer", low=0, high=9, unknown="other", null="category"), pa.int64(), [0, 9, 2**60]),
    "text": (
        Attribute("job, `or` none", "categorical", values=("cook", "it's", " x "), unknown="other", null="category"),
        pa.string(),
        ["cook", "it's", " x ", "x", ""],
    ),
    "real": (
        Attribute("pay", "real", edges=(0, 1.5, 2.5, 10), null="category", unknown="other"),
        pa.float64(),
        [-1.0, 0.0, 1.5, 2.4999, float("nan"), float("inf")],
    ),
    "truth": (Attribute("ok", "boolean", null="category"), pa.bool_(), [True, False]),
    "truth as text": (
        Attribute("said", "categorical", values=("true", "false"), null="category"),
        pa.bool_(),
        [True, False],
    ),
    "float": (Attribute("level", "ordered", values=(1, 2.5, 4), null="category"), pa.float32(), [1.0, 2.5, 4.0]),
    "decimal": (
        Attribute("sum", "ordered", values=(1, 2.5, 4), null="category", unknown="other"),
        pa.decimal128(9, 2),
        [Decimal("1.00"), Decimal("2.50"), Decimal("3.00")],
    ),
    "day": (
        Attribute("day", "categorical", values=("2026-01-31", "2026-02-01"), null="category", unknown="other"),
        pa.date32(),
        [DAY, dt.date(2026, 2, 1), dt.date(1999, 1, 1)],
    ),
    "moment": (
        Attribute("at", "categorical", values=("2026-01-31", "2026-01-31T08:30:00"), null="category", unknown="other"),
        pa.timestamp("us"),
        [dt.datetime(2026, 1, 31), MOMENT, dt.datetime(2026, 1, 31, 8, 30, 0, 500)],
    ),
    "date": (
        Attribute("date", "date", low="2026-01-31", high="2026-02-01", null="category", unknown="clamp"),
        pa.timestamp("us"),
        [dt.datetime(2025, 1, 1), dt.datetime(2026, 1, 31, 23, 59), dt.datetime(2026, 2, 1)],
    ),
    "number as text": (
        Attribute("3", "integer", low=0, high=3, null="category", null_values=("n/a",), unknown="other"),
        pa.string(),
        ["1", " 2", "3.0", "n/a", "x"],
    ),
}
LEVELS = (KINDS["date"][0].coarser("month", "month"), KINDS["date"][0].coarser("year", "year"))
SCHEMA = Schema((*(attribute for attribute, _, _ in KINDS.values()), *LEVELS))
ROWS = 2000
PAIRS = [(a, b) for i, a in enumerate(SCHEMA.names) for b in SCHEMA.names[i:] if a != b] + [(n,) for n in SCHEMA.names]


def people(rows: int = ROWS) -> pa.Table:
    draws, columns = NoiseSource.seeded(5), {}
    for attribute, kind, values in KINDS.values():
        choices = values if attribute.null_code is None else [*values, None]
        columns[attribute.name] = pa.array([choices[i] for i in draws.uniform_integers(len(choices), rows)], kind)
    return pa.table(columns)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spark") / "people.parquet"
    pq.write_table(people(), path, row_group_size=600)
    return path


@pytest.fixture(scope="module")
def frame(spark: Any, path: Path) -> Any:  # noqa: F811
    return spark.read.parquet(str(path))


def numbers(spark: Any, rows: int, parts: int) -> tuple[Any, Schema]:  # noqa: F811
    made = spark.range(0, rows, 1, parts).selectExpr("cast(id % 7 as int) as a", "cast(id % 3 as int) as b")
    return made, Schema((Attribute("a", "integer", low=0, high=6), Attribute("b", "integer", low=0, high=2)))


def settled(seconds: float, condition: Any) -> bool:
    waited = threading.Event()
    return any(condition() or waited.wait(0.1) for _ in range(int(10 * seconds))) and condition()


# Counts


def test_rows_without_a_fixed_order_have_no_places_and_cost_nothing(spark: Any, tmp_path: Path) -> None:  # noqa: F811
    made = spark.range(0, 300, 1, 3).selectExpr("cast(id % 7 as int) as a", "cast(id % 2 as int) as y")
    schema = Schema((Attribute("a", "integer", low=0, high=6), Attribute("y", "integer", low=0, high=1)))
    learner = HalfspaceLearner(CDP(2), "y", method="average", label_treatment="response")
    learner.run(open_table(made, schema), NoiseSource.seeded(1))
    held = HalfspaceLearner(CDP(2), "y", method="average", label_treatment="gaussian", holdout=0.2)
    ledger = Ledger.create(tmp_path / "ledger.db", schema, Budget(per_attribute=CDP(3)))
    for shuffled in (made.repartition(3), made.repartition("a"), made.orderBy("y")):
        with pytest.raises(DataError, match="fixed order"):
            learner.run(open_table(shuffled, schema), NoiseSource.seeded(1))
        session = Session(shuffled, schema, None, ledger)
        for mechanism in (learner, held):
            with pytest.raises(DataError, match="fixed order") as caught:
                session.release(mechanism)
            assert "reserved" not in caught.value.fields
            assert not any(line.spent_units for line in session.ledger.spent())
    session.release(HalfspaceLearner(CDP(2), "y", method="average", label_treatment="gaussian"))  # asks for no places


def test_every_kind_of_value_has_the_code_it_has_elsewhere(frame: Any, path: Path) -> None:
    table, arrow, duck = open_table(frame, SCHEMA), open_table(people(), SCHEMA), open_table(path, SCHEMA)
    assert table.n == ROWS and table.known_rows is None and len(table._frame.sizes) > 2
    wanted = arrow.marginals(PAIRS)
    for _ in range(3):  # from values, then from codes that are being kept, then from codes that were
        for found, same, duckdb in zip(table.marginals(PAIRS), wanted, duck.marginals(PAIRS), strict=True):
            np.testing.assert_array_equal(found, same)
            np.testing.assert_array_equal(duckdb, same)
    assert column_types(frame)[1:4] == [("a.b", "integer"), ("long", "integer"), ("job, `or` none", "text")]


def test_a_moment_with_a_zone_is_read_in_utc(spark: Any, tmp_path: Path) -> None:  # noqa: F811
    moments = pa.table({"at": pa.array([MOMENT, dt.datetime(2026, 1, 31)], pa.timestamp("us", "UTC"))})
    pq.write_table(moments, tmp_path / "at.parquet")
    attribute = Attribute("at", "categorical", values=("2026-01-31T08:30:00Z", "2026-01-31T00:00:00Z"), unknown="other")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        table = open_table(spark.read.parquet(str(tmp_path / "at.parquet")), Schema((attribute,)))
        found = table.marginals([("at",)])[0]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert found.tolist() == open_table(moments, Schema((attribute,))).marginals([("at",)])[0].tolist()


def test_large_counts_come_in_chunks_through_a_tree(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_table, "CHUNK", 100)
    monkeypatch.setattr(spark_table, "CORES_PER_BRANCH", 1)
    table, arrow = open_table(frame, SCHEMA), open_table(people(), SCHEMA)
    sets = [("a.b", "pay"), ("age",)]
    for found, wanted in zip(table.marginals(sets), arrow.marginals(sets), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_rows_have_places(frame: Any) -> None:
    table, arrow = open_table(frame, SCHEMA), open_table(people(), SCHEMA)
    for _ in range(2):
        np.testing.assert_array_equal(table.fold(Places("a.b", ROWS)), arrow.fold(Places("a.b", ROWS)))
    places = NoiseSource.seeded(1).uniform_subset(ROWS, 500)
    for inside in (True, False):
        parts = [PartOfRows(rows, places, inside).marginals([("day", "ok")])[0] for rows in (table, arrow)]
        np.testing.assert_array_equal(*parts)


def test_rows_that_move_between_partitions_are_noticed(spark: Any) -> None:  # noqa: F811
    made, schema = numbers(spark, 90, 3)
    table = open_table(made, schema)
    table._frame.__dict__["sizes"] = np.array([30, 20, 40])
    with pytest.raises(DataError, match="same way each time"):
        table.fold(Places("a", 90))


def test_progress_ends_where_the_rows_end(spark: Any) -> None:  # noqa: F811
    made, schema = numbers(spark, 800, 8)
    told: list[tuple[int, int]] = []
    total = open_table(made, schema).fold(Slow(0.2), lambda done, rows: told.append((done, rows)))
    assert total.tolist() == [sum(i % 7 for i in range(800)), sum(i % 3 for i in range(800))]
    assert told[-1] == (800, 800) and told == sorted(told) and any(0 < done < 800 for done, _ in told)


# What is kept, and what never comes


def kept(spark: Any) -> int:  # noqa: F811
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


def test_codes_are_kept_from_the_second_pass_on_and_forgotten_with_the_table(
    spark: Any,  # noqa: F811
    frame: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc.collect()
    before = kept(spark)
    table = open_table(frame, SCHEMA)
    counts = table.marginals([("day",)])[0]
    assert kept(spark) == before
    for _ in range(2):
        np.testing.assert_array_equal(table.marginals([("day",)])[0], counts)
        assert kept(spark) == before + 1
    table.marginals([("ok",)])
    assert kept(spark) == before + 1
    table.marginals([("ok", "day")])  # both were read before: kept together from now on
    assert kept(spark) == before + 1
    del table
    gc.collect()
    assert settled(10, lambda: kept(spark) == before)
    monkeypatch.setattr("nabladp.tables.spark.table.KEPT_SHARE", 0.0)
    large = open_table(frame, SCHEMA)
    for _ in range(3):
        large.marginals([("day",)])
    assert kept(spark) == before


def test_garbage_collected_in_the_middle_of_a_command_blocks_nothing(spark: Any, frame: Any) -> None:  # noqa: F811
    """Python may collect a table at any moment, also while this thread waits for an answer of Java."""
    tables = [open_table(frame, SCHEMA)]
    for _ in range(2):
        tables[0].marginals([("day",)])
    before = kept(spark)

    class Collecting:
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def readline(self) -> Any:
            tables.clear()
            gc.collect()
            return self._stream.readline()

    def ask() -> None:
        java = spark.sparkContext._jvm.java.lang.Math
        java.abs(-1)  # a thread gets its connection with its first command
        connection = spark.sparkContext._gateway._gateway_client.get_thread_connection()
        connection.stream = Collecting(connection.stream)
        answers.append(java.abs(-7))

    answers: list[int] = []
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(60)
    assert answers == [7]
    assert settled(10, lambda: kept(spark) == before - 1)


def test_rows_never_come_to_the_driver(frame: Any) -> None:
    table = open_table(frame, SCHEMA)
    for rows in (table.raw_batches, lambda: table._batches(("ok",))):
        with pytest.raises(DataError, match="stay on the cluster"):
            rows()


# Faults of tables and kernels


def test_values_outside_the_schema_are_named_by_column_only(frame: Any) -> None:
    strict = Schema(
        (
            Attribute("a.b", "integer", low=0, high=255),
            Attribute("level", "ordered", values=(1, 2.5), null="category"),
            Attribute("day", "categorical", values=("2026-01-31",), null="category"),
        )
    )
    for _ in range(2):
        with pytest.raises(DataError) as caught:
            open_table(frame, strict).marginals([("level", "day")])
        assert caught.value.fields["column"] == "level" and "4" not in str(caught.value)
    for table in (open_table(frame, strict), open_table(people(), strict)):
        assert [finding.column for finding in check_table(table)] == ["level", "day"]
    table = open_table(frame, strict)
    table.marginals([("a.b",)])
    table._keeper._read = frozenset(strict.names)  # as if it had been read: the pass that keeps it meets the fault
    with pytest.raises(DataError, match="'level'"):
        table.marginals([("day", "level")])


def test_a_column_that_is_not_read_makes_nothing_fail(spark: Any) -> None:  # noqa: F811
    rows = spark.range(0, 300, 1, 3).selectExpr("concat('CANARY', id) as wrong", "id % 4 as a", "id % 2 as b")
    schema = Schema(tuple(Attribute(name, "integer", low=0, high=3) for name in ("wrong", "a", "b")))
    table = open_table(rows, schema)
    assert [int(counts) for counts in table.marginals([()])] == [300]
    for _ in range(3):  # from the third pass on from codes that Spark keeps, of the columns that broke no rule
        with pytest.raises(DataError, match="'wrong'"):
            table.marginals([("wrong", "a")])
        assert [counts.tolist() for counts in table.marginals([("a",), ("b",)])] == [[75] * 4, [150, 150, 0, 0]]


def test_derived_columns_are_checked_on_the_cluster(spark: Any) -> None:  # noqa: F811
    made = spark.range(0, 100, 1, 4).selectExpr("id % 10 as age", "id % 10 >= 5 as old", "id % 3 = 0 as odd")
    schema = Schema(
        (
            Attribute("odd", "boolean", derived_from=("age",)),
            Attribute("age", "integer", low=0, high=9),
            Attribute("old", "boolean", derived_from=("age",)),
        )
    )
    assert [(f.column, f.rule[:17]) for f in check_table(open_table(made, schema))] == [("odd", "is not a function")]


def test_a_derived_column_follows_from_values_on_the_cluster(spark: Any) -> None:  # noqa: F811
    made = spark.range(0, 100, 1, 4).selectExpr(
        "cast(id % 10 as double) as age", "id % 10 >= 3 as old", "id % 3 = 0 as odd"
    )
    schema = Schema(
        (
            Attribute("age", "real", edges=(0, 5, 10)),
            Attribute("old", "boolean", derived_from=("age",)),
            Attribute("odd", "boolean", derived_from=("age",)),
        )
    )
    assert [f.column for f in check_table(open_table(made, schema))] == ["odd"]


def test_a_wrong_number_of_rows(spark: Any) -> None:  # noqa: F811
    made, schema = numbers(spark, 50, 2)
    assert open_table(made, schema, rows=50).marginals([("a",)])[0].sum() == 50
    with pytest.raises(DataError, match="number of rows"):
        open_table(made, schema, rows=51).marginals([("a",)])
    with pytest.raises(DataError, match="no rows"):
        open_table(made.where("a > 9"), schema).marginals([("a",)])


def test_missing_columns_are_refused_on_opening(frame: Any) -> None:
    with pytest.raises(DataError, match="no column 'agee'"):
        open_table(frame, Schema((Attribute("agee", "integer", low=0, high=9),)))


def test_what_cannot_be_counted_is_refused(spark: Any) -> None:  # noqa: F811
    schema = Schema((Attribute("value", "integer", low=0, high=9),))
    with pytest.raises(SourceError, match="stream"):
        open_table(spark.readStream.format("rate").load(), schema)
    remote = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
    with pytest.raises(SourceError, match="Connect"):
        open_table(remote(), schema)


def test_errors_of_spark_and_of_kernels_hold_no_value(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    made, schema = numbers(spark, 10, 2)
    broken = made.selectExpr("cast(concat('CANARY', a) as int) as a", "b")
    for table, kernel in ((open_table(broken, schema, rows=10), ColumnSums()), (open_table(made, schema), Broken())):
        with pytest.raises(SourceError) as caught:
            table.fold(kernel)
        assert "CANARY" not in str(caught.value) and "7391" not in str(caught.value)
        assert caught.value.__cause__ is None
    with pytest.raises(MechanismError, match="int64"):
        open_table(made, schema).fold(Wrong())
    said = "".join(capfd.readouterr())
    assert "CANARY" not in said and "7391" not in said


def test_executors_with_other_packages_are_told_apart(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    made, schema = numbers(spark, 10, 2)
    true = tasks.driver_versions()
    monkeypatch.setattr(tasks, "driver_versions", lambda: {**true, "nabladp": "99.1", "no-such-package": "1.0"})
    with pytest.raises(MissingPart) as caught:
        open_table(made, schema).marginals([("a",)])
    said = str(caught.value)
    assert f"nabladp {true['nabladp']} where the driver has 99.1" in said and "no-such-package none" in said
    assert "spark.archives" in said
    with pytest.raises(MissingPart):
        check_table(open_table(made, schema))


# What it costs


def test_what_travels_is_what_the_cost_model_says(
    spark: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sums, whatever the number of rows: by Spark's own account of the bytes."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
    transferred = importlib.import_module("bench.scale").transferred
    cells, seen = Marginals(numbers(spark, 1, 1)[1], [("a", "b")]).bounds[-1], []
    for rows in (3_000, 300_000):
        made, schema = numbers(spark, rows, 12)
        table = open_table(made, schema, rows=rows)
        before = transferred(spark)
        assert table.marginals([("a", "b")])[0].sum() == rows
        seen.append([now - then for now, then in zip(transferred(spark), before, strict=True)])
    for driver, shuffled in seen:
        assert 8 * cells <= driver < 8 * cells + 12 * 8_000 and shuffled < 12 * (8 * cells + 500)
    assert seen[1][0] < 1.2 * seen[0][0]


def test_partial_sums_are_never_larger_than_the_codes_they_stand_for() -> None:
    for cores, codes, cells in ((2, 10**6, 10), (400, 2 * 10**11, 7 * 10**6), (4, 100, 10**6), (8, 10**15, 1)):
        tasks = spark_table.most_tasks(cores, codes, cells)
        assert cores <= tasks < 1 << 31 and (tasks == cores or tasks * 8 * cells <= codes)


# Interruptions


def test_ctrl_c_stops_the_jobs(spark: Any) -> None:  # noqa: F811
    made, schema = numbers(spark, 400, 40)
    table = open_table(made, schema, rows=400)
    timer = threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        table.fold(Slow(2.0))
    timer.join()
    assert settled(20, lambda: not spark.sparkContext.statusTracker().getActiveJobsIds())
    assert table.fold(ColumnSums()).tolist() == [sum(i % 7 for i in range(400)), sum(i % 3 for i in range(400))]


def test_a_worker_killed_in_the_middle_of_a_pass(cluster: Cluster, spark: Any, tmp_path: Path) -> None:  # noqa: F811
    """Once while rows are read, once while their codes are kept in part on the machine that is lost."""
    made, schema = numbers(spark, 1600, 16)
    wanted = [sum(i % 7 for i in range(1600)), sum(i % 3 for i in range(1600))]
    table = open_table(made, schema)
    for _ in range(2):
        alive = len(cluster.workers)

        def kill(done: int, rows: int, alive: int = alive) -> None:
            if done >= rows // 5 and len(cluster.workers) == alive:
                cluster.kill_worker()

        assert table.fold(Slow(0.15), kill).tolist() == wanted
        assert len(cluster.workers) == alive - 1
        cluster.add_worker()
        assert table.fold(ColumnSums()).tolist() == wanted  # read twice by now: from here on codes are kept
    session = Session(
        made, schema, Budget(per_attribute=CDP(1)), tmp_path / "l.db", noise=NoiseSource.seeded(2), new_ledger=True
    )
    alive = len(cluster.workers)
    done = threading.Timer(0.3, cluster.kill_worker)
    done.start()
    released = session.release(NoisyMarginals(CDP(0.5), k=1))
    done.join()
    cluster.add_worker()
    rows = [{"a": i % 7, "b": i % 3} for i in range(1600)]
    here = Session(
        pa.Table.from_pylist(rows),
        schema,
        Budget(per_attribute=CDP(1)),
        tmp_path / "m.db",
        noise=NoiseSource.seeded(2),
        new_ledger=True,
    )
    assert released.output.to_json() == here.release(NoisyMarginals(CDP(0.5), k=1)).output.to_json()


def test_a_fault_that_is_ours_stays_what_it_was() -> None:
    from nabladp.tables.spark.tasks import error_of, fault_of

    error = error_of(fault_of(DataError("The column.", fix="Mend it.", column="a")))
    assert isinstance(error, DataError) and isinstance(error, NablaDPError)
    assert (error.message, error.fix, error.fields) == ("The column.", "Mend it.", {"column": "a"})


# People with many rows


def test_at_most_so_many_rows_of_a_person_are_used(spark: Any, tmp_path: Path) -> None:  # noqa: F811
    """The same as on one machine, with a person's rows in several partitions, and in a fixed order."""
    frame, person = visits(), Person("patient", 2, "visit")
    made = spark.createDataFrame(frame).repartition(5)
    texts = made.selectExpr("concat(' ', patient, ' ') as patient", "cast(visit as string) as visit", "a", "b")
    used = frame.loc[rows_used(frame, person)]
    for source in (made, texts):
        table = open_table(source, VISITS, person=person)
        assert table.n == len(used) and table.dropped(3) == (frame["patient"].value_counts() - 2).clip(0, 3).sum()
        assert [array.ravel().tolist() for array in table.marginals(SETS)] == counted(used)
        table.check_row_order()
        half = np.arange(0, table.n, 2)
        parts = [PartOfRows(table, half, inside).marginals(SETS) for inside in (True, False)]
        assert [(one + other).ravel().tolist() for one, other in zip(*parts, strict=True)] == counted(used)
    assert of_people(table) == wanted_of_people(frame, person) and check_table(table) == []
    with pytest.raises(DataError, match="have no order"):
        open_table(made, VISITS, person=Person("patient", 2))
    for change, what in (
        ("case when a = 1 then null else patient end as patient, visit", "names people, is empty"),
        ("patient, case when a = 1 then '' else cast(visit as string) end as visit", "does not order the rows"),
        ("patient, a as visit", "does not order the rows"),
    ):
        broken = made.selectExpr(*change.split(", "), "a", "b")
        for rows in (None, len(used)):
            with pytest.raises(DataError, match=what):
                open_table(broken, VISITS, rows, person=person).marginals(SETS)


def test_ids_and_row_ids_of_every_kind_mean_the_same_as_on_one_machine(spark: Any) -> None:  # noqa: F811
    """Also as numbers with a point, which Spark writes as 1.0E7, and beyond what such a number holds."""
    frame, person = visits(300), Person("patient", 2, "visit")
    frame["patient"] = np.where(frame["patient"] < 0, frame["patient"], 10_000_000 + frame["patient"])
    frame["visit"] = np.where(frame["visit"] < 0, frame["visit"], 20_000_000 + frame["visit"])
    used, made = counted(frame.loc[rows_used(frame, person)]), spark.createDataFrame(frame).repartition(3)
    for kind in (
        "cast({} as double)",
        "cast({} as decimal(38, 2))",
        "concat('\t', {}, case when a > 4 then '.0' else '' end)",
    ):
        columns = [f"{kind.format(name)} as {name}" for name in ("patient", "visit")]
        source = made.selectExpr(*columns, "a", "b")
        for own in (source, source.toArrow()):
            assert [array.ravel().tolist() for array in open_table(own, VISITS, person=person).marginals(SETS)] == used
    nobody = made.selectExpr("case when a = 1 then double('nan') else patient end as patient", "visit", "a", "b")
    with pytest.raises(DataError, match="names people, is empty"):
        open_table(nobody, VISITS, person=person).marginals(SETS)


def test_an_id_counted_for_each_partition_by_itself_is_caught(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """As if every partition had people of its own: m rows of a person are used in each."""
    from pyspark.sql import functions as f

    from nabladp.tables.spark import people

    frame, person, right = visits(), Person("patient", 2, "visit"), people._text
    made = spark.createDataFrame(frame).repartition(5)
    assert open_table(made, VISITS, person=person).n == len(rows_used(frame, person))

    def with_partition(column: Any, kind: str) -> Any:
        text = right(column, kind)
        return f.concat(text, f.lit(" "), f.spark_partition_id()) if "c2" in str(column) else text

    monkeypatch.setattr(people, "_text", with_partition)
    assert open_table(made, VISITS, person=person).n > 1.3 * len(rows_used(frame, person))
