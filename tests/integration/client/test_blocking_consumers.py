"""Consumers for threads against a real broker, and what they leave behind."""

import gc
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pyromq import (
    ClientError,
    ConsumeFromWhere,
    ConsumeOutcome,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    ReceivedMessage,
    ServiceStateError,
)
from tests.integration.client.clusters import LIMIT, standalone_beside

QUICK: dict[str, Any] = {
    "rebalance_min_interval": 0.05,
    "consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
}
Q0 = MessageQueue("T", "broker-a", 0)


def fill(namesrv: str, *bodies: bytes) -> None:
    """One batch into T, which the first one creates with one queue."""
    with Producer("PG", namesrv=namesrv, default_topic_queues=1) as producer:
        producer.send([Message("T", body) for body in bodies])


def open_sockets() -> int:
    """Sockets only: the server, in this process too, opens files as it likes."""
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed while we look
            count += str(each.readlink()).startswith("socket:")
    return count


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_push_consumers_call_listeners_on_threads(tmp_path: Path) -> None:  # C-01 C-09
    with standalone_beside(tmp_path) as server:
        fill(server.namesrv_address, *numbers(20))
        consumer = PushConsumer("CG", namesrv=server.namesrv_address, first_pull_delay=0.0, **QUICK)
        consumer.subscribe("T", "*")
        seen: set[bytes] = set()
        threads: set[str] = set()
        done = threading.Event()

        @consumer.listen
        def handle(message: ReceivedMessage) -> ConsumeOutcome:
            threads.add(threading.current_thread().name)
            seen.add(message.body)
            if len(seen) == 20:
                done.set()
            return ConsumeOutcome.SUCCESS

        with consumer:
            assert done.wait(LIMIT)
            assert consumer.assignment() == {Q0}
            assert consumer.fetch_queues("T") == [Q0]
            consumer.suspend()
            consumer.resume()
            consumer.set_consume_threads(5)
            assert consumer.consume_threads == 5
            assert consumer.queries.max_offset(Q0) == 20
        assert all(name.startswith("pyromq-CG") for name in threads)
        with pytest.raises(ServiceStateError):
            consumer.suspend()


def test_listeners_may_send_with_blocking_producers(tmp_path: Path) -> None:
    with standalone_beside(tmp_path) as server, Producer("PG", namesrv=server.namesrv_address) as producer:
        fill(server.namesrv_address, b"in")
        consumer = PushConsumer("CG", namesrv=server.namesrv_address, first_pull_delay=0.0, **QUICK)
        consumer.subscribe("T")
        done = threading.Event()

        @consumer.listen(orderly=True)
        def forward(message: ReceivedMessage) -> None:
            producer.send(Message("OUT", message.body))
            done.set()

        with consumer:
            assert done.wait(LIMIT)
        with PullConsumer("READER", namesrv=server.namesrv_address, **QUICK) as reader:
            reader.subscribe("OUT")
            assert [message.body for message in reader.poll(LIMIT)] == [b"in"]


def test_pull_consumers_are_iterable(tmp_path: Path) -> None:  # C-01
    with standalone_beside(tmp_path) as server:
        fill(server.namesrv_address, *numbers(25))
        with PullConsumer("CG", namesrv=server.namesrv_address, **QUICK) as consumer:
            consumer.subscribe("T")
            seen = []
            for message in consumer:
                seen.append(message.body)
                if len(seen) == 25:
                    break
            assert seen == numbers(25)
            assert consumer.position(Q0) == 25
            consumer.commit()
            assert consumer.committed(Q0) == 25
            consumer.seek(Q0, 23)
            assert [message.body for message in consumer.poll(LIMIT)] == numbers(25)[23:]
            consumer.seek_to_begin(Q0)
            assert consumer.poll(LIMIT, 1)[0].body == b"0"
            consumer.seek_to_end(Q0)
            consumer.pause([Q0])
            consumer.resume([Q0])
            assert consumer.queries.search_offset(Q0, 0) == 0
            assert consumer.assignment() == {Q0}


def test_closing_ends_an_iteration_in_another_thread(tmp_path: Path) -> None:
    with standalone_beside(tmp_path) as server:
        fill(server.namesrv_address, b"x")
        consumer = PullConsumer("CG", namesrv=server.namesrv_address, **QUICK)
        consumer.start()
        consumer.subscribe("T")
        seen: list[bytes] = []
        first, ended = threading.Event(), threading.Event()

        def iterate() -> None:
            for message in consumer:
                seen.append(message.body)
                first.set()
            ended.set()

        thread = threading.Thread(target=iterate)
        thread.start()
        assert first.wait(LIMIT)
        consumer.close()
        assert ended.wait(LIMIT)
        thread.join(LIMIT)
        assert seen == [b"x"]


def test_single_pulls_and_offsets(tmp_path: Path) -> None:
    with standalone_beside(tmp_path) as server:
        fill(server.namesrv_address, *numbers(3))
        with PullConsumer("CG", namesrv=server.namesrv_address, suspend_timeout=0.1, **QUICK) as consumer:
            assert len(consumer.manual.pull(Q0, "*", 0).messages) == 3
            assert consumer.manual.pull_block(Q0, None, 3).status is PullStatus.NO_NEW_MESSAGE
            consumer.manual.update_offset(Q0, 2)
            consumer.manual.persist_offset(Q0)
            assert consumer.manual.fetch_offset(Q0, from_store=True) == 2
            consumer.assign([Q0])
            assert consumer.poll(LIMIT)[0].body == b"2"
            with pytest.raises(ClientError, match="below 0"):
                consumer.manual.pull(Q0, "*", -1)


def test_starts_and_stops_leave_nothing_behind(tmp_path: Path, long_run: bool) -> None:
    with standalone_beside(tmp_path) as server:
        fill(server.namesrv_address, b"x")

        def once() -> None:
            push = PushConsumer("CG", namesrv=server.namesrv_address, **QUICK)
            push.subscribe("T")
            push.listen(lambda _: None)
            pull = PullConsumer("PULLERS", namesrv=server.namesrv_address, **QUICK)
            pull.subscribe("T")
            with push, pull:
                pass

        once()
        gc.collect()
        threads, sockets = threading.active_count(), open_sockets()
        rounds = 200 if long_run else 10
        for _ in range(rounds):
            once()
        gc.collect()
        # The server hears of closed connections a little later.
        deadline = time.monotonic() + LIMIT
        most = threads + rounds - 1  # the server beside may still have grown its pool by a few
        while (threading.active_count() > most or open_sockets() > sockets) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threading.active_count() <= most, "what each round leaves behind"
        assert open_sockets() <= sockets
