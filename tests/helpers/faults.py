"""A zoo of faults: small realistic slips in our own mechanisms, each of which some audit must catch.

A fault is planted by replacing a name or two in the library. Those in a claim, or in code that ``run`` and
``distribution`` share, are for the exact audit. Those in ``run`` alone are for the statistical one, as ``distribution``
is a model of ``run`` and knows nothing of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from nabladp.audit import exact_audit, statistical_audit
from nabladp.mechanisms import Law
from nabladp.mechanisms.distribution_estimate import DistributionEstimate
from nabladp.mechanisms.gram_matrix import GramMatrix
from nabladp.mechanisms.gram_matrix import mechanism as gram
from nabladp.mechanisms.heavy_hitters import HeavyHitters, Level, Settings, Tree, loss
from nabladp.mechanisms.heavy_hitters import mechanism as tree
from nabladp.mechanisms.heavy_hitters.engine import finding
from nabladp.mechanisms.heavy_hitters.settings import Notion
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner, response
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.learners.thresholds import mechanism as thresholds
from nabladp.mechanisms.learners.thresholds.design import Design
from nabladp.mechanisms.mwem import MWEM, machine, rounds, selection
from nabladp.mechanisms.mwem.machine import Machine
from nabladp.mechanisms.mwem.updates import update_named
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.noisy_marginals import mechanism as marginals
from nabladp.mechanisms.projection import Projection
from nabladp.mechanisms.projection.calibration import Calibration
from nabladp.mechanisms.scales import least_scale
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.mechanisms.synthesis import design as synthesis
from nabladp.noise import NoiseSource
from nabladp.noise.bits import SeededBits, SystemBits
from nabladp.privacy import CDP, Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable
from nabladp.workloads import Conjunctions, Marginals

How = Literal["exact", "statistical", "side door"]


class Patches:
    """Names replaced for a while: what is set inside ``with`` is undone after it."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, target: Any, name: str, value: Any) -> None:
        self._before.append((target, name, vars(target)[name]))  # as it is stored: a class method stays one
        setattr(target, name, value)

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:
            target, name, value = self._before.pop()
            setattr(target, name, value)


Plant = Callable[[Patches], None]


@dataclass(frozen=True)
class Fault:
    """``mechanism`` is sound on ``schema`` until the fault is planted."""

    name: str
    mechanism: Any
    schema: Schema
    plant: Plant
    n: int = 2
    how: How = "exact"
    derive: Mapping[str, Any] | None = None
    claimed_for: int | None = None  # rows to ask the claim for, where one row alone is refused
    options: Mapping[str, Any] = field(default_factory=dict)  # of the statistical audit

    def planted(self) -> Patches:
        patches = Patches()
        self.plant(patches)
        return patches

    def refuted(self, noise: NoiseSource | None = None) -> bool:
        """Whether the audit finds fault with the mechanism as it now is."""
        if self.how == "exact":
            claim = None if self.claimed_for is None else self.mechanism.guarantee(self.schema, self.claimed_for)
            return not exact_audit(self.mechanism, self.schema, self.n, derive=self.derive, guarantee=claim).passed
        if self.how == "statistical":
            options = {"rows": self.n, "noise": noise, **self.options}
            return not statistical_audit(self.mechanism, self.schema, **options).passed
        return runs_repeat(self.mechanism, self.schema)


def runs_repeat(mechanism: Any, schema: Schema, rows: int = 40, times: int = 20) -> bool:
    """The side door of known noise: runs with noise of their own that all say the same."""
    draws = NoiseSource.seeded(1)
    table = CodedTable(schema, {a.name: draws.uniform_integers(a.size, rows) for a in schema})
    first = mechanism.run(table, NoiseSource()).to_json()
    return all(mechanism.run(table, NoiseSource()).to_json() == first for _ in range(times))


# ---- small schemas and settings ------------------------------------------------------------------------------------


def bits(names: str) -> Schema:
    return Schema(tuple(Attribute(name, "boolean") for name in names))


MIXED = Schema((Attribute("a", "boolean"), Attribute("b", "ordered", values=("x", "y", "z"))))
DERIVED = Schema((Attribute("age", "integer", low=0, high=3), Attribute("band", "boolean", derived_from=("age",))))
BANDS = {"band": lambda record: record["age"] // 2}


def settings(notion: Notion, levels: list[tuple[int, float]], beta: float | None = None, d: int = 2) -> Settings:
    """A tree over bits. One level: leaves are free, and only pairs have to pass."""
    made = Tree.build((2,) * d, 2, 2, free_cells=2 if len(levels) == 1 else 1)
    mu = 1 if notion == "pure" else 0
    return Settings(notion, made, mu, tuple(Level(*x) for x in levels), beta, 1, 0, 1, 0.05, 1.0, 1)


def pure_tree(lam: float, beta: float) -> HeavyHitters:
    return HeavyHitters(Pure(40), notion="pure", settings=settings("pure", [(1, lam), (2, lam)], beta))


# ---- claims that are too small -------------------------------------------------------------------------------------


def no_source(patches: Patches) -> None:
    """A derived column is taken for an attribute of its own; its source pays nothing."""
    true = Guarantee.touch

    def touch(universe: Any, columns: Any, cost: Any, **more: Any) -> Guarantee:
        own = [name for name in columns if name in universe.roots]
        return true(universe, own, cost, **more) if own else Guarantee.none(universe)

    patches.set(marginals, "Guarantee", SimpleNamespace(touch=touch, compose=Guarantee.compose))


def dearest_level_only(patches: Patches) -> None:
    """The budget is not split over the levels: every level is priced as if it were the only one."""

    def largest(universe: Any, parts: Any) -> Guarantee:
        return max(parts, key=lambda part: part.rho(universe.protected))

    patches.set(tree, "Guarantee", SimpleNamespace(touch=Guarantee.touch, compose=largest))


def one_count_moves(patches: Patches) -> None:
    """A node's price as if a row that leaves one string entered no other."""

    def touch(universe: Any, columns: Any, cost: Any, **_: Any) -> Guarantee:
        return Guarantee.touch(universe, columns, Rho(cost.rho / 2))

    patches.set(tree, "Guarantee", SimpleNamespace(touch=touch, compose=Guarantee.compose))


def label_is_free(kind: type) -> Plant:
    """Features pay, the label does not."""
    true = kind.guarantee  # type: ignore[attr-defined]

    def claim(self: Any, schema: Schema, n: int) -> Guarantee:
        whole = true(self, schema, n)
        return Guarantee.linear(schema, {x: Rho(whole.rho(x)) for x in schema.names if x != self.label})

    return lambda patches: patches.set(kind, "guarantee", claim)


def papers_lists(patches: Patches) -> None:
    """λ = 3/ε is said to make lists 0.5·ε-private: 1.5/λ for every attribute."""
    patches.set(loss, "finding_losses", lambda t, levels, mu: [1.5 / levels[0].scale] * len(t.sizes))


def papers_counts(patches: Patches) -> None:
    """Lap(2/ε) is said to make counts 0.5·ε-private: 1/β, as if one person were in one string only."""
    patches.set(tree, "counting_loss", lambda lam, beta: 1 / beta)


def papers_constants(patches: Patches) -> None:
    papers_lists(patches)
    papers_counts(patches)


def picks_only(patches: Patches) -> None:
    """A round charges its pick; its answers are taken for a part of it."""

    def claim(self: Any, universe: Any, block: Any) -> Guarantee:
        return Guarantee.linear(universe, {name: CDP(self.selection[name] / 2**60) for name in self.selection})

    patches.set(rounds.Prices, "guarantee", claim)


def equal_rounds_once(patches: Patches) -> None:
    """Parts are put together as a set: of two rounds that cost the same, one is charged."""
    true = Guarantee.compose

    def compose(universe: Any, parts: Any) -> Guarantee:
        kept: list[Guarantee] = []
        for part in parts:
            if part not in kept:
                kept.append(part)
        return true(universe, kept)

    own = SimpleNamespace(linear=Guarantee.linear, squares=Guarantee.squares, compose=compose)
    patches.set(rounds, "Guarantee", own)


def half_the_response(patches: Patches) -> None:
    """Labels are kept as likely as ε allows, and ε/2 is charged."""
    true = response.response_epsilon
    patches.set(response, "response_epsilon", lambda size, keep: true(size, keep) / 2)


def one_answer_moves(patches: Patches) -> None:
    """Each group of answers is charged as if a row that leaves a cell entered none."""
    true = Calibration._cost

    def cost(self: Calibration, group: Any, scale: float) -> Guarantee:
        return true(self, group, scale * 2**0.5)

    patches.set(Calibration, "_cost", cost)


def one_column_flips(patches: Patches) -> None:
    """A change of one attribute is charged for one product, not for all that its column is in."""
    true = GramMatrix.guarantee

    def claim(self: GramMatrix, schema: Schema, n: int) -> Guarantee:
        width = self.calibration(schema).columns.width - 1
        whole = true(self, schema, n).per_attribute()
        return Guarantee.linear(schema, {name: Rho(figure.rho / width) for name, figure in whole.items()})

    patches.set(GramMatrix, "guarantee", claim)


# ---- noise that is too small, in run and distribution alike --------------------------------------------------------


def scale_07(module: Any) -> Plant:
    return lambda patches: patches.set(module, "least_scale", lambda *given: 0.7 * least_scale(*given))


def sensitivity_one(patches: Patches) -> None:
    """A row leaves a cell and enters another: two move, one was thought of."""
    patches.set(marginals, "least_scale", lambda noise, units, moved: least_scale(noise, units, 1))


# ---- the joint pick ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JointPick:
    """The pick of one round of MWEM by itself, with the claim that its price rests on (PROOF.md, bounded range).

    Where every score moves by e at most, the log ratio of a set of picks, disjoint in their attributes, has range 2·e
    for every attribute that changes.
    """

    mechanism: MWEM

    def _machine(self, schema: Schema, n: int) -> Machine:
        return self.mechanism._machine(schema, n)

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        step = float(self._machine(schema, n).scores.coefficients.max())
        return Guarantee.linear(schema, schema.names, Pure(2 * step * (1 + 1e-9)))

    def distribution(self, counts: Any) -> Law:
        own = self._machine(counts.schema, counts.n)
        guess = update_named("fit", own.cube, 1).answers()
        scores = own.scores.of(own.queries.counts(counts), guess)
        (selector,) = own.selectors(0)
        return Law((np.array([log_chance for _, log_chance in selector.law(scores)]),))


def with_packings(law_of_sets: Callable[[Any, Any], dict[tuple[int, ...], float]]) -> Plant:
    """Sets are picked by another law; the queries inside them as before."""

    def law(self: Any, scores: Any) -> Any:
        inside = [selection._log_law(scores[a:b]) for a, b in self.ranges]
        chances = law_of_sets(self, self._together(scores[self.queries]))
        for packing in sorted(chances):
            for choice in itertools.product(*(range(len(inside[i])) for i in packing)):
                picked = tuple(self.ranges[i][0] + c for i, c in zip(packing, choice, strict=True))
                yield picked, chances[packing] + sum(inside[i][c] for i, c in zip(packing, choice, strict=True))

    return lambda patches: patches.set(selection.Selector, "law", law)


def greedy(self: Any, weights: Any) -> dict[tuple[int, ...], float]:
    """One after another, each by the exponential mechanism among those that are still disjoint."""
    masks, law = self.block.masks, {}

    def pick(chosen: tuple[int, ...], used: int, log_chance: float) -> None:
        if len(chosen) == self.block.count:
            key = tuple(sorted(chosen))
            law[key] = float(np.logaddexp(law.get(key, -np.inf), log_chance))
            return
        left = [i for i, mask in enumerate(masks) if not mask & used]
        total = float(np.logaddexp.reduce(weights[left]))
        for i in left:
            pick((*chosen, i), used | masks[i], log_chance + weights[i] - total)

    pick((), 0, 0.0)
    return law


def overlapping(self: Any, weights: Any) -> dict[tuple[int, ...], float]:
    """Any sets, whether they share attributes or not."""
    every = list(itertools.combinations(range(len(weights)), self.block.count))
    totals = np.array([weights[list(chosen)].sum() for chosen in every])
    return dict(zip(every, totals - np.logaddexp.reduce(totals), strict=True))


# ---- faults in run alone -------------------------------------------------------------------------------------------


def on_tables(change: Callable[[Any, Any], Any]) -> Plant:
    """Every noisy table, and what it is made from, goes through ``change(true, noisy)``."""
    true = NoisyMarginals._with_noise

    def with_noise(self: Any, tables: Any, scales: Any, noise: Any) -> Any:
        return [change(*pair) for pair in zip(tables, true(self, tables, scales, noise), strict=True)]

    return lambda patches: patches.set(NoisyMarginals, "_with_noise", with_noise)


def first_cell_exact(held: Any, noisy: Any) -> Any:
    """Off by one: noise from the second cell on."""
    noisy.ravel()[0] = held.ravel()[0]
    return noisy


def clamped_by_data(held: Any, noisy: Any) -> Any:
    """Noisy counts are cut to the range of the true ones."""
    return noisy.clip(held.min(), held.max())


def empty_cells_stay_empty(held: Any, noisy: Any) -> Any:
    """Noise only where somebody is."""
    return np.where(held == 0, 0, noisy)


def seeded(patches: Patches) -> None:
    """For runs that can be repeated, every process seeds its generator, all alike."""

    def words(self: SystemBits, count: int) -> Any:
        own: SeededBits = self.__dict__.setdefault("own", SeededBits(42))
        return own.words(count)

    patches.set(SystemBits, "words", words)


def only_candidates_that_occur(patches: Patches) -> None:
    """Strings in no row are never listed: it saves so much time."""
    patches.set(finding, "let_through", lambda level, rule, noise: [np.empty(0, np.int64) for _ in level])


def one_draw_a_round(patches: Patches) -> None:
    """The size of the draw is forgotten: all answers of a round share one noise, and differences have none."""

    def noise_of(self: Machine, chosen: Any, noise: NoiseSource) -> Any:
        return np.zeros(len(chosen), np.int64) + noise.discrete_gaussian(float(self.scale[chosen[0]]), 1)

    patches.set(Machine, "noise", noise_of)


def best_query(patches: Patches) -> None:
    """The query with the largest error is picked, with no randomness."""
    patches.set(selection, "_pick", lambda scores, noise: int(np.argmax(scores)))


def half_the_noise(patches: Patches) -> None:
    """The scale is that of an entry, and an entry is twice a count: it is halved once too often."""
    true = gram._drawn
    patches.set(gram, "_drawn", lambda scales, noise: true(scales / 2, noise))


def counts_from_the_table(patches: Patches) -> None:
    """What is frequent was found privately, and is then counted once more, exactly."""
    true = DistributionEstimate.run

    def run(self: DistributionEstimate, counts: Any, noise: NoiseSource) -> Any:
        found = true(self, counts, noise)
        held = counts.marginals([found.names])[0]
        return dataclasses.replace(found, counts=held[tuple(found.codes.T)])

    patches.set(DistributionEstimate, "run", run)


def without_false_ones(patches: Patches) -> None:
    """Combinations that nobody has are taken off the list before it is shown."""
    true = HeavyHitters.run

    def run(self: HeavyHitters, counts: Any, noise: NoiseSource) -> Any:
        found = true(self, counts, noise)
        held = counts.marginals([found.names])[0]
        return found._take(held[tuple(found.codes.T)] > 0)

    patches.set(HeavyHitters, "run", run)


def mistakes_in_percent(patches: Patches) -> None:
    """Scores of another unit: a hundred times as loud as the scale is made for."""
    true = thresholds.mistakes
    patches.set(thresholds, "mistakes", lambda *given: 100 * true(*given))


def true_labels(patches: Patches) -> None:
    """The response is charged, and labels are used as they are."""

    def rows(self: response.Response, counts: Any, noise: NoiseSource) -> Any:
        return response.AnsweredRows(counts, self, lambda labels, first: labels)

    patches.set(response.Response, "rows", rows)


# ---- all of them ---------------------------------------------------------------------------------------------------

ONE_WAY = NoisyMarginals(CDP(1.0), k=1)
ANSWERS = MWEM(CDP(2), Conjunctions(1), rounds=1, selection=0.05)
BY_BAND = NoisyMarginals(CDP(1.0), sets=(("band",),))
LAPLACE = NoisyMarginals(Pure(1.0), k=1, noise="laplace")
AB, ABY = bits("ab"), bits("aby")
LABEL_FIRST: dict[str, Any] = {"method": "average", "label_treatment": "response"}
DESIGN = Design("cdp", (2, 2), (0, 1), 9.0, "probes", 9.0, 0.5, settings("cdp", [(1, 9.0)], d=1), few=-5)

EXACT = (
    Fault("scale x 0.7 (Laplace)", LAPLACE, MIXED, scale_07(marginals)),
    Fault("scale x 0.7 (Gaussian)", ANSWERS, AB, scale_07(machine), n=1),
    Fault("sensitivity 1 for 2", LAPLACE, MIXED, sensitivity_one),
    Fault("one answer moves", Projection(CDP(1.0), Marginals(sets=(("a", "b"), ("a",)))), MIXED, one_answer_moves),
    Fault("one product flips", GramMatrix(Rho(0.5)), AB, one_column_flips, n=1),
    Fault("the paper's lambda = 3/eps", pure_tree(1.5, 50.0), AB, papers_lists, n=3),
    Fault("the paper's Lap(2/eps)", pure_tree(8.0, 0.5), AB, papers_counts, n=3),
    Fault("both constants of the paper", pure_tree(3.0, 2.0), AB, papers_constants, n=3),
    Fault(
        "greedy at the joint price",
        JointPick(MWEM(CDP(4), Conjunctions(1), rounds=1, per_round=4, selection=0.95)),
        bits("abcde"),
        with_packings(greedy),
        n=1,
    ),
    Fault(
        "packings that overlap",
        MWEM(CDP(2), Conjunctions(2), rounds=1, selection=0.05),
        bits("abcd"),
        with_packings(overlapping),
        n=1,
    ),
    Fault(
        "levels priced as one",
        HeavyHitters(Rho(40), settings=settings("cdp", [(1, 1.5), (1, 1.5)])),
        AB,
        dearest_level_only,
    ),
    Fault(
        "one count of a node moves",
        DistributionEstimate(Rho(9), settings=settings("cdp", [(1, 1.2)])),
        AB,
        one_count_moves,
    ),
    Fault("derived column not charged", BY_BAND, DERIVED, no_source, n=1, derive=BANDS),
    Fault(
        "label not charged (points)",
        PointLearner(Rho(9), "b", settings=settings("cdp", [(1, 1.2)])),
        AB,
        label_is_free(PointLearner),
    ),
    Fault(
        "label not charged (thresholds)",
        ThresholdLearner(Rho(99), "y", design=DESIGN),
        ABY,
        label_is_free(ThresholdLearner),
    ),
    Fault(
        "label not charged (halfspaces)",
        HalfspaceLearner(CDP(1), "y", method="average", label_treatment="gaussian"),
        ABY,
        label_is_free(HalfspaceLearner),
    ),
    Fault("picks charged, answers not", ANSWERS, AB, picks_only, n=1),
    Fault(
        "equal rounds charged once",
        MWEM(CDP(2), Conjunctions(1), rounds=2, per_round=1, selection=0.2),
        AB,
        equal_rounds_once,
        n=1,
    ),
    Fault(
        "scale x 0.7 (rounds that choose)",
        Synthesis(CDP(2), 1, strategy="packed", one_way=0, rounds=1, selection=0.05),
        AB,
        scale_07(synthesis),
        n=1,
    ),
    Fault(
        "response off by eps/2",
        HalfspaceLearner(CDP(1), "y", **LABEL_FIRST),
        ABY,
        half_the_response,
        n=1,
        claimed_for=2,
    ),
)

SIDE_DOORS = (Fault("noise seeded per process", ONE_WAY, MIXED, seeded, how="side door"),)


def black_box(n: int, runs: int, *changed: str, others: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Options of a short audit: one row changes on these attributes from first to second values, all others stay."""
    rest = [others or {}] * (n - 1)
    pair = [*rest, {}], [*rest, dict.fromkeys(changed, 1)]
    return {"n": n, "how": "statistical", "options": {"sets": (changed,), "pairs": [pair], "runs": runs}}


QUICK: dict[str, Any] = {"how": "statistical", "options": {"sets": ("a",), "runs": 2000}}  # pairs are looked for
ROUND: dict[str, Any] = {"rounds": 1, "update": "paper", "rows": 0}
LISTED = HeavyHitters(Rho(9), settings=settings("cdp", [(1, 8.0)]))
STATISTICAL = (
    Fault("a cell without noise", ONE_WAY, MIXED, on_tables(first_cell_exact), **QUICK),
    Fault("counts clamped by the data", ONE_WAY, MIXED, on_tables(clamped_by_data), **QUICK),
    Fault("empty cells stay empty", ONE_WAY, MIXED, on_tables(empty_cells_stay_empty), **QUICK),
    Fault("half the noise", GramMatrix(Rho(0.5)), AB, half_the_noise, **QUICK),
    Fault("candidates only where rows are", LISTED, AB, only_candidates_that_occur, **black_box(2, 600, "a", "b")),
    Fault("false combinations taken off", LISTED, AB, without_false_ones, **black_box(2, 600, "a", "b")),
    Fault(
        "counts from the table itself",
        DistributionEstimate(Rho(9), settings=settings("cdp", [(1, 4.0)])),
        AB,
        counts_from_the_table,
        **black_box(40, 240, "a"),
    ),
    Fault(
        "one draw for all answers",
        MWEM(CDP(1), Conjunctions(1), selection=0.1, **ROUND),
        AB,
        one_draw_a_round,
        **black_box(2, 240, "a"),
    ),
    Fault(
        "the worst query for certain",
        MWEM(CDP(1), Conjunctions(1), per_round=1, selection=0.9, **ROUND),
        AB,
        best_query,
        **black_box(2, 240, "a"),
    ),
    Fault(
        "mistakes in per cent",
        ThresholdLearner(Rho(99), "y", design=dataclasses.replace(DESIGN, ones_scale=9.0)),
        ABY,
        mistakes_in_percent,
        **black_box(2, 400, "y", others={"a": 1, "b": 1, "y": 1}),
    ),
    Fault(
        "labels used as they are",
        HalfspaceLearner(CDP(2), "y", label_epsilon=0.5, **LABEL_FIRST),
        ABY,
        true_labels,
        **black_box(2, 240, "y"),
    ),
)

FAULTS: tuple[Fault, ...] = EXACT + STATISTICAL + SIDE_DOORS
