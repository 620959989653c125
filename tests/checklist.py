"""Which tests hold which behaviour: writes docs/checklist.md from docs/checklist.csv and the comments in the tests.

    python -m tests.checklist

A test claims a behaviour by naming its id in a comment (`# P-61`, `# P-40 .. P-42: why`) in its body or right above
it, or in its docstring; an id in the docstring of a module is claimed by the whole file. Ids that are in the list and
in no test are shown as missing; an id that is not in the list is an error.
"""

import ast
import csv
import functools
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "docs" / "checklist.csv"
PAGE = ROOT / "docs" / "checklist.md"

SECTIONS = {
    "P": "Producer",
    "N": "Name server",
    "C": "Consumer",
    "F": "Filtering",
    "S": "Storage",
    "SP": "Spark",
}
_ID = r"(?:SP|[PNCFS])-\d+[a-z]?"
_CLAIM = re.compile(rf"\b({_ID})\b(?:\s*(?:\.\.|…)\s*({_ID})\b)?")


class Claim(NamedTuple):
    """A text that names ids, and the test it belongs to; no test stands for the whole file."""

    text: str
    test: str | None


def titles() -> dict[str, str]:
    """The behaviours, in order."""
    with LIST.open(newline="") as file:
        return {row["id"]: row["title"] for row in csv.DictReader(file)}


def claims(source: str) -> Iterator[Claim]:
    """Comments and docstrings of one file."""
    tree = ast.parse(source)
    if text := ast.get_docstring(tree):
        yield Claim(text, None)
    tests = [
        (node, min([node.lineno, *(each.lineno for each in node.decorator_list)]))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
    ]
    for node, _ in tests:
        if text := ast.get_docstring(node):
            yield Claim(text, node.name)
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = _code_line(lines, token.start[0])
            owner = next((node.name for node, begin in tests if begin <= line <= (node.end_lineno or 0)), None)
            yield Claim(token.string, owner)


def _code_line(lines: list[str], line: int) -> int:
    """The line that a comment is about: its own, or when it stands alone the next one with code."""
    while line < len(lines) and (not lines[line - 1].strip() or lines[line - 1].lstrip().startswith("#")):
        line += 1
    return line


def named(text: str, known: list[str]) -> Iterator[str]:
    """The ids in a text, ranges spelled out. Raises ValueError for one that is not in the list."""
    for first, last in _CLAIM.findall(text):
        for each in filter(None, (first, last)):
            if each not in known:
                raise ValueError(f"{each} is not in {LIST.name}")
        begin = known.index(first)
        yield from known[begin : known.index(last) + 1] if last else [first]


@functools.cache
def collect() -> dict[str, dict[str, list[str]]]:
    """Id to file to the names of its tests; a file that claims it as a whole has an empty list."""
    known = list(titles())
    found: dict[str, dict[str, list[str]]] = {each: {} for each in known}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name, source = path.relative_to(ROOT).as_posix(), path.read_text()
        if not _CLAIM.search(source):
            continue
        for claim in claims(source):
            try:
                ids = list(named(claim.text, known))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            for each in ids:
                names = found[each].setdefault(name, [])
                if claim.test is not None and claim.test not in names:
                    names.append(claim.test)
    return found


def missing(found: dict[str, dict[str, list[str]]]) -> list[str]:
    """Ids that no test names."""
    return [each for each, files in found.items() if not files]


def page() -> str:
    """The whole of docs/checklist.md."""
    texts, found = titles(), collect()
    lines = [
        "# Checklist",
        "",
        "Every behaviour that PyroMQ promises to share with RocketMQ, and the tests that hold it. Made by",
        "`python -m tests.checklist` from the comments in the tests; do not edit.",
        "",
    ]
    without = missing(found)
    lines += [f"Without a test: {', '.join(without)}." if without else "Every line has a test.", ""]
    for prefix, section in SECTIONS.items():
        lines += [f"## {section}", "", "| id | behaviour | tests |", "|---|---|---|"]
        for each, title in texts.items():
            if each.split("-")[0] == prefix:
                lines.append(f"| {each} | {title} | {_shown(found[each])} |")
        lines.append("")
    return "\n".join(lines)


def _shown(files: dict[str, list[str]]) -> str:
    if not files:
        return "**missing**"
    return "<br>".join(
        f"`{file.removeprefix('tests/')}`" + (f": {', '.join(names)}" if names else "") for file, names in files.items()
    )


def main() -> int:
    PAGE.write_text(page())
    without = missing(collect())
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: {len(titles()) - len(without)} of {len(titles())} have a test\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
