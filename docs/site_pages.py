"""How docs/ becomes a site, which mkdocs asks for while it builds.

- The contents of the site are those of index.md, so that a page is listed in one place only.
- What pages link to outside docs/ (proofs, the README, results) comes along, under ``repository/``.
- The report of the demo is made anew, and shown live on the first page.
- Headings get the anchors that code hosts give them, and a list may follow its paragraph at once, as there.
"""

from __future__ import annotations

import posixpath
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from pygments.formatters import HtmlFormatter

from nabladp.release.demo import OUT, release, write_inputs

ROOT = Path(__file__).resolve().parents[1]
DOCS, CARRIED = "docs", "repository"
LINK = re.compile(r"\]\(([^)\s#]+)((?:#[^)\s]*)?)\)")
FENCE = re.compile(r"^[ ]*```.*?^[ ]*```$", re.DOTALL | re.MULTILINE)
PEOPLE = 20_000  # of the demo on the first page
REPORT = "demo-report.html"
LIVE = "<!-- the report of the demo -->"  # where it stands in index.md
ITEM = re.compile(r"(?:[-*]|\d+\.) ")


# Contents


def on_config(config: Any) -> Any:
    config.nav = contents((ROOT / DOCS / "index.md").read_text(encoding="utf-8"))
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor
    return config


def contents(index: str) -> list[Any]:
    """The headings and links of index.md as mkdocs wants them; the index itself comes first."""
    found: list[Any] = [{"Contents": "index.md"}]
    for line in index.splitlines():
        if heading := re.fullmatch(r"(?:## |\*\*)(.+?)(?:\*\*)?", line):
            found.append({heading[1]: []})
        elif ITEM.match(line):
            (section,) = found[-1].values()
            for title, target in re.findall(r"\[([^]]+)\]\(([^)#\s]+)[^)]*\)", line):
                section.append({title[0].upper() + title[1:]: place(repository_path("index.md", target))})
    return found


def anchor(heading: str, separator: str) -> str:
    """As code hosts make it; the same rule checks links in tests/docs."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


# Where things are: paths from the root of the repository, and from the root of the site


def repository_path(page: str, target: str) -> str:
    """What a link on a page of the site leads to."""
    own = page.removeprefix(f"{CARRIED}/") if page.startswith(f"{CARRIED}/") else f"{DOCS}/{page}"
    return posixpath.normpath(posixpath.join(posixpath.dirname(own), target))


def place(path: str) -> str:
    """Where a file of the repository stands on the site."""
    return path.removeprefix(f"{DOCS}/") if path.startswith(f"{DOCS}/") else f"{CARRIED}/{path}"


def is_local(target: str) -> bool:
    return re.match(r"[a-z]+:", target) is None


# What comes along


def on_files(files: Any, config: Any) -> Any:
    files.append(File.generated(config, "code.css", content=code_colours()))
    files.append(File.generated(config, REPORT, content=demo_report()))
    waiting = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    while waiting:
        page, text = waiting.pop()
        for path in outside(page, text):
            if files.get_file_from_path(place(path)) is None:
                content = (ROOT / path).read_text(encoding="utf-8")
                files.append(File.generated(config, place(path), content=content))
                if path.endswith(".md"):
                    waiting.append((place(path), content))
    return files


def code_colours() -> str:
    light, dark = (HtmlFormatter(style=style).get_style_defs(".codehilite") for style in ("default", "github-dark"))
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def demo_report() -> str:
    """The report of the demo, released for this build."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "demo"
        write_inputs(folder, PEOPLE)
        release(folder, quiet=True)
        return (folder / OUT / "report.html").read_text(encoding="utf-8")


def outside(page: str, text: str) -> Iterator[str]:
    for target, _ in LINK.findall(FENCE.sub("", text)):
        path = repository_path(page, target)
        if is_local(target) and not path.startswith(f"{DOCS}/") and (ROOT / path).is_file():
            yield path


# Pages


QUESTIONS = {
    "income": "a=income",
    "income and disability": "a=income&amp;a=disability",
    "age, region and occupation": "a=age&amp;a=region&amp;a=occupation",
}


def live_report() -> str:
    """The report in a frame, and questions that its explorer answers there."""
    asked = "".join(
        f'<li><a href="{REPORT}#explore?{choice}" target="demo">{names}</a></li>' for names, choice in QUESTIONS.items()
    )
    return (
        f'<div class="demo"><p>The report of the demo, released when this page was built: '
        f'<a href="{REPORT}">open it alone</a>, or ask its explorer what someone can learn about</p>'
        f'<ul>{asked}</ul><iframe name="demo" src="{REPORT}" title="The report of the demo"></iframe></div>'
    )


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    markdown = markdown.replace(LIVE, live_report())

    def led(link: re.Match[str]) -> str:
        if not is_local(link[1]):
            return link[0]
        path = repository_path(page.file.src_uri, link[1])
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"]({posixpath.relpath(place(path), here)}{link[2]})"

    return between_fences(markdown, lambda text: loose_lists(LINK.sub(led, text)))


def on_post_page(output: str, **_: Any) -> str:
    """Landmarks that the theme leaves out, for those who hear a page."""
    changes = {
        "<footer>": '<div class="footer" role="region" aria-label="About this site">',
        "</footer>": "</div>",
        '<div role="contentinfo">': "<div>",
        'role="note" aria-label="Versions"': 'role="region" aria-label="Versions"',
    }
    for old, new in changes.items():
        output = output.replace(old, new)
    return output


def between_fences(markdown: str, change: Callable[[str], str]) -> str:
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def loose_lists(text: str) -> str:
    """An empty line before a list that follows its paragraph at once."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        if ITEM.match(line) and before.strip() and not ITEM.match(before) and not before.startswith(" "):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)
