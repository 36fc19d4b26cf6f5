"""Booking: every entry goes through the rules of state.py and gets its number, totals and hash in one transaction."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from nabladp.checks import expect, members
from nabladp.errors import LedgerError, SourceError
from nabladp.person import Person
from nabladp.privacy.budget import Budget, Limit
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger.entry import SPENDING, TEST, Draft, Entry, Row, canonical, check_name, check_text, now
from nabladp.privacy.ledger.limits import Tally, cost_of, extend_universe, same_budget, total_of
from nabladp.privacy.ledger.reading import LedgerView, Which
from nabladp.privacy.ledger.state import Past, State, already_ended, apply, exceeded_limits
from nabladp.privacy.universe import Universe

if TYPE_CHECKING:
    from nabladp.privacy.ledger.store import Transaction

Request = tuple[Guarantee, str, dict[str, Any]]  # guarantee, name, details


class Pen(Past):
    """Holds the write lock. Collects rows on top of the books; ``write_down`` puts them into the tables."""

    def __init__(self, transaction: Transaction, state: State, *, test: bool, ticket: str | None = None) -> None:
        self.transaction = transaction
        self.state = state
        self._marks = {"ticket": ticket or uuid.uuid4().hex} | ({"stamp": TEST} if test else {})
        self._time = now()
        self._rows: dict[int, Row] = {}
        self._ends: dict[int, Row] = {}
        self._names: set[str] = set()
        self._free: set[str] = set()  # names looked up before, all at once

    def add(self, draft: Draft) -> int:
        """Add an entry to the rows to write; returns its number."""
        stamped = replace(draft, payload={**draft.payload, **self._marks})
        seq = self.state.seq + 1
        after = apply(self.state, stamped.with_number(seq, self._time), self)
        row = Row.seal(stamped, seq, self._time, after.totals.to_json(), self.state.hash)
        self._rows[seq] = row
        if row.ref is not None:
            self._ends[row.ref] = row
        if row.kind in SPENDING:
            self._names.add(row.name)
        self.state = replace(after, seq=row.seq, hash=row.hash)
        return seq

    def learn(self, universe: Universe) -> None:
        """Refuse another schema; record derived columns that are new to the ledger."""
        wider = extend_universe(self.state.universe, universe)
        if wider.derived.keys() != self.state.universe.derived.keys():
            self.add(Draft("schema", "schema", {"universe": wider.to_json()}))

    def learn_person(self, person: Person) -> None:
        """Refuse people of another kind; record what a person is where the ledger does not say yet."""
        known = self.state.person
        if known is None or not known.agrees(person):
            self.add(Draft("person", "person", {"person": person.unit}))

    def write_down(self) -> dict[int, Entry]:
        self.transaction.append(list(self._rows.values()))
        return {row.seq: row.entry() for row in self._rows.values()}

    def stands(self, transaction: Transaction) -> bool:
        """Whether the rows written down are in the ledger. The ticket makes the hash unlike any other."""
        last = self._rows[max(self._rows)] if self._rows else None
        row = None if last is None else transaction.at(last.seq)
        return row is not None and last is not None and row.hash == last.hash

    def entry(self, seq: int) -> Entry | None:
        row = self._rows.get(seq) or self.transaction.at(seq)
        return None if row is None else row.entry()

    def end_of(self, seq: int) -> Entry | None:
        row = self._ends.get(seq) or self.transaction.end_of(seq)
        return None if row is None else row.entry()

    def has_name(self, name: str) -> bool:
        return name in self._names or (name not in self._free and bool(self.transaction.names_in_use([name])))

    def entries(self) -> Iterable[Entry]:
        return (row.entry() for row in chain(self.transaction.walk(), self._rows.values()))

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse names in use: they are unique among all that was ever spent, so that a release is found by its name
        for good."""
        seen: set[str] = set()
        used = self.transaction.names_in_use(names)
        for name in names:
            if name in used or name in seen:
                free = self._free_name(name, {*names})
                raise LedgerError(
                    f"The name {name!r} is already in the ledger.",
                    fix=f"Choose another, e.g. {free!r}.",
                    suggestion=free,
                )
            seen.add(name)
        self._free |= seen

    def _free_name(self, name: str, requested: set[str]) -> str:
        stem = re.sub(r"-\d+$", "", name)
        number = 2 + self.transaction.beginning_with(f"{stem}-")
        while (free := f"{stem}-{number}") in requested or self.transaction.names_in_use([free]):
            number += 1
        return free


class Book(LedgerView):
    """A ledger that can be written to."""

    _given: Universe | None = None  # the schema it was opened with, whose derived columns may be new to the ledger

    def reserve(
        self,
        guarantee: Guarantee,
        name: str,
        details: Mapping[str, Any] | None = None,
        *,
        seeded: bool = False,
        ticket: str | None = None,
    ) -> Entry:
        """Book the cost of a release before it reads a row. Durable when this returns; refused if a limit breaks.

        ``ticket`` is a word of your own for this very request, such as a job's number: asked again with the same one,
        also by another process, the entry that was booked is returned, and nothing is booked twice. It pays once: run
        the release again only if nothing was published the first time.
        """
        return self.reserve_all([(guarantee, name, details or {})], seeded=seeded, ticket=ticket)[0]

    def reserve_all(
        self,
        requests: Iterable[tuple[Guarantee, str, Mapping[str, Any]]],
        *,
        person: Person | None = None,
        seeded: bool = False,
        ticket: str | None = None,
    ) -> list[Entry]:
        """Book the costs of a whole plan, all or nothing. What a ``person`` is must be what the ledger says."""
        listed = _tuples(requests, 3, "A request is a guarantee, a name and details.")
        requested = [(_guarantee(cost), check_name(name), _json_details(details)) for cost, name, details in listed]
        own = None if ticket is None else check_name(ticket, "ticket")

        def work(pen: Pen) -> Sequence[Entry | int]:
            if own is not None and (before := _find_booked(pen, requested, own, seeded)):
                return before
            if person is not None:
                pen.learn_person(person)
            for guarantee, *_ in requested:
                pen.learn(guarantee.universe)
            pen.check_names([name for _, name, _ in requested])
            _check_together([(guarantee, name) for guarantee, name, _ in requested], pen.state)
            return [
                pen.add(
                    Draft("reserve", name, {"guarantee": guarantee.to_json(), "details": details, "seeded": seeded})
                )
                for guarantee, name, details in requested
            ]

        return self._write(work, own) if requested else []

    def check_fits(self, requests: Iterable[tuple[Guarantee, str]]) -> None:
        """Refuse requests that would break a limit as things stand. Books nothing: only a reservation is sure to
        hold."""
        listed = _tuples(requests, 2, "A request is a guarantee and a name.")
        if requested := [(_guarantee(cost), check_name(name)) for cost, name in listed]:
            _check_together(requested, self._state())

    def bind(
        self, which: Which, digest: str, details: Mapping[str, Any] | None = None, *, seeded: bool = False
    ) -> Entry:
        """Bind a finished release to its reservation. The same digest again changes nothing."""
        return self.bind_all([(which, digest, details or {})], seeded=seeded)[0]

    def bind_all(
        self, releases: Iterable[tuple[Which, str, Mapping[str, Any]]], *, seeded: bool = False
    ) -> list[Entry]:
        listed = _tuples(releases, 3, "A binding is a reservation, a digest and details.")
        bound = [(which, check_text(digest, "digest"), _json_details(d)) for which, digest, d in listed]

        def work(pen: Pen) -> list[Entry | int]:
            return [self._bind(pen, which, digest, details, seeded) for which, digest, details in bound]

        return self._write(work) if bound else []

    def _bind(self, pen: Pen, which: Which, digest: str, details: dict[str, Any], seeded: bool) -> Entry | int:
        reservation = self._reservation(pen.transaction, which)
        end = pen.end_of(reservation.seq)
        if end is not None and end.kind == "bind" and end.digest == digest:
            return end
        payload = {"digest": digest, "details": details, "seeded": seeded}
        return pen.add(Draft("bind", reservation.name, payload, reservation.seq))

    def void(self, name: Which, reason: str) -> Entry:
        """Void a reservation that never became a release, and with it its cost. State why; it stays on record.

        On PostgreSQL this takes a grantor. A reservation that a curator recorded as failed is voided in the same way.
        """
        reason = check_text(reason, "reason")
        return self._write(lambda pen: [self._void(pen, self._reservation(pen.transaction, name), reason)])[0]

    def _void(self, pen: Pen, reservation: Entry, reason: str) -> int:
        end = pen.end_of(reservation.seq)
        ref = end.seq if end is not None and end.kind == "failed" else reservation.seq
        return pen.add(Draft("void", reservation.name, {"reason": reason}, ref))

    def fail_all(self, reservations: Iterable[Which], reason: str) -> list[Entry]:
        """Record that these reservations failed before any noise was drawn for them, so that nothing was published.

        Where this user may void, they are voided and cost nothing. Where not (a curator on PostgreSQL), each gets an
        entry ``failed``: it still counts, and a grantor can void it.
        """
        reason, listed = check_text(reason, "reason"), list(reservations)

        def work(pen: Pen) -> list[Entry | int]:
            failed = [self._reservation(pen.transaction, which) for which in listed]
            if pen.transaction.may_void():
                return [self._void(pen, reservation, reason) for reservation in failed]
            return [
                pen.add(Draft("failed", reservation.name, {"reason": reason}, reservation.seq))
                for reservation in failed
            ]

        return self._write(work)

    def record_external(self, guarantee: Guarantee, name: str, who: str, note: str = "") -> Entry:
        """Book a release that someone else made from the same people.

        It has happened, so no limit can refuse it; ``entry.exceeded`` names the limits that are now exceeded.
        """
        name, who = check_name(name), check_text(who, "who")
        _guarantee(guarantee)
        expect(note, str, "The note of an entry", "Give it as text.")

        def work(pen: Pen) -> list[int]:
            pen.learn(guarantee.universe)
            pen.check_names([name])
            stated = guarantee.to_json()
            after = replace(pen.state, totals=pen.state.totals.plus(pen.state.cost(stated)))
            payload = {"guarantee": stated, "who": who, "note": note, "exceeded": exceeded_limits(after)}
            return [pen.add(Draft("external", name, payload))]

        return self._write(work)[0]

    def change_budget(self, budget: Budget, reason: str) -> Entry:
        """Put another budget in force, on record. A limit below what is spent refuses whatever would cost it more."""
        reason = check_text(reason, "reason")
        expect(budget, Budget, "The budget of a ledger", "Give Budget(per_attribute=CDP(0.5)).")

        def work(pen: Pen) -> list[Entry | int]:
            limits = budget.limits(extend_universe(pen.state.universe, self._given or pen.state.universe))
            if same_budget(pen.state.limits, limits):
                return [self._at(pen.transaction, pen.state.totals.budget)]
            pen.learn(self._given or pen.state.universe)
            return [pen.add(Draft("budget", "budget", {"reason": reason, **budget_payload(budget, limits)}))]

        return self._write(work)[0]

    def _write(self, work: Callable[[Pen], Sequence[Entry | int]], ticket: str | None = None) -> list[Entry]:
        """Run ``work`` under the ledger's write lock. It answers with entries, or with the numbers of those it added.

        Where a server died before it answered a commit, ``work_locked`` is called once more. It then holds the lock
        that the first attempt held, so that its rows either stand for good, and are the answer, or never will.
        """
        ticket = ticket or uuid.uuid4().hex
        sent: list[tuple[Pen, list[Entry]]] = []

        def work_locked(transaction: Transaction) -> list[Entry]:
            state = self._follower.state(transaction, lock=True)
            if sent and sent[-1][0].stands(transaction):
                return sent[-1][1]
            pen = Pen(transaction, state, test=state.test, ticket=ticket)
            answers = work(pen)
            written = pen.write_down()
            answer = [written[item] if isinstance(item, int) else item for item in answers]
            sent.append((pen, answer))
            return answer

        try:
            answer = self._store.write(work_locked)
        except SourceError as error:
            if error.fields.get("outcome") == "unknown":
                error.fields["ticket"] = ticket
            raise
        self._follower.mark_checked(sent[-1][0].state)
        return answer

    def _reservation(self, transaction: Transaction, which: Which) -> Entry:
        entry = self._find(transaction, which)
        if entry.kind != "reserve":
            raise LedgerError(
                f"Entry {entry.seq} ({entry.kind}) is not a reservation.", fix="Only reservations are bound or voided."
            )
        return entry


def _tuples(given: Any, length: int, rule: str) -> list[tuple[Any, ...]]:
    fix = "Give a list with one such tuple each."
    tuples = [members(request, "A request", fix) for request in members(given, "What a ledger is asked for", fix)]
    if any(len(request) != length for request in tuples):
        raise LedgerError(rule, fix=fix)
    return tuples


def _guarantee(given: Any) -> Guarantee:
    return expect(given, Guarantee, "The cost of an entry", "Give the guarantee of a mechanism.")


def budget_payload(budget: Budget, limits: Iterable[Limit]) -> dict[str, Any]:
    return {"budget": budget.to_json(), "limits": [limit.to_json() for limit in limits]}


def _check_together(requested: Sequence[tuple[Guarantee, str]], state: State) -> None:
    """Refuse a plan that breaks a limit as a whole; a plan may ask for the same guarantee many times."""
    costs: dict[Guarantee, dict[str, Tally]] = {g: cost_of(g, state.keys) for g in {g for g, _ in requested}}
    total = total_of(costs[guarantee] for guarantee, _ in requested)
    what = f"The release {requested[0][1]!r}" if len(requested) == 1 else f"The plan of {len(requested)} releases"
    state.check_affordable(total, what)


def _find_booked(pen: Pen, requested: Sequence[Request], ticket: str, seeded: bool) -> list[Entry]:
    """The entries that were booked with this ticket, if any; a ticket stands for one request only."""
    rows = [pen.transaction.by_name(name) for _, name, _ in requested]
    booked = [row.entry() for row in rows if row is not None]
    if len(booked) < len(requested) or any(entry.ticket != ticket for entry in booked):
        return []  # a name that someone else has taken is refused in the ordinary way
    for entry, (guarantee, *_) in zip(booked, requested, strict=True):
        if entry.payload.get("guarantee") != guarantee.to_json() or entry.seeded != seeded:
            raise LedgerError(
                f"{entry.name!r} was booked with this ticket for another release.", fix="Use a ticket of its own."
            )
        if end := pen.end_of(entry.seq):
            raise already_ended(end)  # it was used or voided: it pays for nothing more
    return booked


def _json_details(details: Mapping[str, Any]) -> dict[str, Any]:
    try:
        canonical(dict(details))
    except (TypeError, ValueError, RecursionError):
        raise LedgerError(
            "The details cannot be written as JSON.", fix="Use texts, finite numbers and lists."
        ) from None
    return dict(details)
