"""One of the JSON files in `config/`: an object whose members are maps, kept encoded entry by entry. Blocks.

Writing costs what changed, and copying the rest: an entry is encoded when it changes and kept as it is in the file.
The text is the one of `Body.pretty`, so that Apache's broker reads it.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyromq.configfile import write_config
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.lenient import dumps

Changes = Mapping[str, Mapping[str, Any]]
"""Member of the file → key → new value; None takes the entry away."""


class TableFile:
    """`write` may run in any thread, one at a time."""

    def __init__(self, path: Path, *maps: str) -> None:
        self.path = path
        self._encoded: dict[str, dict[str, bytes]] = {name: {} for name in maps}
        self._plain: Changes = {}

    def start_with(self, entries: Changes) -> None:
        """What the file holds beside the changes to come. Encoded with the first of them, as a start has no time."""
        self._encoded = {name: {} for name in self._encoded}
        self._plain = {name: dict(entries[name]) for name in self._encoded}

    def write(self, changes: Changes, version: DataVersion | None = None) -> None:
        """Apply the changes to the file. Raises OSError, and then neither the file nor this changed."""
        encoded = {
            name: _changed(_changed(known, self._plain.get(name, {})), changes.get(name, {}))
            for name, known in self._encoded.items()
        }
        write_config(self.path, _text(encoded, version))
        self._encoded, self._plain = encoded, {}


def _changed(encoded: dict[str, bytes], changes: Mapping[str, Any]) -> dict[str, bytes]:
    if not changes:
        return encoded
    encoded = dict(encoded)
    for key, value in changes.items():
        if value is None:
            encoded.pop(key, None)
        else:
            encoded[key] = _indented({key: value})
    return encoded


def _indented(members: Mapping[str, object]) -> bytes:
    """Members of an object as they stand one level deeper. Line breaks are the writer's: those in texts are escaped."""
    return dumps(members, pretty=True)[1:-2].replace(b"\n", b"\n\t")


def _text(encoded: Mapping[str, Mapping[str, bytes]], version: DataVersion | None) -> bytes:
    members = {name: _map(name, entries.values()) for name, entries in encoded.items()}
    if version is not None:
        members["dataVersion"] = b'\n\t"dataVersion":' + dumps(version, pretty=True).replace(b"\n", b"\n\t")
    return b"{" + b",".join([members[name] for name in sorted(members)]) + b"\n}"


def _map(name: str, entries: Iterable[bytes]) -> bytes:
    inner = b",".join(entries)
    return b'\n\t"%s":{%s%s}' % (name.encode(), inner, b"\n\t" if inner else b"")
