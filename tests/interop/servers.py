"""Servers as processes of their own: ours and Apache's, behind one face."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyromq import Admin, ClientError, native
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.names import SELF_TEST_TOPIC
from tests.interop.artifacts import SERVER_VERSION, apache_servers
from tests.processes import free_port

START_TIMEOUT = 600.0
"""Bounds a hang: of virtual machines on a busy machine, several start at the same time."""
STOP_TIMEOUT = 60.0
PATIENCE = {
    f"waitTimeMillsIn{queue}Queue": "60000" for queue in ("Send", "Pull", "Heartbeat", "Transaction", "AdminBroker")
}
"""Has Apache's broker not call itself busy on a machine that is."""


def wait_for(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until somebody accepts connections there."""
    host, port = address.rsplit(":", 1)
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{log.read_text()[-4000:]}")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nobody listens on {address}:\n{log.read_text()[-4000:]}")


class Server:
    """One server process with its log, which can be started again at the same address and with the same files."""

    def __init__(self, folder: Path, command: list[str], address: str, log: str, **environ: str) -> None:
        self.address = address
        self.store = folder / "store"
        self.log = folder / log
        self._command = command
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self._command,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,  # Apache's leave folders where they run
                env={**os.environ, **self._environ},
            )
        try:
            wait_for(self.address, self._process, self.log)
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal and wait for the end."""
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop it with a signal and start it again."""
        self.stop(number)
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def our_name_server(folder: Path, **properties: str) -> Server:
    """`pyromq namesrv` as a process, configured by Apache's property names."""
    port = write_name_server_properties(folder, properties)
    command = [sys.executable, "-m", "pyromq", "namesrv", "-c", str(folder / "namesrv.conf")]
    return Server(folder, command, f"127.0.0.1:{port}", "namesrv.log")


def our_broker(folder: Path, namesrv: str, name: str = "broker-a", **properties: str) -> Server:
    """`pyromq broker` as a process, configured by Apache's property names."""
    return _our_broker(folder, namesrv, name, properties)


def our_python_broker(folder: Path, namesrv: str, name: str = "broker-a", **properties: str) -> Server:
    """The same without the native core."""
    return _our_broker(folder, namesrv, name, properties, **{native.VARIABLE: "0"})


def _our_broker(folder: Path, namesrv: str, name: str, properties: dict[str, str], **environ: str) -> Server:
    port = write_properties(folder, namesrv, name, properties)
    command = [sys.executable, "-m", "pyromq", "broker", "-c", str(folder / "broker.conf")]
    return Server(folder, command, f"127.0.0.1:{port}", "broker.log", **environ)


def apache_name_server(folder: Path, version: str = SERVER_VERSION, jvm: Sequence[str] = ()) -> Server:
    """Apache's name server; `jvm` are options of the virtual machine."""
    port = write_name_server_properties(folder, {})
    write_logging(folder, "namesrv")
    main = ["org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(folder / "namesrv.conf")]
    command = java(apache_servers(version), *main, home=folder, jvm=jvm)
    return Server(folder, command, f"127.0.0.1:{port}", "namesrv.log", ROCKETMQ_HOME=str(folder))


def apache_broker(
    folder: Path,
    namesrv: str,
    name: str = "broker-a",
    version: str = SERVER_VERSION,
    jvm: Sequence[str] = (),
    **properties: str,
) -> Server:
    """Apache's broker with a small heap."""
    port = write_properties(folder, namesrv, name, properties)
    write_logging(folder, "broker")
    main = ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(folder / "broker.conf")]
    command = java(apache_servers(version), *main, heap="512m", home=folder, jvm=jvm)
    return Server(folder, command, f"127.0.0.1:{port}", "broker.log", ROCKETMQ_HOME=str(folder))


def write_logging(folder: Path, server: str) -> None:
    """The file without which servers of the 4.9 line do not start."""
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / f"logback_{server}.xml").write_text('<configuration><root level="OFF"/></configuration>\n')


def write_name_server_properties(folder: Path, properties: dict[str, str]) -> int:
    """A namesrv.conf; returns the port it chose."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    text = {"listenPort": str(port), "kvConfigPath": str(folder / "kvConfig.json"), **properties}
    (folder / "namesrv.conf").write_text("".join(f"{key}={value}\n" for key, value in text.items()))
    return port


def write_properties(folder: Path, namesrv: str, name: str, properties: dict[str, str]) -> int:
    """A broker.conf that both kinds of brokers understand; returns the port it chose."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    text = {
        "brokerName": name,
        "brokerClusterName": "DefaultCluster",
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "listenPort": str(port),
        "namesrvAddr": namesrv,
        "storePathRootDir": str(folder / "store"),
        "mappedFileSizeCommitLog": str(64 << 20),
        "autoCreateTopicEnable": "true",
        "enablePropertyFilter": "true",
        "transactionCheckInterval": "2000",
        "transactionTimeOut": "1000",
        "registerNameServerPeriod": "10000",
        **PATIENCE,
        **properties,
    }
    (folder / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in text.items()))
    return port


def java(
    classpath: str, main: str, *arguments: str, heap: str = "256m", home: Path, jvm: Sequence[str] = ()
) -> list[str]:
    """A JVM that keeps its logs and files below `home`; it compiles little, for it does not run for long."""
    return [
        "java", *jvm, f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Duser.home={home}",
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "-cp", classpath, main, *arguments,
    ]  # fmt: skip


@dataclass(frozen=True)
class Cluster:
    """A name server with one broker."""

    name_server: Server
    broker: Server
    access: Mapping[str, Any] = field(default_factory=dict)
    """What it takes to administrate it: options of our admin client."""

    @property
    def namesrv(self) -> str:
        """Address of the name server, as clients are given it."""
        return self.name_server.address

    def operations(self) -> dict[str, Callable[..., object]]:
        """What a driver may ask to be done to the servers."""
        return {
            "restartBroker": self.broker.restart,
            "killBroker": lambda: self.broker.restart(signal.SIGKILL),
            "restartNamesrv": self.name_server.restart,
            "settle": self.settle,
            "resetOffsets": self.reset_offsets,
            "createGroup": self.create_group,
        }

    def reset_offsets(self, topic: str, group: str) -> None:
        """Have the members of a group begin a topic again; for clients that cannot ask for it themselves."""
        with Admin(namesrv=self.namesrv, instance_name=f"reset-{group}", **self.access) as admin:
            admin.reset_offsets(group, topic, 0)

    def create_group(self, group: str) -> None:
        """Create a group that tries each message once more; for clients that cannot say how often."""
        config = SubscriptionGroupConfig(group_name=group, retry_max_times=1)
        with Admin(namesrv=self.namesrv, instance_name=f"create-{group}", **self.access) as admin:
            admin.create_group(config, cluster="DefaultCluster")

    def settle(self) -> None:
        """Wait until the name server knows the broker: an open port does not say so."""
        end = time.monotonic() + START_TIMEOUT
        with Admin(namesrv=self.namesrv, instance_name=f"settle-{self.namesrv}", **self.access) as admin:
            while time.monotonic() < end:
                with contextlib.suppress(ClientError):
                    if admin.cluster_info().broker_addr_table and admin.topic_route(SELF_TEST_TOPIC).broker_datas:
                        return
                time.sleep(0.05)
        raise RuntimeError(f"no broker registered with {self.namesrv}:\n{self.broker.log.read_text()[-4000:]}")


@contextlib.contextmanager
def ours(folder: Path, **properties: str) -> Iterator[Cluster]:
    """Our name server and broker, running."""
    with (
        our_name_server(folder / "namesrv") as name_server,
        our_broker(folder / "broker", name_server.address, **properties) as broker,
    ):
        cluster = Cluster(name_server, broker)
        cluster.settle()
        yield cluster


@contextlib.contextmanager
def apache(folder: Path, version: str = SERVER_VERSION, **properties: str) -> Iterator[Cluster]:
    """Apache's name server and broker, running."""
    with (
        apache_name_server(folder / "namesrv", version) as name_server,
        apache_broker(folder / "broker", name_server.address, version=version, **properties) as broker,
    ):
        cluster = Cluster(name_server, broker)
        cluster.settle()
        yield cluster
