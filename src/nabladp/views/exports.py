"""Tables on their way to an analyst's desk: pandas, polars, CSV and Excel."""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from nabladp.errors import MissingPart, SourceError, quote_path
from nabladp.views.tables import arrow_format, plain_value

if TYPE_CHECKING:
    import pyarrow as pa

MOST_LINES = 1_048_575  # of a spreadsheet, below its heads
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_SHEET_NAME = re.compile(r"[\[\]:*?/\\\x00-\x1f]")
_MOST_SHEET_NAME, _MOST_LETTERS = 31, 32_767
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class Exported(ABC):
    """Whatever is a table: ``to_arrow`` makes it, the other forms follow."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The table in Arrow's form."""

    def to_pandas(self) -> Any:
        """The table as a pandas data frame; labels are categories in the order of the schema."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise MissingPart("Data frames need pandas.", fix="Install pandas, or use to_arrow().") from None
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The table as a polars data frame."""
        try:
            import polars
        except ImportError:
            raise MissingPart("Polars frames need polars.", fix="Install polars, or use to_arrow().") from None
        return polars.from_arrow(self.to_arrow())

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: str | Path) -> None: ...
    def to_csv(self, path: str | Path | None = None) -> str | None:
        """Write the table as CSV; without a path, return its text."""
        content = csv_bytes(self.to_arrow())
        if path is None:
            return content.decode()
        write_file(path, content)
        return None

    def to_excel(self, path: str | Path) -> None:
        """Write the table into an Excel file. Needs ``nabladp[excel]``."""
        if Path(path).suffix.lower() != ".xlsx":
            raise SourceError("An Excel file ends in .xlsx.", fix='Give a name such as "values.xlsx".')
        write_file(path, excel_bytes(self.sheets()))

    def sheets(self) -> Mapping[str, pa.Table]:
        """The sheets of its Excel file by name."""
        return {"values": self.to_arrow()}


def write_file(path: str | Path, content: bytes) -> None:
    try:
        Path(path).write_bytes(content)
    except (OSError, TypeError, ValueError):
        raise SourceError(
            f"The file {quote_path(path)} cannot be written.", fix="Check that its folder exists and is writable."
        ) from None


# ---- as text ---------------------------------------------------------------------------------------------------------


def preview(table: pa.Table, most: int) -> list[list[str]]:
    """The first rows of a table as texts; null is empty."""
    columns = [column.to_pylist() for column in table.slice(0, most).columns]
    return [[short_text(value) for value in row] for row in zip(*columns, strict=True)]


def short_text(value: Any) -> str:
    """A value for people: four digits of a number that is not whole, thousands apart."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() or abs(value) >= 10_000 else f"{value:,.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(plain_value(value))


def text_table(table: pa.Table, most: int = 10) -> str:
    """The first rows of a table as lines of text, in columns."""
    rows = [list(table.column_names), *preview(table, most)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = [arrow_format(kind) == "text" for kind in table.schema.types]
    lines = [
        "  ".join(f"{cell:{'<' if text else '>'}{width}}" for cell, width, text in zip(row, widths, left, strict=True))
        for row in rows
    ]
    more = table.num_rows - most
    return "\n".join([line.rstrip() for line in lines] + ([f"… and {more:,} more rows"] if more > 0 else []))


# ---- CSV -------------------------------------------------------------------------------------------------------------


def csv_bytes(table: pa.Table) -> bytes:
    """A table as CSV, UTF-8, every text in quotes, an empty field for null.

    A spreadsheet takes a text that begins with =, +, - or @ for a formula, and a formula in a file from somebody else
    may read other files. Such a text gets an apostrophe in front, unless it is a plain number.
    """
    import pyarrow.csv

    sink = io.BytesIO()
    pyarrow.csv.write_csv(_without_formulas(table), sink)
    return sink.getvalue()


def plain_text(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _without_formulas(table: pa.Table) -> pa.Table:
    import pyarrow as pa

    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            column = pa.chunked_array([_join_lists(column)])
        if _is_text(column.type):
            column = column.combine_chunks()
            column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            if isinstance(column, pa.ChunkedArray):
                column = pa.concat_arrays(column.unify_dictionaries().chunks)
            safe = pa.array([plain_text(text) for text in column.dictionary.to_pylist()], pa.string())
            column = safe.take(column.indices)
        columns.append(column)
    return pa.table(columns, names=[plain_text(name) for name in table.column_names])


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _join_lists(column: pa.ChunkedArray) -> pa.Array:
    """Lists as texts: their members, separated by "; "."""
    import pyarrow as pa

    texts = [None if row is None else "; ".join(map(str, row)) for row in column.to_pylist()]
    return pa.array(texts, pa.string())


# ---- Excel -----------------------------------------------------------------------------------------------------------


def excel_bytes(sheets: Mapping[str, pa.Table]) -> bytes:
    """Tables as the sheets of one Excel file. Texts are written as texts, whatever they begin with."""
    try:
        import openpyxl
    except ImportError:
        raise MissingPart("Excel files need openpyxl.", fix="Install nabladp[excel], or write CSV.") from None
    for name, table in sheets.items():
        if table.num_rows > MOST_LINES:
            raise SourceError(
                f"{name!r} has {table.num_rows:,} rows; a sheet holds {MOST_LINES:,}.", fix="Write CSV, or use Parquet."
            )
    book, taken = openpyxl.Workbook(write_only=True), set[str]()
    for name, table in sheets.items():
        sheet = book.create_sheet(_sheet_name(name, taken))
        sheet.freeze_panes = "A2"
        columns = [column.to_pylist() for column in table.columns]
        for row in (table.column_names, *zip(*columns, strict=True)):
            sheet.append([_excel_cell(sheet, value) for value in row])
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def _excel_cell(sheet: Any, value: Any) -> Any:
    """A number as it is; anything else as a text, which is never a formula."""
    from openpyxl.cell import WriteOnlyCell

    if value is None or isinstance(value, int | float):
        return value if value == value else None
    text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
    cell = WriteOnlyCell(sheet, _CONTROL.sub("?", text)[:_MOST_LETTERS])
    cell.data_type = "s"
    return cell


def _sheet_name(name: str, taken: set[str]) -> str:
    """A name that Excel accepts, and that no other sheet has."""
    plain = _SHEET_NAME.sub("_", name).strip("'") or "values"
    chosen, number = plain[:_MOST_SHEET_NAME], 1
    while chosen.casefold() in taken:
        number += 1
        chosen = f"{plain[: _MOST_SHEET_NAME - len(str(number)) - 1]}_{number}"
    taken.add(chosen.casefold())
    return chosen
