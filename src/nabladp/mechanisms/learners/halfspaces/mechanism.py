"""HalfspaceLearner: a weighted vote of features for one of two labels (`lem:robust-halfspaces`). Proof in PROOF.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nabladp.errors import AuditError, BudgetError, MechanismError
from nabladp.mechanisms.allocation import source_units
from nabladp.mechanisms.gram_matrix import SignedColumns
from nabladp.mechanisms.gram_matrix.signed_columns import ENCODE, Encoding
from nabladp.mechanisms.kinds import MOST_MEGABYTES, BudgetKind, Budgets, Choice, Flag, Number, Share, Whole
from nabladp.mechanisms.learners import as_estimator
from nabladp.mechanisms.learners.halfspaces.average import Average
from nabladp.mechanisms.learners.halfspaces.descent import STEPS, Descent
from nabladp.mechanisms.learners.halfspaces.exact import AllHalfspaces, Exact, HandedIn, Robust, audit_window
from nabladp.mechanisms.learners.halfspaces.gradient import Gradient
from nabladp.mechanisms.learners.halfspaces.gram import GramFit
from nabladp.mechanisms.learners.halfspaces.holdout import HoldoutPlan
from nabladp.mechanisms.learners.halfspaces.model import HalfspaceModel
from nabladp.mechanisms.learners.halfspaces.randomized_labels import Response, answered
from nabladp.mechanisms.learners.halfspaces.robust_distance import ClippedLoss, integer_weights
from nabladp.mechanisms.learners.halfspaces.selection import Pick
from nabladp.mechanisms.learners.halfspaces.task import (
    EPSILON,
    MARGIN,
    METHODS,
    MOST_RESOLUTION,
    MOST_STEPS,
    Hypotheses,
    Method,
    Task,
    check,
    rounding,
    share,
)
from nabladp.mechanisms.learners.learner import FEATURES, LABEL, Learner
from nabladp.mechanisms.mechanism import ErrorMeasure, ExpectedError, Law, Scenario, ValueLaw, check_asked
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.mechanisms.parameters import parameter
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import CDP, BudgetValue, Rho, limit_units
from nabladp.schema import Schema

if TYPE_CHECKING:
    from nabladp.mechanisms.learners.estimator import Estimator
    from nabladp.tables import Counts


# ---- what to expect before anything is spent -------------------------------------------------------------------------


@dataclass(frozen=True)
class HalfspaceError(ExpectedError):
    """``figures`` are the method's own, by plain words."""

    method: str
    n: int
    columns: int
    figures: Mapping[str, Any]
    held_out: int = 0
    held_out_scale: float | None = None
    label_scale: float | None = None

    def values_written(self) -> int:
        return self.columns

    def measure(self, rows: int) -> ErrorMeasure:
        what = "Noise in the held-out accuracy, or else in what it learns from, as a share of the rows"
        value = self.held_out_scale / self.held_out if self.held_out_scale and self.held_out else self._in_rows()
        return ErrorMeasure(what, value, small=0.05, useless=0.5, scales=True, advice="use fewer features")

    def _in_rows(self) -> float | None:
        """The noise that a method states as a share of the rows."""
        shares = {key: own for key, own in self.figures.items() if key.endswith("as a share of the rows")}
        return max((own for key, own in shares.items() if "ridge" not in key), default=None)

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"method": self.method, "n": self.n, "columns": self.columns, **self._holdout()}
        return body | {"summary": {"method": self.method, **self.figures, **self._holdout_figures()}}

    def _holdout(self) -> dict[str, Any]:
        if self.held_out_scale is None:
            return {}
        return {"held_out": self.held_out, "held_out_scale": self.held_out_scale}

    def _holdout_figures(self) -> dict[str, Any]:
        if self.held_out_scale is None or not self.held_out:
            return {}
        return {
            "rows held out": self.held_out,
            "noise in the accuracy on rows held out": self.held_out_scale / self.held_out,
            "noise in the share of the more frequent label": (self.label_scale or 0.0) / self.n,
        }


@lru_cache(maxsize=8)
def number_candidates(candidates: AllHalfspaces | HandedIn) -> dict[tuple[int, ...], int]:
    """Every candidate halfspace's weights, numbered; of equal ones the last number counts."""
    return {tuple(candidates.weights(index).tolist()): index for index in range(candidates.count)}


# ---- the mechanism ---------------------------------------------------------------------------------------------------

GRADIENT_STEPS = 30
HOLDOUT_PART = 20  # where nobody says what a holdout may cost: this part of the smallest budget


@dataclass(frozen=True)
class HalfspaceLearner(Learner):
    """A halfspace: weights for the values of features, whose sum decides between the label's two values.

    ``budget`` (CDP, Rho or Approx; exceptions in ``budgets``, or for short ``label_epsilon`` and ``feature_epsilon``,
    each a CDP) is the budget of every source attribute. ``over`` are the features (default: all source attributes but
    the label), ``encode`` what they become (as in GramMatrix). ``method``: "gram" (noisy Gram matrix, then ridge),
    "descent" (Gram matrix of the features, then ``steps`` noisy sums of rows with a small margin), "auto" (of
    these two the one with less noise), "exact" (the theorem: a private selection among all halfspaces of up to 7
    two-valued features, a lattice net of ``resolution`` beyond, or given ``hypotheses``), "average", "gradient"
    (with ``steps``), "robust" (a selection among noisy fits by robust loss); ``gamma`` and ``gamma_prime`` are the
    margins of "exact" and "robust".
    ``label_treatment``: "response" randomizes labels first, "gaussian" (for exact "direct") charges the label in the
    release itself; by default the one with less noise, by public numbers (exact: response). ``holdout`` is the share of
    rows held out to count correct predictions with noise, for ``holdout_budget`` (default a twentieth of the smallest
    budget), which is part of ``budget`` and also pays for a noisy count of the label's values; ``probabilities`` spends
    half of it on counts by margin and label, from which the model tells probabilities. ``memory_mb`` bounds the scores
    that "exact" holds, and the rows that "descent" keeps between its steps (with less, it reads the table in every
    step).

    Guarantee, for every set of attributes, label included: the sum over its parts (PROOF.md). Assumed: the
    number of rows is public, and one row is one person.
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind("gaussian"), "The budget of every source attribute."))
    label: str = field(metadata=LABEL)
    over: tuple[str, ...] | None = field(default=None, metadata=FEATURES)
    method: str = field(
        default="auto",
        metadata=parameter(Choice(*METHODS), "How the weights are learned; by default as suits the budgets."),
    )
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(Budgets("gaussian"), "Attributes with a budget other than `budget`.")
    )
    label_epsilon: float | None = field(default=None, metadata=parameter(EPSILON, "The budget of the label, in short."))
    feature_epsilon: float | None = field(
        default=None, metadata=parameter(EPSILON, "The budget of every feature, in short.")
    )
    encode: Mapping[str, Encoding] = field(default_factory=dict, metadata=ENCODE)
    gamma: float | None = field(
        default=None,
        metadata=parameter(MARGIN, "The margin of the best halfspace, with which the learned one is compared."),
    )
    gamma_prime: float | None = field(
        default=None,
        metadata=parameter(MARGIN, "The smaller margin at which the error of the learned halfspace is bounded."),
    )
    label_treatment: str | None = field(
        default=None,
        metadata=parameter(
            Choice("response", "gaussian", "direct"),
            "Whether labels are randomized first, or covered by the noise of the release.",
        ),
    )
    resolution: int | None = field(
        default=None, metadata=parameter(Whole(1, MOST_RESOLUTION, sample=9), "How fine the lattice of halfspaces is.")
    )
    hypotheses: tuple[tuple[int, ...], ...] | None = field(
        default=None, metadata=parameter(Hypotheses(), "Halfspaces to choose from, each a list of integer weights.")
    )
    intercept: bool | None = field(
        default=None, metadata=parameter(Flag(), "Whether halfspaces may have an intercept.")
    )
    ridge: float | None = field(
        default=None, metadata=parameter(Number(0), "The ridge of the fit; by default the noise's own.")
    )
    steps: int | None = field(
        default=None, metadata=parameter(Whole(1, MOST_STEPS, sample=30), "How many noisy steps there are.")
    )
    holdout: float | None = field(
        default=None, metadata=parameter(Share(), "The share of rows on which the finished model is tested.")
    )
    holdout_budget: BudgetValue | None = field(
        default=None,
        metadata=parameter(
            BudgetKind("gaussian"), "What the test costs; by default a twentieth of the smallest budget."
        ),
    )
    probabilities: bool | None = field(
        default=None, metadata=parameter(Flag(), "Whether the rows held out also tell the probability of a label.")
    )
    memory_mb: int = field(
        default=1024,
        metadata=parameter(
            Whole(1, MOST_MEGABYTES, of="megabytes"), "The memory for scores, or for rows kept between steps."
        ),
    )
    plans_for_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self)

    # ---- before data ----------------------------------------------------------------------------------------------

    def _units(self, schema: Schema) -> dict[str, int]:
        """The budget of every protected source that HalfspaceLearner reads."""
        universe, features = Universe.of(schema), self.features(schema)
        budgets = dict(self.budgets)
        for epsilon, names in ((self.label_epsilon, (self.label,)), (self.feature_epsilon, features)):
            for name in names if epsilon is not None else ():
                if name in budgets:
                    raise BudgetError(
                        f"The budget of {name!r} is given twice.", fix="Give it in 'budgets' or for short, not both."
                    )
                budgets[name] = CDP(epsilon)  # type: ignore[arg-type]
        units = source_units(universe, self.budget, budgets)
        behind = universe.sources([name for name in (*features, self.label) if schema[name].size > 1])
        return {source: units[source] - rounding(units[source]) for source in sorted(behind - universe.public)}

    def _holdout(self, schema: Schema) -> HoldoutPlan | None:
        if self.holdout is None:
            return None
        units = self._units(schema)
        least = min(units.values(), default=UNIT)
        own = least // HOLDOUT_PART if self.holdout_budget is None else limit_units(self.holdout_budget)
        if own >= least:
            raise BudgetError(
                "The holdout would take a whole budget.", fix="It comes out of the others: give it a small part."
            )
        universe, touched = Universe.of(schema), frozenset(units)
        label = universe.sources([self.label]) & touched
        return HoldoutPlan(universe, touched, float(self.holdout), own, bool(self.probabilities), label)

    def task(self, schema: Schema, n: int) -> Task:
        """The learning task that is left once the holdout has its rows and its budget."""
        features, plan = self.features(schema), self._holdout(schema)
        units, held = self._units(schema), plan.rows(n) if plan else 0
        if plan is not None:
            units = {source: own - plan.units for source, own in units.items()}
        return Task(schema, n - held, features, self.label, SignedColumns.of(schema, features, self.encode), units)

    def _method(self, task: Task) -> str:
        """HalfspaceLearner's method; "auto" decides by budgets and columns alone, not by the number of rows."""
        if self.method != "auto":
            return self.method
        if self.label_treatment == "response" or self.ridge is not None:
            return "gram"
        return "descent" if Descent(task).suits() else "gram"

    def _taken(self, learner: Method) -> str:
        return self.method if self.method != "auto" else "descent" if isinstance(learner, Descent) else "gram"

    def learner(self, schema: Schema, n: int) -> Method:
        """HalfspaceLearner's method with its noise, all of it fixed by public facts."""
        task = self.task(schema, n)
        method = self._method(task)
        if method == "descent":
            return Descent(task, self.steps or STEPS, self.memory_mb << 20)
        if method == "gram":
            return GramFit.choose(task, self.label_treatment, self.ridge)
        if method == "average":
            return Average.choose(task, self.label_treatment)
        if method == "gradient":
            return Gradient.choose(task, self.label_treatment, self.steps or GRADIENT_STEPS)
        loss = ClippedLoss.of_margins(share(self.gamma or 0), share(self.gamma_prime or 0), len(task.features))
        if method == "robust":
            return Robust.choose(task, self.label_treatment, self.ridge, loss)
        answers = task.label_sources and self.label_treatment != "direct"
        pick = Pick(task, loss, Response(task) if answers else None)
        if self.hypotheses is not None:
            return Exact(task, pick, HandedIn.read(task, pick, self.hypotheses))
        memory = self.memory_mb << 20
        return Exact(task, pick, AllHalfspaces.listed(task, pick, bool(self.intercept), self.resolution, memory))

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        if n == 1:
            raise MechanismError("At least two rows are needed.", fix="Give a table with at least two rows.")
        plan = self._holdout(schema)
        if not n and self._undecided(schema):
            own = {source: Rho(Fraction(units, UNIT)) for source, units in self._units(schema).items()}
            return Guarantee.linear(Universe.of(schema), own)  # [any-rows]
        learned = self.learner(schema, n).guarantee()
        return learned + plan.guarantee() if plan else learned  # [sequential]

    def _undecided(self, schema: Schema) -> bool:
        """Whether the number of rows decides how the label is treated: randomized labels are best for few rows."""
        return self.label_treatment is None and self.method != "exact" and self.learner(schema, 0).randomizes

    def needs_row_order(self, schema: Schema, n: int) -> bool:
        """Whether HalfspaceLearner needs rows to keep their index between passes: for a holdout, or one randomized
        label per row."""
        learner = self.learner(schema, n)
        counts_answers = isinstance(learner, Exact) and isinstance(learner.candidates, AllHalfspaces)
        return self.holdout is not None or (learner.randomizes and not counts_answers)

    def expected_error(self, schema: Schema, n: int) -> HalfspaceError:
        check_asked(schema, n)
        plan, learner = self._holdout(schema), self.learner(schema, n)
        held = (plan.rows(n), plan.scale, plan.label_scale) if plan else (0, None, None)
        return HalfspaceError(self._taken(learner), n, learner.task.width, learner.figures(), *held)

    def needed_rows(self, schema: Schema, excess: float) -> int:
        """The number of rows that are enough for this excess of robust error, by the theorem for this class of
        halfspaces.

        For "robust" it speaks of the table at hand and of the candidates at hand, not of new people.
        """
        learner = self.learner(schema, 0)
        if isinstance(learner, Exact):
            return learner.promise.rows(excess)
        if isinstance(learner, Robust):
            return learner.rows(excess)
        raise MechanismError("This method has no error bound.", fix="Use method = 'exact' or 'robust'.")

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> HalfspaceModel:
        schema, plan = counts.schema, self._holdout(counts.schema)
        rows, held = plan.split(counts, noise) if plan else (counts, None)
        learner = self.learner(schema, counts.n)
        task, fitted = learner.task, learner.run(rows, noise)
        model = HalfspaceModel(
            schema=schema,
            features=task.features,
            label=self.label,
            columns=task.columns,
            method=self._taken(learner),
            n=counts.n,
            weights=fitted.weights,
            integers=integer_weights(fitted.weights) if fitted.integers is None else fitted.integers,
            deviations=fitted.deviations,
            facts=fitted.facts,
        )
        if plan is None or held is None:
            return model
        return model.with_holdout(plan.measure(counts, held, model.halfspace, task.features, self.label, noise))

    def estimator(self, session: Any) -> Estimator:
        """The scikit-learn classifier whose ``fit`` releases this HalfspaceLearner through the session."""
        as_estimator(self, session)  # says what to install where scikit-learn is missing
        from nabladp.mechanisms.learners.estimator import HalfspaceEstimator

        return HalfspaceEstimator(self, session)

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        """The output distribution of the numbers that the halfspace's weights are made from; with a holdout only for
        "exact"."""
        learner, plan = self.learner(counts.schema, counts.n), self._holdout(counts.schema)
        if plan is None:
            return learner.law(counts)
        if not isinstance(learner, Exact) or plan.by_margin:
            raise AuditError(
                "With a holdout, the exact output distribution is available for method='exact' without probabilities.",
                fix="Audit that one.",
            )
        return learner.law_with_holdout(counts, plan)

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        learner = self.learner(schema, n)
        self.__dict__.setdefault("_published", {})[n] = schema, learner  # to read many outputs by
        if isinstance(learner, Average):
            return learner.scenarios(law)
        if isinstance(learner, GramFit):
            return learner.scenarios(law, n)
        if isinstance(learner, Exact):
            return self._choice_scenarios(learner, law, schema, n)
        return super().published_law(law, schema, n)

    def published_values(self, output: HalfspaceModel, schema: Schema, n: int) -> Mapping[Any, int]:
        known: tuple[Schema | None, Method | None] = self.__dict__.get("_published", {}).get(n, (None, None))
        learner = known[1] if known[0] is schema and known[1] is not None else self.learner(schema, n)
        if isinstance(learner, (Average, GramFit)):
            return learner.values(output)
        if not isinstance(learner, Exact):
            return super().published_values(output, schema, n)
        held = {} if output.holdout is None else {"right": output.holdout.right}
        if output.holdout is not None and output.holdout.labels is not None and output.holdout.labels.scale:
            held["second"] = output.holdout.labels.second
        return {"halfspace": number_candidates(learner.candidates).get(tuple(output.integers.tolist()), -1), **held}

    def _choice_scenarios(self, learner: Exact, law: Law, schema: Schema, n: int) -> Iterator[Scenario]:
        """The scenarios of a chosen halfspace: it is published, and with a holdout the noisy count of its right
        answers."""
        numbers, plan = number_candidates(learner.candidates), self._holdout(schema)
        results = [
            chance + then.arrays()[0] for chance, then in answered(learner.pick.response if n == 1 else None, law)
        ]
        chances = np.logaddexp.reduce(results).reshape(learner.candidates.count, -1)
        for index, own in enumerate(chances):
            total = float(np.logaddexp.reduce(own))
            shown = {"halfspace": ValueLaw.certain(numbers[tuple(learner.candidates.weights(index).tolist())])}
            if plan is not None:
                shown["right"] = ValueLaw(-audit_window(plan.scale), own - total)
                if plan.label_scale:
                    shown["second"] = ValueLaw(-audit_window(plan.label_scale), law.arrays()[1])
            yield Scenario(total, dict(shown))

    def noise_uses(self, schema: Schema, n: int, output: HalfspaceModel) -> list[NoiseUse]:
        plan = self._holdout(schema)
        return [*self.learner(schema, n).noise_uses(), *(plan.noise_uses(n) if plan else ())]

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> HalfspaceModel:
        return HalfspaceModel.from_json(data, schema)
