"""A core for parts that are tested alone: real tables and, where one is given, a real store; nothing listens."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from pyromq.broker.cluster.addresses import Identity
from pyromq.broker.config import BrokerConfig
from pyromq.broker.core import Core
from pyromq.broker.ports import Ports
from pyromq.broker.tables.tables import Tables
from pyromq.protocol.records.host import Host
from pyromq.remoting.client import Client
from pyromq.store.messagestore import MessageStore

STORE_HOST = Host("127.0.0.1", 10911)


def make_core(config: BrokerConfig, clock: Callable[[], int], store: MessageStore | None = None) -> Core:
    """Without a store, only the address and the configuration of one are there."""
    if store is None:
        store = cast("MessageStore", SimpleNamespace(store_host=STORE_HOST, config=config.store_config()))
    identity = Identity(
        config.broker_cluster_name, config.broker_name, config.broker_id, "127.0.0.1:10911", "127.0.0.1:10912"
    )
    ports = Ports(config, None, clock, clock)
    return Core.make(config, clock, store, Client({}), ports, identity, Tables(config, clock))
