"""Audits end in time and say what they left out. Time is told by a clock that only the mechanisms here turn on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nabladp.audit import audit, exact_audit, statistical_audit
from nabladp.audit.deadline import FOREVER, Deadline, OutOfTime, WatchedTable
from nabladp.audit.exact import compare_laws
from nabladp.errors import AuditError
from nabladp.mechanisms import Auditable, Law
from nabladp.noise import NoiseSource, laplace_log_pmf
from nabladp.privacy import Guarantee, Pure
from nabladp.schema import Attribute, Schema

BITS = Schema((Attribute("a", "boolean"), Attribute("b", "boolean")))


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """What every audit of the test looks at."""
    made = FakeClock()

    def after(cls: type[Deadline], seconds: float, clock: Any = made) -> Deadline:
        return cls(clock() + seconds, clock)

    monkeypatch.setattr(Deadline, "after", classmethod(after))
    return made


class Counts(Auditable):
    """Two noisy counts. A run and a law take so long; ``steps`` of a law say how far it is."""

    def __init__(self, clock: FakeClock, run: float = 0.0, law: float = 0.0, steps: int = 0) -> None:
        self.clock, self.run_takes, self.law_takes, self.steps = clock, run, law, steps
        self.runs = self.laws = 0

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.touch(schema, ["a"], Pure(2)) + Guarantee.touch(schema, ["b"], Pure(2))

    def run(self, counts: Any, noise: NoiseSource) -> Any:
        self.clock.now += self.run_takes
        self.runs += 1
        a, b = counts.marginals([("a",), ("b",)])
        return [*(a + noise.discrete_laplace(1, 2)), *(b + noise.discrete_laplace(1, 2))]

    def distribution(self, counts: Any) -> Law:
        for step in range(self.steps):
            counts.working("outcome", step, self.steps)
            self.clock.now += self.law_takes / self.steps
        if not self.steps:
            self.clock.now += self.law_takes
        self.laws += 1
        tables = counts.marginals([("a",), ("b",)])
        return Law(tuple(laplace_log_pmf(1, -30 - int(c), 30 - int(c)) for table in tables for c in table))


# ---- deadlines ------------------------------------------------------------------------------------------------------


def test_parts_share_equally_and_inherit_what_is_left(clock: FakeClock) -> None:
    whole = Deadline.after(12)
    taken = []
    for number, part in enumerate(whole.parts([1, 1, 1])):
        taken.append(part.left)
        clock.now += 1 if number == 0 else part.left
    assert taken == [4, 5.5, 5.5] and whole.is_over and whole.left == 0


def test_shares_follow_weights_and_what_has_none_gets_nothing(clock: FakeClock) -> None:
    taken = []
    for part in Deadline.after(10).parts([0.25, 0.0, 0.5, 0.25]):
        taken.append(part.left)
        clock.now += part.left / 2
    assert taken == pytest.approx([2.5, 0, 8.75 * 2 / 3, 8.75 * 2 / 3])


def test_who_takes_too_long_takes_it_from_those_who_follow(clock: FakeClock) -> None:
    whole = Deadline.after(12)
    assert whole.part(1 / 3).left == pytest.approx(4)
    clock.now += 10
    second = whole.part(1 / 2)
    assert second.left == pytest.approx(1) and whole.left == pytest.approx(2)
    clock.now += 5
    assert whole.part(0.5).left == 0 and whole.part(0.5).is_over


def test_no_part_ends_after_the_whole(clock: FakeClock) -> None:
    whole = Deadline.after(3)
    assert whole.part(7).ends == whole.ends
    assert math.isinf(FOREVER.part(0.1).left) and not FOREVER.is_over


def test_a_deadline_gives_up_once_it_is_over_and_not_before(clock: FakeClock) -> None:
    deadline = Deadline.after(2)
    clock.now += 1.9
    deadline.check("This")
    deadline.refuse_longer("That", 0.05)
    with pytest.raises(OutOfTime, match=r"That would take about 30 s; time left: 0\.1 s"):
        deadline.refuse_longer("That", 30.0)
    clock.now += 0.1
    with pytest.raises(OutOfTime, match="This took too long"):
        deadline.check("This")
    assert issubclass(OutOfTime, AuditError)


def test_a_watched_table_stops_whoever_counts(clock: FakeClock) -> None:
    table = WatchedTable(BITS, {"a": np.array([0, 1]), "b": np.array([1, 1])})
    heard: list[tuple[str, int, int]] = []
    table.deadline, table.tell = Deadline.after(1), lambda *args: heard.append(args)
    assert table.marginals([("a",)])[0].tolist() == [1, 1]
    table.working("round", 1, 2)
    clock.now += 1
    for stopped in (lambda: table.marginals([("a",)]), lambda: table.working("round", 2, 2)):
        with pytest.raises(OutOfTime):
            stopped()
    assert heard == [("round", 1, 2)]


# ---- the exact audit ------------------------------------------------------------------------------------------------


def test_an_exact_audit_stops_between_two_laws(clock: FakeClock) -> None:
    mechanism = Counts(clock, law=1.0)
    with pytest.raises(OutOfTime, match="took too long"):
        exact_audit(mechanism, BITS, 2, seconds=5.5)
    assert mechanism.laws == 6 and clock.now == pytest.approx(106)  # one law is over it at most
    assert exact_audit(Counts(clock, law=1.0), BITS, 2).passed  # where nobody minds


def test_an_exact_audit_stops_inside_a_law_that_says_how_far_it_is(clock: FakeClock) -> None:
    mechanism = Counts(clock, law=1000.0, steps=1000)
    with pytest.raises(OutOfTime):
        exact_audit(mechanism, BITS, 1, seconds=7)
    assert mechanism.laws == 0 and clock.now == pytest.approx(107)


def test_pairs_are_shown_while_they_are_compared(clock: FakeClock) -> None:
    heard: list[tuple[str, int, int]] = []
    mechanism = Counts(clock)
    compare_laws(mechanism, BITS, 2, {}, None, FOREVER, lambda *args: heard.append(args))
    assert {what for what, _, _ in heard} == {"exact pair"} and {total for _, _, total in heard} == {48}
    assert len(heard) > 5 and [done for _, done, _ in heard] == sorted(done for _, done, _ in heard)


def test_attributes_that_cannot_change_make_no_further_sets() -> None:
    """Thirty attributes have 2³⁰ sets; of those that can differ here there are four."""
    wide = Schema((*BITS, *(Attribute(f"x{i}", "categorical", values=("only",)) for i in range(28))))
    found = exact_audit(Counts(FakeClock()), wide, 1)
    assert [row.attributes for row in found.rows] == [(), ("a",), ("b",), ("a", "b")] and found.passed


# ---- the statistical audit ------------------------------------------------------------------------------------------


def test_runs_that_would_take_too_long_are_not_begun(clock: FakeClock) -> None:
    mechanism = Counts(clock, run=1.0)
    with pytest.raises(OutOfTime, match="runs, the fewest that say anything, would take about"):
        statistical_audit(mechanism, BITS, seconds=60)
    assert mechanism.runs <= 5


@pytest.mark.parametrize("seconds", [3, 10])
def test_a_statistical_audit_keeps_to_its_seconds_and_says_which_sets_are_left_out(
    seconds: float, clock: FakeClock
) -> None:
    mechanism = Counts(clock, run=0.01)
    found = statistical_audit(mechanism, BITS, seconds=seconds)
    assert clock.now - 100 <= 1.05 * seconds
    looked_at = [row.attributes for row in found.rows]
    assert looked_at and not set(looked_at) & set(found.left_out)
    assert set(looked_at) | set(found.left_out) == {("a",), ("b",), ("a", "b")}
    assert found.to_json()["left_out"] == [list(names) for names in found.left_out]
    assert bool(found.left_out) == (seconds < 10)


def test_runs_that_become_slow_end_the_audit_all_the_same(clock: FakeClock) -> None:
    class Slowing(Counts):
        def run(self, counts: Any, noise: NoiseSource) -> Any:
            if self.runs == 700:  # in the second set
                self.run_takes = 2.0
            return super().run(counts, noise)

    found = statistical_audit(Slowing(clock, run=0.01), BITS, sets=["a", "b"], seconds=12)
    assert clock.now - 100 <= 12 + 2 and found.left_out == (("b",),)
    assert [row.attributes for row in found.rows] == [("a",)]


def test_a_given_number_of_runs_knows_no_time(clock: FakeClock) -> None:
    found = statistical_audit(Counts(clock, run=5.0), BITS, sets=["a"], runs=64, seconds=1, noise=NoiseSource.seeded(1))
    assert not found.left_out and found.runs > 0


# ---- all checks of a mechanism, and all releases of a plan ----------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.5, 3, 12])
def test_an_audit_keeps_to_its_seconds_and_says_what_it_left_out(seconds: float, clock: FakeClock) -> None:
    """Its laws take a tenth of a second, and its runs a hundredth: 12 seconds are enough for all but large tables."""
    found = audit(Counts(clock, run=0.01, law=0.1), BITS, seconds=seconds, tape=False)
    assert clock.now - 100 <= 1.1 * seconds + 0.1
    assert found.passed and found.to_json()["left_out"] == list(found.left_out)
    runs = [what for what in found.left_out if what.startswith("runs that measure the loss (")]
    assert (found.statistical is None) == (seconds < 12) == bool(runs)
    assert (found.exact is None) == (seconds < 3) == ("the exact audit" in found.left_out)
    assert seconds < 3 or "the exact audit of larger tables" in found.left_out


def test_what_one_check_leaves_over_goes_to_the_next(clock: FakeClock) -> None:
    """Without a law there is no exact audit, and its time goes into runs."""

    class Lawless(Counts):
        def distribution(self, counts: Any) -> Law:
            raise AuditError("It has no law.", fix="Run it.")

    lawful, lawless = Counts(clock, run=0.01, law=0.5), Lawless(clock, run=0.01)
    audit(lawful, BITS, seconds=12, law=False, tape=False)
    found = audit(lawless, BITS, seconds=12, law=False, tape=False)
    assert lawless.runs > 1.5 * lawful.runs and found.exact_note == "It has no law"
    assert not any("exact" in what for what in found.left_out)


def test_a_claim_that_is_refuted_early_is_refuted_however_little_time_there_is(clock: FakeClock) -> None:
    class TooLittle(Counts):
        def guarantee(self, schema: Schema, n: int) -> Guarantee:
            return Guarantee.touch(schema, ["a"], Pure(1)) + Guarantee.touch(schema, ["b"], Pure(2))

    found = audit(TooLittle(clock, law=0.1, run=5.0), BITS, seconds=4, tape=False)
    assert not found.passed and ("a",) in [row.attributes for row in found.refuted]


def test_sets_that_runs_had_no_time_for_are_shown_with_what_the_exact_audit_says(clock: FakeClock) -> None:
    found = audit(Counts(clock, run=0.01), BITS, seconds=3, law=False, tape=False)
    assert found.statistical is not None and found.statistical.left_out
    late = [row for row in found.rows if row.attributes in found.statistical.left_out]
    assert len(late) == len(found.statistical.left_out) and all(row.exact and not row.statistical for row in late)
    assert set(found.left_out) == {f"runs for {' + '.join(names)}" for names in found.statistical.left_out}


def test_every_check_says_that_it_has_begun(clock: FakeClock) -> None:
    heard: list[str] = []
    audit(Counts(clock), BITS, runs=64, noise=NoiseSource.seeded(1), progress=lambda what, *_: heard.append(what))
    assert list(dict.fromkeys(heard)) == ["exact pair", "draws of runs", "tables with a law", "run"]
