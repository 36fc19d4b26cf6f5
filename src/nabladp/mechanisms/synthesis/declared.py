"""What a schema declares about synthetic rows: rules between numbers, and formulas of derived columns.

A rule is known to the model as impossible cells where its columns fit; rows that break one all the same are mended, and
numbers are put inside their bins so that it holds. All of this is a function of public declarations and synthetic rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.mechanisms.output_tables import BinPositions
from nabladp.mechanisms.synthesis.inference import Zeros
from nabladp.schema import Attribute, Schema
from nabladp.schema.expressions import Rule
from nabladp.schema.formulas import UNKNOWN
from nabladp.schema.rules import DRAWN
from nabladp.tables import coded_numbers, formula_codes

Codes = Mapping[str, NDArray[Any]]
Names = tuple[str, ...]
MOST_CELLS = 1 << 20  # of a rule's columns: beyond, it is not in the model, and rows are looked at one by one
LAST = np.float32(1 - 2.0**-24)  # the highest position in a bin
_GOLDEN = (5**0.5 - 1) / 2
_TRIES = 12  # positions in bins, then values of other rows, before a row is replaced


# ---- impossible cells ------------------------------------------------------------------------------------------------


def rules_about(schema: Schema, columns: Sequence[str]) -> list[Rule]:
    return [rule for rule in schema.inequalities if set(rule.names) <= set(columns)]


def declared_zeros(schema: Schema, columns: Sequence[str]) -> list[Zeros]:
    """The cells that rules and formulas make impossible: no numbers in their bins, as rows would hold them, satisfy
    the rule; a formula of sources without bins gives another value. Too large tables are left out."""
    tables = [_rule_zeros(schema, rule) for rule in rules_about(schema, columns) if _small(schema, rule.names)]
    tables += [
        _formula_zeros(schema, name, sources)
        for name, sources in _formulas(schema, columns).items()
        if _small(schema, (*sources, name)) and not any(schema[source].kind == "real" for source in sources)
    ]
    return merge_zeros(tables)


def merge_zeros(zeros: Sequence[Zeros]) -> list[Zeros]:
    """One table of impossible cells for each set of columns."""
    merged: dict[frozenset[str], Zeros] = {}
    for zero in zeros:
        key = frozenset(zero.attributes)
        if key in merged:
            order = merged[key].attributes
            turned = zero.forbidden.transpose([zero.attributes.index(name) for name in order])
            zero = Zeros(order, merged[key].forbidden | turned)
        merged[key] = zero
    return list(merged.values())


def _small(schema: Schema, names: Sequence[str]) -> bool:
    return schema.cells(names) <= MOST_CELLS


def _is_drawn(attribute: Attribute) -> bool:
    return attribute.kind == "real" and attribute.decode in DRAWN


def _formulas(schema: Schema, columns: Sequence[str]) -> dict[str, Names]:
    """The derived columns with a formula whose sources are there, and these sources."""
    return {
        name: formula.sources
        for name, formula in schema.formulas.items()
        if name in columns and set(formula.sources) <= set(columns)
    }


def _best(attribute: Attribute, weight: float) -> Floats:
    """For each code, the number that a row may hold with the least product with the weight."""
    codes = np.arange(attribute.size)
    if not _is_drawn(attribute):
        return coded_numbers(attribute, codes)
    return coded_numbers(attribute, codes, np.full(len(codes), 0 if weight > 0 else LAST, np.float32))


def _rule_zeros(schema: Schema, rule: Rule) -> Zeros:
    shaped = np.ix_(*(_best(schema[name], weight) for name, weight in zip(rule.names, rule.weights, strict=True)))
    return Zeros(rule.names, rule.broken(dict(zip(rule.names, shaped, strict=True))))


def formula_table(schema: Schema, name: str, sources: Names) -> NDArray[Any]:
    """The code that a formula gives each cell of its sources, with the number that stands for each code."""
    shape = schema.sizes(sources)
    codes = dict(zip(sources, np.indices(shape).reshape(len(sources), -1), strict=True))
    numbers = {source: coded_numbers(schema[source], own) for source, own in codes.items()}
    return formula_codes(schema, name, numbers, codes).reshape(shape)


def _formula_zeros(schema: Schema, name: str, sources: Names) -> Zeros:
    value = formula_table(schema, name, sources)[..., None]
    return Zeros((*sources, name), (value != UNKNOWN) & (value != np.arange(schema[name].size)))


# ---- rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Declared:
    """All declarations about the columns of a model: ``zeros`` hold what is given as impossible cells."""

    schema: Schema
    columns: Names
    zeros: Sequence[Zeros]

    @property
    def is_empty(self) -> bool:
        """Whether the schema declares nothing: zeros alone are seen to by the model and the repair."""
        return not self.rules and not self.formulas

    @cached_property
    def rules(self) -> list[Rule]:
        return rules_about(self.schema, self.columns)

    @cached_property
    def formulas(self) -> dict[str, Names]:
        return _formulas(self.schema, self.columns)

    @cached_property
    def _bests(self) -> list[tuple[Rule, dict[str, Floats]]]:
        return [
            (rule, {n: _best(self.schema[n], w) for n, w in zip(rule.names, rule.weights, strict=True)})
            for rule in self.rules
        ]

    def settle(self, codes: Codes, within: BinPositions | None) -> tuple[dict[str, NDArray[Any]], BinPositions | None]:
        """Rows that follow every rule and formula, and the positions of their numbers in bins."""
        if self.is_empty:
            return dict(codes), within
        rows = {name: column.copy() for name, column in codes.items()}
        positions = {name: column.copy() for name, column in (within or {}).items()}
        self._mend(rows)
        self._place(rows, positions)
        self._compute(rows, positions)
        wrong = self._impossible(rows) | self._rows_that_break_rules(rows, positions)
        good = np.flatnonzero(~wrong)
        if wrong.any() and len(good):  # no value of theirs would do: they become copies of rows that hold
            chosen = good[np.arange(int(wrong.sum())) * 7919 % len(good)]
            for column in (*rows.values(), *positions.values()):
                column[wrong] = column[chosen]
        return rows, positions if within is not None else None

    def _impossible(self, rows: Codes) -> NDArray[np.bool_]:
        """Rows that no numbers in their bins could save."""
        result = np.zeros(len(next(iter(rows.values()))), np.bool_)
        for zero in self.zeros:
            result |= zero.forbidden[tuple(rows[name] for name in zero.attributes)]
        for rule, best in self._bests:
            result |= rule.broken({name: table[rows[name]] for name, table in best.items()})
        return result

    def _numbers(self, rows: Codes, positions: Mapping[str, NDArray[Any]], names: Sequence[str]) -> dict[str, Floats]:
        return {name: coded_numbers(self.schema[name], rows[name], positions.get(name)) for name in names}

    def _rows_that_break_rules(self, rows: Codes, positions: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Rows whose numbers break a rule."""
        result = np.zeros(len(next(iter(rows.values()))), np.bool_)
        for rule in self.rules:
            result |= rule.broken(self._numbers(rows, positions, rule.names))
        return result

    def _mend(self, rows: dict[str, NDArray[Any]]) -> None:
        """Rows whose codes break a rule take the value of another row in one of its columns."""
        wrong = np.flatnonzero(self._impossible(rows))
        movable = [n for n in dict.fromkeys(n for rule in self.rules for n in rule.names) if n not in self.formulas]
        count = len(next(iter(rows.values())))
        for k in range(_TRIES * len(movable) if len(wrong) else 0):
            trial = {name: column[wrong] for name, column in rows.items()}
            name = movable[k % len(movable)]
            trial[name] = rows[name][(wrong + 1 + 104_729 * k) % count]
            self._compute(trial, {})
            done = ~self._impossible(trial)
            for own, column in trial.items():
                rows[own][wrong[done]] = column[done]
            wrong = wrong[~done]
            if not len(wrong):
                break

    def _place(self, rows: Codes, positions: dict[str, NDArray[Any]]) -> None:
        """Other positions for numbers in bins that break a rule: spread evenly first, then at the end that helps."""
        if not set(positions) & {name for rule in self.rules for name in rule.names}:
            return
        for moved in _ways(self.rules, positions):
            wrong = np.flatnonzero(self._rows_that_break_rules(rows, positions))
            if not len(wrong):
                return
            part = {name: column[wrong] for name, column in rows.items()}
            trial = {name: moved(name, column[wrong]) for name, column in positions.items()}
            done = ~self._rows_that_break_rules(part, trial)
            for name, column in trial.items():
                positions[name][wrong[done]] = column[done]

    def _compute(self, rows: dict[str, NDArray[Any]], positions: dict[str, NDArray[Any]]) -> None:
        """Every derived column with a formula, from the numbers of its sources."""
        for name, sources in self.formulas.items():
            numbers = self._numbers(rows, positions, [s for s in sources if _has_numbers(self.schema[s])])
            value = formula_codes(self.schema, name, numbers, {source: rows[source] for source in sources})
            known = value != UNKNOWN
            rows[name][known] = value[known]
            if name in positions:
                positions[name] = self._position(name, rows[name], numbers, positions[name])

    def _position(self, name: str, codes: NDArray[Any], numbers: Mapping[str, Floats], now: NDArray[Any]) -> Any:
        """Where in its bin the number lies that a formula gives."""
        attribute, expression = self.schema[name], self.schema.formulas[name].expression
        if expression is None:
            return now
        edges = np.array(attribute.edges)
        own = np.minimum(codes, attribute.ordered_size - 1)
        share = (expression.values(numbers) - edges[own]) / (edges[own + 1] - edges[own])
        inside = (share >= 0) & (share <= 1)
        return np.where(inside, np.minimum(share, LAST), now).astype(np.float32)


def _has_numbers(attribute: Attribute) -> bool:
    return attribute.is_numeric or attribute.kind == "boolean"


def _ways(rules: Sequence[Rule], positions: Mapping[str, Any]) -> Iterator[Any]:
    """Ways to move positions in bins."""
    order = {name: i for i, name in enumerate(positions, 1)}
    for k in range(1, _TRIES + 1):

        def turned(name: str, column: NDArray[Any], k: int = k) -> NDArray[Any]:
            return np.minimum((column + np.float32(k * _GOLDEN * math.sqrt(order[name]))) % 1, LAST).astype(np.float32)

        yield turned
    ends = [{n: 0.0 if w > 0 else LAST for n, w in zip(rule.names, rule.weights, strict=True)} for rule in rules]
    for chosen in (*ends, *({**a, **b} for a in ends for b in ends)):

        def at_ends(name: str, column: NDArray[Any], chosen: Mapping[str, Any] = chosen) -> NDArray[Any]:
            return np.full(len(column), chosen[name], np.float32) if name in chosen else column

        yield at_ends
