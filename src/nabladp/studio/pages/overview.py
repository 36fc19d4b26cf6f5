"""The first page: the steps, how far each is, and what to do next."""

from __future__ import annotations

from nabladp.studio import progress
from nabladp.studio.visit import Page, Visit

_WHAT = {
    "table": "Choose a file. The studio reads the names and types of its columns, and counts its rows.",
    "columns": "Say what each column may hold, from public knowledge or a code book.",
    "limits": "Say how little anybody may learn: of each column, of several together, of a person.",
    "questions": "Choose what to publish, and see at once what it costs and how exact it is.",
    "release": "Confirm the amounts. Only then is anything spent and published.",
    "ledger": "See what was spent and what is left, and print the certificate.",
}


def _show(visit: Visit) -> str:
    far = progress.of_steps(visit.studio.workspace)
    return visit.render("overview.html.j2", what=_WHAT, far=far, following=progress.next_step(far))


PAGE = Page("overview", _show)
