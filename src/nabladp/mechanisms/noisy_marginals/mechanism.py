"""NoisyMarginals: the first mechanism, and the pattern for the others. The proof is in PROOF.md beside this file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.errors import BudgetError, MechanismError
from nabladp.mechanisms.allocation import allocate, least_scale, limited_by, source_units
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Choice, Names, Sets, Weights, Whole, check_all_support
from nabladp.mechanisms.mechanism import Law, Mechanism, Records, Scenario, ValueLaw, check_asked
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.mechanisms.noisy_marginals.output import MarginalError, MarginalTables, NoisyMarginal
from nabladp.mechanisms.parameters import parameter
from nabladp.noise import NoiseSource, gaussian_log_pmf, laplace_log_pmf
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT, exact
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, Pure, Rho
from nabladp.schema import Schema
from nabladp.workloads import marginal_sets, refuse_bare_names, refuse_sets_and_k

if TYPE_CHECKING:
    from nabladp.tables import Counts

_AUDIT_ORDER = 24.0  # the exact law is cut where Rényi orders up to this cannot notice


@dataclass(frozen=True)
class NoisyMarginals(Mechanism):
    """Counts for every combination of values of some attributes, with integer noise on each cell.

    ``budget`` is the budget of every source attribute (``budgets`` names exceptions); the noise of each marginal is the
    smallest within all budgets. Gaussian noise takes CDP, Rho or Approx, Laplace noise takes Pure.

    Guarantee: the sum over marginals S of ``touch(sources of S, c_S)`` with ρ = c_S = 1/scale² (Gaussian) or pure
    ε = c_S = 2/scale (Laplace), for every set of attributes. Assumed: the number of rows is public and one row is one
    person (`lem:composition`; PROOF.md).
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind(), "The budget of every source attribute."))
    sets: tuple[tuple[str, ...], ...] | None = field(
        default=None, metadata=parameter(Sets(), "The marginals, each a set of attributes; either these or `k`.")
    )
    k: int | None = field(default=None, metadata=parameter(Whole(1), "All marginals of so many attributes."))
    over: tuple[str, ...] | None = field(
        default=None,
        metadata=parameter(Names(), "The attributes that `k` chooses from; by default all that are not derived."),
    )
    weights: tuple[float | Fraction, ...] | None = field(
        default=None, metadata=parameter(Weights(), "How much each of the `sets` matters; by default all the same.")
    )
    noise: str = field(
        default="gaussian",
        metadata=parameter(
            Choice("gaussian", "laplace"), "The noise: Gaussian takes a CDP, Rho or Approx budget, Laplace a Pure one."
        ),
    )
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(Budgets(), "Attributes with a budget other than `budget`.")
    )

    def __post_init__(self) -> None:
        refuse_bare_names(self.sets)
        super().__post_init__()
        refuse_sets_and_k(self.sets, self.k)
        if self.over is not None and self.k is None:
            raise MechanismError("'over' goes with 'k'.", fix="Give k, or list the sets.")
        check_all_support(self.budget, self.budgets, self.noise == "laplace", f"{self.noise.capitalize()} noise")

    # ---- before data ----------------------------------------------------------------------------------------------

    def marginals(self, schema: Schema) -> tuple[tuple[str, ...], ...]:
        return marginal_sets(schema, self.sets, self.k, self.over)

    def reads(self, schema: Schema) -> tuple[str, ...]:
        check_asked(schema)
        used = {name for chosen in self.marginals(schema) for name in chosen}
        return tuple(name for name in schema.names if name in used)

    def _units(self, schema: Schema) -> tuple[tuple[tuple[str, ...], int], ...]:
        """The cost of every marginal in units of 2⁻⁶⁰: ρ for Gaussian noise, ε for Laplace."""
        sets = self.marginals(schema)
        universe = Universe.of(schema)
        touched = [limited_by(universe, chosen) for chosen in sets]  # [sources]
        weights = [exact(weight) for weight in self.weights] if self.weights else [Fraction(1)] * len(sets)
        if len(weights) != len(sets):
            raise MechanismError(
                f"'weights' needs {len(sets)} numbers, one for each set, and has {len(weights)}.",
                fix=f"Write, for instance, weights = {[1] * min(len(sets), 3)}{' …' if len(sets) > 3 else ''}.",
            )
        budgets = source_units(universe, self.budget, self.budgets)
        amounts = allocate(touched, weights, budgets)  # [allocation]
        if min(amounts) < 1 << 12:  # the noise would be of scale 10⁷ (Gaussian) or 10¹⁴ (Laplace)
            raise BudgetError("The budget is too small for so many marginals.", fix="Raise it or ask for fewer sets.")
        return tuple(zip(sets, amounts, strict=True))

    def _scale(self, units: int) -> float:
        return least_scale(self.noise, units, 2)  # [gaussian-scale] [laplace-scale]: one row moves two cells by one

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        return Guarantee.compose(schema, [cost for _, cost in self._costs(schema)])  # [composition]

    def _costs(self, schema: Schema) -> list[tuple[tuple[str, ...], Guarantee]]:
        universe = Universe.of(schema)
        parts = []
        for chosen, units in self._units(schema):
            cost = Fraction(units, UNIT)
            if self.noise == "gaussian":
                part = Guarantee.touch(universe, chosen, Rho(cost), gaussian_scale=self._scale(units))
            else:
                part = Guarantee.touch(universe, chosen, Pure(cost))
            parts.append((chosen, part))
        return parts

    def expected_error(self, schema: Schema, n: int) -> tuple[MarginalError, ...]:
        """The noise of every marginal: standard deviation, mean absolute error and 95% half-width of a cell."""
        check_asked(schema, n)
        return tuple(
            MarginalError.of(chosen, schema.cells(chosen), self.noise, self._scale(units), n)
            for chosen, units in self._units(schema)
        )

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> MarginalTables:
        allotted = self._units(counts.schema)
        tables = counts.marginals([chosen for chosen, _ in allotted])
        scales = [self._scale(units) for _, units in allotted]
        noisy = self._with_noise(tables, scales, noise)
        released = (
            NoisyMarginal(chosen, table, self.noise, scale, counts.schema)
            for (chosen, _), table, scale in zip(allotted, noisy, scales, strict=True)
        )
        return MarginalTables(tuple(released), counts.n, counts.schema)

    def _with_noise(self, tables: list[Integers], scales: list[float], noise: NoiseSource) -> list[Integers]:
        """Marginals with fresh noise on every cell; one draw for all tables of a scale, as draws are cheap in bulk."""
        draw = noise.discrete_gaussian if self.noise == "gaussian" else noise.discrete_laplace
        results = list(tables)
        for scale in sorted(set(scales)):
            chosen = [index for index, own in enumerate(scales) if own == scale]
            ends = np.cumsum([tables[index].size for index in chosen])
            drawn = np.split(draw(scale, int(ends[-1])), ends[:-1])
            for index, part in zip(chosen, drawn, strict=True):
                results[index] = tables[index] + part.reshape(tables[index].shape)  # [noise]: every cell, zero or not
        return results

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        parts: list[NDArray[np.float64]] = []
        allotted = self._units(counts.schema)
        for (_, units), table in zip(allotted, counts.marginals([chosen for chosen, _ in allotted]), strict=True):
            scale = self._scale(units)
            window = _window(scale)
            log_pmf = gaussian_log_pmf if self.noise == "gaussian" else laplace_log_pmf
            held = table.ravel().tolist()
            known = {count: log_pmf(scale, -window - count, counts.n + window - count) for count in set(held)}
            parts += [known[count] for count in held]
        return Law(tuple(parts), _AUDIT_ORDER if self.noise == "gaussian" else math.inf)

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        """The law of the published marginals: a part for each cell of each table, in order."""
        scales = [self._scale(units) for chosen, units in self._units(schema) for _ in range(schema.cells(chosen))]
        cells = zip(scales, law.arrays(), strict=True)
        return [Scenario(0.0, {cell: ValueLaw(-_window(scale), part) for cell, (scale, part) in enumerate(cells)})]

    def published_values(self, output: MarginalTables, schema: Schema, n: int) -> Mapping[Any, int]:
        return dict(enumerate(count for table in output for count in table.counts.ravel().tolist()))

    def noise_uses(self, schema: Schema, n: int, output: MarginalTables) -> list[NoiseUse]:
        """The noise of NoisyMarginals: a number for every cell of every marginal; one row moves two of them by one."""
        return [
            NoiseUse.exactly(
                f"the marginal {'+'.join(chosen)}",
                f"discrete_{self.noise}",
                schema.cells(chosen),
                Charge.of_each(cost, chosen, 2),
            )
            for chosen, cost in self._costs(schema)
        ]

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """Any change of T moves every marginal that meets T in exactly two cells: all pairs are equally hard."""
        return [({}, dict.fromkeys(attributes, 1))]

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> MarginalTables:
        return MarginalTables.from_json(data, schema)


def _window(scale: float) -> int:
    """How far beyond all possible counts of a marginal's cell the exact law reaches."""
    return math.ceil(_AUDIT_ORDER + 14 * scale)
