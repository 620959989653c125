"""Back references: fastjson writes an object that occurs a second time as `{"$ref":"<path>"}`.

Paths seen: `$` (the whole), `$.name.name`, `$.list[0]`, `$.map[7]` (a map keyed by ints), `..` (the parent of the
enclosing object), `@` (the enclosing object), and `$.map.null`: an object that stood as a key of that map, which is
only clear when the map has one such key. Recent releases escape characters of names with a backslash, older ones do
not, so the first name that fits is taken, with further parts added until one does.
"""

import re

from pyromq.protocol.errors import BodyError
from pyromq.protocol.lenient.objectkey import ObjectKey

_MAX_PATH = 512
_MAX_LOOKUPS = 200_000  # dictionary lookups for one text: bounds the work a hostile text can ask for
_MAX_JOINED = 16  # parts of one name that holds unescaped dots, such as a client id with an address in it
_NAME_END = re.compile(r"(?<!\\)[.\[]|$")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_INDEX = re.compile(r"\[([0-9]{1,10})\]")

_MISSING = object()


def resolve(root: object) -> object:
    """Put the objects that references point to in their place, in `root` itself."""
    return _Resolver(root).run()


class _Resolver:
    def __init__(self, root: object) -> None:
        self.root = root
        self.lookups = 0

    def run(self) -> object:
        if _path_of(self.root) is not None:
            raise BodyError("the whole text is one reference")
        pending: list[tuple[object, object]] = [(self.root, None)]
        while pending:
            node, parent = pending.pop()
            if isinstance(node, dict):
                self._keys(node)
                items = list(node.items())
            elif isinstance(node, list):
                items = list(enumerate(node))
            else:
                continue
            for key, child in items:
                path = _path_of(child)
                if path is not None:
                    node[key] = self._target(path, node, parent)
                elif isinstance(child, dict | list):
                    pending.append((child, node))
        return self.root

    def _keys(self, node: dict[object, object]) -> None:
        """Resolve references that stand as keys, keeping the order of the members."""
        paths = {key: path for key in node if (path := _key_path(key)) is not None}
        if not paths:
            return
        members = list(node.items())
        resolved = {key: self._key_target(path) for key, path in paths.items()}
        node.clear()
        for key, child in members:
            node[resolved.get(key, key)] = child

    def _key_target(self, path: str) -> object:
        target = self._walk(path)
        return ObjectKey.of(target) if isinstance(target, dict) else target

    def _target(self, path: str, node: object, parent: object) -> object:
        if path == "@":
            return node
        if path == "..":
            return node if parent is None else parent
        target = self._walk(path)
        # An object that stood as a key is frozen; as a value it is an ordinary object again.
        return target.members() if isinstance(target, ObjectKey) else target

    def _walk(self, path: str) -> object:
        if len(path) > _MAX_PATH or path[0] != "$":
            raise BodyError(f"cannot resolve reference {path[:80]!r}: too long or not from the root")
        node, at = self.root, 1
        while at < len(path):
            node, at = self._step(node, path, at)
            if node is _MISSING or _path_of(node) is not None:
                raise BodyError(f"cannot resolve reference {path!r}: nothing at {path[:at]!r}")
        return node

    def _step(self, node: object, path: str, at: int) -> tuple[object, int]:
        self._count()
        if (index := _INDEX.match(path, at)) is not None:
            number = int(index.group(1))
            if isinstance(node, list):
                return (node[number] if number < len(node) else _MISSING), index.end()
            if isinstance(node, dict):
                return node.get(number, node.get(index.group(1), _MISSING)), index.end()
        elif path[at] == "." and isinstance(node, dict):
            return self._member(node, path, at + 1)
        return _MISSING, len(path)

    def _member(self, node: dict[object, object], path: str, at: int) -> tuple[object, int]:
        ends = [match.start() for match, _ in zip(_NAME_END.finditer(path, at), range(_MAX_JOINED), strict=False)]
        for end in ends:
            self._count()
            name = _ESCAPED.sub(r"\1", path[at:end])
            if name in node:
                return node[name], end
            if name.isascii() and name.isdigit() and (number := int(name)) in node:
                return node[number], end
            if name == "null":
                objects = [key for key in node if isinstance(key, ObjectKey) and _key_path(key) is None]
                self.lookups += len(node)
                return (objects[0] if len(objects) == 1 else _MISSING), end
        return _MISSING, ends[0]

    def _count(self) -> None:
        self.lookups += 1
        if self.lookups > _MAX_LOOKUPS:
            raise BodyError("too many references to resolve")


def _path_of(value: object) -> str | None:
    """The path if `value` is a reference: an object whose only member is `$ref`, with a path as fastjson writes it."""
    if isinstance(value, dict) and len(value) == 1:
        path = value.get("$ref")
        if isinstance(path, str) and (path in ("@", "..") or path.startswith("$")):
            return path
    return None


def _key_path(key: object) -> str | None:
    return _path_of(key.members()) if isinstance(key, ObjectKey) else None
