"""The Spark sources against Apache's servers: pulls from its broker, and its store read from files. # SP-12

Readers are called as Spark calls them; what Spark itself adds does not depend on the broker (tests/spark).
"""

import json
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pyromq import Admin
from pyromq.arrow.columns import COLUMNS
from pyromq.spark.log.options import LogOptions
from pyromq.spark.log.reader import LogReader
from pyromq.spark.options import read_options
from pyromq.spark.task.pull import close_cached
from pyromq.spark.task.rowplan import row_shape
from tests.integration.spark.test_reading import batch, read, stream
from tests.integration.spark.test_remade import remade_between_runs, remade_while_running
from tests.interop.servers import apache_broker, apache_name_server
from tests.spark.topics import create, fill

TOPIC = "orders"
COUNT = 3000
NAMES = ("queueId", "queueOffset", "msgId", "tags", "keys", "body", "properties", "bornTimestamp", "storeTimestamp")


def from_files(root: Path, **options: str) -> list[dict[str, Any]]:
    parsed = read_options(LogOptions, {"path": f"broker-a={root}"} | options, {})
    schema = pa.schema([(name, COLUMNS[name]) for name in NAMES])
    reader = LogReader(parsed, row_shape(parsed, schema, tags=parsed.wanted_tags))
    return [row for part in reader.partitions() for each in reader.read(part) for row in each.to_pylist()]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["queueId"], row["queueOffset"]))


def test_apache_broker_and_its_files(tmp_path: Path) -> None:
    with (
        apache_name_server(tmp_path / "namesrv") as names,
        apache_broker(tmp_path / "broker", names.address) as server,
    ):
        create(names.address, TOPIC)
        fill(names.address, TOPIC, range(COUNT), tag=lambda number: "ab"[number // 4 % 2])
        pulled = in_order(batch(names.address, TOPIC, columns=",".join(NAMES)))
        assert sorted(int(row["body"]) for row in pulled) == list(range(COUNT))
        assert [(row["queueId"], row["queueOffset"]) for row in pulled] == [
            (q, n) for q in range(4) for n in range(750)
        ]
        assert len(batch(names.address, TOPIC, subExpression="b")) == COUNT // 2
        assert len(batch(names.address, TOPIC, subExpression="n >= 2990", filterType="SQL92")) == 10
        middle = json.dumps({TOPIC: {"broker-a": {str(queue): 700 for queue in range(4)}}})
        assert len(batch(names.address, TOPIC, startingOffsets=middle)) == 200
        assert len(batch(names.address, TOPIC, startingTimestamp="2100-01-01")) == 0
        _stream(names.address)
        remade_while_running(names.address, "running")
        remade_between_runs(names.address, "stopped")
        live = in_order(from_files(server.store, topic=TOPIC, nameServer=names.address))
        assert live == pulled  # Apache writes its queues at once
        server.stop(signal.SIGTERM)
        assert in_order(from_files(server.store, topic=TOPIC)) == pulled
        assert in_order(from_files(server.store, topic=TOPIC, useConsumeQueue="false")) == pulled
    close_cached()


def _stream(namesrv: str) -> None:
    """A stream with a group, up to the end, then on with what arrives while it waits."""
    given = {"group": "spark", "startingOffsets": "earliest", "maxWaitMs": "30000", "groupCommitIntervalMs": "0"}
    with stream(namesrv, TOPIC, **given) as reader:
        start = reader.initialOffset()
        found: list[int] = []
        while len(found) < COUNT:
            end = reader.latestOffset(start, ReadMaxRows(1000))
            found += read(reader, start, end)
            start = end
        assert sorted(found) == list(range(COUNT))
        reader.commit(start)
    with Admin(namesrv=namesrv) as admin:
        stats = admin.consume_stats("spark", topic=TOPIC)
    assert sum(offsets.consumer_offset for offsets in stats.offset_table.values()) == COUNT
    with stream(namesrv, TOPIC, group="spark") as again:
        begin = again.initialOffset()
        assert sum(offset for queue in begin["q"][TOPIC].values() for offset in queue.values()) == COUNT
        assert again.partitions(begin, again.latestOffset(begin, ReadAllAvailable())) == []
