"""From a table to a published release: session, plan file, record, and the order in which things happen.

Names load when first used, so that looking at a ledger does not wait for what reads tables.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nabladp.privacy import Ledger as Ledger
    from nabladp.release.cost import Cost as Cost
    from nabladp.release.curator_tasks import check_source as check_source
    from nabladp.release.drafts import draft_plan as draft_plan
    from nabladp.release.drafts import draft_schema as draft_schema
    from nabladp.release.plan import Plan as Plan
    from nabladp.release.publish import recover as recover
    from nabladp.release.record import Release as Release
    from nabladp.release.record import Releases as Releases
    from nabladp.release.session import Session as Session

_HOME = {
    "Ledger": "nabladp.privacy",
    "Cost": "nabladp.release.cost",
    "check_source": "nabladp.release.curator_tasks",
    "draft_plan": "nabladp.release.drafts",
    "draft_schema": "nabladp.release.drafts",
    "Plan": "nabladp.release.plan",
    "recover": "nabladp.release.publish",
    "Release": "nabladp.release.record",
    "Releases": "nabladp.release.record",
    "Session": "nabladp.release.session",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nabladp.release' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
