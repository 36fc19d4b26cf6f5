"""The studio: a local web app in which somebody goes from a table to a published release without writing TOML.

Its state is the plain files of one folder. It decides nothing about privacy: costs, checks and releases are those of
the command line.
"""

from __future__ import annotations

from pathlib import Path

from nabladp.errors import MissingPart

PORT = 8642


def serve(folder: str | Path = ".", port: int = PORT, *, browser: bool = True) -> None:
    """Serve the studio of a folder on this machine until it is interrupted; ``port=0`` takes any that is free."""
    try:
        from nabladp.studio.app import run
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "fcntl":
            raise MissingPart("The studio needs Linux or macOS.", fix="Use the command line, or WSL.") from None
        if missing not in ("starlette", "uvicorn", "tomlkit", "anyio"):
            raise
        raise MissingPart("The studio needs starlette, uvicorn and tomlkit.", fix="Install nabladp[studio].") from None
    run(Path(folder), port, browser)


__all__ = ["PORT", "serve"]
