"""Ledgers of earlier formats, in both kinds of database: format 1 as version 0.3.0 wrote it, format 2 as 0.6.0 did."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EARLIER = (1, 2)
LENGTH = {1: 8, 2: 9}  # entries; the last is the reservation "third", which is unfinished
TABLES = ("entries", "head", "meta")
_POSTGRES_TABLES = """
CREATE TABLE meta (id INTEGER NOT NULL CHECK (id = 1), format INTEGER NOT NULL, ledger TEXT NOT NULL,
    created TEXT NOT NULL, PRIMARY KEY (id));
CREATE TABLE entries (seq INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, ref INTEGER, time TEXT NOT NULL,
    payload TEXT NOT NULL, totals TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (seq));
CREATE TABLE head (id INTEGER NOT NULL CHECK (id = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (id));
CREATE UNIQUE INDEX entry_names ON entries (name) WHERE kind IN ('reserve', 'external');
CREATE UNIQUE INDEX entry_ends ON entries (ref);
CREATE INDEX entry_kinds ON entries (kind, seq);
"""
_POSTGRES_GUARDS = {
    1: """
CREATE FUNCTION ledger_only_grows() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the ledger only grows'; END $$;
CREATE TRIGGER entries_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows();
CREATE TRIGGER meta_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON meta
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows();
CREATE TRIGGER head_stays BEFORE DELETE OR TRUNCATE ON head FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows();
CREATE FUNCTION ledger_head_in_step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.seq <> OLD.seq + 1 OR NOT EXISTS
    (SELECT 1 FROM entries WHERE seq = NEW.seq AND hash = NEW.hash AND previous = OLD.hash)
    THEN RAISE EXCEPTION 'the head only moves to the next entry'; END IF; RETURN NEW; END $$;
CREATE TRIGGER head_in_step BEFORE UPDATE ON head FOR EACH ROW EXECUTE FUNCTION ledger_head_in_step();
""",
    2: """
CREATE FUNCTION ledger_only_grows() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the ledger only grows'; END $$;
CREATE TRIGGER entries_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows();
CREATE TRIGGER meta_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON meta
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows();
CREATE TRIGGER head_only_grows BEFORE DELETE OR TRUNCATE ON head
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows();
CREATE FUNCTION ledger_head_in_step() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$ BEGIN
    IF NEW.seq <> OLD.seq + 1 OR NOT EXISTS
    (SELECT 1 FROM entries WHERE seq = NEW.seq AND hash = NEW.hash AND previous = OLD.hash)
    THEN RAISE EXCEPTION 'the head only moves to the next entry'; END IF; RETURN NEW; END $$;
CREATE TRIGGER head_in_step BEFORE UPDATE ON head FOR EACH ROW EXECUTE FUNCTION ledger_head_in_step();
CREATE FUNCTION ledger_head_follows() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp AS $$ BEGIN
    UPDATE head SET seq = NEW.seq, hash = NEW.hash WHERE seq = NEW.seq - 1 AND hash = NEW.previous;
    IF NOT FOUND THEN RAISE EXCEPTION 'the ledger only grows'; END IF; RETURN NULL; END $$;
CREATE TRIGGER head_follows AFTER INSERT ON entries FOR EACH ROW EXECUTE FUNCTION ledger_head_follows();
CREATE FUNCTION ledger_locked_head() RETURNS TABLE (seq integer, hash text) LANGUAGE sql SECURITY DEFINER
    SET search_path = public, pg_temp AS $$ SELECT head.seq, head.hash FROM head FOR UPDATE $$;
REVOKE ALL ON FUNCTION ledger_locked_head() FROM PUBLIC;
ALTER TABLE entries ENABLE ALWAYS TRIGGER entries_only_grows;
ALTER TABLE meta ENABLE ALWAYS TRIGGER meta_only_grows;
ALTER TABLE head ENABLE ALWAYS TRIGGER head_only_grows;
""",
}
_ROLES_2 = """
BEGIN;
REVOKE ALL ON "public".meta, "public".entries, "public".head FROM PUBLIC, {both};
REVOKE ALL ON FUNCTION "public".ledger_locked_head() FROM PUBLIC, {both};
GRANT USAGE ON SCHEMA "public" TO {both};
GRANT SELECT ON "public".meta, "public".entries, "public".head TO {both};
GRANT INSERT ON "public".entries TO {curators};
GRANT EXECUTE ON FUNCTION "public".ledger_locked_head() TO {curators};
COMMIT;
"""


def _dump(format: int) -> str:
    return Path(__file__).with_name(f"ledger_format_{format}.sql").read_text(encoding="utf-8")


def write_file(path: Path, format: int) -> None:
    database = sqlite3.connect(path)
    database.executescript(_dump(format))
    database.close()


def rows(format: int) -> dict[str, list[Any]]:
    database = sqlite3.connect(":memory:")
    database.executescript(_dump(format))
    return {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}


def write_postgres(connection: Any, format: int) -> None:
    """The entries are those of the file; the guards come last, as they would move the head."""
    connection.execute(_POSTGRES_TABLES)
    for table, found in rows(format).items():
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(found[0]))})", found)
    connection.execute(_POSTGRES_GUARDS[format])


def give_roles_of_format_2(connection: Any, curators: Sequence[str], auditors: Sequence[str]) -> None:
    """What `nabladp ledger roles` of version 0.6.0 printed."""
    from psycopg.sql import SQL, Identifier

    names = {"curators": curators, "both": [*curators, *auditors]}
    listed = {word: SQL(", ").join(map(Identifier, chosen)) for word, chosen in names.items()}
    connection.execute(SQL(_ROLES_2).format(**listed))
