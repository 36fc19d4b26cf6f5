"""What mechanisms declare of their parameters: wrong values are refused by name, examples are taken, plans repeat."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from every_mechanism import INSTANCES

from nabladp import CDP, MWEM, HalfspaceLearner, HeavyHitters, Marginals, NoisyMarginals, Synthesis
from nabladp.errors import MechanismError, NablaDPError, PlanError
from nabladp.mechanisms import MECHANISMS, Mechanism, Parameter, mechanism_class
from nabladp.mechanisms.kinds import Choice, Flag, Number, Share, Whole

EVERY = [(name, each) for name in MECHANISMS for each in mechanism_class(name).parameters()]
every = pytest.mark.parametrize(("name", "declared"), EVERY, ids=lambda v: v if isinstance(v, str) else v.name)
WRONG = (object(), math.nan, math.inf, b"x", {1, 2}, range(3), 3 + 4j, np.array([[1.5]]), -(10**30), [[[]]], {"?": "?"})
MADE_BY_A_PLAN = ("settings", "design")


@every
def test_every_field_is_declared_and_has_its_default(name: str, declared: Parameter) -> None:
    (own,) = (each for each in fields(mechanism_class(name)) if each.name == declared.name)  # type: ignore[arg-type]
    given = own.default if own.default_factory is MISSING else own.default_factory()
    assert declared.required == (given is MISSING) and (declared.required or declared.default == given)
    assert len(mechanism_class(name).parameters()) == len(fields(mechanism_class(name)))  # type: ignore[arg-type]


@every
def test_wrong_values_are_refused_with_the_name_and_something_to_type(name: str, declared: Parameter) -> None:
    refused = 0
    for value in WRONG:
        try:
            declared.checked(value)
        except NablaDPError as error:
            refused += 1
            assert error.fix and len(error.message) < 300
            assert declared.name in error.message or "workload" in error.message or "of '?'" in error.message
    assert refused >= 8
    if declared.default is not None:
        with pytest.raises(NablaDPError):
            declared.checked(None)


@every
def test_the_example_can_be_typed(name: str, declared: Parameter) -> None:
    if declared.name not in MADE_BY_A_PLAN:
        given = tomllib.loads(f"{declared.name} = {declared.kind.example}")[declared.name]
        assert declared.to_json(declared.checked(given)) is not None


@every
def test_bounds_and_choices_are_kept(name: str, declared: Parameter) -> None:
    kind = declared.kind
    taken: list[Any] = []
    refused: list[Any] = []
    if isinstance(kind, Whole):
        taken, refused = [kind.low, np.int64(kind.low)], [kind.low - 1, kind.low + 0.5, True, str(kind.low)]
        if kind.high is not None:
            taken, refused = [*taken, kind.high], [*refused, kind.high + 1]
    elif isinstance(kind, Number):
        refused = [kind.low - 1, "1", True, *([kind.low] if kind.above else [])]
        taken = [kind.low + 1, Fraction(3, 2) + Fraction(kind.low)]
    elif isinstance(kind, Share):
        taken, refused = [0.5, Fraction(1, 3)], [1, 1.0, -0.1, "0.5", True, *([] if kind.zero else [0])]
    elif isinstance(kind, Choice):
        taken, refused = list(kind.words), [kind.words[0].upper(), "", 0]
    elif isinstance(kind, Flag):
        taken, refused = [True, False], [0, 1, "true"]
    for value in taken:
        plain = float(value) if isinstance(value, Fraction) else value
        checked = declared.checked(value)
        assert checked == (pytest.approx(plain) if isinstance(plain, float) else plain)
        assert json.loads(json.dumps(declared.to_json(checked))) == plain
    for value in refused:
        with pytest.raises(NablaDPError):
            declared.checked(value)


@pytest.mark.parametrize("mechanism", INSTANCES, ids=lambda m: type(m).__name__)
def test_what_a_plan_holds_makes_the_same_mechanism(mechanism: Mechanism) -> None:
    body = mechanism.to_json()
    again = type(mechanism).from_plan(json.loads(json.dumps(body)))
    assert again.to_json() == body
    for declared in mechanism.parameters():
        if declared.required:
            with pytest.raises(PlanError, match=f"needs a {declared.name}"):
                type(mechanism).from_plan({key: value for key, value in body.items() if key != declared.name})
    with pytest.raises(PlanError, match=r"has no option 'budgt'.*Did you mean 'budget'"):
        type(mechanism).from_plan(body | {"budgt": 1})


def test_messages_are_uniform() -> None:
    for make, message in (
        (lambda: MWEM(CDP(1), Marginals(1), rounds=0), "'rounds' must be a whole number from 1 to 10,000."),
        (lambda: Synthesis(CDP(1), rounds=0), "'rounds' must be a whole number from 1 to 10,000."),
        (lambda: MWEM(CDP(1), Marginals(1), selection=1), "'selection' must be a share strictly between 0 and 1."),
        (lambda: HeavyHitters(CDP(1), failure=1.5), "'failure' must be a share strictly between 0 and 1."),
        (lambda: HeavyHitters(CDP(1), lists=1), "'lists' must be true or false."),
        (
            lambda: NoisyMarginals(CDP(1), k=1, noise="cauchy"),
            "'noise' must be \"gaussian\" or \"laplace\", not 'cauchy'.",
        ),
        (lambda: HalfspaceLearner(CDP(1), 3), "'label' must be the name of an attribute."),
        (lambda: HeavyHitters(CDP(1), over=["a", "a"]), "'over' names 'a' twice."),
    ):
        with pytest.raises(MechanismError) as caught:
            make()  # type: ignore[no-untyped-call]
        assert caught.value.message == message and caught.value.fix


def test_a_parameter_that_is_not_declared_is_refused() -> None:
    @dataclass(frozen=True)
    class Loud(NoisyMarginals):
        volume: int = field(default=3)

    with pytest.raises(MechanismError, match="Loud does not declare its parameter 'volume'"):
        Loud(CDP(1), k=1)
