"""Every example runs, as a process of its own, against a standalone server."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.client.clusters import standalone_beside

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BOUND = 120.0


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with standalone_beside(tmp_path_factory.mktemp("examples")) as server:
        yield {**os.environ, "NAMESRV_ADDR": server.namesrv_address, "PYTHONWARNINGS": "error"}


def run(name: str, environment: dict[str, str]) -> list[str]:
    """The lines that an example prints; it must end well and have nothing to complain about."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout.splitlines()


def test_every_example_is_run_here() -> None:
    here = Path(__file__).read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.name}"' in here, f"no test runs {example.name}"


def test_producer_and_consumer(environment: dict[str, str]) -> None:
    lines = run("producer.py", environment)
    assert len(lines) == 7
    assert lines[-1] == "sent 3 messages as one: SEND_OK"
    consumer = subprocess.Popen(
        [sys.executable, EXAMPLES / "consumer.py"], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert consumer.stdout is not None
    try:
        bodies = {consumer.stdout.readline().split(" ", 1)[1].strip() for _ in range(10)}
        assert bodies == {f"{kind} {n}" for kind in ("message", "async", "batch") for n in range(3)} | {"one way"}
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(BOUND) == 0
    finally:
        consumer.kill()
        consumer.stdout.close()
        consumer.wait()


def test_asyncio(environment: dict[str, str]) -> None:
    assert run("async_producer_consumer.py", environment) == ["received 100 messages"]


def test_ordered(environment: dict[str, str]) -> None:
    steps = "created -> paid -> packed -> shipped"
    assert run("ordered.py", environment) == [f"order-{number} {steps}" for number in range(5)]


def test_transaction(environment: dict[str, str]) -> None:
    lines = run("transaction.py", environment)
    assert [line.split(": ")[0] for line in lines] == ["o-1", "o-2", "o-3", "visible"]
    assert "ROLLBACK" in lines[1]
    assert lines[-1] == "visible: o-1, o-3"


def test_delayed(environment: dict[str, str]) -> None:
    lines = dict(line.split(": after ") for line in run("delayed.py", environment))
    assert lines.keys() == {"at once", "level 1, a second", "1500 ms"}
    assert float(lines["level 1, a second"].removesuffix(" s")) >= 1.0
    assert float(lines["1500 ms"].removesuffix(" s")) >= 1.5


def test_request_and_reply(environment: dict[str, str]) -> None:
    assert run("request_reply.py", environment) == ["hello -> HELLO", "world -> WORLD"]


def test_pull_consumer(environment: dict[str, str]) -> None:
    lines = run("pull_consumer.py", environment)
    assert {line.split(" ", 2)[2] for line in lines[:10]} == {f"message {number}" for number in range(10)}
    assert lines[10].startswith("read again from the start of queue ")


def test_admin(environment: dict[str, str]) -> None:
    lines = run("admin.py", environment)
    assert lines[:4] == [
        "cluster DefaultCluster: broker-a",
        "topic example-admin on broker-a",
        "lag: None",
        "lag after a reset to the start: 10",
    ]
    assert lines[4:6] == ["queue 0: 0 behind", "queue 1: 0 behind"]
    assert lines[6].startswith("key-7 is 'message 7', stored at 127.0.0.1:")
    assert lines[7:] == ["group example-admin-group: NOT_ONLINE"]
