"""The synthetic table that was handed out beside the truth: its marginals, counted in what was published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.release.comparison.compared import Compared
from nabladp.release.record import Release
from nabladp.schema import Schema
from nabladp.tables import CodedTable, alike, recode

MOST = 40  # marginals shown: those where the drawn rows are worst
FILE = "synthetic.parquet"


def drawn_rows(release: Release, folder: Path | None, truths: Sequence[NDArray[Any]]) -> Iterator[Compared]:
    """Every marginal of the workload in the drawn rows, as counts of as many rows as the table has.

    Nothing where the table is at hand neither in memory nor in the folder.
    """
    output: Any = release.output
    codes = output.codes if output.codes is not None else _read(release, folder)
    if not codes:
        return
    rows = len(next(iter(codes.values())))
    answers = output.answers
    counts = CodedTable(_schema(release.schema, codes), codes).marginals([own.attributes for own in answers])
    found = [
        _merged(release.schema, own.attributes, c) * (release.n / rows) for own, c in zip(answers, counts, strict=True)
    ]
    true = [_merged(release.schema, own.attributes, t) for own, t in zip(answers, truths, strict=True)]
    drawn = np.array([_distance(a, b, release.n) for a, b in zip(found, true, strict=True)])
    told = np.array([_distance(own.counts, t, release.n) for own, t in zip(answers, truths, strict=True)])
    average = (
        f"; averages over {len(answers):,} marginals: {np.average(drawn, weights=output.weights):.3g} and "
        f"{np.average(told, weights=output.weights):.3g}"
    )
    for i in np.sort(np.argsort(-drawn, kind="stable")[:MOST]).tolist():
        yield Compared(
            title=f"{' + '.join(answers[i].attributes)}, drawn rows",
            format="count",
            released=found[i].ravel(),
            truth=true[i].ravel(),
            attributes=tuple(answers[i].attributes),
            predicted=2 * release.n * answers[i].drawn / max(true[i].size, 1),
            summary=f"total variation from the truth: drawn rows {drawn[i]:.3g}, answers {told[i]:.3g}{average}",
        )
        average = ""  # told once


def _read(release: Release, folder: Path | None) -> dict[str, NDArray[Any]]:
    """The codes behind the published file, column by column; that it is the released one was checked by its hash."""
    import pyarrow.parquet as pq

    if folder is None or not (folder / FILE).exists():
        return {}
    names = release.output.columns  # type: ignore[attr-defined]
    columns = {name: pq.read_table(folder / FILE, columns=[name]).column(0).combine_chunks() for name in names}
    return {name: recode(release.schema[name], column) for name, column in columns.items()}


def _schema(schema: Schema, codes: Mapping[str, Any]) -> Schema:
    return Schema(tuple(replace(schema[name], derived_from=()) for name in schema.names if name in codes))


def _merged(schema: Schema, names: Sequence[str], counts: NDArray[Any]) -> Floats:
    """Values that a drawn table does not tell apart (a number's "other" and null) count together."""
    found = counts.astype(np.float64)
    for axis, name in enumerate(names):
        same = alike(schema[name])
        if (same != np.arange(len(same))).any():
            turned = np.moveaxis(found, axis, 0)
            found = np.zeros_like(turned)
            np.add.at(found, same, turned)
            found = np.moveaxis(found, 0, axis)
    return found


def _distance(found: NDArray[Any], true: NDArray[Any], n: int) -> float:
    return float(np.abs(found - true).sum()) / (2 * max(n, 1))
