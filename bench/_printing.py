"""What a page loses on paper: marks and labels of its views that are not inside the printable box of the PDF.

Expected are the sizes and colours of all marks and the words of all labels, as the page lays them out for paper; found
is what poppler reads from the PDF that ``write_pdf`` made, cut by every clip. A page may not be nearly empty either.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from nabladp.report.rendering import PAPERS, write_pdf

MARGIN = 14 / 25.4 * 72  # points, as style.css has it
POINTS = 0.75  # a pixel on paper
SLACK = 0.6  # points
SVG = "{http://www.w3.org/2000/svg}"
MARKS = ", ".join(
    f".chart-{kind}" for kind in ("bar", "square", "mark", "whisker", "line", "area", "curve", "shape", "sum")
)
LAID_OUT = """(marks) => {
  document.documentElement.classList.add("print-all");
  nabladp.toPaper();
  const shapes = [...document.querySelectorAll(".printed svg.chart")].flatMap((chart) =>
    [...chart.querySelectorAll(marks)].filter((node) => node.getAttribute("visibility") !== "hidden").map((node) => {
      const { width, height } = node.getBBox();
      const style = getComputedStyle(node);
      return [style.fill === "none" || node.localName === "line" ? style.stroke : style.fill, width, height];
    }));
  const labels = [...document.querySelectorAll(".printed svg.chart text, .printed :is(td, th, p, h4, dt, dd)")];
  return { shapes, labels: labels.map((node) => (node.querySelector(":scope > title") ?? node).textContent) };
}"""


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, points: list[tuple[float, float]]) -> Box:
        xs, ys = zip(*points, strict=True)
        return cls(min(xs), min(ys), max(xs), max(ys))

    def cut(self, other: Box) -> Box:
        return Box(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        )

    def holds(self, other: Box) -> bool:
        inside = self.left - SLACK <= other.left and other.right <= self.right + SLACK
        return inside and self.top - SLACK <= other.top and other.bottom <= self.bottom + SLACK


def marks_lost(opened: Any, page: Path, paper: str = "A4") -> dict[str, Any]:
    """Marks and labels of a page on paper, and how many of them its PDF lost; how much of the height of its emptiest
    page is in use. ``opened`` is a Playwright page."""
    opened.goto(page.as_uri())
    opened.evaluate("(nabladp.ready ?? nabladp.released).then(() => true)")
    opened.emulate_media(media="print")
    told = opened.evaluate(LAID_OUT, MARKS)
    with tempfile.TemporaryDirectory() as folder:
        pdf = Path(folder) / "page.pdf"
        write_pdf(page, pdf, paper=paper)
        shapes, words = _found(pdf, paper)
        emptiest = min(_in_use(pdf)[:-1], default=1.0)
    lost = _unmatched([(_colour(fill), POINTS * w, POINTS * h) for fill, w, h in told["shapes"]], shapes)
    wanted = Counter(word for text in told["labels"] for word in _words(text))
    missing = sum((wanted - words).values())
    return {"marks": len(told["shapes"]), "labels": wanted.total(), "lost": lost + missing, "emptiest": emptiest}


def _words(text: str) -> list[str]:
    return re.sub("[\u2066-\u2069]", "", text).split()


def _colour(text: str) -> tuple[int, ...]:
    """Red, green and blue of "rgb(0, 114, 178)" or "rgb(0%, 44.7%, 69.8%)"."""
    parts = re.findall(r"([\d.]+)(%?)", text)[:3]
    return tuple(round(float(number) * (2.55 if percent else 1)) for number, percent in parts)


# ---- what is in the PDF ----------------------------------------------------------------------------------------------


def _found(pdf: Path, paper: str) -> tuple[list[tuple[tuple[int, ...], float, float]], Counter[str]]:
    """Colours and sizes of all shapes, and all words, that lie inside the printable boxes of a PDF's pages."""
    width, height = (72 * inches for inches in PAPERS[paper])
    printable = Box(MARGIN, MARGIN, width - MARGIN, height - MARGIN)
    text = subprocess.run(["pdftotext", "-bbox", pdf, "-"], check=True, capture_output=True).stdout.decode()
    words: Counter[str] = Counter()
    for found in re.finditer(r'<word xMin="(.*?)" yMin="(.*?)" xMax="(.*?)" yMax="(.*?)">(.*?)</word>', text):
        if printable.holds(Box(*map(float, found.groups()[:4]))):
            words.update(_words(ElementTree.fromstring(f"<a>{found[5]}</a>").text or ""))
    shapes = []
    for number in range(1, text.count("<page ") + 1):
        drawn = pdf.with_suffix(".svg")
        subprocess.run(["pdftocairo", "-svg", "-f", str(number), "-l", str(number), pdf, drawn], check=True)
        root = ElementTree.parse(drawn).getroot()
        clips = {node.get("id"): node for node in root.iter(f"{SVG}clipPath")}
        shapes += [shape for child in root for shape in _shapes(child, printable, clips)]
    return shapes, words


def _in_use(pdf: Path) -> list[float]:
    """The share of each page's height that something stands on, the frames at its sides left out."""
    drawn = subprocess.run(["pdftoppm", "-r", "20", "-gray", pdf], check=True, capture_output=True).stdout
    found = []
    while drawn:
        _, size, _, rest = drawn.split(b"\n", 3)
        wide, high = map(int, size.split())
        rows = [rest[wide * y + wide // 8 : wide * (y + 1) - wide // 8] for y in range(high)]
        found.append(sum(min(row) < 200 for row in rows) / high)
        drawn = rest[wide * high :]
    return found


def _shapes(node: Any, inside: Box, clips: dict[Any, Any]) -> Iterator[tuple[tuple[int, ...], float, float]]:
    if node.tag == f"{SVG}defs":
        return
    clip = re.fullmatch(r"url\(#(.*)\)", node.get("clip-path", ""))
    if clip:
        for path in clips[clip[1]]:
            inside = inside.cut(_extent(path))
    if node.tag == f"{SVG}path" and node.get("d"):
        box, painted = _extent(node), node.get("style", "") + "".join(f";{k}:{v}" for k, v in node.items())
        colour = re.search(r"(?:fill|stroke):(rgb\(.*?\))", painted)
        if colour and inside.holds(box):
            yield _colour(colour[1]), box.right - box.left, box.bottom - box.top
    for child in node:
        yield from _shapes(child, inside, clips)


def _extent(path: Any) -> Box:
    if path.tag == f"{SVG}rect":
        x, y, w, h = (float(path.get(name, "0")) for name in ("x", "y", "width", "height"))
        numbers = [x, y, x + w, y + h]
    else:
        numbers = [float(number) for number in re.findall(r"-?[\d.]+(?:e-?\d+)?", path.get("d", ""))]
    a, b, c, d, e, f = map(float, re.findall(r"-?[\d.]+(?:e-?\d+)?", path.get("transform", "matrix(1,0,0,1,0,0)")))
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return Box.around([(a * x + c * y + e, b * x + d * y + f) for x, y in pairs])


def _unmatched(wanted: list[tuple[Any, float, float]], found: list[tuple[Any, float, float]]) -> int:
    """How many wanted shapes have no found one of their colour and size."""
    left: dict[Any, Counter[tuple[float, float]]] = {}
    for colour, width, height in found:
        left.setdefault(colour, Counter())[round(width, 1), round(height, 1)] += 1
    lost = 0
    for colour, width, height in wanted:
        same, size = left.get(colour, Counter()), (round(width, 1), round(height, 1))
        best = (
            size if same[size] else min(+same, key=lambda own: abs(own[0] - width) + abs(own[1] - height), default=None)
        )
        if best is None or max(abs(best[0] - width), abs(best[1] - height)) > SLACK:
            lost += 1
        else:
            same[best] -= 1
    return lost
