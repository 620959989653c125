"""A quota holds whatever brokers send at a time, and whichever task reads."""

import itertools
from typing import cast

import pytest

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.message import MessageQueue
from pyromq.spark.options import read_options
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.offsets import Range
from pyromq.spark.source.options import ReadMode, SourceOptions
from pyromq.spark.source.partitions import ALONE, Share, queue_partitions
from pyromq.spark.task.pull import Puller
from pyromq.spark.task.quota import LEAST, Quota, kept_quota

SIZE = 1000


def given(**options: str) -> SourceOptions:
    return read_options(SourceOptions, {"nameServer": "n:1", "topic": "t", "pullBatchSize": "10"} | options, {})


class Broker:
    """Stands for a cluster and its connections: messages of 1000 bytes, as many as are asked for, in no time."""

    def __init__(self) -> None:
        self.wire = self
        self.now = 50.0
        self.sent = 0
        self.largest = 0
        self._opaque = itertools.count(1)
        self._answers: list[Command] = []

    def address(self, queue: MessageQueue, *, or_slave: bool) -> str:
        assert or_slave
        return queue.broker_name

    def filtered_pull(self, _queue: MessageQueue, offset: int, count: int, max_bytes: int) -> Command:
        self.largest = max(self.largest, max_bytes)
        header = PullMessageResponseHeader(
            suggest_which_broker_id=0, next_begin_offset=offset + count, min_offset=0, max_offset=10**6
        )
        return Command.request(11).reply(ResponseCode.SUCCESS, header, body=b"x" * SIZE * count)

    def send(self, _address: str, answer: Command, _timeout: float) -> int:
        answer.opaque = next(self._opaque)
        self._answers.append(answer)
        return answer.opaque

    def receive(self, _address: str, _timeout: float) -> Command:
        answer = self._answers.pop(0)
        self.sent += len(answer.body)
        return answer

    def disconnect(self, _address: str) -> None: ...

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def read(broker: Broker, options: SourceOptions, quota: Quota, *ranges: Range) -> float:
    """Seconds that a task takes."""
    began = broker.now
    puller = Puller(options, cast("Cluster", broker), quota=quota, clock=broker.clock, sleep=broker.sleep)
    assert sum(len(body) for _, body, _ in puller.responses(ranges)) == sum(each.messages for each in ranges) * SIZE
    return broker.now - began


def test_a_task_keeps_its_share() -> None:
    broker, options = Broker(), given(maxBytesPerSecond="200000")
    quota = Quota(broker.clock)
    quota.set(options, Share(2, (("a", 2),)))
    took = read(broker, options, quota, Range("t", "a", 0, 0, 1000))
    assert 9.0 <= took <= 10.0  # a megabyte at half of 200 KB/s; the pause after the last answer is the next task's
    assert broker.largest == LEAST
    assert read(broker, options, quota, Range("t", "a", 0, 1000, 1001)) > 0  # which has to wait for it
    free = Quota(broker.clock)
    free.set(given(), ALONE)
    assert read(broker, given(), free, Range("t", "a", 0, 0, 1000)) == 0


def test_each_broker_has_its_own() -> None:
    broker, options = Broker(), given(maxBytesPerSecondPerBroker="100000")
    quota = Quota(broker.clock)
    quota.set(options, Share(1, (("a", 1), ("b", 1))))
    alone = read(broker, options, quota, Range("t", "a", 0, 0, 1000))
    broker.now += 60
    both = read(broker, options, quota, Range("t", "a", 0, 0, 1000), Range("t", "b", 0, 0, 1000))
    assert 9.0 <= alone <= 10.0
    assert both <= alone + 0.5  # both at once


def test_the_tasks_of_a_batch_share_it() -> None:
    ranges = [Range("t", broker, queue, 0, 10_000) for broker in "ab" for queue in range(4)]
    limited = queue_partitions(ranges, given(maxBytesPerSecond="1", maxPartitions="4"))
    assert {part.share for part in limited} == {Share(4, (("a", 2), ("b", 2)))}
    assert {part.share for part in queue_partitions(ranges, given(maxPartitions="4"))} == {ALONE}


def test_a_process_keeps_the_debt_for_its_next_task() -> None:
    options = given(maxBytesPerSecond="1000", namespace="kept")
    quota = kept_quota(options, ALONE, lambda: 5.0)
    quota.spent("a", 3000)
    assert kept_quota(options, Share(3), lambda: 5.0).pause("a") == pytest.approx(3.0)
    assert kept_quota(given(maxBytesPerSecond="1001", namespace="kept"), ALONE, lambda: 5.0).pause("a") == 0


def test_files_are_preferred_where_they_are_at_hand() -> None:
    assert given().read_mode is ReadMode.PULL
    assert given(storePath="/data/store").read_mode is ReadMode.AUTO
    assert given(storePath="/data/store", readMode="pull").read_mode is ReadMode.PULL
