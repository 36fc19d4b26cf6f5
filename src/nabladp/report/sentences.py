"""The report in words: who is protected, against what, how well, and what is not protected.

Sentences are plain text with the numbers in them; the page escapes them. Every one is true of the composed guarantee
that it is given, and follows ``privacy.interpretation``. Their texts, in every language, are in ``languages``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from nabladp.privacy import Guarantee
from nabladp.privacy.interpretation import Statement, format_percent_up, posterior
from nabladp.report.language import MOST_NAMED, Language, language

PRIOR = 0.5
PERSON = ("person", "people")


@dataclass(frozen=True)
class Belief:
    """What a belief about these attributes can become at most; ``certain`` if it holds without exception.

    ``about`` says whose curiosity it is, for a sentence; ``label`` the same in a list.
    """

    label: str
    about: str
    attributes: tuple[str, ...]
    statement: Statement
    epsilon: float
    certain: bool
    percent: str

    @property
    def after(self) -> float:
        return self.statement.value


def belief(
    guarantee: Guarantee, label: str, about: str, attributes: Sequence[str], delta: float, t: Language
) -> Belief:
    """The bound on a belief, by the pure ε where there is one, otherwise by the paper's conversion, which fails with
    probability δ."""
    certain = math.isfinite(guarantee.epsilon(attributes))
    at = None if certain else delta
    epsilon = guarantee.epsilon(attributes, at, "paper")
    statement = posterior(guarantee, attributes, PRIOR, at)
    percent = t("format.percent", number=t.localised(format_percent_up(statement.value)[:-1]))
    return Belief(label, about, tuple(attributes), statement, epsilon, certain, percent)


class Sentences:
    """All sentences about one composed guarantee.

    ``protects`` says what a row is about, one and several of them; ``extra`` is more that is not protected, each with
    its heading. Without a release (``released``) there is no ledger, plan or schema to speak of. ``titles`` are read in
    place of the attributes' names.
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
        bounded: bool = False,
        titles: Mapping[str, str] | None = None,
        spoken: str | Language = "en",
    ) -> None:
        self.t = t = language(spoken)
        self.human, self.extra, self.released = protects == PERSON, dict(extra or {}), released
        kind = "person" if self.human else "unit"
        self.one, self.many = t(f"words.one_{kind}", name=protects[0]), t(f"words.many_{kind}", name=protects[1])
        self.guarantee, self.delta = guarantee, delta
        self.rows, self.rows_per_person = sorted(set(rows)), rows_per_person
        self.bounded = bounded  # no more rows of each person were used, however many there are
        self.adversaries, self.person_limit = adversaries, person_limit
        self.titles = dict(titles or {})
        universe = guarantee.universe
        self.protected = universe.protected
        self.read = tuple(name for name in universe.protected if guarantee.rho(name) > 0)
        self.unread = tuple(name for name in universe.protected if guarantee.rho(name) == 0)
        self.public = tuple(name for name in universe.roots if name in universe.public)

    def _say(self, key: str, **values: Any) -> str:
        """A text of the section "words", which may name what a row is about."""
        return self.t(f"words.{key}", one=self.one, many=self.many, **values)

    def called(self, names: Iterable[str]) -> list[str]:
        """What people read in place of these names."""
        return [self.titles.get(name, name) for name in names]

    def _quote(self, name: str) -> str:
        return self.t.quoted(self.titles.get(name, name))

    def _names(self, names: Sequence[str], most: int = MOST_NAMED) -> str:
        return self.t.names(self.called(names), most)

    def _human(self, key: str) -> str:
        """The key of a text that is another where rows are not about people."""
        return key if self.human else f"{key}_unit"

    # ---- who, against what ----------------------------------------------------------------------------------------

    def who(self) -> str:
        if not self.protected:
            return self._say("nobody")
        counts = self.t.listed([self.t.number(n) for n in self.rows])
        if self.bounded:
            used = self._say("rows_in_use", counts=counts) if counts and self.rows_per_person > 1 else ""
            return self._say(self._human("bounded_rows"), count=self.rows_per_person, used=used)
        if self.rows_per_person == 1:
            who = self._say("each_row", counts=counts) if counts else self._say(self._human("everyone"))
            return self._say(self._human("whatever"), who=who)
        of_rows = self._say("of_rows", counts=counts) if counts else ""
        return self._say("several_rows", count=self.rows_per_person, of_rows=of_rows)

    def against(self) -> str:
        return self._say("against")

    # ---- how well -------------------------------------------------------------------------------------------------

    def beliefs(self) -> list[Belief]:
        """The beliefs that the report states: the costliest single attribute, every named adversary, all protected
        attributes."""
        beliefs = []
        if self.read:
            worst = max(self.read, key=self.guarantee.rho)
            name = self._quote(worst)
            label = self._say("costliest_label", name=name)
            beliefs.append(self._belief(label, self._say("about_attribute", names=name), (worst,)))
        beliefs += [self.adversary(name) for name, chosen in self.adversaries.items() if self.is_protected(chosen)]
        return [*beliefs, self.person()] if self.protected else beliefs

    def adversary(self, name: str) -> Belief:
        """What a named adversary can come to believe."""
        chosen = self.adversaries[name]
        about = self._say("about_attributes", names=self._names(chosen, len(chosen)))
        return self._belief(name, about if len(chosen) > 1 else self.attribute(chosen[0]).about, chosen)

    def attribute(self, name: str) -> Belief:
        return self._belief(name, self._say("about_attribute", names=self._quote(name)), (name,))

    def person(self) -> Belief:
        """What can be learned from all protected attributes together."""
        about = self._say("about_all")
        return self._belief(self._say("all_label"), about, self.guarantee.per_person().attributes)

    def _belief(self, label: str, about: str, attributes: Sequence[str]) -> Belief:
        return belief(self.guarantee, label, about, attributes, self.delta, self.t)

    def small_difference(self, name: str, far: Fraction, unit: str) -> Belief:
        """What someone can come to believe who already knows a number up to a range of this width."""
        width = self.t.number(int(far)) if far.denominator == 1 else self.t.localised(f"{float(far):,.6g}")
        label = self.t("about.small_range", name=self._quote(name), far=f"{width} {unit}".strip())
        nearby = self.guarantee.figure(name, {name: far}).guarantee
        return belief(nearby, label, label, (name,), self.delta, self.t)

    def is_protected(self, names: Sequence[str]) -> bool:
        return not self.guarantee.universe.sources(names) & self.guarantee.universe.public

    def assumes(self) -> str:
        return self._say(self._human("assumes"))

    def apart(self) -> str:
        """The public attributes, wherever all protected ones are meant."""
        return self._say("apart", names=self._names(self.public), count=len(self.public)) if self.public else ""

    def reading(self) -> str:
        """The sentence that says how the beliefs are to be read."""
        start = self._say("reading", after=self._say("after_release" if self.released else "after_publication"))
        beliefs = self.beliefs()
        if all(each.certain for each in beliefs):
            return self._say("reading_always", start=start)
        key = "reading_some" if any(each.certain for each in beliefs) else "reading_except"
        return self._say(key, start=start, chance=self.one_in())

    def one_in(self) -> str:
        return self.t.one_in(self.delta)

    def unread_note(self) -> str | None:
        if not self.unread:
            return None
        what = self._say("this_release" if self.released else "the_publication")
        return self._say("unread", what=what, names=self._names(self.unread), count=len(self.unread))

    # ---- what is not protected ------------------------------------------------------------------------------------

    def not_protected(self) -> list[tuple[str, str]]:
        """Everything that is not protected: a heading and a sentence each; the report's and the certificate's."""
        say, human = self._say, self._human
        rows = [(say("membership_head"), self._membership()), (say("dependent_head"), self._dependent())]
        if self.public:
            names = self._names(self.public, len(self.public))
            rows.append((say("public_head"), say("public", names=names, count=len(self.public))))
        rows += [(say(human("groups_head")), self._groups())]
        rows += [(say("others_head"), self._others()), *self.extra.items()]
        facts = say("facts" if not self.released else "facts_used" if self.bounded else "facts_released")
        return [*rows, (say("general_head"), say(human("general"))), (say("facts_head"), facts)]

    def _membership(self) -> str:
        start = self._say(self._human("membership"))
        if self.public:
            names = self._names(self.public)
            return self._say("membership_public", start=start, names=names, count=len(self.public))
        return self._say("membership_bound", start=start, figure=self.figure(self.person()))

    def _dependent(self) -> str:
        derived = list(self.guarantee.universe.derived)
        counted = f" {self._say('derived', names=self._names(derived), count=len(derived))}" if derived else ""
        figure = self._say("dependent_figure", figure=self.figure(self.person())) if self.protected else ""
        return self._say("dependent", counted=counted, figure=figure)

    def _groups(self) -> str:
        if not self.protected:
            return self._say("groups_none")
        rows = self.rows_per_person
        pair = self._pair()
        several = "scope_rows_used" if self.bounded else "scope_rows"
        scope = self._say(several, count=rows) if rows > 1 else self._say("scope")
        return self._say(self._human("groups"), scope=scope, figure=self.figure(pair))

    def _pair(self) -> Belief:
        attributes = self.guarantee.per_person().attributes
        return belief(self.guarantee.for_rows(2), "", "", attributes, self.delta, self.t)

    def _others(self) -> str:
        if not self.released:
            return self._say("others_claim")
        line = self.person_limit
        if line is None or line["spent"] is None:
            return self._say("others_look")
        spent, allowed = self.t.cost(line["spent"]), self.t.cost(line["allowed"], up=False)
        return self._say("others", measure=self.t.measure(line["measure"]), spent=spent, allowed=allowed)

    def figure(self, rise: Belief) -> str:
        """The sentence about one belief, with its ε and the conversion behind it."""
        if math.isinf(rise.epsilon):
            return self._say("no_bound")
        key = "figure_near" if rise.after > 0.999 else "figure"
        exception = "" if rise.certain else self._say("figure_except", chance=self.one_in())
        kind = self._say("pure_epsilon" if rise.certain else "paper_epsilon", epsilon=self.t.cost(rise.epsilon))
        return self._say(key, percent=rise.percent, exception=exception, epsilon=kind)
