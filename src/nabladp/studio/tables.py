"""The table of a studio: which source it is, and what is kept of it: names, types, and how many rows there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from nabladp.errors import SourceError
from nabladp.schema import Column
from nabladp.studio.workspace import PLAN, QUERY, SCHEMA, Workspace, write_whole

FACTS = "table.json"
_HEADER = "The first line of the file may be a row: a column has a number or a date for its name."


def facts(workspace: Workspace) -> dict[str, Any] | None:
    """What is known of the table: ``source``, ``rows`` and ``columns``."""
    try:
        found = json.loads(workspace.private(FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found["columns"] = [Column(*own) for own in found["columns"]]
    return dict(found)


def look(workspace: Workspace, order: Mapping[str, Any], tell: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Look at a source; where ``draft`` is set, draft schema and plan for it; else the plan names it from now on."""
    from nabladp.release import drafts

    source, header = order["source"], order.get("header")
    workspace.check_source(source)
    if isinstance(source, str) and QUERY.match(source):
        _check_population(source, str(order.get("population", "")))
    tell("looking at the columns", 0, 0)
    if header is None and isinstance(source, str) and drafts.doubtful_header(source):
        raise SourceError(_HEADER, fix="Say whether the first line names the columns.")
    query = drafts.headerless_query(source) if header is False else source
    columns = drafts.columns_of(source, header)
    tell("counting rows", 0, 0)
    rows = drafts.count_rows(query)
    texts = (
        _draft_both(workspace, order, rows) if order.get("draft") else _replace_source(workspace, query, order, rows)
    )
    workspace.change(f"the table: {_short(source)}", texts, order.get("stamp"))
    kept = {"source": query, "rows": rows, "columns": columns}
    write_whole(workspace.private(FACTS), json.dumps(kept, ensure_ascii=False))
    return {"rows": rows, "columns": len(columns)}


def _check_population(query: str, sentence: str) -> None:
    """Refuse to count the rows of a query that selects some, where nobody says why it is public which ones."""
    from nabladp.release.drafts import check_population

    try:
        check_population(query, sentence)
    except SourceError as error:
        raise SourceError(error.message, fix="Say beside the query why that is public, or take all rows.") from None


def _draft_both(workspace: Workspace, order: Mapping[str, Any], rows: int) -> dict[str, str]:
    """Fresh drafts of schema and plan."""
    from nabladp.release.drafts import draft_files
    from nabladp.studio.documents import PlanDocument

    book = order.get("codebook")
    paths = (workspace.folder / SCHEMA, workspace.folder / PLAN)
    drafted = draft_files(order["source"], *paths, workspace.path(book) if book else None, order.get("header"))
    plan = PlanDocument(drafted.plan)
    plan.edit("table", {"rows": rows, **_population(order)})
    return {SCHEMA: drafted.schema, PLAN: plan.text()}


def _replace_source(workspace: Workspace, source: Any, order: Mapping[str, Any], rows: int) -> dict[str, str]:
    """The plan with another source; its schema stays."""
    from nabladp.studio.documents import PlanDocument

    text = workspace.read(PLAN)
    if text is None:
        raise SourceError("There is no plan yet.", fix="Choose a table, and have schema and plan drafted.")
    plan = PlanDocument(text)
    bounded = bool(plan.facts("person"))  # then the rows that are used are counted, which are fewer
    plan.edit("table", {"source": source, "rows": None if bounded else rows, **_population(order)})
    return {PLAN: plan.text()}


def _population(order: Mapping[str, Any]) -> dict[str, Any]:
    return {"population": order.get("population") or None}


def _short(source: Any) -> str:
    return source if isinstance(source, str) and len(source) < 60 else "a query" if isinstance(source, str) else "Spark"


def spark_source(kind: str, value: str, more: Mapping[str, str]) -> dict[str, Any]:
    """A source for Spark from a form: what kind of reader, what it reads, and other entries that are not empty."""
    named = {"parquet": "path", "delta": "path", "table": "name", "jdbc": "table"}
    if kind not in named:
        raise SourceError("Spark has no such reader here.", fix=f"Choose one of {', '.join(named)}.")
    return {"spark": kind, named[kind]: value, **{key: text for key, text in more.items() if text}}
