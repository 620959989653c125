"""Asynchronous sends: retries, callbacks, bounds, back-pressure, automatic batching, latency mode."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from pyromq.client.errors import BrokerError, ClientError, TooManyRequestsError, TransportError
from pyromq.client.pool import BoundedPool, PoolFull
from pyromq.client.producer.accumulator import split_result
from pyromq.client.producer.backpressure import BackPressure, Permits
from pyromq.client.producer.faults import FaultRecord
from pyromq.client.producer.producer import Producer
from pyromq.client.producer.results import SendResult, SendStatus
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import SendMessageResponseHeader, SendMessageV2Header
from pyromq.protocol.message import Message, MessageQueue
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records.batch import iter_batch
from pyromq.remoting.errors import CallTimeout, ConnectError, ConnectionLost, InFlightLimitReached, SendError
from pyromq.selectors import by_hash
from tests.unit.client.fakes import FakeCluster, ManualClock, asyncio_test, settle

RUNNING = {"namesrv": "x"}


def fail(error: Exception) -> Callable[[Command], Exception]:
    return lambda _: error


def cluster_of(*names: str, queues: int = 4) -> FakeCluster:
    cluster = FakeCluster(*names)
    cluster.add_topic("T", queues)
    return cluster


def sends(cluster: FakeCluster) -> list[tuple[str, Command]]:
    return [(a, c) for a, c, _ in cluster.transport.calls if c.code in (310, 320)]


@asyncio_test
async def test_async_send_returns_at_once() -> None:
    # P-02, P-06 rows 3, 4
    cluster = cluster_of("a")
    producer = await cluster.producer()
    future = producer.send_async(Message("T", b"x"))
    assert not future.done()
    assert sends(cluster) == []
    result = await future
    assert result.status is SendStatus.SEND_OK
    await producer.send_async(Message("T", b"x"), timeout=1.0)
    assert cluster.transport.calls[-1][2] == 1.0


@asyncio_test
async def test_async_with_queue_selector_and_batch() -> None:
    # P-06 rows 8, 9, 13, 14, 20-23
    cluster = cluster_of("a", "b")
    producer = await cluster.producer()
    queue = MessageQueue("T", "b", 1)
    assert (await producer.send_async(Message("T", b"x"), queue=queue)).queue == queue
    assert (await producer.send_async(Message("T", b"x"), queue=queue, timeout=2.0)).queue == queue
    chosen = await producer.send_async(Message("T", b"x"), selector=by_hash, arg="order-1", timeout=2.0)
    assert chosen.queue == MessageQueue("T", "b", 2)
    batch = [Message("T", b"x"), Message("T", b"y")]
    assert "," in (await producer.send_async(batch)).message_id
    assert (await producer.send_async(batch, queue=queue, timeout=2.0)).queue == queue


@asyncio_test
async def test_callback_gets_the_result_on_a_pool_thread() -> None:
    # P-02, P-09
    cluster = cluster_of("a")
    producer = await cluster.producer(callback_threads=1)
    outcome: Future[tuple[Any, Any, str]] = Future()

    def callback(result: SendResult | None, error: Exception | None) -> None:
        outcome.set_result((result, error, threading.current_thread().name))

    sent = await producer.send_async(Message("T", b"x"), callback)
    result, error, thread = await asyncio.wrap_future(outcome)
    assert result == sent
    assert error is None
    assert thread.startswith("pyromq-callback")
    await producer.close()
    assert not any(thread.name.startswith("pyromq-callback") for thread in threading.enumerate())


@asyncio_test
async def test_coroutine_callback_and_failure() -> None:
    # P-09, P-103
    cluster = cluster_of("a")
    producer = await cluster.producer()
    cluster.brokers["a"].script = [lambda command: command.reply(13, remark="too large")]
    seen: list[tuple[SendResult | None, Exception | None]] = []

    async def callback(result: SendResult | None, error: Exception | None) -> None:
        seen.append((result, error))
        raise RuntimeError("callbacks may fail")

    future = producer.send_async(Message("T", b"x"), callback)
    await settle()
    result, error = seen[0]
    assert result is None
    assert isinstance(error, BrokerError)
    assert error.code == 13
    with pytest.raises(BrokerError):
        await future


@asyncio_test
async def test_errors_before_the_network_reach_the_callback() -> None:
    # table 1.1a, note on rows 3 and 13
    cluster = cluster_of("a")
    producer = await cluster.producer()
    seen: list[Exception | None] = []

    async def callback(_: SendResult | None, error: Exception | None) -> None:
        seen.append(error)

    for payload in (Message("T", b""), Message("missing", b"x")):
        _ = producer.send_async(payload, callback)
    await settle()
    assert len(seen) == 2
    assert all(isinstance(error, ClientError) for error in seen)


@asyncio_test
async def test_user_pool_and_full_pool() -> None:
    # P-09: a pool that refuses means the I/O thread
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    cluster = cluster_of("a")
    producer = await cluster.producer(callback_executor=closed)
    threads: list[str] = []
    await producer.send_async(Message("T", b"x"), lambda *_: threads.append(threading.current_thread().name))
    await settle()
    assert threads == [threading.current_thread().name]


@asyncio_test
async def test_without_callback_or_await_errors_are_swallowed() -> None:
    # P-102
    cluster = cluster_of("a")
    producer = await cluster.producer()
    cluster.brokers["a"].script = [lambda command: command.reply(13)]
    future = producer.send_async(Message("T", b"x"))
    await settle()
    assert future.done()
    assert future.exception() is not None


@asyncio_test
async def test_async_retries_after_transport_faults() -> None:
    # P-101, P-104, P-105, P-108
    cluster = cluster_of("a", "b")
    producer = await cluster.producer()
    for broker in cluster.brokers.values():
        broker.script = [fail(SendError("x")), fail(CallTimeout("x")), fail(ConnectionLost("x"))]
    with pytest.raises(TransportError):
        await producer.send_async(Message("T", b"x"))
    addresses = [address for address, _ in sends(cluster)]
    assert len(addresses) == 3
    assert addresses[0] != addresses[1] != addresses[2]


@asyncio_test
async def test_async_retry_uses_a_queue_that_the_new_broker_owns() -> None:
    # P-105 with the decision to rewrite the queue id
    cluster = FakeCluster("a", "b")
    cluster.add_topic("T")
    route = cluster.routes["T"]
    route.queue_datas[0].write_queue_nums = 8
    route.queue_datas[1].write_queue_nums = 1
    producer = await cluster.producer()
    for _ in range(12):
        cluster.brokers["a"].script = [fail(SendError("x"))]
        await producer.send_async(Message("T", b"x"))
    assert {header.queue_id for header, _ in cluster.brokers["b"].stored} == {0}


@asyncio_test
async def test_async_with_a_chosen_queue_stays_on_its_broker() -> None:
    # P-75, P-105
    cluster = cluster_of("a", "b")
    producer = await cluster.producer()
    cluster.brokers["b"].script = [fail(SendError("x"))] * 2
    queue = MessageQueue("T", "b", 3)
    assert (await producer.send_async(Message("T", b"x"), queue=queue)).queue == queue
    assert [address for address, _ in sends(cluster)] == [cluster.brokers["b"].address] * 3


@asyncio_test
async def test_async_does_not_retry_what_a_broker_refused() -> None:
    # P-103
    cluster = cluster_of("a", "b")
    producer = await cluster.producer()
    for broker in cluster.brokers.values():
        broker.script = [lambda command: command.reply(2, remark="busy")]
    with pytest.raises(BrokerError) as caught:
        await producer.send_async(Message("T", b"x"))
    assert caught.value.retryable
    assert len(sends(cluster)) == 1


@asyncio_test
async def test_async_does_not_retry_too_many_requests() -> None:
    # P-104
    cluster = cluster_of("a", "b")
    producer = await cluster.producer()
    for broker in cluster.brokers.values():
        broker.script = [fail(InFlightLimitReached("x"))]
    with pytest.raises(TooManyRequestsError):
        await producer.send_async(Message("T", b"x"))
    assert len(sends(cluster)) == 1


@asyncio_test
async def test_async_retries_end_with_the_time() -> None:
    # P-101: each retry gets what is left
    cluster = cluster_of("a", "b")
    producer = await cluster.producer(async_retries=5)

    def slow(_: Command) -> Exception:
        cluster.clock.now += 1.0
        return CallTimeout("x")

    for broker in cluster.brokers.values():
        broker.script = [slow] * 5
    with pytest.raises(TransportError):
        await producer.send_async(Message("T", b"x"), timeout=2.5)
    assert [timeout for _, command, timeout in cluster.transport.calls if command.code == 310] == [2.5, 1.5, 0.5]


@asyncio_test
async def test_async_with_no_time_left() -> None:
    # section 4.4: spent >= timeout
    cluster = cluster_of("a")
    producer = await cluster.producer()
    with pytest.raises(TooManyRequestsError):
        await producer.send_async(Message("T", b"x"), timeout=0)
    assert sends(cluster) == []


def record(producer: Producer, broker: str) -> FaultRecord | None:
    faults = producer._sends.faults
    assert faults is not None
    return faults.get(broker)


@pytest.mark.parametrize(
    ("error", "isolated", "reachable"),
    [
        (None, False, True),
        (SendError("x"), True, True),
        (InFlightLimitReached("x"), True, True),
        (ConnectError("x"), True, False),
        ("refused", True, True),
    ],
)
@asyncio_test
async def test_async_fault_records(error: Exception | str | None, isolated: bool, reachable: bool) -> None:
    # P-103, P-104, P-106 and the table of section 4.4
    cluster = cluster_of("a")
    producer = await cluster.producer(latency_faults=True, async_retries=0)
    if isinstance(error, Exception):
        cluster.brokers["a"].script = [fail(error)]
    elif error is not None:
        cluster.brokers["a"].script = [lambda command: command.reply(13)]
    await asyncio.wait([producer.send_async(Message("T", b"x"))])
    found = record(producer, "a")
    assert found is not None
    assert (found.available_at > cluster.clock.now * 1000) is isolated
    assert found.reachable is reachable


@pytest.mark.parametrize(
    ("error", "detector", "isolated", "reachable"),
    [
        (None, False, False, True),
        (SendError("x"), False, True, True),
        (SendError("x"), True, True, False),
        ("retryable", False, True, False),
        ("final", False, True, False),
    ],
)
@asyncio_test
async def test_sync_fault_records(
    error: Exception | str | None, detector: bool, isolated: bool, reachable: bool
) -> None:
    # P-65, P-67 and table 4.3
    cluster = cluster_of("a")
    producer = await cluster.producer(latency_faults=True, retries=0, detector=detector)
    if isinstance(error, Exception):
        cluster.brokers["a"].script = [fail(error)]
    elif error is not None:
        cluster.brokers["a"].script = [lambda command: command.reply(2 if error == "retryable" else 13)]
    await asyncio.gather(producer.send(Message("T", b"x")), return_exceptions=True)
    found = record(producer, "a")
    assert found is not None
    assert (found.available_at > cluster.clock.now * 1000) is isolated
    assert found.reachable is reachable
    await producer.close()


@asyncio_test
async def test_client_errors_do_not_isolate() -> None:
    # table 4.3: broker address gone
    cluster = cluster_of("a")
    producer = await cluster.producer(latency_faults=True)
    await producer.send(Message("T", b"x"))
    cluster.routes.clear()
    producer._instance.topology.brokers.clear()
    with pytest.raises(ClientError):
        await producer.send(Message("T", b"x"))
    found = record(producer, "a")
    assert found is not None
    assert found.reachable
    assert found.available_at <= cluster.clock.now * 1000


@asyncio_test
async def test_nothing_is_recorded_when_switched_off() -> None:
    # P-83
    cluster = cluster_of("a")
    producer = await cluster.producer()
    await producer.send(Message("T", b"x"))
    assert producer._sends.faults is None


@asyncio_test
async def test_avoided_broker_gets_nothing_until_its_time() -> None:
    # P-72, P-80, P-84, P-85
    cluster = cluster_of("a", "b")
    producer = await cluster.producer(latency_faults=True)
    cluster.brokers["a"].script = [fail(SendError("x"))]
    while cluster.brokers["a"].script:
        await producer.send(Message("T", b"x"))
    cluster.brokers["a"].stored.clear()
    for _ in range(8):
        await producer.send(Message("T", b"x"))
    assert cluster.brokers["a"].stored == []
    cluster.clock.now += 10.0
    for _ in range(8):
        await producer.send(Message("T", b"x"))
    assert cluster.brokers["a"].stored != []


@asyncio_test
async def test_detector_makes_brokers_reachable_again() -> None:
    # P-74, P-79 and section 4.6
    cluster = cluster_of("a", "b")
    producer = await cluster.producer(latency_faults=True, detector=True, retries=0)
    for broker in cluster.brokers.values():
        broker.script = [fail(SendError("x"))]
    for _ in range(2):
        await asyncio.gather(producer.send(Message("T", b"x")), return_exceptions=True)
    faulty = [name for name in ("a", "b") if record(producer, name)]
    assert faulty
    for name in faulty:
        found = record(producer, name)
        assert found is not None
        assert not found.reachable
    await cluster.clock.advance(3.0)
    probes = cluster.transport.sent(RequestCode.GET_MAX_OFFSET)
    assert len(probes) == len(faulty)
    assert cluster.transport.calls[-1][2] == 0.2
    for name in faulty:
        found = record(producer, name)
        assert found is not None
        assert found.reachable
    # a broker that no route names any more is forgotten
    producer._instance.topology.brokers.clear()
    await cluster.clock.advance(3.0)
    assert all(record(producer, name) is None for name in faulty)
    await producer.close()


@asyncio_test
async def test_bound_on_asynchronous_sends() -> None:
    # P-02, section 4.4: pool full
    cluster = cluster_of("a")
    producer = await cluster.producer(async_queue=2)
    stuck: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
    cluster.brokers["a"].script = [lambda _: stuck] * 2
    futures = [producer.send_async(Message("T", b"x")) for _ in range(3)]
    await settle()
    assert [future.done() for future in futures] == [False, False, True]
    with pytest.raises(TooManyRequestsError, match="2 asynchronous"):
        await futures[2]
    for future in futures:
        future.cancel()


@asyncio_test
async def test_backpressure_by_count() -> None:
    # section 4.4
    cluster = cluster_of("a")
    producer = await cluster.producer(backpressure=True, backpressure_count=1)
    blockers: list[asyncio.Future[Command]] = []

    def stuck(command: Command) -> Any:
        blockers.append(asyncio.get_running_loop().create_future())
        blockers[-1].add_done_callback(lambda _: None)
        commands.append(command)
        return blockers[-1]

    commands: list[Command] = []
    broker = cluster.brokers["a"]
    broker.script = [stuck] * 12
    futures = [producer.send_async(Message("T", b"x")) for _ in range(12)]
    await settle()
    assert len(commands) == 10  # the floor
    blockers[0].set_result(broker.store(commands[0]))
    await settle()
    assert futures[0].done()
    assert len(commands) == 11
    await cluster.clock.advance(3.0)
    with pytest.raises(TooManyRequestsError, match="back-pressure"):
        await futures[11]
    producer.resize_backpressure(count=20)
    broker.script = []
    assert (await producer.send_async(Message("T", b"x"))).status is SendStatus.SEND_OK
    for future in futures:
        future.cancel()
    await settle()
    assert producer._sends.backpressure.count.in_use == 0
    assert producer._sends.backpressure.size.in_use == 0


@asyncio_test
async def test_backpressure_by_bytes_is_fair() -> None:
    clock = ManualClock()
    pressure = BackPressure(clock, 1, 1)
    assert (pressure.count.limit, pressure.size.limit) == (10, 1024 * 1024)
    big = await pressure.acquire(1024 * 1024, 1.0)
    assert await BackPressure(clock, 10, 1).acquire(0, 1.0) == 1  # an empty body counts 1
    waiting = asyncio.ensure_future(pressure.acquire(600_000, 5.0))
    small = asyncio.ensure_future(pressure.acquire(1, 1.0))
    await clock.advance(1.0)
    with pytest.raises(TooManyRequestsError, match="bytes"):
        await small
    pressure.release(big)
    assert await waiting == 600_000
    assert pressure.count.in_use == 1
    pressure.resize(size=2 * 1024 * 1024, count=30)
    assert pressure.size.free == 2 * 1024 * 1024 - 600_000
    assert pressure.count.free == 29


@asyncio_test
async def test_permits_survive_cancelled_waiters() -> None:
    clock = ManualClock()
    permits = Permits(1)
    assert await permits.acquire(1, clock, 1)
    first = asyncio.ensure_future(permits.acquire(1, clock, 9))
    second = asyncio.ensure_future(permits.acquire(1, clock, 9))
    await settle()
    first.cancel()
    await settle()
    permits.release(1)
    assert await second
    assert permits.in_use == 1


@asyncio_test
async def test_pool_refuses_beyond_its_bound() -> None:
    clock = ManualClock()
    pool = BoundedPool("test-pool", 1, 2)
    go = threading.Event()
    running = [pool.submit(lambda: go.wait(30)) for _ in range(2)]
    with pytest.raises(PoolFull, match="2 of 2"):
        pool.submit(lambda: None)
    go.set()
    assert [task.result(30) for task in running] == [True, True]
    await pool.close(clock, 5)
    with pytest.raises(PoolFull):
        pool.submit(lambda: None)


@asyncio_test
async def test_posts_start_in_order_and_do_not_wait_for_each_other() -> None:
    pool = BoundedPool("test-pool", 4, 1000)
    seen: list[int] = []
    done = threading.Event()
    for number in range(500):
        pool.post(lambda number=number: seen.append(number))  # type: ignore[misc]
    pool.post(done.set)
    assert await asyncio.to_thread(done.wait, 30)
    # Each of these ends only when the others run beside it.
    together = threading.Barrier(4)
    met: list[int] = []
    for _ in range(4):
        pool.post(lambda: met.append(together.wait(30)))
    await pool.close(ManualClock(), 5)
    assert sorted(seen) == list(range(500))
    assert sorted(met) == [0, 1, 2, 3]
    with pytest.raises(PoolFull):
        pool.post(done.set)


@asyncio_test
async def test_posts_are_bounded() -> None:
    pool = BoundedPool("test-pool", 1, 3)
    go = threading.Event()
    pool.post(lambda: go.wait(30))
    accepted = 0
    while accepted < 10:
        try:
            pool.post(lambda: None)
        except PoolFull:
            break
        accepted += 1
    assert accepted <= 2, "one runs already"
    go.set()
    await pool.close(ManualClock(), 5)
    assert len(pool) == 0


@asyncio_test
async def test_pool_of_the_user_is_left_alone() -> None:
    with ThreadPoolExecutor(1) as executor:
        pool = BoundedPool("test", 1, 2, executor)
        await pool.close(ManualClock(), 1)
        assert executor.submit(lambda: 7).result() == 7


@asyncio_test
async def test_close_waits_for_what_is_under_way() -> None:
    # section 4.15
    cluster = cluster_of("a")
    producer = await cluster.producer()
    broker = cluster.brokers["a"]
    answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
    commands: list[Command] = []

    def later(command: Command) -> Any:
        commands.append(command)
        return answer

    broker.script = [later]
    future = producer.send_async(Message("T", b"x"))
    await settle()
    closing = asyncio.ensure_future(producer.close())
    await settle()
    assert not closing.done()
    answer.set_result(broker.store(commands[0]))
    await closing
    assert (await future).status is SendStatus.SEND_OK
    assert len(broker.unregistered) == 1


@asyncio_test
async def test_close_gives_up_after_its_time() -> None:
    cluster = cluster_of("a")
    producer = await cluster.producer(close_timeout=2.0)
    stuck: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
    cluster.brokers["a"].script = [lambda _: stuck]
    future = producer.send_async(Message("T", b"x"))
    await settle()
    closing = asyncio.ensure_future(producer.close())
    await cluster.clock.advance(2.0)
    await closing
    assert future.cancelled()


def batch_receipt(cluster: FakeCluster) -> None:
    broker = cluster.brokers["a"]

    def store(command: Command) -> Command:
        header = command.header(SendMessageV2Header)
        broker.stored.append((header, bytes(command.body)))
        members = list(iter_batch(command.body))
        receipt = SendMessageResponseHeader(
            msg_id=",".join(f"{n:032X}" for n in range(len(members))), queue_id=header.queue_id, queue_offset=40
        )
        return command.reply(0, receipt)

    broker.script = [store] * 10


@asyncio_test
async def test_messages_are_put_together() -> None:
    # section 4.8; P-99: buffering is this, not the batch code
    cluster = cluster_of("a", queues=1)
    producer = await cluster.producer(auto_batch=True)
    await producer.publish_queues("T")
    batch_receipt(cluster)
    messages = [Message("T", f"{n}".encode(), tags="A", keys=f"k{n}") for n in range(3)]
    waiting = [asyncio.ensure_future(producer.send(message)) for message in messages]
    await cluster.clock.advance(0.009)
    assert sends(cluster) == []
    await cluster.clock.advance(0.001)
    results = [await task for task in waiting]
    assert [result.message_id for result in results] == [message.unique_id for message in messages]
    assert [result.queue_offset for result in results] == [40, 41, 42]
    assert [result.offset_message_id[-1] for result in results] == ["0", "1", "2"]
    (_, command), *others = sends(cluster)
    assert not others
    assert command.code == RequestCode.SEND_BATCH_MESSAGE
    assert decode_properties(command.header(SendMessageV2Header).properties or "") == {"WAIT": "true"}
    assert producer._sends.accumulator is not None
    assert producer._sends.accumulator.held_bytes == 0
    await producer.close()


@asyncio_test
async def test_groups_are_kept_apart() -> None:
    # section 4.8: topic, queue, wait flag, tag; and sync from async
    cluster = cluster_of("a", queues=1)
    producer = await cluster.producer(auto_batch=True)
    await producer.publish_queues("T")
    queue = MessageQueue("T", "a", 0)
    tasks = [
        asyncio.ensure_future(producer.send(Message("T", b"1"))),
        asyncio.ensure_future(producer.send(Message("T", b"2", tags="B"))),
        asyncio.ensure_future(producer.send(Message("T", b"3", wait_store_ok=False))),
        asyncio.ensure_future(producer.send(Message("T", b"4"), queue=queue)),
        producer.send_async(Message("T", b"5")),
    ]
    await cluster.clock.advance(0.01)
    await asyncio.gather(*tasks)
    assert sorted(body for _, body in cluster.brokers["a"].stored) == [b"1", b"2", b"3", b"4", b"5"]
    assert {command.code for _, command in sends(cluster)} == {RequestCode.SEND_MESSAGE_V2}


@asyncio_test
async def test_what_is_not_batched() -> None:
    # section 4.8 and table 1.1a: an explicit timeout, delays, retry topics, PGROUP, too many bytes held
    cluster = cluster_of("a", queues=1)
    cluster.add_topic("%RETRY%CG")
    producer = await cluster.producer(auto_batch=True, total_batch_bytes=100)
    marked = Message("T", b"x")
    marked.properties["PGROUP"] = "g"
    for message in (
        Message("T", b"x", delay_level=1),
        Message("T", b"x", delay_seconds=1),
        Message("T", b"x", delay_ms=1),
        Message("T", b"x", deliver_at_ms=1),
        Message("%RETRY%CG", b"x"),
        Message("T", b"x" * 101),
        marked,
    ):
        await producer.send(message)
        await producer.send_async(message)
    await producer.send(Message("T", b"x"), timeout=1.0)
    assert len(cluster.brokers["a"].stored) == 15


@asyncio_test
async def test_full_group_goes_at_once() -> None:
    # section 4.8: more than the limit
    cluster = cluster_of("a", queues=1)
    producer = await cluster.producer(auto_batch=True, batch_bytes=10)
    await producer.publish_queues("T")
    batch_receipt(cluster)
    first = asyncio.ensure_future(producer.send(Message("T", b"x" * 10)))
    await settle()
    assert sends(cluster) == []
    second = asyncio.ensure_future(producer.send(Message("T", b"y")))
    await settle()
    assert first.done()
    assert second.done()


@asyncio_test
async def test_failed_batch_fails_everybody() -> None:
    # section 4.8
    cluster = cluster_of("a", queues=1)
    producer = await cluster.producer(auto_batch=True)
    await producer.publish_queues("T")
    cluster.brokers["a"].script = [lambda command: command.reply(13)]
    tasks = [asyncio.ensure_future(producer.send(Message("T", b"x"))) for _ in range(2)]
    await cluster.clock.advance(0.01)
    for task in tasks:
        with pytest.raises(BrokerError):
            await task
    with pytest.raises(ClientError):
        await producer.send(Message("T", b""))  # hurts nobody else


@asyncio_test
async def test_selector_with_batching() -> None:
    cluster = cluster_of("a", queues=8)
    producer = await cluster.producer(auto_batch=True)
    task = asyncio.ensure_future(producer.send(Message("T", b"x"), selector=by_hash, arg="order-1"))
    await cluster.clock.advance(0.01)
    assert (await task).queue.queue_id == 6


@asyncio_test
async def test_close_sends_what_is_held() -> None:
    cluster = cluster_of("a", queues=1)
    producer = await cluster.producer(auto_batch=True)
    await producer.publish_queues("T")
    task = asyncio.ensure_future(producer.send(Message("T", b"x")))
    await settle()
    await producer.close()
    assert (await task).status is SendStatus.SEND_OK


def receipt(message_id: str, offset_id: str) -> SendResult:
    return SendResult(
        status=SendStatus.SEND_OK,
        message_id=message_id,
        offset_message_id=offset_id,
        queue=MessageQueue("T", "a", 0),
        queue_offset=5,
    )


def test_split_result() -> None:
    # section 4.8
    one = receipt("unique", "offset")
    assert split_result(one, 3) == [one] * 3
    parts = split_result(receipt("a,b", "1,2"), 2)
    assert [(part.message_id, part.offset_message_id, part.queue_offset) for part in parts] == [
        ("a", "1", 5),
        ("b", "2", 6),
    ]
    with pytest.raises(ClientError, match="3 messages"):
        split_result(receipt("a,b", "1,2"), 3)
