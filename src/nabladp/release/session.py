"""Session: a table, a budget and a ledger. The one place where data, noise and accounting meet."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from nabladp.checks import as_path, expect, mapping, members, names
from nabladp.displayed import Stage
from nabladp.errors import BudgetError, DataError, LedgerError, MechanismError, ReleaseError, quote
from nabladp.mechanisms import Mechanism
from nabladp.noise import NoiseSource
from nabladp.person import Person
from nabladp.privacy import Budget, Guarantee, Ledger, Universe
from nabladp.privacy.conversion import check_delta
from nabladp.privacy.ledger import Entry
from nabladp.privacy.values import CDP, BudgetValue
from nabladp.release.attempt import Attempt, RowMarks, Watched
from nabladp.release.cost import Cost, default_delta, error_json, waits_for_rows
from nabladp.release.imprint import Imprint
from nabladp.release.names import check_names
from nabladp.release.other_budgets import naming_largest, request_cost
from nabladp.release.publish import Announce, Pending, Published, ignore_progress
from nabladp.release.record import Release, versions
from nabladp.schema import Schema
from nabladp.tables import Table, open_table

if TYPE_CHECKING:
    from nabladp.release.dropped import DroppedRows
    from nabladp.release.queries import Answers, QueryCost

Part = tuple[str, str, Mechanism]  # name in the ledger, subfolder, mechanism
_BYTES_PER_CELL, _SPARE_BYTES = 64, 1 << 20


class Session:
    """Releases from one table under one budget.

    ``table`` is anything :func:`open_table` takes; ``ledger`` a path, an address or an open :class:`Ledger`. The order
    of a release is fixed: reserve (durable), read, run, write, bind, rename, report. Nothing is read before the
    reservation except the number of rows, which is public. A seeded ``noise`` needs a test ledger and stamps every
    release. Where people have several rows, ``person`` names their column and says how many rows of each are used (see
    :class:`~nabladp.person.Person`), and every release costs that much more. ``rows_per_person`` is a promise instead:
    that nobody has more rows in this table. ``population`` is one sentence on why it is public which rows are in; a
    query that selects rows needs it.
    ``delta`` is where ε is shown: without it 10⁻⁶, or less where that is more than a tenth of 1/rows.
    ``new_ledger`` creates the ledger, which must not exist yet; without it, it must. ``imprint`` says who publishes, to
    what end and in which language, for report and certificate.
    """

    def __init__(
        self,
        table: Any,
        schema: Schema,
        budget: Budget | None = None,
        ledger: Ledger | str | Path | None = None,
        *,
        noise: NoiseSource | None = None,
        delta: float | None = None,
        adversaries: Mapping[str, Sequence[str]] | None = None,
        rows: int | None = None,
        rows_per_person: int | None = None,
        person: Person | None = None,
        population: str = "",
        new_ledger: bool = False,
        imprint: Imprint | None = None,
    ) -> None:
        if ledger is None:
            raise BudgetError("A session needs a ledger.", fix='Give a file, for instance ledger="ledger.db".')
        _check_kinds(schema, budget, noise)
        expect(new_ledger, bool, "'new_ledger'", "Write new_ledger=True to create the ledger.")
        self.schema = schema
        self.noise = noise or NoiseSource()
        if delta is not None:
            check_delta(delta)
        self._given_delta = delta
        self.person = _person(table, person, rows_per_person, schema)
        self.rows_per_person = self.person.rows
        self.imprint = Imprint() if imprint is None else expect(imprint, Imprint, "'imprint'", "Give an Imprint.")
        self.adversaries = _adversaries({} if adversaries is None else adversaries)
        Guarantee.none(schema).universe.sources([name for chosen in self.adversaries.values() for name in chosen])
        options: dict[str, Any] = {"person": self.person, "population": population}
        self.table: Table = table if isinstance(table, Table) else open_table(table, schema, rows, **options)
        self.table.origin.check()
        if rows is not None:
            self.table.check_rows(rows)
        if self.table.schema.fingerprint() != schema.fingerprint():
            raise DataError("The table was opened with another schema.", fix="Open it with the session's schema.")
        self.ledger = _ledger(ledger, schema, budget, self.person, test=self.noise.is_seeded, new=new_ledger)

    def __repr__(self) -> str:
        return f"Session({len(self.schema)} attributes, ledger {self.ledger.label!r})"

    def __deepcopy__(self, memo: Any) -> Session:
        """The session itself: a copy would be a second account of the same budget."""
        return self

    @property
    def delta(self) -> float:
        """The δ at which ε is shown: the one given, otherwise it follows the number of rows."""
        return self._delta(self.table.known_rows)

    def _delta(self, rows: int | None) -> float:
        return default_delta(rows) if self._given_delta is None else self._given_delta

    def with_table(self, table: Any, rows: int | None = None, population: str = "") -> Session:
        """The session's schema, ledger and noise for another table: what is released from either adds up."""
        return Session(
            table,
            self.schema,
            None,
            self.ledger,
            noise=self.noise,
            delta=self._given_delta,
            adversaries=self.adversaries,
            rows=rows,
            person=self.person,
            imprint=self.imprint,
            population=population,
        )

    # ---- before -------------------------------------------------------------------------------------------------

    @overload
    def cost(self, *mechanisms: Mechanism) -> Cost: ...
    @overload
    def cost(self, query: str | Sequence[str], budget: BudgetValue, **options: Any) -> QueryCost: ...
    def cost(self, *asked: Any, budget: BudgetValue | None = None, **options: Any) -> Cost | QueryCost:
        """A dry run: what these would cost together and how large their errors would be. Spends and reads nothing.

        Takes mechanisms; or one query, or a list of queries, and a budget, with the options of :meth:`sql`.
        """
        options |= {} if budget is None else {"budget": budget}
        if "query" not in options and not (asked and isinstance(asked[0], (str, list, tuple))):
            return self._cost(*asked, **options)
        from nabladp.release import queries  # loads the parser of SQL

        own = {"id": self.person.id, **options}
        return queries.query_cost(self._cost, self.schema, self.table.known_rows, self.rows_per_person, *asked, **own)

    def _cost(self, *mechanisms: Mechanism) -> Cost:
        named = [(f"{type(m).__name__} {i}", self._for_people(m)) for i, m in enumerate(mechanisms, 1)]
        rows, standing = self.table.known_rows, self.ledger.spent()
        options = {"adversaries": self.adversaries, "delta": self.delta}
        return request_cost(named, self.schema, rows, self.rows_per_person, standing, **options)

    def budget_for(
        self, query: str | Sequence[str], error: Mapping[str, float], like: type[BudgetValue] = CDP, **options: Any
    ) -> BudgetValue:
        """The least budget for which columns of a query's answer have at most these half-widths in a group of average
        size.

        ``like`` is the kind of budget; ``options`` are those of :meth:`sql`. Spends nothing; reads at most the number
        of rows.
        """
        from nabladp.release import queries

        own = {"id": self.person.id, **options}
        return queries.least_budget(query, error, self.schema, self.table.n, like, **own)

    def left(self) -> dict[str, float]:
        """What is left of every limit of the session, in its own measure."""
        return {line.limit.name: line.left for line in self.ledger.spent()}

    # ---- releasing ----------------------------------------------------------------------------------------------

    def release(
        self,
        mechanism: Mechanism,
        name: str | None = None,
        to: str | Path | None = None,
        stage: Stage | None = None,
    ) -> Release:
        """Release one mechanism: reserve, run and bind it; with ``to`` also publish it in that (new) folder, with its
        report."""
        run = uuid.uuid4().hex[:8]
        mechanism = self._for_people(mechanism)
        if name is not None:
            expect(name, str, "The name of a release", 'Give it as text, e.g. name="ages".')
        part = (name or f"{type(mechanism).__name__}-{run}", "", mechanism)
        if to is None:
            return self._reserve_and_run([part], None, stage or ignore_progress)[0]
        goal = as_path(to, "The folder of the release")
        return self._publish([part], run, goal, stage or ignore_progress, ignore_progress).warn().releases[0]

    def sql(
        self,
        query: str | Sequence[str],
        budget: BudgetValue,
        name: str | None = None,
        to: str | Path | None = None,
        stage: Stage | None = None,
        **options: Any,
    ) -> Answers:
        """Answer a SQL query, or several that share what they measure; ``budget`` limits each attribute.

        ``options`` are those of :class:`Statistics`: ``budgets``, ``sets``, ``person``, ``quantiles``, ``one_row_per``.
        """
        from nabladp.release import queries

        return queries.Answers(self.release(queries.statistics(query, budget, **options), name, to, stage))

    def dropped_rows(self, budget: BudgetValue, most: int, name: str | None = None) -> DroppedRows:
        """About how many rows are not used, counting at most ``most`` of each person: a noisy number that costs every
        set of attributes ``budget``."""
        from nabladp.release.dropped import dropped_rows

        return dropped_rows(self.table, self.person, self.ledger, self.noise, budget, most, name)

    def release_together(self, named: Sequence[tuple[str, Mechanism]], stage: Stage | None = None) -> list[Release]:
        """Release several mechanisms as one, reserved together or not at all, without publishing them in a folder."""
        run = uuid.uuid4().hex[:8]
        parts = [(f"{name}-{run}", "", self._for_people(mechanism)) for name, mechanism in _check_releases(named)]
        return self._reserve_and_run(parts, None, stage or ignore_progress)

    def release_all(
        self, named: Sequence[tuple[str, Mechanism]], to: str | Path, stage: Stage | None = None
    ) -> list[Release]:
        """Release several mechanisms as one: reserved together or not at all, published together as subfolders of
        ``to``."""
        return list(self.publish(named, to, stage).warn().releases)

    def publish(
        self,
        named: Sequence[tuple[str, Mechanism]],
        to: str | Path,
        stage: Stage | None = None,
        announce: Announce = ignore_progress,
    ) -> Published:
        """Release as :meth:`release_all` does, and return what became of the report; ``announce`` is called before that
        is written."""
        named = _check_releases(named)
        check_names([name for name, _ in named])
        run = uuid.uuid4().hex[:8]
        goal = Path(os.path.abspath(as_path(to, "The folder of the releases")))
        parts = [(f"{goal.name}-{run}/{name}", name, self._for_people(mechanism)) for name, mechanism in named]
        return self._publish(parts, run, goal, stage or ignore_progress, announce)

    def _for_people(self, mechanism: Any) -> Mechanism:
        known = _mechanism(mechanism)
        return known.for_people(self.person, self.schema) if isinstance(known, Mechanism) else known

    def _publish(self, parts: Sequence[Part], run: str, goal: Path, stage: Stage, announce: Announce) -> Published:
        pending = Pending(goal, run, [subfolder for _, subfolder, _ in parts])
        try:
            releases = self._reserve_and_run(parts, pending, stage)
            return pending.publish(releases, stage, announce)
        except BaseException:
            pending.discard()
            raise

    def _reserve_and_run(self, parts: Sequence[Part], pending: Pending | None, tell: Stage) -> list[Release]:
        if self.table.known_rows is None:  # limits come first: a request that breaks one does not even count the rows
            with self._naming_largest(parts, None):
                self.ledger.check_fits(
                    (self._promise(mechanism, 0), name) for name, _, mechanism in parts if not waits_for_rows(mechanism)
                )
            tell("counting rows", 0, 0)
        n = self.table.n
        promises = [self._promise(mechanism, n) for *_, mechanism in parts]
        self._check_row_order(mechanism for *_, mechanism in parts)
        errors = [mechanism.expected_error(self.schema, n) for *_, mechanism in parts]
        details: dict[str, Any] = {}
        if pending is not None:
            pending.check_space(_bytes_needed(errors))
            details["folder"] = pending.folder.name
        tell("reserving", 0, 0)
        with self._naming_largest(parts, n):
            entries = self.ledger.reserve_all(
                [
                    (guarantee, name, {"mechanism": type(mechanism).__name__, **details})
                    for (name, _, mechanism), guarantee in zip(parts, promises, strict=True)
                ],
                person=self.person,
                seeded=self.noise.is_seeded,
            )
        attempt = Attempt(self.ledger, entries, self.noise, pending)
        with attempt.explain_failures():
            limits = [line.to_json() for line in self.ledger.spent()]
            with attempt.reading():  # before any noise is drawn, where that costs nothing
                columns = (column for *_, mechanism in parts for column in mechanism.reads(self.schema))
                self.table.load(columns, RowMarks(tell, "reading rows"))
            releases = []
            for (name, subfolder, mechanism), guarantee, error, entry in zip(
                parts, promises, errors, entries, strict=True
            ):
                with attempt.running(entry):
                    output = mechanism.run(Watched(self.table, subfolder or name, tell, attempt.faults), self.noise)
                booked = {"ledger": self.ledger.id, "entry": entry.seq, "name": entry.name, "hash": entry.hash}
                releases.append(self._record(name, mechanism, guarantee, error, output, booked, limits))
            tell("writing", 0, 0)
            if pending is not None:
                pending.write(
                    [(subfolder, release) for (_, subfolder, _), release in zip(parts, releases, strict=True)]
                )
            self._bind(entries, releases, pending)
        return releases

    def _naming_largest(self, parts: Sequence[Part], n: int | None) -> AbstractContextManager[None]:
        named = [(subfolder or name, mechanism) for name, subfolder, mechanism in parts]
        return naming_largest(named, self.schema, n, self.rows_per_person, self.ledger.spent)

    def _check_row_order(self, mechanisms: Iterable[Mechanism]) -> None:
        for mechanism in mechanisms:
            if mechanism.needs_row_order(self.schema, self.table.n):
                self.table.check_row_order(mechanism.reads(self.schema))

    def _promise(self, mechanism: Mechanism, n: int) -> Guarantee:
        return mechanism.guarantee(self.schema, n).for_rows(self.rows_per_person)

    def _bind(self, entries: Sequence[Entry], releases: Sequence[Release], pending: Pending | None) -> None:
        bindings: list[tuple[int, str, dict[str, Any]]] = [
            (entry.seq, release.digest, {}) for entry, release in zip(entries, releases, strict=True)
        ]
        try:
            self.ledger.bind_all(bindings, seeded=self.noise.is_seeded)
        except LedgerError:
            if pending is not None and any(self._is_voided(entry) for entry in entries):
                pending.destroy()  # voided while it ran: its cost was given back, so nothing of it may stay
            raise

    def _is_voided(self, entry: Entry) -> bool:
        waiting = {unfinished.seq for unfinished in self.ledger.unfinished()}
        return entry.seq not in waiting and self.ledger.bound(entry.name) is None

    def _record(
        self,
        name: str,
        mechanism: Mechanism,
        guarantee: Guarantee,
        error: Any,
        output: Any,
        booked: Mapping[str, Any],
        limits: Sequence[Mapping[str, Any]],
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
            delta=self._delta(self.table.n),
            person=self.person,
            versions=versions(),
            limits=limits,
            imprint=self.imprint,
            population=self.table.origin.to_json(),
        )


def _check_kinds(schema: Any, budget: Any, noise: Any) -> None:
    expect(schema, Schema, "The schema of a session", 'Load it with Schema.load("schema.toml").')
    if budget is not None:
        expect(budget, Budget, "The budget of a session", "Give one, e.g. Budget(per_attribute=CDP(0.5)).")
    if noise is not None:
        expect(noise, NoiseSource, "The noise of a session", "Leave it out.")


def _adversaries(given: Any) -> dict[str, tuple[str, ...]]:
    fix = 'Write adversaries={"a neighbour": ["income", "health"]}.'
    names(mapping(given, "'adversaries'", fix), "'adversaries'", fix)
    return {name: names(chosen, "The attributes of an adversary", fix) for name, chosen in given.items()}


def _mechanism(value: Any) -> Mechanism:
    """A mechanism that a session can release: it says what it costs, and runs."""
    methods = ("reads", "guarantee", "expected_error", "run", "to_json")
    if isinstance(value, type) or not all(callable(getattr(value, name, None)) for name in methods):
        raise MechanismError(
            f"A release is made by a mechanism, not by {quote(value)}.",
            fix="Give one with its parameters, e.g. NoisyMarginals(CDP(0.5), k=1).",
        )
    mechanism: Mechanism = value
    return mechanism


def _check_releases(given: Any) -> list[tuple[str, Mechanism]]:
    """The releases given to a session: names with their mechanisms."""
    fix = "Give a list of names, each with its mechanism."
    pairs = [members(pair, "A release", fix, error=ReleaseError) for pair in members(given, "The releases", fix)]
    if not pairs:
        raise ReleaseError("There is nothing to release.", fix="Give at least one name with its mechanism.")
    if not all(len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise ReleaseError("A release is a name with its mechanism.", fix=fix)
    return [(name, _mechanism(mechanism)) for name, mechanism in pairs]


def _person(table: Any, person: Person | None, rows_per_person: int | None, schema: Schema) -> Person:
    """What a person is: as given, or as the table was opened with; otherwise the owner's promise."""
    if rows_per_person is not None:
        Guarantee.none(schema).for_rows(rows_per_person)  # refuses what is no number of rows
        if person is not None:
            raise DataError("Both 'person' and 'rows_per_person' are given.", fix="Remove 'rows_per_person'.")
        person = Person(rows=rows_per_person)
    given = person if person is None else expect(person, Person, "'person'", 'Write person=Person("patient", rows=5).')
    opened = table.person if isinstance(table, Table) else None
    if isinstance(table, Table) and given is not None and given != opened and (opened or given.id) is not None:
        raise DataError(
            "The table was opened for other people.", fix="Open it with the session's person: open_table(…, person=…)."
        )
    return given or opened or Person()


def _ledger(
    ledger: Ledger | str | Path, schema: Schema, budget: Budget | None, person: Person, *, test: bool, new: bool
) -> Ledger:
    """The session's ledger; created only where that is asked for: a mistyped path must not bring a fresh budget."""
    if isinstance(ledger, Ledger):
        ledger.check_agrees(Universe.of(schema), budget, test=test, person=person)
        return ledger
    if not new:
        return Ledger.open(ledger, schema, budget, person=person, test=test)
    if budget is None:
        raise BudgetError("A new ledger needs a budget.", fix="Give one, e.g. Budget(per_attribute=CDP(0.5)).")
    return Ledger.create(ledger, schema, budget, person=person, test=test)


def _bytes_needed(errors: Sequence[Any]) -> int:
    """About the bytes that the published files take, from the cells that each expected error, or each part of it,
    speaks of."""
    cells: int = sum(
        part.values_written() for error in errors for part in (error if isinstance(error, tuple) else (error,))
    )
    return _SPARE_BYTES + _BYTES_PER_CELL * cells
