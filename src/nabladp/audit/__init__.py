"""Checks of a mechanism's claim against what it really does."""

from nabladp.audit.exact import AuditRow, ExactAudit, exact_audit

__all__ = ["AuditRow", "ExactAudit", "exact_audit"]
