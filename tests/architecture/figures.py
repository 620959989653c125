"""Figures of `src/pyromq`, read from its text: modules, lines, imports between packages, sizes of classes."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "pyromq"

MOST_MODULES = 15
MOST_METHODS = 25
MOST_PARAMETERS = 8

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Room(NamedTuple):
    """A package, or the modules beside the packages."""

    name: str
    modules: int
    lines: int
    imports: dict[str, int]
    """How many of its modules import each other package."""


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def rooms() -> list[Room]:
    """Every package, and one entry for what stands beside them."""
    by_name: dict[str, list[Path]] = {}
    for file in files():
        parts = file.relative_to(SOURCE).parts
        by_name.setdefault(parts[0] if len(parts) > 1 else "", []).append(file)
    return [
        Room(name, len(members), sum(len(each.read_text().splitlines()) for each in members), _imports(name, members))
        for name, members in sorted(by_name.items())
    ]


def _imports(name: str, members: list[Path]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for file in members:
        found.update(imported(file) - {name})
    return dict(sorted(found.items()))


def imported(file: Path) -> set[str]:
    """Packages of PyroMQ that a module imports, wherever in the file it does so."""
    names: set[str] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            names.update({parts[1]} if len(parts) > 1 else {alias.name for alias in node.names})
        elif isinstance(node, ast.Import):
            names.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pyromq."))
    return {name for name in names if (SOURCE / name).is_dir()}


def crowded_folders() -> list[str]:
    """Folders with more modules than a reader takes in at a glance."""
    counts = Counter(file.parent for file in files() if file.name != "__init__.py")
    return [
        f"{folder.relative_to(SOURCE)}: {count} modules" for folder, count in counts.items() if count > MOST_MODULES
    ]


def large_classes() -> list[str]:
    """Classes that offer too much, counting what their bases in the same tree offer."""
    found = []
    for file in files():
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ClassDef):
                offered = _methods(node, file)
                if len(offered) > MOST_METHODS:
                    found.append(f"{file.relative_to(SOURCE)} {node.name}: {len(offered)} public methods")
    return found


def _methods(node: ast.ClassDef, file: Path) -> set[str]:
    own = {each.name for each in node.body if isinstance(each, Function) and not each.name.startswith("_")}
    for base in node.bases:
        if isinstance(base, ast.Name) and (home := _home_of(base.id, file)) is not None:
            own |= _methods(*home)
    return own


def _home_of(name: str, file: Path) -> tuple[ast.ClassDef, Path] | None:
    """Where a name that a module uses is defined as a class: there, or where it imports it from."""
    for node in tree(file).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node, file
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pyromq."):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    home = SOURCE.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
                    return _home_of(alias.name, home) if home.exists() else None
    return None


def wide_constructors() -> list[str]:
    """Constructors with too many parameters. Values (dataclasses, structs, tuples) have none of their own."""
    found = []
    for file in files():
        for node in ast.walk(tree(file)):
            if not isinstance(node, ast.ClassDef):
                continue
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    args = each.args
                    count = len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs) - 1
                    if count > MOST_PARAMETERS:
                        found.append(f"{file.relative_to(SOURCE)} {node.name}: {count} parameters")
    return found


def gerunds() -> list[str]:
    """Files that hide their noun."""
    return [str(file.relative_to(SOURCE)) for file in files() if file.stem.endswith("ing")]
