"""Step 1: which table, and whose rows these are. A file of the folder, a query or a source for Spark; names, types and
the number of rows."""

from __future__ import annotations

from typing import Any

from nabladp.errors import NablaDPError, PlanError, SourceError
from nabladp.schema.files import toml_text
from nabladp.studio import tables
from nabladp.studio.documents import PlanDocument
from nabladp.studio.fields import Fields
from nabladp.studio.jobs import DONE, Jobs
from nabladp.studio.visit import Page, Visit
from nabladp.studio.workspace import BOOKS, TABLES

_HEADER = {"names": True, "row": False}
ONE = "one"
_SPARK = ("url", "user", "password_env", "driver", "master")


def _show(visit: Visit) -> str:
    studio = visit.studio
    job = Jobs(studio.workspace).latest("look")
    plan = studio.plan_document()
    known = tables.facts(studio.workspace)
    source = None if plan is None or not plan.facts("table") else plan.facts("table")[0].get("source")
    current = known if known is not None and known["source"] == source else None
    people, names = _people(visit, plan), [column.name for column in current["columns"]] if current else []
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
        people=people,
        names=[(name, name) for name in dict.fromkeys((*names, people.text("id"), people.text("row_id"))) if name],
    )


def _people(visit: Visit, plan: PlanDocument | None) -> Fields:
    """Whose rows these are, as the plan says, as the fields of a form."""
    if "people" in visit.form:
        return visit.form
    person = next(iter(plan.facts("person")), {}) if plan else {}
    promised = plan.facts("table")[0].get("rows_per_person", 1) if plan and plan.facts("table") else 1
    kind = "named" if person else "promised" if promised != 1 else ONE
    own = {"people": kind, "promised": promised if kind == "promised" else ""} | person
    return Fields((name, str(value)) for name, value in own.items())


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


def _whose(visit: Visit) -> None:
    """Say whose rows these are: one for each person, as many as are promised, or those that a column names."""
    from nabladp.studio.drafts import plan_document

    document, form = plan_document(visit.studio), visit.form
    kind, before, columns = form.text("people", ONE), document.facts("person"), []
    table = {"rows_per_person": _count(form.text("promised")) if kind == "promised" else None}
    if kind == "named":
        columns = [own for name in ("id", "row_id") if (own := form.text(name))]
        if not form.text("id"):
            raise PlanError("No column names people.", fix="Choose the one that says whose a row is.")
        document.edit("person", {"id": form.text("id"), "rows": _count(form.text("rows"))})
        document.edit("person", {"row_id": form.text("row_id") or None})
        table |= {"rows": None} if document.facts("person") != before else {}  # those in use are counted anew
    elif before:
        document.remove("person", 0)
        known, source = tables.facts(visit.studio.workspace), document.facts("table")[0].get("source")
        table["rows"] = known["rows"] if known is not None and known["source"] == source else None
    document.edit("table", table)
    _save_people(visit, document, columns)
    rest = " Check the table in step 2: that counts the rows in use." if columns else ""
    visit.notice(f"Saved whose rows these are.{rest}")


def _save_people(visit: Visit, document: PlanDocument, columns: list[str]) -> None:
    """Save the plan. Columns that name people or order their rows are not used otherwise: the schema loses them."""
    studio, stamp, schema = visit.studio, visit.stamp, visit.studio.schema_document()
    declared = [] if schema is None else [own.name for own in schema.columns() if not own.facts.get("public")]
    dropped = [name for name in columns if name in declared]
    if schema is not None and dropped:
        schema.drop(dropped)
        studio.save_schema(f"not to use {' and '.join(dropped)} as columns", schema, stamp)
        stamp = studio.workspace.stamp()
    try:
        studio.save_plan("whose rows these are", document, stamp)
    except NablaDPError:
        if dropped:
            studio.workspace.undo(stamp)
        raise


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 7:
        raise PlanError("How many rows one person has at most is not stated.", fix="Write a whole number, such as 5.")
    return int(text)


PAGE = Page("table", _show, changes={"open": _open, "people": _whose})
