"""What a report shows, as plain data: views of released values, and released values beside the true ones.

Mechanisms make them, the report lays them out. Nothing here knows a schema, a release or a mechanism.
"""

from __future__ import annotations

from nabladp.views.compared import Compared
from nabladp.views.view import Column, Series, View

__all__ = ["Column", "Compared", "Series", "View"]
