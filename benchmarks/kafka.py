"""Kafka's server as a process, one node that is broker and controller, and the jars of Spark's Kafka source.

Both come from Maven Central, once. All settings of the server are Kafka's defaults, but for the number of partitions
and a heap that fits beside other programs.
"""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.interop.artifacts import maven_jars, run_tool
from tests.processes import free_port

KAFKA_VERSION = "4.3.0"
"""The release of the server that is run."""
CONNECTOR_VERSION = "4.2.0"
"""The newest release of Spark's Kafka source that was to be had; Spark itself was one minor release further."""
TOKEN_VERSION = "4.1.0-preview1"  # noqa: S105 - a version
"""Likewise, of its helper for delegation tokens, which reads settings and sees no records."""
HEAP = ("-Xms512m", "-Xmx512m")

START_BOUND = 120.0
STOP_BOUND = 30.0
_POMS = Path(__file__).parent / "java"
_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Ids of clusters are 16 bytes in base 64; which is of no interest here."""


def require_tools() -> None:
    """RuntimeError that says what is missing on this machine."""
    missing = [name for name in ("java", "mvn") if shutil.which(name) is None]
    if missing:
        raise RuntimeError(
            f"{' and '.join(missing)} not found on PATH: Kafka and Spark's source for it need Java 17 or newer, and "
            "Maven fetches them"
        )


def server_classpath() -> str:
    """Class path of Kafka's server and tools. Raises RuntimeError when it cannot be fetched."""
    return f"{maven_jars(f'kafka-{KAFKA_VERSION}', _POMS / 'kafka', {'kafka.version': KAFKA_VERSION})}/*"


def connector_jars(version: str = CONNECTOR_VERSION) -> list[Path]:
    """What a Spark session needs to read from Kafka. Raises RuntimeError when it cannot be fetched."""
    versions = {"connector.version": version, "token.version": TOKEN_VERSION}
    return sorted(maven_jars(f"spark-kafka-{version}", _POMS / "spark-kafka", versions).glob("*.jar"))


def properties(folder: Path, port: int, partitions: int) -> dict[str, str]:
    """Settings of a single node that listens on a port of the loopback interface and, as controller, on the next."""
    address, controller = f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{address}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(folder / "data"),
        "num.partitions": str(partitions),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        # A machine that is busy for some seconds is no reason to shut the only broker out.
        "broker.session.timeout.ms": "60000",
    }


@contextlib.contextmanager
def running(folder: Path, partitions: int) -> Iterator[str]:
    """The address of a server with its data in the folder, until the end of the block; topics make themselves."""
    classpath = server_classpath()
    folder.mkdir(parents=True)
    port = free_port()
    config = folder / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in properties(folder, port, partitions).items()))
    java = ["java", *HEAP, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath]
    run_tool([*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(config)], folder)
    with (folder / "server.log").open("wb") as log:
        # A session of its own: on Ctrl-C it must outlive the Spark session that reads from it.
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(config)], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _wait(port, process)
        yield f"127.0.0.1:{port}"
    except Exception as error:
        error.add_note(f"Kafka's log ends with:\n{(folder / 'server.log').read_text()[-2000:]}")
        raise
    finally:
        process.kill()
        process.wait(STOP_BOUND)


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Until the server takes connections; whoever comes first waits for the rest."""
    end = time.monotonic() + START_BOUND
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"Kafka ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"Kafka took no connection within {START_BOUND:.0f} s")
