"""Kinds of input: budgets, guarantees, conversions, schemas, workloads and noise, called from Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from bench._fuzz_kind import Call, Kind, calls
from nabladp.noise import (
    NoiseSource,
    Packings,
    gaussian_log_pmf,
    half_width,
    laplace_log_pmf,
    largest_packing,
    response_epsilon,
    variance,
)
from nabladp.privacy import (
    CDP,
    Approx,
    Budget,
    Guarantee,
    Limit,
    Pure,
    Rho,
    Universe,
    as_value,
    epsilon_from_rho,
)
from nabladp.privacy.interpretation import mutual_information, posterior, several_rows, total_variation
from nabladp.schema import Attribute, Schema
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals, Parities, as_workload, marginal_sets

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("n", "s", "w")),
        Attribute("age", "integer", low=0, high=9),
        Attribute("income", "real", edges=(0, 10, 20, 50), null="category"),
        Attribute("sick", "boolean"),
        Attribute("unused", "boolean"),
        Attribute("band", "ordered", values=("low", "high"), derived_from=("age",)),
    )
)
NAMES = SCHEMA.names
ROOTS = SCHEMA.roots


def asked(value: Any) -> None:
    """What anyone does with a value that was returned."""
    for method in ("to_json", "amount", "_repr_html_"):
        if hasattr(value, method):
            getattr(value, method)()
    repr(value)
    str(value)
    hash(value)


def budget_values() -> list[Call]:
    each = [Call(kind, (0.5,), then=(asked,)) for kind in (Pure, CDP, Rho)]
    forms = [{"cdp": 0.5}, {"rho": 0.1}, {"pure": 1.0}, {"epsilon": 1.0, "delta": 1e-6}]
    return [
        *each,
        Call(Approx, (1.0, 1e-6), then=(asked,)),
        *(Call(as_value, (form, "a budget"), then=(asked,)) for form in forms),
        Call(epsilon_from_rho, (0.5, 1e-6, "tight")),
        Call(epsilon_from_rho, (0.5, 1e-6, "paper")),
    ]


def budgets() -> list[Call]:
    full: dict[str, Any] = {
        "per_attribute": CDP(0.5),
        "attributes": {"age": CDP(0.2)},
        "sets": {"age+sick": Rho(0.05), ("region", "income"): Rho(0.1)},
        "person": Rho(4.0),
    }
    limited = (asked, lambda budget: budget.limits(SCHEMA))
    limit = Limit.of("age", ["age"], CDP(0.5))
    return [
        Call(Budget, (), full, limited),
        Call(Budget.from_json, (Budget(**full).to_json(),), then=limited),
        Call(Budget(**full).limits, (SCHEMA,)),
        Call(Budget(**full).limits, (list(ROOTS),)),
        Call(Limit.of, ("age", ["age"], CDP(0.5)), then=(asked,)),
        Call(Limit.from_json, (limit.to_json(),), then=(asked,)),
        Call(Universe.of, (["a", "b"],), then=(asked,)),
        Call(Universe, (("a", "b"), {"c": ("a",)}, frozenset(["b"])), then=(asked,)),
        Call(Universe.from_json, (Universe.of(SCHEMA).to_json(),), then=(asked,)),
        Call(Universe.of(SCHEMA).sources, (["age", "band"],)),
    ]


def figures(guarantee: Guarantee) -> None:
    asked(guarantee)
    guarantee.per_attribute()
    guarantee.epsilon(guarantee.universe.roots[:1], 1e-6)
    Guarantee.from_json(guarantee.to_json())


def guarantee_builders() -> list[Call]:
    edges = [("n", "s", Pure(1)), ("s", "w", Pure(2))]
    whole = Guarantee.touch(SCHEMA, ["age"], Rho(0.1)) + Guarantee.linear(SCHEMA, ["sick"], Pure(1))
    return [
        Call(Guarantee.none, (SCHEMA,), then=(figures,)),
        Call(Guarantee.touch, (SCHEMA, ["age", "sick"], CDP(0.5)), then=(figures,)),
        Call(Guarantee.touch, (list(ROOTS), {"age": CDP(0.5)}), then=(figures,)),
        Call(Guarantee.touch, (SCHEMA, ["age"], Rho(Fraction(1, 4))), {"gaussian_scale": 2.0}, (figures,)),
        Call(Guarantee.linear, (SCHEMA, ["age", "sick"], Pure(0.5)), {"limit": 1}, (figures,)),
        Call(Guarantee.squares, (SCHEMA, ["age", "sick"], CDP(0.5)), {"limit": 2}, (figures,)),
        Call(Guarantee.capped, (SCHEMA, {"age": Rho(1), "sick": Rho(1)}, {"age+sick": Rho(1)}), then=(figures,)),
        Call(Guarantee.capped, (SCHEMA, {"age": Rho(1), "sick": Rho(1)}, {("age", "sick"): Rho(1)}), then=(figures,)),
        Call(Guarantee.curve, (SCHEMA, {"age": 1, "sick": 1}, [0, 1, 2]), then=(figures,)),
        Call(Guarantee.from_graph, (SCHEMA, edges), {"on": "region"}, (figures,)),
        Call(Guarantee.from_graph, (["region"], edges), {"on": ["region"], "values": {"region": ["n", "s", "w"]}}),
        Call(Guarantee.compose, (SCHEMA, [whole, whole]), then=(figures,)),
        Call(Guarantee, (Universe.of(SCHEMA), whole.terms), then=(figures,)),
    ]


def _every_shape() -> Guarantee:
    parts = [
        Guarantee.touch(SCHEMA, ["age"], Rho(0.25), gaussian_scale=2.0),
        Guarantee.linear(SCHEMA, ["age", "sick"], Pure(0.5), limit=1),
        Guarantee.squares(SCHEMA, ["age", "sick"], CDP(0.5)),
        Guarantee.capped(SCHEMA, {"age": Rho(1), "sick": Rho(1)}, {("age", "sick"): Rho(1)}),
        Guarantee.curve(SCHEMA, {"age": 1, "sick": 1}, [0, 1, 2]),
        Guarantee.from_graph(SCHEMA, [("n", "s", Pure(1)), ("s", "w", Pure(2))], on="region"),
    ]
    return Guarantee.compose(SCHEMA, parts)


def guarantee_methods() -> list[Call]:
    whole = _every_shape()
    marginal = Guarantee.touch(SCHEMA, ["age", "sick"], Rho(0.25), gaussian_scale=2.0)
    record = {"region": "n", "age": 1, "sick": False}
    return [
        *(Call(method, (["age", "sick"],)) for method in (whole.rho, whole.rho_units, whole.pure_units, whole.total)),
        *(Call(method, (["age", "sick"],), then=(asked,)) for method in (whole.figure, whole.with_public)),
        Call(whole.group_bound, (["age", "sick"],)),
        Call(whole.epsilon, (["age"], 1e-6, "paper")),
        Call(marginal.epsilon, (["age"], 1e-6, "discrete_gaussian")),
        Call(whole.epsilon_between, (record, {**record, "age": 2}, "cdp")),
        Call(whole.for_rows, (2,), then=(figures,)),
        Call(whole.worst_subset, (2,), then=(asked,)),
        Call(whole.per_person().epsilon, (1e-6, "tight")),
        Call(posterior, (marginal, ["age"], 0.5, 1e-6)),
        Call(total_variation, (whole, ["age"])),
        Call(mutual_information, (marginal, [["age"], ["sick"]])),
        Call(several_rows, (whole, ["age"], 2, 1e-6)),
    ]


def guarantee_records() -> list[Call]:
    return [Call(Guarantee.from_json, (_every_shape().to_json(),), then=(figures,))]


def labelled(attribute: Attribute) -> None:
    asked(attribute)
    if attribute.size < 1000:
        attribute.code_labels  # noqa: B018
        attribute.representatives  # noqa: B018


def attributes() -> list[Call]:
    made = [
        {"name": "a", "kind": "categorical", "values": ("x", "y"), "unknown": "other", "other": "rest"},
        {"name": "a", "kind": "ordered", "values": (1, 2.5, 3), "null": "category", "null_values": ("?", 999)},
        {"name": "a", "kind": "integer", "low": 0, "high": 9, "unknown": "clamp", "note": "why"},
        {"name": "a", "kind": "real", "edges": (0.0, 1.0, 2.5), "decode": (0.5, 2.0), "null": "category"},
        {"name": "a", "kind": "real", "edges": (0, 1), "decode": "uniform", "public": False, "derived_from": ("b",)},
        {"name": "a", "kind": "boolean", "public": True},
    ]
    built = [Call(Attribute, (), options, (labelled,)) for options in made]
    read = [Call(Attribute.from_json, (options,), then=(labelled,)) for options in made]
    return [*built, *read, Call(SCHEMA["age"].label, (3,)), Call(SCHEMA["income"].label, (1,))]


def schemas() -> list[Call]:
    used = (asked, lambda schema: schema.fingerprint(), lambda schema: schema.to_toml())
    return [
        Call(Schema, (SCHEMA.attributes,), then=used),
        Call(Schema.from_json, (SCHEMA.to_json(),), then=used),
        Call(Schema.parse, (SCHEMA.to_toml(),), then=used),
        Call(SCHEMA.__getitem__, ("age",)),
        Call(SCHEMA.sizes, (["age", "sick"],)),
        Call(SCHEMA.cells, (["age", "sick"],)),
        Call(SCHEMA.__contains__, ("age",)),
    ]


def workloads() -> list[Call]:
    def bound(workload: Any) -> None:
        asked(workload) if workload is not None else None
        queries = workload.bind(SCHEMA)
        queries.text(0)
        queries.squared_shift(["age"])

    linear = {"attributes": ("sick", "band"), "values": [0, 1, 0.5, 0.25], "name": "x", "weight": 2}
    plan = [
        {"queries": "conjunctions", "k": 2},
        {"queries": "marginals", "sets": [["age"], ["sick"]], "weights": [1, 2]},
    ]
    queries = Marginals(2).bind(SCHEMA)
    return [
        Call(Marginals, (2,), {"over": ("age", "sick"), "weight": 2}, (bound,)),
        Call(Marginals, (), {"sets": (("age", "sick"), ("region",)), "weights": (1, 2)}, (bound,)),
        Call(Conjunctions, (2,), {"signed": True, "over": ("age", "sick"), "weight": 2}, (bound,)),
        Call(Parities, (2,), {"over": ("age", "sick"), "weight": 2}, (bound,)),
        Call(LinearQuery, (), linear, (asked,)),
        Call(LinearQueries, ((LinearQuery(**linear),),), {"weight": 1}, (bound,)),
        Call(LinearQueries, ([linear],), then=(bound,)),
        Call(as_workload, (plan,), then=(bound,)),
        Call(as_workload, (plan[0],), then=(bound,)),
        Call(Marginals(1).bind, (SCHEMA,)),
        Call(marginal_sets, (SCHEMA, [["age", "sick"]], None)),
        Call(marginal_sets, (SCHEMA, None, 2, ["age", "sick"])),
        Call(queries.text, (3,)),
        Call(queries.attributes, (3,)),
        Call(queries.squared_shift, (["age"],)),
    ]


def noise_draws() -> list[Call]:
    noise = NoiseSource.seeded(7)
    packings = Packings([3, 6, 4], 3, 2)
    return [
        Call(NoiseSource.seeded, (1,), then=(repr,)),
        Call(noise.discrete_laplace, (2.5, 3)),
        Call(noise.discrete_gaussian, (2.5, (2, 2))),
        Call(noise.uniform_integers, (10, 3)),
        Call(noise.binomial, (10, 0.5)),
        Call(noise.binomial, (np.array([1, 5, 9]), 0.25)),
        Call(noise.randomized_response, ([0, 1, 2], 3, 0.5)),
        Call(noise.row_response, (0.75,)),
        Call(noise.randomized_response_counts, ([5, 6, 7], 0.5)),
        Call(noise.uniform_subset, (10, 3)),
        Call(noise.select, ([1, 2, 3], 2)),
        Call(noise.select_exponential, ([1, 2, 3], 2.0)),
        Call(noise.select_packing, (packings, [0.0, 1.0, 2.0])),
    ]


def noise_laws() -> list[Call]:
    return [
        Call(gaussian_log_pmf, (2.0, -5, 5)),
        Call(laplace_log_pmf, (2.0, -5, 5)),
        Call(half_width, ("gaussian", 2.0, 0.95)),
        Call(half_width, ("laplace", 2.0, 0.95)),
        Call(variance, ("gaussian", 2.0)),
        Call(variance, ("laplace", 2.0)),
        Call(response_epsilon, (3, 0.5)),
        Call(Packings, ([3, 6, 4], 3, 2)),
        Call(largest_packing, ([3, 6, 4], 3)),
    ]


KINDS: tuple[Kind, ...] = (
    calls("budget values and conversions", budget_values, 250_000, 4000),
    calls("budgets, limits, universes", budgets, 150_000, 2500),
    calls("guarantee builders", guarantee_builders, 60_000, 800),
    calls("guarantee methods", guarantee_methods, 60_000, 800),
    calls("guarantees as JSON", guarantee_records, 60_000, 800),
    calls("attributes", attributes, 300_000, 4000),
    calls("schemas", schemas, 80_000, 1500),
    calls("workloads", workloads, 60_000, 1000),
    calls("noise source", noise_draws, 50_000, 800),
    calls("laws of noise and packings", noise_laws, 30_000, 600),
)
