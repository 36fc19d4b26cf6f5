"""Dates, and levels of one column: the month of a date, the state in front of a census tract."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from nabladp import CDP, Attribute, Budget, NoisyMarginals, Schema, Session, Synthesis, open_table
from nabladp.errors import DataError, SchemaError
from nabladp.noise import NoiseSource
from nabladp.tables import check_table

TOML = """
[[attribute]]
name = "admitted"
kind = "date"
low = 2019-12-30
high = 2021-02-03
null = "category"
unknown = "other"
levels = ["month", "quarter", "year"]

[[attribute]]
name = "tract"
kind = "categorical"
values = ["25001000100", "25001000200", "25003000100", "26001000100"]
levels = { county = 5 }

[[attribute]]
name = "state"
derived_from = ["county"]
prefix = 2
labels = { 25 = "Massachusetts" }
"""
LEVELS = Schema.parse(TOML)
DAYS = [dt.date(2019, 12, 31), dt.date(2020, 2, 29), None, dt.date(2021, 2, 3), dt.date(2018, 5, 5)]
TRACTS = ["25001000100", "26001000100", "25003000100", "25001000200", "25001000100"]


def rows() -> pa.Table:
    return pa.table({"admitted": pa.array(DAYS, pa.date32()), "tract": TRACTS})


def test_levels_follow_their_source() -> None:
    assert LEVELS.columns == ("admitted", "tract")
    assert LEVELS.derived["admitted_year"] == ("admitted",)
    assert LEVELS.derived["state"] == ("tract",)
    assert LEVELS["admitted_quarter"].code_labels == (
        *("2019-Q4", "2020-Q1", "2020-Q2", "2020-Q3", "2020-Q4", "2021-Q1"),
        *("other", "(null)"),
    )
    assert LEVELS["admitted_year"].values == (2019, 2020, 2021)
    assert LEVELS["admitted_month"].values[0] == "2019-12"
    assert LEVELS["state"].code_labels == ("Massachusetts", "26")


def test_a_schema_with_levels_says_the_same_written_out() -> None:
    again = Schema.parse(LEVELS.to_toml())
    assert again == LEVELS
    assert again.fingerprint() == LEVELS.fingerprint()
    admitted = Attribute(
        "admitted", "date", low=dt.date(2019, 12, 30), high="2021-02-03", null="category", unknown="other"
    )
    assert admitted == LEVELS["admitted"]
    assert admitted.coarser("admitted_year", "year") == LEVELS["admitted_year"]
    assert LEVELS["admitted_month"].coarser("admitted_year", "year").values == LEVELS["admitted_year"].values
    assert LEVELS["tract"].coarser("county", 5) == LEVELS["county"]


def every_source(folder: Path) -> dict[str, object]:
    table = rows()
    stamps = pa.array([None if d is None else dt.datetime(d.year, d.month, d.day, 23, 59) for d in DAYS])
    texts = pa.array([None if d is None else f"{d}T23:59:00Z" for d in DAYS])
    pyarrow.csv.write_csv(table, folder / "people.csv")
    pyarrow.parquet.write_table(table, folder / "people.parquet")
    zoned = stamps.cast(pa.timestamp("ns")).cast(pa.timestamp("ns", "America/New_York"))
    return {
        "csv": str(folder / "people.csv"),
        "parquet": str(folder / "people.parquet"),
        "query": f"select admitted::timestamp as admitted, tract from '{folder / 'people.parquet'}'",
        "arrow": table,
        "date64": table.set_column(0, "admitted", table["admitted"].cast(pa.date64())),
        "timestamps": table.set_column(0, "admitted", stamps),
        "zoned": table.set_column(0, "admitted", zoned),
        "texts": table.set_column(0, "admitted", texts),
        "pandas": pd.DataFrame({"admitted": pd.to_datetime(pd.Series(DAYS)), "tract": TRACTS}),
        "objects": pd.DataFrame({"admitted": pd.Series(DAYS, dtype=object), "tract": TRACTS}),
        "polars": pl.DataFrame({"admitted": DAYS, "tract": TRACTS}),
    }


def test_every_source_gives_the_same_counts(tmp_path: Path) -> None:
    sets = [(name,) for name in LEVELS.names] + [("admitted_year", "state"), ("admitted", "admitted_month")]
    expected = open_table(rows(), LEVELS).marginals(sets)
    assert expected[3].tolist() == [1, 1, 1, 1, 1]  # years 2019 to 2021, before them, empty
    assert expected[6].tolist() == [4, 1]
    for name, source in every_source(tmp_path).items():
        found = open_table(source, LEVELS).marginals(sets)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True)), name
        assert check_table(open_table(source, LEVELS)) == [], name


def test_a_column_of_the_table_with_the_name_of_a_level_is_not_read() -> None:
    table = rows().append_column("state", pa.array(["nonsense"] * 5))
    assert open_table(table, LEVELS).marginals([("state",)])[0].tolist() == [4, 1]


@pytest.mark.parametrize(
    ("level", "low", "high", "column", "codes"),
    [
        (
            "day",
            "2020-02-28",
            "2020-03-01",
            ["2020-02-29", "2020-02-30", "2020-03-01 10:00", "2020-02"],
            [1, None, 2, None],
        ),
        (
            "month",
            "2020-01",
            "2020-12",
            ["2020-02", "2020-02-29", "2020-13", "2020-12-31T00:00:00.5Z"],
            [1, 1, None, 11],
        ),
        ("quarter", "2020-Q1", "2020-Q4", ["2020-Q2", "2020-04-01", "2020-Q5", "2020-10"], [1, 1, None, 3]),
        ("year", 2020, 2022, ["2020", "2021-06-01", "0000-01-01", "2022-Q1"], [0, 1, None, 2]),
    ],
)
def test_texts_of_dates(level: str, low: object, high: object, column: list[str], codes: list[int | None]) -> None:
    own = Attribute("day", "date", low=low, high=high, level=level, unknown="other")  # type: ignore[arg-type]
    expected = [own.other_code if code is None else code for code in codes]
    schema = Schema((own,))
    (batch,) = open_table(pa.table({"day": column}), schema)._batches(("day",))
    assert batch.column(0).to_pylist() == expected
    assert [own.code(own.text(code)) for code in range(own.size)] == list(range(own.size))


def test_years_may_be_numbers() -> None:
    schema = Schema((Attribute("year", "date", low=2020, high=2022, level="year"),))
    assert open_table(pa.table({"year": [2020, 2022, 2022]}), schema).marginals([("year",)])[0].tolist() == [1, 0, 2]


def test_dates_outside_are_clamped_or_refused() -> None:
    own = {"name": "day", "kind": "date", "low": "2020-01-01", "high": "2020-01-03"}
    late = pa.table({"day": ["2019-05-05", "2020-01-02", "2031-01-01"]})
    clamped = Schema((Attribute(**own, unknown="clamp"),))  # type: ignore[arg-type]
    assert open_table(late, clamped).marginals([("day",)])[0].tolist() == [1, 1, 1]
    with pytest.raises(DataError, match="outside its declared domain"):
        open_table(late, Schema((Attribute(**own),))).marginals([("day",)])  # type: ignore[arg-type]
    missing = Schema((Attribute(**own, null="category", null_values=("2031-01-01",), unknown="clamp"),))  # type: ignore[arg-type]
    for column in (late["day"], late["day"].cast(pa.date32())):
        assert open_table(pa.table({"day": column}), missing).marginals([("day",)])[0].tolist() == [1, 1, 0, 1]


def test_a_prefix_alone_reads_only_so_many_characters() -> None:
    county = Attribute("tract", "categorical", values=("25001", "25003", "26001"), prefix=5)
    table = open_table(rows(), Schema((county, county.coarser("state", 2))))
    assert [own.tolist() for own in table.marginals([("tract",), ("state",)])] == [[3, 1, 1], [4, 1]]


def test_a_level_costs_its_source_once(tmp_path: Path) -> None:
    budget = Budget(per_attribute=CDP(1), person=CDP(3))
    session = Session(rows(), LEVELS, budget, tmp_path / "ledger.db", new_ledger=True)
    release = session.release(NoisyMarginals(CDP(0.5), sets=[("admitted_month", "state")]))
    assert release.guarantee.rho(("admitted",)) == release.guarantee.rho(("tract",)) == 0.125
    assert release.guarantee.rho(("admitted", "tract")) == 0.125  # one table is one touch
    assert set(session.left()) == {"admitted", "tract", "person"}


DATES = 'kind = "date"\nlow = 2020-01-01\nhigh = 2021-01-01\n'
REFUSED = {
    'kind = "date"\nhigh = 2020-01-01': "Attribute 'd': kind 'date' needs 'low'.",
    'kind = "date"\nlow = 2020-01-02\nhigh = 2020-01-01': "Attribute 'd': 'low' lies after 'high'.",
    'kind = "date"\nlow = "2020-02-30"\nhigh = 2020-01-01': "Attribute 'd': 'low' is not a day: '2020-02-30'.",
    'kind = "date"\nlow = 1700-01-01\nhigh = 2020-01-01': "Attribute 'd': it has 116,878 days; the limit is 65,536.",
    'kind = "date"\nlow = 2020-01-01\nhigh = 2021-01-01\nlevel = "week"': "Attribute 'd': there is no level 'week'.",
    'kind = "integer"\nlow = 1\nhigh = 2\nlevel = "month"': "Attribute 'd': only kind 'date' takes 'level'.",
    'kind = "integer"\nlow = 1\nhigh = 2\nprefix = 2': (
        "Attribute 'd': only kinds 'categorical' and 'ordered' take 'prefix'."
    ),
    'kind = "categorical"\nvalues = ["abc"]\nprefix = 2': (
        "Attribute 'd': the value 'abc' is not a text of at most 2 characters, its 'prefix'."
    ),
    'kind = "categorical"\nvalues = ["abc"]\nlevels = 2': (
        "Attribute 'd': 'levels' must be a list of periods or a table of names."
    ),
    'kind = "categorical"\nvalues = [1, 2]\nlevels = { state = 1 }': (
        "Attribute 'state': its source 'd' has no codes that are text."
    ),
    'kind = "integer"\nlow = 1\nhigh = 2\nlevels = ["month"]': (
        "Attribute 'd_month': its source 'd' is not of kind 'date'."
    ),
    'kind = "date"\nlow = 2020\nhigh = 2021\nlevel = "year"\nlevels = ["month"]': (
        "Attribute 'd_month': level 'month' is not coarser than that of its source 'd', 'year'."
    ),
    DATES + '[[attribute]]\nname = "m"\nderived_from = ["d"]\nlevel = "month"\nlow = "2020-02"': (
        "Attribute 'm': its domain is not what follows from its source 'd'."
    ),
    DATES + '[[attribute]]\nname = "m"\nderived_from = ["d"]\nlevel = "month"\nnull = "category"': (
        "Attribute 'm': its 'null' is not what follows from its source 'd'."
    ),
    'kind = "date"\nlow = 2020-01-01\nhigh = 2021-01-01\nlevel = "month"\nderived_from = ["e", "f"]': (
        "Attribute 'd': a level is computed from one attribute, and 'derived_from' names several."
    ),
}


@pytest.mark.parametrize("block", REFUSED)
def test_refused_levels(block: str) -> None:
    with pytest.raises(SchemaError) as error:
        Schema.parse(f'[[attribute]]\nname = "d"\n{block}')
    assert error.value.message == REFUSED[block]
    assert error.value.fix


def test_synthetic_rows_follow_the_source(tmp_path: Path) -> None:
    session = Session(rows(), LEVELS, Budget(per_attribute=CDP(9)), tmp_path / "ledger.db", new_ledger=True)
    made = session.release(Synthesis(CDP(5))).output
    table = made.sample(200, noise=NoiseSource.seeded(1))
    assert set(LEVELS.names) <= set(table.column_names)
    again = open_table(table.select(list(LEVELS.columns)), LEVELS)
    for name, (column, codes) in LEVELS.levels.items():
        (both,) = again.marginals([(column, name)])
        assert set(zip(*map(list, np.nonzero(both)), strict=True)) <= set(enumerate(codes.tolist()))
        drawn = table[name].to_pylist()
        sources = table[column].to_pylist()
        assert len(set(zip(sources, drawn, strict=True))) == len(set(sources))


def test_queries_know_levels_and_dates(tmp_path: Path) -> None:
    session = Session(rows(), LEVELS, Budget(per_attribute=CDP(99)), tmp_path / "ledger.db", new_ledger=True)
    query = "SELECT state, COUNT(*) AS n FROM t WHERE admitted_year >= 2020 AND admitted <= '2020-12-31' GROUP BY state"
    answer = session.sql(query, CDP(50))
    counts = answer.to_pandas()
    assert dict(zip(counts["state"], counts["n"], strict=True)) == {"Massachusetts": 0, "26": 1}
    assert answer.release.guarantee.rho(("admitted",)) > 0
    parts = session.sql("SELECT YEAR(admitted) AS y, COUNT(*) AS n FROM t GROUP BY 1", CDP(30))
    assert parts.to_pandas()["n"].sum() >= 3
    other = session.sql(
        "SELECT admitted_month AS m, COUNT(*) AS n FROM t GROUP BY 1 HAVING m < '2020-01' OR m IS NULL", CDP(15)
    )
    found = other.to_pandas()
    assert found[found["n"] > 0]["m"].tolist()[:2] == ["2019-12", "other"]  # which is no date
