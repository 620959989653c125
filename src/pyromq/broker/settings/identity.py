"""Who a broker is, where it listens, and how it tells name servers."""

import platform
import re

from pyromq.remoting.accept.settings import ServerSettings
from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import Address, Addresses, computed, option


def default_broker_name() -> str:
    """The host name, reduced to characters that a broker name may have."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", platform.node()) or "broker"


@settings
class NameSettings(ServerSettings):
    """Identity and addresses."""

    broker_name: str = option(computed(default_broker_name, "the host name"), "Name shared by a master and its slaves.")
    broker_cluster_name: str = option("DefaultCluster", "Cluster this broker belongs to.")
    broker_id: int = option(0, "0 for a master, a number above it for a slave.", minimum=0, maximum=2**31 - 1)


@settings
class AddressSettings(ServerSettings):
    """Identity and addresses."""

    broker_permission: int = option(
        6, "4 read, 2 write, 6 both; what is missing is taken from every topic.", minimum=0, maximum=6, reloadable=True
    )
    listen_port: int = option(10911, "Main port; 0 takes a free one.", minimum=0, maximum=65535)
    fast_listen: bool = option(True, "Also listen on the port two below the main one, as old clients expect.")
    advertised_host: Address = option(
        "", "Host name or address that clients are told to use; empty: the bound one.", key="brokerIP1"
    )
    replication_host: Address = option("", "Like brokerIP1, for slaves; empty: the same.", key="brokerIP2")
    namesrv_addr: Addresses = option((), "Name servers to register with.", env="NAMESRV_ADDR", short="n")
    http_port: int | None = option(
        None,
        "Port of /metrics and /health; empty: 8090 or, while that is taken, a free one; 0: a free one, -1: none.",
        minimum=-1,
        maximum=65535,
    )
    http_host: Address = option(
        "127.0.0.1", "Address of /metrics and /health, which ask nobody who they are.", key="httpBindAddress"
    )
    metrics_otel_cardinality_limit: int = option(
        10_000, "Sets of labels that one metric has; the rest is shown as one.", minimum=10, reloadable=True
    )


@settings
class RegistrationSettings(Settings):
    """Registration with name servers."""

    register_name_server_period: int = option(
        30_000, "Time between two registrations.", unit="ms", minimum=10_000, maximum=60_000
    )
    register_broker_timeout_mills: int = option(
        24_000, "How long one name server may take to answer.", unit="ms", minimum=100, reloadable=True
    )
