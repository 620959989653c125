"""Servers of the gRPC race as processes: Apache's proxy with the broker inside it, and ours, with and without its core.

Both find the topics and the group of the race in their files: Apache's refuses to send to topics it does not know. The
load for both is one Go program.
"""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.interop.artifacts import CACHE, SERVER_VERSION, apache_proxy, run_tool
from tests.interop.servers import our_name_server, write_properties
from tests.processes import free_port

from benchmarks.contenders import APACHE, OPENED, PURE, START_BOUND, Contender, server
from benchmarks.race import said
from pyromq.native import VARIABLE
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable

FLUSH = "ASYNC_FLUSH"
GROUP = "bench"
TOPICS = ("bench", "backlog", "latency")
QUEUES = 8
HEAPS = {"small": ("-Xms1g", "-Xmx1g"), "default": ("-Xms4g", "-Xmx4g")}
"""`small` is what fits beside other programs, `default` what the release's own script asks for."""
GO_LOAD = Path(__file__).parent / "go"

# What runserver.sh of the release, by which mqproxy starts, passes apart from the size of the heap.
_JVM = (
    "-server", "-XX:MetaspaceSize=128m", "-XX:MaxMetaspaceSize=320m", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25", "-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow", "-XX:-UseLargePages",
)  # fmt: skip


def load(command: str, address: str, *options: str) -> dict[str, float]:
    """Run the Go program against a server. RuntimeError if it fails."""
    return said([_program(), command, "--address", address, *options])


@cache
def _program() -> str:
    CACHE.mkdir(exist_ok=True)
    program = CACHE / "go-load"
    run_tool(["go", "build", "-o", str(program), "."], GO_LOAD)
    return str(program)


def stage(store: Path) -> None:
    """Write the tables of topics and groups, as both kinds of brokers read them."""
    topics = {
        name: TopicConfig(
            topic_name=name,
            read_queue_nums=QUEUES,
            write_queue_nums=QUEUES,
            attributes={"message.type": "NORMAL"},
        )
        for name in TOPICS
    }
    groups = {GROUP: SubscriptionGroupConfig(group_name=GROUP)}
    folder = store / "config"
    folder.mkdir(parents=True)
    (folder / "topics.json").write_bytes(TopicConfigTable(topic_config_table=topics).encode())
    (folder / "subscriptionGroup.json").write_bytes(SubscriptionGroupTable(subscription_group_table=groups).encode())


@contextlib.contextmanager
def running(name: str, folder: Path, heap: str) -> Iterator[Contender]:
    """One broker that serves gRPC, on files of its own, until the end of the block. The name server is always ours."""
    _program()
    port = free_port()
    settings = {"flushDiskType": FLUSH, "mappedFileSizeCommitLog": str(1 << 30)}
    if name != APACHE:
        settings["grpcServerPort"] = str(port)
    with our_name_server(folder / "namesrv") as name_server:
        write_properties(folder, name_server.address, name, settings)
        stage(folder / "store")
        command = _apache(folder, port, name_server.address, heap) if name == APACHE else _ours(folder)
        environ = {"ROCKETMQ_HOME": str(folder), VARIABLE: "0" if name == PURE else "1"}
        with _accepting(name, command, folder, port, environ) as contender:
            yield contender


def _ours(folder: Path) -> list[str]:
    return [sys.executable, "-m", "pyromq", "broker", "-c", str(folder / "broker.conf")]


def _apache(folder: Path, port: int, namesrv: str, heap: str) -> list[str]:
    """The proxy in local mode, with the broker inside it."""
    ports = {"grpcServerPort": port, "remotingListenPort": free_port()}
    (folder / "proxy.json").write_text(json.dumps({"rocketMQClusterName": "DefaultCluster", **ports}))
    options = ["-pm", "local", "-bc", str(folder / "broker.conf"), "-pc", str(folder / "proxy.json"), "-n", namesrv]
    main = ["-cp", apache_proxy(SERVER_VERSION), "org.apache.rocketmq.proxy.ProxyStartup", *options]
    return ["java", *HEAPS[heap], *_JVM, *OPENED, f"-Duser.home={folder}", *main]


@contextlib.contextmanager
def _accepting(name: str, command: list[str], folder: Path, port: int, environ: dict[str, str]) -> Iterator[Contender]:
    """Start the server and wait until it accepts a message by gRPC."""
    address, log = f"127.0.0.1:{port}", folder / "server.log"
    begun = time.perf_counter()
    with server(name, command, log, environ) as process:
        try:
            load("first", address, "--topic", TOPICS[0], "--seconds", str(START_BOUND / 2))
        except RuntimeError as error:
            error.add_note(f"the log of {name} ends with:\n{log.read_text()[-4000:]}")
            raise
        yield Contender(name, address, "", process.pid, time.perf_counter() - begun, folder)
