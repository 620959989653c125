"""The broker's settings, under RocketMQ's own property names: the sections of `settings/` and of the store, together.

Values only; each is used by the module it names. Defaults are Apache's, except where PyroMQ promises more: loopback,
and synchronous flush.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pyromq.auth.settings import AuthSettings
from pyromq.broker.settings.apache import OLD_NAMES, WITHOUT_EFFECT, UnsupportedSettings
from pyromq.broker.settings.clients import ClientSettings
from pyromq.broker.settings.delay import DelaySettings
from pyromq.broker.settings.filterserver import FilterServerSettings
from pyromq.broker.settings.identity import AddressSettings, NameSettings, RegistrationSettings
from pyromq.broker.settings.pop import PopSettings
from pyromq.broker.settings.pull import PullSettings
from pyromq.broker.settings.replication import ActingSettings, ReplicationSettings
from pyromq.broker.settings.send import SendSettings, WriterSettings
from pyromq.broker.settings.topics import TopicSettings
from pyromq.broker.settings.transaction import TransactionSettings
from pyromq.proxy.settings import NO_GRPC, GrpcSettings
from pyromq.remoting.accept.settings import NETTY_KEYS
from pyromq.settings.declaration import settings
from pyromq.settings.errors import ConfigError
from pyromq.store.config import (
    AppendSettings,
    BrokerRole,
    FileSettings,
    ReadSettings,
    RetentionSettings,
    RoleSettings,
    StoreConfig,
    StoreSettings,
)
from pyromq.store.errors import StoreError

WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, never bound by default


@settings
class BrokerConfig(
    StoreSettings,  # all of it, whatever the order of sections below
    UnsupportedSettings,
    RetentionSettings,
    ActingSettings,
    ReplicationSettings,
    FileSettings,
    ClientSettings,
    PopSettings,
    FilterServerSettings,
    ReadSettings,
    PullSettings,
    DelaySettings,
    TransactionSettings,
    WriterSettings,
    AppendSettings,
    SendSettings,
    TopicSettings,
    RegistrationSettings,
    AuthSettings,
    GrpcSettings,
    AddressSettings,
    RoleSettings,
    NameSettings,
):
    """Everything a broker can be told."""

    ignored: ClassVar[frozenset[str]] = WITHOUT_EFFECT | NETTY_KEYS
    old_names: ClassVar[Mapping[str, str]] = OLD_NAMES

    def check_together(self) -> None:
        super().check_together()
        if self.broker_role is BrokerRole.SLAVE and self.broker_id == 0:
            raise ConfigError("brokerId must be above 0 for brokerRole = SLAVE: 0 is the master's")
        if self.broker_role is not BrokerRole.SLAVE and self.broker_id != 0:
            raise ConfigError(f"brokerId must be 0 for brokerRole = {self.broker_role}; only a slave has another")
        for key, name in (("brokerName", self.broker_name), ("brokerClusterName", self.broker_cluster_name)):
            if not re.fullmatch(r"[%|a-zA-Z0-9_-]{1,127}", name):
                raise ConfigError(f"{key} = {name!r} may hold letters, digits and %|_- only, 1 to 127 of them")
        if self.broker_role is BrokerRole.SLAVE and self.grpc_port != NO_GRPC:
            raise ConfigError("grpcServerPort is for masters: gRPC clients of a slave's topics go to its master")
        if self.in_sync_replicas and self.min_in_sync_replicas > self.in_sync_replicas:
            raise ConfigError(f"minInSyncReplicas is {self.min_in_sync_replicas}, above inSyncReplicas")
        if self.advertised_host in WILDCARDS - {""}:
            raise ConfigError(f"brokerIP1 = {self.advertised_host} is no address a client can connect to; name one")
        try:
            self.store_config()
        except StoreError as error:
            raise ConfigError(str(error)) from error

    @property
    def config_dir(self) -> Path:
        """Where topics, groups and offsets are kept."""
        return self.store_path_root_dir / "config"

    def store_config(self) -> StoreConfig:
        """The part of these settings that the store uses."""
        return StoreConfig.of(self)
