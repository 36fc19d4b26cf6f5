"""What every mechanism offers, and what it is given."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nabladp import checks
from nabladp.displayed import Displayed
from nabladp.errors import AuditError, MechanismError, quote
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.mechanisms.parameters import Parameter, plan_options
from nabladp.mechanisms.tidy import tidy_values
from nabladp.noise import NoiseSource
from nabladp.person import Person
from nabladp.privacy.guarantee import Guarantee
from nabladp.schema import Schema
from nabladp.views.compared import Compared, compare_tables
from nabladp.views.exports import Exported
from nabladp.views.tables import generic_views
from nabladp.views.view import View

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts

Records = list[tuple[dict[str, int], dict[str, int]]]
MOST_ROWS = 1 << 53


@dataclass(frozen=True)
class Law:
    """The exact output law on a tiny instance: independent parts, each as log-probabilities over its outcomes.

    A part whose outcome decides what comes next is a :class:`Branch`. Two laws of one mechanism and the same number of
    rows list the same outcomes in the same order. Parts with endless support are cut where no order up to
    ``largest_order`` could notice; it is never larger than that of a law that follows.
    """

    parts: tuple[NDArray[np.float64] | Branch, ...]
    largest_order: float = math.inf

    def __post_init__(self) -> None:
        following = [law.largest_order for part in self.parts if isinstance(part, Branch) for law in part.then]
        object.__setattr__(self, "largest_order", min(self.largest_order, *following, math.inf))

    def branch(self) -> Branch:
        """The only part of the law, whose outcome decides what comes next."""
        if len(self.parts) != 1 or not isinstance(self.parts[0], Branch):
            raise MechanismError("This law does not begin with one branch.", fix="Give the law of distribution().")
        return self.parts[0]

    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        """The parts of the law, as log-probabilities; none of them decides what comes next."""
        results = tuple(part for part in self.parts if not isinstance(part, Branch))
        if len(results) < len(self.parts):
            raise MechanismError("This law branches.", fix="Give the law of distribution().")
        return results


@dataclass(frozen=True, eq=False)
class Branch:
    """A step whose outcome decides what comes next: outcome i is followed by ``then[which[i]]``.

    Two laws of one mechanism list the same outcomes, the same ``which`` and as many ``then``. What follows an outcome
    that is impossible on either side is never looked at.
    """

    outcomes: NDArray[np.float64]  # log-probabilities
    which: NDArray[np.int64]  # for each outcome, which law follows
    then: tuple[Law, ...]

    def __post_init__(self) -> None:
        if self.outcomes.ndim != 1 or self.which.shape != self.outcomes.shape or self.which.dtype.kind not in "iu":
            raise MechanismError("A branch says for each outcome which law follows.", fix="Give one number for each.")
        if self.which.size and not 0 <= self.which.min() <= self.which.max() < len(self.then):
            raise MechanismError("A branch names a law that it does not hold.", fix="Count its laws from 0.")

    def possible(self) -> Iterator[tuple[int, float, Law]]:
        """Every outcome of a branching law with positive probability: its index, its log-probability, the law that
        follows."""
        for outcome in np.flatnonzero(~np.isneginf(self.outcomes)).tolist():
            yield outcome, float(self.outcomes[outcome]), self.then[int(self.which[outcome])]


@dataclass(frozen=True, eq=False)
class ValueLaw:
    """The law of one published number: log-probabilities of ``first``, ``first + step``, …, and of its absence.

    With a ``step`` above 1 an outcome stands for all numbers nearest to it.
    """

    first: int
    log_chances: NDArray[np.float64]
    log_absent: float = -math.inf
    step: int = 1

    @classmethod
    def certain(cls, value: int) -> ValueLaw:
        return cls(value, np.zeros(1))


@dataclass(frozen=True, eq=False)
class Scenario:
    """One course that a run may take: its log-probability and, given it, the laws of the published numbers, by name.

    Given the scenario these are independent. A number that it does not name is absent.
    """

    log_chance: float
    values: Mapping[Any, ValueLaw]


def _not_at_hand(name: str, columns: Sequence[str]) -> None:
    return None


@dataclass(frozen=True)
class ReleaseContext:
    """What a release states beside its output; views and the comparison with the truth are made of both.

    ``read_table(name, columns)`` reads columns of a table published beside the record (see
    :meth:`Output.extra_tables`); None where its file is not at hand.
    """

    schema: Schema
    n: int
    parameters: Mapping[str, Any]  # those of the mechanism, in the form of a plan file
    expected_error: Any  # in its JSON form
    rows_per_person: int = 1
    read_table: Callable[[str, Sequence[str]], pa.Table | None] = _not_at_hand


class Output(Exported, Displayed):
    """What a mechanism returns; all of it may be published.

    ``to_arrow``, ``to_pandas``, ``to_polars`` and ``to_csv`` give its values as a tidy table, which is made of
    :meth:`values_table` (see ``nabladp.mechanisms.tidy``).
    """

    displayed_as = "output"
    _schema: Schema | None = None  # set by :meth:`bind`

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """A mechanism's whole output as JSON, for the record of the release."""

    @classmethod
    @abstractmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> Self:
        """A mechanism's output from the record of a stored release."""

    @abstractmethod
    def values_table(self, schema: Schema) -> pa.Table:
        """A mechanism's output as a table, one row per value: the names of what it is about, the value, and where known
        its interval, ``low`` and ``high``, and the scale of its noise, ``noise_scale``."""

    def to_arrow(self, schema: Schema | None = None) -> pa.Table:
        """The values as a tidy table. An output that is not part of a release may need its schema."""
        known = schema or getattr(self, "schema", None) or self._schema
        if known is None:
            raise MechanismError("This output does not hold its schema.", fix="Write to_arrow(schema).")
        return tidy_values(self.values_table(known))

    def bind(self, schema: Schema) -> Self:
        """The same output, which knows its schema from now on."""
        object.__setattr__(self, "_schema", schema)
        return self

    def __getitem__(self, part: Any) -> Any:
        """A part of the output. Default: a column of its values by name, or a row by number."""
        table = self.to_arrow()
        if isinstance(part, str) and part in table.column_names:
            return table.column(part).to_pylist()
        if isinstance(part, slice) or checks.is_whole(part, -len(self), len(self) - 1):
            return table.to_pylist()[part]
        raise MechanismError(
            f"{type(self).__name__} has no part {quote(part)}.", fix=f"Columns: {', '.join(table.column_names)}."
        )

    def __iter__(self) -> Iterator[Any]:
        """The parts of the output. Default: the rows of its values."""
        return iter(self.to_arrow().to_pylist())

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __bool__(self) -> bool:
        return True  # an output without values is one

    def extra_tables(self, schema: Schema) -> dict[str, pa.Table]:
        """Further tables of an output, each published as a Parquet file of its name (a plain lowercase word, such as
        "synthetic") beside the values."""
        return {}

    def truth(self, counts: Counts) -> Output | None:
        """The output's values counted without noise, for the owner of the table to compare with; None: there are
        none."""
        return None

    def explanation(self) -> str:
        """What a mechanism did and what its numbers mean, in one sentence for people. Default: nothing is said."""
        return ""

    def views(self, context: ReleaseContext) -> list[View]:
        """The views of an output that a report shows. Default: the table of values, as bars where it holds numbers."""
        return generic_views(self.values_table(context.schema), context.expected_error)

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        """The output's values beside the true ones, for the owner of the table. Default: those of :meth:`truth`, row by
        row."""
        truth = self.truth(counts)
        if truth is not None:
            schema = context.schema
            yield from compare_tables(self.values_table(schema), truth.values_table(schema), context.expected_error)


class Auditable(ABC):
    """What an audit takes: a claim and a way to run it. Your own mechanism needs no more than these to be audited."""

    @abstractmethod
    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        """A mechanism's guarantee, a bound for every set of attributes. No data, no randomness. n = 0: for any number
        of rows."""

    def run(self, counts: Counts, noise: NoiseSource) -> Any:
        """Run the mechanism: an output drawn from counts, for the statistical audit."""
        raise AuditError(f"{type(self).__name__} cannot be run.", fix="Define run, or use the exact audit alone.")

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The columns that the mechanism reads."""
        return schema.names

    def distribution(self, counts: Counts) -> Law:
        """The mechanism's exact output distribution, for tiny domains."""
        raise AuditError(
            f"{type(self).__name__} offers no exact output distribution.", fix="Rely on the statistical audit."
        )

    def published_law(self, law: Law, schema: Schema, n: int) -> Iterable[Scenario]:
        """The law of the numbers in a mechanism's output, from the output distribution and public facts alone."""
        raise AuditError(
            f"{type(self).__name__} does not say which outcome of its distribution an output shows.",
            fix="Define published_law and published_values.",
        )

    def published_values(self, output: Any, schema: Schema, n: int) -> Mapping[Any, int]:
        """The numbers in a mechanism's output that :meth:`published_law` covers, by the same names, as they were
        published."""
        raise AuditError(
            f"{type(self).__name__} does not say which outcome of its distribution an output shows.",
            fix="Define published_law and published_values.",
        )

    def with_all_published(self) -> Auditable:
        """The same mechanism with everything published that its guarantee covers: an audit then sees more of a run."""
        return self

    def needs_people(self, schema: Schema) -> bool:
        """Whether it matters to the mechanism whose a row is, beyond which rows are used."""
        return False

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """Pairs of records (codes by attribute, 0 where unnamed) differing on these attributes that are hardest to
        hide."""
        return [({}, dict.fromkeys(attributes, 1))]

    def two_valued(self) -> tuple[str, ...]:
        """Attributes that keep exactly two values when a schema is made tiny for an audit, such as a label."""
        return ()

    def noise_uses(self, schema: Schema, n: int, output: Any) -> Sequence[NoiseUse]:
        """The noise that a run with this output draws for each part of the guarantee, in order of selections: for the
        tape."""
        raise AuditError(f"{type(self).__name__} declares no noise.", fix="Define noise_uses.")


class Mechanism(Auditable):
    """A frozen dataclass of parameters, and what follows from them. Read this first to write a mechanism of your own.

    Each parameter declares the values that it takes (:func:`~nabladp.mechanisms.parameters.parameter`). Then
    ``guarantee``, ``expected_error``, ``run`` and ``read_output`` make a mechanism. The others have defaults.
    """

    # The guarantee for a known number of rows may be far below that for any number
    plans_for_rows: ClassVar[bool] = False

    @property
    def zeros(self) -> Sequence[Mapping[str, Any]]:
        """The combinations of values that are declared impossible; Synthesis has a parameter of this name."""
        return ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Keeps dataclasses from writing a ``__repr__`` of all parameters, most of which are defaults."""
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            type.__setattr__(cls, "__repr__", Mechanism.__repr__)

    def __repr__(self) -> str:
        parameters: tuple[Parameter, ...] = self.parameters() if is_dataclass(type(self)) else ()
        given = ((declared, getattr(self, declared.name)) for declared in parameters)
        shown = (f"{declared.name}={value!r}" for declared, value in given if value != declared.default)
        return f"{type(self).__name__}({', '.join(shown)})"

    # ---- parameters -------------------------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        """Checks every parameter, and turns it into its one form. Checks of several together come after this one."""
        for declared in self.parameters():
            object.__setattr__(self, declared.name, declared.checked(getattr(self, declared.name)))

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """The mechanism's declared parameters, for plans, pages and forms."""
        return _parameters(cls)

    @classmethod
    def from_plan(cls, options: Mapping[str, Any]) -> Self:
        """A mechanism from a ``[[release]]`` of a plan file; refuses unknown options."""
        return cls(**plan_options(cls.__name__, cls.parameters(), options))

    def to_json(self) -> dict[str, Any]:
        """The mechanism's parameters, in the form of a plan file."""
        given = ((declared, getattr(self, declared.name)) for declared in self.parameters())
        return {
            declared.name: declared.to_json(value)
            for declared, value in given
            if declared.stored == "always" or value != declared.default
        }

    # ---- before data ------------------------------------------------------------------------------------------------

    @abstractmethod
    def expected_error(self, schema: Schema, n: int) -> Any:
        """The mechanism's expected error before anything is spent: a tuple of errors, one for each marginal, or one
        error.

        Each is an :class:`ExpectedError`.
        """

    def needs_row_order(self, schema: Schema, n: int) -> bool:
        """Whether the mechanism distinguishes rows by their index; a table without a fixed order is then refused
        beforehand."""
        return False

    def for_people(self, person: Person, schema: Schema) -> Self:
        """The mechanism for tables of such people; refuses what it cannot do there."""
        return self

    # ---- on data ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def run(self, counts: Counts, noise: NoiseSource) -> Output:
        """Run the mechanism on counts, which it may ask many times; it sees no row."""

    # ---- record -----------------------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> Output:
        """The mechanism's output from a stored release."""


@cache
def _parameters(mechanism: type[Any]) -> tuple[Parameter, ...]:
    return tuple(Parameter.of(mechanism.__name__, field) for field in fields(mechanism))


def check_asked(schema: Any, n: Any = 0) -> None:
    """Refuse anything but a schema and a number of rows (0: any number) as arguments of a mechanism's methods."""
    checks.expect(schema, Schema, "The schema", 'Load it with Schema.load("schema.toml").')
    if not checks.is_whole(n, 0, MOST_ROWS):
        raise MechanismError(
            f"The number of rows must be a whole number from 0 to {MOST_ROWS:,}.",
            fix="0 stands for any number of rows.",
        )


@dataclass(frozen=True)
class ErrorMeasure:
    """One number that tells how good a release will be: what it is, and from where on it is small or useless.

    ``value`` is None where nothing is promised. ``scales``: it is in proportion to the noise, so that a budget can be
    named for it. ``advice``: what makes it smaller, other than a larger budget.
    """

    what: str
    value: float | None
    small: float
    useless: float
    scales: bool = False
    advice: str = ""


class ExpectedError(ABC):
    """What a mechanism says of its error before anything is spent."""

    def measure(self, rows: int) -> ErrorMeasure | None:
        """The number by which people judge the release, of a table with this many rows (0: not known yet)."""
        return None

    def sentence(self) -> str | None:
        """How large the error is, in the mechanism's own words, where one number does not say it."""
        return None

    def values_written(self) -> int:
        """The number of values that the release will hold, as far as that is known."""
        return 0

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The expected error as JSON, with a "summary" for people, labels with a text or a number each, beside whatever
        is for machines; that of a marginal has ``attributes``, ``cells``, ``scale``, ``mean_absolute`` and
        ``half_width`` instead."""
