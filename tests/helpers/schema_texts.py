"""Attributes as a schema file has them, for the texts of schemas that several tests write down."""

from __future__ import annotations

AGE = """\
[[attribute]]
name = "age"
kind = "integer"
low = 0
high = 99

"""
AGE_BAND = """\
[[attribute]]
name = "age_band"
kind = "ordered"
values = ["child", "adult", "old"]
derived_from = ["age"]

"""
