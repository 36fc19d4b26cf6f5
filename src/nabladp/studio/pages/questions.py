"""Step 4: what is asked. Releases of every installed mechanism, with their costs and errors while they are edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nabladp.errors import NablaDPError, PlanError
from nabladp.release.cost import as_python
from nabladp.release.entries import Amount, Texts, Toml, nest
from nabladp.release.forms import AS_TOML, ASKED, Form, offers, read_form, release_form
from nabladp.schema import Schema
from nabladp.studio.documents import PlanDocument
from nabladp.studio.drafts import ESTIMATES, draft_json, plan_document, plan_without_releases, release_json
from nabladp.studio.fields import Fields
from nabladp.studio.visit import Page, Visit

_LABELS = {
    ASKED: "Figures",
    "by": "For each value of",
    "where": "Only rows where",
    "sql": "In SQL instead",
    "k": "One table for every so many columns",
    "sets": "Tables of these columns",
    "over": "Columns",
}

Blocks = list[dict[str, Any]]


def _show(visit: Visit) -> str:
    studio = visit.studio
    document = plan_document(studio)
    plan = plan_without_releases(studio)
    blocks = document.facts("release")
    opened = _form_to_show(visit, blocks)
    draft = ESTIMATES.draft(plan, blocks)
    return visit.render(
        "questions.html.j2",
        releases=[_card(block, i, draft.releases[i]) for i, block in enumerate(blocks)],
        opened=opened,
        draft=draft_json(draft, {}),
        offers=offers(),
        columns=list(plan.schema.names),
        rows=plan.rows,
        labels=_value_hints(plan.schema),
    )


def _card(block: Mapping[str, Any], index: int, found: Any) -> dict[str, Any]:
    """A release as a page shows it in the list."""
    name, priced = found
    try:
        form = release_form(block)
    except NablaDPError:
        return {"index": index, "name": name, "title": str(block.get("mechanism", "?")), "what": "", "budget": None,
                **release_json(priced)}  # fmt: skip
    budget = next((own for own in form.fields if own.name == "budget" and isinstance(own.entry, Amount)), None)
    return {
        "index": index,
        "name": name,
        "title": form.offer.title,
        "what": _what(block, form),
        "budget": None if budget is None else budget.to_json(),
        **release_json(priced),
    }


def _what(block: Mapping[str, Any], form: Form) -> str:
    """What a release asks, in a few words."""
    parts = []
    for own in form.fields:
        if own.name in ("budget", ASKED) or not own.first or own.name not in block:
            continue
        value = block[own.name]
        if own.name == "k":
            parts.append("one table for each column" if value == 1 else f"one table for every {value} columns")
            continue
        parts.append(f"{_label(own.name).lower()}: {_words_of(value)}")
    asked = next((own for own in form.fields if own.name == ASKED), None)
    if asked is not None and asked.filled:
        rows = asked.filled.values()
        figures = [" of ".join(texts[-1] for key in ("what", "of") if (texts := row.get(key))) for row in rows]
        parts.insert(0, ", ".join(figures))
    return "; ".join(parts)


def _words_of(value: Any) -> str:
    """An option of a release in a few words: lists of columns with commas, tables as products."""
    if isinstance(value, list):
        return ", ".join(" × ".join(own) if isinstance(own, list) else str(own) for own in value)
    return value if isinstance(value, str) else Toml().fill(value)[0]


def _label(name: str) -> str:
    return _LABELS.get(name, name.replace("_", " ").capitalize())


def _value_hints(schema: Schema) -> dict[str, list[str]]:
    """The declared values of columns with few of them, for conditions; public facts, not data."""
    return {own.name: [own.label(code) for code in range(own.size)] for own in schema if own.values and own.size <= 60}


# ---- the form that is open -------------------------------------------------------------------------------------------


def _form_to_show(visit: Visit, blocks: Blocks) -> dict[str, Any] | None:
    """The form to show: of the release that is edited, of a new one, or the one that was refused."""
    if "_mechanism" in visit.form:
        return _refused_form(visit, len(blocks))
    if "new" in visit.query:
        name = visit.query.text("new")
        offer = next((own for own in offers() if own.name == name), None)
        if offer is None:
            raise PlanError("There is no such mechanism.", fix="Choose one of those on the page.")
        block = {"name": _fresh(offer.title, blocks), "mechanism": offer.name, **(offer.start or {})}
        return _form_json(release_form(block), len(blocks))
    if "edit" in visit.query:
        at = _index(visit.query.text("edit"), blocks)
        return _form_json(release_form(blocks[at]), at)
    return None


def _fresh(title: str, blocks: Blocks) -> str:
    """A name that no release has yet, made from the title of its mechanism."""
    start = "-".join(title.lower().split()[-3:] if title.lower().startswith("a ") else title.lower().split()[:3])
    taken = {block.get("name") for block in blocks}
    return next(name for i in range(1, len(blocks) + 2) if (name := start if i == 1 else f"{start}-{i}") not in taken)


def _form_json(form: Form, at: int) -> dict[str, Any]:
    fields = [
        {**own.to_json(), "label": _label(own.name), "typed": own.entry.shape == "toml" and bool(own.filled)}
        for own in form.fields
    ]
    return {"at": at, "name": form.name, "offer": form.offer, "fields": fields}


def _refused_form(visit: Visit, count: int) -> dict[str, Any]:
    """A form as it was sent, with the error beside the field that it is about."""
    given = nest(visit.form.items())
    opened = _form_json(release_form({"mechanism": visit.form.text("_mechanism")}), _at(visit.form, count))
    opened["name"] = visit.form.text("_name")
    wrong = "" if visit.problem is None else visit.problem.fields.get("field", visit.problem.fields.get("parameter"))
    for own in opened["fields"]:
        texts: Texts = given.get(own["name"], [])
        if isinstance(texts, dict) and AS_TOML in texts:
            texts, own["entry"], own["typed"] = texts[AS_TOML], Toml().to_json(), True
        own["filled"] = texts
        if own["name"] == wrong and visit.problem is not None:
            own["fault"] = f"{visit.problem.message} {visit.problem.fix}"
    return opened


def _at(form: Fields, count: int) -> int:
    text = form.text("_at")
    if not text.isdecimal() or int(text) > count:
        raise PlanError("The plan has no such question.", fix="Open the page again.")
    return int(text)


def _index(text: str, blocks: Blocks) -> int:
    if not text.isdecimal() or int(text) >= len(blocks):
        raise PlanError("The plan has no such question.", fix="Open the page again.")
    return int(text)


# ---- edits -----------------------------------------------------------------------------------------------------------


def _save(visit: Visit) -> str:
    """Save the form of one release: one of the plan's, or a new one."""
    document = plan_document(visit.studio)
    known = document.facts("release")
    at = _at(visit.form, len(known))
    block = read_form(visit.form.text("_mechanism"), visit.form.items(), visit.form.text("_name"))
    if at == len(known):
        document.add("release", block)
    else:
        document.edit("release", {**{key: None for key in known[at] if key not in block}, **block}, at)
    _write(visit, f"the question {block.get('name', at + 1)!r}", document)
    visit.notice(f"Saved {block.get('name', at + 1)!r}.")
    return "/questions"


def _write(visit: Visit, what: str, document: PlanDocument) -> None:
    visit.studio.save_plan(what, document, visit.stamp)


def _budgets(visit: Visit) -> str:
    """Save the budgets that were set on the list."""
    document = plan_document(visit.studio)
    known = document.facts("release")
    for at, budget in _given_budgets(visit.form, known).items():
        document.edit("release", {"budget": budget}, at)
    _write(visit, "the budgets of questions", document)
    visit.notice("Saved the budgets.")
    return "/questions"


def _given_budgets(form: Fields, blocks: Blocks) -> dict[int, dict[str, float]]:
    given = nest(form.items())
    found = {}
    for at in range(len(blocks)):
        texts = given.get(f"r{at}")
        if isinstance(texts, dict) and "budget" in texts:
            budget = Amount().read(texts["budget"])
            if budget is not None and budget != blocks[at].get("budget"):
                found[at] = budget
    return found


def _move(visit: Visit) -> None:
    document = plan_document(visit.studio)
    blocks = document.facts("release")
    at = _index(visit.form.text("at"), blocks)
    other = at - 1 if visit.form.text("way") == "up" else at + 1
    if 0 <= other < len(blocks):
        document.swap("release", at, other)
        _write(visit, "the order of questions", document)


def _remove(visit: Visit) -> None:
    document = plan_document(visit.studio)
    blocks = document.facts("release")
    at = _index(visit.form.text("at"), blocks)
    name = ESTIMATES.name(blocks[at], at + 1)
    document.remove("release", at)
    _write(visit, f"removing the question {name!r}", document)
    visit.notice(f"Removed {name!r}. Undo brings it back.")


def _copy(visit: Visit) -> str:
    document = plan_document(visit.studio)
    blocks = document.facts("release")
    at = _index(visit.form.text("at"), blocks)
    name = _fresh(ESTIMATES.name(blocks[at], at + 1), blocks)
    document.add("release", {**blocks[at], "name": name}, at)
    _write(visit, f"the question {name!r}", document)
    return f"/questions?edit={at + 1}"


# ---- answers while somebody edits; nothing is saved, nothing is spent ------------------------------------------------


def _draft_releases(visit: Visit) -> tuple[Blocks, dict[int, NablaDPError]]:
    """The plan's releases with what the page holds now: budgets on the list, and the open form."""
    blocks = plan_document(visit.studio).facts("release")
    faults: dict[int, NablaDPError] = {}
    for at in range(len(blocks)):
        try:
            given = _given_budgets(_only(visit.form, at), blocks)
            blocks[at] |= {"budget": given[at]} if at in given else {}
        except NablaDPError as error:
            faults[at] = error
    if "_mechanism" in visit.form:
        at = _at(visit.form, len(blocks))
        try:
            block = read_form(visit.form.text("_mechanism"), visit.form.items(), visit.form.text("_name"))
        except NablaDPError as error:
            faults[at] = error
            block = {"mechanism": visit.form.text("_mechanism")}
        blocks[at:] = [block, *blocks[at + 1 :]]
    return blocks, faults


def _only(form: Fields, at: int) -> Fields:
    return Fields(pair for pair in form.items() if pair[0].startswith(f"r{at}."))


def _price(visit: Visit) -> dict[str, Any]:
    """What everything on the page would cost, and how exact it would be."""
    blocks, faults = _draft_releases(visit)
    return draft_json(ESTIMATES.draft(plan_without_releases(visit.studio), blocks), faults)


def _least(visit: Visit) -> dict[str, Any]:
    """The least budget of one release for an expected error."""
    plan = plan_without_releases(visit.studio)
    blocks, at = _chosen_release(visit)
    try:
        percent = float(visit.form.text("goal").replace(",", "."))
    except ValueError:
        raise PlanError("The error to reach is not a number.", fix="Write 5 for ±5 %.") from None
    found = ESTIMATES.least(plan, blocks, at, percent / 100)
    reached = 100 * (found.reached.value or 0)
    said = f"The least budget for ±{percent:g} % is {_words(found.budgets)}: ±{reached:.2g} % {found.reached.of}."
    return {"budgets": found.budgets, "said": said}


def _room(visit: Visit) -> dict[str, Any]:
    """The largest budget of one release that the limits leave beside the others."""
    plan = plan_without_releases(visit.studio)
    blocks, at = _chosen_release(visit)
    largest = ESTIMATES.largest(plan, blocks, at)
    if largest is None:
        return {"budgets": {}, "said": "No limit bounds this question, or its cost needs the number of rows."}
    if largest.budgets is None:
        return {"budgets": {}, "said": largest.sentence}
    (budgets,) = largest.budgets.values()
    priced = ESTIMATES.price(plan, {**blocks[at], **budgets})
    return {"budgets": budgets, "said": f"With what is left: {_words(budgets)}. {priced.sentence}"}


def _chosen_release(visit: Visit) -> tuple[Blocks, int]:
    blocks, faults = _draft_releases(visit)
    at = _index(visit.form.text("which"), blocks)
    if at in faults:
        raise faults[at]
    return blocks, at


def _words(budgets: Mapping[str, Any]) -> str:
    """Budgets in words; all but the main one by name."""
    parts = []
    for name, own in budgets.items():
        several = isinstance(own, Mapping) and any(isinstance(part, Mapping) for part in own.values())
        for key, value in own.items() if several else ((None, own),):
            label = name if key is None else f"{name} of {key}"
            parts.append(as_python(value) if label == "budget" else f"{label} {as_python(value)}")
    return ", ".join(parts)


PAGE = Page(
    "questions",
    _show,
    changes={"save": _save, "budgets": _budgets, "move": _move, "remove": _remove, "copy": _copy},
    parts={"price": _price, "least": _least, "room": _room},
)

__all__ = ["PAGE"]
