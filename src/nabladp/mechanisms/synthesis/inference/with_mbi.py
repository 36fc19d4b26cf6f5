"""The same fit by mbi, the reference engine for such models: slow inside rounds, good for one large last fit."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.errors import MechanismError, MissingPart
from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree
from nabladp.mechanisms.synthesis.inference.measurement import Measurement, Names, Zeros, combined, summed
from nabladp.mechanisms.synthesis.inference.model import Model
from nabladp.mechanisms.synthesis.inference.potentials import Network

STEPS = 1000  # between two looks at how far the fit is
MOST_LOOKS = 10
CLOSE = 0.1  # deviations of the noise that the last so many steps may still have moved an average cell


def fit_with_mbi(
    tree: JunctionTree, total: float, measurements: Sequence[Measurement], zeros: Sequence[Zeros], cliques: list[Names]
) -> Model:
    """Least squares over the same junction tree, by mirror descent, until it no longer moves."""
    if zeros:
        raise MechanismError("mbi knows no declared zeros.", fix='Leave back_end = "mbi" out, or declare no zeros.')
    inside = combined(part for m in measurements for part in _held(tree, m))
    mbi, jax = _packages()
    with jax.enable_x64(True):
        domain = mbi.Domain(tuple(tree.sizes), tuple(tree.sizes.values()))
        loss = [
            mbi.LinearMeasurement(m.values.ravel(), m.attributes, stddev=math.sqrt(m.variance)) for m in inside
        ]  # fmt: skip
        found, before, gap = None, [np.full(m.values.shape, math.inf) for m in inside], math.inf
        looks = 0
        while gap > CLOSE and looks < MOST_LOOKS:
            found = mbi.estimation.MirrorDescent().estimate(
                domain, loss, known_total=total, iters=STEPS, warm_start=found
            )
            now = [np.asarray(found.project(m.attributes).datavector()).reshape(m.values.shape) for m in inside]
            gap = max((_moved(a, b, m.variance) for a, b, m in zip(before, now, inside, strict=True)), default=0.0)
            before, looks = now, looks + 1
        potentials = _potentials(found, tree)
    network = Network(tree, [names for names, _ in potentials])
    tables = [summed(table, names, network.sub_tables[i].names) for i, (names, table) in enumerate(potentials)]
    return Model(
        network, total, tables, cliques=cliques, gap=gap, converged=gap <= CLOSE, steps=looks * STEPS
    )  # fmt: skip


def _packages() -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that numbers are single, which is changed for the fit alone
        try:
            import jax
            import mbi
            import mbi.estimation
        except ImportError:
            raise MissingPart('back_end = "mbi" needs mbi.', fix="Install nabladp[synthesis].") from None
    return mbi, jax


def _held(tree: JunctionTree, m: Measurement) -> Iterator[Measurement]:
    """The measurement, or its largest sums that clusters hold."""
    for size in range(len(m.attributes), 0, -1):
        kept = [part for part in itertools.combinations(m.attributes, size) if tree.home(part) is not None]
        for part in kept:
            table = summed(m.values, m.attributes, part)
            yield Measurement(part, table, m.variance * m.values.size / table.size)
        if kept:
            return


def _moved(before: Floats, now: Floats, variance: float) -> float:
    return math.sqrt(float(((now - before) ** 2).mean()) / variance)


def _potentials(found: Any, tree: JunctionTree) -> list[tuple[Names, Floats]]:
    if found is None:  # nothing was measured
        return []
    tables = [(tuple(clique), found.potentials[clique]) for clique in found.potentials.cliques]
    return [
        (clique, np.asarray(factor.transpose(clique).values, dtype=np.float64)) for clique, factor in tables if clique
    ]
