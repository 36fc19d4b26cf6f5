"""Everything a run needs, fixed before any data is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from nabladp.checks import is_number, is_whole
from nabladp.errors import MechanismError
from nabladp.mechanisms.heavy_hitters.tree import Node, Tree
from nabladp.mechanisms.kinds import MOST_MEGABYTES, Choice, Number, check_all_support
from nabladp.mechanisms.parameters import Kind, Parameter, parameter
from nabladp.privacy.values import BudgetValue

Notion = Literal["pure", "cdp"]
_PLAIN = (
    *("notion", "mu", "count_scale", "certified", "count_error", "unlisted"),
    *("failure", "expected_list", "memory", "longest_list"),
)
_OPTIONAL = ("count_scale", "longest_list")
_MOST = 1 << 53  # of thresholds: every difference of counts is exact in a double


@dataclass(frozen=True)
class Level:
    """The threshold τ and the noise (λ of the discrete Laplace, σ of the discrete Gaussian) of one tree level."""

    threshold: int
    scale: float


@dataclass(frozen=True)
class Settings:
    """A plan with its certificate.

    pure  a candidate with count f passes iff max(f − τ, −μ) + Z > 0; the root's list is then counted afresh with
          discrete Laplace noise of scale ``count_scale``. Nothing else of the noise may leave the run.
    cdp   a candidate passes iff f + Z > τ; ``mu`` is 0, and with ``count_scale`` None the root's noisy counts f + Z are
          the released ones.
    """

    notion: Notion
    tree: Tree
    mu: int
    levels: tuple[Level, ...]  # one for every tree level from ``tree.lowest`` up to the root's
    count_scale: float | None
    certified: int  # every combination at least this frequent is listed …
    count_error: int  # … and its released count is within ± this, all together with probability ≥ 1 − failure
    unlisted: int  # with the same probability nothing unlisted is as frequent as this
    failure: float
    expected_list: float  # bound on the expected length of every node's list, whatever the data
    memory: int  # bytes, but for a millionth of ``failure``: half for lists, a quarter for cells; rows not counted
    longest_list: float = math.inf  # with the same certainty no node's list is longer

    def __post_init__(self) -> None:
        if len(self.levels) != self.tree.thresholded_levels:
            raise _wrong("There must be one threshold for every thresholded level of the tree.")
        thresholds = [level.threshold for level in self.levels]
        if self.notion not in ("pure", "cdp"):
            raise _wrong('The notion must be "pure" or "cdp".')
        if any(type(number) is not int or number > _MOST for number in (self.mu, *thresholds)):
            raise _wrong(f"μ and thresholds must be whole numbers of at most {_MOST:,}.")
        self._check_certificate()
        if not all(math.isfinite(scale) for scale in (*(x.scale for x in self.levels), self.count_scale or 1.0)):
            raise _wrong("Noise scales must be finite.")
        if any(low > high for low, high in pairwise(thresholds)) and self.notion == "pure":
            raise _wrong("Thresholds of the pure tree must not fall on the way to the root.")
        if thresholds[0] < self.mu or min(thresholds) < 0:
            raise _wrong("The lowest threshold must be at least μ, and none may be negative.")
        if self.notion == "pure" and (self.mu < 1 or len({level.scale for level in self.levels}) != 1):
            raise _wrong("The pure tree has one noise scale and clips at μ ≥ 1.")
        if min(level.scale for level in self.levels) <= 0 or (self.count_scale is not None and self.count_scale <= 0):
            raise _wrong("Noise scales must be positive.")

    def _check_certificate(self) -> None:
        if not all(is_whole(number, 0) for number in (self.certified, self.count_error, self.unlisted, self.memory)):
            raise _wrong("Certified counts, their error and the memory must be whole numbers.")
        if not (is_number(self.failure) and 0 <= self.failure <= 1 and is_number(self.expected_list)):
            raise _wrong("The failure probability must lie between 0 and 1, and the expected length be a number.")
        if self.longest_list != math.inf and not is_number(self.longest_list):
            raise _wrong("The longest list must be a number.")

    def to_json(self) -> dict[str, Any]:
        body = {name: getattr(self, name) for name in _PLAIN}
        body["longest_list"] = None if math.isinf(self.longest_list) else self.longest_list
        levels = {"thresholds": [level.threshold for level in self.levels], "scales": [x.scale for x in self.levels]}
        return body | levels | {"tree": self.tree.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Settings:
        levels = tuple(Level(int(t), float(s)) for t, s in zip(data["thresholds"], data["scales"], strict=True))
        plain = {name: data[name] for name in _PLAIN if name not in _OPTIONAL}
        longest = data.get("longest_list")  # a plan file has no word for nothing: it leaves these out
        plain |= {"count_scale": data.get("count_scale"), "longest_list": math.inf if longest is None else longest}
        return cls(tree=Tree.from_json(data["tree"]), levels=levels, **plain)

    def level_of(self, node: Node) -> Level:
        """The threshold and noise scale of a thresholded node of the HeavyHitters tree."""
        return self.levels[node.level - self.tree.lowest]


def _wrong(what: str) -> MechanismError:
    return MechanismError(what, fix="Take settings from `plan`, or from a release's values.")


# ---- parameters that several mechanisms share ------------------------------------------------------------------------


class SettingsKind(Kind):
    takes = "the settings of a tree"
    example = "{ … }"

    def checked(self, value: Any, declared: Parameter) -> Settings:
        if isinstance(value, Settings):
            return value
        try:
            return Settings.from_json(value)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            raise MechanismError(
                f"{declared.name!r} must be {self.takes}.", fix="Take them from a release's values."
            ) from None

    def stored(self, value: Settings) -> dict[str, Any]:
        return value.to_json()


NOTION = parameter(Choice("cdp", "pure"), "The kind of guarantee: concentrated, or pure for a Pure budget.")
MEMORY = parameter(
    Number(1, MOST_MEGABYTES, of="megabytes"),
    "The memory of a run; one that might need more is refused before anything is spent.",
)
SETTINGS = parameter(SettingsKind(), "The settings of a tree, in place of the planner's.")


def check_notion(
    notion: str, budget: BudgetValue, budgets: Mapping[str, BudgetValue], settings: Settings | None = None
) -> None:
    check_all_support(budget, budgets, notion == "pure", f"notion = {notion!r}")
    if settings is not None and settings.notion != notion:
        raise MechanismError("The settings are for the other notion.", fix=f"Write notion = {settings.notion!r}.")
