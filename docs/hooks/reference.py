"""Pages that are made from the code when the site is built: API, errors, metrics."""

import asyncio
import importlib
import inspect
import pkgutil
import re
import tempfile
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from prometheus_client.core import Metric

import pyromq
from pyromq.broker.admin.metrics import BrokerMetrics
from pyromq.broker.standalone import Standalone
from pyromq.client.blocking.client import BlockingPart
from pyromq.errors import PyroMQError


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, text in (("api", api()), ("errors", errors()), ("metrics", metrics())):
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def api() -> str:
    """Everything that `import pyromq` offers, with its documentation."""
    lines = [
        "# API",
        "",
        "What `import pyromq` offers, for threads. `pyromq.aio` has the same names for asyncio, with coroutines.",
        "",
    ]
    for name in sorted(pyromq.__all__):
        value = getattr(pyromq, name)
        if inspect.isclass(value) and issubclass(value, BaseException):
            continue
        lines += [f"## {name}", ""]
        lines += _class(value) if inspect.isclass(value) else _function(value, name)
    return "\n".join(lines) + "\n"


def _class(value: type) -> list[str]:
    lines = [_doc(value), ""]
    if is_dataclass(value):
        lines += ["| option | default |", "|---|---|"]
        for item in fields(value):
            default = item.default if item.repr else "…"
            shown = "" if "MISSING" in repr(default) else f"`{default!r}`"
            lines.append(f"| `{item.name}` | {_cell(shown)} |")
        return [*lines, ""]
    return lines + _methods(value)


def _methods(value: type, prefix: str = "") -> list[str]:
    """Methods, and those of the small objects that are reached from it by name, such as `consumer.queries`."""
    lines = []
    for name, member in inspect.getmembers(value):
        if name.startswith("_"):
            continue
        part = typing.get_type_hints(member.fget).get("return") if isinstance(member, property) else None
        if inspect.isclass(part) and issubclass(part, BlockingPart):
            lines += _methods(part, f"{prefix}{name}.")
        elif callable(member) and _doc(member):
            lines += [f"### {prefix}{name}", "", *_function(member, prefix + name)]
    return lines


def _function(value: Any, name: str) -> list[str]:
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = "(…)"
    signature = re.sub(r"pyromq\.[\w.]+\.(\w+)", r"\1", signature)
    return ["```python", f"{name}{signature}", "```", "", _doc(value), ""]


def _doc(value: object) -> str:
    return inspect.getdoc(value) or ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def errors() -> str:
    """The family tree of errors."""
    for module in _modules():
        importlib.import_module(module)
    lines = [
        "# Errors",
        "",
        "Every error raised on purpose is a `PyroMQError`; `error.retryable` says whether trying again can help.",
        "",
        *_tree(PyroMQError, 0),
    ]
    return "\n".join(lines) + "\n"


def _modules() -> Iterator[str]:
    """Modules that declare errors."""
    for found in pkgutil.walk_packages(pyromq.__path__, "pyromq."):
        if found.name.rpartition(".")[2] == "errors":
            yield found.name


def _tree(family: type[BaseException], depth: int) -> Iterator[str]:
    first = _doc(family).partition("\n\n")[0].replace("\n", " ")
    home = family.__module__
    yield f"{'    ' * depth}- **{family.__name__}** (`{home}`): {first}"
    for child in sorted(family.__subclasses__(), key=lambda child: child.__name__):
        yield from _tree(child, depth + 1)


def metrics() -> str:
    """What a broker's /metrics page has, from a broker that has just been started."""
    lines = [
        "# Metrics",
        "",
        "`http://127.0.0.1:8090/metrics`, for Prometheus. What begins with `rocketmq_` bears the names of Apache's.",
        "",
        "| name | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for family in asyncio.run(_families()):
        labels = ", ".join(f"`{label}`" for label in family._labelnames)  # type: ignore[attr-defined]
        lines.append(f"| `{family.name}` | {family.type} | {labels} | {_cell(family.documentation)} |")
    return "\n".join(lines) + "\n"


async def _families() -> list[Metric]:
    with tempfile.TemporaryDirectory() as folder:
        server = Standalone(Path(folder), namesrv_port=0, broker_port=0)
        await server.start()
        try:
            broker = server.running_broker
            return list(BrokerMetrics(broker.core, broker.parts).collect())
        finally:
            await server.stop()
