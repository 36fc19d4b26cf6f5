"""The whole report inside a notebook, in a frame of its own: nothing of it can reach the notebook, nor the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from nabladp.release import Release
from nabladp.report import report


@dataclass(frozen=True, repr=False)
class Frame:
    """Shown by a notebook as the page itself."""

    page: str
    height: int

    def __repr__(self) -> str:
        return f"Frame(a report of {len(self.page):,} signs)"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.page, quote=True)}" sandbox="allow-scripts allow-downloads" '
            f'title="Report" width="100%" height="{self.height}" style="border:1px solid #888"></iframe>'
        )


def show(source: Release | Sequence[Release] | str | Path, height: int = 720) -> Frame:
    """The report of a release, of several, or of a published folder, as a notebook shows it."""
    return Frame(report(source), int(height))
