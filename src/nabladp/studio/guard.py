"""Who may talk to the studio: every request passes this one gate before anything else sees it.

A web page from elsewhere can make a browser send requests to this machine. So a request must name this very host
(against DNS rebinding), must not come from another site, and must hold the session's cookie; a change must hold the
session's change token as well. Bodies are read here, bounded in size and time.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

MOST_BODY = 1 << 20  # bytes
MOST_FIELDS = 20_000
MOST_TARGET = 1 << 13  # bytes of a path with its query
PATIENCE = 5.0  # seconds for a whole body
FORM = "application/x-www-form-urlencoded"
START = "/start"
CHANGE_FIELD, CHANGE_HEADER = "csrf", b"x-change-token"

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types studio",
    )
)
# A page of a release is a file that somebody may have sent. Whatever it holds, it has an origin of its own: it cannot
# read this app's pages, nor send it anything. Its own policy, in the page, narrows this further.
FOREIGN_POLICY = "; ".join(
    (
        "sandbox allow-scripts allow-downloads allow-modals",
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_SEALS = {
    b"cache-control": b"no-store",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"same-origin",  # with none at all, browsers state no origin of a form either
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
}


class Refused(Exception):
    """A request that is not let in: its status, and a sentence that repeats nothing of it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Keys:
    """What a browser must show: the token it starts with, and what it is given in exchange."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.session = self._derive_key("session")
        self.change = self._derive_key("change")

    def _derive_key(self, use: str) -> str:
        return hmac.new(self.token.encode(), use.encode(), hashlib.sha256).hexdigest()


class Guard:
    """The gate, as ASGI middleware. ``hosts`` are the names under which the app is served, with their port."""

    def __init__(self, app: App, keys: Keys, hosts: Iterable[str], cookie: str) -> None:
        self._app, self._keys, self._cookie = app, keys, cookie
        self._hosts = frozenset(host.encode() for host in hosts)
        self._origins = frozenset(b"http://" + host for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        try:
            self._check_place(scope)
            if scope["path"] == START:
                return await self._start(scope, send)
            self._check_session(scope)
            body = await self._read(scope, receive)
        except Refused as refusal:
            return await _answer(send, refusal.status, f"<p>{html.escape(refusal.sentence)}</p>")
        await self._app(scope, _replay(body), _add_policies(send))

    # ---- where a request comes from ----------------------------------------------------------------------------------

    def _check_place(self, scope: Scope) -> None:
        hosts = _all(scope, b"host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise Refused(421, "The studio answers under the address that it printed, and no other.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            raise Refused(405, "Pages are read with GET and changed with POST.")
        if len(scope["raw_path"] or b"") + len(scope["query_string"]) > MOST_TARGET:
            raise Refused(414, "The address is too long.")
        if any(origin not in self._origins for origin in _all(scope, b"origin")):
            raise Refused(403, "The request comes from another site.")
        sites = set(_all(scope, b"sec-fetch-site"))
        own = {b"same-origin", b"none"} if scope["method"] != "POST" else {b"same-origin"}
        if scope["path"] != START and not sites <= own:
            raise Refused(403, "The request comes from another site.")

    async def _start(self, scope: Scope, send: Send) -> None:
        """Exchange the start token for a cookie. The page then goes on by itself: what it asks for comes from here."""
        given = [value for name, value in _fields(scope["query_string"]) if name == "token"]
        if scope["method"] != "GET" or len(given) != 1 or not _same(given[0], self._keys.token):
            raise Refused(403, "The start token is wrong. Use the address that the studio printed last.")
        cookie = f"{self._cookie}={self._keys.session}; HttpOnly; SameSite=Strict; Path=/"
        body = '<meta http-equiv="refresh" content="0; url=/"><p><a href="/">Go on to the studio</a></p>'
        await _answer(send, 200, body, [(b"set-cookie", cookie.encode())])

    def _check_session(self, scope: Scope) -> None:
        pairs = (part.strip().partition("=") for line in _all(scope, b"cookie") for part in _text(line).split(";"))
        given = [value for name, _, value in pairs if name == self._cookie]
        if not given or not all(_same(value, self._keys.session) for value in given):
            raise Refused(403, "This browser has no session. Open the address that the studio printed when it started.")

    # ---- bodies ------------------------------------------------------------------------------------------------------

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request, bounded; for a change, its fields are checked and put into the scope as ``form``."""
        scope["form"] = []
        lengths = _all(scope, b"content-length")
        if len(lengths) > 1 or not all(length.isdigit() and len(length) < 20 for length in lengths):
            raise Refused(400, "The Content-Length header is not valid.")
        if lengths and int(lengths[0]) > MOST_BODY:
            raise Refused(413, f"The form is too large: the limit is {MOST_BODY:,} bytes.")
        try:
            body = await asyncio.wait_for(_collect(receive), PATIENCE)
        except TimeoutError:
            raise Refused(408, "The form took too long to arrive.") from None
        if scope["method"] == "POST":
            self._check_change(scope, body)
        return body

    def _check_change(self, scope: Scope, body: bytes) -> None:
        if not _all(scope, b"origin") and not _all(scope, b"sec-fetch-site"):
            raise Refused(403, "The request does not say where it comes from.")
        kinds = _all(scope, b"content-type")
        if len(kinds) != 1 or _text(kinds[0]).partition(";")[0].strip().lower() != FORM:
            raise Refused(415, "Changes are sent as a form.")
        fields = _fields(body)
        given = [value for name, value in fields if name == CHANGE_FIELD]
        given += [_text(value) for value in _all(scope, CHANGE_HEADER)]
        if len(given) != 1 or not _same(given[0], self._keys.change):
            raise Refused(403, "The form is not of this session. Open the page again.")
        scope["form"] = [(name, value) for name, value in fields if name != CHANGE_FIELD]


def _all(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())


def _fields(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:  # also too many fields, and bytes that are not UTF-8
        raise Refused(400, "The form cannot be read.") from None


async def _collect(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(400, "The form did not arrive as a whole.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BODY:
            raise Refused(413, f"The form is too large: the limit is {MOST_BODY:,} bytes.")
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes) -> Receive:
    """A body that was read already, for whoever is behind the gate."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    return receive


def _add_policies(send: Send) -> Send:
    """Every answer with the policies that keep it where it belongs; a page of a release brings a stricter one."""

    async def seal(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = _seal(list(message.get("headers", ())))
        await send(message)

    return seal


def _seal(headers: Headers) -> Headers:
    given = {name.lower() for name, _ in headers}
    seals = [(name, value) for name, value in _SEALS.items() if name not in given]
    policy = [] if b"content-security-policy" in given else [(b"content-security-policy", POLICY.encode())]
    return [*headers, *seals, *policy]


async def _answer(send: Send, status: int, body: str, more: Headers | None = None) -> None:
    head = '<title>nabladp studio</title><link rel="icon" href="data:,">'
    content = f'<!doctype html><html lang="en">{head}{body}</html>'.encode()
    headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": _seal([*headers, *(more or [])])})
    await send({"type": "http.response.body", "body": content})
