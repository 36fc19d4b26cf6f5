"""Spark sources in plans: which forms there are, what is refused, and releases through them, JDBC included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_cluster import QUICK_START, Cluster, cluster, spark  # noqa: F401
from typer.testing import CliRunner

from nabladp.cli.app import app
from nabladp.errors import MissingPart, NablaDPError, SourceError
from nabladp.release import Plan
from nabladp.tables import check_spark
from nabladp.tables.spark.reading import read_spark

SCHEMA = '[[attribute]]\nname = "age"\nkind = "integer"\nlow = 0\nhigh = 9\n'
PLAN = """\
[table]
source = {source}
schema = "schema.toml"
[budget]
ledger = "{name}.db"
per_attribute = {{ cdp = 1 }}
[[release]]
mechanism = "NoisyMarginals"
sets = [["age"]]
budget = {{ cdp = 0.5 }}
"""


def write_plan(folder: Path, source: str, name: str = "plan") -> Path:
    (folder / "schema.toml").write_text(SCHEMA)
    path = folder / f"{name}.toml"
    path.write_text(PLAN.format(source=source, name=name))
    return path


def released(folder: Path) -> Any:
    (record,) = folder.glob("*/release.json")
    return json.loads(record.read_text())["values"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({}, "one of Spark's readers"),
        ({"spark": "csv", "path": "x"}, "one of Spark's readers"),
        ({"spark": "parquet"}, "needs 'path'"),
        ({"spark": "parquet", "pth": "x"}, "Did you mean 'path'?"),
        ({"spark": "parquet", "path": 3}, "'path' of a Spark source has the wrong type"),
        ({"spark": "parquet", "path": "x", "url": "y"}, "no entry 'url'"),
        ({"spark": "parquet", "path": "x", "conf": {"executor.memory": "1g"}}, "is not a Spark setting"),
        ({"spark": "parquet", "path": "x", "conf": "spark.x=1"}, "in braces"),
        ({"spark": "jdbc", "url": "jdbc:x"}, "needs 'table'"),
        ({"spark": "jdbc", "url": "jdbc:x", "table": "t", "password": "CANARY"}, "password_env"),
        ({"spark": "jdbc", "url": "jdbc:x", "table": "t", "options": {"PassWord": "CANARY"}}, "password_env"),
        ({"spark": "jdbc", "url": "jdbc:x://h/d?user=me&Password=CANARY", "table": "t"}, "password_env"),
        ({"spark": "jdbc", "url": "jdbc:x", "table": "t", "split": {"column": "id"}}, "needs 'low'"),
        ({"spark": "jdbc", "url": "jdbc:x", "table": "t", "split": {"column": "id", "low": True}}, "a whole number"),
    ],
)
def test_wrong_sources_are_refused_before_anything_starts(source: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=said.replace("?", r"\?")) as caught:
        check_spark(source)
    assert "CANARY" not in str(caught.value) and caught.value.fix


def test_a_plan_refuses_a_wrong_source(tmp_path: Path) -> None:
    path = write_plan(tmp_path, '{ spark = "jdbc", url = "jdbc:x", table = "t", password = "CANARY" }')
    answer = CliRunner().invoke(app, ["cost", str(path)])
    assert answer.exit_code != 0 and "CANARY" not in answer.output


def test_the_address_of_a_table_is_not_shown(tmp_path: Path) -> None:
    for source in ('{ spark = "jdbc", url = "jdbc:x://me:CANARY@h/d", table = "t" }', '"postgresql://me:CANARY@h/d"'):
        plan = Plan.load(write_plan(tmp_path, source))
        assert "CANARY" in str(plan.source) and "CANARY" not in repr(plan)


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingPart, match=r"nabladp\[spark\]"):
        read_spark({"spark": "parquet", "path": "x"})


def test_a_plan_on_the_cluster_releases_what_a_plan_on_the_file_does(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    pq.write_table(pa.table({"age": [i % 10 for i in range(500)]}), tmp_path / "people.parquet", row_group_size=50)
    here = write_plan(tmp_path, '"people.parquet"', "here")
    there = write_plan(
        tmp_path, f'{{ spark = "parquet", path = "people.parquet", master = "{cluster.address}" }}', "there"
    )
    for plan in (here, there):
        answer = CliRunner().invoke(app, ["release", str(plan), "--new-ledger", "--test-seed", "3"])
        assert answer.exit_code == 0, answer.output
    assert released(tmp_path / "here-release") == released(tmp_path / "there-release")


def test_a_running_session_must_be_the_one_asked_for(spark: Any, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(SourceError, match="another master"):
        read_spark({"spark": "parquet", "path": "/x", "master": "local[7]"})
    with pytest.raises(SourceError, match=r"another 'spark\.executor\.memory'"):
        read_spark({"spark": "parquet", "path": "/x", "conf": {"spark.executor.memory": "77g"}})
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ({"spark": "parquet", "path": "/no/such/folder"}, "Check the path"),
        ({"spark": "delta", "path": "/no/such/folder"}, "io.delta:delta-spark"),
        ({"spark": "table", "name": "no_such_table"}, "name of the table"),
        ({"spark": "jdbc", "url": "jdbc:nosuch://me:CANARY@h", "table": "t"}, "driver"),
        ({"spark": "jdbc", "url": "jdbc:derby:x", "table": "t", "password_env": "CANARY"}, "Set it"),
    ],
)
def test_what_spark_cannot_open(spark: Any, source: dict[str, Any], fix: str) -> None:  # noqa: F811
    with pytest.raises(NablaDPError) as caught:
        read_spark(source)
    assert fix in caught.value.fix and "CANARY" not in str(caught.value)
    assert caught.value.__cause__ is None


JDBC = """
import os, sys
from pathlib import Path
import nabladp.tables.spark.reading as reading
from nabladp.errors import DataError
from nabladp.release import Plan
from nabladp.tables import open_table

folder = Path(sys.argv[1])
spark = reading.session("local[1]", {"spark.driver.extraJavaOptions": sys.argv[2], "spark.ui.enabled": "false"})
people = spark.range(0, 300).selectExpr("cast(id as int) as id", "cast(id % 10 as int) as age")
database = people.write.format("jdbc").option("url", f"jdbc:derby:{folder}/db;create=true").option("dbtable", "people")
database.option("user", "me").option("password", os.environ["WORD"]).save()
people.createOrReplaceTempView("seen")
for name in sys.argv[3:]:
    plan = Plan.load(folder / f"{name}.toml")
    plan.run(test_seed=3, new_ledger=True)
    try:
        open_table(plan.source, plan.schema, folder=folder).check_row_order()
    except DataError:
        print(name, "has no places")
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
"""


def test_jdbc_and_named_tables_through_sparks_readers(program: Callable[[str], str], tmp_path: Path) -> None:
    """In a process of its own, on a local master that the plan starts: the database of Java's own kind allows one."""
    program("java")
    pq.write_table(pa.table({"age": [i % 10 for i in range(300)]}), tmp_path / "people.parquet")
    split = '{ column = "id", low = 0, high = 300, parts = 3 }'
    url = f"jdbc:derby:{tmp_path}/db"
    jdbc = f'{{ spark = "jdbc", url = "{url}", table = "people", user = "me", password_env = "WORD", split = {split} }}'
    write_plan(tmp_path, jdbc, "jdbc")
    write_plan(tmp_path, '{ spark = "table", name = "seen" }', "named")
    command = [sys.executable, "-c", JDBC, str(tmp_path), QUICK_START, "jdbc", "named"]
    environment = {
        **os.environ,
        "WORD": "CANARY",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
    }
    environment |= {"_JAVA_OPTIONS": f"-Dderby.system.home={tmp_path}"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "CANARY" not in done.stdout + done.stderr
    assert "jdbc has no places" in done.stdout and "named has" not in done.stdout
    Plan.load(write_plan(tmp_path, '"people.parquet"', "here")).run(test_seed=3, new_ledger=True)
    wanted = released(tmp_path / "here-release")
    assert released(tmp_path / "jdbc-release") == wanted == released(tmp_path / "named-release")
    for file in tmp_path.rglob("*release*/**/*.json"):
        assert "CANARY" not in file.read_text() and "derby" not in file.read_text()
