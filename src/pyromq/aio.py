"""PyroMQ's clients for asyncio. `pyromq` has the same names for threads."""

from pyromq.client.admin.admin import Admin
from pyromq.client.config import ClientConfig, ProducerConfig
from pyromq.client.consumer.config import PullConfig, PushConfig
from pyromq.client.consumer.fetch import PullResult, PullStatus
from pyromq.client.consumer.pull.consumer import PullConsumer
from pyromq.client.consumer.push.consumer import PushConsumer
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
from pyromq.client.producer.producer import Producer
from pyromq.client.producer.results import LocalTransactionState, SendResult, SendStatus, TransactionSendResult
from pyromq.client.producer.transaction import TransactionListener, TransactionProducer
from pyromq.client.request.reply import create_reply
from pyromq.errors import PyroMQError
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
