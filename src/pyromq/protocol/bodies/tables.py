"""Tables of texts, and the version that says which state of a table a broker holds."""

from typing import Self

from msgspec import field

from pyromq.protocol.bodies.base import Body, Long


class DataVersion(Body):
    """Two tables are the same when all three values are equal; releases before 5.0 have no state version."""

    counter: Long = 0
    state_version: Long = 0
    timestamp: Long = 0

    def next(self, now_ms: int, state_version: int = 0) -> Self:
        """The version after one more change."""
        return type(self)(counter=self.counter + 1, state_version=state_version, timestamp=now_ms)

    def order(self) -> tuple[int, int, int]:
        """Sort key: of two versions of one table the greater one is newer."""
        return self.state_version, self.counter, self.timestamp


class KVTable(Body):
    table: dict[str, str] = field(default_factory=dict)


class KVConfigTable(Body):
    """The name server's file `kvConfig.json`: namespace, key, value."""

    config_table: dict[str, dict[str, str]] = field(default_factory=dict)
