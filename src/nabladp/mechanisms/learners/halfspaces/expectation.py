"""What to expect of a halfspace learner before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nabladp.mechanisms.mechanism import ExpectedError


@dataclass(frozen=True)
class HalfspaceError(ExpectedError):
    """``figures`` are the method's own, by plain words."""

    method: str
    n: int
    columns: int
    figures: Mapping[str, Any]
    held_out: int = 0
    held_out_scale: float | None = None

    def values_written(self) -> int:
        return self.columns

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"method": self.method, "n": self.n, "columns": self.columns, **self._holdout()}
        return body | {"summary": {"method": self.method, **self.figures, **self._told()}}

    def _holdout(self) -> dict[str, Any]:
        if self.held_out_scale is None:
            return {}
        return {"held_out": self.held_out, "held_out_scale": self.held_out_scale}

    def _told(self) -> dict[str, Any]:
        if self.held_out_scale is None or not self.held_out:
            return {}
        return {
            "rows held out": self.held_out,
            "noise in the accuracy on them": self.held_out_scale / self.held_out,
        }
