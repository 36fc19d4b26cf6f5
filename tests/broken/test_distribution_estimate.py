"""Planted faults in the distribution estimate that the checks must catch, the paper's literal constants among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms import Auditable
from nabladp.mechanisms.distribution_estimate import DistributionEstimate
from nabladp.mechanisms.distribution_estimate.squared_error import Chances, Errors
from nabladp.mechanisms.heavy_hitters.settings import Level, Notion, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree
from nabladp.mechanisms.mechanism import Law
from nabladp.noise import laplace_log_pmf
from nabladp.privacy import Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("a", "boolean"), Attribute("b", "boolean")))


def tiny(notion: Notion, levels: list[tuple[int, float]], mu: int = 0, beta: float | None = None) -> Settings:
    tree = Tree.build((2, 2), 2, 2, free_cells=2 if len(levels) == 1 else 1)
    return Settings(notion, tree, mu, tuple(Level(*level) for level in levels), beta, 1, 0, 1, 0.05, 1.0, 1)


class SecondRelease(Auditable):
    """The paper's way: after finding, all counts are released a second time with Laplace noise of this scale."""

    def __init__(self, mechanism: DistributionEstimate, scale: float) -> None:
        self.mechanism, self.scale = mechanism, scale

    def guarantee(self, schema: Any, n: int) -> Any:
        raise AssertionError("the claim is handed in")

    def distribution(self, counts: Any) -> Law:
        law = self.mechanism.distribution(counts)
        cells = counts.marginals([SCHEMA.names])[0].ravel()
        again = [np.asarray(laplace_log_pmf(self.scale, -60 - int(f), 60 - int(f))) for f in cells]
        return Law((*law.parts, *again), law.largest_order)


def refuted(mechanism: Any, n: int = 2, **more: Any) -> bool:
    return not exact_audit(mechanism, SCHEMA, n, **more).passed


@pytest.mark.parametrize("notion", ["cdp", "pure"])
def test_a_second_noisy_release_that_is_not_charged(notion: Notion) -> None:
    pure = notion == "pure"
    settings = tiny(notion, [(1, 2.0)], mu=1 if pure else 0, beta=4.0 if pure else None)
    mechanism = DistributionEstimate(Pure(9) if pure else Rho(9), notion=notion, settings=settings)
    claim = mechanism.guarantee(SCHEMA, 2)
    assert not refuted(mechanism)
    assert refuted(SecondRelease(mechanism, 3.0), guarantee=claim)
    charged = claim + Guarantee.touch(SCHEMA, SCHEMA.names, Pure(2 / 3.0))
    assert not refuted(SecondRelease(mechanism, 3.0), guarantee=charged)


def test_the_papers_laplace_noise_is_not_half_epsilon_private() -> None:
    """f + Lap(2/ε) where one person moves two counts costs ε; the paper books 0.5·ε beside the histogram's 0.5·ε."""
    epsilon, quiet = 1.0, 60.0
    mechanism = DistributionEstimate(
        Pure(9), notion="pure", settings=tiny("pure", [(1, quiet)], mu=1, beta=quiet)
    )  # a histogram that costs next to nothing
    half = Guarantee.touch(SCHEMA, SCHEMA.names, Pure(epsilon / 2 + 4 / quiet))
    whole = Guarantee.touch(SCHEMA, SCHEMA.names, Pure(epsilon + 4 / quiet))
    assert refuted(SecondRelease(mechanism, 2 / epsilon), guarantee=half)
    assert not refuted(SecondRelease(mechanism, 2 / epsilon), guarantee=whole)


def test_sensitivity_one_where_a_row_moves_two_counts() -> None:
    scale = 1.2
    mechanism = DistributionEstimate(Rho(9), settings=tiny("cdp", [(1, scale)]))
    assert refuted(mechanism, guarantee=Guarantee.touch(SCHEMA, SCHEMA.names, Rho(1 / (2 * scale**2))))


def test_an_error_bound_that_forgets_what_is_hidden_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve rows in two cells of six, a cut far above: nothing is shown, and the squared error is 2·6²/12²."""
    errors = Errors(Chances(tiny("cdp", [(2, 1.4)]), 12), 0.05)
    truth = 2 * 6**2
    assert errors._mean(20) >= truth
    monkeypatch.setattr(Chances, "hidden", lambda self, f, cut: np.zeros_like(f))
    assert errors._mean(20) < truth
