"""What a guarantee means for a person, with the assumption each statement needs (`prop:semantic`, mended).

Nothing here is about membership. Being in the table depends on all attributes: only the per-person figure bounds it,
and nothing does if any attribute is public.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from nabladp.checks import expect, is_share, members
from nabladp.errors import GuaranteeError
from nabladp.privacy.conversion import check_delta
from nabladp.privacy.guarantee import Guarantee, Names
from nabladp.privacy.units import format_rounded

_MOST_DIGITS = 6  # of a percentage


@dataclass(frozen=True)
class Statement:
    """A number, the sentence that says it, and what it assumes."""

    value: float
    sentence: str
    assumes: str


def posterior(guarantee: Guarantee, attributes: Names, prior: float = 0.5, delta: float | None = None) -> Statement:
    """The most an adversary can come to believe about these attributes of one person, under a guarantee.

    For two statements about the attributes T of a person whose other attributes, and everyone else's, are known to the
    adversary, the odds move by a factor of at most e^ε(T). With ``delta`` the paper's tail bound limits the loss; for
    one person and one statement that gains belief the bound fails with probability at most δ. The tight conversion
    gives (ε, δ)-DP only, which does not bound beliefs.
    """
    _check(guarantee)
    if not is_share(prior):
        raise GuaranteeError("A prior belief lies strictly between 0 and 1.", fix="Try prior=0.5.")
    prior = float(prior)
    epsilon = guarantee.epsilon(attributes, delta, "paper")
    after = 1.0 if math.isinf(epsilon) else prior / (prior + (1 - prior) * math.exp(-epsilon))
    except_with = "" if delta is None else f", except with probability {float(delta):g} for each person"
    return Statement(
        after,
        f"A belief of {100 * prior:.4g}% can rise to at most {format_percent_up(after)}{except_with}.",
        "The adversary already knows every other row and all other attributes of this person. One who knows less may "
        "also learn from other attributes, and from other people's rows, that depend on them.",
    )


def total_variation(guarantee: Guarantee, attributes: Names) -> Statement:
    """How far any posterior can lie from the one with only these attributes of one person blanked: e^{2ε(T)} − 1.

    The proposition as printed blanks the whole record, which is false when rows are correlated; this form holds for
    every prior. Pure ε only.
    """
    epsilon = _check(guarantee).epsilon(attributes)
    value = 1.0 if epsilon > 1 else min(1.0, math.expm1(2 * epsilon))
    return Statement(
        value,
        f"Beliefs differ by at most {_up(value)} in total variation from those had these attributes been blank.",
        "Any prior; compared with the same table where only these attributes of this one person are blanked.",
    )


def mutual_information(guarantee: Guarantee, groups: Iterable[Names]) -> Statement:
    """The most a release tells about a person, in nats: Σ ρ(s_j) over groups of attributes that are independent."""
    universe = _check(guarantee).universe
    listed = [tuple(sorted(universe.sources(group))) for group in members(groups, "The groups", "Write [['age']].")]
    if sum(map(len, listed)) != len({name for group in listed for name in group}):
        raise GuaranteeError("The groups overlap.", fix="Put every source attribute into one group only.")
    value = math.fsum(guarantee.rho(group) for group in listed)
    return Statement(
        value,
        f"The release holds at most {_up(value)} nats ({_up(value / math.log(2))} bits) about these attributes.",
        "People's rows are independent, and each group of attributes is independent of all other attributes.",
    )


def several_rows(guarantee: Guarantee, attributes: Names, rows: int, delta: float) -> Statement:
    """The ε at δ for a person who has up to ``rows`` rows."""
    check_delta(delta)
    value = _check(guarantee).for_rows(rows).epsilon(attributes, delta)
    return Statement(
        value,
        f"A person with {rows} rows is protected at ε = {_up(value)} (tight conversion, δ = {float(delta):g}).",
        f"At most {rows} rows each.",
    )


def _check(guarantee: Guarantee) -> Guarantee:
    return expect(guarantee, Guarantee, "What is explained", "Give a Guarantee.")


def _up(bound: float) -> str:
    return format_rounded(bound, 3, up=True)


def format_percent_up(share: float) -> str:
    """A share in percent for a sentence, rounded up: one digit, or as many as tell it from certainty."""
    for digits in range(1, _MOST_DIGITS + 1):
        percent = math.ceil(share * 10 ** (digits + 2)) / 10**digits
        if percent < 100:
            return f"{percent:.{digits}f}%"
    return "100.0%"
