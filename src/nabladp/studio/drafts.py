"""The plan as it stands while somebody edits it: what pages show of costs, also where a release is not finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nabladp.checks import parse_toml
from nabladp.errors import NablaDPError, PlanError
from nabladp.privacy.ledger.limits import LimitRequest
from nabladp.release import Plan
from nabladp.release.cost import format_cost
from nabladp.release.estimates import Draft, Estimates, Priced
from nabladp.studio import meaning
from nabladp.studio.documents import PlanDocument
from nabladp.studio.studio import Studio

ESTIMATES = Estimates()  # prices depend on schema, people and options alone: one for all folders
_MOST_FIGURES = 6
_MOST_COLUMNS = 8
_kept: dict[str, tuple[str, Plan]] = {}


def plan_document(studio: Studio) -> PlanDocument:
    """The text of the plan, to be edited; refused where there is none."""
    document = studio.plan_document()
    if document is None:
        raise PlanError("There is no plan yet.", fix="Choose a table first: step 1.")
    return document


def plan_without_releases(studio: Studio) -> Plan:
    """The plan but for its releases, which may be faulty; kept until a file is edited."""
    folder, stamp = str(studio.workspace.folder), studio.workspace.stamp()
    if folder not in _kept or _kept[folder][0] != stamp:
        studio.check_columns()
        text = plan_document(studio).text()
        studio.workspace.check_plan(text)
        data = {key: value for key, value in parse_toml(text, "The plan", PlanError).items() if key != "release"}
        _kept[folder] = (stamp, Plan.of(data, studio.workspace.folder, "plan-release"))
    return _kept[folder][1]


# ---- a draft, as a page shows it -------------------------------------------------------------------------------------


def draft_json(draft: Draft, faults: Mapping[int, NablaDPError]) -> dict[str, Any]:
    """A draft for a page: for every release its error and its cost, and how all of them stand against the limits.
    ``faults``: releases whose form cannot be read."""
    cost = draft.cost
    whole = any(own.fault for _, own in draft.releases) or bool(faults)
    return {
        "releases": [release_json(own, faults.get(i)) for i, (_, own) in enumerate(draft.releases)],
        "limits": [_limit_json(line) for line in sorted(cost.lines, key=_several_first)],
        "beliefs": [{"label": label, **own.to_json()} for label, own in beliefs(draft)],
        "fits": cost.fits,
        "verdict": _verdict(draft, whole),
        "warnings": [] if whole else _warnings(draft),
        "fault": "" if draft.fault is None else f"{draft.fault.message} {draft.fault.fix}",
    }


def _warnings(draft: Draft) -> list[str]:
    """What is to be said of all releases together; what is said of one stands beside it."""
    named = tuple(f"{name!r}: " for name, _ in draft.releases)
    return [sentence for sentence in draft.cost.verdict if not sentence.startswith(named)]


def release_json(priced: Priced, fault: NablaDPError | None = None) -> dict[str, Any]:
    wrong = fault or priced.fault
    if wrong is not None:
        return {"fault": f"{wrong.message} {wrong.fix}", "error": "", "figures": [], "costs": []}
    more = len(priced.epsilons) - _MOST_COLUMNS
    costs = [[name, f"ε {format_cost(epsilon)}"] for name, epsilon in priced.epsilons[:_MOST_COLUMNS]]
    return {
        "fault": "",
        "error": priced.sentence[:1].upper() + priced.sentence[1:] or "Nothing is known about its error beforehand.",
        "figures": [[label, _figure(value)] for label, value in priced.figures[:_MOST_FIGURES]],
        "costs": costs + ([[f"and {more:,} more", "no more than these"]] if more > 0 else []),
    }


def _figure(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.4g}"


def _several_first(line: LimitRequest) -> bool:
    return len(line.standing.limit.attributes) < 2


def _limit_json(line: LimitRequest) -> dict[str, Any]:
    """One limit: which share of it is spent, and which this plan asks for."""
    standing = line.standing
    allowed = standing.limit.units
    spent = 1.0 if standing.spent_units is None else min(1.0, standing.spent_units / allowed)
    asked = 1.0 if line.requested is None else min(1.0 - spent, line.requested / allowed)
    numbers = line.to_json()
    wanted = "no bound" if line.requested is None else format_cost(numbers["requested"])
    return {
        "name": standing.limit.name,
        "spent": round(100 * spent, 2),
        "asked": round(100 * asked, 2),
        "fits": line.fits,
        "text": f"{standing.limit.measure} {wanted} of the {format_cost(numbers['left'], up=False)} left",
        "share": "no bound" if line.requested is None else f"{100 * line.requested / allowed:.3g} % of the limit",
    }


def beliefs(draft: Draft) -> list[tuple[str, meaning.Meaning]]:
    """How sure somebody can become by these releases: about the costliest column, as each adversary, about all."""
    guarantee, delta = draft.cost.guarantee, draft.cost.delta
    protected = guarantee.universe.protected
    if not protected:
        return []
    worst = max(protected, key=guarantee.rho)
    known = draft.cost.adversaries or {}
    listed: list[tuple[str, Sequence[str]]] = [(f"about {worst!r}, the costliest column", (worst,))]
    listed += [(name, chosen) for name, chosen in known.items() if _has_protected(draft, chosen)]
    listed.append(("about all columns together", guarantee.per_person().attributes))
    return [(label, meaning.of_cost(guarantee, chosen, delta)) for label, chosen in listed]


def _has_protected(draft: Draft, chosen: Sequence[str]) -> bool:
    universe = draft.cost.guarantee.universe
    return not universe.sources(chosen) & universe.public


def _verdict(draft: Draft, whole: bool) -> str:
    if not draft.releases:
        return "No question yet."
    missing = " The ones that are not finished do not count yet." if whole else ""
    broken = [line.standing.limit.name for line in draft.cost.lines if not line.fits]
    if not broken:
        return f"Within every limit.{missing}"
    more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
    return f"Too much for {', '.join(map(repr, broken[:3]))}{more}.{missing}"
