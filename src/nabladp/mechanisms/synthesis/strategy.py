"""Every number that was tuned, and the rule behind ``strategy="auto"``.

Public facts decide, and where they leave it open, released single columns; never rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

from nabladp.checks import is_number, is_whole, name_or_names
from nabladp.errors import BudgetError, MechanismError, MissingPart
from nabladp.mechanisms.kinds import listing, typed_budget
from nabladp.mechanisms.parameters import Kind, Parameter
from nabladp.mechanisms.synthesis.workload import Wanted
from nabladp.privacy.values import BudgetValue

# ---- parameters ------------------------------------------------------------------------------------------------------

BACK_ENDS = ("own", "mbi")
MOST_ROUNDS = 10_000


def check_back_end(back_end: str, zeros: Sequence[Any]) -> None:
    """Refuse, before anything is booked, a Synthesis back end that could not make the last fit."""
    if back_end != "mbi":
        return
    if zeros:
        raise MechanismError("mbi knows no declared zeros.", fix='Leave back_end = "mbi" out, or declare no zeros.')
    if any(find_spec(package) is None for package in ("mbi", "jax")):
        raise MissingPart('back_end = "mbi" needs mbi.', fix="Install nabladp[synthesis].")


class SetBudgets(Kind):
    """Budgets by attribute, or by several: "age+sex", or a tuple of names."""

    takes = "a table of budgets by attribute or set of attributes"
    example = "{ age = { cdp = 0.1 } }"

    def checked(self, value: Any, declared: Parameter) -> dict[Any, BudgetValue]:
        if not isinstance(value, Mapping):
            more = " The marginals that are wanted are listed in 'workload'." if declared.name == "sets" else ""
            raise BudgetError(f"{declared.name!r} must be {self.takes}.", fix=declared.fix + more)
        return {_check_name(name, declared): _limit(name, budget) for name, budget in value.items()}

    def stored(self, value: Mapping[Any, BudgetValue]) -> dict[str, Any]:
        return {_key(name): budget.to_json() for name, budget in value.items()}


class WantedMarginals(Kind):
    takes = "a number of columns or a list of sets"
    example = '[["age", "sex"], ["income"]]'

    def checked(self, value: Any, declared: Parameter) -> int | tuple[tuple[str, ...], ...]:
        if is_whole(value, -MOST_ROUNDS, MOST_ROUNDS):
            return int(value)
        listed = listing(value, declared)
        return tuple(name_or_names(names, f"A set of {declared.name!r}", MechanismError) for names in listed)

    def stored(self, value: int | tuple[tuple[str, ...], ...]) -> int | list[list[str]]:
        return value if isinstance(value, int) else [list(names) for names in value]


class WantedWeights(Kind):
    """By attribute or set of attributes, or a list with one for each set of the workload."""

    takes = "a table of numbers by attribute or set of attributes, or a list of numbers"
    example = "{ income = 3 }"

    def checked(self, value: Any, declared: Parameter) -> dict[Any, Any] | tuple[Any, ...]:
        if isinstance(value, Mapping):
            return {_check_name(key, declared): weight for key, weight in value.items()}
        return listing(value, declared)

    def stored(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {_key(key): float(weight) for key, weight in value.items()}
        return list(value)


class DeclaredZeros(Kind):
    takes = "a list of declarations, each with a condition for two columns or more"
    example = '[{ age = { below = 15 }, income = { not = "(null)" } }]'

    def checked(self, value: Any, declared: Parameter) -> tuple[dict[str, Any], ...]:
        zeros = (value,) if isinstance(value, Mapping) else listing(value, declared)
        if not all(isinstance(zero, Mapping) for zero in zeros):
            raise declared.wrong()
        return tuple(dict(zero) for zero in zeros)

    def stored(self, value: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        return list(value)


def _limit(name: Any, value: Any) -> BudgetValue:
    what = f"The budget of {_key(name)!r}"
    if isinstance(value, Mapping) and any(is_number(amount) and amount == 0 for amount in value.values()):
        raise BudgetError(f"{what} is zero.", fix="Leave its columns out of the workload instead.")
    return typed_budget(value, what, "gaussian")


def _check_name(key: Any, declared: Parameter) -> Any:
    if isinstance(key, str) or (isinstance(key, tuple) and all(isinstance(part, str) for part in key)):
        return key
    raise MechanismError(
        f"{declared.name!r} has a key that names no attributes.", fix='Write "age", or "age+sex" for a set.'
    )


def _key(key: Any) -> str:
    return key if isinstance(key, str) else "+".join(key)


# ---- choosing --------------------------------------------------------------------------------------------------------

STRATEGIES = ("auto", "packed", "matched", "single", "refined", "all")
WIDEST_BLOCK = 16  # attributes that are packed jointly
FASTER = 4  # how many rounds in one, after a round that taught less than noise would
CLOSE = 0.3  # how near a fit between rounds comes to its optimum, in deviations of the noise
ROOM = 0.35  # what a set must teach to enter the model grows with its cells to this power
SURE = 0.5  # of a measurement's distance from the model: the part that must not be noise for the model to be told
ONE_WAY_BY_SIGNAL = 2.0  # the share for single columns times the signal, with a person's limit alone
ONE_WAY_BEFORE_TRIPLES = 0.4  # the same where rounds can choose pairs before triples
LEAST_ONE_WAY = Fraction(2, 100)
MOST_ONE_WAY = Fraction(30, 100)  # with a person's limit alone
MOST_ONE_WAY_REFINED = Fraction(10, 100)  # with budgets for attributes
MOST_PAIRS = Fraction(4, 5)  # of what single columns and selection leave, where nobody asked for a share
MOST_PAIRS_REFINED = 0.2
PAIRS_BY_SIGNAL = 0.4  # "refined": the share for pairs before triples, times the root of the signal
LEAST_PAIRS = 0.04  # less is not worth measuring them
AT_FIRST = Fraction(1, 3)  # "refined": of what is left after pairs, to measure all marginals once
TIMES_AGAIN = 2  # rounds in which it measures marginals again
LOOK_AGAIN = 4.0  # below this signal the first measurements hardly show what the model should be told
LEAST_AGAIN = 0.02  # a marginal's share of a round in which marginals are measured again, over the mean share
FINE_AGAIN = 1024  # these shares are whole numbers of such a part
PROTECTED = 0.5  # with a person's limit alone, a marginal's share grows with its cells to this power
GROUPED = 2.0  # rows in a cell over its noise, below which values are measured in groups
LEAST_GROUPS = 16  # and so many there are at least; a column of fewer than twice as many values has none
GROUPED_ALONE = 4  # how much more such a column counts by itself: inside groups, nothing else says anything of it
GRID = 16  # model counts are rounded to this part of a row before they are compared with true ones


@dataclass(frozen=True)
class Choice:
    """How the budget will be used."""

    strategy: str
    why: str
    rounds: int = 0
    one_way: Fraction = Fraction(6, 100)  # of the budget, before anything is chosen
    selection: Fraction = Fraction(8, 100)  # of the budget, for choosing; the rest measures
    pairs: Fraction = Fraction(0)  # of the budget, for all pairs at once before larger marginals
    balance: float = 0.0  # a share of a marginal measured at once grows with its number of cells to this power
    looks_again: bool = False  # whether later measurements also decide which marginals enter the model
    instead: Choice | None = None  # what takes its place where rows turn out to fill few cells
    few_cells: float = 0.0  # of the marginal in the middle: so many, as released single columns fill them

    @property
    def picks(self) -> bool:
        return self.strategy not in ("all", "refined")

    @property
    def expected_reason(self) -> str:
        """The reason as known before the run, when single columns may still decide."""
        if self.instead is None:
            return self.why
        return f"{self.why}. If released single columns show that rows fill few cells, marginals are measured at once"

    def confirm(self) -> Choice:
        """This choice after single columns have decided for it."""
        return replace(self, why=f"{self.why}. Released single columns do not show that rows fill few cells")

    def of_rest(self, share: Fraction) -> Fraction:
        """A share of the budget, as one of what single columns and picks leave of it."""
        return share / (1 - self.one_way - self.selection)


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

    @property
    def middle_cells(self) -> int:
        """Of the marginal in the middle."""
        cells = sorted(self.wanted.cells(names) for names in self.wanted.sets)
        return cells[len(cells) // 2]


def choose(facts: Facts, strategy: str, rounds: int | None, *, by_columns: bool = True) -> Choice:
    """Synthesis strategy: the one asked for, or for "auto" the one that public facts speak for; unless none are
    measured, single columns may speak for another instead."""
    if strategy != "auto":
        return _with_rounds(_choice_of(facts, strategy, "asked for"), rounds)
    chosen = _with_rounds(_auto(facts), rounds)
    return _or_instead(facts, chosen, rounds) if by_columns else chosen


def _with_rounds(choice: Choice, rounds: int | None) -> Choice:
    return choice if rounds is None or choice.strategy == "all" else replace(choice, rounds=rounds)


def _choice_of(facts: Facts, strategy: str, why: str) -> Choice:
    choice = Choice(strategy, why, pairs=_pairs(facts, strategy))
    if not choice.picks:
        balance = 0.0 if facts.person is None else PROTECTED
        rounds = TIMES_AGAIN if strategy == "refined" else 0
        most = MOST_ONE_WAY_REFINED if strategy == "refined" else LEAST_ONE_WAY
        again = strategy == "refined" and _signal(facts) < LOOK_AGAIN
        one_way = _one_way(facts, most=most)
        return replace(choice, rounds=rounds, one_way=one_way, balance=balance, looks_again=again)
    if facts.person is not None:
        by_signal = ONE_WAY_BY_SIGNAL if facts.width <= 2 else ONE_WAY_BEFORE_TRIPLES
        one_way = max(_one_way(facts, by_signal), Fraction(6, 100))
        return replace(
            choice, rounds=16 * facts.sources, one_way=one_way, selection=Fraction(10, 100), balance=PROTECTED
        )
    rounds = 16 if facts.width <= 2 else 32
    if facts.each > 0.4:  # ε0 ≈ 0.9
        rounds *= 2
    return replace(choice, rounds=_single_rounds(facts) if strategy == "single" else rounds)


def _pairs(facts: Facts, strategy: str) -> Fraction:
    """The share of the budget for all pairs at once, before triples."""
    if facts.width <= 2 or strategy == "all":
        return Fraction(0)
    clear, person = _signal(facts), facts.person is not None
    if strategy == "refined":
        share = Fraction(round(100 * min(MOST_PAIRS_REFINED, PAIRS_BY_SIGNAL / math.sqrt(max(clear, 1e-9)))), 100)
        return share if share >= LEAST_PAIRS else Fraction(0)
    if not person:
        return Fraction(2, 3)
    return Fraction(1, 3) if clear >= 1 else Fraction(0)


def _one_way(facts: Facts, by_signal: float = ONE_WAY_BY_SIGNAL, most: Fraction = LEAST_ONE_WAY) -> Fraction:
    """The share of the budget for single columns: the less a larger marginal holds beside its noise, the more of what
    can be known is known from these alone. With budgets for attributes it is ``most`` at most, as a larger share costs
    a person more, and larger sets tell about single columns, too."""
    share = by_signal / max(_signal(facts), 1e-9)
    most = most if facts.person is None else MOST_ONE_WAY
    return min(max(Fraction(round(1000 * min(share, 1.0)), 1000), LEAST_ONE_WAY), most)


def _single_rounds(facts: Facts) -> int:
    return max(16, math.ceil(16 * facts.sources / max(1, min(facts.width, 2))))


# Measured on seventeen tables, and reported on others (python -m bench synthesis). For pairs all marginals at once, and
# then again where answers are least certain, are better than rounds that pick even where most marginals are drowned in
# noise. For triples it depends on the table between 1 and 9. Where only a person's limit is given, rounds stay close to
# what other methods with such a limit reach.
_CLEAR = {"pairs": 0.15, "triples": 2.5}
_CLEAR_PERSON = {"pairs": 6.0, "triples": 4.5}
_CLEAR_PERSON_BITS = {"pairs": 0.5, "triples": 1.0}  # of columns of two values
# The same, with cells counted as rows fill them, which single columns show once they are released.
_CLEAR_FILLED, _CLEAR_FILLED_PERSON = 18.0, 35.0
_TOO_MANY = 4_000  # marginals that are not worth the minutes of measuring them again


def _auto(facts: Facts) -> Choice:
    clear = _signal(facts)
    thresholds = _CLEAR
    if facts.person is not None:
        thresholds = _CLEAR_PERSON_BITS if facts.middle_cells <= 2**facts.width else _CLEAR_PERSON
    if clear >= thresholds["triples" if facts.width > 2 else "pairs"]:
        why = (
            "every marginal can be measured at once" if clear >= 1 else "pairs are best measured at once, noisy or not"
        )
        why += f" (a cell holds {_short(clear)} times its noise on average)"
        if len(facts.wanted.sets) > _TOO_MANY:
            return _choice_of(facts, "all", why)
        return _choice_of(facts, "refined", f"{why}, and then again where answers are least certain")
    why = (
        f"noise would drown most marginals (a cell holds {_short(clear)} times its noise on average), so rounds choose"
    )
    if facts.person is not None:
        return _choice_of(
            facts, "single", f"{why}; one per round costs a person least, and only the person has a limit"
        )
    return _choice_of(facts, "packed", why)


def _or_instead(facts: Facts, choice: Choice, rounds: int | None) -> Choice:
    """Rounds, or all marginals at once where rows fill so few cells that these stand out from noise. Nobody knows
    before single columns are released."""
    few = facts.middle_cells * _signal(facts) / (_CLEAR_FILLED if facts.person is None else _CLEAR_FILLED_PERSON)
    if not choice.picks or few < 1 or len(facts.wanted.sets) > _TOO_MANY:
        return choice
    instead = _choice_of(
        facts, "refined", "released single columns show that rows fill few cells, which stand out from noise"
    )
    return replace(choice, instead=_with_rounds(instead, rounds), few_cells=few)


def _signal(facts: Facts) -> float:
    """The mean count of a cell over its noise if all marginals were measured at once, for the marginal in the
    middle."""
    ratios = sorted(_ratios(facts).values())
    return ratios[len(ratios) // 2]


def _ratios(facts: Facts) -> dict[tuple[str, ...], float]:
    """For each marginal, the mean count of a cell over its noise if all were measured at once."""
    often: Mapping[str, int] = _times_used(facts.wanted)
    sharing = {  # how many marginals have to share one budget
        names: len(facts.wanted.sets) if facts.person is not None else max(often[name] for name in names)
        for names in facts.wanted.sets
    }
    return {
        names: facts.n / facts.wanted.cells(names) * math.sqrt(facts.each / sharing[names])
        for names in facts.wanted.sets
    }


def grouped_columns(facts: Facts, sizes: Mapping[str, int]) -> dict[str, int]:
    """In how many groups Synthesis measures the values of columns in order (with their sizes): so many that the cells
    of the marginal in the middle are not drowned in noise. Only where a person's limit alone binds: with budgets for
    attributes, rounds pick few marginals and can afford single values."""
    if facts.person is None:
        return {}
    long = [(name, size) for name, size in sizes.items() if size >= 2 * LEAST_GROUPS]
    ratios, results = _ratios(facts) if long else {}, {}
    for name, size in long:
        own = sorted(ratio for names, ratio in ratios.items() if name in names and len(names) > 1)
        if own and own[len(own) // 2] < GROUPED:
            results[name] = max(LEAST_GROUPS, math.ceil(size * own[len(own) // 2] / GROUPED))
    return results


def _times_used(wanted: Wanted) -> dict[str, int]:
    often = dict.fromkeys(wanted.columns, 0)
    for names in wanted.sets:
        for name in names:
            often[name] += 1
    return often


def _short(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"
