"""From budget, rows and failure probability to the design that promises the smallest error. Only public facts enter.

Mistakes on realizable data. Only prefixes of the true threshold are shared by rows of both labels. Let p be the one at
the cut found. The search makes sure that ``target`` rows of either label share p, hence twice as many in all, which is
what the tree needs to list p; and that one of the thresholds offered by p errs on no more rows than the rarer label has
at the next cut. The last pick adds its own error. Half of the failure probability is for the step from rows to people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

from nabladp.errors import BudgetError, DomainTooLarge, MechanismError
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.heavy_hitters import planner
from nabladp.mechanisms.heavy_hitters.certificate import Shape, Sieve, caution, list_bounds
from nabladp.mechanisms.heavy_hitters.settings import Notion, Settings
from nabladp.mechanisms.heavy_hitters.tree import leaf_groups
from nabladp.mechanisms.learners.thresholds.design import SEARCHES, Design, cuts_of
from nabladp.noise import half_width
from nabladp.privacy.units import UNIT

_WIDTHS = tuple(4**k for k in range(9))  # most values between two cuts, where there are several features
_MOST_CODES = 1 << 24  # of all candidate thresholds
_SHORT, _LONG, _EACH, _FALSE = 1000, 20_000, 50, 20.0  # strings in a list: at most, by rows, and in no row
_FEWEST = 100  # strings that a list should be able to hold
_ONE_STRING = 0.75  # as a frequency: the certificate of the lists speaks of one string, the threshold's prefix
_WITHIN = 1 - 1e-9  # of a budget is planned for, so that costs rounded up still fit
_PEOPLE = 0.5  # of the failure probability is for rows that are not like people; the rest for the four kinds of noise


@dataclass(frozen=True)
class Goal:
    """``units`` of 2⁻⁶⁰ are what an attribute may pay; up to ``shared`` columns come from one attribute."""

    sizes: tuple[int, ...]
    units: int
    n: int
    failure: float
    notion: Notion
    shared: int = 1
    search: str | None = None  # None: whichever promises less

    @property
    def each(self) -> float:
        """The failure probability of every noisy step of ThresholdLearner."""
        return (1 - _PEOPLE) * self.failure / 4

    @property
    def kind(self) -> Literal["laplace", "gaussian"]:
        return "laplace" if self.notion == "pure" else "gaussian"

    def noise_scale(self, units: int, times: int = 1) -> float:
        """The noise scale for so many counts of sensitivity 1 each, at this cost."""
        return least_scale(self.kind, _some(units // times), 1)

    def pick_scale(self, units: int) -> float:
        """The scale of an exponential mechanism whose scores have sensitivity 1: pure 2/s, concentrated 1/(2s²)."""
        return least_scale(self.kind, _some(units), 2 if self.notion == "pure" else 1)


@lru_cache(maxsize=256)
def best_design(goal: Goal) -> Design:
    """The ThresholdLearner design with the smallest promised error: quick figures for every width and search, the best
    in full."""
    whole = math.prod(goal.sizes)
    if len(goal.sizes) == 1 or (whole <= _WIDTHS[-1] and goal.search is None):  # few enough for one pick among them all
        scale = goal.pick_scale(goal.units)
        errors = _pick_error(goal, scale, whole + 2)
        return Design(goal.notion, goal.sizes, (0,), scale, errors=errors, failure=goal.failure)
    drafts = list(_drafts(goal))
    if not drafts:
        raise _too_many()
    return _full_design(goal, min(drafts, key=lambda draft: draft.errors))


def _too_many() -> DomainTooLarge:
    fix = "Declare coarser domains, or name fewer features in 'over'."
    return DomainTooLarge("Too many thresholds would have to be tried out.", fix=fix, most=_MOST_CODES)


def check_domains(names: Sequence[str], sizes: Sequence[int]) -> None:
    """Refuse features with too many values: each value is tried out after each of the prefixes that a short list may
    hold."""
    if len(sizes) > 1 and math.prod(sizes) <= _WIDTHS[-1]:
        return
    most = _MOST_CODES if len(sizes) == 1 else _MOST_CODES // (_FEWEST * len(sizes)) - 1
    name, size = max(zip(names, sizes, strict=True), key=lambda pair: pair[1])
    if size > most:
        among = f" with {len(sizes):,} features" if len(sizes) > 1 else ""
        raise DomainTooLarge(
            f"The feature {name!r} has {size:,} values, and at most {most:,} can be tried out{among}.",
            fix="Declare a coarser domain for it, or name fewer features in 'over'.",
            attribute=name,
            size=size,
            most=most,
        )


@dataclass(frozen=True)
class _Draft:
    cuts: tuple[int, ...]
    search: str
    needs: tuple[float, float, float]  # mistakes that search, lists and selection would cause with a budget of one each
    pure: bool

    @property
    def errors(self) -> float:
        """A threshold draft's error with the best split of a budget of one: the least Σ a/x or Σ a/√x where shares x
        sum to one."""
        power = 1 / 2 if self.pure else 2 / 3
        return float(sum(need**power for need in self.needs) ** (1 / power))

    @property
    def shares(self) -> tuple[float, ...]:
        power = 1 / 2 if self.pure else 2 / 3
        total = sum(need**power for need in self.needs)
        return tuple(need**power / total for need in self.needs)


def _drafts(goal: Goal) -> Iterator[_Draft]:
    """Drafts of threshold designs with figures at a budget of one: errors fall like 1/budget (pure) or 1/√budget."""
    pure, guess = goal.notion == "pure", goal.units // 3
    settings = _listing(goal, goal.sizes[:-1], guess)
    spent = guess / UNIT if pure else math.sqrt(guess / UNIT)
    listed = _longest_list(settings, goal)
    for cuts in dict.fromkeys(cuts_of(leaf_groups(goal.sizes, width)) for width in _WIDTHS):
        ends = [*cuts[1:], len(goal.sizes)]
        ways = max(math.prod(goal.sizes[a:b]) for a, b in zip(cuts, ends, strict=True))
        if len(cuts) == 1 or settings.longest_list * (ways + 1) * len(goal.sizes) > _MOST_CODES:
            continue
        probes = (len(cuts) - 1).bit_length()
        chance = goal.each / probes
        results = {
            "probes": probes * math.log(1 / (2 * chance)) if pure else math.sqrt(probes / 2) * _quantile(chance),
            "pick": (2 if pure else math.sqrt(1 / 2)) * math.log((len(cuts) - 1) / goal.each),
        }
        select = (2 if pure else math.sqrt(1 / 2)) * math.log(listed * (ways + 1) / goal.each)
        for search in SEARCHES if goal.search is None else (goal.search,):
            yield _Draft(cuts, search, (2 * results[search], settings.certified / 2 * spent, select), pure)


def _full_design(goal: Goal, draft: _Draft) -> Design:
    """The threshold design in full, for the draft's shares of the budget."""
    units = [int(share * _WITHIN * goal.units) for share in draft.shares]
    lists = _listing(goal, goal.sizes[: draft.cuts[-1]], units[1])
    probes = (len(draft.cuts) - 1).bit_length()
    if draft.search == "probes":
        search_scale = goal.noise_scale(units[0], probes)
        search_error = half_width(goal.kind, search_scale, 1 - 2 * goal.each / probes)
    else:
        search_scale = goal.pick_scale(units[0])
        search_error = _pick_error(goal, search_scale, len(draft.cuts) - 1)
    ones_scale = goal.noise_scale(units[1] // goal.shared)  # the label pays no lists [ones-for-lists]
    design = Design(
        notion=goal.notion,
        sizes=goal.sizes,
        cuts=draft.cuts,
        select_scale=goal.pick_scale(units[2]),
        search=draft.search,
        search_scale=search_scale,
        ones_scale=ones_scale,
        lists=lists,
        target=-(-lists.certified // 2),  # a prefix with so many rows of either label is listed
        search_error=search_error,
        failure=goal.failure,
    )
    ways = max(math.prod(design.block(cut_index)) for cut_index in range(len(design.cuts)))
    selecting = _pick_error(goal, design.select_scale, _longest_list(lists, goal) * (ways + 1) + 2)
    errors = design.target + 2 * search_error + selecting  # [mistakes-bound]
    return replace(design, errors=errors, few=errors - half_width(goal.kind, ones_scale, 1 - goal.each))


def _listing(goal: Goal, sizes: Sequence[int], units: int) -> Settings:
    """The HeavyHitters settings for the prefix lists. Where so few rows promise nothing, those for more rows, which
    cost no more.

    The pure tree's planner also plans for counts; they are given as much again, and are never drawn.
    """
    budget, share = _WITHIN * _some(units) / UNIT / goal.shared, None
    if goal.notion == "pure":
        budget, share = 2 * budget, 0.5
    offered = (max(goal.sizes) + 1) * len(goal.sizes)  # codes of the thresholds that one string offers, at least
    wanted, most = min(max(_SHORT, goal.n // _EACH), _LONG), _MOST_CODES // offered
    for more in range(0, 40, 3):
        try:
            return planner.plan(
                sizes, budget, max(goal.n, 1) << more, goal.each, goal.notion, share, _ONE_STRING,
                largest_list=min(wanted, most), false_listed=_FALSE,
            )  # fmt: skip
        except ValueError:
            continue
    if most < wanted:
        raise _too_many()
    raise BudgetError("The budget is too small to list anything.", fix="Raise it.")


def _longest_list(settings: Settings, goal: Goal) -> float:
    """The length that the root's prefix list exceeds with negligible probability."""
    shape = Shape.of(settings.tree)
    return float(list_bounds(shape, Sieve.of(settings).rates(max(goal.n, 1)), caution(shape, goal.each))[0][-1])


def _pick_error(goal: Goal, scale: float, candidates: float) -> int:
    """The smallest e such that a cut or threshold worse than the best by more than e is hardly ever picked."""
    return max(0, math.ceil(scale * math.log(max(candidates, 1) / goal.each)) - 1)


def _quantile(chance: float) -> float:
    return -NormalDist().inv_cdf(chance)


def _some(units: int) -> int:
    if units < 1:
        raise BudgetError("The budget is too small.", fix="Raise it.")
    return units


# ---- from rows to people -------------------------------------------------------------------------------------------


def promised_error(errors: int | None, n: int, failure: float) -> float | None:
    """The share of people on which a threshold with so many mistakes among n rows may err; None: nothing is promised.

    Bad thresholds err on all people between them and the true one, hence on all those between the nearest bad one and
    the true one, on either side. These are at least α of all: Binomial(n, α) rows, and more than ``errors`` of them but
    for half of the failure probability's part.
    """
    if errors is None or errors >= n:
        return None
    from scipy.special import betaincinv

    return float(betaincinv(errors + 1, n - errors, 1 - _PEOPLE * failure / 2))  # [two-sided]


def rows_for(errors: int | None, alpha: float, failure: float) -> int:
    """The fewest rows with which a threshold of so many mistakes promises an error of at most α."""
    if errors is None:
        raise MechanismError("The given design has no error bound.", fix="Leave it out.")
    low, high = errors, errors + 1

    def enough(n: int) -> bool:
        result = promised_error(errors, n, failure)
        return result is not None and result <= alpha

    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
