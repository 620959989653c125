"""The brokers of the race as processes with the same settings: Apache's, and ours with and without its native core.

The name servers are ours for all, since only the brokers race. What is read from `/proc` counts all threads of a
process; memory is split into what the process has for itself and the pages of its files, which the system can drop.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.interop.artifacts import SERVER_VERSION, apache_servers
from tests.interop.servers import our_name_server, write_properties

from benchmarks.load import send_frames
from pyromq.native import VARIABLE

APACHE = "apache"
OURS = "pyromq"
PURE = "pyromq-pure"
START_BOUND = 120.0
STOP_BOUND = 300.0
"""A killed process is gone when its mapped files are let go of, and that waits for a busy disk."""
_TICKS = os.sysconf("SC_CLK_TCK")

# What runbroker.sh of the release passes, apart from the size of the heap.
_JVM = (
    "-server", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0", "-XX:-OmitStackTraceInFastThrow",
    "-XX:+AlwaysPreTouch", "-XX:MaxDirectMemorySize=15g", "-XX:-UseLargePages",
)  # fmt: skip
OPENED = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)  # fmt: skip
HEAPS = {"small": ("-Xms512m", "-Xmx512m"), "default": ("-Xms8g", "-Xmx8g")}
"""`small` is what fits beside other programs, `default` what the release's own script asks for."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one process, in megabytes."""

    resident: float
    own: float
    """Resident without the pages of mapped files."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A running broker."""

    name: str
    address: str
    namesrv: str
    pid: int
    started: float
    """Seconds from the start of the process to the first message accepted."""
    folder: Path
    """Where it keeps its files."""

    def cpu(self) -> float:
        """Processor seconds used so far."""
        return processor_seconds(self.pid)

    def memory(self) -> Memory:
        """As of now."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        sizes = {
            line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("VmRSS", "RssA"))
        }
        return Memory(sizes["VmRSS"], sizes["RssAnon"])


def processor_seconds(pid: int) -> float:
    """Used by a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _command(name: str, folder: Path, heap: str) -> list[str]:
    config = str(folder / "broker.conf")
    if name != APACHE:
        return [sys.executable, "-m", "pyromq", "broker", "-c", config]
    main = ["-cp", apache_servers(SERVER_VERSION), "org.apache.rocketmq.broker.BrokerStartup", "-c", config]
    return ["java", *HEAPS[heap], *_JVM, *OPENED, f"-Duser.home={folder}", *main]


@contextlib.contextmanager
def running(name: str, folder: Path, flush: str, heap: str) -> Iterator[Contender]:
    """One broker with Apache's default settings, but for the flush type, until the end of the block."""
    with our_name_server(folder / "namesrv") as name_server:
        settings = {"flushDiskType": flush, "mappedFileSizeCommitLog": str(1 << 30)}
        port = write_properties(folder, name_server.address, f"{name}-{flush.lower()}", settings)
        command = _command(name, folder, heap)
        environ = {"ROCKETMQ_HOME": str(folder), VARIABLE: "0" if name == PURE else "1"}
        begun = time.perf_counter()
        with server(name, command, folder / "broker.log", environ) as process:
            address = f"127.0.0.1:{port}"
            _first_send(address, process, folder / "broker.log")
            started = time.perf_counter() - begun
            yield Contender(name, address, name_server.address, process.pid, started, folder)


@contextlib.contextmanager
def server(name: str, command: list[str], log: Path, environ: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A process until the end of the block, when it is killed; one that has ended by then is reported."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, cwd=log.parent, env={**os.environ, **environ}
        )
    try:
        yield process
    finally:
        if process.poll() is not None:
            said = log.read_text()[-4000:]
            print(f"{name} ended by itself with {process.returncode}:\n{said}", file=sys.stderr)
        process.send_signal(signal.SIGKILL)
        process.wait(STOP_BOUND)


def _first_send(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Send one message over and over until it is accepted."""
    host, port = address.split(":")
    (frame,) = send_frames(128, count=1)
    end = time.monotonic() + START_BOUND
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended with {process.returncode}:\n{log.read_text()[-4000:]}")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1) as connection:
            connection.settimeout(5)
            connection.sendall(frame)
            if b'"code":0,' in connection.recv(65536):
                return
        time.sleep(0.01)
    raise RuntimeError(f"no message was accepted at {address}:\n{log.read_text()[-4000:]}")
