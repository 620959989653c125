"""The generator of message ids that a client instance uses."""

import os
import random
from collections.abc import Callable

from pyromq.client.instance.instance import ClientInstance
from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.ids import UniqueIdGenerator


def unique_ids(instance: ClientInstance) -> Callable[[], str]:
    """A function that returns the next id; without a usable address, low bytes of the clock stand in for it."""
    ip = instance.client_id.partition("@")[0].strip("[]")
    # Drawn per generator: two in one process count separately and must not meet.
    constant = random.getrandbits(32)
    try:
        return UniqueIdGenerator(ip, os.getpid(), constant, instance.clock.millis)
    except MessageError:
        low = (instance.clock.millis() & 0xFFFF_FFFF).to_bytes(4)
        return UniqueIdGenerator(".".join(map(str, low)), os.getpid(), constant, instance.clock.millis)
