"""Messages through the calls of the proxy, on a real broker: sent, received, settled, timed and dead."""

import asyncio
from hashlib import md5
from pathlib import Path
from typing import Any

from pyromq.clock import wall_clock
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.proxy.messages.moments import timestamp
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code, MessageType, QueryOffsetPolicy
from tests.integration.broker.servers import until
from tests.integration.proxy.brokerbench import GROUP, TOPIC, broker_bench
from tests.unit.proxy.messaging import FakeCall


def bodies(received: list[Any]) -> list[str]:
    return sorted(message.body.decode() for message in received)


async def test_sent_received_and_acknowledged(tmp_path: Path) -> None:
    async with broker_bench(tmp_path) as bench:
        await bench.topic()
        await bench.send("a", "b", "c", tag="paid", keys=["k1", "k2"], born_host="there")
        received = await bench.receive_all(3)
        assert bodies(received) == ["a", "b", "c"]
        first = received[0]
        system = first.system_properties
        assert (first.topic.name, system.tag, list(system.keys)) == (TOPIC, "paid", ["k1", "k2"])
        assert system.message_id == f"id-{first.body.decode()}"
        assert system.body_digest.checksum == md5(first.body).hexdigest().upper()  # noqa: S324
        assert (system.message_type, system.delivery_attempt, system.born_host) == (MessageType.NORMAL, 1, "there")
        assert dict(first.user_properties) == {}
        answer = await bench.ack(*received)
        assert answer.status.code == Code.OK
        assert [entry.status.code for entry in answer.entries] == [Code.OK] * 3
        assert await bench.receive(poll=0) == []


async def test_filters_by_tag_and_by_sql(tmp_path: Path) -> None:
    async with broker_bench(tmp_path, enable_property_filter="true") as bench:
        await bench.topic()
        await bench.send("a", tag="x")
        await bench.send("b", tag="y")
        assert bodies(await bench.receive_all(1, tags="y || z")) == ["b"]
        await bench.send("c", tag="x")
        await bench.send("d", tag="y")
        assert bodies(await bench.receive_all(1, sql="TAGS = 'x'")) == ["c"]


async def test_a_changed_time_gives_a_new_handle_and_another_attempt(tmp_path: Path) -> None:
    async with broker_bench(tmp_path) as bench:
        await bench.topic()
        await bench.send("a")
        (first,) = await bench.receive_all(1)
        old = first.system_properties.receipt_handle
        answer = await bench.change(old, 0)
        assert answer.status.code == Code.OK
        assert answer.receipt_handle not in ("", old)
        (again,) = await bench.receive_all(1, poll=5)
        assert (again.body, again.system_properties.delivery_attempt) == (b"a", 2)
        assert (await bench.ack(again)).status.code == Code.OK
        answer = await bench.change("rubbish", 1)
        assert (answer.status.code, answer.receipt_handle) == (Code.INVALID_RECEIPT_HANDLE, "rubbish")


async def test_a_dead_letter_is_stored_and_done(tmp_path: Path) -> None:
    async with broker_bench(tmp_path) as bench:
        await bench.topic("FIFO")
        await bench.broker.core.groups.put(SubscriptionGroupConfig(group_name=GROUP, consume_message_orderly=True))
        await bench.send("a", "b", message_type=MessageType.FIFO, message_group="g1")
        received = await bench.receive_all(2, auto_renew=True)
        assert [message.body for message in received] == [b"a", b"b"]
        assert received[0].system_properties.message_group == "g1"
        assert await bench.receive(poll=0.3, auto_renew=True) == [], "the queue is locked"
        assert (await bench.forward(received[0])).status.code == Code.OK
        assert (await bench.ack(received[1])).status.code == Code.OK
        store = bench.broker.store
        await until(lambda: store.max_offset(f"%DLQ%{GROUP}", 0) == 1)
        assert await bench.receive(poll=0.3, auto_renew=True) == []
        assert len(bench.renewal) == 0


async def test_an_ordered_batch_can_be_fetched_again_by_the_same_attempt(tmp_path: Path) -> None:
    async with broker_bench(tmp_path) as bench:
        await bench.topic("FIFO", queues=1)
        await bench.broker.core.groups.put(SubscriptionGroupConfig(group_name=GROUP, consume_message_orderly=True))
        await bench.send("a", "b", message_type=MessageType.FIFO, message_group="g1")
        assert bodies(await bench.receive(attempt_id="one")) == ["a", "b"]
        again = await bench.receive(attempt_id="one")
        assert bodies(again) == ["a", "b"]
        assert [message.system_properties.delivery_attempt for message in again] == [1, 1]
        assert await bench.receive(attempt_id="two", poll=0.3) == []


async def test_a_failing_message_ends_as_a_dead_letter(tmp_path: Path) -> None:
    async with broker_bench(tmp_path) as bench:
        await bench.topic()
        await bench.broker.core.groups.put(SubscriptionGroupConfig(group_name=GROUP, retry_max_times=1))
        await bench.send("a")
        for attempt in (1, 2):
            (message,) = await bench.receive_all(1, poll=5)
            assert message.system_properties.delivery_attempt == attempt
            await bench.change(message.system_properties.receipt_handle, 0)
        await until(lambda: bench.broker.store.max_offset(f"%DLQ%{GROUP}", 0) == 1)


async def test_a_delayed_message_can_be_recalled(tmp_path: Path) -> None:
    async with broker_bench(tmp_path) as bench:
        await bench.topic("DELAY")
        due = wall_clock() + 2_000
        delayed = {"message_type": MessageType.DELAY, "delivery_timestamp": timestamp(due)}
        kept = await bench.send("kept", **delayed)
        gone = await bench.send("gone", **delayed)
        request = messages.RecallMessageRequest(recall_handle=gone.entries[0].recall_handle)
        request.topic.name = TOPIC
        answer = await bench.call(bench.methods, "RecallMessage", request)
        assert (answer.status.code, answer.message_id) == (Code.OK, "id-gone")
        assert kept.entries[0].recall_handle
        (message,) = await bench.receive_all(1, poll=5)
        assert wall_clock() >= due
        assert (message.body, message.system_properties.message_type) == (b"kept", MessageType.DELAY)
        assert message.system_properties.delivery_timestamp.ToMilliseconds() == due
        past = await bench.send("past", message_type=MessageType.DELAY, delivery_timestamp=timestamp(due))
        assert past.entries[0].status.code == Code.OK
        assert bodies(await bench.receive_all(1, poll=5)) == ["past"]
        request.recall_handle = "rubbish"
        assert (await bench.call(bench.methods, "RecallMessage", request)).status.code == Code.BAD_REQUEST


async def test_what_a_caller_that_left_would_have_got_comes_again_soon(tmp_path: Path) -> None:
    async with broker_bench(tmp_path) as bench:
        await bench.topic()
        call = FakeCall(30)
        waiting = asyncio.ensure_future(bench.receive(poll=10, invisible=60, call=call))
        await until(lambda: bool(bench.cluster.asked))
        await asyncio.sleep(0.3)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await bench.send("a")
        (message,) = await bench.receive_all(1, poll=5)
        assert message.system_properties.delivery_attempt == 2, "it was popped for the one who left"


async def test_messages_stay_hidden_while_a_push_consumer_works(tmp_path: Path) -> None:
    async with broker_bench(tmp_path) as bench:
        await bench.topic()
        await bench.send("a")
        (message,) = await bench.receive_all(1, auto_renew=True)
        assert len(bench.renewal) == 1
        bench.renewal.release("client-1")
        (again,) = await bench.receive_all(1, poll=5)
        assert again.system_properties.delivery_attempt == 2
        assert (await bench.ack(message)).status.code in (Code.OK, Code.INVALID_RECEIPT_HANDLE)


async def test_offsets_and_pulls(tmp_path: Path) -> None:
    async with broker_bench(tmp_path) as bench:
        await bench.topic(queues=1)
        await bench.send("a", "b", "c")
        queue = messages.MessageQueue(id=0)
        queue.topic.name, queue.broker.name = TOPIC, bench.cluster.names[0]
        group = messages.Resource(name=GROUP)
        get = messages.GetOffsetRequest(group=group, message_queue=queue)
        assert (await bench.call(bench.methods, "GetOffset", get)).status.code == Code.OFFSET_NOT_FOUND
        update = messages.UpdateOffsetRequest(group=group, message_queue=queue, offset=2)
        assert (await bench.call(bench.methods, "UpdateOffset", update)).status.code == Code.OK
        answer = await bench.call(bench.methods, "GetOffset", get)
        assert (answer.status.code, answer.offset) == (Code.OK, 2)
        found = {}
        for policy in QueryOffsetPolicy:
            query = messages.QueryOffsetRequest(
                message_queue=queue, query_offset_policy=policy, timestamp=timestamp(wall_clock() + 60_000)
            )
            found[policy.name] = (await bench.call(bench.methods, "QueryOffset", query)).offset
        assert (found["BEGINNING"], found["END"]) == (0, 3)
        pull = messages.PullMessageRequest(group=group, message_queue=queue, offset=1, batch_size=5)
        answers = await bench.stream(bench.methods, "PullMessage", pull)
        assert [answer.WhichOneof("content") for answer in answers] == ["status", "message", "message", "next_offset"]
        assert [answer.message.body for answer in answers[1:3]] == [b"b", b"c"]
        assert answers[3].next_offset == 3
        pull.offset = 3
        pull.long_polling_timeout.nanos = 200_000_000
        answers = await bench.stream(bench.methods, "PullMessage", pull)
        assert (answers[0].status.code, answers[1].next_offset) == (Code.MESSAGE_NOT_FOUND, 3)
