"""One self-contained HTML file from a template, style, scripts and compressed data; nothing is ever fetched.

The page carries its own content policy: only the scripts and styles whose hashes it names may run, no markup can be
made from text by a script, and no request may leave it. Everything from the user is escaped by the template, or sits in
a block of base64.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from nabladp.report.formatting import power_of_ten

if TYPE_CHECKING:
    from jinja2 import Environment

_NEEDS = {"guarantee.js": ("units.js", "terms.js"), "explorer.js": ("answer.js",)}  # what must come before
_ASSETS = files("nabladp.report") / "assets"
VIEW_SCRIPTS = ("drawing.js", "marks.js", "heat.js", "charts.js", "tables.js")  # which draw views
VIEW_STYLE = "charts.css"


def asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def assemble(
    template: str,
    context: Mapping[str, Any],
    blocks: Mapping[str, Any],
    scripts: Sequence[str],
    styles: Sequence[str] = ("style.css",),
) -> str:
    """``blocks`` are data for the scripts, by name: text or bytes as they are, anything else as JSON."""
    from markupsafe import Markup

    whole = [part for name in scripts for part in (*_NEEDS.get(name, ()), name)]
    style, script = ("\n".join(asset(name) for name in names) for names in (styles, whole))
    own = {
        "policy": _policy(script, style),
        "style": Markup(style),
        "script": Markup(script),
        "blocks": {name: packed(content) for name, content in blocks.items()},
    }
    return _templates().get_template(template).render({**context, **own})


@cache
def _templates() -> Environment:
    """Kept, since compiling templates takes far longer than filling them in."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    templates = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {"thousands": "{:,}".format, "power": power_of_ten}
    return templates


class Packed(str):
    """Base64 of gzip: holds no sign that could end the element it stands in."""


def packed(content: Any) -> Packed:
    if isinstance(content, Packed):
        return content
    if not isinstance(content, str | bytes):
        content = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = content.encode() if isinstance(content, str) else content
    return Packed(base64.b64encode(gzip.compress(data, 6, mtime=0)).decode())


def _policy(script: str, style: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
