"""How the studio is served on this machine, to the browser of whoever started it."""

from __future__ import annotations

import html
import socket
import uuid
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nabladp.errors import SourceError
from nabladp.studio.guard import START
from nabladp.studio.workspace import Workspace, write_whole

if TYPE_CHECKING:
    import uvicorn

HOST = "127.0.0.1"
MOST_AT_ONCE = 64  # connections


def run(folder: Path, port: int, browser: bool) -> None:
    """Serve the studio of a folder until it is interrupted. The browser opens while the app is still loading."""
    workspace = Workspace(folder)
    listening = _listen(port)
    port = listening.getsockname()[1]
    token = uuid.uuid4().hex + uuid.uuid4().hex  # of the system's own generator
    address = f"http://{HOST}:{port}"
    door = workspace.private("start.html")
    print(f"Studio of {workspace.folder.name}: {address}{START}?token={token}\nStop it with Ctrl-C.", flush=True)
    try:
        if browser:
            _open(door, f"{address}{START}?token={token}")
        _serve(workspace, token, listening)
    except KeyboardInterrupt:
        pass
    finally:
        door.unlink(missing_ok=True)
        listening.close()


def _serve(workspace: Workspace, token: str, listening: socket.socket) -> None:
    import uvicorn

    from nabladp.studio.app import make_app

    port = listening.getsockname()[1]
    app = make_app(workspace, token, (f"{HOST}:{port}", f"localhost:{port}"))
    uvicorn.Server(configured(app)).run(sockets=[listening])


def configured(app: Any) -> uvicorn.Config:
    """How uvicorn serves: without a log, whose lines would hold addresses, and without waiting for slow readers."""
    import uvicorn

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
