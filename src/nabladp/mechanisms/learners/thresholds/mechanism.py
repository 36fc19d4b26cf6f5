"""ThresholdLearner: from which features on a label holds (`thm:learning-thresholds`, mended). Proof in PROOF.md."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from nabladp.arrays import Integers
from nabladp.errors import BudgetError, MechanismError
from nabladp.mechanisms.heavy_hitters.mechanism import ListCharge, list_charges, list_uses, lists_cost
from nabladp.mechanisms.heavy_hitters.search import find
from nabladp.mechanisms.heavy_hitters.settings import NOTION, Notion, check_notion
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Choice, Names, Share
from nabladp.mechanisms.learners import as_estimator
from nabladp.mechanisms.learners.learner import LABEL, PERSON_LABEL, Learner, least_units, person_rows
from nabladp.mechanisms.learners.thresholds.design import SEARCHES, Design, DesignKind
from nabladp.mechanisms.learners.thresholds.model import ThresholdModel
from nabladp.mechanisms.learners.thresholds.output_distribution import RunLaw, ones_window, published_scenarios
from nabladp.mechanisms.learners.thresholds.planning import Goal, best_design, check_domains, promised_error, rows_for
from nabladp.mechanisms.learners.thresholds.search import (
    candidate_thresholds,
    mistakes,
    polarization,
    search,
    search_steps,
)
from nabladp.mechanisms.mechanism import ErrorMeasure, ExpectedError, Law, Scenario, check_asked
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.mechanisms.parameters import parameter
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, Pure, Rho
from nabladp.schema import Schema

if TYPE_CHECKING:
    from nabladp.mechanisms.learners.estimator import Estimator
    from nabladp.tables import Counts

_MOST_ROWS, _ATTEMPTS = 1 << 40, 16


@dataclass(frozen=True)
class ThresholdLearner(Learner):
    """A hypothesis "the label is positive from z on", strings of features compared from the first feature to the last.

    ``label`` is an attribute with two values, the second of which is positive; ``over`` are the features, the most
    significant first (default: all source attributes but the label), each in the order of its declared values.
    ``budget`` (lower ones for some attributes in ``budgets``) is the budget of every source attribute: Pure for
    ``notion="pure"``; CDP, Rho or Approx for ``"cdp"``. ``failure`` is the probability with which the stated error
    may be exceeded. ``search`` is how the threshold's prefix is found, "probes" or "pick" (default: the one with the
    smaller stated error); ``design`` replaces the planner's choices. There is always a hypothesis.

    Guarantee: ``touch`` of the label for the number of ones, ``touch`` of the features that may lie in a prefix and the
    label for the search, that of HeavyHitters' lists for these features, ``touch`` of all for the last selection. The
    stated error assumes that some threshold never errs and that rows are drawn independently; the guarantee assumes
    neither.
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind(), "The budget of every source attribute."))
    label: str = field(metadata=LABEL)
    over: tuple[str, ...] | None = field(
        default=None,
        metadata=parameter(
            Names(),
            "The features, most significant first; by default all attributes that are not derived, but the label.",
        ),
    )
    notion: str = field(default="cdp", metadata=NOTION)
    failure: float = field(
        default=0.1, metadata=parameter(Share(), "The probability with which the promised error may be exceeded.")
    )
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(Budgets(), "Attributes with a budget other than `budget`.")
    )
    search: str | None = field(
        default=None,
        metadata=parameter(
            Choice(*SEARCHES), "How the threshold's prefix is found; by default the one with the smaller stated error."
        ),
    )
    design: Design | None = field(
        default=None, metadata=parameter(DesignKind(), "A design of cuts and noise scales, in place of the planner's.")
    )
    plans_for_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_notion(self.notion, self.budget, self.budgets)

    # ---- before data ----------------------------------------------------------------------------------------------

    def plan(self, schema: Schema, n: int) -> Design:
        """ThresholdLearner's design: cuts, noise scales and the promised error, from public facts only; or the one
        given."""
        names = self.features(schema)
        if self.design is not None:
            if self.design.sizes != schema.sizes(names) or self.design.notion != self.notion:
                raise MechanismError("The design is for other features.", fix="Plan for the features that are read.")
            self._check_cost(schema, self.design)
            return self.design
        notion = cast(Notion, self.notion)
        sizes = schema.sizes(names)
        check_domains(names, sizes)
        return best_design(
            Goal(sizes, self._units(schema), n, self.failure, notion, self._columns_per_attribute(schema), self.search)
        )

    def _units(self, schema: Schema) -> int:
        """The smallest attribute budget, by which everything that ThresholdLearner reads is priced."""
        return least_units(schema, self.reads(schema), self.budget, self.budgets)

    def _columns_per_attribute(self, schema: Schema) -> int:
        """The most columns that come from one attribute: each of them pays for lists, or for the count of ones."""
        universe = Universe.of(schema)
        return max(Counter(source for name in self.reads(schema) for source in universe.sources(name)).values())

    def _check_cost(self, schema: Schema, design: Design) -> None:
        cost, universe, limit = self._cost(schema, design), Universe.of(schema), self._units(schema)
        for name in universe.protected:
            paid = cost.pure_units(name) if self.notion == "pure" else cost.rho_units(name)
            if paid is None or paid > limit:
                raise BudgetError(f"The design costs {name!r} more than its budget.", fix="Raise the budget.")

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        if n or self.design is not None:
            return self._cost(schema, self.plan(schema, n))
        universe, names, units = Universe.of(schema), self.reads(schema), self._units(schema)  # [any-rows]
        if self.notion == "pure":
            return Guarantee.linear(universe, names, Pure(Fraction(units, UNIT)))
        return Guarantee.squares(universe, names, Rho(Fraction(units, UNIT)))

    def _cost(self, schema: Schema, design: Design) -> Guarantee:
        universe = Universe.of(schema)
        parts = [charge.cost for charge in self._charges(schema, design).values()]
        if design.many:
            parts.append(_lists_cost(universe, self._prefix(schema, design), design))
        return Guarantee.compose(universe, parts)

    def _prefix(self, schema: Schema, design: Design) -> tuple[str, ...]:
        """The features that may lie in a prefix."""
        return self.features(schema)[: design.cuts[-1]]

    def _charges(self, schema: Schema, design: Design) -> dict[str, Charge]:
        """The guarantee of every ThresholdLearner step but the lists: each has sensitivity 1, every probe by itself."""
        universe, read = Universe.of(schema), self.reads(schema)
        select = Guarantee.touch(universe, read, design.select_cost())  # [select]
        results = {"the last selection": Charge.of_each(select, read, 1)}
        if design.many:
            searched, steps = (*self._prefix(schema, design), self.label), design.steps
            ones = Guarantee.touch(universe, (self.label,), design.ones_cost())
            search = Guarantee.touch(universe, searched, design.search_cost())  # [search]
            results["the number of ones"] = Charge.of_each(ones, (self.label,), 1)
            results["the search"] = Charge.of_each(search, searched, steps)
        return results

    def expected_error(self, schema: Schema, n: int) -> ThresholdError:
        check_asked(schema, n)
        sizes = schema.sizes(self.features(schema))
        if not n:
            return ThresholdError(len(sizes), n, self.failure, None, None, None)
        design = self.plan(schema, n)
        error = promised_error(design.errors, n, self.failure)
        person = person_rows(sizes, self._units(schema), self.notion == "pure", error)
        return ThresholdError(len(sizes), n, self.failure, design, error, person)

    def needed_rows(self, schema: Schema, alpha: float, failure: float | None = None) -> int:
        """A number of rows for which ThresholdLearner promises error at most α, but for ``failure``; hardly fewer would
        do."""
        if not 0 < alpha < 1:
            raise MechanismError("The error is a share strictly between 0 and 1.", fix="Try 0.1.")
        learner = self if failure is None else replace(self, failure=failure)
        rows, enough = math.ceil(100 / alpha), _MOST_ROWS + 1
        for attempt in range(_ATTEMPTS):  # more rows allow hardly more mistakes: a few steps are enough
            needed = rows_for(learner.plan(schema, rows).errors, alpha, learner.failure)
            if needed <= rows:
                enough = min(enough, rows)
                if rows <= 1 + 1.01 * needed or attempt > _ATTEMPTS / 2:
                    return enough
            rows = needed if attempt <= _ATTEMPTS / 2 else math.ceil(1.2 * max(needed, rows))
            if rows > _MOST_ROWS:
                break
        raise MechanismError("No number of rows is enough.", fix="Raise the budget or the error.")

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> ThresholdModel:
        names, design = self.features(counts.schema), self.plan(counts.schema, counts.n)
        ones = cut_index = None
        if design.many:
            ones = _noisy_ones(counts, self.label, design, noise)
            if ones <= design.few:  # [trivial]
                return self._model(counts, design, [size - 1 for size in design.sizes], ones, None)
            if counts.n - ones <= design.few:
                return self._model(counts, design, [0] * len(names), ones, None)
            cut_index = search(design, polarization(counts, names, self.label, design), noise)
        prefixes = _list_prefixes(counts, names, design, cut_index or 0, noise)
        thresholds = candidate_thresholds(design, cut_index or 0, prefixes)
        wrong = mistakes(counts, names, self.label, thresholds)
        chosen = thresholds[noise.select_exponential(-wrong, design.select_scale)]  # [exact-pick]
        return self._model(counts, design, chosen.tolist(), ones, None if cut_index is None else design.cuts[cut_index])

    def _model(
        self, counts: Counts, design: Design, codes: Sequence[int], ones: int | None, prefix: int | None
    ) -> ThresholdModel:
        promised = promised_error(design.errors, counts.n, self.failure)
        features = self.features(counts.schema)
        return ThresholdModel(
            features, self.label, tuple(codes), counts.n, promised, self.failure, ones, prefix, counts.schema
        )

    def estimator(self, session: Any) -> Estimator:
        """The scikit-learn classifier whose ``fit`` releases this ThresholdLearner through the session."""
        return as_estimator(self, session)

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        names = self.features(counts.schema)
        return RunLaw(self.plan(counts.schema, counts.n), names, self.label, counts).law()

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        return published_scenarios(self.plan(schema, n), law, n)

    def published_values(self, output: ThresholdModel, schema: Schema, n: int) -> Mapping[Any, int]:
        design = self.plan(schema, n)
        results: dict[Hashable, int] = {"threshold": int(np.ravel_multi_index(output.codes, design.sizes))}
        if output.ones is not None:  # a pure law puts all that lies beyond its ends together
            low, high = ones_window(design, n)
            results["ones"] = min(max(output.ones, low), high) if design.notion == "pure" else output.ones
        if output.prefix is not None:
            results["prefix"] = output.prefix
        return results

    def noise_uses(self, schema: Schema, n: int, output: ThresholdModel) -> list[NoiseUse]:
        """The noise of ThresholdLearner up to where the output says the run came: a trivial answer needs the count of
        ones alone."""
        design = self.plan(schema, n)
        charges = self._charges(schema, design)
        noise = "discrete_laplace" if design.notion == "pure" else "discrete_gaussian"
        selected = int(not design.many or output.prefix is not None)
        uses = [_use("the last selection", "select_exponential", selected, charges)]
        if design.many:
            cut_index = None if output.prefix is None else design.cuts.index(output.prefix)
            kind = noise if design.search == "probes" else "select_exponential"
            uses.append(_use("the number of ones", noise, 1, charges))
            uses.append(_use("the search", kind, 0 if cut_index is None else search_steps(design, cut_index), charges))
            uses += self._list_uses(schema, design, cut_index)
        return [*uses, NoiseUse.free("lists cut by lot", "uniform_subset")]

    def _list_uses(self, schema: Schema, design: Design, cut_index: int | None) -> list[NoiseUse]:
        """The noise of the prefix lists: every node of the tree over a shorter prefix is one of the whole tree, with
        fewer attributes."""
        whole = design.lists_up_to(len(design.cuts) - 1)
        charges = list_charges(Universe.of(schema), self._prefix(schema, design), whole)
        if not cut_index:  # nothing is listed, but the whole tree is charged for
            return [replace(use, least=0, most=0) for use in list_uses(whole, charges, None, {})]
        shorter = design.lists_up_to(cut_index)
        length = design.cuts[cut_index]
        held = [at for at, node in enumerate(whole.tree.nodes) if min(node.attributes) < length]
        moved = [ListCharge(tuple(held.index(at) for at in part.nodes if at in held), part.charge) for part in charges]
        uses = list_uses(shorter, moved, None, {})
        if unused := tuple(part.charge for part in moved if not part.nodes):
            uses.append(NoiseUse.exactly("longer prefixes", uses[0].kind, 0, *unused))
        if shorter.count_scale is not None:
            uses.append(NoiseUse.free("counts of listed prefixes, thrown away", "discrete_laplace"))
        return uses

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> ThresholdModel:
        return ThresholdModel.from_json(data, schema)


@dataclass(frozen=True)
class ThresholdError(ExpectedError):
    """``error`` is None where nothing is promised, and ``design`` too where the number of rows is not known."""

    features: int
    n: int
    failure: float
    design: Design | None
    error: float | None
    person: int | None  # the order of rows that this error takes with the budget for the whole person

    def values_written(self) -> int:
        return self.features

    def measure(self, rows: int) -> ErrorMeasure:
        what = "Promised error, as a share of people"
        return ErrorMeasure(what, self.error, small=0.05, useless=0.5, advice="use fewer features")

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"n": self.n, "features": self.features, "failure": self.failure, "error": self.error}
        if self.design is not None:
            body |= {"mistakes": self.design.errors, "prefix_lengths": len(self.design.cuts)}
            body |= {"per_person_rows": self.person}
        return body | {"summary": self._summary()}

    def _summary(self) -> dict[str, Any]:
        if self.design is None or self.error is None:
            why = "until the number of rows is known" if self.design is None else "with so few rows at this budget"
            return {"features": self.features, "promised": f"nothing {why}"}
        return {
            "features": self.features,
            "errs on at most this share of people, if some threshold never errs": self.error,
            "probability that this bound holds, at least": 1 - self.failure,
            "rows of the table that the threshold errs on, if some threshold never errs, at most": self.design.errors,
            PERSON_LABEL: self.person,
            "lengths at which prefixes are looked for": len(self.design.cuts),
        }


def _use(what: str, kind: str, numbers: int, charges: Mapping[str, Charge]) -> NoiseUse:
    return NoiseUse.exactly(what, kind, numbers, charges[what])


def _lists_cost(universe: Universe, prefix: Sequence[str], design: Design) -> Guarantee:
    """The cost of the prefix lists for the last cut: those for any other use fewer nodes of the same tree."""
    return lists_cost(universe, prefix, design.lists_up_to(len(design.cuts) - 1))  # [any-cut]


def _noisy_ones(counts: Counts, label: str, design: Design, noise: NoiseSource) -> int:
    draw = noise.discrete_laplace if design.notion == "pure" else noise.discrete_gaussian
    return int(counts.marginals([(label,)])[0][1]) + int(draw(design.ones_scale, 1)[0])


def _list_prefixes(
    counts: Counts, names: Sequence[str], design: Design, cut_index: int, noise: NoiseSource
) -> Integers:
    """The prefixes up to a cut that HeavyHitters lists (one of no features at cut 0). Their counts are thrown away."""
    length = design.cuts[cut_index]
    if not length:
        return np.empty((1, 0), np.int64)
    return find(counts, names[:length], design.lists_up_to(cut_index), noise).strings  # [lists]
