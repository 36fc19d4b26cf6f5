"""Code books: what public documentation says about the columns of a table, whatever the file it comes in.

A code book is as public as the place it was taken from. It is read as data: nothing in it is run, fetched or looked up
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nabladp.errors import SchemaError
from nabladp.schema.codebook_variable import MOST_VARIABLES, Variable

_EXAMPLE = 'Give a JSON object of variables, such as { "SEX": { "description": "Sex", "values": { "1": "Male" } } }.'


class CodeBook:
    """The variables of a code book, by name: as the table writes it, or else in another case."""

    def __init__(self, variables: Iterable[Variable]) -> None:
        self.variables = {variable.name: variable for variable in variables}
        if not self.variables:
            raise SchemaError("The code book names no variable.", fix=_EXAMPLE)
        if len(self.variables) > MOST_VARIABLES:
            raise SchemaError(f"The code book has more than {MOST_VARIABLES:,} variables.", fix="Give a part of it.")
        self._folded = {name.casefold(): variable for name, variable in self.variables.items()}

    def __len__(self) -> int:
        return len(self.variables)

    def get(self, name: str) -> Variable | None:
        return self.variables.get(name) or self._folded.get(name.strip().casefold())

    @classmethod
    def load(cls, path: str | Path) -> CodeBook:
        """Read a code book: a data dictionary or table schema in JSON, a CSV file of variable, value and label, DDI, or
        the value labels of a file of Stata or SPSS."""
        from nabladp.schema.codebook_files import read_codebook

        return cls(read_codebook(path))

    @classmethod
    def from_json(cls, data: Any) -> CodeBook:
        """A code book from a parsed data dictionary: an object of variables, each with a description and values."""
        from nabladp.schema.codebook_json import variables_of

        return cls(variables_of(data))
