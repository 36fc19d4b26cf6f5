"""Everything a run needs, fixed before any data is read: where prefixes may end, scales of noise, what is promised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from nabladp.errors import MechanismError
from nabladp.mechanisms.heavy_hitters.settings import Notion, Settings
from nabladp.mechanisms.heavy_hitters.tree import Node, Tree
from nabladp.mechanisms.parameters import Kind, Parameter
from nabladp.privacy.values import BudgetValue, Pure, Rho

SEARCHES = ("probes", "pick")
_TAKE_IT = "Take one from learner.plan(schema, n).to_json(), or leave it out."


@dataclass(frozen=True)
class Design:
    """A prefix may end at one of ``cuts`` (0 is the first); after it, all values up to the next cut are tried out.

    ``search`` finds the last cut at which some prefix is polarizing: shared by many rows of either label. "probes" is
    the paper's binary search, a noisy comparison at each step; "pick" draws the cut by an exponential mechanism.
    With a single cut there is nothing to search or to list.
    """

    notion: Notion
    sizes: tuple[int, ...]  # of the features
    cuts: tuple[int, ...]
    select_scale: float  # of the exponential mechanism among thresholds
    search: str = "probes"
    search_scale: float = 1.0
    ones_scale: float = 1.0  # of the noise on the number of ones
    lists: Settings | None = None  # for the tree that lists prefixes up to the last cut
    target: int = 1  # as many rows of either label make a prefix polarizing …
    search_error: int = 0  # … and the search is off by at most this
    few: int = -1  # noisy ones, or zeros, up to this number are too few to look for a threshold
    errors: int | None = None  # where some threshold never errs, the one found does on at most so many rows, …
    failure: float = 0.05  # … but for this probability

    def __post_init__(self) -> None:
        if self.search not in SEARCHES:
            raise MechanismError(f"There is no search {self.search!r}.", fix="Use 'probes' or 'pick'.")
        if self.notion not in ("cdp", "pure"):
            raise MechanismError(f"There is no notion {self.notion!r}.", fix="Use 'cdp' or 'pure'.")
        for name in ("select_scale", "search_scale", "ones_scale"):
            if not (_is_number(getattr(self, name)) and getattr(self, name) > 0):
                raise MechanismError(f"The {name!r} of a design is a positive number.", fix=_TAKE_IT)
        if self.target < 1 or self.search_error < 0:
            raise MechanismError("The 'target' of a design is at least 1, its 'search_error' 0.", fix=_TAKE_IT)
        if self.cuts[:1] != (0,) or list(self.cuts) != sorted({*self.cuts}):
            raise MechanismError("Cuts start at 0 and rise.", fix="Leave at least one feature after the last.")
        if self.cuts[-1] >= len(self.sizes):
            raise MechanismError("Cuts start at 0 and rise.", fix="Leave at least one feature after the last.")
        if self.many != (self.lists is not None) or (self.lists and self.lists.tree.sizes != self.prefix_sizes):
            raise MechanismError("The lists are for other features.", fix="Plan them for those up to the last cut.")
        if self.lists is not None and self.lists.notion != self.notion:
            raise MechanismError("The lists are for the other notion.", fix=f"Plan them for {self.notion!r}.")

    # ---- plan file ------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        body = {part.name: getattr(self, part.name) for part in fields(self)}
        lists = None if self.lists is None else self.lists.to_json()
        return body | {"sizes": list(self.sizes), "cuts": list(self.cuts), "lists": lists}

    @classmethod
    def from_json(cls, data: Any) -> Design:
        """A ThresholdLearner design from JSON; what may be absent or null is absent in a plan file, which has no
        null."""
        try:
            body = {name: value for name, value in data.items() if value is not None}
            for name in ("sizes", "cuts"):
                body[name] = tuple(_whole(value) for value in data[name])
            for name in ("target", "search_error", "few", "errors"):
                if name in body:
                    body[name] = _whole(body[name])
            if "lists" in body:
                body["lists"] = Settings.from_json(body["lists"])
            return cls(**body)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, MechanismError):
                raise
            raise MechanismError("'design' is not a design of a threshold learner.", fix=_TAKE_IT) from None

    # ---- the search -----------------------------------------------------------------------------------------------

    @property
    def many(self) -> bool:
        """Whether the design has more than one cut to search among."""
        return len(self.cuts) > 1

    @property
    def prefix_sizes(self) -> tuple[int, ...]:
        return self.sizes[: self.cuts[-1]]

    @property
    def probes(self) -> int:
        """The most probes of a binary search among the design's cuts: ⌈log2 of the number of cuts⌉."""
        return (len(self.cuts) - 1).bit_length()

    @property
    def steps(self) -> int:
        """The number of noisy steps that the prefix search is charged for."""
        return self.probes if self.search == "probes" else 1

    @property
    def floor(self) -> int:
        """Polarization up to this floor makes no difference to the search, and need not be known."""
        return self.target // 2

    def block(self, cut_index: int) -> tuple[int, ...]:
        """The domain sizes of the features between a cut and the next."""
        ends = [*self.cuts[1:], len(self.sizes)]
        return self.sizes[self.cuts[cut_index] : ends[cut_index]]

    def lists_up_to(self, cut_index: int) -> Settings:
        """The HeavyHitters settings for prefixes up to a cut: the same tree and noise, without the features behind
        it."""
        if self.lists is None:
            raise MechanismError("There are no lists.", fix="Search among several cuts.")
        tree = prefix_tree(self.lists.tree, self.cuts[cut_index])
        return replace(self.lists, tree=tree, levels=self.lists.levels[-tree.thresholded_levels :])  # [same-tree]

    # ---- what it costs --------------------------------------------------------------------------------------------

    def ones_cost(self) -> BudgetValue:
        """The cost of the noisy count of ones, whose sensitivity is 1."""
        return self._cost(self.ones_scale, 1)  # [ones]

    def search_cost(self) -> BudgetValue:
        """The cost of the prefix search: every probe has sensitivity 1; so has the score of a pick, whose log ratios
        span twice that."""
        return self._cost(self.search_scale, self.probes) if self.search == "probes" else self._pick(self.search_scale)

    def select_cost(self) -> BudgetValue:
        return self._pick(self.select_scale)

    def _cost(self, scale: float, times: int) -> BudgetValue:
        width = Fraction(scale)
        return Pure(times / width) if self.notion == "pure" else Rho(times / (2 * width**2))

    def _pick(self, scale: float) -> BudgetValue:
        width = Fraction(scale)
        return Pure(2 / width) if self.notion == "pure" else Rho(1 / (2 * width**2))  # [range]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def prefix_tree(tree: Tree, length: int) -> Tree:
    """The HeavyHitters tree over the first attributes alone: nodes keep their attributes within them, empty nodes are
    gone."""
    position_of: dict[int, int] = {}
    nodes: list[Node] = []
    for position, node in enumerate(tree.nodes):
        held = tuple(attribute for attribute in node.attributes if attribute < length)
        if held:
            children = tuple(position_of[child] for child in node.children if child in position_of)
            position_of[position] = len(nodes)
            nodes.append(replace(node, attributes=held, children=children))
    return Tree(tree.sizes[:length], tuple(nodes))


def cuts_of(groups: Sequence[tuple[int, int, int]]) -> tuple[int, ...]:
    return tuple(first for first, _, _ in groups)


class DesignKind(Kind):
    takes = "the design of a threshold learner"
    example = "{ … }"

    def checked(self, value: Any, declared: Parameter) -> Design:
        return value if isinstance(value, Design) else Design.from_json(value)

    def stored(self, value: Design) -> dict[str, Any]:
        return value.to_json()
