"""`lem:graph`: a guarantee given by weighted edges between records extends to all pairs along shortest paths."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cached_property
from typing import Any

from nabladp import checks
from nabladp.errors import GuaranteeError
from nabladp.privacy.terms import FREE, Cost, is_whole, read_truth, read_units
from nabladp.privacy.units import half_square
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, as_value, eps_units

Node = tuple[str, ...]
MOST_NODES = 4096


@dataclass(frozen=True)
class GraphTerm:
    """Distances between the value combinations of ``names``; edges carry ε-units (pure, or the ε0 of a CDP bound).

    For a set T the cost is the largest distance between two combinations that differ only within T. Combinations no
    path connects have no bound at all.
    """

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    edges: tuple[tuple[Node, Node, int], ...]
    pure: bool

    def __post_init__(self) -> None:
        named_once = len(set(self.names)) == len(self.names) == len(self.values) > 0
        if not named_once or any(not values or len(set(values)) != len(values) for values in self.values):
            raise GuaranteeError(
                "A graph needs, for each of its attributes, the whole domain with every value once.",
                fix="Pass a schema, or values={name: […]}.",
            )
        nodes = math.prod(len(values) for values in self.values)
        if nodes > MOST_NODES:
            raise GuaranteeError(
                f"A graph over {', '.join(self.names)} would have {nodes} records; at most {MOST_NODES} are handled.",
                fix="Give one graph per attribute instead.",
            )
        known = set(itertools.product(*self.values))
        for u, v, weight in self.edges:
            if not is_whole(weight) or weight < 0:
                raise GuaranteeError(
                    "An edge's weight must be a whole number of units, not negative.",
                    fix="Distances are at least zero.",
                )
            if u not in known or v not in known:
                raise GuaranteeError(
                    f"An edge of the graph over {', '.join(self.names)} names a value outside the declared domain.",
                    fix="Use the labels of the schema.",
                )

    @property
    def adds_up(self) -> bool:
        """Distances are subadditive, half their squares need not be."""
        return len(self.names) == 1

    @cached_property
    def support(self) -> frozenset[str]:
        return frozenset(self.names)

    @cached_property
    def _neighbours(self) -> dict[Node, list[tuple[Node, int]]]:
        neighbours: dict[Node, list[tuple[Node, int]]] = {}
        for u, v, weight in self.edges:
            neighbours.setdefault(u, []).append((v, weight))
            neighbours.setdefault(v, []).append((u, weight))
        return neighbours

    @cached_property
    def _costs(self) -> dict[frozenset[str], Cost]:
        return {}

    def _distances(self, start: Node) -> dict[Node, int]:
        done: dict[Node, int] = {}
        frontier = [(0, start)]
        while frontier:
            distance, node = heapq.heappop(frontier)
            if node in done:
                continue
            done[node] = distance
            for next_node, weight in self._neighbours.get(node, ()):
                if next_node not in done:
                    heapq.heappush(frontier, (distance + weight, next_node))
        return done

    def cost(self, attributes: frozenset[str]) -> Cost:
        moving = attributes & self.support
        if not moving:
            return FREE
        if moving not in self._costs:
            self._costs[moving] = self._cost_of(self._diameter(moving))
        return self._costs[moving]

    def _diameter(self, moving: frozenset[str]) -> int | None:
        """The largest graph distance between two value combinations that agree outside ``moving``; None where no path
        leads."""
        widest = 0
        for start in itertools.product(*self.values):
            reached = self._distances(start)
            choices = [v if n in moving else (s,) for n, v, s in zip(self.names, self.values, start, strict=True)]
            for goal in itertools.product(*choices):
                if goal not in reached:
                    return None
                widest = max(widest, reached[goal])
        return widest

    def _cost_of(self, distance: int | None) -> Cost:
        if distance is None:
            return Cost(None, None)
        return Cost(half_square(distance), distance if self.pure else (0 if distance == 0 else None))

    def between(self, one: Mapping[str, Any], other: Mapping[str, Any], differing: frozenset[str]) -> Cost:
        if not differing & self.support:
            return FREE
        missing = [name for name in self.names if name not in one]
        if missing:
            raise GuaranteeError(
                f"The records lack {missing[0]!r}, which a graph of this guarantee reads.", fix="Give both in full."
            )
        start, goal = (tuple(str(record[name]) for name in self.names) for record in (one, other))
        return self._cost_of(self._distances(start).get(goal))

    def worst(self, size: int, among: frozenset[str]) -> Cost:
        return self.cost(among)

    def for_rows(self, rows: int) -> GraphTerm:
        return replace(self, edges=tuple((u, v, rows * weight) for u, v, weight in self.edges))

    def sort_key(self) -> tuple[Any, ...]:
        return ("graph", self.names, self.values, self.edges, self.pure)

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": "graph",
            "names": list(self.names),
            "values": [list(values) for values in self.values],
            "edges": [[list(u), list(v), str(weight)] for u, v, weight in self.edges],
            "pure": self.pure,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> GraphTerm:
        edges = tuple((tuple(u), tuple(v), read_units(weight)) for u, v, weight in body["edges"])
        values = tuple(tuple(domain) for domain in body["values"])
        return cls(tuple(body["names"]), values, edges, read_truth(body["pure"]))


# ---- building a graph from what a caller gives ---------------------------------------------------------------------


def graph_term(
    universe: Universe,
    attributes: Any,
    edges: Iterable[tuple[Any, Any, BudgetValue]],
    on: Iterable[str] | str,
    values: Mapping[str, Sequence[Any]] | None,
) -> GraphTerm:
    """The term of a guarantee given by weighted edges between records; see ``Guarantee.from_graph``."""
    names = checks.name_or_names(on, "'on'")
    if derived := [name for name in names if name not in universe.position]:
        universe.sources(derived)
        raise GuaranteeError(f"A graph takes source attributes; {derived[0]!r} is derived.", fix="Name its source.")
    domains = tuple(_domain(attributes, name, values) for name in names)
    listed = [(u, v, as_value(weight, "an edge's weight")) for u, v, weight in _edges(edges)]
    if len({weight.pure for *_, weight in listed}) > 1:
        raise GuaranteeError("A graph's edges must all be pure or all concentrated.", fix="Use two graphs and add.")
    weighted = tuple(sorted((_node(u, names), _node(v, names), eps_units(weight)) for u, v, weight in listed))
    return GraphTerm(names, domains, weighted, all(weight.pure for *_, weight in listed))


def _edges(edges: Any) -> tuple[tuple[Any, Any, Any], ...]:
    fix = "Write [('young', 'old', CDP(0.5))]."
    listed = checks.members(edges, "The edges of a graph", fix)
    for edge in listed:
        if not isinstance(edge, (tuple, list)) or len(edge) != 3:
            raise GuaranteeError("An edge has two ends and a weight.", fix=fix)
    return listed


def check_label(value: Any) -> None:
    """Refuse a value of an edge that is no text, number or the like: what can be compared, and has a short text."""
    if value is not None and not isinstance(value, (str, int, float, Fraction, date)):
        raise GuaranteeError("A value in a record or graph is a text or a number.", fix="Use the labels of the schema.")


def _label(value: Any) -> str:
    check_label(value)
    try:
        return str(value)
    except ValueError:  # an integer of thousands of digits
        raise GuaranteeError("A value of a graph is too long.", fix="Use the labels of the schema.") from None


def _domain(attributes: Any, name: str, values: Mapping[str, Sequence[Any]] | None) -> tuple[str, ...]:
    if values is not None and name in checks.mapping(values, "'values'", "Write {'region': ['north', 'south']}."):
        given = values[name]
        listed = (
            given if isinstance(given, str) else checks.members(given, f"The domain of {name!r}", "List its values.")
        )
        return tuple(_label(value) for value in listed)
    schema: Any = attributes
    if isinstance(attributes, checks.HasAttributes):  # a schema, which knows the values
        return tuple(schema[name].texts)
    raise GuaranteeError(f"The graph needs the whole domain of {name!r}.", fix="Pass a schema, or values={name: […]}.")


def _node(value: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        missing = [name for name in names if name not in value]
        if missing:
            raise GuaranteeError(f"An end of an edge lacks {missing[0]!r}.", fix="Give a value for each attribute.")
        return tuple(_label(value[name]) for name in names)
    if len(names) == 1 and not isinstance(value, tuple):
        return (_label(value),)
    return tuple(_label(part) for part in checks.members(value, "An end of an edge", "Give a value per attribute."))
