"""Tables that are wrong in every way we know: each is an error of ours, and none quotes the data."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nabladp.errors import DataError, NablaDPError, SourceError
from nabladp.schema import Attribute, Schema
from nabladp.tables import check_table, column_types, open_table, values_at_fault

SCHEMA = Schema(
    (Attribute("age", "integer", low=0, high=99), Attribute("job", "categorical", values=("cook", "nurse")))
)


def fails(kind: type[NablaDPError], says: str, source, schema: Schema = SCHEMA) -> NablaDPError:
    """Opening, counting or a pass fails with this error, and nothing of the data is in it."""
    with pytest.raises(NablaDPError) as caught:
        table = open_table(source, schema)
        assert table.n > 0
        table.marginals([schema.names])
    error = caught.value
    assert type(error) is kind and says in str(error) and error.fix, str(error)
    shown = "".join(traceback.format_exception(error))
    assert "CANARY" not in shown and "CANARY" not in str(error.to_json())
    return error


def csv(folder, text: str | bytes, name: str = "people.csv") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


GOOD = "age,job\n30,cook\n40,nurse\n"
BAD_FILES = {
    "short row": ("age,job\n30,cook\nCANARY\n", SourceError, "rows of different lengths"),
    "long row": ("age,job\n30,cook\n30,cook,CANARY\n", SourceError, "rows of different lengths"),
    "late long row": ("age,job\n" + "30,cook\n" * 300_000 + "1,cook,CANARY\n", SourceError, "rows of different"),
    "latin-1": ("age,job\n30,cook\n30,CANARY-\xe9\n".encode("latin-1"), SourceError, "UTF-8"),
    "late latin-1": (b"age,job\n" + b"30,cook\n" * 300_000 + b"30,CANARY-\xe9\n", SourceError, "UTF-8"),
    "latin-1 header": ("age,job,\xe9\n30,cook,CANARY\n".encode("latin-1"), SourceError, "UTF-8"),
    "utf-16": ("age,job\n30,CANARY\n".encode("utf-16"), SourceError, "UTF-8"),
    "binary": (bytes(range(256)) * 50, SourceError, "not a text file"),
    "zeros": (b"\x00" * 5000, SourceError, "not a text file"),
    "open quote": ('age,job\n30,"CANARY\n', SourceError, "does not end"),
    "open quote in header": ('age,"job\n30,CANARY\n', DataError, "names no column of the schema"),
    "mixed line ends": ("age,job\n30,cook\r\n31,CANARY\n", SourceError, "regular CSV"),
    "empty file": ("", SourceError, "is empty"),
    "header only": ("age,job\n", DataError, "no rows"),
    "no header": ("30,CANARY-cook\n40,CANARY-nurse\n", DataError, "names no column of the schema"),
    "near name": ("agee,job\n30,cook\n", DataError, "Did you mean 'agee'"),
    "twice": ("age,job,age\n30,CANARY,31\n", DataError, "'age' twice"),
    "outside": ("age,job\n30,CANARY\n", DataError, "'job' holds values outside"),
    "text for a number": ("age,job\nCANARY,cook\n", DataError, "'age' holds values outside"),
    "null": ("age,job\n,cook\n", DataError, "'age' holds empty values"),
    "infinite": ("age,job\ninf,cook\n", DataError, "'age' holds values outside"),
    "nan": ("age,job\nNaN,cook\n", DataError, "'age' holds empty values"),
}


@pytest.mark.parametrize("fault", BAD_FILES)
def test_csv_files_at_fault(fault, tmp_path):
    text, kind, says = BAD_FILES[fault]
    fails(kind, says, csv(tmp_path, text))


def test_one_row_and_one_attribute(tmp_path):
    one = Schema((SCHEMA["age"],))
    table = open_table(csv(tmp_path, "age\n30\n"), one)
    assert table.n == 1 and table.marginals([("age",)])[0][30] == 1


def test_byte_order_mark_and_line_ends_and_quoted_names(tmp_path):
    for text in (b"\xef\xbb\xbf" + GOOD.encode(), GOOD.replace("\n", "\r\n"), GOOD.replace("age", '"age"')):
        assert open_table(csv(tmp_path, text), SCHEMA).marginals([("job",)])[0].tolist() == [1, 1]


def test_names_may_hold_anything(tmp_path):
    names = ("a b", "c'd", 'e"f', "select", "G", "g", "h i", "{j}", "k;l", "ñ")
    schema = Schema(tuple(Attribute(name, "integer", low=0, high=20) for name in names))
    frame = pd.DataFrame([range(len(names))], columns=list(names))
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    quoted = ", ".join(f'{i} as "{name.replace(chr(34), chr(34) * 2)}"' for i, name in enumerate(names))
    for source in (tmp_path / "a.csv", tmp_path / "a.parquet", f"select {quoted}", frame):
        table = open_table(source, schema)
        assert [int(counts.argmax()) for counts in table.marginals([(name,) for name in names])] == list(range(10))


def test_two_thousand_attributes(tmp_path):
    schema = Schema(tuple(Attribute(f"a{i}", "integer", low=0, high=1) for i in range(2000)))
    codes = np.random.default_rng(0).integers(0, 2, (30, 2000))
    frame = pd.DataFrame(codes, columns=list(schema.names))
    frame.to_csv(tmp_path / "wide.csv", index=False)
    frame.to_parquet(tmp_path / "wide.parquet")
    for source in ("wide.csv", "wide.parquet"):
        found = open_table(tmp_path / source, schema).marginals([(name,) for name in schema.names])
        np.testing.assert_array_equal(np.array(found)[:, 1], codes.sum(axis=0))


def test_paths_that_lead_nowhere(tmp_path):
    fails(SourceError, "There is no file", str(tmp_path / "absent.csv"))
    fails(SourceError, "is a folder", str(tmp_path))
    fails(SourceError, "No file matches", str(tmp_path / "*.csv"))
    fails(SourceError, "a file type that is not read", csv(tmp_path, GOOD, "people.doc"))
    fails(SourceError, "There is no file", "x" * 5000 + ".csv")
    fails(SourceError, "There is no file", "a\0b.csv")
    for address in ("https://example.org/people.csv", "postgresql://me:CANARY*@h/d", "host=h password=CANARY"):
        fails(SourceError, "on this machine", address)


def test_files_that_are_not_what_they_are_called(tmp_path):
    fails(SourceError, "cannot be read", csv(tmp_path, "CANARY", "people.parquet"))
    fails(SourceError, "cannot be", csv(tmp_path, "CANARY", "people.csv.gz"))
    fails(SourceError, "cannot be read", csv(tmp_path, gzip.compress(GOOD.encode() * 1000)[:-20], "cut.csv.gz"))
    fails(SourceError, "JSON", csv(tmp_path, '{"age": "CANARY', "people.json"))
    fails(SourceError, "JSON", csv(tmp_path, '{"age": 1, "job": "cook"}\n{"age": CANARY}\n' * 30000, "people.ndjson"))
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"age": list(range(90)), "job": ["cook"] * 90}), whole, compression="none")
    data = bytearray(whole.read_bytes())
    data[4:60] = b"\xff" * 56
    fails(SourceError, "cannot be read", csv(tmp_path, bytes(data), "broken.parquet"))


def test_a_file_that_may_not_be_read(tmp_path):
    path = csv(tmp_path, GOOD)
    os.chmod(path, 0)
    me = os.geteuid()
    try:
        if me == 0:
            os.seteuid(65534)  # the superuser may read anything
        with pytest.raises(SourceError) as caught:
            open_table(path, SCHEMA)
    finally:
        os.seteuid(me)
    assert "permission" in str(caught.value).lower()


def test_one_file_of_a_glob_lacks_a_column(tmp_path):
    csv(tmp_path, GOOD, "1.csv")
    csv(tmp_path, "age,jobs\n30,cook\n", "2.csv")
    assert "2.csv" in str(fails(DataError, "Did you mean 'jobs'", str(tmp_path / "*.csv")))


BAD_QUERIES = {
    "select from where": "is not valid",
    "select * from nowhere": "is not valid",
    "select agee from (select 1 as age)": "is not valid",
    "select 1 as age; drop table x": "must only select",
    "with a as (select 1 as age) select cast('CANARY-x' as int) as age, 'cook' as job": "cannot convert",
    "from 'no-such-file.csv'": "does not exist",
    "select * from read_parquet('https://example.org/x.parquet')": "cannot be read",
    "from 'postgresql://me:CANARY@h/d'": "is an address",
    "select error('CANARY') as age, 'cook' as job": "cannot be read",
}


@pytest.mark.parametrize("query", BAD_QUERIES)
def test_queries_at_fault(query):
    fails(SourceError, BAD_QUERIES[query], query)


def test_queries_see_no_python_and_install_nothing():
    people = pa.table({"age": [1], "job": ["cook"]})
    fails(SourceError, "is not valid", "select * from people")
    assert people.num_rows == 1
    fails(SourceError, "must only select", "with a as (select 1) insert into b select * from a")
    fails(SourceError, "There is no file", "install httpfs")


def test_queries_with_repeated_missing_or_no_rows():
    fails(DataError, "'age' twice", "select 1 as age, 2 as age, 'cook' as job")
    fails(DataError, "Did you mean 'jobb'", "select 1 as age, 'cook' as jobb")
    fails(DataError, "no rows", "select 1 as age, 'cook' as job where false")
    table = open_table("FROM (values (1, 'cook'), (2, 'cook')) t(age, job);", SCHEMA)
    assert table.n == 2 and table.marginals([("job",)])[0].tolist() == [2, 0]


def test_rows_that_change_between_passes(tmp_path):
    path = csv(tmp_path, GOOD)
    table = open_table(path, SCHEMA)
    assert table.n == 2
    csv(tmp_path, GOOD + "50,cook\n")
    with pytest.raises(DataError, match="number of rows"):
        table.marginals([("age",)])
    with pytest.raises(DataError, match="number of rows"):
        open_table(path, SCHEMA, rows=7).marginals([("age",)])
    assert open_table(path, SCHEMA, rows=3).marginals([("job",)])[0].tolist() == [2, 1]
    for rows in (0, -1, 2.0, True):
        with pytest.raises(DataError, match="above zero"):
            open_table(path, SCHEMA, rows=rows)


def test_frames_at_fault():
    good = pd.DataFrame({"age": [1], "job": ["cook"]})
    fails(DataError, "twice", pd.concat([good, good], axis=1))
    fails(DataError, "no rows", good.head(0))
    fails(DataError, "Did you mean 'Job'", good.rename(columns={"job": "Job"}))
    fails(DataError, "outside", pd.DataFrame({"age": [1, "CANARY"], "job": ["cook", "cook"]}))
    fails(DataError, "empty values", pd.DataFrame({"age": [1, None, pd.NA], "job": ["cook"] * 3}))
    fails(DataError, "outside", pl.DataFrame({"age": [1], "job": ["CANARY"]}))
    fails(SourceError, "read only once", pa.table({"age": [1]}).to_reader())
    fails(SourceError, "that it was made from", pl.DataFrame({"age": [1]}).group_by("age"))
    fails(SourceError, "names", pd.Series([1, 2]))
    fails(SourceError, "A list cannot be read", [1, 2])
    fails(SourceError, "A NoneType cannot be read", None)


def test_pandas_columns_of_mixed_objects():
    frame = pd.DataFrame({"age": [1, "2", 3.0, "4.0"], "job": pd.Series(["cook"] * 4, dtype=object)})
    assert open_table(frame, SCHEMA).marginals([("age",)])[0][:6].tolist() == [0, 1, 1, 1, 1, 0]


def test_opening_reads_no_rows(tmp_path):
    open_table(csv(tmp_path, "age,job\nCANARY,CANARY,CANARY\n"), SCHEMA)
    assert repr(open_table(csv(tmp_path, GOOD), SCHEMA)) == "Table(2 attributes)"


def test_opening_loads_no_other_library(tmp_path):
    path = csv(tmp_path, GOOD)
    program = f"""
import sys
from nabladp.schema import Attribute, Schema
from nabladp.tables import open_table
open_table({path!r}, Schema((Attribute("age", "integer", low=0, high=99),)))
print(sorted({{"pandas", "polars", "numba", "scipy"}} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "[]"


SLOW = "select i % 100 as age, 'cook' as job from range(1000000000000) t(i) where i < 500000 or hash(i) = 3"


@pytest.mark.parametrize("rows", [None, 600_000], ids=["while counting rows", "during a pass"])
def test_ctrl_c_stops_a_pass_and_leaves_no_thread(rows):
    def press():
        os.kill(os.getpid(), signal.SIGINT)

    table = open_table(SLOW, SCHEMA, rows)
    before = threading.active_count()
    timer = threading.Timer(0.5, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        table.marginals([("age",)])
    timer.join()
    assert threading.active_count() == before


def test_an_error_in_a_kernel_stops_the_stream():
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        open_table(SLOW, SCHEMA, 600_000).fold(lambda batch: 1 / 0)
    assert threading.active_count() == before


# check_table and column_types

BANDED = Schema(
    (
        *SCHEMA.attributes,
        Attribute("band", "ordered", values=("young", "old"), derived_from=("age",)),
        Attribute("mix", "integer", low=0, high=200, derived_from=("age", "band")),
    )
)


def banded(ages, **columns) -> pd.DataFrame:
    given = {"age": ages, "job": ["cook"] * len(ages), "band": ["old" if age > 40 else "young" for age in ages]}
    return pd.DataFrame({**given, "mix": [2 * age for age in ages], **columns})


def test_check_names_every_column_at_fault():
    frame = banded([1, 50, 60], job=["cook", "CANARY", None], band=["young", "old", "CANARY"])
    findings = check_table(open_table(frame, BANDED))
    assert [(f.column, "empty" in f.rule) for f in findings] == [("job", True), ("job", False), ("band", False)]
    assert all(f.fix and "CANARY" not in str(f.to_json()) for f in findings)


def test_check_looks_at_derived_columns(monkeypatch):
    ages = list(range(100)) * 50
    assert check_table(open_table(banded(ages), BANDED)) == []
    frame = banded(ages)
    frame.loc[4999, "band"] = "young"
    (finding,) = check_table(open_table(frame, BANDED))
    assert finding.column == "band" and "not a function of 'age'" in finding.rule and finding.rows == 1
    values = values_at_fault(open_table(frame, BANDED), [finding])
    assert values == {"band": ["age = 99, band = 'old'", "age = 99, band = 'young'"]}
    monkeypatch.setattr("nabladp.tables.opening.KEPT_ROWS", 10)
    monkeypatch.setattr("nabladp.tables.duck.BATCH_VALUES", 0)
    assert check_table(open_table(banded(ages), BANDED)) == []
    assert [f.column for f in check_table(open_table(frame, BANDED))] == ["band"]


@pytest.mark.parametrize("texts", [False, True])
def test_a_derived_column_follows_from_values_not_from_bins(texts, tmp_path):
    """Who is of age follows from the age, not from its bin of ten years."""
    schema = Schema(
        (
            Attribute("age", "real", edges=(0, 10, 20, 30)),
            Attribute("adult", "boolean", derived_from=("age",)),
        )
    )
    ages = [1, 17.5, 18, 19, 29] * 20
    frame = pd.DataFrame({"age": ages, "adult": [age >= 18 for age in ages]})
    path = tmp_path / "people.csv"

    def findings():
        frame.to_csv(path, index=False)
        return check_table(open_table(path if texts else frame, schema))

    assert findings() == []
    frame.loc[99, "adult"] = False
    (finding,) = findings()
    assert finding.column == "adult" and "not a function of 'age'" in finding.rule


def test_values_at_fault_are_shown_as_they_stand():
    """For the owner's own screen: with the spaces around them, and all columns of a rule between some."""
    declared = (
        Attribute("age", "integer", low=0, high=99),
        Attribute("job", "categorical", values=("cook", "pilot")),
        Attribute("years", "integer", low=0, high=99),
        Attribute("grown", "boolean", formula="age >= 18"),
    )
    schema = Schema(declared, rules=("years <= age - 14",))
    frame = pd.DataFrame(
        {"age": [30, 40, 10], "job": ["cook", "cook ", "pilot"], "years": [3, 39, 0], "grown": [True, True, True]}
    )
    table = open_table(frame, schema)
    assert values_at_fault(table, check_table(table)) == {
        "job": ["'cook '"],
        "years": ["years = 39, age = 40", "years = 0, age = 10"],
        "grown": ["age = 10, grown = true"],
    }


def test_hints_where_values_are_nearly_right(tmp_path):
    job = Attribute("job", "categorical", values=("cook", "pilot"))
    age = Attribute("age", "integer", low=0, high=99)
    rows = 'age,job\n1, cook\n"2,0","pilot "\n3,cook\n4,CANARY\n'
    table = open_table(csv(tmp_path, rows), Schema((age, job)))
    by_column = {finding.column: finding for finding in check_table(table)}
    assert by_column["job"].fix.startswith("Some have spaces around them: remove these.") and by_column["job"].rows == 3
    assert by_column["age"].fix.startswith("Some have a decimal comma: write a point.") and by_column["age"].rows == 1
    assert "CANARY" not in str([finding.to_json() for finding in by_column.values()])
    shown = {"age": ["'2,0'"], "job": ["' cook'", "'pilot '", "'CANARY'"]}
    assert values_at_fault(table, check_table(table)) == shown
    plain = open_table(csv(tmp_path, "age,job\n1,CANARY\n"), Schema((age, job)))
    assert check_table(plain)[0].fix.startswith("Widen the domain")


def test_utf_16_is_named(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes("age,job\n1,cook\n".encode("utf-16"))
    with pytest.raises(SourceError, match="UTF-8") as refused:
        open_table(path, SCHEMA)
    assert "utf-16" in refused.value.fix


def test_check_skips_derivations_of_columns_at_fault():
    frame = banded([1, 1], band=["young", "old"])
    frame["age"] = [1, 1000]
    assert {f.column for f in check_table(open_table(frame, BANDED))} == {"age", "mix"} - {"mix"}


@pytest.mark.parametrize(
    ("given", "says"),
    [("age,job,a", "column 'b'."), ("age,job", "column 'a' (nor 1 other)."), ("age", "column 'job' (nor 2 others).")],
)
def test_missing_columns_are_counted(tmp_path, given, says):
    schema = Schema((*SCHEMA, Attribute("a", "boolean"), Attribute("b", "boolean")))
    fails(DataError, says, csv(tmp_path, f"{given}\n{given}\n"), schema)


def test_check_sees_faults_late_in_a_file(tmp_path):
    path = csv(tmp_path, "age,job\n" + "30,cook\n" * 100_000 + "300,cook\n30,pilot\n")
    assert [f.column for f in check_table(open_table(path, SCHEMA))] == ["age", "job"]


def test_column_types(tmp_path):
    frame = pd.DataFrame(
        {"i": [1, 2], "r": [0.5, 1.5], "t": ["x", "y"], "b": [True, False], "d": pd.to_datetime(["2026-01-31"] * 2)}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.assign(d="2026-01-31").to_json(tmp_path / "a.json", orient="records")
    words = list(zip("irtbd", ["integer", "real", "text", "boolean", "date"], strict=True))
    for source in ("a.csv", "a.parquet", "a.json"):
        assert column_types(tmp_path / source) == words
    for source in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), frame.astype("category")):
        assert column_types(source) == words
    assert column_types("select 1 as i, 1.5::double as r, 'x' as t, true as b, date '2026-01-31' as d") == words
