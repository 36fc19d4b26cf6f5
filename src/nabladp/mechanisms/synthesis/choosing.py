"""Every number that was tuned, and the rule behind ``strategy="auto"``. Public facts decide, never data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from nabladp.mechanisms.synthesis.workload import Wanted

STRATEGIES = ("auto", "packed", "single", "all")
WIDEST_BLOCK = 16  # attributes that are packed jointly
FASTER = 4  # how many rounds in one, after a round that taught less than noise would
CLOSE = 0.3  # how near a fit between rounds comes to its optimum, in deviations of the noise
ROOM = 0.35  # what a set must teach to enter the model grows with its cells to this power
GRID = 16  # model counts are rounded to this part of a row before they are compared with true ones


@dataclass(frozen=True)
class Choice:
    """How the budget will be used."""

    strategy: str
    why: str
    rounds: int = 0
    one_way: Fraction = Fraction(6, 100)  # of the budget, before anything is chosen
    selection: Fraction = Fraction(8, 100)  # of the budget, for choosing; the rest measures
    balance: float = 0.0  # all at once: a marginal's share grows with its number of cells to this power


@dataclass(frozen=True)
class Facts:
    """What the rule may know."""

    n: int
    wanted: Wanted
    each: float  # ρ that the attribute in the middle may pay
    person: float | None  # ρ that a person may pay, where that is all that limits

    @property
    def sources(self) -> int:
        return len(self.wanted.columns)

    @property
    def width(self) -> int:
        return max(len(names) for names in self.wanted.sets)


def choose(facts: Facts, strategy: str, rounds: int | None) -> Choice:
    """The strategy asked for, or the one that public facts speak for."""
    chosen = _auto(facts) if strategy == "auto" else _named(facts, strategy, "asked for")
    return chosen if rounds is None or chosen.strategy == "all" else replace(chosen, rounds=rounds)


def _named(facts: Facts, strategy: str, why: str) -> Choice:
    if strategy == "all":
        return Choice("all", why, one_way=Fraction(2, 100))  # larger sets tell about single attributes, too
    if facts.person is not None:
        return Choice(strategy, why, 16 * facts.sources, Fraction(6, 100), Fraction(10, 100))
    rounds = 16 if facts.width <= 2 else 32
    if facts.each > 0.4:  # ε0 ≈ 0.9
        rounds *= 2
    return Choice(strategy, why, rounds if strategy == "packed" else _single_rounds(facts))


def _single_rounds(facts: Facts) -> int:
    return max(16, math.ceil(16 * facts.sources / max(1, min(facts.width, 2))))


# Measured on four tables at ε0 from 0.1 to 3. With a budget an attribute, all marginals at once were the best or close
# to it above 8, and rounds below, by up to 30 %. A person's limit leaves rounds ahead for longer where a table has few
# relations (by 10 % at 13), while elsewhere they lose 3 % at 10 by waiting.
_CLEAR = {"attribute": 9.0, "person": 14.0}


def _auto(facts: Facts) -> Choice:
    clear = _signal(facts)
    if clear >= _CLEAR["attribute" if facts.person is None else "person"]:
        why = f"every marginal can be measured well at once (a cell holds {_short(clear)} times its noise on average)"
        return _named(facts, "all", why)
    why = (
        f"noise would drown most marginals (a cell holds {_short(clear)} times its noise on average), so rounds choose"
    )
    if facts.person is not None:
        return _named(facts, "single", f"{why}; one per round costs a person least, and only the person has a limit")
    return _named(facts, "packed", why)


def _signal(facts: Facts) -> float:
    """An average cell's count over its noise if everything were measured at once, for the marginal in the middle."""
    often: Mapping[str, int] = _times_used(facts.wanted)
    sharing = {  # how many marginals have to share one budget
        names: len(facts.wanted.sets) if facts.person is not None else max(often[name] for name in names)
        for names in facts.wanted.sets
    }
    ratios = sorted(
        facts.n / facts.wanted.cells(names) * math.sqrt(facts.each / sharing[names]) for names in facts.wanted.sets
    )
    return ratios[len(ratios) // 2]


def _times_used(wanted: Wanted) -> dict[str, int]:
    often = dict.fromkeys(wanted.columns, 0)
    for names in wanted.sets:
        for name in names:
            often[name] += 1
    return often


def _short(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"
