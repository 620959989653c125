"""Name servers and brokers as processes: how they start, what they say, how they stop."""

import asyncio
import json
import signal
import socket
from pathlib import Path

import pytest

from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.consume import (
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from tests import processes
from tests.integration.broker.servers import Peer


async def route(address: str, topic: str) -> dict[str, dict[int, str]]:
    """Broker name → addresses, as a name server tells a client; empty without a route."""
    async with Peer(address) as peer:
        answer = await peer.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoByTopicHeader(topic=topic))
    if answer.code != ResponseCode.SUCCESS:
        return {}
    return {broker.broker_name: broker.broker_addrs for broker in TopicRouteData.decode(answer.body).broker_datas}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_standalone_serves_and_leaves_a_clean_store(tmp_path: Path, number: signal.Signals) -> None:
    with processes.standalone(tmp_path) as server:
        assert server.facts.keys() >= {"namesrv", "broker", "http", "pid"}
        assert server.facts["pid"] == server.pid
        async with Peer(server["broker"]) as peer:
            await peer.stored("orders", b"kept")
            assert (tmp_path / "abort").exists()
            assert await route(server["namesrv"], "orders") == {"broker-a": {0: server["broker"]}}
            commit = UpdateConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0, commit_offset=1)
            await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            assert await asyncio.to_thread(server.terminate, number) == 0
        assert not (tmp_path / "abort").exists()
        assert "Traceback" not in server.text
        await asyncio.to_thread(server.start)
        async with Peer(server["broker"]) as peer:
            assert [message.body for message in await peer.messages("orders")] == [b"kept"]
            query = QueryConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0)
            answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, query)
            assert answer.header(QueryConsumerOffsetResponseHeader).offset == 1


async def test_accepted_requests_are_answered_before_the_end(tmp_path: Path) -> None:
    with processes.standalone(tmp_path) as server:
        async with Peer(server["broker"]) as peer, Peer(server["broker"]) as waiting:
            await peer.stored("orders")
            await waiting.call(RequestCode.GET_BROKER_RUNTIME_INFO)
            parked = asyncio.create_task(waiting.pull("orders", 1, hold=60_000))
            await asyncio.sleep(0)
            await waiting.call(RequestCode.GET_BROKER_RUNTIME_INFO)  # answered after the pull before it was read
            sends = [asyncio.create_task(peer.send("orders", f"m{n}".encode())) for n in range(500)]
            await sends[0]
            await asyncio.to_thread(server.terminate)
            answers = await asyncio.gather(*sends, return_exceptions=True)
            assert (await parked).code in {ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND}
        stored = [n for n, answer in enumerate(answers) if getattr(answer, "code", None) == ResponseCode.SUCCESS]
        assert stored
        assert not (tmp_path / "abort").exists()
        await asyncio.to_thread(server.start)
        async with Peer(server["broker"]) as peer:
            bodies: set[bytes] = set()
            while found := await peer.messages("orders", len(bodies)):
                bodies |= {bytes(message.body) for message in found}
            assert {f"m{n}".encode() for n in stored} <= bodies, "what was acknowledged is there"


async def test_the_advertised_host_name_is_registered_and_printed(tmp_path: Path) -> None:
    with (
        processes.name_server(tmp_path) as names,
        processes.broker(tmp_path / "a", "--advertised-host", "localhost", name_servers=names["namesrv"]) as broker,
    ):
        assert broker["broker"].startswith("localhost:")
        assert await route(names["namesrv"], "TBW102") == {"broker-a": {0: broker["broker"]}}
        assert f"tells clients {broker['broker']}" in broker.text
        async with Peer(broker["broker"]) as peer:
            stored = await peer.stored("orders")
        assert stored.msg_id.startswith("7F000001"), "ids need the number behind the name"
        await asyncio.to_thread(broker.terminate)
        assert "cannot be reached" not in broker.text


async def test_an_advertised_address_that_nobody_reaches_is_warned_about(tmp_path: Path) -> None:
    with socket.socket() as unreachable:
        unreachable.bind(("127.0.0.2", 0))
        with processes.broker(tmp_path, "--advertised-host", "127.0.0.2") as broker:
            async with Peer(f"127.0.0.1:{processes.port_of(broker['broker'])}") as peer:
                while "cannot be reached" not in broker.text:
                    await peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
            assert f"clients are told to connect to {broker['broker']}" in broker.text
            assert "brokerIP1" in broker.text


async def test_a_name_server_that_does_not_answer_does_not_hold_up_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, processes.name_server(tmp_path) as names:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with processes.broker(tmp_path / "a", name_servers=f"{address};{names['namesrv']}") as broker:
            assert await route(names["namesrv"], "TBW102") == {"broker-a": {0: broker["broker"]}}
            async with Peer(broker["broker"]) as peer:
                await peer.stored("orders")
            while not await route(names["namesrv"], "orders"):
                pass


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--host", "0.0.0.0"), "refusing to listen on 0.0.0.0"),  # noqa: S104 - refused
        (("--host", "::"), "refusing to listen on ::"),
        (("--listen-port", "70000"), "listenPort = '70000' is not allowed; it must be a whole number from 0 to 65535"),
        (("-c", "missing.conf"), "cannot read the configuration file missing.conf"),
        (("--broker-name", "a/b"), "brokerName = 'a/b' may hold letters"),
        (("--broker-role", "SLAVE"), "brokerId must be above 0"),
        (("--advertised-host", "0.0.0.0"), "no address a client can connect to"),  # noqa: S104 - refused
        (("--authorization-enabled",), "authorizationEnabled needs authenticationEnabled"),
    ],
)
def test_what_is_wrong_with_settings_is_said_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    done = processes.run("broker", "--store-path-root-dir", str(tmp_path / "store"), "--listen-port", "0", *arguments)
    assert done.returncode != 0
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("brokerNam=a", "unknown key 'brokerNam'; did you mean brokerName?"),
        ("listenPort=many", "listenPort = 'many' is not allowed"),
        ("flushDiskType=SOMETIMES", "flushDiskType = 'SOMETIMES' is not allowed; it must be one of"),
        ("storeType=defaultRocksDB", "storeType = 'defaultRocksDB' is not allowed"),
        ("brokerName=\\u12", "broker.conf"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(tmp_path: Path, line: str, complaint: str) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"brokerClusterName = DefaultCluster\n{line}\n")
    done = processes.run("broker", "-c", str(file), "--store-path-root-dir", str(tmp_path / "store"))
    assert done.returncode != 0
    assert complaint in done.stderr
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr


def test_an_apache_file_loads_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        "brokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\n"
        "fileReservedTime = 48\nbrokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\n"
        "sendMessageThreadPoolNums=16\nuseEpollNativeSelector=true\nwarmMapedFileEnable=false\n"
    )
    done = processes.run("broker", "-c", str(file), "-p")
    assert done.returncode == 0, done.stderr
    assert {"fileReservedTime=48", "flushDiskType=ASYNC_FLUSH", "brokerName=broker-a"} <= set(done.stdout.splitlines())


async def test_one_folder_has_one_broker(tmp_path: Path) -> None:
    with processes.broker(tmp_path) as broker:
        async with Peer(broker["broker"]) as peer:
            await peer.stored("orders")
            done = await asyncio.to_thread(
                processes.run, "broker", "--store-path-root-dir", str(tmp_path), "--listen-port", "0"
            )
            assert done.returncode != 0
            assert "Traceback" not in done.stderr
            assert str(tmp_path) in done.stderr
            await peer.stored("orders")
            assert len(await peer.messages("orders")) == 2


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with processes.broker(tmp_path / "a") as broker:
        port = processes.port_of(broker["broker"])
        done = await asyncio.to_thread(
            processes.run, "broker", "--store-path-root-dir", str(tmp_path / "b"), "--listen-port", str(port)
        )
        assert done.returncode != 0
        assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "b" / "abort").exists(), "nothing ran, so nothing was aborted"


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    done = processes.run("broker", "--store-path-root-dir", str(file / "store"), "--listen-port", "0")
    assert done.returncode != 0
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_wide_bind_with_the_word_and_json_logs(tmp_path: Path) -> None:
    arguments = ("--host", "0.0.0.0", "--insecure", "--log-format", "json")  # noqa: S104 - said so
    with processes.broker(tmp_path, *arguments) as broker:
        assert not broker["broker"].startswith("0."), "clients are told an address that they can reach"
        assert await asyncio.to_thread(broker.terminate) == 0
        events = [json.loads(line) for line in broker.log]
        assert events
        assert all({"time", "level", "logger", "message"} <= event.keys() for event in events)
