"""Servers as processes of their own: ours and Apache's, behind one face."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.interop.artifacts import SERVER_VERSION, apache_servers

START_TIMEOUT = 120.0
STOP_TIMEOUT = 60.0


class Cluster(Protocol):
    """A name server with one broker, running."""

    @property
    def namesrv(self) -> str: ...

    @property
    def broker(self) -> str: ...


def free_port() -> int:
    """A port whose two lower neighbours and the next one are free too, for the fast and the replication port."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                for other in (port - 2, port + 1):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", other))
            except OSError:
                continue
            return port


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


@dataclass
class Daemon:
    """One server process with its log."""

    command: list[str]
    log: Path
    env: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it; output goes to the log."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **self.env}
            )
        return self.process

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal and wait for the end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class OurNameServer:
    """`pyromq namesrv` as a process."""

    def __init__(self, folder: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        folder.mkdir(parents=True, exist_ok=True)
        self._daemon = Daemon(
            [
                *[sys.executable, "-m", "pyromq", "namesrv", "--listen-port", self.address.rsplit(":", 1)[1]],
                *["--kv-config-path", str(folder / "kvConfig.json")],
            ],
            folder / "namesrv.log",
        )

    def start(self) -> None:
        wait_for(self.address, self._daemon.start(), self._daemon.log)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._daemon.stop(number)


class OurBroker:
    """`pyromq broker` as a process, configured by Apache's property names."""

    def __init__(self, folder: Path, namesrv: str, name: str = "broker-a", **properties: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.store = folder / "store"
        write_properties(folder / "broker.conf", self.store, port, namesrv, name, properties)
        command = [sys.executable, "-m", "pyromq", "broker", "-c", str(folder / "broker.conf")]
        self._daemon = Daemon(command, folder / "broker.log")

    def start(self) -> None:
        wait_for(self.address, self._daemon.start(), self._daemon.log)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._daemon.stop(number)


def write_properties(path: Path, store: Path, port: int, namesrv: str, name: str, properties: dict[str, str]) -> None:
    """A broker.conf that both kinds of brokers understand."""
    text = {
        "brokerName": name,
        "brokerClusterName": "DefaultCluster",
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "listenPort": str(port),
        "namesrvAddr": namesrv,
        "storePathRootDir": str(store),
        "mappedFileSizeCommitLog": str(64 << 20),
        "autoCreateTopicEnable": "true",
        "enablePropertyFilter": "true",
        "transactionCheckInterval": "2000",
        "transactionTimeOut": "1000",
        **properties,
    }
    path.write_text("".join(f"{key}={value}\n" for key, value in text.items()))


def java(classpath: str, main: str, *arguments: str, heap: str = "256m", home: Path) -> list[str]:
    """A JVM that keeps its logs and files below `home`."""
    return [
        "java", f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseSerialGC", f"-Duser.home={home}",
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "-cp", classpath, main, *arguments,
    ]  # fmt: skip


class ApacheNameServer:
    """Apache's name server."""

    def __init__(self, folder: Path, version: str = SERVER_VERSION) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        (folder / "namesrv.conf").write_text(f"listenPort={port}\nkvConfigPath={folder / 'kvConfig.json'}\n")
        command = java(
            apache_servers(version),
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            *("-c", str(folder / "namesrv.conf")),
            home=folder,
        )
        self._daemon = Daemon(command, folder / "namesrv.log", {"ROCKETMQ_HOME": str(folder)})

    def start(self) -> None:
        wait_for(self.address, self._daemon.start(), self._daemon.log)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._daemon.stop(number)


class ApacheBroker:
    """Apache's broker with a small heap."""

    def __init__(
        self, folder: Path, namesrv: str, name: str = "broker-a", version: str = SERVER_VERSION, **properties: str
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.store = folder / "store"
        write_properties(folder / "broker.conf", self.store, port, namesrv, name, properties)
        command = java(
            apache_servers(version),
            "org.apache.rocketmq.broker.BrokerStartup",
            *("-c", str(folder / "broker.conf")),
            heap="512m",
            home=folder,
        )
        self._daemon = Daemon(command, folder / "broker.log", {"ROCKETMQ_HOME": str(folder)})

    def start(self) -> None:
        wait_for(self.address, self._daemon.start(), self._daemon.log)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._daemon.stop(number)


@dataclass(frozen=True)
class Running:
    """Addresses of a cluster that runs."""

    namesrv: str
    broker: str


@contextlib.contextmanager
def ours(folder: Path, **properties: str) -> Iterator[Running]:
    """Our name server and broker."""
    name_server = OurNameServer(folder / "namesrv")
    name_server.start()
    broker = OurBroker(folder / "broker", name_server.address, **properties)
    try:
        broker.start()
        yield Running(name_server.address, broker.address)
    finally:
        broker.stop()
        name_server.stop()


@contextlib.contextmanager
def apache(folder: Path, **properties: str) -> Iterator[Running]:
    """Apache's name server and broker."""
    name_server = ApacheNameServer(folder / "namesrv")
    name_server.start()
    broker = ApacheBroker(folder / "broker", name_server.address, **properties)
    try:
        broker.start()
        yield Running(name_server.address, broker.address)
    finally:
        broker.stop()
        name_server.stop()


def run_driver(classpath: str, namesrv: str, home: Path, *scenarios: str) -> dict[str, dict[str, object]]:
    """Run the Java driver and return what it says about each scenario."""
    command = java(classpath, "pyromq.Driver", namesrv, *scenarios, heap="300m", home=home)
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"scenario"')]
    if not lines:
        raise RuntimeError(f"the driver said nothing:\n{done.stderr[-4000:]}")
    return {line["scenario"]: line for line in lines}
