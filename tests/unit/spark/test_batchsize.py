"""How much a micro-batch takes. # SP-03"""

from pyromq.protocol.message import MessageQueue
from pyromq.spark.options import read_options
from pyromq.spark.source.batchsize import FIRST_ROWS, BatchSize
from pyromq.spark.source.options import SourceOptions

QUEUE = MessageQueue("t", "a", 0)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def batch_size(**limits: str) -> tuple[BatchSize, Clock]:
    clock = Clock()
    return BatchSize(read_options(SourceOptions, {"nameServer": "n:1", "topic": "t"} | limits, {}), clock), clock


def test_a_minimum_waits_no_longer_than_the_delay() -> None:
    admitted, clock = batch_size(minOffsetsPerTrigger="100", maxTriggerDelay="10s")
    assert not admitted.is_due(0)
    assert admitted.is_due(100)
    admitted.take({QUEUE: 100})
    assert not admitted.is_due(99)
    clock.now += 9.9
    assert not admitted.is_due(99)
    clock.now += 0.2
    assert admitted.is_due(99)
    admitted.take({QUEUE: 99})
    assert not admitted.is_due(50)  # the wait begins anew


def test_rows_and_bytes_both_hold() -> None:
    admitted, _ = batch_size(maxOffsetsPerTrigger="1000", maxBytesPerTrigger="50000")
    for _ in range(40):
        admitted.sized(10, 1000)  # 100 bytes each
    assert sum(admitted.take({QUEUE: 10_000}).values()) in (499, 500)
    assert admitted.take({QUEUE: 10_000}, max_rows=7) == {QUEUE: 7}
    assert admitted.take({QUEUE: 10_000}, everything=True) == {QUEUE: 10_000}


def test_the_size_follows_the_duration() -> None:
    admitted, clock = batch_size(targetBatchMs="2000")
    assert admitted.take({QUEUE: 10**7}) == {QUEUE: FIRST_ROWS}
    clock.now += 0.5  # four times too quick, but no more than doubled at once
    admitted.asked()
    assert admitted.take({QUEUE: 10**7}) == {QUEUE: 2 * FIRST_ROWS}
    clock.now += 3.0
    admitted.asked()
    assert admitted.take({QUEUE: 10**7}) == {QUEUE: int(2 * FIRST_ROWS * 2 / 3)}
    clock.now += 60.0
    admitted.asked()
    assert admitted.take({QUEUE: 10**7}) == {QUEUE: int(2 * FIRST_ROWS * 2 / 3) // 2}
    admitted.asked()
    before = admitted.take({QUEUE: 10**7})
    admitted.asked()
    admitted.take({QUEUE: 5})  # a small batch that was quick says nothing
    clock.now += 0.1
    admitted.asked()
    assert admitted.take({QUEUE: 10**7})[QUEUE] >= before[QUEUE]
