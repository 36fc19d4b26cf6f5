"""The version stands in several files; all say the same. And who reports a fault finds the page for it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import nabladp

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "CITATION.cff": r"^version: (\S+)$",
    "CHANGELOG.md": r"^## (\S+)$",
    "docs/known-limits.md": r"\bversion (\d+\.\d+\.\d+)",
}


def test_every_file_names_the_same_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert version == nabladp.__version__
    for name, pattern in PLACES.items():
        found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.M)
        assert found is not None and found[1] == version, name


def test_pages_that_strangers_look_for_are_there_and_linked() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for name in ("SECURITY.md", "CHANGELOG.md", "README.md"):
        assert (ROOT / name).exists() and f"(../{name})" in index
    assert "nabladp" in (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()[2]
