"""A studio that runs, as a browser or an attacker meets it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench._studio_attacks import Target, served, write_folder

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("starlette")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a made-up table, its schema and a plan."""
    write_folder(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def studio(folder: Path) -> Iterator[Target]:
    with served(folder) as target:
        yield target


@pytest.fixture
def chromium(browser: Browser) -> Browser:
    return browser
