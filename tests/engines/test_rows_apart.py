"""Each row is read by itself: what one person holds never changes how another's values are read.

Sensitivity stands on this. Every source kind is opened whole and row by row, with awkward values mixed in.
"""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nabladp.errors import DataError
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema
from nabladp.tables import Encoder, open_table

ATTRIBUTES = {
    "numbers as text": Attribute(
        "v", "categorical", values=("1", "2", "true", "2026-01-31"), null="category", unknown="other"
    ),
    "numbers": Attribute("v", "ordered", values=(1, 2.5, 3), null="category", unknown="other"),
    "integer": Attribute("v", "integer", low=0, high=3, null="category", unknown="other"),
    "real": Attribute("v", "real", edges=(0, 1, 2, 3), null="category", unknown="other"),
    "boolean": Attribute("v", "boolean", null="category", unknown="other"),
    "missing by name": Attribute(
        "v", "integer", low=0, high=3, null="category", null_values=(2, "unknown"), unknown="other"
    ),
}
VALUES: list[Any] = [
    1.0,
    2,
    2.5,
    "1",
    "2",
    " 2",
    "unknown",
    True,
    np.False_,
    None,
    float("nan"),
    float("inf"),
    Decimal("2.50"),
    b"2",
    dt.date(2026, 1, 31),
    dt.datetime(2026, 1, 31),
    dt.datetime(2026, 1, 31, 8, 30, 0, 500000),
    pd.Timestamp("2026-01-31"),
    pd.NaT,
    10**30,
    [1, 2],
    object(),
    "\ud800",
    "",
    "true",
]


def codes(frame: Any, attribute: Attribute) -> list[int]:
    """Which code each row gets, through counts: one row at a time would hide what this test looks for."""
    schema = Schema((attribute,))
    batches = open_table(frame, schema)._source.batches(("v",))
    encoded = [Encoder(schema).encode(batch).column(0).to_pylist() for batch in batches]
    return list(itertools.chain.from_iterable(encoded))


def objects(values: list[Any]) -> pd.DataFrame:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return pd.DataFrame({"v": pd.Series(column, dtype=object)})


@pytest.mark.parametrize("attribute", ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_pandas_objects(attribute: Attribute) -> None:
    alone = [codes(objects([value]), attribute)[0] for value in VALUES]
    assert codes(objects(VALUES), attribute) == alone
    for (i, one), (j, other) in itertools.combinations(enumerate(VALUES), 2):
        assert codes(objects([one, other]), attribute) == [alone[i], alone[j]]


@pytest.mark.parametrize("attribute", ATTRIBUTES.values(), ids=ATTRIBUTES)
@pytest.mark.parametrize(
    "typed",
    [
        [1.0, 2.0, 2.5, 7.0],
        [1, 2, 3, 9],
        [True, False],
        [pd.Timestamp("2026-01-31"), pd.Timestamp("2026-01-31 08:30:00.5")],
        ["1", "x"],
    ],
    ids=["float", "int", "bool", "timestamp", "text"],
)
def test_a_typed_column_and_the_same_values_as_objects_agree(attribute: Attribute, typed: list[Any]) -> None:
    """A frame's column turns into objects when one person's value does not fit: nobody else's code may move."""
    whole = codes(pd.DataFrame({"v": typed}), attribute)
    assert codes(objects([*typed, "stranger"]), attribute)[:-1] == whole
    assert codes(pd.DataFrame({"v": pd.Categorical(typed)}), attribute) == whole
    mixed = pd.Categorical([*typed, "stranger"], categories=[*dict.fromkeys(typed), "stranger"])
    assert codes(pd.DataFrame({"v": mixed}), attribute)[:-1] == whole


def test_polars_objects() -> None:
    attribute = ATTRIBUTES["numbers as text"]
    values = [1.0, "1", None, True, object()]
    frame = pl.DataFrame({"v": pl.Series(values, dtype=pl.Object)})
    assert codes(frame, attribute) == [codes(objects([value]), attribute)[0] for value in values]


TEXTS = [
    "1",
    "1.0",
    " 1",
    "+1",
    "1e0",
    "0x1",
    "1_0",
    "nan",
    "inf",
    "-inf",
    "true",
    "Yes",
    "",
    "²",
    "١",
    "1,5",
    "--1",
    "1 2",
    "2026-01-31",
]


@pytest.mark.parametrize("attribute", ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_arrow_texts(attribute: Attribute) -> None:
    def read(values: list[str]) -> list[int]:
        return codes(pa.table({"v": pa.array(values, pa.string())}), attribute)

    alone = [read([text])[0] for text in TEXTS]
    assert read(TEXTS) == alone
    for (i, one), (j, other) in itertools.combinations(enumerate(TEXTS), 2):
        assert read([one, other]) == [alone[i], alone[j]]


def test_csv_texts(tmp_path: Any) -> None:
    attribute = ATTRIBUTES["numbers as text"]
    draws = NoiseSource.seeded(4)
    texts = [TEXTS[i] for i in draws.uniform_integers(len(TEXTS), 300)]
    alone = {t: codes(pa.table({"v": pa.array([t], pa.string())}), attribute)[0] for t in TEXTS}
    path = tmp_path / "people.csv"
    path.write_text("v,w\n" + "".join(f'"{t}",x\n' for t in texts))
    table = open_table(path, Schema((attribute,)))
    expected = np.bincount([alone[t] for t in texts], minlength=attribute.size)
    assert table.marginals([("v",)])[0].tolist() == expected.tolist()


def test_text_that_is_not_utf8_is_refused_without_showing_it() -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 3, 6], "i4")), pa.py_buffer(b"\xff12ok3")]
    )
    schema = Schema((Attribute("v", "integer", low=0, high=3, unknown="other"),))
    with pytest.raises(DataError, match="UTF-8") as caught:
        open_table(pa.table({"v": broken}), schema).marginals([("v",)])
    assert "12" not in str(caught.value)
