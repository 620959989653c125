"""Which functions of PyroMQ a piece of work passes through, recorded while it happens.

A walk is for a reader: it has the functions in the order in which they are first entered, and leaves out what one does
not have to follow, that is properties, special methods, comprehensions, and functions of at most three statements.
"""

import ast
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from pyromq import native
from tests.architecture.figures import SOURCE, Function, tree

CHOICE = "native.py"
SMALL = 3
"""Statements of a function that needs no visit."""


class Step(NamedTuple):
    """A function, by its file below `src/pyromq` and its name."""

    file: str
    function: str
    depth: int
    """How many functions of PyroMQ it was called through."""

    def __str__(self) -> str:
        return f"{self.file}:{self.function}"


class Recorder:
    """Notes calls in this thread, and in those that start while it exists."""

    def __init__(self) -> None:
        self._prefix = f"{SOURCE}/"
        self._local = threading.local()
        self._on = False
        self._calls: list[tuple[str, Step]] = []
        threading.setprofile(self._note)

    def close(self) -> None:
        threading.setprofile(None)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Within, Python does everything: it is the reference, and what the native core does cannot be seen."""
        self._calls.clear()
        core, native.core.on = native.core.on, False
        self._on = True
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._on = False
            native.core.on = core

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        stack: list[str] | None = getattr(self._local, "stack", None)
        if stack is None or not self._on:
            stack = self._local.stack = []
        if not self._on:
            return
        if event == "call":
            file = frame.f_code.co_filename
            ours = file.startswith(self._prefix)
            if ours:
                name = frame.f_code.co_qualname
                above = [each for each in stack if each]
                root = above[0] if above else name
                self._calls.append((root, Step(file.removeprefix(self._prefix), name, len(above))))
            stack.append(frame.f_code.co_qualname if ours else "")
        elif event == "return" and stack:
            stack.pop()

    def calls(self, follows: Callable[[str], bool]) -> list[Step]:
        """Each function that was called, once; `follows` says by its outermost function whether a call belongs here."""
        found: dict[tuple[str, str], Step] = {}
        for root, step in self._calls:
            if follows(root):
                found.setdefault((step.file, step.function), step)
        return list(found.values())


def is_worth_a_visit(step: Step) -> bool:
    """Whether a reader has to go there; the choice between two twins is no place of its own."""
    if step.file == CHOICE:
        return False
    name = step.function.rsplit(".", 1)[-1]
    if name.startswith(("<", "__")):
        return False
    node = functions(SOURCE / step.file).get(step.function)
    return node is not None and not _is_property(node) and _statements(node) > SMALL


def _is_property(node: Function) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id in ("property", "cached_property") for each in node.decorator_list
    )


def _statements(node: Function) -> int:
    """How much there is to read, without the docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return sum(isinstance(each, ast.stmt) for statement in body for each in ast.walk(statement))


@cache
def functions(file: Path) -> dict[str, Function]:
    """The functions of a module by their qualified names."""
    found: dict[str, Function] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                found[prefix + child.name] = child
                visit(child, f"{prefix}{child.name}.<locals>.")
            else:
                visit(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)

    visit(tree(file), "")
    return found
