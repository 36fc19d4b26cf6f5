"""The studio: a local web app in which somebody goes from a table to a published release without writing TOML.

Its state is the plain files of one folder. It decides nothing about privacy: costs, checks and releases are those of
the command line.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from nabladp.errors import MissingPart

PORT = 8642


def serve(folder: str | Path = ".", port: int = PORT, *, browser: bool = True) -> None:
    """Serve the studio of a folder on this machine until it is interrupted; ``port=0`` takes any that is free."""
    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "tomlkit")):
        raise MissingPart("The studio needs starlette, uvicorn and tomlkit.", fix="Install nabladp[studio].")
    if find_spec("fcntl") is None:
        raise MissingPart("The studio needs Linux or macOS.", fix="Use the command line, or WSL.")
    from nabladp.studio.serving import run

    run(Path(folder), port, browser)


__all__ = ["PORT", "serve"]
