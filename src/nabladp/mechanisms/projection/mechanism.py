"""Projection: noisy answers moved to the nearest answers that some table could give (`thm:projection_mechanism`).

The proof is in PROOF.md beside this file.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.allocation import limited_by, source_units
from nabladp.mechanisms.kinds import BudgetKind, Budgets, Choice, WorkloadKind
from nabladp.mechanisms.mechanism import Law, Mechanism, Records, Scenario, ValueLaw, check_asked
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.mechanisms.parameters import parameter
from nabladp.mechanisms.projection.calibration import Calibration, ProjectionError, calibrate, expected_error
from nabladp.mechanisms.projection.output import HullNote, ProjectedAnswers
from nabladp.mechanisms.projection.relaxation import HULLS, Pieces, pieces_of, project
from nabladp.noise import NoiseSource, gaussian_log_pmf
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue
from nabladp.schema import Schema
from nabladp.workloads import Queries, Workload

if TYPE_CHECKING:
    from nabladp.tables import Counts

_AUDIT_ORDER = 24.0  # the exact law is cut where Rényi orders up to this cannot notice
_SPACING = 16.0  # outcomes of wide noise that are listed for each unit of its scale


@dataclass(frozen=True)
class Projection(Mechanism):
    """Answers to all queries of a workload with Gaussian noise, projected onto the nearest consistent ones.

    ``budget`` (CDP, Rho or Approx) is the budget of every source attribute, ``budgets`` names exceptions. ``workload``
    is a family of queries, a sum of families, or the plan-file form of one. ``hull``: "exact" lists all records,
    "blocks" uses a relaxation that contains them, "auto" is "exact" up to 2²² records.

    Guarantee: ρ(T) = Δ_T²/(2s²), with s the noise scale of a count and Δ_T the L2 sensitivity of all counts when one
    row changes on T; with several scales, the sum over groups of queries. Assumed: the number of rows is public and one
    row is one person (`thm:projection_mechanism`; PROOF.md).
    """

    budget: BudgetValue = field(metadata=parameter(BudgetKind("gaussian"), "The budget of every source attribute."))
    workload: Workload = field(metadata=parameter(WorkloadKind(), "The queries to answer."))
    budgets: Mapping[str, BudgetValue] = field(
        default_factory=dict, metadata=parameter(Budgets("gaussian"), "Attributes with a budget other than `budget`.")
    )
    hull: str = field(
        default="auto",
        metadata=parameter(
            Choice(*HULLS),
            "Where answers move to: the hull of all records, a relaxation made of blocks, or whichever is affordable.",
            stored="changed",
        ),
    )

    # ---- before data ----------------------------------------------------------------------------------------------

    def _prepare(self, schema: Schema) -> tuple[Calibration, Pieces]:
        """The calibrated queries of a Projection, and the pieces of their hull; kept for the schema last asked
        about."""
        known = self.__dict__.get("_known")
        if known is None or known[0] is not schema:
            queries = self.workload.bind(schema)
            pieces = pieces_of(queries, self.hull)
            known = schema, calibrate(queries, Universe.of(schema), self.budget, self.budgets), pieces
            object.__setattr__(self, "_known", known)
        return known[1], known[2]

    def reads(self, schema: Schema) -> tuple[str, ...]:
        check_asked(schema)
        return self._prepare(schema)[0].queries.names

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        check_asked(schema, n)
        return self._prepare(schema)[0].guarantee()

    def expected_error(self, schema: Schema, n: int) -> ProjectionError:
        """Both terms of the Projection theorem, for this budget per attribute and for the same per person."""
        check_asked(schema, n)
        calibration, pieces = self._prepare(schema)
        universe = calibration.universe
        units = source_units(universe, self.budget, self.budgets)
        least = min(units[name] for name in limited_by(universe, calibration.queries.names))
        return expected_error(calibration, least / UNIT, pieces, n)

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> ProjectedAnswers:
        calibration, pieces = self._prepare(counts.schema)
        queries = calibration.queries
        noisy = queries.counts(counts) + self._draw_noise(
            calibration, noise
        )  # [noise]: every query, whatever its count
        rows = max(counts.n, 1)

        def tell(done: int, total: int) -> None:
            counts.working("projecting piece", done, total)

        shares = noisy / (queries.grids * rows)
        result = project(queries, shares, rows / calibration.count_scales, pieces, tell)  # [post-processing]
        note = HullNote(pieces.exact, len(pieces.pieces), pieces.largest, result.moved, result.gap, result.unfinished)
        return ProjectedAnswers(self.workload, queries, counts.n, noisy, result.answers, calibration.scales, note)

    def _draw_noise(self, calibration: Calibration, noise: NoiseSource) -> Integers:
        """Fresh noise for every query of a Projection; one draw for all queries of a scale, as draws are cheap in
        bulk."""
        scales = np.repeat(calibration.scales, np.diff(calibration.queries.starts))
        each, which = np.unique(scales, return_inverse=True)
        drawn = np.zeros(len(scales), dtype=np.int64)
        ends = np.cumsum(np.bincount(which))
        for scale, chosen in zip(each.tolist(), np.split(np.argsort(which, kind="stable"), ends[:-1]), strict=True):
            drawn[chosen] = noise.discrete_gaussian(scale, len(chosen))
        return drawn

    # ---- for audits -----------------------------------------------------------------------------------------------

    def distribution(self, counts: Counts) -> Law:
        """The output distribution of a Projection's noisy answers; the projected answers are a function of them."""
        calibration, _ = self._prepare(counts.schema)
        queries = calibration.queries
        known: dict[tuple[float, int, int, int], Floats] = {}
        parts = []
        held = queries.counts(counts).tolist()
        for group, most, count in zip(queries.group_of.tolist(), _largest(queries), held, strict=True):
            key = (calibration.scales[group], counts.n, most, count)
            if key not in known:
                known[key] = _log_law(*key)
            parts.append(known[key])
        return Law(tuple(parts), _AUDIT_ORDER)

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        """The law of a Projection's noisy answers, which are published beside the projected ones."""
        calibration, _ = self._prepare(schema)
        groups, largest = calibration.queries.group_of.tolist(), _largest(calibration.queries)
        values: dict[Hashable, ValueLaw] = {}
        for query, (group, most, part) in enumerate(zip(groups, largest, law.arrays(), strict=True)):
            window, step = _grid(calibration.scales[group], most)
            values[query] = ValueLaw(-window, part, step=step)
        return [Scenario(0.0, values)]

    def published_values(self, output: ProjectedAnswers, schema: Schema, n: int) -> Mapping[Any, int]:
        return dict(enumerate(output.noisy.tolist()))

    def noise_uses(self, schema: Schema, n: int, output: ProjectedAnswers) -> list[NoiseUse]:
        return self._prepare(schema)[0].noise_uses()

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """T all first values against all second ones, with everything else at its first value or at its second: the
        worst pairs for marginals, and for unsigned conjunctions on bits."""
        others = [name for name in self.workload.explicit_names() if name not in attributes]
        changed = dict.fromkeys(attributes, 1)
        rest = dict.fromkeys(others, 1)
        return [({}, changed), *([(rest, rest | changed)] if rest else [])]

    # ---- record ---------------------------------------------------------------------------------------------------

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> ProjectedAnswers:
        return ProjectedAnswers.from_json(data, schema)


def _largest(queries: Queries) -> list[int]:
    """The largest numerator that one row can give to each query."""
    matrix = queries.matrix.tocsr()
    rows = (matrix.data[start:end] for start, end in itertools.pairwise(matrix.indptr.tolist()))
    return [int(values.max(initial=0)) for values in rows]


def _grid(scale: float, most: int) -> tuple[int, int]:
    """How far beyond all possible query answers the exact law reaches, and the distance of its outcomes."""
    return math.ceil(_AUDIT_ORDER * most + 14 * scale), max(1, math.floor(scale / _SPACING))


def _log_law(scale: float, n: int, most: int, count: int) -> Floats:
    """log P of a noisy query count, at most ``n·most`` before noise, over outcomes that are the same for every count.

    Where the noise is wide, outcomes are so alike that every h-th stands for all: with h ≤ scale/16, sums over them
    are what sums over all are, to far more digits than a double has (Poisson's formula).
    """
    window, step = _grid(scale, most)
    outcomes = np.arange(-window, n * most + window + 1, step, dtype=np.float64)
    if step == 1:
        return gaussian_log_pmf(scale, int(outcomes[0]) - count, int(outcomes[-1]) - count)
    return -(((outcomes - count) / scale) ** 2) / 2 + math.log(step / (scale * math.sqrt(2 * math.pi)))
