"""The generated parts of docs/how-it-works/architecture.md: a picture, figures, walks; each between two comments."""

import re
from collections.abc import Sequence

from tests.architecture.figures import ROOT, Room, rooms
from tests.architecture.recorder import Step
from tests.architecture.walks import Walk

PAGE = ROOT / "docs" / "how-it-works" / "architecture.md"
SHARED = "beside them"


def picture() -> str:
    """Who imports whom, as Mermaid draws it; an arrow that others imply is left out."""
    direct = {room.name: set(room.imports) for room in rooms() if room.name}
    lines = ["```mermaid", "graph TD"]
    for name, below in sorted(direct.items()):
        implied = {far for near in below for far in _reach(near, direct)}
        lines += [f"    {name} --> {other}" for other in sorted(below - implied)]
    return "\n".join([*lines, "```"])


def _reach(name: str, direct: dict[str, set[str]]) -> set[str]:
    return direct[name] | {far for near in direct[name] for far in _reach(near, direct)}


def figures() -> str:
    """One line for each package. Lines are rounded, so that the page need not change with every commit."""
    table = ["| package | modules | lines | modules of it that import others |", "|---|--:|--:|---|"]
    found = rooms()
    table += [
        _row(room) for room in [*(each for each in found if each.name), *(each for each in found if not each.name)]
    ]
    modules, lines = sum(each.modules for each in found), sum(each.lines for each in found)
    return "\n".join([*table, f"| **all** | {modules} | {_rounded(lines)} | |"])


def _row(room: Room) -> str:
    imports = ", ".join(f"`{name}` {count}" for name, count in room.imports.items())
    name = f"`{room.name}`" if room.name else SHARED
    return f"| {name} | {room.modules} | {_rounded(room.lines)} | {imports} |"


def _rounded(lines: int) -> str:
    return f"{round(lines, -2):,}"


def walk_text(walk: Walk) -> str:
    """A walk as a list: what is its own, and how much of the transport is around it."""
    own = walk.beyond_frames
    head = f"**{walk.title}**: {walk.own_files} files, {len(own)} functions"
    around = len(walk.steps) - len(own)
    if around:
        head += f" (and {around} functions in {walk.files - walk.own_files} files that move frames)"
    return "\n".join([f"{head}.", "", *_items(own)])


def _items(steps: Sequence[Step]) -> list[str]:
    return [f"{number}. `{step}`" for number, step in enumerate(steps, 1)]


def listed(title: str) -> list[str]:
    """The steps of a walk as the page has them."""
    text = PAGE.read_text().partition(f"**{title}**")[2].partition("\n**")[0].partition("\n<!--")[0]
    return re.findall(r"^\d+\. `([^`]+)`$", text, re.MULTILINE)


def part(name: str) -> str:
    """A generated part as the page has it."""
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end of {name} -->", PAGE.read_text(), re.DOTALL)
    assert found is not None, f"{PAGE.name} has no part {name}"
    return found[1]


def write(name: str, text: str) -> None:
    """Put a generated part in its place."""
    page = PAGE.read_text()
    PAGE.write_text(page.replace(f"<!-- {name} -->\n{part(name)}\n", f"<!-- {name} -->\n{text}\n"))
