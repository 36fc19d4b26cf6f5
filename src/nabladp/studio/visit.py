"""A page of the studio, and one visit to it: what was asked for, and what a page needs to answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from nabladp.errors import NablaDPError
from nabladp.studio.fields import Fields
from nabladp.studio.studio import Studio

Show = Callable[["Visit"], str | Response]
Change = Callable[["Visit"], str | None]
Part = Callable[["Visit"], str | dict[str, Any] | Response]


@dataclass(frozen=True)
class Page:
    """A page: ``show`` answers GET /name. ``changes`` answer POST /name/key, edit something, and return where to go
    (None: back to the page). ``parts`` answer GET and POST /name/key with a fragment of HTML or with JSON, and edit
    nothing.

    An error of ours in a change shows the page again, with the error in ``visit.problem`` and the form as it was sent
    in ``visit.form``.
    """

    name: str
    show: Show
    changes: Mapping[str, Change] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)


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
        """A page, or a part of one, as HTML."""
        return self.studio.render(template, {"visit": self, "page": self.page, **context})

    def notice(self, text: str) -> None:
        """Say something on the next page that is shown."""
        self.studio.notices.append(text)
