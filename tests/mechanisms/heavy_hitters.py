"""HeavyHitters: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from faults import AB, Fault, Patches, black_box, settings

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.heavy_hitters import HeavyHitters, privacy_loss, search
from nabladp.mechanisms.heavy_hitters import mechanism as tree
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Guarantee, Pure, Rho

INSTANCES: list[Mechanism] = [
    HeavyHitters(CDP(2), over=("region", "age", "income", "sick")),
    HeavyHitters(Pure(4), over=("region", "sick", "band"), notion="pure", lists=True),
    HeavyHitters(Rho(3), over=("age", "region"), failure=0.2, frequency=0.1, budgets={"age": CDP(2)}),
]


def noisy(out: Any) -> list[Any]:
    return [out.counts, out.codes]


# ---- faults ---------------------------------------------------------------------------------------------------------


def dearest_level_only(patches: Patches) -> None:
    """The budget is not split over the levels: every level is priced as if it were the only one."""

    def largest(universe: Any, parts: Any) -> Guarantee:
        return max(parts, key=lambda part: part.rho(universe.protected))

    patches.set(tree, "Guarantee", SimpleNamespace(touch=Guarantee.touch, compose=largest))


def papers_lists(patches: Patches) -> None:
    """λ = 3/ε is said to make lists 0.5·ε-private: 1.5/λ for every attribute."""
    patches.set(privacy_loss, "finding_losses", lambda t, levels, mu: [1.5 / levels[0].scale] * len(t.sizes))


def papers_counts(patches: Patches) -> None:
    """Lap(2/ε) is said to make counts 0.5·ε-private: 1/β, as if one person were in one string only."""
    patches.set(tree, "counting_loss", lambda lam, beta: 1 / beta)


def papers_constants(patches: Patches) -> None:
    papers_lists(patches)
    papers_counts(patches)


def only_candidates_that_occur(patches: Patches) -> None:
    """Strings in no row are never listed: it saves so much time."""
    patches.set(search, "draw_survivors", lambda level, rule, noise: [np.empty(0, np.int64) for _ in level])


def without_false_ones(patches: Patches) -> None:
    """Combinations that nobody has are taken off the list before it is shown."""
    true = HeavyHitters.run

    def run(self: HeavyHitters, counts: Any, noise: NoiseSource) -> Any:
        found = true(self, counts, noise)
        held = counts.marginals([found.names])[0]
        return found._take(held[tuple(found.codes.T)] > 0)

    patches.set(HeavyHitters, "run", run)


def pure_tree(lam: float, beta: float) -> HeavyHitters:
    return HeavyHitters(Pure(40), notion="pure", settings=settings("pure", [(1, lam), (2, lam)], beta))


LISTED = HeavyHitters(Rho(9), settings=settings("cdp", [(1, 8.0)]))
FAULTS = (
    Fault("the paper's lambda = 3/eps", pure_tree(1.5, 50.0), AB, papers_lists, n=3),
    Fault("the paper's Lap(2/eps)", pure_tree(8.0, 0.5), AB, papers_counts, n=3),
    Fault("both constants of the paper", pure_tree(3.0, 2.0), AB, papers_constants, n=3),
    Fault(
        "levels priced as one",
        HeavyHitters(Rho(40), settings=settings("cdp", [(1, 1.5), (1, 1.5)])),
        AB,
        dearest_level_only,
    ),
    Fault("candidates only where rows are", LISTED, AB, only_candidates_that_occur, **black_box(2, 600, "a", "b")),
    Fault("false combinations taken off", LISTED, AB, without_false_ones, **black_box(2, 600, "a", "b")),
)
