"""The process behind a job: ``python -m nabladp.studio.work FOLDER JOB LOCK``.

It prints nothing: what a library prints, or the text of an error that is not ours, may hold a value.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nabladp.errors import NablaDPError, attach_facts, attached_facts, is_interrupt
from nabladp.studio.jobs import DONE, FAILED, STOPPED, Job, read_state, write_state
from nabladp.studio.workspace import PLAN, StaleForm, Workspace

Tell = Callable[[str, int, int], None]
Task = Callable[[Workspace, Mapping[str, Any], Tell], dict[str, Any]]
_APART = 0.1  # seconds between two writes of the state


class Reporter:
    """Writes how far a job is, not more often than somebody could read."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._last = folder, 0.0
        self.job = read_state(folder)

    def __call__(self, what: str, done: int = 0, total: int = 0) -> None:
        changed = what != self.job.what
        self.job = replace(self.job, what=what, done=done, total=total)
        if changed or time.monotonic() - self._last > _APART:
            self.write(self.job)

    def write(self, job: Job) -> None:
        self.job, self._last = job, time.monotonic()
        write_state(self._folder, job)


def main(folder: str, number: str, lock: str) -> None:
    """Run a job to its end, and write down how it ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the studio may have it ignored
    os.set_inheritable(int(lock), False)
    workspace = Workspace(folder)
    reporter = Reporter(workspace.private(f"jobs/{number}/-").parent)
    try:
        answer = _TASKS[reporter.job.kind](workspace, reporter.job.order, reporter)
        reporter.write(replace(reporter.job, state=DONE, what="done", answer=answer))
    except BaseException as error:
        stopped = is_interrupt(error)
        reporter.write(replace(reporter.job, state=STOPPED if stopped else FAILED, error=_describe(error, stopped)))


def _describe(error: BaseException, stopped: bool) -> dict[str, Any]:
    """An error as a page may show it. The text of one that is not ours may hold a value: only its type is named, or the
    system's own words."""
    if isinstance(error, NablaDPError):
        return error.to_json()
    facts = {"fix": "", **attached_facts(error)}
    if stopped:
        return {"error": "Stopped", "message": "Stopped.", **facts}
    if isinstance(error, OSError) and error.errno is not None:
        return {"error": "Unexpected", "message": f"The system refused: {os.strerror(error.errno)}.", **facts}
    message = f"Something unexpected went wrong ({type(error).__name__})."
    return {"error": "Unexpected", "message": message, **facts}


# ---- what there is to do ---------------------------------------------------------------------------------------------


def _look(workspace: Workspace, order: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Look at a table for the first time: draft schema and plan, where they are asked for, and count its rows."""
    from nabladp.studio.tables import look

    return look(workspace, order, tell)


def _check(workspace: Workspace, order: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Check every row of the plan's table against the schema. How many rows break a rule is not kept. Where the
    plan does not state how many rows are in use, which is public, it does from now on."""
    plan = _plan(workspace)
    tell("checking every row", 0, 0)
    findings = [{"column": own.column, "rule": own.rule, "fix": own.fix} for own in plan.check()]
    stamp = order.get("stamp")
    if not findings and plan.rows is None:
        tell("counting rows", 0, 0)
        _state_rows(workspace, plan.open_table().n, stamp)
        stamp = workspace.stamp()
    return {"findings": findings, "stamp": stamp}


def _state_rows(workspace: Workspace, rows: int, stamp: str | None) -> None:
    from nabladp.studio.documents import PlanDocument

    document = PlanDocument(workspace.read(PLAN) or "")
    document.edit("table", {"rows": rows})
    workspace.change(f"the number of rows: {rows:,}", {PLAN: document.text()}, stamp)


def _release(workspace: Workspace, order: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Reserve, run and publish the plan."""
    if order.get("stamp") != workspace.stamp():
        raise StaleForm(
            "The schema or the plan was edited since the release was confirmed.",
            fix="Look at the amounts again, and confirm again.",
            note="Nothing was reserved, so nothing was spent.",
        )
    plan = _plan(workspace)
    goal = workspace.path(str(order["folder"]))
    before = _head(plan)
    try:
        done = plan.publish(goal, stage=tell, new_ledger=not plan.has_ledger())
    except BaseException as error:
        details = attached_facts(error) or getattr(error, "fields", {})
        if not details.get("note"):
            nothing = "Nothing was reserved, so nothing was spent."
            some = "What it had reserved stays reserved, and counts towards the budget: see the ledger page."
            spent = _head(plan) != before
            attach_facts(error, {"note": some if spent else nothing, "spent": spent})
        raise
    listed = [{"name": own.name, "entry": own.ledger["entry"]} for own in done.releases]
    problem = None if done.problem is None else done.problem.to_json()
    return {"folder": str(goal.relative_to(workspace.folder)), "releases": listed, "problem": problem}


def _head(plan: Any) -> int:
    """How many entries the plan's ledger has."""
    from nabladp.release import Ledger

    if not plan.has_ledger():
        return 0
    with Ledger.read(plan.ledger) as ledger:
        return int(ledger.head.seq)


def _certificate(workspace: Workspace, order: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Draw the certificate of a published folder as PDF."""
    from nabladp.report.rendering import write_pdf

    folder = workspace.path(str(order["folder"]))
    tell("drawing the certificate", 0, 0)
    write_pdf(folder / "report.html", folder / "certificate.pdf", certificate=True)
    return {"folder": str(order["folder"])}


def _recover(workspace: Workspace, order: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Publish what a killed release had finished, remove what it had not."""
    from nabladp.release import leftovers
    from nabladp.release.curator_tasks import open_existing

    plan = _plan(workspace)
    with open_existing(plan.ledger) as book:
        hidden = leftovers.find(book, (workspace.folder, plan.out.parent))
        published, removed = leftovers.clean_up(hidden, book, tell)
    return {"published": [done.folder.name for done in published], "removed": removed}


def _plan(workspace: Workspace) -> Any:
    from nabladp.release import Plan

    workspace.check_plan(workspace.read(PLAN) or "")
    return Plan.load(workspace.path(PLAN))


_TASKS: Mapping[str, Task] = {
    "look": _look,
    "check": _check,
    "release": _release,
    "certificate": _certificate,
    "recover": _recover,
}

if __name__ == "__main__":
    main(*sys.argv[1:4])
    atexit._run_exitfuncs()  # temporary files go; taking libraries apart one by one would keep their memory for longer
    os._exit(0)
