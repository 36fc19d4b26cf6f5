"""What Synthesis returns: a fitted model to draw tables from, answers with their predicted errors, what was measured.

Everything here is made from published numbers: it never sees the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.checks import as_path, damaged, is_number, is_whole, read_file
from nabladp.errors import MechanismError, ReleaseError, SourceError
from nabladp.mechanisms.bin_density import smooth
from nabladp.mechanisms.mechanism import Output, ReleaseContext
from nabladp.mechanisms.output_tables import BinPositions, draw_bin_positions
from nabladp.mechanisms.synthesis.declared import Declared, declared_zeros, merge_zeros
from nabladp.mechanisms.synthesis.derived_columns import Codes, Function, expected, functions, recompute_derived
from nabladp.mechanisms.synthesis.design import MOST_SHOWN
from nabladp.mechanisms.synthesis.groups import checked_starts
from nabladp.mechanisms.synthesis.inference import Measurement, Miss, Model, Pooled, pool
from nabladp.mechanisms.synthesis.repair import Tables, Target
from nabladp.mechanisms.synthesis.repair import repair as repair_rows
from nabladp.mechanisms.synthesis.rounds import Noisy, measurements
from nabladp.mechanisms.synthesis.view import (
    Answer,
    answer_view,
    answers_table,
    compare_answers,
    compare_drawn,
    measured_view,
    quality_view,
    read_answers,
)
from nabladp.mechanisms.synthesis.workload import Names, contradicted
from nabladp.noise import NoiseSource
from nabladp.schema import Schema
from nabladp.views.compared import Compared
from nabladp.views.tables import synthetic_preview
from nabladp.views.view import View

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts


# ---- the output ------------------------------------------------------------------------------------------------------

KIND = "nabladp synthetic model"
MOST_ROWS = 1 << 28  # of one table
MOST_BYTES = 1 << 30  # of a saved model
MOST_READ = 50_000_000  # values of a published synthetic table that views count


@dataclass(frozen=True)
class RowDistances:
    """The total variation distance of synthetic rows from each answer, after they were repaired; the mean before."""

    each: tuple[float, ...]
    sampled: float
    repaired: bool

    def to_json(self) -> dict[str, Any]:
        return {"each": list(self.each), "sampled": self.sampled, "repaired": self.repaired}

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None, sets: int) -> RowDistances | None:
        """None where the release is older than this record."""
        if data is None:
            return None
        each, sampled, repaired = data["each"], data["sampled"], data["repaired"]
        shares = [*each, sampled]
        if len(each) != sets or not isinstance(repaired, bool) or not all(is_number(x) and 0 <= x <= 1 for x in shares):
            raise damaged("rows_from_answers")
        return cls(tuple(map(float, each)), float(sampled), repaired)


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
    rows: int  # of the synthetic table
    apart: RowDistances | None = None  # how far its rows are from the answers
    codes: Codes | None = None  # of the synthetic table; not part of the record
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
        known = self._distances
        pooled = self._pooled if sets is self.sets else self._pool(sets)
        return tuple(self._answer(each, known.get(frozenset(each.attributes))) for each in pooled)

    @cached_property
    def _pooled(self) -> list[Pooled]:
        return self._pool(self.sets)

    def _pool(self, sets: Sequence[Names]) -> list[Pooled]:
        return pool(self.model, self._noisy, sets)

    @property
    def _noisy(self) -> list[Measurement]:
        return measurements(self.measured)

    @cached_property
    def _distances(self) -> dict[frozenset[str], float]:
        """Of the synthetic rows, from the answers of the workload."""
        each = () if self.apart is None else self.apart.each
        return dict(zip(map(frozenset, self.sets), each, strict=False))

    def _answer(self, pooled: Pooled, apart: float | None) -> Answer:
        """One pooled answer with its predicted errors, also that of the synthetic rows: their distance from the answer,
        where it is known, or that of the model."""
        if apart is None:
            guess = expected(self.model, self._functions, pooled.attributes, pooled.guess)
            away = float(np.abs(pooled.values - guess).sum()) / (2 * self.n)
            rows = math.hypot(pooled.error, away) + self._rounding(guess)
        else:
            # what rows cannot follow of an answer is mostly noise: moved rows were rarely farther from the truth
            moved = self.apart is not None and self.apart.repaired
            rows = max(pooled.error, apart) if moved else math.hypot(pooled.error, apart)
        return Answer(pooled.attributes, pooled.values, np.sqrt(pooled.variance), pooled.error, min(1.0, rows))

    def _rounding(self, guess: Floats) -> float:
        """The error of rounding expected counts to whole synthetic rows: less than one row per cell."""
        return float(np.minimum(guess, 0.5).sum()) / (2 * max(self.n, self.rows, 1))

    # ---- tables ---------------------------------------------------------------------------------------------------

    def sample(self, rows: int, noise: NoiseSource | None = None, *, repair: bool = True) -> pa.Table:
        """A new synthetic table of ``rows`` rows. Costs nothing: it uses published numbers only. With ``repair``, rows
        sampled from the model are moved towards the answers."""
        wanted = self._alike(rows=checked_rows(rows))
        return (
            wanted.with_table(noise or NoiseSource()) if repair else wanted.sampled(noise or NoiseSource())
        ).synthetic

    def with_table(self, noise: NoiseSource, repair: bool = True) -> SyntheticModel:
        """The synthetic model with a synthetic table of ``rows`` rows, and how far these are from the answers."""
        sampled = self.sampled(noise)
        tables = sampled._tables()
        done = repair_rows(sampled.codes or {}, tables, repair)
        codes, within = self._declared.settle(done.codes, sampled.within)
        after = done.after if self._declared.is_empty else tables.variations(tables.counts(codes), self.rows)
        count = len(self.sets)
        weights = np.array(self.weights)
        apart = RowDistances(
            tuple(after[:count].tolist()), float(np.average(done.before[:count], weights=weights)), repair
        )
        return sampled._alike(codes=codes, within=within, apart=apart)

    def sampled(self, noise: NoiseSource) -> SyntheticModel:
        """The synthetic model with a table sampled from it, derived columns recomputed."""
        codes = recompute_derived(self.model.draw(self.rows, noise), self._functions, self.model)
        positions = draw_bin_positions(self.schema, codes, self.rows, noise)
        codes, within = self._declared.settle(codes, smooth(self.schema, codes, positions))
        return self._alike(codes=codes, within=within)

    def _alike(self, **changed: Any) -> SyntheticModel:
        """The same model with another table; what was computed from the model is kept."""
        result = replace(self, **changed)
        vars(result).update(
            {name: vars(self)[name] for name in ("_pooled", "_functions", "_declared") if name in vars(self)}
        )
        return result

    def _tables(self) -> Tables:
        """The answers and what is known of single columns and pairs inside them, towards which rows are moved, and
        what no row may be. A pair stands for several larger answers."""
        scale, mean = self.rows / self.n, float(np.mean(self.weights))
        own = {frozenset(names) for names in self.sets}
        larger = [names for names in self.sets if len(names) > 2]
        parts = [*((name,) for name in self.columns), *(pair for names in larger for pair in combinations(names, 2))]
        lower = self._pool(list({frozenset(part): part for part in parts if frozenset(part) not in own}.values()))
        more = max(1, max(map(len, self.sets)) - 1)
        weights = [*self.weights, *[more * mean] * len(lower)]
        targets = [
            Target(each.attributes, each.values * scale, float(each.variance.mean()) * scale**2, weight)
            for each, weight in zip([*self._pooled, *lower], weights, strict=True)
        ]
        return Tables(self.model.sizes, targets, self._declared.zeros, self._functions)

    @cached_property
    def _declared(self) -> Declared:
        """What is declared about the rows: the zeros of the model, and rules and formulas of the schema."""
        zeros = merge_zeros([*self.model.zeros, *declared_zeros(self.schema, self.columns)])
        return Declared(self.schema, self.columns, zeros)

    @cached_property
    def _functions(self) -> dict[str, Function]:
        """How derived columns follow from their sources in synthetic rows."""
        return functions(self.schema, self.model, self._noisy)

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
            "rows_from_answers": None if self.apart is None else float(np.average(self.apart.each, weights=weights)),
            "sampled_from_answers": None if self.apart is None else self.apart.sampled,
            "contradicted_zeros": contradicted(self._declared.zeros, self._noisy),
            "worst": [
                {"attributes": list(self.sets[i]), "answer": float(pooled[i]), "drawn": float(drawn[i])}
                for i in worst.tolist()
            ],
        }

    # ---- showing --------------------------------------------------------------------------------------------------

    def explanation(self) -> str:
        return (
            "Tables of counts were measured with random noise, and a model was fitted to them: a number estimates how "
            "many rows have these values, and synthetic rows are sampled from the model, not copied from people."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        """Views of a Synthesis release: answers, measurements beside the model, and the first synthetic rows, where at
        hand."""
        answers, codes = self._answers_at_hand(context), self._codes_at_hand(context)
        shown = self._answers_to_show(answers)
        of = {answer.attributes: answer for answer in shown}
        views = [quality_view(self.schema, self.quality, answers, len(shown))]
        views += [answer_view(self.schema, own, codes, self.n) for own in shown]
        views += [
            measured_view(self.schema, own, of.get(own.attributes), codes, self.n)
            for own in self.measured
            if len(shown) == len(answers) or own.attributes in of or len(own.attributes) == 1
        ]
        rows = self._rows_at_hand(context)
        return views if rows is None else [*views, synthetic_preview(rows)]

    @staticmethod
    def _answers_to_show(answers: Sequence[Answer]) -> Sequence[Answer]:
        """The answers whose cells views show: of very many, those where the rows are expected to be worst."""
        if len(answers) <= MOST_SHOWN:
            return answers
        return sorted(answers, key=lambda answer: -answer.drawn)[:MOST_SHOWN]

    def _answers_at_hand(self, context: ReleaseContext) -> tuple[Answer, ...]:
        """Synthesis's answers, as they were published where that can be read: a wide model takes minutes for them."""
        if "answers" in vars(self):
            return self.answers

        def read(name: str) -> NDArray[Any] | None:
            table = context.read_table("values", [name])
            return None if table is None or not table.num_columns else np.asarray(table.column(0))

        return read_answers(read, self.schema, self.sets) or self.answers

    def _codes_at_hand(self, context: ReleaseContext) -> Mapping[str, NDArray[Any]] | None:
        if self.codes is not None or self.rows * len(self.columns) > MOST_READ:
            return self.codes
        return self._published_codes(context) or None

    def _rows_at_hand(self, context: ReleaseContext) -> pa.Table | None:
        if self.codes is not None:
            return self.synthetic
        small = self.rows * len(self.columns) <= MOST_READ
        return context.read_table("synthetic", self.columns) if small else None

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

    def values_table(self, schema: Schema) -> pa.Table:
        """One row per cell of the workload: its values, the count, its interval and the marginal's predicted errors."""
        return answers_table(self.schema, self.answers)

    def to_json(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "workload": [list(names) for names in self.sets],
            "weights": list(self.weights),
            "quality": self.quality,
            "rows": self.rows,
            "rows_from_answers": None if self.apart is None else self.apart.to_json(),
            "measured": [
                {
                    "attributes": list(m.attributes),
                    "round": m.round,
                    "scale": m.scale,
                    "counts": m.counts.ravel().tolist(),
                    "surprise": [miss.to_json() for miss in m.surprise if m.round],
                    **({"groups": [list(own) for own in m.starts]} if m.starts else {}),
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
            sizes, starts = schema.sizes(names), checked_starts(body.get("groups", ()), schema.sizes(names))
            shape = [len(own) or size for own, size in zip(starts or ((),) * len(sizes), sizes, strict=True)]
            counts = np.array(body["counts"], dtype=np.int64).reshape(shape)
            surprise = tuple(Miss.from_json(miss) for miss in body.get("surprise", ()))
            measured.append(Noisy(names, counts, float(body["scale"]), int(body["round"]), surprise, starts))
        alone = {m.attributes[0] for m in measured if len(m.attributes) == 1}
        if any(own and name not in alone for m in measured for name, own in zip(m.attributes, m.starts, strict=False)):
            raise damaged("groups")
        quality, sets = data["quality"], tuple(tuple(names) for names in data["workload"])
        weights = tuple(float(weight) for weight in data["weights"])
        cells = [schema.cells(names) for names in sets]  # refuses unknown names
        if not is_whole(data["n"], 1) or not is_whole(data["rows"], 0):
            raise MechanismError("The numbers of rows make no sense.", fix="Read them from a release.")
        if not all(sets):
            raise damaged("workload")
        if not cells or len(weights) != len(sets) or not all(0 < weight < math.inf for weight in weights):
            raise MechanismError("The weights are not those of the workload.", fix="Read them from a release.")
        output = cls(
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
            apart=RowDistances.from_json(data.get("rows_from_answers"), len(sets)),
        )
        if "predicted_error_drawn" in quality:  # as it was published; versions up to 0.4 did not state all of it
            older = {"rows_from_answers": None, "sampled_from_answers": None}
            found = contradicted(output._declared.zeros, output._noisy)
            vars(output)["quality"] = {**older, **quality, "contradicted_zeros": found}
        return output

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
