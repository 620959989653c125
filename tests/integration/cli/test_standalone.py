"""`pyromq standalone` as a process: what it announces, how it ends, and why it may not start."""

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from pyromq import Message, Producer, PullConsumer
from tests.processes import port_of, run, standalone


def test_announcement_messages_and_ctrl_c(tmp_path: Path) -> None:
    with standalone(tmp_path / "data") as server:
        assert server.facts.keys() >= {"namesrv", "broker", "http", "pid"}
        assert server.facts["pid"] == server.pid
        with Producer("shop", namesrv=server["namesrv"]) as producer:
            producer.send(Message("orders", b"two pizzas"))
        with urllib.request.urlopen(f"http://{server['http']}/health", timeout=30) as answer:
            assert answer.status == 200
        assert server.terminate(signal.SIGINT) == 0
        assert "Traceback" not in server.text
        server.start()  # the same folder: goes on from there
        with PullConsumer("kitchen", namesrv=server["namesrv"], consume_from="CONSUME_FROM_FIRST_OFFSET") as consumer:
            consumer.subscribe("orders")
            assert [message.body for message in consumer.poll(60.0)] == [b"two pizzas"]
        assert server.terminate(signal.SIGTERM) == 0


def test_one_line_says_why_it_does_not_start(tmp_path: Path) -> None:
    with socket.socket() as taken, standalone(tmp_path / "data") as server:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        free = ["--broker-port", "0", "--http-port", "-1"]
        reasons = {
            f"127.0.0.1:{port}": ["--data", str(tmp_path / "x"), "--namesrv-port", str(port), *free],
            str(tmp_path / "data"): ["--data", str(tmp_path / "data"), "--namesrv-port", "0", *free],
            "insecure": ["--data", str(tmp_path / "y"), "--host", "0.0.0.0", "--namesrv-port", "0", *free],  # noqa: S104 - refused
        }
        for reason, arguments in reasons.items():
            done = run("standalone", *arguments, "--log-level", "error")
            assert (done.returncode, done.stdout) == (1, ""), reason
            (text,) = done.stderr.splitlines()
            assert text.startswith("pyromq: ")
            assert reason in text
        assert port_of(server["namesrv"]) > 0


def test_people_are_told_where_to_go(tmp_path: Path) -> None:
    ports = [option for name in ("namesrv", "broker", "http") for option in (f"--{name}-port", "0")]
    command = [sys.executable, "-m", "pyromq", "standalone", "--data", str(tmp_path / "data"), *ports]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Ready. Clients connect to 127.0.0.1:")
        assert str(tmp_path / "data") in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
