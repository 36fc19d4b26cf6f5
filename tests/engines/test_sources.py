"""Every kind of source gives the same counts as counting by hand."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import random
from collections import Counter
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from pyarrow.feather import write_feather

from nabladp.errors import DataError, SourceError
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, Marginals, check_table, column_types, open_table

SCHEMA = Schema(
    (
        Attribute("age", "integer", low=-1, high=4, unknown="clamp", null="category"),
        Attribute("job, or none", "categorical", values=("cook", 'the "nurse"', "it's", " x "), unknown="other"),
        Attribute("pay", "real", edges=(0, 1.5, 2.5, 10), null="category", unknown="other"),
        Attribute("ok", "boolean", null="category"),
        Attribute("level", "ordered", values=(1, 2.5, 4)),
        Attribute("day", "categorical", values=("2026-01-31", "2026-02-01"), null="category"),
    )
)
AGES = [-5, -1, 0, 1, 2, 3, 4, 9, None]
JOBS = ["cook", 'the "nurse"', "it's", " x ", "x", "pilot"]
PAYS = [-1.0, 0.0, 1.5, 2.4999, 2.5, 10.0, 10.5, None]
OKS = [True, False, None]
LEVELS = [1.0, 2.5, 4.0]
DAYS = ["2026-01-31", "2026-02-01", None]


def expected_codes(row):
    age, job, pay, ok, level, day = row
    listed = ["cook", 'the "nurse"', "it's", " x "]
    pay_code = 4 if pay is None else 3 if not 0 <= pay <= 10 else sum(pay >= edge for edge in (1.5, 2.5))
    return (
        6 if age is None else min(max(age, -1), 4) + 1,
        listed.index(job) if job in listed else 4,
        pay_code,
        2 if ok is None else int(ok),
        LEVELS.index(level),
        DAYS.index(day),
    )


def random_rows(count: int, seed: int):
    draw = random.Random(seed)
    return [tuple(draw.choice(values) for values in (AGES, JOBS, PAYS, OKS, LEVELS, DAYS)) for _ in range(count)]


def by_hand(rows, sets):
    codes = [expected_codes(row) for row in rows]
    for names in sets:
        places = [SCHEMA.names.index(name) for name in names]
        counted = Counter(tuple(row[place] for place in places) for row in codes)
        table = np.zeros(SCHEMA.sizes(names), dtype=np.int64)
        for cell, times in counted.items():
            table[cell] = times
        yield table


def frame(rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(SCHEMA.names))


def typed_arrow(rows) -> pa.Table:
    kinds = [pa.int32(), pa.string(), pa.float64(), pa.bool_(), pa.float32(), pa.string()]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    table = pa.table(dict(zip(SCHEMA.names, columns, strict=True)))
    return table.set_column(5, "day", table["day"].cast(pa.date32()))


def write_csv(rows, path: Path, delimiter: str = ",") -> str:
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["extra", *SCHEMA.names])
        writer.writerows([("x", *row) for row in rows])
    return str(path)


def make_json(rows, path: Path, lines: bool) -> str:
    records = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    path.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records))
    return str(path)


def compressed(path: str, ending: str = ".gz") -> str:
    Path(path + ending).write_bytes(gzip.compress(Path(path).read_bytes()))
    return path + ending


def make_excel(rows, path: Path) -> str:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["extra", *SCHEMA.names])
    for row in rows:
        sheet.append(["x", *row[:5], row[5] and date.fromisoformat(row[5])])
    sheet.append([])  # as spreadsheets leave behind
    sheet.cell(len(rows) + 5, 3).value = None
    book.save(path)
    return str(path)


def feather(rows, path: Path) -> str:
    write_feather(typed_arrow(rows), path, chunksize=40)
    return str(path)


def lazy_from_parts(rows) -> pl.LazyFrame:
    """Whose rows may come in another order each time."""
    parts = pl.DataFrame(typed_arrow(rows)).with_row_index("part")
    return parts.lazy().group_by("part").agg(pl.col(SCHEMA.names).first()).drop("part")


def relation(rows) -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.register("people", typed_arrow(rows))
    return connection.sql('select *, "age" as "a ""b""" from people')


def mixed_glob(rows, folder: Path) -> str:
    feather(rows[:100], folder / "part-1.feather")
    make_excel(rows[100:200], folder / "part-2.xlsx")
    write_csv(rows[200:], folder / "part-3.csv")
    return str(folder / "part-*")


def arrow_dataset(rows, folder: Path) -> pads.Dataset:
    make_parts = [typed_arrow(rows[:100]), dictionaries(rows[100:])]
    for number, part in enumerate(make_parts):
        pq.write_table(part, folder / f"{number}.parquet")
    return pads.dataset(folder, format="parquet")


def make_glob(rows, folder: Path) -> str:
    third = len(rows) // 3
    pq.write_table(typed_arrow(rows[:third]), folder / "part-1.parquet")
    write_csv(rows[third : 2 * third], folder / "part-2.csv")
    backwards = typed_arrow(rows[2 * third :]).select(list(SCHEMA.names[::-1]))
    pq.write_table(backwards, folder / "part-3.parquet")
    return str(folder / "part-*")


def parquet(rows, path: Path) -> str:
    pq.write_table(typed_arrow(rows), path, row_group_size=50)
    return str(path)


def query(rows, folder: Path) -> str:
    path = parquet(rows, folder / "it's one.parquet").replace("'", "''")
    return f"""SELECT * exclude ("ok"), "ok"::varchar as "ok" FROM read_parquet('{path}') -- all of them"""


def dictionaries(rows) -> pa.Table:
    table = typed_arrow(rows)
    columns = [table[i] if i == 3 else table[i].dictionary_encode() for i in range(6)]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)))


SOURCES = {
    "csv": lambda rows, folder: write_csv(rows, folder / "a [1]*'s.csv"),
    "csv, semicolons": lambda rows, folder: write_csv(rows, folder / "a.csv", ";"),
    "csv.gz": lambda rows, folder: write_csv(rows, folder / "a.csv.gz"),
    "tsv": lambda rows, folder: write_csv(rows, folder / "a.tsv", "\t"),
    "path": lambda rows, folder: Path(write_csv(rows, folder / "a.csv")),
    "parquet": lambda rows, folder: parquet(rows, folder / "b=1'.parquet"),
    "glob": make_glob,
    "json": lambda rows, folder: make_json(rows, folder / "a.json", lines=False),
    "ndjson": lambda rows, folder: make_json(rows, folder / "a.ndjson", lines=True),
    "ndjson.gz": lambda rows, folder: compressed(make_json(rows, folder / "a.ndjson", lines=True)),
    "CSV.GZ": lambda rows, folder: compressed(write_csv(rows, folder / "A.CSV"), ".GZ"),
    "query": query,
    "pandas": lambda rows, folder: frame(rows),
    "pandas, objects": lambda rows, folder: frame(rows).astype(object),
    "pandas, categories": lambda rows, folder: frame(rows).astype("category"),
    "polars": lambda rows, folder: pl.DataFrame(typed_arrow(rows)),
    "polars, text": lambda rows, folder: pl.DataFrame(typed_arrow(rows)).cast(pl.String),
    "arrow": lambda rows, folder: typed_arrow(rows),
    "arrow, dictionaries": lambda rows, folder: dictionaries(rows),
    "arrow, two chunks": lambda rows, folder: pa.concat_tables([dictionaries(rows[:40]), dictionaries(rows[40:])]),
    "feather": lambda rows, folder: feather(rows, folder / "a.feather"),
    "excel": lambda rows, folder: make_excel(rows, folder / "a [1].xlsx"),
    "glob of three kinds": mixed_glob,
    "lazy frame": lambda rows, folder: lazy_from_parts(rows),
    "lazy scan": lambda rows, folder: pl.scan_parquet(parquet(rows, folder / "a.parquet")),
    "lazy, text": lambda rows, folder: pl.DataFrame(typed_arrow(rows)).lazy().cast(pl.String),
    "relation": lambda rows, folder: relation(rows),
    "relation of a frame": lambda rows, folder: duckdb.from_arrow(typed_arrow(rows)),
    "dataset": arrow_dataset,
    "dataset in memory": lambda rows, folder: pads.dataset(dictionaries(rows)),
    "record batch": lambda rows, folder: typed_arrow(rows).combine_chunks().to_batches()[0],
}
SETS = [names for k in (1, 2, 3) for names in itertools.combinations(SCHEMA.names, k)]
SETS += [("ok", "age"), ("day", "pay", "job, or none", "level"), ()]


@pytest.mark.parametrize("kind", SOURCES)
def test_marginals_are_what_counting_by_hand_gives(kind, tmp_path):
    rows = random_rows(300, seed=len(kind))
    table = open_table(SOURCES[kind](rows, tmp_path), SCHEMA)
    assert table.n == 300 and check_table(table) == []
    for _ in range(2):  # the second time from the codes that were kept
        for names, found, wanted in zip(SETS, table.marginals(SETS), by_hand(rows, SETS), strict=True):
            assert found.dtype == np.int64 and found.shape == SCHEMA.sizes(names)
            np.testing.assert_array_equal(found, wanted, err_msg=str(names))


@pytest.mark.parametrize(
    "kind", ["csv", "parquet", "glob", "query", "feather", "excel", "lazy frame", "relation", "dataset"]
)
def test_files_too_large_to_keep_are_read_again(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("nabladp.tables.table.KEPT_BYTES", 0)
    rows = random_rows(200, seed=1)
    table = open_table(SOURCES[kind](rows, tmp_path), SCHEMA)
    for _ in range(2):
        for found, wanted in zip(table.marginals(SETS), by_hand(rows, SETS), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert table._codes == {}


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_fold_adds_up_a_kernel(kind, tmp_path):
    rows = random_rows(150, seed=2)
    table = open_table(SOURCES[kind](rows, tmp_path), SCHEMA)
    kernel = Marginals(SCHEMA, [("age", "ok")])
    np.testing.assert_array_equal(kernel.split(table.fold(kernel))[0], next(by_hand(rows, [("age", "ok")])))
    told = []
    total = table.fold(column_sums, progress=lambda done, rows: told.append((done, rows)))
    np.testing.assert_array_equal(total, np.sum([expected_codes(row) for row in rows], axis=0))
    assert told[-1] == (150, 150)


def column_sums(batch: pa.RecordBatch) -> np.ndarray:
    return np.array([column.to_numpy().sum(dtype=np.int64) for column in batch.columns])


def test_codes_give_the_same_counts_as_values():
    rows = random_rows(100, seed=3)
    codes = dict(zip(SCHEMA.names, np.array([expected_codes(row) for row in rows]).T, strict=True))
    for found, wanted in zip(CodedTable(SCHEMA, codes, 7).marginals(SETS), by_hand(rows, SETS), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_many_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("nabladp.tables.duck.BATCH_VALUES", 0)  # the shortest batches
    rows = random_rows(9000, seed=4)
    sets = [("age", "job, or none"), ("pay",)]
    for kind in ("csv", "parquet", "pandas"):
        table = open_table(SOURCES[kind](rows, tmp_path), SCHEMA)
        for found, wanted in zip(table.marginals(sets), by_hand(rows, sets), strict=True):
            np.testing.assert_array_equal(found, wanted)


SECRET = "somebody's secret"
FAILING = {
    "lazy frame": lambda folder: pl.LazyFrame({"age": ["1", SECRET]}).select(pl.col("age").cast(pl.Int64)),
    "relation": lambda folder: duckdb.sql(f"select x::int as age from (values ('1'), ('{SECRET[:8]}')) t(x)"),
    "dataset": lambda folder: pads.dataset(
        [_written(folder / "1.parquet", [1]), _written(folder / "2.parquet", [SECRET])],
        schema=pa.schema({"age": "int64"}),
    ),
}


def _written(path: Path, values: list) -> str:
    pq.write_table(pa.table({"age": values}), path)
    return str(path)


@pytest.mark.parametrize("kind", FAILING)
def test_no_value_is_in_an_error_of_a_lazy_table(kind, tmp_path):
    with pytest.raises(SourceError) as caught:
        open_table(FAILING[kind](tmp_path), AGE).marginals([("age",)])
    assert "somebody" not in str(caught.value) and "cannot be read: it raises" in caught.value.message
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


AGE = Schema((Attribute("age", "integer", low=0, high=9),))


@pytest.mark.parametrize("kind", ["lazy frame", "relation", "dataset"])
def test_rows_in_another_order_each_time_are_refused_where_an_index_stands_for_a_person(kind, tmp_path, monkeypatch):
    """As for queries: codes that fit into memory are read once, and so have an order."""
    rows = random_rows(300, seed=5)
    open_table(SOURCES[kind](rows, tmp_path), SCHEMA).check_row_order()
    monkeypatch.setattr("nabladp.tables.table.KEPT_BYTES", 0)
    with pytest.raises(DataError, match="no fixed order"):
        open_table(SOURCES[kind](rows, tmp_path), SCHEMA).check_row_order()
    open_table(feather(rows, tmp_path / "a.feather"), SCHEMA).check_row_order()


def test_the_types_of_lazy_tables_are_words_of_a_schema(tmp_path):
    rows = random_rows(100, seed=6)
    words = ["integer", "text", "real", "boolean", "real", "date"]
    for kind in ("feather", "excel", "lazy scan", "relation of a frame", "dataset in memory", "glob of three kinds"):
        found = [pair for pair in column_types(SOURCES[kind](rows, tmp_path)) if pair[0] != "extra"]
        assert found == list(zip(SCHEMA.names, words, strict=True)), kind


def _excel(path: Path, *sheets: list) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, lines in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {number}")
        for line in lines:
            sheet.append(line)
    book.save(path)
    return path


def test_a_workbook_is_one_sheet_below_a_header(tmp_path):
    inside = _excel(tmp_path / "gaps.xlsx", [["age"], [3], [None], [4.0], ["5"]])
    table = open_table(inside, Schema((Attribute("age", "integer", low=0, high=9, null="category"),)))
    assert table.n == 4 and table.marginals([("age",)])[0].tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1]
    for name, sheets, message in (
        ("two.xlsx", [[["age"], [3]], [["age"], [4]]], "has 2 sheets"),
        ("none.xlsx", [[[3], [4]]], "has no header"),
        ("empty.xlsx", [[]], "has no header"),
    ):
        with pytest.raises(SourceError, match=message):
            open_table(_excel(tmp_path / name, *sheets), AGE)
    (tmp_path / "text.xlsx").write_text("age\n3\n")
    with pytest.raises(SourceError, match="not an Excel workbook"):
        open_table(tmp_path / "text.xlsx", AGE)


# Real tables, where they are present


def integers(domain: Path) -> Schema:
    sizes = json.loads(domain.read_text())
    return Schema(tuple(Attribute(name, "integer", low=0, high=size - 1) for name, size in sizes.items()))


@pytest.mark.parametrize(
    "name", ["adult/adult_mbi.csv.gz adult/adult_mbi-domain.json", "msnbc/msnbc.parquet msnbc/msnbc-domain.json"]
)
def test_integer_coded_real_tables(name, data):
    path, domain = (data / part for part in name.split())
    schema = integers(domain)
    pairs = list(itertools.combinations(schema.names, 2))[:40]
    rows = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
    table = open_table(path, schema)
    assert table.n == len(rows) and check_table(table) == []
    for names, found in zip(pairs, table.marginals(pairs), strict=True):
        assert found.sum() == table.n
        for *cell, count in rows.group_by(names).len().iter_rows():
            assert found[tuple(cell)] == count


def test_census_extract(data):
    path, facts = data / "nist_acs_excerpts/ma2019.csv.gz", data / "nist_acs_excerpts/ma2019-schema.json"
    listed = {k: v for k, v in json.loads(facts.read_text())["schema"].items() if "values" in v}
    schema = Schema(
        tuple(Attribute(name, "categorical", values=tuple(v["values"]), unknown="other") for name, v in listed.items())
    )
    table = open_table(path, schema)
    rows = pl.read_csv(path, infer_schema=False)
    for name, found in zip(schema.names, table.marginals([(name,) for name in schema.names]), strict=True):
        by_text = dict(rows.group_by(name).len().iter_rows())
        for label, count in zip(schema[name].texts, found, strict=True):
            if label != "other":
                assert by_text.get(label, 0) == count, name
        assert found.sum() == len(rows)


def test_the_delimiter_is_the_one_that_finds_the_expected_names(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("income (EUR; monthly; net),age\n5,3\n7,4\n")
    schema = Schema((Attribute("age", "integer", low=0, high=9),))
    assert open_table(path, schema).marginals([("age",)])[0].sum() == 2


def test_paths_inside_a_query_start_in_the_folder_given(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "people.csv").write_text("age\n3\n4\n")
    monkeypatch.chdir(tmp_path)
    query = "select * from read_csv('people.csv', all_varchar = true)"
    schema = Schema((Attribute("age", "integer", low=0, high=9),))
    assert open_table(query, schema, folder=tmp_path / "data").n == 2
    with pytest.raises(SourceError):
        open_table(query, schema)


def test_a_ragged_file_can_be_drafted_from_and_is_refused_when_read(tmp_path):
    path = tmp_path / "ragged.csv"
    path.write_text("a,b\n1,2\n1,2,3\n")
    assert column_types(path) == [("a", "text"), ("b", "text")]
    schema = Schema((Attribute("a", "integer", low=0, high=9),))
    with pytest.raises(SourceError) as caught:
        open_table(path, schema).marginals([("a",)])
    assert "UTF-8" not in str(caught.value)
