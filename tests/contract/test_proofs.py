"""A proof note that no longer matches its code fails here.

The fingerprint covers the code of the mechanism's folder, and the modules beside it that it imports (how budgets are
shared out, what noise they buy), without comments, docstrings and layout. How an output is shown in a report, or to the
table's owner next to the true values, is no part of it. When it changes, read the proof again against
the new code, mend it, and only then write the new fingerprint into PROOF.md.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import io
import re
import tokenize
from pathlib import Path

import pytest

import nabladp.mechanisms
from nabladp.mechanisms import MECHANISMS, mechanism_class

ROOM = Path(nabladp.mechanisms.__file__).parent
FOLDERS = [Path(inspect.getfile(mechanism_class(name))).parent for name in MECHANISMS]
SHOWING = ("view.py", "query_views.py", "tidy.py")  # how outputs are shown: they decide nothing that is released
ANCHOR = re.compile(r"\[([a-z][a-z-]+)\]")
MISWRITTEN = re.compile(r"# \[[a-z]+(?: [a-z]+)+\]")  # an anchor with a space is none


def bare_code(text: str) -> str:
    """The code without comments, docstrings and white space."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            first = node.body[0]
            for number in range(first.lineno - 1, first.end_lineno or first.lineno):
                lines[number] = "\n"
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1].strip():
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + "\n"
    return "".join("".join(lines).split())


def comments(text: str) -> str:
    found = (t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT)
    return "\n".join(comment for comment in found if not comment.startswith("# type:"))


def shared(folder: Path) -> list[Path]:
    """The modules beside and above it that the folder's code imports, but for the interface of all mechanisms."""
    text = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    above = {ROOM, folder.parent}
    beside = (p for place in above for p in place.glob("*.py") if p.stem not in ("__init__", "mechanism"))
    return sorted(path for path in beside if f"{_module(path)} import" in text)


def _module(path: Path) -> str:
    return ".".join(("nabladp.mechanisms", *path.relative_to(ROOM).with_suffix("").parts))


def fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in [*sorted(folder.rglob("*.py")), *shared(folder)]:
        if path.name in SHOWING:
            continue
        digest.update(path.relative_to(ROOM).as_posix().encode())
        digest.update(bare_code(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]


def test_modules_that_only_show_take_no_part_in_a_release() -> None:
    """So that they may be left out of fingerprints: no mechanism imports them, and they draw no noise."""
    shown = {path for path in ROOM.rglob("*.py") if path.name in SHOWING}
    assert {path.name for path in shown} == set(SHOWING)
    for path in shown:
        text = path.read_text(encoding="utf-8")
        assert "nabladp.noise" not in text and "nabladp.privacy" not in text and not ANCHOR.search(comments(text))
    for path in (own / "mechanism.py" for own in FOLDERS):
        text = path.read_text(encoding="utf-8")
        assert not [module for module in map(_module, shown) if f"{module} import" in text], path


def test_every_folder_of_the_room_is_a_listed_mechanism() -> None:
    found = {p.parent for p in ROOM.rglob("*/__init__.py")} - {ROOM}
    inside = {folder for folder in found if set(folder.parents) & set(FOLDERS)}  # parts of a mechanism
    around = {folder for folder in found if any(folder in listed.parents for listed in FOLDERS)}  # such as learners
    assert found - inside - around == set(FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_proof_is_current(folder: Path) -> None:
    proof = (folder / "PROOF.md").read_text(encoding="utf-8")
    stated = re.search(r"^fingerprint: (\w+)$", proof, re.MULTILINE)
    now = fingerprint(folder)
    what = f"check the proof against the code, then write this line into PROOF.md:\nfingerprint: {now}\n"
    assert stated and stated[1] == now, what
    for heading in ("## Claim", "## What the code checks", "## Steps", "## Numerics", "## Differences from the paper"):
        assert heading in proof


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_anchors_in_code_and_proof_are_the_same(folder: Path) -> None:
    proof = set(ANCHOR.findall((folder / "PROOF.md").read_text(encoding="utf-8")))
    code: set[str] = set()
    for path in folder.rglob("*.py"):
        code |= set(ANCHOR.findall(comments(path.read_text(encoding="utf-8"))))
        assert not MISWRITTEN.findall(comments(path.read_text(encoding="utf-8"))), path
    assert code == proof and code


def test_fingerprint_ignores_comments_and_layout_but_sees_constants() -> None:
    base = 'def f(x):\n    """Doc."""\n    return 2 * x  # why\n'
    assert bare_code(base) == bare_code('def f(x):\n    """Other."""\n\n    return 2 * x\n')
    assert bare_code(base) != bare_code(base.replace("2", "1"))
