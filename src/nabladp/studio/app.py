"""The studio as a web app: its routes, and what each answers."""

from __future__ import annotations

import html
import os
import threading
import traceback
from functools import cache

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from nabladp.errors import NablaDPError
from nabladp.studio.fields import Fields
from nabladp.studio.guard import FOREIGN_POLICY, App, Guard, Keys
from nabladp.studio.jobs import Jobs
from nabladp.studio.pages import HOME, STEPS, find_page, load_page
from nabladp.studio.progress import next_step, of_steps
from nabladp.studio.studio import Studio, static_file
from nabladp.studio.visit import Page, Visit
from nabladp.studio.workspace import OutsideFolder, StaleForm, Workspace

SEEN = 1.0  # seconds until a browser has what belongs to a page
_PUBLISHED = {
    ".html": "text/html",
    ".pdf": "application/pdf",
    ".csv": "text/csv",
    ".parquet": "application/octet-stream",
}


def make_app(workspace: Workspace, token: str, hosts: tuple[str, ...]) -> App:
    """The studio of a folder behind its guard. ``hosts`` are the names with port under which it is served."""
    keys = Keys(token)
    routes = [
        Route("/", _show_home),
        Route("/static/{name}", _static),
        Route("/published/{path:path}", _serve_published_file),
        Route("/jobs/{number}", _job),
        Route("/jobs/{number}/stop", _stop, methods=["POST"]),
        Route("/undo", _undo, methods=["POST"]),
        Route("/redo", _redo, methods=["POST"]),
        Route("/{page}", _page),
        Route("/{page}/{part}", _part, methods=["GET", "POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={Exception: _unexpected_error, 404: _missing})
    app.state.studio = Studio(workspace, keys.change, STEPS)
    return Guard(app, keys, hosts, f"nabladp-studio-{hosts[0].rpartition(':')[2]}")


@cache
def _load_the_rest() -> None:
    """Load what most pages need, once somebody has seen the first one, which does without."""
    thread = threading.Timer(SEEN, lambda: [load_page(name) for name in STEPS])
    thread.daemon = True
    thread.start()


# ---- pages -----------------------------------------------------------------------------------------------------------


def _visit(request: Request, page: Page) -> Visit:
    studio: Studio = request.app.state.studio
    return Visit(studio, page, Fields(request.query_params.multi_items()), Fields(request.scope["form"]))


def _home() -> Page:
    return load_page(HOME)


def _asking(request: Request) -> Page:
    """The page on which a form of every page was sent."""
    return find_page(Fields(request.scope["form"]).text("page")) or _home()


def _show(visit: Visit, status: int = 200) -> Response:
    try:
        shown = visit.page.show(visit)
    except NablaDPError as error:
        if visit.problem is None:
            visit.problem, status = error, 409
        shown = visit.render("problem.html.j2", following=next_step(of_steps(visit.studio.workspace)))
    _load_the_rest()
    return HTMLResponse(shown, status) if isinstance(shown, str) else shown


def _show_home(request: Request) -> Response:
    return _show(_visit(request, _home()))


def _page(request: Request) -> Response:
    page = find_page(request.path_params["page"])
    return _missing(request) if page is None else _show(_visit(request, page))


def _part(request: Request) -> Response:
    page, part = find_page(request.path_params["page"]), request.path_params["part"]
    if page is not None and request.method == "POST" and part in page.changes:
        return _change(_visit(request, page), part)
    if page is None or part not in page.parts:
        return _missing(request)
    visit = _visit(request, page)
    try:
        answer = page.parts[part](visit)
    except NablaDPError as error:
        return JSONResponse({"message": error.message, "fix": error.fix}, 422)
    if isinstance(answer, Response):
        return answer
    return HTMLResponse(answer) if isinstance(answer, str) else JSONResponse(answer)


def _change(visit: Visit, part: str) -> Response:
    try:
        goal = visit.page.changes[part](visit)
    except NablaDPError as error:
        visit.problem = error
        return _show(visit, 409 if isinstance(error, StaleForm) else 422)
    return RedirectResponse(goal or f"/{visit.page.name}", 303)


def _undo(request: Request) -> Response:
    return _move(request, "undo", "Undone")


def _redo(request: Request) -> Response:
    return _move(request, "redo", "Made again")


def _move(request: Request, way: str, said: str) -> Response:
    visit = _visit(request, _asking(request))
    workspace = visit.studio.workspace
    try:
        visit.notice(f"{said}: {(workspace.undo if way == 'undo' else workspace.redo)(visit.stamp)}.")
    except NablaDPError as error:
        visit.problem = error
        visit.form = Fields()
        return _show(visit, 409)
    return RedirectResponse(f"/{visit.page.name}", 303)


# ---- files -----------------------------------------------------------------------------------------------------------


def _static(request: Request) -> Response:
    found = static_file(request.path_params["name"])
    return _missing(request) if found is None else Response(found[0], media_type=found[1])


def _serve_published_file(request: Request) -> Response:
    """A file of a published folder: its report with a policy of its own, anything else as a download."""
    from nabladp.release.record import DIGESTS, RECORD

    studio: Studio = request.app.state.studio
    try:
        path = studio.workspace.path(request.path_params["path"])
    except OutsideFolder:
        return _missing(request)
    kind = _PUBLISHED.get(path.suffix)
    beside = (path.parent, path.parent.parent)
    released = any((folder / name).is_file() for folder in beside for name in (RECORD, DIGESTS))
    if kind is None or not path.is_file() or not released:
        return _missing(request)
    if kind == "text/html":
        return HTMLResponse(path.read_text(encoding="utf-8"), headers={"content-security-policy": FOREIGN_POLICY})
    return FileResponse(path, media_type=kind, filename=path.name)


def _job(request: Request) -> Response:
    studio: Studio = request.app.state.studio
    job = Jobs(studio.workspace).find(request.path_params["number"])
    return _missing(request) if job is None else JSONResponse(job.to_json())


def _stop(request: Request) -> Response:
    studio: Studio = request.app.state.studio
    Jobs(studio.workspace).stop(request.path_params["number"])
    return RedirectResponse(f"/{_asking(request).name}", 303)


# ---- what went wrong -------------------------------------------------------------------------------------------------


def _missing(request: Request, _: Exception | None = None) -> Response:
    return HTMLResponse(_plain("There is no such page in the studio."), 404)


def _unexpected_error(_: Request, error: Exception) -> Response:
    """An error that is not ours: its text may hold a value, so only its type is named."""
    if os.environ.get("NABLADP_DEBUG") == "1":
        traceback.print_exception(error)
    return HTMLResponse(_plain(f"Something unexpected went wrong ({type(error).__name__})."), 500)


def _plain(sentence: str) -> str:
    start = '<!doctype html><html lang="en"><title>nabladp studio</title><link rel="icon" href="data:,">'
    return f'{start}<link rel="stylesheet" href="/static/style.css"><main><p>{html.escape(sentence)}</p>' + (
        '<p><a href="/">To the studio</a></p></main></html>'
    )
