"""Repaired rows: close to the answers, with every rule kept, and nothing used but released numbers and the rows."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from nabladp import CDP, NoiseSource, Synthesis
from nabladp.errors import ReleaseError
from nabladp.mechanisms.mechanism import ReleaseContext
from nabladp.mechanisms.synthesis import SyntheticModel, repair
from nabladp.mechanisms.synthesis.derived_columns import Function
from nabladp.mechanisms.synthesis.inference import Zeros
from nabladp.mechanisms.synthesis.repair import Tables, Target
from nabladp.mechanisms.synthesis.repair_loops import improve_rows
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

ROWS = 4000
SCHEMA = Schema(
    (
        *(Attribute(f"c{i}", "integer", low=0, high=size - 1) for i, size in enumerate((4, 6, 3, 8, 5))),
        Attribute("half", "boolean", derived_from=("c3",)),
    )
)
IMPOSSIBLE = {"c0": 0, "c1": [0, 1]}


def people() -> CodedTable:
    """Every column follows its neighbours around a ring, which a small model cannot hold."""
    draw = np.random.default_rng(3)
    kind = draw.integers(0, 4, ROWS)
    codes = {}
    for i, size in enumerate((4, 6, 3, 8, 5)):
        own = draw.integers(0, size, ROWS)
        codes[f"c{i}"] = np.where(draw.random(ROWS) < 0.6, (kind * (i + 1)) % size, own)
    codes["c1"] = np.where(codes["c0"] == 0, np.maximum(codes["c1"], 2), codes["c1"])
    return CodedTable(SCHEMA, codes | {"half": codes["c3"] // 4})


def released(**more: object) -> SyntheticModel:
    options = {"strategy": "all", "model_mb": 0.001, "zeros": (IMPOSSIBLE,)} | more
    return Synthesis(CDP(2), **options).run(people(), NoiseSource.seeded(4))  # type: ignore[arg-type]


def away(output: SyntheticModel, wanted: list[np.ndarray]) -> float:
    """Mean total variation distance of the rows from some counts."""
    assert output.codes is not None
    plain = Schema(tuple(replace(each, derived_from=()) for each in SCHEMA))
    counts = CodedTable(plain, output.codes).marginals(output.sets)
    return float(np.mean([np.abs(a - b).sum() for a, b in zip(counts, wanted, strict=True)])) / (2 * ROWS)


def test_rows_come_close_to_the_answers_and_with_them_to_the_truth() -> None:
    sampled, repaired = released(repair=False), released()
    answers = [answer.counts for answer in repaired.answers]
    truth = [count.astype(float) for count in people().marginals(repaired.sets)]
    assert away(repaired, answers) < 0.25 * away(sampled, answers)
    assert away(repaired, truth) < 0.5 * away(sampled, truth)
    quality = repaired.quality
    assert math.isclose(quality["rows_from_answers"], away(repaired, answers))  # as it is published
    assert math.isclose(quality["sampled_from_answers"], away(sampled, answers))
    assert math.isclose(sampled.quality["rows_from_answers"], away(sampled, answers))
    assert quality["predicted_error_drawn"] < sampled.quality["predicted_error_drawn"]


def test_rules_hold_in_repaired_rows() -> None:
    codes = released().codes
    assert codes is not None
    assert not ((codes["c0"] == 0) & (codes["c1"] < 2)).any()
    assert np.array_equal(codes["half"], codes["c3"] // 4)


def test_rows_repeat_with_a_seed_and_stay_as_sampled_on_request() -> None:
    output = released()
    first, second = (output.sample(500, NoiseSource.seeded(1)) for _ in range(2))
    plain = output.sample(500, NoiseSource.seeded(1), repair=False)
    assert first.equals(second) and not first.equals(plain)
    assert plain.equals(replace(output, rows=500).sampled(NoiseSource.seeded(1)).synthetic)
    assert released().codes["c0"].tolist() == output.codes["c0"].tolist()  # type: ignore[index]


def test_a_target_is_followed_more_closely() -> None:
    """With all marginals at once a target changes no measurement: its marginals enter the model first, and rows are
    moved towards its answers rather than others'."""

    def away_from(target: str | None, epsilon: float, repair: bool) -> float:
        outputs = (
            Synthesis(CDP(epsilon), strategy="all", model_mb=0.001, target=target, repair=repair).run(
                people(), NoiseSource.seeded(seed)
            )
            for seed in range(2)
        )
        return sum(
            each
            for output in outputs
            for names, each in zip(output.sets, output.apart.each if output.apart else (), strict=True)
            if "c2" in names
        )

    for given in ((0.3, False), (0.1, True)):  # with less noise, repaired rows follow all answers to less than a row
        assert away_from("c2", *given) < 0.9 * away_from(None, *given)


def test_the_record_keeps_the_distances_and_older_records_have_none() -> None:
    output = released()
    record = copy.deepcopy(output.to_json())
    again = SyntheticModel.from_json(record, SCHEMA)
    assert again.apart == output.apart and again.quality == output.quality
    record.pop("rows_from_answers")
    for name in ("rows_from_answers", "sampled_from_answers", "contradicted_zeros"):
        record["quality"].pop(name)
    older = SyntheticModel.from_json(record, SCHEMA)
    assert older.apart is None and older.quality["rows_from_answers"] is None
    assert older.views(ReleaseContext(SCHEMA, ROWS, {}, None))
    assert older.sample(300, NoiseSource.seeded(2)).equals(output.sample(300, NoiseSource.seeded(2)))
    with pytest.raises(ReleaseError, match="rows_from_answers"):
        SyntheticModel.from_json(record | {"rows_from_answers": {"each": [2], "sampled": 0, "repaired": True}}, SCHEMA)


# ---- the loop --------------------------------------------------------------------------------------------------------

SIZES = {"a": 3, "b": 4, "wide": 100, "c": 2, "sum": 6, "twice": 3}
DERIVED = {
    "sum": Function(("a", "b"), (3, 4), np.add.outer(np.arange(3), np.arange(4)).ravel().astype(np.uint32)),
    "twice": Function(("sum",), (6,), (np.arange(6) // 2).astype(np.uint32)),  # of a derived column
}
FORBIDDEN = (
    Zeros(("c", "wide"), np.add.outer(np.arange(2), np.arange(100)) % 7 == 0),
    Zeros(("a", "twice"), np.eye(3, dtype=bool)[::-1].copy()),
)


def legal(rows: int, seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    codes = {name: draw.integers(0, SIZES[name], 6 * rows) for name in ("a", "b", "wide", "c")}
    codes["sum"] = codes["a"] + codes["b"]
    codes["twice"] = codes["sum"] // 2
    fine = ~np.any([zero.forbidden[tuple(codes[name] for name in zero.attributes)] for zero in FORBIDDEN], axis=0)
    return {name: column[fine][:rows].astype(np.uint8) for name, column in codes.items()}


def tables(rows: int) -> Tables:
    """Targets that nothing could meet: other people's counts, some of a forbidden cell, on sets of all widths."""
    draw = np.random.default_rng(9)
    sets = [("a",), ("b", "a"), ("a", "sum"), ("wide", "c"), ("twice", "wide"), ("c", "b", "twice"), ("sum", "a", "c")]
    targets = []
    for i, names in enumerate(sets):
        counts = draw.dirichlet(np.full(math.prod(SIZES[name] for name in names), 0.3)) * rows
        targets.append(Target(names, counts.reshape([SIZES[name] for name in names]), float(i), 1.0 + i % 2))
    return Tables(SIZES, targets, FORBIDDEN, DERIVED)


def squares(own: Tables, codes: dict[str, np.ndarray], start: dict[str, np.ndarray]) -> float:
    """The distance, computed afresh; parts of a row are rounded as the rows at the start are."""
    total = 0.0
    for target in own.targets:
        shape = [SIZES[name] for name in target.attributes]
        now, then = (
            np.bincount(
                np.ravel_multi_index([c[name] for name in target.attributes], shape), minlength=math.prod(shape)
            )
            for c in (codes, start)
        )
        wanted = target.counts.ravel()
        wanted = np.where(wanted < 1, np.clip(then, np.floor(wanted), np.ceil(wanted)), wanted)
        total += target.weight / (target.variance + 0.25) * float(((now - wanted) ** 2).sum())
    return total


@pytest.mark.parametrize("block", [1 << 16, 37])
def test_what_a_pass_says_it_gains_is_what_the_distance_falls_by(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "_BLOCK", block)
    own, start = tables(400), legal(400, 1)
    rows = {name: column.copy() for name, column in start.items()}
    gaps = own.gaps(own.counts(rows))
    for threshold in (2.0, 0.0, -50.0):  # the last takes any loss but a forbidden cell
        before = squares(own, rows, start)
        assert math.isclose(before, own.distance(gaps), rel_tol=1e-4)
        gained = sum(repair._improve(rows, first, own, gaps, threshold) for first in range(0, 400, block))
        assert math.isclose(before - squares(own, rows, start), gained, rel_tol=1e-3)
        assert (gained > 0) == (threshold >= 0)
    repaired = repair.repair(start, own)
    assert squares(own, repaired.codes, start) < 0.7 * squares(own, start, start)
    for codes in (rows, repaired.codes):
        for zero in FORBIDDEN:
            assert not zero.forbidden[tuple(codes[name] for name in zero.attributes)].any()
        assert np.array_equal(codes["sum"], codes["a"] + codes["b"])
        assert np.array_equal(codes["twice"], codes["sum"] // 2)
    assert all(column.dtype == start[name].dtype for name, column in repaired.codes.items())
    assert all(np.array_equal(start[name], column) for name, column in legal(400, 1).items())  # untouched


def test_no_value_of_any_row_could_do_better_at_the_end() -> None:
    """All moves of a small table, tried one by one."""
    sizes = {"a": 3, "b": 4, "c": 2}
    draw = np.random.default_rng(5)
    sets = [("a", "b"), ("b", "c"), ("a", "c")]
    wanted = [draw.dirichlet(np.ones(math.prod(sizes[x] for x in s))).reshape([sizes[x] for x in s]) * 60 for s in sets]
    own = Tables(sizes, [Target(s, np.round(w), 1.0) for s, w in zip(sets, wanted, strict=True)])
    codes = {name: draw.integers(0, size, 60).astype(np.uint8) for name, size in sizes.items()}
    done = repair.repair(codes, own).codes
    reached = own.distance(own.gaps(own.counts(done)))
    for row, name in itertools.product(range(60), sizes):
        for value in range(sizes[name]):
            other = {key: column.copy() for key, column in done.items()}
            other[name][row] = value
            assert own.distance(own.gaps(own.counts(other))) > reached - 1e-3


def test_small_losses_lead_where_gains_alone_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of which exactly one is 1: every other kind of row is two changes away."""
    rows, names = 600, [f"{part}{i}" for part in "abc" for i in range(4)]
    sizes = dict.fromkeys(names, 2)

    def people(seed: int) -> dict[str, np.ndarray]:
        draw = np.random.default_rng(seed)
        kinds = draw.dirichlet(np.full(64, 0.3))
        of = np.unravel_index(draw.choice(64, rows, p=kinds), (4, 4, 4))
        return {name: (of["abc".index(name[0])] == int(name[1])).astype(np.uint8) for name in names}

    pairs = list(itertools.combinations(names, 2))
    empty = Tables(sizes, [Target(pair, np.zeros((2, 2)), 1.0) for pair in pairs])
    own = Tables(sizes, [Target(p, c.astype(float), 1.0) for p, c in zip(pairs, empty.counts(people(1)), strict=True)])
    reached = []
    for passes in (0, repair._LOSING):
        monkeypatch.setattr(repair, "_LOSING", passes)
        first, again = (repair.repair(people(2), own).codes for _ in range(2))
        assert all(np.array_equal(first[name], again[name]) for name in names)
        reached.append(own.distance(own.gaps(own.counts(first))))
    assert reached[1] < 0.5 * reached[0]


def test_a_threshold_lets_large_gains_through_only() -> None:
    """In Python: what is compiled elsewhere is what can be read."""
    own, rows = tables(100), legal(100, 1)
    changed = []
    for share in (math.inf, 0.6, 0.0, -0.01):
        gaps, block = own.gaps(own.counts(rows)), repair._block(rows, 0)
        largest = improve_rows(block.copy(), gaps.copy(), math.inf, repair.CANDIDATES, 1, own.layout)[1]
        gained = improve_rows(block, gaps, share * largest, repair.CANDIDATES, 1, own.layout)[0]
        changed.append(int((block != repair._block(rows, 0)).sum()))
        assert largest > 1 and (gained > 0) == (share < 1)
    assert changed[0] == 0 < changed[1] < changed[2] / 2 < changed[3] / 2


def test_pairs_of_two_values_have_a_loop_of_their_own_that_does_the_same() -> None:
    """Also where one column of many rows is changed at a time."""
    draw, sizes = np.random.default_rng(2), dict.fromkeys("abcdef", 2)
    wanted = [
        Target(pair, draw.dirichlet(np.ones(4)).reshape(2, 2) * 200, 2.0) for pair in itertools.combinations(sizes, 2)
    ]
    own = Tables(sizes, wanted)
    codes = {name: draw.integers(0, 2, 200).astype(np.uint8) for name in sizes}
    layouts = own.layout, own.layout._replace(plain=np.zeros(6, np.bool_))
    assert layouts[0].plain.all()
    for together in (1, 64):
        blocks = [repair._block(codes, 0) for _ in layouts]
        pairs = zip(blocks, layouts, strict=True)
        moved = [improve_rows(block, own.gaps(own.counts(codes)), 0.0, 64, together, each) for block, each in pairs]
        assert moved[0] == moved[1] and moved[0][0] > 0 and np.array_equal(*blocks)
        assert not np.array_equal(blocks[0], repair._block(codes, 0))


def test_none_and_one_are_left_alone_where_less_than_one_row_is_wanted() -> None:
    """A few rows of many cells: where a third of a row is wanted, none is as right as one."""
    codes = {"a": np.arange(30) % 10, "b": np.arange(30) % 3}
    own = Tables({"a": 30, "b": 3}, [Target(("a", "b"), np.full((30, 3), 1 / 3), 0.0)])
    codes = {name: column.astype(np.uint8) for name, column in codes.items()}
    done = repair.repair(codes, own)
    assert all(np.array_equal(done.codes[name], codes[name]) for name in codes)
    assert done.before == done.after

    halves = Tables({"a": 2}, [Target(("a",), np.array([10.4, 9.6]), 0.0)])
    done = repair.repair({"a": (np.arange(20) > 10).astype(np.uint8)}, halves)  # 11 and 9
    assert int(done.codes["a"].sum()) == 10
