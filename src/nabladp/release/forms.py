"""Forms for releases: made from the parameters that a mechanism declares, so that every installed one has a form.

A form shows a ``[[release]]`` of a plan, complete or not, and reads what was typed into it back as one. What the form
of a kind of parameter looks like is registered in :func:`entry_of`; a package registers its own kinds there, and any
other kind is typed as a plan file has it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, singledispatch
from importlib.resources import files
from inspect import cleandoc
from typing import Any

from nabladp.errors import NablaDPError, PlanError
from nabladp.mechanisms import MECHANISMS, Mechanism, mechanism_class
from nabladp.mechanisms import kinds as of
from nabladp.mechanisms.learners.halfspaces.task import Hypotheses, Margin, ShortBudget
from nabladp.mechanisms.parameters import Kind, Parameter
from nabladp.mechanisms.registry import plugins
from nabladp.mechanisms.statistics import options as asked
from nabladp.mechanisms.synthesis import strategy as synthesis
from nabladp.release import entries as form
from nabladp.release.entries import Entry, Inexpressible, Part, Texts, Toml
from nabladp.release.questions import AskedFigures, WhereRows

AS_TOML = "as-toml"  # below a field's name: its value as a plan file has it, where no entry can express it
ASKED = "figures"  # the field of a query's aggregates, which stands for several parameters

# ---- what a form asks for each kind of parameter ---------------------------------------------------------------------


@singledispatch
def entry_of(kind: Kind) -> Entry:
    """What a form asks for a kind of parameter. A package registers an entry for a kind of its own."""
    return Toml(kind.example)


def _columns_part(label: str = "columns") -> Part:
    return Part("columns", label, form.Columns())


@entry_of.register
def _(kind: of.Whole) -> Entry:
    return form.Digits(kind.low, kind.high, whole=True)


@entry_of.register
def _(kind: of.Number) -> Entry:
    return form.Digits(kind.low, kind.high)


@entry_of.register(of.Share)
@entry_of.register(Margin)
def _(kind: Kind) -> Entry:
    return form.Digits(0, 1)


@entry_of.register
def _(kind: ShortBudget) -> Entry:
    return form.Digits(0)


@entry_of.register
def _(kind: of.Choice) -> Entry:
    return form.OneOf(kind.words)


@entry_of.register
def _(kind: of.Flag) -> Entry:
    return form.YES_NO


@entry_of.register
def _(kind: of.Name) -> Entry:
    return form.Column()


@entry_of.register
def _(kind: of.Names) -> Entry:
    return form.Columns()


@entry_of.register
def _(kind: of.Sets) -> Entry:
    return form.Rows((_columns_part("columns of one table"),), bare=True)


@entry_of.register
def _(kind: of.Weights) -> Entry:
    return form.Numbers()


@entry_of.register
def _(kind: of.Table) -> Entry:
    parts = (Part("column", "column", form.Column()), Part("value", "value", _ScalarLine()))
    return form.Rows(parts, keyed=True)


@entry_of.register
def _(kind: of.BudgetKind) -> Entry:
    return form.Amount(None if kind.noise is None else kind.noise == "laplace")


@entry_of.register
def _(kind: of.Budgets) -> Entry:
    amount = form.Amount(None if kind.noise is None else kind.noise == "laplace")
    return form.Rows((Part("column", "column", form.Column()), Part("budget", "budget", amount)), keyed=True)


@entry_of.register(asked.SetLimits)
@entry_of.register(synthesis.SetBudgets)
def _(kind: Kind) -> Entry:
    return form.Rows((_columns_part(), Part("budget", "budget", form.Amount())), keyed=True)


@entry_of.register
def _(kind: of.WorkloadKind) -> Entry:
    families = form.OneOf(("marginals", "conjunctions", "parities"))
    sets = form.Rows((_columns_part("columns asked about together"),), bare=True)
    return form.Rows(
        (
            Part("queries", "what is asked", families),
            Part("k", "of every k columns together: k", form.Digits(1, whole=True), optional=True),
            Part("over", "among these columns (none ticked: all)", form.Columns(), optional=True),
            Part("sets", "or of these columns", sets, optional=True),
            Part("signed", "with exclusions (“not …”)", form.YES_NO, optional=True),
            Part("weight", "weight", form.Digits(0), optional=True),
        ),
        alone=True,
    )


@entry_of.register
def _(kind: asked.Queries) -> Entry:
    return form.Either((Part("one", "a query in SQL", form.Lines()), Part("more", "several", _several_queries())))


def _several_queries() -> Entry:
    return form.Rows((Part("query", "query", form.Lines()),), bare=True)


@entry_of.register
def _(kind: asked.Expressions) -> Entry:
    return form.Rows((Part("of", "column or expression", form.Line(columns=True)),), bare=True)


@entry_of.register
def _(kind: asked.Condition) -> Entry:
    return form.Either((Part("rows", "conditions", WhereRows()), Part("sql", "or a condition in SQL", form.Lines())))


@entry_of.register
def _(kind: asked.Levels) -> Entry:
    parts = (Part("of", "column or expression", form.Line(columns=True)), Part("levels", "levels", form.Numbers()))
    return form.Rows(parts, keyed=True)


@entry_of.register
def _(kind: asked.Bounds) -> Entry:
    bounds = (Part("low", "lowest", form.Digits()), Part("high", "highest", form.Digits()))
    return form.Rows((Part("of", "column or expression", form.Line(columns=True)), *bounds), keyed=True)


@entry_of.register
def _(kind: asked.GroupLists) -> Entry:
    parts = (Part("key", "column", form.Line(columns=True)), Part("values", "values, one on each line", form.Listed()))
    return form.Rows(parts, keyed=True)


@entry_of.register
def _(kind: synthesis.WantedMarginals) -> Entry:
    sets = form.Rows((_columns_part("columns of one table"),), bare=True)
    size = Part("size", "all tables of so many columns", form.Digits(whole=True))
    return form.Either((size, Part("sets", "or these tables", sets)))


@entry_of.register
def _(kind: synthesis.WantedWeights) -> Entry:
    table = form.Rows((_columns_part(), Part("weight", "weight", form.Digits(0))), keyed=True)
    each = Part("each", "or a weight for each table of the workload", form.Numbers())
    return form.Either((Part("by", "by column", table), each))


@entry_of.register
def _(kind: Hypotheses) -> Entry:
    return form.Rows((Part("weights", "weights", form.Numbers()),), bare=True)


class _ScalarLine(form.Line):
    """One value in a line: a number, or a word."""

    def read(self, texts: Texts) -> Any:
        text = super().read(texts)
        return None if text is None else form.scalar(text)

    def fill(self, value: Any) -> list[str]:
        if not isinstance(value, (str, bool, int, float)):
            raise Inexpressible
        return [form.scalar_text(value)]


# ---- mechanisms ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """A mechanism as a page offers it: what it makes, for whom; ``first`` are the parameters that matter most, and
    ``start`` those of a new release."""

    name: str
    title: str
    purpose: str
    first: tuple[str, ...] = ()
    start: Mapping[str, Any] | None = None


@cache
def _purposes() -> dict[str, Any]:
    return tomllib.loads(files("nabladp.release").joinpath("purposes.toml").read_text(encoding="utf-8"))


def offers() -> list[Offer]:
    """Every installed mechanism that loads: nabladp's own in the order of the catalogue, then those of packages."""
    return [found for name in (*MECHANISMS, *plugins()) if (found := _offer(name)) is not None]


def _offer(name: str) -> Offer | None:
    try:
        mechanism = mechanism_class(name)
    except NablaDPError:  # a broken package
        return None
    return offer_of(mechanism)


def offer_of(mechanism: type[Mechanism]) -> Offer:
    """What a page says of a mechanism; of one that it does not know, the first sentence of its documentation."""
    name = mechanism.__name__
    known = _purposes().get(name, {})
    sentence = " ".join(cleandoc(mechanism.__doc__ or "").split("\n\n")[0].split())
    required = [own.name for own in mechanism.parameters() if own.required]
    budget = {own.name: {"pure": 0.2} for own in mechanism.parameters() if own.required and _is_pure(own)}
    start = known.get("start", budget or {"budget": {"cdp": 0.2}} if "budget" in required else {})
    return Offer(
        name, known.get("title", name), known.get("purpose", sentence), tuple(known.get("first", required)), start
    )


def _help(mechanism: str, declared: Parameter) -> str:
    """One sentence about a parameter, in a page's words where it has some."""
    texts = _purposes()["every"]["help"] | _purposes().get(mechanism, {}).get("help", {})
    return str(texts.get(declared.name, declared.help.replace("`", "")))


def _is_pure(declared: Parameter) -> bool:
    return isinstance(declared.kind, of.BudgetKind) and declared.kind.noise == "laplace"


# ---- a form ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """One question of a form, with what is filled in. ``default``: what an empty one means, in words."""

    name: str
    help: str
    takes: str
    required: bool
    default: str
    entry: Entry
    filled: Texts
    first: bool = False
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        kept = ("name", "help", "takes", "required", "default", "filled", "first", "fault")
        return {name: getattr(self, name) for name in kept} | {"entry": self.entry.to_json()}


@dataclass(frozen=True)
class Form:
    """The form of one release: its name, its mechanism and a field for each parameter."""

    name: str
    offer: Offer
    fields: tuple[Field, ...]


def release_form(block: Mapping[str, Any]) -> Form:
    """The form that shows a ``[[release]]``, whatever is still missing or wrong in it."""
    kind = block.get("mechanism")
    mechanism = mechanism_class(kind)  # type: ignore[arg-type]  # refuses anything but a known name
    offer = offer_of(mechanism)
    declared = list(mechanism.parameters())
    fields = []
    if {own.name for own in declared} >= ASKED_PARTS:
        fields.append(_asked_field(block, offer))
        declared = [own for own in declared if own.name not in ASKED_PARTS]
    fields += [_field(own, block, offer) for own in declared]
    fields.sort(key=lambda field: offer.first.index(field.name) if field.first else len(offer.first))
    name = block.get("name")
    return Form(name if isinstance(name, str) else "", offer, tuple(fields))


ASKED_PARTS = frozenset(AskedFigures.parameters)


def _asked_field(block: Mapping[str, Any], offer: Offer) -> Field:
    entry = AskedFigures()
    filled: Texts
    try:
        filled = entry.fill({name: block[name] for name in AskedFigures.parameters if name in block})
        fault = ""
    except (Inexpressible, AttributeError, TypeError, ValueError):
        filled, fault = {}, "The figures in the plan cannot be shown here. Choose them again."
    help = "What to find out, from which column."
    return Field(ASKED, help, "figures", False, "", entry, filled, ASKED in offer.first, fault)


def _field(declared: Parameter, block: Mapping[str, Any], offer: Offer) -> Field:
    entry, fault = entry_of(declared.kind), ""
    filled: Texts = []
    if declared.name in block:
        entry, filled, fault = _fill_entry(declared, entry, block[declared.name])
    return Field(
        declared.name,
        _help(offer.name, declared),
        declared.kind.takes,
        declared.required,
        _default(declared),
        entry,
        filled,
        declared.name in offer.first,
        fault,
    )


def _fill_entry(declared: Parameter, entry: Entry, value: Any) -> tuple[Entry, Texts, str]:
    fault = ""
    try:
        value = declared.to_json(declared.checked(value))
    except NablaDPError as error:
        fault = f"{error.message} {error.fix}"
    except (TypeError, ValueError, AttributeError):
        fault = f"{declared.name!r} must be {declared.kind.takes}."
    try:
        return entry, entry.fill(value), fault
    except (Inexpressible, AttributeError, TypeError):
        typed = Toml(declared.kind.example)
        return typed, typed.fill(value), fault


def _default(declared: Parameter) -> str:
    if declared.required or declared.default is None or declared.default in ((), {}):
        return ""
    if isinstance(declared.default, bool):
        return "yes" if declared.default else "no"
    return str(declared.default)


# ---- what was typed --------------------------------------------------------------------------------------------------


def read_form(mechanism: str, pairs: Iterable[tuple[str, str]], name: str = "") -> dict[str, Any]:
    """The ``[[release]]`` that a form stands for. An error about one field carries its name as ``field``.

    Only what was entered is part of it. What its parameters mean together is not looked at: the plan says that.
    """
    given = form.nest(pairs)
    chosen = mechanism_class(mechanism)
    block: dict[str, Any] = {"name": name} if name else {}
    block["mechanism"] = mechanism
    for declared in chosen.parameters():
        block |= _read_field(declared, given.get(declared.name))
    if {own.name for own in chosen.parameters()} >= ASKED_PARTS:
        block |= _read(ASKED, AskedFigures(), given.get(ASKED)) or {}
    return block


def _read_field(declared: Parameter, texts: Texts) -> dict[str, Any]:
    typed = isinstance(texts, dict) and AS_TOML in texts
    entry = Toml(declared.kind.example) if typed else entry_of(declared.kind)
    value = _read(declared.name, entry, texts[AS_TOML] if typed else texts)
    if value is None:
        return {}
    try:
        checked = declared.checked(value)
    except NablaDPError as error:
        error.fields["field"] = declared.name
        raise
    except (TypeError, ValueError, AttributeError):
        fault = PlanError(f"{declared.name!r} must be {declared.kind.takes}.", fix=declared.fix)
        fault.fields["field"] = declared.name
        raise fault from None
    is_default = not declared.required and checked == declared.default
    return {} if is_default and declared.stored == "changed" else {declared.name: value}


def _read(name: str, entry: Entry, texts: Texts) -> Any:
    try:
        return entry.read(texts)
    except NablaDPError as error:
        error.fields["field"] = name
        error.message = f"{name!r}: {error.message}"
        raise
