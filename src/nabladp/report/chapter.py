"""What a page tells about one guarantee, as plain data: words, figures, the explorer, the certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any

from nabladp.privacy import Guarantee
from nabladp.release.cost import figure, figures, finite
from nabladp.report.attributes import Described, Limits, attribute_rows, limit_bar, shown_figure
from nabladp.report.words import PRIOR, Words

COSTLIEST = 10  # the explorer marks the costliest 1 … 10 attributes
MOST_LOOKS = 20_000_000  # terms times subsets looked at for each, about a second; beyond it the search may miss
SIZES = {2: "Pairs", 3: "Triples"}
MOST_SETS = 400  # rows; sizes with more sets are left to the explorer
NO_LIMITS = Limits({}, None, ())


def chapter(words: Words, described: Mapping[str, Described], limits: Limits = NO_LIMITS) -> dict[str, Any]:
    """What is told of attributes and of the whole person (or whatever a row is about)."""
    told = figures(words.guarantee, words.adversaries, words.delta)
    return {
        "words": words,
        "told": told,
        "person": shown_figure(told["person"]),
        "pure": told["person"]["pure_epsilon"] is not None,
        "some_pure": any(f["rho"] and f["pure_epsilon"] is not None for f in told["attributes"].values()),
        "attributes": attribute_rows(described, words.guarantee, told, limits),
        "limited": words.released,
        "person_limit": limit_bar(words.guarantee, limits.person) if limits.person else None,
        "set_limits": [limit_bar(words.guarantee, line) for line in limits.sets],
    }


def set_rows(guarantee: Guarantee, delta: float) -> tuple[str, list[dict[str, Any]]]:
    """All pairs and triples of protected attributes, costliest first, and what to call them; few enough to be read."""
    names = guarantee.universe.protected
    sizes = [size for size in SIZES if size < len(names) and comb(len(names), size) <= MOST_SETS]
    rows = []
    for size in sizes:
        sets = sorted(combinations(names, size), key=lambda chosen: -guarantee.rho(chosen))
        rows += [{"attributes": chosen, "figure": shown_figure(figure(guarantee, chosen, delta))} for chosen in sets]
    return " and ".join(SIZES[size] for size in sizes).capitalize(), rows


def explorer(guarantee: Guarantee, delta: float, adversaries: Sequence[Any], one: str = "person") -> dict[str, Any]:
    """What the explorer needs besides the guarantee."""
    given = {"delta": delta, "prior": PRIOR, "one": one, "adversaries": adversaries}
    return {**given, "costliest": costliest(guarantee)}


def costliest(guarantee: Guarantee) -> list[dict[str, Any]]:
    """The costliest 1, 2, … protected attributes, each with whether that is certain."""
    sizes = range(1, min(COSTLIEST, len(guarantee.universe.protected)) + 1)
    looks = min(20_000, MOST_LOOKS // (len(guarantee.terms) + 1))
    found = [guarantee.worst_subset(size, looks) for size in sizes]
    return [
        {
            "attributes": list(worst.attributes),
            "rho": finite(worst.rho),
            "at_most": finite(worst.at_most),
            "exact": worst.exact,
        }
        for worst in found
    ]


def blocks_of(chapters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The data behind every chapter's explorer, by the name under which its script looks for it."""
    found: dict[str, Any] = {}
    for about in chapters:
        words = about["words"]
        found[f"guarantee{about['mark']}"] = words.guarantee.to_json()
        found[f"explorer{about['mark']}"] = explorer(
            words.guarantee, words.delta, about["told"]["adversaries"], words.one
        )
    return found
