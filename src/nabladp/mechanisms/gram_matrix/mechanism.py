"""GramMatrix: all products of ±1 columns with discrete Gaussian noise. The proof is in PROOF.md beside this file."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError, MechanismError
from nabladp.mechanisms.gram_matrix.calibration import Calibration, Possible, calibrate, moved
from nabladp.mechanisms.gram_matrix.number_columns import NUMBER
from nabladp.mechanisms.gram_matrix.output import NoisyGram
from nabladp.mechanisms.gram_matrix.regression import noise_norm
from nabladp.mechanisms.gram_matrix.signed_columns import ENCODE, Encoding, Products, SignedColumns
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Name, Names
from nabladp.mechanisms.mechanism import (
    ErrorMeasure,
    ExpectedError,
    Law,
    Mechanism,
    Records,
    Scenario,
    ValueLaw,
    check_asked,
)
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
_MOST_OUTCOMES = 1 << 20  # of one number in the exact law


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

    def measure(self, rows: int) -> ErrorMeasure:
        what = "Noise in the matrix (spectral norm), as a share of the rows"
        return ErrorMeasure(what, self.share, small=0.1, useless=1, scales=True, advice="ask about fewer attributes")

    def to_json(self) -> dict[str, Any]:
        summary: dict[str, Any] = {"columns of ±1, with the intercept": self.columns}
        if self.least_scale < self.largest_scale:
            summary["noise scale of the noisiest entry"] = self.largest_scale
            summary["noise scale of the least noisy entry"] = self.least_scale
        else:
            summary["noise scale of an entry"] = self.largest_scale
        summary["spectral norm of the noise, about at most"] = self.noise_norm
        if self.share is not None:
            summary["spectral norm of the noise, as a share of the rows"] = self.share
        if self.person_scale is not None:
            summary["noise scale of an entry at the same budget per person"] = self.person_scale
        return asdict(self) | {"summary": summary}


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
            columns = SignedColumns.of(schema, self._names(schema), self.encode, numbers=True)
            if self.label is not None and len(columns.column_ranges[self.label]) != 1:
                raise MechanismError(
                    f"The label {self.label!r} must have two values, or be encoded as a number.",
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
        width, scales = result.columns.width, result.entry_scales
        norm = noise_norm(result.scale_matrix)
        flips = sum(block.flips for block in result.columns.all_blocks)
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
        noisy = counts.fold(Products(result.columns)) + _draw_noise(result.scales, noise)  # [noise]
        # From here on everything is made from what was released.
        entries = np.where(result.are_counts, counts.n - 2 * noisy, noisy)  # [post-processing]
        pairs = len(noisy) - len(result.square_scales)
        scales = np.where(result.class_counts, 2, 1) * result.class_scales
        squares = entries[pairs:], result.square_scales
        return NoisyGram(result.columns, counts.n, entries[:pairs], result.class_of, scales, *squares)

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        """The output distribution of the noisy counts of disagreements, of which the Gram matrix is a function."""
        result = self.calibration(counts.schema)
        held, ranges = counts.fold(Products(result.columns)).tolist(), result.ranges(counts.n)
        keys = list(zip(result.scales.tolist(), held, ranges, strict=True))
        known = {key: _log_law(*key) for key in set(keys)}
        return Law(tuple(known[key] for key in keys), _AUDIT_ORDER)

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        """The law of the published Gram matrix: a part per count of disagreements; an entry is n minus twice that."""
        result = self.calibration(schema)
        parts = zip(result.scales.tolist(), result.ranges(n), law.arrays(), strict=True)
        laws = {i: ValueLaw(lowest_outcome(s, low, far), part) for i, (s, (low, _, far), part) in enumerate(parts)}
        return [Scenario(0.0, laws)]

    def published_values(self, output: NoisyGram, schema: Schema, n: int) -> Mapping[Any, int]:
        return _published_sums(output, self.calibration(schema), n)

    def noise_uses(self, schema: Schema, n: int, output: NoisyGram) -> list[NoiseUse]:
        return self.calibration(schema).noise_uses()

    def two_valued(self) -> tuple[str, ...]:
        return () if self.label is None or self.encode.get(self.label) == NUMBER else (self.label,)

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """First values against second ones: every ±1 column that can flip does, unless thermometers or bits are asked
        for; numbers from the lowest to the second lowest."""
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


def _published_sums(output: NoisyGram, calibration: Calibration, n: int) -> dict[Hashable, int]:
    """The noisy sum behind every number of a Gram release; a count of disagreements whose entry has not the parity of
    n has a name that no law knows."""
    entries = [*output.entries.tolist(), *output.squares.tolist()]
    values: dict[Hashable, int] = {}
    for pair, (entry, is_count) in enumerate(zip(entries, calibration.are_counts.tolist(), strict=True)):
        if is_count:
            values[(pair, "odd") if (n - entry) % 2 else pair] = (n - entry) // 2
        else:
            values[pair] = entry
    return values


def lowest_outcome(scale: float, low: int = 0, moved: int = 1) -> int:
    """The lowest noisy sum that the exact law lists: before noise it is at least ``low``, and a row moves it by at most
    ``moved``."""
    return low - math.ceil(_AUDIT_ORDER * moved + 14 * scale) if scale else low


def _log_law(scale: float, value: int, possible: Possible) -> Floats:
    """log P of a noisy sum over outcomes that are the same for every value."""
    low, high, moved = possible
    lowest = lowest_outcome(scale, low, moved)
    highest = high + low - lowest
    if highest - lowest > _MOST_OUTCOMES:
        raise AuditError(
            "The exact output distribution is for numbers of a small range.", fix="Audit integers of few values."
        )
    if scale:
        return gaussian_log_pmf(scale, lowest - value, highest - value)
    return np.where(np.arange(low, high + 1) == value, 0.0, -np.inf)
