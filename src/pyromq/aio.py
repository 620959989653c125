"""PyroMQ's clients for asyncio. `pyromq` has the same names for threads."""

from pyromq.client import public
from pyromq.client.admin.admin import Admin
from pyromq.client.consumer.pull.consumer import PullConsumer
from pyromq.client.consumer.push.consumer import PushConsumer
from pyromq.client.producer.producer import Producer
from pyromq.client.producer.transaction import TransactionProducer
from pyromq.client.public import *  # noqa: F403 - the names are listed there

__all__ = ["Admin", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"]
__all__ += public.__all__
