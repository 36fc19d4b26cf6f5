"""The scripts of examples/ run as they are, and print what docs/examples.md says they do."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
STORIES = dict(re.findall(r"\]\(\.\./(examples/\w+\.py)\).*?```text\n(.*?)```", PAGE, flags=re.DOTALL))


def test_every_script_is_told() -> None:
    assert set(STORIES) == {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.parametrize("script", STORIES)
def test_example_runs(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / script), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    told = STORIES[script].splitlines()
    assert [line for line in printed if line in told] == told
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"
