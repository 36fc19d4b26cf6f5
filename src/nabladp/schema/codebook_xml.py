"""Code books in DDI, the XML that archives of surveys publish (DDI Codebook 1.2 to 2.6).

Only elements and text are read: no entity is expanded, no other file or address is opened, and depth and size are
bounded. Frequencies and statistics of the data, which such files may hold as well, are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.parsers import expat

from nabladp.errors import SchemaError
from nabladp.schema.codebook_variable import MOST_VARIABLES, Variable, number_of

_DEEPEST = 60
_MOST_TEXT = 10_000  # characters of one element
_FIX = "Give a DDI code book: an XML file with <var> elements."


def variables_of_ddi(content: bytes) -> list[Variable]:
    """The variables of a DDI code book."""
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = _refuse_entities
    try:
        parser.Parse(content, True)
    except expat.ExpatError as fault:
        raise SchemaError(f"The code book is not valid XML (line {fault.lineno}).", fix=_FIX) from None
    if not reader.variables:
        raise SchemaError("The code book has no <var> elements.", fix=_FIX)
    return reader.variables


def _refuse_entities(*_: Any) -> None:
    raise SchemaError("The code book declares entities, which are not expanded.", fix="Remove its <!ENTITY …> lines.")


class _Reader:
    """What the parser has met so far. ``path`` are the names of the open elements, without namespaces."""

    def __init__(self) -> None:
        self.variables: list[Variable] = []
        self._path: list[str] = []
        self._texts: list[str] = []
        self._var: dict[str, Any] = {}
        self._code: dict[str, str] = {}

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        name = name.rpartition(" ")[2]
        self._path.append(name)
        if len(self._path) > _DEEPEST or len(self.variables) > MOST_VARIABLES:
            raise SchemaError("The code book is nested too deeply, or has too many variables.", fix=_FIX)
        self._texts.append("")
        if name == "var":
            self._var = {"name": attributes.get("name", ""), "values": {}, "missing": []}
            self._var["ordered"] = attributes.get("nature") == "ordinal"
        elif name == "catgry":
            self._code = {"missing": attributes.get("missing", "N")}
        elif name == "range" and "valrng" in self._path:
            self._var |= {"low": number_of(attributes.get("min")), "high": number_of(attributes.get("max"))}
        elif name == "item" and "invalrng" in self._path and attributes.get("VALUE"):
            self._var["missing"].append(attributes["VALUE"].strip())

    def text(self, text: str) -> None:
        if self._texts and len(self._texts[-1]) < _MOST_TEXT:
            self._texts[-1] += text

    def end(self, _: str) -> None:
        name, text = self._path.pop(), self._texts.pop().strip()
        parent = self._path[-1] if self._path else ""
        if name == "labl" and parent == "var":
            self._var.setdefault("title", text)
        elif name == "qstnLit" or (name == "txt" and parent == "var"):
            self._var.setdefault("description", text)
        elif parent == "catgry" and name in ("catValu", "labl"):
            self._code.setdefault(name, text)
        elif name == "catgry" and self._code.get("catValu"):
            code = self._code["catValu"]
            self._var["values"][code] = self._code.get("labl", "")
            if self._code["missing"].upper() in ("Y", "YES", "TRUE"):
                self._var["missing"].append(code)
        elif name == "var" and self._var.get("name"):
            self._var["missing"] = tuple(dict.fromkeys(self._var["missing"]))
            self.variables.append(Variable(**self._var))
