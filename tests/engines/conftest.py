"""A real PostgreSQL server for a module's tests, and a database in it for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from postgres_server import Server, running_server


@pytest.fixture(scope="module")
def server(program: Callable[[str], str]) -> Iterator[Server]:
    with running_server(program("postgres")) as server:
        yield server


@pytest.fixture
def address(server: Server) -> str:
    return server.database()
