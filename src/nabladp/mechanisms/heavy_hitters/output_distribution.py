"""The exact law of all lists and of the root's counts, for tiny trees: every candidate gets its own noise here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.errors import AuditError
from nabladp.mechanisms.heavy_hitters.settings import Settings
from nabladp.mechanisms.heavy_hitters.tree import Node, Tree
from nabladp.mechanisms.mechanism import Branch, Law, Scenario, ValueLaw
from nabladp.noise import gaussian_log_pmf, laplace_log_pmf

if TYPE_CHECKING:
    from nabladp.tables import Counts

String = tuple[int, ...]
Lists = dict[int, tuple[String, ...]]
_AUDIT_ORDER = 64.0
MOST_OUTCOMES = 1 << 16


def exact_law(settings: Settings, names: Sequence[str], counts: Counts) -> Law:
    """The exact output distribution of HeavyHitters: below the root a branch per outcome of every list, at the root a
    part per candidate.

    A concentrated tree's noisy counts below the root are not published, but the proof covers them only as a function
    of what the lists say: the law of the lists is all that anyone sees.
    """
    return _tree(settings, names, counts, True).law(0, {})


def lists_only(settings: Settings, names: Sequence[str], counts: Counts) -> Law:
    """The exact output distribution of the HeavyHitters lists, without the root's counts."""
    return _tree(settings, names, counts, False).law(0, {})


def _tree(settings: Settings, names: Sequence[str], counts: Counts, with_counts: bool) -> TreeLaw:
    cells = counts.schema.cells(tuple(names))
    if cells > MOST_OUTCOMES:
        raise AuditError(
            "The tree has too many strings for its exact output distribution.", fix="Audit fewer attributes."
        )
    return TreeLaw(settings, counts.marginals([tuple(names)])[0], counts.n, with_counts)


@dataclass(frozen=True)
class TreeLaw:
    """The law of the lists of one table, given by its full marginal."""

    settings: Settings
    table: NDArray[np.int64]
    n: int
    with_counts: bool

    def law(self, position: int, lists: Lists) -> Law:
        """The exact law of what follows, given the lists of all nodes before this one."""
        tree = self.settings.tree
        node = tree.nodes[position]
        candidates = _candidates(tree, node, lists)
        if not node.thresholded:
            return self.law(position + 1, lists | {position: candidates})
        # [lists] every candidate passes or fails by itself, and candidates follow from the lists below
        tests = [self._pass_fail(node, self._count(node, string)) for string in candidates]
        if position == len(tree.nodes) - 1:
            return self._root(candidates, tests)
        if 1 << len(candidates) > MOST_OUTCOMES:
            raise AuditError("A list has too many outcomes to enumerate.", fix="Audit fewer attributes or values.")
        outcomes, then = [], []
        for passed, log_chance in subsets(candidates, tests):
            outcomes.append(log_chance)
            then.append(self.law(position + 1, lists | {position: passed}))
        return Law((Branch(np.array(outcomes), np.arange(len(then)), tuple(then)),))

    def _count(self, node: Node, string: String) -> int:
        index: list[int | slice] = [slice(None)] * self.table.ndim
        for attribute, value in zip(node.attributes, string, strict=True):
            index[attribute] = value
        return int(self.table[tuple(index)].sum())

    def _log_pmf(self, scale: float, low: int, high: int) -> Floats:
        return (laplace_log_pmf if self.settings.notion == "pure" else gaussian_log_pmf)(scale, low, high)

    def _pass_fail(self, node: Node, count: int) -> tuple[float, float]:
        """The log-probabilities that a candidate passes and fails, each summed by itself so that neither loses
        digits."""
        level, mu = self.settings.level_of(node), self.settings.mu
        x = count - level.threshold
        if self.settings.notion == "pure":
            x = max(x, -mu)
        reach = math.ceil(40 * level.scale) + abs(x) + 2
        logs = self._log_pmf(level.scale, -reach, reach)
        first = reach + 1 - x  # where Z = 1 − x stands
        return log_total(logs[first:]), log_total(logs[:first])

    def _root(self, candidates: Sequence[String], tests: Sequence[tuple[float, float]]) -> Law:
        """The laws of the root's candidates: not listed, or listed with a count in a fixed window, the same for
        neighbouring tables."""
        root, parts = self.settings.tree.root, []
        for string, (passing, failing) in zip(candidates, tests, strict=True):
            count, scale = self._count(root, string), self.settings.count_scale
            low, high = count_window(self.settings, self.n)
            if not self.with_counts:
                shown = np.array([passing])
            elif self.settings.notion == "pure" and scale is not None:
                shown = passing + self._log_pmf(scale, low - count, high - count)
            else:
                shown = self._log_pmf(self.settings.level_of(root).scale, low - count, high - count)
            parts.append(np.concatenate([[failing], shown]))
        return Law(tuple(parts), math.inf if self.settings.notion == "pure" else _AUDIT_ORDER)


def _candidates(tree: Tree, node: Node, lists: Lists) -> tuple[String, ...]:
    if node.children:
        parts = itertools.product(*(lists[child] for child in node.children))
        return tuple(tuple(itertools.chain.from_iterable(strings)) for strings in parts)
    return tuple(itertools.product(*(range(tree.sizes[a]) for a in node.attributes)))


def log_total(logs: Floats) -> float:
    """The logarithm of a sum of probabilities, to all digits, or to nearly all where it is too small for a double."""
    total = math.fsum(np.exp(logs))
    return math.log(total) if total > 1e-290 else float(np.logaddexp.reduce(logs))


def count_window(settings: Settings, n: int) -> tuple[int, int]:
    """The range of noisy counts in the root's list that the exact law distinguishes. Concentrated: those above the
    threshold."""
    if settings.notion == "pure" and settings.count_scale is not None:
        reach = math.ceil(14 * settings.count_scale)
        return -reach, n + reach
    level = settings.level_of(settings.tree.root)
    low = level.threshold + 1
    return low, max(n, low) + math.ceil(_AUDIT_ORDER + 14 * level.scale)


def lists_below(tree: Tree, law: Law) -> Iterator[tuple[float, Lists, tuple[String, ...], Law]]:
    """Every outcome of the lists below the root: its log-probability, the lists, the root's candidates, and the root's
    law."""
    yield from _lists_from(tree, law, 0, {})


def _lists_from(
    tree: Tree, law: Law, position: int, lists: Lists
) -> Iterator[tuple[float, Lists, tuple[String, ...], Law]]:
    node = tree.nodes[position]
    candidates = _candidates(tree, node, lists)
    if position == len(tree.nodes) - 1:
        yield 0.0, lists, candidates, law
    elif not node.thresholded:
        yield from _lists_from(tree, law, position + 1, lists | {position: candidates})
    else:
        passing = [passed for passed, _ in subsets(candidates, [(0.0, 0.0)] * len(candidates))]
        for outcome, chance, then in law.branch().possible():
            here = lists | {position: passing[outcome]}
            for after, result, last, root in _lists_from(tree, then, position + 1, here):
                yield chance + after, result, last, root


def root_values(settings: Settings, n: int, candidates: Sequence[String], law: Law) -> dict[Hashable, ValueLaw]:
    """The laws of the published counts in the root's list, by string."""
    low, _ = count_window(settings, n)
    parts = zip(candidates, law.arrays(), strict=True)
    return {string: ValueLaw(low, part[1:], float(part[0])) for string, part in parts}


def above_cut(law: ValueLaw, cut: int) -> ValueLaw:
    """The law of a published count where counts below a cut are left out."""
    left_out = min(max(cut - law.first, 0), len(law.log_chances))
    absent = np.logaddexp.reduce(law.log_chances[:left_out], initial=law.log_absent)
    return ValueLaw(law.first + left_out, law.log_chances[left_out:], float(absent))


def root_scenarios(settings: Settings, law: Law, n: int) -> list[Scenario]:
    """The scenarios of a published root list, where the lists below are not published: they only decide its
    candidates."""
    results: dict[tuple[String, ...], Scenario] = {}
    for chance, _, candidates, then in lists_below(settings.tree, law):
        known = results.get(candidates)
        total = chance if known is None else float(np.logaddexp(known.log_chance, chance))
        results[candidates] = Scenario(total, root_values(settings, n, candidates, then))
    return list(results.values())


def list_scenarios(settings: Settings, law: Law, n: int) -> Iterator[Scenario]:
    """The scenarios where all lists are published: (position of a node, string) has the value 1 if the node lists
    it."""
    nodes = settings.tree.nodes
    for chance, lists, candidates, then in lists_below(settings.tree, law):
        listed = {(at, string): ValueLaw.certain(1) for at in lists if nodes[at].thresholded for string in lists[at]}
        yield Scenario(chance, listed | root_values(settings, n, candidates, then))


def subsets(
    candidates: Sequence[String], tests: Sequence[tuple[float, float]]
) -> Iterator[tuple[tuple[String, ...], float]]:
    """Every list that a node may publish, with its log-probability, always in the same order."""
    for chosen in itertools.product((0, 1), repeat=len(candidates)):
        passed = tuple(string for string, failed in zip(candidates, chosen, strict=True) if not failed)
        yield passed, math.fsum(test[failed] for test, failed in zip(tests, chosen, strict=True))
