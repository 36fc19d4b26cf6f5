"""The first page: the steps, how far each is, and what to do next."""

from __future__ import annotations

from nabladp.studio.visit import Page, Visit


def _show(visit: Visit) -> str:
    return visit.render("overview.html.j2")


PAGE = Page("overview", "Overview", _show)
