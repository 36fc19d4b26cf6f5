"""Attacks on a studio: what a web page from elsewhere, another program or a sly file may try. Each says how it was let
in, or nothing."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

FORM = "application/x-www-form-urlencoded"
WORD = "CANARY-7391"  # a value of the table, which no answer may hold
OUTSIDE = "OUTSIDE-5520"  # in files beside the folder
REFUSED = range(400, 500)


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class Target:
    """A studio that is running: where it listens, its folder, and what a browser holds that was let in. ``answers`` is
    everything that it ever said."""

    port: int
    token: str
    folder: Path
    process: int = 0
    answers: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: str | bytes | None = None, headers: Any = ()) -> Answer:
        """One request, its headers as given: a mapping, or pairs where one name stands twice."""
        pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as wire:
            wire.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if not any(name.lower() == "host" for name, _ in pairs):
                pairs.append(("Host", self.host))
            content = body.encode() if isinstance(body, str) else body
            if content is not None and not any(name.lower() == "content-length" for name, _ in pairs):
                pairs.append(("Content-Length", str(len(content))))
            for name, value in pairs:
                wire.putheader(name, value)
            wire.endheaders(content)
            got = wire.getresponse()
            text = got.read().decode("utf-8", "replace")
            self.answers.append(f"{got.getheaders()}\n{text}")
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, text)

    def cookie(self) -> str:
        return self.ask("GET", f"/start?token={self.token}").headers["set-cookie"].partition(";")[0]

    def own(self, **more: str) -> dict[str, str]:
        """The headers of a browser that was let in."""
        own = {"Cookie": self.cookie(), "Origin": f"http://{self.host}", "Sec-Fetch-Site": "same-origin"}
        return own | {name.replace("_", "-"): value for name, value in more.items()}

    def page(self, path: str) -> Answer:
        return self.ask("GET", path, headers=self.own())

    def fields(self) -> dict[str, str]:
        """What every form of the studio holds: the change token, and the version of the files."""
        text = self.page("/table").text
        return {name: str(re.search(rf'name="{name}" value="(\w+)"', text)[1]) for name in ("csrf", "stamp")}  # type: ignore[index]

    def post(self, path: str, headers: Mapping[str, str] | None = None, **given: str) -> Answer:
        """A change as the studio's own forms make it; fields may be replaced."""
        content = urlencode({**self.fields(), **given})
        return self.ask("POST", path, content, {**self.own(), "Content-Type": FORM, **(headers or {})})

    def wait(self, kind: str) -> dict[str, Any]:
        """The last job of a kind, once it has ended."""
        from nabladp.studio.jobs import Jobs
        from nabladp.studio.workspace import Workspace

        end = time.monotonic() + 120
        while time.monotonic() < end:
            job = Jobs(Workspace(self.folder)).latest(kind)
            if job is not None and not job.runs:
                return {**job.to_json(), "answer": job.answer, "error": job.error}
            time.sleep(0.05)
        raise TimeoutError(kind)


Attack = Callable[[Target], str]
ATTACKS: dict[str, Attack] = {}


def attack(try_it: Attack) -> Attack:
    ATTACKS[try_it.__name__] = try_it
    return try_it


def _let_in(*answers: Answer) -> str:
    """Which of these answers is not a refusal."""
    open_ones = [answer for answer in answers if answer.status not in REFUSED or OUTSIDE in answer.text]
    return "; ".join(f"{answer.status}: {answer.text[:80]!r}" for answer in open_ones)


# ---- who may talk to it ----------------------------------------------------------------------------------------------


@attack
def no_session(target: Target) -> str:
    return _let_in(*(target.ask("GET", path) for path in ("/", "/table", "/ledger", "/static/studio.js", "/jobs/1")))


@attack
def wrong_session(target: Target) -> str:
    name = target.cookie().partition("=")[0]
    return _let_in(*(target.ask("GET", "/table", headers={"Cookie": f"{name}={own}"}) for own in ("", "0" * 64, "é")))


@attack
def second_cookie_beside_the_right_one(target: Target) -> str:
    name = target.cookie().partition("=")[0]
    return _let_in(target.ask("GET", "/table", headers={"Cookie": f"{name}={'0' * 64}; {target.cookie()}"}))


@attack
def wrong_start_token(target: Target) -> str:
    tokens = ("", "0" * 64, target.token[:-1], target.token + "0", f"{target.token}&token=x")
    return _let_in(*(target.ask("GET", f"/start?token={own}") for own in tokens), target.ask("GET", "/start"))


@attack
def start_token_in_place_of_the_cookie(target: Target) -> str:
    name = target.cookie().partition("=")[0]
    return _let_in(
        target.ask("GET", f"/table?token={target.token}"),
        target.ask("GET", "/table", headers={"Cookie": f"{name}={target.token}"}),
    )


@attack
def other_host(target: Target) -> str:
    hosts = ("evil.example", f"evil.example:{target.port}", "127.0.0.1", f"127.0.0.1:{target.port + 1}", "")
    return _let_in(*(target.ask("GET", "/table", headers=target.own(Host=host)) for host in hosts))


@attack
def rebound_name(target: Target) -> str:
    """DNS rebinding: a name of the attacker's that leads to this machine, all else as a browser sends it."""
    host = f"rebound.example:{target.port}"
    own = target.own(Host=host, Origin=f"http://{host}")
    paths = ("/table", f"/start?token={target.token}")
    return _let_in(*(target.ask("GET", path, headers=own) for path in paths))


@attack
def two_hosts(target: Target) -> str:
    pairs = [*target.own().items(), ("Host", target.host), ("Host", "evil.example")]
    return _let_in(target.ask("GET", "/table", headers=pairs))


@attack
def no_host(target: Target) -> str:
    with closing(socket.create_connection(("127.0.0.1", target.port), 10)) as wire:
        wire.sendall(f"GET /table HTTP/1.0\r\nCookie: {target.cookie()}\r\n\r\n".encode())
        status = wire.recv(100).split(b" ")[1:2]
    return "" if status and int(status[0]) in REFUSED else f"{status}"


@attack
def other_origin(target: Target) -> str:
    origins = (
        "http://evil.example",
        "null",
        f"https://{target.host}",
        "http://127.0.0.1:1",
        f"http://{target.host}.evil",
    )
    return _let_in(*(target.post("/table/open", {"Origin": own}, file="people.csv") for own in origins))


@attack
def cross_site_form(target: Target) -> str:
    """A form on another page that sends itself: the browser says where it comes from."""
    sites = ("cross-site", "same-site", "none", "anything")
    return _let_in(*(target.post("/table/open", {"Sec-Fetch-Site": own}, file="people.csv") for own in sites))


@attack
def cross_site_picture(target: Target) -> str:
    return _let_in(target.ask("GET", "/table", headers=target.own(Sec_Fetch_Site="cross-site")))


@attack
def form_that_hides_where_it_comes_from(target: Target) -> str:
    content = urlencode({**target.fields(), "file": "people.csv"})
    own = {"Cookie": target.cookie(), "Content-Type": FORM}
    return _let_in(target.ask("POST", "/table/open", content, own))


@attack
def missing_change_token(target: Target) -> str:
    own = {**target.own(), "Content-Type": FORM}
    fields = {"stamp": target.fields()["stamp"], "file": "people.csv"}
    bodies = (("/table/open", urlencode(fields)), ("/undo", ""))
    return _let_in(*(target.ask("POST", path, body, own) for path, body in bodies))


@attack
def wrong_change_token(target: Target) -> str:
    session = target.cookie().partition("=")[2]
    return _let_in(*(target.post("/undo", csrf=own) for own in ("", "0" * 64, session, target.token)))


@attack
def two_change_tokens(target: Target) -> str:
    return _let_in(target.post("/undo", {"X-Change-Token": target.fields()["csrf"]}))


@attack
def change_by_get(target: Target) -> str:
    given = urlencode({**target.fields(), "from": "file", "file": "people.csv"})
    before = target.fields()["stamp"]
    answers = [target.page(f"{path}?{given}") for path in ("/table/open", "/undo", "/release/start", "/ledger/void")]
    return _let_in(*answers) or ("" if target.fields()["stamp"] == before else "the files changed")


@attack
def other_methods(target: Target) -> str:
    methods = ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT")
    return _let_in(*(target.ask(method, "/table", headers=target.own()) for method in methods))


@attack
def other_kind_of_body(target: Target) -> str:
    fields = target.fields()
    kinds = {"text/plain": urlencode(fields), "application/json": json.dumps(fields), "multipart/form-data": "--x--"}
    own = {**target.own(), "X-Change-Token": fields["csrf"]}
    return _let_in(*(target.ask("POST", "/undo", body, {**own, "Content-Type": kind}) for kind, body in kinds.items()))


@attack
def upgrade_to_a_socket(target: Target) -> str:
    more = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "eA==", "Sec-WebSocket-Version": "13"}
    answer = target.ask("GET", "/table", headers={"Host": target.host, **more})
    return _let_in(answer)


# ---- too much --------------------------------------------------------------------------------------------------------


@attack
def oversized_body(target: Target) -> str:
    with suppress(BrokenPipeError, ConnectionResetError):  # it may stop listening before all is said
        return _let_in(target.post("/table/open", query="x" * (1 << 21)))
    return ""


@attack
def oversized_body_of_unknown_length(target: Target) -> str:
    own = {**target.own(), "Content-Type": FORM, "Transfer-Encoding": "chunked"}
    lines = [f"POST /undo HTTP/1.1\r\nHost: {target.host}\r\n", *(f"{k}: {v}\r\n" for k, v in own.items()), "\r\n"]
    with closing(socket.create_connection(("127.0.0.1", target.port), 30)) as wire:
        with suppress(OSError):
            wire.sendall("".join(lines).encode())
            for _ in range(40):
                wire.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        with suppress(OSError):
            status = wire.recv(100).split(b" ")[1:2]
            return "" if not status or int(status[0]) in REFUSED else f"{status}"
    return ""


@attack
def body_that_never_ends(target: Target) -> str:
    """It states a length and sends less: the request is given up, and others are answered meanwhile."""
    own = {**target.own(), "Content-Type": FORM, "Content-Length": "1000"}
    lines = [f"POST /undo HTTP/1.1\r\nHost: {target.host}\r\n", *(f"{k}: {v}\r\n" for k, v in own.items()), "\r\na=1"]
    with closing(socket.create_connection(("127.0.0.1", target.port), 60)) as wire:
        wire.sendall("".join(lines).encode())
        meanwhile = target.page("/table").status
        status = wire.recv(100).split(b" ")[1:2]
    return "" if meanwhile == 200 and status and int(status[0]) in REFUSED else f"{meanwhile}, {status}"


@attack
def endless_address(target: Target) -> str:
    return _let_in(target.ask("GET", "/table?" + "a" * 12_000, headers=target.own()))


@attack
def thousands_of_fields(target: Target) -> str:
    return _let_in(target.post("/undo", **{f"f{i}": "" for i in range(20_001)}))


@attack
def fields_that_are_no_text(target: Target) -> str:
    body = urlencode(target.fields()).encode() + b"&file=%ff%fe"
    own = {**target.own(), "Content-Type": FORM}
    return _let_in(target.ask("POST", "/undo", body, own), target.ask("POST", "/undo", body + b"\xff", own))


# ---- files outside of the folder -------------------------------------------------------------------------------------


@attack
def path_outside_of_the_folder(target: Target) -> str:
    names = ("../outside.csv", "/etc/passwd", str(target.folder.parent / "outside.csv"), "a/../../outside.csv", "..")
    return _let_in(*(target.post("/table/open", **{"from": "file", "file": name}) for name in names))


@attack
def code_book_outside(target: Target) -> str:
    names = ("../outside.json", "/etc/passwd", "link.json")
    return _let_in(
        *(target.post("/columns/codebook", codebook=name) for name in names),
        *(target.post("/table/open", file="people.csv", codebook=name) for name in names),
    )


@attack
def symlink_to_a_file_outside(target: Target) -> str:
    link = target.folder / "link.csv"
    if not link.is_symlink():
        link.symlink_to(target.folder.parent / "outside.csv")
    listed = "link.csv" in target.page("/table").text
    return "it is offered" if listed else _let_in(target.post("/table/open", file="link.csv"))


@attack
def symlink_to_a_folder_outside(target: Target) -> str:
    link = target.folder / "linked"
    if not link.is_symlink():
        link.symlink_to(target.folder.parent)
    return _let_in(
        target.post("/table/open", file="linked/outside.csv"),
        target.page("/published/linked/outside.csv"),
        target.page("/published/linked/outside/report.html"),
    )


@attack
def query_of_a_file_outside(target: Target) -> str:
    outside = target.folder.parent / "outside.csv"
    queries = (
        "SELECT * FROM '../outside.csv'",
        f"FROM '{outside}'",
        f"SELECT * FROM read_csv('{outside}')",
        "SELECT * FROM read_csv(['people.csv', '../outside.csv'])",
        "SELECT *, (SELECT max(a) FROM '/etc/passwd') AS b FROM 'people.csv'",
        "WITH x AS (FROM '/etc/passwd') SELECT * FROM x",
        "FROM read_text('/etc/passwd')",
        "FROM glob('/*')",
        "FROM read_csv('../out' || 'side.csv')",
        "FROM query('FROM ''../outside.csv''')",
        "FROM '~/.bashrc'",
        "FROM 'linked/*.csv'",
        "FROM '../*.csv'",
        "FROM 'people.csv'; FROM '/etc/passwd'",
    )
    symlink_to_a_folder_outside(target)
    return _let_in(*(target.post("/table/open", **{"from": "query", "query": query}) for query in queries))


@attack
def spark_source_outside(target: Target) -> str:
    paths = ("../outside.csv", "/etc/passwd")
    given = {"from": "spark", "spark_kind": "parquet"}
    return _let_in(*(target.post("/table/open", **given, spark_value=path) for path in paths))


@attack
def download_of_anything(target: Target) -> str:
    paths = (
        "plan.toml", "people.csv", "ledger.db", ".nabladp/table.json", "../outside.csv", "%2e%2e/outside.csv",
        "%2e%2e%2foutside.csv", "/etc/passwd", "..%5coutside.csv", "plan-release/../people.csv", "%00", "a" * 4_000,
    )  # fmt: skip
    return _let_in(*(target.page(f"/published/{path}") for path in paths))


@attack
def download_of_the_app(target: Target) -> str:
    names = ("..%2fapp.py", "app.py", "%2e%2e/app.py", "base.html.j2", "..%2f..%2f__init__.py", "%2fetc%2fpasswd", ".")
    return _let_in(*(target.page(f"/static/{name}") for name in names))


@attack
def job_of_another_folder(target: Target) -> str:
    numbers = ("..", "%2e%2e", "..%2fhistory", "*", "%00", "x" * 300)
    answers = [target.page(f"/jobs/{number}") for number in numbers]
    return _let_in(*answers)


@attack
def release_into_another_folder(target: Target) -> str:
    folders = ("../stolen", "/tmp/stolen", ".", "", ".hidden", ".nabladp/x", "linked/stolen", "people.csv", "a\0b")
    return _let_in(*(target.post("/release/start", folder=own, confirm="yes", amounts="x") for own in folders))


@attack
def logo_outside(target: Target) -> str:
    names = ("../outside.json", "/etc/passwd", "link.json", "a\0b")
    return _let_in(*(target.post("/release/say", issuer="x", logo=name) for name in names))


@attack
def plan_that_leads_outside(target: Target) -> str:
    """A plan from elsewhere that names files outside: its table is not read, its ledger not opened."""
    plan = target.folder / "plan.toml"
    before = plan.read_text()
    found = []
    try:
        for old, new in (
            ('ledger = "ledger.db"', 'ledger = "../outside.db"'),
            ('source = "people.csv"', 'source = "../outside.csv"'),
            ('schema = "schema.toml"', 'schema = "../outside.toml"'),
        ):
            plan.write_text(before.replace(old, new))
            found += [target.page("/release"), target.post("/columns/check")]
            found += [target.post("/release/start", confirm="yes")]
    finally:
        plan.write_text(before)
    return _let_in(*found)


# ---- names, tabs, texts ----------------------------------------------------------------------------------------------


@attack
def hostile_names(target: Target) -> str:
    """Markup in names and texts is shown as it is, never run."""
    mark = "<script>alert(1)</script>"
    evil = f"x\"'>{mark}.csv"
    (target.folder / "x\"'><img src=x onerror=alert(1)>.csv").write_text("a\n1\n")
    answers = [
        target.page("/table"),
        target.post("/table/open", file=evil),
        target.page(f"/columns?name={quote(mark)}"),
        target.post("/columns/save", name=mark, kind=mark),
        target.post("/release/start", folder=evil, confirm="yes"),
        target.page(f"/{quote(mark)}"),
        target.page(f"/ledger/verify?folder={quote(mark)}"),
    ]
    run = [answer for answer in answers if mark in answer.text or "<img src=x" in answer.text]
    return _let_in(*run) or ("" if not run else "markup")


@attack
def second_tab(target: Target) -> str:
    """A form of an older version of the files would overwrite what another tab has saved since."""
    stamp = target.fields()["stamp"]
    plan = target.folder / "plan.toml"
    before = plan.read_text()
    try:
        plan.write_text(before + "\n# edited meanwhile\n")
        answers = [target.post(path, stamp=stamp, name="age", kind="boolean") for path in ("/columns/save", "/undo")]
        answers.append(target.post("/release/start", stamp=stamp, confirm="yes", folder="again"))
        return _let_in(*answers)
    finally:
        plan.write_text(before)


@attack
def release_without_confirmation(target: Target) -> str:
    amounts = re.search(r'name="amounts" value="(\w+)"', target.page("/release").text)
    given = {"amounts": "" if amounts is None else amounts[1], "folder": "unconfirmed"}
    return _let_in(
        target.post("/release/start", **given),
        target.post("/release/start", **given, confirm="no"),
        target.post("/release/start", confirm="yes", folder="unconfirmed", amounts="0" * 24),
    ) or ("" if not (target.folder / "unconfirmed").exists() else "it was released")


@attack
def address_that_leads_elsewhere(target: Target) -> str:
    """No answer may send a browser to another site."""
    answers = [target.page(path) for path in ("//evil.example", "/\\evil.example")]
    answers.append(target.post("/undo", page="//evil.example"))
    goals = [answer.headers.get("location", "") for answer in answers]
    return "; ".join(goal for goal in goals if "evil" in goal)


@attack
def page_in_a_frame(target: Target) -> str:
    """Every answer forbids frames, scripts from elsewhere, caches, and guesses about its kind."""
    found = []
    answers = [target.page(path) for path in ("/table", "/static/studio.js", "/nothing")]
    for answer in (*answers, target.ask("GET", "/")):
        policy = answer.headers.get("content-security-policy", "")
        good = "frame-ancestors 'none'" in policy and "default-src 'none'" in policy and "unsafe" not in policy
        sealed = answer.headers.get("cache-control") == "no-store"
        sealed &= answer.headers.get("x-content-type-options") == "nosniff"
        found += [] if good and sealed else [f"{answer.status}: {policy}"]
    return "; ".join(found)


@attack
def sly_report(target: Target) -> str:
    """A report from elsewhere runs in a world of its own: it may not reach the studio."""
    folder = target.folder / "sly"
    folder.mkdir(exist_ok=True)
    (folder / "release.json").write_text("{}")
    (folder / "report.html").write_text("<script>fetch('/table')</script>")
    policy = target.page("/published/sly/report.html").headers.get("content-security-policy", "")
    return "" if policy.startswith("sandbox") and "allow-same-origin" not in policy else policy


@attack
def address_of_a_neighbour(target: Target) -> str:
    """It listens for this machine alone."""
    for address in {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}:
        if not str(address).startswith("127."):
            with suppress(OSError), closing(socket.create_connection((str(address), target.port), 2)):
                return f"{address}"
    return ""


def leaks(target: Target) -> list[str]:
    """What a studio ever said or kept that holds a value of the table, or of a file outside of its folder."""
    kept = [path for path in (target.folder / ".nabladp").rglob("*") if path.is_file()]
    texts = [*target.answers, *(path.read_text(encoding="utf-8", errors="replace") for path in kept)]
    return [text for text in texts if WORD in text or OUTSIDE in text]


# ---- a studio to attack ----------------------------------------------------------------------------------------------

PEOPLE = 300


def write_folder(folder: Path) -> None:
    """A folder with a table, schema and plan; the table holds a word that nothing may ever show. Beside it, files that
    are none of the studio's business."""
    folder.mkdir(parents=True)
    rows = [f"{i % 90},{('north', 'south')[i % 2]},{7 * i % 5000}" for i in range(PEOPLE)]
    (folder / "people.csv").write_text("age,region,income\n" + "\n".join([*rows, f"41,{WORD},12"]) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "plan.toml").write_text(PLAN)
    (folder.parent / "outside.csv").write_text(f"a\n{OUTSIDE}\n")
    (folder.parent / "outside.json").write_text(json.dumps({"age": {"description": OUTSIDE}}))
    (folder.parent / "outside.toml").write_text(SCHEMA.replace('"age"', f'"{OUTSIDE}"'))
    (folder / "link.json").symlink_to(folder.parent / "outside.json")


SCHEMA = """\
# a comment that stays
[[attribute]]
name = "age"  # in years
kind = "integer"
low = 0
high = 99

[[attribute]]
name = "region"
kind = "categorical"
values = ["north", "south"]
unknown = "other"

[[attribute]]
name = "income"
kind = "real"
low = 0
high = 5000
bins = 10
"""
PLAN = """\
# a plan
[table]
source = "people.csv"
schema = "schema.toml"
rows = 301

[budget]
ledger = "ledger.db"
per_attribute = { cdp = 0.5 }
person = { rho = 1.0 }

[[release]]
name = "one-way"
mechanism = "NoisyMarginals"
k = 1
budget = { cdp = 0.3 }
"""


@contextmanager
def served(folder: Path) -> Iterator[Target]:
    """A studio of a folder, as the command serves it, in a process of its own; what it printed is among its answers."""
    command = [sys.executable, "-m", "nabladp", "studio", str(folder), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+)/start\?token=(\w+)", process.stdout.readline())
            assert found is not None
            target = Target(int(found[1]), found[2], folder, process.pid)
            yield target
        finally:
            process.terminate()
            target.answers.append(process.stdout.read())
