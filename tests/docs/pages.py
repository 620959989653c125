"""Reading documentation pages: their code blocks and links. No server, no process.

A block that cannot run in a test is preceded by a comment that says why: `<!-- not run: needs two machines -->`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>[^\n]+?) -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `why` is the reason it is not run."""

    language: str
    text: str
    line: int
    why: str | None


def pages() -> list[Path]:
    """README and every page of the documentation."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(found["language"], found["text"], 1 + text.count("\n", 0, found.start("language")), found["why"])
        for found in _BLOCK.finditer(text)
    ]


def links(page: Path) -> list[str]:
    """Targets of links, outside of code."""
    prose = re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", page.read_text()))
    return [found["target"] for found in _LINK.finditer(prose)]


def anchors(page: Path) -> set[str]:
    """What a link may name after `#`."""
    prose = _BLOCK.sub("", page.read_text())
    return {
        re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", found["text"].lower()).strip())
        for found in _HEADING.finditer(prose)
    }
