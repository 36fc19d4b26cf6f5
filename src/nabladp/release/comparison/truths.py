"""What each mechanism's values should have been, had there been no noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nabladp.arrays import Floats
from nabladp.release.comparison.compared import Compared
from nabladp.release.comparison.drawn import drawn_rows
from nabladp.release.comparison.kernels import Agreement, Occurrences
from nabladp.release.layout import Layout, format_of, mean_error, plain
from nabladp.release.record import Release
from nabladp.tables import Table


def truths(release: Release, table: Table, folder: Path | None = None) -> Iterator[Compared]:
    """Nothing where a mechanism's values have no truth to be compared with."""
    if release.mechanism == "Synthesis":
        yield from _synthetic(release, table, folder)
    elif release.mechanism in _TRUTHS:
        yield from _TRUTHS[release.mechanism](release, table)
    else:
        yield from _row_by_row(release, table)


def _row_by_row(release: Release, table: Table) -> Iterator[Compared]:
    """Of an output that can say its values without noise: its table of values beside the same table of the truth."""
    output: Any = release.output
    truth = output.truth(table)
    if truth is None:
        return
    noisy, true = (own.to_arrow(release.schema) for own in (output, truth))
    layout = Layout.of(noisy)
    if layout.value is None:
        return
    named = [[str(plain(value)) for value in noisy.column(place).to_pylist()] for place in layout.names]
    yield Compared(
        title=noisy.column_names[layout.value],
        format=format_of(noisy.schema.field(layout.value).type),
        released=_flat(noisy.column(layout.value)),
        truth=_flat(true.column(layout.value)),
        interval=layout.interval and _both([noisy.column(place) for place in layout.interval]),
        labels=tuple(" · ".join(row) for row in zip(*named, strict=True)) if named else ("",) * noisy.num_rows,
        predicted=mean_error(release.expected_error),
    )


def _marginals(release: Release, table: Table) -> Iterator[Compared]:
    noisy = list(release.output)  # type: ignore[call-overload]
    truths = table.marginals([own.attributes for own in noisy])
    for own, truth, error in zip(noisy, truths, release.expected_error, strict=True):
        yield Compared(
            title=" + ".join(own.attributes),
            format="count",
            released=_flat(own.counts),
            truth=_flat(truth),
            interval=_both(own.interval()),
            attributes=own.attributes,
            predicted=error["mean_absolute"],
        )


def _projected(release: Release, table: Table) -> Iterator[Compared]:
    output: Any = release.output
    shares = output.queries.counts(table) / (output.queries.grids * max(release.n, 1))
    yield from _queries(output, output.answers, shares, _both(output.interval()))


def _fitted(release: Release, table: Table) -> Iterator[Compared]:
    output: Any = release.output
    shares = output.queries.counts(table) / (output.queries.grids * max(release.n, 1))
    yield from _queries(output, output.answers, shares, None)


def _synthetic(release: Release, table: Table, folder: Path | None) -> Iterator[Compared]:
    """Total variation is half the sum of the errors of all cells, as shares. The table handed out comes last."""
    answers: Any = release.output.answers  # type: ignore[attr-defined]
    found = table.marginals([own.attributes for own in answers])
    for answer, truth in zip(answers, found, strict=True):
        yield Compared(
            title=" + ".join(answer.attributes),
            format="count",
            released=_flat(answer.counts),
            truth=_flat(truth),
            interval=_both(answer.interval()),
            attributes=tuple(answer.attributes),
            predicted=2 * release.n * answer.error / max(truth.size, 1),
        )
    yield from drawn_rows(release, folder, found)


def _queries(output: Any, answers: Floats, truth: Floats, interval: tuple[Floats, Floats] | None) -> Iterator[Compared]:
    """Whole marginals each on their own, all other queries in one list."""
    queries = output.queries
    rest: list[int] = []
    for start, group in zip(queries.starts.tolist(), queries.groups, strict=False):
        places = range(start, start + group.count)
        if not group.is_identity:
            rest.extend(places)
            continue
        yield Compared(
            title=" + ".join(group.attributes),
            format="share",
            released=answers[places],
            truth=truth[places],
            interval=interval and (interval[0][places], interval[1][places]),
            attributes=group.attributes,
        )
    if rest:
        texts = tuple(queries.text(place) for place in rest)
        known = interval and (interval[0][rest], interval[1][rest])
        yield Compared("queries", "share", answers[rest], truth[rest], known, labels=texts)


def _heavy(release: Release, table: Table) -> Iterator[Compared]:
    output: Any = release.output
    truth = table.fold(Occurrences(output.names, output.codes)) if len(output.codes) else np.zeros(0)
    yield Compared(
        title="frequent combinations",
        format="count",
        released=_flat(output.counts),
        truth=_flat(truth),
        interval=_both(output.interval()),
        labels=_combinations(release, output),
    )


def _distribution(release: Release, table: Table) -> Iterator[Compared]:
    output: Any = release.output
    truth = table.fold(Occurrences(output.names, output.codes)) if len(output.codes) else np.zeros(0)
    labels = (*_combinations(release, output), "everything else")
    shares = _flat(truth) / max(release.n, 1)
    yield Compared(
        title="probabilities",
        format="share",
        released=np.append(output.probabilities, output.rest),
        truth=np.append(shares, 1 - shares.sum()),
        labels=labels,
    )


def _combinations(release: Release, output: Any) -> tuple[str, ...]:
    schema = release.schema
    return tuple(
        ", ".join(f"{name} = {schema[name].label(code)}" for name, code in zip(output.names, row, strict=True))
        for row in output.codes.tolist()
    )


def _gram(release: Release, table: Table) -> Iterator[Compared]:
    from nabladp.mechanisms.gram_matrix.kernel import Disagreements

    output: Any = release.output
    first, second = np.triu_indices(output.columns.width, 1)
    low, high = output.interval()
    yield Compared(
        title="agreement of columns",
        format="count",
        released=_flat(output.entries),
        truth=_flat(release.n - 2 * table.fold(Disagreements(output.columns))),
        interval=_both((low[first, second], high[first, second])),
        labels=tuple(f"{output.names[i]} with {output.names[j]}" for i, j in zip(first, second, strict=True)),
    )


def _learned(release: Release, table: Table) -> Iterator[Compared]:
    """How often the rule says what the rows say; released is only what was counted on rows held out."""
    output: Any = release.output
    counts = table.fold(Agreement.by(release.mechanism, output))
    rows = np.append(counts.sum(), counts.sum(axis=1))
    shares = np.append(np.trace(counts), np.diag(counts)) / np.maximum(rows, 1)
    names = [f"{output.label} = {release.schema[output.label].label(code)}" for code in (0, 1)]
    accuracy, interval = np.full(3, np.nan), (np.zeros(3), np.ones(3))
    if getattr(output, "holdout", None) is not None:
        accuracy[0] = output.holdout.accuracy
        interval[0][0], interval[1][0] = output.holdout.interval()
    yield Compared(
        title="share of rows predicted right",
        format="share",
        released=accuracy,
        truth=shares,
        interval=interval,
        labels=("all rows", *names),
        summary=f"{100 * shares[0]:.4g}% of all rows are predicted right",
    )


def _flat(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64).ravel()


def _both(interval: Sequence[ArrayLike]) -> tuple[Floats, Floats]:
    low, high = interval
    return _flat(low), _flat(high)


_TRUTHS: dict[str, Callable[[Release, Table], Iterator[Compared]]] = {
    "NoisyMarginals": _marginals,
    "Projection": _projected,
    "MWEM": _fitted,
    "HeavyHitters": _heavy,
    "DistributionEstimate": _distribution,
    "PointLearner": _learned,
    "ThresholdLearner": _learned,
    "HalfspaceLearner": _learned,
    "GramMatrix": _gram,
}
