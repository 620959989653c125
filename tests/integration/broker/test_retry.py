"""Retries and dead letters against a real broker: what comes back, when it stops coming back, and what it carries."""

from pathlib import Path

import pytest

from pyromq.broker.admin.stats import Stat
from pyromq.broker.broker import Broker
from pyromq.broker.consume.locks import QueueLocks
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader, SendMessageV2Header
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.names import SCHEDULE_TOPIC, dlq_topic, retry_topic
from pyromq.protocol.properties import encode_properties
from pyromq.remoting.client import Client
from tests.integration.broker.servers import TIMEOUT, Peer, standalone

GROUP = "orders-service"
RETRY, DLQ = retry_topic(GROUP), dlq_topic(GROUP)
HOLD = 20_000


async def send_back(
    peer: Peer, message: ReceivedMessage, level: int = 0, *, limit: int | None = None, group: str = GROUP
) -> Command:
    header = ConsumerSendMsgBackHeader(
        offset=message.physical_offset,
        group=group,
        delay_level=level,
        origin_msg_id=message.unique_id,
        origin_topic=message.topic,
        max_reconsume_times=limit,
    )
    return await peer.call(RequestCode.CONSUMER_SEND_MSG_BACK, header)


async def send_to_retry(peer: Peer, times: int, *, limit: int | None = None, group: str = GROUP) -> Command:
    """What a client does when a send-back fails, and an ordered consumer when it gives up."""
    header = SendMessageV2Header(
        producer_group="p",
        topic=retry_topic(group),
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=encode_properties({"RETRY_TOPIC": "orders", "UNIQ_KEY": f"u{times}"}).decode(),
        reconsume_times=times,
        max_reconsume_times=limit,
    )
    return await peer.call(RequestCode.SEND_MESSAGE_V2, header, body=b"body")


async def first_message(peer: Peer, topic: str = "orders", **properties: str) -> ReceivedMessage:
    await peer.stored(topic, b"hello", **properties)
    (message,) = await peer.messages(topic)
    return message


async def limited(broker: Broker, *, retry_max_times: int = 16, retry_queue_nums: int = 1) -> None:
    await broker.core.groups.put(
        SubscriptionGroupConfig(group_name=GROUP, retry_max_times=retry_max_times, retry_queue_nums=retry_queue_nums)
    )


async def test_a_message_sent_back_comes_again_later(tmp_path: Path) -> None:
    # C-12
    async with standalone(tmp_path) as (broker, peer):
        message = await first_message(peer, TAGS="a", KEYS="k", UNIQ_KEY="u", own="1")
        assert (await send_back(peer, message, 1)).code == ResponseCode.SUCCESS
        (again,) = await peer.messages(RETRY, hold=HOLD)
        assert (again.body, again.tags, again.keys, again.unique_id) == (message.body, "a", ("k",), "u")
        assert again.reconsume_times == 1
        assert again.properties["RETRY_TOPIC"] == "orders"
        assert again.properties["ORIGIN_MESSAGE_ID"] == message.offset_message_id
        assert again.properties["WAIT"] == "false"
        assert again.properties["own"] == "1"
        assert again.store_timestamp - broker.store.lookup.store_time(SCHEDULE_TOPIC, 0, 0) >= 1000
        assert (again.born_timestamp, again.born_host) == (message.born_timestamp, message.born_host)


async def test_origin_survives_further_retries(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        message = await first_message(peer)
        await send_back(peer, message, 1)
        (once,) = await peer.messages(RETRY, hold=HOLD)
        await send_back(peer, once, 1)
        (twice,) = await peer.messages(RETRY, 1, hold=HOLD)
        assert twice.reconsume_times == 2
        assert twice.properties["RETRY_TOPIC"] == "orders"
        assert twice.properties["ORIGIN_MESSAGE_ID"] == message.offset_message_id


@pytest.mark.parametrize(("level", "queue"), [(0, 2), (5, 4), (99, 17)])
async def test_the_delay_is_by_attempt_or_as_asked(tmp_path: Path, level: int, queue: int) -> None:
    # C-12: without a level, the third for the first retry
    async with standalone(tmp_path) as (broker, peer):
        message = await first_message(peer)
        await send_back(peer, message, level)
        assert broker.store.max_offset(SCHEDULE_TOPIC, queue) == 1


async def test_the_limit_of_send_back_is_reached_with_that_many_retries(tmp_path: Path) -> None:
    # C-13
    async with standalone(tmp_path) as (broker, peer):
        await limited(broker, retry_max_times=1)
        message = await first_message(peer)
        await send_back(peer, message, 1)
        (again,) = await peer.messages(RETRY, hold=HOLD)
        assert (await send_back(peer, again, 1)).code == ResponseCode.SUCCESS
        (dead,) = await peer.messages(DLQ, hold=HOLD)
        assert dead.reconsume_times == 2
        assert dead.properties["RETRY_TOPIC"] == "orders"
        assert dead.properties["DELAY"] == "0"
        assert broker.core.stats.total(Stat.SNDBCK_PUT_NUMS, f"orders@{GROUP}") == 2
        assert broker.core.stats.total(Stat.DLQ_PUT_NUMS, f"orders@{GROUP}") == 1
        letters = broker.core.topics.get(DLQ)
        assert letters is not None
        assert (letters.read_queue_nums, letters.write_queue_nums, letters.perm) == (1, 1, 6)


async def test_a_negative_level_or_a_limit_of_none_is_a_dead_letter_at_once(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        message = await first_message(peer)
        await send_back(peer, message, -1)
        await send_back(peer, message, 1, limit=0)
        assert len(await peer.messages(DLQ, hold=HOLD)) == 2


async def test_an_old_client_cannot_name_a_limit(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        message = await first_message(peer)
        header = ConsumerSendMsgBackHeader(
            offset=message.physical_offset, group=GROUP, delay_level=18, max_reconsume_times=0
        )
        request = Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        request.version = 120
        client = Client({})
        try:
            assert (await client.call(peer.address, request, TIMEOUT)).code == ResponseCode.SUCCESS
        finally:
            await client.close()
        assert broker.store.max_offset(SCHEDULE_TOPIC, 17) == 1


async def test_a_message_sent_to_the_retry_topic_may_have_been_retried_as_often_as_the_limit(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await limited(broker, retry_max_times=2)
        await peer.stored("orders", b"counted by their names are only topics that exist")
        for times in (2, 3):
            assert (await send_to_retry(peer, times)).code == ResponseCode.SUCCESS
        (kept,) = await peer.messages(RETRY)
        (dead,) = await peer.messages(DLQ)
        assert (kept.reconsume_times, dead.reconsume_times) == (2, 3)
        assert dead.properties["DELAY"] == "-1"
        assert broker.core.stats.total(Stat.DLQ_PUT_NUMS, f"orders@{GROUP}") == 1
        await send_to_retry(peer, 3, limit=3)
        assert len(await peer.messages(RETRY)) == 2


async def test_what_an_ordered_group_gives_up_is_dead_at_once(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await limited(broker)
        broker.part(QueueLocks).lock(GROUP, "client", [MessageQueue("orders", "broker-a", 0)])
        await send_to_retry(peer, 0)
        assert len(await peer.messages(DLQ)) == 1
        assert await peer.messages(RETRY) == []


async def test_retry_queues_follow_the_group(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await limited(broker, retry_queue_nums=3)
        message = await first_message(peer)
        await send_back(peer, message, 18)
        topic = broker.core.topics.get(RETRY)
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums) == (3, 3)


async def test_a_group_without_retry_queues_stores_nothing(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await limited(broker, retry_queue_nums=0)
        message = await first_message(peer)
        before = broker.store.max_physical_offset
        assert (await send_back(peer, message)).code == ResponseCode.SUCCESS
        assert broker.store.max_physical_offset == before


async def test_refusals(tmp_path: Path) -> None:
    async with standalone(tmp_path, auto_create_subscription_group="false") as (broker, peer):
        await broker.core.groups.put(SubscriptionGroupConfig(group_name="g"))
        message = await first_message(peer)
        answer = await send_back(peer, message, group="unknown")
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (await send_to_retry(peer, 0, group="unknown")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        await limited(broker)
        message.physical_offset += 1
        answer = await send_back(peer, message)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert str(message.physical_offset) in (answer.remark or "")
        message.physical_offset = 2**62
        assert (await send_back(peer, message)).code == ResponseCode.SYSTEM_ERROR
        message.physical_offset = -1
        assert (await send_back(peer, message)).code == ResponseCode.SYSTEM_ERROR
        await broker.core.topics.put(TopicConfig(topic_name=RETRY, read_queue_nums=1, write_queue_nums=1, perm=4))
        assert (await send_back(peer, message)).code == ResponseCode.NO_PERMISSION
        broker.config.broker_permission = 4
        assert (await send_back(peer, message)).code == ResponseCode.NO_PERMISSION
