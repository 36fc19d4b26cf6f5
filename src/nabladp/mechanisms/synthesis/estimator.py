"""Synthesis in the manner of SDV and scikit-learn. Fitting is a release: it is booked, and its cost stays spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nabladp.errors import MechanismError

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.mechanisms.synthesis.output import SyntheticModel
    from nabladp.noise import NoiseSource


class Synthesizer:
    """``fit`` releases ``mechanism`` through ``session``; ``sample`` then draws as many tables as wanted, at no cost.

    Every call of ``fit`` reserves the mechanism's whole cost in the session's ledger before it reads a row, and is
    refused when that does not fit the budget. After fitting: ``release_`` and ``model_`` (its output).
    """

    def __init__(self, mechanism: Any, session: Any) -> None:
        self.mechanism = mechanism
        self.session = session
        self._release: Any = None

    def fit(self, table: Any = None) -> Synthesizer:
        """Without a table from the session's own; with one (a data frame, an Arrow table) through the same ledger."""
        session = self.session if table is None else self.session.with_table(table)
        self._release = session.release(self.mechanism)
        return self

    @property
    def release_(self) -> Any:
        if self._release is None:
            raise MechanismError("Nothing was fitted yet.", fix="Call fit() first; it releases through the session.")
        return self._release

    @property
    def model_(self) -> SyntheticModel:
        model: SyntheticModel = self.release_.output
        return model

    def sample(self, rows: int | None = None, noise: NoiseSource | None = None) -> pa.Table:
        """A table of so many rows (default: as many as the fitted table had)."""
        return self.model_.sample(self.model_.n if rows is None else rows, noise)

    def save(self, path: Any) -> None:
        """The fitted model as a file; ``SyntheticModel.load`` reads it."""
        self.model_.save(path)
