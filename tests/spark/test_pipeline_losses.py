"""Messages that are gone before a pipeline reads them, under `failOnDataLoss: record`; and what its lanes count."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyromq import Admin
from pyromq.errors import PyroMQError
from pyromq.protocol.message import MessageQueue
from pyromq.spark.pipeline.builder import Pipeline
from pyromq.spark.pipeline.definition.definition import DefinitionError
from pyromq.spark.pipeline.run.dryrun import dry_run
from pyromq.spark.pipeline.run.progress import Progress, Totals
from pyromq.spark.pipeline.state.checkpoint import SparkCheckpoint
from pyromq.spark.pipeline.state.folder import State
from pyromq.spark.pipeline.state.losses import read_losses
from pyromq.spark.pipeline.state.position import lag
from pyromq.spark.pipeline.state.status import read_status
from pyromq.spark.source.offsets import Offset
from tests.processes import Server, broker, name_server, port_of
from tests.spark.test_pipeline import ids, order, produce
from tests.spark.topics import BOUND, create, eventually, fill

SMALL_LOG = ("--mapped-file-size-commit-log", str(1 << 20))
QUEUE = MessageQueue("old", "broker-a", 0)
LANES = ("fast", "staged", "planned")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Server, Path]]:
    """A name server's address, and a broker with short log files in a folder."""
    folder = tmp_path_factory.mktemp("losses")
    with name_server(folder) as names, broker(folder / "a", *SMALL_LOG, name_servers=names["namesrv"]) as running:
        yield names["namesrv"], running, folder / "a"


def body(number: int) -> bytes:
    """Forty kilobytes, so that few make up a log file; one of them is none that can be parsed."""
    return (b"{" if number == 60 else b'{"id": %d}' % number) + b" " * 40_000


def expire(server: Server, folder: Path) -> None:
    """Stop the broker, take its oldest log file away, as retention would, and start it again."""
    port = port_of(server["broker"])
    assert server.terminate() == 0
    min((folder / "commitlog").iterdir()).unlink()
    server.arguments[server.arguments.index("--listen-port") + 1] = str(port)
    server.start()


# SP-09
def test_expired_messages_are_in_the_table_once(
    spark: SparkSession, store: tuple[str, Server, Path], tmp_path: Path
) -> None:
    namesrv, server, folder = store
    create(namesrv, "old", 1)
    fill(namesrv, "old", range(2), queues=1, body=body)

    def pipeline(lane: str) -> Pipeline:
        made = (
            Pipeline("old", checkpoint=str(tmp_path / lane))
            .source(nameServer=namesrv, topic="old", failOnDataLoss="record")
            .parse("id bigint")
            .to_parquet(str(tmp_path / "lake" / lane))
            .dlq(f"dead-{lane}")
        )
        return made if lane == "fast" else made.sql("SELECT id FROM input")

    for lane in LANES:
        assert pipeline(lane).run(once=True, spark=spark).lost == 0
    fill(namesrv, "old", range(2, 100), queues=1, body=body)
    begun(tmp_path / "planned", Offset({QUEUE: 50}))
    expire(server, folder)

    def again(lane: str) -> Totals:
        return pipeline(lane).run(once=True, spark=spark)

    eventually("the broker", lambda: lag(pipeline("fast").definition())[0].lost > 0)
    (queue,) = lag(pipeline("fast").definition())
    assert (queue.position, queue.lost, queue.lag) == (2, queue.lost, 98 - queue.lost)
    assert queue.seconds is not None
    assert queue.seconds > 0
    first = 2 + queue.lost
    totals = {lane: again(lane) for lane in LANES}
    for lane, counted in totals.items():
        assert ids(tmp_path / "lake" / lane) == Counter({0, 1, *range(first, 100)} - {60})
        (row,) = read_losses(State(str(tmp_path / lane)))
        assert (row.batch, row.first, row.end, row.messages, row.reason) == (1, 2, first, queue.lost, "expired")
        assert (counted.lost, counted.bad) == (queue.lost, 1)
        status = read_status(pipeline(lane).definition())
        assert (status.lost, status.losses) == (queue.lost, [row])
    assert totals["fast"].messages == totals["staged"].messages == 100 - first
    assert totals["fast"].bytes == totals["staged"].bytes == totals["planned"].bytes > (100 - first) * 40_000

    for lane in ("fast", "staged"):  # as after a crash before Spark's own commit
        (tmp_path / lane / "commits" / "1").unlink()
        (tmp_path / lane / "commits" / ".1.crc").unlink(missing_ok=True)
        again(lane)
        assert SparkCheckpoint(tmp_path / lane).last_committed() == 1
        assert sum(row.messages for row in read_losses(State(str(tmp_path / lane)))) == queue.lost
        assert ids(tmp_path / "lake" / lane) == Counter({0, 1, *range(first, 100)} - {60})


def begun(checkpoint: Path, end: Offset) -> None:
    """As after a crash that followed the planning of batch 1."""
    entry = (checkpoint / "offsets" / "0").read_text().splitlines()
    (checkpoint / "offsets" / "1").write_text("\n".join([*entry[:2], json.dumps(end.render(), separators=(",", ":"))]))


# SP-09
def test_what_a_deleted_topic_had_is_read_or_recorded(
    spark: SparkSession, store: tuple[str, Server, Path], tmp_path: Path
) -> None:
    namesrv, _, _ = store
    create(namesrv, "leaving", 2)
    create(namesrv, "staying", 1)
    fill(namesrv, "leaving", range(400), queues=2, body=order)
    seen: list[Progress] = []
    run = (
        Pipeline("left", checkpoint=str(tmp_path / "state"))
        .source(
            nameServer=namesrv,
            topics="leaving,staying",
            failOnDataLoss="record",
            maxRows=20,
            partitionDiscoveryMs=1000,
        )
        .parse("id bigint")
        .to_parquet(str(tmp_path / "lake"))
        .dlq("dead-left")
        .trigger("every 100ms")
        .prepare(on_progress=seen.append, spark=spark)
    )
    failures: list[PyroMQError] = []

    def running() -> None:
        try:
            run.run()
        except PyroMQError as error:
            failures.append(error)

    thread = threading.Thread(target=running, daemon=True)
    thread.start()
    try:
        eventually("a first batch", lambda: bool(seen or failures))
        with Admin(namesrv=namesrv) as admin:
            admin.delete_topic("leaving", cluster="DefaultCluster")
        # Without another message: a loss alone is worth a batch.
        eventually("the loss", lambda: bool(run.totals.lost or failures))
        fill(namesrv, "staying", range(1000, 1010), queues=1, body=order)
        eventually("the rest", lambda: 1009 in ids(tmp_path / "lake") or bool(failures))
    finally:
        run.stop()
        thread.join(BOUND)
    assert failures == []
    lost = read_losses(State(str(tmp_path / "state")))
    landed = ids(tmp_path / "lake")
    assert {(row.topic, row.reason) for row in lost} == {("leaving", "deleted")}
    assert set(landed.values()) == {1}
    assert sum(number < 1000 for number in landed) + sum(row.messages for row in lost) == 400
    assert run.totals.lost == sum(row.messages for row in lost)
    assert "leaving/broker-a/0" not in seen[-1].lag_by_queue  # nobody is behind what is not there


def test_a_field_may_have_the_name_of_a_size(
    spark: SparkSession, store: tuple[str, Server, Path], tmp_path: Path
) -> None:
    namesrv, _, _ = store
    produce(namesrv, "sized", [b'{"id": %d, "storeSize": 7}' % number for number in range(10)])

    def pipeline(lane: str, schema: str) -> Pipeline:
        made = (
            Pipeline("sized", checkpoint=str(tmp_path / lane))
            .source(nameServer=namesrv, topic="sized")
            .parse(schema, on_error="drop")
            .to_parquet(str(tmp_path / "lake" / lane))
        )
        return made if lane == "fast" else made.sql("SELECT * FROM input")

    for lane in ("fast", "staged"):
        totals = pipeline(lane, "id bigint, storeSize bigint").run(once=True, spark=spark)
        assert (totals.messages, totals.bytes, totals.rows) == (10, 0, {"parquet-0": 10})  # nobody knows their sizes
        rows = spark.read.parquet(str(tmp_path / "lake" / lane)).collect()
        assert {row.storeSize for row in rows} == {7}
    for schema, wrong in (("id bigint, _size int", "_size is a name"), ("id bigint, ID int", "ID is there twice")):
        with pytest.raises(DefinitionError, match=wrong):
            dry_run(pipeline("new", schema).definition(), spark=spark)
    with_letters = pipeline("new", "id bigint, queueId int").parse("id bigint, queueId int").dlq("dead-sized")
    with pytest.raises(DefinitionError, match="queueId says where a dead letter came from"):
        dry_run(with_letters.definition(), spark=spark)
