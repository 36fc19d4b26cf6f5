"""Planted faults that the exact checks must catch, the paper's own constants among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms.heavy_hitters import HeavyHitters, Level, Settings, Tree, mechanism, output_distribution
from nabladp.mechanisms.heavy_hitters.settings import Notion
from nabladp.privacy import Guarantee, Pure, Rho
from nabladp.privacy.universe import Universe
from nabladp.schema import Attribute, Schema

Plant = Callable[[pytest.MonkeyPatch], None]
BITS = Schema(tuple(Attribute(name, "boolean") for name in "ab"))
LEAVES = Tree.build((2, 2), 2, 2, free_cells=1)


def settings(notion: Notion, levels: list[tuple[int, float]], mu: int, beta: float | None) -> Settings:
    return Settings(notion, LEAVES, mu, tuple(Level(*x) for x in levels), beta, 1, 0, 1, 0.05, 1.0, 1)


def pure(lam: float, beta: float, top: int = 2) -> HeavyHitters:
    return HeavyHitters(Pure(40), notion="pure", settings=settings("pure", [(1, lam), (top, lam)], 1, beta))


CONCENTRATED = HeavyHitters(Rho(40), settings=settings("cdp", [(1, 1.5), (1, 1.5)], 0, None))


def test_the_papers_constants_break_its_claim() -> None:
    """λ = 3/ε and Lap(2/ε), said to be ε-private for every attribute."""
    for epsilon in (0.5, 1.0, 2.0):
        claim = Guarantee.linear(Universe.of(BITS), {"a": Pure(epsilon), "b": Pure(epsilon)})
        audit = exact_audit(pure(3 / epsilon, 2 / epsilon), BITS, 3, guarantee=claim)
        alone = [row for row in audit.refuted if len(row.attributes) == 1]
        assert alone and max(row.tightness for row in alone) > 1.4


def quieter(patch: pytest.MonkeyPatch) -> None:
    """30% less noise than the settings say."""
    true = output_distribution.exact_law

    def run(chosen: Settings, names: Any, counts: Any) -> Any:
        levels = tuple(Level(level.threshold, 0.7 * level.scale) for level in chosen.levels)
        beta = None if chosen.count_scale is None else 0.7 * chosen.count_scale
        return true(replace(chosen, levels=levels, count_scale=beta), names, counts)

    patch.setattr(mechanism, "exact_law", run)


def no_failing(patch: pytest.MonkeyPatch) -> None:
    """Only the string that loses the row is charged."""
    true = mechanism.shared_losses
    patch.setattr(mechanism, "shared_losses", lambda t, x, mu: [(j, e - 1 / x[0].scale) for j, e in true(t, x, mu)])


def one_step(patch: pytest.MonkeyPatch) -> None:
    """One threshold a path, however many there are."""
    patch.setattr(mechanism, "shared_losses", lambda t, x, mu: [((j,), 2 / x[0].scale) for j in range(len(t.sizes))])


def one_count(patch: pytest.MonkeyPatch) -> None:
    """Counts as if one person were in one string only."""
    patch.setattr(mechanism, "counting_loss", lambda lam, beta: 1 / beta)


def no_clip(patch: pytest.MonkeyPatch) -> None:
    """Counts far below a threshold still count."""
    true = output_distribution.TreeLaw._pass_fail

    def unclipped(self: Any, node: Any, count: int) -> Any:
        level = self.settings.level_of(node)
        loose = Level(level.threshold + 100, level.scale)
        moved = replace(self.settings, mu=100, levels=tuple(loose for _ in self.settings.levels))
        return true(output_distribution.TreeLaw(moved, self.table, self.n, True), node, count + 100)

    patch.setattr(output_distribution.TreeLaw, "_pass_fail", unclipped)


def half_a_node(patch: pytest.MonkeyPatch) -> None:
    """A node's price as if one count moved, not two."""
    true = Guarantee.touch
    patch.setattr(Guarantee, "touch", lambda u, on, cost, **kw: true(u, on, Rho(cost.rho / 2)))


def root_only(patch: pytest.MonkeyPatch) -> None:
    """What happens below the root is not charged."""
    true = Guarantee.compose
    patch.setattr(mechanism.Guarantee, "compose", lambda universe, parts: true(universe, list(parts)[-1:]))


def whole_tree_shares(patch: pytest.MonkeyPatch) -> None:
    """All attributes as if they shared one path."""
    true = mechanism.shared_losses
    patch.setattr(mechanism, "shared_losses", lambda t, x, mu: [((0, 1), true(t, x, mu)[0][1])])


PURE: dict[str, tuple[Plant, HeavyHitters]] = {
    "30% less noise": (quieter, pure(1.5, 2.0)),
    "no failing string": (no_failing, pure(1.5, 50.0)),
    "one step a path": (one_step, pure(1.5, 50.0)),
    "all on one path": (whole_tree_shares, pure(1.5, 50.0)),
    "one count moves": (one_count, pure(8.0, 0.5)),
    "no clip": (no_clip, pure(1.0, 50.0, 8)),
}
CDP: dict[str, tuple[Plant, HeavyHitters]] = {
    "30% less noise": (quieter, CONCENTRATED),
    "one count moves": (half_a_node, CONCENTRATED),
    "only the root": (root_only, CONCENTRATED),
}


@pytest.mark.parametrize("name", PURE)
def test_faults_of_the_pure_tree_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, chosen = PURE[name]
    assert exact_audit(chosen, BITS, 3).passed
    plant(monkeypatch)
    assert not exact_audit(chosen, BITS, 3).passed


@pytest.mark.parametrize("name", CDP)
def test_faults_of_the_concentrated_tree_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, chosen = CDP[name]
    assert exact_audit(chosen, BITS, 2).passed
    plant(monkeypatch)
    assert not exact_audit(chosen, BITS, 2).passed
