"""Nobody but the browser that was let in reaches a studio, nothing outside of its folder is read, and no value is ever
said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench._studio_attacks import ATTACKS, WORD, Target, leaks, served, write_folder


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("attacked") / "work"
    write_folder(folder)
    with served(folder) as running:
        yield running


def test_there_are_enough() -> None:
    assert len(ATTACKS) >= 25


@pytest.mark.parametrize("name", ATTACKS)
def test_refused(target: Target, name: str) -> None:
    assert ATTACKS[name](target) == ""


def test_nothing_outside_or_in_the_table_was_ever_said(target: Target) -> None:
    """The last test of this file: it looks at all answers so far."""
    assert target.page("/table").status == 200  # and it is still there
    assert len(target.answers) > 100 and list((target.folder / ".nabladp").iterdir())
    assert leaks(target) == []


def test_a_leak_is_seen(target: Target) -> None:
    seen = replace(target, answers=[*target.answers, f"<p>{WORD}</p>"])
    assert leaks(seen) == [f"<p>{WORD}</p>"]
