"""Benchmarks: ``python -m bench NAME [--quick]``. Each measures us and the alternative in the same run.

A benchmark is a module with ``SECONDS`` (its time, full and quick) and ``run(quick)``, which returns what it measured.
"""
