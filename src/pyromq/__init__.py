"""PyroMQ: RocketMQ in Python, wire- and file-compatible with Apache RocketMQ.

The names here are the clients for threads; `pyromq.aio` has the same ones for asyncio. They are loaded when first
used, so that servers and tools do not pay for clients, and importing starts no thread.
"""

import importlib
from typing import TYPE_CHECKING

from pyromq.errors import PyroMQError

if TYPE_CHECKING:
    from pyromq.client.blocking.admin import Admin
    from pyromq.client.blocking.producer import Producer, TransactionProducer
    from pyromq.client.blocking.pull_consumer import PullConsumer
    from pyromq.client.blocking.push_consumer import PushConsumer
    from pyromq.client.config import ClientConfig, ProducerConfig
    from pyromq.client.consumer.config import PullConfig, PushConfig
    from pyromq.client.consumer.fetch import PullResult, PullStatus
    from pyromq.client.consumer.push.listener import ConcurrentContext, ConsumeOutcome, OrderlyContext
    from pyromq.client.consumer.rebalance.allocation import (
        AllocationStrategy,
        Average,
        AverageByCircle,
        ByConfig,
        ByMachineRoom,
        ConsistentHash,
        NearbyRoom,
    )
    from pyromq.client.errors import (
        BrokerError,
        ClientError,
        NoRouteError,
        PartialFailureError,
        RequestTimeout,
        SendFailedError,
        ServiceStateError,
        TooManyRequestsError,
        TransportError,
    )
    from pyromq.client.producer.results import LocalTransactionState, SendResult, SendStatus, TransactionSendResult
    from pyromq.client.producer.transaction import TransactionListener
    from pyromq.client.request.reply import create_reply
    from pyromq.protocol.bodies.enums import ConsumeFromWhere, MessageModel
    from pyromq.protocol.message import Message, MessageQueue, ReceivedMessage
    from pyromq.remoting.tls import ClientTls

__all__ = [
    "Admin",
    "AllocationStrategy",
    "Average",
    "AverageByCircle",
    "BrokerError",
    "ByConfig",
    "ByMachineRoom",
    "ClientConfig",
    "ClientError",
    "ClientTls",
    "ConcurrentContext",
    "ConsistentHash",
    "ConsumeFromWhere",
    "ConsumeOutcome",
    "LocalTransactionState",
    "Message",
    "MessageModel",
    "MessageQueue",
    "NearbyRoom",
    "NoRouteError",
    "OrderlyContext",
    "PartialFailureError",
    "Producer",
    "ProducerConfig",
    "PullConfig",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConfig",
    "PushConsumer",
    "PyroMQError",
    "ReceivedMessage",
    "RequestTimeout",
    "SendFailedError",
    "SendResult",
    "SendStatus",
    "ServiceStateError",
    "TooManyRequestsError",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "TransportError",
    "create_reply",
]

_HOMES = {
    "pyromq.client.blocking.admin": ("Admin",),
    "pyromq.client.blocking.producer": ("Producer", "TransactionProducer"),
    "pyromq.client.blocking.pull_consumer": ("PullConsumer",),
    "pyromq.client.blocking.push_consumer": ("PushConsumer",),
    "pyromq.client.consumer.rebalance.allocation": (
        "AllocationStrategy",
        "Average",
        "AverageByCircle",
        "ByConfig",
        "ByMachineRoom",
        "ConsistentHash",
        "NearbyRoom",
    ),
    "pyromq.client.consumer.config": ("PullConfig", "PushConfig"),
    "pyromq.client.consumer.fetch": ("PullResult", "PullStatus"),
    "pyromq.client.consumer.push.listener": ("ConcurrentContext", "ConsumeOutcome", "OrderlyContext"),
    "pyromq.protocol.bodies.enums": ("ConsumeFromWhere", "MessageModel"),
    "pyromq.client.config": ("ClientConfig", "ProducerConfig"),
    "pyromq.client.errors": (
        "BrokerError",
        "ClientError",
        "NoRouteError",
        "PartialFailureError",
        "RequestTimeout",
        "SendFailedError",
        "ServiceStateError",
        "TooManyRequestsError",
        "TransportError",
    ),
    "pyromq.client.request.reply": ("create_reply",),
    "pyromq.client.producer.results": ("LocalTransactionState", "SendResult", "SendStatus", "TransactionSendResult"),
    "pyromq.client.producer.transaction": ("TransactionListener",),
    "pyromq.protocol.message": ("Message", "MessageQueue", "ReceivedMessage"),
    "pyromq.remoting.tls": ("ClientTls",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'pyromq' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
