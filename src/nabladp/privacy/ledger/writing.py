"""Booking: what a reservation, its binding and every other entry asks of the books before it is written."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nabladp.errors import LedgerError, SourceError
from nabladp.privacy.budget import Budget, Limit
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger.entry import Draft, Entry, Row
from nabladp.privacy.ledger.pen import Pen, checked_details, checked_name, checked_text
from nabladp.privacy.ledger.rules import check_limits, same_budget, spending, widened
from nabladp.privacy.ledger.standing import Standing, after_budget, standing_guarantees
from nabladp.privacy.ledger.totals import Tally, cost_of, keys_of, total_of
from nabladp.privacy.ledger.view import View, Which
from nabladp.privacy.universe import Universe

if TYPE_CHECKING:
    from nabladp.privacy.ledger.transaction import Transaction

Asked = tuple[Guarantee, str, dict[str, Any]]


class Book(View):
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
        what it pays for again only if nothing came out the first time.
        """
        return self.reserve_all([(guarantee, name, details or {})], seeded=seeded, ticket=ticket)[0]

    def reserve_all(
        self,
        requests: Iterable[tuple[Guarantee, str, Mapping[str, Any]]],
        *,
        seeded: bool = False,
        ticket: str | None = None,
    ) -> list[Entry]:
        """A whole plan, all or nothing."""
        asked = [(guarantee, checked_name(name), checked_details(details)) for guarantee, name, details in requests]
        own = None if ticket is None else checked_name(ticket, "ticket")
        if seeded and not self.test:
            raise LedgerError(
                "A seeded release is not private: whoever knows the seed can remove the noise.",
                fix="Leave the seed out, or use a test ledger: Ledger.open(…, test=True).",
            )

        def work(pen: Pen, standing: Standing) -> Sequence[Entry | int]:
            if own is not None and (before := _asked_before(pen, asked, own, seeded)):
                return before
            for guarantee, *_ in asked:
                pen.learn(guarantee.universe)
            pen.check_names([name for _, name, _ in asked])
            prices = _checked_prices([(guarantee, name) for guarantee, name, _ in asked], standing)
            return [
                pen.add(
                    Draft("reserve", name, {"guarantee": guarantee.to_json(), "details": details, "seeded": seeded}),
                    pen.totals.plus(prices[guarantee]),
                )
                for guarantee, name, details in asked
            ]

        return self._write(work, own) if asked else []

    def check_fits(self, requests: Iterable[tuple[Guarantee, str]]) -> None:
        """Refuse what would break a limit as things stand. Books nothing: only a reservation is sure to hold."""
        if asked := list(requests):
            _checked_prices(asked, self._standing())

    def bind(
        self, which: Which, digest: str, details: Mapping[str, Any] | None = None, *, seeded: bool = False
    ) -> Entry:
        """Bind a finished release to its reservation. The same digest again changes nothing."""
        return self.bind_all([(which, digest, details or {})], seeded=seeded)[0]

    def bind_all(
        self, releases: Iterable[tuple[Which, str, Mapping[str, Any]]], *, seeded: bool = False
    ) -> list[Entry]:
        bound = [(which, checked_text(digest, "digest"), checked_details(d)) for which, digest, d in releases]

        def work(pen: Pen, _: Standing) -> list[Entry | int]:
            return [self._bind(pen, which, digest, details, seeded) for which, digest, details in bound]

        return self._write(work) if bound else []

    def _bind(self, pen: Pen, which: Which, digest: str, details: dict[str, Any], seeded: bool) -> Entry | int:
        reservation = self._reservation(pen.transaction, which)
        end = pen.end_of(reservation.seq)
        if end is not None and end.kind == "bind" and end.entry().digest == digest:
            return end.entry()
        if end is not None:
            raise _ended(end)
        if reservation.seeded != seeded:
            raise LedgerError(
                f"{reservation.name!r} was reserved as {_seeded(reservation.seeded)} and came out {_seeded(seeded)}.",
                fix="Reserve and release in the same way.",
            )
        payload = {"digest": digest, "details": details, "seeded": seeded}
        return pen.add(Draft("bind", reservation.name, payload, reservation.seq))

    def void(self, name: Which, reason: str) -> Entry:
        """Give back the cost of a reservation that never became a release. Say why; it stays on record."""
        reason = checked_text(reason, "reason")

        def work(pen: Pen, standing: Standing) -> list[int]:
            reservation = self._reservation(pen.transaction, name)
            end = pen.end_of(reservation.seq)
            if end is not None:
                raise _ended(end)
            cost = cost_of(_guarantee(reservation), standing.keys)
            draft = Draft("void", reservation.name, {"reason": reason}, reservation.seq)
            return [pen.add(draft, pen.totals.minus(cost))]

        return self._write(work)[0]

    def record_external(self, guarantee: Guarantee, name: str, who: str, note: str = "") -> Entry:
        """Book a release that someone else made from the same people. It has happened, so no limit can refuse it;
        ``entry.exceeded`` names the limits that now stand exceeded."""
        name, who = checked_name(name), checked_text(who, "who")

        def work(pen: Pen, standing: Standing) -> list[int]:
            pen.learn(guarantee.universe)
            pen.check_names([name])
            totals = pen.totals.plus(cost_of(guarantee, standing.keys))
            lines = spending(standing.limits, standing.keys, totals)
            exceeded = [line.limit.name for line in lines if line.exceeded]
            payload = {"guarantee": guarantee.to_json(), "who": who, "note": note, "exceeded": exceeded}
            return [pen.add(Draft("external", name, payload), totals)]

        return self._write(work)[0]

    def change_budget(self, budget: Budget, reason: str) -> Entry:
        """Put another budget in force, on record. A limit below what is spent refuses whatever would cost it more."""
        reason = checked_text(reason, "reason")

        def work(pen: Pen, standing: Standing) -> list[Entry | int]:
            limits = budget.limits(widened(pen.universe, self._given or pen.universe))
            if same_budget(standing.limits, limits):
                return [self._at(pen.transaction, standing.totals.budget)]
            pen.learn(self._given or pen.universe)
            totals = after_budget(
                pen.totals,
                pen.next,
                standing.keys,
                keys_of(pen.universe, limits),
                lambda: standing_guarantees(row.entry() for row in pen.transaction.walk()),
            )
            return [pen.add(Draft("budget", "budget", {"reason": reason, **budget_payload(budget, limits)}), totals)]

        return self._write(work)[0]

    def _write(self, work: Callable[[Pen, Standing], Sequence[Entry | int]], ticket: str | None = None) -> list[Entry]:
        """Run ``work`` under the write lock. It answers with entries, or with the numbers of those it added.

        Where a server died before it answered a commit, ``locked`` is called once more. It then holds the lock that the
        first attempt held, so that its rows either stand for good, and are the answer, or never will.
        """
        ticket = ticket or uuid.uuid4().hex
        sent: list[tuple[Pen, list[Entry]]] = []

        def locked(transaction: Transaction) -> list[Entry]:
            standing = self._reader.standing(transaction, lock=True)
            if sent and sent[-1][0].stands(transaction):
                return sent[-1][1]
            pen = Pen(transaction, standing, test=self.test, ticket=ticket)
            found = work(pen, standing)
            written = pen.write_down()
            answer = [written[item] if isinstance(item, int) else item for item in found]
            sent.append((pen, answer))
            return answer

        try:
            return self._store.write(locked)
        except SourceError as error:
            if error.fields.get("outcome") == "unknown":
                error.fields["ticket"] = ticket
            raise

    def _reservation(self, transaction: Transaction, which: Which) -> Entry:
        found = self._find(transaction, which)
        if found.kind != "reserve":
            raise LedgerError(
                f"Entry {found.seq} ({found.kind}) is not a reservation.", fix="Only reservations are bound or voided."
            )
        return found


def budget_payload(budget: Budget, limits: Iterable[Limit]) -> dict[str, Any]:
    return {"budget": budget.to_json(), "limits": [limit.to_json() for limit in limits]}


def _checked_prices(asked: Sequence[tuple[Guarantee, str]], standing: Standing) -> dict[Guarantee, dict[str, Tally]]:
    """What each guarantee costs (a plan may ask for the same one many times), if all of them fit together."""
    prices = {guarantee: cost_of(guarantee, standing.keys) for guarantee in {g for g, _ in asked}}
    whole = total_of(prices[guarantee] for guarantee, _ in asked)
    what = f"The release {asked[0][1]!r}" if len(asked) == 1 else f"The plan of {len(asked)} releases"
    check_limits(standing.spending, whole, standing.keys, what)
    return prices


def _asked_before(pen: Pen, asked: Sequence[Asked], ticket: str, seeded: bool) -> list[Entry]:
    """What was booked with this ticket, if it was; a ticket stands for one request only."""
    rows = [pen.transaction.named(name) for _, name, _ in asked]
    found = [row.entry() for row in rows if row is not None]
    if len(found) < len(asked) or any(entry.ticket != ticket for entry in found):
        return []  # a name that someone else has taken is refused in the ordinary way
    for entry, (guarantee, *_) in zip(found, asked, strict=True):
        if entry.payload.get("guarantee") != guarantee.to_json() or entry.seeded != seeded:
            raise LedgerError(
                f"{entry.name!r} was booked with this ticket for something else.", fix="Use a ticket of its own."
            )
        if end := pen.end_of(entry.seq):
            raise _ended(end)  # it was used or given back: it pays for nothing more
    return found


def _guarantee(reservation: Entry) -> Guarantee:
    return Guarantee.from_json(reservation.payload["guarantee"])


def _seeded(seeded: bool) -> str:
    return "seeded" if seeded else "private"


def _ended(end: Row) -> LedgerError:
    how = "bound to a release" if end.kind == "bind" else "voided"
    fix = "What got out stays spent." if end.kind == "bind" else "Reserve again under another name."
    return LedgerError(f"{end.name!r} is already {how} (entry {end.seq}).", fix=fix)
