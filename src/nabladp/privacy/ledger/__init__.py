"""The ledger: append-only, durable, chained; it keeps count of what every limit has left.

SQLAlchemy is loaded when a ledger is opened, not when this is imported.
"""

from __future__ import annotations

from nabladp.privacy.ledger.book import Ledger
from nabladp.privacy.ledger.entry import Entry
from nabladp.privacy.ledger.rules import Spending
from nabladp.privacy.ledger.verify import Problem
from nabladp.privacy.ledger.view import Head

__all__ = ["Entry", "Head", "Ledger", "Problem", "Spending"]
