"""Checks of a mechanism's claim against what it really does. The module can be called: ``nabladp.audit(…)``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from nabladp.audit.combined import Audit, SetVerdict, audit
from nabladp.audit.exact import AuditRow, ExactAudit, exact_audit
from nabladp.audit.law_audit import law_audit
from nabladp.audit.results import LawAudit, LawRow, StatisticalAudit, StatisticalRow
from nabladp.audit.statistical import statistical_audit
from nabladp.audit.tape import tape_audit
from nabladp.audit.tape_comparison import TapeAudit, TapeFinding

__all__ = [
    "Audit",
    "AuditRow",
    "ExactAudit",
    "LawAudit",
    "LawRow",
    "SetVerdict",
    "StatisticalAudit",
    "StatisticalRow",
    "TapeAudit",
    "TapeFinding",
    "audit",
    "exact_audit",
    "law_audit",
    "statistical_audit",
    "tape_audit",
]


class _Callable(ModuleType):
    """``nabladp.audit`` is this room, and what one does in it."""

    def __call__(self, *args: Any, **options: Any) -> Audit:
        return audit(*args, **options)


sys.modules[__name__].__class__ = _Callable
