"""What servers say when they start is what is so: where they listen, what clients are told, who knows of them."""

import subprocess
import sys
from pathlib import Path

from tests import processes
from tests.processes import BOUND, broker, free_port, name_server, port_of, standalone


def spoken(*arguments: str, lines: int) -> list[str]:
    """The first lines that a server prints for people."""
    command = [sys.executable, "-m", "pyromq", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            assert child.stdout is not None
            return [child.stdout.readline().rstrip("\n") for _ in range(lines)]
        finally:
            child.kill()
            child.wait(BOUND)


def test_the_bound_address_and_the_one_that_clients_are_told_are_two_things(tmp_path: Path) -> None:
    port = free_port()
    with broker(tmp_path, "--advertised-host", "127.0.0.2", "--listen-port", str(port)) as server:
        assert server["broker"] == f"127.0.0.2:{port}"
        assert server["listen"] == f"127.0.0.1:{port}"
        assert server.facts["registered"] == []
        assert server.facts["unregistered"] == {}
        assert f"listens on 127.0.0.1:{port} and tells clients 127.0.0.2:{port}" in server.text


def test_people_are_told_what_is_bound_and_that_nobody_knows_of_it(tmp_path: Path) -> None:
    port, nobody = free_port(), free_port()
    arguments = ["--listen-port", str(port), "--store-path-root-dir", str(tmp_path), "--broker-name", "broker-a"]
    listens, known = spoken(
        "broker", *arguments, "--advertised-host", "127.0.0.2", "-n", f"127.0.0.1:{nobody}", lines=2
    )
    assert listens == f"The broker broker-a listens on 127.0.0.1:{port}; clients are told 127.0.0.2:{port}."
    assert known.startswith(f"Not registered yet with 127.0.0.1:{nobody}, trying again: ")
    assert "registered with" not in listens


def test_without_name_servers_nobody_is_said_to_know_of_it(tmp_path: Path) -> None:
    port = free_port()
    arguments = ["--listen-port", str(port), "--store-path-root-dir", str(tmp_path), "--broker-name", "broker-a"]
    listens, known = spoken("broker", *arguments, lines=2)
    assert listens == f"The broker broker-a listens on 127.0.0.1:{port}."
    assert known == "Not registered: no name server is set (--namesrv-addr), so clients must know its address."


def test_each_name_server_is_said_to_know_or_not(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    with name_server(tmp_path) as names:
        servers = f"{names['namesrv']};{nobody}"
        with broker(tmp_path / "a", name_servers=servers) as server:
            assert server.facts["registered"] == [names["namesrv"]]
            unregistered = server.facts["unregistered"]
            assert isinstance(unregistered, dict)
            assert list(unregistered) == [nobody]
            assert nobody in unregistered[nobody]
        arguments = ["--listen-port", "0", "--store-path-root-dir", str(tmp_path / "a")]
        lines = spoken("broker", *arguments, "-n", servers, lines=3)
        assert lines[1] == f"Registered with {names['namesrv']}."
        assert lines[2].startswith(f"Not registered yet with {nobody}, trying again: ")


def test_a_registration_that_comes_later_is_logged(tmp_path: Path) -> None:
    names = name_server(tmp_path)
    address = f"127.0.0.1:{names.arguments[1]}"
    with broker(tmp_path / "a", name_servers=address) as server:
        assert server.facts["registered"] == []
        with names:
            while f"registered with name server {address}" not in server.text:
                assert server.is_running


def test_a_standalone_says_it_too(tmp_path: Path) -> None:
    with standalone(tmp_path) as server:
        assert server["listen"] == server["broker"]
        assert server.facts["registered"] == [server["namesrv"]]
        assert server.facts["unregistered"] == {}


def test_a_wide_bind_names_an_address_that_clients_can_use(tmp_path: Path) -> None:
    with processes.Server(
        "standalone", "--data", str(tmp_path), "--host", "0.0.0.0", "--insecure",  # noqa: S104 - said so
        "--namesrv-port", "0", "--broker-port", "0", "--http-port", "-1",
    ) as server:  # fmt: skip
        assert server["listen"] == f"0.0.0.0:{port_of(server['broker'])}"
        assert not server["broker"].startswith("0.0.0.0:")
        assert not server["namesrv"].startswith("0.0.0.0:")
