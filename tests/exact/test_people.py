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
from every_mechanism import FAULTS, INSTANCES

from nabladp.audit import audit, exact_audit
from nabladp.audit.exact import Divergences
from nabladp.mechanisms import Auditable, Mechanism
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner
from nabladp.mechanisms.learners.halfspaces.randomized_labels import AnsweredRows
from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.learners.thresholds.design import Design
from nabladp.mechanisms.mechanism import Branch, Law
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.statistics import Statistics
from nabladp.person import Person
from nabladp.privacy import CDP, Guarantee, Rho
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
    "scale x 0.7 (rounds that choose)",  # Synthesis
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


def test_no_mechanism_is_left_out() -> None:
    """Threshold learners have a law of two rows for a design of their own, below."""
    assert {type(CASES[name].mechanism) for name in NAMES} | {ThresholdLearner} == {type(one) for one in INSTANCES}


AY = Schema((Attribute("a", "boolean"), Attribute("y", "boolean")))


def test_two_rows_of_a_person_cost_a_threshold_learner_no_more() -> None:
    """A single feature, and no prefix to search for: a count of labels, and a threshold that is picked."""
    design = Design("cdp", (2,), (0,), 3.0, ones_scale=3.0, few=0)
    mechanism = ThresholdLearner(Rho(99), "y", ("a",), design=design)
    audited, one = exact_audit(mechanism, AY, 2, rows_per_person=2), mechanism.guarantee(AY, 2)
    assert audited.passed and audited.tightest.tightness > 0.5
    terms = tuple((forgotten(term), count) for term, count in one.terms)
    assert not exact_audit(mechanism, AY, 2, rows_per_person=2, guarantee=Guarantee(one.universe, terms)).passed


class Responses(Auditable):
    """Randomized labels of several rows, each row's own answer shown, and the noisy sums that follow from them."""

    def __init__(self) -> None:
        self.learner = HalfspaceLearner(CDP(1), "y", method="average", label_treatment="response")

    def reads(self, schema: Schema) -> tuple[str, ...]:
        return self.learner.reads(schema)

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return self.learner.guarantee(schema, n)

    def needs_people(self, schema: Schema) -> bool:
        return True  # so that a row stays where it is

    def distribution(self, counts: Any) -> Law:
        average: Any = self.learner.learner(counts.schema, counts.n)
        keep, (batch,) = float(average.response.keep), counts._batches(("y",))
        labels = batch.column("y").to_numpy().tolist()
        answers = list(itertools.product((0, 1), repeat=len(labels)))
        likely = [np.prod([keep if a == y else 1 - keep for a, y in zip(own, labels, strict=True)]) for own in answers]
        draws = [lambda _, first, own=own: np.array(own[first:]) for own in answers]
        laws = tuple(average._sums_law(AnsweredRows(counts, average.response, draw)) for draw in draws)
        return Law((Branch(np.log(likely), np.arange(len(answers)), laws),))


def test_two_randomized_labels_of_a_person_cost_twice_as_much() -> None:
    """Even where each row's answer is shown: ε of the label doubles, and its concentrated cost does as it is promised,
    by four."""
    mechanism = Responses()
    audited, one = exact_audit(mechanism, AY, 2, rows_per_person=2), mechanism.guarantee(AY, 2)
    assert audited.passed
    rows = {row.attributes: row.true_rho / row.claimed_rho for row in audited.rows if row.attributes}
    assert rows["y",] > 0.45 and rows["a",] > 0.2
    terms = tuple((forgotten(term), count) for term, count in one.terms)
    assert not exact_audit(mechanism, AY, 2, rows_per_person=2, guarantee=Guarantee(one.universe, terms)).passed


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
