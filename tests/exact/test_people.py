"""People with many rows, exactly: whatever the rows of one person say, no set of attributes loses more than claimed.

Sources of two people are enumerated, each pair that differs in one person's rows; what a mechanism is handed is what
`open_table` uses of them. Faults planted in the choice of rows, or in the cost, are caught.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from every_mechanism import FAULTS

from nabladp.audit import audit, exact_audit
from nabladp.audit.exact import Divergences
from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.statistics import Statistics
from nabladp.person import Person
from nabladp.privacy import CDP, Guarantee
from nabladp.privacy.terms import WeightTerm
from nabladp.schema import Attribute, Schema
from nabladp.tables import open_table, people

BITS = Schema((Attribute("a", "boolean"), Attribute("b", "boolean")))
IDS = ["p", "q", "p", "p"]  # of a source's rows: p has three
NUMBERS = [3, 1, 1, 2]  # their row IDs
SETS = [("a",), ("b",), ("a", "b")]
Rows = tuple[tuple[int, int], ...]


def source(rows: Rows) -> pa.Table:
    values = {name: [bool(row[i]) for row in rows] for i, name in enumerate("ab")}
    return pa.table({"id": IDS, "number": NUMBERS, **values})


def sources() -> Iterator[Rows]:
    """Every source: two records for each of p's rows to be one of, and one for q."""
    for own in itertools.product(itertools.product((0, 1), repeat=2), repeat=3):
        yield own[0], (1, 0), own[1], own[2]


def used(person: Person) -> list[int]:
    """The rows of p that are used, by the definition."""
    own = [i for i, name in enumerate(IDS) if name == "p"]
    order = sorted(own, key=lambda i: NUMBERS[i]) if person.row_id else own
    return order[: person.rows]


def worst(mechanism: Mechanism, person: Person, open_: Callable[[Rows], Any]) -> dict[tuple[str, ...], float]:
    """The largest loss over the claim for every set T, over all pairs of sources that differ in the used rows of p on
    T, and in the others in any way."""
    known = Divergences()
    laws = {}
    for rows in sources():
        table = open_(rows)
        law = mechanism.distribution(table)
        laws[rows] = known.learn(law), law.largest_order, table.n
    claim = mechanism.guarantee(BITS, 2).for_rows(person.rows)
    rows_used = used(person)
    found = dict.fromkeys([(), *SETS], 0.0)
    for (one, (here, order, n)), (other, (there, _, m)) in itertools.permutations(laws.items(), 2):
        assert n == m
        differing = {name for i, name in enumerate("ab") if any(one[j][i] != other[j][i] for j in rows_used)}
        if here != there:
            rho, _ = known.between(here, there, order)
            for names in found:
                if differing <= set(names):
                    found[names] = max(found[names], rho / claim.rho(names) if names else rho)
    return found


def opened(person: Person) -> Callable[[Rows], Any]:
    return lambda rows: open_table(source(rows), BITS, person=person)


PEOPLE = [Person("id", 1), Person("id", 1, "number"), Person("id", 2), Person("id", 2, "number")]
COUNTS = NoisyMarginals(CDP(0.5), k=1)


@pytest.mark.parametrize("person", PEOPLE, ids=str)
@pytest.mark.parametrize(
    "mechanism", [COUNTS, Statistics(CDP(0.5), "SELECT b, COUNT(*) FROM t WHERE a GROUP BY b")], ids=["counts", "SQL"]
)
def test_no_set_loses_more_and_rows_that_are_not_used_lose_nothing(mechanism: Mechanism, person: Person) -> None:
    found = worst(mechanism, person, opened(person))
    assert found[()] == 0 and max(found.values()) <= 1 + 1e-9
    assert max(found.values()) > 0.999  # and the claim is reached


# ---- planted faults --------------------------------------------------------------------------------------------------


def chosen(rows: Rows, keep: list[int]) -> Any:
    return open_table(source(rows).take(keep), BITS)


def by_content(rows: Rows) -> Any:
    """The row of each person in which `a` is largest, as a cap on the costliest stays would have it."""
    own = max((i for i in range(4) if IDS[i] == "p"), key=lambda i: (rows[i][0], -i))
    return chosen(rows, [own, 1])


def after_the_filter(rows: Rows) -> Any:
    """The first row that a WHERE leaves, or else the first."""
    own = next((i for i in (0, 2, 3) if rows[i][0]), 0)
    return chosen(rows, [own, 1])


@pytest.mark.parametrize("fault", [by_content, after_the_filter])
def test_rows_chosen_by_what_they_say_are_caught(fault: Callable[[Rows], Any]) -> None:
    """A change of `a` alone then decides which row's `b` is counted, and rows that are not used are seen."""
    found = worst(COUNTS, Person("id", 1), fault)
    assert found["a",] > 1.5 and found[()] > 0


def test_an_id_counted_for_each_part_by_itself_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every partition or file had people of its own: a person's rows are used in each."""
    right = people.mark_rows

    def by_parts(batches: Any, person: Person) -> people.Marks:
        batch = pa.concat_batches(list(batches))
        parts = [right([batch.slice(start, 2)], person) for start in (0, 2)]
        kept = np.concatenate([part.between(0, part.rows) for part in parts])
        return people.Marks(np.packbits(kept, bitorder="little"), 4, int(kept.sum()))

    monkeypatch.setattr(people, "mark_rows", by_parts)
    found = worst(COUNTS, Person("id", 1), opened(Person("id", 1)))
    assert found[()] > 0 and max(found[names] for names in SETS) > 3.9


# ---- the cost, for mechanisms of every kind --------------------------------------------------------------------------

ONE = Schema((Attribute("a", "boolean"), Attribute("c", "boolean")))
NAMES = (  # of faults whose sound mechanism is checked here, one for each that has a law of two rows in good time
    "groups charged M",
    "NULL is free, pure",
    "scale x 0.7 (Laplace)",
    "derived column not charged",
    "one answer moves",
    "equal rounds charged once",
    "levels priced as one",
    "one count of a node moves",
    "label not charged (points)",
    "one product flips",
    "label not charged (halfspaces)",
)
CASES = {fault.name: fault for fault in FAULTS if fault.name in NAMES and fault.how == "exact"}


@pytest.mark.parametrize("name", NAMES)
def test_two_rows_of_a_person_lose_no_more_and_a_cost_of_one_row_is_refuted(name: str) -> None:
    """Every mechanism, every T: two rows that change at once lose up to four times ρ, and less would not do."""
    case = CASES[name]
    mechanism, options = case.mechanism, {"derive": case.derive, "rows_per_person": 2}
    audited = exact_audit(mechanism, case.schema, 2, **options)
    assert audited.passed and audited.tightest.tightness > 0.48
    one = mechanism.guarantee(case.schema, 2)
    pure = not np.isinf(one.epsilon(one.universe.protected))
    assert audited.tightest.tightness > (0.5 if pure else 0.25)
    terms = [(forgotten(term), count) for term, count in one.terms]
    assert not exact_audit(mechanism, case.schema, 2, guarantee=Guarantee(one.universe, tuple(terms)), **options).passed


def forgotten(term: Any) -> Any:
    """A term to which a second row adds nothing."""

    class Forgotten(type(term)):  # type: ignore[misc]
        def for_rows(self, rows: int) -> Any:
            return term

    copy = object.__new__(Forgotten)
    copy.__dict__.update(vars(term))
    return copy


def test_a_square_forgotten_in_one_mechanism_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = WeightTerm.for_rows

    def doubled(term: WeightTerm, rows: int) -> WeightTerm:
        if term.pure or term.shape == "linear":
            return right(term, rows)
        weights = tuple((name, rows * weight) for name, weight in term.weights)
        return WeightTerm(term.shape, weights, term.limit, term.pure)

    assert exact_audit(COUNTS, ONE, 2, rows_per_person=2).passed
    assert audit(COUNTS, ONE, rows_per_person=5, seconds=2, law=False, tape=False, statistical=False).passed
    monkeypatch.setattr(WeightTerm, "for_rows", doubled)
    assert not exact_audit(COUNTS, ONE, 2, rows_per_person=2).passed
    assert not audit(COUNTS, ONE, rows_per_person=5, seconds=2, law=False, tape=False, statistical=False).passed
