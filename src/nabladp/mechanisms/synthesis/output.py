"""What Synthesis returns: a fitted model to draw tables from, answers with their predicted errors, what was measured.

Everything here is made from published numbers: it never sees the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.checks import as_path, damaged, is_whole, read_file
from nabladp.errors import MechanismError, ReleaseError, SourceError
from nabladp.mechanisms.mechanism import Output, ReleaseContext
from nabladp.mechanisms.output_tables import BinPositions, draw_bin_positions
from nabladp.mechanisms.synthesis.inference import Model, Pooled, pool
from nabladp.mechanisms.synthesis.rounds import Noisy
from nabladp.mechanisms.synthesis.view import (
    Answer,
    answer_view,
    compare_answers,
    compare_drawn,
    measured_view,
    quality_view,
)
from nabladp.mechanisms.synthesis.workload import Names
from nabladp.noise import NoiseSource
from nabladp.schema import Schema
from nabladp.views.compared import Compared
from nabladp.views.tables import synthetic_preview
from nabladp.views.view import View

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts


# ---- derived columns of synthetic rows -------------------------------------------------------------------------------
# In the model a derived column is one noisy column among others. Where it was measured together with all of its
# sources, the model also tells its likeliest value for each of theirs; drawn rows get that one. All of this reads the
# released model only.

Codes = Mapping[str, NDArray[Any]]
MOST_CELLS = 1 << 20  # of a column with its sources: beyond, it stays as the model draws it


@dataclass(frozen=True, eq=False)
class Function:
    """The likeliest code of a derived column for every cell of its sources."""

    sources: Names
    sizes: tuple[int, ...]
    values: NDArray[Any]

    def __call__(self, codes: Codes) -> NDArray[Any]:
        cell = np.zeros(len(codes[self.sources[0]]), np.int64)
        for name, size in zip(self.sources, self.sizes, strict=True):
            cell = cell * size + codes[name]
        return self.values[cell]


def functions(schema: Schema, model: Model, measured: Iterable[Names]) -> dict[str, Function]:
    """How derived columns follow from their sources in the model: one function for each that was measured with all of
    its sources."""
    tied = [frozenset(names) for names in measured]
    results = {}
    for name, sources in schema.derived.items():
        together = (*sources, name)
        if any(held.issuperset(together) for held in tied) and schema.cells(together) <= MOST_CELLS:
            likeliest = model.marginal(together).reshape(-1, schema[name].size).argmax(axis=1)
            results[name] = Function(sources, schema.sizes(sources), likeliest.astype(np.uint32))
    return results


def recompute_derived(codes: Codes, known: Mapping[str, Function], model: Model) -> dict[str, NDArray[Any]]:
    """Synthetic rows with every derived column recomputed, except where that would make a combination declared
    impossible."""
    results = dict(codes)
    for name, function in known.items():
        drawn, value = results[name], function(results).astype(results[name].dtype)
        for zero in model.zeros:
            if name in zero.attributes:
                rows = results | {name: value}
                value = np.where(zero.forbidden[tuple(rows[own] for own in zero.attributes)], drawn, value)
        results[name] = value
    return results


def expected(model: Model, known: Mapping[str, Function], names: Names, plain: Floats) -> Floats:
    """The expected marginal of synthetic rows: the model's, with derived columns recomputed from their sources."""
    return _followed(model, known, names, plain) if set(known) & set(names) else plain


def _followed(model: Model, known: Mapping[str, Function], names: Names, plain: Floats) -> Floats:
    follow = {name: known[name] for name in names if name in known}
    kept = [name for name in names if name not in follow]
    base = tuple(dict.fromkeys([*kept, *(source for function in follow.values() for source in function.sources)]))
    if math.prod(model.sizes[name] for name in base) > MOST_CELLS:
        return plain
    table = model.marginal(base)
    codes = dict(zip(base, np.indices(table.shape).reshape(len(base), -1), strict=True))
    codes |= {name: function(codes) for name, function in follow.items()}
    cells = np.ravel_multi_index([codes[name] for name in names], plain.shape)
    followed: Floats = np.zeros(plain.size)
    np.add.at(followed, cells, table.ravel())
    return followed.reshape(plain.shape)


# ---- the output ------------------------------------------------------------------------------------------------------

KIND = "nabladp synthetic model"
MOST_ROWS = 1 << 28  # of one table
MOST_BYTES = 1 << 30  # of a saved model


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticModel(Output):
    """A distribution over all columns, fitted to noisy marginals; ``sample`` draws tables from it at no cost."""

    schema: Schema
    n: int
    sets: tuple[Names, ...]  # the workload
    weights: tuple[float, ...]
    model: Model
    measured: tuple[Noisy, ...]
    strategy: str
    why: str
    rounds: int  # made
    rows: int  # of the drawn table
    codes: Mapping[str, NDArray[Any]] | None = None  # of the drawn table; not part of the record
    within: BinPositions | None = None  # and where in their bins its numbers lie

    def __repr__(self) -> str:
        return (
            f"SyntheticModel({len(self.columns)} columns, {len(self.measured):,} noisy marginals, "
            f"{self.rows:,} rows drawn)"
        )

    @property
    def columns(self) -> Names:
        """The columns of the model and of its synthetic tables."""
        return tuple(self.model.sizes)

    # ---- answers --------------------------------------------------------------------------------------------------

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Synthesis's answer to every marginal of the workload."""
        return self._answered(self.sets)

    def __getitem__(self, names: str | tuple[str, ...]) -> Answer:
        """The answer for these columns, in the order asked; in the workload or not."""
        wanted = (names,) if isinstance(names, str) else tuple(names)
        self.schema.sizes(wanted)
        for name in wanted:
            if name not in self.model.sizes:
                raise MechanismError(f"The model does not hold {name!r}.", fix=f"It holds {', '.join(self.columns)}.")
        return self._answered((wanted,))[0]

    def _answered(self, sets: Sequence[Names]) -> tuple[Answer, ...]:
        noisy = [m.measurement for m in self.measured]
        return tuple(self._answer(pooled) for pooled in pool(self.model, noisy, sets))

    def _answer(self, pooled: Pooled) -> Answer:
        """One pooled answer with its predicted errors, also that of the synthetic table, which errs as the model
        does."""
        guess = expected(self.model, self._functions, pooled.attributes, pooled.guess)
        apart = float(np.abs(pooled.values - guess).sum()) / (2 * self.n)
        drawn = min(1.0, math.hypot(pooled.error, apart) + self._rounding(guess))
        return Answer(pooled.attributes, pooled.values, np.sqrt(pooled.variance), pooled.error, drawn)

    def _rounding(self, guess: Floats) -> float:
        """The error of rounding expected counts to whole synthetic rows: less than one row per cell."""
        return float(np.minimum(guess, 0.5).sum()) / (2 * max(self.n, self.rows, 1))

    # ---- tables ---------------------------------------------------------------------------------------------------

    def sample(self, rows: int, noise: NoiseSource | None = None) -> pa.Table:
        """A new synthetic table of ``rows`` rows from the model. Costs nothing: it uses published numbers only."""
        return replace(self, rows=checked_rows(rows)).with_table(noise or NoiseSource()).synthetic

    def with_table(self, noise: NoiseSource) -> SyntheticModel:
        """The synthetic model with a synthetic table of ``rows`` rows sampled from it."""
        codes = recompute_derived(self.model.draw(self.rows, noise), self._functions, self.model)
        return replace(self, codes=codes, within=draw_bin_positions(self.schema, codes, self.rows, noise))

    @cached_property
    def _functions(self) -> dict[str, Function]:
        """How derived columns follow from their sources in synthetic rows."""
        return functions(self.schema, self.model, (m.attributes for m in self.measured))

    @property
    def synthetic(self) -> pa.Table:
        """The synthetic table that was sampled when the release was made."""
        if self.codes is None:
            raise MechanismError(
                "The synthetic table is not part of the record.",
                fix="Read synthetic.parquet, or draw one with sample(rows).",
            )
        from nabladp.tables import decode

        return decode(self.schema, self.codes, self.within)

    def extra_tables(self, schema: Schema) -> dict[str, pa.Table]:
        return {} if self.codes is None else {"synthetic": self.synthetic}

    # ---- quality --------------------------------------------------------------------------------------------------

    @cached_property
    def quality(self) -> dict[str, Any]:
        """The predicted quality of answers and synthetic tables, from noisy measurements only; fit to be published."""
        weights = np.array(self.weights)
        pooled, drawn = np.array([a.error for a in self.answers]), np.array([a.drawn for a in self.answers])
        worst = np.argsort(-drawn, kind="stable")[:10]
        return {
            "strategy": self.strategy,
            "why": self.why,
            "rounds": self.rounds,
            "measured": len(self.measured),
            "converged": self.model.converged,
            "gap": self.model.gap,
            "predicted_error": float(np.average(pooled, weights=weights)),
            "predicted_error_drawn": float(np.average(drawn, weights=weights)),
            "worst": [
                {"attributes": list(self.sets[i]), "answer": float(pooled[i]), "drawn": float(drawn[i])}
                for i in worst.tolist()
            ],
        }

    # ---- showing --------------------------------------------------------------------------------------------------

    def views(self, context: ReleaseContext) -> list[View]:
        """Views of a Synthesis release: answers, measurements beside the model, and the first synthetic rows, where at
        hand."""
        models = self.model.marginals([answer.attributes for answer in self.answers])
        fitted = self.model.marginals([own.attributes for own in self.measured])
        views = [quality_view(self.quality, self.answers)]
        views += [answer_view(self.schema, own, model) for own, model in zip(self.answers, models, strict=True)]
        views += [
            measured_view(self.schema, own, model, self.codes, self.n)
            for own, model in zip(self.measured, fitted, strict=True)
        ]
        return views if self.codes is None else [*views, synthetic_preview(self.synthetic)]

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        """Synthesis's answers and, from memory or from the published file, the synthetic rows beside the true
        counts."""
        truths = counts.marginals([answer.attributes for answer in self.answers])
        yield from compare_answers(self.answers, truths, self.n)
        codes = self._published_codes(context) if self.codes is None else self.codes
        if codes:
            yield from compare_drawn(self.schema, codes, self.answers, self.weights, truths, self.n)

    def _published_codes(self, context: ReleaseContext) -> dict[str, NDArray[Any]]:
        """The codes of the published synthetic table, one column at a time; its hash was checked when the release was
        loaded."""
        from nabladp.tables import recode

        codes = {}
        for name in self.columns:
            table = context.read_table("synthetic", [name])
            if table is not None:
                codes[name] = recode(self.schema[name], table.column(0).combine_chunks())
        return codes

    # ---- keeping --------------------------------------------------------------------------------------------------

    def to_arrow(self, schema: Schema) -> pa.Table:
        """One row per cell of the workload: its values, the count, its interval and the marginal's predicted errors."""
        import pyarrow as pa

        return pa.concat_tables([answer.to_arrow(self.schema) for answer in self.answers])

    def to_json(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "workload": [list(names) for names in self.sets],
            "weights": list(self.weights),
            "quality": self.quality,
            "rows": self.rows,
            "measured": [
                {
                    "attributes": list(m.attributes),
                    "round": m.round,
                    "scale": m.scale,
                    "counts": m.counts.ravel().tolist(),
                }
                for m in self.measured
            ],
            "model": self.model.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> SyntheticModel:
        measured = []
        for body in data["measured"]:
            names = tuple(body["attributes"])
            counts = np.array(body["counts"], dtype=np.int64).reshape(schema.sizes(names))
            measured.append(Noisy(names, counts, float(body["scale"]), int(body["round"])))
        quality, sets = data["quality"], tuple(tuple(names) for names in data["workload"])
        weights = tuple(float(weight) for weight in data["weights"])
        sizes = [schema.cells(names) for names in sets]  # refuses unknown names
        if not is_whole(data["n"], 1) or not is_whole(data["rows"], 0):
            raise MechanismError("The numbers of rows make no sense.", fix="Read them from a release.")
        if not all(sets):
            raise damaged("workload")
        if not sizes or len(weights) != len(sets) or not all(0 < weight < math.inf for weight in weights):
            raise MechanismError("The weights are not those of the workload.", fix="Read them from a release.")
        return cls(
            schema=schema,
            n=int(data["n"]),
            sets=sets,
            weights=weights,
            model=Model.from_json(data["model"]),
            measured=tuple(measured),
            strategy=quality["strategy"],
            why=quality["why"],
            rounds=int(quality["rounds"]),
            rows=int(data["rows"]),
        )

    def save(self, path: str | Path) -> None:
        """Save the fitted synthetic model as a file of its own. It holds published numbers only."""
        body = {"kind": KIND, "schema": self.schema.to_json(), "values": self.to_json()}
        Path(path).write_text(json.dumps(body, ensure_ascii=False, allow_nan=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> SyntheticModel:
        where = as_path(path, "The model")
        try:
            body = json.loads(read_file(where, f"The model {where.name!r}", MOST_BYTES))
            if body["kind"] != KIND:
                raise KeyError
            return cls.from_json(body["values"], Schema.from_json(body["schema"]))
        except SourceError:
            raise
        except OSError:
            raise ReleaseError(f"There is no readable model at {str(path)!r}.", fix="Give a file of save().") from None
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            raise ReleaseError(f"{where.name!r} is not a saved model.", fix="Give a file of save().") from None


def checked_rows(rows: Any) -> int:
    if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows <= MOST_ROWS:
        raise MechanismError(f"A synthetic table has 1 to {MOST_ROWS:,} rows.", fix="Ask for at least one row.")
    return rows
