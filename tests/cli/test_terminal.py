"""What people see: it fits 80 columns, long work shows how far it is, and stdout stays clean for machines."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from nabladp.cli import answer, show


def on_a_terminal(desk: Any, *arguments: str, until: str = "", stdout: int | None = None) -> tuple[int, str]:
    """Exit code and everything a terminal gets; Ctrl-C is typed once ``until`` is seen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *desk.program(), *desk.with_ledger(arguments)],
        cwd=desk.folder,
        env=dict(os.environ, COLUMNS="80", TERM="xterm"),
        stdin=subprocess.DEVNULL,
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen, stopped, end = b"", False, time.monotonic() + 90
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other side is gone
                break
            if not part:
                break
            seen += part
        if until and not stopped and re.search(until, seen.decode(errors="replace")):
            process.send_signal(signal.SIGINT)
            stopped = True
    os.close(ours)
    return process.wait(timeout=30), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


def test_progress_in_rows_goes_to_stderr(busy: Any) -> None:
    with (busy.folder / "answer.json").open("wb") as file:
        code, seen = on_a_terminal(busy, "release", "plan.toml", "--json", stdout=file.fileno())
    assert code == 0
    done = [int(rows.replace(",", "")) for rows in re.findall(r"pairs: counting rows.*?([\d,]+) of 300,000\b", seen)]
    assert len(set(done)) > 2 and done == sorted(done) and 0 < done[0] < done[-1]
    assert (busy.folder / "answer.json").read_bytes().startswith(b"{\n")


ROUNDS = """
import time
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
whole = NoisyMarginals.run
def run(self, counts, noise):
    for done in range(5):
        counts.working("round", done, 40)
        time.sleep(0.25)
    counts.working("fitting", 0, 0)
    time.sleep(0.25)
    return whole(self, counts, noise)
NoisyMarginals.run = run
"""


def test_a_mechanism_shows_how_far_its_own_work_is(desk: Any) -> None:
    desk.before = ROUNDS
    code, seen = on_a_terminal(desk, "release", "plan.toml")
    assert code == 0
    rounds = [int(done) for done in re.findall(r"pairs: round +\S+ (\d) of 40 \d:", seen)]
    assert len(set(rounds)) > 2 and rounds == sorted(rounds)
    assert re.search(r"pairs: fitting +━{24} +\d:", seen), "where no share is known, none is shown"


def test_the_bar_goes_back_to_waiting_and_never_stops_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "err", Console(file=io.StringIO(), force_terminal=True, width=80))
    made: list[Any] = []
    build = Progress.add_task
    monkeypatch.setattr(
        Progress, "add_task", lambda bar, *given, **named: (made.append(bar), build(bar, *given, **named))[1]
    )
    with answer.working("opening") as tell:
        (shown,) = made[0].tasks
        tell("counting rows", 7, 7)
        assert (shown.completed, shown.total, shown.fields["share"]) == (7, 7, "7 of 7") and shown.finished
        tell("adding noise")
        assert (shown.completed, shown.total, shown.fields["share"]) == (0, None, "") and not shown.finished
        tell("round", 1_234, 40_000)
        assert (shown.percentage, shown.fields["share"]) == (pytest.approx(3.085), "1,234 of 40,000")


def test_ctrl_c_at_the_bar(busy: Any) -> None:
    code, seen = on_a_terminal(busy, "release", "plan.toml", until=r"of 300,000\b")
    assert code == 130 and "Interrupted." in seen and "nabladp ledger" in seen
    assert len(busy.unfinished()) == 1 and busy.hidden() == []


def test_no_progress_where_nobody_watches(desk: Any) -> None:
    said = desk.process("release", "plan.toml")
    assert said.code == 0 and said.err == ""


def test_a_terminal_that_knows_no_greek(desk: Any) -> None:
    plain = "import sys\nsys.stdout.reconfigure(encoding='ascii', errors='strict')"
    said = desk.process("release", "plan.toml", "--to", "für alle", "--test-seed", "1", before=plain)
    assert said.code == 0 and "TEST" in said.out and "f?r alle" in said.out and said.err == ""


def test_everything_fits_eighty_columns(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for console in (answer.out, answer.err):
        monkeypatch.setattr(console, "_width", 80)
    desk.plan(("a neighbour", "a neighbour who has known the family for many years and reads the newspaper"))
    said = [desk.run("cost", "plan.toml"), desk.run("release", "plan.toml", "--to", "a-rather-long-name-for-a-folder")]
    desk.plan(("budget = { cdp = 0.2 }", "budget = { cdp = 0.9 }"))
    said += [desk.run("cost", "plan.toml"), desk.run("release", "plan.toml", "--to", "x"), desk.run("ledger")]
    desk.csv("people.csv", [["region", "age", "income", "health"], ["nowhere", "-1", "", "perhaps"]])
    said += [desk.run("check", "people.csv"), desk.run("--help"), desk.run("ledger", "--help")]
    for answered in said:
        lines = (answered.out + answered.err).splitlines()
        assert lines
        for line in lines:
            assert len(line) <= 80 or line.startswith("  nabladp") or str(desk.folder) in line, line


def test_bars() -> None:
    def bar(spent: float | None, left: float, asked: float | None) -> str:
        return show._bar({"spent": spent, "left": left, "requested": asked})

    assert bar(0.0, 1.0, 0.0) == "·" * show.BAR
    assert bar(0.5, 0.5, 0.5) == "█" * (show.BAR // 2) + "▓" * (show.BAR // 2)
    assert bar(0.25, 0.75, 0.25).count("▓") == show.BAR // 4
    assert bar(0.5, 0.5, None) == bar(0.5, 0.5, 9.0), "what has no bound fills the bar"
    assert bar(None, 0.0, 0.1) == bar(2.0, 0.0, 0.1) == "█" * show.BAR
