"""Questions to released tables as they are written on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from nabladp.errors import MechanismError, quote
from nabladp.mechanisms.estimate import Estimate, GroupEstimates
from nabladp.release.record import Release, Releases
from nabladp.schema import Attribute, Schema

Answered = Estimate | GroupEstimates


@dataclass(frozen=True)
class WrittenQuestion:
    """What a command line asks for beyond the released values."""

    count: bool
    share: list[str] | None
    sum: str | None
    mean: str | None
    quantile: str | None
    by: list[str] | None
    where: list[str] | None
    difference: str | None
    ratio: str | None

    @property
    def given(self) -> bool:
        return any(getattr(self, own.name) for own in fields(self))

    def answer(self, source: Release | Releases) -> Answered:
        """The answer, an estimate or one for each group."""
        schema = source.noisy_counts().schema
        asked = [name for name in ("count", "share", "sum", "mean", "quantile") if getattr(self, name)]
        if len(asked) != 1:
            raise MechanismError(
                "Ask for one of --count, --share, --sum, --mean and --quantile.", fix="Write --mean income --by sex."
            )
        where = read_conditions(schema, self.where or [], "--where region=north")
        by = self._groups(schema) or None
        if self.count:
            found = source.count(by, where)
        elif self.share:
            found = source.share(read_conditions(schema, self.share, "--share sick=true"), by, where)
        elif self.sum:
            found = source.sum(self.sum, by, where)
        elif self.mean:
            found = source.mean(self.mean, by, where)
        else:
            name, _, level = (self.quantile or "").partition("=")
            found = source.quantile(name, _read_level(level), by, where)
        return self._compare_groups(found, schema)

    def _groups(self, schema: Schema) -> list[str]:
        return [name for text in self.by or () for name in ([text] if text in schema else text.split(","))]

    def _compare_groups(self, found: Answered, schema: Schema) -> Answered:
        pairs = [(how, text) for how, text in (("difference", self.difference), ("ratio", self.ratio)) if text]
        if not pairs:
            return found
        (how, text), *more = pairs
        by = self._groups(schema)
        if more or len(by) != 1:
            raise MechanismError(
                "Two groups of one attribute are compared, by --difference or --ratio.",
                fix="Write --mean income --by sex --difference female,male.",
            )
        groups = split_values(schema[by[0]], text)
        if len(groups) != 2:
            raise MechanismError(f"{quote(text)} does not name two groups.", fix=f"Write --{how} female,male.")
        compared: Estimate = getattr(found, how)(*groups)
        return compared


def read_conditions(schema: Schema, texts: Sequence[str], example: str) -> dict[str, Any]:
    """Conditions by attribute, from texts such as region=north, region=north,south or age=18..65."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name or not values.strip():
            raise MechanismError(f"{quote(text)} is not a condition.", fix=f"Write {example}.")
        if name in found:
            raise MechanismError(f"There are two conditions on {name!r}.", fix=f"Write {example},… once.")
        found[name] = split_values(schema[name], values)
    return found


def split_values(attribute: Attribute, text: str) -> list[str]:
    """A value, or several between commas; a value with a comma in it stands alone."""
    if attribute.code(text.strip()) is not None:
        return [text.strip()]
    return [value.strip() for value in text.split(",") if value.strip()]


def _read_level(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise MechanismError(f"{quote(text)} is not a quantile.", fix="Write --quantile income=0.5.") from None
