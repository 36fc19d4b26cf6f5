"""Step 5: who publishes, and why; what the plan spends, to be confirmed by its amounts; then its progress, and
what came of it."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any

from nabladp.displayed import report_languages
from nabladp.errors import PlanError, ReleaseError
from nabladp.release.forms import offer_of
from nabladp.release.imprint import TEXTS
from nabladp.report.language import language
from nabladp.studio.drafts import plan_document
from nabladp.studio.fields import Fields
from nabladp.studio.jobs import DONE, Jobs
from nabladp.studio.visit import Page, Visit
from nabladp.studio.workspace import StaleForm

if TYPE_CHECKING:
    from nabladp.release import Plan
    from nabladp.release.cost import Cost

LANGUAGES = {"en": "English", "de": "Deutsch"}
LOGOS = (".png", ".jpg", ".jpeg", ".gif")


def _show(visit: Visit) -> str:
    workspace = visit.studio.workspace
    jobs = Jobs(workspace)
    job = jobs.latest("release")
    shared: dict[str, Any] = {"job": job, "stopping": job is not None and jobs.is_stopping(job.id), "plan": None}
    if job is not None and job.runs:
        return visit.render("release.html.j2", **shared)
    plan = visit.studio.plan()
    if not plan.releases:
        raise PlanError("The plan asks no question yet.", fix="Add one first, on the page Questions.")
    cost = plan.cost()
    summary = _summary(plan, cost)
    return visit.render(
        "release.html.j2",
        **shared
        | {
            "plan": plan,
            "questions": [(name, offer_of(type(mechanism)).title) for name, mechanism in plan.releases],
            "is_published": job is not None and job.state == DONE and job.order.get("stamp") == workspace.stamp(),
            "imprint": _imprint(visit),
            "languages": [(code, LANGUAGES.get(code, code)) for code in report_languages()],
            "logos": [("", "none"), *((name, name) for name in workspace.files(LOGOS))],
            "cost": cost,
            "amounts": _digest(cost),
            "ledger_exists": plan.has_ledger(),
            "ledger": _ledger_name(visit, plan),
            "proposed": visit.form.text("folder") or _free_name(visit, plan),
            **summary,
            "named": _amounts(summary),
        },
    )


def _summary(plan: Plan, cost: Cost) -> dict[str, Any]:
    """The amounts that a release spends, in words and figures."""
    t = language("en")
    facts = cost.to_json()
    person = facts["person"]
    limits = [
        {
            "name": line["limit"],
            "measure": t.measure(line["measure"]),
            "requested": t.cost(line["requested"]),
            "left": t.cost(_rest(line), up=False),
            "allowed": t.cost(line["allowed"], up=False),
            "fits": line["fits"],
        }
        for line in sorted(facts["limits"], key=lambda line: (line["fits"], line["limit"] != "person"))
    ]
    return {
        "limits": limits,
        "person": {key: t.cost(value) for key, value in person.items()},
        "has_epsilon": person["epsilon"] is not None,
        "costliest": _costliest(facts["attributes"], t),
        "adversaries": [
            {**own, "epsilon": t.cost(own["epsilon"]), "rho": t.cost(own["rho"])} for own in facts["adversaries"]
        ],
        "verdict": facts["verdict"],
    }


def _imprint(visit: Visit) -> Fields:
    """What the report says of itself, as the fields of a form."""
    if "issuer" in visit.form:
        return visit.form
    known = next(iter(plan_document(visit.studio).facts("report")), {})
    return Fields((name, f"{known[name]}") for name in (*TEXTS, "language", "logo", "delta") if name in known)


def _amounts(summary: dict[str, Any]) -> str:
    """The amounts that somebody confirms."""
    most = summary["costliest"]
    also = f", and ρ {most['rho']} of {most['name']}" if most else ""
    return f"ρ {summary['person']['rho']} of all protected attributes together{also}"


def _rest(line: dict[str, Any]) -> float | None:
    """What a limit leaves once the plan is released."""
    return None if line["left"] is None or line["requested"] is None else max(0.0, line["left"] - line["requested"])


def _costliest(attributes: dict[str, Any], t: Any) -> dict[str, str] | None:
    """The attribute about which most is spent."""
    if not attributes:
        return None
    name = max(attributes, key=lambda own: float("inf") if attributes[own]["rho"] is None else attributes[own]["rho"])
    return {"name": name, "rho": t.cost(attributes[name]["rho"]), "epsilon": t.cost(attributes[name]["epsilon"])}


def _digest(cost: Cost) -> str:
    """What exactly was confirmed: the amounts asked of every limit, and how these stood."""
    lines = [(line.standing.limit.name, str(line.standing.spent_units), str(line.requested)) for line in cost.lines]
    return hashlib.sha256(repr(lines).encode()).hexdigest()[:24]


def _ledger_name(visit: Visit, plan: Plan) -> str:
    if "://" in plan.ledger:  # an address may hold a password
        return "the ledger in the database"
    return os.path.relpath(plan.ledger, visit.studio.workspace.folder)


def _free_name(visit: Visit, plan: Plan) -> str:
    """A folder that does not exist yet, called as the plan says."""
    name = os.path.relpath(plan.out, visit.studio.workspace.folder)
    stem = re.sub(r"-\d+$", "", name)
    number = 2
    while os.path.lexists(visit.studio.workspace.folder / name):
        name, number = f"{stem}-{number}", number + 1
    return name


def _start(visit: Visit) -> None:
    """Reserve, run and publish, in the background; only what was shown and confirmed."""
    workspace, form = visit.studio.workspace, visit.form
    if visit.stamp != workspace.stamp():
        raise StaleForm("The schema or the plan was edited since the amounts were shown.", fix="Look at them again.")
    cost = visit.studio.plan().cost()
    if form.text("amounts") != _digest(cost):
        raise StaleForm("Something else was spent since the amounts were shown.", fix="Look at them again.")
    if form.text("confirm") != "yes":
        raise ReleaseError("The amounts are not confirmed.", fix="Tick the box that names them.")
    name = form.text("folder")
    goal = workspace.path(name)
    if goal == workspace.folder or name.startswith(".") or os.path.lexists(goal):
        raise ReleaseError("The folder of a release must be a new one.", fix="Choose another name.")
    Jobs(workspace).start(
        "release", folder=name, stamp=visit.stamp, amounts=_amounts(_summary(visit.studio.plan(), cost))
    )


def _say(visit: Visit) -> None:
    """Save who publishes, to what end, and in which language: what the report says of itself."""
    document, form = plan_document(visit.studio), visit.form
    given: dict[str, Any] = {name: " ".join(form.text(name).split()) or None for name in (*TEXTS, "logo")}
    given["language"] = form.text("language") if form.text("language", "en") != "en" else None
    given["delta"] = _delta(form.text("delta"))
    if any(value is not None for value in given.values()) or document.facts("report"):
        document.edit("report", given)
    visit.studio.save_plan("who publishes, and why", document, visit.stamp)
    visit.notice("Saved who publishes, and why.")


def _delta(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise PlanError("δ is not a number.", fix="Write 1e-6, or leave it empty.") from None


PAGE = Page("release", _show, changes={"start": _start, "say": _say})
