"""How far each step is, read from the files of a folder alone: the first page shows it, and needs little for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nabladp.checks import parse_toml
from nabladp.errors import NablaDPError, PlanError
from nabladp.schema.files import entries, parse
from nabladp.schema.patterns import expand_blocks
from nabladp.schema.rules import CONFIRM, marked_blocks
from nabladp.schema.schema import MOST_ATTRIBUTES
from nabladp.studio import tables
from nabladp.studio.workspace import DIGESTS, PLAN, RECORD, Workspace


@dataclass(frozen=True)
class Progress:
    """How far a step is, in a few words, and whether the next step can be taken."""

    words: str
    done: bool = False


def of_steps(workspace: Workspace) -> dict[str, Progress]:
    """How far each step is, by the name of its page. A file that cannot be read counts as not there: its own page says
    what is wrong with it."""
    plan = _plan(workspace)
    published = _count_releases(workspace)
    return {
        "table": _table(workspace, plan),
        "columns": _columns(workspace),
        "limits": _limits(plan),
        "questions": _questions(plan),
        "release": Progress("published" if published else "not released yet", published > 0),
        "ledger": Progress(_count(published, "published release"), published > 0),
    }


def next_step(far: Mapping[str, Progress]) -> str:
    """The step to go on with: the first that is not done."""
    return next((name for name in far if not far[name].done), "ledger")


def _plan(workspace: Workspace) -> Mapping[str, Any]:
    try:
        text = workspace.read(PLAN)
        return {} if text is None else parse_toml(text, "The plan", PlanError)
    except NablaDPError:
        return {}


def _table(workspace: Workspace, plan: Mapping[str, Any]) -> Progress:
    table = plan.get("table")
    if not isinstance(table, Mapping) or not table.get("source"):
        return Progress("not chosen yet")
    known = tables.facts(workspace)
    source = table["source"]
    name = source if isinstance(source, str) and len(source) < 60 else "a query" if isinstance(source, str) else "Spark"
    if known is None or known["source"] != source:
        return Progress(name, True)
    return Progress(f"{name}: {_count(known['rows'], 'row')}, {_count(len(known['columns']), 'column')}", True)


def _columns(workspace: Workspace) -> Progress:
    try:
        text = workspace.read(workspace.schema_name())
        blocks = expand_blocks([] if text is None else entries(parse(text)), MOST_ATTRIBUTES)
        every = list(blocks)
    except NablaDPError:
        return Progress("cannot be read")
    if not every:
        return Progress("no table yet")
    declared = sum(CONFIRM not in block and not marked_blocks([block]) for block in every)
    return Progress(f"{declared:,} of {len(every):,} declared", len(every) == declared)


def _limits(plan: Mapping[str, Any]) -> Progress:
    budget = plan.get("budget")
    if not isinstance(budget, Mapping):
        return Progress("none yet")
    own = [_several(budget.get(name)) for name in ("attributes", "sets")]
    words = ["each column"] if "per_attribute" in budget else []
    words += [_count(own[0], "column more tightly", "columns by themselves")] if own[0] else []
    words += [_count(own[1], "set of columns", "sets of columns")] if own[1] else []
    words += ["one person"] if "person" in budget else []
    return Progress(f"for {', '.join(words)}" if words else "none yet", bool(words))


def _several(value: Any) -> int:
    return len(value) if isinstance(value, Mapping) else 0


def _questions(plan: Mapping[str, Any]) -> Progress:
    releases = plan.get("release")
    number = len(releases) if isinstance(releases, Sequence) else 0
    return Progress(_count(number, "question"), number > 0)


def _count_releases(workspace: Workspace) -> int:
    """How many folders of the folder hold a release, or those of a plan."""
    found = {path.parent for name in (RECORD, DIGESTS) for path in workspace.folder.glob(f"*/{name}")}
    return sum(not folder.name.startswith(".") for folder in found)


def _count(number: int, one: str, several: str = "") -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {several or one + 's'}"
