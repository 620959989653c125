"""What the processes of a stream may not load: each of them pays for it anew, before the first row."""

import os
import subprocess
import sys

import pytest

NEVER = ("typer", "rich", "cryptography", "asyncio", "ssl", "uvloop", "prometheus_client", "yaml", "pandas")
DRIVER = (*NEVER, "pyarrow.compute", "pyromq.arrow.decoder", "lz4", "zstandard", "pyromq.store")
"""The driver side only tells offsets."""

STARTED = """
import sys
import {module}
before = set(sys.modules)
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType
from pyromq.spark.source.formats import RocketMQSource
schema = StructType([StructField("keys", StringType()), StructField("body", BinaryType()),
                     StructField("queueOffset", LongType()), StructField("topic", StringType())])
source = RocketMQSource({{"nameServer": "127.0.0.1:1", "topic": "t", "columns": "keys,body,queueOffset,topic"}})
reader = source.streamReader(schema)
"""
TRACKED = "reader._tracking\n"
DECODED = """
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records.record import encode_record
from pyromq.arrow.recordlayout import walk
from pyromq.arrow.rowspec import Segment
message = ReceivedMessage("t", b"body", {"KEYS": "k", "UNIQ_KEY": "0A"}, broker_name="b")
buffer = encode_record(message) * 40
(batch,) = reader._shape.batches(buffer, walk(buffer), [Segment(40, "t", "b")])
assert batch.num_rows == 40 and batch.column(0)[39].as_py() == "k" and batch.column(3)[0].as_py() == "t"
"""
REPORT = "print(*sorted(name for name in {names!r} if name in sys.modules and name not in before))"


def loaded(module: str, code: str, names: tuple[str, ...], **environ: str) -> list[str]:
    """Which of the names our part of a process has loaded, after the module of Spark that it runs."""
    whole = STARTED.format(module=module) + code + REPORT.format(names=names)
    command = [sys.executable, "-c", whole]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environ, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_driver_side_of_a_stream_loads_no_decoder() -> None:
    assert loaded("pyspark.sql.streaming.python_streaming_source_runner", TRACKED, DRIVER) == []


@pytest.mark.parametrize("native", ["0", "1"])
def test_a_task_loads_what_decodes_and_no_more(native: str) -> None:
    assert loaded("pyspark.worker", DECODED, NEVER, PYROMQ_NATIVE=native) == []
