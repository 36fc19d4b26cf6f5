"""Projection piece by piece, where the records of all columns together cannot be listed.

Queries on columns that no set ties together can be projected apart: the hull is then a product of hulls, exactly. A
piece with too many records is cut into blocks of columns, chosen from the workload alone, each with the queries inside
it. The hull of a block contains the truth, so to move to its nearest point never takes the answers further from the
truth, block after block. A set too large for any block is held to what its own answers must satisfy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.errors import DomainTooLarge, many
from nabladp.mechanisms.projection.hull import Hull, Nearest, rounding
from nabladp.schema import Schema
from nabladp.workloads import Group, Queries

Tell = Callable[[int, int], None]
HULLS = ("auto", "exact", "blocks")
HULL_CELLS, BLOCK_CELLS = 1 << 22, 1 << 12
TOLERANCE = 1e-3  # the gap, over the squared error that the theorem promises
_BLOCK_HELD = 1024
_CYCLES = 2


@dataclass(frozen=True)
class Piece:
    """Some groups of a workload, by number, to be projected together; ``records`` says on how many corners."""

    groups: tuple[int, ...]
    records: int


@dataclass(frozen=True)
class Pieces:
    exact: bool
    pieces: tuple[Piece, ...]

    @property
    def largest(self) -> int:
        return max((piece.records for piece in self.pieces), default=0)


@dataclass(frozen=True)
class Projected:
    """Answers nearer to the truth. ``moved`` and ``gap`` are squared, in units of the noise, and summed over steps."""

    answers: Floats
    moved: float
    gap: float
    unfinished: int  # steps cut short by a limit; their gap is as true as any other


def pieces_of(queries: Queries, hull: str) -> Pieces:
    """The groups of queries that are projected together, each onto a hull of its own; known from the workload alone."""
    results: list[Piece] = []
    exact = True
    sets = [group.attributes for group in queries.groups]
    for numbers in _connected_sets(sets):
        names = list(dict.fromkeys(name for number in numbers for name in sets[number]))
        cells = queries.schema.cells(names)
        if hull == "exact" and cells > HULL_CELLS:
            raise DomainTooLarge(
                f"The exact hull of these queries has {many(cells)} records ({many(32 * cells)} bytes); the most is "
                f"{HULL_CELLS:,}.",
                fix="Use hull = 'blocks', which never makes an answer worse, or ask about fewer columns.",
                cells=str(cells),
            )
        if cells <= (BLOCK_CELLS if hull == "blocks" else HULL_CELLS):
            results.append(Piece(tuple(numbers), cells))
            continue
        exact = False
        results += _blocks(queries.schema, sets, numbers, names)
    return Pieces(exact, tuple(results))


def _connected_sets(sets: list[tuple[str, ...]]) -> list[list[int]]:
    """Numbers of attribute sets, grouped so that sets sharing columns, directly or through others, are together."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    for chosen in sets:
        for name in chosen:
            leader[find(name)] = find(chosen[0])
    results: dict[str, list[int]] = {}
    for number, chosen in enumerate(sets):
        results.setdefault(find(chosen[0]), []).append(number)
    return list(results.values())


def _blocks(schema: Schema, sets: list[tuple[str, ...]], numbers: list[int], names: list[str]) -> list[Piece]:
    """Attribute sets packed into blocks for projection: each into the first block where it fits, which then takes all
    groups inside it."""
    at = {name: i for i, name in enumerate(names)}
    size = np.log2(schema.sizes(names))
    room = math.log2(BLOCK_CELLS) + 1e-9
    holds = np.zeros((16, len(names)), dtype=bool)
    used, count = np.zeros(16), 0
    alone: list[Piece] = []
    for number in numbers:
        indices = [at[name] for name in sets[number]]
        if (cells := schema.cells(sets[number])) > BLOCK_CELLS:
            alone.append(Piece((number,), cells))
            continue
        if count == len(holds):
            holds, used = np.concatenate([holds, np.zeros_like(holds)]), np.concatenate([used, np.zeros_like(used)])
        grown = used[: count + 1] + (~holds[: count + 1, indices]) @ size[indices]
        first = int(np.argmax(grown <= room))
        holds[first, indices] = True
        used[first] = grown[first]
        count = max(count, first + 1)
    return alone + [piece for piece in _filled(schema, sets, numbers, names, holds[:count]) if piece.groups]


def _filled(
    schema: Schema, sets: list[tuple[str, ...]], numbers: list[int], names: list[str], holds: NDArray[np.bool_]
) -> list[Piece]:
    from scipy.sparse import csr_array

    at = {name: i for i, name in enumerate(names)}
    lengths = np.array([len(sets[number]) for number in numbers])
    indices = np.array([at[name] for number in numbers for name in sets[number]])
    ends = np.concatenate([[0], np.cumsum(lengths)])
    member = csr_array((np.ones(len(indices)), indices, ends), shape=(len(numbers), len(names)))
    results = []
    for block in holds:
        inside = np.flatnonzero(member @ block.astype(np.float64) == lengths)
        records = schema.cells([name for name, held in zip(names, block, strict=True) if held])
        results.append(Piece(tuple(numbers[i] for i in inside), records))
    return results


def project(queries: Queries, noisy: Floats, metric: Floats, pieces: Pieces, tell: Tell) -> Projected:
    """Project noisy answers onto the hulls of all pieces; ``metric`` times an answer is in units of its noise."""
    answers = noisy.copy()
    moved = gap = 0.0
    unfinished = 0
    cycles = 1 if pieces.exact else _CYCLES
    last: dict[int, Floats] = {}
    for step in range(cycles * len(pieces.pieces)):
        tell(step, cycles * len(pieces.pieces))
        number = step % len(pieces.pieces)
        piece = pieces.pieces[number]
        indices = np.concatenate([np.arange(queries.starts[g], queries.starts[g + 1]) for g in piece.groups])
        if number in last and np.array_equal(last[number], answers[indices]):
            continue  # no other block has touched it
        result = _nearest(queries, piece, answers[indices], metric[indices], pieces.exact)  # [piece]
        answers[indices] = last[number] = result.point
        moved, gap = moved + result.moved, gap + result.gap
        unfinished += not result.finished
    return Projected(np.clip(answers, 0, 1), moved, gap, unfinished)


def _nearest(queries: Queries, piece: Piece, target: Floats, metric: Floats, exact: bool) -> Nearest:
    """The nearest point of a piece's hull.

    Where the search met a limit, or a block has little to gain, each set may be held to its own conditions instead:
    whatever is certain to gain more.
    """
    groups = [queries.groups[number] for number in piece.groups]
    loose = set_by_set(groups, target, metric)
    if len(groups) == 1 and (groups[0].is_identity or piece.records > HULL_CELLS):
        return loose
    inside = Queries(queries.schema, groups)
    tolerance = TOLERANCE * _promised_error(inside, metric, piece.records)
    if exact:
        result = Hull(inside, metric).nearest(target, tolerance)
    else:
        result = Hull(inside, metric).nearest(target, tolerance, _BLOCK_HELD, enough=tolerance + loose.moved)
    if result.finished and exact:
        return result
    better = loose if loose.moved - loose.gap >= result.moved - result.gap else result
    return Nearest(better.point, better.moved, better.gap, result.finished)


def _promised_error(inside: Queries, metric: Floats, records: int) -> float:
    """The squared error that the theorem promises for projecting a piece, in units of the noise."""
    firsts = inside.starts[:-1]
    apart = math.fsum(
        g.shift.squared_distance(g.attributes) * float(metric[i]) ** 2
        for g, i in zip(inside.groups, firsts, strict=True)
    )
    return min(len(metric), math.sqrt(2 * apart * math.log(max(records, 1))))


def set_by_set(groups: list[Group], target: Floats, metric: Floats) -> Nearest:
    """Project set by set, exactly: every marginal onto nonnegative cells that sum to 1, all other answers into [0,
    1]."""
    point = np.clip(target, 0, 1)
    gap, start = 0.0, 0
    for group in groups:
        here = slice(start, start + group.count)
        if group.is_identity:
            point[here] = _simplex(target[here])
            beyond = target[here] - point[here]
            slack = float(beyond.max() - point[here] @ beyond)
            gap += 2 * float(metric[start]) ** 2 * max(0.0, slack)
        start += group.count
    beyond = metric * (target - point)
    moved = float(beyond @ beyond)
    return Nearest(point, moved, gap + rounding(metric, moved))


def _simplex(target: Floats) -> Floats:
    """The nearest point with nonnegative coordinates that sum to 1."""
    falling = np.sort(target)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(target) + 1)
    last = int(np.flatnonzero(falling > excess)[-1])
    return np.asarray(np.maximum(target - excess[last], 0))
