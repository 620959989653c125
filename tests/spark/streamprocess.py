"""The driver side of a stream as Spark's Java machine starts it, without a Java machine: a process and its socket."""

import os
import pickle
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from pyromq.spark.launch.launcher import PACKAGES, PYTHON
from pyromq.spark.launch.registration import LAUNCHER, packages_folder
from pyromq.spark.source.formats import RocketMQSource

MODULE = "pyspark.sql.streaming.python_streaming_source_runner"
FEATURES = 888
HOME = Path(pyspark.__file__).parent
ARCHIVES = [*sorted((HOME / "python" / "lib").glob("*.zip"), reverse=True), *(HOME / "jars").glob("spark-core_*.jar")]
"""What Spark puts first on the path, in its order."""
SCHEMA = StructType([StructField("queueId", IntegerType()), StructField("body", BinaryType())])
BOUND = 60.0


def launched() -> dict[str, str]:
    """The environment in which the launcher works."""
    return {PYTHON: sys.executable, PACKAGES: packages_folder() or ""}


class StreamProcess:
    """Started when the block begins; `start` returns when it has made its reader."""

    def __init__(self, command: Sequence[str] = (str(LAUNCHER),), environ: Mapping[str, str] | None = None) -> None:
        self._folder = tempfile.mkdtemp(prefix="sp-")
        path = str(Path(self._folder, "socket"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._listener.settimeout(BOUND)
        given = os.environ | launched() | {"PYTHONPATH": os.pathsep.join(map(str, ARCHIVES))} | dict(environ or {})
        given |= {"PYTHON_UNIX_DOMAIN_ENABLED": "True", "PYTHON_WORKER_FACTORY_SOCK_PATH": path}
        self.process = subprocess.Popen(
            [*command, "-m", MODULE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=given, text=True
        )
        self._socket: socket.socket | None = None
        self.pid = 0
        """Of the process that runs Spark's module."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self.hang_up()
        self._listener.close()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Say what Spark says. Raises OSError or AssertionError when the process does not answer."""
        self._socket, _ = self._listener.accept()
        self._socket.settimeout(BOUND)
        self._file = self._socket.makefile("rwb")
        self.pid = self._number()
        source = RocketMQSource({"nameServer": "127.0.0.1:1", "topic": "t", "columns": "queueId,body"})
        for text in (f"{sys.version_info[0]}.{sys.version_info[1]}", self._folder):
            self._send(text.encode())
        self._file.write(struct.pack(">i", 0))
        self._send(pickle.dumps(source))
        self._send(SCHEMA.json().encode())
        self._file.write(struct.pack(">i", 1000))
        self._file.flush()
        assert self._number() == 0

    def features(self) -> int:
        """Ask what the reader can do."""
        self._file.write(struct.pack(">i", FEATURES))
        self._file.flush()
        return self._number()

    def hang_up(self) -> None:
        """As a Java machine that is gone."""
        if self._socket is not None:
            self._file.close()
            self._socket.close()

    def _send(self, data: bytes) -> None:
        self._file.write(struct.pack(">i", len(data)) + data)

    def _number(self) -> int:
        number: int = struct.unpack(">i", self._file.read(4))[0]
        return number
