"""What can be displayed: classes state under which name, and the room ``display`` registers how.

So a guarantee or a release knows nothing of notebooks, plots and reports, and can still be looked at in one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

_HTML: dict[str, Callable[[Any], str]] = {}
_PLOTS: dict[str, Callable[..., Any]] = {}
Stage = Callable[[str, int, int], None]  # what is going on, how much is done, how much there is (0: not known)
ReportWriter = Callable[[Sequence[Any], Path, Stage], Path]
_REPORT: list[ReportWriter] = []
_LANGUAGES: list[Callable[[], list[str]]] = []


def register(name: str, *, html: Callable[[Any], str] | None = None, plot: Callable[..., Any] | None = None) -> None:
    """Register how values that are displayed under this name look, as HTML and as a plot."""
    if html is not None:
        _HTML[name] = html
    if plot is not None:
        _PLOTS[name] = plot


class Displayed:
    """Shown by notebooks as a table."""

    displayed_as: ClassVar[str]

    def _repr_html_(self) -> str:
        return _HTML[self.displayed_as](self)


def draw_plot(name: str, *arguments: Any) -> Any:
    """Draw the plot that is registered under this name. Needs ``nabladp[plot]``."""
    return _PLOTS[name](*arguments)


def register_report(writer: ReportWriter, languages: Callable[[], list[str]]) -> None:
    """Register how the report of published releases is written into their folder, and in which languages."""
    _REPORT[:] = [writer]
    _LANGUAGES[:] = [languages]


def report_languages() -> list[str]:
    """The codes of the languages that a report can be written in."""
    (languages,) = _LANGUAGES
    return languages()


def write_report(releases: Sequence[Any], folder: Path, stage: Stage) -> Path:
    """Write the report of releases into the folder in which they were just published."""
    (writer,) = _REPORT
    return writer(releases, folder, stage)
