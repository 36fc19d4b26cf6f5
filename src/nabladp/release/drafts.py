"""First drafts for a table: a schema, and a plan beside it. Kinds come from the table, domains from a code book or from
a person, values from nowhere."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nabladp.errors import PlanError, SchemaError, SourceError, quote
from nabladp.schema import CodeBook, Column, draft
from nabladp.schema.files import entries, parse, toml_text
from nabladp.schema.rules import CONFIRM, block_name, marked_blocks
from nabladp.tables import check_population as check_population
from nabladp.tables import count_rows as count_rows
from nabladp.tables import declared_categories, look_at_columns
from nabladp.tables import doubtful_header as doubtful_header
from nabladp.tables import headerless_query as headerless_query
from nabladp.tables import query_files as query_files

_PLAN = """\
# Draft of a plan. Finish the schema first; then, in this folder:
#   nabladp check {plan}     does the table match its schema? (for the owner of the table alone)
#   nabladp cost {plan}      what the plan costs, and how large its errors are; spends nothing
#   nabladp release {plan} --new-ledger

[table]
source = {source}
schema = {schema}
# rows = 1000                   # the public number of rows, if you know it: then `cost` needs no table

# Where people have several rows, name the column that says whose a row is; remove it from the schema. docs/many-rows.md
# [person]
# id = "patient"
# rows = 5                      # at most so many rows of each person are used
# row_id = "visit"              # the column that orders them, such as a running number

# The budget is for the people in the table, not for one release: choose it once, and keep one ledger for them.
# cdp = 0.5 means ρ = 0.5²/2 = 0.125. Which figures are right: docs/faq.md, "How do I choose a budget?"
[budget]
ledger = "ledger.db"
per_attribute = {{ cdp = 0.5 }}    # every attribute by itself
person = {{ rho = {person} }}          # all of a person's attributes together
# attributes = {{ {example} = {{ cdp = 0.2 }} }}    # some attributes less

# A table of counts for each attribute. In place of k: sets = [["a", "b"]] for tables of several attributes together.
[[release]]
name = "one-way"
mechanism = "NoisyMarginals"
k = 1
budget = {{ cdp = 0.3 }}

# [[release]]
# name = "pairs"
# mechanism = "NoisyMarginals"
# sets = [{pair}]
# budget = {{ cdp = 0.3 }}

# Whose knowledge to show in the report, besides each attribute and the person:
# [[adversary]]
# name = "a neighbour"
# attributes = {pair}
"""
_RELEASE, _LIMIT = 0.3, 0.5  # cdp of the release and of each attribute


@dataclass(frozen=True)
class Drafted:
    """The drafts of a schema and a plan: their texts, the columns of the table, and which blocks are not finished."""

    schema: str
    plan: str
    listed: Sequence[Column]
    to_fill_in: tuple[str, ...]
    to_confirm: tuple[str, ...]

    @property
    def columns(self) -> int:
        return len(self.listed)


def draft_schema(source: Any, codebook: Any = None, *, header: bool | None = None) -> str:
    """Draft a schema for a source, as TOML.

    ``codebook`` is a :class:`CodeBook`, the path of one, or a parsed data dictionary. What neither it nor the table's
    types (categories, enums) say is marked for a person to fill in. ``header=False`` is for a CSV file without a
    header, ``header=True`` for one whose names look like values.
    """
    columns = columns_of(source, header)
    book, declared = _book(codebook, columns), [] if isinstance(source, str | Path) else declared_categories(source)
    if declared:
        known = () if book is None else tuple(book.variables.values())
        book = CodeBook([*(own for own in declared if book is None or book.get(own.name) is None), *known])
    return draft(columns, book)


def draft_plan(source: Any, schema: str = "schema.toml", *, header: bool | None = None) -> str:
    """Draft a plan for a source and the schema file of this name, as TOML."""
    return _plan(_address(source, None, header), schema, "plan.toml", columns_of(source, header))


def draft_files(
    source: str | Mapping[str, Any], schema: Path, plan: Path, codebook: Any, header: bool | None = None
) -> Drafted:
    """Draft both files for a source, as they will stand at these paths."""
    columns = columns_of(source, header)
    text = draft(columns, _book(codebook, columns))
    blocks = entries(parse(text))
    marked = marked_blocks(blocks)
    waiting = [block_name(own) for own in blocks if CONFIRM in own and block_name(own) not in marked]
    folder = plan.resolve().parent
    described = _plan(_address(source, folder, header), os.path.relpath(schema.resolve(), folder), plan.name, columns)
    return Drafted(text, described, columns, tuple(marked), tuple(waiting))


def write_new(path: Path, text: str, option: str) -> None:
    """Write a draft into a new file."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        error = SchemaError if option == "--schema" else PlanError
        raise error(
            f"{path.name!r} exists already.", fix=f"Move it away, or name another file: {option} new-{path.name}."
        ) from None
    except OSError:
        raise SourceError(f"Cannot write {path.name!r}.", fix="Check that its folder exists and is writable.") from None


def columns_of(source: Any, header: bool | None = None) -> list[Column]:
    """The columns of a source; ``header`` says whether the first line of a CSV file names them."""
    columns = look_at_columns(headerless_query(source) if header is False else source, header)
    if not columns:
        raise SchemaError("The table has no columns with a name.", fix="Name its columns.")
    return columns


def _book(codebook: Any, columns: Sequence[Column]) -> CodeBook | None:
    """The code book of a table; one that describes none of its columns is refused."""
    if codebook is None:
        return None
    if isinstance(codebook, str | Path):
        codebook = CodeBook.load(codebook)
    elif isinstance(codebook, Mapping | list):
        codebook = CodeBook.from_json(codebook)
    if not isinstance(codebook, CodeBook):
        raise SchemaError("A code book is given by its path or as a dictionary.", fix='Write codebook="codes.json".')
    if not any(codebook.get(column.name) for column in columns):
        listed = ", ".join(quote(name) for name in list(codebook.variables)[:4])
        raise SchemaError(
            f"The code book describes no column of the table: its variables are {listed}"
            f"{', …' if len(codebook) > 4 else ''}.",
            fix="Give the code book of this table, or name its variables as the table names its columns.",
        )
    return codebook


def _address(source: Any, folder: Path | None, header: bool | None) -> str | Mapping[str, Any]:
    """A source as a plan names it: a path from the plan's folder, a query, or what Spark reads."""
    if isinstance(source, Mapping):
        return source
    if not isinstance(source, str | Path):
        return "people.parquet"
    if isinstance(source, str) and not Path(source).exists() and source.lstrip()[:6].lower().startswith(_QUERIES):
        return source
    path = str(source) if folder is None else os.path.relpath(Path(source).absolute(), folder)
    return headerless_query(source, path) if header is False else path


_QUERIES = ("select", "from", "with")


def _plan(source: str | Mapping[str, Any], schema: str, name: str, columns: Sequence[Column]) -> str:
    pair = [column.name for column in columns[:2]]
    rho = max(1.0, len(columns) * _RELEASE**2 / 2 * 1.25)
    return _PLAN.format(
        plan=shlex.quote(name),
        source=toml_text(source),
        schema=toml_text(schema),
        person=f"{rho:.1f}",
        example=toml_text(pair[0]),
        pair="[" + ", ".join(map(toml_text, pair)) + "]",
    )
