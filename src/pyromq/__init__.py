"""PyroMQ: RocketMQ in Python, wire- and file-compatible with Apache RocketMQ.

The names here are the clients for threads; `pyromq.aio` has the same ones for asyncio. They are loaded when first
used, so that servers and tools do not pay for clients, and importing starts no thread. It tells Spark, where that is
installed, to run this Python (see `sparkpython`), and changes nothing else. Beside them users have
`pyromq.selectors`, `pyromq.hooks`, `pyromq.metrics`, `pyromq.testing` and `pyromq.spark`; everything else is private.
"""

import importlib.util
import os
from typing import TYPE_CHECKING

from pyromq import sparkpython

if TYPE_CHECKING:
    from pyromq.client.blocking.admin import Admin as Admin
    from pyromq.client.blocking.producer import Producer as Producer
    from pyromq.client.blocking.producer import TransactionProducer as TransactionProducer
    from pyromq.client.blocking.pull_consumer import PullConsumer as PullConsumer
    from pyromq.client.blocking.push_consumer import PushConsumer as PushConsumer
    from pyromq.client.public import *  # noqa: F403 - the names are listed there
    from pyromq.client.public import __all__ as __all__
else:
    _CLIENTS = {
        "Admin": "client.blocking.admin",
        "Producer": "client.blocking.producer",
        "PullConsumer": "client.blocking.pull_consumer",
        "PushConsumer": "client.blocking.push_consumer",
        "TransactionProducer": "client.blocking.producer",
    }
    # What goes with a producer is loaded with no more than it needs; the first of all other names loads all of them.
    _HOMES = _CLIENTS | {
        **dict.fromkeys(("Message", "MessageQueue", "ReceivedMessage"), "protocol.message"),
        **dict.fromkeys(("BrokerError", "ClientError", "NoRouteError", "SendFailedError"), "client.errors"),
        **dict.fromkeys(("SendResult", "SendStatus"), "client.producer.results"),
        "PyroMQError": "errors",
    }

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            value = getattr(importlib.import_module(f"pyromq.{_HOMES[name]}"), name)
        elif (name.startswith("_") and name != "__all__") or importlib.util.find_spec(f"pyromq.{name}") is not None:
            value = None  # what tools ask every module for; a module below this one, which `import` loads by itself
        else:
            public = importlib.import_module("pyromq.client.public")
            value = [*_CLIENTS, *public.__all__] if name == "__all__" else getattr(public, name, None)
        if value is None:
            raise AttributeError(f"module 'pyromq' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})


sparkpython.tell_spark(os.environ)
