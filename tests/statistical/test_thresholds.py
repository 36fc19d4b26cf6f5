"""A run draws what its exact law says: accepted as it is, rejected with 30% less or more noise in any step."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from nabladp.mechanisms.heavy_hitters import Level, Settings, Tree
from nabladp.mechanisms.heavy_hitters.settings import Notion
from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.learners.thresholds.design import Design
from nabladp.mechanisms.learners.thresholds.search import (
    candidate_thresholds,
    log_tails,
    mistakes,
    polarization,
    search_law,
    selection_law,
)
from nabladp.noise import NoiseSource
from nabladp.privacy import Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SCHEMA = Schema(tuple(Attribute(name, "boolean") for name in "aby"))
ROWS = {
    "a": [0] * 5 + [1] * 7,
    "b": [0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1],
    "y": [0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 1, 0],
}
TABLE = CodedTable(SCHEMA, ROWS)
RUNS, FEWER, FEW, TAU = 3000, 1200, 2, 5
PARTS = ("ones_scale", "search_scale", "lists", "select_scale")


def learner(notion: Notion, search: str, **louder: float) -> ThresholdLearner:
    pure, tree = notion == "pure", Tree.build((2,), 2, 2, free_cells=1)
    levels = (Level(TAU, 3.0 * louder.get("lists", 1)),)
    lists = Settings(notion, tree, 2 if pure else 0, levels, 1.0 if pure else None, 1, 0, 1, 0.05, 1.0, 1)
    design = Design(
        notion,
        (2, 2),
        (0, 1),
        select_scale=2.0 * louder.get("select_scale", 1),
        search=search,
        search_scale=2.5 * louder.get("search_scale", 1),
        ones_scale=3.0 * louder.get("ones_scale", 1),
        lists=lists,
        target=2,
        search_error=1,
        few=FEW,
    )
    return ThresholdLearner(Pure(99) if pure else Rho(99), "y", notion=notion, design=design)


def chances(learned: ThresholdLearner) -> dict[tuple[int | None, tuple[int, ...]], float]:
    """Of every prefix length with every threshold."""
    design, ones, n = learned.design, sum(ROWS["y"]), TABLE.n
    assert design is not None and design.lists is not None
    few = math.exp(log_tails(design.notion, design.ones_scale, FEW + 1 - ones)[1])
    many = math.exp(log_tails(design.notion, design.ones_scale, n - FEW - ones)[0])
    found: Counter[tuple[int | None, tuple[int, ...]]] = Counter({(None, (1, 1)): few, (None, (0, 0)): many})
    places = np.exp(search_law(design, polarization(TABLE, ("a", "b"), "y", design))) * (1 - few - many)
    passing = []
    for count in (5, 7):
        above = max(count - TAU, -design.lists.mu) if design.notion == "pure" else count - TAU
        passing.append(math.exp(log_tails(design.notion, design.lists.levels[0].scale, 1 - above)[0]))
    lists = {(0, np.empty((1, 0), np.int64).tobytes()): (np.empty((1, 0), np.int64), float(places[0]))}
    for subset in ([], [0], [1], [0, 1]):
        chance = math.prod(p if i in subset else 1 - p for i, p in enumerate(passing))
        prefixes = np.array(subset, np.int64).reshape(-1, 1)
        lists[1, prefixes.tobytes()] = prefixes, float(places[1]) * chance
    for (place, _), (prefixes, chance) in lists.items():
        thresholds = candidate_thresholds(design, place, prefixes)
        law = np.exp(selection_law(-mistakes(TABLE, ("a", "b"), "y", thresholds), design.select_scale))
        for codes, p in zip(thresholds.tolist(), law, strict=True):
            found[place, tuple(codes)] += chance * p
    return dict(found)


@pytest.mark.parametrize(
    ("notion", "search"), [("pure", "probes"), ("cdp", "probes"), ("pure", "pick"), ("cdp", "pick")]
)
def test_runs_follow_their_law(notion: Notion, search: str) -> None:
    learned, noise = learner(notion, search), NoiseSource.seeded(21)
    runs = [learned.run(TABLE, noise) for _ in range(FEWER)]
    seen = Counter((model.prefix, model.codes) for model in runs)

    def p_value(law: dict[tuple[int | None, tuple[int, ...]], float]) -> float:
        assert seen.keys() <= law.keys() and math.fsum(law.values()) == pytest.approx(1)
        return float(chisquare([seen[outcome] for outcome in law], [FEWER * p for p in law.values()]).pvalue)

    assert p_value(chances(learned)) > 1e-4
    for part in PARTS[:1] + PARTS[3:]:
        assert min(p_value(chances(learner(notion, search, **{part: f}))) for f in (0.5, 2.0)) < 1e-4, part


@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_the_search_alone_follows_its_law(notion: Notion) -> None:
    """Many cuts at once, so that 30% of its noise can be told apart."""
    from nabladp.mechanisms.learners.thresholds.search import search

    tree = Tree.build((2,) * 8, 2, 2, 2)
    levels = tuple(Level(4, 2.0) for _ in range(tree.thresholded_levels))
    pure = notion == "pure"
    lists = Settings(notion, tree, 1 if pure else 0, levels, 1.0 if pure else None, 1, 0, 1, 0.05, 1.0, 1)
    polar = np.array([30, 26, 22, 18, 14, 10, 6, 2])
    for way, noise in (("probes", NoiseSource.seeded(3)), ("pick", NoiseSource.seeded(4))):
        design = Design(notion, (2,) * 9, tuple(range(9)), 1.0, way, 5.0, lists=lists, target=12, search_error=4)
        seen = Counter(search(design, polar, noise) for _ in range(RUNS))

        def p_value(factor: float, design: Design = design, seen: Counter[int] = seen) -> float:
            law = np.exp(search_law(replace(design, search_scale=5.0 * factor), polar))
            often = law * RUNS > 5
            told = np.array([float(seen[i]) for i in range(len(law))])
            told, wanted = (np.append(x[often][0] + x[~often].sum(), x[often][1:]) for x in (told, law * RUNS))
            return float(chisquare(told, wanted).pvalue)

        assert p_value(1.0) > 1e-4 > max(p_value(0.7), p_value(1.3))
