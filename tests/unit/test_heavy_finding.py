"""Lists against brute force, where noise is next to none; and their law, where it is not."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from nabladp.errors import DomainTooLarge, MechanismError
from nabladp.mechanisms.heavy_hitters import candidates, search
from nabladp.mechanisms.heavy_hitters.planner import plan
from nabladp.mechanisms.heavy_hitters.search import find
from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, Counts, open_table

SILENT = 0.02  # a noise scale at which no noise but 0 will ever be seen


def schema_of(sizes: tuple[int, ...]) -> Schema:
    return Schema(tuple(Attribute(f"a{j}", "integer", low=0, high=size - 1) for j, size in enumerate(sizes)))


def table_of(rows: np.ndarray, sizes: tuple[int, ...]) -> CodedTable:
    return CodedTable(schema_of(sizes), {f"a{j}": rows[:, j] for j in range(len(sizes))}, batch_rows=97)


def names_of(sizes: tuple[int, ...]) -> list[str]:
    return [f"a{j}" for j in range(len(sizes))]


def settings_of(
    notion: str, tree: Tree, tau: int, mu: int, scale: float, count_scale: float = SILENT, memory: int = 0
) -> Settings:
    pure = notion == "pure"
    levels = tuple(Level(tau + mu * i if pure else tau, scale) for i in range(tree.thresholded_levels))
    return Settings(notion, tree, mu if pure else 0, levels, count_scale if pure else None, 1, 1, 1, 0.05, 10.0, memory)


def brute_force(rows: np.ndarray, settings: Settings) -> list[set[tuple[int, ...]]]:
    """The lists, were there no noise."""
    lists: list[set[tuple[int, ...]]] = []
    for node in settings.tree.nodes:
        sizes = [range(settings.tree.sizes[a]) for a in node.attributes]
        if not node.thresholded:
            lists.append(set(itertools.product(*sizes)))
            continue
        counts = Counter(map(tuple, rows[:, list(node.attributes)].tolist()))
        tau = settings.level_of(node).threshold
        heavy = {string for string, f in counts.items() if f > tau}
        for child in node.children:
            places = [node.attributes.index(a) for a in settings.tree.nodes[child].attributes]
            heavy = {string for string in heavy if tuple(string[i] for i in places) in lists[child]}
        lists.append(heavy)
    return lists


def check_against_brute_force(table: object, rows: np.ndarray, settings: Settings) -> None:
    found = find(table, names_of(settings.tree.sizes), settings, NoiseSource.seeded(0))
    for position, expected in enumerate(brute_force(rows, settings)):
        strings = [tuple(s) for s in found.strings_of(position).tolist()]
        assert set(strings) == expected
        assert strings == sorted(strings), "in an order that tells nothing"
    counts = Counter(map(tuple, rows.tolist()))
    assert found.counts.tolist() == [counts[tuple(s)] for s in found.strings.tolist()]


def take_small_steps(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    """Count few cells at a time, and let few candidates through before they are counted."""
    monkeypatch.setattr(search, "LEAST_CELLS", cells)
    if cells < 1 << 20:
        monkeypatch.setattr(search, "ALL_COUNTED", cells)
        monkeypatch.setattr(search, "ALL_FOUND", 0)
        monkeypatch.setattr(candidates, "LEFT_TO_LOOK_AT", 2)


def rows_with_clusters(sizes: tuple[int, ...], n: int, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    rows = np.stack([draw.integers(0, size, n) for size in sizes], axis=1)
    centres = np.stack([draw.integers(0, size, 4) for size in sizes], axis=1)
    which = draw.integers(0, 8, n)
    for i, centre in enumerate(centres):
        rows[which == i] = centre
    return rows


MIXED = (2, 3, 2, 5, 2, 2, 40, 3, 2, 7, 2)


@pytest.mark.parametrize("notion", ["pure", "cdp"])
@pytest.mark.parametrize("least_cells", [100, 1500, 1 << 22])
@pytest.mark.parametrize(
    ("leaf_cells", "fan_out", "free_cells"), [(2, 2, 1), (8, 2, 8), (30, 3, 4), (8, 4, 1), (4, 8, 40), (400, 2, 1)]
)
def test_lists_of_all_nodes(
    notion: str, least_cells: int, leaf_cells: int, fan_out: int, free_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every route to count: all candidates at once, pairs of neighbours first, blocks, several windows."""
    take_small_steps(monkeypatch, least_cells)
    rows = rows_with_clusters(MIXED, 900, seed=leaf_cells + fan_out)
    tree = Tree.build(MIXED, leaf_cells, fan_out, free_cells)
    for memory in (0, 1 << 24):  # the rows read for every pass, and packed
        check_against_brute_force(table_of(rows, MIXED), rows, settings_of(notion, tree, 25, 6, SILENT, memory=memory))
        check_against_brute_force(table_of(rows, MIXED), rows, settings_of(notion, tree, 1, 1, SILENT, memory=memory))


@pytest.mark.parametrize("engine", ["arrow", "parquet"])
@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_other_engines(engine: str, notion: str, tmp_path: Path) -> None:
    rows = rows_with_clusters(MIXED, 700, seed=3)
    columns = pa.table({f"a{j}": rows[:, j] for j in range(len(MIXED))})
    if engine == "parquet":
        pq.write_table(columns, tmp_path / "t.parquet", row_group_size=100)
    table = open_table(columns if engine == "arrow" else tmp_path / "t.parquet", schema_of(MIXED))
    for memory in (0, 1 << 24):
        settings = settings_of(notion, Tree.build(MIXED, 8, 3, 4), 20, 5, SILENT, memory=memory)
        check_against_brute_force(table, rows, settings)


@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_one_row_rows_all_alike_and_one_attribute(notion: str) -> None:
    for rows in (np.array([[1, 2, 0, 4, 1]]), np.tile([[1, 2, 0, 4, 1]], (300, 1))):
        sizes = (2, 3, 2, 5, 2)
        for leaf_cells, fan_out in ((2, 2), (6, 2), (1000, 2), (2, 5)):
            settings = settings_of(notion, Tree.build(sizes, leaf_cells, fan_out, 2), 3, 3, SILENT)
            check_against_brute_force(table_of(rows, sizes), rows, settings)
    rows = np.arange(30)[:, None] // 4
    check_against_brute_force(
        table_of(rows, (10**7,)), rows, settings_of(notion, Tree.build((10**7,), 2, 2, 1), 1, 1, SILENT)
    )


@pytest.mark.parametrize("notion", ["pure", "cdp"])
@pytest.mark.parametrize("fan_out", [2, 3, 5, 8])
def test_three_hundred_attributes(notion: str, fan_out: int) -> None:
    sizes = tuple(2 + (j % 3 == 0) for j in range(300))
    rows = rows_with_clusters(sizes, 4000, seed=1)
    settings = settings_of(notion, Tree.build(sizes, 64, fan_out, 64), 150, 33, 1.0)
    found = find(table_of(rows, sizes), names_of(sizes), settings, NoiseSource.seeded(2))
    counts = Counter(map(tuple, rows.tolist()))
    heavy = {string for string, f in counts.items() if f > 400}
    assert len(heavy) == 4 and heavy <= set(map(tuple, found.strings.tolist()))
    for string, count in zip(found.strings.tolist(), found.counts.tolist(), strict=True):
        assert abs(count - counts[tuple(string)]) < 12 or notion == "cdp"


def law_of_lists(rows: np.ndarray, settings: Settings) -> dict[object, float]:
    """P(all lists), for a tree of leaves and a root, by going through all sets."""

    def chance(f: int, level: Level) -> float:
        if settings.notion == "pure":
            least = 1 - max(f - level.threshold, -settings.mu)
            q = math.exp(-1 / level.scale)
            return (
                math.exp(-least / level.scale) / (1 + q)
                if least > 0
                else 1 - math.exp((least - 1) / level.scale) / (1 + q)
            )
        x = np.arange(-400, 401).astype(float)
        weights = np.exp(-(x**2) / (2 * level.scale**2))
        return float(weights[x > level.threshold - f].sum() / weights.sum())

    def sets(node: int, candidates: list[tuple[int, ...]]) -> list[tuple[tuple[tuple[int, ...], ...], float]]:
        of, level = settings.tree.nodes[node], settings.level_of(settings.tree.nodes[node])
        counts = Counter(map(tuple, rows[:, list(of.attributes)].tolist()))
        chances = [chance(counts[c], level) for c in candidates]
        return [
            (
                tuple(c for c, b in zip(candidates, bits, strict=True) if b),
                math.prod(p if b else 1 - p for p, b in zip(chances, bits, strict=True)),
            )
            for bits in itertools.product((0, 1), repeat=len(candidates))
        ]

    law: dict[object, float] = {}
    leaves = [sets(i, [(v,) for v in range(size)]) for i, size in enumerate(settings.tree.sizes)]
    for chosen in itertools.product(*leaves):
        candidates = [sum(parts, ()) for parts in itertools.product(*(strings for strings, _ in chosen))]
        for root, p in sets(len(leaves), candidates):
            law[(*(strings for strings, _ in chosen), root)] = math.prod(q for _, q in chosen) * p
    return law


@pytest.mark.parametrize("least_cells", [2, 1 << 22])
@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_the_law_of_all_lists(notion: str, least_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    take_small_steps(monkeypatch, least_cells)
    rows = np.array([[0, 0]] * 5 + [[0, 1]] * 2 + [[1, 0]] + [[1, 2]])
    tree = Tree.build((2, 3), 1, 2, 1)
    settings = settings_of(notion, tree, 3, 1, 1.5)
    law = law_of_lists(rows, settings)
    assert sum(law.values()) == pytest.approx(1)
    table, noise, runs = table_of(rows, (2, 3)), NoiseSource.seeded(4), 800
    seen = Counter()
    for _ in range(runs):
        found = find(table, names_of((2, 3)), settings, noise)
        seen[tuple(tuple(map(tuple, found.strings_of(i).tolist())) for i in range(3))] += 1
    assert set(seen) <= set(law)
    likely = [lists for lists in law if law[lists] * runs >= 5]
    observed = np.array([*(seen[lists] for lists in likely), 0])
    expected = np.array([*(law[lists] * runs for lists in likely), 0])
    observed[-1], expected[-1] = runs - observed.sum(), runs - expected.sum()
    assert stats.chisquare(observed, expected).pvalue > 1e-4


@pytest.mark.parametrize("least_cells", [4, 1 << 22])
def test_every_listed_string_is_counted_whoever_it_is(least_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pure: false strings were let in without being counted, but their released count is theirs."""
    take_small_steps(monkeypatch, least_cells)
    sizes = (4, 4, 4, 4)
    rows = rows_with_clusters(sizes, 300, seed=9)
    counts = Counter(map(tuple, rows.tolist()))
    settings = settings_of("pure", Tree.build(sizes, 4, 2, 1), 12, 6, 3.0)
    few = 0
    for seed in range(20):
        found = find(table_of(rows, sizes), names_of(sizes), settings, NoiseSource.seeded(seed))
        exact = [counts[tuple(s)] for s in found.strings.tolist()]
        assert found.counts.tolist() == exact
        few += sum(0 < f <= 12 for f in exact)
    assert few > 0


@pytest.mark.parametrize("least_cells", [4, 1 << 22])
def test_concentrated_counts_are_those_that_passed(least_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    take_small_steps(monkeypatch, least_cells)
    sizes = (4, 4, 4, 4)
    rows = rows_with_clusters(sizes, 300, seed=9)
    settings = settings_of("cdp", Tree.build(sizes, 4, 2, 1), 12, 0, 4.0)
    counts = Counter(map(tuple, rows.tolist()))
    errors = []
    for seed in range(60):
        found = find(table_of(rows, sizes), names_of(sizes), settings, NoiseSource.seeded(seed))
        assert (found.counts > 12).all()
        truth = np.array([counts[tuple(s)] for s in found.strings.tolist()])
        errors.extend((found.counts - truth)[truth > 30].tolist())
    assert len(errors) >= 100 and stats.kstest(np.array(errors) + 0.5, "norm", (0.5, 4.0)).pvalue > 1e-6
    assert 3.3 < np.std(errors) < 4.7


@pytest.mark.parametrize("fan_out", [8, 9])
@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_more_candidates_than_64_bits_count(notion: str, fan_out: int) -> None:
    """Eight or nine free leaves of 256 values: 2⁶⁴ or 2⁷² candidates at the root."""
    sizes = (256,) * fan_out
    rows = np.tile(np.arange(fan_out), (50, 1))
    bits = 8 * fan_out
    if notion == "pure":
        scale = 2.0
        mu = math.floor(scale * (bits * math.log(2) - math.log(4 * (1 + math.exp(-1 / scale)))))  # four expected
        expected = 2.0**bits * math.exp(-(mu + 1) / scale) / (1 + math.exp(-1 / scale))
        tau = mu
    else:
        scale, mu = 10.0, 0
        x = np.arange(2000).astype(float)
        weights = np.exp(-(x**2) / 200)
        tails = weights[::-1].cumsum()[::-1] / (2 * weights.sum() - 1)
        tau = int(np.argmax(tails * 2.0**bits < 5)) - 1
        expected = float(tails[tau + 1] * 2.0**bits)
        rows = np.tile(np.arange(fan_out), (300, 1))
    settings = settings_of(notion, Tree.build(sizes, 256, fan_out, 256), tau, mu, scale)
    table, false = table_of(rows, sizes), []
    for seed in range(25):
        found = find(table, names_of(sizes), settings, NoiseSource.seeded(seed))
        strings = found.strings.tolist()
        assert strings == sorted(strings)
        false.extend(s for s in strings if s != list(range(fan_out)))
        assert (len(strings) > len([s for s in strings if s != list(range(fan_out))])) or notion == "pure"
    assert abs(len(false) - 25 * expected) < 5 * math.sqrt(25 * expected)
    assert stats.kstest(np.array(false).ravel() / 256 + 1 / 512, "uniform").pvalue > 1e-4


def test_one_pass_a_level_or_one_in_all() -> None:
    class Counting(CodedTable):
        passes = 0

        def fold(self, kernel, progress=None):
            self.passes += 1
            return super().fold(kernel, progress)

    sizes = (2,) * 64
    rows = rows_with_clusters(sizes, 2000, seed=5)
    for notion in ("pure", "cdp"):
        table = Counting(schema_of(sizes), {f"a{j}": rows[:, j] for j in range(64)})
        settings = settings_of(notion, Tree.build(sizes, 16, 2, 1), 60, 15, 2.0)
        table.one_process = False  # rows cannot be kept
        find(table, names_of(sizes), settings, NoiseSource.seeded(1))
        assert table.passes == len(settings.tree.levels)
        table.one_process = True
        find(table, names_of(sizes), settings, NoiseSource.seeded(1))
        assert table.passes == len(settings.tree.levels) + 1


def test_a_list_that_is_too_long_is_cut_by_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LONGEST", 3)
    monkeypatch.setattr(search, "check", lambda *_: None)
    sizes = (8,)
    rows = np.repeat(np.arange(8), [50, 40, 30, 20, 19, 18, 17, 16])[:, None]
    kept = Counter()
    for seed in range(300):
        found = find(
            table_of(rows, sizes),
            names_of(sizes),
            settings_of("cdp", Tree.build(sizes, 8, 2, 1), 5, 0, 0.5),
            NoiseSource.seeded(seed),
        )
        assert len(found.counts) == 3
        kept.update(found.strings[:, 0].tolist())
    assert stats.chisquare([kept[v] for v in range(8)]).pvalue > 1e-4


def test_too_many_passing_is_bounded_and_never_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_DRAWN", 20)
    sizes = (8, 8, 8, 8)
    rows = rows_with_clusters(sizes, 200, seed=2)
    settings = settings_of("pure", Tree.build(sizes, 8, 2, 1), 1, 1, 10.0)
    monkeypatch.setattr(search, "check", lambda *_: None)
    found = find(table_of(rows, sizes), names_of(sizes), settings, NoiseSource.seeded(1))
    for position in range(4, 7):
        assert len(found.lists[position]) <= 20 + 40


@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_nothing_is_found_where_nothing_is_frequent(notion: str) -> None:
    sizes = (2,) * 30
    rows = np.random.default_rng(0).integers(0, 2, (500, 30))
    settings = settings_of(notion, Tree.build(sizes, 4, 3, 1), 400, 30, 1.0)
    found = find(table_of(rows, sizes), names_of(sizes), settings, NoiseSource.seeded(1))
    assert found.strings.shape == (0, 30) and found.counts.shape == (0,)
    assert all(len(rows) == 0 for rows in found.lists)


def test_what_cannot_be_run_is_refused_before_a_row_is_read() -> None:
    table = Unread(schema_of((2, 3)), {"a0": [0], "a1": [1]})
    noise = NoiseSource.seeded(0)
    tree = Tree.build((2, 3), 2, 2, 1)
    with pytest.raises(MechanismError, match="other attributes"):
        find(table, ["a1", "a0"], settings_of("pure", tree, 3, 3, 1.0), noise)
    with pytest.raises(MechanismError, match="which counts"):
        find(table, ["a0", "a1"], Settings("cdp", tree, 0, (Level(1, 1.0),) * 2, 1.0, 1, 1, 1, 0.1, 1.0, 1), noise)
    for scale in (1e-7, 1e7):
        with pytest.raises(MechanismError, match=r"noise"):
            find(table, ["a0", "a1"], settings_of("cdp", tree, 3, 0, scale), noise)
    wide = schema_of((10**5, 10**5))
    table = Unread(wide, {"a0": [0], "a1": [1]})
    with pytest.raises(DomainTooLarge):
        find(table, ["a0", "a1"], settings_of("pure", Tree.build((10**5, 10**5), 1, 2, 10**5), 1, 1, 1.0), noise)


def test_progress_is_told() -> None:
    told = []
    table = table_of(np.zeros((5, 4), int), (2,) * 4)
    table.working = lambda *what: told.append(what)
    settings = settings_of("cdp", Tree.build((2,) * 4, 2, 2, 2), 2, 0, 1.0)
    find(table, names_of((2,) * 4), settings, NoiseSource.seeded(0))
    assert told == [("level", i, 3) for i in range(4)]


class Unread(CodedTable):
    def fold(self, kernel, progress=None):
        raise AssertionError


@pytest.mark.parametrize(
    ("notion", "tau", "mu", "scale"), [("cdp", 0, 0, 50.0), ("cdp", 2, 0, 2.0), ("pure", 1, 1, 10.0)]
)
def test_settings_whose_lists_might_explode_are_refused_before_a_row_is_read(
    notion: str, tau: int, mu: int, scale: float
) -> None:
    sizes = (2,) * 64
    table = Unread(schema_of(sizes), {f"a{j}": [0] for j in range(64)})
    settings = settings_of(notion, Tree.build(sizes, 256, 2, 256), tau, mu, scale)
    with pytest.raises(MechanismError, match="too long"):
        find(table, names_of(sizes), settings, NoiseSource.seeded(0))
    search.check(settings, sizes)  # whether they do depends on the number of rows, too


def test_lists_beyond_a_stated_memory_are_refused() -> None:
    sizes = (2,) * 64
    settings = plan(sizes, 0.5, 10_000, notion="cdp")
    search.check(settings, sizes, 10_000)
    with pytest.raises(MechanismError, match="too long"):
        search.check(settings, sizes, 10_000, memory=1000)
    small = plan(sizes, 0.5, 10_000, notion="cdp", memory=1 << 20)
    assert small.memory <= 1 << 20
    search.check(small, sizes, 10_000, memory=1 << 20)
    assert search.cells_at_once(small) * search.CELL_BYTES <= 1 << 20


@pytest.mark.parametrize("notion", ["pure", "cdp"])
@pytest.mark.parametrize("sizes", [(2,), (1,), (2, 2), (1, 1), (1, 7, 1), (10**7,), (10**7, 3), (3, 10**7, 1, 10**7)])
@pytest.mark.parametrize("n", [40, 2000])
def test_plans_for_few_attributes_and_rows_all_alike(notion: str, sizes: tuple[int, ...], n: int) -> None:
    table = CodedTable(schema_of(sizes), {f"a{j}": np.full(n, size - 1) for j, size in enumerate(sizes)})
    settings = plan(sizes, 1.0 if n > 40 else 8.0, n, notion=notion)
    found = find(table, names_of(sizes), settings, NoiseSource.seeded(0))
    strings = [tuple(string) for string in found.strings.tolist()]
    place = strings.index(tuple(size - 1 for size in sizes))
    assert abs(int(found.counts[place]) - n) <= settings.count_error


def test_one_row_is_found_or_refused() -> None:
    table = CodedTable(schema_of((2, 3)), {"a0": [1], "a1": [2]})
    found = find(table, ["a0", "a1"], plan((2, 3), 1000.0, 1, notion="cdp"), NoiseSource.seeded(0))
    assert [1, 2] in found.strings.tolist()
    with pytest.raises(ValueError, match="Nothing can be certified"):
        plan((2, 3), 1000.0, 1, notion="pure")  # a count of one is never above a threshold of one


@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_a_table_without_rows_has_only_false_strings(notion: str) -> None:
    class Empty(Counts):
        n = 0
        schema = schema_of((3, 4))

        def fold(self, kernel: Any, progress: Any = None) -> Any:
            raise AssertionError("there is nothing to read")

    settings = settings_of(notion, Tree.build((3, 4), 1, 2, 1), 1, 1, 4.0)
    lengths = [len(find(Empty(), ["a0", "a1"], settings, NoiseSource.seeded(i)).counts) for i in range(50)]
    assert sum(lengths) > 0 and max(lengths) <= 12
