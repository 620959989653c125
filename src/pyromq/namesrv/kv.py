"""Key-value configuration, kept in `kvConfig.json` in Apache's format.

Invariant: what a reader sees is on disk. A change is written first, in a thread, and one at a time.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from pyromq.configfile import read_config, write_config
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.tables import KVConfigTable
from pyromq.protocol.bounds import NAME, VALUE
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ProtocolError, ValidationError

log = logging.getLogger(__name__)

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"
"""Namespace of ordered topics: topic → `broker-a:4;broker-b:4`."""
MAX_KEY = NAME.most
MAX_VALUE = VALUE.most
MAX_TEXT = 8 * 1024 * 1024
"""Bytes of the whole file, so that any part of it fits into one answer."""


class KVError(PyroMQError):
    """The configuration could not be read or written."""


class KVConfig:
    """namespace → key → value; entries, the size of each and of all are bounded."""

    def __init__(self, path: Path, *, max_entries: int) -> None:
        self._path = path
        self._max_entries = max_entries
        self._table: Mapping[str, Mapping[str, str]] = {}
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Read the file, or its backup. Blocks. Raises KVError when there is something that cannot be read."""
        try:
            stored = read_config(self._path, KVConfigTable.decode)
        except (ProtocolError, OSError) as error:
            raise KVError(f"cannot read the key-value configuration {self._path}: {error}") from error
        self._table = stored.config_table if stored else {}

    def get(self, namespace: str, key: str) -> str | None:
        """One value, None when absent."""
        return self.namespace(namespace).get(key)

    def namespace(self, namespace: str) -> Mapping[str, str]:
        """All values of a namespace; empty when absent."""
        return self._table.get(namespace, {})

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set one value. Raises ValidationError for bad sizes and at the bound, KVError when it cannot be written."""
        _check_length("namespace", namespace, 1, MAX_KEY)
        _check_length("key", key, 1, MAX_KEY)
        _check_length("value", value, 0, MAX_VALUE)
        async with self._writing:
            entries = sum(map(len, self._table.values()))
            if key not in self.namespace(namespace) and entries >= self._max_entries:
                raise ValidationError(
                    f"there are {entries} entries, the limit (maxKvEntries); delete some or raise it",
                    ResponseCode.SYSTEM_ERROR,
                )
            await self._replace(namespace, {**self.namespace(namespace), key: value})

    async def delete(self, namespace: str, key: str) -> None:
        """Remove one value; nothing happens when it is absent. Raises KVError when that cannot be written."""
        async with self._writing:
            if key in self.namespace(namespace):
                rest = {name: value for name, value in self.namespace(namespace).items() if name != key}
                await self._replace(namespace, rest)

    async def _replace(self, namespace: str, values: dict[str, str]) -> None:
        table = {name: dict(known) for name, known in self._table.items() if name != namespace}
        if values:
            table[namespace] = values
        text = KVConfigTable(config_table=table).encode()
        if len(text) > MAX_TEXT:
            raise ValidationError(
                f"the key-value configuration would have {len(text)} bytes, more than {MAX_TEXT}; delete something",
                ResponseCode.SYSTEM_ERROR,
            )
        try:
            await asyncio.to_thread(write_config, self._path, text)
        except OSError as error:
            # The answer goes to a remote caller, whom paths do not concern; the log has it.
            log.exception("cannot write %s", self._path)
            raise KVError(f"the key-value configuration could not be written: {error.strerror}") from error
        self._table = table


def _check_length(what: str, text: str, least: int, most: int) -> None:
    if not least <= len(text) <= most:
        raise ValidationError(
            f"{what} has {len(text)} characters; {least} to {most} are allowed", ResponseCode.INVALID_PARAMETER
        )
