"""Kinds of input: every mechanism's constructor, its plan-file form, and what it is asked before it sees data."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from bench._fuzz_kind import Kind
from bench._fuzz_privacy import SCHEMA
from bench._fuzz_values import mutated, odd
from nabladp.errors import NablaDPError
from nabladp.mechanisms import MECHANISMS

HELPERS = Path(__file__).resolve().parent.parent / "tests" / "helpers"
ROWS = (0, 1, 2, 60, 500, 10**6)
COSTLY = {"HeavyHitters", "DistributionEstimate", "PointLearner", "ThresholdLearner", "HalfspaceLearner"}


def instances(name: str) -> list[Any]:
    """Those that the tests know, for the schema of this module."""
    if str(HELPERS) not in sys.path:
        sys.path.insert(0, str(HELPERS))
    from every_mechanism import FILES

    return list(FILES[name].INSTANCES)


def once(rng: random.Random, known: list[Any]) -> None:
    """A mechanism made from changed parameters, or a right one that is asked about something odd."""
    mechanism, pick = rng.choice(known), rng.random()
    if pick < 0.35:
        made = type(mechanism).from_plan(_changed(rng, mechanism.to_json()))
    elif pick < 0.85:
        given = {f.name: getattr(mechanism, f.name) for f in fields(mechanism)}
        made = type(mechanism)(**_changed(rng, given, keys=False))
    else:
        _ask_odd(rng, mechanism)
        return
    ask(made, SCHEMA, rng.choice(ROWS))


def _changed(rng: random.Random, options: dict[str, Any], keys: bool = True) -> dict[str, Any]:
    if keys and rng.random() < 0.3:
        found: Any = mutated(rng, options)
        return dict(found) if isinstance(found, dict) else options
    name = rng.choice(list(options))
    change = mutated(rng, options[name]) if rng.random() < 0.6 else odd(rng)
    return options | {name: change}


def ask(mechanism: Any, schema: Any, n: Any) -> None:
    """Everything that is asked before a reservation."""
    mechanism.reads(schema)
    mechanism.guarantee(schema, n).per_person()
    error = mechanism.expected_error(schema, n)
    for part in error if isinstance(error, tuple) else (error,):
        part.to_json()
    repr(mechanism)
    mechanism.to_json()


def _ask_odd(rng: random.Random, mechanism: Any) -> None:
    schema, n = rng.choice(((odd(rng), 60), (SCHEMA, odd(rng)), (odd(rng), odd(rng))))
    for question in rng.sample(("reads", "guarantee", "expected_error", "from_plan"), 2):
        given = {"reads": (schema,), "from_plan": (odd(rng),)}
        try:
            getattr(mechanism, question)(*given.get(question, (schema, n)))
        except NablaDPError:
            continue


def _ask_all(known: list[Any]) -> None:
    for mechanism in known:
        ask(mechanism, SCHEMA, 60)


def _kind(name: str) -> Kind:
    def prepare(folder: Path) -> list[Any]:
        return instances(name)

    full, quick = (4000, 150) if name in COSTLY else (12_000, 300)
    prepared: Callable[[Path], Any] = prepare
    return Kind(f"mechanism {name}", once, full, quick, prepared, warm=_ask_all)


KINDS: tuple[Kind, ...] = tuple(_kind(name) for name in MECHANISMS)
