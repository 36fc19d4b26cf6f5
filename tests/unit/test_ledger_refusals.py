"""How a ledger says no: what it names, what it counts up, and the way out that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from nabladp.errors import BudgetExceeded, LedgerError
from nabladp.privacy import Budget, Guarantee, Pure, Rho
from nabladp.privacy.budget import Limit
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.ledger.limits import LimitRequest, Spending, Tally, check_limits, check_same_budget
from nabladp.privacy.units import UNIT

ALL = frozenset("abcde")
A = Limit.of("a", ["a"], Rho(1))
PERSON, PURE = Limit.of("person", ALL, Rho(1)), Limit.of("person", ALL, Pure(1))
OTHERS = [Spending(Limit.of(name, [name], Rho(1)), UNIT) for name in "bcde"]
UNBOUNDED = Tally(unbounded_rho=1, unbounded_pure=1)
LEAVE_A = "Ask for at most what is left, or leave out 'a'."
LEAVE_SOME = "Ask for at most what is left, or leave out some attributes of this limit."


@pytest.mark.parametrize(
    ("lines", "asked", "told"),
    [
        (
            [Spending(A, UNIT // 100)],
            Tally(rho=2 * UNIT),
            f"It would break the limit 'a': requested ρ = 2 (spent 0.01, left 0.99 of 1). {LEAVE_A}",
        ),
        (  # to six digits the same: then all of them
            [Spending(A, UNIT // 3)],
            Tally(rho=UNIT - UNIT // 3 + 1),
            "It would break the limit 'a': requested ρ = 0.6666666666666667 (spent 0.33333333333333337, "
            f"left 0.6666666666666666 of 1.0). {LEAVE_A}",
        ),
        (
            [Spending(PURE, 0)],
            UNBOUNDED,
            "It has no bound in pure ε on the attributes of the limit 'person' (spent 0, left 1 of 1). "
            "Use a mechanism with a pure bound (Laplace noise), or give this limit as CDP or Rho.",
        ),
        (
            [Spending(PERSON, None)],
            UNBOUNDED,
            "It has no bound in ρ on the attributes of the limit 'person' (spent without bound, left 0 of 1). "
            "Leave out the attribute that has no bound.",
        ),
        (
            [Spending(PERSON, UNIT), *OTHERS[:1]],
            Tally(rho=UNIT),
            "It would break the limit 'person': requested ρ = 1 (spent 1, left 0 of 1); also 'b'. " + LEAVE_SOME,
        ),
        (
            [Spending(PERSON, UNIT), *OTHERS[:3]],
            Tally(rho=UNIT),
            "It would break the limit 'person': requested ρ = 1 (spent 1, left 0 of 1); also 'b', 'c', 'd'. "
            + LEAVE_SOME,
        ),
        (
            [Spending(PERSON, UNIT), *OTHERS],
            Tally(rho=UNIT),
            "It would break the limit 'person': requested ρ = 1 (spent 1, left 0 of 1); also 'b', 'c', 'd' and 1 more. "
            + LEAVE_SOME,
        ),
    ],
)
def test_a_broken_limit_is_told_with_its_numbers(lines: list[Spending], asked: Tally, told: str) -> None:
    with pytest.raises(BudgetExceeded) as error:
        check_limits([LimitRequest(line, asked.units(pure=line.limit.pure)) for line in lines], "It")
    assert str(error.value) == told
    assert error.value.fields["limits"] == [line.limit.name for line in lines]
    first, requested = lines[0], asked.units(pure=lines[0].limit.pure)
    assert (error.value.fields["limit"], error.value.fields["measure"]) == (first.limit.name, first.limit.measure)
    assert (error.value.fields["requested"] is None) == (requested is None)
    assert error.value.fields["spent"] == (None if first.spent_units is None else first.spent)
    assert (error.value.fields["left"], error.value.fields["allowed"]) == (first.left, 1.0)


@pytest.mark.parametrize("spent", [0, 1, UNIT - 1, UNIT, UNIT + 1, None])
def test_a_limit_is_reached_to_the_last_unit_and_no_further(spent: int | None) -> None:
    """What costs the limit nothing is let through, even where it stands exceeded."""
    line = Spending(A, spent)
    left = 0 if spent is None else max(0, UNIT - spent)
    for fits in {0, left}:
        check_limits([LimitRequest(line, fits)], "It")
    for breaks in (left + 1, None):
        with pytest.raises(BudgetExceeded):
            check_limits([LimitRequest(line, breaks)], "It")


def test_another_budget_is_told_by_the_first_limit_that_differs() -> None:
    ours = [A, Limit.of("two", ["a"], Rho(2)), PERSON]
    check_same_budget(ours, [PERSON, *ours[:2][::-1]])  # in any order
    for given, told in (
        ([PERSON], "the limit 'a' is Rho(rho=1) and Rho(rho=2) in the ledger and absent in the budget given."),
        ([*ours, PURE], "the limit 'person' is absent in the ledger and Pure(eps=1) in the budget given."),
        (
            [*ours[:2], Limit.of("person", ALL, Rho(3))],
            "'person' is Rho(rho=1) in the ledger and Rho(rho=3) in the budget given.",
        ),
    ):
        with pytest.raises(LedgerError) as error:
            check_same_budget(ours, given)
        assert error.value.message.startswith("The ledger has another budget: ") and error.value.message.endswith(told)
        assert error.value.fields["limit"] in told


def test_what_has_ended_or_came_out_otherwise_is_told_apart(tmp_path: Path) -> None:
    cost = Guarantee.touch(["a"], "a", Rho(0.1))
    with Ledger.create(tmp_path / "ledger.db", ["a"], Budget(person=Rho(1)), test=True) as ledger:
        ledger.reserve(cost, "bound")
        ledger.bind("bound", "digest")
        ledger.reserve(cost, "voided")
        ledger.void("voided", "why")
        ledger.reserve(cost, "seeded", seeded=True)
        ledger.reserve(cost, "plain")
        for write, told in (
            (
                lambda: ledger.bind("bound", "other"),
                "'bound' is already bound to a release (entry 3). A published release stays spent.",
            ),
            (
                lambda: ledger.bind("voided", "digest"),
                "'voided' is already voided (entry 5). Reserve again under another name.",
            ),
            (
                lambda: ledger.bind("seeded", "digest"),
                "'seeded' was reserved as seeded and came out private. Reserve and release in the same way.",
            ),
            (
                lambda: ledger.bind("plain", "digest", seeded=True),
                "'plain' was reserved as private and came out seeded. Reserve and release in the same way.",
            ),
            (
                lambda: ledger.void(1, "why"),
                "Entry 1 (open) is not a reservation. Only reservations are bound or voided.",
            ),
        ):
            with pytest.raises(LedgerError) as error:
                write()
            assert str(error.value) == told
        assert ledger.head.seq == 7


@pytest.mark.parametrize(("count", "what"), [(1, "The release 'x0'"), (2, "The plan of 2 releases")])
def test_a_plan_is_told_as_one(tmp_path: Path, count: int, what: str) -> None:
    plan = [(Guarantee.touch(["a"], "a", Rho(2)), f"x{i}", {}) for i in range(count)]
    with Ledger.create(tmp_path / "ledger.db", ["a"], Budget(person=Rho(1))) as ledger:
        with pytest.raises(BudgetExceeded, match=f"^{what} would break"):
            ledger.reserve_all(plan)
        with pytest.raises(BudgetExceeded, match=f"^{what} would break"):
            ledger.check_fits((guarantee, name) for guarantee, name, _ in plan)


def test_without_a_bound_there_is_no_number() -> None:
    """JSON has no infinity: whoever reads the page or the file must not stumble over it."""
    told = Spending(PERSON, None).to_json()
    assert (told["spent"], told["left"], told["allowed"], told["exceeded"]) == (None, 0.0, 1.0, True)
    assert told["attributes"] == [*"abcde"] and told["measure"] == "ρ"
