"""What a page tells about one guarantee, as plain data: words, figures, the explorer, the certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

from nabladp.privacy import Guarantee
from nabladp.privacy.terms import WeightTerm
from nabladp.release.cost import figure, figures, finite
from nabladp.report.language import Language
from nabladp.report.sentences import PRIOR, Sentences
from nabladp.schema import Schema

COSTLIEST = 10  # the explorer marks the costliest 1 … 10 attributes
MOST_LOOKS = 20_000_000  # terms times subsets looked at for each, about a second; beyond it the search may miss
SIZES = (2, 3)  # pairs and triples are listed
MOST_SETS = 400  # rows; sizes with more sets are left to the explorer
Line = Mapping[str, Any]
Described = Mapping[str, Any]


@dataclass(frozen=True)
class Limits:
    """The limits of a record: on single attributes, on the person, and on other sets."""

    single: Mapping[str, Sequence[Line]]
    person: Line | None
    sets: Sequence[Line]

    @classmethod
    def of(cls, lines: Sequence[Line], protected: Sequence[str]) -> Limits:
        everything = [line for line in lines if line["limit"] == "person" and set(line["attributes"]) == set(protected)]
        if set(protected) == {"person"}:  # the only attribute, whose own limit has the same name and comes first
            everything = everything[1:]
        person = everything[-1] if everything else None
        single: dict[str, list[Line]] = {}
        sets = []
        for line in lines:
            if line is person:
                continue
            if len(line["attributes"]) == 1:
                single.setdefault(line["attributes"][0], []).append(line)
            else:
                sets.append(line)
        return cls(single, person, sets)


NO_LIMITS = Limits({}, None, ())


def chapter(words: Sentences, described: Mapping[str, Described], limits: Limits = NO_LIMITS) -> dict[str, Any]:
    """The report's chapter on one guarantee: what is said of attributes and of the whole person (or whatever a row is
    about)."""
    costs = figures(words.guarantee, words.adversaries, words.delta)
    units = {name: str(about["unit"]) for name, about in described.items() if about.get("unit")}
    return {
        "words": words,
        "costs": costs,
        "person": format_costs(costs["person"], words.t),
        "pure": costs["person"]["pure_epsilon"] is not None,
        "some_pure": any(f["rho"] and f["pure_epsilon"] is not None for f in costs["attributes"].values()),
        "attributes": attribute_rows(described, words, costs, limits),
        "units": units,
        "small": small_differences(words, units),
        "limited": words.released,
        "person_limit": limit_bar(words.guarantee, limits.person, words.t) if limits.person else None,
        "set_limits": [limit_bar(words.guarantee, line, words.t) for line in limits.sets],
    }


def small_differences(words: Sentences, units: Mapping[str, str]) -> list[dict[str, Any]]:
    """What is promised for small differences of single attributes, where that is more: for the listed distances next
    to a hundredth and a tenth of the widest."""
    rows = []
    for name, listed in _listed_distances(words.guarantee).items():
        near = [[far for far in listed if far <= listed[-1] / part] for part in (100, 10)]
        full = figure(words.guarantee, (name,), words.delta)
        for far in dict.fromkeys([own[-1] for own in near if own] or listed[-1:]):
            small = words.small_difference(name, far, units.get(name, ""))
            costs = figure(words.guarantee.figure(name, {name: far}).guarantee, (name,), words.delta)
            if costs != full:
                rows.append({"belief": small, "costs": costs, "figure": format_costs(costs, words.t)})
    return rows


def _listed_distances(guarantee: Guarantee) -> dict[str, list[Fraction]]:
    """The distances for which parts of a guarantee state what a change of at most that size costs, in order."""
    listed: dict[str, set[Fraction]] = {}
    for term, _ in guarantee.terms:
        for name, steps in term.near if isinstance(term, WeightTerm) else ():
            listed.setdefault(name, set()).update(far for far, _ in steps)
    return {name: sorted(listed[name]) for name in guarantee.universe.protected if name in listed}


def set_rows(guarantee: Guarantee, delta: float, t: Language) -> tuple[str, list[dict[str, Any]]]:
    """The chapter's table of sets: all pairs and triples of protected attributes, costliest first; few enough to be
    read."""
    names = guarantee.universe.protected
    sizes = [size for size in SIZES if size < len(names) and comb(len(names), size) <= MOST_SETS]
    rows = []
    for size in sizes:
        sets = sorted(combinations(names, size), key=lambda chosen: -guarantee.rho(chosen))
        rows += [{"attributes": chosen, "figure": format_costs(figure(guarantee, chosen, delta), t)} for chosen in sets]
    return (t(f"about.sets_{'_'.join(map(str, sizes))}") if sizes else ""), rows


def explorer(
    guarantee: Guarantee,
    delta: float,
    adversaries: Sequence[Any],
    one: str = "person",
    units: Mapping[str, str] | None = None,
    titles: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The data of a chapter's explorer besides the guarantee; ``units`` are those of attributes that are numbers,
    ``titles`` are read in place of names."""
    given = {"delta": delta, "prior": PRIOR, "one": one, "adversaries": adversaries, "units": dict(units or {})}
    others = {name: title for name, title in (titles or {}).items() if title != name}
    return {**given, "titles": others, "costliest": costliest(guarantee)}


def costliest(guarantee: Guarantee) -> list[dict[str, Any]]:
    """The costliest 1, 2, … protected attributes of a chapter, each with whether that is certain."""
    sizes = range(1, min(COSTLIEST, len(guarantee.universe.protected)) + 1)
    looks = min(20_000, MOST_LOOKS // (len(guarantee.terms) + 1))
    subsets = [guarantee.worst_subset(size, looks) for size in sizes]
    return [
        {
            "attributes": list(worst.attributes),
            "rho": finite(worst.rho),
            "at_most": finite(worst.at_most),
            "exact": worst.exact,
            "among": list(worst.among),
        }
        for worst in subsets
    ]


def blocks_of(chapters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The data behind every chapter's explorer, by the name under which its script looks for it."""
    blocks: dict[str, Any] = {}
    for about in chapters:
        words = about["words"]
        blocks[f"guarantee{about['mark']}"] = words.guarantee.to_json()
        blocks[f"explorer{about['mark']}"] = explorer(
            words.guarantee, words.delta, about["costs"]["adversaries"], words.one, about["units"], words.titles
        )
    return blocks


# ---- the table of attributes ----------------------------------------------------------------------------------------


def of_schema(schema: Schema) -> dict[str, Described]:
    """A chapter's description of every column: its kind, its number of values, its unit, what is said about it."""
    return {
        a.name: {
            "kind": a.kind,
            "size": a.size,
            "unit": a.unit,
            "note": " ".join(text for text in (a.description, a.note) if text),
        }
        for a in schema
    }


def attribute_rows(
    described: Mapping[str, Described], words: Sentences, costs: Mapping[str, Any], limits: Limits
) -> list[dict[str, Any]]:
    """A chapter's rows of attributes: every source attribute in order, derived columns under the first of their
    sources."""
    guarantee, t = words.guarantee, words.t
    below: dict[str, list[dict[str, Any]]] = {}
    for name, sources in guarantee.universe.derived.items():
        below.setdefault(sources[0], []).append({"name": name, "sources": list(sources)})
    rows = []
    for name in guarantee.universe.roots:
        figure = costs["attributes"].get(name)
        rows.append(
            {
                "name": name,
                "shown": words.titles.get(name, name),
                **{key: described.get(name, {}).get(key) for key in ("kind", "size", "unit", "note")},
                "public": figure is None,
                "figure": None if figure is None else format_costs(figure, t),
                "unread": figure is not None and figure["rho"] == 0,
                "limits": [limit_bar(guarantee, line, t) for line in limits.single.get(name, ())],
                "derived": below.get(name, []),
            }
        )
    return rows


def format_costs(figure: Mapping[str, float | None], t: Language) -> dict[str, str]:
    return {name: t.cost(value) for name, value in figure.items()}


def limit_bar(guarantee: Guarantee, line: Line, t: Language) -> dict[str, Any]:
    """The bar of a limit: how much of it other releases had used, this one uses, and what is left; in percent."""
    pure = line["measure"] != "ρ"
    here = guarantee.epsilon(line["attributes"]) if pure else guarantee.rho(line["attributes"])
    allowed, spent = line["allowed"], line["spent"]
    together = float("inf") if spent is None else max(spent, here)
    others = together - here if together < float("inf") else 0.0
    scale = 100 / max(allowed, together) if together < float("inf") else 0.0
    return {
        "name": line["limit"],
        "attributes": line["attributes"],
        "measure": t.measure(line["measure"]),
        "allowed": t.cost(allowed, up=False),
        "here": t.cost(here),
        "others": t.cost(others) if others > 0 else "",
        "left": t.cost(line["left"], up=False),
        "exceeded": line["exceeded"],
        "shares": {
            "others": round(others * scale, 3),
            "here": round(here * scale, 3) if here < float("inf") else 100.0,
            "allowed": round(allowed * scale, 3) if scale else 100.0,
        },
    }
