"""Synthesis: a private table to hand out, with a budget for every attribute. The proof is in PROOF.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from nabladp.errors import BudgetError, DomainTooLarge, MechanismError
from nabladp.mechanisms.kinds import SUPPORTED_BY, BudgetKind, Choice, Flag, Name, Names, Number, Share, Whole
from nabladp.mechanisms.mechanism import Law, Mechanism, Records, Scenario, check_asked
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.mechanisms.parameters import parameter
from nabladp.mechanisms.synthesis.accounts import Limits
from nabladp.mechanisms.synthesis.design import Design, SynthesisError, expect
from nabladp.mechanisms.synthesis.groups import Groups, fixed_columns, starts_of
from nabladp.mechanisms.synthesis.inference import Zeros, model_bytes
from nabladp.mechanisms.synthesis.output import MOST_ROWS as MOST_TABLE_ROWS
from nabladp.mechanisms.synthesis.output import SyntheticModel
from nabladp.mechanisms.synthesis.rounds import Course, State, Truth
from nabladp.mechanisms.synthesis.strategy import (
    BACK_ENDS,
    MOST_PAIRS,
    MOST_ROUNDS,
    STRATEGIES,
    DeclaredZeros,
    Facts,
    SetBudgets,
    WantedMarginals,
    WantedWeights,
    check_back_end,
    choose,
    grouped_columns,
)
from nabladp.mechanisms.synthesis.strategy import Choice as Chosen
from nabladp.mechanisms.synthesis.workload import Wanted, forbidden, wanted, with_rules
from nabladp.noise import NoiseSource
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT, exact
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import CDP, BudgetValue
from nabladp.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.mechanisms.synthesis.output import SyntheticModel
    from nabladp.noise import NoiseSource
    from nabladp.tables import Counts


# ---- synthesis in the manner of SDV and scikit-learn -----------------------------------------------------------------


class Synthesizer:
    """``fit`` releases ``mechanism`` through ``session``; ``sample`` then draws as many tables as wanted, at no cost.

    Every call of ``fit`` reserves the mechanism's whole cost in the session's ledger before it reads a row, and is
    refused when that does not fit the budget. After fitting: ``release_`` and ``model_`` (its output).
    """

    def __init__(self, mechanism: Any, session: Any) -> None:
        self.mechanism = mechanism
        self.session = session
        self._release: Any = None

    def fit(self, table: Any = None) -> Synthesizer:
        """Release Synthesis: without a table from the session's own; with one (a data frame, an Arrow table) through
        the same ledger."""
        session = self.session if table is None else self.session.with_table(table)
        self._release = session.release(self.mechanism)
        return self

    @property
    def release_(self) -> Any:
        if self._release is None:
            raise MechanismError("Nothing was fitted yet.", fix="Call fit() first; it releases through the session.")
        return self._release

    @property
    def model_(self) -> SyntheticModel:
        model: SyntheticModel = self.release_.output
        return model

    def sample(
        self, rows: int | None = None, noise: NoiseSource | None = None, *, repair: bool | None = None
    ) -> pa.Table:
        """A synthetic table of ``rows`` rows (default: as many as the fitted table had), repaired as the mechanism
        says by default."""
        wanted = self.model_.n if rows is None else rows
        return self.model_.sample(wanted, noise, repair=self.mechanism.repair if repair is None else repair)

    def save(self, path: Any) -> None:
        """Save the fitted synthetic model as a file; ``SyntheticModel.load`` reads it."""
        self.model_.save(path)


def _check_shares(shares: float | Fraction) -> None:
    if shares >= 1:
        raise MechanismError(
            "'one_way', 'pairs' and 'selection' leave nothing to measure with.",
            fix="Lower one of them; where one is not given, it is chosen for you, and `nabladp cost` tells.",
        )


# ---- the mechanism ---------------------------------------------------------------------------------------------------

MOST_ROWS = 1 << 40  # distances on the grid stay whole numbers of 63 bits
_MANY_SETS = 4_000
_WIDE = 64  # columns: of more, the model gets a part of its room
MOST_DRAWN = 10_000_000  # rows of a table that nobody asked to be larger


@dataclass(frozen=True)
class Synthesis(Mechanism):
    """A table of synthetic rows, and the marginals of a workload, at a cost stated for every set of attributes.

    ``budget`` (CDP, Rho or Approx) is the budget of every source attribute, ``budgets`` are exceptions, ``sets`` are
    limits on several attributes together ("race+ethnicity"), ``person`` is the limit per person; without ``budget``,
    all of it is spent. ``workload`` is 2 or 3, for all 2-way or 3-way marginals (of ``over``), or a list of
    sets; ``weights`` and a ``target`` column state what matters more. ``strategy``: "packed" (each round selects
    attribute-disjoint marginals jointly), "matched" (so among any number of columns, for pairs), "single" (one per
    round), "all" (all at once), "refined" (all at once, then again where answers are least certain), or "auto", which
    decides from public facts, and from released single columns where these leave it open. ``rounds``, and the shares
    ``one_way``, ``pairs`` (before larger marginals) and ``selection`` of the budget, are chosen likewise.
    ``rows`` are sampled (default: as many as the table has). ``model_mb`` limits the model, never the measurements.
    ``repair`` moves them towards the answers, which know more than the model.
    ``zeros`` declares impossible combinations. "packed" splits more than 16 attributes into blocks by ``seed``.

    Guarantee, for every set of attributes: ``touch`` for each marginal fixed in advance, ``linear`` (or ``touch``) for
    every selection, ``capped`` for the measurements of rounds; each limit holds for the sum. Assumed: the number of
    rows is public and one row is one person (`lem:composition`; PROOF.md).
    """

    budget: BudgetValue | None = field(
        default=None, metadata=parameter(BudgetKind("gaussian"), "The budget of every source attribute.")
    )
    workload: int | tuple[tuple[str, ...], ...] = field(
        default=2,
        metadata=parameter(
            WantedMarginals(), "The marginals that the table should match: all of so many columns, or those listed."
        ),
    )
    over: tuple[str, ...] | None = field(
        default=None, metadata=parameter(Names(), "The columns; by default all of the schema.")
    )
    weights: Mapping[Any, float] | tuple[float, ...] | None = field(
        default=None, metadata=parameter(WantedWeights(), "How much sets of the workload, or columns, matter.")
    )
    target: str | None = field(
        default=None, metadata=parameter(Name(), "A column to be predicted: marginals that hold it matter more.")
    )
    strategy: str = field(
        default="auto",
        metadata=parameter(
            Choice(*STRATEGIES),
            "Whether rounds pick marginals, or all are measured; chosen by default from public and released numbers.",
        ),
    )
    rounds: int | None = field(
        default=None, metadata=parameter(Whole(1, MOST_ROUNDS), "How many rounds there are; chosen by default.")
    )
    one_way: float | None = field(
        default=None,
        metadata=parameter(
            Share(zero=True), "The share of the budget for the marginals measured first; chosen by default."
        ),
    )
    selection: float | None = field(
        default=None, metadata=parameter(Share(), "The share of the budget that picks marginals; chosen by default.")
    )
    pairs: float | None = field(
        default=None,
        metadata=parameter(
            Share(zero=True),
            "The share of the budget for all pairs, before marginals of more columns; chosen by default.",
        ),
    )
    rows: int | None = field(
        default=None,
        metadata=parameter(
            Whole(1, MOST_TABLE_ROWS), "How many synthetic rows there are; by default as many as in the table."
        ),
    )
    model_mb: float = field(
        default=16.0,
        metadata=parameter(
            Number(0, 10**6, above=True, real=True, of="megabytes"),
            "The largest size of the model; for d > 64 columns, 64/d of it.",
        ),
    )
    zeros: tuple[Mapping[str, Any], ...] = field(
        default=(), metadata=parameter(DeclaredZeros(), "Combinations of values that are impossible.")
    )
    back_end: str = field(
        default="own", metadata=parameter(Choice(*BACK_ENDS), "What fits the model: nabladp itself, or mbi.")
    )
    repair: bool = field(
        default=True,
        metadata=parameter(Flag(), "Whether sampled rows are moved towards the answers.", stored="changed"),
    )
    seed: int = field(
        default=0, metadata=parameter(Whole(0, 1 << 62), 'How more than 16 attributes are cut into blocks by "packed".')
    )
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(SetBudgets(), "Attributes with a budget other than `budget`.")
    )
    sets: Mapping[Any, BudgetValue] = field(
        default_factory=dict,
        metadata=parameter(SetBudgets(), "Limits on several attributes together, as in `race+ethnicity`."),
    )
    person: BudgetValue | None = field(
        default=None, metadata=parameter(BudgetKind("gaussian"), "The limit of all attributes together.")
    )

    plans_for_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget is None and not self.budgets and not self.sets and self.person is None:
            raise BudgetError("Synthesis needs a budget.", fix=f"Give budget or person: {SUPPORTED_BY[False]}.")
        if self.sets:  # refuses what names no set
            object.__setattr__(self, "sets", dict(Budget(sets=self.sets).sets))
        _check_shares((self.one_way or 0) + (self.pairs or 0) + (self.selection or 0))

    # ---- before data ----------------------------------------------------------------------------------------------

    def wanted(self, schema: Schema) -> Wanted:
        """The marginals of the workload, the candidates that Synthesis rounds choose from, and those measured first."""
        return wanted(schema, self.workload, self.over, self.weights, self.target)

    def reads(self, schema: Schema) -> tuple[str, ...]:
        check_asked(schema)
        return self.wanted(schema).columns

    def _limits(self, schema: Schema, asked: Wanted) -> Limits:
        budget = Budget(self.budget, self.budgets, self.sets, self.person)
        return Limits.of(Universe.of(schema), asked.columns, budget)

    def _facts(self, asked: Wanted, limits: Limits, n: int) -> Facts:
        own = sorted(limits.units[: len(limits.attributes)])
        each = own[len(own) // 2] / UNIT if own else 1.0
        return Facts(n, asked, each, each if self._only_person else None)

    @property
    def _only_person(self) -> bool:
        return self.budget is None and not self.budgets and not self.sets

    def _groups(self, schema: Schema, facts: Facts) -> Groups:
        """The groups of values that are measured together, by public facts only."""
        fixed = fixed_columns(schema, self.zeros)
        ordered = {n: schema[n].ordered_size for n in facts.wanted.columns if n not in fixed and schema[n].is_ordered}
        chosen = grouped_columns(facts, ordered)
        return Groups({name: starts_of(schema[name], groups) for name, groups in chosen.items()})

    def _choice(self, facts: Facts) -> Chosen:
        result = choose(facts, self.strategy, self.rounds, by_columns=self.one_way != 0)
        one_way = result.one_way if self.one_way is None else exact(self.one_way)
        selection = result.selection if self.selection is None else exact(self.selection)
        before = one_way + (selection if result.picks else 0)
        pairs = exact(self.pairs) if self.pairs is not None and facts.width > 2 else None
        _check_shares(before + (pairs or 0))

        def settled(choice: Chosen) -> Chosen:
            share = min(choice.pairs, MOST_PAIRS * (1 - before)) if pairs is None else pairs
            why = choice.why + self._unused(choice.strategy, facts.width)
            return replace(choice, why=why, one_way=one_way, selection=selection, pairs=share)

        return replace(settled(result), instead=result.instead and settled(result.instead))

    def _unused(self, strategy: str, width: int) -> str:
        unused = {
            "rounds": strategy == "all",
            "selection": strategy in ("all", "refined"),
            "pairs": width <= 2,
        }
        return "".join(
            f"; {name} not used" for name, idle in unused.items() if idle and getattr(self, name) is not None
        )

    def design(self, schema: Schema, n: int) -> Design:
        """The Synthesis design, fixed before data is read; refuses what could not be carried out."""
        if n > MOST_ROWS:
            raise DomainTooLarge(f"Synthesis takes at most {MOST_ROWS:,} rows.", fix="Use NoisyMarginals.")
        known: tuple[Schema, int, Design] | None = vars(self).get("_designed")
        if known is not None and known[:2] == (schema, n):
            return known[2]
        check_back_end(self.back_end, self.zeros)
        asked = self.wanted(schema)
        limits = self._limits(schema, asked)
        self._check_model(asked, self._zeros(schema, asked))
        facts = self._facts(asked, limits, n)
        choice = self._choice(facts)
        groups = self._groups(schema, facts) if choice.one_way else Groups()  # columns say how groups are spread
        design = Design.of(asked, limits, choice, n, self.seed, groups)
        if len(asked.sets) > _MANY_SETS:  # takes seconds, and is asked for several times
            vars(self)["_designed"] = schema, n, design
        return design

    def _zeros(self, schema: Schema, asked: Wanted) -> tuple[Zeros, ...]:
        declared = forbidden(schema, asked.columns, self.zeros) if self.zeros else ()
        if self.back_end == "mbi":
            return declared
        return with_rules(asked, declared, self._limit_bytes // 2)

    def _check_model(self, asked: Wanted, zeros: Sequence[Zeros]) -> None:
        """Refuse a Synthesis model too small to hold every column by itself, derived ones with their sources, and all
        zeros."""
        held = [*asked.first, *(zero.attributes for zero in zeros)]
        needed = model_bytes(asked.sizes, held)
        if needed > self._limit_bytes:
            largest = max(held, key=asked.cells)
            raise DomainTooLarge(
                f"The model needs {needed / 1e6:,.1f} MB at least, and model_mb is {self.model_mb:g}. Most is for "
                f"{'+'.join(largest)} ({asked.cells(largest):,} cells).",
                fix=f"Set model_mb to {math.ceil(needed / 1e6):,} or more, or declare coarser bins for "
                f"{max(largest, key=asked.sizes.__getitem__)!r}.",
                attributes=list(largest),
                bytes=str(needed),
            )

    @property
    def _limit_bytes(self) -> int:
        return int(self.model_mb * 1e6)

    def _room(self, asked: Wanted, zeros: Sequence[Zeros]) -> int:
        """The bytes that the model may take: of many columns less than ``model_mb``. Its time grows with both, and a
        larger model hardly helps, since answers use all measurements and rows are moved towards answers."""
        if len(asked.columns) <= _WIDE:
            return self._limit_bytes
        needed = model_bytes(asked.sizes, [*asked.first, *(zero.attributes for zero in zeros)])
        return max(self._limit_bytes * _WIDE // len(asked.columns), min(needed, self._limit_bytes))

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        asked = self.wanted(schema)
        if n or self._is_settled(asked):
            return self.design(schema, n).guarantee()
        # how the budget will be used depends on n: only group privacy is sure
        limits = self._limits(schema, asked)
        self.design(schema, 1)
        each = {name: CDP(Fraction(units, UNIT)) for name, units in limits.group_prices().items()}
        return Guarantee.linear(limits.universe, each)  # [any-rows]

    def _is_settled(self, asked: Wanted) -> bool:
        """Whether all that the guarantee depends on is known without the number of rows: strategy, rounds and shares;
        with a person's limit alone, how values are grouped depends on it."""
        given = [self.rounds, self.one_way, self.selection]
        if any(len(names) > 2 for names in asked.sets):
            given.append(self.pairs)
        return None not in given and self.strategy != "auto" and not self._only_person

    def expected_error(self, schema: Schema, n: int) -> SynthesisError:
        """How Synthesis will use the budget and why, the noise of a measured marginal, memory and time."""
        check_asked(schema, n)
        design = self.design(schema, n)
        room = self._room(design.wanted, self._zeros(schema, design.wanted))
        result = expect(design, room, self._drawn_rows(n))
        if n or self.strategy != "auto":
            return result
        return replace(result, strategy="auto", why="decides when the number of rows is known")

    def _drawn_rows(self, n: int) -> int:
        return min(n, MOST_DRAWN) if self.rows is None else self.rows

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> SyntheticModel:
        course = self._course(counts.schema, counts.n)

        def progress(done: int, total: int) -> None:
            counts.working("learning, round", done, total)

        state = course.run(Truth(counts, course.design.wanted.sizes), noise, progress)
        counts.working("drawing rows", 0, 0)
        return self._output(course.design, state, noise)

    def _course(self, schema: Schema, n: int) -> Course:
        design = self.design(schema, n)
        zeros = self._zeros(schema, design.wanted)
        return Course(design, self._room(design.wanted, zeros), zeros, self.back_end)

    def _output(self, design: Design, state: State, noise: NoiseSource) -> SyntheticModel:
        """The synthetic model, fitted to all measurements; from here on everything is post-processing of what was
        released."""
        released = SyntheticModel(
            schema=design.wanted.schema,
            n=design.n,
            sets=design.wanted.sets,
            weights=design.wanted.weights,
            model=state.model,
            # how much a marginal measured at once surprised the model is not published: answers must not need it
            measured=tuple(m if m.round > state.at_once else replace(m, surprise=()) for m in state.measured),
            strategy=state.choice.strategy,
            why=state.choice.why,
            rounds=state.number - state.at_once,
            rows=self._drawn_rows(design.n),
        )
        return released.with_table(noise, self.repair)

    def estimator(self, session: Any) -> Synthesizer:
        """An object with ``fit(table)`` and ``sample(rows)``; its ``fit`` releases this Synthesis through the
        session."""
        return Synthesizer(self, session)

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        from nabladp.mechanisms.synthesis.output_distribution import OutputDistribution

        course = self._course(counts.schema, counts.n)
        return OutputDistribution(course, Truth(counts, course.design.wanted.sizes)).whole()

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        from nabladp.mechanisms.synthesis.output_distribution import published_scenarios

        return published_scenarios(self._course(schema, n), law)

    def published_values(self, output: SyntheticModel, schema: Schema, n: int) -> Mapping[Any, int]:
        from nabladp.mechanisms.synthesis.output_distribution import cell_names

        names = cell_names([(m.round, m.attributes, m.counts.size) for m in output.measured])
        return dict(zip(names, (c for m in output.measured for c in m.counts.ravel().tolist()), strict=True))

    def noise_uses(self, schema: Schema, n: int, output: SyntheticModel) -> list[NoiseUse]:
        """The noise of Synthesis: planned marginals, and what the output says that rounds measured; rows are sampled
        from the model."""
        later = [(m.attributes, m.counts.size, m.scale) for m in output.measured if m.round]
        uses = self.design(schema, n).noise_uses(later)
        return [*uses, NoiseUse.free("synthetic rows", "uniform_integers")]

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """Any change of T moves every marginal that meets T in two cells; at once it moves a whole packing."""
        return [({}, dict.fromkeys(attributes, 1)), (dict.fromkeys(attributes, 1), {})]

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> SyntheticModel:
        return SyntheticModel.from_json(data, schema)
