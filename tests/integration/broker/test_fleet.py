"""`pyromq broker --processes N`: several brokers under one supervisor, as processes."""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pyromq import Admin, Message, MessageQueue, Producer, PullConsumer
from pyromq.broker.fleet.channel import Answers, Questions
from pyromq.broker.fleet.plan import STEP
from pyromq.broker.httpserver import Page
from tests.processes import BOUND, MOST_WORKERS, Server, broker, free_port, name_server, port_of, run

TOPIC = "orders"


def fleet_port() -> int:
    """A port for a fleet of two, below those of other servers: of theirs the second broker's might be one."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % MOST_WORKERS
    while True:
        port = random.randrange(6_000 + 2 * STEP * worker, 11_900, 2 * STEP * MOST_WORKERS)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for each in (*range(port - 2, port + 2), *range(port + STEP - 2, port + STEP + 2)):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", each))
            return port


def fleet(folder: Path, *arguments: str, name_servers: str = "", processes: int = 2) -> Server:
    http = ["--http-port", str(free_port())]
    fixed = ["--listen-port", str(fleet_port()), "--broker-name", "shop", "--store-path-root-dir", str(folder)]
    named = ["-n", name_servers] if name_servers else []
    return Server("broker", "--processes", str(processes), *fixed, *http, *named, *arguments)


def brokers(server: Server) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", server.facts["brokers"])


def page(server: Server, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{server['http']}{path}", timeout=BOUND) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def names(tmp_path: Path) -> Iterator[Server]:
    with name_server(tmp_path) as server:
        yield server


def send(namesrv: str, *bodies: bytes) -> None:
    """A message to the first queue of each broker in turn."""
    with Producer("senders", namesrv=namesrv) as producer:
        for number, body in enumerate(bodies):
            producer.send(Message(TOPIC, body), queue=MessageQueue(TOPIC, ("shop", "shop-1")[number % 2], 0))


def received(namesrv: str, count: int) -> set[bytes]:
    found: set[bytes] = set()
    with PullConsumer(f"readers-{count}", namesrv=namesrv, consume_from="CONSUME_FROM_FIRST_OFFSET") as consumer:
        consumer.subscribe(TOPIC)
        end = time.monotonic() + BOUND
        while len(found) < count:
            assert time.monotonic() < end, found
            found |= {message.body for message in consumer.poll(1.0)}
    return found


def test_several_brokers_from_one_command(names: Server, tmp_path: Path) -> None:
    server = fleet(tmp_path / "data", name_servers=names["namesrv"])
    with server:
        first, second = brokers(server)
        assert (first["name"], second["name"]) == ("shop", "shop-1")
        assert port_of(second["broker"]) == port_of(first["broker"]) + STEP
        assert [each["registered"] for each in (first, second)] == [[names["namesrv"]]] * 2
        assert len({server.pid, first["pid"], second["pid"]}) == 3

        with Admin(namesrv=names["namesrv"]) as admin:
            admin.create_topic(TOPIC, read_queues=4, write_queues=4, cluster="DefaultCluster")
        send(names["namesrv"], b"1", b"2", b"3", b"4")
        assert received(names["namesrv"], 4) == {b"1", b"2", b"3", b"4"}

        status, health = page(server, "/health")
        assert (status, health.splitlines()[0]) == (200, "ok")
        assert f"shop-1: ok (process {second['pid']})" in health
        _, metrics = page(server, "/metrics")
        for name in ("shop", "shop-1"):
            assert f'node_type="broker",node_id="{name}"' in metrics
        assert metrics.count("# TYPE rocketmq_messages_in_total ") == 1

        assert server.terminate() == 0
        assert not any(map(is_alive, (first["pid"], second["pid"])))
        assert "shop-1 | " in server.text
        assert "broker shop-1 stopped" in server.text
        assert "broker shop stopped" in server.text
        assert "Traceback" not in server.text
        for folder in (tmp_path / "data", tmp_path / "data" / "processes" / "1"):
            assert not (folder / "abort").exists(), "the store was not closed in order"


def test_a_broker_that_is_killed_comes_back_with_its_messages(names: Server, tmp_path: Path) -> None:
    with fleet(tmp_path / "data", name_servers=names["namesrv"]) as server:
        with Admin(namesrv=names["namesrv"]) as admin:
            admin.create_topic(TOPIC, read_queues=1, write_queues=1, cluster="DefaultCluster")
        send(names["namesrv"], b"1", b"2")
        os.kill(brokers(server)[1]["pid"], signal.SIGKILL)
        until(lambda: page(server, "/health")[0] == 503)
        until(lambda: "the broker shop-1 is up again" in server.text)
        status, health = page(server, "/health")
        assert status == 200
        assert "restarts: 1" in health
        assert "the broker shop-1 fell: ended by SIGKILL; starting it again in 0.5 s" in server.text
        assert (
            'pyromq_process_restarts_total{cluster="DefaultCluster",node_type="broker",node_id="shop-1"} 1'
            in (page(server, "/metrics")[1])
        )
        assert received(names["namesrv"], 2) == {b"1", b"2"}
        send(names["namesrv"], b"3", b"4")
        assert received(names["namesrv"], 4) == {b"1", b"2", b"3", b"4"}
        assert is_alive(brokers(server)[0]["pid"])
        assert server.terminate(signal.SIGINT) == 0


def test_brokers_do_not_outlive_their_supervisor(tmp_path: Path) -> None:
    with fleet(tmp_path) as server:
        pids = [each["pid"] for each in brokers(server)]
        server.kill()
        until(lambda: not any(map(is_alive, pids)))
        assert not (tmp_path / "abort").exists(), "they stopped in order"
        assert not (tmp_path / "processes" / "1" / "abort").exists()
        server.start()
        assert server.terminate() == 0


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with fleet(tmp_path) as server:
        pids = [each["pid"] for each in brokers(server)]
        os.kill(pids[1], signal.SIGSTOP)  # this one will not stop in order
        server.signal(signal.SIGTERM)
        until(lambda: not is_alive(pids[0]))
        assert server.is_running
        assert server.terminate() == -signal.SIGTERM
        os.kill(pids[1], signal.SIGCONT)
        until(lambda: not is_alive(pids[1]))


def test_a_signal_to_all_processes_is_one_to_stop_in_order(tmp_path: Path) -> None:
    with fleet(tmp_path) as server:  # as systemd does it
        for each in brokers(server):
            os.kill(each["pid"], signal.SIGTERM)
        assert server.terminate() == 0
        for folder in (tmp_path, tmp_path / "processes" / "1"):
            assert not (folder / "abort").exists(), "the store was not closed in order"


def test_a_signal_ends_a_start_that_takes_long(tmp_path: Path) -> None:
    silent = fleet_port()
    with socket.socket() as name_servers:  # accepts, and never answers
        name_servers.bind(("127.0.0.1", silent))
        name_servers.listen()
        waits = ["--register-broker-timeout-mills", "600000"]
        server = fleet(tmp_path, *waits, name_servers=f"127.0.0.1:{silent}")
        command = [sys.executable, "-m", "pyromq", "broker", *server.arguments]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            until((tmp_path / "processes" / "1" / "abort").exists)
            with name_servers.accept()[0], name_servers.accept()[0]:
                process.send_signal(signal.SIGTERM)
                said, logged = process.communicate(timeout=BOUND)
        assert (process.returncode, said) == (0, ""), logged
        assert "Traceback" not in logged
        for folder in (tmp_path, tmp_path / "processes" / "1"):
            assert not (folder / "abort").exists(), "the store was not closed in order"


def test_reasons_not_to_start(tmp_path: Path) -> None:
    port = fleet_port()
    fixed = ["--listen-port", str(port), "--http-port", "-1", "--broker-name", "shop", "--log-level", "error"]
    command = ["broker", *fixed, "--processes", "2", "--store-path-root-dir"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + STEP))
        taken.listen()
        done = run(*command, str(tmp_path / "a"))
        assert (done.returncode, done.stdout) == (1, "")
        last = done.stderr.splitlines()[-1]
        assert last.startswith("pyromq: the broker shop-1 could not be started")
        assert f"127.0.0.1:{port + STEP}" in last
        assert str(tmp_path / "a" / "processes" / "1") in last
    with broker(tmp_path / "b" / "processes" / "1"):
        done = run(*command, str(tmp_path / "b"))
        assert (done.returncode, done.stdout) == (1, "")
        assert "already open" in done.stderr.splitlines()[-1]
    for number in ("0", "65"):
        done = run("broker", *fixed, "--processes", number, "--store-path-root-dir", str(tmp_path / "c"))
        assert done.returncode == 2
        assert number in done.stderr


def test_messages_of_brokers_that_are_no_longer_run_are_not_forgotten(names: Server, tmp_path: Path) -> None:
    with fleet(tmp_path / "data", name_servers=names["namesrv"]) as server:
        with Admin(namesrv=names["namesrv"]) as admin:
            admin.create_topic(TOPIC, read_queues=1, write_queues=1, cluster="DefaultCluster")
        send(names["namesrv"], b"1", b"2")
        assert server.terminate() == 0
        fixed = server.arguments[2:]
        done = run("broker", *fixed)
        assert done.returncode == 2
        assert "holds messages of the broker shop-1" in done.stderr
        assert "--processes 2" in done.stderr
        server.start()  # as it was
        assert server.terminate() == 0
        (tmp_path / "data" / "processes" / "1").rename(tmp_path / "elsewhere")
        with Server("broker", *fixed) as alone:
            assert alone["broker"] == f"127.0.0.1:{fixed[1]}"
            assert received(names["namesrv"], 1) == {b"1"}


def test_one_log_of_json_and_reload(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("maxTopics=500\n")
    with fleet(tmp_path / "data", "-c", str(file), "--log-format", "json") as server:
        file.write_text("maxTopics=600\nbrokerName=other\n")
        server.signal(signal.SIGHUP)
        until(lambda: server.text.count("was read again: maxTopics") == 2)
        os.kill(brokers(server)[1]["pid"], signal.SIGKILL)
        until(lambda: "is up again" in server.text)
        assert server.terminate() == 0
        events = [json.loads(line) for line in server.text.splitlines()]
        assert {event.get("broker") for event in events} == {None, "shop", "shop-1"}
        said = [event["message"] for event in events if event.get("broker") is None]
        assert any("shop-1 fell" in message for message in said)


def test_users_are_those_of_all(names: Server, tmp_path: Path) -> None:
    root = '{"username":"root","password":"the-root-secret"}'
    inner = '{"accessKey":"inner","secretKey":"the-inner-secret"}'
    environ = {
        "PYROMQ_INIT_AUTHENTICATION_USER": root,
        "PYROMQ_INNER_CLIENT_AUTHENTICATION_CREDENTIALS": inner,
    }
    server = fleet(
        tmp_path / "data", "--authentication-enabled", "--authorization-enabled", name_servers=names["namesrv"]
    )
    server._environ |= environ
    with (
        server,
        Admin(namesrv=names["namesrv"], access_key="root", secret_key="the-root-secret") as admin,  # noqa: S106 - of a test
    ):
        admin.create_user("bob", "bobs-secret", cluster="DefaultCluster")
        for each in brokers(server):
            user = admin.user("bob", broker=each["broker"])
            assert user is not None
        assert not (tmp_path / "data" / "processes" / "1" / "config" / "auth").exists()
        assert (tmp_path / "data" / "config" / "auth" / "audit-1.log").exists()


def broken() -> Page:
    raise RuntimeError("of a test")


async def test_the_channel_answers_many_and_tells_its_end() -> None:
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    ended, asked = asyncio.Event(), asyncio.Event()
    pages = {"/large": lambda: Page(b"x" * 300_000, "text/x"), "/broken": broken}
    questions, answers = Questions(ours), Answers(theirs, lambda: pages, asked.set, ended.set)
    await questions.open()
    await answers.open()
    *large, early, wrong = await asyncio.gather(
        *(questions.ask("/large") for _ in range(20)), questions.ask("/unknown"), questions.ask("/broken")
    )
    assert {(len(each.body), each.content_type) for each in large} == {(300_000, "text/x")}
    assert early.status.startswith("503")
    assert wrong.status.startswith("500")
    questions.stop()
    await asked.wait()
    assert not ended.is_set()
    await questions.close()
    await ended.wait()
    with pytest.raises(ConnectionError):
        await questions.ask("/large")
    await answers.close()


async def test_whoever_asks_is_told_that_the_broker_has_gone() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    questions = Questions(ours)
    await questions.open()
    asked = asyncio.ensure_future(questions.ask("/health"))
    await asyncio.sleep(0)
    theirs.close()
    with pytest.raises(ConnectionError):
        await asked
    await questions.close()
