"""Transactions over a line that breaks: what is tried again, how long, and what is said when it is given up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from nabladp.errors import LedgerError, SourceError
from nabladp.privacy.ledger import store as module
from nabladp.privacy.ledger.store import WRITE, Store


class Line:
    """A server of which it is written down when it breaks: at each attempt while connecting, at work or at the
    commit, and whether it was "busy", was "lost", or refused for some "other" reason. It is its own database, too."""

    label, shared = "books", True

    def __init__(self, *steps: str) -> None:
        self.steps, self.step = list(steps), ""
        self.checks: list[dict[str, Any]] = []
        self.engines: list[dict[str, Any]] = []
        self.options: list[dict[str, Any]] = []
        self.pauses: list[float] = []
        self.clock = 0.0

    def check(self, **options: Any) -> None:
        self.checks.append(options)

    def engine(self, **options: Any) -> Line:
        self.engines.append(options)
        return self

    def connect(self) -> Line:
        self.step = self.steps.pop(0) if self.steps else ""
        self.reach("connect")
        return self

    def execution_options(self, **options: Any) -> Line:
        self.options.append(options)
        return self

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None: ...

    @contextmanager
    def begin(self) -> Iterator[None]:
        yield
        self.reach("commit")

    def reach(self, moment: str) -> None:
        if self.step.startswith(moment):
            raise OperationalError("", None, Exception(self.step))

    def work(self, _: object) -> str:
        self.reach("work")
        return "done"

    def busy(self, error: OperationalError) -> bool:
        return "busy" in str(error.orig)

    def is_lost(self, error: OperationalError) -> bool:
        return "lost" in str(error.orig)

    def explain(self, error: OperationalError) -> SourceError:
        return SourceError(f"It was {error.orig}.", fix="Wait.")

    def lock_creation(self, _: object) -> None: ...

    def dispose(self) -> None: ...

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock += seconds

    def monotonic(self) -> float:
        return self.clock


def store_on(line: Line, monkeypatch: pytest.MonkeyPatch, patience: float = 60.0) -> Store:
    monkeypatch.setattr(module, "time", line)
    return Store(line, read_only=False, patience=patience)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "pauses"),
    [
        ([], []),
        (["work busy", "connect busy", "commit busy"], [0.02, 0.02, 0.02]),
        (["work lost"] * 8, [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]),
        (["work busy", "connect lost"], [0.02, 0.02]),  # it was there before
        (["work lost", "work lost", "work busy", "work lost"], [0.02, 0.04, 0.08, 0.02]),
        (["commit lost"], [0.02]),
    ],
)
def test_what_comes_back_is_waited_for(steps: list[str], pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(*steps)
    assert store_on(line, monkeypatch).write(line.work) == "done"
    assert line.pauses == pytest.approx(pauses)
    assert line.options and all(options == {WRITE: True} for options in line.options)


@pytest.mark.parametrize("steps", [["work other"], ["commit other"], ["connect lost"], ["connect other"]])
def test_what_does_not_come_back_is_told_at_once(steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(*steps)
    with pytest.raises(SourceError, match=f"^It was {steps[0]}") as error:
        store_on(line, monkeypatch).write(line.work)
    assert line.pauses == [] and error.value.fields == {}


@pytest.mark.parametrize("step", ["work busy", "work lost", "commit busy"])
def test_patience_ends_and_nothing_was_booked(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(*[step] * (3 if "lost" in step else 4))
    with pytest.raises(SourceError, match=f"^It was {step}") as error:
        store_on(line, monkeypatch, patience=0.05).write(line.work)
    assert line.steps == [] and error.value.fields == {}
    assert line.pauses == pytest.approx([0.02, 0.03] if "lost" in step else [0.02, 0.02, 0.01])


@pytest.mark.parametrize("after", ["commit lost", "connect lost", "work lost", "work other"])
def test_a_commit_without_an_answer_is_never_called_undone(after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line("commit lost", *[after] * 9)
    with pytest.raises(SourceError, match="whether it did is not known") as error:
        store_on(line, monkeypatch, patience=0.05).write(line.work)
    assert error.value.fields == {"outcome": "unknown"}


def test_where_nothing_was_to_be_booked_nothing_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(*["commit lost"] * 9)
    with pytest.raises(SourceError, match=r"^It was commit lost"):
        store_on(line, monkeypatch, patience=0.05).read(line.work)
    assert line.options and all(options == {WRITE: False} for options in line.options)


def test_a_ledger_is_created_under_the_lock_of_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line()
    store = store_on(line, monkeypatch, patience=7.0)
    monkeypatch.setattr(store, "present", lambda _: True)
    assert store.create("id", "now", line.work) is None and line.options == [{WRITE: True}]
    Store(line, read_only=True, patience=3.0)  # type: ignore[arg-type]
    Store(line, read_only=False, patience=3.0, create=True)  # type: ignore[arg-type]
    assert line.checks == [
        {"write": True, "create": False},
        {"write": False, "create": False},
        {"write": True, "create": True},
    ]
    assert line.engines == [
        {"patience": 7.0, "read_only": False},
        {"patience": 7.0, "create": True},
        {"patience": 3.0, "read_only": True},
        {"patience": 3.0, "read_only": False},
    ]


def test_a_server_that_may_forget_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line()
    store = store_on(line, monkeypatch)
    for off, told in (
        ([], None),
        (["fsync"], "fsync off"),
        (["fsync", "full_page_writes"], "fsync and full_page_writes"),
    ):
        monkeypatch.setattr(line, "unsafe_settings", lambda _, off=off: off, raising=False)
        if told is None:
            store.check_durable()
        else:
            with pytest.raises(LedgerError, match=told):
                store.check_durable()


@pytest.mark.parametrize(
    ("shared", "tables", "there"),
    [
        (True, {"meta", "entries", "head", "customers"}, True),
        (False, {"meta", "entries", "head"}, True),
        (True, {"customers"}, False),  # of another program, beside which there is room
        (True, set(), False),
        (False, set(), False),
        (True, {"meta"}, None),
        (False, {"meta"}, None),
        (False, {"customers"}, None),
    ],
)
def test_half_a_ledger_is_none_and_nothing_is_put_on_top_of_it(
    shared: bool, tables: set[str], there: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line()
    store = store_on(line, monkeypatch)
    line.shared = shared
    found: Any = SimpleNamespace(tables=lambda: tables)
    if there is None:
        with pytest.raises(LedgerError, match="something else"):
            store.present(found)
    else:
        assert store.present(found) is there
