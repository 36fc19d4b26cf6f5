"""How a release looks in a notebook: what it is, what it tells about whom, and what error was predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nabladp.fragments import fragment, heading, line, stamp, table
from nabladp.privacy.notebook import figures_table

if TYPE_CHECKING:
    from nabladp.release.record import Release


def release_html(release: Release) -> str:
    entry = release.ledger
    return fragment(
        stamp(release.stamp),
        heading(release.name, f"{release.mechanism} of {release.n:,} rows, ledger entry {entry['entry']}"),
        figures_table(release.guarantee, release.adversaries, release.delta),
        _predicted(release.expected_error),
        line("nabladp.report.notebook.show(release) draws what was released."),
    )


def _predicted(error: Any) -> str:
    if isinstance(error, Mapping):
        rows = [[str(label), _worded(value)] for label, value in error.get("summary", {}).items()]
        return table(["predicted error", ""], rows)
    rows = [
        [" + ".join(part["attributes"]), f"{part['cells']:,}", _worded(part["scale"]), f"± {part['half_width']:,}"]
        for part in error
    ]
    return table(["marginal", "cells", "noise scale", "95% of counts within"], rows)


def _worded(value: Any) -> str:
    if value is None or isinstance(value, bool | str):
        return "no bound" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
