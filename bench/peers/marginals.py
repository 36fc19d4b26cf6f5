"""All pairs of columns: counts with noise, a fitted model or a synthetic table, everyone on the same rows.

Neighbours. Ours replace a row. OpenDP and mbi's measurements here count one row more or less: a replaced row moves two
cells of a marginal where that moves one, so it costs twice the ρ. At the same guarantee they are therefore given ρ/2:
exact for Gaussian marginals, to AIM's advantage (choosing costs it four times as much, which is not charged).
smartnoise's MWEM has pure ε, which a replaced row doubles: it is given ε0/2, so that a replaced row costs ε0, hence
ρ = ε0²/2. Pure ε promises more than that ρ does; how ours fares at the same (ε0, 10⁻⁶) is told as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._synthesis_data import MODEL_MB, Data, adult, made_up
from bench.peers.comparing import ATTRIBUTE, PERSON, SAME_NUMBER, STRICT, Row, measured
from bench.peers.processes import Library, Runner
from nabladp.privacy import Approx

OURS = ("NoisyMarginals", "Projection", "Synthesis")
GAUSSIAN = Library("OpenDP Gaussian", "opendp_gaussian.py", ".venv-peers")
AIM = Library("OpenDP AIM", "opendp_aim.py", ".venv-peers")
MBI = Library("mbi", "mbi_gaussian.py", ".venv-peers-mbi")
MWEM = Library("smartnoise MWEM", "smartnoise_mwem.py", ".venv-peers-smartnoise")
PEERS = (GAUSSIAN, MBI, MWEM)
# As docs/which-mechanism.md has it: Projection where many overlapping marginals are asked, Synthesis where a synthetic
# table is. NoisyMarginals is what OpenDP's Gaussian noise is, too.
COUNTERPARTS = {
    GAUSSIAN.name: ("Projection", "NoisyMarginals", "Synthesis"),
    MBI.name: ("Projection", "Synthesis"),
    AIM.name: ("Synthesis", "Projection"),
    MWEM.name: ("Synthesis", "Projection"),
}
FEW = ("marital-status", "relationship", "race", "income")
FEW_MADE_UP = 4
MBI_STEPS = 10_000  # of mirror descent: after 1,000 the fit can be worse than the noisy counts themselves
MWEM_ROUNDS = (0, 10)  # its own number, and fewer; the better one is told: a favour


@dataclass(frozen=True, eq=False)
class Grid:
    name: str
    codes: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, data: Data, columns: tuple[str, ...]) -> Grid:
        codes = np.stack([np.asarray(data.codes[name], dtype=np.int64) for name in columns], axis=1)
        return cls(f"{data.name}, {len(columns)} columns", codes, np.array([data.sizes[name] for name in columns]))

    @cached_property
    def truth(self) -> NDArray[np.int64]:
        """Exact counts of all pairs one after another."""
        counted = []
        for pair in itertools.combinations(range(len(self.sizes)), 2):
            shape = self.sizes[list(pair)]
            cells = np.ravel_multi_index(tuple(self.codes[:, pair].T), tuple(shape))
            counted.append(np.bincount(cells, minlength=int(shape.prod())))
        return np.concatenate(counted)

    @property
    def pairs(self) -> int:
        return len(self.sizes) * (len(self.sizes) - 1) // 2

    def error(self, found: dict[str, Any]) -> float:
        """Mean total variation distance over all pairs and repeats."""
        apart = np.abs(np.atleast_2d(found["counts"]) - self.truth).sum(axis=1)
        return float(apart.mean()) / (2 * len(self.codes) * self.pairs)


def tables(quick: bool) -> Iterator[Grid]:
    """Adult, or where it is not at hand a made-up table: some columns, and in the full run all of them."""
    data = adult()
    source, few = (data, FEW) if data is not None else (made_up(), made_up().schema.names[:FEW_MADE_UP])
    yield Grid.of(source, few)
    if not quick:
        yield Grid.of(source, source.schema.names)


def rows(runner: Runner, quick: bool) -> Iterator[Row]:
    few, *all_columns = tables(quick)
    places = [(few, epsilon, 2 if quick else 5) for epsilon in ((1.0,) if quick else (0.3, 1.0, 3.0))]
    places += [(grid, 1.0, 2) for grid in all_columns]
    for grid, epsilon, repeats in places:
        yield from ours(runner, grid, epsilon, repeats, 120)
        for library in PEERS:
            yield from peer(runner, library, grid, epsilon, repeats, 20 if quick else 150)
    for grid, epsilon, _ in places:  # last, and once: it takes minutes
        yield from peer(runner, AIM, grid, epsilon, 1, 20 if quick else 300)


# What is held equal, who is given what of ρ, and for which of ours: those that a peer is compared with at it.
EQUALS = (
    (ATTRIBUTE, "attribute", lambda epsilon: epsilon**2 / 2, OURS),
    (PERSON, "person", lambda epsilon: epsilon**2 / 2, OURS),
    (SAME_NUMBER, "person", lambda epsilon: epsilon**2 / 4, OURS[1:]),
    (STRICT, "person", lambda epsilon: float(Approx(epsilon, 1e-6).amount()), OURS[2:]),
)


def ours(runner: Runner, grid: Grid, epsilon: float, repeats: int, limit: int) -> Iterator[Row]:
    for equal, unit, rho_of, names in EQUALS:
        for name in names:
            rho = rho_of(epsilon)
            what = {"codes": grid.codes, "sizes": grid.sizes, "k": 2, "mechanism": name, "unit": unit, "rho": rho}
            library = Library(name, "nabladp_marginals.py")
            yield measured(
                runner, library, grid.name, epsilon, equal, [{**what, "repeats": repeats}], grid.error, limit, rho
            )


def peer(runner: Runner, library: Library, grid: Grid, epsilon: float, repeats: int, limit: int) -> Iterator[Row]:
    if not library.there:
        print(f"{library.name} is left out: `make peers` installs it", flush=True)
        return
    what = {"codes": grid.codes, "sizes": grid.sizes, "k": 2, "repeats": repeats}
    settings: dict[Library, list[dict[str, float]]] = {
        MWEM: [{"epsilon": epsilon / 2, "rounds": rounds} for rounds in MWEM_ROUNDS],
        MBI: [{"rho": epsilon**2 / 4, "steps": MBI_STEPS}],
        AIM: [{"rho": epsilon**2 / 4, "max_mb": MODEL_MB}],
        GAUSSIAN: [{"rho": epsilon**2 / 4}],
    }
    tried = [
        measured(runner, library, grid.name, epsilon, PERSON, [{**what, **each}], grid.error, limit)
        for each in settings[library]
    ]
    yield min(tried, key=lambda row: float("inf") if row.error is None else row.error)
