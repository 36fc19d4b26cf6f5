"""The model behind synthetic tables, against brute force over all records of tiny domains."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from nabladp.errors import DomainTooLarge, MechanismError, UnknownAttribute
from nabladp.mechanisms.synthesis.inference import (
    JunctionTree,
    Measurement,
    Model,
    Zeros,
    admit,
    fit,
    fit_seconds,
    fitting,
    model_bytes,
    on_simplex,
    pool,
)
from nabladp.mechanisms.synthesis.inference import model as marginals_module
from nabladp.mechanisms.synthesis.inference.measurement import spread, sum_to
from nabladp.mechanisms.synthesis.inference.misses import centred
from nabladp.mechanisms.synthesis.inference.pooling import _inherited, residuals
from nabladp.noise import NoiseSource

Names = tuple[str, ...]
CHAIN = {"a": 3, "b": 2, "c": 4, "d": 2, "e": 3}


def measured(sizes: Mapping[str, int], sets: Sequence[Names], seed: int, total: float = 200.0) -> list[Measurement]:
    """Of a table drawn at random, with noise of different sizes."""
    draw = np.random.default_rng(seed)
    joint = draw.gamma(0.5, size=tuple(sizes.values()))
    joint *= total / joint.sum()
    found = []
    for names in sets:
        variance = float(draw.uniform(1, 9))
        exact = sum_to(joint, tuple(sizes), names)
        found.append(Measurement(names, exact + math.sqrt(variance) * draw.standard_normal(exact.shape), variance))
    return found


def joint_of(model: Model) -> Any:
    """The model's expected counts of all records, from its potentials."""
    names = tuple(model.sizes)
    scores = np.zeros(tuple(model.sizes.values()))
    for own, table in model.potentials():
        scores = scores + spread(table, own, names)
    for zeros in model.zeros:
        scores = np.where(spread(zeros.forbidden, zeros.attributes, names), -np.inf, scores)
    mass = np.exp(scores - scores.max())
    return mass * (model.total / mass.sum())


@st.composite
def structures(draw: Any, most: int = 5) -> tuple[dict[str, int], list[Names]]:
    sizes = {name: draw(st.integers(1, 4)) for name in "abcdefg"[: draw(st.integers(2, most))]}
    sets = st.lists(st.sampled_from(sorted(sizes)), min_size=1, max_size=3, unique=True).map(tuple)
    return sizes, draw(st.lists(sets, max_size=7))


# ---- the tree -----------------------------------------------------------------------------------------------------


@given(structures(most=7))
def test_clusters_hold_all_cliques_and_form_a_tree(case: tuple[dict[str, int], list[Names]]) -> None:
    sizes, cliques = case
    tree = JunctionTree(sizes, cliques)
    assert {name for cluster in tree.clusters for name in cluster.names} == set(sizes)
    assert all(tree.home(clique) is not None for clique in cliques)
    for i, cluster in enumerate(tree.clusters):
        assert cluster.parent < i
        before = {name for earlier in tree.clusters[:i] for name in earlier.names}
        assert set(cluster.shared) == before & set(
            cluster.names
        )  # whatever is known already separates it from the rest
        if cluster.parent >= 0:
            assert set(cluster.shared) <= set(tree.clusters[cluster.parent].names)
    assert tree.bytes == model_bytes(sizes, cliques)


def test_admission_keeps_the_limit_and_the_order() -> None:
    sizes = {f"x{i}": 10 for i in range(6)}
    cliques = list(itertools.combinations(sizes, 2))
    limit = 8 * 3000
    taken = admit(sizes, cliques, limit)
    assert model_bytes(sizes, taken) <= limit < model_bytes(sizes, cliques)
    assert taken[0] == cliques[0]
    assert [clique for clique in cliques if clique in taken] == taken
    with pytest.raises(DomainTooLarge, match="x0"):
        admit(sizes, [], 8 * 100, always=[("x0", "x1", "x2")])
    with pytest.raises(UnknownAttribute):
        admit(sizes, [("x0", "nobody")], limit)


def test_time_grows_with_the_model() -> None:
    sizes = {f"x{i}": 20 for i in range(6)}
    assert 0 < fit_seconds(sizes, []) < fit_seconds(sizes, [("x0", "x1", "x2", "x3")])


# ---- marginals ----------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(structures(), st.integers(0, 1000), st.booleans())
def test_marginals_are_sums_of_the_joint(case: tuple[dict[str, int], list[Names]], seed: int, together: bool) -> None:
    sizes, cliques = case
    model = fit(sizes, 200.0, measured(sizes, cliques, seed), cliques=cliques)
    joint = joint_of(model)
    sets = [names for k in (1, 2, 3) for names in itertools.permutations(sizes, k)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals_module.Answers, "_many", lambda *_: 0 if together else math.inf)
        for names, table in zip(sets, model.marginals(sets), strict=True):
            np.testing.assert_allclose(table, sum_to(joint, tuple(sizes), names), atol=1e-8)


def test_a_marginal_too_large_or_unknown_is_refused() -> None:
    sizes = {f"x{i}": 1000 for i in range(3)}
    model = fit(sizes, 10.0, [])
    with pytest.raises(DomainTooLarge, match="x0"):
        model.marginal(("x0", "x1", "x2"))
    with pytest.raises(UnknownAttribute):
        model.marginal(("x9",))
    np.testing.assert_allclose(model.marginal(("x0",)), 0.01)


# ---- the fit ------------------------------------------------------------------------------------------------------


def brute_force(sizes: Mapping[str, int], total: float, measurements: Sequence[Measurement]) -> Any:
    """The same optimum without tree or potentials: over the logarithms of all records' shares, in the primal."""
    parts = residuals(measurements)
    names = tuple(sizes)

    def objective(scores: Any) -> tuple[float, Any]:
        scores = scores.reshape(tuple(sizes.values()))
        share = np.exp(scores - scores.max())
        share /= share.sum()
        logs = np.log(share)
        value, slope = total * float((share * logs).sum()), total * logs  # n·KL to uniform, but for a constant
        for part, known in parts.items():
            pull = max(math.sqrt(known.variance), fitting._LEAST_DEVIATION)
            pull *= fitting._SMOOTH_ONE if len(part) == 1 else fitting._SMOOTH
            miss = sum_to(total * share, names, part)
            for axis in range(miss.ndim):
                miss = miss - miss.mean(axis=axis, keepdims=True)
            miss = miss - known.values
            value += float((miss**2).sum()) / (2 * pull)
            slope = slope + total * spread(miss, part, names) / pull
        return value, (share * (slope - (share * slope).sum())).ravel()

    start = np.zeros(math.prod(sizes.values()))
    options: Any = {"maxiter": 20000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    share = np.exp(found - found.max()).reshape(tuple(sizes.values()))
    return share * (total / share.sum())


@settings(max_examples=25)
@given(structures(most=4), st.integers(0, 1000))
def test_the_fit_is_the_optimum_over_all_distributions(case: tuple[dict[str, int], list[Names]], seed: int) -> None:
    sizes, cliques = case
    measurements = measured(sizes, cliques, seed)
    model = fit(sizes, 200.0, measurements, cliques=cliques, close=1e-5)
    assert model.converged
    np.testing.assert_allclose(joint_of(model), brute_force(sizes, 200.0, measurements), atol=0.02)


def test_what_does_not_fit_into_the_tree_still_counts() -> None:
    """Of a pair outside, its single attributes: together with other measurements, by precision."""
    sizes = {"a": 3, "b": 4, "c": 2}
    pair = np.arange(12.0).reshape(3, 4) * 5
    model = fit(sizes, pair.sum(), [Measurement(("a", "b"), pair, 0.01)], cliques=[("a",), ("b", "c")], close=0.01)
    np.testing.assert_allclose(model.marginal(("a",)), pair.sum(axis=1), rtol=0.01)
    np.testing.assert_allclose(model.marginal(("b",)), pair.sum(axis=0), rtol=0.01)


def test_residuals_are_as_good_as_generalised_least_squares() -> None:
    sizes = {"a": 3, "b": 2, "c": 4}
    sets: list[Names] = [("a", "b"), ("b", "c"), ("c", "a"), ("a",), ("a", "b")]
    found = residuals(measured(sizes, sets, 1))
    design, target, weights = [], [], []
    for m in measured(sizes, sets, 1):
        for cell in np.ndindex(*m.values.shape):
            row = np.zeros(tuple(sizes.values()))
            row[tuple(cell[m.attributes.index(n)] if n in m.attributes else slice(None) for n in sizes)] = 1
            design.append(row.ravel() / math.sqrt(m.variance))
            target.append(m.values[cell] / math.sqrt(m.variance))
            weights.append(m.variance)
    best = np.linalg.lstsq(np.array(design), np.array(target), rcond=None)[0].reshape(tuple(sizes.values()))
    for names in (("a",), ("a", "b"), ("b", "c")):
        table = sum_to(best, tuple(sizes), names)
        for axis in range(table.ndim):
            table = table - table.mean(axis=axis, keepdims=True)
        np.testing.assert_allclose(found[names].values, table, atol=1e-9)


def test_too_few_steps_are_admitted_and_a_warm_start_needs_fewer() -> None:
    sets: list[Names] = [("a", "b"), ("b", "c"), ("c", "d", "e"), ("a", "e")]
    measurements = measured(CHAIN, sets, 5, 5000.0)
    short = fit(CHAIN, 5000.0, measurements, most_steps=3)
    assert not short.converged
    assert short.gap > 0.1
    cold = fit(CHAIN, 5000.0, measurements)
    assert cold.converged
    assert cold.gap <= 0.1
    warm = fit(CHAIN, 5000.0, [*measurements, Measurement(("b",), cold.marginal(("b",)), 4.0)], warm=cold)
    assert warm.converged
    assert warm.steps < cold.steps / 2


def test_the_gap_bounds_the_distance_from_the_optimum() -> None:
    sets: list[Names] = [("a", "b"), ("b", "c"), ("c", "d", "e"), ("a", "e")]
    measurements = measured(CHAIN, sets, 6, 5000.0)
    best = fit(CHAIN, 5000.0, measurements, close=1e-6)
    for most in (2, 5, 10, 20):
        model = fit(CHAIN, 5000.0, measurements, most_steps=most)
        for m in measurements:
            miss = model.marginal(m.attributes) - best.marginal(m.attributes)
            assert math.sqrt(float((miss**2).mean()) / m.variance) <= 10 * model.gap + 1e-4


def test_bad_input_is_refused() -> None:
    with pytest.raises(MechanismError, match="axis"):
        fit({"a": 3}, 10.0, [Measurement(("a",), np.zeros(4), 1.0)])
    with pytest.raises(MechanismError, match="variance"):
        fit({"a": 3}, 10.0, [Measurement(("a",), np.zeros(3), 0.0)])
    with pytest.raises(UnknownAttribute):
        fit({"a": 3}, 10.0, [Measurement(("z",), np.zeros(3), 1.0)])
    with pytest.raises(MechanismError, match="back end"):
        fit({"a": 3}, 10.0, [], back_end="magic")
    with pytest.raises(DomainTooLarge):
        fit({"a": 100, "b": 100}, 10.0, [], cliques=[("a", "b")], limit_bytes=1000)


def test_no_rows_and_no_noise_are_no_trouble() -> None:
    counts = np.array([[5.0, 0.0], [0.0, 7.0]])
    exact = fit({"a": 2, "b": 2}, 12.0, [Measurement(("a", "b"), counts, 1e-12)])
    assert exact.converged
    np.testing.assert_allclose(exact.marginal(("a", "b")), counts, atol=0.2)
    nobody = fit({"a": 2, "b": 2}, 0.0, [Measurement(("a", "b"), counts - 5, 1.0)])
    assert not nobody.marginal(("a",)).any()
    assert pool(nobody, [Measurement(("a",), counts[0], 1.0)], [("a",)])[0].values.sum() == 0
    assert len(nobody.draw(0, NoiseSource.seeded(1))["a"]) == 0


def test_a_table_too_large_on_the_way_between_clusters_does_not_fail_a_release() -> None:
    """A model is fitted once the budget is spent, and its tree follows from noisy numbers."""
    sets: list[Names] = [("a", "b", "c"), ("b", "c", "d", "f"), ("d", "f", "e")]
    sizes = {"a": 8, "b": 3, "c": 3, "d": 3, "f": 3, "e": 8}
    model = fit(sizes, 200.0, measured(sizes, sets, 2), cliques=sets)
    whole = marginals_module.Answers(model.tree, model.beliefs)
    tight = marginals_module.Answers(model.tree, model.beliefs, most_bytes=8 * 8 * 9 - 1)
    (joint,), (product,) = whole.marginals([("a", "e")]), tight.marginals([("a", "e")])
    single = whole.marginals([("a",), ("e",)])
    np.testing.assert_allclose(product, np.outer(*single))
    assert np.abs(joint - product).max() > 1e-6


# ---- zeros --------------------------------------------------------------------------------------------------------


def test_forbidden_cells_never_get_mass_and_are_never_drawn() -> None:
    forbidden = np.zeros((3, 4), np.bool_)
    forbidden[0, 1:] = forbidden[2, 0] = True
    zeros = [Zeros(("a", "c"), forbidden), Zeros(("d",), np.array([False, True]))]
    sets: list[Names] = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "e")]
    measurements = measured(CHAIN, sets, 3)
    model = fit(CHAIN, 200.0, measurements, zeros=zeros)
    assert model.converged
    assert not model.marginal(("a", "c"))[forbidden].any()
    assert not model.marginal(("d",))[1]
    np.testing.assert_allclose(model.marginal(("a", "c", "e")), sum_to(joint_of(model), tuple(CHAIN), ("a", "c", "e")))
    rows = model.draw(5000, NoiseSource.seeded(1))
    assert not forbidden[rows["a"], rows["c"]].any()
    assert not rows["d"].any()
    for pooled in pool(model, measurements, [("a", "c"), ("c", "d")]):
        assert pooled.values.sum() == pytest.approx(200)
    assert not pool(model, measurements, [("a", "c")])[0].values[forbidden].any()


def test_zeros_that_leave_nothing_are_refused() -> None:
    first = Zeros(("a", "b"), np.array([[True, True], [True, False], [True, False]]))
    second = Zeros(("b", "d"), np.array([[False, False], [True, True]]))
    with pytest.raises(MechanismError, match="contradict"):
        fit(CHAIN, 10.0, [], zeros=[first, second])
    with pytest.raises(DomainTooLarge):
        fit(CHAIN, 10.0, [], zeros=[first], limit_bytes=8)


# ---- drawing ------------------------------------------------------------------------------------------------------


def test_drawn_rows_have_the_expected_counts_on_average_and_little_noise() -> None:
    sets: list[Names] = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    model = fit(CHAIN, 3000.0, measured(CHAIN, sets, 4, 3000.0))
    rows, repeats = 200, 400
    noise = NoiseSource.seeded(7)
    wanted = [*itertools.combinations(CHAIN, 2), ("a", "c", "e")]
    total = {names: np.zeros([CHAIN[n] for n in names]) for names in wanted}
    spread_of = dict.fromkeys(wanted, 0.0)
    expected = dict(zip(wanted, (rows / 3000 * model.marginal(names) for names in wanted), strict=True))
    for _ in range(repeats):
        drawn = model.draw(rows, noise)
        for names in wanted:
            counts = np.zeros(total[names].shape)
            np.add.at(counts, tuple(drawn[name] for name in names), 1)
            assert counts.sum() == rows
            total[names] += counts
            spread_of[names] += float(((counts - expected[names]) ** 2).sum())
    for names in wanted:
        deviation = np.sqrt(expected[names] / repeats)  # at most, as if rows were independent
        assert (np.abs(total[names] / repeats - expected[names]) < 7 * deviation + 1e-9).all()
    multinomial = rows - float((expected["a", "b"] ** 2).sum()) / rows
    assert spread_of["a", "b"] / repeats < 0.2 * multinomial  # a cluster's own cells are only rounded
    assert all(spread_of[names] / repeats < 1.1 * rows for names in wanted)


def test_codes_are_in_their_domains_and_in_order() -> None:
    sizes = {"big": 300, "small": 2, "alone": 5}
    rows = fit(sizes, 10.0, [], cliques=[("big", "small")]).draw(1000, NoiseSource.seeded(2))
    assert list(rows) == list(sizes)
    assert all(rows[name].max() < size for name, size in sizes.items())
    assert rows["big"].dtype == np.uint16
    assert rows["small"].dtype == np.uint8


# ---- keeping ------------------------------------------------------------------------------------------------------


def test_a_model_survives_json() -> None:
    sets: list[Names] = [("c", "a"), ("b", "c"), ("e", "d", "b")]
    zeros = [Zeros(("d", "a"), np.array([[True, False, False], [False, False, True]]))]
    model = fit(CHAIN, 200.0, measured(CHAIN, sets, 8), zeros=zeros)
    again = Model.from_json(json.loads(json.dumps(model.to_json())))
    assert (again.sizes, again.total, again.cliques) == (model.sizes, model.total, model.cliques)
    assert (again.gap, again.converged, again.steps) == (model.gap, model.converged, model.steps)
    pairs = list(itertools.combinations(CHAIN, 2))
    for a, b in zip(model.marginals(pairs), again.marginals(pairs), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    first, second = model.draw(50, NoiseSource.seeded(3)), again.draw(50, NoiseSource.seeded(3))
    assert all((first[name] == second[name]).all() for name in CHAIN)


# ---- pooling ------------------------------------------------------------------------------------------------------


def correlated(n: int = 4000) -> dict[str, Any]:
    draw = np.random.default_rng(11)
    kind = draw.integers(0, 3, n)
    return {name: (kind * (i + 1) + (draw.random(n) < 0.3)) % size for i, (name, size) in enumerate(CHAIN.items())}


def table_of(columns: Mapping[str, Any], names: Names) -> Any:
    counts = np.zeros([CHAIN[name] for name in names])
    np.add.at(counts, tuple(columns[name] for name in names), 1)
    return counts


def test_pooled_answers_beat_both_the_model_and_the_noisy_counts() -> None:
    columns = correlated()
    pairs = list(itertools.combinations(CHAIN, 2))
    errors = np.zeros(3)
    covered, said = [], 0.0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        noisy = [
            Measurement(p, table_of(columns, p) + 15 * draw.standard_normal([CHAIN[n] for n in p]), 225.0)
            for p in pairs
        ]
        model = fit(CHAIN, 4000.0, noisy, cliques=[("a", "b"), ("b", "c"), ("d",), ("e",)])
        answers = pool(model, noisy, pairs)
        for names, m, guess, pooled in zip(pairs, noisy, model.marginals(pairs), answers, strict=True):
            truth = table_of(columns, names)
            assert pooled.attributes == names
            assert (pooled.values >= 0).all()
            assert pooled.values.sum() == pytest.approx(4000)
            assert 0 <= pooled.direct <= 1
            tables = (guess, m.values, pooled.values)
            errors += [np.abs(table - truth).sum() / 8000 for table in tables]
            said += pooled.error
            covered.append((np.abs(pooled.values - truth) <= 1.96 * np.sqrt(pooled.variance)).mean())
    assert errors[2] < 0.8 * errors[1]
    assert errors[2] < 0.3 * errors[0]
    assert 0.8 < said / errors[2] < 1.4
    assert np.mean(covered) > 0.9


def test_shrinkage_is_learnt_from_all_pairs_together() -> None:
    """A pair of bits has one degree of freedom; sixty together show that nothing depends, or that all does."""
    sizes = {f"b{i}": 2 for i in range(12)}
    pairs = list(itertools.combinations(sizes, 2))
    draw = np.random.default_rng(3)
    for strength, low, high in ((0.0, 0.0, 0.25), (200.0, 0.9, 1.0)):
        sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
        tables = [1000 + strength * sign for _ in pairs]
        noisy = [
            Measurement(p, t + 20 * draw.standard_normal((2, 2)), 400.0) for p, t in zip(pairs, tables, strict=True)
        ]
        model = fit(sizes, 4000.0, noisy, cliques=[(name,) for name in sizes])
        weights = [pooled.direct for pooled in pool(model, noisy, pairs)]
        assert low <= np.mean(weights) <= high
        one = pool(model, noisy, pairs[5:6])[0]
        assert one.direct == weights[5]  # whatever else is asked


def test_a_set_never_measured_is_answered_with_a_larger_error() -> None:
    columns = correlated()
    noisy = [Measurement(p, table_of(columns, p) + 0.0, 25.0) for p in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]]
    model = fit(CHAIN, 4000.0, noisy)
    told, never = pool(model, noisy, [("a", "b"), ("a", "e")])
    assert never.direct == 0
    assert never.error > 3 * told.error


def test_columns_that_have_nothing_to_do_with_each_other_have_some_relation_by_chance() -> None:
    draw, rows, sizes = np.random.default_rng(4), 2000, {f"c{i}": 2 + i % 4 for i in range(12)}
    columns = {name: draw.integers(0, size, rows) for name, size in sizes.items()}
    alone = [Measurement((name,), np.bincount(columns[name], minlength=sizes[name]) + 0.0, 1e-3) for name in sizes]
    pairs = list(itertools.combinations(sizes, 2))
    answers = pool(fit(sizes, float(rows), alone), alone, pairs)
    true = [
        np.histogram2d(columns[a], columns[b], [np.arange(sizes[a] + 1), np.arange(sizes[b] + 1)])[0] for a, b in pairs
    ]
    found = [np.abs(answer.values - counts).sum() / (2 * rows) for answer, counts in zip(answers, true, strict=True)]
    assert 1 / 1.2 < np.mean([answer.error for answer in answers]) / np.mean(found) < 1.2


def test_an_error_in_one_column_is_inherited_by_its_pairs() -> None:
    """The mean square of the error of a product, over noise in both factors."""
    draw, total = np.random.default_rng(1), 500.0
    shares = [draw.dirichlet(np.full(size, 0.5)) * total for size in (3, 4)]
    noise = [np.stack([centred(own) for own in draw.normal(0, 40, (20_000, len(each)))]) for each in shares]
    true = np.multiply.outer(*(centred(each) for each in shares)) / total
    wrong = np.einsum("ra,rb->rab", *(centred(each) + own for each, own in zip(shares, noise, strict=True))) / total
    known = {
        (name,): (float((centred(each) ** 2).mean()), float((own**2).mean()))
        for name, each, own in zip("ab", shares, noise, strict=True)
    }
    assert math.isclose(_inherited(("a", "b"), known, total), float(((wrong - true) ** 2).mean()), rel_tol=0.05)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=20), st.floats(0.1, 100))
def test_the_nearest_counts_are_counts(values: list[float], total: float) -> None:
    found = on_simplex(np.array(values), total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total)
    kept = found > 0
    shift = (np.array(values) - found)[kept]
    assert np.ptp(shift) < 1e-9  # the same taken from all that stay
    assert (np.array(values)[~kept] <= shift[0] + 1e-9).all()


def test_an_attribute_of_very_many_values_is_at_the_root() -> None:
    """Answers carry attributes towards the root; this one would be multiplied by what clusters share on its way."""
    from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree

    sizes = {"a": 40, "b": 40, "c": 40, "d": 40, "long": 2000}
    tree = JunctionTree(sizes, [("a", "b", "c"), ("b", "c", "d"), ("d", "long")])
    assert "long" in tree.clusters[0].names and len(tree.clusters) == 3
    assert "long" not in JunctionTree(sizes | {"long": 50}, [("a", "b", "c"), ("d", "long")]).clusters[0].names
