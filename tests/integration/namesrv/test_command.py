"""`pyromq namesrv` as a process."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.namesrv import GetKvConfigHeader, GetKvConfigResponseHeader, PutKvConfigHeader
from tests.integration.namesrv.serving import BOUND, Peer, run


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pyromq", "namesrv", *arguments]


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def announced(child: subprocess.Popen[str]) -> dict[str, object]:
    assert child.stdout is not None
    line = json.loads(child.stdout.readline())
    assert isinstance(line, dict)
    return line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_serves_and_stops(tmp_path: Path, number: signal.Signals) -> None:
    arguments = ("--listen-port", "0", "--kv-config-path", str(tmp_path / "kv.json"), "--json", "--log-format", "json")
    with process(*arguments) as child:
        line = announced(child)
        assert line["pid"] == child.pid
        address = str(line["namesrv"])

        async def scenario() -> None:
            async with Peer(address) as peer:
                assert (await peer.register("a", "T")).code == ResponseCode.SUCCESS
                put = PutKvConfigHeader(namespace="n", key="k", value="v")
                await peer.ask(RequestCode.PUT_KV_CONFIG, put)
                child.send_signal(number)
                await asyncio.to_thread(child.wait, BOUND)

        run(scenario())
        out, err = child.communicate(timeout=BOUND)
        assert (child.returncode, out) == (0, "")
        events = [json.loads(event) for event in err.splitlines()]
        assert [event["message"] for event in events] == [f"name server listens on {address}", "name server stopped"]
    with process(*arguments) as child:
        address = str(announced(child)["namesrv"])

        async def again() -> None:
            async with Peer(address) as peer:
                response = await peer.ask(RequestCode.GET_KV_CONFIG, GetKvConfigHeader(namespace="n", key="k"))
                assert response.header(GetKvConfigResponseHeader).value == "v"

        run(again())


def test_an_apache_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(
        f"listenPort=1\nkvConfigPath={tmp_path / 'kv.json'}\nserverWorkerThreads=8\norderMessageEnable=true\n"
    )
    done = subprocess.run(
        command("-c", str(file), "-p", "--no-enable-topic-list"),
        env=os.environ | {"PYROMQ_LISTEN_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert {"listenPort=0", "orderMessageEnable=true", "enableTopicList=false"} <= set(lines)
    assert "tls.server.keyPassword=******" in lines


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--host", "0.0.0.0"), "refusing to listen on 0.0.0.0"),  # noqa: S104 - refused
        (("--listen-port", "many"), "listenPort = 'many' is not allowed; it must be a whole number from 0 to 65535"),
        (("-c", "missing.conf"), "cannot read the configuration file missing.conf"),
        (("--listen-prt", "1"), "No such option"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    done = subprocess.run(
        command("--kv-config-path", str(tmp_path / "kv.json"), *arguments),
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert done.returncode != 0
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_wide_bind_with_the_word(tmp_path: Path) -> None:
    with process(
        "--host", "0.0.0.0", "--insecure", "--listen-port", "0", "--kv-config-path", str(tmp_path / "kv.json"), "--json"  # noqa: S104 - said so
    ) as child:  # fmt: skip
        assert str(announced(child)["namesrv"]).startswith("0.0.0.0:")
