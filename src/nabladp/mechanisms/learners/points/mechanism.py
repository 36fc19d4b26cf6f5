"""PointLearner: the one combination of features that carries a label (`thm:point-func`). Proof in PROOF.md."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nabladp.arrays import Floats
from nabladp.errors import MechanismError
from nabladp.mechanisms.heavy_hitters.mechanism import HeavyHitters
from nabladp.mechanisms.heavy_hitters.output import HeavyList
from nabladp.mechanisms.heavy_hitters.output_distribution import above_cut, root_scenarios
from nabladp.mechanisms.heavy_hitters.settings import MEMORY, NOTION, SETTINGS, Settings, check_notion
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Share
from nabladp.mechanisms.learners import as_estimator
from nabladp.mechanisms.learners.learner import FEATURES, LABEL, Learner, least_units, person_rows
from nabladp.mechanisms.learners.points.model import PointModel
from nabladp.mechanisms.learners.points.promise import PointError, Promise, best_promise
from nabladp.mechanisms.mechanism import Law, Scenario, ValueLaw, check_asked
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.mechanisms.parameters import parameter
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.values import BudgetValue
from nabladp.schema import Schema

if TYPE_CHECKING:
    from nabladp.mechanisms.learners.estimator import Estimator
    from nabladp.tables import Counts

Point = tuple[int, ...]
_LEAST = 1e-12  # a chance below this is rounding
_MOST_ROWS = 1 << 40
_PRECISION = 1.005  # of the number of rows needed


@dataclass(frozen=True)
class PointLearner(Learner):
    """A hypothesis "the label is positive exactly if the features equal u", from one histogram of both.

    ``label`` is an attribute with two values, the second of which is positive; ``over`` are the features (default: all
    source attributes but the label). ``budget`` (exceptions in ``budgets``) is the budget of every source attribute:
    Pure for ``notion="pure"``; CDP, Rho or Approx for ``"cdp"``. ``failure`` is the probability with which the stated
    error may be exceeded. A run that might need more than ``memory_mb`` is refused before anything is spent; a tree
    for the histogram may be given in ``settings``. There is always a hypothesis.

    Guarantee: that of HeavyHitters over features and label; all else is post-processing. The stated error assumes
    that some point has the label and that rows are drawn independently; the guarantee assumes neither.
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind(), "The budget of every source attribute."))
    label: str = field(metadata=LABEL)
    over: tuple[str, ...] | None = field(default=None, metadata=FEATURES)
    notion: str = field(default="cdp", metadata=NOTION)
    failure: float = field(
        default=0.1, metadata=parameter(Share(), "The probability with which the promised error may be exceeded.")
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

    def histogram(self, schema: Schema) -> HeavyHitters:
        """The HeavyHitters histogram of features and label that PointLearner reads: its one look at the data, with the
        whole budget."""
        return HeavyHitters(  # [one-histogram]
            self.budget,
            over=self.reads(schema),
            notion=self.notion,
            failure=self.failure,
            budgets=self.budgets,
            memory_mb=self.memory_mb,
            settings=self.settings,
        )

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        return self.histogram(schema).guarantee(schema, n)

    def promise(self, schema: Schema, n: int) -> Promise:
        """The noisy count from which on PointLearner accepts a point, and the error this promises."""  # [promise]
        if not n:
            return Promise(1, None)
        settings = self.histogram(schema).plan(schema, n)
        return best_promise(settings, n, schema.cells(self.features(schema)), self.failure)

    def expected_error(self, schema: Schema, n: int) -> PointError:
        check_asked(schema, n)
        sizes = schema.sizes(self.features(schema))
        if not n:
            return PointError(len(sizes), n, self.failure, None)
        promise = self.promise(schema, n)
        units = least_units(schema, self.reads(schema), self.budget, self.budgets)
        person = person_rows(sizes, units, self.notion == "pure", promise.error)
        return PointError(len(sizes), n, self.failure, promise, person)

    def needed_rows(self, schema: Schema, alpha: float, failure: float | None = None) -> int:
        """The number of rows (to half a percent) from which on PointLearner promises error at most α, but for
        ``failure``."""
        if not 0 < alpha < 1:
            raise MechanismError("The error is a share strictly between 0 and 1.", fix="Try 0.1.")
        learner = self if failure is None else replace(self, failure=failure)

        def enough(n: int) -> bool:
            try:
                error = learner.promise(schema, n).error
            except MechanismError:  # nothing can be certified with so few rows
                return False
            return error is not None and error <= alpha

        low, high = 0, math.ceil(10 / alpha)
        while not enough(high):
            low, high = high, 2 * high
            if high > _MOST_ROWS:
                raise MechanismError("No number of rows is enough.", fix="Raise the budget or the error.")
        while high - low > 1 and high > _PRECISION * low:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> PointModel:
        schema, promise = counts.schema, self.promise(counts.schema, counts.n)
        histogram = self.histogram(schema).run(counts, noise)
        features = self.features(schema)
        point, count = _choose(histogram, promise.cut, schema.sizes(features), noise)
        return PointModel(features, self.label, point, count, counts.n, promise, self.failure, schema)

    def estimator(self, session: Any) -> Estimator:
        """The scikit-learn classifier whose ``fit`` releases this PointLearner through the session."""
        return as_estimator(self, session)

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        """The output distribution of PointLearner's histogram; the point is a function of it."""
        return self.histogram(counts.schema).distribution(counts)

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        """The law of the accepted point with its count. A point drawn at random is left out: the rows have no part in
        it."""
        cut = self.promise(schema, n).cut
        first, accepted = cut, dict[Point, Floats]()
        for scenario in root_scenarios(self.histogram(schema).plan(schema, n), law, n):
            kept = {string: above_cut(own, cut) for string, own in scenario.values.items()}
            first = next((own.first for own in kept.values()), first)
            for point, chances in _acceptance_laws(kept).items():
                accepted[point] = accepted.get(point, 0.0) + math.exp(scenario.log_chance) * chances
        by_lot = 1.0
        for point, chances in accepted.items():
            total = float(chances.sum())
            by_lot -= total
            if total > 0:
                with np.errstate(divide="ignore"):
                    counts = ValueLaw(first, np.log(chances / total))
                number = ValueLaw.certain(_number(point, schema.sizes(self.features(schema))))
                yield Scenario(math.log(total), {"point": number, "count": counts})
        yield Scenario(math.log(max(by_lot, _LEAST)), {})

    def published_values(self, output: PointModel, schema: Schema, n: int) -> Mapping[Any, int]:
        if output.count is None:
            return {}
        return {"point": _number(output.point, schema.sizes(output.features)), "count": output.count}

    def noise_uses(self, schema: Schema, n: int, output: PointModel) -> list[NoiseUse]:
        """The noise of PointLearner: that of the histogram, of which at most one count is published; a point may be
        drawn at random."""
        chosen = None if output.count is None else np.array([[*output.point, 1]])
        uses = self.histogram(schema).histogram_uses(schema, n, chosen)
        return [*uses, NoiseUse.free("a point drawn by lot", "uniform_integers")]

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> PointModel:
        return PointModel.from_json(data, schema)


def _acceptance_laws(laws: Mapping[Hashable, ValueLaw]) -> dict[Point, Floats]:
    """For every point, the probabilities of the counts with which it is the most frequent positive one; ties go to the
    first."""
    positive = sorted((string, own) for string, own in laws.items() if isinstance(string, tuple) and string[-1] == 1)
    reached = [np.exp(own.log_chances) for _, own in positive]
    upto = [math.exp(own.log_absent) + np.cumsum(chances) for (_, own), chances in zip(positive, reached, strict=True)]
    results = {}
    for i, (string, _) in enumerate(positive):
        before = [upto[j] - reached[j] for j in range(i)]  # of equal counts the smaller point wins
        results[string[:-1]] = np.prod([reached[i], *before, *upto[i + 1 :]], axis=0)
    return results


def _number(point: Point, sizes: Sequence[int]) -> int:
    return int(np.ravel_multi_index(point, sizes))


def _choose(
    histogram: HeavyList, cut: int, sizes: Sequence[int], noise: NoiseSource
) -> tuple[tuple[int, ...], int | None]:
    """PointLearner's point: the most frequent positive one above the cut, else a random one."""  # [post-processing]
    shown = histogram.at_least(cut)
    positive = shown.codes[:, -1] == 1
    if positive.any():  # most frequent first
        return tuple(shown.codes[positive][0, :-1].tolist()), int(shown.counts[positive][0])
    negative = [tuple(codes) for codes in shown.codes[:, :-1].tolist()]
    taken = set(negative)
    if len(taken) == math.prod(sizes):
        return negative[-1], None  # the least frequent of them
    while True:
        point = tuple(int(noise.uniform_integers(size, 1)[0]) for size in sizes)
        if point not in taken:
            return point, None
