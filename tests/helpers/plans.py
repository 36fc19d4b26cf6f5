"""Plans that tests write down: the same table and ledger each time, and the releases that are being looked at."""

from __future__ import annotations

from pathlib import Path

from nabladp.release import Plan
from nabladp.schema import Schema


def plan_text(budget: str, releases: str, rows: int | None = 60) -> str:
    """``budget``: the lines of [budget] beside the ledger; ``releases``: everything from the first [[release]] on."""
    known = "" if rows is None else f"rows = {rows}\n"
    table = f'[table]\nsource = "people.csv"\nschema = "schema.toml"\n{known}'
    return f'{table}\n[budget]\nledger = "ledger.db"\n{budget.strip()}\n\n{releases.strip()}\n'


def changed(text: str, *changes: tuple[str, str]) -> str:
    """With texts replaced, each where it stands first; it must be there."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def saved_plan(folder: Path, schema: Schema, text: str) -> Plan:
    """Written down in this folder with its schema, and read back."""
    schema.save(folder / "schema.toml")
    (folder / "plan.toml").write_text(text)
    return Plan.load(folder / "plan.toml")
