"""How commands answer and fail: text for people, one JSON object with ``--json``, never a traceback with values."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape

from nabladp.errors import NablaDPError

out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False)


def print_json(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer, indent=1, ensure_ascii=False, default=str) + "\n")


@contextmanager
def answering(as_json: bool, on_interrupt: str = "") -> Iterator[None]:
    """Turn errors into a clear message and a non-zero exit."""
    try:
        yield
    except NablaDPError as error:
        _fail(error.to_json(), error.message, error.fix, as_json, 1)
    except KeyboardInterrupt:
        _fail(
            {"error": "Interrupted", "message": "Interrupted.", "fix": on_interrupt},
            "Interrupted.",
            on_interrupt,
            as_json,
            130,
        )
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        # The text of a foreign error may hold a data value, so only its type is shown.
        if os.environ.get("NABLADP_DEBUG") == "1":
            raise
        said = f"Something unexpected went wrong ({type(error).__name__})."
        fix = "Set NABLADP_DEBUG=1 to see the details; they may show data."
        _fail({"error": "Unexpected", "message": said, "fix": fix}, said, fix, as_json, 1)


def _fail(body: dict[str, Any], message: str, fix: str, as_json: bool, code: int) -> NoReturn:
    if as_json:
        print_json(body)
    else:
        err.print(f"[bold red]error:[/] {escape(message)}")
        if fix:
            err.print(f"[bold]fix:[/]   {escape(fix)}")
    sys.exit(code)
