"""Parts of the system that may be missing: skipped by name, or a failure where all are required."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_part_is_skipped_by_name(program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NABLADP_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="chromium not found"):
        program("chromium")


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_part_fails_where_all_are_required(
    program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NABLADP_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match="java is required here"):
        program("java")
