"""The report in words: who is protected, against what, how well, and what is not protected.

Sentences are plain text with the numbers in them; the page escapes them. Every one is true of the composed guarantee
that it is given, and follows ``privacy.interpretation``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nabladp.privacy import Guarantee
from nabladp.privacy.interpretation import Statement, posterior
from nabladp.privacy.units import rounded

PRIOR = 0.5
MOST_NAMED = 6


@dataclass(frozen=True)
class Belief:
    """What a belief about these attributes can become at most; ``certain`` if it holds without exception."""

    label: str
    attributes: tuple[str, ...]
    statement: Statement
    epsilon: float
    certain: bool

    @property
    def after(self) -> float:
        return self.statement.value

    @property
    def percent(self) -> str:
        return f"{min(100.0, math.ceil(self.after * 1000) / 10):.1f}%"


def belief(guarantee: Guarantee, label: str, attributes: Sequence[str], delta: float) -> Belief:
    """By the pure bound where there is one, otherwise by the paper's conversion, which fails with probability δ."""
    certain = math.isfinite(guarantee.epsilon(attributes))
    at = None if certain else delta
    epsilon = guarantee.epsilon(attributes, at, "paper")
    return Belief(label, tuple(attributes), posterior(guarantee, attributes, PRIOR, at), epsilon, certain)


def chance(delta: float) -> str:
    """1e-6 as "1 in 1,000,000"."""
    return f"1 in {math.floor(float(f'{1 / delta:.12g}')):,}"


def power(delta: float) -> str:
    """1e-6 as 10⁻⁶."""
    digits, _, exponent = f"{delta:e}".partition("e-")
    if float(digits) != 1 or not exponent:
        return f"{delta:g}"
    return "10⁻" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(int(exponent)))


def quoted(name: str) -> str:
    """A name in a sentence; marks keep the direction of its writing from turning the rest around."""
    return f"“{name}”" if name.isascii() else f"“\u2068{name}\u2069”"


def listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """``“a”, “b” and “c”``; of very many the first few and how many there are besides."""
    shown = [quoted(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return " and ".join(([", ".join(shown[:-1])] if len(shown) > 1 else []) + shown[-1:])


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


class Words:
    """All sentences about one composed guarantee."""

    def __init__(
        self,
        guarantee: Guarantee,
        delta: float,
        rows: Sequence[int],
        rows_per_person: int,
        adversaries: Mapping[str, Sequence[str]],
        person_limit: Mapping[str, Any] | None = None,
    ) -> None:
        self.guarantee, self.delta = guarantee, delta
        self.rows, self.rows_per_person = sorted(set(rows)), rows_per_person
        self.adversaries, self.person_limit = adversaries, person_limit
        universe = guarantee.universe
        self.protected = universe.protected
        self.read = tuple(name for name in universe.protected if guarantee.rho(name) > 0)
        self.unread = tuple(name for name in universe.protected if guarantee.rho(name) == 0)
        self.public = tuple(name for name in universe.roots if name in universe.public)

    # ---- who, against what ----------------------------------------------------------------------------------------

    def who(self) -> str:
        if not self.protected:
            return "Nobody: every attribute is declared public, and for a public attribute nothing is promised."
        counts = " and ".join(f"{n:,}" for n in self.rows)
        whatever = "whatever their values are, common or rare"
        if self.rows_per_person == 1:
            everyone = f"Each of the {counts} people" if counts else "Everyone"
            return f"{everyone} in the table, {whatever}."
        of_rows = f" of {counts} rows" if counts else ""
        return (
            f"Everyone who has at most {self.rows_per_person:,} rows in the table{of_rows}, {whatever}. All figures on "
            "this page are for a person with that many rows."
        )

    def against(self) -> str:
        return (
            "Anyone who reads what was released and wants to find out attributes of one person: with any computer and "
            "any other knowledge, now or later; even one who already knows every other row and everything else about "
            "that person."
        )

    # ---- how well -------------------------------------------------------------------------------------------------

    def beliefs(self) -> list[Belief]:
        """The costliest single attribute, every named adversary, the whole person."""
        found = []
        if self.read:
            worst = max(self.read, key=self.guarantee.rho)
            found.append(self._belief(f"someone curious about {quoted(worst)} only, the costliest attribute", (worst,)))
        found += [self._belief(name, chosen) for name, chosen in self.adversaries.items() if self._promised(chosen)]
        return [*found, self.person()] if self.protected else found

    def person(self) -> Belief:
        return self._belief("anyone curious about the whole person", self.guarantee.per_person().attributes)

    def _belief(self, label: str, attributes: Sequence[str]) -> Belief:
        return belief(self.guarantee, label, attributes, self.delta)

    def _promised(self, names: Sequence[str]) -> bool:
        return not self.guarantee.universe.sources(names) & self.guarantee.universe.public

    def reading(self) -> str:
        """How the beliefs are to be read."""
        start = "Say someone thinks a statement about a person as likely as not: 50%. After reading this release it can"
        told = self.beliefs()
        if all(shown.certain for shown in told):
            return f"{start} seem at most this likely, without exception:"
        if any(shown.certain for shown in told):
            start += " seem at most this likely; where a line does not say “always”,"
        else:
            start += " seem at most this likely,"
        return (
            f"{start} except with a chance of {chance(self.delta)} (δ, by the paper's conversion, the only one that "
            "bounds beliefs):"
        )

    def untouched(self) -> str | None:
        if not self.unread:
            return None
        many = len(self.unread) > 1
        return (
            f"This release did not read {listed(self.unread)}: it tells nothing about {'them' if many else 'it'}, "
            "except through attributes that depend on "
            f"{'them' if many else 'it'}."
        )

    # ---- what is not protected ------------------------------------------------------------------------------------

    def not_protected(self) -> list[tuple[str, str]]:
        found = [("Being in the table", self._membership()), ("Attributes that give others away", self._dependent())]
        if self.public:
            found.append(
                ("Public attributes", f"{listed(self.public)}: declared public, so nothing is promised about them.")
            )
        found += [("Families and other groups", self._groups()), ("Other releases", self._others())]
        return [
            *found,
            (
                "What is true of people in general",
                "What could be concluded about a person without that person's own values in the table (because smokers "
                "fall ill more often, say) is not hidden, and could not be.",
            ),
            ("What is public anyway", "The number of rows, the schema, the plan, the noise's law and scale."),
        ]

    def _membership(self) -> str:
        start = "Whether someone is in the table at all is a matter of all attributes together."
        if not self.protected:
            return f"{start} Nothing is promised about it."
        return f"{start} Only the figure for the whole person speaks to it: {self.figure(self.person())}."

    def _dependent(self) -> str:
        derived = list(self.guarantee.universe.derived)
        counted = f" ({listed(derived)} {'are' if len(derived) > 1 else 'is'} computed from others and counted there.)"
        return (
            "The figure of one attribute does not cover another that repeats it or strongly depends on it: a diagnosis "
            f"is not hidden if the medicine is known.{counted if derived else ''} Ask the explorer for such attributes "
            f"together; all of them together cost at most the figure for the whole person"
            f"{': ' + self.figure(self.person()) if self.protected else ''}."
        )

    def _groups(self) -> str:
        if not self.protected:
            return "Nothing is promised about them."
        rows = self.rows_per_person
        attributes = self.guarantee.per_person().attributes
        pair = belief(self.guarantee.for_rows(2), "two people", attributes, self.delta)
        told = "The figures are for one person" + (f" with at most {rows} rows" if rows > 1 else "")
        return f"{told}. Two people together, a couple say, are protected less: {self.figure(pair)}."

    def _others(self) -> str:
        start = "This page speaks of this release alone. What else is released about these people adds up in the ledger"
        line = self.person_limit
        if line is None or line["spent"] is None:
            return f"{start}, which is the place to look for the whole."
        spent, allowed = rounded(line["spent"], 4, up=True), rounded(line["allowed"], 4, up=False)
        return (
            f"{start}: with everything booked up to this release, {line['measure']} = {spent} of the {allowed} that "
            "one person's whole record may cost is spent."
        )

    def figure(self, shown: Belief) -> str:
        """What a belief can become, with its ε and the conversion behind it."""
        if math.isinf(shown.epsilon):
            return "there is no bound"
        exception = "" if shown.certain else f", except with a chance of {chance(self.delta)}"
        kind = "pure ε" if shown.certain else "ε by the paper's conversion"
        rises = "can become near certainty" if shown.after > 0.999 else f"rises to at most {shown.percent}"
        return f"a belief of 50% {rises}{exception} ({kind} = {_up(shown.epsilon)})"


def _up(bound: float) -> str:
    return rounded(bound, 4, up=True)
