"""A curator's failed read on a shared ledger: on record, it still counts, and a grantor voids it with one command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from postgres_server import PASSWORD, Server, running_server
from psycopg.sql import SQL, Identifier, Literal
from typer.testing import CliRunner

from nabladp.cli.app import app
from nabladp.errors import DataError
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.privacy import CDP, Budget, Ledger
from nabladp.release import Session
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("a", "integer", low=0, high=3), Attribute("wrong", "categorical", values=("x", "y"))))
BUDGET = Budget(per_attribute=CDP(9.0))
ROWS = pd.DataFrame({"a": [0, 1, 2, 3], "wrong": ["x", "y", "x", "CANARY"]})
A, WRONG = (NoisyMarginals(CDP(0.2), sets=((name,),)) for name in ("a", "wrong"))
OWNER, GRANTOR, CURATOR = "office", "granter", "clerk"


@pytest.fixture(scope="module")
def server(program: Callable[[str], str]) -> Iterator[Server]:
    with running_server(program("postgres")) as server:
        for role in (OWNER, GRANTOR, CURATOR):
            server.run(SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(role), Literal(PASSWORD)))
        server.run(f"CREATE DATABASE books OWNER {OWNER}")
        with Ledger.create(server.address("books", OWNER), SCHEMA, BUDGET):
            pass
        roles = CliRunner().invoke(app, ["ledger", "roles", "--grantor", GRANTOR, "--curator", CURATOR])
        server.run(roles.stdout, database="books", user=OWNER)
        yield server


def spent(session: Session) -> dict[str, float]:
    return {line.limit.name: line.spent for line in session.ledger.spent() if line.spent}


def test_a_curators_failed_read_counts_until_a_grantor_voids_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(ROWS, SCHEMA, BUDGET, server.address("books", CURATOR))
    with pytest.raises(DataError, match="until a grantor voids it") as told:
        session.release_all([("first", A), ("it's wrong", WRONG)], to=tmp_path / "out")
    facts: dict[str, Any] = told.value.fields
    assert facts["spent"] is True and facts["voided"] == [] and len(facts["reserved"]) == 2 and spent(session)
    failed = session.ledger.failed()
    assert [entry.name for entry in failed] == facts["reserved"] and session.ledger.unfinished() == []
    assert all("'wrong' holds values outside" in (entry.reason or "") for entry in failed)
    assert PASSWORD not in str(told.value) + str(facts) and "CANARY" not in str(told.value)

    monkeypatch.setenv("PGUSER", GRANTOR)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    for command in facts["commands"]:
        voided = CliRunner().invoke(app, shlex.split(command)[1:])
        assert voided.exit_code == 0, voided.output
    assert spent(session) == {} and session.ledger.verify() == []


def test_who_owns_the_ledger_voids_at_once(server: Server) -> None:
    session = Session(ROWS, SCHEMA, BUDGET, server.address("books", OWNER))
    with pytest.raises(DataError, match="Nothing was spent"):
        session.release(WRONG)
    assert spent(session) == {} and session.ledger.failed() == []
