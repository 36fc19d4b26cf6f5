"""Addresses of servers: every part under its own name, nothing guessed, and no password in what is shown."""

from __future__ import annotations

import pytest

from nabladp.errors import LedgerError
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.ledger.postgres import label_of, read_address

WAITS = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "fallback_application_name": "nabladp",
}


@pytest.mark.parametrize("where", ["postgresql://h/d", "u:secret@h", "password = secret", "Postgres:secret"])
def test_what_may_hold_a_password_is_no_file(where: str) -> None:
    """A path is shown, an address never."""
    try:
        assert Ledger.label_of(where) == "postgresql://h/d"
    except LedgerError as error:
        assert "address" in str(error) and "secret" not in str(error)


@pytest.mark.parametrize("where", ["ledger.db", "a@b.db", "my/postgres.db"])
def test_a_file_is_no_address(where: str) -> None:
    assert Ledger.label_of(where) == where


@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg"])
def test_every_part_has_its_name(driver: str) -> None:
    options = read_address(f"{driver}://ada:se%40cret@db:5433/books?sslmode=require&connect_timeout=3")
    said = {"host": "db", "port": "5433", "dbname": "books", "user": "ada", "password": "se@cret"}
    assert options == {**WAITS, "connect_timeout": "3", "sslmode": "require", **said}
    assert label_of(options) == "postgresql://db:5433/books"


def test_what_is_left_out_is_left_to_the_server() -> None:
    options = read_address("postgresql:///?host=one&host=two&port=1,2")
    assert options == {**WAITS, "host": "one,two", "port": "1,2"}
    assert label_of(options) == "postgresql://one,two/"
    assert label_of({}) == "postgresql://localhost/"


@pytest.mark.parametrize("address", ["mysql://h/d", "postgresql+psycopg2://h/d", "sqlite:///ledger.db"])
def test_another_kind_of_server_is_refused(address: str) -> None:
    with pytest.raises(LedgerError, match="lives in a file or in PostgreSQL"):
        read_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:sec@ret@h/d",
        "postgresql://u:sec/ret@h/d",
        "postgresql://u:sec?ret@h/d",
        "postgresql://u:sec#ret@h/d",
        "postgresql://h/d?x=y://sec@ret",
        "postgresql://u:sec@ret@h/d?x=y://z",
        "postgresql://u:secret@h/d\x07",
        "postgresql://u:secret@h:port/d",
        "secret",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(LedgerError, match="The ledger's address cannot be read") as error:
        read_address(address)
    assert str(error.value).startswith("The ledger's address cannot be read. ")
    assert "ret" not in str(error.value)
