"""DistributionEstimate: probabilities with small squared error (`thm:dist-est-l2`). Proof in PROOF.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from nabladp.mechanisms.distribution_estimate.output import Distribution
from nabladp.mechanisms.distribution_estimate.squared_error import Chances, EstimateError, smallest_error
from nabladp.mechanisms.heavy_hitters.mechanism import HeavyHitters, root_counts
from nabladp.mechanisms.heavy_hitters.output_distribution import above_cut, root_scenarios
from nabladp.mechanisms.heavy_hitters.settings import MEMORY, NOTION, SETTINGS, Settings, check_notion
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Names, Share
from nabladp.mechanisms.mechanism import Law, Mechanism, Records, Scenario, check_asked
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.mechanisms.parameters import parameter
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.values import BudgetValue
from nabladp.schema import Schema

if TYPE_CHECKING:
    from nabladp.tables import Counts


@dataclass(frozen=True)
class DistributionEstimate(Mechanism):
    """The probability of every combination of ``over`` (default: all source attributes), most of them 0.

    A histogram of the frequent combinations, thresholded where the bound on the squared error is smallest, and
    projected onto probabilities. Options mean the same as in HeavyHitters; there is no ``frequency``, ``count_share``
    or ``lists``.

    Guarantee: that of HeavyHitters; all else is post-processing. The bounds on the error hold for any data; those for a
    population assume that rows were drawn from it independently.
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind(), "The budget of every source attribute."))
    over: tuple[str, ...] | None = field(
        default=None, metadata=parameter(Names(), "The attributes to combine; by default all that are not derived.")
    )
    notion: str = field(default="cdp", metadata=NOTION)
    failure: float = field(
        default=0.05, metadata=parameter(Share(), "The probability with which the bound on the error may fail.")
    )
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(Budgets(), "Attributes with a budget other than `budget`.")
    )
    memory_mb: int = field(default=4096, metadata=MEMORY)
    settings: Settings | None = field(default=None, metadata=SETTINGS)
    plans_for_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_notion(self.notion, self.budget, self.budgets, self.settings)

    # ---- before data ----------------------------------------------------------------------------------------------

    @property
    def histogram(self) -> HeavyHitters:
        """The HeavyHitters histogram that DistributionEstimate is made from: its one look at the data, with the whole
        budget."""
        return HeavyHitters(  # [one-histogram]
            self.budget,
            over=self.over,
            notion=self.notion,
            failure=self.failure,
            budgets=self.budgets,
            memory_mb=self.memory_mb,
            settings=self.settings,
        )

    def reads(self, schema: Schema) -> tuple[str, ...]:
        check_asked(schema)
        return self.histogram.reads(schema)

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        return self.histogram.guarantee(schema, n)

    def expected_error(self, schema: Schema, n: int) -> EstimateError:
        check_asked(schema, n)
        names = self.reads(schema)
        if not n:
            return EstimateError(len(names), n, self.failure, None)
        settings = self.histogram.plan(schema, n)
        error = smallest_error(settings, n, self.failure)  # [cut]
        return EstimateError(len(names), n, self.failure, error, settings.expected_list)

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> Distribution:
        schema, result = counts.schema, self.histogram.run(counts, noise)
        if result.settings is None:
            return Distribution(result.names, 0, result.codes, result.counts, 0.0, None, self.failure, schema)
        error = smallest_error(result.settings, counts.n, self.failure)
        kept = result.at_least(error.cut)  # [post-processing]
        variance = Chances(result.settings, counts.n).variance
        return Distribution(kept.names, counts.n, kept.codes, kept.counts, variance, error, self.failure, schema)

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        """The output distribution of DistributionEstimate's histogram; the estimate is a function of it."""
        return self.histogram.distribution(counts)

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        """The law of DistributionEstimate's published counts: those of the histogram, without counts below the cut."""
        settings = self.histogram.plan(schema, n)
        cut = smallest_error(settings, n, self.failure).cut
        for scenario in root_scenarios(settings, law, n):
            kept = {string: above_cut(own, cut) for string, own in scenario.values.items()}
            yield Scenario(scenario.log_chance, kept)

    def published_values(self, output: Distribution, schema: Schema, n: int) -> Mapping[Any, int]:
        return root_counts(output.codes, output.counts)

    def noise_uses(self, schema: Schema, n: int, output: Distribution) -> list[NoiseUse]:
        """The noise of DistributionEstimate's histogram, of which only combinations above the cut are published."""
        return self.histogram.histogram_uses(schema, n, output.codes)

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        return self.histogram.hard_pairs(attributes)

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> Distribution:
        return Distribution.from_json(data, schema)
