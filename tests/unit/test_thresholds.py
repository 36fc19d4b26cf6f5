"""ThresholdLearner's parts: planning, counting, the fitted model, bad input."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from nabladp.errors import BudgetError, DataError, DomainTooLarge, MechanismError, NablaDPError, PlanError
from nabladp.mechanisms.heavy_hitters import Tree
from nabladp.mechanisms.heavy_hitters.search import find
from nabladp.mechanisms.learners.thresholds import ThresholdLearner, ThresholdModel, search
from nabladp.mechanisms.learners.thresholds.design import Design, prefix_tree
from nabladp.mechanisms.learners.thresholds.planning import promised_error, rows_for
from nabladp.mechanisms.learners.thresholds.search import candidate_thresholds, count_reached, mistakes, polarization
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Approx, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable


def schema_of(sizes: tuple[int, ...]) -> Schema:
    features = (Attribute(f"x{i}", "integer", low=0, high=size - 1) for i, size in enumerate(sizes))
    return Schema((*features, Attribute("y", "boolean")))


def table_of(schema: Schema, rows: Any, labels: Any) -> CodedTable:
    return CodedTable(schema, {f"x{i}": rows[:, i] for i in range(rows.shape[1])} | {"y": labels})


def labelled(rows: Any, threshold: Any) -> Any:
    return count_reached(list(rows.T), np.array([threshold], np.uint32))


def deep(draws: np.random.Generator, sizes: tuple[int, ...], n: int, threshold: Any) -> Any:
    """Rows that share a prefix of random length with the threshold."""
    free = np.stack([draws.integers(0, size, n) for size in sizes], axis=1)
    common = np.arange(len(sizes)) < draws.integers(0, len(sizes) + 1, n)[:, None]
    return np.where(common, threshold, free)


# ---- what is promised ----------------------------------------------------------------------------------------------


def test_the_step_from_rows_to_people_is_two_binomial_tails() -> None:
    for errors, n in ((0, 50), (30, 600), (55, 708)):
        alpha = promised_error(errors, n, 0.1)
        assert alpha is not None and 2 * binom.cdf(errors, n, alpha) == pytest.approx(0.05, rel=1e-6)
        assert rows_for(errors, alpha * 1.0001, 0.1) == n
    assert promised_error(10, 10, 0.1) is None and promised_error(None, 10, 0.1) is None


@pytest.mark.parametrize("notion", ["cdp", "pure"])
def test_needed_rows_promise_what_was_asked_and_grow_slowly(notion: str) -> None:
    budget = CDP(1) if notion == "cdp" else Pure(1)
    needed = {}
    for d in (32, 256):
        learned, schema = ThresholdLearner(budget, "y", notion=notion), schema_of((2,) * d)
        needed[d] = learned.needed_rows(schema, 0.1)
        promised = learned.expected_error(schema, needed[d]).error
        assert promised is not None and promised <= 0.1
        fewer = learned.expected_error(schema, int(0.95 * needed[d])).error
        assert fewer is None or fewer > 0.1
    assert needed[256] < 2 * needed[32]  # the standard bound grows eightfold
    assert ThresholdLearner(budget, "y", notion=notion).needed_rows(schema_of((2,) * 32), 0.1, 0.01) > needed[32]


@pytest.mark.parametrize(("budget", "notion"), [(CDP(1), "cdp"), (Pure(1), "pure")])
@pytest.mark.parametrize("search", ["probes", "pick", None])
def test_the_promise_is_kept(budget: Any, notion: str, search: str | None) -> None:
    sizes = (2,) * 12 + (5, 3) + (2,) * 10
    learned, schema = ThresholdLearner(budget, "y", notion=notion, search=search), schema_of(sizes)
    n = learned.needed_rows(schema, 0.1)
    worst = []
    for seed in range(8):
        draws = np.random.default_rng(seed)
        threshold = np.array([draws.integers(0, size) for size in sizes])
        rows, more = deep(draws, sizes, n, threshold), deep(draws, sizes, 20_000, threshold)
        found = learned.run(table_of(schema, rows, labelled(rows, threshold)), NoiseSource.seeded(seed))
        assert found.error is not None and found.error <= 0.1
        worst.append(float((labelled(more, found.codes) != labelled(more, threshold)).mean()))
    assert sorted(worst)[-2] <= 0.1


def test_summaries_say_what_is_promised() -> None:
    learned, schema = ThresholdLearner(CDP(1), "y"), schema_of((2,) * 40)
    told = learned.expected_error(schema, 2000).to_json()
    assert 0 < told["error"] < 0.1 and told["mistakes"] > 0
    assert told["per_person_rows"] == math.ceil(math.sqrt(40 * math.log(2) / 0.5) / told["error"])
    pure = ThresholdLearner(Pure(2), "y", notion="pure").expected_error(schema, 5000)
    assert pure.error is not None and pure.person == math.ceil(40 * math.log(2) / 2 / pure.error)
    assert learned.expected_error(schema, 3).person is None
    assert told["summary"]["errs on at most this share of people, if some threshold never errs"] == told["error"]
    assert "nothing" in learned.expected_error(schema, 0).to_json()["summary"]["promised"]
    assert "nothing" in learned.expected_error(schema, 3).to_json()["summary"]["promised"]


# ---- counting ------------------------------------------------------------------------------------------------------


def test_mistakes_match_their_definition() -> None:
    draws, sizes = np.random.default_rng(1), (3, 2, 4)
    rows, labels = np.stack([draws.integers(0, s, 200) for s in sizes], axis=1), draws.integers(0, 2, 200)
    strings = np.array(list(itertools.product(*map(range, sizes))), np.uint32)
    found = mistakes(table_of(schema_of(sizes), rows, labels), ("x0", "x1", "x2"), "y", strings)
    for string, wrong in zip(strings.tolist(), found.tolist(), strict=True):
        assert wrong == sum((row >= string) != label for row, label in zip(rows.tolist(), labels.tolist(), strict=True))


def design_of(sizes: tuple[int, ...], cuts: tuple[int, ...], target: int = 1) -> Design:
    learned = ThresholdLearner(CDP(3), "y", search="pick").plan(schema_of(sizes), 5000)
    tree = Tree.build(sizes[: cuts[-1]], 4, 2, 4)
    assert learned.lists is not None
    levels = tuple(learned.lists.levels[-1:]) * tree.thresholded_levels
    from dataclasses import replace

    return replace(learned, cuts=cuts, target=target, lists=replace(learned.lists, tree=tree, levels=levels))


def test_thresholds_offered_are_strings_in_order() -> None:
    sizes = (2, 3, 2, 4)
    design = design_of(sizes, (0, 1, 3))
    found = candidate_thresholds(design, 1, np.array([[1]])).tolist()
    assert found == sorted(found) and [0, 0, 0, 0] in found and [1, 2, 1, 3] in found
    assert [[1, a, b, 0] for a in range(3) for b in range(2)] == [s for s in found if s[0] and s[3] == 0]
    last = candidate_thresholds(design, 2, np.array([[1, 2, 1]])).tolist()  # p is the largest: nothing comes after it
    assert last == [[0, 0, 0, 0], *([1, 2, 1, v] for v in range(4))]
    assert candidate_thresholds(design, 2, np.empty((0, 3), np.int64)).tolist() == [[0, 0, 0, 0], [1, 2, 1, 3]]


@pytest.mark.parametrize("at_once", [1, 64, 1 << 19])
@pytest.mark.parametrize("target", [1, 8, 30])
def test_polarization_is_exact_above_the_floor(at_once: int, target: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "AT_ONCE", at_once)
    draws, sizes = np.random.default_rng(2), (2, 3, 2, 2, 4, 2, 2)
    rows = deep(draws, sizes, 600, np.array([1, 2, 0, 1, 3, 0, 1]))
    labels = draws.integers(0, 2, 600)  # nothing like a threshold
    cuts = (0, 1, 3, 4, 6)
    design = design_of(sizes, cuts, target)
    found = polarization(table_of(schema_of(sizes), rows, labels), [f"x{i}" for i in range(7)], "y", design)
    for cut, value in zip(cuts[1:], found.tolist(), strict=True):
        strings, place = np.unique(rows[:, :cut], axis=0, return_inverse=True)
        both = np.bincount(2 * place.ravel() + labels, minlength=2 * len(strings)).reshape(-1, 2)
        assert value == max(int(both.min(axis=1).max()), target // 2)


def test_a_trees_prefixes_keep_its_nodes() -> None:
    tree = Tree.build((2,) * 9, 4, 2, 2)
    for length in range(1, 10):
        cut = prefix_tree(tree, length)
        assert cut.sizes == (2,) * length and cut.root.level == tree.root.level and cut.root.thresholded
        assert cut.root.attributes == tuple(range(length))
        paths = zip(cut.path_lengths, tree.path_lengths, strict=False)
        assert all(shorter == longer for shorter, longer in paths)


def test_lists_of_any_prefix_hold_what_is_frequent() -> None:
    draws, sizes = np.random.default_rng(3), (2,) * 30
    learned, schema = ThresholdLearner(CDP(2), "y"), schema_of(sizes)
    design = learned.plan(schema, 3000)
    common = draws.integers(0, 2, 30)
    rows = np.where(draws.random((3000, 1)) < 0.4, common, draws.integers(0, 2, (3000, 30)))
    table = table_of(schema, rows, rows[:, 0])
    for place in range(1, len(design.cuts)):
        cut = design.cuts[place]
        found = find(table, [f"x{i}" for i in range(cut)], design.lists_up_to(place), NoiseSource.seeded(place))
        assert common[:cut].tolist() in found.strings.tolist()


# ---- the model -----------------------------------------------------------------------------------------------------

PEOPLE = Schema(
    (
        Attribute("grade", "ordered", values=("low", "middle", "high")),
        Attribute("age", "integer", low=20, high=29),
        Attribute("sick", "categorical", values=("no", "yes")),
    )
)
MODEL = ThresholdModel(("grade", "age"), "sick", (1, 4), 100, 0.1, 0.05, 40, 1, PEOPLE)


def test_predictions_follow_the_order_of_the_schema() -> None:
    assert MODEL.threshold == {"grade": "middle", "age": 24}
    columns = {"age": [29, 23, 24, 20], "grade": ["low", "middle", "middle", "high"]}
    wanted = ["no", "no", "yes", "yes"]
    assert MODEL.predict(columns).tolist() == wanted
    assert MODEL.predict(pa.table(columns)).tolist() == wanted
    assert MODEL.predict({"age": [], "grade": []}).tolist() == []
    with pytest.raises(DataError, match="grade"):
        MODEL.predict({"age": [20]})
    with pytest.raises(DataError):
        MODEL.predict({"age": [99], "grade": ["low"]})


def test_the_model_round_trips() -> None:
    again = ThresholdModel.from_json(json.loads(json.dumps(MODEL.to_json())), PEOPLE)
    assert again.to_json() == MODEL.to_json() and again.threshold == MODEL.threshold
    assert MODEL.to_arrow(PEOPLE).to_pydict() == {"feature": ["grade", "age"], "value": ["middle", "24"]}
    assert "2 features" in repr(MODEL)
    with pytest.raises(MechanismError):
        ThresholdModel.from_json(MODEL.to_json() | {"codes": [1, 10]}, PEOPLE)


# ---- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"budget": Pure(1)},
        {"budget": CDP(1), "notion": "pure"},
        {"budget": 0.5},
        {"label": 3},
        {"search": "guess"},
        {"failure": 0},
        {"failure": 1.0},
        {"over": ()},
        {"over": ("x0", "x0")},
        {"notion": "approx"},
    ],
)
def test_parameters_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(NablaDPError):
        ThresholdLearner(**({"budget": CDP(1), "label": "y"} | given))


def test_schemas_that_do_not_fit_are_refused() -> None:
    schema = schema_of((2, 3))
    for given in ({"label": "x1"}, {"label": "z"}, {"over": ("x0", "y")}, {"over": ("x0", "z")}):
        with pytest.raises(NablaDPError):
            ThresholdLearner(**({"budget": CDP(1), "label": "y"} | given)).guarantee(schema, 10)
    with pytest.raises(DomainTooLarge, match=r"'x1' has 100,000,000 values, and at most 83,885 .* with 2 features"):
        ThresholdLearner(CDP(1), "y").plan(schema_of((2, 10**8)), 1000)
    with pytest.raises(DomainTooLarge, match=r"'x0' has 100,000,000 values, and at most 16,777,216 "):
        ThresholdLearner(CDP(1), "y").plan(schema_of((10**8,)), 1000)
    with pytest.raises(MechanismError, match="'y' is the label"):
        ThresholdLearner(CDP(1), "y", over=("x0", "y")).guarantee(schema, 10)
    with pytest.raises(MechanismError, match="there is no feature to predict 'y' from"):
        ThresholdLearner(CDP(1), "y").guarantee(Schema((Attribute("y", "boolean"),)), 10)
    with pytest.raises(MechanismError):
        ThresholdLearner(CDP(1), "y").needed_rows(schema, 1.5)


def test_designs_that_do_not_fit_are_refused() -> None:
    design = ThresholdLearner(CDP(1), "y").plan(schema_of((2,) * 30), 1000)
    with pytest.raises(BudgetError):
        ThresholdLearner(CDP(0.5), "y", design=design).guarantee(schema_of((2,) * 30), 1000)
    with pytest.raises(MechanismError):
        ThresholdLearner(CDP(1), "y", design=design).guarantee(schema_of((2,) * 31), 1000)
    with pytest.raises(MechanismError):
        Design("cdp", (2, 2), (0, 2), 1.0)
    with pytest.raises(MechanismError):
        Design("cdp", (2, 2), (0, 1), 1.0)
    with pytest.raises(BudgetError):
        ThresholdLearner(Rho(1e-18), "y").guarantee(schema_of((2,) * 30), 1000)


@pytest.mark.parametrize(
    "given",
    [
        3,
        "probes",
        {},
        {"sizes": [2, 2]},
        {"target": 2.5},
        {"target": 0},
        {"select_scale": 0},
        {"select_scale": "1"},
        {"cuts": []},
        {"notion": "approx"},
        {"depth": 3},
        {"lists": {"tree": 3}},
    ],
)
def test_what_is_no_design_is_refused_by_name(given: Any) -> None:
    schema = schema_of((2,) * 30)
    whole = ThresholdLearner(CDP(1), "y").plan(schema, 1000).to_json()
    wrong = whole | given if isinstance(given, dict) and given else given
    with pytest.raises(MechanismError):
        ThresholdLearner(CDP(1), "y", design=wrong)


def without_nulls(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    return {name: without_nulls(value) for name, value in body.items() if value is not None}


@pytest.mark.parametrize(("budget", "notion"), [(CDP(1), "cdp"), (Pure(1), "pure")])
@pytest.mark.parametrize("features", [3, 30])
def test_a_design_goes_into_a_plan_and_comes_out_again(budget: Any, notion: str, features: int) -> None:
    schema = schema_of((2,) * features)
    design = ThresholdLearner(budget, "y", notion=notion).plan(schema, 1000)
    learned = ThresholdLearner(budget, "y", notion=notion, design=design)
    again = ThresholdLearner.from_plan(json.loads(json.dumps(learned.to_json())))
    assert again == learned and again.plan(schema, 70) == design
    assert Design.from_json(without_nulls(design.to_json())) == design  # as TOML would have it
    assert "design" not in ThresholdLearner(budget, "y", notion=notion).to_json()


def test_many_rows_of_many_features_are_planned_for_with_shorter_lists() -> None:
    learned = ThresholdLearner(CDP(1), "y")
    few, many = (learned.plan(schema_of((9,) * 200), n) for n in (1000, 10**7))
    assert few.lists is not None and many.lists is not None
    assert many.lists.longest_list * 10 * 200 <= 1 << 24
    assert promised_error(many.errors, 10**7, 0.1) < 0.01  # type: ignore[operator]


def test_ten_million_values_of_one_feature() -> None:
    """All of them are on offer, none twice, in order."""
    design = ThresholdLearner(CDP(1), "y").plan(schema_of((10**7,)), 1000)
    thresholds = candidate_thresholds(design, 0, np.empty((1, 0), np.int64))
    assert (thresholds[:, 0] == np.arange(10**7)).all()


def test_plan_form() -> None:
    learned = ThresholdLearner(Approx(1, 1e-6), "y", ("x1", "x0"), budgets={"x0": Rho(0.01)}, search="pick")
    assert ThresholdLearner.from_plan(json.loads(json.dumps(learned.to_json()))) == learned
    with pytest.raises(PlanError, match="label"):
        ThresholdLearner.from_plan({"budget": {"cdp": 1}})
    with pytest.raises(PlanError, match="labell"):
        ThresholdLearner.from_plan({"budget": {"cdp": 1}, "labell": "y"})


@pytest.mark.parametrize("notion", ["cdp", "pure"])
def test_extreme_tables_never_raise(notion: str) -> None:
    sizes = (2,) * 20
    learned, schema = ThresholdLearner(CDP(1) if notion == "cdp" else Pure(1), "y", notion=notion), schema_of(sizes)
    for n, value in itertools.product((1, 2, 400), (0, 1)):
        for label in (0, 1):
            table = table_of(schema, np.full((n, 20), value), np.full(n, label))
            assert len(learned.run(table, NoiseSource.seeded(n)).codes) == 20


def test_two_hundred_values_a_feature() -> None:
    sizes = (200, 7, 150)
    learned, schema, draws = ThresholdLearner(CDP(1), "y"), schema_of(sizes), np.random.default_rng(8)
    rows = np.stack([draws.integers(0, size, 4000) for size in sizes], axis=1)
    found = learned.run(table_of(schema, rows, labelled(rows, [90, 3, 20])), NoiseSource.seeded(1))
    assert abs(found.codes[0] - 90) <= 10
