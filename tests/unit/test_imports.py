"""Imports point one way; see CONTRIBUTING.md. A new edge between packages needs a decision, not an accident."""

import ast
import re
from pathlib import Path

import pytest

import pyromq

ROOT = Path(pyromq.__file__).parent

ALLOWED = {
    "protocol": set[str](),
    "settings": {"protocol"},
    "arrow": {"protocol"},
    "remoting": {"protocol", "settings"},
    "store": {"protocol", "settings"},
    "auth": {"protocol", "settings", "remoting"},
    "namesrv": {"protocol", "settings", "remoting", "auth"},
    "proxy": {"protocol", "settings", "remoting", "auth"},
    "broker": {"protocol", "settings", "remoting", "auth", "store", "namesrv", "proxy"},
    "filtersrv": {"protocol", "settings", "remoting", "auth"},
    "client": {"protocol", "settings", "arrow", "remoting"},
    "spark": {"protocol", "settings", "arrow", "remoting", "store", "client"},
    "testing": {"protocol", "settings", "broker", "namesrv", "client"},
    "cli": {
        *("protocol", "settings", "remoting", "auth", "store", "namesrv", "proxy", "broker", "filtersrv", "client"),
        "spark",
    },
}

SHARED = {
    "clock": set[str](),
    "errors": set[str](),
    "native": {"errors"},
    "disk": set[str](),
    "selectors": {"protocol"},
    "sparkpython": set[str](),
    "durable": {"disk"},
    "configfile": {"disk", "durable", "protocol"},
}
"""Modules beside the packages, for all packages but `protocol`, which does no I/O; and what they may import."""

FRONT = {
    "__init__": {"client"},
    "aio": {"client"},
    "hooks": {"client", "remoting"},
    "metrics": {"client"},
    "__main__": {"cli"},
}
"""Modules beside the packages for users and for those who use PyroMQ as users do (`cli`, `testing`)."""


def imported_names(file: Path) -> set[str]:
    """First-level modules and packages of `pyromq` that a module imports, wherever in the file it does so."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            module = node.module or ""
            found.update({module} if module != "pyromq" else {f"pyromq.{alias.name}" for alias in node.names})
    return {name.split(".")[1] for name in found if name.startswith("pyromq.")}


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_point_one_way(package: str) -> None:
    for file in (ROOT / package).rglob("*.py"):
        extra = (imported_names(file) & ALLOWED.keys()) - ALLOWED[package] - {package}
        assert not extra, f"{file.relative_to(ROOT)} must not import {sorted(extra)}"


@pytest.mark.parametrize("module", SHARED)
def test_shared_modules_stand_below_the_packages(module: str) -> None:
    known = ALLOWED.keys() | SHARED.keys()
    extra = (imported_names(ROOT / f"{module}.py") & known) - SHARED[module]
    assert not extra, f"{module}.py must not import {sorted(extra)}"


@pytest.mark.parametrize("module", FRONT)
def test_the_front_stands_above_the_packages(module: str) -> None:
    extra = (imported_names(ROOT / f"{module}.py") & ALLOWED.keys()) - FRONT[module]
    assert not extra, f"{module}.py must not import {sorted(extra)}"
    for file in ROOT.rglob("*.py"):
        below = file.relative_to(ROOT).parts[0] in ALLOWED.keys() - {"cli", "testing"}
        assert not below or module not in imported_names(file), f"{file.relative_to(ROOT)} must not import {module}"


def test_protocol_imports_no_files() -> None:
    for file in (ROOT / "protocol").rglob("*.py"):
        assert not imported_names(file) & {"disk", "durable", "configfile"}, file


def test_the_store_asks_the_system_for_files_through_one_module() -> None:
    asks = re.compile(
        r"\bos\.(open|f?truncate|posix_\w+|p?read|p?write|lseek|f(data)?sync|rename|replace|unlink|remove|link|mkdir|"
        r"rmdir|scandir|listdir|statvfs)\b|(?<!disk)\.(unlink|rename|rmdir|mkdir|iterdir|write_bytes|hardlink_to)\(|"
        r"\bmmap\.mmap\(|\bfcntl\."
    )
    for file in [*(ROOT / "store").rglob("*.py"), ROOT / "durable.py", ROOT / "configfile.py"]:
        found = asks.search(file.read_text())
        assert found is None, f"{file.relative_to(ROOT)} calls {found.group()} itself: use pyromq.disk"


def test_every_package_is_ruled() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == ALLOWED.keys()
    modules = {path.stem for path in ROOT.glob("*.py")}
    assert modules == SHARED.keys() | FRONT.keys()


def test_protocol_has_no_io() -> None:
    forbidden = {"asyncio", "socket", "ssl", "threading", "time", "uvloop", "subprocess"}
    for file in (ROOT / "protocol").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            assert not forbidden & {name.split(".")[0] for name in names}, file
