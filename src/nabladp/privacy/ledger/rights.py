"""A PostgreSQL ledger's triggers, its three roles, and whether anybody may do more than the roles say.

A *grantor* changes the budget, records external releases and voids; a *curator* reserves, binds and records failures;
an *auditor* reads. Who may read, insert or move the head is a matter of ordinary rights; who writes which kind of entry
is decided by a trigger. Membership is the right to execute one of three marker functions, which do nothing.

Nothing here runs with the owner's rights. A function that does (SECURITY DEFINER) would evaluate operators and casts of
whatever a caller attaches it to; triggers with the caller's own rights can only do what the caller could do anyway.
Their search path holds the server's own functions and operators only, and tables are named with their schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, text

from nabladp.errors import LedgerError

ROLES = ("grantor", "curator", "auditor")
_TABLES = ("meta", "entries", "head")
_MARKERS = {role: f"ledger_{role}()" for role in ROLES}
_TRIGGER_FUNCTIONS = ("ledger_only_grows()", "ledger_head_in_step()", "ledger_head_follows()", "ledger_lawful()")
_EARLIER_FUNCTIONS = ("ledger_locked_head()",)  # of format 2
_TRIGGERS = {  # name: table, when, function
    "entries_only_grows": ("entries", "BEFORE UPDATE OR DELETE OR TRUNCATE", "STATEMENT", "ledger_only_grows()"),
    "meta_only_grows": ("meta", "BEFORE UPDATE OR DELETE OR TRUNCATE", "STATEMENT", "ledger_only_grows()"),
    "head_only_grows": ("head", "BEFORE DELETE OR TRUNCATE", "STATEMENT", "ledger_only_grows()"),
    "head_in_step": ("head", "BEFORE UPDATE", "ROW", "ledger_head_in_step()"),
    "entries_lawful": ("entries", "BEFORE INSERT", "ROW", "ledger_lawful()"),
    # After, not before: what ON CONFLICT leaves out must not move the head
    "head_follows": ("entries", "AFTER INSERT", "ROW", "ledger_head_follows()"),
}
_ONLY_GROWS = "the ledger only grows"


# ---- triggers --------------------------------------------------------------------------------------------------------


def guards(schema: str) -> tuple[str, ...]:
    """SQL of the triggers that guard a PostgreSQL ledger; ``schema`` is the quoted name of the one that holds the
    tables."""
    tables = ", ".join(f"{schema}.{table}" for table in _TABLES)
    functions = ", ".join(f"{schema}.{name}" for name in (*_TRIGGER_FUNCTIONS, *_MARKERS.values()))
    return (
        *(_function(schema, name, "boolean", "sql", "SELECT true") for name in _MARKERS.values()),
        *(_function(schema, name, "trigger", "plpgsql", body) for name, body in _bodies(schema).items()),
        *(
            f"CREATE TRIGGER {name} {when} ON {schema}.{table} FOR EACH {each} EXECUTE FUNCTION {schema}.{function}"
            for name, (table, when, each, function) in _TRIGGERS.items()
        ),
        # Also in sessions that have turned ordinary triggers off
        *(f"ALTER TABLE {schema}.{table} ENABLE ALWAYS TRIGGER {name}" for name, (table, *_) in _TRIGGERS.items()),
        f"REVOKE ALL ON FUNCTION {functions} FROM PUBLIC",
        f"REVOKE ALL ON {tables} FROM PUBLIC",
    )


def _function(schema: str, name: str, returns: str, language: str, body: str) -> str:
    return (
        f"CREATE FUNCTION {schema}.{name} RETURNS {returns} LANGUAGE {language} SECURITY INVOKER "
        f"SET search_path = pg_catalog, pg_temp AS {_literal(body)}"
    )


def _bodies(schema: str) -> Mapping[str, str]:
    entries, head = f"{schema}.entries", f"{schema}.head"
    return {
        "ledger_only_grows()": f"BEGIN RAISE EXCEPTION '{_ONLY_GROWS}'; END",
        "ledger_head_in_step()": (
            f"BEGIN IF NEW.seq <> OLD.seq + 1 OR NOT EXISTS (SELECT 1 FROM {entries} AS e "
            "WHERE e.seq = NEW.seq AND e.hash = NEW.hash AND e.previous = OLD.hash) "
            "THEN RAISE EXCEPTION 'the head only moves to the next entry'; END IF; RETURN NEW; END"
        ),
        "ledger_head_follows()": (
            f"BEGIN UPDATE {head} SET seq = NEW.seq, hash = NEW.hash WHERE seq = NEW.seq - 1 AND hash = NEW.previous; "
            f"IF NOT FOUND THEN RAISE EXCEPTION '{_ONLY_GROWS}'; END IF; RETURN NULL; END"
        ),
        "ledger_lawful()": _lawful(schema, entries),
    }


def _lawful(schema: str, entries: str) -> str:
    """The trigger's part of the ledger's rules (state.py) that SQL can see, and who writes which kind."""

    def holds(role: str) -> str:
        marker = _literal(f"{schema}.{_MARKERS[role]}")
        return f"has_function_privilege(current_user, {marker}, 'EXECUTE')"

    owner = (
        f"pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = {_literal(entries)}::regclass), 'USAGE')"
    )
    return (
        "DECLARE referred text; BEGIN "
        "IF (NEW.kind = 'open') <> (NEW.seq = 1) THEN RAISE EXCEPTION 'a ledger is opened once'; END IF; "
        f"IF NOT (CASE WHEN NEW.kind IN ('open', 'format') THEN {owner} "
        f"WHEN NEW.kind IN ('budget', 'external', 'void') THEN {holds('grantor')} "
        f"WHEN NEW.kind IN ('reserve', 'bind', 'failed') THEN {holds('curator')} "
        f"WHEN NEW.kind IN ('schema', 'person') THEN {holds('grantor')} OR {holds('curator')} ELSE false END) "
        "THEN RAISE insufficient_privilege USING MESSAGE = 'this role may not write an entry of this kind'; END IF; "
        f"SELECT e.kind INTO referred FROM {entries} AS e WHERE e.seq = NEW.ref AND e.name = NEW.name; "
        "IF NOT (CASE WHEN NEW.kind IN ('bind', 'failed') THEN referred IS NOT DISTINCT FROM 'reserve' "
        "WHEN NEW.kind = 'void' THEN coalesce(referred IN ('reserve', 'failed'), false) "
        "ELSE NEW.ref IS NULL END) THEN RAISE EXCEPTION 'this entry is not allowed here'; END IF; RETURN NEW; END"
    )


def removals(schema: str) -> tuple[str, ...]:
    """SQL that removes the ledger's trigger functions; with a function go the triggers that call it."""
    names = (*_TRIGGER_FUNCTIONS, *_MARKERS.values(), *_EARLIER_FUNCTIONS)
    return tuple(f"DROP FUNCTION IF EXISTS {schema}.{name} CASCADE" for name in names)


# ---- roles -----------------------------------------------------------------------------------------------------------


def role_statements(members: Mapping[str, Sequence[str]], schema: str) -> tuple[str, ...]:
    """SQL that gives PostgreSQL users their ledger roles, in one transaction; what they could do before is taken away
    first."""
    listed = tuple(dict.fromkeys(name for role in ROLES for name in members.get(role, ())))
    if not listed:
        raise LedgerError("No user is named.", fix="Give --grantor, --curator or --auditor, once for each user.")
    schema_name = quote_identifier(schema, "schema")
    return (
        "BEGIN;",
        _not_the_owner(schema_name, listed),
        *(f"{statement};" for statement in grants(schema_name, members)),
        "COMMIT;",
    )


def grants(schema: str, members: Mapping[str, Sequence[str]]) -> list[str]:
    """SQL that grants the ledger's roles their rights; ``schema`` is a quoted name."""
    everyone = _quote_identifiers(name for role in ROLES for name in members.get(role, ()))
    writers = _quote_identifiers(name for role in ("grantor", "curator") for name in members.get(role, ()))
    tables = ", ".join(f"{schema}.{table}" for table in _TABLES)
    markers = ", ".join(f"{schema}.{name}" for name in _MARKERS.values())
    return [
        f"REVOKE ALL ON {tables} FROM PUBLIC, {everyone}",
        f"REVOKE ALL ON FUNCTION {markers} FROM PUBLIC, {everyone}",
        f"GRANT USAGE ON SCHEMA {schema} TO {everyone}",
        f"GRANT SELECT ON {tables} TO {everyone}",
        # The triggers see to it that an entry is only appended, and that the head only follows
        *([f"GRANT INSERT ON {schema}.entries TO {writers}"] if writers else []),
        *([f"GRANT UPDATE (seq, hash) ON {schema}.head TO {writers}"] if writers else []),
        *(
            f"GRANT EXECUTE ON FUNCTION {schema}.{_MARKERS[role]} TO {_quote_identifiers(members[role])}"
            for role in ROLES
            if members.get(role)
        ),
    ]


def earlier_members(connection: Connection, schema: str) -> dict[str, list[str]]:
    """The curators and auditors of a PostgreSQL ledger of format 2, by the rights they have on its tables."""
    rights_of: dict[str, set[str]] = {}
    for grantee, thing, right in _granted_rights(connection, schema):
        if grantee and thing in _TABLES:
            rights_of.setdefault(grantee, set()).add(f"{right} {thing}")
    curators = [name for name, rights in rights_of.items() if "INSERT entries" in rights]
    return {"curator": sorted(curators), "auditor": sorted(rights_of.keys() - set(curators))}


def _not_the_owner(schema_name: str, names: tuple[str, ...]) -> str:
    """Refuse a role for the owner of the ledger's tables, who can remove the triggers and is bound by no role."""
    table, listed = _literal(f"{schema_name}.entries"), ", ".join(map(_literal, names))
    return (
        f"DO $roles$ BEGIN IF (SELECT pg_get_userbyid(relowner) IN ({listed}) FROM pg_class "
        f"WHERE oid = {table}::regclass) THEN RAISE EXCEPTION 'the owner of the ledger has no other role'; "
        "END IF; END $roles$;"
    )


def quote_identifier(name: str, what: str = "user") -> str:
    """A name quoted for PostgreSQL. Too long a one it would cut, and "public" means everybody: both are refused."""
    fits = 0 < len(name.encode(errors="replace")) < 64 and name.isprintable() and "$roles$" not in name
    if not fits or (what == "user" and name in ("public", "none")):
        raise LedgerError(f"{name!r} cannot be the name of a {what}.", fix=f"Give the name of a {what} of the server.")
    return '"' + name.replace('"', '""') + '"'


def _quote_identifiers(names: Iterable[str]) -> str:
    return ", ".join(map(quote_identifier, dict.fromkeys(names)))


def _literal(words: str) -> str:
    """Words as PostgreSQL ``E`` strings, which read the same whatever the server thinks of backslashes."""
    return "E'" + words.replace("\\", "\\\\").replace("'", "''") + "'"


# ---- do the rights match the roles? ----------------------------------------------------------------------------------

_GRANTED = """
SELECT CASE a.grantee WHEN 0 THEN '' ELSE pg_get_userbyid(a.grantee) END, t.thing, a.privilege_type
FROM (
    SELECT c.relname::text AS thing, c.relowner AS owner, coalesce(c.relacl, acldefault('r', c.relowner)) AS acl
    FROM pg_class c WHERE c.relnamespace = CAST(:schema AS regnamespace) AND c.relname = ANY(:tables)
    UNION ALL
    SELECT c.relname || '.' || b.attname, c.relowner, b.attacl FROM pg_class c JOIN pg_attribute b ON b.attrelid = c.oid
    WHERE c.relnamespace = CAST(:schema AS regnamespace) AND c.relname = ANY(:tables) AND b.attacl IS NOT NULL
    UNION ALL
    SELECT p.proname || '()', p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
    FROM pg_proc p WHERE p.pronamespace = CAST(:schema AS regnamespace) AND p.proname LIKE 'ledger\\_%'
) t CROSS JOIN LATERAL aclexplode(t.acl) a WHERE a.grantee <> t.owner ORDER BY 1, 2, 3
"""
_STANDING_TRIGGERS = """
SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = CAST(:schema AS regnamespace) AND c.relname = ANY(:tables) AND t.tgenabled = 'A'
"""
_WITH_OWNERS_RIGHTS = """
SELECT p.proname || '()' FROM pg_proc p
WHERE p.pronamespace = CAST(:schema AS regnamespace) AND p.proname LIKE 'ledger\\_%' AND p.prosecdef ORDER BY 1
"""


def problems(connection: Connection, schema: str) -> list[str]:
    """Rights on the ledger's tables and functions that the roles do not explain, and guards that are gone."""
    granted = _granted_rights(connection, schema)
    roles = {
        name: {role for role, marker in _MARKERS.items() if (name, marker, "EXECUTE") in granted}
        for name, *_ in granted
    }
    excess = [
        f"{repr(name) if name else 'Everybody (PUBLIC)'} has the right {right} on {thing}, which "
        + (f"no {' or '.join(sorted(roles[name]))} has." if name and roles[name] else "goes with no role.")
        for name, thing, right in granted
        if not (name and _is_explained(thing, right, roles[name]))
    ]
    given = {"schema": schema, "tables": list(_TABLES)}
    standing = set(connection.execute(text(_STANDING_TRIGGERS), given).scalars())
    missing = [f"The trigger {name} is missing or turned off." for name in _TRIGGERS if name not in standing]
    owners = connection.execute(text(_WITH_OWNERS_RIGHTS), {"schema": schema}).scalars()
    return [*excess, *missing, *(f"The function {name} runs with the rights of its owner." for name in owners)]


def _is_explained(thing: str, right: str, roles: set[str]) -> bool:
    if thing in _MARKERS.values():
        return right == "EXECUTE"
    if right == "SELECT" and thing in _TABLES:
        return bool(roles)
    writes = (thing, right) in {("entries", "INSERT"), ("head.seq", "UPDATE"), ("head.hash", "UPDATE")}
    return writes and bool(roles & {"grantor", "curator"})


def _granted_rights(connection: Connection, schema: str) -> list[tuple[str, str, str]]:
    """Rights granted on the ledger: who (everybody: an empty text), what, and which right; without the owner's own."""
    rows = connection.execute(text(_GRANTED), {"schema": schema, "tables": list(_TABLES)})
    return [(str(name), str(thing), str(right)) for name, thing, right in rows]
