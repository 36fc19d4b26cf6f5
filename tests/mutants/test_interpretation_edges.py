"""The very sentences: a figure in them, a unit or an assumption that is another one would mislead whoever reads it."""

from __future__ import annotations

import math

import pytest

from nabladp.errors import GuaranteeError
from nabladp.privacy import Guarantee, Pure, Rho
from nabladp.privacy.interpretation import mutual_information, posterior, several_rows, total_variation

PURE, CDP = Guarantee.touch(["a", "b"], "a", Pure(1)), Guarantee.touch(["a", "b"], "a", Rho(0.5))


def test_a_belief_is_told_with_where_it_began_and_what_it_assumes() -> None:
    told = posterior(PURE, "a", prior=0.25)
    assert told.sentence == "A belief of 25% can rise to at most 47.6%."
    assert told.assumes == (
        "The adversary already knows every other row and all other attributes of this person. One who knows less may "
        "also learn from other attributes, and from other people's rows, that depend on them."
    )
    assert posterior(PURE, "b").sentence == "A belief of 50% can rise to at most 50.0%."
    assert posterior(CDP, "a").sentence == "A belief of 50% can rise to at most 100.0%."


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, math.nan])
def test_a_belief_that_nothing_can_move_is_no_prior(prior: float) -> None:
    with pytest.raises(GuaranteeError, match="prior"):
        posterior(PURE, "a", prior)


@pytest.mark.parametrize(
    ("epsilon", "value"), [(0.25, math.expm1(0.5)), (0.5, 1.0), (1.0, 1.0), (1.5, 1.0), (1e4, 1.0)]
)
def test_total_variation_is_never_more_than_one(epsilon: float, value: float) -> None:
    told = total_variation(Guarantee.touch(["a", "b"], "a", Pure(epsilon)), "a")
    assert told.value == pytest.approx(value)
    assert told.assumes == (
        "Any prior; compared with the same table where only these attributes of this one person are blanked."
    )


def test_information_is_told_in_nats_and_in_bits() -> None:
    told = mutual_information(CDP, ["a", "b"])
    assert told.sentence == "The release holds at most 0.5 nats (0.722 bits) about these attributes."
    assert told.assumes == (
        "People's rows are independent, and each group of attributes is independent of all other attributes."
    )


def test_several_rows_are_told_at_the_delta_that_was_asked_for() -> None:
    told = several_rows(CDP, "a", 2, 1e-6)
    assert told.value == CDP.for_rows(2).epsilon("a", 1e-6) < several_rows(CDP, "a", 2, 1e-9).value < math.inf
    assert told.assumes == "At most 2 rows each."
