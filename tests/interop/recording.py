"""Records frames of released clients and servers for the tests that run without them.

`python -m tests.interop.recording` plays scenarios through taps between both sides and adds the first frame of each
kind that `tests/unit/protocol/recorded.json` does not have yet. Names say who sent it and the code of the request that
it is, or that it answers.
"""

import base64
import copy
import json
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.release import Language
from tests.interop.artifacts import (
    CLIENT_VERSIONS,
    CPP_VERSION,
    GO_VERSION,
    SERVER_VERSION,
    cpp_driver,
    go_driver,
    java_driver,
)
from tests.interop.cpp.driver import SCENARIOS as CPP_SCENARIOS
from tests.interop.drivers import run_driver, run_java_driver
from tests.interop.matrix import SCENARIOS
from tests.interop.scenarios import DISTURBING, play
from tests.interop.servers import (
    Cluster,
    Server,
    apache_broker,
    apache_name_server,
    our_broker,
    our_name_server,
)
from tests.interop.test_go_client import CANNOT as GO_CANNOT

PAGE = Path(__file__).parent.parent / "unit" / "protocol" / "recorded.json"
LIMIT = 8192
"""Of a frame: what is longer is long for its bodies, which say nothing new."""
TAPPED_HOST = "127.0.0.2"
"""Where taps listen, with the port of the server behind them; servers listen on 127.0.0.1."""
CALM = [name for name in SCENARIOS if name not in (*DISTURBING, "large", "trace")]


@dataclass
class Recorder:
    """Keeps the first frame of each kind."""

    client: str
    server: str
    frames: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def saw(self, frame: bytes, *, from_client: bool, asked: dict[int, int], called: dict[int, int]) -> None:
        """Note a frame. The tables remember the codes of open requests of each side by their numbers."""
        (command,) = FrameReader().feed(frame)
        sender = self.client if from_client else self.server
        requests, others = (asked, called) if from_client else (called, asked)
        if command.is_response:
            name = self._answer(sender, command, others)
        else:
            requests[command.opaque] = command.code
            name = f"{sender} {command.code}"
        ours = command.language is Language.PYTHON  # an admin client that does what a driver asks for
        if name is not None and not ours and len(frame) <= LIMIT:
            with self._lock:
                self.frames.setdefault(name, frame)

    @staticmethod
    def _answer(sender: str, command: Command, requests: dict[int, int]) -> str | None:
        code = requests.pop(command.opaque, None)
        return f"{sender} answers {code}" if code is not None and command.code == 0 else None


class Tap:
    """Passes bytes on between clients and one server, and shows them to a recorder."""

    def __init__(self, host: str, port: int, target: str, recorder: Recorder) -> None:
        self._server = socket.create_server((host, port))
        self.address = f"{host}:{self._server.getsockname()[1]}"
        self._target = target
        self._recorder = recorder
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._server.close()

    def _accept(self) -> None:
        host, port = self._target.rsplit(":", 1)
        while True:
            try:
                client, _ = self._server.accept()
                server = socket.create_connection((host, int(port)))
            except OSError:
                return
            tables: dict[str, dict[int, int]] = {"asked": {}, "called": {}}
            for source, target, from_client in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass_on, args=(source, target, from_client, tables), daemon=True).start()

    def _pass_on(
        self, source: socket.socket, target: socket.socket, from_client: bool, tables: dict[str, dict[int, int]]
    ) -> None:
        pending = bytearray()
        try:
            while data := source.recv(1 << 16):
                pending += data
                while len(pending) >= 4 and len(pending) >= (size := 4 + int.from_bytes(pending[:4], "big")):
                    self._recorder.saw(bytes(pending[:size]), from_client=from_client, **tables)
                    del pending[:size]
                target.sendall(data)
        except OSError:
            pass
        finally:
            target.close()


@contextmanager
def tapped(
    folder: Path, name_server: Server, broker: Callable[[Path, str], Server], recorder: Recorder
) -> Iterator[Cluster]:
    """A cluster whose clients talk through taps."""
    with ExitStack() as stack:
        stack.enter_context(name_server)
        running = stack.enter_context(broker(folder / "broker", name_server.address))
        behind = Tap(TAPPED_HOST, int(running.address.rsplit(":", 1)[1]), running.address, recorder)
        stack.callback(behind.close)
        front = copy.copy(name_server)
        tap = Tap(TAPPED_HOST, 0, name_server.address, recorder)
        stack.callback(tap.close)
        front.address = tap.address
        cluster = Cluster(name_server, running)
        cluster.settle()
        yield Cluster(front, running)


def record(folder: Path) -> dict[str, bytes]:
    """Play everything; what each side said."""
    drives: dict[str, Callable[[Cluster, Path], object]] = {
        **{f"Java {version}": partial(_java, version) for version in CLIENT_VERSIONS},
        f"Go {GO_VERSION}": _go,
        f"C++ {CPP_VERSION}": _cpp,
    }
    frames: dict[str, bytes] = {}
    for number, (name, drive) in enumerate(drives.items()):
        frames |= _with_ours(folder / str(number), name, drive)
    return frames | _with_apache(folder / "apache")


def _java(version: str, cluster: Cluster, home: Path) -> None:
    wanted = [name for name in CALM if name != "pop" or not version.startswith("4.")]
    run_java_driver(java_driver(version), cluster, home, *wanted)


def _go(cluster: Cluster, home: Path) -> None:
    run_driver([go_driver(), cluster.namesrv, *(name for name in CALM if name not in GO_CANNOT)], cluster, home)


def _cpp(cluster: Cluster, home: Path) -> None:
    run_driver([*cpp_driver(), cluster.namesrv, *(name for name in CALM if name in CPP_SCENARIOS)], cluster, home)


def _with_ours(folder: Path, name: str, drive: Callable[[Cluster, Path], object]) -> dict[str, bytes]:
    folder.mkdir()
    recorder = Recorder(name, "PyroMQ")

    def broker(home: Path, namesrv: str) -> Server:
        return our_broker(home, namesrv, brokerIP1=TAPPED_HOST)

    with tapped(folder, our_name_server(folder / "namesrv"), broker, recorder) as cluster:
        drive(cluster, folder)
    return {name: frame for name, frame in recorder.frames.items() if not name.startswith("PyroMQ")}


def _with_apache(folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    recorder = Recorder("PyroMQ", f"Broker {SERVER_VERSION}")

    def broker(home: Path, namesrv: str) -> Server:
        return apache_broker(home, namesrv, brokerIP1=TAPPED_HOST, bindAddress="127.0.0.1")

    with tapped(folder, apache_name_server(folder / "namesrv"), broker, recorder) as cluster:
        play(cluster, CALM)
    return {name: frame for name, frame in recorder.frames.items() if not name.startswith("PyroMQ")}


def main() -> None:
    """Add what is missing."""
    known: dict[str, str] = json.loads(PAGE.read_text()) if PAGE.exists() else {}
    with tempfile.TemporaryDirectory(prefix="recording-") as folder:
        found = record(Path(folder))
    for name, frame in found.items():
        known.setdefault(name, base64.b64encode(frame).decode())
    PAGE.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
