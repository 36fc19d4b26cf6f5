"""Step 1: which table. A file of the folder, a query or a source for Spark; names, types and the number of rows."""

from __future__ import annotations

from typing import Any

from nabladp.errors import SourceError
from nabladp.schema.files import toml_text
from nabladp.studio import tables
from nabladp.studio.fields import Fields
from nabladp.studio.jobs import DONE, Jobs
from nabladp.studio.visit import Page, Visit
from nabladp.studio.workspace import BOOKS, TABLES

_HEADER = {"names": True, "row": False}
_SPARK = ("url", "user", "password_env", "driver", "master")


def _show(visit: Visit) -> str:
    studio = visit.studio
    job = Jobs(studio.workspace).latest("look")
    plan = studio.plan_document()
    known = tables.facts(studio.workspace)
    source = None if plan is None or not plan.facts("table") else plan.facts("table")[0].get("source")
    current = known if known is not None and known["source"] == source else None
    return visit.render(
        "table.html.j2",
        job=job,
        stopping=job is not None and Jobs(studio.workspace).is_stopping(job.id),
        source=source,
        source_text=source if isinstance(source, str) else toml_text(source) if source is not None else "",
        known=current,
        population=plan.facts("table")[0].get("population", "") if source is not None and plan is not None else "",
        tables=[(name, name) for name in studio.workspace.files(TABLES)],
        books=[(name, name) for name in studio.workspace.files(BOOKS) if name != source],
        given=visit.form or Fields(tuple((job.order.get("form") or {}).items()) if job and job.state != DONE else ()),
    )


def _open(visit: Visit) -> None:
    """Look at the table that the form names, in the background."""
    form, workspace = visit.form, visit.studio.workspace
    source = _source(form)
    workspace.check_source(source)
    book = form.text("codebook")
    if book:
        workspace.path(book)
    Jobs(workspace).start(
        "look",
        source=source,
        header=_HEADER.get(form.text("header")),
        codebook=book,
        population=form.text("population"),
        draft=form.text("schema") != "keep" or visit.studio.schema_document() is None,
        stamp=visit.stamp,
        form=dict(form.items()),
    )


def _source(form: Fields) -> Any:
    kind = form.text("from", "file")
    text = form.text({"file": "file", "query": "query", "spark": "spark_value"}.get(kind, "file"))
    if not text:
        raise SourceError("No table is chosen.", fix="Choose a file, or write a query.")
    if kind == "spark":
        return tables.spark_source(form.text("spark_kind"), text, {name: form.text(name) for name in _SPARK})
    if kind == "query" and text[:6].lower().split()[:1] not in (["select"], ["from"], ["with"]):
        raise SourceError("The query must begin with SELECT, FROM or WITH.", fix="Write FROM 'people.csv'.")
    return text


PAGE = Page("table", _show, changes={"open": _open})
