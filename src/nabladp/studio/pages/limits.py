"""Step 3: who should learn how little. Adversaries as sets of columns, and limits with what they mean as a belief."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nabladp.errors import BudgetError, LedgerError, NablaDPError
from nabladp.privacy.conversion import check_delta
from nabladp.privacy.values import as_value
from nabladp.release import Plan
from nabladp.release.cost import DELTA
from nabladp.release.entries import Amount, Columns, Line, Part, Rows, nest
from nabladp.release.likeness import alike_columns
from nabladp.schema import Schema
from nabladp.studio import meaning
from nabladp.studio.documents import PlanDocument
from nabladp.studio.drafts import ESTIMATES, beliefs, plan_document, plan_without_releases
from nabladp.studio.visit import Page, Visit

LIMITS = {
    "per_attribute": Amount(),
    "person": Amount(),
    "attributes": Rows((Part("columns", "column", Line(columns=True)), Part("budget", "limit", Amount())), keyed=True),
    "sets": Rows((Part("columns", "columns", Columns()), Part("budget", "limit", Amount())), keyed=True),
}
ADVERSARIES = Rows((Part("name", "who", Line()), Part("attributes", "is interested in", Columns())))


def _show(visit: Visit) -> str:
    studio = visit.studio
    document = plan_document(studio)
    studio.check_columns()
    schema = Schema.load(studio.workspace.path(studio.schema_name()))
    facts = next(iter(document.facts("budget")), {})
    given = nest(visit.form.items()) if visit.problem is not None else {}
    filled = {name: given.get(name) or _entry_texts(entry, facts.get(name)) for name, entry in LIMITS.items()}
    adversaries = given.get("adversary") or _entry_texts(ADVERSARIES, document.facts("adversary"))
    plan, fault = _plan(visit)
    problem = "" if fault is None else f"{fault.message} {fault.fix if plan is None else ''}"
    return visit.render(
        "limits.html.j2",
        limits={name: {"entry": entry.to_json(), "filled": filled[name]} for name, entry in LIMITS.items()},
        adversary={"entry": ADVERSARIES.to_json(), "filled": adversaries},
        columns=[own.name for own in schema if not own.public and not own.derived_from],
        every=list(schema.names),
        public=[own.name for own in schema if own.public],
        derived={own.name: list(own.derived_from) for own in schema if own.derived_from},
        alike=_warnings(schema, facts),
        learned=_belief_bounds(plan, document),
        fault=problem,
        can_force=isinstance(fault, LedgerError) and "limit" in fault.fields,
        delta=DELTA if plan is None else plan.delta,
    )


def _entry_texts(entry: Any, value: Any) -> Any:
    try:
        return [] if value is None else entry.fill(value)
    except Exception:  # a plan may hold anything here; what cannot be shown is left empty
        return []


def _plan(visit: Visit) -> tuple[Plan | None, NablaDPError | None]:
    """The plan without its releases, and why its ledger would refuse it; no plan while a limit is faulty."""
    try:
        plan = plan_without_releases(visit.studio)
    except NablaDPError as error:
        return None, error
    try:
        plan.standing()
    except LedgerError as error:
        return plan, error
    return plan, None


def _belief_bounds(plan: Plan | None, document: PlanDocument) -> list[dict[str, Any]]:
    """What each adversary can become sure of at most, by the questions of the current plan."""
    blocks = document.facts("release")
    if plan is None or not blocks:
        return []
    return [{"label": label, **own.to_json()} for label, own in beliefs(ESTIMATES.draft(plan, blocks))]


def _warnings(schema: Schema, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns that look like one secret and have no limit together yet."""
    sets = facts.get("sets")
    limited = [set(key.split("+")) for key in sets] if isinstance(sets, Mapping) else []
    return [
        {"columns": list(own.columns), "why": own.why}
        for own in alike_columns(schema)
        if not any(set(own.columns) <= known for known in limited)
    ]


# ---- edits -----------------------------------------------------------------------------------------------------------


def _save(visit: Visit) -> None:
    """Save limits and adversaries."""
    given = nest(visit.form.items())
    limits = {name: entry.read(given.get(name)) for name, entry in LIMITS.items()}
    if not any(limits.values()):
        raise BudgetError("Nothing is limited.", fix="Give at least the limit for every column.")
    document = plan_document(visit.studio)
    document.edit("budget", limits)
    _save_adversaries(document, ADVERSARIES.read(given.get("adversary")) or [])
    visit.studio.save_plan("limits and adversaries", document, visit.stamp)
    visit.notice("Saved limits and adversaries.")


def _save_adversaries(document: PlanDocument, wanted: list[dict[str, Any]]) -> None:
    known = len(document.facts("adversary"))
    for at in reversed(range(len(wanted), known)):
        document.remove("adversary", at)
    for at, own in enumerate(wanted):
        if at < known:
            document.edit("adversary", own, at)
        else:
            document.add("adversary", own)


def _join(visit: Visit) -> None:
    """Limit columns together that look like one secret: by what one of them may lose."""
    document = plan_document(visit.studio)
    facts = next(iter(document.facts("budget")), {})
    columns = visit.form.all("columns")
    limit = facts.get("per_attribute") or facts.get("person")
    if len(columns) < 2 or limit is None:
        raise BudgetError("There is no limit that these columns could share.", fix="Give the limit for every column.")
    known = facts.get("sets")
    sets = dict(known) if isinstance(known, Mapping) else {}
    document.edit("budget", {"sets": {**sets, "+".join(columns): limit}})
    visit.studio.save_plan(f"a limit for {' and '.join(columns)}", document, visit.stamp)
    visit.notice(f"{' and '.join(map(repr, columns))} now have a limit together.")


def _force(visit: Visit) -> None:
    """Put the plan's limits in force in a ledger that has others, on record."""
    reason = visit.form.text("reason")
    if not reason:
        raise BudgetError("A change of limits needs a reason: it is on record for good.", fix="Write one sentence.")
    plan_without_releases(visit.studio).change_budget(reason)
    visit.notice("The limits of this page are in force in the ledger from now on.")


def _meaning(visit: Visit) -> dict[str, Any]:
    """What a limit means, while somebody moves its slider."""
    given = nest(visit.form.items())
    value = Amount().read(given.get("limit"))
    if value is None:
        return {"percent": 50, "shown": "", "sentence": "No limit."}
    try:
        delta = float(visit.form.text("at", str(DELTA)))
    except ValueError:
        delta = DELTA
    check_delta(delta)
    return meaning.of_limit(as_value(value, "The limit"), delta).to_json()


PAGE = Page(
    "limits",
    _show,
    changes={"save": _save, "join": _join, "force": _force},
    parts={"meaning": _meaning},
)
