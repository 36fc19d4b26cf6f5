"""The tape audit: what runs really drew, against what the terms of the guarantee say must be drawn.

A mechanism declares for each part of its guarantee the kind of noise, how many numbers, and how far one row moves what
they are added to (:mod:`nabladp.mechanisms.noise_uses`). The scale follows from the part's own cost; nothing that
``run`` or its calibration computes is asked. A smaller scale on the tape, fewer numbers (noise that is missing, or
reused), or more than declared is a finding.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nabladp.arrays import Integers
from nabladp.audit.exact import MOST_RECORDS, ExactAudit, exact_audit
from nabladp.audit.neighbouring_tables import Derive, derived_code
from nabladp.audit.results import above, check_asked
from nabladp.audit.tape_comparison import (
    TapeAudit,
    TapeFinding,
    compare_claim,
    compare_tape,
    finding_of,
    selection_range,
)
from nabladp.errors import AuditError, NablaDPError
from nabladp.mechanisms import Auditable
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.noise import NoiseSource
from nabladp.noise.parameters import Real, Size
from nabladp.noise.tape import Draw, ForwardingNoise, RecordedNoise, Selection
from nabladp.privacy.guarantee import Guarantee
from nabladp.schema import Schema
from nabladp.tables import CodedTable

# ---- selections, compared between tables -----------------------------------------------------------------------------
# Scores on a grid of their own do not tell how strongly a selection follows the data. Between two tables that differ in
# one row, log weights of the first selection must lie within what it costs: log ratios within its range, and each
# weight within half of it, as a charge without scores of its own declares. Marginals that were measured before must be
# the same on both sides: the noise of one is the other's, less what the row changed.

_MOST_PACKINGS = 20_000


class ShiftedNoise(ForwardingNoise):
    """Gaussian noise with whole numbers added, table by table, as long as there are some."""

    def __init__(self, source: NoiseSource, shifts: Sequence[Integers]) -> None:
        super().__init__(source)
        self._left = list(shifts)

    def discrete_gaussian(self, scale: Real, size: Size) -> Integers:
        drawn = super().discrete_gaussian(scale, size)
        return drawn + self._left.pop(0).reshape(drawn.shape) if self._left else drawn


def first_selection(tape: Sequence[Draw], tables: Sequence[int]) -> Selection | None:
    """The first selection on the tape, if no noise was drawn before it but for tables of so many cells: others depend
    on the data."""
    before: list[int] = []
    for draw in tape:
        if draw.selection is not None:
            return draw.selection if before == list(tables) else None
        if draw.keep is not None or draw.completes or draw.kind == "discrete_laplace":
            return None
        before += [draw.numbers] if draw.scale is not None else []
    return None


def farthest_between(one: Selection, other: Selection) -> float:
    """The sensitivity seen between two selections: how far each log weight moved, up or down; half the range is charged
    for."""
    return float(np.abs(one.log_weights - other.log_weights).max())


def range_between(one: Selection, other: Selection) -> float:
    """A lower bound on how far apart the log ratios of two possible outcomes of a selection lie."""
    apart = one.log_weights - other.log_weights
    if one.masks is None and not one.matching:
        return float(apart.max() - apart.min())
    if one.masks is None or one.count is None:  # each member alone is an outcome, and so is none of them
        return float(max(apart.max(), 0.0) - min(apart.min(), 0.0))
    masks = one.masks.tolist()
    sums = [
        math.fsum(apart[i] for i in chosen)
        for chosen in itertools.islice(itertools.combinations(range(len(masks)), one.count), _MOST_PACKINGS)
        if sum(masks[i].bit_count() for i in chosen) == _union(masks[i] for i in chosen).bit_count()
    ]
    return max(sums, default=0.0) - min(sums, default=0.0)


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


# ---- the audit -------------------------------------------------------------------------------------------------------

Columns = dict[str, Integers]
ROWS = 24
_PAIRS = 1  # of the hardest to hide, for each set
_FEW_RECORDS = 8  # with so many, steps are audited on tables of two rows


def tape_audit(
    mechanism: Auditable,
    schema: Schema,
    n: int = ROWS,
    *,
    guarantee: Guarantee | None = None,
    derive: Derive | None = None,
    noise: NoiseSource | None = None,
    steps: bool = True,
    seconds: float = math.inf,
) -> TapeAudit:
    """The tape audit: compare what some runs draw, on made-up tables of n rows, with what the guarantee says must be
    drawn.

    Takes no number of runs: what is drawn hardly depends on chance. The tape does not tell what a number is added to.
    ``steps``: where a mechanism has no exact law, also audit its single steps, exactly, if the schema is tiny. After
    ``seconds`` selections and steps that are left are not looked at.
    """
    ends = time.monotonic() + seconds
    check_asked(mechanism, schema, guarantee, n)
    claim = mechanism.guarantee(schema, n) if guarantee is None else guarantee
    people = _People(schema, n, noise or NoiseSource(), derive)
    watched = _Watched(mechanism, people, claim)
    for columns in (people.alike(0), people.alike(1), people.random(), people.random()):
        if not watched.runs or time.monotonic() < ends:
            watched.run(columns)
    if not watched.findings:  # what was found already is enough
        watched.compare_selections(ends)
    result = TapeAudit(
        type(mechanism).__name__, n, watched.runs, watched.numbers, tuple(watched.findings), selections=watched.compared
    )
    return _with_steps(result, watched.uses, schema, people.derive, ends) if steps else result


def first_tape_audit(
    mechanism: Auditable, instances: Iterable[Callable[[], tuple[Schema, Derive]]], **options: Any
) -> tuple[TapeAudit | None, str]:
    """The tape audit on the first of some schemas where the mechanism can be run; or why there is none."""
    reason = ""
    for instance in instances:
        try:
            schema, derive = instance()
            return tape_audit(mechanism, schema, derive=derive, **options), ""
        except NablaDPError as error:
            reason = reason or error.message.rstrip(".")
    return None, reason


class _People:
    """Made-up tables of n rows: codes by column, derived ones included."""

    def __init__(self, schema: Schema, n: int, noise: NoiseSource, derive: Derive | None) -> None:
        self.schema, self.n, self.noise = schema, n, noise
        self.derive = {name: derived_code(schema, name) for name in schema.derived} | dict(derive or {})

    def alike(self, code: int) -> Columns:
        """A made-up table whose rows all have this code, or the last there is."""
        return {name: np.full(self.n, min(code, self.schema[name].size - 1)) for name in self.schema.roots}

    def random(self) -> Columns:
        return {name: self.noise.uniform_integers(self.schema[name].size, self.n) for name in self.schema.roots}

    def changed(self, columns: Columns, record: Mapping[str, int]) -> Columns:
        """A made-up table with other codes in the first row, 0 where unnamed."""
        results = {name: column.copy() for name, column in columns.items()}
        for name, column in results.items():
            column[0] = min(record.get(name, 0), self.schema[name].size - 1)
        return results

    def table(self, columns: Columns) -> CodedTable:
        rows = [
            dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)
        ]
        derived = {name: np.array([code(row) for row in rows], np.int64) for name, code in self.derive.items()}
        return CodedTable(self.schema, {name: (columns | derived)[name] for name in self.schema.names})


class _Watched:
    """Runs of one mechanism with a recording source, and what was found in them; each finding once."""

    def __init__(self, mechanism: Auditable, people: _People, claim: Guarantee) -> None:
        self.mechanism, self.people, self.claim = mechanism, people, claim
        self.findings: dict[TapeFinding, None] = {}
        self.uses: Sequence[NoiseUse] = ()
        self.runs = self.numbers = self.compared = 0
        self.comparable = False

    def run(self, columns: Columns) -> None:
        recorded = RecordedNoise(self.people.noise)
        output = self.mechanism.run(self.people.table(columns), recorded)
        self.uses = self.mechanism.noise_uses(self.people.schema, self.people.n, output)
        self.runs, self.numbers = self.runs + 1, self.numbers + sum(draw.numbers for draw in recorded.tape)
        self.comparable = first_selection(recorded.tape, self._cells()) is not None
        self._add(compare_tape(recorded.tape, self.uses))
        self._add(compare_claim(self.claim, self.uses))
        if recorded.outside:
            fault = "random bits were taken past the methods of the source; times"
            self._add([TapeFinding("unknown draws", "no part of the guarantee", fault, 0, recorded.outside)])

    def compare_selections(self, ends: float) -> None:
        """Compare the selections of recorded runs on neighbouring tables, for single attributes and for all
        together."""
        made = [use for use in self.uses if use.kind.startswith("select") and use.most and use.charges]
        made = [use for use in made if self.comparable and all(charge.moved is None for charge in use.charges)]
        protected = [name for name in self.claim.universe.protected if self.people.schema[name].size > 1]
        for held in [(name,) for name in protected] + ([tuple(protected)] if len(protected) > 1 else []):
            for record, other in self.mechanism.hard_pairs(held)[: _PAIRS if made else 0]:
                for columns in (self.people.alike(0), self.people.random())[: 2 if time.monotonic() < ends else 0]:
                    pair = self.people.changed(columns, record), self.people.changed(columns, other)
                    self._compare_pair(made[0], held, pair)

    def _marginals(self) -> list[tuple[str, ...]]:
        """The marginals measured before anything is selected."""
        return [use.marginal for use in self.uses if use.marginal is not None]

    def _cells(self) -> list[int]:
        return [self.people.schema.cells(names) for names in self._marginals()]

    def _compare_pair(self, use: NoiseUse, held: tuple[str, ...], pair: tuple[Columns, Columns]) -> None:
        seed = int(self.people.noise.uniform_integers(1 << 60, 1)[0])
        tables = [self.people.table(columns) for columns in pair]
        counted = [table.marginals(self._marginals()) for table in tables]
        shifts = [own - its for own, its in zip(*counted, strict=True)]
        sources = [self.people.noise.reseeded(seed) for _ in tables]
        recorded = [RecordedNoise(sources[0]), RecordedNoise(ShiftedNoise(sources[1], shifts))]
        for table, source in zip(tables, recorded, strict=True):
            self.mechanism.run(table, source)
        one, other = (first_selection(source.tape, self._cells()) for source in recorded)
        if one is None or other is None:
            return
        self.compared += 1
        allowed, names = selection_range(use.charges[0].cost, held), "+".join(held)
        apart = {
            f"log ratios for a change in {names} lie too far apart": (allowed, range_between(one, other)),
            f"a change in {names} moves a log weight too far": (allowed / 2, farthest_between(one, other)),
        }
        self._add(finding_of([use], fault, *pair) for fault, pair in apart.items() if above(pair[1], pair[0]))

    def _add(self, findings: Iterable[TapeFinding]) -> None:
        self.findings |= dict.fromkeys(findings)


def _with_steps(out: TapeAudit, uses: Sequence[NoiseUse], schema: Schema, derive: Derive, ends: float) -> TapeAudit:
    """The tape audit's result with exact audits of single steps, each at some public state."""
    parts = [(use, step) for use in uses for step in use.steps]
    if parts and schema.cells(schema.roots) > MOST_RECORDS:
        return replace(out, note="Single steps were not audited: the schema is not tiny.")
    audits, findings = list[ExactAudit](), list(out.findings)
    few = schema.cells(schema.roots) <= _FEW_RECORDS
    for use, step in parts:
        try:
            left = max(1e-9, ends - time.monotonic())  # with none left it "took too long"
            own = exact_audit(step, schema, 2 if few else 1, derive=derive, seconds=left)
        except AuditError as error:
            out = replace(out, note=f"{len(audits)} of {len(parts)} steps were audited. {error.message}")
            break
        audits.append(own)
        for row in own.refuted[:1]:
            term = f"the charge of one step for {'+'.join(row.attributes)}"
            findings.append(TapeFinding(use.what, term, "a step loses more ρ", row.claimed_rho, row.true_rho))
    return replace(out, findings=tuple(findings), steps=tuple(audits))
