"""Files with code books: which kind a file is, and those that are tables: a line for each value of a variable."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nabladp.checks import as_path, near_file, read_file
from nabladp.errors import MissingPart, SchemaError, SourceError, quote_path
from nabladp.schema.codebook_json import variables_of
from nabladp.schema.codebook_variable import Variable, code_text, number_of, only_range
from nabladp.schema.codebook_xml import variables_of_ddi

_MOST_BYTES = 64 << 20
_KINDS = (
    "a data dictionary (.json), a table of variable, value and label (.csv), DDI (.xml), Stata (.dta) or SPSS (.sav)"
)
_STATISTICAL = {".dta": "read_dta", ".sav": "read_sav", ".zsav": "read_sav"}


def read_codebook(path: str | Path) -> list[Variable]:
    """The variables of a code book in a file; its ending says what it is."""
    where = as_path(path, "The code book")
    named, ending = quote_path(where), where.suffix.lower()
    if ending in _STATISTICAL and where.is_file():
        return _value_labels(where, _STATISTICAL[ending])
    readers: dict[str, Any] = {".json": _json, ".csv": _table, ".tsv": _table, ".xml": variables_of_ddi}
    reader = readers.get(ending)
    if reader is None:
        raise SourceError(f"The code book {named} has an unknown file type.", fix=f"Give {_KINDS}.", path=str(where))
    try:
        content = read_file(where, f"The code book {named}", _MOST_BYTES)
        return list(reader(content))
    except (UnicodeDecodeError, csv.Error, RecursionError) as fault:
        rule = "is not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else "cannot be read"
        raise SchemaError(
            f"The code book {named} {rule}.", fix="Save it as UTF-8, complete.", path=str(where)
        ) from None
    except SourceError:
        raise
    except FileNotFoundError:
        raise SourceError(
            f"There is no code book {named}.", fix=near_file(where, "Check the path."), path=str(where)
        ) from None
    except OSError as error:
        reason = error.strerror or "unreadable"
        fix = "Give the path of a readable file."
        raise SourceError(f"The code book {named} cannot be read: {reason}.", fix=fix, path=str(where)) from None


def _json(content: bytes) -> Iterator[Variable]:
    try:
        data = json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as fault:
        rule = f"it is not valid JSON (line {fault.lineno}, column {fault.colno})"
        raise SchemaError(f"The code book cannot be read: {rule}.", fix="Correct that line.") from None
    return variables_of(data)


def _value_labels(path: Path, function: str) -> list[Variable]:
    """The labels in a file of Stata or SPSS. None of its rows is read."""
    try:
        import pyreadstat
    except ImportError:
        fix = "Install it: pip install 'nabladp[stata]'."
        raise MissingPart("Files of Stata and SPSS are read by pyreadstat, which is not installed.", fix=fix) from None
    try:
        _, facts = getattr(pyreadstat, function)(str(path), metadataonly=True)
    except Exception:  # its messages may quote the file
        fix = "Check that it is complete and of the kind its name says."
        raise SchemaError(f"The code book {quote_path(path)} cannot be read.", fix=fix, path=str(path)) from None
    variables = []
    for name in facts.column_names:
        ranges = [(own["lo"], own["hi"]) for own in (facts.missing_ranges or {}).get(name, ())]
        values = {code_text(code): label for code, label in facts.variable_value_labels.get(name, {}).items()}
        single = [code_text(low) for low, high in ranges if low == high]
        inside = [code for code in values if any(low <= number <= high for low, high in ranges
                  if isinstance(low, float) and (number := number_of(code)) is not None)]  # fmt: skip
        missing = (*single, *inside, *map(code_text, (facts.missing_user_values or {}).get(name, ())))
        variables.append(
            Variable(
                name=name,
                title=facts.column_names_to_labels.get(name) or "",
                values=values,
                missing=tuple(dict.fromkeys(missing)),
                ordered=(facts.variable_measure or {}).get(name) == "ordinal",
            )
        )
    return variables


# ---- tables: a line for each value -----------------------------------------------------------------------------------

_HEADS = {
    "variable": ("variable", "variable_name", "var", "varname", "name", "field", "field_name", "column", "column_name"),
    "value": ("value", "values", "code", "codes", "level", "category", "key"),
    "label": ("label", "value_label", "meaning", "category_label", "code_label", "text", "value_description"),
    "description": ("description", "variable_label", "variable_description", "question", "definition"),
    "title": ("title",),
    "unit": ("unit", "units"),
    "low": ("low", "min", "minimum"),
    "high": ("high", "max", "maximum"),
    "missing": ("missing", "is_missing", "null"),
}
_FIX = "Let its first line be variable,value,label; then a line for each value of each variable."
_TRUE = ("1", "true", "t", "yes", "y", "x")


def _table(content: bytes) -> Iterator[Variable]:
    text = content.decode("utf-8-sig")
    first = text.partition("\n")[0]
    delimiter = max(",;\t|", key=first.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    heads = [_head(cell) for cell in next(lines, [])]
    if heads[:1] == ["variable"] and _is_census(first):
        return _census(lines, first)
    if "variable" not in heads or not {"value", "label", "low", "description"}.intersection(heads):
        raise SchemaError("The code book has no columns 'variable', 'value' and 'label'.", fix=_FIX)
    if "label" not in heads and "description" in heads and "value" in heads:
        heads[heads.index("description")] = "label"
    return _variables([dict(zip(heads, line, strict=False)) for line in lines])


def _head(cell: str) -> str:
    word = cell.strip().lower().replace(" ", "_").replace("-", "_")
    return next((head for head, words in _HEADS.items() if word in words), "")


def _variables(rows: Sequence[Mapping[str, str]]) -> Iterator[Variable]:
    """Variables from their lines; where a name is left out it is the one above."""
    groups: dict[str, list[Mapping[str, str]]] = {}
    name = ""
    for row in rows:
        name = row.get("variable", "").strip() or name
        if name and any(cell.strip() for cell in row.values()):
            groups.setdefault(name, []).append(row)
    return (_of_rows(name, own) for name, own in groups.items())


def _of_rows(name: str, rows: Sequence[Mapping[str, str]]) -> Variable:
    values = {code: row.get("label", "").strip() for row in rows if (code := row.get("value", "").strip())}
    first = {key: _first(rows, key) for key in ("title", "unit", "description", "low", "high")}
    described = next((row.get("label", "").strip() for row in rows if not row.get("value", "").strip()), "")
    low, high = number_of(first["low"]), number_of(first["high"])
    span = only_range(values)
    if span is not None and low is None and high is None:
        code, low, high = span
        del values[code]
    missing = [row["value"].strip() for row in rows if row.get("missing", "").strip().lower() in _TRUE]
    return Variable(
        name=name,
        title=first["title"],
        description=first["description"] or described,
        unit=first["unit"],
        values=values,
        low=low,
        high=high,
        missing=tuple(code for code in missing if code),
    )


def _first(rows: Iterable[Mapping[str, Any]], key: str) -> str:
    return next((text for row in rows if (text := str(row.get(key) or "").strip())), "")


# The dictionaries of the American Community Survey: lines NAME,AGEP,N,2,"Age" and VAL,AGEP,N,2,1,99,"1 to 99 years"


def _is_census(first: str) -> bool:
    return first.startswith("NAME,")


def _census(lines: Iterable[list[str]], first: str) -> Iterator[Variable]:
    rows: list[dict[str, str]] = []
    for line in (next(csv.reader([first])), *lines):
        if line[0] == "NAME" and len(line) >= 5:
            rows.append({"variable": line[1], "description": line[4].strip()})
        elif line[0] == "VAL" and len(line) >= 7:
            low, high = line[4].strip(), line[5].strip()
            blank = set(low) <= {"b", "B"}  # b stands for a blank
            numeric = line[2] == "N" and low != high
            code = "" if blank else f"{low}..{high}" if numeric else low
            rows.append({"variable": line[1], "value": code, "label": "" if numeric or blank else line[6].strip()})
    return _variables(rows)
