"""What the columns of a source look like, for drafting a schema: names and kinds, never a value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nabladp.errors import DataError, SchemaError
from nabladp.schema import Column
from nabladp.schema.codebook_variable import Variable, code_text
from nabladp.tables.memory import Frame
from nabladp.tables.sources import Source, literal, open_source, scan_file
from nabladp.tables.spark import SparkFrame
from nabladp.tables.values import value_texts

_WHOLE = r"^[-+]?\d+(\.0*)?$"
_REAL = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
_NAME = r"^[-+]?0\d"  # digits that begin with a zero are an identifier, such as the code of a county
_DATE = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?$"
_TRUTH = r"(?i)^(true|false|yes|no)$"
_MOST_CODES = 10  # values that are no numbers, of a column of numbers
_GAPS = 100  # a column has gaps if at least one of this many fields is empty


def column_types(source: Any) -> list[tuple[str, str]]:
    """Each column of a source with a word for its type: ``integer``, ``real``, ``boolean``, ``date`` or ``text``."""
    opened = open_source(source)
    _, columns, _ = next(iter(opened.headers()))
    return list(zip(columns, opened.type_words(), strict=True))


def count_rows(source: Any) -> int:
    """How many rows a source has. Their number is public."""
    return open_source(source).count()


def look_at_columns(source: Any, header: bool | None = None) -> list[Column]:
    """What the first rows of a source say of its columns. A first line of a CSV file that may be a row is refused,
    unless ``header`` says that it holds names."""
    opened = open_source(source)
    what, names, is_text = next(iter(opened.headers()))
    what = what[0].lower() + what[1:]
    if is_text and not header and looks_like_a_row(names):
        raise SchemaError(
            f"The first line of {what} may be a row: a column has a number or a date for its name.",
            fix="Add --no-header if it is a row (in Python: header=False), or --header if it names the columns.",
        )
    times = Counter(names)
    twice = [number for number, name in enumerate(names, 1) if times[name] > 1]
    if twice:
        numbers = f"{twice[0]} and {twice[1]}" if len(twice) == 2 else f"{', '.join(map(str, twice[:6]))} …"
        raise DataError(f"Columns {numbers} of {what} have the same name.", fix="Rename them.")
    types = list(zip(names, opened.type_words(), strict=True))
    known = [(name, word) for name, word in types if name.strip()]  # a column without a name cannot be declared
    if isinstance(opened, SparkFrame):
        return [Column(name, word) for name, word in known]
    return _look_closer(opened, known)


def declared_categories(source: Any) -> list[Variable]:
    """The categories that the types of a data frame's columns declare. All but those of a polars Enum may have been
    collected from the data."""
    opened = open_source(source)
    if not isinstance(opened, Frame):
        return []
    found = []
    for index, name in enumerate(next(iter(opened.headers()))[1]):
        listed, ordered, observed = opened.categories(index)
        values = {code_text(value): "" for value in listed if value is not None}
        if values:
            found.append(Variable(name, values=values, ordered=ordered, observed=observed))
    return found


def doubtful_header(source: Any) -> bool:
    """Whether the first line of a CSV file may be a row, so that its owner should be asked."""
    _, names, is_text = next(iter(open_source(source).headers()))
    return is_text and looks_like_a_row(names)


def looks_like_a_row(names: Iterable[str]) -> bool:
    """Whether a CSV file's first line may hold somebody's values instead of names: columns are rarely called by a
    number or a date."""
    return any(re.fullmatch(r"\s*([-+]?[\d.,]+|\d{4}-\d\d-\d\d.*)\s*", name) for name in names)


def headerless_query(path: str | Path, shown: str = "") -> str:
    """A query that reads a CSV file without a header; its columns are called column_1, column_2, ….

    ``shown`` is the path to write, where that differs. Every field is read as text: no row decides how others are read.
    """
    scan = scan_file(Path(path))
    if not scan.header_is_text:
        raise DataError(f"{scan.what} is not a CSV file.", fix="Leave out --no-header.")
    names = ", ".join(f"'column_{number}'" for number in range(1, len(scan.columns) + 1))
    delimiter = re.search(r"delim='(.)'", scan.relation, re.DOTALL)
    sign = delimiter.group(1) if delimiter else ","
    where = literal(shown or str(path))
    return f"from read_csv({where}, header=false, all_varchar=true, delim={literal(sign)}, names=[{names}])"


def _look_closer(opened: Source, known: Sequence[tuple[str, str]]) -> list[Column]:
    names = tuple(name for name, _ in known)
    with closing(opened.batches(names, ordered=True)) as batches:
        batch = next(batches, None)
    if batch is None:
        return [Column(name, word) for name, word in known]
    return [_column(name, word, batch.column(name)) for name, word in known]


def _column(name: str, word: str, column: pa.Array) -> Column:
    texts = value_texts(column)
    empty = pc.sum(pc.or_kleene(pc.is_null(texts), pc.equal(pc.fill_null(texts, ""), ""))).as_py() or 0
    gaps = empty * _GAPS >= max(len(texts), 1)
    if word not in ("text", "integer", "real"):
        return Column(name, word, gaps=gaps)
    distinct = texts.filter(pc.not_equal(texts, "")).unique()
    if word != "text":
        whole = len(distinct) and _matches(distinct, _WHOLE) == len(distinct)  # 1.0 is what some programs write for 1
        return Column(name, "text" if _matches(distinct, _NAME) else "integer" if whole else word, gaps=gaps)
    return Column(name, *_of_texts(distinct), gaps)


def _of_texts(distinct: pa.Array) -> tuple[str, bool]:
    """A word for a column of texts, and whether it is of numbers with some codes between them."""
    numbers, total = _matches(distinct, _REAL), len(distinct)
    codes = total - numbers
    if numbers and not _matches(distinct, _NAME) and codes < numbers and codes <= _MOST_CODES:
        return ("integer" if _matches(distinct, _WHOLE) == numbers else "real"), codes > 0
    for word, form in (("date", _DATE), ("boolean", _TRUTH)):
        if total and _matches(distinct, form) == total:
            return word, False
    return "text", False


def _matches(texts: pa.Array, form: str) -> int:
    return pc.sum(pc.match_substring_regex(texts, form)).as_py() or 0
