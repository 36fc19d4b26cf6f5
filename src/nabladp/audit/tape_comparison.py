"""A tape against what is declared: the scales that charges allow, and findings where a run drew something else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nabladp.audit.exact import ExactAudit
from nabladp.audit.results import above
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.noise.tape import Draw
from nabladp.privacy.guarantee import Guarantee

# ---- scales from costs -----------------------------------------------------------------------------------------------
# One row that changes on T moves what gets noise by Δ(T). Gaussian noise of scale σ then costs ρ = Δ²/(2σ²), Laplace
# noise of scale b a pure ε = Δ/b; a selection with P ∝ exp(score/s) has log ratios within a range of 2Δ/s: pure ε =
# 2Δ/s, or ρ = range²/8 = Δ²/(2s²). A label kept with probability p costs ε = ln(p/(1 − p)), or ρ = ε·tanh(ε/2).

_SMALLEST, _LARGEST = 1e-9, 1e18  # scales looked at
_HALVINGS = 200


def least_scale(use: NoiseUse) -> float:
    """The least noise scale that the charges of a declared noise use allow; 0 where any would do, infinite where none
    would."""
    if use.published is not None:
        return use.published
    losses = [_scale_of_loss(charge) for charge in use.charges if charge.loss is not None]
    if losses:
        return max(losses)
    moving = [charge for charge in use.charges if charge.moved]
    if not moving:
        return 0.0
    if use.kind == "discrete_gaussian":
        return _inverse(math.sqrt(sum(_least(charge, _precision) for charge in moving)))
    if use.kind == "discrete_laplace":
        return _inverse(sum(_least(charge, _rate) for charge in moving))
    return _inverse(min(_least(charge, _selection_rate) for charge in moving))


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf


def _least(charge: Charge, of: Callable[[Guarantee, frozenset[str], float], float]) -> float:
    moved = charge.moved or {}
    return min(of(charge.cost, held, float(amount)) for held, amount in moved.items() if amount)


def _precision(cost: Guarantee, held: frozenset[str], squared: float) -> float:
    """The precision 1/σ² that a charge allows a set that holds so much."""
    return 2 * cost.rho(held) / squared


def _rate(cost: Guarantee, held: frozenset[str], moved: float) -> float:
    return cost.epsilon(held) / moved


def _selection_rate(cost: Guarantee, held: frozenset[str], moved: float) -> float:
    return selection_range(cost, held) / (2 * moved)


def selection_range(cost: Guarantee, held: Iterable[str]) -> float:
    """How far apart the log ratios of a selection may lie that costs so much."""
    names = tuple(held)
    pure = cost.epsilon(names)
    return 2 * math.sqrt(2 * cost.rho(names)) if math.isinf(pure) else pure


def _scale_of_loss(charge: Charge) -> float:
    """The noise scale at which a charge's loss is allowed, by bisection on a logarithmic scale: the loss falls in the
    scale."""
    protected = sorted(_support(charge.cost))
    if charge.loss is None or not protected:
        return 0.0
    allowed = min(charge.cost.epsilon(name) for name in protected)
    low, high = math.log(_SMALLEST), math.log(_LARGEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if charge.loss(math.exp(middle)) > allowed else (low, middle)
    return math.exp(high)


def _support(cost: Guarantee) -> frozenset[str]:
    return frozenset().union(*(term.support for term, _ in cost.terms)) - cost.universe.public


def _response_cost(keep: float) -> tuple[float, float]:
    """The pure ε and the ρ of randomized response that keeps with this probability."""
    if keep >= 1:
        return math.inf, math.inf
    epsilon = math.log(keep / (1 - keep))
    return epsilon, epsilon * math.tanh(epsilon / 2)


# ---- what an audit finds ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TapeFinding:
    """What is wrong, for which numbers and which part of the guarantee."""

    what: str
    term: str
    fault: str
    expected: float | None = None
    found: float | None = None

    def __str__(self) -> str:
        amounts = "" if self.expected is None else f" (expected {self.expected:.6g}, found {self.found:.6g})"
        return f"{self.what}: {self.fault}{amounts}; {self.term}"


@dataclass(frozen=True)
class TapeAudit:
    """``numbers`` are those on the tapes of all runs. ``steps`` are the exact audits of single steps, where the whole
    run has no exact law; ``note`` says what was not looked at, and why."""

    mechanism: str
    rows: int
    runs: int
    numbers: int
    findings: tuple[TapeFinding, ...]
    steps: tuple[ExactAudit, ...] = ()
    selections: int = 0  # compared between neighbouring tables
    note: str = ""

    @property
    def refuted(self) -> bool:
        return bool(self.findings)

    @property
    def passed(self) -> bool:
        return not self.refuted

    def __str__(self) -> str:
        head = f"{self.mechanism}: {self.numbers:,} numbers drawn in {self.runs} runs on {self.rows} rows"
        head += " agree with the guarantee." if self.passed else " do not agree with the guarantee:"
        return "\n".join([head, *(f"- {finding}" for finding in self.findings), *([self.note] if self.note else [])])

    def to_json(self) -> dict[str, Any]:
        body = {name: getattr(self, name) for name in ("mechanism", "passed", "rows", "runs", "numbers", "note")}
        findings = [
            {name: None if value in (math.inf, math.nan) else value for name, value in asdict(finding).items()}
            for finding in self.findings
        ]
        steps = [step.to_json() for step in self.steps]
        return body | {"selections_compared": self.selections, "findings": findings, "steps": steps}


# ---- one tape --------------------------------------------------------------------------------------------------------

SCALED = ("discrete_gaussian", "discrete_laplace", "select_exponential")


def compare_tape(tape: Sequence[Draw], uses: Sequence[NoiseUse]) -> Iterator[TapeFinding]:
    """Compare a tape with the declared noise uses, each kind of draw on its own; the scale decides which use a number
    belongs to."""
    declared = {use.kind for use in uses}
    for kind in sorted({draw.kind for draw in tape} - declared):
        numbers = sum(draw.numbers for draw in tape if draw.kind == kind)
        yield TapeFinding(kind, "no part of the guarantee", "this kind of draw is not declared", 0, numbers)
    for kind in sorted(declared):
        drawn, own = [draw for draw in tape if draw.kind == kind], [use for use in uses if use.kind == kind]
        if kind == "randomized_response":
            yield from _compare_responses(drawn, own)
        elif kind in SCALED:
            yield from _compare_scales(drawn, own)
        else:
            yield from _count(sum(draw.numbers for draw in drawn), own, 0.0)


@dataclass
class _Level:
    """Uses whose least scales are the same, up to rounding."""

    scale: float
    uses: list[NoiseUse]
    numbers: int = 0

    @property
    def lowest(self) -> float:
        return self.scale * (1 - max(use.accuracy for use in self.uses))


def _compare_scales(drawn: Sequence[Draw], uses: Sequence[NoiseUse]) -> Iterator[TapeFinding]:
    """Compare the scales of drawn numbers with declared ones: a number belongs to the uses with the largest scale that
    it reaches.

    What is left over there may be of uses that any scale would do for.
    """
    levels, free = _levels(uses), [use for use in uses if not least_scale(use)]
    yield from _unlike_tails(drawn, uses)
    spare = 0
    for draw in drawn:
        scale = draw.scale or 0.0
        reached = [level for level in levels if scale >= level.lowest]
        if reached:
            reached[-1].numbers += draw.numbers
        elif levels and not free and draw.numbers:
            yield finding_of(levels[0].uses, "the noise scale is too small", levels[0].scale, scale)
        else:
            spare += draw.numbers
    for level in reversed(levels):
        most = _most(level.uses)
        if free and most is not None and level.numbers > most:
            spare, level.numbers = spare + level.numbers - most, most
        yield from _count(level.numbers, level.uses, level.scale)
    yield from _count(spare, free, 0.0) if free else ()


def _unlike_tails(drawn: Sequence[Draw], uses: Sequence[NoiseUse]) -> Iterator[TapeFinding]:
    """Findings about values beyond a threshold, whose scale must be that of the noise they complete."""
    plain = {draw.scale for draw in drawn if not draw.completes}
    for draw in drawn:
        if draw.completes and draw.scale not in plain:
            expected = min((scale for scale in plain if scale), default=0.0)
            fault = "values beyond a threshold have noise of another scale"
            yield finding_of(uses[:1], fault, expected, draw.scale or 0.0)


def _levels(uses: Sequence[NoiseUse]) -> list[_Level]:
    results: list[_Level] = []
    for use in sorted((use for use in uses if least_scale(use)), key=least_scale):
        scale = least_scale(use)
        if results and scale * (1 - use.accuracy) <= results[-1].scale:
            results[-1] = _Level(scale, [*results[-1].uses, use])
        else:
            results.append(_Level(scale, [use]))
    return results


def _fewest(uses: Sequence[NoiseUse]) -> int:
    return sum(use.least for use in uses)


def _most(uses: Sequence[NoiseUse]) -> int | None:
    return None if any(use.most is None for use in uses) else sum(use.most or 0 for use in uses)


def _count(numbers: int, uses: Sequence[NoiseUse], scale: float) -> Iterator[TapeFinding]:
    at = f" of scale {scale:.6g} or more" if scale else ""
    if numbers < _fewest(uses):
        gone = "missing, reused, or have a smaller scale" if scale else "missing or reused"
        yield finding_of(uses, f"numbers{at} are {gone}", _fewest(uses), numbers)
    most = _most(uses)
    if most is not None and numbers > most:
        yield finding_of(uses, f"more numbers{at} than declared", most, numbers)


def _compare_responses(drawn: Sequence[Draw], uses: Sequence[NoiseUse]) -> Iterator[TapeFinding]:
    yield from _count(sum(draw.numbers for draw in drawn), uses, 0.0)
    costs = [(charge.cost, held) for use in uses for charge in use.charges for held in charge.moved or ()]
    for keep in {draw.keep or 0.0 for draw in drawn}:
        epsilon, rho = _response_cost(keep)
        for cost, held in costs:
            pure = cost.epsilon(held)
            result, allowed = (rho, cost.rho(held)) if math.isinf(pure) else (epsilon, pure)
            if above(result, allowed):
                yield finding_of(uses, "a label is kept too often; its cost", allowed, result)


def finding_of(uses: Sequence[NoiseUse], fault: str, expected: float, measured: float) -> TapeFinding:
    names = list(dict.fromkeys(use.what for use in uses))
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    charges = [charge for use in uses for charge in use.charges]
    return TapeFinding(", ".join(names[:2]) + more, _term(charges), fault, expected, measured)


def _term(charges: Sequence[Charge]) -> str:
    """The first charge of a noise use, in words."""
    for charge in charges:
        if names := sorted(_support(charge.cost)):
            shape = charge.cost.terms[0][0].to_json()["shape"]
            return f"charged to {'+'.join(names)} by a {shape} term: {charge.cost.figure(names)!r}"
    return "no part of the guarantee"


# ---- charges together ------------------------------------------------------------------------------------------------

_MOST_LISTED = 10  # attributes whose subsets are all looked at


def subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The sets of attributes to compare: all of few names; of more, single ones, pairs, and all together."""
    sizes = range(1, len(names) + 1) if len(names) <= _MOST_LISTED else (1, 2, len(names))
    return itertools.chain.from_iterable(itertools.combinations(names, size) for size in sizes)


def compare_claim(claim: Guarantee, uses: Sequence[NoiseUse]) -> Iterator[TapeFinding]:
    """Compare the claim with all charges together, which must not exceed it; nor may what was spent exceed its
    charge."""
    costs = {id(charge.cost): charge.cost for use in uses for charge in use.charges}
    total = Guarantee.compose(claim.universe, costs.values())
    if total != claim:
        for held in subsets(claim.universe.protected):
            figures = {"ρ": (total.rho(held), claim.rho(held)), "pure ε": (total.epsilon(held), claim.epsilon(held))}
            for name, (own, whole) in figures.items():
                if not math.isinf(whole) and above(own, whole):
                    term, fault = f"the guarantee for {'+'.join(held)}", f"charges add up to more {name} than claimed"
                    yield TapeFinding("all declared noise", term, fault, whole, own)
    yield from _overspent(uses)


def _overspent(uses: Sequence[NoiseUse]) -> Iterator[TapeFinding]:
    spent: dict[int, list[NoiseUse]] = {}
    for use in uses:
        if use.published is not None:
            spent.setdefault(id(use.charges[0].cost), []).append(use)
    for together in spent.values():
        cost = together[0].charges[0].cost
        for held in subsets(sorted(_support(cost))):
            pure = cost.epsilon(held)
            allowed = cost.rho(held) if math.isinf(pure) else pure
            result = math.fsum(_spent(use, held, pure=not math.isinf(pure)) for use in together)
            if above(result, allowed):
                yield finding_of(together, f"numbers cost {'+'.join(held)} too much together", allowed, result)


def _spent(use: NoiseUse, held: Iterable[str], *, pure: bool) -> float:
    """The cost to a set of numbers of the published scale, in ε or ρ; each of their attributes moves them by itself."""
    moved = use.charges[0].moved or {}
    farthest = max((float(amount) for names, amount in moved.items() if not names.isdisjoint(held)), default=0.0)
    scale = use.published or math.inf
    if use.kind == "discrete_gaussian":
        return math.inf if pure and farthest else farthest / (2 * scale**2)
    if use.kind == "discrete_laplace":
        return farthest / scale if pure else (farthest / scale) ** 2 / 2
    return 2 * farthest / scale if pure else (farthest / scale) ** 2 / 2
