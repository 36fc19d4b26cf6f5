"""Ledgers of format 1, as version 0.3.0 wrote them, in both kinds of database."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("ledger_format_1.sql")
TABLES = ("entries", "head", "meta")
POSTGRES = """
CREATE TABLE meta (id INTEGER NOT NULL CHECK (id = 1), format INTEGER NOT NULL, ledger TEXT NOT NULL,
    created TEXT NOT NULL, PRIMARY KEY (id));
CREATE TABLE entries (seq INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, ref INTEGER, time TEXT NOT NULL,
    payload TEXT NOT NULL, totals TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (seq));
CREATE TABLE head (id INTEGER NOT NULL CHECK (id = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (id));
CREATE UNIQUE INDEX entry_names ON entries (name) WHERE kind IN ('reserve', 'external');
CREATE UNIQUE INDEX entry_ends ON entries (ref);
CREATE INDEX entry_kinds ON entries (kind, seq);
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
"""


def write_file(path: Path) -> None:
    database = sqlite3.connect(path)
    database.executescript(FILE.read_text(encoding="utf-8"))
    database.close()


def rows() -> dict[str, list[Any]]:
    database = sqlite3.connect(":memory:")
    database.executescript(FILE.read_text(encoding="utf-8"))
    return {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}


def write_postgres(connection: Any) -> None:
    connection.execute(POSTGRES)
    for table, found in rows().items():
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(found[0]))})", found)
