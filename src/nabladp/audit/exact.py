"""The exact audit: on a tiny instance, every neighbouring pair and every set of attributes against the claim.

No sampling: the mechanism's full output law is compared between all tables that differ in one row. A claim that is too
small for any set is found with certainty, on that instance.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.audit.deadline import FOREVER, Deadline, WatchedTable
from nabladp.audit.neighbouring_tables import Derive, known_levels
from nabladp.audit.results import above, check_asked
from nabladp.checks import is_whole
from nabladp.errors import AuditError
from nabladp.mechanisms import Auditable, Branch, Law
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.schema import Schema

# ---- exact divergences between output distributions ------------------------------------------------------------------
# Both add up over independent parts order by order, so each pair of parts is worked out once, for a fine grid of orders
# with the limits a → 1 (Kullback–Leibler) and a → ∞ (D_∞), and kept. Where an outcome decides what comes next, the
# curves of what follows come first, and each outcome weighs in with its own.

Numbers = tuple[int, ...]  # the parts of a law, equal parts by equal numbers
_CLOSEST, _FARTHEST, _PER_DOUBLING = -13, 24, 24  # orders 1 + 2^-13 … 1 + 2^24
_AT_ONCE = 1 << 20  # so many numbers, outcomes times orders, are held at a time


@dataclass(frozen=True, eq=False)
class _Part:
    outcomes: Floats
    which: Integers | None = None  # None: nothing follows
    then: tuple[Numbers, ...] = ()


class Divergences:
    """Compares laws of one mechanism; remembers parts it has met."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[bytes, bytes, tuple[Numbers, ...]], int] = {}
        self._parts: list[_Part] = []
        self._which: dict[bytes, Integers] = {}
        self._curves: dict[tuple[int, int, float], Floats] = {}

    def learn(self, law: Law) -> Numbers:
        """Numbers for the parts of an exact law; equal parts get equal numbers."""
        return tuple(self._number(part) for part in law.parts)

    def _number(self, given: Floats | Branch) -> int:
        if isinstance(given, Branch):
            label = _digest(given.which)
            which = self._which.setdefault(label, given.which)  # the same for all tables, so kept once
            part = _Part(given.outcomes, which, tuple(self.learn(law) for law in given.then))
        else:
            label, part = b"", _Part(given)
        key = (_digest(part.outcomes), label, part.then)
        if key not in self._numbers:
            self._numbers[key] = len(self._parts)
            self._parts.append(part)
        return self._numbers[key]

    def between(self, one: Numbers, other: Numbers, largest_order: float) -> tuple[float, float]:
        """The divergences (D_*, D_∞) between two exact laws, given as numbers of their parts."""
        total = self._total(one, other, largest_order)
        return float(np.max(total[:-1] / _orders(largest_order))), float(total[-1])

    def _total(self, one: Numbers, other: Numbers, largest_order: float) -> Floats:
        if len(one) != len(other):
            raise _unlike("parts")
        total = np.zeros(len(_orders(largest_order)) + 1)
        for p, q in zip(one, other, strict=True):
            if p != q:
                total += self._curve(p, q, largest_order)
        return total

    def _curve(self, p: int, q: int, largest_order: float) -> Floats:
        key = (p, q, largest_order)
        if key not in self._curves:
            self._curves[key] = self._worked_out(self._parts[p], self._parts[q], largest_order)
        return self._curves[key]

    def _worked_out(self, one: _Part, other: _Part, largest_order: float) -> Floats:
        if one.outcomes.shape != other.outcomes.shape:
            raise _unlike("outcomes")
        if one.which is not other.which or len(one.then) != len(other.then):
            raise _unlike("branches")
        orders = _orders(largest_order)
        if one.which is None:
            return divergence_curve(one.outcomes, other.outcomes, orders)
        after = np.zeros((len(one.then), len(orders) + 1))
        met = one.which[~np.isneginf(one.outcomes) & ~np.isneginf(other.outcomes)]
        for law in np.unique(met).tolist():
            after[law] = self._total(one.then[law], other.then[law], largest_order)
        return divergence_curve(one.outcomes, other.outcomes, orders, one.which, after)


def _digest(array: NDArray[np.float64] | NDArray[np.int64]) -> bytes:
    return hashlib.sha256(array.tobytes()).digest()


def _unlike(what: str) -> AuditError:
    return AuditError(f"Two output distributions differ in their {what}.", fix=f"List the same {what} for every table.")


@lru_cache(maxsize=64)
def _orders(largest: float) -> Floats:
    steps = np.arange(_CLOSEST * _PER_DOUBLING, _FARTHEST * _PER_DOUBLING + 1) / _PER_DOUBLING
    orders = np.concatenate([[1.0], 1 + 2.0**steps])
    orders = orders[orders <= largest]
    orders.flags.writeable = False  # shared by all who ask
    return orders


def divergence_curve(
    p: Floats, q: Floats, orders: Floats, which: Integers | None = None, after: Floats | None = None
) -> Floats:
    """Rényi divergences D_a for each order (1 means Kullback–Leibler), then D_∞, from log-probabilities over the same
    outcomes.

    Where more follows, ``after`` holds a curve for each law that may (zeros for one that cannot), and ``which`` says
    for each outcome which it is. Then D_a = log Σ p^a q^(1−a) exp((a−1)·after) / (a−1), which is the divergence of the
    two steps together: the second step's sum at a fixed outcome is exp((a−1)·after).
    """
    possible = ~np.isneginf(p)
    p, q = p[possible], q[possible]
    if np.any(np.isneginf(q)) or (after is not None and np.any(np.isinf(after))):  # possible on one side only
        return np.full(len(orders) + 1, math.inf)
    loss = p - q
    which = None if which is None else which[possible]

    def losses(start: int, end: int) -> Floats:
        """The privacy loss of every outcome with what comes after it, a row for each of these columns of the curve."""
        if which is None or after is None:
            return loss[None]
        return np.take(after.T[start:end], which, axis=1) + loss

    curve = np.empty(len(orders) + 1)
    curve[0] = np.exp(p) @ losses(0, 1)[0]
    curve[-1] = losses(len(orders), len(orders) + 1)[0].max()
    rows = max(1, _AT_ONCE // len(p))
    for start in range(1, len(orders), rows):
        end = min(start + rows, len(orders))
        shift = orders[start:end] - 1
        curve[start:end] = _log_means(p, shift[:, None] * losses(start, end)) / shift
    return curve


def _log_means(p: Floats, exponents: Floats) -> Floats:
    """log Σ exp(p + exponent) for each row of exponents, smallest first, as Rényi divergences need it. Overwrites them.

    Near order 1 the sum is nearly 1 and what matters is by how much it is not. There it is measured from 1, to which
    probabilities add up but for rounding.
    """
    near = int(np.count_nonzero(exponents.max(axis=1) < 1))
    small, large = exponents[:near], exponents[near:]
    result = np.empty(len(exponents))
    result[:near] = np.log1p(np.expm1(small, out=small) @ np.exp(p))
    large += p
    peak = large.max(axis=1, keepdims=True)
    large -= peak
    result[near:] = peak[:, 0] + np.log(np.exp(large, out=large).sum(axis=1))
    return result


# ---- the exact audit -------------------------------------------------------------------------------------------------

MOST_RECORDS, MOST_TABLES = 64, 3000

Record = tuple[int, ...]
Tell = Callable[[str, int, int], None]
_PAIRS_AT_ONCE = 16  # pairs compared between two looks at the clock


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
        """True divergence over claimed: 1 is as good as it gets, above 1 the claim is false. Pure where claimed,
        otherwise ρ."""
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
        """The set whose claim comes closest to its exact divergence, or falls farthest below it."""
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
    mechanism: Auditable,
    schema: Schema,
    n: int = 2,
    *,
    derive: Derive | None = None,
    guarantee: Guarantee | None = None,
    rows_per_person: int = 1,
    seconds: float = math.inf,
    progress: Tell | None = None,
) -> ExactAudit:
    """The exact audit: compare a mechanism's claim with its exact output law on all tables of ``n`` rows over a tiny
    schema.

    Derived columns need a function of the record's codes each, in ``derive``; levels have one. ``guarantee`` replaces
    the mechanism's own claim. With ``rows_per_person`` that many rows change at once, and the claim is the guarantee's
    ``for_rows``. An audit that takes longer than ``seconds`` fails. ``progress`` receives the number of pairs done and
    of all pairs.
    """
    check_asked(mechanism, schema, guarantee, 0 if n is None else n)
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise AuditError(
            "The time of an audit is a number of seconds above zero.", fix="Leave it out for as long as it takes."
        )
    if not is_whole(rows_per_person, 1, n):
        raise AuditError(
            "'rows_per_person' must be a whole number from 1 to the number of rows.", fix="Give a smaller number."
        )
    return compare_laws(
        mechanism, schema, n, derive or {}, guarantee, Deadline.after(seconds), progress, rows_per_person
    )


def compare_laws(
    mechanism: Auditable,
    schema: Schema,
    n: int,
    derive: Derive,
    guarantee: Guarantee | None,
    deadline: Deadline,
    progress: Tell | None,
    moving: int = 1,
) -> ExactAudit:
    """The exact audit, in which ``moving`` rows of a person change at once, until a deadline, after which
    :class:`OutOfTime` is raised: all pairs are compared, or none counts."""
    claim = (guarantee if guarantee is not None else mechanism.guarantee(schema, n)).for_rows(moving)
    universe = Universe.of(schema)
    records = _records(schema, derive)
    if n < 1 or math.comb(len(records) + n - 1, n) > MOST_TABLES:
        raise AuditError(f"There are too many tables of {n} rows to enumerate.", fix="Use fewer rows or attributes.")
    divergences = Divergences()
    worst: dict[frozenset[str], tuple[float, float]] = {}
    laws: dict[tuple[Record, ...], tuple[tuple[int, ...], float]] = {}
    compared = 0
    by_person = moving > 1 and mechanism.needs_people(schema)  # then it matters whose a row is, and which is first
    in_order = itertools.product(records, repeat=moving)
    own = list(in_order if by_person else itertools.combinations_with_replacement(records, moving))
    changed = [[row for row in itertools.product(records, repeat=moving) if row != one] for one in own]
    total = math.comb(len(records) + n - moving - 1, n - moving) * sum(map(len, changed))

    def show() -> None:
        deadline.check("The exact audit")
        if progress is not None:
            progress("exact pair", compared, total)

    def law(rest: tuple[Record, ...], person: tuple[Record, ...]) -> tuple[tuple[int, ...], float]:
        key = (*rest, *person) if by_person else tuple(sorted((*rest, *person)))
        if key not in laws:
            show()
            people = [*range(1, len(rest) + 1), *[0] * moving] if by_person else None
            result = mechanism.distribution(_table(schema, key, deadline, people))
            laws[key] = divergences.learn(result), result.largest_order
        return laws[key]

    for rest in itertools.combinations_with_replacement(records, n - moving):
        for one, other in ((one, other) for one, others in zip(own, changed, strict=True) for other in others):
            differing = frozenset(
                name
                for before, after in zip(one, other, strict=True)
                for name, a, b in zip(schema.names, before, after, strict=True)
                if a != b and name in universe.position
            )
            (here, order), (there, _) = law(rest, one), law(rest, other)
            if compared % _PAIRS_AT_ONCE == 0:
                show()
            result = divergences.between(here, there, order)
            known = worst.get(differing, (0.0, 0.0))
            worst[differing] = (max(known[0], result[0]), max(known[1], result[1]))
            compared += 1
    return ExactAudit(tuple(_rows(_changeable(universe, schema), claim, worst)), compared)


def _changeable(universe: Universe, schema: Schema) -> Sequence[str]:
    """Protected attributes with two values or more; with another one a set claims more and loses the same."""
    return [name for name in universe.protected if schema[name].size > 1] or universe.protected[:1]


def _rows(
    names: Sequence[str], claim: Guarantee, worst: Mapping[frozenset[str], tuple[float, float]]
) -> Sequence[AuditRow]:
    rows = []
    for size in range(len(names) + 1):
        for chosen in itertools.combinations(names, size):
            within = [pair for differing, pair in worst.items() if differing <= set(chosen)]
            rho = max((pair[0] for pair in within), default=0.0)
            claimed = claim.epsilon(chosen)  # where no pure bound is claimed, tails may be cut and D_∞ means nothing
            pure = math.inf if math.isinf(claimed) else max((pair[1] for pair in within), default=0.0)
            rows.append(AuditRow(chosen, claim.rho(chosen), rho, claimed, pure))
    return rows


def _records(schema: Schema, derive: Derive) -> list[Record]:
    """Every legal record of a tiny schema: all values of the source attributes, derived columns computed."""
    derive = known_levels(schema) | dict(derive)
    missing = [name for name in schema.derived if name not in derive]
    if missing:
        raise AuditError(f"{missing[0]!r} is derived; the audit must know how.", fix="Pass derive={name: function}.")
    if schema.cells(schema.roots) > MOST_RECORDS:
        raise AuditError(
            f"The schema has {schema.cells(schema.roots):,} records; the exact audit takes {MOST_RECORDS}.",
            fix="Audit a smaller schema.",
        )
    results = []
    for codes in itertools.product(*(range(schema[name].size) for name in schema.roots)):
        record = dict(zip(schema.roots, codes, strict=True))
        record |= {name: derive[name](record) for name in schema.derived}
        results.append(tuple(record[name] for name in schema.names))
    return results


def _table(
    schema: Schema, rows: Sequence[Record], deadline: Deadline = FOREVER, people: Sequence[int] | None = None
) -> WatchedTable:
    columns = np.array(rows, dtype=np.int64).T
    result = WatchedTable(schema, dict(zip(schema.names, columns, strict=True)), people=people)
    result.deadline = deadline
    return result
