"""Ours, run as the peers are: ``python nabladp_marginals.py IN.npz OUT.npz``: every set of k columns.

IN: ``codes`` (a row for each person, a column for each attribute), ``sizes``, ``k``, ``repeats``, ``mechanism``,
and ``rho`` that ``unit`` ("attribute" or "person") may pay. OUT: counts of every set of k columns one after another
(``counts``), a row for each repeat, and ρ of an attribute and of a person by the guarantee (``attribute``, ``person``).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from _measured import Clock, given

from nabladp import NoisyMarginals, Projection, Synthesis
from nabladp.noise import NoiseSource
from nabladp.privacy import Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable
from nabladp.workloads import Marginals

MAKERS: dict[str, Callable[[float, int], Any]] = {
    "NoisyMarginals": lambda rho, k: NoisyMarginals(Rho(rho), k=k),
    "Projection": lambda rho, k: Projection(Rho(rho), Marginals(k=k)),
    "Synthesis": lambda rho, k: Synthesis(Rho(rho), workload=k),
}


def made(name: str, unit: str, rho: float, k: int, schema: Schema, n: int) -> Any:
    """The mechanism whose attributes, or whose persons, pay at most ``rho``."""
    if unit == "attribute":
        return MAKERS[name](rho, k)
    if name == "Synthesis":
        return Synthesis(person=Rho(rho), workload=k)
    return for_person(lambda budget: MAKERS[name](budget, k), rho, schema, n)


def for_person(make: Callable[[float], Any], rho: float, schema: Schema, n: int) -> Any:
    """With the budget of an attribute that costs a person ``rho``; here the two are in proportion."""
    share = rho / float(make(rho).guarantee(schema, n).per_person().rho)
    return make(rho * min(share, 1.0))


def counts(name: str, found: Any, sets: list[tuple[str, ...]]) -> np.ndarray:
    if name == "NoisyMarginals":
        return np.concatenate([found[chosen].counts.ravel() for chosen in sets])
    if name == "Projection":
        if [group.attributes for group in found.queries.groups] != sets:
            raise RuntimeError("the sets come in another order")
        return np.asarray(found.answers * found.n)
    by_set = {answer.attributes: answer.counts for answer in found.answers}
    return np.concatenate([np.ravel(by_set[chosen]) for chosen in sets])


def main(source: str, target: str) -> None:
    data = given(source)
    sizes, name, k = data["sizes"], str(data["mechanism"]), int(data["k"])
    schema = Schema(tuple(Attribute(f"c{i}", "integer", low=0, high=int(s) - 1) for i, s in enumerate(sizes)))
    table = CodedTable(schema, dict(zip(schema.names, np.ascontiguousarray(data["codes"].T), strict=True)))
    sets = list(itertools.combinations(schema.names, k))
    clock = Clock()
    mechanism = made(name, str(data["unit"]), float(data["rho"]), k, schema, table.n)
    repeats = int(data["repeats"])
    found = [counts(name, mechanism.run(table, NoiseSource.seeded(seed)), sets) for seed in range(repeats)]
    clock.stop()
    guarantee = mechanism.guarantee(schema, table.n)
    each = max(float(guarantee.rho((attribute,))) for attribute in schema.names)
    clock.keep(target, repeats, counts=found, attribute=each, person=float(guarantee.per_person().rho))


if __name__ == "__main__":
    main(*sys.argv[1:])
