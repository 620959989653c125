"""`pyromq send` and `pyromq consume` against a running cluster."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pyromq import Admin, MessageQueue
from pyromq.cli import app
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP
from tests.integration.cli.cluster import BROKER, CLUSTER, Commands
from tests.poison import send_raw
from tests.processes import standalone

BOUND = 60.0


@pytest.fixture
def topic(pyromq: Commands, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own, with two queues."""
    name: str = request.node.name.replace("[", "-").replace("]", "")
    pyromq.admin(f"updateTopic -c {CLUSTER} -t {name} -r 2 -w 2")
    return name


def test_lines_there_and_back(pyromq: Commands, topic: str) -> None:
    lines = [f"line {number}" for number in range(1000)]
    done = pyromq.invoke("send", topic, "--tag", "paid", "-k", "k1", "-p", "city=Lisbon", stdin="\n".join(lines))
    assert (done.exit_code, done.stderr) == (0, f"1000 messages sent to {topic}\n")
    assert sorted(pyromq("consume", topic, "-e", "--quiet").splitlines()) == sorted(lines)
    (first,) = pyromq("consume", topic, "-e", "-c", "1", "-f", "jsonl").splitlines()
    shown = json.loads(first)
    assert (shown["tags"], shown["keys"], shown["properties"]) == ("paid", ["k1"], {"city": "Lisbon"})


def test_files_receipts_and_copies(pyromq: Commands, topic: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode() * 3 + b"\xff\n")
    receipts = pyromq("send", topic, str(tmp_path / "a"), str(tmp_path / "b"), "-f", "raw", "--json").splitlines()
    assert {json.loads(line)["status"] for line in receipts} == {"SEND_OK"}
    copied = tmp_path / "copy.jsonl"
    pyromq("consume", topic, "-e", "-f", "jsonl", "-o", str(copied))
    assert pyromq("send", topic, str(copied), "-f", "jsonl", "--quiet") == ""
    pyromq("consume", topic, "-e", "--output-dir", str(tmp_path / "out"))
    bodies = sorted(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert bodies == [b"aaa\xff\n", b"aaa\xff\n", b"bbb\xff\n", b"bbb\xff\n"]


def test_queues_offsets_and_order(pyromq: Commands, topic: str) -> None:
    pyromq("send", topic, *(word for number in range(5) for word in ("-m", str(number))), "-q", f"{BROKER}:1")
    assert pyromq("consume", topic, "-e", "-q", f"{BROKER}:1").split() == list("01234")
    assert pyromq("consume", topic, "-e", "-q", f"{BROKER}:1:3").split() == list("34")
    assert pyromq("consume", topic, "-e", "-q", f"{BROKER}:0") == ""
    stdin = "".join(f"{key}:{key}{number}\n" for number in range(20) for key in "abc")
    pyromq("send", topic, "-K", ":", "--ordered", stdin=stdin)
    rows = [line.split() for line in pyromq("consume", topic, "-e", "-T", r"%k %q %s\n").splitlines()]
    for key in "abc":
        mine = [(queue, body) for *keys, queue, body in rows if keys == [key]]
        assert [body for _, body in mine] == [f"{key}{number}" for number in range(20)]
        assert len({queue for queue, _ in mine}) == 1


def test_filters_and_times(pyromq: Commands, topic: str) -> None:
    for tag in ("x", "y"):
        pyromq("send", topic, "-m", tag, "--tag", tag, "-p", f"letter={tag}")
    assert pyromq("consume", topic, "-e", "-t", "y") == "y\n"
    assert pyromq("consume", topic, "-e", "--sql", "TAGS = 'x'") == "x\n"
    (stored,) = {
        json.loads(line)["storeTimestamp"]
        for line in pyromq("consume", topic, "-e", "-t", "y", "-f", "jsonl").splitlines()
    }
    assert "y" in pyromq("consume", topic, "-e", "--from", str(stored)).split()
    assert pyromq("consume", topic, "-e", "--from", str(stored + 60_000)) == ""
    assert pyromq("consume", topic, "-e", "--from", "latest") == ""
    assert pyromq("consume", topic, "--from", "latest", "--idle", "0.2") == ""


def test_reading_leaves_no_trace(pyromq: Commands, topic: str) -> None:
    pyromq("send", topic, "-m", "x")
    pyromq("consume", topic, "-e")
    with Admin(namesrv=pyromq.namesrv) as admin:
        for queue_id in range(2):
            assert admin.consumer_offset(TOOLS_CONSUMER_GROUP, MessageQueue(topic, BROKER, queue_id)) is None


def test_a_group_goes_on_where_it_was(pyromq: Commands, topic: str) -> None:
    pyromq("send", topic, stdin="\n".join(map(str, range(50))))
    consumed = [pyromq("consume", topic, "-g", "readers", "-c", "7").split() for _ in range(3)]
    assert [len(part) for part in consumed] == [7, 7, 7]
    rest = pyromq("consume", topic, "-g", "readers", "-e").split()
    everything = [word for part in (*consumed, rest) for word in part]
    assert sorted(map(int, everything)) == list(range(50))  # each exactly once: nothing crashed
    assert pyromq("consume", topic, "-g", "readers", "-e") == ""
    assert pyromq.admin(f"consumerProgress -g readers -t {topic}")["diffTotal"] == 0


def test_delays(pyromq: Commands, topic: str) -> None:
    before = time.time()
    pyromq("send", topic, "-m", "later", "--delay", "1")
    (row,) = pyromq("consume", topic, "-c", "1", "-f", "jsonl").splitlines()
    assert json.loads(row)["storeTimestamp"] / 1000 >= before + 1


def process(pyromq: Commands, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "pyromq", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NAMESRV_ADDR": pyromq.namesrv},
    )


def test_following_until_ctrl_c(pyromq: Commands, topic: str) -> None:
    consumer = process(pyromq, "consume", topic, "-g", "followers")
    producer = process(pyromq, "send", topic)
    try:
        assert consumer.stdout is not None
        assert producer.stdin is not None
        for number in range(3):  # as they are typed
            producer.stdin.write(f"typed {number}\n")
            producer.stdin.flush()
            assert consumer.stdout.readline() == f"typed {number}\n"
        producer.communicate(timeout=BOUND)
        consumer.send_signal(signal.SIGINT)
        _, said = consumer.communicate(timeout=BOUND)
        assert (consumer.returncode, said) == (0, "3 messages\n")
    finally:
        for each in (consumer, producer):
            each.kill()
            each.communicate()
    assert pyromq("consume", topic, "-g", "followers", "-e") == ""


def test_following_through_a_restart_of_the_broker(tmp_path: Path) -> None:
    with standalone(tmp_path, keeps_ports=True) as server:

        def send(text: str) -> None:
            done = CliRunner().invoke(app, ["send", "T", "-m", text, "-n", server["namesrv"], "--timeout", "30"])
            assert done.exit_code == 0, done.output

        send("before")
        consumer = subprocess.Popen(
            [sys.executable, "-m", "pyromq", "consume", "T", "-n", server["namesrv"]], stdout=subprocess.PIPE, text=True
        )
        try:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == "before\n"
            server.kill()
            server.start()
            send("after")
            assert consumer.stdout.readline() == "after\n"
        finally:
            consumer.kill()
            consumer.communicate()


def test_a_reader_that_has_had_enough(pyromq: Commands, topic: str) -> None:
    pyromq("send", topic, stdin="\n".join("x" * 1000 for _ in range(500)))
    consumer = process(pyromq, "consume", topic)
    assert consumer.stdout is not None
    consumer.stdout.readline()
    consumer.stdout.close()
    assert consumer.wait(BOUND) == 0
    assert consumer.stderr is not None
    assert consumer.stderr.read() == ""
    consumer.communicate()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["send", "{}", "-m", "x", "-p", "novalue"], "'novalue' is no property; write name=value"),
        (["send", "{}", "-m", "x", "-p", "UNIQ_KEY=1"], "reserved"),
        (["send", "{}", "-m", "x", "-q", "broker-a"], "is no queue; write broker:queue"),
        (["send", "{}", "-m", "x", "-q", "broker-a:7"], "0 messages sent, then:"),
        (["send", "{}", "no-such-file"], "no-such-file"),
        (["send", "bad/name", "-m", "x"], "0 messages sent, then:"),
        (["consume", "{}", "-q", "broker-a:7"], "has no queue broker-a:7"),
        (["consume", "{}", "-q", "broker-a:x"], "is no queue"),
        (["consume", "{}", "-g", "g", "-q", "broker-a:0"], "--queue cannot be chosen with --group"),
        (["consume", "{}", "-o", "a", "--output-dir", "b"], "not both"),
        (["consume", "{}", "--sql", "a = = b", "-e"], "SUBSCRIPTION_PARSE_FAILED"),
        (["consume", "nowhere", "-e"], "no route for topic 'nowhere'"),
    ],
)
def test_failures_are_one_line(pyromq: Commands, arguments: list[str], reason: str) -> None:
    pyromq.admin(f"updateTopic -c {CLUSTER} -t wrong -r 1 -w 1")
    pyromq("send", "wrong", "-m", "x")
    assert reason in pyromq.refused(*(each.format("wrong") for each in arguments))


def test_damaged_messages_are_shown_told_and_passed(pyromq: Commands, topic: str) -> None:
    queue = f"{BROKER}:0"
    pyromq("send", topic, "-m", "before", "-q", queue)
    asyncio.run(send_raw(broker_address(pyromq), topic, b"no stream", sys_flag=1))
    pyromq("send", topic, "-m", "after", "-q", queue)
    done = pyromq.invoke("consume", topic, "-e", "-q", queue)
    assert done.stdout.splitlines() == ["before", "no stream", "after"]
    assert f"damaged message at offset 1 of {queue}" in done.stderr
    shown = [json.loads(line) for line in pyromq("consume", topic, "-e", "-q", queue, "-f", "jsonl").splitlines()]
    assert ["fault" in each for each in shown] == [False, True, False]
    assert pyromq("consume", topic, "-e", "-q", queue, "--on-damaged", "skip").split() == ["before", "after"]
    refused = pyromq.invoke("consume", topic, "-e", "--on-damaged", "dead-letter")
    assert refused.exit_code == 1
    assert "give --group" in refused.stderr
    assert pyromq("consume", topic, "-e", "-g", "auditors", "--on-damaged", "dead-letter").split() == [
        "before",
        "after",
    ]
    assert pyromq("consume", "%DLQ%auditors", "-e").split("\n")[0] == "no stream"


def broker_address(pyromq: Commands) -> str:
    with Admin(namesrv=pyromq.namesrv) as admin:
        return admin.cluster_info().broker_addr_table[BROKER].broker_addrs[0]
