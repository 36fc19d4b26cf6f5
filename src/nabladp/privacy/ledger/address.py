"""Reading the address of a database without ever repeating it: it may carry a password.

What cannot be read for certain is refused. A password with a bare '@' in it would otherwise end up in the host's name,
and with it in a label.
"""

from __future__ import annotations

import re

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from nabladp.errors import LedgerError

_MEANT = re.compile(r"://|:[^/\s]*@|\bpassword\s*=|^\s*postgres\w*:", re.IGNORECASE)
# A server that vanished without a word is noticed within half a minute. What the address says itself comes first.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "fallback_application_name": "nabladp",
}


def is_address(where: str) -> bool:
    """Whether this is meant as an address, be it a misspelled one: as a file's name it would be shown."""
    return _MEANT.search(where) is not None


def read_address(address: str) -> dict[str, str]:
    """The options of the connection, by libpq's names."""
    url = _parsed(address)
    if url is None or not _certain(address):
        raise unreadable()
    if url.drivername not in ("postgresql", "postgresql+psycopg"):
        raise LedgerError(
            "A ledger lives in a file or in PostgreSQL.", fix="Give a file path or postgresql://host/database."
        )
    given = {"host": url.host, "port": url.port, "dbname": url.database, "user": url.username, "password": url.password}
    said = {name: str(value) for name, value in given.items() if value not in (None, "")}
    return _DEFAULTS | {name: ",".join(values) for name, values in url.normalized_query.items()} | said


def label_of(options: dict[str, str]) -> str:
    """Host, port and database only."""
    port = options.get("port", "")
    place = options.get("host", "localhost") + (f":{port}" if port.isdecimal() else "")
    return f"postgresql://{place}/{options.get('dbname', '')}"


def unreadable() -> LedgerError:
    return LedgerError(
        "The ledger's address cannot be read.",
        fix="Write postgresql://user@host/database, with %40 for an '@' and %2F for a '/' inside a name or password.",
    )


def _parsed(address: str) -> URL | None:
    try:
        return make_url(address)
    except (ArgumentError, ValueError):  # it would repeat what it could not read
        return None


def _certain(address: str) -> bool:
    """Whether there is but one way to read it: at most one '@', and that before the first '/'."""
    place, *rest = re.split(r"[/?#]", address.split("://", 1)[1])
    return address.isprintable() and place.count("@") < 2 and not any("@" in part for part in rest)
