"""Public facts about a table: its attributes, their domains, what is missing or unknown, what derives from what."""

from __future__ import annotations

from nabladp.schema.attribute import KINDS, Attribute
from nabladp.schema.codebook import CodeBook
from nabladp.schema.drafts import Column, draft
from nabladp.schema.schema import Schema

__all__ = ["KINDS", "Attribute", "CodeBook", "Column", "Schema", "draft"]
