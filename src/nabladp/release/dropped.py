"""How many rows the bound on a person's rows leaves out: a noisy number at a stated cost, booked in the ledger.

Rows beyond a person's m-th reach no other output, not even their number. This is the one way to learn of it. At most
``most`` left-out rows of each person are counted, so that all rows of a person together move the count by at most that:
ρ = most²/(2·scale²), or ε = most/scale. The cost is charged to every protected attribute, and once to all together.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import asdict, dataclass
from typing import Any

from nabladp.checks import expect, is_whole
from nabladp.errors import BudgetError, DataError, MechanismError
from nabladp.mechanisms.allocation import least_scale
from nabladp.noise import NoiseSource
from nabladp.noise.laws import Kind, half_width
from nabladp.person import MOST_ROWS, Person
from nabladp.privacy import Approx, Guarantee, Ledger
from nabladp.privacy.values import BudgetValue, as_value, limit_units
from nabladp.release.attempt import Attempt
from nabladp.tables import Table


@dataclass(frozen=True)
class DroppedRows:
    """A noisy number of rows that are not used, at most ``most`` of each person, with its 95 % interval."""

    rows: int
    half_width: int
    most: int
    used: int
    scale: float
    entry: str
    stamp: str | None = None

    @property
    def share(self) -> float:
        """Of all rows, those that are not used; 0 where noise made the number negative."""
        return self._share(self.rows)

    @property
    def share_interval(self) -> tuple[float, float]:
        return self._share(self.rows - self.half_width), self._share(self.rows + self.half_width)

    def _share(self, rows: int) -> float:
        return max(rows, 0) / (max(rows, 0) + self.used)

    def to_json(self) -> dict[str, Any]:
        low, high = self.share_interval
        return asdict(self) | {"share": self.share, "share_low": low, "share_high": high}


def guarantee(table: Table, budget: BudgetValue) -> Guarantee:
    """The guarantee of the number of rows that are left out: every set of attributes pays the budget."""
    protected = Guarantee.none(table.schema).universe.protected
    if not protected:
        raise BudgetError("Every attribute is public, so nothing limits what is released.", fix="Protect one.")
    return Guarantee.touch(table.schema, protected, budget)


def dropped_rows(
    table: Table, person: Person, ledger: Ledger, noise: NoiseSource, budget: BudgetValue, most: int, name: str | None
) -> DroppedRows:
    """Release the noisy number of rows of ``table`` that are not used; books its cost before anything is counted."""
    if person.id is None:
        raise DataError(
            "No rows are left out: people have no ID here.", fix='Give one: person=Person("patient", rows=5).'
        )
    if not is_whole(most, 1, MOST_ROWS):
        raise MechanismError(
            f"'most' is a whole number from 1 to {MOST_ROWS:,}: so many left-out rows of each person are counted.",
            fix="Give, for instance, most=20.",
        )
    if isinstance(as_value(budget), Approx):
        raise BudgetError("A number with one noise has a cost, not a limit in (ε, δ).", fix="Use CDP, Rho or Pure.")
    kind: Kind = "laplace" if budget.pure else "gaussian"
    scale = least_scale(kind, limit_units(budget), most if budget.pure else most * most)
    cost, seeded = guarantee(table, budget), noise.is_seeded
    used = table.n
    name = f"dropped-rows-{uuid.uuid4().hex[:8]}" if name is None else expect(name, str, "The name", "Give text.")
    details = {"statistic": "rows that are not used", "most": most, "scale": scale}
    (entry,) = ledger.reserve_all([(cost, name, details)], person=person, seeded=seeded)
    attempt = Attempt(ledger, [entry], noise, None)
    with attempt.explain_failures():
        with attempt.reading():
            exact = table.dropped(most)
        with attempt.running(entry):
            draw = noise.discrete_laplace if budget.pure else noise.discrete_gaussian
            noisy = exact + int(draw(scale, 1)[0])
        width = half_width(kind, scale, 0.95)
        found = DroppedRows(noisy, width, int(most), used, scale, entry.name, noise.stamp)
        text = json.dumps(found.to_json(), sort_keys=True).encode()
        ledger.bind(entry, hashlib.sha256(text).hexdigest(), seeded=seeded)
    return found
