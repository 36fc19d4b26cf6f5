"""Guarantee: for every set T of attributes, what a change of one person's T can do to the output.

x ~_T x' means that two tables of the same (public) number of rows differ in one row, and there only on attributes in
T. ``rho(T)`` bounds D_* between the outputs (`defn:pcdp`), ``epsilon(T)`` bounds D_∞ (`defn:ppdp`). Assumed: the number
of rows is public, domains are declared, and one row is one person unless :meth:`Guarantee.for_rows` says otherwise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nabladp import checks
from nabladp.displayed import Displayed
from nabladp.errors import GuaranteeError, quote
from nabladp.privacy.conversion import check_conversion, check_delta, epsilon_from_rho
from nabladp.privacy.graph import GraphTerm, check_label, graph_term
from nabladp.privacy.many_rows import People
from nabladp.privacy.terms import CappedTerm, CurveTerm, Term, WeightTerm, is_whole
from nabladp.privacy.units import format_rounded, half_square, root_double, to_float
from nabladp.privacy.universe import Attributes, Universe
from nabladp.privacy.values import BudgetValue, capped_term, curve_term, exact_decimal, weighted_term

if TYPE_CHECKING:
    from nabladp.privacy.cost_index import CostIndex, Total, WorstSubset

Names = Iterable[str] | str
FORMAT = 1
MOST_ROWS = 10**6
_SHOWN = 8  # attributes in a repr
TERMS = (WeightTerm, CurveTerm, CappedTerm, GraphTerm)


def _float(units: int | None) -> float:
    return math.inf if units is None else to_float(units)


@dataclass(frozen=True)
class Figure:
    """What the guarantee says about one set: ρ, the pure ε (∞ if none) and any (ε, δ) on request."""

    attributes: tuple[str, ...]
    guarantee: Guarantee = field(repr=False)
    within: tuple[tuple[str, float], ...] = ()  # for rows in which these differ by at most so much

    def __repr__(self) -> str:
        pure = "" if math.isinf(self.pure) else f", pure ε = {format_rounded(self.pure, 4, up=True)}"
        named = " + ".join(self.attributes[:_SHOWN])
        if len(self.attributes) > _SHOWN:
            named += f" + {len(self.attributes) - _SHOWN:,} others"
        named += "".join(f", {name} by up to {far:,.6g}" for name, far in self.within)
        return f"Figure({named}: ρ = {format_rounded(self.rho, 4, up=True)}{pure})"

    @property
    def rho(self) -> float:
        return self.guarantee.rho(self.attributes)

    @property
    def eps0(self) -> float:
        """The paper's concentrated ε0 of this set: √(2ρ)."""
        units = self.guarantee.rho_units(self.attributes)
        return math.inf if units is None else to_float(root_double(units))

    @property
    def pure(self) -> float:
        return self.guarantee.epsilon(self.attributes)

    def epsilon(self, delta: float | None = None, conversion: str = "tight") -> float:
        return self.guarantee.epsilon(self.attributes, delta, conversion)


@dataclass(frozen=True, eq=False)
class Guarantee(Displayed):
    """An immutable set function. Build it with the class methods, add with ``+``; never subtract."""

    displayed_as = "guarantee"

    universe: Universe
    terms: tuple[tuple[Term, int], ...] = ()  # each with how often it occurs, in a canonical order

    def __post_init__(self) -> None:
        checks.expect(self.universe, Universe, "The universe of a guarantee", "Build it with Guarantee.touch, …")
        object.__setattr__(self, "terms", _pairs(self.terms))
        for term, count in self.terms:
            if not is_whole(count) or count < 1:
                raise GuaranteeError(
                    "A term occurs a whole number of times, at least once.", fix="Leave it out instead."
                )
            if not term.support <= self.universe.position.keys():
                self.universe.sources(term.support)  # refuses unknown names
                raise GuaranteeError("A term takes source attributes only.", fix="Build it with Guarantee.touch, …")

    # ---- building -------------------------------------------------------------------------------------------------

    @classmethod
    def none(cls, attributes: Attributes) -> Guarantee:
        """The guarantee of releasing nothing: zero for every set."""
        return cls(Universe.of(attributes))

    @classmethod
    def touch(
        cls,
        attributes: Attributes,
        on: Names | Mapping[str, BudgetValue],
        cost: BudgetValue | None = None,
        *,
        gaussian_scale: float | None = None,
        near: Mapping[str, Mapping[Any, BudgetValue]] | None = None,
        people: People | None = None,
    ) -> Guarantee:
        """A guarantee charged once, at the largest weight, to any T that meets ``on``: a noisy marginal, a randomized
        response.

        ``near`` lists, for a source attribute that is a number, what it pays for changes of at most some distance, all
        its columns and roles together: ``{"income": {1000: Rho(0.001)}}``. See :meth:`figure`. ``people`` is what
        several rows of a person cost, in units, where :meth:`for_rows` is not to charge the square of their number.
        """
        universe = Universe.of(attributes)
        return cls._of(universe, weighted_term("touch", universe, on, cost, None, gaussian_scale, near, people))

    @classmethod
    def linear(
        cls,
        attributes: Attributes,
        on: Names | Mapping[str, BudgetValue],
        each: BudgetValue | None = None,
        *,
        limit: int | None = None,
    ) -> Guarantee:
        """A guarantee whose ε adds up over T's attributes, at most ``limit`` of them: group privacy, or a joint
        selection."""
        universe = Universe.of(attributes)
        return cls._of(universe, weighted_term("linear", universe, on, each, limit))

    @classmethod
    def squares(
        cls,
        attributes: Attributes,
        on: Names | Mapping[str, BudgetValue],
        each: BudgetValue | None = None,
        *,
        limit: int | None = None,
    ) -> Guarantee:
        """A guarantee whose ρ adds up over T's attributes, at most ``limit`` of them: Gaussian answers to disjoint
        queries."""
        universe = Universe.of(attributes)
        return cls._of(universe, weighted_term("squares", universe, on, each, limit))

    @classmethod
    def capped(
        cls,
        attributes: Attributes,
        each: Mapping[str, BudgetValue],
        caps: Mapping[str | tuple[str, ...], BudgetValue] | None = None,
    ) -> Guarantee:
        """A guarantee for spending decided on the way: all that touches an attribute costs at most its ``each``, all
        that touches one of a cap's attributes at most that cap.

        The mechanism enforces both, from past outputs only.
        """
        universe = Universe.of(attributes)
        return cls._of(universe, capped_term(universe, each, caps))

    @classmethod
    def curve(cls, attributes: Attributes, columns: Mapping[str, int], table: Sequence[float | Fraction]) -> Guarantee:
        """A guarantee with ρ = ``table[c]`` where c counts the columns held by T's attributes."""
        universe = Universe.of(attributes)
        return cls(universe, ((curve_term(universe, columns, table), 1),))

    @classmethod
    def from_graph(
        cls,
        attributes: Attributes,
        edges: Iterable[tuple[Any, Any, BudgetValue]],
        *,
        on: Names,
        values: Mapping[str, Sequence[Any]] | None = None,
    ) -> Guarantee:
        """The guarantee of `lem:graph`: edges ``(u, v, Pure(e) | CDP(e))`` between values of one attribute or between
        records.

        ``on`` names the attributes, ``values`` lists their whole domains (a schema passed as ``attributes`` knows
        them). A value that no edge reaches has no bound against the others.
        """
        universe = Universe.of(attributes)
        return cls(universe, ((graph_term(universe, attributes, edges, on, values), 1),))

    @classmethod
    def _of(cls, universe: Universe, term: Term | None) -> Guarantee:
        return cls(universe, () if term is None else ((term, 1),))

    # ---- composing ------------------------------------------------------------------------------------------------

    @classmethod
    def compose(cls, attributes: Attributes, parts: Iterable[Guarantee]) -> Guarantee:
        """Adaptive sequential composition of guarantees (`lem:composition`): costs add per T. The only place where they
        do."""
        universe = Universe.of(attributes)
        counted: Counter[Term] = Counter()
        for part in checks.members(parts, "The parts of a guarantee", "Give a list of guarantees."):
            checks.expect(part, Guarantee, "A part of a guarantee", "Give a list of guarantees.")
            if part.universe is not universe and part.universe != universe:
                raise GuaranteeError(
                    "Guarantees over different attributes cannot be added.", fix="Build both from the same schema."
                )
            for term, count in part.terms:
                counted[term] += count
        return cls(universe, tuple(sorted(counted.items(), key=lambda item: item[0].sort_key())))

    def __add__(self, other: Guarantee) -> Guarantee:
        if not isinstance(other, Guarantee):
            return NotImplemented
        return Guarantee.compose(self.universe, (self, other))

    def for_rows(self, rows: int) -> Guarantee:
        """The guarantee for people with up to ``rows`` rows each: ε·rows, ρ·rows² (group privacy), or less where a
        mechanism counts each person once in every group."""
        if not is_whole(rows) or not 1 <= rows <= MOST_ROWS:
            raise GuaranteeError(f"A person has between 1 and {MOST_ROWS:,} rows.", fix="Give a whole number.")
        if rows == 1 and not any(isinstance(term, WeightTerm) and term.people for term, _ in self.terms):
            return self
        return Guarantee.compose(
            self.universe, (Guarantee(self.universe, ((term.for_rows(rows), count),)) for term, count in self.terms)
        )

    def with_public(self, names: Names) -> Guarantee:
        """The guarantee with these attributes declared public: nothing is promised for any set that holds one."""
        public = self.universe.public | self.universe.sources(names)
        return Guarantee(Universe(self.universe.roots, self.universe.derived, public), self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guarantee) and (self.universe, self.terms) == (other.universe, other.terms)

    def __hash__(self) -> int:
        return hash((self.universe, self.terms))

    # ---- asking ---------------------------------------------------------------------------------------------------

    @cached_property
    def _index(self) -> CostIndex:
        from nabladp.privacy.cost_index import CostIndex  # numpy only when a question is asked

        return CostIndex(self.universe, self.terms)

    def _protected_sources(self, names: Names) -> frozenset[str] | None:
        """The source attributes behind the names; None if one is public, for which nothing is promised."""
        sources = self.universe.sources(names)
        return None if sources & self.universe.public else sources

    def rho_units(self, attributes: Names) -> int | None:
        """The exact ρ of a set in units of 2⁻⁶⁰; None when there is no bound."""
        sources = self._protected_sources(attributes)
        return None if sources is None else self._index.total(sources).rho

    def pure_units(self, attributes: Names) -> int | None:
        """The exact pure ε of a set in units of 2⁻⁶⁰; None when there is no pure bound."""
        sources = self._protected_sources(attributes)
        return None if sources is None else self._index.total(sources).pure_of_all

    def total(self, attributes: Names) -> Total | None:
        """The exact sums behind every figure of a set; None where nothing is promised."""
        sources = self._protected_sources(attributes)
        return None if sources is None else self._index.total(sources)

    def rho(self, attributes: Names) -> float:
        return _float(self.rho_units(attributes))

    def epsilon(self, attributes: Names, delta: float | None = None, conversion: str = "tight") -> float:
        """The ε of a set: pure when ``delta`` is None, otherwise ε at δ by the named conversion.

        With pure and concentrated terms mixed: the smaller of everything through ρ, and the pure sum plus the
        conversion of the rest. ``conversion="discrete_gaussian"`` uses the noise's own privacy-loss distribution.
        """
        if delta is None:
            return _float(self.pure_units(attributes))
        check_delta(delta)
        check_conversion(conversion)
        sources = self._protected_sources(attributes)
        if sources is None:
            return math.inf
        if conversion == "discrete_gaussian":
            from nabladp.privacy.conversion import epsilon_of_terms

            return epsilon_of_terms(self.terms, sources, delta)
        total = self._index.total(sources)
        through_rho = epsilon_from_rho(_float(total.rho), delta, conversion)
        if not total.pure:
            return through_rho
        apart = to_float(total.pure) + epsilon_from_rho(_float(total.rho_of_rest), delta, conversion)
        return min(through_rho, math.nextafter(apart, math.inf))

    def figure(self, attributes: Names, within: Mapping[str, float | Fraction] | None = None) -> Figure:
        """What is promised for a set. ``within`` asks about small changes: ``{"income": 1000}`` is the cost of a change
        of the set in which both incomes are numbers and differ by at most 1,000. A term that does not depend on the
        distance counts in full."""
        names = checks.name_or_names(attributes)
        self.universe.sources(names)
        if not within:
            return Figure(names, self)
        distances = self._distances(names, within)
        terms = ((term.for_changes(distances) if isinstance(term, WeightTerm) else term, k) for term, k in self.terms)
        nearby = Guarantee.compose(self.universe, (Guarantee(self.universe, (pair,)) for pair in terms))
        return Figure(names, nearby, tuple((name, float(far)) for name, far in distances.items()))

    def _distances(self, names: Iterable[str], within: Any) -> dict[str, Fraction]:
        fix = "Write within={'income': 1000}."
        for name, far in checks.mapping(within, "'within'", fix).items():
            if name not in self.universe.position:
                self.universe.sources(name)
                raise GuaranteeError(f"A distance is that of a source attribute; {name!r} is derived.", fix=fix)
            if name not in self.universe.sources(names):
                raise GuaranteeError(f"{name!r} is not in the set whose cost is asked for.", fix="Add it to the set.")
            if not checks.is_number(far) or far < 0:
                raise GuaranteeError(f"The distance of {name!r} must be a number, not below zero.", fix=fix)
        return {name: exact_decimal(far) for name, far in within.items()}

    def per_attribute(self) -> dict[str, Figure]:
        """The guarantee's figure for every protected source attribute by itself."""
        return {name: self.figure(name) for name in self.universe.protected}

    def per_person(self) -> Figure:
        """The guarantee's figure for the whole record: all protected attributes at once, the usual differential-privacy
        figure.

        Where every attribute is public nobody is protected, and the figure says so: no bound.
        """
        return self.figure(self.universe.protected or self.universe.roots)

    def epsilon_between(self, one: Mapping[str, Any], other: Mapping[str, Any], notion: str = "cdp") -> float:
        """The paper's ε(x, x') for two records: √(2ρ) for ``"cdp"``, the max-divergence bound for ``"pure"``."""
        if not isinstance(notion, str) or notion not in ("cdp", "pure"):
            raise GuaranteeError(f"There is no notion {quote(notion)}.", fix="Use 'cdp' or 'pure'.")
        for record in (one, other):
            checks.mapping(record, "A record", "Write {'age': 30, 'sex': 'f'}.")
        if set(one) != set(other):
            raise GuaranteeError("The two records must name the same attributes.", fix="Give both in full.")
        self.universe.sources(one)
        for value in (*one.values(), *other.values()):
            check_label(value)
        sources = self._protected_sources([name for name in one if one[name] != other[name]])
        if sources is None:
            return math.inf
        costs = [term.between(one, other, sources).times(count) for term, count in self.terms]
        amounts = [cost.rho if notion == "cdp" else cost.pure for cost in costs]
        if any(amount is None for amount in amounts):
            return math.inf
        total = sum(amount for amount in amounts if amount is not None)
        return to_float(root_double(total) if notion == "cdp" else total)

    def group_bound(self, attributes: Names) -> tuple[float, float]:
        """What group privacy alone would say of a set: (Σ√ρ_j)² and Σε_j over its attributes.

        Never below the tight figures; shown beside them.
        """
        sources = sorted(self.universe.sources(attributes))
        if len(sources) == 1:
            return self.rho(sources), self.epsilon(sources)
        rho, pure = [self.rho_units(name) for name in sources], [self.pure_units(name) for name in sources]
        together = None if None in rho else half_square(sum(root_double(units) for units in rho if units is not None))
        return _float(together), _float(None if None in pure else sum(units for units in pure if units is not None))

    def worst_subset(self, size: int, most: int | None = None) -> WorstSubset:
        """The costliest ``size`` attributes of the guarantee: exact where there are at most ``most`` such sets
        (default: 50,000), otherwise the best one met and an upper bound."""
        return self._index.worst_subset(size, most)

    # ---- keeping --------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The guarantee as JSON; costs are decimal strings, so that no reader rounds them."""
        listed = [term.to_json() | ({"count": count} if count > 1 else {}) for term, count in self.terms]
        return {"format": FORMAT, "unit": "2^-60", "universe": self.universe.to_json(), "terms": listed}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Guarantee:
        try:
            checks.mapping(data, "A stored guarantee", "Read it from a release or a ledger.")
            if not is_whole(data["format"]) or (data["format"], str(data["unit"])) != (FORMAT, "2^-60"):
                raise GuaranteeError(
                    "This guarantee was written in another format.", fix="Use the version that wrote it."
                )
            universe = Universe.from_json(data["universe"])
            parts = [cls(universe, ((_read_term(body), body.get("count", 1)),)) for body in data["terms"]]
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, GuaranteeError):
                raise
            raise GuaranteeError("This is not a guarantee.", fix="Read it from a release or a ledger.") from None
        return cls.compose(universe, parts)

    def __repr__(self) -> str:
        person = self.per_person()
        return f"Guarantee({len(self.universe.roots)} attributes, {len(self.terms)} terms, person ρ = {person.rho:.6g})"


def _read_term(body: Mapping[str, Any]) -> Term:
    if body["shape"] == "curve":
        return CurveTerm.from_json(body)
    if body["shape"] == "capped":
        return CappedTerm.from_json(body)
    return GraphTerm.from_json(body) if body["shape"] == "graph" else WeightTerm.from_json(body)


def _pairs(terms: Any) -> tuple[tuple[Term, int], ...]:
    fix = "Build it with Guarantee.touch, …"
    listed = checks.members(terms, "The terms of a guarantee", fix)
    for pair in listed:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], TERMS):
            raise GuaranteeError("A term of a guarantee is given with how often it occurs.", fix=fix)
    return listed
