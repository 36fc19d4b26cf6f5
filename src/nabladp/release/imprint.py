"""Imprint: who publishes a release, to what end, about whom, and in which language its report is written.

It is the ``[report]`` table of a plan, is kept in the release's record, and stands on report and certificate.
"""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from nabladp.checks import as_path, read_file
from nabladp.displayed import report_languages
from nabladp.errors import PlanError, SourceError, quote, quote_path
from nabladp.release.shapes import FILE as SHAPES_FILE
from nabladp.release.shapes import Shapes
from nabladp.schema import Schema

TEXTS = ("title", "issuer", "contact", "purpose", "population")
MOST_SIGNS = 2_000  # of a text
MOST_LOGO = 1 << 16  # bytes
_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg", b"GIF87a": "gif", b"GIF89a": "gif"}
_MEDIA = {"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif"}


@dataclass(frozen=True)
class Logo:
    """A small picture: PNG, JPEG or GIF. SVG is refused: it may hold scripts and addresses."""

    content: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.content, bytes) or len(self.content) > MOST_LOGO:
            raise PlanError(f"The logo is larger than {MOST_LOGO:,} bytes.", fix="Give a smaller picture.")
        if not any(self.content.startswith(start) for start in _SIGNATURES):
            raise PlanError("The logo is not a PNG, JPEG or GIF picture.", fix="Convert it to PNG; SVG is not taken.")

    @classmethod
    def load(cls, path: Path) -> Logo:
        try:
            return cls(read_file(path, "The logo", MOST_LOGO))
        except SourceError:
            raise
        except OSError:
            raise SourceError(
                f"There is no readable logo {quote_path(path)}.", fix="Give the path of a PNG, JPEG or GIF file."
            ) from None

    @cached_property
    def kind(self) -> str:
        return next(kind for start, kind in _SIGNATURES.items() if self.content.startswith(start))

    @property
    def file(self) -> str:
        """The name of its file beside a record."""
        return f"logo.{self.kind}"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def address(self) -> str:
        """The picture itself as an address for a page."""
        return f"data:{_MEDIA[self.kind]};base64,{base64.b64encode(self.content).decode()}"

    @classmethod
    def of_address(cls, address: str) -> Logo:
        return cls(base64.b64decode(address.partition(";base64,")[2], validate=True))


LOGO_FILES = tuple(f"logo.{kind}" for kind in _MEDIA)
IMPRINT_FILES = (*LOGO_FILES, SHAPES_FILE)


@dataclass(frozen=True)
class Imprint:
    """``population`` says whom the table is about; ``language`` is that of the report, such as "en" or "de"; ``shapes``
    are the maps on which the report draws some attributes."""

    title: str = ""
    issuer: str = ""
    contact: str = ""
    purpose: str = ""
    population: str = ""
    language: str = "en"
    logo: Logo | None = None
    shapes: Shapes | None = None

    def __post_init__(self) -> None:
        for name in TEXTS:
            _check_text(name, getattr(self, name))
        if self.language not in report_languages():
            raise PlanError(
                f"There is no report in the language {quote(self.language)}.",
                fix=f"Choose one of {', '.join(report_languages())}.",
            )
        if self.logo is not None and not isinstance(self.logo, Logo):
            raise PlanError("'logo' must be a Logo.", fix='Load it with Logo.load(Path("logo.png")).')
        if self.shapes is not None and not isinstance(self.shapes, Shapes):
            fix = 'Load them with Shapes.load({"region": {"file": "regions.geojson", "key": "name"}}, schema).'
            raise PlanError("'shapes' must be a Shapes.", fix=fix)

    @classmethod
    def of(cls, options: Mapping[str, Any], folder: Path, schema: Schema) -> Imprint:
        """An imprint from the ``[report]`` table of a plan; the paths of logo and shapes are relative to the plan."""
        given = {name: options[name] for name in (*TEXTS, "language") if name in options}
        logo = None
        if "logo" in options:
            _check_text("logo", options["logo"])
            logo = Logo.load(folder / as_path(options["logo"], "The logo"))
        shapes = Shapes.load(options["shapes"], schema, folder) if "shapes" in options else None
        return cls(**given, logo=logo, shapes=shapes)

    @property
    def texts(self) -> dict[str, str]:
        """The texts that were given."""
        return {name: getattr(self, name) for name in TEXTS if getattr(self, name)}

    def to_json(self, *, embed: bool = False) -> dict[str, str]:
        """The imprint as JSON; the logo is named by its file, or is in it, shapes by theirs. Empty where nothing was
        given."""
        body = self.texts | ({"language": self.language} if self.language != "en" else {})
        body |= {} if self.shapes is None or embed else {"shapes": SHAPES_FILE}  # a guarantee alone has no tables
        if self.logo is None:
            return body
        return body | {"logo": self.logo.address if embed else self.logo.file}

    @property
    def files(self) -> dict[str, bytes]:
        """The files of an imprint beside a record."""
        logo = {} if self.logo is None else {self.logo.file: self.logo.content}
        return logo | ({} if self.shapes is None else {SHAPES_FILE: self.shapes.content})

    @classmethod
    def from_json(cls, data: Mapping[str, Any], folder: Path | None = None) -> Imprint:
        """An imprint from its JSON form. Its files beside a record may be missing: a record may travel alone."""
        if not set(data) <= {field.name for field in fields(cls)}:
            raise ValueError
        given: dict[str, Any] = {name: text for name, text in data.items() if name not in ("logo", "shapes")}
        if "shapes" in data and folder is not None and (folder / SHAPES_FILE).exists():
            given["shapes"] = Shapes.of_folder(folder)
        if given.get("language") not in report_languages():  # of a later version, perhaps: English is better than none
            given.pop("language", None)
        logo = data.get("logo")
        if logo is None:
            return cls(**given)
        if logo not in LOGO_FILES:
            return cls(**given, logo=Logo.of_address(logo))
        path = None if folder is None else folder / logo
        return cls(**given, logo=Logo.load(path) if path is not None and path.exists() else None)


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str):
        raise PlanError(f"{name!r} in [report] is not text.", fix=f'Write {name} = "…".')
    if len(text) > MOST_SIGNS:
        raise PlanError(f"{name!r} in [report] is longer than {MOST_SIGNS:,} characters.", fix="Shorten it.")
    if any(unicodedata.category(sign) in ("Cc", "Cf", "Cs") for sign in text):
        raise PlanError(f"{name!r} in [report] holds a control character.", fix="Write it in one line of plain text.")
