"""`pyromq top` against a running cluster."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading

import pytest

from tests.integration.cli.cluster import BROKER, CLUSTER, Commands

BOUND = 60.0


@pytest.fixture(scope="module", autouse=True)
def traffic(pyromq: Commands) -> None:
    pyromq.admin(f"updateTopic -c {CLUSTER} -t orders -r 2 -w 2")
    pyromq.admin(f"updateSubGroup -c {CLUSTER} -g billing")
    pyromq("send", "orders", stdin="\n".join(map(str, range(10))))
    pyromq.admin("resetOffsetByTime -g billing -t orders -s 0")
    pyromq.admin(f"updateSubGroup -c {CLUSTER} -g new")
    pyromq("consume", "orders", "-g", "done", "-e")


def test_one_look_as_json(pyromq: Commands) -> None:
    seen = json.loads(pyromq("top", "--once", "--json"))
    assert [line["name"] for line in seen["brokers"]] == [BROKER]
    assert seen["brokers"][0]["inRate"] is not None
    (orders,) = [line for line in seen["topics"] if line["name"] == "orders"]
    assert (orders["messages"], orders["queues"]) == (10, 2)
    assert {line["name"] for line in seen["topics"]} == {"orders"}  # RocketMQ's own are left out
    groups = {line["name"]: line for line in seen["groups"]}
    assert groups["billing"]["lag"] == 10
    assert groups["done"]["lag"] == 0
    assert seen["problems"] == []
    everything = json.loads(pyromq("top", "--once", "--json", "--all"))
    assert len(everything["topics"]) > 5


def test_one_look_for_people(pyromq: Commands) -> None:
    lines = pyromq("top", "--once").splitlines()
    assert lines[0].startswith(f"pyromq top  {pyromq.namesrv}")
    assert any(
        line.split()[:4] == ["orders", "2", "10", line.split()[3]] for line in lines if line.startswith("orders")
    )


def test_no_cluster(pyromq: Commands) -> None:
    assert "127.0.0.1:1" in pyromq.refused("top", "--once", "-n", "127.0.0.1:1", "--timeout", "1")


def test_a_live_screen_until_ctrl_c(pyromq: Commands) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    environment = {**os.environ, "NAMESRV_ADDR": pyromq.namesrv, "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pyromq", "top", "-i", "0.2"], stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    seen = bytearray()
    twice = threading.Event()

    def read() -> None:
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            seen.extend(data)
            if seen.count(b"orders") >= 2:
                twice.set()
        twice.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert twice.wait(BOUND)
        process.send_signal(signal.SIGINT)
        assert process.wait(BOUND) == 0
    finally:
        process.kill()
        process.wait()
        reader.join(BOUND)
        os.close(master)
    assert seen.count(b"orders") >= 2  # drawn again
    assert b"\x1b[?1049h" in seen  # a screen of its own,
    assert b"\x1b[?1049l" in seen  # given back at the end
    assert b"Traceback" not in seen
