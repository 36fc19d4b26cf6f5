"""SQL over one protected table: parsed, given a meaning by the schema alone, or refused with the reason."""

from nabladp.sql.query import Query, parse_query

__all__ = ["Query", "parse_query"]
