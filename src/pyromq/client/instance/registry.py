"""The client instances of this process: one per event loop and client id, made when first asked for."""

import asyncio
import dataclasses
import weakref

from pyromq.client.clock import Clock
from pyromq.client.config import ClientConfig
from pyromq.client.instance.identity import client_id, instance_name, local_ip
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.transport import Transport

Table = dict[str, ClientInstance]

_tables: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Table]" = weakref.WeakKeyDictionary()


def obtain(
    config: ClientConfig,
    group: str,
    *,
    clock: Clock | None = None,
    transport: Transport | None = None,
    keep_name: bool = False,
) -> ClientInstance:
    """The instance for the client id that the configuration and group give; the first caller's settings are kept.

    With the default instance name every client gets an instance of its own, unless `keep_name` asks for an id that
    stays the same from run to run. Call it on the event loop.
    """
    table = _tables.setdefault(asyncio.get_running_loop(), {})
    name = config.instance_name if keep_name else instance_name(config.instance_name, group)
    identity = client_id(config.client_ip or local_ip(), name, config.unit_name, stream=config.stream_requests)
    instance = table.get(identity)
    if instance is None:
        kept = dataclasses.replace(config, instance_name=name)
        instance = table[identity] = ClientInstance(identity, kept, clock=clock, transport=transport)
        instance.on_stop.append(lambda: table.pop(identity, None))
    return instance
