"""Planted faults that the exact audit must catch, and the paper's slips that cost accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms.heavy_hitters import Level, Settings, Tree
from nabladp.mechanisms.heavy_hitters.settings import Notion
from nabladp.mechanisms.learners.thresholds import ThresholdLearner, mechanism, output_distribution, search
from nabladp.mechanisms.learners.thresholds.design import Design
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

Plant = Callable[[pytest.MonkeyPatch], None]
FLAT = Schema((*(Attribute(n, "integer", low=0, high=int(n != "b")) for n in "abc"), Attribute("y", "boolean")))
THREE = Schema(tuple(Attribute(name, "boolean") for name in "abcy"))
TWO = Schema(tuple(Attribute(name, "boolean") for name in "aby"))


def tree_settings(notion: Notion, sizes: tuple[int, ...], scale: float) -> Settings:
    tree, pure = Tree.build(sizes, 2, 2, free_cells=2), notion == "pure"
    levels = tuple(Level(1, scale) for _ in range(tree.thresholded_levels))
    return Settings(notion, tree, 1 if pure else 0, levels, 1.0 if pure else None, 1, 0, 1, 0.05, 1.0, 1)


def learner(notion: Notion, d: int, search: str = "probes", **scales: float) -> ThresholdLearner:
    """Every step is cheap but those named; a prefix may have any length below d."""
    own = {"select_scale": 9.0, "search_scale": 9.0, "ones_scale": 3.0, "lists": 9.0} | scales
    lists = tree_settings(notion, (2,) * (d - 1), own.pop("lists"))
    design = Design(notion, (2,) * d, tuple(range(d)), search=search, lists=lists, few=-5, **own)
    return ThresholdLearner(Pure(99) if notion == "pure" else Rho(99), "y", notion=notion, design=design)


def refuted(learned: ThresholdLearner, schema: Schema, n: int = 2, claim: Guarantee | None = None) -> bool:
    return not exact_audit(learned, schema, n, guarantee=claim).passed


SOUND = [
    (learner("pure", 2, search_scale=0.5), TWO),
    (learner("pure", 2, select_scale=0.9), TWO),
    (learner("cdp", 2, ones_scale=0.5), TWO),
    (learner("pure", 2, lists=0.7), TWO),
]


@pytest.mark.parametrize(("learned", "schema"), SOUND)
def test_the_sound_mechanisms_pass(learned: ThresholdLearner, schema: Schema) -> None:
    assert not refuted(learned, schema)


# ---- faults in the claim -------------------------------------------------------------------------------------------


def claim_without(learned: ThresholdLearner, schema: Schema, left_out: str) -> Guarantee:
    """The claim with one step charged to nobody."""
    whole, design = learned.guarantee(schema, 2), learned.design
    assert design is not None
    free = {"ones": replace(design, ones_scale=1e9), "search": replace(design, search_scale=1e9)}[left_out]
    assert len(whole.terms) == 4
    return replace(learned, design=free).guarantee(schema, 2)


def test_a_label_step_charged_to_nobody_is_refuted() -> None:
    learned = learner("cdp", 2, ones_scale=0.5)
    assert refuted(learned, TWO, claim=claim_without(learned, TWO, "ones"))


def test_a_search_charged_to_nobody_is_refuted() -> None:
    learned = learner("pure", 2, search_scale=0.5)
    assert refuted(learned, TWO, claim=claim_without(learned, TWO, "search"))


def test_a_search_charged_to_the_label_alone_is_refuted() -> None:
    learned = learner("pure", 2, search_scale=0.4)
    claim = claim_without(learned, TWO, "search") + Guarantee.touch(TWO, "y", Pure(Fraction(5, 2)))
    assert refuted(learned, TWO, claim=claim)


def test_probes_that_are_charged_once_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two probes, the budget of one: a search that ends in the middle tells twice."""
    lists = tree_settings("pure", (2, 1), 9.0)
    design = Design("pure", (2, 1, 2), (0, 1, 2), 9.0, "probes", 0.4, 3.0, lists, few=-5)
    learned = ThresholdLearner(Pure(99), "y", notion="pure", design=design)
    assert design.probes == 2 and not refuted(learned, FLAT)
    monkeypatch.setattr(Design, "probes", 1)
    assert refuted(learned, FLAT)


def test_lists_that_charge_only_the_cut_that_was_found_are_refuted() -> None:
    """The cut is an output: a claim for the shortest prefixes does not cover the others."""
    learned = learner("cdp", 3, lists=0.5)
    assert learned.design is not None
    shorter = mechanism._lists_cost(
        learned.guarantee(THREE, 2).universe,
        ("a",),
        replace(learned.design, cuts=(0, 1), lists=learned.design.lists_up_to(1)),
    )
    rest = replace(learned.design, lists=tree_settings("cdp", (2, 2), 1e6))
    claim = replace(learned, design=rest).guarantee(THREE, 1) + shorter
    assert refuted(learned, THREE, 1, claim)


# ---- faults in the run ---------------------------------------------------------------------------------------------


def louder(name: str, places: list[Any]) -> Plant:
    """Scores that move by two where one is claimed."""
    true = getattr(places[0], name)

    def plant(patch: pytest.MonkeyPatch) -> None:
        for place in places:
            patch.setattr(place, name, lambda *given: 2 * true(*given))

    return plant


def summed_labels(patch: pytest.MonkeyPatch) -> None:
    """The sum over prefixes instead of the largest: one row that moves between two prefixes moves it by two."""

    def both(found: Any) -> Any:
        strings, rarer = searching_both(found)
        return strings, np.full(len(rarer), rarer.sum() * 2)

    searching_both = search._both_labels
    patch.setattr(search, "_both_labels", both)


@pytest.mark.parametrize(
    ("plant", "learned", "schema"),
    [
        (louder("polarization", [output_distribution]), learner("pure", 2, search_scale=0.5), TWO),
        (louder("mistakes", [output_distribution]), learner("pure", 2, select_scale=0.9), TWO),
        (louder("pick_scores", [search]), learner("pure", 2, "pick", search_scale=0.4), TWO),
        (summed_labels, learner("pure", 2, search_scale=0.5), TWO),
    ],
    ids=["probes of sensitivity two", "mistakes counted twice", "a pick of sensitivity two", "a sum for a maximum"],
)
def test_a_fault_is_refuted(
    plant: Plant, learned: ThresholdLearner, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not refuted(learned, schema)
    plant(monkeypatch)
    assert refuted(learned, schema)


def test_a_pick_priced_at_half_its_range_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numerator and normaliser both move: 1/s is not enough, 2/s is."""
    learned = learner("pure", 2, select_scale=0.9)
    monkeypatch.setattr(Design, "_pick", lambda self, scale: Pure(1 / Fraction(scale)))
    assert refuted(learned, TWO, 3)


# ---- slips of the paper that cost accuracy -------------------------------------------------------------------------

ERRATA = Schema((*(Attribute(f"b{i}", "boolean") for i in range(20)), Attribute("y", "boolean")))


def share_wrong(codes: tuple[int, ...], rows: Any, labels: Any) -> float:
    above = search.count_reached(list(rows.T), np.array([codes], np.uint32))
    return float((above != labels).mean())


@pytest.mark.parametrize("positive", [0, 1])
def test_the_trivial_answers_as_printed_err_on_nearly_everyone(positive: int) -> None:
    """Few ones: the largest threshold errs on few, Thresh_0…0 (the paper's) on nearly all; and the other way round."""
    draws = np.random.default_rng(5)
    rows = draws.integers(0, 2, (3000, 20))
    labels = np.full(3000, positive)
    table = CodedTable(ERRATA, {f"b{i}": rows[:, i] for i in range(20)} | {"y": labels})
    found = ThresholdLearner(CDP(1), "y").run(table, NoiseSource.seeded(4))
    assert found.prefix is None and found.codes == ((0,) * 20 if positive else (1,) * 20)
    printed = (1,) * 20 if positive else (0,) * 20
    assert share_wrong(found.codes, rows, labels) < 0.001 and share_wrong(printed, rows, labels) > 0.999


def test_accepting_a_prefix_at_the_papers_mark_may_miss_the_one_that_is_known_to_exist() -> None:
    """A probe at 1.5γ with noise 0.1γ only shows a 1.4γ-polarizing prefix; counts may be 0.1γ low: 1.3γ is safe."""
    gamma = 100
    polar = 140  # passes the probe with noise + 10, within its bound
    counted = polar - 10
    assert polar + 10 >= 1.5 * gamma and counted < 1.5 * gamma and counted >= 1.3 * gamma


@pytest.mark.parametrize("search", ["probes", "pick"])
def test_the_search_covers_every_length(search: str) -> None:
    """The paper counts lengths 0 … log d. A threshold behind a long common prefix is found all the same."""
    draws = np.random.default_rng(6)
    rows = np.tile(draws.integers(0, 2, 20), (3000, 1))
    rows[:, 18:] = draws.integers(0, 2, (3000, 2))
    labels = (rows[:, 18] * 2 + rows[:, 19] >= 2).astype(int)
    table = CodedTable(ERRATA, {f"b{i}": rows[:, i] for i in range(20)} | {"y": labels})
    found = ThresholdLearner(CDP(1), "y", search=search).run(table, NoiseSource.seeded(4))
    assert found.prefix is not None and found.prefix > 5
    assert share_wrong(found.codes, rows, labels) < 0.05
