"""Every native function has a Python twin, is typed, and is compared with it by a test; and the other way round."""

import ast
import re
from pathlib import Path
from types import BuiltinFunctionType

import pytest

from pyromq import native
from tests.unit.native.twins import needs_core

ROOT = Path(__file__).parents[3]
TYPES = ROOT / "native" / "pyromq_native.pyi"
FOR_TESTS = {"panic"}


def marked() -> set[str]:
    """Functions of the source with `@native.twin`."""
    found = set()
    for path in (ROOT / "src" / "pyromq").rglob("*.py"):
        text = path.read_text()
        if "twin" in text:
            functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
            found |= {node.name for node in functions if any("twin" in ast.dump(mark) for mark in node.decorator_list)}
    return found


def test_a_function_is_marked_where_the_core_has_one() -> None:
    typed = {node.name for node in ast.parse(TYPES.read_text()).body if isinstance(node, ast.FunctionDef)}
    assert typed - FOR_TESTS == marked()


@needs_core
def test_the_core_has_what_its_types_say() -> None:
    module = native.core.module
    functions = {name for name, value in vars(module).items() if isinstance(value, BuiltinFunctionType)}
    assert functions - FOR_TESTS == marked(), "built from other sources? make setup"


@pytest.mark.parametrize("name", sorted(marked()))
def test_twins_are_compared(name: str) -> None:
    """By a test that calls them, or by that of their file in Rust, which compares what all of it comes to."""
    tests = {path.name: path.read_text() for path in Path(__file__).parent.glob("test_*_twins.py")}
    defined = re.compile(rf"pub fn {name}\b")
    (file,) = (path for path in (ROOT / "native" / "src").glob("*.rs") if defined.search(path.read_text()))
    assert f"test_{file.stem}_twins.py" in tests or any(re.search(rf"\b{name}\b", text) for text in tests.values())
