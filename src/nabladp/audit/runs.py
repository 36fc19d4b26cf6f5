"""Runs of a mechanism on tables: some to learn from, others to measure, never mixed.

Runs to learn from use the same noise on every table, run by run: outputs then differ by what the tables do, not by
chance, and little is needed to learn what gives them away. Each is still a run as any other. Runs that measure are all
independent.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nabladp.arrays import Integers
from nabladp.audit.deadline import FOREVER, Deadline, WatchedTable
from nabladp.audit.features import Features, Layout
from nabladp.audit.neighbouring_tables import CodedRows
from nabladp.audit.scores_and_bounds import Sample
from nabladp.noise import NoiseSource
from nabladp.noise.parameters import Real, Size
from nabladp.noise.tape import ForwardingNoise
from nabladp.schema import Schema
from nabladp.tables import Kernel, Progress

# ---- quick repetition on the same tiny table -------------------------------------------------------------------------

_MOST_KEPT = 256  # answers of a table, or scales of noise
_POOLED = ("discrete_laplace", "discrete_gaussian")
_FIRST, _LARGEST = 256, 1 << 14  # values drawn ahead at a scale that comes up again


class RememberedTable(WatchedTable):
    """A table that counts each thing once.

    A sum by a kernel is kept only if the kernel is the same before and after, and holds no source of noise: some draw.
    """

    _marginals: dict[tuple[tuple[str, ...], ...], list[Integers]] | None = None
    _sums: dict[bytes, Integers] | None = None

    def marginals(self, sets: Iterable[Sequence[str]], progress: Progress | None = None) -> list[Integers]:
        known = self._marginals = self._marginals if self._marginals is not None else {}
        key = tuple(tuple(names) for names in sets)
        if key not in known:
            _make_room(known)
            known[key] = super().marginals(key, progress)
        return [table.copy() for table in known[key]]

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> Integers:
        known = self._sums = self._sums if self._sums is not None else {}
        key = _contents(kernel)
        if key is not None and key in known:
            return known[key].copy()
        total = super().fold(kernel, progress)
        if key is not None and key == _contents(kernel):
            _make_room(known)
            known[key] = total.copy()
        return total


class PooledNoise(ForwardingNoise):
    """Noise of a scale that comes up again is drawn ahead in bulk: the same independent draws, one by one.

    Only NoiseSource's own samplers are known to draw independently: one that a subclass replaces is called as the
    mechanism calls it.
    """

    def __init__(self, source: NoiseSource) -> None:
        super().__init__(source)
        self._pools: dict[tuple[str, str], tuple[Integers, int]] = {}
        self._ours = {name for name in _POOLED if _sampler(type(source), name) is vars(NoiseSource)[name]}

    def discrete_laplace(self, scale: Real, size: Size) -> Integers:
        return self._pooled("discrete_laplace", super().discrete_laplace, scale, size)

    def discrete_gaussian(self, scale: Real, size: Size) -> Integers:
        return self._pooled("discrete_gaussian", super().discrete_gaussian, scale, size)

    def _pooled(self, kind: str, draw: Callable[..., Integers], scale: Real, size: Size) -> Integers:
        shape = (size,) if isinstance(size, int) else size
        if kind not in self._ours:
            return draw(scale, size)
        if not isinstance(shape, tuple) or not all(isinstance(side, int) and side >= 0 for side in shape):
            return draw(scale, size)
        wanted, key = math.prod(shape), (kind, repr(scale))
        if key not in self._pools:  # the first time of a scale may be the last
            _make_room(self._pools)
            self._pools[key] = np.empty(0, np.int64), _FIRST
            return draw(scale, size)
        pool, ahead = self._pools[key]
        if len(pool) < wanted:
            pool, ahead = np.concatenate([pool, draw(scale, max(ahead, wanted))]), min(4 * ahead, _LARGEST)
        self._pools[key] = pool[wanted:], ahead
        return pool[:wanted].reshape(shape).copy()


def _sampler(kind: type[NoiseSource], name: str) -> Any:
    """The sampling method of a noise source class, as it or one of its bases defines it."""
    return next(vars(base)[name] for base in kind.__mro__ if name in vars(base))


def _contents(kernel: Kernel) -> bytes | None:
    try:
        result = pickle.dumps(kernel)
    except Exception:  # whatever cannot be copied is not remembered
        return None
    return None if b"nabladp.noise" in result else result


def _make_room(known: dict[Any, Any]) -> None:
    if len(known) >= _MOST_KEPT:
        known.clear()


# ---- runs ------------------------------------------------------------------------------------------------------------

Tell = Callable[[str, int, int], None]
_TOGETHER = 32  # quick runs that share one seed, so that noise can be drawn ahead
_QUICK, _MANY = 0.002, 10_000  # seconds a run; runs
_LAYOUT = 48  # outputs that fix the columns
_TIMED = 3  # runs that say how long all will take


class Runs:
    """Makes runs, counts them, and keeps those of tables that several sets share. None is made after the deadline."""

    def __init__(
        self,
        mechanism: Any,
        schema: Schema,
        noise: NoiseSource,
        features: Features | None,
        progress: Tell | None,
        deadline: Deadline = FOREVER,
    ) -> None:
        self.mechanism, self.schema, self.features, self.progress = mechanism, schema, features, progress
        self.deadline = deadline
        self.noise = PooledNoise(noise)
        self.first_seed = int(noise.uniform_integers(1 << 60, 1)[0])
        self.tables: dict[CodedRows, RememberedTable] = {}
        self.learned: dict[CodedRows, Sample] = {}
        self.measured: dict[CodedRows, Sample] = {}
        self.layout: Layout | None = None
        self.each, self.together = 0.0, 1
        self.done, self.expected = 0, 0

    def begin(self, tables: list[CodedRows], runs: int | None = None, least: int = 0) -> None:
        """Fix the feature columns by a few outputs, and measure how long a run takes.

        Where there is no time for ``least`` runs none of them would say anything: it is given up. With a given number
        of runs, nothing may depend on time: a seeded audit then repeats.
        """
        outputs, started = [], self.deadline.clock()
        for i in range(max(_LAYOUT, len(tables))):
            outputs.append(self._output(tables[i % len(tables)], self.noise))
            if i == 0:
                started = self.deadline.clock()  # what is compiled or kept when first used takes its time
            if i == _TIMED and runs is None:
                took = (self.deadline.clock() - started) / _TIMED
                self.deadline.refuse_longer(f"{least:,} runs, the fewest that say anything,", took * (least - i))
        self.layout = Layout.fit(outputs, self.features)
        for table in tables[:4]:
            self._sample(table, 4, self.noise)  # says how long a run takes
        self.together = _TOGETHER if (self.each < _QUICK if runs is None else runs > _MANY) else 1

    def learn(self, table: CodedRows, count: int) -> Sample:
        """At least the first ``count`` runs of the table to learn from; run i has the noise of every table's run i."""
        known = self.learned.get(table)
        have = 0 if known is None else len(known)
        while have < count:
            source = self.noise.reseeded(self.first_seed + have)
            more = self._sample(table, self.together, source)
            known = more if known is None else known.plus(more)
            have = len(known)
            self.learned[table] = known
        return self.learned[table]

    def measure(self, table: CodedRows, count: int) -> Sample:
        """``count`` runs of the table that nothing was learned from."""
        known = self.measured.get(table)
        have = 0 if known is None else len(known)
        if have < count:
            more = self._sample(table, count - have, self.noise)
            self.measured[table] = more if known is None else known.plus(more)
        return self.measured[table].part(0, count)

    def missing(self, table: CodedRows, count: int) -> int:
        """The runs of the table still to be made for ``count`` to learn from and as many to measure."""
        held = (sample.get(table) for sample in (self.learned, self.measured))
        return sum(count if sample is None else max(0, count - len(sample)) for sample in held)

    def _sample(self, table: CodedRows, count: int, noise: NoiseSource) -> Sample:
        if self.layout is None:
            self.begin([table])
        layout: Layout = self.layout  # type: ignore[assignment]
        started = self.deadline.clock()
        made = [layout.row(self._output(table, noise)) for _ in range(count)]
        took = (self.deadline.clock() - started) / count
        self.each = took if self.each == 0 else self.each + (took - self.each) * min(0.5, 0.02 * count)
        rows = np.nan_to_num(np.array([row for row, _ in made]))
        return Sample(rows, np.array([symbol for _, symbol in made], dtype=np.int64))

    def _output(self, table: CodedRows, noise: NoiseSource) -> Any:
        if table not in self.tables:
            columns = np.array(table, dtype=np.int64).T
            self.tables[table] = RememberedTable(self.schema, dict(zip(self.schema.names, columns, strict=True)))
            self.tables[table].deadline = self.deadline
        self.deadline.check("Running the mechanism")
        self.done += 1
        if self.progress is not None and self.done % 8 == 0:
            self.progress("run", self.done, max(self.expected, self.done))
        return self.mechanism.run(self.tables[table], noise)
