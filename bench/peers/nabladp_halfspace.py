"""Ours, run as the peers are: ``python nabladp_halfspace.py IN.npz OUT.npz``: a halfspace for the last column.

IN: ``codes`` to learn from, ``codes_test``, ``sizes``, ``seed``, and ``rho`` that ``unit`` ("attribute" or "person")
may pay. OUT: ``accuracy`` on the test rows, and ρ of an attribute and of a person (``attribute``, ``person``).
"""

from __future__ import annotations

import sys

import numpy as np
from _measured import Clock, given
from nabladp_marginals import for_person

from nabladp import HalfspaceLearner
from nabladp.noise import NoiseSource
from nabladp.privacy import Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable


def main(source: str, target: str) -> None:
    data = given(source)
    names = [f"c{i}" for i in range(len(data["sizes"]))]
    values = [tuple(f"v{j}" for j in range(int(size))) for size in data["sizes"]]
    schema = Schema(tuple(Attribute(n, "categorical", values=v) for n, v in zip(names, values, strict=True)))
    table = CodedTable(schema, dict(zip(names, np.ascontiguousarray(data["codes"].T), strict=True)))
    rho, label = float(data["rho"]), names[-1]
    clock = Clock()
    if str(data["unit"]) == "attribute":
        learner = HalfspaceLearner(Rho(rho), label)
    else:
        learner = for_person(lambda budget: HalfspaceLearner(Rho(budget), label), rho, schema, table.n)
    model = learner.run(table, NoiseSource.seeded(int(data["seed"])))
    said = model.halfspace.predict(data["codes_test"][:, [names.index(name) for name in model.features]])
    right = (said > 0) == (data["codes_test"][:, -1] == 1)
    guarantee = learner.guarantee(schema, table.n)
    each = max(float(guarantee.rho((name,))) for name in names)
    clock.keep(target, accuracy=right.mean(), attribute=each, person=float(guarantee.per_person().rho))


if __name__ == "__main__":
    main(*sys.argv[1:])
