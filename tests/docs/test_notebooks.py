"""Every notebook of docs/ runs from its first cell to its last, and shows what it showed when it was stored.

Cells with the tag ``noise`` show released values, which differ from run to run: of these only the kind of output is
compared. Lines that begin with ``!nabladp`` are commands.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from doc_pages import DOCS
from typer.testing import CliRunner

from nabladp.cli import answer
from nabladp.cli.app import app

NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))
Shown = list[tuple[str, str]]  # the kind of each output of a cell, and its text


def run_command(line: str) -> Shown:
    program, *arguments = shlex.split(line.removeprefix("!"))
    assert program == "nabladp"
    done = CliRunner().invoke(app, arguments, prog_name="nabladp")
    assert done.exit_code == 0, done.output
    return [("stream", done.output)]


def run_code(text: str, names: dict[str, Any], where: str) -> Shown:
    """As a notebook does: what is printed, and the value of the last expression."""
    tree, value, printed = ast.parse(text), None, io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec", dont_inherit=True), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval", dont_inherit=True), names)
    shown = [("stream", printed.getvalue())] if printed.getvalue() else []
    return shown if value is None else [*shown, ("execute_result", repr(value))]


def stored(cell: dict[str, Any]) -> Shown:
    outputs = cell["outputs"]
    return [(own["output_type"], "".join(own.get("text") or own["data"]["text/plain"])) for own in outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    monkeypatch.chdir(tmp_path)
    for console in (answer.out, answer.err):
        monkeypatch.setattr(console, "_width", 100)
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            text, where = "".join(cell["source"]), f"{path.name}, {cell['id']}"
            shown = run_command(text) if text.startswith("!") else run_code(text, names, where)
            if "noise" in cell["metadata"].get("tags", ()):
                assert [kind for kind, _ in shown] == [kind for kind, _ in stored(cell)], where
            else:
                assert shown == stored(cell), where


def test_there_is_a_notebook_and_the_docs_lead_to_it() -> None:
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        assert any(f"({path.name})" in page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")), path.name
