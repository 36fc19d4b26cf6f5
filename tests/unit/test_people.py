"""What a person is: in a plan, in a session, on the ledger, in the record; and that no ID gets anywhere."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import every_mechanism
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from earlier_formats import write_file
from many_rows import SCHEMA, booked_by_one_kind, counted, visits, wanted
from typer.testing import CliRunner

from nabladp.cli.app import app
from nabladp.errors import DataError, LedgerError, MechanismError, NablaDPError, PlanError
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.statistics import Statistics
from nabladp.noise import NoiseSource
from nabladp.person import Person
from nabladp.privacy import CDP, Budget, Guarantee, Ledger, Pure, Rho
from nabladp.release import Plan, Release, Session
from nabladp.release.comparison import compare
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, PartOfRows, open_table
from nabladp.tables.decode import decode
from nabladp.tables.encode import Encoder
from nabladp.tables.kernels import PERSON
from nabladp.tables.spark import tasks

PLAN = """\
[table]
source = "visits.csv"
schema = "schema.toml"
[person]
id = "patient"
rows = 2
row_id = "visit"
[budget]
ledger = "ledger.db"
per_attribute = { cdp = 5 }
[[release]]
mechanism = "NoisyMarginals"
k = 1
budget = { cdp = 0.5 }
[[release]]
mechanism = "Statistics"
sql = "SELECT b, COUNT(*), AVG(a) FROM visits GROUP BY b"
budget = { cdp = 0.5 }
"""
MARGINALS = NoisyMarginals(CDP(0.1), k=1)
BUDGET = Budget(per_attribute=CDP(5))
BASE = 4_000_037  # of the IDs, to find them by


@pytest.fixture
def frame() -> pd.DataFrame:
    made = visits(600)
    return made.assign(patient=made["patient"] * 1_000 + BASE)


@pytest.fixture
def plan(frame: pd.DataFrame, tmp_path: Path) -> Path:
    frame.to_csv(tmp_path / "visits.csv", index=False)
    SCHEMA.save(tmp_path / "schema.toml")
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def session(folder: Path, frame: Any, **options: Any) -> Session:
    ledger = folder / "own.db"
    return Session(frame, SCHEMA, BUDGET, ledger, new_ledger=not ledger.exists(), **options)


def test_a_plan_uses_at_most_so_many_rows_of_a_person(plan: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    loaded = Plan.load(plan)
    person = Person("patient", 2, "visit")
    assert loaded.person == person
    releases = loaded.run(tmp_path / "out", new_ledger=True)
    used = frame.loc[wanted(frame, person)]
    once = NoisyMarginals(CDP(0.5), k=1).guarantee(SCHEMA, len(used))
    assert [release.n for release in releases] == [len(used)] * 2
    assert releases[0].guarantee.rho("a") == pytest.approx(4 * once.rho("a"))
    assert loaded.cost().guarantee.rho("a") == sum(release.guarantee.rho("a") for release in releases)
    stored = Release.load(tmp_path / "out" / "01-NoisyMarginals")
    assert stored.person == person and json.loads(stored.text)["person"] == person.to_json()
    for comparison in compare(tmp_path / "out", tmp_path / "visits.csv"):  # the same rows are counted again
        assert comparison.tables
    (one, *_) = compare(tmp_path / "out" / "01-NoisyMarginals", frame)[0].tables
    assert sorted(map(int, one.to_json()["truth"])) == sorted(counted(used)[1]) if "truth" in one.to_json() else True


def test_no_id_reaches_any_output(plan: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["release", str(plan), "--new-ledger", "--to", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    ids = [str(own) for own in frame["patient"].unique()]
    texts = [
        done.output,
        runner.invoke(app, ["cost", str(plan)]).output,
        runner.invoke(app, ["check", str(plan)]).output,
    ]
    texts += [path.read_bytes().decode("latin-1") for path in (tmp_path / "out").rglob("*") if path.is_file()]
    texts.append((tmp_path / "ledger.db").read_bytes().decode("latin-1"))
    assert not [own for own in ids for text in texts if own in text]
    rows = len(frame)
    assert "at most 2 rows of each person are used" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert not [text for text in texts[:3] if re.search(rf"\b{rows:,}\b", text)]  # nor how many rows there are in all


def test_a_plan_says_what_is_wrong_with_its_person(plan: Path) -> None:
    for old, new, what in (
        ('id = "patient"\n', "", "needs 'id' and 'rows'"),
        ("rows = 2\n", "", "needs 'id' and 'rows'"),
        ("rows = 2\n", "rows = 0\n", "whole number"),
        ("rows = 2\n", 'rows = "2"\n', "whole number"),
        ('row_id = "visit"', 'row_id = "a"', "is an attribute as well"),
        ('id = "patient"', 'id = "b"', "is an attribute as well"),
        ('row_id = "visit"', 'order = "visit"', "no entry 'order'"),
        ("[person]", "rows_per_person = 2\n[person]", "is a promise"),
    ):
        assert old in PLAN
        plan.write_text(PLAN.replace(old, new))
        with pytest.raises(NablaDPError, match=what) as caught:
            Plan.load(plan)
        assert isinstance(caught.value, (PlanError, DataError))
    plan.write_text(PLAN.replace('row_id = "visit"\n', "").replace("visits.csv", "visit*.csv"))
    assert Plan.load(plan).open_table().n  # one file has an order
    plan.write_text(PLAN.replace('row_id = "visit"\n', "").replace("visits.csv", "select * from 'visits.csv'"))
    with pytest.raises(DataError, match="have no order"):
        Plan.load(plan).open_table()


def test_all_releases_of_a_ledger_agree_on_what_a_person_is(frame: pd.DataFrame, tmp_path: Path) -> None:
    first = session(tmp_path, frame, person=Person("patient", 2, "visit"))
    assert first.ledger.person == Person("patient", 2)
    first.release(MARGINALS)
    session(tmp_path, frame, person=Person("patient", 2)).release(MARGINALS)  # rows in another order: still a person's
    for other in ({}, {"rows_per_person": 2}, {"person": Person("patient", 3)}, {"person": Person("visit", 2)}):
        with pytest.raises(LedgerError, match="not for"):
            session(tmp_path, frame, **other)
    with Ledger.open(tmp_path / "own.db", SCHEMA) as ledger, pytest.raises(LedgerError, match="not for"):
        ledger.reserve_all([(Guarantee.none(SCHEMA), "late", {})], person=Person("visit", 2))
    assert not first.ledger.verify()
    other = first.with_table(visits(60))
    assert other.person == first.person
    with pytest.raises(DataError, match="opened for other people"):
        first.with_table(open_table(frame, SCHEMA))
    with pytest.raises(DataError, match="Both"):
        session(tmp_path, frame, person=Person("patient", 2), rows_per_person=2)


def test_one_of_several_plans_decides_what_a_person_is(tmp_path: Path) -> None:
    booked_by_one_kind(tmp_path / "ledger.db")


def test_the_first_release_may_still_say_what_a_person_is(frame: pd.DataFrame, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "own.db", SCHEMA, BUDGET).close()
    made = session(tmp_path, frame, person=Person("patient", 2))
    made.release(MARGINALS)
    kinds = [entry.kind for entry in made.ledger.entries()]
    assert kinds == ["open", "person", "reserve", "bind"] and not made.ledger.verify()
    made.ledger.void(made.ledger.reserve(Guarantee.none(SCHEMA), "none"), "a test")
    with pytest.raises(LedgerError, match="not for one row per person"):
        session(tmp_path, frame)
    from nabladp.privacy.ledger.state import apply  # the rule itself, whoever wrote the entry

    state = made.ledger._state()
    entry = next(e for e in made.ledger.entries() if e.kind == "person")
    payload = {**entry.payload, "person": Person("visit", 9).unit}
    forged = type(entry)(99, "person", "person", None, entry.time, payload, {}, "", "")

    class Everything:
        def entries(self) -> Any:
            return made.ledger.entries()

    with pytest.raises(LedgerError, match="not for"):
        apply(state, forged, Everything())  # type: ignore[arg-type]
    with pytest.raises(NablaDPError):
        apply(state, type(entry)(99, "person", "person", None, entry.time, {**payload, "person": {}}, {}, "", ""), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", [1, 2])
def test_ledgers_of_earlier_versions_take_promises_only(format: int, tmp_path: Path) -> None:
    """What a person was is not on record there: who promised a number of rows may go on, but no ID begins halfway."""
    path = tmp_path / "old.db"
    write_file(path, format)
    Ledger.migrate(path)
    with Ledger.read(path) as old:
        assert old.person is None and not old.verify()
        universe, test = old.universe, old.test
    with Ledger.open(path, test=test) as ledger:
        with pytest.raises(LedgerError, match="not on record"):
            ledger.check_person(Person("patient", 5))
        nothing = Guarantee.touch(universe, universe.roots[:1], Rho(1e-9))
        with pytest.raises(LedgerError, match="not on record"):
            ledger.reserve_all([(nothing, "by id", {})], person=Person("patient", 5), seeded=test)
        ledger.reserve_all([(nothing, "promised", {})], person=Person(rows=5), seeded=test)
        assert ledger.person == Person(rows=5)
        with pytest.raises(LedgerError, match="at most 5 rows per person"):
            ledger.reserve_all([(nothing, "other", {})], person=Person(rows=4), seeded=test)
        assert not ledger.verify()


def test_a_row_of_nobody_is_refused_before_anything_is_spent(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.loc[5, "patient"] = None
    made = session(tmp_path, frame, person=Person("patient", 2))
    with pytest.raises(DataError, match="names people"):
        made.release(MARGINALS)
    assert made.ledger.head.seq == 1


@pytest.mark.parametrize("name", every_mechanism.FILES)
def test_every_mechanism_runs_on_people_with_many_rows(name: str) -> None:
    """It sees the rows used, in their order, and nothing of it knows: the same noise gives the same output."""
    mechanism, schema = every_mechanism.FILES[name].INSTANCES[1], every_mechanism.SCHEMA
    codes, draws = every_mechanism.codes(300), np.random.default_rng(8)
    values = decode(schema, codes).append_column("patient", pa.array(draws.integers(0, 120, 300)))
    frame, person = values.append_column("visit", pa.array(draws.permutation(300))), Person("patient", 2, "visit")
    used = wanted(pd.DataFrame({own: frame[own] for own in person.columns}), person)
    assert len(used) < 250
    plain = CodedTable(schema, {own: column[used] for own, column in codes.items()})
    outputs = [
        mechanism.run(table, NoiseSource.seeded(4)).to_json()
        for table in (open_table(frame, schema, person=person), plain)
    ]
    assert outputs[0] == outputs[1]


def excess(frame: pd.DataFrame, rows: int, most: int) -> int:
    return int((frame["patient"].value_counts() - rows).clip(0, most).sum())


@pytest.mark.parametrize("budget", [Rho(2.0), Pure(2.0)], ids=["rho", "pure"])
def test_the_number_of_dropped_rows_has_noise_and_a_cost(budget: Any, frame: pd.DataFrame, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "own.db", SCHEMA, Budget(person=Rho(1e6)), test=True).close()
    person = Person("patient", 2, "visit")
    made = Session(frame, SCHEMA, None, tmp_path / "own.db", person=person, noise=NoiseSource.seeded(2))
    drawn = [made.dropped_rows(budget, most=3) for _ in range(60)]
    exact = excess(frame, 2, 3)
    errors = [one.rows - exact for one in drawn]
    assert 0 < sum(abs(error) > drawn[0].half_width for error in errors) + 1 < 12 and len(set(errors)) > 3
    scale = 3 / 2 if budget.pure else 3 / (2 * 2.0) ** 0.5
    assert drawn[0].scale == pytest.approx(scale) and drawn[0].used == len(wanted(frame, person))
    spent = made.ledger.spent_on(["b"])
    total = 60 * (2.0**2 / 2 if budget.pure else 2.0)
    assert spent.rho == pytest.approx(total) == made.ledger.guarantee().per_person().rho
    assert not made.ledger.verify() and made.ledger.bound(drawn[0].entry)
    low, high = drawn[0].share_interval
    assert low <= drawn[0].share <= high < 1


def test_one_person_moves_the_number_of_dropped_rows_by_at_most_the_bound(frame: pd.DataFrame) -> None:
    person = Person("patient", 2, "visit")
    full = frame["patient"].value_counts().loc[lambda c: c >= 2].index[0]
    base = frame.loc[wanted(frame, person)]  # nobody has more than two
    for more, dropped in ((0, 0), (1, 1), (3, 3), (50, 3)):
        added = pd.DataFrame({"patient": full, "visit": range(90_000, 90_000 + more), "a": 0, "b": "x"})
        table = open_table(pd.concat([base, added]).astype(base.dtypes.to_dict()), SCHEMA, person=person)
        assert (table.dropped(3), table.n) == (dropped, len(base))
    assert open_table(frame, SCHEMA).dropped(3) == 0


def test_dropped_rows_from_the_command_line(plan: Path, frame: pd.DataFrame) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["ledger", "create", str(plan)]).exit_code == 0
    asked = ["dropped", str(plan), "--budget", "rho=5", "--most", "1"]
    done = runner.invoke(app, asked)
    assert done.exit_code == 0 and "rows are not used" in done.output, done.output
    said = json.loads(runner.invoke(app, [*asked, "--json"]).output)
    assert abs(said["rows"] - excess(frame, 2, 1)) < 8 and said["most"] == 1
    for wrong in (["--budget", "a:rho=1"], ["--budget", "rho=1", "--most", "0"]):
        assert runner.invoke(app, ["dropped", str(plan), "--most", "1", *wrong]).exit_code != 0
    plan.write_text(
        PLAN.replace('[person]\nid = "patient"\nrows = 2\nrow_id = "visit"\n', "").replace("ledger.db", "x.db")
    )
    assert runner.invoke(app, ["ledger", "create", str(plan)]).exit_code == 0
    assert "people have no ID" in runner.invoke(app, asked).output


LEFT_OUT = "SELECT ROWS_LEFT_OUT(3) AS rows, ROWS_LEFT_OUT(3) / (COUNT(*) + ROWS_LEFT_OUT(3)) AS share FROM visits"


@pytest.mark.parametrize("budget", [Rho(2.0), Pure(2.0)], ids=["rho", "pure"])
def test_rows_that_are_left_out_in_sql(budget: Any, frame: pd.DataFrame, tmp_path: Path) -> None:
    """At the cost of the same question outside of SQL: to every set of attributes once, whatever m is."""
    Ledger.create(tmp_path / "ledger.db", SCHEMA, Budget(person=Rho(1e6)), test=True).close()
    person = Person("patient", 2, "visit")
    made = Session(frame, SCHEMA, None, tmp_path / "ledger.db", person=person, noise=NoiseSource.seeded(2))
    rows, used = excess(frame, 2, 3), len(wanted(frame, person))
    found = [made.sql(LEFT_OUT, budget, to=tmp_path / f"out{i}" if not i else None) for i in range(20)]
    said = [one.rows[0] for one in found]
    assert len({own["rows"] for own in said}) > 3
    assert sum(own["rows_low"] <= rows <= own["rows_high"] for own in said) > 15
    assert sum(own["share_low"] <= rows / (rows + used) <= own["share_high"] for own in said) > 15
    known = made.dropped_rows(budget, most=3)
    assert found[0].release.guarantee.rho("a") == made.ledger.guarantee().rho(["a", "b"]) / 21
    assert found[0].release.output.calibration.scales(0, 0, used) == (known.scale,)
    expected = Statistics(budget, LEFT_OUT).expected_error(SCHEMA, used).half_width("rows")
    assert expected == pytest.approx(known.half_width, abs=1)
    assert "ROWS_LEFT_OUT" in (tmp_path / "out0" / "report.html").read_text(encoding="utf-8")
    assert Release.load(tmp_path / "out0").output.answers[0].rows == found[0].rows


def test_rows_that_are_left_out_in_a_plan(plan: Path, frame: pd.DataFrame) -> None:
    runner = CliRunner()
    start = plan.read_text().partition("[[release]]")[0]
    plan.write_text(f'{start}[[release]]\nmechanism = "Statistics"\nsql = "{LEFT_OUT}"\nbudget = {{ rho = 2 }}\n')
    done = runner.invoke(app, ["release", str(plan), "--new-ledger"])
    assert done.exit_code == 0, done.output
    (answer,) = Release.load(plan.parent / "plan-release" / "01-Statistics").output.answers
    assert abs(answer.rows[0]["rows"] - excess(frame, 2, 3)) < 15
    (comparison,) = compare(plan.parent / "plan-release", plan.parent / "visits.csv")
    assert comparison.tables
    shown = runner.invoke(app, ["sql", str(plan), LEFT_OUT, "--budget", "rho=1", "--dry-run"])
    assert shown.exit_code == 0 and "rows, share" in shown.output, shown.output


# ---- people in place of rows -----------------------------------------------------------------------------------------

VISITED = "SELECT b, COUNT(DISTINCT patient) AS people, SUM_PER_PERSON(a, 0, 12) AS total FROM visits GROUP BY b"


def test_people_and_their_totals_are_answered(frame: pd.DataFrame, tmp_path: Path) -> None:
    """With noise, an interval, a bill, and a cost below the square of the rows; the release can be read again."""
    person = Person("patient", 4, "visit")
    Ledger.create(tmp_path / "ledger.db", SCHEMA, Budget(person=Rho(1e6)), test=True).close()
    made = Session(frame, SCHEMA, None, tmp_path / "ledger.db", person=person, noise=NoiseSource.seeded(5))
    answers = made.sql(VISITED, CDP(2), to=tmp_path / "out")
    used = frame.loc[wanted(frame, person)]
    totals = used.groupby(["b", "patient"])["a"].sum().clip(0, 12).groupby("b").sum()
    for row, people, total in zip(answers.rows, used.groupby("b")["patient"].nunique(), totals, strict=True):
        assert abs(row["people"] - people) + abs(row["total"] - total) > 0
        assert row["people_low"] <= people <= row["people_high"] and row["total_low"] <= total <= row["total_high"]
    one = Statistics(CDP(2), VISITED, id="patient").guarantee(SCHEMA, len(used))
    assert answers.release.guarantee.rho("b") == made.ledger.spent_on(["b"]).rho
    assert answers.release.guarantee.rho("a") == pytest.approx(2 * one.rho("a"))  # of two groups
    assert answers.release.guarantee.rho("b") == pytest.approx(one.rho("b"))  # a person is in two groups at most
    read = Release.load(tmp_path / "out")
    assert read.output.answers[0].rows == answers.rows and read.parameters["id"] == "patient"
    facts = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "SUM_PER_PERSON" in facts
    everybody = made.sql("SELECT COUNT(DISTINCT Patient) FROM visits", CDP(1)).rows[0]
    assert set(everybody.values()) == {float(used["patient"].nunique())}  # public, as the number of rows


def test_one_row_of_a_person_for_each_key(frame: pd.DataFrame, tmp_path: Path) -> None:
    made = session(tmp_path, frame, person=Person("patient", 4, "visit"))
    query = "SELECT b, COUNT(*) AS n FROM visits WHERE a > 2 GROUP BY b"
    plain, once = (made.cost(query, CDP(0.1), one_row_per=keys) for keys in ((), "b"))
    assert plain.cost.guarantee.rho("a") == pytest.approx(2 * 4 * once.cost.guarantee.rho("a"))
    rows = made.sql(query, CDP(0.2), one_row_per="b").rows
    first = (
        frame.loc[wanted(frame, Person("patient", 4, "visit"))].sort_values("visit").groupby(["patient", "b"]).head(1)
    )
    for row, n in zip(rows, first[first["a"] > 2].groupby("b").size(), strict=True):
        assert abs(row["n"] - n) < 60


def test_an_id_of_any_name_is_counted(frame: pd.DataFrame, tmp_path: Path) -> None:
    made = session(
        tmp_path, frame.rename(columns={"patient": "Patient's no"}), person=Person("Patient's no", 4, "visit")
    )
    for query in (
        {"count_distinct": "Patient's no", "by": "b"},
        {"sql": """SELECT b, COUNT(DISTINCT "patient's no") FROM t GROUP BY b"""},
    ):
        answers = made.release(Statistics(CDP(0.2), **query)).output.answers
        assert [row["b"] for row in answers[0].rows] == ["x", "y"]


@pytest.mark.parametrize(
    ("query", "options", "what"),
    [
        ("SELECT SUM_PER_PERSON(a) FROM t", {}, "bounds of one person's total"),
        ("SELECT SUM_PER_PERSON(a, 5, 5) FROM t", {}, "lower bound"),
        ("SELECT SUM_PER_PERSON(b, 0, 5) FROM t", {}, "takes numbers, not text"),
        ("SELECT COUNT(DISTINCT pateint) FROM t", {}, "no column 'pateint'"),
        ("SELECT COUNT(patient) FROM t", {}, "identifies people, so a query cannot"),
        ("SELECT patient, COUNT(*) FROM t GROUP BY patient", {}, "identifies people, so a query cannot"),
        ("SELECT COUNT(*) FROM t WHERE Patient = 3", {}, "identifies people, so a query cannot"),
        ("SELECT b, COUNT(*) FILTER (WHERE patient > 3) FROM t GROUP BY b", {}, "identifies people, so a query cannot"),
        ("SELECT b, COUNT(*) FROM t GROUP BY b ORDER BY MAX(visit)", {}, "MAX depends on a single row"),
        ("SELECT visit, COUNT(*) FROM t GROUP BY visit", {}, "no column 'visit'"),
        ("SELECT b, COUNT(*) FROM t GROUP BY b", {"one_row_per": "a"}, "does not group everywhere"),
        ("SELECT b, COUNT(*) FROM t GROUP BY ROLLUP(b)", {"one_row_per": "b"}, "does not group everywhere"),
        ("SELECT COUNT(DISTINCT patient) FROM t", {"sampling_error": True}, "about rows, not about people"),
        ("SELECT ROWS_LEFT_OUT(3) FROM t", {"sampling_error": True}, "about rows, not about people"),
        ("SELECT b, ROWS_LEFT_OUT(3) FROM t GROUP BY b", {}, "about all rows of the table"),
        ("SELECT ROWS_LEFT_OUT(3) FROM t WHERE a > 3", {}, "about all rows of the table"),
        ("SELECT ROWS_LEFT_OUT(3) FROM (SELECT a FROM t WHERE a > 3)", {}, "about all rows of the table"),
        ("SELECT ROWS_LEFT_OUT(3) FILTER (WHERE a > 3) FROM t", {}, "about all rows of the table"),
        ("SELECT ROWS_LEFT_OUT(0) FROM t", {}, "how many rows of each person"),
        ("SELECT ROWS_LEFT_OUT(a) FROM t", {}, "how many rows of each person"),
        ("SELECT ROWS_LEFT_OUT() FROM t", {}, "how many rows of each person"),
        ((), {"sum_per_person": {"a": [3, 1]}}, "must be two numbers"),
    ],
)
def test_what_cannot_be_asked_of_people_is_refused(
    query: Any, options: dict[str, Any], what: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    made = session(tmp_path, frame, person=Person("patient", 4, "visit"))
    with pytest.raises(NablaDPError, match=what):
        made.sql(query, CDP(0.1), **options)
    assert made.ledger.head.seq == 1


def test_people_without_an_id_are_refused_before_anything_is_spent(frame: pd.DataFrame, tmp_path: Path) -> None:
    made = session(tmp_path, frame, rows_per_person=3)
    total, left_out = (
        Statistics(CDP(0.1), sum_per_person={"a": (0, 12)}),
        Statistics(CDP(0.1), "SELECT ROWS_LEFT_OUT(3) FROM t"),
    )
    for refused, query in itertools.product((made.cost, made.release), (total, left_out)):
        with pytest.raises(MechanismError, match="identifies them"):
            refused(query)
    part = PartOfRows(open_table(frame, SCHEMA, person=Person("patient", 2)), np.arange(9))
    with pytest.raises(DataError, match="identifies people"):  # of some rows nobody knows how many others there are
        left_out.run(part, NoiseSource.seeded(1))
    nobody = Schema(
        tuple(
            Attribute(one.name, one.kind, values=one.values, low=one.low, high=one.high, public=True) for one in SCHEMA
        )
    )
    with pytest.raises(MechanismError, match="Every attribute is public"):
        left_out.guarantee(nobody, 9)
    with pytest.raises(DataError, match="identifies people"):
        total.run(made.table, NoiseSource.seeded(1))
    assert made.ledger.head.seq == 1


def test_people_from_a_plan_and_the_command_line(plan: Path, frame: pd.DataFrame) -> None:
    runner = CliRunner()
    text = plan.read_text().partition("[[release]]")[0]
    plan.write_text(
        f'{text}\n[[release]]\nmechanism = "Statistics"\nby = ["b"]\ncount_distinct = ["patient"]\n'
        "sum_per_person = { a = [0, 12] }\nbudget = { cdp = 0.05 }\n"
    )
    done = runner.invoke(app, ["release", str(plan), "--new-ledger"])
    assert done.exit_code == 0, done.output
    asked = ["sql", str(plan), "SELECT b, AVG(a) FROM t GROUP BY b", "--budget", "cdp=0.05", "--one-row-per", "b"]
    shown = runner.invoke(app, [*asked, "--json"])
    assert shown.exit_code == 0 and {row["b"] for row in json.loads(shown.output)["answers"][0]} == {"x", "y"}
    page = plan.parent / "truth.html"
    compared = runner.invoke(
        app, ["compare", str(plan.parent / "plan-release"), str(plan.parent / "visits.csv"), "--to", str(page)]
    )
    assert compared.exit_code == 0, compared.output


def test_people_on_spark_stay_whole_whatever_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [1, 2, 3, 1, 1, 2, 1, 2, 3, 4, 5]
    encoder = Encoder(SCHEMA, ("a",))
    for size, rows in itertools.product((1, 2, 4, 20), (1, 3, 50)):
        monkeypatch.setattr(tasks, "batch_rows", lambda _, rows=rows: rows)
        table = pa.table({"c0": pa.array(range(10, 21)), "rank": ranks})
        table = table.set_column(0, "c0", pa.array([i % 10 for i in range(11)]))
        found = list(tasks.FromPeople(encoder).codes(iter(table.to_batches(size))))
        assert [code for batch in found for code in batch.column("a").to_pylist()] == [i % 10 for i in range(11)]
        people = [len(set(batch.column(PERSON).to_pylist())) for batch in found]
        assert sum(people) == 4 and sum(len(batch) for batch in found) == 11
