"""A page of the studio, and one visit to it: what was asked for, and what a page needs to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nabladp.errors import NablaDPError

if TYPE_CHECKING:
    from starlette.responses import Response

    from nabladp.studio.studio import Studio

Show = Callable[["Visit"], "str | Response"]
Change = Callable[["Visit"], "str | None"]
Part = Callable[["Visit"], "str | dict[str, Any] | Response"]


@dataclass(frozen=True)
class Page:
    """A page: ``show`` answers GET /name. ``changes`` answer POST /name/key, edit something, and return where to go
    (None: back to the page). ``parts`` answer GET and POST /name/key with a fragment of HTML or with JSON, and edit
    nothing.

    An error of ours in a change shows the page again, with the error in ``visit.problem`` and the form as it was sent
    in ``visit.form``.
    """

    name: str
    title: str
    show: Show
    changes: Mapping[str, Change] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    step: int = 0  # 0: not a step


class Fields:
    """The fields of a form or of an address: texts by name, each once or several times."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = list(pairs)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __contains__(self, name: str) -> bool:
        return any(own == name for own, _ in self._pairs)

    def text(self, name: str, otherwise: str = "") -> str:
        """The last text of this name, without space around it."""
        return next((value.strip() for own, value in reversed(self._pairs) if own == name), otherwise)

    def all(self, name: str) -> list[str]:
        return [value for own, value in self._pairs if own == name]

    def lines(self, name: str) -> list[str]:
        """The lines of a text that are not empty."""
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]

    def items(self) -> list[tuple[str, str]]:
        return list(self._pairs)


@dataclass
class Visit:
    """One request to a page, from a browser that holds the session."""

    studio: Studio
    page: Page
    query: Fields = field(default_factory=Fields)
    form: Fields = field(default_factory=Fields)
    problem: NablaDPError | None = None
    path: str = ""  # what follows the page's own address

    @property
    def stamp(self) -> str:
        """The version of the files that a form was made from; every form of ours carries it."""
        return self.form.text("stamp")

    def render(self, template: str, **context: Any) -> str:
        return self.studio.render(template, self, context)

    def notice(self, text: str) -> None:
        """Say something on the next page that is shown."""
        self.studio.notices.append(text)
