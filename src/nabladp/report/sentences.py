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
from nabladp.privacy.units import format_rounded

MOST_NAMED = 6
MOST_DIGITS = 6  # of a percentage


def one_in(delta: float) -> str:
    """A probability in words: 1e-6 as "1 in 1,000,000"."""
    return f"1 in {math.floor(float(f'{1 / delta:.12g}')):,}"


def power_of_ten(delta: float) -> str:
    """A probability as a power of ten: 1e-6 as 10⁻⁶."""
    digits, _, exponent = f"{delta:e}".partition("e-")
    if float(digits) != 1 or not exponent:
        return f"{delta:g}"
    return "10⁻" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(int(exponent)))


def quote_name(name: str) -> str:
    """A name quoted in a sentence; marks keep the direction of its writing from turning the rest around."""
    return f"“{name}”" if name.isascii() else f"“\u2068{name}\u2069”"


def list_names(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Names in a sentence: ``“a”, “b” and “c”``; of very many the first few and how many there are besides."""
    quoted = [quote_name(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(quoted)} and {len(names) - most:,} more"
    return " and ".join(([", ".join(quoted[:-1])] if len(quoted) > 1 else []) + quoted[-1:])


def format_percent_up(share: float) -> str:
    """A share in percent for a sentence, rounded up: one digit, or as many as tell it from certainty."""
    for digits in range(1, MOST_DIGITS + 1):
        percent = math.ceil(share * 10 ** (digits + 2)) / 10**digits
        if percent < 100:
            return f"{percent:.{digits}f}%"
    return "100.0%"


def round_up(bound: float) -> str:
    return format_rounded(bound, 4, up=True)


PRIOR = 0.5
PERSON = ("person", "people")


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
        return format_percent_up(self.after)


def belief(guarantee: Guarantee, label: str, attributes: Sequence[str], delta: float) -> Belief:
    """The bound on a belief, by the pure ε where there is one, otherwise by the paper's conversion, which fails with
    probability δ."""
    certain = math.isfinite(guarantee.epsilon(attributes))
    at = None if certain else delta
    epsilon = guarantee.epsilon(attributes, at, "paper")
    return Belief(label, tuple(attributes), posterior(guarantee, attributes, PRIOR, at), epsilon, certain)


class Sentences:
    """All sentences about one composed guarantee.

    ``protects`` says what a row is about, one and several of them; ``extra`` is more that is not protected, each with
    its heading. Without a release (``released``) there is no ledger, plan or schema to speak of.
    """

    def __init__(
        self,
        guarantee: Guarantee,
        delta: float,
        rows: Sequence[int],
        rows_per_person: int,
        adversaries: Mapping[str, Sequence[str]],
        person_limit: Mapping[str, Any] | None = None,
        *,
        protects: tuple[str, str] = PERSON,
        extra: Mapping[str, str] | None = None,
        released: bool = True,
    ) -> None:
        self.one, self.many = protects
        self.human, self.extra, self.released = protects == PERSON, dict(extra or {}), released
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
        whatever = f"whatever {'their' if self.human else 'its'} values are, common or rare"
        if self.rows_per_person == 1:
            everyone = (
                f"Each of the {counts} {self.many}" if counts else "Everyone" if self.human else f"Every {self.one}"
            )
            return f"{everyone} in the table, {whatever}."
        of_rows = f" of {counts} rows" if counts else ""
        return (
            f"Everyone who has at most {self.rows_per_person:,} rows in the table{of_rows}, {whatever}. All figures on "
            "this page are for a person with that many rows."
        )

    def against(self) -> str:
        return (
            f"Anyone who reads the published values and wants to learn attributes of one {self.one}, with any other "
            "data, now or later. The figures are for someone who already knows every other row and all other "
            f"attributes of that {self.one}; someone who knows less may also learn from rows and attributes that "
            "depend on them."
        )

    # ---- how well -------------------------------------------------------------------------------------------------

    def beliefs(self) -> list[Belief]:
        """The beliefs that the report states: the costliest single attribute, every named adversary, the whole
        person."""
        beliefs = []
        if self.read:
            worst = max(self.read, key=self.guarantee.rho)
            beliefs.append(
                self._belief(f"someone curious about {quote_name(worst)} only, the costliest attribute", (worst,))
            )
        beliefs += [
            self._belief(name, chosen) for name, chosen in self.adversaries.items() if self._is_protected(chosen)
        ]
        return [*beliefs, self.person()] if self.protected else beliefs

    def person(self) -> Belief:
        return self._belief(f"anyone curious about the whole {self.one}", self.guarantee.per_person().attributes)

    def _belief(self, label: str, attributes: Sequence[str]) -> Belief:
        return belief(self.guarantee, label, attributes, self.delta)

    def _is_protected(self, names: Sequence[str]) -> bool:
        return not self.guarantee.universe.sources(names) & self.guarantee.universe.public

    def assumes(self) -> str:
        assumed = self.person().statement.assumes.replace("this person", f"this {self.one}")
        return assumed if self.human else assumed.replace("other people's rows", "other rows")

    def reading(self) -> str:
        """The sentence that says how the beliefs are to be read."""
        start = (
            f"Say someone who already knows all else thinks a statement about one {self.one} as likely as not: 50%. "
            f"After reading {'this release' if self.released else 'the published values'} it can"
        )
        beliefs = self.beliefs()
        if all(each.certain for each in beliefs):
            return f"{start} seem at most this likely, without exception:"
        if any(each.certain for each in beliefs):
            start += " seem at most this likely; where a line does not say “always”,"
        else:
            start += " seem at most this likely,"
        return (
            f"{start} except with probability {one_in(self.delta)} for each {self.one} (δ, by the paper's conversion: "
            "of the two shown, the one that bounds beliefs):"
        )

    def unread_note(self) -> str | None:
        if not self.unread:
            return None
        many = len(self.unread) > 1
        return (
            f"{'This release' if self.released else 'The publication'} did not read {list_names(self.unread)}, so "
            f"{'they cost' if many else 'it costs'} nothing. {'They' if many else 'It'} may still be inferred from "
            "attributes that were read."
        )

    # ---- what is not protected ------------------------------------------------------------------------------------

    def not_protected(self) -> list[tuple[str, str]]:
        rows = [("Being in the table", self._membership()), ("Attributes that give others away", self._dependent())]
        if self.public:
            rows.append(
                ("Public attributes", f"{list_names(self.public)}: declared public, so nothing is promised about them.")
            )
        rows += [("Families and other groups" if self.human else "Several together", self._groups())]
        rows += [("Other releases", self._others()), *self.extra.items()]
        return [
            *rows,
            (f"What is true of {self.many} in general", self._general()),
            ("What is public anyway", self._public_facts()),
        ]

    def exclusions(self) -> list[str]:
        """What is not protected, in a few words each, for the certificate."""
        someone = "someone" if self.human else f"a certain {self.one}"
        return [
            f"whether {someone} is in the table at all"
            + ("" if self.public else f", beyond the figure for the whole {self.one}"),
            "attributes that repeat or strongly depend on each other, beyond the figure for all of them together",
            *(["public attributes"] if self.public else []),
            f"what other releases add{' (the ledger keeps the sum)' if self.released else ''}",
        ]

    def _membership(self) -> str:
        someone = "someone" if self.human else f"a certain {self.one}"
        start = f"Whether {someone} is in the table at all depends on all attributes together"
        if self.public:
            return f"{start}, and public attributes are among them. Nothing is promised about it."
        return f"{start}. Only the figure for the whole {self.one} bounds it: {self.figure(self.person())}."

    def _dependent(self) -> str:
        derived = list(self.guarantee.universe.derived)
        counted = (
            f" ({list_names(derived)} {'are' if len(derived) > 1 else 'is'} computed from others and counted there.)"
        )
        return (
            "The figure of one attribute does not cover another that repeats it or strongly depends on it: a diagnosis "
            f"is not hidden if the medicine is known.{counted if derived else ''} Ask the explorer for such attributes "
            f"together; all of them together cost at most the figure for the whole {self.one}"
            f"{': ' + self.figure(self.person()) if self.protected else ''}."
        )

    def _groups(self) -> str:
        if not self.protected:
            return "Nothing is promised about them."
        rows = self.rows_per_person
        attributes = self.guarantee.per_person().attributes
        pair = belief(self.guarantee.for_rows(2), "two people", attributes, self.delta)
        scope = f"The figures are for one {self.one}" + (f" with at most {rows} rows" if rows > 1 else "")
        say = ", a couple say," if self.human else ""
        return f"{scope}. Two {self.many} together{say} are protected less: {self.figure(pair)}."

    def _others(self) -> str:
        if not self.released:
            return f"This page is about this guarantee alone. Other releases about these {self.many} add to it."
        start = "This page is about this release alone. The ledger adds up all releases about these people"
        line = self.person_limit
        if line is None or line["spent"] is None:
            return f"{start}; look there for the total."
        spent, allowed = format_rounded(line["spent"], 4, up=True), format_rounded(line["allowed"], 4, up=False)
        return (
            f"{start}: with everything booked up to this release, {line['measure']} = {spent} of the {allowed} that "
            "one person's whole record may cost is spent."
        )

    def _general(self) -> str:
        without = "that person's own" if self.human else "its own"
        example = " (because smokers fall ill more often, say)" if self.human else ""
        return (
            f"What could be concluded about one {self.one} without {without} values in the table{example} is not "
            "hidden, and could not be."
        )

    def _public_facts(self) -> str:
        if not self.released:
            return "The number of rows, and which values each attribute can have."
        return "The number of rows, the schema, the plan, the noise distribution and its scale."

    def figure(self, rise: Belief) -> str:
        """The sentence about one belief, with its ε and the conversion behind it."""
        if math.isinf(rise.epsilon):
            return "there is no bound"
        exception = "" if rise.certain else f", except with probability {one_in(self.delta)} for each {self.one}"
        kind = "pure ε" if rise.certain else "ε by the paper's conversion"
        rises = "can become near certainty" if rise.after > 0.999 else f"can rise to at most {rise.percent}"
        return f"a belief of 50% {rises}{exception} ({kind} = {round_up(rise.epsilon)})"
