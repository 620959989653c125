"""A topic that is deleted and made again under a stream that runs, or between two runs of it. # SP-09"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyromq import Admin
from pyromq.spark.errors import DataLossError
from pyromq.spark.source.offsets import Offset, losses
from pyromq.spark.source.streamreader import StreamReader
from pyromq.spark.task.pull import close_cached
from tests.integration.spark.test_reading import read, stream
from tests.processes import standalone
from tests.spark.topics import create, fill


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("server") / "data") as running:
        yield running["namesrv"]
    close_cached()


def remake(namesrv: str, topic: str, numbers: range) -> None:
    with Admin(namesrv=namesrv, api_timeout=30.0) as admin:
        admin.delete_topic(topic, cluster="DefaultCluster")
    create(namesrv, topic)
    fill(namesrv, topic, numbers)


def following(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """The end of the next batch, given as Spark gives it."""
    return reader.latestOffset(json.loads(json.dumps(start)), ReadAllAvailable())


def remade_while_running(namesrv: str, topic: str) -> None:
    create(namesrv, topic)
    fill(namesrv, topic, range(100))
    given = {"startingOffsets": "earliest", "maxWaitMs": "30000", "offsetCacheMs": "0"}
    with (
        stream(namesrv, topic, **given) as strict,
        stream(namesrv, topic, **given, failOnDataLoss="record") as lenient,
    ):
        ends = [following(each, each.initialOffset()) for each in (strict, lenient)]
        assert read(strict, strict.initialOffset(), ends[0]) == list(range(100))
        remake(namesrv, topic, range(1000, 1200))
        with pytest.raises(DataLossError, match="from 25 on, recreated"):
            following(strict, ends[0])
        end = following(lenient, ends[1])
        assert read(lenient, ends[1], end) == list(range(1000, 1200))
        lost = losses(Offset.parse(ends[1]), Offset.parse(end))
        assert [(each.queue, each.start, each.reason) for each in lost] == [(n, 25, "recreated") for n in range(4)]


def remade_between_runs(namesrv: str, topic: str) -> None:
    create(namesrv, topic)
    fill(namesrv, topic, range(100))
    given = {"startingOffsets": "earliest"}
    with stream(namesrv, topic, **given) as reader:
        reader.prepareForTriggerAvailableNow()
        end = following(reader, reader.initialOffset())
    with stream(namesrv, topic, **given) as reader:  # no false alarm
        reader.prepareForTriggerAvailableNow()
        assert following(reader, end) == end
    fill(namesrv, topic, range(100, 110))
    with stream(namesrv, topic, **given) as reader:
        reader.prepareForTriggerAvailableNow()
        start, end = end, following(reader, end)
        assert read(reader, start, end) == list(range(100, 110))
    remake(namesrv, topic, range(2000, 2110))  # as long as before, to the message
    with stream(namesrv, topic, **given) as reader:
        reader.prepareForTriggerAvailableNow()
        with pytest.raises(DataLossError, match="recreated"):
            following(reader, end)
    with stream(namesrv, topic, **given, failOnDataLoss="false") as reader:
        reader.prepareForTriggerAvailableNow()
        assert read(reader, end, following(reader, end)) == list(range(2000, 2110))


def test_while_a_stream_runs(namesrv: str) -> None:
    remade_while_running(namesrv, "running")


def test_between_two_runs(namesrv: str) -> None:
    remade_between_runs(namesrv, "stopped")


def test_a_restarted_broker_has_the_same_topics(tmp_path: Path) -> None:
    given = {"startingOffsets": "earliest"}
    with standalone(tmp_path / "data") as server:
        create(server["namesrv"], "steady")
        fill(server["namesrv"], "steady", range(50))
        with stream(server["namesrv"], "steady", **given) as reader:
            end = following(reader, reader.initialOffset())
    with standalone(tmp_path / "data") as server:
        create(server["namesrv"], "steady")
        fill(server["namesrv"], "steady", range(50, 60))
        with stream(server["namesrv"], "steady", **given) as reader:
            assert read(reader, end, following(reader, end)) == list(range(50, 60))
    close_cached()
