"""What to expect before anything is spent: the certificate, and what noise for the whole person would need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from nabladp.mechanisms.heavy_hitters.settings import Settings
from nabladp.mechanisms.mechanism import ExpectedError


@dataclass(frozen=True)
class HeavyHittersError(ExpectedError):
    """``settings`` hold the certificate; they are None where the number of rows is not known."""

    settings: Settings | None
    attributes: int
    n: int
    person: int | None  # the count that noise on every possible combination could certify at this budget per person

    @classmethod
    def of(cls, settings: Settings | None, sizes: tuple[int, ...], n: int, budget: float) -> HeavyHittersError:
        if settings is None:
            return cls(None, len(sizes), n, None)
        strings = math.fsum(math.log(size) for size in sizes)
        person = _per_person(settings, strings, budget)
        if sum(node.thresholded for node in settings.tree.nodes) == 1:  # costs a person what it costs an attribute
            person = min(person, settings.certified)
        return cls(settings, len(sizes), n, person)

    def values_written(self) -> int:
        return 0 if self.settings is None else math.ceil(min(self.settings.expected_list, 1e6)) * (self.attributes + 4)

    @property
    def promised(self) -> bool:
        """Whether a combination that all rows share would be found for certain."""
        return self.settings is not None and self.settings.certified <= self.n

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"n": self.n, "attributes": self.attributes}
        if self.settings is not None:
            body |= {"certificate": certificate(self.settings, self.n), "per_person_certified": self.person}
        return body | {"summary": self._summary()}

    def _summary(self) -> dict[str, Any]:
        settings = self.settings
        if settings is None or not self.promised:
            unknown = "until the number of rows is known (rows = … under [table])"
            why = unknown if settings is None else "with so few rows at this budget"
            return {"attributes": self.attributes, "promised": f"nothing {why}"}
        return {
            "attributes": self.attributes,
            "every combination shared by at least … rows is found": settings.certified,
            "… as a share of the rows": settings.certified / self.n,
            "… and its count is within ±": settings.count_error,
            "… all this with probability at least": 1 - settings.failure,
            "… at the same budget per person, rows": self.person,
            "lists of the tree, expected length at most": math.ceil(settings.expected_list),
            "levels of the tree": len(settings.levels),
            "memory in MB, at most": math.ceil(settings.memory / 2**20),
        }


def certificate(settings: Settings, n: int) -> dict[str, Any]:
    """What is promised for any data of n rows, in plain numbers."""
    return {
        "certified": settings.certified if settings.certified <= n else None,
        "count_error": settings.count_error,
        "unlisted_below": settings.unlisted,
        "failure": settings.failure,
        "expected_list": settings.expected_list,
    }


def _per_person(settings: Settings, log_strings: float, budget: float) -> int:
    """With the whole budget for one histogram: no empty cell above t, no cell of 2t rows below it, t by a union bound.

    Laplace noise of scale 2/ε, or Gaussian of scale 1/√ρ: one person moves two cells.
    """
    reach = log_strings + math.log(2 / settings.failure)
    noise = 2 / budget * reach if settings.notion == "pure" else math.sqrt(2 * reach / budget)
    return math.ceil(2 * noise)
