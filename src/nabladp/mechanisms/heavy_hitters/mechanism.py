"""HeavyHitters: the frequent combinations of very many attributes (`alg:priv-tree`, mended). Proof in PROOF.md."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nabladp.arrays import Integers
from nabladp.errors import BudgetError, MechanismError, NablaDPError
from nabladp.mechanisms.allocation import limited_by, source_units
from nabladp.mechanisms.heavy_hitters.certificate import Sieve, certify
from nabladp.mechanisms.heavy_hitters.output import HeavyHittersError, HeavyList
from nabladp.mechanisms.heavy_hitters.output_distribution import exact_law, list_scenarios, root_scenarios
from nabladp.mechanisms.heavy_hitters.planner import plan
from nabladp.mechanisms.heavy_hitters.privacy_loss import (
    counting_loss,
    least_path_lambda,
    losses,
    path_loss,
    shared_losses,
)
from nabladp.mechanisms.heavy_hitters.search import check, find
from nabladp.mechanisms.heavy_hitters.settings import MEMORY, NOTION, SETTINGS, Notion, Settings, check_notion
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Flag, Names, Share
from nabladp.mechanisms.mechanism import Law, Mechanism, Records, Scenario, check_asked
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.mechanisms.parameters import parameter
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT, to_float
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, Pure, Rho
from nabladp.schema import Schema

if TYPE_CHECKING:
    from nabladp.tables import Counts

_WITHIN = 1 - 1e-9  # of a budget is planned for, so that costs rounded up still fit


@dataclass(frozen=True)
class HeavyHitters(Mechanism):
    """Every combination of values of ``over`` (default: all source attributes) that many rows share, with its count.

    ``budget`` is the budget of every source attribute (``budgets`` names exceptions): Pure for ``notion="pure"``, CDP,
    Rho or Approx for ``"cdp"``. ``failure`` is the probability with which the certificate may fail; ``frequency``
    limits it to combinations with at least this share of the rows; ``count_share`` is the share of a pure budget
    for the counts. A run that might need more than ``memory_mb`` is refused before anything is spent. ``lists``
    also publishes the list of every node of the tree. ``settings`` replace the planner's choice.

    Guarantee. Pure: ``touch`` for every group of attributes that share a path, for the lists, and of all for the counts
    (`thm:heavy-hitters-main` with its constants corrected). Concentrated: ``touch`` for every node of the tree.
    Assumed: the number of rows is public and one row is one person.
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind(), "The budget of every source attribute."))
    over: tuple[str, ...] | None = field(
        default=None, metadata=parameter(Names(), "The attributes to combine; by default all that are not derived.")
    )
    notion: str = field(default="cdp", metadata=NOTION)
    failure: float = field(
        default=0.05, metadata=parameter(Share(), "The probability with which the certificate may fail.")
    )
    frequency: float | None = field(
        default=None, metadata=parameter(Share(), "Certifies only combinations with at least this share of the rows.")
    )
    count_share: float | None = field(
        default=None, metadata=parameter(Share(), "The share of a pure budget that the counts get.")
    )
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(Budgets(), "Attributes with a budget other than `budget`.")
    )
    lists: bool = field(
        default=False,
        metadata=parameter(Flag(), "Whether to publish also what every node of the tree listed.", stored="changed"),
    )
    memory_mb: int = field(default=4096, metadata=MEMORY)
    settings: Settings | None = field(default=None, metadata=SETTINGS)
    plans_for_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_notion(self.notion, self.budget, self.budgets, self.settings)
        if self.count_share is not None and self.notion == "cdp":
            raise MechanismError(
                "'count_share' goes with notion = 'pure'.", fix="The concentrated tree's counts cost nothing more."
            )

    # ---- before data ----------------------------------------------------------------------------------------------

    def reads(self, schema: Schema) -> tuple[str, ...]:
        check_asked(schema)
        names = schema.roots if self.over is None else self.over
        schema.sizes(names)
        return names

    def plan(self, schema: Schema, n: int) -> Settings:
        """The HeavyHitters settings with the smallest certified count, from public facts only; or those given,
        certified for n."""
        names = self.reads(schema)
        sizes, limits = schema.sizes(names), list(self._column_limits(schema, names).values())
        if self.settings is not None:
            return self._given(self.settings, sizes, limits, n)
        options = self.failure, self.notion, self.count_share, self.frequency, self.memory_mb
        return _planned(sizes, tuple(_WITHIN * float(limit) for limit in limits), n, *options)

    def _given(self, settings: Settings, sizes: Sequence[int], limits: Sequence[Fraction], n: int) -> Settings:
        check(settings, sizes, n or None, self.memory_mb * 2**20)
        if any(loss > limit for loss, limit in zip(losses(settings), limits, strict=True)):  # [given]
            raise BudgetError("The settings cost an attribute more than its budget.", fix="Raise the budget.")
        try:
            sieve = Sieve.of(settings)
            return certify(settings.tree, sieve, settings.count_scale, n, self.failure, self.frequency)
        except ValueError:  # nothing can be promised: they may be run all the same
            return replace(settings, certified=n + 1, unlisted=n + 1, failure=self.failure)

    def _column_limits(self, schema: Schema, names: Sequence[str]) -> dict[str, Fraction]:
        """The budget of every column in ``over``: its sources' budgets, shared by the columns of a source."""
        universe = Universe.of(schema)
        units = source_units(universe, self.budget, self.budgets)
        columns = Counter(source for name in names for source in universe.sources(name))
        return {  # [columns]
            name: Fraction(min(units[source] // columns[source] for source in limited_by(universe, [name])), UNIT)
            for name in names
        }

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        names, universe = self.reads(schema), Universe.of(schema)
        if not n and self.settings is None:  # [any-rows]
            least = min(self._column_limits(schema, names).values())  # noise follows the smallest
            if self.notion == "pure":
                return Guarantee.linear(universe, names, Pure(least))
            return Guarantee.squares(universe, names, Rho(least))
        settings = self.plan(schema, n)
        lists = lists_cost(universe, names, settings)
        if settings.count_scale is None:
            return lists
        return lists + Guarantee.touch(universe, names, Pure(self._counting(settings)))

    def expected_error(self, schema: Schema, n: int) -> HeavyHittersError:
        """The HeavyHitters certificate; nothing of it is known before the number of rows is."""
        check_asked(schema, n)
        names = self.reads(schema)
        settings = self.plan(schema, n) if n else None
        least = float(min(self._column_limits(schema, names).values()))
        return HeavyHittersError.of(settings, schema.sizes(names), n, least)

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> HeavyList:
        names = self.reads(counts.schema)
        settings = self.plan(counts.schema, counts.n)
        result = find(counts, names, settings, noise, self.memory_mb * 2**20)
        return HeavyList.of(result, settings, names, counts.n, keep_lists=self.lists)

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        return exact_law(self.plan(counts.schema, counts.n), self.reads(counts.schema), counts)

    def with_all_published(self) -> HeavyHitters:
        return replace(self, lists=True)

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        return (list_scenarios if self.lists else root_scenarios)(self.plan(schema, n), law, n)

    def published_values(self, output: HeavyList, schema: Schema, n: int) -> Mapping[Any, int]:
        shown = root_counts(output.codes, output.counts)
        if self.lists:
            settings = self.plan(schema, n) if self.settings is None else self.settings
            positions = [position for position, node in enumerate(settings.tree.nodes) if node.thresholded]
            for position, result in list(zip(positions, output.node_lists, strict=True))[:-1]:  # the root comes last
                shown |= {(position, tuple(string)): 1 for string in result.codes.tolist()}
        return shown

    def noise_uses(self, schema: Schema, n: int, output: HeavyList) -> list[NoiseUse]:
        return self.histogram_uses(schema, n, output.codes, dict(enumerate(output.list_lengths)), len(output.codes))

    def histogram_uses(
        self,
        schema: Schema,
        n: int,
        codes: Integers | None = None,
        listed: Mapping[int, int] | None = None,
        most_counts: int | None = None,
    ) -> list[NoiseUse]:
        """The noise that HeavyHitters draws: for every candidate of every node, and for the counts of the root's list.

        ``codes`` are some of the root's strings, ``listed`` says how many strings each node listed, where known.
        """
        names, settings = self.reads(schema), self.plan(schema, n)
        charges = list_charges(Universe.of(schema), names, settings)
        uses = list_uses(settings, charges, codes, listed or {})
        if settings.count_scale is not None:
            charge = self._count_charge(Universe.of(schema), names, settings, charges)
            least = 0 if codes is None else len(codes)
            uses.append(NoiseUse("the counts of the root's list", "discrete_laplace", least, most_counts, (charge,)))
        return [*uses, NoiseUse.free("lists cut by lot", "uniform_subset")]

    def _count_charge(
        self, universe: Universe, names: Sequence[str], settings: Settings, lists: Sequence[ListCharge]
    ) -> Charge:
        """The guarantee of the root's counts, which depends on the noise of the lists: the least λ that these are
        charged for."""
        lam = max(least_path_lambda(part.thresholds(settings), settings.mu, part.epsilon) for part in lists)
        cost = Guarantee.touch(universe, names, Pure(self._counting(settings)))
        return Charge(cost, loss=lambda beta: counting_loss(lam, beta))

    @staticmethod
    def _counting(settings: Settings) -> float:
        return counting_loss(settings.levels[0].scale, settings.count_scale or 0.0)  # [counts]

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """Records alike but for T: a string just at a threshold loses a row to another one."""
        return [({}, dict.fromkeys(attributes, 1)), (dict.fromkeys(attributes, 1), {})]

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> HeavyList:
        return HeavyList.from_json(data, schema)


def root_counts(codes: Integers, counts: Integers) -> dict[Hashable, int]:
    """The published count of every string in the root's list."""
    return dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))


def lists_cost(universe: Universe, names: Sequence[str], settings: Settings) -> Guarantee:
    """The guarantee of all lists of the tree; concentrated, also of the noisy counts by which strings passed."""
    return Guarantee.compose(universe, [part.charge.cost for part in list_charges(universe, names, settings)])


@dataclass(frozen=True, eq=False)
class ListCharge:
    """A part of the cost of all lists, and the nodes whose noise it is for, by their positions, lowest first."""

    nodes: tuple[int, ...]
    charge: Charge

    @property
    def epsilon(self) -> float:
        """The ε of this part of the pure tree's lists, for attributes that are public or not."""
        ((term, _),) = self.charge.cost.terms
        return to_float(term.cost(term.support).pure or 0)

    def thresholds(self, settings: Settings) -> list[int]:
        return [settings.level_of(settings.tree.nodes[position]).threshold for position in self.nodes]


def list_charges(universe: Universe, names: Sequence[str], settings: Settings) -> list[ListCharge]:
    """The cost of all lists, in parts. Pure: one for all attributes that share a path. Concentrated: one per node."""
    nodes = [(position, node) for position, node in enumerate(settings.tree.nodes) if node.thresholded]
    results = []
    if settings.notion == "pure":  # [chain] [shared-path]
        for together, loss in shared_losses(settings.tree, settings.levels, settings.mu):
            path = tuple(position for position, node in nodes if together[0] in node.attributes)
            thresholds = [settings.level_of(settings.tree.nodes[position]).threshold for position in path]
            cost = Guarantee.touch(universe, [names[j] for j in together], Pure(loss))
            results.append(ListCharge(path, Charge(cost, loss=partial(path_loss, thresholds, settings.mu))))
        return results
    for position, node in nodes:  # [nodes]
        scale = settings.level_of(node).scale
        held = [names[j] for j in node.attributes]
        cost = Guarantee.touch(universe, held, Rho(1 / Fraction(scale) ** 2), gaussian_scale=scale)
        results.append(ListCharge((position,), Charge.of_each(cost, held, 2)))
    return results


def list_uses(
    settings: Settings, charges: Sequence[ListCharge], codes: Integers | None, listed: Mapping[int, int]
) -> list[NoiseUse]:
    """The noise for the lists: one number per candidate of every node (the product of its children's lists; of a leaf,
    all values).

    Where ``listed`` does not say how long a child's list is, it holds at least the parts of the root's strings.
    """
    tree, result = settings.tree, []

    def least(child: int) -> int:
        if not tree.nodes[child].thresholded:
            return tree.cells(tree.nodes[child])
        if child in listed:
            return listed[child]
        return 0 if codes is None else len(np.unique(codes[:, list(tree.nodes[child].attributes)], axis=0))

    for position, node in enumerate(tree.nodes):
        if node.thresholded:
            known = all(child in listed or not tree.nodes[child].thresholded for child in node.children)
            numbers = math.prod(map(least, node.children)) if node.children else tree.cells(node)
            own = tuple(part.charge for part in charges if position in part.nodes)
            kind = "discrete_laplace" if settings.notion == "pure" else "discrete_gaussian"
            what = f"node {position} of the tree (level {node.level})"
            result.append(NoiseUse(what, kind, numbers, numbers if known else None, own))
    return result


@lru_cache(maxsize=64)  # a release asks for the same plan several times
def _planned(
    sizes: tuple[int, ...],
    limits: tuple[float, ...],
    n: int,
    failure: float,
    notion: Notion,
    count_share: float | None,
    frequency: float | None,
    memory_mb: float,
) -> Settings:
    try:
        return plan(sizes, limits, n, failure, notion, count_share, frequency, memory=memory_mb * 2**20)
    except ValueError as error:
        if isinstance(error, NablaDPError):
            raise
        raise MechanismError(str(error), fix="Raise the budget, or look among fewer attributes.") from None
