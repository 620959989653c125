"""PyroMQ's clients for asyncio. `pyromq` has the same names for threads."""

from pyromq.client.config import ClientConfig, ProducerConfig
from pyromq.client.errors import (
    BrokerError,
    ClientError,
    NoRouteError,
    RequestTimeout,
    SendFailedError,
    ServiceStateError,
    TooManyRequestsError,
    TransportError,
)
from pyromq.client.producer import Producer
from pyromq.client.request_reply import create_reply
from pyromq.client.results import LocalTransactionState, SendResult, SendStatus, TransactionSendResult
from pyromq.client.transaction import TransactionListener, TransactionProducer
from pyromq.errors import PyroMQError
from pyromq.protocol.message import Message, MessageQueue, ReceivedMessage

__all__ = [
    "BrokerError",
    "ClientConfig",
    "ClientError",
    "LocalTransactionState",
    "Message",
    "MessageQueue",
    "NoRouteError",
    "Producer",
    "ProducerConfig",
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
