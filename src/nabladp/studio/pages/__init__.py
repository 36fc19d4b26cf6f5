"""The pages of the studio, in the order of its steps. A new page is one more title here, and a module of that name."""

from __future__ import annotations

from importlib import import_module

from nabladp.studio.visit import Page

HOME = "overview"
STEPS = {
    "table": "Table",
    "columns": "Columns",
    "limits": "Limits",
    "questions": "Questions",
    "release": "Release",
    "ledger": "Ledger",
}


def find_page(name: str) -> Page | None:
    """The page of this name, if there is one."""
    return load_page(name) if name == HOME or name in STEPS else None


def load_page(name: str) -> Page:
    """A page's module is loaded when somebody first opens it: the first page of all needs little."""
    page: Page = import_module(f"{__name__}.{name}").PAGE
    return page


__all__ = ["HOME", "STEPS", "find_page", "load_page"]
