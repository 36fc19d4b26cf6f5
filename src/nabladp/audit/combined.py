"""Both audits of one mechanism, on tiny instances made for it, and what they say together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from nabladp.audit.deadline import Deadline, OutOfTime
from nabladp.audit.exact import AuditRow, ExactAudit, compare_laws
from nabladp.audit.features import Features
from nabladp.audit.law_audit import LAW_ROWS, Candidate, compare_runs
from nabladp.audit.neighbouring_tables import Derive, Pairs, tiny_schema
from nabladp.audit.results import LawAudit, StatisticalAudit, StatisticalRow, check_asked
from nabladp.audit.runs import Tell
from nabladp.audit.statistical import check_options, statistical_audit
from nabladp.audit.tape import first_tape_audit
from nabladp.audit.tape_comparison import TapeAudit
from nabladp.checks import members, name_or_names
from nabladp.displayed import draw_plot
from nabladp.errors import AuditError, NablaDPError
from nabladp.mechanisms import Auditable
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.schema import Schema

if TYPE_CHECKING:
    import altair


# ---- all audits ------------------------------------------------------------------------------------------------------

_INSTANCES = ((8, 1), (8, 2), (64, 1), (16, 2), (8, 4))  # records and rows: from quick to thorough
_EXACT, _TAPE, _AGAINST_LAW, _RUNS = 0.25, 0.15, 0.3, 0.3  # of the time; what one leaves over goes to the next
_SMALLEST = 0.5  # of the time, at most, for the smallest exact audit
_INSTANT = 1e-3  # seconds: what follows says by itself that this is too little
_TAPED = 16  # records of tables whose tapes are compared
_RECORDS = (8, 4, 64)  # of tiny schemas for runs against the law


@dataclass(frozen=True)
class SetVerdict:
    """One set of attributes in both audits; each compares with the claim for its own instance."""

    attributes: tuple[str, ...]
    exact: AuditRow | None
    statistical: StatisticalRow | None

    @property
    def refuted(self) -> bool:
        return any(row is not None and row.refuted for row in (self.exact, self.statistical))

    @property
    def verdict(self) -> str:
        return "refuted" if self.refuted else "consistent"

    @property
    def pure(self) -> bool:
        """Whether this set's audit figures are pure ε; otherwise they are ρ."""
        row = self.statistical or self.exact
        return row is not None and not math.isinf(row.claimed_pure)

    @property
    def claimed(self) -> float:
        row = self.statistical or self.exact
        if row is None:
            return math.inf
        return row.claimed_pure if self.pure else row.claimed_rho

    @property
    def lower(self) -> float | None:
        """The statistical audit's lower bound for this set."""
        if self.statistical is None:
            return None
        return self.statistical.lower_pure if self.pure else self.statistical.lower_rho

    def to_json(self) -> dict[str, Any]:
        return {
            "attributes": list(self.attributes),
            "measure": "pure_epsilon" if self.pure else "rho",
            "claimed": self.claimed,
            "exact_over_claimed": None if self.exact is None else self.exact.tightness,
            "at_least": self.lower,
            "runs": 0 if self.statistical is None else self.statistical.runs,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Audit:
    """``exact`` is None where it is not possible, and ``exact_note`` says why; each is None where not asked for.

    ``law`` compares what ``run`` publishes with the exact law, ``tape`` what it draws with the guarantee's terms; where
    that is not possible, ``law_note`` and ``tape_note`` say why. ``left_out`` names what there was no time for.
    """

    mechanism: str
    exact: ExactAudit | None
    exact_note: str
    statistical: StatisticalAudit | None
    law: LawAudit | None = None
    law_note: str = "not asked for"
    tape: TapeAudit | None = None
    tape_note: str = "not asked for"
    left_out: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return all(part is None or part.passed for part in (self.exact, self.law, self.tape, self.statistical))

    @property
    def detectable(self) -> float | None:
        """The smallest c such that noise divided by c in ``run`` alone would have been refuted, with probability 0.9.

        None where that is not known: there is no law, or too few runs were made.
        """
        return None if self.law is None else self.law.detectable

    def __str__(self) -> str:
        refuted = [" + ".join(row.attributes) for row in self.refuted]
        verdict = f"refuted for {', '.join(refuted)}" if refuted else "no claim refuted"
        return f"Audit of {self.mechanism}: {verdict}. {self.describe_law()} {self.describe_tape()}"

    def describe_tape(self) -> str:
        if self.tape is None:
            return f"Draws are not compared with the guarantee: {self.tape_note}."
        return " ".join(str(self.tape).splitlines())

    def describe_law(self) -> str:
        """The law audit in a sentence or two: whether runs follow the law, and what would not have been noticed."""
        law = self.law
        if law is None:
            return f"Runs are not compared with the exact law: {self.law_note}."
        if law.refuted:
            return (
                f"run() does not follow distribution(): {law.most_telling} (p = {law.p_value:.1g}, {law.runs:,} runs)."
            )
        verdict = f"{law.runs:,} runs follow the exact law."
        if law.detectable is None:
            return f"{verdict} They are too few to notice smaller noise in run() alone: give more seconds."
        return f"{verdict} Noise divided by {law.detectable:g} or more in run() alone would have been noticed."

    @property
    def rows(self) -> tuple[SetVerdict, ...]:
        """The audit's verdicts: every set with runs or no time for them, all that the exact audit refutes, and its
        tightest."""
        exact = {} if self.exact is None else {frozenset(row.attributes): row for row in self.exact.rows}
        result = {} if self.statistical is None else {frozenset(row.attributes): row for row in self.statistical.rows}
        late = () if self.statistical is None else map(frozenset, self.statistical.left_out)
        shown = dict.fromkeys((*result, *(names for names in late if names in exact)))
        if self.exact is not None:
            listed = self.exact.refuted or ((self.exact.tightest,) if result else self.exact.rows)
            shown |= dict.fromkeys(frozenset(row.attributes) for row in listed if row.attributes)
        order = {**{key: row.attributes for key, row in exact.items()}, **{k: r.attributes for k, r in result.items()}}
        return tuple(SetVerdict(order[key], exact.get(key), result.get(key)) for key in shown)

    @property
    def refuted(self) -> tuple[SetVerdict, ...]:
        return tuple(row for row in self.rows if row.refuted)

    def to_json(self) -> dict[str, Any]:
        body = {
            "mechanism": self.mechanism,
            "passed": self.passed,
            "sets": [row.to_json() for row in self.rows],
            "exact": None if self.exact is None else self.exact.to_json(),
            "exact_note": self.exact_note,
            "law": None if self.law is None else self.law.to_json(),
            "law_note": self.law_note,
            "detectable": self.detectable,
            "tape": None if self.tape is None else self.tape.to_json(),
            "tape_note": self.tape_note,
            "statistical": None if self.statistical is None else self.statistical.to_json(),
            "left_out": list(self.left_out),
        }
        return {name: finite(value) for name, value in body.items()}

    def plot(self) -> altair.LayerChart:
        """The audit as a plot: claimed against measured, a line for each set. Needs ``nabladp[plot]``."""
        chart: altair.LayerChart = draw_plot("audit", self)
        return chart


def audit(
    mechanism: Auditable,
    schema: Schema,
    *,
    sets: Iterable[Sequence[str] | str] | None = None,
    rows: int | None = None,
    beta: float = 0.01,
    seconds: float = 40,
    runs: int | None = None,
    exact: bool = True,
    law: bool = True,
    tape: bool = True,
    statistical: bool = True,
    pairs: Pairs | None = None,
    features: Features | None = None,
    guarantee: Guarantee | None = None,
    rows_per_person: int = 1,
    noise: NoiseSource | None = None,
    progress: Tell | None = None,
) -> Audit:
    """Audit a mechanism's claim on tiny instances of the schema: by its exact law, by its tape, and by many runs.

    Takes about ``seconds``. The exact audit is certain on its instance, and so is ``tape``, of what some runs draw
    (:func:`tape_audit`). ``law`` compares runs with the exact law; its verdict and those of the statistical audit hold
    together with confidence 1 − ``beta``. Where ``rows_per_person`` is above 1, two rows change at once in the exact
    audit, at the cost of a person with two. The other options are those of :func:`statistical_audit`.
    """
    check_options(beta, runs, seconds)
    beta, seconds = float(beta), float(seconds)
    check_asked(mechanism, schema, guarantee, rows)
    asked = None if sets is None else members(sets, "'sets'", 'Write sets=["age", ("age", "sex")].')
    wanted = None if asked is None else [name_or_names(names) for names in asked]
    also = Universe.of(schema).sources([name for names in wanted or () for name in names])
    weights = [_EXACT * exact, _TAPE * tape, _AGAINST_LAW * law, _RUNS * statistical]
    deadline, left_out = Deadline.after(seconds), list[str]()
    parts = deadline.parts(weights)
    result, why, part = None, "not asked for", next(parts)
    if exact:
        limits = deadline.part(_SMALLEST), part
        moving = min(2, int(rows_per_person))
        result, why = _run_exact_audit(mechanism, schema, also, guarantee, moving, limits, progress, left_out)
    drawn, tape_note, part = None, "not asked for", next(parts)
    if tape and part.is_over and runs is None:
        tape_note = _note_late(left_out, "the comparison of draws")
    elif tape:
        sizes = [partial(tiny_schema, mechanism, schema, _TAPED, also=also, whole=whole) for whole in (False, True)]
        options = {"guarantee": guarantee, "noise": noise, "seconds": max(part.left, _INSTANT)}
        if progress is not None:
            progress("draws of runs", 0, 0)
        drawn, tape_note = first_tape_audit(mechanism, sizes, **options)
    followed, law_note, part = None, "not asked for", next(parts)
    share = beta / 2 if law and statistical else beta
    if law and part.is_over and runs is None:
        law_note = _note_late(left_out, "runs against the law")
    elif law:
        followed, law_note = _run_law_audit(mechanism, schema, also, share, runs, part, noise, progress, left_out)
    sampled, part = None, next(parts)
    if statistical:
        small, derive = _binding(mechanism, schema, also)
        try:
            if runs is None:
                part.check("The rest of the audit")
            sampled = statistical_audit(
                mechanism,
                small,
                sets=wanted,
                rows=rows,
                beta=share if followed is not None else beta,
                runs=runs,
                seconds=max(part.left, _INSTANT),
                pairs=pairs,
                features=features,
                derive=derive,
                noise=noise,
                guarantee=guarantee,
                progress=progress,
            )
            left_out += [f"runs for {' + '.join(names)}" for names in sampled.left_out]
        except OutOfTime as error:
            left_out.append(f"runs that measure the loss ({error.message.rstrip('.')})")
    notes = why, sampled, followed, law_note, drawn, tape_note
    return Audit(type(mechanism).__name__, result, *notes, tuple(left_out))


def _note_late(left_out: list[str], what: str) -> str:
    left_out.append(what)
    return "there was no time left"


def _run_law_audit(
    mechanism: Auditable,
    schema: Schema,
    also: Iterable[str],
    beta: float,
    runs: int | None,
    deadline: Deadline,
    noise: NoiseSource | None,
    progress: Tell | None,
    left_out: list[str],
) -> tuple[LawAudit | None, str]:
    """The law audit on the tables that say most; or why there is none."""
    reasons: list[NablaDPError | None] = []
    if progress is not None:
        progress("tables with a law", 0, 0)
    for whole in (False, True):
        try:
            candidates, seconds = _law_candidates(mechanism, schema, also, whole), max(deadline.left, _INSTANT)
            return compare_runs(mechanism, candidates, beta, runs, seconds, noise, progress), ""
        except NablaDPError as error:
            reasons.append(error)
    if any(isinstance(error, OutOfTime) for error in reasons):
        left_out.append("runs against the law")
    return None, _reason_for_none(*reasons)


def _law_candidates(mechanism: Auditable, schema: Schema, also: Iterable[str], whole: bool) -> list[Candidate]:
    schemas: dict[tuple[int, ...], tuple[Schema, Derive]] = {}
    for most in _RECORDS:
        small, derive = tiny_schema(mechanism, schema, most, also=also, whole=whole)
        schemas.setdefault(small.sizes(small.names), (small, derive))
    return [(*made, n) for made in schemas.values() for n in LAW_ROWS]


def _run_exact_audit(
    mechanism: Auditable,
    schema: Schema,
    also: Iterable[str],
    guarantee: Guarantee | None,
    moving: int,
    limits: tuple[Deadline, Deadline],
    progress: Tell | None,
    left_out: list[str],
) -> tuple[ExactAudit | None, str]:
    """The exact audit of the largest instance that time allows, or why there is none; sets without time are added to a
    list.

    Until when one instance must be audited, and all of them: the smallest says most in a second.
    """
    best, late = None, False
    reasons: list[NablaDPError | None] = []
    for whole in (False, True):
        reason: NablaDPError | None = None
        for most, n in (instance for instance in _INSTANCES if instance[1] >= moving):
            try:
                deadline = limits[best is not None]
                deadline.check("The exact audit")
                small, derive = tiny_schema(mechanism, schema, most, also=also, whole=whole)
                result = compare_laws(mechanism, small, n, derive, guarantee, deadline, progress, moving)
            except NablaDPError as error:
                late = late or isinstance(error, OutOfTime)
                if reason is None or (isinstance(error, AuditError) and not isinstance(reason, AuditError)):
                    reason = error  # that a law is not worked out says more than that one row is too few
                continue
            if best is None or result.tables_compared > best.tables_compared or not result.passed:
                best = result
            if not result.passed:
                return result, ""
        if best is not None:
            break
        reasons.append(reason)
    if late:
        left_out.append("the exact audit" if best is None else "the exact audit of larger tables")
    return best, "" if best is not None else _reason_for_none(*reasons)


def _reason_for_none(tiny: NablaDPError | None, whole: NablaDPError | None) -> str:
    """Why there is no exact audit, from why there is none on a tiny schema and none with all values."""
    reason = whole if isinstance(whole, AuditError) and not isinstance(tiny, AuditError) else tiny
    said = "" if reason is None else reason.message.rstrip(".")
    if reason is tiny or tiny is None:
        return said
    return f"{said}, and these parameters make no sense on a smaller one ({tiny.message.rstrip('.')})"


def _binding(mechanism: Auditable, schema: Schema, also: Iterable[str]) -> tuple[Schema, Any]:
    """The smallest schema on which the mechanism's parameters make sense, for an audit."""
    for whole in (False, True):
        small, derive = tiny_schema(mechanism, schema, also=also, whole=whole)
        try:
            mechanism.reads(small)
            mechanism.guarantee(small, 0 if whole else 16)
        except NablaDPError:
            continue
        return small, derive
    return schema, None


def finite(value: Any) -> Any:
    """An audit figure for JSON, which has no infinity: "no bound" is null."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and math.isinf(value) else value
