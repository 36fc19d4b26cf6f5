"""The studio as a web app: its routes, and how it is served on this machine."""

from __future__ import annotations

import html
import os
import socket
import traceback
import uuid
import webbrowser
from functools import cache
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from nabladp.errors import NablaDPError, SourceError
from nabladp.studio.guard import FOREIGN_POLICY, START, App, Guard, Keys
from nabladp.studio.jobs import Jobs
from nabladp.studio.pages import PAGES
from nabladp.studio.studio import Studio, static_file
from nabladp.studio.visit import Fields, Page, Visit
from nabladp.studio.workspace import OutsideFolder, StaleForm, Workspace, write_whole

HOST = "127.0.0.1"
MOST_AT_ONCE = 64  # connections
_BY_NAME = {page.name: page for page in PAGES}
_HOME = PAGES[0]
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
        Route("/published/{path:path}", _published),
        Route("/jobs/{number}", _job),
        Route("/jobs/{number}/stop", _stop, methods=["POST"]),
        Route("/undo", _undo, methods=["POST"]),
        Route("/redo", _redo, methods=["POST"]),
        Route("/{page}", _page),
        Route("/{page}/{part}", _part, methods=["GET", "POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={Exception: _unexpected, 404: _missing})
    app.state.studio = Studio(workspace, keys.change)
    return Guard(app, keys, hosts, f"nabladp-studio-{hosts[0].rpartition(':')[2]}")


@cache
def _load_the_rest() -> None:
    """Load what most pages need, once somebody has seen the first one, which does without."""
    import nabladp.release.plan
    import nabladp.report.site  # noqa: F401


_WARM = BackgroundTask(_load_the_rest)


# ---- pages -----------------------------------------------------------------------------------------------------------


def _visit(request: Request, page: Page) -> Visit:
    studio: Studio = request.app.state.studio
    return Visit(studio, page, Fields(request.query_params.multi_items()), Fields(request.scope["form"]))


def _show(visit: Visit, status: int = 200) -> Response:
    try:
        shown = visit.page.show(visit)
    except NablaDPError as error:
        if visit.problem is None:
            visit.problem, status = error, 409
        shown = visit.render("problem.html.j2")
    return HTMLResponse(shown, status, background=_WARM) if isinstance(shown, str) else shown


def _show_home(request: Request) -> Response:
    return _show(_visit(request, _HOME))


def _page(request: Request) -> Response:
    page = _BY_NAME.get(request.path_params["page"])
    return _missing(request) if page is None else _show(_visit(request, page))


def _part(request: Request) -> Response:
    page, part = _BY_NAME.get(request.path_params["page"]), request.path_params["part"]
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
    visit = _visit(request, _BY_NAME.get(Fields(request.scope["form"]).text("page"), _HOME))
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


def _published(request: Request) -> Response:
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
    page = _BY_NAME.get(Fields(request.scope["form"]).text("page"), _HOME)
    return RedirectResponse(f"/{page.name}", 303)


# ---- what went wrong -------------------------------------------------------------------------------------------------


def _missing(request: Request, _: Exception | None = None) -> Response:
    return HTMLResponse(_plain("There is no such page in the studio."), 404)


def _unexpected(_: Request, error: Exception) -> Response:
    """An error that is not ours: its text may hold a value, so only its type is named."""
    if os.environ.get("NABLADP_DEBUG") == "1":
        traceback.print_exception(error)
    return HTMLResponse(_plain(f"Something unexpected went wrong ({type(error).__name__})."), 500)


def _plain(sentence: str) -> str:
    start = '<!doctype html><html lang="en"><title>nabladp studio</title><link rel="icon" href="data:,">'
    return f'{start}<link rel="stylesheet" href="/static/style.css"><main><p>{html.escape(sentence)}</p>' + (
        '<p><a href="/">To the studio</a></p></main></html>'
    )


# ---- serving ---------------------------------------------------------------------------------------------------------


def run(folder: Path, port: int, browser: bool) -> None:
    """Serve the studio of a folder until it is interrupted."""
    workspace = Workspace(folder)
    listening = _listen(port)
    port = listening.getsockname()[1]
    token = uuid.uuid4().hex + uuid.uuid4().hex  # of the system's own generator
    address = f"http://{HOST}:{port}"
    app = make_app(workspace, token, (f"{HOST}:{port}", f"localhost:{port}"))
    door = workspace.private("start.html")
    print(f"Studio of {workspace.folder.name}: {address}{START}?token={token}\nStop it with Ctrl-C.", flush=True)
    try:
        if browser:
            _open(door, f"{address}{START}?token={token}")
        uvicorn.Server(configured(app)).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        door.unlink(missing_ok=True)
        listening.close()


def configured(app: Any) -> uvicorn.Config:
    """How uvicorn serves: without a log, whose lines would hold addresses, and without waiting for slow readers."""
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        limit_concurrency=MOST_AT_ONCE,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=1 << 14,
    )


def _listen(port: int) -> socket.socket:
    """A socket that only this machine can reach."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # from here on a browser waits, and is not turned away
    except OverflowError:
        listening.close()
        raise SourceError(f"There is no port {port}.", fix="Give --port with a number up to 65535.") from None
    except OSError:
        listening.close()
        raise SourceError(f"Port {port} is in use, or not allowed.", fix="Give another --port, or --port 0.") from None
    return listening


def _open(door: Path, address: str) -> None:
    """Open a browser by way of a file that only its owner may read: the token would be seen in a list of processes."""
    write_whole(door, f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">')
    webbrowser.open(door.as_uri())
