"""Tables of texts: broker runtime info, the name server's KV configuration."""

from msgspec import field

from pyromq.protocol.bodies.base import Body


class KVTable(Body):
    table: dict[str, str] = field(default_factory=dict)


class KVConfigTable(Body):
    """The name server's file `kvConfig.json`: namespace, key, value."""

    config_table: dict[str, dict[str, str]] = field(default_factory=dict)
