"""Pipeline files: YAML to a checked definition, with errors that say file, line and field."""

import difflib
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from pyromq.spark.pipeline.definition.definition import (
    DeadLetters,
    Dedup,
    Definition,
    DefinitionError,
    DeltaTarget,
    FormatTarget,
    IcebergTarget,
    ParquetTarget,
    Parse,
    SinkEntry,
    TopicTarget,
    Transform,
    Watermark,
    check,
)

MAX_FILE = 1 << 20
MAX_DEPTH = 16
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")

Lines = dict[str, int]


def load(path: Path) -> Definition:
    """The definition in a file; relative folders in it are relative to the file's. Raises DefinitionError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise DefinitionError("", f"{path} is longer than {MAX_FILE} bytes")
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError("", f"{path} cannot be read: {error}") from error
    made = loads(text, name=path.name)
    return _rooted(made, path.resolve().parent)


def loads(text: str, *, name: str = "pipeline") -> Definition:
    """The definition in a text. Raises DefinitionError, which names `name` and the line."""
    lines: Lines = {}
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise DefinitionError("", f"{name}:{line}: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise DefinitionError("", f"{name}: is no YAML: {error}") from None
    try:
        made = msgspec.convert(_plain(node, "", lines, set()), Definition)
        check(made)
    except msgspec.ValidationError as error:
        raise _located(name, lines, *_described(str(error))) from None
    except DefinitionError as error:
        raise _located(name, lines, error.path, error.problem) from None
    return made


def _plain(node: Any, path: str, lines: Lines, seen: set[int]) -> Any:
    """The value of a node; notes where each field stands."""
    if node is None:
        return None
    lines.setdefault(path, node.start_mark.line + 1)
    if id(node) in seen:
        raise DefinitionError(path, "aliases are not allowed here; write it out")
    if path.count(".") + path.count("[") > MAX_DEPTH:
        raise DefinitionError(path, "is nested too deeply")
    if isinstance(node, yaml.ScalarNode):
        try:
            return yaml.SafeLoader("").construct_object(node)
        except (yaml.YAMLError, ValueError):  # a tag of YAML's that stands for nothing, a day that does not exist
            raise DefinitionError(path, f"{node.value[:80]!r} is no value; put it in quotes") from None
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each, f"{path}[{place}]", lines, seen) for place, each in enumerate(node.value)]
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
        where = f"{path}.{key}" if path else key
        lines[where] = key_node.start_mark.line + 1
        if not key:
            raise DefinitionError(path, "a field needs a name")
        if key in values:
            raise DefinitionError(where, "is there twice")
        values[key] = _plain(value_node, where, lines, seen)
    return values


def _described(text: str) -> tuple[str, str]:
    """Path and problem out of msgspec's sentence."""
    problem, _, path = text.partition(" - at `$")
    path = re.sub(r"\[\.\.\.\]", "", path.rstrip("`")).lstrip(".")
    match = _UNKNOWN.fullmatch(problem)
    if match:
        near = difflib.get_close_matches(match[1], _fields(path), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return (f"{path}.{match[1]}" if path else match[1]), f"there is no such field{hint}"
    return path, problem[:1].lower() + problem[1:]


def _fields(path: str) -> list[str]:
    """The fields that a part of a definition may have."""
    parts: dict[str, type[msgspec.Struct]] = {
        "sinks": SinkEntry,
        "transform": Transform,
        "": Definition,
        "parse": Parse,
        "dedup": Dedup,
        "dlq": DeadLetters,
        "watermark": Watermark,
        "parquet": ParquetTarget,
        "delta": DeltaTarget,
        "iceberg": IcebergTarget,
        "topic": TopicTarget,
        "format": FormatTarget,
    }
    last = re.sub(r"\[\d+\]$", "", path.rpartition(".")[2])
    part = parts.get(last)
    return [field.name for field in msgspec.structs.fields(part)] if part else []


def _located(name: str, lines: Lines, path: str, problem: str) -> DefinitionError:
    where = path
    while where and where not in lines:
        where = re.sub(r"(\.[^.\[]+|\[\d+\]|^[^.\[]+)$", "", where)
    line = lines.get(where, 1)
    error = DefinitionError(path, problem)
    error.args = (f"{name}:{line}: {path + ': ' if path else ''}{problem}",)
    return error


def _rooted(made: Definition, folder: Path) -> Definition:
    def rooted(path: str) -> str:
        return path if "://" in path else str(folder / path)

    made.checkpoint = rooted(made.checkpoint)
    for _, _, target in made.targets:
        if isinstance(target, ParquetTarget | DeltaTarget):
            target.path = rooted(target.path)
        elif isinstance(target, IcebergTarget):
            target.warehouse = rooted(target.warehouse) if target.warehouse else ""
    return made
