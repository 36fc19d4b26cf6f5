"""Step 6: what was spent and when, what is left, every release with its report and certificate, and what to do about
one that did not end well."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from nabladp.errors import LedgerError, NablaDPError, ReleaseError
from nabladp.privacy import Ledger
from nabladp.report import FILE, verify
from nabladp.report.language import language
from nabladp.report.rendering import find_browser
from nabladp.studio.jobs import Jobs
from nabladp.studio.visit import Page, Visit
from nabladp.studio.workspace import RECORD, OutsideFolder, Workspace

if TYPE_CHECKING:
    from nabladp.release import Plan
    from nabladp.report.site import Booked

CERTIFICATE = "certificate.pdf"


def _where(visit: Visit) -> str:
    """The ledger that the plan names: a file of the folder, or an address."""
    plan = visit.studio.plan_document()
    listed = [] if plan is None else plan.facts("budget")
    where = listed[0].get("ledger") if listed else None
    if not isinstance(where, str) or not where:
        raise LedgerError("There is no plan that names a ledger yet.", fix="Choose a table first.")
    return where if "://" in where else str(visit.studio.workspace.path(where))


def _show(visit: Visit) -> str:
    from nabladp.release.cost import DELTA
    from nabladp.report.site import ledger_facts

    where, jobs = _where(visit), Jobs(visit.studio.workspace)
    kinds = {kind: jobs.latest(kind) for kind in ("recover", "certificate", "release")}
    work = [job for job in kinds.values() if job is not None and job.runs]
    shared = {"work": work, "recovered": kinds["recover"], "drawn": kinds["certificate"]}
    if not Ledger.exists(where):
        return visit.render("ledger.page.html.j2", exists=False, **shared)
    folders = published_folders(visit.studio.workspace)
    plan = visit.studio.ready_plan()
    with Ledger.read(where) as book:
        facts = ledger_facts(
            book,
            book.guarantee(),
            DELTA if plan is None else plan.delta,
            language("en"),
            lambda booked: _report(visit.studio.workspace, folders, booked),
        )
        open_names = [entry.name for entry in (*book.unfinished(), *book.failed())]
        person = book.person
    for row in facts["rows"]:
        row["folder"] = _name(visit.studio.workspace, folders.get(row["digest"] or ""))
        row["pdf"] = bool(row["folder"]) and (visit.studio.workspace.folder / row["folder"] / CERTIFICATE).is_file()
    return visit.render(
        "ledger.page.html.j2",
        exists=True,
        seeded=facts.pop("stamp"),  # a form's version of the files goes by that name here
        open_names=open_names,
        person="not on record" if person is None else str(person),
        can_draw=_can_draw(),
        disagreement=_disagreement(plan),
        **facts,
        **shared,
    )


def published_folders(workspace: Workspace) -> dict[str, Path]:
    """The folder of every published record, by the digest that a ledger binds: a plan's folder, or a release's own."""
    found = {}
    for record in sorted([*workspace.folder.glob(f"*/{RECORD}"), *workspace.folder.glob(f"*/*/{RECORD}")]):
        try:
            content = workspace.path(record.relative_to(workspace.folder)).read_bytes()
        except (OSError, OutsideFolder):
            continue
        if not any(part.startswith(".") for part in record.relative_to(workspace.folder).parts):
            whole = record.parent.parent
            is_part = whole != workspace.folder and (whole / FILE).exists()
            found[hashlib.sha256(content).hexdigest()] = whole if is_part else record.parent
    return found


def _name(workspace: Workspace, folder: Path | None) -> str:
    return "" if folder is None else os.path.relpath(folder, workspace.folder)


def _report(workspace: Workspace, folders: dict[str, Path], booked: Booked) -> str | None:
    folder = folders.get(booked.digest or "")
    return f"/published/{_name(workspace, folder)}/{FILE}" if folder is not None and (folder / FILE).is_file() else None


def _can_draw() -> bool:
    try:
        find_browser()
    except NablaDPError:
        return False
    return True


def _disagreement(plan: Plan | None) -> str:
    """Why the ledger refuses the plan, if it does: it has other limits, or other people."""
    try:
        if plan is not None:
            plan.standing()
    except LedgerError as error:
        return error.message
    except NablaDPError:
        return ""
    return ""


def _void(visit: Visit) -> None:
    """Take away the cost of reservations that never became a release."""
    from nabladp.release.curator_tasks import open_existing

    names, reason = visit.form.all("name"), visit.form.text("reason")
    if not names:
        raise LedgerError("Nothing is chosen.", fix="Tick the reservations to void.")
    if not reason:
        raise LedgerError("A reason is needed: it stays on record.", fix="Say why nobody has seen any output.")
    if visit.form.text("confirm") != "yes":
        raise LedgerError(
            "Voiding is not confirmed.", fix="Tick the box: void only what nobody has seen any output of."
        )
    release = Jobs(visit.studio.workspace).latest("release")
    if release is not None and release.runs:
        raise LedgerError("A release is running.", fix="Wait for it, or stop it.")
    with open_existing(_where(visit)) as book:
        for name in names:
            book.void(name, reason)
    visit.notice(f"Voided {', '.join(names)}.")


def _recover(visit: Visit) -> None:
    """Publish what was complete, remove what was not."""
    visit.studio.plan()
    Jobs(visit.studio.workspace).start("recover")


def _draw(visit: Visit) -> None:
    """Draw a certificate as PDF."""
    folder = visit.form.text("folder")
    _release_folder(visit.studio.workspace, folder)
    Jobs(visit.studio.workspace).start("certificate", folder=folder)


def _release_folder(workspace: Workspace, folder: str) -> Path:
    path = workspace.path(folder)
    if path not in published_folders(workspace).values():
        raise ReleaseError("There is no such release in the folder.", fix="Choose one of the ledger page.")
    return path


def _verify(visit: Visit) -> str:
    """Check that a published folder is as it was written, and in the ledger."""
    folder = visit.query.text("folder")
    result = verify(_release_folder(visit.studio.workspace, folder), _where(visit))
    return visit.render("verified.html.j2", folder_name=folder, result=result)


PAGE = Page(
    "ledger",
    _show,
    changes={"void": _void, "recover": _recover, "certificate": _draw},
    parts={"verify": _verify},
)
