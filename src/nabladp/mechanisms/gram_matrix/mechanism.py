"""GramMatrix: all products of ±1 columns with discrete Gaussian noise. The proof is in PROOF.md beside this file."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.errors import MechanismError
from nabladp.mechanisms.gram_matrix.calibration import Calibration, calibrate, moved
from nabladp.mechanisms.gram_matrix.output import NoisyGram
from nabladp.mechanisms.gram_matrix.regression import noise_norm
from nabladp.mechanisms.gram_matrix.signed_columns import ENCODE, Disagreements, Encoding, SignedColumns
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Name, Names
from nabladp.mechanisms.mechanism import ExpectedError, Law, Mechanism, Records, Scenario, ValueLaw, check_asked
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.mechanisms.parameters import parameter
from nabladp.noise import NoiseSource, gaussian_log_pmf
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, limit_units
from nabladp.schema import Schema

if TYPE_CHECKING:
    from nabladp.tables import Counts

_AUDIT_ORDER = 24.0  # the exact law is cut where Rényi orders up to this cannot notice


@dataclass(frozen=True)
class GramError(ExpectedError):
    """The noise of a Gram release, known before anything is spent."""

    columns: int
    cells: int  # entries above the diagonal
    least_scale: float  # of the noise on an entry
    largest_scale: float
    noise_norm: float  # about the most that the spectral norm of the noise is; the default ridge
    share: float | None  # the same over n; None where n is not known yet
    person_scale: float | None  # of all entries, if the budget were the whole person's; None where all is public

    def values_written(self) -> int:
        return self.cells

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"columns of ±1, with the intercept": self.columns}
        if self.least_scale < self.largest_scale:
            told["noise scale of the noisiest entry"] = self.largest_scale
            told["noise scale of the least noisy entry"] = self.least_scale
        else:
            told["noise scale of an entry"] = self.largest_scale
        told["spectral norm of the noise, about at most"] = self.noise_norm
        if self.share is not None:
            told["that norm as a share of the number of rows"] = self.share
        if self.person_scale is not None:
            told["noise scale of an entry at the same budget per person"] = self.person_scale
        return asdict(self) | {"summary": told}


@dataclass(frozen=True)
class GramMatrix(Mechanism):
    """The Gram matrix of ±1 columns made from attributes: how often any two columns agree minus how often they do not.

    ``budget`` (CDP, Rho or Approx) is the budget of every source attribute, ``budgets`` names exceptions. ``over`` are
    the attributes (default: all that are not derived), ``encode`` what they become (see
    :class:`~nabladp.mechanisms.gram_matrix.signed_columns.SignedColumns`). ``label`` names a two-valued attribute whose
    products get less noise if its budget is larger than the others', or if it is public.

    Guarantee: a sum of ``curve`` terms. A set of attributes that can flip K of a layer's P columns costs it
    max_{t≤K} t·(P − t)/(2s²), s the noise scale of a count of disagreements. Products of public columns are exact.
    Assumed: the number of rows is public and one row is one person (PROOF.md).
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind("gaussian"), "The budget of every source attribute."))
    over: tuple[str, ...] | None = field(
        default=None, metadata=parameter(Names(), "The attributes; by default all that are not derived.")
    )
    encode: Mapping[str, Encoding] = field(default_factory=dict, metadata=ENCODE)
    label: str | None = field(
        default=None,
        metadata=parameter(Name(), "A two-valued attribute whose products get noise of their own where that helps."),
    )
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(Budgets("gaussian"), "Attributes with a budget other than `budget`.")
    )

    # ---- before data ----------------------------------------------------------------------------------------------

    def calibration(self, schema: Schema) -> Calibration:
        """The ±1 columns of this schema with their noise; kept for the schema last asked about."""
        known = self.__dict__.get("_known")
        if known is None or known[0] is not schema:
            columns = SignedColumns.of(schema, self._names(schema), self.encode)
            if self.label is not None and len(columns.column_ranges[self.label]) != 1:
                raise MechanismError(
                    f"The label {self.label!r} must have two values.",
                    fix="Name another, or leave 'label' out: any column can be a target.",
                    attribute=self.label,
                )
            made = calibrate(columns, Universe.of(schema), self.budget, self.budgets, self.label)
            known = schema, made
            object.__setattr__(self, "_known", known)
        result: Calibration = known[1]
        return result

    def _names(self, schema: Schema) -> tuple[str, ...]:
        names = schema.roots if self.over is None else self.over
        if self.label is None or self.label in names:
            return names
        schema[self.label]  # refuses an unknown name
        return (*names, self.label)

    def reads(self, schema: Schema) -> tuple[str, ...]:
        check_asked(schema)
        used = self.calibration(schema).columns.attributes
        return tuple(name for name in schema.names if name in used)

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        return self.calibration(schema).guarantee()

    def expected_error(self, schema: Schema, n: int) -> GramError:
        """The noise of an entry of the Gram matrix, of the whole matrix, and of an entry at the same budget per
        person."""
        check_asked(schema, n)
        result = self.calibration(schema)
        width, scales = result.columns.width, 2 * result.scales
        whole = np.zeros((width, width))
        whole[np.triu_indices(width, 1)] = scales
        norm = noise_norm(whole + whole.T)
        flips = sum(block.flips for block in result.columns.blocks)
        least = min(map(limit_units, (self.budget, *self.budgets.values()))) / (1 << 60)
        person = 2 * math.sqrt(moved(flips, width) / (2 * least)) if result.parts else None
        return GramError(
            columns=width,
            cells=len(scales),
            least_scale=float(scales[scales > 0].min(initial=scales.max())),
            largest_scale=float(scales.max()),
            noise_norm=norm,
            share=norm / n if n else None,
            person_scale=person,
        )

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> NoisyGram:
        result = self.calibration(counts.schema)
        noisy = counts.fold(Disagreements(result.columns)) + _draw_noise(result.scales, noise)  # [noise]
        # From here on everything is made from what was released.
        entries = counts.n - 2 * noisy  # [post-processing]
        return NoisyGram(result.columns, counts.n, entries, result.class_of, 2 * result.class_scales)

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        """The output distribution of the noisy counts of disagreements, of which the Gram matrix is a function."""
        result = self.calibration(counts.schema)
        held = counts.fold(Disagreements(result.columns)).tolist()
        known = {key: _log_law(*key, counts.n) for key in set(zip(result.scales.tolist(), held, strict=True))}
        return Law(tuple(known[key] for key in zip(result.scales.tolist(), held, strict=True)), _AUDIT_ORDER)

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        """The law of the published Gram matrix: a part per count of disagreements; an entry is n minus twice that."""
        counts = zip(self.calibration(schema).scales.tolist(), law.arrays(), strict=True)
        return [Scenario(0.0, {pair: ValueLaw(lowest_count(scale), part) for pair, (scale, part) in enumerate(counts)})]

    def published_values(self, output: NoisyGram, schema: Schema, n: int) -> Mapping[Any, int]:
        return _disagreements(output.entries, n)

    def noise_uses(self, schema: Schema, n: int, output: NoisyGram) -> list[NoiseUse]:
        return self.calibration(schema).noise_uses()

    def two_valued(self) -> tuple[str, ...]:
        return () if self.label is None else (self.label,)

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """First values against second ones: every ±1 column that can flip does, unless thermometers or bits are asked
        for."""
        return [({}, dict.fromkeys(attributes, 1)), (dict.fromkeys(attributes, 1), {})]

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> NoisyGram:
        return NoisyGram.from_json(data, schema)


def _draw_noise(scales: Floats, noise: NoiseSource) -> Integers:
    """Fresh noise for every pair of columns that a protected attribute can move; one draw for all pairs of a scale."""
    drawn = np.zeros(len(scales), dtype=np.int64)
    for scale in np.unique(scales).tolist():
        if scale:
            chosen = np.flatnonzero(scales == scale)
            drawn[chosen] = noise.discrete_gaussian(scale, len(chosen))
    return drawn


def _disagreements(entries: Integers, n: int) -> dict[Hashable, int]:
    """The noisy count of disagreements behind every Gram entry; one whose parity is not that of n has a name that no
    law knows."""
    twice = (n - entries).tolist()
    return {(pair, "odd") if value % 2 else pair: value // 2 for pair, value in enumerate(twice)}


def lowest_count(scale: float) -> int:
    """The lowest count of disagreements that the exact law lists; without noise it is 0."""
    return -math.ceil(_AUDIT_ORDER + 14 * scale) if scale else 0


def _log_law(scale: float, count: int, n: int) -> Floats:
    """log P of a noisy count of disagreements, at most n before noise, over outcomes that are the same for every
    count."""
    if scale:
        lowest = lowest_count(scale)
        return gaussian_log_pmf(scale, lowest - count, n - lowest - count)
    return np.where(np.arange(n + 1) == count, 0.0, -np.inf)
