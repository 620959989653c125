"""What the admin client learns about connected clients, and about what they did with a message."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.aio import Admin, BrokerError, ClientError, Message, MessageModel, Producer, PushConsumer, ReceivedMessage
from pyromq.client.admin.track import TrackType
from pyromq.client.errors import PartialFailureError
from pyromq.protocol.bodies.enums import ConsumeResult
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.message import MessageQueue
from tests.integration.client.clusters import Cluster, cluster, standalone
from tests.integration.client.inbox import QUICK, Inbox


@asynccontextmanager
async def consuming(
    namesrv: str, group: str, topic: str, **options: object
) -> AsyncIterator[tuple[PushConsumer, Inbox]]:
    tags = str(options.pop("tags", "*"))
    consumer = PushConsumer(group, namesrv=namesrv, **QUICK | options)
    consumer.subscribe(topic, tags)
    inbox = Inbox()
    consumer.listen(inbox)
    async with consumer:
        yield consumer, inbox


async def prepared(running: Cluster, admin: Admin, topic: str) -> None:
    await admin.create_topic(topic, queues=1)
    await running.routed(topic, 2)


async def test_connections_of_producers_and_consumers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await prepared(running, admin, "orders")
        with pytest.raises(BrokerError) as alone:
            await admin.consumer_connections("billing")
        assert alone.value.code == ResponseCode.CONSUMER_NOT_ONLINE
        async with (
            consuming(running.namesrv, "billing", "orders", tags="paid") as (_consumer, inbox),
            Producer("shop", namesrv=running.namesrv) as producer,
        ):
            for queue in await producer.publish_queues("orders"):
                await producer.send(Message("orders", queue.broker_name.encode(), tags="paid"), queue=queue)
            await inbox.different(2)
            found = await admin.consumer_connections("billing")
            assert len(found.connection_set) == 1
            assert found.connection_set[0].language == "PYTHON"
            assert found.message_model is MessageModel.CLUSTERING
            assert found.subscription_table["orders"].sub_string == "paid"
            subscription = await admin.subscription("billing", "orders")
            assert subscription is not None
            assert subscription.tags_set == ["paid"]
            assert await admin.subscription("others", "orders") is None
            while not await _known(admin, "shop"):
                await producer._instance.heart.beat_all()
            producers = await admin.producer_connections("shop", "orders")
            assert len(producers.connection_set) == 1
            assert "shop" in (await admin.producers(broker="broker-a"))["broker-a"].data
            with pytest.raises(BrokerError, match="producer group nobody"):
                await admin.producer_connections("nobody", "orders")


async def _known(admin: Admin, group: str) -> bool:
    tables = await admin.producers()
    return all(group in table.data for table in tables.values())


async def test_a_consumer_is_asked_about_itself(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv, timeout=10) as admin:
        await prepared(running, admin, "orders")
        async with (
            consuming(running.namesrv, "billing", "orders") as (_consumer, inbox),
            Producer("shop", namesrv=running.namesrv) as producer,
        ):
            queue = MessageQueue("orders", "broker-b", 0)
            sent = await producer.send(Message("orders", b"x"), queue=queue)
            await inbox.different(1)
            client_id = (await admin.consumer_connections("billing")).connection_set[0].client_id
            info = await admin.running_info("billing", client_id, jstack=True)
            assert queue in info.mq_table
            assert info.jstack
            while (await admin.consumer_status("billing", "orders"))[client_id].get(queue) != 1:  # noqa: ASYNC110 - in its memory
                await asyncio.sleep(0.01)
            again = await admin.consume_directly("billing", client_id, "orders", sent.offset_message_id)
            assert again.consume_result is ConsumeResult.CR_SUCCESS
            await inbox.until(lambda box: box.bodies[b"x"] == 2)
            with pytest.raises(PartialFailureError, match="not online"):
                await admin.running_info("billing", "10.0.0.1@nobody")
            with pytest.raises(ClientError):
                await admin.consume_directly("billing", client_id, "orders", "not an id")


async def test_the_track_of_a_message_through_all_groups(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await prepared(running, admin, "orders")
        queue = MessageQueue("orders", "broker-a", 0)
        for group in ("gone", "slow"):
            await admin.create_group(group)
            await admin.update_offset(group, queue, 0)
        async with (
            Producer("shop", namesrv=running.namesrv) as producer,
            consuming(running.namesrv, "done", "orders") as (done, inbox),
            consuming(running.namesrv, "filtered", "orders", tags="other") as (_filtered, _),
            consuming(
                running.namesrv, "all", "orders", model=MessageModel.BROADCASTING, local_offset_dir=tmp_path / "local"
            ) as (_all, everything),
        ):
            sent = await producer.send(Message("orders", b"x", tags="paid", keys=["k"]), queue=queue)
            await inbox.different(1)
            await everything.different(1)
            message = await admin.view_message("orders", sent.offset_message_id)
            assert message.tags == "paid"

            async def tracks(message: ReceivedMessage) -> dict[str, TrackType]:
                return {track.group: track.track_type for track in await admin.message_track(message)}

            # Consumers store their offsets a little later; one that filters everything out, only with its next pull.
            while (await tracks(message)).get("done") is not TrackType.CONSUMED:
                await done._member.persist_offsets()
            await admin.update_offset("filtered", queue, 1)
            assert await tracks(message) == {
                "all": TrackType.CONSUME_BROADCASTING,
                "done": TrackType.CONSUMED,
                "filtered": TrackType.CONSUMED_BUT_FILTERED,
                "gone": TrackType.NOT_ONLINE,
                "slow": TrackType.NOT_ONLINE,
            }


async def test_messages_are_found_by_id_key_time_and_place(tmp_path: Path) -> None:
    # P-10 P-16 S-14
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await prepared(running, admin, "orders")
        async with Producer("shop", namesrv=running.namesrv) as producer:
            sent = {}
            for queue in await producer.publish_queues("orders"):
                for number in range(40):
                    message = Message(
                        "orders", b"%d" % number, tags="even" if number % 2 == 0 else "odd", keys=[f"k{number}"]
                    )
                    sent[queue, number] = await producer.send(message, queue=queue)
        place, result = next(iter(sent.items()))
        by_place = await admin.view_message("orders", result.offset_message_id)
        by_id = await admin.view_message("orders", result.message_id)
        assert by_place.message_id == by_id.message_id == result.message_id
        found = await admin.query_message("orders", "k7")
        assert [message.body for message in found] == [b"7", b"7"]
        assert {message.broker_name for message in found} == {"broker-a", "broker-b"}
        with pytest.raises(ClientError) as nothing:
            await admin.query_message("orders", "k99")
        assert nothing.value.code == ResponseCode.NO_MESSAGE
        assert (await admin.message_at(place[0], 11)).body == b"11"
        with pytest.raises(ClientError, match="no message at offset 40"):
            await admin.message_at(place[0], 40)
        everything = await admin.messages("orders")
        assert [message.queue_offset for message in everything] == [*range(40), *range(40)]
        assert len(await admin.messages("orders", limit=50)) == 50
        assert len(await admin.messages("orders", queue=place[0], tags="odd")) == 20
        middle = everything[20].store_timestamp
        later = await admin.messages("orders", begin_ms=middle)
        earlier = await admin.messages("orders", end_ms=middle)
        assert len(later) + len(earlier) == 80
        assert min(message.store_timestamp for message in later) >= middle
        assert all(message.store_timestamp < middle for message in earlier)
        page = await admin.queue_entries(place[0], 5, 3)
        assert (page.min_queue_index, page.max_queue_index, len(page.queue_data)) == (0, 40, 3)


async def test_traces_tell_who_sent_and_who_consumed(tmp_path: Path) -> None:
    # P-33
    async with (
        standalone(tmp_path, trace_topic_enable="true") as server,
        Admin(namesrv=server.namesrv_address) as admin,
    ):
        namesrv = server.namesrv_address
        async with (
            Producer("shop", namesrv=namesrv, enable_trace=True) as producer,
            consuming(namesrv, "billing", "orders", enable_trace=True) as (_consumer, inbox),
        ):
            sent = await producer.send(Message("orders", b"x", keys=["k1"]))
            await inbox.different(1)
        trace = await admin.message_trace(sent.message_id)
        assert [(send.group, send.success) for send in trace.sends] == [("shop", True)]
        assert trace.sends[0].beans[0].keys == "k1"
        assert [(each.group, each.success) for each in trace.consumptions] == [("billing", True)]
        with pytest.raises(ClientError) as nothing:
            await admin.message_trace("0" * 32)
        assert nothing.value.code == ResponseCode.NO_MESSAGE
