"""The fields of a form or of an address."""

from __future__ import annotations

from collections.abc import Iterable


class Fields:
    """The fields of a form or of an address: texts by name, each once or several times."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = list(pairs)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __contains__(self, name: str) -> bool:
        return any(own == name for own, _ in self._pairs)

    def text(self, name: str, otherwise: str = "") -> str:
        """The last text of this name, without space around it."""
        return next((value.strip() for own, value in reversed(self._pairs) if own == name), otherwise)

    def all(self, name: str) -> list[str]:
        return [value for own, value in self._pairs if own == name]

    def lines(self, name: str) -> list[str]:
        """The lines of a text that are not empty."""
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]

    def items(self) -> list[tuple[str, str]]:
        return list(self._pairs)
