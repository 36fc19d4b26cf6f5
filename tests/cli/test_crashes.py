"""Stopped at the worst moments: Ctrl-C, kill -9, a full disk, two at once. What was reserved stays spent and shows as
unfinished, nothing half-written is ever in sight, and what was paid for can be recovered."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from nabladp import Release
from nabladp.errors import LedgerError
from nabladp.privacy import Ledger

FILES = {"people.csv", "schema.toml", "plan.toml", "ledger.db"}


@pytest.mark.parametrize("style", [[], ["--json"]])
def test_ctrl_c_while_counting(busy: Any, style: list[str]) -> None:
    process = busy.start("release", "plan.toml", *style)
    busy.wait_until_reserved(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted" in (out if style else err) and "nabladp ledger" in out + err and "Traceback" not in err
    assert busy.names() == FILES, "no half-written folder"
    [name] = busy.unfinished()
    assert busy.spent()["person"] == 0.04 and f"Unfinished: {name}" in busy.run("ledger").words


def test_ctrl_c_while_a_connection_closes_prints_no_traceback() -> None:
    ask = "import logging; print(logging.getLogger('sqlalchemy.pool.impl.QueuePool').isEnabledFor(logging.ERROR))"
    script = f"from nabladp.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass\n{ask}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_kill_while_counting(busy: Any) -> None:
    process = busy.start("release", "plan.toml")
    busy.wait_until_reserved(process)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert "plan-release" not in busy.names() and busy.spent()["person"] == 0.04
    [name] = busy.unfinished()
    [left] = busy.hidden()
    assert f"Removed {left}" in busy.run("ledger", "recover", "ledger.db").words
    assert busy.hidden() == [] and busy.spent()["person"] == 0.04

    busy.lay_out()
    assert busy.run("release", "plan.toml").code == 0, "the next release works"
    assert busy.spent()["person"] == 0.08 and busy.unfinished() == [name]
    assert busy.run("ledger", "void", "ledger.db", name, "--reason", "killed").code == 0
    assert busy.spent()["person"] == 0.04


DIE = """
import os
import nabladp.release.publish as publish
from nabladp.privacy import Ledger
def die(*_, **__): os._exit(9)
def die_at(name):
    whole = publish._write_synced
    def write(path, content):
        if path.name.startswith(name):
            path.touch()
            die()
        whole(path, content)
    publish._write_synced = write
"""


@pytest.mark.parametrize(
    ("moment", "bound"),
    [("Ledger.bind_all = die", False), ("publish._make_visible = die", True)],
    ids=["before bind", "before rename"],
)
def test_a_release_that_was_paid_for_is_recovered(desk: Any, moment: str, bound: bool) -> None:
    assert desk.process("release", "plan.toml", before=DIE + moment).code == 9
    spent, [hidden] = desk.spent(), desk.hidden()
    assert "plan-release" not in desk.names() and spent["person"] == 0.04 and bool(desk.unfinished()) != bound

    again = desk.refused("release", "plan.toml", error="ReleaseError")
    assert hidden in again["message"] and "recover" in again["fix"], "it should not be paid for twice"
    assert desk.spent() == spent and desk.hidden() == [hidden]

    said = desk.run("ledger", "recover", "ledger.db", hidden)
    assert said.code == 0 and "plan-release" in said.words
    assert desk.hidden() == [] and desk.unfinished() == [] and desk.spent() == spent
    record = Release.load(desk.folder / "plan-release" / "pairs")
    with Ledger.read(desk.ledger) as ledger:
        assert [entry.digest for entry in ledger.entries() if entry.kind == "bind"] == [record.digest]
    assert desk.run("release", "plan.toml", "--to", "next").code == 0


@pytest.mark.parametrize("moment", ["release", "digests"])
def test_dying_between_files_leaves_nothing_to_recover(desk: Any, moment: str) -> None:
    assert desk.process("release", "plan.toml", before=f"{DIE}\ndie_at({moment!r})").code == 9
    [hidden] = desk.hidden()
    said = desk.run("ledger", "recover", "ledger.db", hidden, "--json")
    assert said.json == {"published": [], "removed": [hidden], "unfinished": desk.unfinished()}
    assert desk.hidden() == [] and "plan-release" not in desk.names() and len(desk.unfinished()) == 1
    assert desk.run("release", "plan.toml").code == 0


def test_recover_refuses_files_that_were_changed_voided_or_are_in_the_way(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("nabladp.privacy.Ledger.bind_all", stop)
        assert desk.run("release", "plan.toml").code == 130
    [hidden], [name] = desk.hidden(), desk.unfinished()
    recover = ("ledger", "recover", "ledger.db", hidden)
    record, values = (desk.folder / hidden / "pairs" / file for file in ("release.json", "values.parquet"))

    for path in (record, values):
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"0", b"1", 1))
        desk.refused(*recover, error="ReleaseError")
        path.unlink()
        desk.refused(*recover, error="ReleaseError")
        path.write_bytes(whole)
    (desk.folder / "plan-release").mkdir()
    assert "exists already" in desk.refused(*recover, error="ReleaseError")["message"]
    (desk.folder / "plan-release").rmdir()
    desk.plan(('"ledger.db"', '"other.db"'))
    assert desk.run("release", "plan.toml", "--to", "other").code == 0
    answer = desk.refused("ledger", "recover", "other.db", hidden, error="ReleaseError")
    assert "another ledger" in answer["message"] and desk.unfinished() == [name]

    assert desk.run("ledger", "void", "ledger.db", name, "--reason", "never mind").code == 0
    assert "voided" in desk.refused(*recover, error="LedgerError")["message"]
    assert "plan-release" not in desk.names()


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_while_writing(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("nabladp.release.publish.os.fsync", full)
        said = desk.run("release", "plan.toml", "--json")
    assert said.code == 1 and said.json["error"] == "ReleaseError" and "disk is full" in said.json["message"]
    assert said.json["reserved"] == desk.unfinished() and desk.names() == FILES
    assert desk.run("release", "plan.toml").code == 0


def test_a_disk_that_is_too_full_is_noticed_before_spending(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "nabladp.release.publish.shutil.disk_usage", lambda _: os.terminal_size((0, 0)).__class__ and _Full()
    )
    answer = desk.refused("release", "plan.toml", "--to", "new/folder", error="ReleaseError")
    assert "too full" in answer["message"] and desk.spent() == {}
    assert desk.names() <= FILES, "folders made on the way are removed"


class _Full:
    free = 0


def test_places_that_cannot_be_written(desk: Any) -> None:
    """Below a regular file nobody, not even root, can write."""
    for to in ("people.csv/out", "people.csv/deep/out", "x" * 300):
        answer = desk.refused("release", "plan.toml", "--to", to, error="ReleaseError")
        assert "Cannot write" in answer["message"] or "exists" in answer["message"]
    desk.refused("init", "people.csv", "--schema", "people.csv/schema.toml", error="SourceError")
    assert desk.spent() == {} and desk.names() <= FILES
    desk.ledger.unlink(missing_ok=True)
    desk.plan(('"ledger.db"', '"people.csv/ledger.db"'))
    desk.refused("release", "plan.toml", error="NoLedger")
    desk.refused("ledger", "create", "plan.toml", error="NoLedger")
    assert desk.names() == FILES - {"ledger.db"}


READ_ONLY = """
import os, sys
from nabladp.cli import main
def run(*arguments):
    try: main(arguments)
    except SystemExit as left: print("exit", left.code, arguments[0])
for first in (["cost", "plan.toml"], ["check", "people.csv"], ["init", "people.csv", "--schema", "draft.toml"]):
    run(*first)  # whatever is loaded on the way may be closed to others
run("release", "plan.toml", "--to", "first", "--new-ledger")
os.chmod(".", 0o555)
if os.geteuid() == 0: os.setuid(65534)  # root may write everywhere
if os.access(".", os.W_OK): sys.exit("writable")
print("read-only")
run("release", "plan.toml")
run("release", "plan.toml", "--to", "new/out")
run("release", "plan.toml", "--to", "/dev/shm/nabladp-out")
run("init", "people.csv", "--schema", "new.toml")
run("cost", "plan.toml")
run("check", "people.csv")
run("ledger")
sys.exit(0)
"""


def test_a_read_only_folder(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made or spent; what only looks still works."""
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # which could not write down what it saw either
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    try:
        folder.chmod(0o755)
        laid = type(desk)(folder)
        said = laid.process(before=READ_ONLY)
        folder.chmod(0o755)
        assert said.code == 0, said.err
        ended = [line.split() for line in said.out.split("read-only\n")[1].splitlines() if line.startswith("exit ")]
        refused, done = [["exit", "1", "release"]] * 3 + [["exit", "1", "init"]], ("cost", "check", "ledger")
        assert ended == refused + [["exit", "0", command] for command in done]
        assert said.err.count("read-only.") == 3 and "Traceback" not in said.err
        assert laid.spent()["person"] == 0.04 and laid.names() == FILES | {"first", "draft.toml"}
    finally:
        shutil.rmtree(folder)


def test_the_goal_appears_meanwhile(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release is complete and booked, so it is kept, and the error says how to go on."""
    bind = Ledger.bind_all

    def bind_and_take_the_place(*arguments: Any, **named: Any) -> Any:
        (desk.folder / "plan-release").mkdir()
        (desk.folder / "plan-release" / "mine").touch()
        return bind(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr("nabladp.privacy.Ledger.bind_all", bind_and_take_the_place)
        said = desk.run("release", "plan.toml", "--json")
    [hidden] = desk.hidden()
    assert said.code == 1 and said.json["folder"] == hidden and "recover" in said.json["fix"]
    os.rename(desk.folder / "plan-release", desk.folder / "elsewhere")
    assert desk.run("ledger", "recover", "ledger.db", hidden).code == 0
    assert desk.unfinished() == [] and Release.load(desk.folder / "plan-release" / "pairs").n == 60


def test_a_ledger_that_fails_at_the_last_step(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: object, **__: object) -> None:
        raise LedgerError("The ledger stayed locked.", fix="Try again.")

    with monkeypatch.context() as patch:
        patch.setattr("nabladp.privacy.Ledger.bind_all", locked)
        said = desk.run("release", "plan.toml", "--json")
        text = desk.run("release", "plan.toml", "--to", "second")
    assert said.code == 1 and said.json["reserved"][0] in desk.unfinished() and said.json["folder"] in desk.hidden()
    assert "note: The release is complete in .second.pending-" in text.words and "recover" in text.words
    for hidden in desk.hidden():
        assert desk.run("ledger", "recover", "ledger.db", hidden).code == 0
    assert desk.unfinished() == [] and {"plan-release", "second"} <= desk.names()


def test_two_at_once_with_budget_for_one(desk: Any) -> None:
    desk.plan(("person = { rho = 1.0 }", "person = { rho = 0.05 }"))
    assert desk.run("ledger", "create", "plan.toml").code == 0
    racing = [desk.start("release", "plan.toml", "--to", f"out{i}", "--json") for i in range(2)]
    answers = [_finished(process) for process in racing]
    assert sorted(answer.code for answer in answers) == [0, 1]
    loser = next(answer for answer in answers if answer.code == 1)
    assert '"BudgetExceeded"' in loser.out and '"person"' in loser.out
    assert desk.spent()["person"] == 0.04 and desk.unfinished() == [] and desk.hidden() == []
    assert len(desk.names() & {"out0", "out1"}) == 1


def _finished(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=120)
    assert err == ""
    return type("Answer", (), {"code": process.returncode, "out": out})


def test_interrupted_before_anything(desk: Any, tmp_path: Path) -> None:
    """Ctrl-C while the program is still loading says nothing at all."""
    early = "import nabladp.cli.app\ndef stop(_): raise KeyboardInterrupt\nnabladp.cli.app.run = stop"
    said = desk.process("release", "plan.toml", before=early)
    assert said.code == 130 and said.out == said.err == ""
