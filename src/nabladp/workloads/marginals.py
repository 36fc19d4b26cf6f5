"""Which marginals: listed sets of attributes, or all sets of k."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from nabladp.checks import expect, members, name_or_names
from nabladp.errors import DomainTooLarge, MechanismError, many, quote
from nabladp.schema import Schema
from nabladp.workloads.options import names_once

MOST_SETS = 200_000
MOST_TOGETHER = 60  # attributes of one set; arrays have at most 64 axes
MOST_CELLS = 1 << 24  # of one marginal: 128 MiB of counts
MOST_CELLS_TOGETHER = 1 << 26

Sets = tuple[tuple[str, ...], ...]


def refuse_sets_and_k(sets: object, k: object) -> None:
    """Refuse marginals that are asked for in two ways, or in none."""
    if (sets is None) == (k is None):
        what, do = (
            ("Neither 'sets' nor 'k' is given", "Write") if k is None else ("Both 'sets' and 'k' are given", "Keep")
        )
        raise MechanismError(
            f"{what}.", fix=f'{do} sets = [["age", "sex"]] for these tables, or k = 2 for a table of each pair.'
        )


def marginal_sets(
    schema: Schema, sets: Iterable[Sequence[str]] | None, k: int | None, over: Sequence[str] | None = None
) -> Sets:
    """The sets of attributes whose marginals are asked for, checked against the schema; refuses what memory could not
    hold."""
    expect(schema, Schema, "The schema of marginals", 'Load it with Schema.load("schema.toml").')
    refuse_sets_and_k(sets, k)
    if k is not None and (not isinstance(k, int) or isinstance(k, bool)):
        raise MechanismError("k must be a whole number.", fix="For all pairs write k = 2.")
    chosen = _check_sets(schema, sets) if sets is not None else _all_of_size(schema, k or 0, over)
    _check_size(schema, chosen)
    return chosen


def _check_sets(schema: Schema, sets: Iterable[Sequence[str]]) -> Sets:
    listed = members(sets, "'sets'", 'Write [["age", "sex"], ["income"]].', error=MechanismError)
    marginals = tuple(name_or_names(chosen, "A marginal", MechanismError) for chosen in listed)
    if not marginals:
        raise MechanismError("No marginal is asked for.", fix="List at least one set of attributes.")
    for chosen in marginals:
        if not chosen:
            raise MechanismError("A marginal needs at least one attribute.", fix="Remove the empty set.")
        schema.sizes(chosen)  # refuses unknown names
        if len(set(chosen)) != len(chosen):
            raise MechanismError(
                f"The marginal {'+'.join(chosen)} names an attribute twice.", fix="Name each attribute once."
            )
    name, times = Counter("+".join(sorted(chosen)) for chosen in marginals).most_common(1)[0]
    if times > 1:
        raise MechanismError(
            f"The marginal {name} is asked for twice.",
            fix="Name it once. For less noise in it, give it a larger number in 'weights'.",
        )
    return marginals


def refuse_bare_names(sets: Any) -> None:
    """Refuse a list of names where a list of sets belongs: it may mean one set or several."""
    if isinstance(sets, (list, tuple)) and len(sets) > 1 and all(isinstance(name, str) for name in sets):
        more = ", …" if len(sets) > 3 else ""
        one = ", ".join(f'"{name[:40]}"' for name in sets[:3]) + more
        each = ", ".join(f'["{name[:40]}"]' for name in sets[:3]) + more
        raise MechanismError(
            f"'sets' = [{one}] may mean one table or {len(sets)} tables.",
            fix=f"For one table of all these attributes write [[{one}]]; for a table of each write [{each}].",
        )


def _all_of_size(schema: Schema, k: int, over: Sequence[str] | None) -> Sets:
    names = schema.roots if over is None else names_once(over)
    schema.sizes(names)
    if not 1 <= k <= len(names):
        raise MechanismError(
            f"There are no {quote(k)}-way combinations of {len(names)} attributes.",
            fix=f"Give a k from 1 to {len(names)}.",
        )
    if (count := math.comb(len(names), k)) > MOST_SETS:
        raise DomainTooLarge(
            f"All {k}-way marginals of {len(names)} attributes are {many(count)} tables; the most is {MOST_SETS:,}.",
            fix="Lower k, list the sets you need, or name fewer attributes in 'over'.",
            tables=count,
        )
    return tuple(itertools.combinations(names, k))


def refuse_too_wide(attributes: Sequence[str]) -> None:
    if len(attributes) > MOST_TOGETHER:
        raise DomainTooLarge(
            f"A set of {len(attributes)} attributes is too large; the most is {MOST_TOGETHER}.",
            fix="Leave out those with one value.",
        )


def _check_size(schema: Schema, sets: Sets) -> None:
    together = 0
    sizes = {attribute.name: attribute.size for attribute in schema}
    for chosen in sets:
        cells = math.prod([sizes[name] for name in chosen])
        together += cells
        refuse_too_wide(chosen)
        if cells > MOST_CELLS:
            listed = ", ".join(f"{name}: {sizes[name]:,}" for name in chosen)
            raise DomainTooLarge(
                f"The marginal {'+'.join(chosen)} has {many(cells)} cells ({many(8 * cells)} bytes); the most is "
                f"{MOST_CELLS:,}. Its columns' sizes are {listed}.",
                fix="Declare coarser bins for the largest column, or leave it out.",
                cells=str(cells),
                attributes=list(chosen),
            )
    if together > MOST_CELLS_TOGETHER:
        raise DomainTooLarge(
            f"The marginals have {many(together)} cells together; at most {MOST_CELLS_TOGETHER:,} are handled.",
            fix="Ask for fewer sets or declare coarser bins.",
            cells=str(together),
        )
