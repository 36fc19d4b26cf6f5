"""The pages of the studio, in the order of its steps. A new page is one more entry here."""

from __future__ import annotations

from nabladp.studio.pages import columns, ledger, limits, overview, questions, release, table
from nabladp.studio.visit import Page

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    table.PAGE,
    columns.PAGE,
    limits.PAGE,
    questions.PAGE,
    release.PAGE,
    ledger.PAGE,
)
