"""Who may do what in a PostgreSQL ledger, as SQL for the owner of its tables to read and run.

A curator reads and appends, an auditor reads. Nobody is given the right to update, delete or truncate, and the triggers
refuse these to the owner as well.
"""

from __future__ import annotations

from nabladp.errors import LedgerError
from nabladp.privacy.ledger.guards import LOCKED_HEAD

_TABLES = ("meta", "entries", "head")


def statements(curators: tuple[str, ...], auditors: tuple[str, ...], schema: str) -> tuple[str, ...]:
    """One transaction. What these users, and everybody, could do with the tables before is taken away first."""
    if not curators and not auditors:
        raise LedgerError("No user is named.", fix="Give --curator or --auditor, once for each user.")
    place, append, read = quoted(schema, "schema"), _listed(curators), _listed(curators + auditors)
    tables = ", ".join(f"{place}.{table}" for table in _TABLES)
    lock = f"{place}.{LOCKED_HEAD}"
    return (
        "BEGIN;",
        _not_the_owner(place, curators + auditors),
        f"REVOKE ALL ON {tables} FROM PUBLIC, {read};",
        f"REVOKE ALL ON FUNCTION {lock} FROM PUBLIC, {read};",
        f"GRANT USAGE ON SCHEMA {place} TO {read};",
        f"GRANT SELECT ON {tables} TO {read};",
        *((f"GRANT INSERT ON {place}.entries TO {append};",) if curators else ()),
        *((f"GRANT EXECUTE ON FUNCTION {lock} TO {append};",) if curators else ()),
        "COMMIT;",
    )


def _not_the_owner(place: str, names: tuple[str, ...]) -> str:
    """The triggers move the head with the owner's rights, which must therefore stay."""
    table, listed = _literal(f"{place}.entries"), ", ".join(map(_literal, names))
    return (
        f"DO $roles$ BEGIN IF (SELECT pg_get_userbyid(relowner) IN ({listed}) FROM pg_class "
        f"WHERE oid = {table}::regclass) THEN RAISE EXCEPTION 'the owner of the ledger is no curator and no auditor'; "
        "END IF; END $roles$;"
    )


def quoted(name: str, what: str = "user") -> str:
    """A name as PostgreSQL takes it to the letter. Too long a one it would cut, and "public" means everybody."""
    fits = 0 < len(name.encode(errors="replace")) < 64 and name.isprintable() and "$roles$" not in name
    if not fits or (what == "user" and name in ("public", "none")):
        raise LedgerError(f"{name!r} cannot be the name of a {what}.", fix=f"Give the name of a {what} of the server.")
    return '"' + name.replace('"', '""') + '"'


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(quoted, dict.fromkeys(names)))


def _literal(text: str) -> str:
    """``E`` strings read the same whatever the server thinks of backslashes."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
