"""Until when something may take, handed down from a plan to its releases, their checks, and the runs of a check.

A part of a deadline never ends later than the whole. What it leaves unused stays with the whole, so that the parts
after it get more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from nabladp.arrays import Integers
from nabladp.errors import AuditError
from nabladp.tables import CodedTable, Kernel, Progress

Clock = Callable[[], float]


class OutOfTime(AuditError):
    """Given up because its time is over, or would be before it could say anything."""


@dataclass(frozen=True)
class Deadline:
    ends: float
    clock: Clock = time.monotonic

    @classmethod
    def after(cls, seconds: float, clock: Clock = time.monotonic) -> Deadline:
        return cls(clock() + seconds, clock)

    @property
    def left(self) -> float:
        """The time left until the deadline, in seconds; 0 once it is over."""
        return max(0.0, self.ends - self.clock())

    @property
    def is_over(self) -> bool:
        return self.clock() >= self.ends

    def part(self, share: float) -> Deadline:
        """The deadline of a part of an audit that may take this share of the time that is left."""
        return Deadline(min(self.ends, self.clock() + share * self.left), self.clock)

    def parts(self, weights: Sequence[float]) -> Iterator[Deadline]:
        """Deadlines of several parts of an audit, one after the other: each its share, by weight, of what those before
        have left."""
        for number, weight in enumerate(weights):
            yield self.part(weight / sum(weights[number:]) if weight else 0.0)

    def check(self, what: str) -> None:
        """Give up once the deadline is over. ``what`` begins a sentence."""
        if self.is_over:
            raise OutOfTime(f"{what} took too long.", fix="Give it more time, or a smaller schema.")

    def refuse_longer(self, what: str, seconds: float) -> None:
        """Give up before the deadline on something that would take longer."""
        if seconds > self.left:
            raise OutOfTime(
                f"{what} would take about {_rounded(seconds)} s; time left: {_rounded(self.left)} s.",
                fix="Give more seconds.",
            )


FOREVER = Deadline(float("inf"))


def _rounded(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.2g}"


class WatchedTable(CodedTable):
    """A table that stops its mechanism once time is over: wherever it counts, or says how far it is."""

    deadline: Deadline = FOREVER
    tell: Callable[[str, int, int], None] | None = None

    def marginals(self, sets: Iterable[Sequence[str]], progress: Progress | None = None) -> list[Integers]:
        self.deadline.check("The audit")
        return super().marginals(sets, progress)

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> Integers:
        self.deadline.check("The audit")
        return super().fold(kernel, progress)

    def working(self, what: str, done: int, total: int) -> None:
        self.deadline.check("The audit")
        if self.tell is not None:
            self.tell(what, done, total)
