"""The flattest distribution that agrees with noisy marginals as far as their noise deserves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nabladp.errors import MechanismError
from nabladp.mechanisms.synthesis.inference.dual import Dual
from nabladp.mechanisms.synthesis.inference.junction_tree import (
    BYTES_A_CELL,
    JunctionTree,
    admit,
    model_bytes,
    refuse_too_large,
)
from nabladp.mechanisms.synthesis.inference.measurement import Measurement, Zeros, check, spread
from nabladp.mechanisms.synthesis.inference.model import Model
from nabladp.mechanisms.synthesis.inference.residuals import residuals

CLOSE = 0.1
MOST_STEPS = 2000
LIMIT_BYTES = 1 << 26


def fit(
    sizes: Mapping[str, int],
    total: float,
    measurements: Sequence[Measurement],
    *,
    cliques: Iterable[Sequence[str]] | None = None,
    limit_bytes: int = LIMIT_BYTES,
    warm: Model | None = None,
    zeros: Sequence[Zeros] = (),
    back_end: str = "own",
    close: float = CLOSE,
    ridge: float = 1.0,
    most_steps: int = MOST_STEPS,
) -> Model:
    """A model of ``total`` rows, fitted to all measurements.

    ``cliques`` are the sets that the model's clusters must hold; if not given, what was measured, in that order, as far
    as ``limit_bytes`` allows. Of what was measured on other sets the part that clusters do hold counts too. ``warm`` is
    an earlier model to start from, whatever its cliques. ``zeros`` never get any mass. ``close`` says when to stop (see
    ``Dual.gap``) and ``ridge`` how smooth the result is; the model says whether it converged.
    """
    check(sizes, measurements, zeros)
    always = [z.attributes for z in zeros]
    if cliques is None:
        cliques = admit(sizes, [m.attributes for m in measurements], limit_bytes, always=always)
    held = [*always, *map(tuple, cliques)]
    refuse_too_large(sizes, held, limit_bytes)
    tree = JunctionTree(sizes, held)
    if back_end == "mbi":
        from nabladp.mechanisms.synthesis.inference.with_mbi import fit_with_mbi

        return fit_with_mbi(tree, float(total), [_possible(m, zeros) for m in measurements], zeros, held)
    if back_end != "own":
        raise MechanismError(f"There is no back end {back_end!r}.", fix='Use "own" or "mbi".')
    dual = Dual(tree, float(total), residuals(_possible(m, zeros) for m in measurements), zeros, ridge)
    tables, gap, steps = dual.solve(warm.potentials() if warm is not None else (), close, most_steps)
    return Model(
        dual.network, float(total), tables, zeros=zeros, cliques=held, gap=gap, converged=gap <= close, steps=steps
    )


def _possible(m: Measurement, zeros: Sequence[Zeros]) -> Measurement:
    """Without what was measured where nothing can be, which is noise and known to be."""
    values = m.values
    for z in zeros:
        if set(z.attributes) <= set(m.attributes):
            values = np.where(spread(z.forbidden, z.attributes, m.attributes), 0.0, values)
    return m if values is m.values else Measurement(m.attributes, values, m.variance)


def fit_seconds(sizes: Mapping[str, int], cliques: Sequence[Sequence[str]], steps: int = 60) -> float:
    """About how long a fit from scratch takes on one core, from public facts only: good to a factor of three."""
    cells = model_bytes(sizes, cliques) / BYTES_A_CELL
    return 0.02 + steps * (8e-5 * len(sizes) + 2e-8 * cells)
