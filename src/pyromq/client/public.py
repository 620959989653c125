"""The names that `pyromq` and `pyromq.aio` have in common: all that users need beside the clients themselves."""

from pyromq.client.admin.deadletters import RedriveError, RedriveTo
from pyromq.client.config import AccessChannel, ClientConfig, ProducerConfig
from pyromq.client.consumer.config import PullConfig, PushConfig
from pyromq.client.consumer.damage import OnDamaged
from pyromq.client.consumer.fetch import PullResult, PullStatus
from pyromq.client.consumer.offsets import OffsetStore
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
from pyromq.client.producer.faults import AvoidanceTable
from pyromq.client.producer.results import LocalTransactionState, SendResult, SendStatus, TransactionSendResult
from pyromq.client.producer.transaction import TransactionListener
from pyromq.client.request.reply import create_reply
from pyromq.client.trace.context import context_of
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.enums import ConsumeFromWhere, MessageModel
from pyromq.protocol.message import Message, MessageQueue, ReceivedMessage
from pyromq.protocol.records.compression import CompressionType
from pyromq.remoting.connect.socks import SocksProxy
from pyromq.remoting.tls import ClientTls

__all__ = [
    "AccessChannel",
    "AllocationStrategy",
    "Average",
    "AverageByCircle",
    "AvoidanceTable",
    "BrokerError",
    "ByConfig",
    "ByMachineRoom",
    "ClientConfig",
    "ClientError",
    "ClientTls",
    "CompressionType",
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
    "OffsetStore",
    "OnDamaged",
    "OrderlyContext",
    "PartialFailureError",
    "ProducerConfig",
    "PullConfig",
    "PullResult",
    "PullStatus",
    "PushConfig",
    "PyroMQError",
    "ReceivedMessage",
    "RedriveError",
    "RedriveTo",
    "RequestTimeout",
    "SendFailedError",
    "SendResult",
    "SendStatus",
    "ServiceStateError",
    "SocksProxy",
    "TooManyRequestsError",
    "TransactionListener",
    "TransactionSendResult",
    "TransportError",
    "context_of",
    "create_reply",
]
