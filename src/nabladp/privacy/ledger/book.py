"""Ledger: what was spent, on which attributes, by which release. Nothing is ever deleted.

The order of a release is: reserve (durable, before a row is read), read, run, write, bind. A crash in between leaves
the reservation unfinished and its cost spent, until the curator voids it by name with a reason.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nabladp.errors import LedgerError
from nabladp.privacy.budget import Budget, Limit
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger.entry import FORMAT, Draft, Entry, Row, now
from nabladp.privacy.ledger.pen import Pen, checked_details, checked_name, checked_text
from nabladp.privacy.ledger.rules import check_limits, check_same_budget, same_budget, spending, widened
from nabladp.privacy.ledger.standing import Standing, after_budget, standing_guarantees
from nabladp.privacy.ledger.totals import Tally, cost_of, keys_of, total_of
from nabladp.privacy.ledger.view import View, Which
from nabladp.privacy.universe import HasAttributes, Universe

if TYPE_CHECKING:
    from nabladp.privacy.ledger.store import Store, Transaction

PATIENCE = 60.0  # seconds to wait for other writers before giving up


class Ledger(View):
    """Open with :meth:`open`, look at with :meth:`read`. Safe to use from many processes and threads at once."""

    _given: Universe | None = None  # the schema it was opened with, whose derived columns may be new to the ledger

    # ---- opening --------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        where: str | Path,
        attributes: HasAttributes | Iterable[str] | None = None,
        budget: Budget | None = None,
        *,
        test: bool = False,
        patience: float = PATIENCE,
    ) -> Ledger:
        """Create the ledger, or open it and check that schema, budget and ``test`` are the ones it was made with.

        ``attributes`` (a schema) and ``budget`` may be left out for a ledger that exists. Only a ``test`` ledger
        takes seeded releases, and every entry of it says so.
        """
        from nabladp.privacy.ledger.store import Store

        universe = None if attributes is None else Universe.of(attributes)
        limits = None if universe is None or budget is None else budget.limits(universe)
        may_create = universe is not None and budget is not None
        store = Store.at(where, read_only=False, create=may_create, patience=patience)
        if not store.exists():
            if universe is None or budget is None or limits is None:
                raise LedgerError(
                    f"{store.label!r} holds no ledger yet.", fix="Give a schema and a budget to create one."
                )
            cls._create(store, universe, budget, limits, test)
        ledger = cls(store, store.identity())
        try:
            ledger.check_agrees(universe, budget, test=test)
        except Exception:
            ledger.close()
            raise
        return ledger

    @classmethod
    def read(cls, where: str | Path) -> Ledger:
        """Look at an existing ledger; nothing can be written, and no file is ever created."""
        from nabladp.privacy.ledger.store import Store

        store = Store.at(where, read_only=True, create=False, patience=PATIENCE)
        if not store.exists():
            raise LedgerError(f"{store.label!r} holds no ledger yet.", fix="A release creates it.")
        return cls(store, store.identity())

    @staticmethod
    def _create(store: Store, universe: Universe, budget: Budget, limits: Sequence[Limit], test: bool) -> None:
        ledger, created = str(uuid.uuid4()), now()
        payload = {
            "ledger": ledger,
            "format": FORMAT,
            "test": test,
            "universe": universe.to_json(),
            **_budget_payload(budget, limits),
        }

        def first(transaction: Transaction) -> None:
            pen = Pen(transaction, None, test=test)
            pen.add(Draft("open", "ledger", payload))
            pen.write_down()

        store.create(ledger, created, first)

    def check_agrees(self, universe: Universe | None, budget: Budget | None, *, test: bool) -> None:
        """Refuse another schema, another budget, or a private use of a test ledger and the reverse."""
        if self.test != test:
            kind, other = ("test", "private") if self.test else ("private", "test")
            raise LedgerError(
                f"{self.label!r} is a {kind} ledger and cannot serve as a {other} one.",
                fix="Leave the seed out."
                if test
                else "Give it a seed (--test-seed), or use another ledger for what is private.",
            )
        standing = self._standing()
        known = standing.universe if universe is None else widened(standing.universe, universe)
        self._given = known
        if budget is not None and budget.to_json() != standing.budget.to_json():
            check_same_budget(standing.limits, budget.limits(known))

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- writing --------------------------------------------------------------------------------------------------

    def reserve(
        self, guarantee: Guarantee, name: str, details: Mapping[str, Any] | None = None, *, seeded: bool = False
    ) -> Entry:
        """Book the cost of a release before it reads a row. Durable when this returns; refused if a limit breaks."""
        return self.reserve_all([(guarantee, name, details or {})], seeded=seeded)[0]

    def reserve_all(
        self, requests: Iterable[tuple[Guarantee, str, Mapping[str, Any]]], *, seeded: bool = False
    ) -> list[Entry]:
        """A whole plan, all or nothing."""
        asked = [(guarantee, checked_name(name), checked_details(details)) for guarantee, name, details in requests]
        if seeded and not self.test:
            raise LedgerError(
                "A seeded release is not private: whoever knows the seed can remove the noise.",
                fix="Leave the seed out, or use a test ledger: Ledger.open(…, test=True).",
            )

        def work(pen: Pen, standing: Standing) -> list[int]:
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

        return self._write(work) if asked else []

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
            return [pen.add(Draft("budget", "budget", {"reason": reason, **_budget_payload(budget, limits)}), totals)]

        return self._write(work)[0]

    def _write(self, work: Callable[[Pen, Standing], Sequence[Entry | int]]) -> list[Entry]:
        """Run ``work`` under the write lock. It answers with entries, or with the numbers of those it added."""

        def locked(transaction: Transaction) -> list[Entry]:
            standing = self._reader.standing(transaction, lock=True)
            pen = Pen(transaction, standing, test=self.test)
            found = work(pen, standing)
            written = pen.write_down()
            return [written[item] if isinstance(item, int) else item for item in found]

        return self._store.write(locked)

    def _reservation(self, transaction: Transaction, which: Which) -> Entry:
        found = self._find(transaction, which)
        if found.kind != "reserve":
            raise LedgerError(
                f"Entry {found.seq} ({found.kind}) is not a reservation.", fix="Only reservations are bound or voided."
            )
        return found


def _budget_payload(budget: Budget, limits: Iterable[Limit]) -> dict[str, Any]:
    return {"budget": budget.to_json(), "limits": [limit.to_json() for limit in limits]}


def _checked_prices(asked: Sequence[tuple[Guarantee, str]], standing: Standing) -> dict[Guarantee, dict[str, Tally]]:
    """What each guarantee costs (a plan may ask for the same one many times), if all of them fit together."""
    prices = {guarantee: cost_of(guarantee, standing.keys) for guarantee in {g for g, _ in asked}}
    whole = total_of(prices[guarantee] for guarantee, _ in asked)
    what = f"The release {asked[0][1]!r}" if len(asked) == 1 else f"The plan of {len(asked)} releases"
    check_limits(standing.spending, whole, standing.keys, what)
    return prices


def _guarantee(reservation: Entry) -> Guarantee:
    return Guarantee.from_json(reservation.payload["guarantee"])


def _seeded(seeded: bool) -> str:
    return "seeded" if seeded else "private"


def _ended(end: Row) -> LedgerError:
    how = "bound to a release" if end.kind == "bind" else "voided"
    fix = "What got out stays spent." if end.kind == "bind" else "Reserve again under another name."
    return LedgerError(f"{end.name!r} is already {how} (entry {end.seq}).", fix=fix)
