"""What budgets and costs mean, in the report's words: as a belief about somebody who bets 50:50."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nabladp.privacy import Guarantee, Rho
from nabladp.privacy.values import BudgetValue
from nabladp.report.language import Language, language
from nabladp.report.sentences import belief

LANGUAGE: Language = language("en")


@dataclass(frozen=True)
class Meaning:
    """How sure somebody can become at most who bets 50:50 now, in percent and in a sentence."""

    percent: float
    shown: str
    sentence: str

    def to_json(self) -> dict[str, Any]:
        return {"percent": self.percent, "shown": self.shown, "sentence": self.sentence}


def of_limit(value: BudgetValue, delta: float) -> Meaning:
    """What a limit allows: that which a release that uses all of it would."""
    cost = value if value.pure else Rho(value.amount())
    return of_cost(Guarantee.touch(["it"], ["it"], cost), ("it",), delta)


def of_cost(guarantee: Guarantee, attributes: Sequence[str], delta: float) -> Meaning:
    """What a guarantee says about some attributes of one person."""
    found = belief(guarantee, "", "", attributes, delta, LANGUAGE)
    except_with = "" if found.certain else f", except with probability {LANGUAGE.one_in(delta)}"
    sentence = (
        "Someone who knows everything else about a person and would bet 50:50 can become at most "
        f"{found.percent} sure{except_with}."
    )
    return Meaning(100 * found.after, found.percent, sentence)
