"""How good synthetic rows are, measured against the real table, for its owner only.

Reads every row of both tables, as counts; spends nothing, and nothing in the result is protected: it may not be
published. How each figure is defined is said where it is computed, and in docs/evaluate.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nabladp.arrays import Floats, Integers
from nabladp.checks import is_whole
from nabladp.errors import DataError, MechanismError, MissingPart, SchemaError
from nabladp.mechanisms.synthesis.workload import forbidden
from nabladp.noise import NoiseSource
from nabladp.release.comparison import NOTICE
from nabladp.schema import Attribute, Schema
from nabladp.tables import Finding, Kernel, Marginals, Table, check_table, coded_numbers, column_types, open_table

BINS = 20  # of a column of more numbers, with equal shares of the real rows, as SDNist has them
MOST_SETS = 20_000
MOST_CELLS = 1 << 26  # counted in one pass
SAMPLED = 20_000  # rows of each table, spread evenly, that classifiers learn from
MOST_CLASSES = 20
_LEVELS = 1 << 12  # of a number in a correlation


@dataclass(frozen=True)
class Distance:
    """How far the synthetic rows are from the table on some columns: a share of all rows (total variation)."""

    attributes: tuple[str, ...]
    distance: float
    ordered: float | None = None  # the largest difference of shares up to a number (Kolmogorov–Smirnov)


@dataclass(frozen=True)
class Correlation:
    """Pearson's correlation of two columns of numbers, over the rows where both are known."""

    attributes: tuple[str, str]
    real: float
    synthetic: float


@dataclass(frozen=True)
class Broken:
    """A declaration, and the number of rows that break it; None where they were not counted."""

    declaration: str
    real: int | None
    synthetic: int | None


@dataclass(frozen=True)
class Transfer:
    """The share of held-out real rows whose ``target`` a classifier predicts, learnt from each table."""

    target: str
    real: float
    synthetic: float
    most_common: float


@dataclass(frozen=True)
class Evaluation:
    """What ``evaluate`` found. Exact statistics about people: never publish any of it."""

    real_rows: int
    synthetic_rows: int
    columns: tuple[str, ...]
    width: int
    marginals: tuple[Distance, ...]
    univariate: tuple[Distance, ...]
    correlations: tuple[Correlation, ...]
    broken: tuple[Broken, ...]
    propensity: float | None
    transfer: Transfer | None

    @property
    def score(self) -> float:
        """The k-marginal score, 0 to 1000, as NIST's SDNist defines it: 1000 · (1 − mean total variation)."""
        return 1000 * (1 - math.fsum(each.distance for each in self.marginals) / len(self.marginals))

    @property
    def correlation_difference(self) -> float | None:
        """The mean absolute difference of the correlations; None where there are not two columns of numbers."""
        apart = [abs(each.synthetic - each.real) for each in self.correlations]
        return math.fsum(apart) / len(apart) if apart else None

    def to_json(self) -> dict[str, Any]:
        worst = sorted(self.marginals, key=lambda each: -each.distance)[:100]
        return {
            "notice": NOTICE,
            "rows": {"real": self.real_rows, "synthetic": self.synthetic_rows},
            "columns": list(self.columns),
            "k_marginal": {
                "score": self.score,
                "k": self.width,
                "marginals": len(self.marginals),
                "worst": [asdict(each) for each in worst],
            },
            "univariate": [asdict(each) for each in self.univariate],
            "correlation_difference": self.correlation_difference,
            "correlations": [asdict(each) for each in self.correlations],
            "propensity": self.propensity,
            "transfer": None if self.transfer is None else asdict(self.transfer),
            "broken": [asdict(each) for each in self.broken],
        }


def evaluate(
    real: Any,
    synthetic: Any,
    schema: Schema | str | Path,
    *,
    width: int = 2,
    target: str | None = None,
    zeros: Sequence[Mapping[str, Any]] = (),
    models: bool = True,
) -> Evaluation:
    """Evaluate synthetic rows against the real table: for its owner alone, since the result is not private.

    Columns of the schema that the synthetic rows do not have are left out. ``width`` is the k of k-marginals.
    ``target`` is a column to be predicted, ``zeros`` are declared as for Synthesis. ``models=False`` leaves out what
    needs scikit-learn: propensity and prediction.
    """
    declared = schema if isinstance(schema, Schema) else Schema.load(schema)
    own = _common(declared, synthetic)
    if not is_whole(width, 1, 3) or width > len(own):
        raise DataError(f"There are no {width}-way marginals here.", fix=f"Give a width from 1 to {min(3, len(own))}.")
    sets = list(combinations(own.names, width))
    if len(sets) > MOST_SETS:
        raise DataError(
            f"All {width}-way marginals of {len(own)} columns are {len(sets):,}; the limit is {MOST_SETS:,}.",
            fix="Lower the width, or give a schema with fewer columns.",
        )
    _check_target(own, target, models)
    tables = open_table(real, own), open_table(synthetic, own)
    findings = _findings(tables)
    plain = Schema(tuple(replace(a, derived_from=(), formula="", public=False) for a in own))
    readable = open_table(real, plain), open_table(synthetic, _lenient(plain))
    singles = [list(table.marginals([(name,) for name in own.names])) for table in readable]
    singles[1] = [_fit(plain[name], counts) for name, counts in zip(own.names, singles[1], strict=True)]
    maps = [_cells_of(attribute, counts) for attribute, counts in zip(plain, singles[0], strict=True)]
    rows = readable[0].n, readable[1].n
    transfer = propensity = None
    if models:
        samples = [_sample_rows(table, own.names) for table in readable]
        propensity = _propensity(samples[0], samples[1])
        transfer = None if target is None else _transfer(samples[0], samples[1], own, target)
    return Evaluation(
        *rows,
        columns=own.names,
        width=width,
        marginals=tuple(_distances(readable, sets, dict(zip(own.names, maps, strict=True)))),
        univariate=tuple(
            Distance((a.name,), *_apart(a, x / rows[0], y / rows[1])) for a, x, y in zip(plain, *singles, strict=True)
        ),
        correlations=tuple(_correlations(readable, plain)),
        broken=(*_broken_declarations(findings), *_zeros_met(readable, plain, zeros)),
        propensity=propensity,
        transfer=transfer,
    )


# ---- what is compared ------------------------------------------------------------------------------------------------


def _common(schema: Schema, synthetic: Any) -> Schema:
    """The schema of the columns that the synthetic rows have."""
    present = {name for name, _ in column_types(synthetic)}
    kept = [attribute for attribute in schema if attribute.name in present]
    if not kept:
        raise DataError(
            "The synthetic rows have no column of the schema.", fix="Give the schema that they were made with."
        )
    names = {attribute.name for attribute in kept}
    whole = [a if set(a.derived_from) <= names else replace(a, derived_from=(), formula="") for a in kept]
    rules = dict.fromkeys(rule.text for rule in schema.inequalities if set(rule.names) <= names)
    return Schema(tuple(whole), tuple(rules))


def _check_target(schema: Schema, target: str | None, models: bool) -> None:
    if target is not None and schema[target].size > MOST_CLASSES:
        raise DataError(
            f"{target!r} has {schema[target].size:,} values, too many to be predicted; the limit is {MOST_CLASSES}.",
            fix="Choose a column of categories, or declare bins.",
        )
    if models:
        try:
            import sklearn  # type: ignore[import-untyped]  # noqa: F401
        except ImportError:
            fix = "Install nabladp[learn], or leave models out: --no-models, models=False."
            raise MissingPart("Propensity and prediction need scikit-learn.", fix=fix) from None


def _lenient(schema: Schema) -> Schema:
    """Synthetic numbers that stand for "another one" are empty: they are read as such, whatever the schema says."""
    return Schema(
        tuple(
            replace(a, null="category") if a.other_code is not None and a.null_code is None and not _is_text(a) else a
            for a in schema
        )
    )


def _is_text(attribute: Attribute) -> bool:
    return bool(attribute.values) and isinstance(attribute.values[0], str)


def _fit(attribute: Attribute, counts: Integers) -> Integers:
    """Counts of synthetic rows on the real table's values: an empty field that it does not have is "other"."""
    extra = counts[attribute.size :].sum()
    kept = counts[: attribute.size].copy()
    if extra:
        kept[-1] += extra
    return kept


def _findings(tables: tuple[Table, Table]) -> list[list[Finding]]:
    found = [check_table(table) for table in tables]
    for what, listed in zip(("real table", "synthetic rows"), found, strict=True):
        for finding in listed:
            if not finding.between and finding.rows and "empty" not in finding.rule:
                raise DataError(
                    f"Column {finding.column!r} of the {what} {finding.rule}.", fix=finding.fix, column=finding.column
                )
    return found


# ---- marginals -------------------------------------------------------------------------------------------------------


def _cells_of(attribute: Attribute, counts: Integers) -> Integers:
    """For each code the cell it is counted in: itself, or for many numbers one of BINS bins, by the mean rank of a
    number among the real rows; null and other by themselves. There is one more for a field that only synthetic rows
    leave empty."""
    size, ordered = attribute.size, attribute.ordered_size
    if attribute.kind not in ("integer", "real") or ordered <= BINS:
        return np.asarray(np.r_[np.arange(size), size - 1], np.int64)
    known = counts[:ordered]
    ranks = np.cumsum(known) - (known - 1) / 2
    bins = np.minimum((BINS * (ranks / max(int(known.sum()), 1))).astype(np.int64), BINS - 1)
    occurring = np.flatnonzero(known)
    if len(occurring):  # a number that no real row has belongs to the next one that some have
        bins = bins[occurring[np.minimum(np.searchsorted(occurring, np.arange(ordered)), len(occurring) - 1)]]
    extra = np.minimum(np.arange(size - ordered + 1), max(size - ordered - 1, 0))
    return np.asarray(np.r_[bins, BINS + extra], np.int64)


class _Cells(Kernel):
    """Marginals of columns whose codes are mapped to fewer cells."""

    def __init__(self, maps: Mapping[str, Integers], sets: Sequence[tuple[str, ...]]) -> None:
        self.maps = {name: maps[name] for name in dict.fromkeys(name for names in sets for name in names)}
        sizes = {name: int(own.max()) + 1 for name, own in self.maps.items()}
        coarse = Schema(tuple(Attribute(name, "integer", low=0, high=size - 1) for name, size in sizes.items()))
        self.marginals = Marginals(coarse, sets)
        self.attributes = tuple(self.maps)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        return self.marginals(self._map_codes(batch))

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        self.marginals.add_to(total, self._map_codes(batch))

    def _map_codes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [pa.array(own[batch.column(name).to_numpy()].astype(np.uint32)) for name, own in self.maps.items()]
        return pa.RecordBatch.from_arrays(columns, names=list(self.maps))


def _distances(
    tables: tuple[Table, Table], sets: Sequence[tuple[str, ...]], maps: Mapping[str, Integers]
) -> Iterator[Distance]:
    sizes = {name: int(own.max()) + 1 for name, own in maps.items()}
    start = 0
    while start < len(sets):
        end, cells = start, 0
        while end < len(sets) and (end == start or cells + math.prod(sizes[n] for n in sets[end]) <= MOST_CELLS):
            cells += math.prod(sizes[n] for n in sets[end])
            end += 1
        kernel = _Cells(maps, sets[start:end])
        both = [kernel.marginals.split(table.fold(kernel)) for table in tables]
        for names, x, y in zip(sets[start:end], *both, strict=True):
            yield Distance(names, _variation(x / tables[0].n, y / tables[1].n))
        start = end


def _variation(one: Floats, other: Floats) -> float:
    return float(np.abs(one - other).sum()) / 2


def _apart(attribute: Attribute, one: Floats, other: Floats) -> tuple[float, float | None]:
    ordered = None
    if attribute.is_ordered:
        known = slice(0, attribute.ordered_size)
        ordered = float(np.abs(np.cumsum(one[known]) - np.cumsum(other[known])).max())
    return _variation(one, other), ordered


# ---- correlations ----------------------------------------------------------------------------------------------------


class _Moments(Kernel):
    """Sums over rows where both of two numbers are known: of 1, of the first, of its square, of the product. Numbers
    are rounded to one of 4,096 levels of their range, so that sums are whole and exact."""

    def __init__(self, levels: Mapping[str, Floats]) -> None:
        self.levels, self.attributes = dict(levels), tuple(levels)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        numbers = np.stack([own[batch.column(name).to_numpy()] for name, own in self.levels.items()])
        known = (~np.isnan(numbers)).astype(np.float64)
        x = np.nan_to_num(numbers)
        sums = np.stack([known @ known.T, x @ known.T, (x * x) @ known.T, x @ x.T])  # below 2^53: exact
        return np.asarray(np.rint(sums), np.int64)


def _correlations(tables: tuple[Table, Table], schema: Schema) -> Iterator[Correlation]:
    chosen = [attribute for attribute in schema if attribute.is_numeric and attribute.ordered_size > 1]
    if len(chosen) < 2:
        return
    kernel = _Moments({attribute.name: _levels(attribute) for attribute in chosen})
    real, synthetic = (_pearson(table.fold(kernel).astype(np.float64)) for table in tables)
    for (i, a), (j, b) in combinations(enumerate(chosen), 2):
        pair = float(real[i, j]), float(synthetic[i, j])
        if all(map(math.isfinite, pair)):
            yield Correlation((a.name, b.name), *pair)


def _levels(attribute: Attribute) -> Floats:
    numbers = coded_numbers(attribute, np.arange(attribute.ordered_size))
    levels = np.rint((numbers - numbers.min()) / (numbers.max() - numbers.min()) * _LEVELS)
    return np.append(levels, [math.nan] * (attribute.size - attribute.ordered_size + 1))


def _pearson(sums: Floats) -> Floats:
    n, x, squares, products = sums
    with np.errstate(all="ignore"):
        spread = np.sqrt(squares / n - (x / n) ** 2)
        return np.asarray((products / n - x / n * x.T / n) / (spread * spread.T))


# ---- classifiers -----------------------------------------------------------------------------------------------------


class _Rows(Kernel):
    """Codes of some rows, every so many of the table, as one array."""

    by_row_index = True

    def __init__(self, names: Sequence[str], rows: int) -> None:
        self.names = self.attributes = tuple(names)
        self.step = max(1, math.ceil(rows / SAMPLED))
        self.kept = math.ceil(rows / self.step)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        return self.at(batch, 0)

    def at(self, batch: pa.RecordBatch, first: int) -> Integers:
        result = np.zeros((self.kept, len(self.names)), np.int64)
        chosen = np.arange(-first % self.step, batch.num_rows, self.step)
        for i, name in enumerate(self.names):
            result[(first + chosen) // self.step, i] = batch.column(name).to_numpy()[chosen]
        return result


def _sample_rows(table: Table, names: Sequence[str]) -> Integers:
    """Some rows, in an order that has nothing to do with the table's."""
    rows = table.fold(_Rows(names, table.n))
    return rows[np.argsort(NoiseSource.seeded(0).uniform_integers(1 << 53, len(rows)))]


def _propensity(real: Integers, synthetic: Integers) -> float:
    """How well a decision tree of depth 6 tells both kinds of rows apart (pMSE, as SDNist has it): the mean squared
    difference of its probabilities from the share of synthetic rows; 0 if it cannot tell, 0.25 if it always can."""
    from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped]

    rows = np.concatenate([real, synthetic])
    kind = np.r_[np.zeros(len(real)), np.ones(len(synthetic))]
    tree = DecisionTreeClassifier(max_depth=6, random_state=0).fit(rows, kind)
    return float(np.mean((tree.predict_proba(rows)[:, 1] - kind.mean()) ** 2))


def _transfer(real: Integers, synthetic: Integers, schema: Schema, target: str) -> Transfer:
    """Half of the real rows are held out; one classifier learns from the other half, one from as many synthetic
    rows."""
    at = schema.names.index(target)
    half = len(real) // 2
    train, test = real[:half], real[half:]
    if len(np.unique(train[:, at])) < 2 or len(np.unique(synthetic[:half, at])) < 2:
        raise DataError(f"Too few rows, or all have one value of {target!r}.", fix="Choose another target.")
    common = np.bincount(test[:, at]).max() / len(test)
    from_real, from_synthetic = (_accuracy(rows, test, schema, at) for rows in (train, synthetic[:half]))
    return Transfer(target, from_real, from_synthetic, float(common))


def _accuracy(rows: Integers, test: Integers, schema: Schema, at: int) -> float:
    from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]

    model = RandomForestClassifier(50, min_samples_leaf=5, random_state=0)
    features = [i for i in range(len(schema)) if i != at]
    model.fit(rows[:, features], rows[:, at])
    return float(model.score(test[:, features], test[:, at]))


# ---- declarations ----------------------------------------------------------------------------------------------------


def _broken_declarations(findings: Sequence[Sequence[Finding]]) -> Iterator[Broken]:
    """Rules, formulas and derivations, by what ``nabladp check`` finds in both tables."""
    counts: dict[str, list[int | None]] = {}
    for kind, listed in enumerate(findings):
        for finding in listed:
            if finding.between or "derived" in finding.rule:
                counts.setdefault(f"{finding.column} {finding.rule}", [0, 0])[kind] = finding.rows or None
    yield from (Broken(text, *rows) for text, rows in counts.items())


def _zeros_met(tables: tuple[Table, Table], schema: Schema, zeros: Sequence[Mapping[str, Any]]) -> Iterator[Broken]:
    for declared in zeros:
        if not isinstance(declared, Mapping) or not set(declared) <= set(schema.names):
            raise MechanismError("'zeros' names a column that is not compared.", fix="Leave that declaration out.")
        (zero,) = forbidden(schema, schema.names, [declared])
        rows = [int(table.marginals([zero.attributes])[0][_within(table, zero)].sum()) for table in tables]
        yield Broken("zeros: " + " + ".join(zero.attributes), *rows)


def _within(table: Table, zero: Any) -> Any:
    """The forbidden cells in a table's own domain, which may hold empty fields besides."""
    sizes = table.schema.sizes(zero.attributes)
    padded = np.zeros(sizes, np.bool_)
    padded[tuple(slice(0, size) for size in zero.forbidden.shape)] = zero.forbidden
    return padded


def read_declarations(path: str | Path) -> tuple[Schema, tuple[Mapping[str, Any], ...]]:
    """The schema in a file; of a plan, its schema and the zeros that its releases declare."""
    from nabladp.release.plan import Plan

    try:
        return Schema.load(path), ()
    except SchemaError as error:
        if "This is a plan" not in error.message:
            raise
    plan = Plan.load(path)
    zeros = [zero for _, mechanism in plan.releases for zero in mechanism.zeros]
    return plan.schema, tuple(zeros)
