"""How values look in a notebook, as a plot or as a report. This room stands above what it shows, and registers itself.

Importing it is light: each function loads what it needs when it is first called.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nabladp.displayed import Stage, register, register_report

if TYPE_CHECKING:
    from nabladp.display.notebook import Frame
    from nabladp.release import Release


def show(source: Release | Sequence[Release] | str | Path, height: int = 720) -> Frame:
    """Show the report of a release, of several, or of a published folder in a notebook."""
    from nabladp.display.notebook import frame_report

    return frame_report(source, height)


def plot(release: Release, title: str | None = None) -> Any:
    """Plot a table of a release by the shape of its data, as its report draws it: the first one, or that of this title
    ("region + income"). Needs ``nabladp[plot]``."""
    from nabladp.display.shapes import plot_view

    return plot_view(release, title)


def _guarantee(value: Any) -> str:
    from nabladp.display.notebook import guarantee_html

    return guarantee_html(value)


def _ledger(value: Any) -> str:
    from nabladp.display.notebook import ledger_html

    return ledger_html(value)


def _schema(value: Any) -> str:
    from nabladp.display.notebook import schema_html

    return schema_html(value)


def _release(value: Any) -> str:
    from nabladp.display.notebook import release_html

    return release_html(value)


def _releases(value: Any) -> str:
    from nabladp.display.notebook import releases_html

    return releases_html(value)


def _table(value: Any) -> str:
    from nabladp.display.notebook import exported_html

    return exported_html(value)


def _cost(value: Any) -> str:
    from nabladp.display.notebook import cost_html

    return cost_html(value)


def _audit(value: Any) -> Any:
    from nabladp.display.plots import audit_plot

    return audit_plot([(value.mechanism, value)])


def _combinations(value: Any, schema: Any) -> Any:
    from nabladp.display.plots import combination_bars

    return combination_bars(value, schema)


def _probabilities(value: Any, schema: Any) -> Any:
    from nabladp.display.plots import probability_bars

    return probability_bars(value, schema)


def _report(releases: Sequence[Release], folder: Path, stage: Stage) -> Path:
    from nabladp.report import FILE, write

    return write(releases, folder / FILE, releases[0].imprint.title or folder.resolve().name, stage=stage)


def _languages() -> list[str]:
    from nabladp.report.language import languages

    return languages()


register_report(_report, _languages)
register("guarantee", html=_guarantee)
register("ledger", html=_ledger)
register("schema", html=_schema)
register("release", html=_release)
register("releases", html=_releases)
register("output", html=_table)
register("table", html=_table)
register("cost", html=_cost)
register("audit", plot=_audit)
register("combinations", plot=_combinations)
register("probabilities", plot=_probabilities)
