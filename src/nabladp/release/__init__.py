"""From a table to a published release: session, plan file, record, and the order in which things happen."""

from nabladp.privacy import Ledger
from nabladp.release.cost import Cost
from nabladp.release.curation import check_source, draft_schema
from nabladp.release.plan import Plan
from nabladp.release.publish import recover
from nabladp.release.record import Release
from nabladp.release.session import Session

__all__ = ["Cost", "Ledger", "Plan", "Release", "Session", "check_source", "draft_schema", "recover"]
