"""Dead letters: found, written down, sent again."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.aio import Admin, ClientError, Message, MessageQueue, NoRouteError, Producer, PushConsumer, ReceivedMessage
from pyromq.broker.standalone import Standalone
from pyromq.client.admin.deadletters import RedriveError
from pyromq.protocol.properties import Property
from tests.integration.client.clusters import standalone
from tests.integration.client.inbox import QUICK, Inbox, eventually

BODIES = [b"one", b"two", b"three"]


@asynccontextmanager
async def failed_for_good(path: Path) -> AsyncIterator[tuple[Standalone, Admin]]:
    """A group that gave up on three messages at once."""
    async with standalone(path) as server, Admin(namesrv=server.namesrv_address) as admin:
        namesrv = server.namesrv_address
        consumer = PushConsumer("billing", namesrv=namesrv, max_reconsume_times=0, **QUICK)
        consumer.subscribe("orders")
        seen = Inbox()

        @consumer.listen
        async def refuse(message: ReceivedMessage) -> bool:
            seen(message)
            return False

        async with Producer("pg", namesrv=namesrv) as producer:
            for number, body in enumerate(BODIES):
                message = Message("orders", body, tags="paid", keys=[f"k{number}"], properties={"colour": "blue"})
                await producer.send(message, queue=MessageQueue("orders", "broker-a", 0) if number else None)
        async with consumer:
            await seen.different(len(BODIES))
            broker = server.broker
            assert broker is not None
            await eventually(lambda: broker.store.max_offset("%DLQ%billing", 0) == len(BODIES))
        await eventually(lambda: "%DLQ%billing" in server.name_server.routes.topics.names())
        yield server, admin


async def test_dead_letters_say_where_they_came_from(tmp_path: Path) -> None:
    # C-12
    async with failed_for_good(tmp_path / "data") as (_server, admin):
        letters = await admin.dead_letters("billing")
        assert {letter.message.body for letter in letters} == set(BODIES)
        assert {letter.origin_topic for letter in letters} == {"orders"}
        for letter in letters:
            assert letter.origin_message_id is not None
            origin = await admin.view_message("orders", letter.origin_message_id)
            assert (origin.body, origin.topic) == (letter.message.body, "orders")
        assert len(await admin.dead_letters("billing", limit=2)) == 2
        with pytest.raises(NoRouteError):
            await admin.dead_letters("never-failed")


async def test_dead_letters_are_written_to_a_file(tmp_path: Path) -> None:
    async with failed_for_good(tmp_path / "data") as (_server, admin):
        file = tmp_path / "letters.jsonl"
        assert await admin.export_dead_letters("billing", file) == 3
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert {base64.b64decode(line["body"]) for line in lines} == set(BODIES)
        assert {line["originTopic"] for line in lines} == {"orders"}
        assert {line["properties"]["colour"] for line in lines} == {"blue"}


async def test_a_run_sends_letters_to_their_group_alone_and_the_next_goes_on_after_it(tmp_path: Path) -> None:
    async with failed_for_good(tmp_path / "data") as (server, admin):
        first = await admin.redrive("billing", limit=2)
        assert (len(first.sent), first.left) == (2, 1)
        second = await admin.redrive("billing")
        assert (len(second.sent), second.left) == (1, 0)
        assert (await admin.redrive("billing")).sent == ()
        letters = await admin.dead_letters("billing")
        assert {*first.sent, *second.sent} == {letter.message_id for letter in letters}
        inbox = Inbox()
        consumer = PushConsumer("billing", namesrv=server.namesrv_address, **QUICK)
        consumer.subscribe("orders")
        consumer.listen(inbox)
        async with consumer:
            await inbox.different(3)
        assert {(message.topic, message.tags, message.reconsume_times) for message in inbox.messages} == {
            ("orders", "paid", 0)
        }
        assert {message.get_property("colour") for message in inbox.messages} == {"blue"}
        assert {message.message_id for message in inbox.messages} == {letter.message_id for letter in letters}
        stats = await admin.topic_stats("orders")
        assert sum(row.max_offset for row in stats.offset_table.values()) == len(BODIES)
        assert (await admin.redrive("billing", restart=True, limit=1)).left == 2


async def test_chosen_letters_go_back_to_the_topic(tmp_path: Path) -> None:
    async with failed_for_good(tmp_path / "data") as (_server, admin):
        chosen = [letter for letter in await admin.dead_letters("billing") if letter.message.body == b"two"]
        done = await admin.redrive("billing", to="topic", letters=chosen)
        assert done.sent == (chosen[0].message_id,)
        found = [message for message in await admin.messages("orders") if message.body == b"two"]
        assert len(found) == 2
        assert found[0].message_id == found[1].message_id
        assert all(Property.RETRY_TOPIC not in message.properties for message in found)
        del chosen[0].message.properties[Property.RETRY_TOPIC]
        with pytest.raises(RedriveError, match="does not say which topic"):
            await admin.redrive("billing", to="topic", letters=chosen)


async def test_a_group_that_consumes_in_order_is_not_sent_in_circles(tmp_path: Path) -> None:
    async with failed_for_good(tmp_path / "data") as (server, admin):
        consumer = PushConsumer("billing", namesrv=server.namesrv_address, **QUICK)
        consumer.subscribe("orders")
        consumer.listen(orderly=True)(Inbox())
        async with consumer:
            with pytest.raises(ClientError, match="to='topic'"):
                await admin.redrive("billing")
