"""Faults: small realistic slips in our own mechanisms, each of which some audit must catch; here is what plants them.

The faults stand with their mechanisms, in tests/mechanisms. One is planted by replacing a name or two in the library.
Those in a claim, or in code that ``run`` and ``distribution`` share, are for the exact audit. Those in ``run`` alone
are for the statistical one, or for the comparison of runs with what the guarantee and the exact law say ("run"), as
``distribution`` is a model of ``run`` and knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nabladp.audit import audit, exact_audit, statistical_audit
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.heavy_hitters import Level, Settings, Tree
from nabladp.mechanisms.heavy_hitters.settings import Notion
from nabladp.noise import NoiseSource
from nabladp.privacy import Guarantee, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

How = Literal["exact", "statistical", "run", "side door", "books", "record"]
SECONDS = 60.0  # for one planted fault


class Patches:
    """Names replaced for a while: what is set inside ``with`` is undone after it."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, target: Any, name: str, value: Any) -> None:
        self._before.append((target, name, vars(target)[name]))  # as it is stored: a class method stays one
        setattr(target, name, value)

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:
            target, name, value = self._before.pop()
            setattr(target, name, value)


Plant = Callable[[Patches], None]


@dataclass(frozen=True)
class Fault:
    """``mechanism`` is sound on ``schema`` until the fault is planted."""

    name: str
    mechanism: Any
    schema: Schema
    plant: Plant
    n: int = 2
    how: How = "exact"
    derive: Mapping[str, Any] | None = None
    claimed_for: int | None = None  # rows to ask the claim for, where one row alone is refused
    options: Mapping[str, Any] = field(default_factory=dict)  # of the statistical audit
    check: Callable[[], bool] | None = None  # for faults outside of mechanisms: whether something is wrong

    def planted(self) -> Patches:
        patches = Patches()
        self.plant(patches)
        return patches

    def refuted(self, noise: NoiseSource | None = None, seconds: float = SECONDS) -> bool:
        """Whether the audit finds fault with the mechanism as it now is."""
        if self.how == "exact":
            claim = None if self.claimed_for is None else self.mechanism.guarantee(self.schema, self.claimed_for)
            return not exact_audit(self.mechanism, self.schema, self.n, derive=self.derive, guarantee=claim).passed
        if self.how == "statistical":
            options = {"rows": self.n, "noise": noise, **self.options}
            return not statistical_audit(self.mechanism, self.schema, **options).passed
        if self.how == "run":  # what runs draw, and what they publish against the exact law
            options = {"statistical": False, "exact": False, "seconds": seconds, "noise": noise}
            return not audit(self.mechanism, self.schema, **options).passed
        if self.check is not None:
            return self.check()
        return runs_repeat(self.mechanism, self.schema)


def runs_repeat(mechanism: Any, schema: Schema, rows: int = 40, times: int = 20) -> bool:
    """The side door of known noise: runs with noise of their own that all say the same."""
    draws = NoiseSource.seeded(1)
    table = CodedTable(schema, {a.name: draws.uniform_integers(a.size, rows) for a in schema})
    first = mechanism.run(table, NoiseSource()).to_json()
    return all(mechanism.run(table, NoiseSource()).to_json() == first for _ in range(times))


# ---- what several mechanisms' faults share --------------------------------------------------------------------------


def bits(names: str) -> Schema:
    return Schema(tuple(Attribute(name, "boolean") for name in names))


MIXED = Schema((Attribute("a", "boolean"), Attribute("b", "ordered", values=("x", "y", "z"))))
DERIVED = Schema((Attribute("age", "integer", low=0, high=3), Attribute("band", "boolean", derived_from=("age",))))
AB, ABY = bits("ab"), bits("aby")
BANDS = {"band": lambda record: record["age"] // 2}


def settings(notion: Notion, levels: list[tuple[int, float]], beta: float | None = None, d: int = 2) -> Settings:
    """A tree over bits. One level: leaves are free, and only pairs have to pass."""
    made = Tree.build((2,) * d, 2, 2, free_cells=2 if len(levels) == 1 else 1)
    mu = 1 if notion == "pure" else 0
    return Settings(notion, made, mu, tuple(Level(*x) for x in levels), beta, 1, 0, 1, 0.05, 1.0, 1)


def label_is_free(kind: type) -> Plant:
    """Features pay, the label does not."""
    true = kind.guarantee  # type: ignore[attr-defined]

    def claim(self: Any, schema: Schema, n: int) -> Guarantee:
        whole = true(self, schema, n)
        return Guarantee.linear(schema, {x: Rho(whole.rho(x)) for x in schema.names if x != self.label})

    return lambda patches: patches.set(kind, "guarantee", claim)


def scale_07(module: Any) -> Plant:
    return lambda patches: patches.set(module, "least_scale", lambda *given: 0.7 * least_scale(*given))


def black_box(n: int, runs: int, *changed: str, others: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Options of a short audit: one row changes on these attributes from first to second values, all others stay."""
    rest = [others or {}] * (n - 1)
    pair = [*rest, {}], [*rest, dict.fromkeys(changed, 1)]
    return {"n": n, "how": "statistical", "options": {"sets": (changed,), "pairs": [pair], "runs": runs}}


QUICK: dict[str, Any] = {"how": "statistical", "options": {"sets": ("a",), "runs": 2000}}  # pairs are looked for
