"""Guarantees without a release: what someone has published under, or would. They are kept as certificate.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nabladp.checks import as_path, read_file
from nabladp.errors import GuaranteeError, SourceError, quote
from nabladp.privacy import Guarantee
from nabladp.privacy.conversion import check_delta
from nabladp.release.cost import DELTA
from nabladp.release.imprint import Imprint
from nabladp.report.sentences import PERSON

MOST_BYTES = 1 << 27
KIND, FORMAT = "nabladp certificate", 1


@dataclass(frozen=True)
class Claim:
    """A guarantee and what a reader should know beside it.

    ``protects`` says what a row is about, one and several of them, as in ``("housing unit", "housing units")``;
    ``attributes`` what an attribute is. ``adversaries`` names sets of attributes. ``not_covered`` is what the guarantee
    leaves out, each with its heading.
    """

    guarantee: Guarantee
    name: str = ""
    delta: float = DELTA
    protects: tuple[str, str] = PERSON
    note: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    adversaries: Mapping[str, Sequence[str]] = field(default_factory=dict)
    not_covered: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_delta(self.delta)
        self.guarantee.universe.sources(self.attributes)  # refuses unknown names
        for chosen in self.adversaries.values():
            if not self.guarantee.universe.sources(chosen):
                raise GuaranteeError("An adversary has no attributes.", fix="Name an attribute, or leave it out.")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the claimed guarantee itself, whatever is said beside it."""
        text = json.dumps(self.guarantee.to_json(), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "delta": self.delta,
            "protects": list(self.protects),
            "note": self.note,
            "attributes": dict(self.attributes),
            "adversaries": {name: list(chosen) for name, chosen in self.adversaries.items()},
            "not_covered": dict(self.not_covered),
            "guarantee": self.guarantee.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Claim:
        singular, plural = map(_text, data["protects"])
        return cls(
            Guarantee.from_json(data["guarantee"]),
            _text(data["name"]),
            data["delta"],
            (singular, plural),
            _text(data["note"]),
            {_text(name): _text(text) for name, text in data["attributes"].items()},
            {_text(name): [_text(member) for member in chosen] for name, chosen in data["adversaries"].items()},
            {_text(head): _text(text) for head, text in data["not_covered"].items()},
        )


@dataclass(frozen=True)
class Certificate:
    """Claims that are shown together. Their costs are not added up: they may be about different rows."""

    claims: tuple[Claim, ...]
    title: str = "Privacy guarantee"
    imprint: Imprint = field(default_factory=Imprint)

    def __post_init__(self) -> None:
        if not self.claims:
            raise GuaranteeError("The certificate has no claims.", fix="Add at least one.")
        if len(self.claims) > 1 and len({claim.name for claim in self.claims} - {""}) < len(self.claims):
            raise GuaranteeError("Several claims need names.", fix="Give each a name of its own.")

    def to_json(self) -> dict[str, Any]:
        listed = [claim.to_json() for claim in self.claims]
        body = {"kind": KIND, "format": FORMAT, "title": self.title, "claims": listed}
        return body | ({"report": self.imprint.to_json(embed=True)} if self.imprint != Imprint() else {})

    @property
    def text(self) -> str:
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Certificate:
        """A certificate from its own JSON form, or from a bare guarantee's."""
        try:
            if "terms" in data:
                return cls((Claim(Guarantee.from_json(data)),))
            if data["kind"] != KIND or data["format"] != FORMAT:
                raise GuaranteeError(
                    "This certificate was written in another format.", fix="Use the version that wrote it."
                )
            imprint = Imprint.from_json(data.get("report", {}))
            return cls(tuple(Claim.from_json(claim) for claim in data["claims"]), _text(data["title"]), imprint)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, GuaranteeError):
                raise
            raise GuaranteeError(
                "This is neither a certificate nor a guarantee.",
                fix="Give a file that Certificate.save wrote, or the JSON of Guarantee.to_json.",
            ) from None

    @classmethod
    def load(cls, where: str | Path) -> Certificate:
        path = as_path(where, "The certificate")
        try:
            data = json.loads(read_file(path, f"The certificate {quote(path.name)}", MOST_BYTES))
            json.dumps(data, ensure_ascii=False).encode()  # half of a surrogate pair could never be written again
        except SourceError:
            raise
        except (OSError, ValueError, RecursionError):
            raise GuaranteeError(
                f"Cannot read {quote(path.name)} as JSON.", fix="Give a file that Certificate.save wrote."
            ) from None
        return cls.from_json(data)

    def save(self, where: str | Path) -> Path:
        from nabladp.release.names import refuse_published

        goal = Path(where)
        refuse_published(goal)
        try:
            goal.write_text(self.text, encoding="utf-8", newline="\n")
        except OSError:
            raise GuaranteeError(
                f"Cannot write {goal.name!r}.", fix="Check that its folder exists and is writable."
            ) from None
        return goal


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is wanted here")
    return value
