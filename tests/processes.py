"""Servers as processes of their own: started from the command line, found by the line they announce, killed at will."""

import contextlib
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

BOUND = 60.0
"""Ends a wait that hangs; nothing is expected to take so long."""
MOST_WORKERS = 16


class Server:
    """`pyromq <command> … --json` as a child process; its log is kept in `log`, its announcement in `facts`.

    with Server("namesrv", "--listen-port", "0", …) as names, Server("broker", …, "-n", names["namesrv"]) as broker:
        broker.kill()
        broker.start()      # again, with the same arguments
    """

    def __init__(self, command: str, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        self.command = command
        self.arguments = list(arguments)
        self.runner = [sys.executable]
        """What runs `-m pyromq`."""
        self.facts: dict[str, object] = {}
        self.log: list[str] = []
        self._environ = dict(os.environ) | dict(environ or {})
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def __getitem__(self, fact: str) -> str:
        return str(self.facts[fact])

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait for the announcement; AssertionError with the log when there is none."""
        process = self._process = subprocess.Popen(
            [*self.runner, "-m", "pyromq", self.command, *self.arguments, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environ,
        )
        assert process.stderr is not None
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()
        line = process.stdout.readline()
        if not line:
            code = self._ended()
            raise AssertionError(f"{self.command} ended with {code}: {self.text}")
        self.facts = json.loads(line)

    def terminate(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop and wait until it has; returns its exit code."""
        self.signal(number)
        return self._ended()

    def kill(self) -> None:
        """SIGKILL, as a crash would; does nothing when it is not running."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._ended()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal without waiting for what it does."""
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def text(self) -> str:
        """Its log so far."""
        return "".join(self.log)

    def _ended(self) -> int:
        process = self._process
        assert process is not None
        code = process.wait(BOUND)
        if self._reader is not None:
            self._reader.join(BOUND)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        return code

    def _read(self, stream: Iterator[str]) -> None:
        with contextlib.suppress(ValueError):  # closed meanwhile
            self.log.extend(stream)


def _candidates() -> Iterator[int]:
    """The ports of this process in any order, again and again; taking the next is one step for all threads."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % MOST_WORKERS
    ports = list(range(12_000 + 4 * worker, 32_000, 4 * MOST_WORKERS))
    random.shuffle(ports)
    return itertools.cycle(ports)


_CANDIDATES = _candidates()


def free_port() -> int:
    """A port that is free with its neighbours, for the fast and the replication port, and still is after a restart.

    Below those that the system gives to connections: one of them could take it while the server is down. Processes
    that run tests beside each other choose from different ones, and no process gets one twice: two threads that ask at
    the same time would both find it free.
    """
    while True:
        port = next(_CANDIDATES)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for each in range(port - 2, port + 2):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", each))
            return port


def name_server(folder: Path, *arguments: str) -> Server:
    """A name server that keeps its file in the folder, and its port when it is started again."""
    fixed = ["--listen-port", str(free_port()), "--kv-config-path", str(folder / "kvConfig.json")]
    return Server("namesrv", *fixed, *arguments)


def broker(folder: Path, *arguments: str, name: str = "broker-a", name_servers: str = "") -> Server:
    """A broker with its data in the folder, which keeps its ports when it is started again."""
    fixed = ["--listen-port", str(free_port()), "--broker-name", name, "--store-path-root-dir", str(folder)]
    return Server("broker", *fixed, *(["-n", name_servers] if name_servers else []), *arguments)


def standalone(folder: Path, *arguments: str, keeps_ports: bool = False) -> Server:
    """Both in one process, on free ports: others each time it is started, unless it `keeps_ports`.

    Without a port for gRPC clients, unless `arguments` say otherwise: it takes a third of a second to start.
    """
    ports = [
        option
        for name in ("namesrv", "broker", "http")
        for option in (f"--{name}-port", str(free_port() if keeps_ports else 0))
    ]
    without_grpc = () if "--grpc-port" in arguments else ("--grpc-port", "-1")
    return Server("standalone", "--data", str(folder), *ports, *without_grpc, *arguments)


def port_of(address: str) -> int:
    """The port of `host:port`."""
    return int(address.rpartition(":")[2])


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "pyromq", *arguments], capture_output=True, text=True, timeout=BOUND, check=False
    )
