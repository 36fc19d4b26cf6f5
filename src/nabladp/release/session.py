"""Session: a table, a budget and a ledger. The one place where data, noise and accounting meet."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nabladp.errors import BudgetError, DataError
from nabladp.mechanisms import Mechanism
from nabladp.noise import NoiseSource
from nabladp.privacy import Budget, Guarantee, Ledger
from nabladp.release.cost import DELTA, Cost, Line, error_json, price
from nabladp.release.publish import Pending
from nabladp.release.record import Release, versions
from nabladp.schema import Schema
from nabladp.tables import Table, open_table

Stage = Callable[[str], None]
_BYTES_PER_CELL, _SPARE_BYTES = 64, 1 << 20


class Session:
    """Releases from one table under one budget.

    ``table`` is anything :func:`open_table` takes; ``ledger`` a path, an address or an open :class:`Ledger`. The order
    of a release is fixed: reserve (durable), read, run, write, bind, show. Nothing is read before the reservation
    except the number of rows, which is public. A seeded ``noise`` needs a test ledger and stamps every release.
    """

    def __init__(
        self,
        table: Any,
        schema: Schema,
        budget: Budget | None = None,
        ledger: Ledger | str | Path | None = None,
        *,
        noise: NoiseSource | None = None,
        delta: float = DELTA,
        adversaries: Mapping[str, Sequence[str]] | None = None,
        rows: int | None = None,
    ) -> None:
        if ledger is None:
            raise BudgetError("A session needs a ledger.", fix='Give a file, for instance ledger="ledger.db".')
        self.schema = schema
        self.noise = noise or NoiseSource()
        self.delta = delta
        self.adversaries = {name: tuple(chosen) for name, chosen in (adversaries or {}).items()}
        Guarantee.none(schema).universe.sources([name for chosen in self.adversaries.values() for name in chosen])
        self.table: Table = table if isinstance(table, Table) else open_table(table, schema, rows=rows)
        if self.table.schema.fingerprint() != schema.fingerprint():
            raise DataError("The table was opened with another schema.", fix="Open it with the session's schema.")
        self.ledger = ledger if isinstance(ledger, Ledger) else self._open(ledger, budget)

    def _open(self, where: str | Path, budget: Budget | None) -> Ledger:
        return Ledger.open(where, self.schema, budget, test=self.noise.is_seeded)

    # ---- before -------------------------------------------------------------------------------------------------

    def cost(self, *mechanisms: Mechanism) -> Cost:
        """A dry run: what these would cost together and how large their errors would be. Spends and reads nothing."""
        named = [(f"{type(m).__name__} {i}", m) for i, m in enumerate(mechanisms, 1)]
        guarantee, errors = price(named, self.schema, self.table.n)
        return Cost(guarantee, errors, limit_lines(self.ledger, guarantee), self.adversaries, self.delta)

    def left(self) -> dict[str, float]:
        """What is left of every limit, in its own measure."""
        return {line.limit.name: line.left for line in self.ledger.spent()}

    # ---- releasing ----------------------------------------------------------------------------------------------

    def release(self, mechanism: Mechanism, name: str | None = None, to: str | Path | None = None) -> Release:
        """Reserve, run and bind one mechanism; with ``to`` also write it into that (new) folder."""
        run = uuid.uuid4().hex[:8]
        named = [(name or f"{type(mechanism).__name__}-{run}", "", mechanism)]
        return self._release(named, run, None if to is None else Path(to))[0]

    def release_all(
        self, named: Sequence[tuple[str, Mechanism]], to: str | Path, stage: Stage | None = None
    ) -> list[Release]:
        """Several mechanisms as one: reserved together or not at all, shown together as subfolders of ``to``."""
        run = uuid.uuid4().hex[:8]
        goal = Path(to)
        parts = [(f"{goal.name}-{run}/{name}", name, mechanism) for name, mechanism in named]
        return self._release(parts, run, goal, stage)

    def _release(
        self,
        parts: Sequence[tuple[str, str, Mechanism]],
        run: str,
        goal: Path | None,
        stage: Stage | None = None,
    ) -> list[Release]:
        tell = stage or (lambda _: None)
        n = self.table.n
        priced = [
            (name, sub, m, m.guarantee(self.schema, n), m.expected_error(self.schema, n)) for name, sub, m in parts
        ]
        pending = None if goal is None else Pending(goal, run)
        try:
            if pending is not None:
                pending.check_space(_bytes_needed([error for *_, error in priced]))
            tell("reserving")
            details = {} if pending is None else {"folder": pending.folder.name}
            entries = self.ledger.reserve_all(
                [(g, name, {"mechanism": type(m).__name__, **details}) for name, _, m, g, _ in priced],
                seeded=self.noise.is_seeded,
            )
            releases = []
            for (name, sub, mechanism, guarantee, error), entry in zip(priced, entries, strict=True):
                tell(f"counting and adding noise: {sub or name}")
                output = mechanism.run(self.table, self.noise)
                booked = {"ledger": self.ledger.id, "entry": entry.seq, "name": entry.name, "hash": entry.hash}
                releases.append(self._record(name, mechanism, guarantee, error, output, booked))
            tell("writing")
            if pending is not None:
                pending.write([(sub, release) for (_, sub, _), release in zip(parts, releases, strict=True)])
            self.ledger.bind_all(
                [(entry.seq, release.digest, {}) for entry, release in zip(entries, releases, strict=True)],
                seeded=self.noise.is_seeded,
            )
            if pending is not None:
                pending.show()
            return releases
        except BaseException:
            if pending is not None:
                pending.discard()
            raise

    def _record(
        self, name: str, mechanism: Mechanism, guarantee: Guarantee, error: Any, output: Any, booked: Mapping[str, Any]
    ) -> Release:
        return Release(
            name=name,
            mechanism=type(mechanism).__name__,
            parameters=mechanism.to_json(),
            schema=self.schema,
            n=self.table.n,
            guarantee=guarantee,
            output=output,
            expected_error=error_json(error),
            ledger=booked,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            stamp=self.noise.stamp,
            adversaries=self.adversaries,
            delta=self.delta,
            versions=versions(),
        )


def limit_lines(ledger: Ledger, guarantee: Guarantee) -> tuple[Line, ...]:
    """Every limit of the ledger with what is spent, left and requested."""
    lines = []
    for standing in ledger.spent():
        figure = guarantee.figure(sorted(standing.limit.attributes))
        requested = figure.pure if standing.limit.pure else figure.rho
        lines.append(Line(standing.limit, standing.spent, requested, standing.left))
    return tuple(lines)


def _bytes_needed(errors: Sequence[Any]) -> int:
    cells = sum(
        getattr(part, "cells", 0) for error in errors for part in (error if isinstance(error, tuple) else (error,))
    )
    return _SPARE_BYTES + _BYTES_PER_CELL * cells
