"""The exact audit: on a tiny instance, every neighbouring pair and every set of attributes against the claim.

No sampling: the mechanism's full output law is compared between all tables that differ in one row. A claim that is too
small for any set is found with certainty, on that instance.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nabladp.audit.divergence import Divergences
from nabladp.audit.foreign import as_mechanism
from nabladp.audit.results import above, check_asked
from nabladp.errors import AuditError
from nabladp.mechanisms import Mechanism
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.schema import Schema
from nabladp.tables import CodedTable

MOST_RECORDS, MOST_TABLES = 64, 3000

Record = tuple[int, ...]
Derive = Mapping[str, Callable[[Mapping[str, int]], int]]


@dataclass(frozen=True)
class AuditRow:
    """One set of attributes: what is claimed and the largest divergence found."""

    attributes: tuple[str, ...]
    claimed_rho: float
    true_rho: float
    claimed_pure: float
    true_pure: float

    @property
    def refuted(self) -> bool:
        return above(self.true_rho, self.claimed_rho) or above(self.true_pure, self.claimed_pure)

    @property
    def tightness(self) -> float:
        """True over claimed: 1 is as good as it gets, above 1 the claim is false. Pure where claimed, otherwise ρ."""
        true, claimed = (self.true_rho, self.claimed_rho)
        if not math.isinf(self.claimed_pure):
            true, claimed = self.true_pure, self.claimed_pure
        return true / claimed if claimed else (math.inf if true > 1e-12 else 1.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"refuted": self.refuted, "tightness": self.tightness}


@dataclass(frozen=True)
class ExactAudit:
    rows: tuple[AuditRow, ...]
    tables_compared: int

    @property
    def refuted(self) -> tuple[AuditRow, ...]:
        return tuple(row for row in self.rows if row.refuted)

    @property
    def passed(self) -> bool:
        return not self.refuted

    @property
    def tightest(self) -> AuditRow:
        """The set whose claim comes closest to the truth, or falls farthest below it."""
        kept = [row for row in self.rows if row.attributes]
        return max([row for row in kept if row.claimed_rho or row.refuted] or kept, key=lambda row: row.tightness)

    def to_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "tables_compared": self.tables_compared,
            "tightest": self.tightest.to_json(),
            "sets": [row.to_json() for row in self.rows],
        }


def exact_audit(
    mechanism: Mechanism,
    schema: Schema,
    n: int = 2,
    *,
    derive: Derive | None = None,
    guarantee: Guarantee | None = None,
    seconds: float = math.inf,
    progress: Callable[[str, int, int], None] | None = None,
) -> ExactAudit:
    """Compare the mechanism's claim with its exact output law on all tables of ``n`` rows over a tiny schema.

    Derived columns need a function of the record's codes each, in ``derive``. ``guarantee`` replaces the mechanism's
    own claim. What takes longer than ``seconds`` is given up with an error. ``progress`` is told pairs done and in all.
    """
    check_asked(mechanism, schema, guarantee, n)
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise AuditError("The time of an audit is a number of seconds.", fix="Leave it out for as long as it takes.")
    until = time.monotonic() + seconds
    claim = guarantee if guarantee is not None else mechanism.guarantee(schema, n)
    universe = Universe.of(schema)
    records = _records(schema, derive or {})
    if n < 1 or math.comb(len(records) + n - 1, n) > MOST_TABLES:
        raise AuditError(f"There are too many tables of {n} rows to enumerate.", fix="Use fewer rows or attributes.")
    divergences = Divergences()
    worst: dict[frozenset[str], tuple[float, float]] = {}
    laws: dict[tuple[Record, ...], tuple[tuple[int, ...], float]] = {}
    compared = 0

    def law(rows: tuple[Record, ...]) -> tuple[tuple[int, ...], float]:
        key = tuple(sorted(rows))
        if key not in laws:
            found = as_mechanism(mechanism).distribution(_table(schema, key))
            laws[key] = divergences.learn(found), found.largest_order
        return laws[key]

    total = math.comb(len(records) + n - 2, n - 1) * len(records) * (len(records) - 1)
    for rest in itertools.combinations_with_replacement(records, n - 1):
        if time.monotonic() > until:
            raise AuditError("The exact audit took too long.", fix="Give it more time, or a smaller schema.")
        if progress is not None:
            progress("exact pair", compared, total)
        for one, other in itertools.permutations(records, 2):
            differing = frozenset(
                name
                for name, a, b in zip(schema.names, one, other, strict=True)
                if a != b and name in universe.position
            )
            (here, order), (there, _) = law((*rest, one)), law((*rest, other))
            found = divergences.between(here, there, order)
            known = worst.get(differing, (0.0, 0.0))
            worst[differing] = (max(known[0], found[0]), max(known[1], found[1]))
            compared += 1
    return ExactAudit(tuple(_rows(universe, claim, worst)), compared)


def _rows(
    universe: Universe, claim: Guarantee, worst: Mapping[frozenset[str], tuple[float, float]]
) -> Sequence[AuditRow]:
    rows = []
    for size in range(len(universe.protected) + 1):
        for chosen in itertools.combinations(universe.protected, size):
            within = [pair for differing, pair in worst.items() if differing <= set(chosen)]
            rho = max((pair[0] for pair in within), default=0.0)
            claimed = claim.epsilon(chosen)  # where no pure bound is claimed, tails may be cut and D_∞ means nothing
            pure = math.inf if math.isinf(claimed) else max((pair[1] for pair in within), default=0.0)
            rows.append(AuditRow(chosen, claim.rho(chosen), rho, claimed, pure))
    return rows


def _records(schema: Schema, derive: Derive) -> list[Record]:
    """Every legal record: all values of the source attributes, derived columns computed."""
    missing = [name for name in schema.derived if name not in derive]
    if missing:
        raise AuditError(f"{missing[0]!r} is derived; the audit must know how.", fix="Pass derive={name: function}.")
    if schema.cells(schema.roots) > MOST_RECORDS:
        raise AuditError(
            f"The schema has {schema.cells(schema.roots):,} records; the exact audit takes {MOST_RECORDS}.",
            fix="Audit a smaller schema: privacy constants do not depend on its size.",
        )
    found = []
    for codes in itertools.product(*(range(schema[name].size) for name in schema.roots)):
        record = dict(zip(schema.roots, codes, strict=True))
        record |= {name: derive[name](record) for name in schema.derived}
        found.append(tuple(record[name] for name in schema.names))
    return found


def _table(schema: Schema, rows: Sequence[Record]) -> CodedTable:
    columns = np.array(rows, dtype=np.int64).T
    return CodedTable(schema, dict(zip(schema.names, columns, strict=True)))
