"""Kinds of input: tables from every kind of source. Values outside their domains are canaries."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench._fuzz_files import odd_path
from bench._fuzz_kind import Call, Kind, calls
from bench._fuzz_privacy import SCHEMA
from bench._fuzz_scene import Scene, bad_people, csv_text, people
from bench._fuzz_values import CANARY_TEXT, mutated, mutated_bytes, mutated_text, odd
from nabladp.tables import CodedTable, Encoder, alike, check_table, column_types, decode, open_table, recode

Columns = dict[str, list[Any]]


def use(rng: random.Random, source: Any, **options: Any) -> None:
    """Opened, counted or checked; nothing of it may be shown."""
    if rng.random() < 0.2:
        column_types(source)
        return
    table = open_table(source, SCHEMA, **options)
    repr(table)
    if rng.random() < 0.3:
        for finding in check_table(table):
            print(finding)
        return
    table.marginals([["age"], ["sick", "band"]])


def columns(rng: random.Random) -> Columns:
    return bad_people(rng) if rng.random() < 0.5 else people(rng.choice((1, 20, 60)), rng.randrange(5))


def csv_file(rng: random.Random, scene: Scene) -> None:
    path = scene.place() / f"data.{rng.choice(('csv', 'tsv', 'CSV', 'txt', 'csv'))}"
    text = csv_text(columns(rng), rng.choice((",", ";", "\t", "|")))
    head, _, rest = text.partition("\n")
    rest = mutated_text(rng, rest) if rng.random() < 0.7 else rest
    head = mutated_text(rng, head) if rng.random() < 0.3 else head
    content = f"{head}\n{rest}".encode("utf-8", "surrogatepass")
    path.write_bytes(mutated_bytes(rng, content) if rng.random() < 0.2 else content)
    use(rng, rng.choice((path, str(path))))


def gzip_file(rng: random.Random, scene: Scene) -> None:
    path = scene.place() / rng.choice(("data.csv.gz", "data.json.gz", "data.tsv.gz"))
    pick = rng.random()
    if pick < 0.06:
        path.write_bytes(_bomb(b'"' + b"a\n" * 10))
    elif pick < 0.1:
        path.write_bytes(_bomb(b"a,b\n"))
    else:
        content = gzip.compress(mutated_text(rng, csv_text(columns(rng))).encode("utf-8", "surrogatepass"), 1)
        path.write_bytes(mutated_bytes(rng, content) if pick < 0.7 else content)
    use(rng, path)


_BOMBS: dict[bytes, bytes] = {}


def _bomb(start: bytes) -> bytes:
    """A small file that unpacks to 64 MB, most of it in one record."""
    if start not in _BOMBS:
        _BOMBS[start] = gzip.compress(start + b"x" * (1 << 26), 1)
    return _BOMBS[start]


def _arrow(rng: random.Random, given: Columns) -> pa.Table:
    """Each column of one type, or as text."""
    arrays = {}
    for name, values in given.items():
        if len({type(value) for value in values} - {type(None)}) > 1 or rng.random() < 0.1:
            arrays[name] = pa.array([None if value is None else str(value) for value in values])
        else:
            arrays[name] = pa.array(values)
    return pa.table(arrays)


def parquet_file(rng: random.Random, scene: Scene) -> None:
    path = scene.place() / rng.choice(("data.parquet", "data.pq"))
    sink = io.BytesIO()
    pq.write_table(_arrow(rng, columns(rng)), sink, compression=rng.choice(("none", "zstd", "snappy")))
    content = sink.getvalue()
    path.write_bytes(mutated_bytes(rng, content) if rng.random() < 0.6 else content)
    use(rng, path)


def json_file(rng: random.Random, scene: Scene) -> None:
    path = scene.place() / rng.choice(("data.json", "data.ndjson", "data.jsonl"))
    given = columns(rng)
    rows = [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
    text = json.dumps(rows) if rng.random() < 0.3 else "\n".join(map(json.dumps, rows))
    if rng.random() < 0.6:
        text = mutated_text(rng, text)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    use(rng, path)


def glob_source(rng: random.Random, scene: Scene) -> None:
    place = scene.place()
    for number in range(rng.randrange(3)):
        (place / f"part{number}.csv").write_text(csv_text(columns(rng)))
    if rng.random() < 0.3:
        odd_path(rng, place, "part9.csv")
    pattern = rng.choice(("*.csv", "part?.csv", "**/*.csv", "part[0-9].csv", "[", "*", "**", "part*\0", "?" * 300))
    use(rng, f"{place}/{mutated_text(rng, pattern)}" if rng.random() < 0.5 else str(place / pattern))


def query(rng: random.Random, scene: Scene) -> None:
    right = "select region, age, income, sick, unused, band from read_csv('data/people.csv')"
    made = (
        right,
        f"{right} where secret like '%'",
        right.replace("age,", "cast(secret as integer) as age,"),
        right.replace("age,", "error(secret) as age,"),
        right.replace("age,", "1/(number - number) as age,"),
        "select 1",
        "select * from 'http://127.0.0.1:1/x.csv'",
        f"{right}; drop table x",
        "from read_csv('data/people.csv')",
        "with a as (select 1) select * from a",
        "select " + "(" * 2000 + "1" + ")" * 2000,
        "select * from read_text('/etc/hostname')",
        right.replace("data/people.csv", "\0"),
    )
    text = rng.choice(made)
    if rng.random() < 0.6:
        text = mutated_text(rng, text)
    use(rng, text, folder=scene.folder)


def pandas_frame(rng: random.Random, scene: Scene) -> None:
    import pandas as pd

    frame = pd.DataFrame(columns(rng))
    pick = rng.random()
    name = rng.choice(SCHEMA.names)
    if pick < 0.3:
        frame[name] = frame[name].astype(rng.choice(("category", "string", "object")))
    elif pick < 0.5:
        values = [odd(rng) if i == 0 else value for i, value in enumerate(frame[name].astype(object))]
        try:
            frame[name] = values
        except UnicodeEncodeError:  # of pandas, which then takes them as objects only
            frame[name] = pd.Series(values, dtype=object)
    elif pick < 0.6:
        frame.columns = [*frame.columns[:-1], rng.choice(("age", 3, None, ("a", "b")))]
    elif pick < 0.7:
        frame = frame.set_index(name) if rng.random() < 0.5 else frame.iloc[:0]
    use(rng, frame)


def polars_frame(rng: random.Random, scene: Scene) -> None:
    import polars as pl

    given = columns(rng)
    name = rng.choice(SCHEMA.names)
    if rng.random() < 0.3:
        given[name] = [[value] for value in given[name]]
    frame = pl.DataFrame(given, strict=False)
    if rng.random() < 0.2:
        frame = frame.with_columns(pl.Series(name, [object() for _ in given[name]], dtype=pl.Object))
    use(rng, frame.lazy() if rng.random() < 0.1 else frame)


def arrow_table(rng: random.Random, scene: Scene) -> None:
    table = _arrow(rng, columns(rng))
    pick = rng.random()
    place = rng.randrange(table.num_columns)
    rows = table.num_rows
    if pick < 0.5:
        strange: tuple[Callable[[], Any], ...] = (
            lambda: pa.array([[1]] * rows),
            lambda: pa.array([{"a": 1}] * rows),
            lambda: pa.array([b"\xff"] * rows),
            lambda: pa.nulls(rows),
            lambda: pa.array([2**63 - 1] * rows).cast(pa.decimal128(38, 2), safe=False),
            lambda: pa.array(["x"] * rows).dictionary_encode(),
            lambda: pa.array([CANARY_TEXT] * rows),
            lambda: pa.array([1] * rows).cast(pa.timestamp("us")),
            lambda: pa.array([float("nan")] * rows),
        )
        table = table.set_column(place, table.column_names[place], rng.choice(strange)())
    elif pick < 0.6:
        table = table.append_column(rng.choice(SCHEMA.names), pa.array([0] * rows))
    elif pick < 0.65:
        use(rng, table.to_reader())
        return
    use(rng, table.to_batches()[0] if rng.random() < 0.2 else table)


def odd_source(rng: random.Random, scene: Scene) -> None:
    """A pipe, a device, a folder, a mapping, or any other object."""
    pick = rng.random()
    if pick < 0.5:
        source = odd_path(rng, scene.place(), f"data.{rng.choice(('csv', 'parquet', 'json', 'csv.gz'))}")
    elif pick < 0.7:
        source = mutated(rng, {"spark": "nothing", "path": "x", "options": {"header": True}})
        if isinstance(source, dict) and isinstance(source.get("spark"), str) and source["spark"] in _SPARK:
            return
    else:
        source = odd(rng)
    rows = odd(rng) if rng.random() < 0.2 else None
    use(rng, source, **({} if rows is None else {"rows": rows}))


_SPARK = ("csv", "parquet", "json", "jdbc", "orc", "table", "delta", "iceberg", "sql")


def coded() -> list[Call]:
    codes = {attribute.name: np.zeros(5, np.int64) for attribute in SCHEMA}
    right = {name: [0, 1, 1] for name in ("age", "sick")}
    table = CodedTable(SCHEMA, codes)
    return [
        Call(CodedTable, (SCHEMA, codes), then=(lambda found: found.marginals([["age"]]),)),
        Call(decode, (SCHEMA, right)),
        Call(recode, (SCHEMA["age"], pa.array([1, 2, None]))),
        Call(alike, (SCHEMA["age"],)),
        Call(Encoder, (SCHEMA, ["age", "sick"])),
        Call(table.marginals, ([["age"], ["sick", "band"]],)),
        Call(open_table, (pa.table(people(5)), SCHEMA)),
        Call(check_table, (open_table(pa.table(people(5)), SCHEMA),)),
        Call(column_types, (pa.table(people(5)),)),
    ]


def _is_data(path: Path) -> bool:
    return True  # every file here is a table that this module wrote


def _kind(name: str, once: Callable[[random.Random, Scene], None], full: int, quick: int) -> Kind:
    return Kind(name, once, full, quick, Scene.build, permitted=_is_data, warm=_open_all)


def _open_all(scene: Scene) -> None:
    import pandas as pd
    import polars as pl

    few = people(5)
    for source in (scene.folder / "data" / "people.csv", pa.table(few), pd.DataFrame(few), pl.DataFrame(few)):
        table = open_table(source, SCHEMA)
        table.marginals([["age"]])
        check_table(table)


KINDS: tuple[Kind, ...] = (
    _kind("CSV files", csv_file, 3000, 100),
    _kind("gzip files", gzip_file, 2500, 80),
    _kind("Parquet files", parquet_file, 3000, 100),
    _kind("JSON files", json_file, 2500, 80),
    _kind("globs", glob_source, 2500, 80),
    _kind("queries", query, 2500, 80),
    _kind("pandas tables", pandas_frame, 4000, 150),
    _kind("polars tables", polars_frame, 4000, 150),
    _kind("Arrow tables", arrow_table, 6000, 200),
    _kind("odd sources", odd_source, 4000, 150),
    calls("coded tables", coded, 20_000, 500),
)
