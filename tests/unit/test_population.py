"""Queries that decide which rows there are need a sentence on why that is public; it is published with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from nabladp import CDP, Attribute, Budget, NoisyMarginals, Release, Schema, Session, open_table
from nabladp.errors import SourceError
from nabladp.report import write
from nabladp.tables import duck
from nabladp.tables.population import row_selection

SCHEMA = Schema((Attribute("age", "integer", low=0, high=99), Attribute("ill", "boolean")))
TABLE = NoisyMarginals(CDP(0.5), sets=[("age",), ("ill",)])
EVERY_ROW = (
    "from '{}'",
    "select age, ill from '{}' order by age",
    "select try_cast(age as int) as age, ill = 'true' as ill from read_csv('{}', all_varchar=true)",
    "select case when age > 50 then 50 else age end as age, coalesce(nullif(ill, true), false) as ill from '{}'",
    "select * replace (least(age::int, 9) as age) from (select * from '{}')",
    "with t as (from '{}') select age, ill from t",
    "select age, ill from '{}' union all select age, ill from '{}'",
    "select list_transform([age::int], lambda x: x + 1)[1] as age, ill from '{}'",
    "select columns('age|ill') from '{}'",
)
SOME_ROWS = {
    "from '{}' where age < 30": "where",
    "from '{}' limit 3": "limit",
    "from '{}' offset 1": "limit",
    "from '{}' limit 50%": "limit",
    "from '{}' using sample 2": "sample",
    "select * from '{}' tablesample 50%": "sample",
    "select distinct age, ill from '{}'": "distinct",
    "select distinct on (age) age, ill from '{}'": "distinct",
    "select age, any_value(ill) as ill from '{}' group by age": "group by",
    "select any_value(age) as age, any_value(ill) as ill from '{}' group by all": "group by",
    "select max(age) as age, true as ill from '{}'": "max(…)",
    "select list(age)[1] as age, true as ill from '{}'": "list(…)",
    "select count(*) as age, true as ill from '{}' having count(*) > 1": "having",
    "from '{}' qualify row_number() over (partition by age) = 1": "qualify",
    "select row_number() over () as age, ill from '{}'": "a window function",
    "select a.age, a.ill from '{}' a join '{}' b on a.age = b.age": "join",
    "select a.age, a.ill from '{}' a, '{}' b": "join",
    "select age, ill from '{}' semi join (select 3 as age) using (age)": "join",
    "select unnest([age, age]) as age, ill from '{}'": "unnest(…)",
    "select age, ill from '{}' where exists (from '{}')": "where",
    "select (select max(age) from '{}') as age, ill from '{}'": "a subquery",
    "select age, ill from '{}' union select age, ill from '{}'": "union",
    "select age, ill from '{}' except select age, ill from '{}'": "except",
    "from (from '{}' where ill)": "where",
    "with t as (from '{}' where ill) from t": "where",
    "with recursive t as (from '{}' union all from t) from t": "a part that cannot be read",
    "select age, ill from '{}' union all (select age, ill from '{}' limit 1)": "limit",
    "from read_csv('{}', ignore_errors = true)": "ignore_errors",
    "select range as age, true as ill from range(9)": "range(…)",
    "from (pivot '{}' on ill using count(*))": "a part that cannot be read",
    "from '{}'; from '{}'": "more than one statement",
    "not a query": "a part that cannot be read",
    "from t " + " " * 100_000: "a part that cannot be read",
}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rows = "".join(f"{age},{'true' if age % 3 else 'false'}\n" for age in [*range(40), *range(40)])
    (tmp_path / "people.csv").write_text("age,ill\n" + rows)
    return tmp_path / "people.csv"


@pytest.mark.parametrize("query", EVERY_ROW)
def test_queries_of_every_row_pass_and_really_have_them_all(query: str, people: Path) -> None:
    assert row_selection(query) == ""
    counts = []
    for content in (people.read_text(), "age,ill\n" + "1,false\n" * 80):  # whatever the rows hold
        people.write_text(content)
        with duck.connection() as database:
            counts.append(len(database.sql(query.replace("{}", str(people))).fetchall()))
    assert counts[0] == counts[1] == 80 * query.count("{}")


@pytest.mark.parametrize(("query", "clause"), SOME_ROWS.items())
def test_what_decides_on_rows_is_named(query: str, clause: str) -> None:
    assert row_selection(query) == clause


def budget() -> Budget:
    return Budget(per_attribute=CDP(1.0))


def test_a_session_refuses_such_a_query_before_it_reads_and_takes_it_with_a_sentence(people: Path) -> None:
    query, ledger = f"select * from '{people}' where age < 30", people.parent / "ledger.db"
    with pytest.raises(SourceError, match=r"decides which rows are in the table \(where\)") as caught:
        Session(query, SCHEMA, budget(), ledger, new_ledger=True)
    assert "population" in caught.value.fix and not ledger.exists()
    for table in (query, open_table(query, SCHEMA)):
        with pytest.raises(SourceError, match="where"):
            Session(table, SCHEMA, budget(), ledger, new_ledger=True)
    why = "The study invited everybody below 30; who did is on its public list."
    session = Session(query, SCHEMA, budget(), ledger, new_ledger=True, population=why)
    release = session.release(TABLE, to=people.parent / "out")
    assert release.n == 60 and release.population == {"sentence": why, "query": query}
    again = Release.load(people.parent / "out")
    assert again.population == release.population and again.digest == release.digest
    page = write(people.parent / "out").read_text()
    assert page.count(why) >= 2 and "where age &lt; 30" in page, "in the part of the release and in the certificate"
    with pytest.raises(SourceError, match="limit"):
        session.with_table(f"from '{people}' limit 3")
    silent = Session(str(people), SCHEMA, budget(), people.parent / "other.db", new_ledger=True).release(TABLE)
    assert silent.population == {} and "population" not in json.loads(silent.text)


def test_relations_and_lists_of_rows(people: Path) -> None:
    relation = duckdb.connect().sql(f"from '{people}'")
    for table in (relation, duckdb.arrow(pa.table({"age": [1, 2], "ill": [True, False]}))):
        open_table(table, SCHEMA).origin.check()
    with pytest.raises(SourceError, match="where"):
        open_table(relation.filter("age < 30"), SCHEMA).origin.check()
    open_table(relation.filter("age < 30"), SCHEMA, population="The registry lists them.").origin.check()


@pytest.mark.parametrize("sentence", [3, " ", "a\nb", "x" * 1001])
def test_a_sentence_is_one(sentence: Any, people: Path) -> None:
    with pytest.raises(SourceError, match="'population'"):
        open_table(people, SCHEMA, population=sentence)


def test_a_record_whose_population_was_changed_is_refused(people: Path) -> None:
    session = Session(str(people), SCHEMA, budget(), people.parent / "ledger.db", new_ledger=True, population="All.")
    release = session.release(TABLE)
    path = people.parent / "release.json"
    for wrong in ({"query": "x"}, {"sentence": 3}, "All.", {"sentence": "", "more": ""}):
        path.write_text(json.dumps(json.loads(release.text) | {"population": wrong}))
        with pytest.raises(Exception, match="'population' is missing or not what nabladp writes"):
            Release.load(path)


def test_try_cast_gives_null_where_a_csv_file_holds_something_else(people: Path) -> None:
    people.write_text("age,ill\n1,true\nunknown,false\n3,true\n")
    query = f"select try_cast(age as int) as age, ill from read_csv('{people}', all_varchar=true)"
    schema = Schema((Attribute("age", "integer", low=0, high=99, null="category"), Attribute("ill", "boolean")))
    (counted,) = open_table(query, schema).marginals([("age",)])
    assert counted[1] == counted[3] == counted[-1] == 1 and counted.sum() == 3


def test_what_cannot_be_read_for_certain_is_refused_as_well(people: Path) -> None:
    query = f"with recursive t as (from '{people}' union all (from t where false)) from t"
    with pytest.raises(SourceError, match="cannot be read"):
        open_table(query, SCHEMA).origin.check()
