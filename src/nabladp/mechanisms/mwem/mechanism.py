"""MWEM for per-attribute budgets: each round picks several attribute-disjoint queries jointly. Proof in PROOF.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Integers
from nabladp.errors import AuditError, BudgetError, DomainTooLarge, many
from nabladp.mechanisms.allocation import source_units
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Choice, Share, Whole, WorkloadKind
from nabladp.mechanisms.mechanism import ErrorMeasure, ExpectedError, Law, Mechanism, Records, Scenario, check_asked
from nabladp.mechanisms.mwem.output import FittedDistribution, Measured, Step, draw_rows, model_distribution
from nabladp.mechanisms.mwem.round_plan import Block, Prices, Rounds, Scope, blocks_of_rounds
from nabladp.mechanisms.mwem.round_run import UPDATES, RunSetup, answer_scale, update_named
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.mechanisms.output_tables import draw_bin_positions
from nabladp.mechanisms.parameters import parameter
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT, exact
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue
from nabladp.schema import Schema
from nabladp.workloads import Queries, Workload

if TYPE_CHECKING:
    from nabladp.tables import Counts


# ---- the accuracy bound ----------------------------------------------------------------------------------------------

MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class Bound:
    """E[max over ℓ disjoint queries of their mean error] ≤ √(1/(n·e_a)² + 4·ln|X|/(T·ℓ)) + ln(m)/(n·e_s).

    e_a and e_s are what a round spends on answers and on selection, √(2ρ·share/T) each; with half the budget for each
    this is the theorem's right-hand side.
    """

    rho: float
    log_records: float
    queries: int
    share: float
    n: int

    def at(self, rounds: int, per_round: float) -> float:
        answers = self.n * math.sqrt(2 * self.rho * (1 - self.share) / rounds)
        selection = self.n * math.sqrt(2 * self.rho * self.share / rounds)
        step = 1 / answers**2 + 4 * self.log_records / (rounds * per_round)
        return math.sqrt(step) + math.log(self.queries) / selection

    def best_rounds(self, per_round: float) -> int:
        """The number of MWEM rounds that minimises the error bound, which first falls, then rises."""
        low, high = 1, MOST_ROUNDS
        while low < high:
            middle = (low + high) // 2
            if self.at(middle, per_round) <= self.at(middle + 1, per_round):
                high = middle
            else:
                low = middle + 1
        return low


@dataclass(frozen=True)
class DistributionError(ExpectedError):
    """What is known before anything is spent.

    Bounds are None while the number of rows is not known, and where the theorem does not speak: queries with different
    weights or budgets, or picked in blocks. For "fit", and for joint steps, they are the paper's, measured and not
    proven (docs/errata.md).
    """

    queries: int
    records: int
    rounds: int | None
    per_round: float
    rows: int  # of the synthetic table
    scale: float | None = None  # of the noise on a measured count
    bound: float | None = None  # `eq:pdp-mwem-T` at these rounds
    bound_best_rounds: float | None = None  # at the rounds where it is smallest
    bound_one_query: float | None = None  # the same for classic MWEM, this budget for the whole person

    def values_written(self) -> int:
        return self.queries + 2 * self.records + self.rows // 8

    def measure(self, rows: int) -> ErrorMeasure:
        value = self.scale / rows if self.scale and rows else None
        what = "Noise on a measured count, as a share of the rows"
        return ErrorMeasure(what, value, small=0.02, useless=0.5, scales=True, advice="ask fewer queries")

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"summary": self._summary()}

    def _summary(self) -> dict[str, Any]:
        figures: dict[str, Any] = {
            "queries": self.queries,
            "possible records": self.records,
            "rounds": "chosen when the number of rows is known" if self.rounds is None else self.rounds,
            "disjoint queries per round": f"{self.per_round:g}",
        }
        if self.scale is not None:
            figures["noise scale of a measured count"] = self.scale
        if self.bound is not None:
            figures["mean error of the worst disjoint queries: the paper's bound"] = self.bound
            figures["the paper's bound at its best number of rounds"] = self.bound_best_rounds
            figures["the paper's bound at the same budget per person"] = self.bound_one_query
        return figures


# ---- the mechanism ---------------------------------------------------------------------------------------------------

MOST_RECORDS = 1 << 22
MOST_COLUMNS = 60  # more could only have one value each, and arrays have at most 64 axes
MOST_ROWS = 1 << 40  # numerators on the grid stay whole numbers of 63 bits
MOST_DRAWN = 10_000_000  # rows of a synthetic table that nobody asked to be larger
_BYTES_A_RECORD = 64  # the distribution and what a round needs beside it
OUTPUTS = ("average", "last")


@dataclass(frozen=True)
class MWEM(Mechanism):
    """A distribution over all records, learned by measuring in each round the queries on which it is most wrong.

    ``budget`` (CDP, Rho or Approx; exceptions in ``budgets``) is the budget of every source attribute. ``per_round`` is
    ℓ, the number of attribute-disjoint queries per round (default: as many as possible; 1 is classic MWEM); ``rounds``
    is by default the best by the bound of `thm:pdp-mwem`, for "fit" at most enough to measure each query once.
    ``selection`` is the share of the budget for selecting queries, the rest is for measuring them. ``update`` is "fit"
    (to all measurements) or "paper" (the literal step), ``output`` the "last" distribution or the "average" (default:
    last of fit, average of paper). ``rows`` is the size of the synthetic table (default: as many as the table has; 0
    for none). More than 16 attributes are split into blocks by ``seed``, and rounds select inside them.

    Guarantee, for every set of attributes: in each round and block, ``linear`` for selection and ``squares`` for the
    answers, each limited to the selected queries. Assumed: the number of rows is public and one row is one person.
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind("gaussian"), "The budget of every source attribute."))
    workload: Workload = field(metadata=parameter(WorkloadKind(), "The queries that the distribution should answer."))
    per_round: int | None = field(
        default=None,
        metadata=parameter(
            Whole(1, 1 << 20), "How many attribute-disjoint queries a round selects; by default as many as possible."
        ),
    )
    rounds: int | None = field(
        default=None,
        metadata=parameter(Whole(1, MOST_ROUNDS), "How many rounds there are; by default the best by the bound."),
    )
    selection: float | Fraction = field(
        default=0.5, metadata=parameter(Share(), "The share of the budget that picks queries; the rest answers them.")
    )
    update: str = field(
        default="fit",
        metadata=parameter(Choice(*UPDATES), "How a round learns: a fit to all measurements, or the paper's step."),
    )
    output: str | None = field(
        default=None,
        metadata=parameter(
            Choice(*OUTPUTS), "Which distribution is released; by default the last of fit, else the average."
        ),
    )
    rows: int | None = field(
        default=None,
        metadata=parameter(Whole(0, 1 << 28), "How many synthetic rows there are; by default as many as in the table."),
    )
    seed: int = field(
        default=0, metadata=parameter(Whole(0, 1 << 62), "How more than 16 attributes are cut into blocks.")
    )
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(Budgets("gaussian"), "Attributes with a budget other than `budget`.")
    )

    # ---- before data ----------------------------------------------------------------------------------------------

    def queries(self, schema: Schema) -> Queries:
        """The workload's queries for MWEM; refuses a domain that memory could not hold."""
        queries = self.workload.bind(schema)
        if queries.cells > MOST_RECORDS:
            raise DomainTooLarge(
                f"MWEM keeps a probability for every possible record, and the {len(queries.names)} attributes of its "
                f"workload have {many(queries.cells)} of them; the most is {MOST_RECORDS:,}.",
                fix="Use Synthesis, which needs no such list, or name fewer attributes in 'over'.",
                cells=str(queries.cells),
                bytes=str(_BYTES_A_RECORD * queries.cells),
                instead=["Synthesis", "Projection", "NoisyMarginals"],
            )
        if len(queries.names) > MOST_COLUMNS:
            raise DomainTooLarge(
                f"MWEM takes at most {MOST_COLUMNS} columns.",
                fix="Leave out those with one value.",
                columns=len(queries.names),
            )
        return queries

    def reads(self, schema: Schema) -> tuple[str, ...]:
        check_asked(schema)
        return self.queries(schema).names

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        scope = Scope(self.queries(schema), Universe.of(schema))
        if self.rounds is None and not n:
            return self._any_rounds(scope)
        return self._plan(scope, schema, n).guarantee()

    def _any_rounds(self, scope: Scope) -> Guarantee:
        """The guarantee of MWEM however many rounds there will be: blocks cost no more than one pick from all
        attributes."""
        (block,) = scope.block(scope.attributes, 1)
        first = blocks_of_rounds(scope, self.per_round, 1, self.seed)[0]
        most = self.per_round or len(scope.attributes) // scope.smallest
        if first[0].attributes == scope.attributes and first[0].count > 1:
            most = first[0].count
        prices = Prices.any_rounds(self._budget_units(scope), exact(self.selection))
        return prices.guarantee(scope.universe, Block(block.attributes, block.members, block.masks, most))

    def _budget_units(self, scope: Scope) -> dict[str, int]:
        """The budget of every protected source attribute that MWEM's workload asks about."""
        units = source_units(scope.universe, self.budget, self.budgets)
        return {name: units[name] for name in scope.attributes if name not in scope.universe.public}

    def _plan(self, scope: Scope, schema: Schema, n: int) -> Rounds:
        if n > MOST_ROWS:
            raise DomainTooLarge(f"MWEM takes at most {MOST_ROWS:,} rows.", fix="Use NoisyMarginals.")
        rounds = self.rounds or self._best_rounds(scope, schema, n)
        prices = Prices.of(self._budget_units(scope), rounds, exact(self.selection))
        return Rounds(scope, blocks_of_rounds(scope, self.per_round, rounds, self.seed), prices)

    def _best_rounds(self, scope: Scope, schema: Schema, n: int) -> int:
        """The number of MWEM rounds with the smallest bound, which knows public facts only.

        The paper's small steps need all the rounds that the bound asks for. The fit takes from a measurement all it
        tells, so more measurements than there are queries would only make each of them noisier.
        """
        per_round = sum(block.count for block in blocks_of_rounds(scope, self.per_round, 1, self.seed)[0])
        best = self._bound(scope, schema, n).best_rounds(per_round)
        return best if self.update == "paper" else min(best, math.ceil(len(self.queries(schema)) / per_round))

    def _bound(self, scope: Scope, schema: Schema, n: int) -> Bound:
        queries = self.queries(schema)
        rho = min(self._budget_units(scope).values(), default=UNIT) / UNIT
        if not rho:
            raise BudgetError("The budget is too small for even one round.", fix="Raise it.")
        return Bound(rho, math.log(queries.cells), len(queries), float(self.selection), n)

    def _promised_bound(self, plan: Rounds, schema: Schema, n: int) -> Bound | None:
        """MWEM's error bound where the theorem covers the run: queries that count alike, picked from all of them."""
        queries = self.queries(schema)
        alike = len({group.weight for group in queries.groups}) == 1 and plan.prices.alike
        return self._bound(plan.scope, schema, n) if n and alike and not plan.in_blocks else None

    def expected_error(self, schema: Schema, n: int) -> DistributionError:
        """MWEM's bound of `eq:pdp-mwem-T` for this budget, and for the same budget per person (ℓ = 1)."""
        check_asked(schema, n)
        queries = self.queries(schema)
        scope = Scope(queries, Universe.of(schema))
        if self.rounds is None and not n:
            first = blocks_of_rounds(scope, self.per_round, 1, self.seed)[0]
            picked = sum(block.count for block in first)
            return DistributionError(len(queries), queries.cells, None, picked, self.rows or 0)
        plan = self._plan(scope, schema, n)
        scale = max(answer_scale(plan.prices.least(sources)[1], 1) for sources in scope.sources)
        rows = self._synthetic_rows(n)
        result = DistributionError(len(queries), queries.cells, plan.count, plan.per_round, rows, scale)
        bound = self._promised_bound(plan, schema, n)
        if bound is None:
            return result
        return replace(
            result,
            bound=bound.at(plan.count, plan.per_round),
            bound_best_rounds=bound.at(bound.best_rounds(plan.per_round), plan.per_round),
            bound_one_query=bound.at(bound.best_rounds(1), 1),
        )

    def _synthetic_rows(self, n: int) -> int:
        return min(n, MOST_DRAWN) if self.rows is None else self.rows

    def _machine(self, schema: Schema, n: int) -> RunSetup:
        queries = self.queries(schema)
        return RunSetup(queries, self._plan(Scope(queries, Universe.of(schema)), schema, n), n)

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> FittedDistribution:
        machine = self._machine(counts.schema, counts.n)
        truth = machine.queries.counts(counts)  # the only look at the data
        model = update_named(self.update, machine.cube, machine.plan.count)
        steps: list[Step] = []
        picked: list[Integers] = []
        noisy: list[Integers] = []
        for number in range(machine.plan.count):
            scores = machine.scores.of(truth, model.answers())
            chosen = [q for selector in machine.selectors(number) for q in selector.draw(scores, noise)]
            picked.append(np.array(chosen, dtype=np.int64))
            noisy.append(truth[picked[-1]] + machine.noise(picked[-1], noise))  # [answers]
            before = model.theta.copy()
            machine.learn(model, picked[-1], noisy[-1], last=number == machine.plan.count - 1)
            changed = np.flatnonzero(model.theta != before)
            steps.append(Step(changed, (model.theta - before)[changed]))
            counts.working("learning, round", number + 1, machine.plan.count)
        rounds = np.repeat(np.arange(len(picked)), [len(chosen) for chosen in picked])
        query = np.concatenate(picked)
        measured = Measured(rounds, query, np.concatenate(noisy), machine.scale[query])
        return self._output(machine, tuple(steps), measured, noise)

    def _output(
        self, machine: RunSetup, steps: tuple[Step, ...], measured: Measured, noise: NoiseSource
    ) -> FittedDistribution:
        """The fitted MWEM model and answers; from here on everything is post-processing of what was released."""
        average = (self.output or ("last" if self.update == "fit" else "average")) == "average"
        if not average:
            steps = (Step.together(steps, len(machine.queries)),)
        mass = model_distribution(machine.cube, steps, average)  # [post-processing]
        bound = self._promised_bound(machine.plan, machine.queries.schema, machine.n)
        rows, schema = self._synthetic_rows(machine.n), machine.queries.schema
        drawn = draw_rows(mass, rows, noise) if rows else None
        return FittedDistribution(
            workload=self.workload.to_json(),
            schema=schema,
            n=machine.n,
            average=average,
            steps=steps,
            measured=measured,
            answers=np.clip(machine.cube.answers(mass), 0, 1),
            bound=bound.at(machine.plan.count, machine.plan.per_round) if bound else None,
            rows=drawn,
            within=draw_bin_positions(schema, machine.queries.names, rows, noise) if rows else None,
        )

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        machine = self._machine(counts.schema, counts.n)
        if machine.plan.count > 2:
            raise AuditError(
                "The exact output distribution is available for one or two rounds.", fix="Audit with rounds = 2."
            )
        model = update_named(self.update, machine.cube, machine.plan.count)
        return machine.law(machine.queries.counts(counts), model, 0, counts.working)

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        return self._machine(schema, n).scenarios(law)

    def published_values(self, output: FittedDistribution, schema: Schema, n: int) -> Mapping[Any, int]:
        measured = output.measured
        names = zip(measured.round.tolist(), measured.query.tolist(), strict=True)
        return dict(zip(names, measured.count.tolist(), strict=True))

    def noise_uses(self, schema: Schema, n: int, output: FittedDistribution) -> list[NoiseUse]:
        """The noise of MWEM, round by round as the published measurements say; synthetic rows are drawn from the
        model."""
        machine = self._machine(schema, n)
        rounds = machine.plan.noise_uses(machine.queries, output.measured.round, output.measured.query)
        rows = NoiseUse.exactly("synthetic rows", "select", self._synthetic_rows(n))
        return [*rounds, rows, NoiseUse.free("positions inside bins", "uniform_integers")]

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """Records that differ in every attribute of T: that moves one query of each disjoint set."""
        return [({}, dict.fromkeys(attributes, 1)), (dict.fromkeys(attributes, 1), {})]

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> FittedDistribution:
        return FittedDistribution.from_json(data, schema)
