"""The readers against real brokers, called as Spark calls them, but without Spark."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pyromq import Admin, Message, Producer, aio
from pyromq.arrow.columns import COLUMNS
from pyromq.arrow.errors import ReadError
from pyromq.arrow.rowshape import RowShape
from pyromq.auth.rules import Action
from pyromq.client.errors import BrokerError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.remoting.tls import ClientTls
from pyromq.spark.errors import DataLossError, SparkError
from pyromq.spark.net.wire import Wire
from pyromq.spark.options import read_options
from pyromq.spark.source.batchreader import BatchReader
from pyromq.spark.source.options import SourceOptions
from pyromq.spark.source.streamreader import StreamReader
from pyromq.spark.task.pull import close_cached
from pyromq.spark.task.quota import Quota
from pyromq.spark.task.rowplan import message_columns, row_shape
from tests.integration.security.secured import ALICE, BOB, options, rule, run, secured, users
from tests.integration.security.test_tls import certificates, server_settings
from tests.poison import send_around
from tests.processes import Server, broker, name_server, standalone
from tests.spark.topics import create, fill

SMALL_LOG = ("--mapped-file-size-commit-log", str(1 << 20))


@pytest.fixture(autouse=True)
def connections() -> Iterator[None]:
    yield
    close_cached()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with standalone(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def namesrv(server: Server) -> str:
    return server["namesrv"]


def planned(given: dict[str, str]) -> tuple[SourceOptions, RowShape]:
    parsed = read_options(SourceOptions, given, {})
    schema = pa.schema([(name, COLUMNS[name]) for name in message_columns(parsed)])
    return parsed, row_shape(parsed, schema, tags=parsed.wanted_tags, corrupt=parsed.corrupt_records)


def rows(reader: BatchReader) -> list[dict[str, Any]]:
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def batch(namesrv: str, topic: str, **given: str) -> list[dict[str, Any]]:
    return rows(BatchReader(*planned({"nameServer": namesrv, "topic": topic} | given)))


@contextmanager
def stream(namesrv: str, topic: str, **given: str) -> Iterator[StreamReader]:
    options, shape = planned({"nameServer": namesrv, "topic": topic} | given)
    reader = StreamReader(options, lambda: shape)
    try:
        yield reader
    finally:
        reader.stop()


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    parts = reader.partitions(start, end)
    return sorted(int(row["body"]) for part in parts for each in reader.read(part) for row in each.to_pylist())


def test_small_answers_give_the_same_rows(namesrv: str) -> None:
    create(namesrv, "small", 2)
    fill(namesrv, "small", range(500), queues=2)
    for given in ({"pullBatchSize": "7", "pullInFlight": "3"}, {"pullBatchSize": "1", "pullInFlight": "1"}, {}):
        found = [(row["queueId"], row["queueOffset"], int(row["body"])) for row in batch(namesrv, "small", **given)]
        assert found == [(queue, offset, offset * 2 + queue) for queue in range(2) for offset in range(250)]


def test_filters_find_what_they_should(namesrv: str) -> None:  # SP-08
    create(namesrv, "sieved", 1)
    fill(namesrv, "sieved", range(3000), queues=1, tag=lambda number: "rare" if number % 1000 == 7 else "common")
    rare = batch(namesrv, "sieved", subExpression="rare", pullBatchSize="64")
    assert [row["queueOffset"] for row in rare] == [7, 1007, 2007]
    assert batch(namesrv, "sieved", subExpression="none") == []
    found = batch(namesrv, "sieved", subExpression="n BETWEEN 10 AND 12", filterType="SQL92")
    assert [row["queueOffset"] for row in found] == [10, 11, 12]
    with pytest.raises(ReadError, match="SUBSCRIPTION_PARSE_FAILED"):
        batch(namesrv, "sieved", subExpression="n ==== 1", filterType="SQL92")


def test_a_stream_waits_for_arrivals_and_tells_the_group(namesrv: str) -> None:  # SP-06
    create(namesrv, "calm")
    given = {"group": "calm-readers", "maxWaitMs": "30000", "groupCommitIntervalMs": "0"}
    with stream(namesrv, "calm", **given) as reader:
        start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        sender = threading.Timer(0.5, fill, (namesrv, "calm", range(3)))
        sender.start()
        found: list[int] = []
        while len(found) < 3:  # it may wake for the first of them; each time long before its time is over
            end = reader.latestOffset(start, ReadAllAvailable())
            assert end is not start
            found += read(reader, start, end)
            start = end
        sender.join()
        assert sorted(found) == [0, 1, 2]
        reader.commit(start)
        assert reader.reportLatestOffset() is not None
    with Admin(namesrv=namesrv) as admin:
        stats = admin.consume_stats("calm-readers", topic="calm")
    assert sum(offsets.consumer_offset for offsets in stats.offset_table.values()) == 3


def test_limits_over_many_queues(namesrv: str) -> None:  # SP-08
    create(namesrv, "wide", 64)
    fill(namesrv, "wide", range(640), queues=60)
    found: list[int] = []
    ends = 0
    given = {"startingOffsets": "earliest", "maxPartitions": "2", "minPartitions": "2"}
    with stream(namesrv, "wide", **given) as reader:
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset()
        while (end := reader.latestOffset(start, ReadMaxRows(200))) is not start:
            ends += 1
            assert len(reader.partitions(start, end)) == 2
            found += read(reader, start, end)
            start = end
    assert (sorted(found), ends) == (list(range(640)), 4)


def test_namespaces(namesrv: str) -> None:
    create(namesrv, "shop%orders")
    with Producer("p", namesrv=namesrv, namespace="shop") as producer:
        producer.send(Message("orders", b"17"))
    (row,) = batch(namesrv, "orders", namespace="shop")
    assert (row["topic"], row["body"]) == ("orders", b"17")
    by_pattern = {"nameServer": namesrv, "topicsPattern": "or.*", "namespace": "shop"}
    assert len(rows(BatchReader(*planned(by_pattern)))) == 1


def test_what_nobody_has(namesrv: str) -> None:
    with pytest.raises(SparkError, match="nobody serves nowhere"):
        batch(namesrv, "nowhere", offsetTimeoutMs="1", offsetRetries="0")
    with pytest.raises(SparkError, match="no name server answered"):
        batch("127.0.0.1:1", "nowhere", offsetTimeoutMs="1", offsetRetries="0")
    assert batch(namesrv, "nowhere", waitForTopic="true") == []


def test_expired_messages(tmp_path: Path) -> None:  # SP-09
    with name_server(tmp_path) as names, broker(tmp_path / "a", *SMALL_LOG, name_servers=names["namesrv"]) as store:
        address = names["namesrv"]
        create(address, "old", 1)
        fill(address, "old", range(100), queues=1, body=lambda number: b"%d" % number + b" " * 40_000)
        with stream(address, "old", startingOffsets="earliest") as reader:
            start = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
            planned_end = reader.latestOffset(start, ReadMaxRows(50))
            _expire(store, tmp_path / "a")
            with pytest.raises(DataLossError, match="expired"):  # seen within the batch
                read(reader, start, planned_end)
        with stream(address, "old") as strict, pytest.raises(DataLossError, match="expired"):  # seen before it
            strict.latestOffset(start, ReadAllAvailable())
        for policy in ("false", "record"):
            with stream(address, "old", failOnDataLoss=policy) as lenient:
                end = lenient.latestOffset(start, ReadAllAvailable())
                kept = read(lenient, start, end)
                assert kept == list(range(kept[0], 100))
                assert kept[0] > 1
                assert end["skip"] == {"old": {"broker-a": {"0": kept[0]}}}
                assert read(lenient, start, planned_end) == [number for number in kept if number < 51]


def _expire(store: Server, folder: Path) -> None:
    """Stop the broker, take its oldest log file away, as retention would, and start it again."""
    assert store.terminate() == 0
    min((folder / "commitlog").iterdir()).unlink()
    store.start()


def test_files_first_then_the_network(server: Server, tmp_path: Path) -> None:  # SP-12
    namesrv = server["namesrv"]
    create(namesrv, "mixed", 2)
    fill(namesrv, "mixed", range(2000), queues=2)
    data = server.arguments[server.arguments.index("--data") + 1]
    pulled = batch(namesrv, "mixed")
    assert len(pulled) == 2000
    for mode in ("log", "auto"):
        for path in (data, f"broker-a={data}"):
            found = batch(namesrv, "mixed", readMode=mode, storePath=path)
            # What the queues' files do not have yet comes over the network, at the end of the task.
            assert sorted(found, key=_place) == sorted(pulled, key=_place)
    assert len(batch(namesrv, "mixed", readMode="auto", storePath=f"broker-b={data}")) == 2000
    with pytest.raises(SparkError, match="no directory of broker broker-a"):
        batch(namesrv, "mixed", readMode="log", storePath=f"broker-b={data}")
    with pytest.raises(SparkError, match="no store directory"):
        batch(namesrv, "mixed", readMode="log", storePath=str(tmp_path))


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["queueId"], row["queueOffset"]


def test_users_and_tls(tmp_path: Path) -> None:
    users(tmp_path, alice=[rule("Topic:*", Action.PUB | Action.SUB), rule("Group:*", Action.SUB)])
    files = certificates(tmp_path / "tls")

    async def scenario() -> None:
        async with secured(tmp_path, **server_settings(files)) as (running, _):
            tls = ClientTls(ca=files.authority)
            async with aio.Producer("w", namesrv=running.namesrv_address, tls=tls, **options(ALICE)) as producer:
                await producer.send(aio.Message("orders", b"17"))
            given = {"tls": "true", "tlsCa": str(files.authority)}
            mine = {"accessKey": ALICE.access_key, "secretKey": ALICE.secret_key, "group": "readers"}
            found = await asyncio.to_thread(batch, running.namesrv_address, "orders", **given, **mine)
            assert [row["body"] for row in found] == [b"17"]
            hasty = {"offsetTimeoutMs": "1", "offsetRetries": "0", "group": "readers"}
            stranger = {"accessKey": BOB.access_key, "secretKey": BOB.secret_key} | hasty
            for refused in (given | stranger, given | hasty, mine | hasty):
                with pytest.raises((SparkError, BrokerError)):
                    await asyncio.to_thread(batch, running.namesrv_address, "orders", **refused)

    run(scenario())


def test_a_connection_is_kept_and_replaced(server: Server) -> None:
    parsed = read_options(SourceOptions, {"nameServer": server["namesrv"], "topic": "t"}, {})
    with Wire(parsed) as wire:
        commands = [Command.request(RequestCode.GET_BROKER_RUNTIME_INFO) for _ in range(200)]
        answers = wire.exchange(server["broker"], commands, 30.0)
        assert [answer.opaque for answer in answers] == [command.opaque for command in commands]
        channel = wire._channels[server["broker"]]
        channel._socket.shutdown(2)
        assert len(wire.exchange(server["broker"], commands[:3], 30.0)) == 3
        assert wire._channels[server["broker"]] is not channel
        assert json.dumps(wire.topics()).count("TBW102") <= 1


def test_poison_does_not_stop_a_read(server: Server, namesrv: str) -> None:
    create(namesrv, "poisoned", queues=1)
    sound, bad = asyncio.run(send_around(server["broker"], "poisoned"))
    columns = {"columns": "body,fault"}
    kept = batch(namesrv, "poisoned", **columns)
    assert sorted(row["body"] for row in kept if row["fault"] is None) == sorted(sound)
    assert sorted(row["body"] for row in kept if row["fault"] is not None) == sorted(bad)
    skipped = batch(namesrv, "poisoned", corruptRecords="skip", **columns)
    assert sorted(row["body"] for row in skipped) == sorted(sound)
    with pytest.raises(ReadError, match="corruptRecords=keep"):
        batch(namesrv, "poisoned", corruptRecords="fail", **columns)


def test_a_quota_reaches_the_reading(namesrv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create(namesrv, "heavy", 2)
    fill(namesrv, "heavy", range(60), queues=2, body=lambda number: b"%d" % number + b" " * 20_000)
    asked = Quota.pause
    pauses: list[float] = []

    def noted(quota: Quota, broker: str) -> float:
        pauses.append(asked(quota, broker))
        return pauses[-1]

    monkeypatch.setattr(Quota, "pause", noted)
    assert len(batch(namesrv, "heavy", maxPartitions="1", pullBatchSize="4")) == 60
    assert not any(pauses)
    found = batch(namesrv, "heavy", maxBytesPerSecond="4000000", maxPartitions="1", pullBatchSize="4")
    assert len(found) == 60
    assert any(pauses)
