"""Servers for gRPC clients: PyroMQ's and Apache's proxy, each in front of brokers of either kind.

`MODES` has one starter for each way that a client can reach a broker; scenarios know only the `Gateway` it yields.
"""

import contextlib
import json
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyromq import Admin
from pyromq.auth.certificates import DevelopmentCertificates
from pyromq.auth.rules import Action, Decision, Entry, PolicyType, Resource, parse_sources
from pyromq.auth.users.access import User, UserStatus
from pyromq.auth.users.store import AccessStore
from tests.interop.artifacts import SERVER_VERSION, apache_proxy
from tests.interop.secured import ALICE, AUTHENTICATION, CAROL, apache_authenticated, our_authenticated
from tests.interop.servers import START_TIMEOUT, Cluster, Server, apache, java, ours, write_logging
from tests.processes import free_port

PROXY_AUTHENTICATION = AUTHENTICATION | {
    "enableAclRpcHookForClusterMode": "true",
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider",
    "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthorizationMetadataProvider",
}
"""Has Apache's proxy sign what it asks of brokers, and ask them for users and rules."""
TEST_MODE = {"tls.test.mode.enable": "true"}
"""Has our servers make up a certificate, as Apache's proxy does unless told otherwise."""
STRICT = {"autoCreateTopicEnable": "false", "recallMessageEnable": "true"}
"""Has brokers of either kind know only topics that were created, and let producers take messages back."""


QUICK = {"transactionTimeOut": "1000", "transactionCheckInterval": "2000"}
"""Has a standalone server check transactions as often as the brokers of a cluster here do."""


@dataclass(frozen=True)
class Gateway:
    """Where clients connect with gRPC, and the servers behind it."""

    endpoint: str
    proxy: Server
    """The process that serves gRPC: a broker that does so itself is its own proxy."""
    cluster: Cluster

    @property
    def embedded(self) -> bool:
        """Whether proxy and broker are one process."""
        return self.proxy is self.cluster.broker

    def restart_broker(self) -> None:
        """Stop the broker and start it again; one behind a proxy is killed, for Apache's takes half a minute to end."""
        self.cluster.broker.restart(signal.SIGTERM if self.embedded else signal.SIGKILL)
        self.settle()

    def restart_proxy(self) -> None:
        """Stop the process that serves gRPC and start it again."""
        self.proxy.restart()
        self.settle()

    def settle(self) -> None:
        """Wait until the broker is registered and gRPC is served."""
        self.cluster.settle()
        host, port = self.endpoint.rsplit(":", 1)
        end = time.monotonic() + START_TIMEOUT
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                return
            time.sleep(0.05)
        raise RuntimeError(f"nobody serves gRPC on {self.endpoint}:\n{self.proxy.log.read_text()[-4000:]}")


Starter = Callable[[Path], AbstractContextManager[Gateway]]


def our_proxy(folder: Path, namesrv: str, **properties: str) -> Server:
    """`pyromq proxy` as a process, in front of the cluster of a name server."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    text = {"namesrvAddr": namesrv, "grpcServerPort": str(port), "dataDir": str(folder), **TEST_MODE, **properties}
    (folder / "proxy.conf").write_text("".join(f"{key}={value}\n" for key, value in text.items()))
    command = [sys.executable, "-m", "pyromq", "proxy", "-c", str(folder / "proxy.conf"), "--json"]
    return Server(folder, command, f"127.0.0.1:{port}", "proxy.log")


def our_secured_proxy(folder: Path, namesrv: str) -> Server:
    """The same with users, whom it knows from a folder of its own."""
    store = AccessStore(folder / "auth")
    everything = [
        Entry(Resource.parse(resource), Action.PUB | Action.SUB, Decision.ALLOW, parse_sources(("127.0.0.1",)))
        for resource in ("Topic:*", "Group:*")
    ]
    for (name, secret), status in ((ALICE, UserStatus.ENABLE), (CAROL, UserStatus.DISABLE)):
        store.create_user(User(name, secret, status=status))
        store.add_rules(name, PolicyType.CUSTOM, everything)
    return our_proxy(folder, namesrv, **AUTHENTICATION)


def apaches_proxy(folder: Path, namesrv: str, **properties: str) -> Server:
    """Apache's proxy in cluster mode."""
    folder.mkdir(parents=True, exist_ok=True)
    write_logging(folder, "proxy")
    port = free_port()
    config = {
        "rocketMQClusterName": "DefaultCluster",
        "namesrvAddr": namesrv,
        "proxyMode": "cluster",
        "grpcServerPort": port,
        "remotingListenPort": free_port(),
        **properties,
    }
    (folder / "proxy.json").write_text(json.dumps(config))
    main = ["org.apache.rocketmq.proxy.ProxyStartup", "-pc", str(folder / "proxy.json")]
    command = java(apache_proxy(SERVER_VERSION), *main, heap="512m", home=folder)
    return Server(folder, command, f"127.0.0.1:{port}", "proxy.log", ROCKETMQ_HOME=str(folder))


@contextmanager
def standalone(folder: Path) -> Iterator[Gateway]:
    """`pyromq standalone`, which serves gRPC from within the broker."""
    folder.mkdir(parents=True, exist_ok=True)
    namesrv, grpc = free_port(), free_port()
    ports = ["--namesrv-port", str(namesrv), "--broker-port", str(free_port()), "--grpc-port", str(grpc)]
    command = [sys.executable, "-m", "pyromq", "standalone", "--data", str(folder / "data"), "--http-port", "-1"]
    with Server(folder, [*command, *ports, "--json"], f"127.0.0.1:{namesrv}", "standalone.log") as server:
        gateway = Gateway(f"127.0.0.1:{grpc}", server, Cluster(server, server))
        gateway.settle()
        with Admin(namesrv=gateway.cluster.namesrv, instance_name=f"quick-{grpc}") as admin:
            admin.update_broker_config(STRICT | QUICK, cluster="DefaultCluster")
        yield gateway


@contextmanager
def _behind(proxy: Server, cluster: Cluster) -> Iterator[Gateway]:
    with proxy:
        yield Gateway(proxy.address, proxy, cluster)
    cluster.broker.stop(signal.SIGKILL)  # nobody needs its files, and Apache's takes half a minute to end


@contextmanager
def proxied(folder: Path) -> Iterator[Gateway]:
    """Our proxy in front of our name server and broker."""
    with (
        ours(folder, **STRICT) as cluster,
        _behind(our_proxy(folder / "proxy", cluster.namesrv), cluster) as gateway,
    ):
        yield gateway


@contextmanager
def before_apache(folder: Path) -> Iterator[Gateway]:
    """Our proxy in front of Apache's name server and broker."""
    with (
        apache(folder, **STRICT) as cluster,
        _behind(our_proxy(folder / "proxy", cluster.namesrv), cluster) as gateway,
    ):
        yield gateway


@contextmanager
def apache_before_ours(folder: Path) -> Iterator[Gateway]:
    """Apache's proxy in front of our name server and broker."""
    with (
        ours(folder, **STRICT) as cluster,
        _behind(apaches_proxy(folder / "proxy", cluster.namesrv), cluster) as gateway,
    ):
        yield gateway


@contextmanager
def apache_only(folder: Path) -> Iterator[Gateway]:
    """Apache's proxy in front of Apache's servers: what drivers are proven with."""
    with (
        apache(folder, **STRICT) as cluster,
        _behind(apaches_proxy(folder / "proxy", cluster.namesrv), cluster) as gateway,
    ):
        yield gateway


@contextmanager
def secured_broker(folder: Path) -> Iterator[Gateway]:
    """Our broker, which serves gRPC itself and knows its users."""
    grpc = free_port()
    with our_authenticated(folder, grpcServerPort=str(grpc), **TEST_MODE) as cluster:
        gateway = Gateway(f"127.0.0.1:{grpc}", cluster.broker, cluster)
        gateway.settle()
        yield gateway


@contextmanager
def secured_proxy(folder: Path) -> Iterator[Gateway]:
    """Our proxy in front of our servers, all of which know their users."""
    with (
        our_authenticated(folder) as cluster,
        _behind(our_secured_proxy(folder / "proxy", cluster.namesrv), cluster) as gateway,
    ):
        yield gateway


@contextmanager
def secured_before_apache(folder: Path) -> Iterator[Gateway]:
    """Our proxy in front of Apache's servers; users are known by the broker."""
    with (
        apache_authenticated(folder) as cluster,
        _behind(our_secured_proxy(folder / "proxy", cluster.namesrv), cluster) as gateway,
    ):
        yield gateway


@contextmanager
def encrypted(folder: Path, files: DevelopmentCertificates) -> Iterator[Gateway]:
    """Our proxy with a certificate that an authority signed, for clients that check it."""
    tls = {"tls.server.certPath": str(files.server.certificate), "tls.server.keyPath": str(files.server.key)}
    with (
        ours(folder, **STRICT) as cluster,
        _behind(our_proxy(folder / "proxy", cluster.namesrv, **tls), cluster) as gateway,
    ):
        yield gateway


@contextmanager
def secured_apache(folder: Path) -> Iterator[Gateway]:
    """Apache's proxy in front of Apache's servers, which know their users."""
    with (
        apache_authenticated(folder) as cluster,
        _behind(apaches_proxy(folder / "proxy", cluster.namesrv, **PROXY_AUTHENTICATION), cluster) as gateway,
    ):
        yield gateway


@contextmanager
def secured_apache_before_ours(folder: Path) -> Iterator[Gateway]:
    """Apache's proxy in front of our servers, which know their users."""
    with (
        our_authenticated(folder) as cluster,
        _behind(apaches_proxy(folder / "proxy", cluster.namesrv, **PROXY_AUTHENTICATION), cluster) as gateway,
    ):
        yield gateway


@dataclass(frozen=True)
class Mode:
    """One way to reach brokers by gRPC, without and with users."""

    open: Starter
    secured: Starter


MODES = {
    "standalone": Mode(standalone, secured_broker),
    "proxy": Mode(proxied, secured_proxy),
    f"proxy → Apache {SERVER_VERSION}": Mode(before_apache, secured_before_apache),
}
"""The ways to PyroMQ's gRPC, by the names that columns of the matrix have."""
CONTROLS = {
    "apache": Mode(apache_only, secured_apache),
    "apache → PyroMQ": Mode(apache_before_ours, secured_apache_before_ours),
}
"""The same with Apache's proxy, which proves drivers and scenarios; they fill no column."""
