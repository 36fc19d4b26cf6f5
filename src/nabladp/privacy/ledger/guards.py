"""Triggers, by which the database itself keeps a ledger from being changed, whoever asks.

An entry can only be appended, and only upon the last one: its arrival moves the head, which nobody moves by hand. On
PostgreSQL this is done with the owner's rights, so that whoever appends needs no right to update anything.
"""

from __future__ import annotations

_ONLY_GROWS = "the ledger only grows"

SQLITE = (
    *(
        f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{_ONLY_GROWS}'); END"
        for table, verb in (
            ("entries", "UPDATE"),
            ("entries", "DELETE"),
            ("meta", "UPDATE"),
            ("meta", "DELETE"),
            ("head", "DELETE"),
        )
    ),
    # INSERT OR REPLACE deletes silently whatever is in its way, so that is refused before it can
    *(
        f"CREATE TRIGGER {table}_no_second BEFORE INSERT ON {table} WHEN EXISTS (SELECT 1 FROM {table}) "
        f"BEGIN SELECT RAISE(ABORT, '{_ONLY_GROWS}'); END"
        for table in ("meta", "head")
    ),
    "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries "
    "WHEN NOT EXISTS (SELECT 1 FROM head WHERE seq = NEW.seq - 1 AND hash = NEW.previous) "
    "OR EXISTS (SELECT 1 FROM entries WHERE seq = NEW.seq OR ref = NEW.ref) "
    "OR (NEW.kind IN ('reserve', 'external') AND EXISTS "
    "(SELECT 1 FROM entries WHERE name = NEW.name AND kind IN ('reserve', 'external'))) "
    f"BEGIN SELECT RAISE(ABORT, '{_ONLY_GROWS}'); END",
    "CREATE TRIGGER head_in_step BEFORE UPDATE ON head WHEN NEW.seq <> OLD.seq + 1 "
    "OR NOT EXISTS (SELECT 1 FROM entries WHERE seq = NEW.seq AND hash = NEW.hash AND previous = OLD.hash) "
    "BEGIN SELECT RAISE(ABORT, 'the head only moves to the next entry'); END",
    "CREATE TRIGGER head_follows AFTER INSERT ON entries BEGIN UPDATE head SET seq = NEW.seq, hash = NEW.hash; END",
)

LOCKED_HEAD = "ledger_locked_head()"  # the lock that every writer takes first
FUNCTIONS = ("ledger_only_grows()", "ledger_head_in_step()", "ledger_head_follows()", LOCKED_HEAD)  # of all formats


def postgres(schema: str) -> tuple[str, ...]:
    """``schema`` is the quoted name of the one that holds the tables."""
    pinned = f"SET search_path = {schema}, pg_temp"  # nobody slips in a table of his own
    return (
        "CREATE FUNCTION ledger_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_ONLY_GROWS}'; END $$",
        *(
            f"CREATE TRIGGER {table}_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows()"
            for table in ("entries", "meta")
        ),
        "CREATE TRIGGER head_only_grows BEFORE DELETE OR TRUNCATE ON head "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows()",
        f"CREATE FUNCTION ledger_head_in_step() RETURNS trigger LANGUAGE plpgsql {pinned} AS $$ BEGIN "
        "IF NEW.seq <> OLD.seq + 1 OR NOT EXISTS "
        "(SELECT 1 FROM entries WHERE seq = NEW.seq AND hash = NEW.hash AND previous = OLD.hash) "
        "THEN RAISE EXCEPTION 'the head only moves to the next entry'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER head_in_step BEFORE UPDATE ON head FOR EACH ROW EXECUTE FUNCTION ledger_head_in_step()",
        # After, not before: what ON CONFLICT leaves out must not move the head
        f"CREATE FUNCTION ledger_head_follows() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER {pinned} AS $$ BEGIN "
        "UPDATE head SET seq = NEW.seq, hash = NEW.hash WHERE seq = NEW.seq - 1 AND hash = NEW.previous; "
        f"IF NOT FOUND THEN RAISE EXCEPTION '{_ONLY_GROWS}'; END IF; RETURN NULL; END $$",
        "CREATE TRIGGER head_follows AFTER INSERT ON entries FOR EACH ROW EXECUTE FUNCTION ledger_head_follows()",
        f"CREATE FUNCTION {LOCKED_HEAD} RETURNS TABLE (seq integer, hash text) LANGUAGE sql SECURITY DEFINER {pinned} "
        "AS $$ SELECT head.seq, head.hash FROM head FOR UPDATE $$",
        f"REVOKE ALL ON FUNCTION {LOCKED_HEAD} FROM PUBLIC",
        # Also in sessions that have turned ordinary triggers off
        *(f"ALTER TABLE {t} ENABLE ALWAYS TRIGGER {t}_only_grows" for t in ("entries", "meta", "head")),
    )
