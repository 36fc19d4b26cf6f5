"""The ledger: append-only, durable, chained. It records what every limit has left, and refuses what would break one.

Read state.py first: it holds the rules. store.py has the tables, sqlite.py and postgres.py what differs between the two
databases, rights.py the roles on a server; history.py follows the chain, reading.py and writing.py are what users call.
"""

from __future__ import annotations

from nabladp.privacy.ledger.entry import Entry, NoLedger, no_ledger
from nabladp.privacy.ledger.history import Problem
from nabladp.privacy.ledger.ledger import Ledger
from nabladp.privacy.ledger.limits import Spending
from nabladp.privacy.ledger.reading import Head

__all__ = ["Entry", "Head", "Ledger", "NoLedger", "Problem", "Spending", "no_ledger"]
