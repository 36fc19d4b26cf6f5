"""Step 2: what each column may hold, declared from public knowledge; one by one, or those that are alike together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nabladp.errors import NablaDPError, SchemaError
from nabladp.schema import CodeBook, Column, draft
from nabladp.schema.files import entries, parse
from nabladp.studio import declaring, tables
from nabladp.studio.documents import Declared, SchemaDocument
from nabladp.studio.jobs import Jobs
from nabladp.studio.visit import Page, Visit
from nabladp.studio.workspace import BOOKS

_IN_THE_FORM = {  # what a fix asks for in a schema, in the words of a column's form
    'write null = "category" for it in the schema': "make empty fields a category of their own",
    'write unknown = "other" or "clamp" for it in the schema': (
        "make other values a category of their own, or count them as the nearest end"
    ),
    'write unknown = "other" for it in the schema': "make other values a category of their own",
}


def _document(visit: Visit) -> SchemaDocument:
    document = visit.studio.schema_document()
    if document is None:
        raise SchemaError("There is no schema yet.", fix="Choose a table first: the studio then drafts one.")
    return document


def _show(visit: Visit) -> str:
    document = _document(visit)
    columns = document.columns()
    again = visit.problem is not None and "kind" in visit.form
    names = visit.form.all("name") if again else visit.query.all("name")
    chosen = [column for column in columns if column.name in names]
    return _form(visit, columns, chosen) if chosen else _list(visit, columns)


def _list(visit: Visit, columns: Sequence[Declared]) -> str:
    jobs = Jobs(visit.studio.workspace)
    check = jobs.latest("check")
    known = {column.name for column in columns}
    plan = visit.studio.plan_document()
    known |= {own[key] for own in (plan.facts("person") if plan else []) for key in ("id", "row_id") if key in own}
    words = {column.name: column for column in _table_columns(visit)}
    return visit.render(
        "columns.html.j2",
        columns=[(column, declaring.summary(column.facts), words.get(column.name)) for column in columns],
        declared=sum(not column.to_do for column in columns),
        following=next((column.name for column in columns if column.to_do), ""),
        unused=[name for name in words if name not in known],
        books=[(name, name) for name in visit.studio.workspace.files(BOOKS)],
        check=check,
        findings=[{**own, "fix": _in_the_form(own["fix"])} for own in check.answer.get("findings", ())]
        if check
        else [],
        stopping=check is not None and jobs.is_stopping(check.id),
        is_of_now=check is not None
        and visit.studio.workspace.stamp() in (check.order.get("stamp"), check.answer.get("stamp")),
    )


def _in_the_form(fix: str) -> str:
    fix = fix[:1].lower() + fix[1:]
    for asked, words in _IN_THE_FORM.items():
        fix = fix.replace(asked, words)
    return fix[:1].upper() + fix[1:]


def _table_columns(visit: Visit) -> list[Column]:
    known = tables.facts(visit.studio.workspace)
    return [] if known is None else list(known["columns"])


def _form(visit: Visit, columns: Sequence[Declared], chosen: Sequence[Declared]) -> str:
    names = [column.name for column in columns]
    number = names.index(chosen[0].name)
    first = chosen[0]
    given = visit.form if "kind" in visit.form else declaring.to_fields(first.facts)
    word = next((column for column in _table_columns(visit) if column.name == first.name), None)
    return visit.render(
        "column.html.j2",
        chosen=chosen,
        given=given,
        kinds=declaring.KINDS,
        periods=declaring.PERIODS,
        others=[name for name in names if name not in {column.name for column in chosen}],
        word=word,
        asked=[own for own in first.facts.get("null_values", ()) if declaring.is_marked(own)],
        confirm=first.facts.get("confirm", ""),
        previous=names[number - 1] if number else "",
        following=any(column.to_do for column in columns if column not in chosen),
        books=[(name, name) for name in visit.studio.workspace.files(BOOKS)],
        preview=_declaration_preview(first.facts),
    )


def _declaration_preview(facts: Any) -> dict[str, Any]:
    """What a declaration means, or why it means nothing yet."""
    if any(map(declaring.is_marked, facts.values())):
        return {"problem": "Its domain is still to be filled in.", "attribute": None, "picture": None, "levels": []}
    try:
        first, *levels = declaring.attributes(facts)
    except NablaDPError as error:
        return {"problem": f"{error.message} {error.fix}", "attribute": None, "picture": None, "levels": []}
    return {"problem": "", "attribute": first, "picture": declaring.picture(first), "levels": levels}


def _preview(visit: Visit) -> str:
    """The declaration of a form that is not saved yet: its bins as a picture, and what is wrong with it."""
    name = visit.form.text("name")
    before = next((column.facts for column in _document(visit).columns() if column.name == name), {"name": name})
    try:
        edited = {**before, **declaring.changes(before, visit.form)}
        preview = _declaration_preview({key: value for key, value in edited.items() if value is not None})
    except NablaDPError as error:
        preview = {"problem": f"{error.message} {error.fix}", "attribute": None, "picture": None, "levels": []}
    return visit.render("part-domain.html.j2", preview=preview)


def _save(visit: Visit) -> str | None:
    document = _document(visit)
    names = visit.form.all("name")
    known = {column.name: column for column in document.columns()}
    chosen = [name for name in names if name in known]
    if not chosen:
        raise SchemaError("No column is chosen.", fix="Choose at least one.")
    edited = declaring.changes(known[chosen[0]].facts, visit.form)
    if edited:
        document.declare(chosen, edited)
        visit.studio.save_schema(f"the declaration of {_columns_label(chosen)}", document, visit.stamp, tuple(chosen))
    left = [column.name for column in document.columns() if column.to_do]
    visit.notice(f"Saved {_columns_label(chosen)}; {_rest(left)}.")
    after = visit.form.text("next")
    if after == "stay":
        return f"/columns?{_query(chosen)}"
    return f"/columns?{_query([left[0]])}" if after == "left" and left else "/columns"


def _rest(left: Sequence[str]) -> str:
    return "one column is left" if len(left) == 1 else f"{len(left):,} columns are left" if left else "all are declared"


def _columns_label(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names):,} columns"


def _query(names: Sequence[str]) -> str:
    from urllib.parse import urlencode

    return urlencode([("name", name) for name in names])


def _drop(visit: Visit) -> None:
    document, names = _document(visit), visit.form.all("name")
    document.drop(names)
    if not document.columns():
        raise SchemaError("A schema needs at least one column.", fix="Keep the columns that a question is about.")
    visit.studio.save_schema(f"not to use {_columns_label(names)}", document, visit.stamp)


def _use(visit: Visit) -> None:
    """Add columns of the table to the schema, as drafts."""
    document, names = _document(visit), visit.form.all("name")
    for column in _table_columns(visit):
        if column.name in names:
            document.declare([column.name], _draft_from_code_book(column, None))
    visit.studio.save_schema(f"to use {_columns_label(names)}", document, visit.stamp)


def _codebook(visit: Visit) -> None:
    """Declare columns as a code book says: the ones chosen, or all that wait."""
    document = _document(visit)
    book = CodeBook.load(visit.studio.workspace.path(visit.form.text("codebook")))
    chosen = visit.form.all("name")
    words = {column.name: column for column in _table_columns(visit)}
    found = 0
    for declared in document.columns():
        if (declared.name in chosen if chosen else declared.to_do == "fill in") and book.get(declared.name) is not None:
            fresh = _draft_from_code_book(words.get(declared.name, Column(declared.name, "text")), book)
            gone = {key: None for key in declared.facts if key not in fresh and key != "name"}
            document.declare([declared.name], {**gone, **fresh})
            found += 1
    if not found:
        raise SchemaError("The code book says nothing about these columns.", fix="Choose others, or another code book.")
    visit.studio.save_schema(f"domains of {found:,} columns from a code book", document, visit.stamp)
    left = [column.name for column in document.columns() if column.to_do]
    visit.notice(f"Took {found:,} {'column' if found == 1 else 'columns'} from the code book; {_rest(left)}.")


def _draft_from_code_book(column: Column, book: CodeBook | None) -> dict[str, Any]:
    block = dict(entries(parse(draft([column], book)))[0])
    del block["name"]
    return block


def _check(visit: Visit) -> None:
    """Check every row against the schema, in the background."""
    visit.studio.plan()
    Jobs(visit.studio.workspace).start("check", stamp=visit.studio.workspace.stamp())


PAGE = Page(
    "columns",
    _show,
    changes={"save": _save, "drop": _drop, "use": _use, "codebook": _codebook, "check": _check},
    parts={"preview": _preview},
)
