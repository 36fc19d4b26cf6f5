"""Rows of the attribute table: each attribute's figures, its limit as a bar, and what is derived from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nabladp.privacy import Guarantee
from nabladp.release.cost import shown
from nabladp.schema import Schema

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
        single: dict[str, list[Line]] = {}
        person, sets = None, []
        for line in lines:
            if line["limit"] == "person" and set(line["attributes"]) == set(protected) != {"person"}:
                person = line
            elif len(line["attributes"]) == 1:
                single.setdefault(line["attributes"][0], []).append(line)
            else:
                sets.append(line)
        return cls(single, person, sets)


def of_schema(schema: Schema) -> dict[str, Described]:
    """What is known of every column: its kind, how many values it has, a note."""
    return {a.name: {"kind": a.kind, "size": a.size, "note": a.note} for a in schema}


def attribute_rows(
    described: Mapping[str, Described], guarantee: Guarantee, told: Mapping[str, Any], limits: Limits
) -> list[dict[str, Any]]:
    """Every source attribute in order, derived columns under the first of their sources."""
    below: dict[str, list[dict[str, Any]]] = {}
    for name, sources in guarantee.universe.derived.items():
        below.setdefault(sources[0], []).append({"name": name, "sources": list(sources)})
    rows = []
    for name in guarantee.universe.roots:
        figure = told["attributes"].get(name)
        rows.append(
            {
                "name": name,
                **{key: described.get(name, {}).get(key) for key in ("kind", "size", "note")},
                "public": figure is None,
                "figure": None if figure is None else shown_figure(figure),
                "unread": figure is not None and figure["rho"] == 0,
                "limits": [limit_bar(guarantee, line) for line in limits.single.get(name, ())],
                "derived": below.get(name, []),
            }
        )
    return rows


def shown_figure(figure: Mapping[str, float | None]) -> dict[str, str]:
    return {name: shown(value) for name, value in figure.items()}


def limit_bar(guarantee: Guarantee, line: Line) -> dict[str, Any]:
    """How much of a limit other releases had used, this one uses, and what is left; shares in percent of the limit."""
    pure = line["measure"] != "ρ"
    here = guarantee.epsilon(line["attributes"]) if pure else guarantee.rho(line["attributes"])
    allowed, spent = line["allowed"], line["spent"]
    together = float("inf") if spent is None else max(spent, here)
    others = together - here if together < float("inf") else 0.0
    scale = 100 / max(allowed, together) if together < float("inf") else 0.0
    return {
        "name": line["limit"],
        "attributes": line["attributes"],
        "measure": line["measure"],
        "allowed": shown(allowed, up=False),
        "here": shown(here if here < float("inf") else None),
        "others": shown(others),
        "left": shown(line["left"], up=False),
        "exceeded": line["exceeded"],
        "shares": {
            "others": round(others * scale, 3),
            "here": round(here * scale, 3) if here < float("inf") else 100.0,
            "allowed": round(allowed * scale, 3) if scale else 100.0,
        },
    }
